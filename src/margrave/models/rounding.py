"""Rounding: whole rows from probabilities, with far less noise than independent draws.

Rows that share their parents' values form a group. Inside a group the expected count of every value is
kept up to its integer part; the remainder is drawn by systematic sampling on the fractional parts, so that
every expectation is met and every count is within 1 of it. The starting points of consecutive groups are
stratified: groups that lie together, such as the many groups of one row below a shared first parent, make
up for each other's rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled

__all__ = ["draw_column", "grouped", "shuffled", "uniform"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

BASE = 16
"""Starting points come in blocks of BASE^2 strata; any BASE in a row are one in each of BASE."""


def grouped(keys: Longs, groups: int) -> Longs:
    """Rows in the order of their groups, shape [rows]. keys: the group of each row, below `groups`."""
    if groups <= 1:
        return np.arange(len(keys))
    if groups <= 4 * len(keys):
        return _counting_sort(keys, groups)
    return np.argsort(keys, kind="stable")


def draw_column(keys: Longs, by: Longs, table: Floats, rng: np.random.Generator) -> Longs:
    """One code a row, given its group.

    Args:
        keys: The group of each row, shape [rows], below len(table).
        by: Rows in the order of their groups, as from `grouped`.
        table: Weights of the codes in each group, shape [groups, codes]; a group of zeros is uniform.
        rng: Source of randomness.

    Returns:
        Codes, shape [rows]; rows of a group are paired with its codes at random.
    """
    rows = len(keys)
    seed = np.array([rng.integers(1 << 63)], dtype=np.uint64)
    codes = np.empty(rows, dtype=np.int64)
    _draw(keys, by, np.ascontiguousarray(table), codes, seed)
    return codes


def shuffled(columns: list[Longs], rng: np.random.Generator) -> list[Longs]:
    """The columns with their rows in one random order."""
    order = rng.permutation(len(columns[0])) if columns else np.zeros(0, dtype=np.int64)
    return [column[order] for column in columns]


@compiled
def uniform(state: NDArray[np.uint64]) -> float:
    """A number in [0, 1) by SplitMix64; Steele, Lea and Flood 2014."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def _counting_sort(keys: Longs, groups: int) -> Longs:
    ends = np.zeros(groups + 1, dtype=np.int64)
    for key in keys:
        ends[key + 1] += 1
    for g in range(groups):
        ends[g + 1] += ends[g]
    by = np.empty(len(keys), dtype=np.int64)
    for row in range(len(keys)):
        by[ends[keys[row]]] = row
        ends[keys[row]] += 1
    return by


@compiled
def _shuffle(values: Longs, count: int, state: NDArray[np.uint64]) -> None:
    for i in range(count - 1, 0, -1):
        j = int(uniform(state) * (i + 1))
        values[i], values[j] = values[j], values[i]


@compiled
def _strata(points: Floats, state: NDArray[np.uint64]) -> None:
    """Fill points, shape [BASE^2], with one uniform in each of BASE^2 strata, any aligned BASE of them
    one in each of BASE, in an order that repeats no pattern."""
    digits = np.arange(BASE)
    second = np.empty((BASE, BASE), dtype=np.int64)
    for d in range(BASE):
        second[d] = np.arange(BASE)
        _shuffle(second[d], BASE, state)
    for block in range(BASE):
        _shuffle(digits, BASE, state)
        for i in range(BASE):
            fine = second[digits[i], block] + uniform(state)
            points[block * BASE + i] = (digits[i] + fine / BASE) / BASE


@compiled
def _draw(keys: Longs, by: Longs, table: Floats, codes: Longs, state: NDArray[np.uint64]) -> None:
    rows, width = len(keys), table.shape[1]
    fractions = np.empty(width)
    values = np.empty(rows, dtype=np.int64)
    points = np.empty(BASE * BASE)
    used = BASE * BASE
    first = 0
    while first < rows:
        key = keys[by[first]]
        last = first + 1
        while last < rows and keys[by[last]] == key:
            last += 1
        if used == BASE * BASE:
            _strata(points, state)
            used = 0
        count = _round(table[key], last - first, points[used], fractions, values)
        used += 1
        _shuffle(values, count, state)
        for i in range(count):
            codes[by[first + i]] = values[i]
        first = last


@compiled
def _round(weights: Floats, rows: int, point: float, fractions: Floats, values: Longs) -> int:
    """List in `values` the codes of a group of some rows; return how many, which is rows."""
    total = weights.sum()
    filled = 0
    rest = 0.0
    for a in range(len(weights)):
        expected = rows * (weights[a] / total) if total > 0.0 else rows / len(weights)
        whole = min(int(expected + 1e-9), rows - filled)
        fractions[a] = max(expected - whole, 0.0)
        rest += fractions[a]
        for _ in range(whole):
            values[filled] = a
            filled += 1
    missing = rows - filled
    if missing == 0:
        return filled
    spacing = rest / missing
    mark = point * spacing
    reached = 0.0
    last = 0
    for a in range(len(weights)):
        if fractions[a] > 0.0:
            last = a
        reached += fractions[a]
        while filled < rows and mark < reached:
            values[filled] = a
            filled += 1
            mark += spacing
    while filled < rows:
        values[filled] = last
        filled += 1
    return filled
