"""Matching: which rows of a table go with given codes, and even picks among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled

__all__ = ["keyed", "mixed", "picks", "reached"]

Longs = NDArray[np.int64]
Rows = NDArray[Any]

LARGEST = 1 << 62
"""Keys stay below this; beyond it those that occur are numbered anew."""


def keyed(columns: Sequence[NDArray[Any]], sizes: Sequence[int], rows: int) -> Longs:
    """A number a row, equal for two rows exactly where all their codes are: shape [rows].

    Args:
        columns: Codes, each of shape [rows].
        sizes: Codes of each column.
        rows: How many.
    """
    keys, bound = np.zeros(rows, dtype=np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if bound * size > LARGEST:
            occurring, keys = np.unique(keys, return_inverse=True)
            bound = len(occurring)
        keys, bound = keys * size + column, bound * size
    return keys


def mixed(columns: Rows, sizes: Sequence[int], rng: np.random.Generator) -> Longs:
    """The rows in an order in which neighbours are alike: by as many attributes as fit a key, [rows].

    Attributes come in random order and rows that agree in all of them as they lie, after a shuffle.
    """
    rows = columns.shape[1]
    start, keys, bound = rng.permutation(rows), np.zeros(rows, dtype=np.int64), 1
    for place in rng.permutation(len(sizes)).tolist():
        if bound * sizes[place] > LARGEST:
            break
        keys, bound = keys * sizes[place] + columns[place], bound * sizes[place]
    return np.asarray(start[np.argsort(keys[start], kind="stable")])


def picks(wanted: int, there: int, rng: np.random.Generator) -> Longs:
    """Places among `there` rows, as even as can be: every one occurs wanted / there times, rounded.

    Shape [wanted], in random order. The start is uniform, so each place is expected wanted / there times.
    """
    steps = (np.arange(wanted) + rng.random()) * (there / max(wanted, 1))
    return np.asarray(rng.permutation(np.minimum(steps.astype(np.int64), there - 1)))


def reached(columns: Rows, attributes: Sequence[int], codes: Sequence[int]) -> Longs:
    """The rows that agree with the most of some codes, shape [matches].

    Args:
        columns: Codes, shape [attributes, rows].
        attributes: Which of them the codes are of.
        codes: The code wanted of each.
    """
    agreed = np.empty(columns.shape[1], dtype=np.int64)
    return _reached(columns, np.asarray(attributes, np.int64), np.asarray(codes, np.int64), agreed)


@compiled
def _reached(columns: Rows, attributes: Longs, codes: Longs, agreed: Longs) -> Longs:
    agreed[:] = 0
    for k in range(len(attributes)):
        for row in range(len(agreed)):
            agreed[row] += np.int64(columns[attributes[k], row]) == codes[k]
    most = agreed.max()
    return np.flatnonzero(agreed == most)
