"""Whole rows from probabilities, with far less noise than independent draws.

Rows that share their parents' values form a group. Inside a group the expected count of every value is kept
up to its integer part. What is left over is given out so that every expectation is met and every count is
within 1 of it, and that counts over all groups, and over groups that lie together, are near their
expectations as well (`margrave.models._sampling.pivotal`). That takes time with groups and squared codes;
where it would be too long, each group is rounded by itself, by systematic sampling on the fractional parts.
The starting points of consecutive groups are stratified then: groups that lie together, such as the many
groups of one row below a shared first parent, make up for much of each other's rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel
from margrave.models._sampling.pivotal import add_line, close_lines, make_forest
from margrave.models._sampling.streams import fresh_state, shuffle, uniform

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

MAX_WORK = 3e7
"""Groups times squared codes up to which groups are rounded together: a tenth to half a second. 250 products
of 257 codes are within it, of which 1e7 would leave the widest column's counts a hundredth off."""

BASE = 16
"""Starting points come in blocks of BASE^2 strata; any BASE in a row are one in each of BASE."""


def order_by_group(keys: Longs, groups: int) -> Longs:
    """Rows in the order of their groups, shape [rows]. keys: the group of each row, below `groups`."""
    if groups <= 1:
        return np.arange(len(keys))
    # Counting takes time in groups and rows, so that it beats sorting unless groups far outnumber rows.
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


def round_counts(
    keys: Longs, by: Longs, table: Floats, rng: np.random.Generator, *, together: bool = False
) -> Rounded:
    """Whole numbers of every code in every group.

    Args:
        keys: The group of each row, shape [rows], below len(table).
        by: Rows in the order of their groups, as from `order_by_group`.
        table: Weights of the codes in each group, shape [groups, codes]; a group of zeros is uniform.
        rng: Source of randomness.
        together: Whether counts over all groups are kept as well, where that is at most MAX_WORK. Whoever
            repairs tables of counts afterwards gains nothing by it (bench/LOG.md).
    """
    # No more groups have rows than there are rows.
    most = min(len(keys), len(table))
    found = Rounded(
        np.empty(most, dtype=np.int64),
        np.zeros(most + 1, dtype=np.int64),
        np.empty(most, dtype=np.int64),
        np.empty(len(keys), dtype=np.int32),
    )
    together = together and most * table.shape[1] ** 2 <= MAX_WORK
    places = found.keys, found.firsts, found.extras, found.codes
    count = _fill(keys, by, table, together, *places, fresh_state(rng))
    return Rounded(found.keys[:count], found.firsts[: count + 1], found.extras[:count], found.codes)


def hand_out(found: Rounded, by: Longs, column: NDArray[Any], rng: np.random.Generator) -> None:
    """Give each group's codes to its rows at random: fills `column`, shape [rows]; reorders found.codes."""
    _hand_out(found.firsts, found.codes, by, column, fresh_state(rng))


def draw_column(keys: Longs, by: Longs, table: Floats, rng: np.random.Generator) -> Longs:
    """One code a row, given its group: `round_counts` of all together, then `hand_out`, shape [rows]."""
    codes = np.empty(len(keys), dtype=np.int64)
    hand_out(round_counts(keys, by, np.ascontiguousarray(table), rng, together=True), by, codes, rng)
    return codes


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
def _strata(points: Floats, state: NDArray[np.uint64]) -> None:
    """Fill points, shape [BASE^2], with one uniform in each of BASE^2 strata, any aligned BASE of them
    one in each of BASE, in an order that repeats no pattern."""
    # First digits are dealt out once in each aligned block of BASE; second digits once over all blocks.
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
    together: bool,
    found: Longs,
    firsts: Longs,
    extras: Longs,
    codes: Ints,
    state: NDArray[np.uint64],
) -> int:
    """Round all groups together, or each by itself; return how many there are."""
    fractions = np.empty(table.shape[1])
    # Lines of fractions that are not decided yet, where groups are rounded together.
    open_, notes = make_forest(table.shape[1] if together else 0)
    points = np.empty(BASE * BASE)
    used = BASE * BASE
    first, group, held = 0, 0, 0
    while first < len(keys):
        last = _find_end(keys, by, first)
        found[group] = keys[by[first]]
        missing = _give_whole(table[found[group]], fractions, codes[first:last])
        if together and missing:
            held = add_line(fractions, last - missing, last, held, codes, open_, notes, state)
        elif not together:
            # Points come from strata, so that groups of alike tables are rounded up evenly and not by chance.
            if used == BASE * BASE:
                _strata(points, state)
                used = 0
            _sample_fractions(fractions, points[used], codes[last - missing : last])
            used += 1
        extras[group] = missing
        firsts[group + 1] = last
        group += 1
        first = last
    close_lines(held, codes, open_, notes, state)
    return group


@compile_kernel
def _find_end(keys: Longs, by: Longs, first: int) -> int:
    """Where the group ends that begins at a place: rows are sorted by key, which changes there."""
    last = first + 1
    while last < len(keys) and keys[by[last]] == keys[by[first]]:
        last += 1
    return last


@compile_kernel
def _give_whole(weights: Floats, fractions: Floats, values: Ints) -> int:
    """List in `values`, shape [rows], the whole parts of what is expected of each code in a group.

    Returns: how many rows are left, to whose number `fractions`, what is left of each code, are scaled;
    `values` has the likeliest code there for now.
    """
    total, rows = weights.sum(), len(values)
    filled, rest, likeliest = 0, 0.0, 0
    for a in range(len(weights)):
        expected = rows * (weights[a] / total) if total > 0.0 else rows / len(weights)
        # The whole part of each expectation is given for certain; the fractions share what is missing.
        whole = min(int(expected + 1e-9), rows - filled)
        fractions[a] = max(expected - whole, 0.0)
        rest += fractions[a]
        likeliest = a if fractions[a] > fractions[likeliest] else likeliest
        for _ in range(whole):
            values[filled] = a
            filled += 1
    missing = rows - filled
    # They add up to that already but for what floating-point sums leave, of which nothing may stay undecided.
    for a in range(len(weights)):
        fractions[a] *= missing / rest if rest > 0.0 else 0.0
    for place in range(filled, rows):
        values[place] = likeliest
    return missing


@compile_kernel
def _sample_fractions(fractions: Floats, point: float, values: Ints) -> None:
    """Fill `values` by systematic sampling: marks at distance 1 along the cumulated fractions, the first at
    `point`."""
    filled, reached = 0, 0.0
    for a in range(len(fractions)):
        reached += fractions[a]
        while filled < len(values) and point + filled < reached:
            values[filled] = a
            filled += 1


@compile_kernel
def _hand_out(firsts: Longs, codes: Ints, by: Longs, column: NDArray[Any], state: NDArray[np.uint64]) -> None:
    for group in range(len(firsts) - 1):
        first, last = firsts[group], firsts[group + 1]
        shuffle(codes[first:last], last - first, state)
        for i in range(first, last):
            column[by[i]] = codes[i]
