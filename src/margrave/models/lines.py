"""Lines: columns of codes turned to one line a row, and back, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["columns_of", "lines_of"]

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

BLOCK = 1 << 12
"""Rows that are turned at once: what a core's cache holds of some tens of columns. Whole columns are written
to memory once for each of their codes."""


def lines_of(columns: Sequence[NDArray[np.integer[Any]]], firsts: Sequence[int] | Longs, rows: Longs) -> Ints:
    """Codes side by side, one attribute after another in number, shape [rows, columns].

    Args:
        columns: Codes of each attribute.
        firsts: What is added to the codes of each.
        rows: Which rows, in which order.
    """
    lines = np.empty((len(rows), len(columns)), dtype=np.int32)
    for first in range(0, len(rows), BLOCK):
        part = slice(first, first + BLOCK)
        for v, column in enumerate(columns):
            lines[part, v] = column[rows[part]] + firsts[v]
    return lines


def columns_of(lines: Ints, firsts: Sequence[int] | Longs, rows: Longs) -> list[Longs]:
    """What `lines_of` made lines of, for all rows: columns each of shape [rows]."""
    columns = [np.empty(len(lines), dtype=np.int64) for _ in range(lines.shape[1])]
    for first in range(0, len(rows), BLOCK):
        part = slice(first, first + BLOCK)
        for v, column in enumerate(columns):
            column[rows[part]] = lines[part, v] - firsts[v]
    return columns
