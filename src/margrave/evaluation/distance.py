"""Distances between tables of counts, and association within one.

`centres` and `embed_rows` place codes in [0, 1], as Donhauser et al. 2024 do to measure distances.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.encoded import Encoded

Table = NDArray[np.float64]


def shares(table: NDArray[Any]) -> Table:
    """A table of non-negative counts divided by its sum; uniform if it is empty."""
    counts = np.asarray(table, dtype=np.float64)
    total = float(counts.sum())
    return counts / total if total > 0 else np.full(counts.shape, 1 / counts.size)


def total_variation(first: Table, second: Table) -> float:
    """Half the L1 distance of two tables of shares: 0 if equal, 1 if they have nothing in common.

    Example:
        >>> total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
        0.5
    """
    return float(np.abs(first - second).sum()) / 2


def cramers_v(share: Table) -> float:
    """Cramér's V of a two-way table of shares, from 0 (independent) to 1 (one decides the other).

    V^2 = (sum p_ij^2 / (p_i p_j) - 1) / (min(r, c) - 1), r and c counting the values that occur
    (Cramér 1946, section 21.9). 0 where a column has one value only.

    Args:
        share: Shape [r, c].
    """
    table = np.clip(share, 0, None)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 0.0
    table = table / table.sum()
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    squared = float((table * table / np.outer(rows, columns)).sum()) - 1
    return math.sqrt(min(max(squared, 0.0) / (min(table.shape) - 1), 1.0))


def centres(size: int) -> NDArray[np.float64]:
    """Where the codes of an attribute lie in [0, 1], equally spaced: shape [size].

    Emb(x) = (2x - 1) / 2k for x = 1 to k (Donhauser et al. 2024, equation 4). Codes without an order are
    spaced like those with one, as there.
    """
    return (2 * np.arange(size) + 1) / (2 * size)


def embed_rows(rows: Encoded, names: tuple[str, ...] | None = None) -> NDArray[np.float64]:
    """Rows as points of the unit cube, shape [rows, attributes]. **Not private** if the rows are real."""
    wanted = rows.domain.names if names is None else names
    return np.column_stack([centres(rows.domain[name])[rows.column(name)] for name in wanted])
