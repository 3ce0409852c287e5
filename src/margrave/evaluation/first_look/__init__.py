"""What a person checks first: orders, equalities, dependencies, gaps, correlations, codes and spelling. **Not private**."""
