"""Fitters and models: released marginals in, a distribution and synthetic rows out."""
