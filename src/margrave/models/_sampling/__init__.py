"""Whole rows from probabilities: rounding, balancing, repairing, pivotal sampling."""
