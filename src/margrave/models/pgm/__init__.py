"""Probabilistic graphical models fitted to noisy marginals, with exact inference."""
