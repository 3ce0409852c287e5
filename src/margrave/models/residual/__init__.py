"""Marginals put together from residuals: sums of squares over tables without a junction tree."""
