"""Strategies for models that learn from rows: their moments, noisy copies, gradients or votes."""
