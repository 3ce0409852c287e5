"""Balance: pairing a new column with the rows so that all its pair counts come close to the model's.

Low-variance rounding fixes how often each code appears in each group of rows, not which row of the group
gets it. Any choice is as likely under the model; here codes are swapped between rows while that brings the
counts of pairs with the columns drawn before closer to their expectations, in squares.

Rows that are alone in their group may swap with each other as well, with the Metropolis rule for the
model's own probabilities: otherwise trees with more cells than rows would leave nothing to pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.rounding import uniform

__all__ = ["balanced"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

REACH = 64
"""How far apart in the order of groups two rows may lie to be tried for a swap."""


def balanced(
    column: Longs,
    by: Longs,
    keys: Longs,
    table: Floats,
    before: NDArray[np.int32],
    expected: Sequence[Floats],
    passes: int,
    rng: np.random.Generator,
) -> None:
    """Swap codes of a fresh column, in place.

    Args:
        column: Its codes, shape [rows].
        by: Rows in the order of their groups, shape [rows].
        keys: The group of each row, shape [rows].
        table: Weights of the codes in each group, shape [groups, codes].
        before: Columns drawn before, in the first len(expected) columns of shape [rows, columns].
        expected: Counts wanted for each of those columns with the fresh one, each [its codes, codes].
        passes: Swaps tried for each row.
        rng: Source of randomness.
    """
    sizes = [len(counts) for counts in expected]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    excess = -np.concatenate(expected)
    seed = np.array([rng.integers(1 << 63)], dtype=np.uint64)
    _swap(column, by, keys, table, before, starts, excess, passes, seed)


@compiled
def _swap(
    column: Longs,
    by: Longs,
    keys: Longs,
    table: Floats,
    before: NDArray[np.int32],
    starts: Longs,
    excess: Floats,
    passes: int,
    state: NDArray[np.uint64],
) -> None:
    rows, width = len(column), len(starts)
    for i in range(rows):
        for w in range(width):
            excess[starts[w] + before[i, w], column[i]] += 1.0
    for trial in range(passes * rows):
        p = trial % rows
        q = p + 1 + int(uniform(state) * REACH)
        if q >= rows:
            continue
        i, j = by[p], by[q]
        a, b = column[i], column[j]
        if a == b or not _allowed(p, q, a, b, by, keys, table, state):
            continue
        change = 0.0
        for w in range(width):
            s, t = starts[w] + before[i, w], starts[w] + before[j, w]
            if s != t:
                change += excess[s, b] - excess[s, a] + excess[t, a] - excess[t, b] + 2.0
        if change < 0.0:
            column[i], column[j] = b, a
            for w in range(width):
                s, t = starts[w] + before[i, w], starts[w] + before[j, w]
                excess[s, b] += 1.0
                excess[s, a] -= 1.0
                excess[t, a] += 1.0
                excess[t, b] -= 1.0


@compiled
def _allowed(
    p: int, q: int, a: int, b: int, by: Longs, keys: Longs, table: Floats, state: NDArray[np.uint64]
) -> bool:
    """Whether places p and q may swap codes a and b."""
    k, m = keys[by[p]], keys[by[q]]
    if k == m:
        return True
    if not (_alone(p, by, keys) and _alone(q, by, keys)):
        return False
    return bool(table[k, b] * table[m, a] > uniform(state) * table[k, a] * table[m, b])


@compiled
def _alone(p: int, by: Longs, keys: Longs) -> bool:
    """Whether the row at place p is the only one of its group."""
    key = keys[by[p]]
    return not (p > 0 and keys[by[p - 1]] == key) and not (p + 1 < len(by) and keys[by[p + 1]] == key)
