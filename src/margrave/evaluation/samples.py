"""draw_pairs: which pairs of columns are compared where a table has very many."""

from __future__ import annotations

from itertools import combinations

import numpy as np

SAMPLED_PAIRS = 20_000
"""Most pairs of columns that are compared, all those of 200 columns. A pair takes up to a millisecond for
each score (bench/runs/wide.py); a mean of numbers from 0 to 1 over as many has a standard error of at most
0.0036."""


MAX_COLUMNS_SHOWN = 60
"""Columns, the first ones, whose pairs are all counted for the matrix, drawn or not: what a picture shows."""


def draw_pairs(columns: int, rng: np.random.Generator) -> tuple[list[tuple[int, int]], int]:
    """Pairs of column numbers in order: all, or SAMPLED_PAIRS of them, each set of these equally likely.

    Args:
        columns: How many there are.
        rng: Used only where there are more than SAMPLED_PAIRS.

    Returns:
        The pairs, the smaller number first, and how many there are in all.

    Example:
        >>> draw_pairs(3, np.random.default_rng(0))
        ([(0, 1), (0, 2), (1, 2)], 3)
    """
    total = columns * (columns - 1) // 2
    if total <= SAMPLED_PAIRS:
        return list(combinations(range(columns), 2)), total
    first, second = np.triu_indices(columns, 1)
    drawn = np.sort(rng.choice(total, SAMPLED_PAIRS, replace=False))
    return list(zip(first[drawn].tolist(), second[drawn].tolist(), strict=True)), total


def say_sample(drawn: int, total: int) -> str:
    """A note where pairs were drawn; empty where all are compared."""
    return f"{drawn} pairs drawn of {total}" if drawn < total else ""


def shown_pairs(columns: int) -> list[tuple[int, int]]:
    """All pairs of the first MAX_COLUMNS_SHOWN columns.

    Example:
        >>> len(shown_pairs(1000))
        1770
    """
    return list(combinations(range(min(columns, MAX_COLUMNS_SHOWN)), 2))
