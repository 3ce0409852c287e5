"""Many contingency tables in one pass over integer-coded columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.schema.domain import Clique
from margrave.schema.encoded import Encoded

__all__ = ["count_tables"]

BLOCK = 8192
"""Rows a block: a block of sixteen columns stays in a core's cache while every table is filled from it."""


def count_tables(encoded: Encoded, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
    """Rows in each cell of each clique's table. **Not private.**

    Args:
        encoded: Codes, each below its attribute's size: the caller has checked.
        cliques: Names of the domain, none twice in a clique.

    Returns:
        One array a clique, shape domain.shape(clique).
    """
    domain = encoded.domain
    used = domain.canonical(name for clique in cliques for name in clique)
    place = {name: index for index, name in enumerate(used)}
    starts = np.zeros(len(cliques) + 1, dtype=np.int64)
    starts[1:] = np.cumsum([len(clique) for clique in cliques])
    members = np.array([place[name] for clique in cliques for name in clique], dtype=np.int64)
    strides = np.array(
        [stride for clique in cliques for stride in _strides(domain.shape(clique))], dtype=np.int64
    )
    offsets = np.zeros(len(cliques) + 1, dtype=np.int64)
    offsets[1:] = np.cumsum([domain.size(clique) for clique in cliques])
    cells = np.zeros(int(offsets[-1]), dtype=np.int64)
    buffer = np.empty((max(len(used), 1), BLOCK), dtype=np.int32)
    for first in range(0, encoded.rows, BLOCK):
        rows = min(BLOCK, encoded.rows - first)
        for index, name in enumerate(used):
            buffer[index, :rows] = encoded.column(name)[first : first + rows]
        _fill(buffer, rows, members, starts, strides, offsets, cells)
    return [
        cells[offsets[index] : offsets[index + 1]].reshape(domain.shape(clique))
        for index, clique in enumerate(cliques)
    ]


def _strides(shape: tuple[int, ...]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


@njit(
    "void(int32[:, ::1], int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    cache=True,
    nogil=True,
)
def _fill(buffer, rows, members, starts, strides, offsets, cells):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add one block of rows to every table."""
    for clique in range(len(starts) - 1):
        at, order = starts[clique], starts[clique + 1] - starts[clique]
        base = offsets[clique]
        if order == 0:
            cells[base] += rows
        elif order == 1:
            one = buffer[members[at]]
            for row in range(rows):
                cells[base + one[row]] += 1
        elif order == 2:
            one, two, stride = buffer[members[at]], buffer[members[at + 1]], strides[at]
            for row in range(rows):
                cells[base + one[row] * stride + two[row]] += 1
        else:
            for row in range(rows):
                cell = base
                for axis in range(at, at + order):
                    cell += buffer[members[axis], row] * strides[axis]
                cells[cell] += 1
