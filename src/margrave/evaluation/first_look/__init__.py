"""What a person checks first: orders, equalities, dependencies, gaps, ranks and codes. **Not private**."""
