"""Rounding: whole rows from probabilities, with far less noise than independent draws.

Rows that share their parents' values form a group. Inside a group the expected count of every value is
kept up to its integer part; the remainder is drawn by systematic sampling on the fractional parts, so that
every expectation is met and every count is within 1 of it. The starting points of consecutive groups are
stratified: groups that lie together, such as the many groups of one row below a shared first parent, make
up for each other's rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

BASE = 16
"""Starting points come in blocks of BASE^2 strata; any BASE in a row are one in each of BASE."""


def order_by_group(keys: Longs, groups: int) -> Longs:
    """Rows in the order of their groups, shape [rows]. keys: the group of each row, below `groups`."""
    if groups <= 1:
        return np.arange(len(keys))
    if groups <= 4 * len(keys):
        return _counting_sort(keys, groups)
    return np.argsort(keys, kind="stable")


@dataclass(frozen=True, slots=True)
class Rounded:
    """How often each code occurs in each group of rows, before rows of a group are told apart.

    Args:
        keys: The groups that have rows, in the order of the rows, shape [groups].
        firsts: Where each group's codes begin in `codes`, and the end of the last, shape [groups + 1].
        extras: How many codes of each group come from rounding up, shape [groups].
        codes: Codes group by group, those rounded up last and all different, shape [rows].
    """

    keys: Longs
    firsts: Longs
    extras: Longs
    codes: Ints


def round_counts(keys: Longs, by: Longs, table: Floats, rng: np.random.Generator) -> Rounded:
    """Whole numbers of every code in every group.

    Args:
        keys: The group of each row, shape [rows], below len(table).
        by: Rows in the order of their groups, as from `order_by_group`.
        table: Weights of the codes in each group, shape [groups, codes]; a group of zeros is uniform.
        rng: Source of randomness.
    """
    most = min(len(keys), len(table))
    found = Rounded(
        np.empty(most, dtype=np.int64),
        np.zeros(most + 1, dtype=np.int64),
        np.empty(most, dtype=np.int64),
        np.empty(len(keys), dtype=np.int32),
    )
    count = _fill(keys, by, table, found.keys, found.firsts, found.extras, found.codes, fresh_state(rng))
    return Rounded(found.keys[:count], found.firsts[: count + 1], found.extras[:count], found.codes)


def hand_out(found: Rounded, by: Longs, column: NDArray[Any], rng: np.random.Generator) -> None:
    """Give each group's codes to its rows at random: fills `column`, shape [rows]; reorders found.codes."""
    _hand_out(found.firsts, found.codes, by, column, fresh_state(rng))


def draw_column(keys: Longs, by: Longs, table: Floats, rng: np.random.Generator) -> Longs:
    """One code a row, given its group: `round_counts`, then `hand_out`, shape [rows]."""
    codes = np.empty(len(keys), dtype=np.int64)
    hand_out(round_counts(keys, by, np.ascontiguousarray(table), rng), by, codes, rng)
    return codes


def fresh_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of a generator of the kernels' own, shape [1]."""
    return np.array([rng.integers(1 << 63)], dtype=np.uint64)


@compile_kernel
def uniform(state: NDArray[np.uint64]) -> float:
    """A number in [0, 1) by SplitMix64; Steele, Lea and Flood 2014."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compile_kernel
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


@compile_kernel
def shuffle(values: NDArray[Any], count: int, state: NDArray[np.uint64]) -> None:
    """Put the first `count` values in random order."""
    for i in range(count - 1, 0, -1):
        j = int(uniform(state) * (i + 1))
        values[i], values[j] = values[j], values[i]


@compile_kernel
def _strata(points: Floats, state: NDArray[np.uint64]) -> None:
    """Fill points, shape [BASE^2], with one uniform in each of BASE^2 strata, any aligned BASE of them
    one in each of BASE, in an order that repeats no pattern."""
    digits = np.arange(BASE)
    second = np.empty((BASE, BASE), dtype=np.int64)
    for d in range(BASE):
        second[d] = np.arange(BASE)
        shuffle(second[d], BASE, state)
    for block in range(BASE):
        shuffle(digits, BASE, state)
        for i in range(BASE):
            fine = second[digits[i], block] + uniform(state)
            points[block * BASE + i] = (digits[i] + fine / BASE) / BASE


@compile_kernel
def _fill(
    keys: Longs,
    by: Longs,
    table: Floats,
    found: Longs,
    firsts: Longs,
    extras: Longs,
    codes: Ints,
    state: NDArray[np.uint64],
) -> int:
    """Round group by group; return how many there are."""
    rows = len(keys)
    fractions = np.empty(table.shape[1])
    points = np.empty(BASE * BASE)
    used = BASE * BASE
    first, group = 0, 0
    while first < rows:
        key = keys[by[first]]
        # Rows are sorted by key: a group ends where the key changes.
        last = first + 1
        while last < rows and keys[by[last]] == key:
            last += 1
        # Points come from strata, so that groups of alike tables are rounded up evenly and not by chance.
        if used == BASE * BASE:
            _strata(points, state)
            used = 0
        found[group] = key
        extras[group] = _round(table[key], last - first, points[used], fractions, codes[first:last])
        firsts[group + 1] = last
        used += 1
        group += 1
        first = last
    return group


@compile_kernel
def _hand_out(firsts: Longs, codes: Ints, by: Longs, column: NDArray[Any], state: NDArray[np.uint64]) -> None:
    for group in range(len(firsts) - 1):
        first, last = firsts[group], firsts[group + 1]
        shuffle(codes[first:last], last - first, state)
        for i in range(first, last):
            column[by[i]] = codes[i]


@compile_kernel
def _round(weights: Floats, rows: int, point: float, fractions: Floats, values: Ints) -> int:
    """List in `values` the codes of a group of some rows; return how many of them are rounded up."""
    total = weights.sum()
    filled = 0
    rest = 0.0
    for a in range(len(weights)):
        expected = rows * (weights[a] / total) if total > 0.0 else rows / len(weights)
        # The whole part of each expectation is given for certain; the fractions share what is missing.
        whole = min(int(expected + 1e-9), rows - filled)
        fractions[a] = max(expected - whole, 0.0)
        rest += fractions[a]
        for _ in range(whole):
            values[filled] = a
            filled += 1
    missing = rows - filled
    if missing == 0:
        return 0
    # Systematic sampling: marks at equal distance along the cumulated fractions, the first at `point`.
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
    # Rounding of sums may leave the last mark just beyond the end.
    while filled < rows:
        values[filled] = last
        filled += 1
    return missing
