"""Scores that see dependence, which a mean of total variations hides. **Not private**.

ordered  columns of numbers, dates and ordered codes as numbers
ranks    rank correlations of all pairs, and the slope of the synthetic ones on the real ones
kernels  dependence of all pairs of codes, above what independence and sampling noise give
shares   the share of it that a synthetic table keeps, and what it invents
orders   rows that break an order which no real row breaks
table    the metrics, with what each says about itself
"""

from __future__ import annotations
