"""What a person checks first: orders, equalities, dependencies, gaps, ranks, codes, spelling. **Not private**."""
