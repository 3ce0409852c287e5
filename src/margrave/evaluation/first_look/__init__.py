"""What a person checks first: orders, equalities, gaps, correlations, codes and spelling. **Not private**."""
