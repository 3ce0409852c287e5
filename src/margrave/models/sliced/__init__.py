"""Generators fitted to a noisy copy of every row by divergences between slices of real and made rows."""
