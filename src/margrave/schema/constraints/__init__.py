"""Rules of a schema: what a user declares, what it means on codes, and what it means on numbers."""
