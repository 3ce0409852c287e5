"""Steer: choosing what is rounded up so that the counts of given tables stay near their expectations.

A group of g rows holds floor(g p) or one more of each code. Which codes get one more is free but for how
many do; drawn at random, the errors of many groups add up in the tables that they share. Here codes that
were rounded up are exchanged, inside their group, for others while that lowers the sum of the tables'
excesses to the fourth power, less what the exchange makes the group less likely. Fourth powers because
one cell that is wrong by three shall outweigh several that are wrong by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.rounding import Ints, Rounded

__all__ = ["steer"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

PASSES = 6
"""Rounds over all groups; a round without an exchange is the last."""

OVER = 1.0
"""Excess above which a cell gives codes away: below, rounding is left to chance, so that it is unbiased."""

ODDS = 20.0
"""How many times less likely an exchange may make a group: rare cells shall not become a dump."""


def steer(
    found: Rounded,
    table: Floats,
    radices: Sequence[int],
    strides: Sequence[Sequence[int]],
    expected: Sequence[Floats],
) -> None:
    """Exchange codes that were rounded up, in place.

    Args:
        found: Groups of rows and their codes.
        table: Weights of the codes in each group, shape [groups, codes], that were rounded.
        radices: Codes of the attributes that make a group's key, the last running fastest.
        strides: For each table, what a step in each of those attributes adds to its row.
        expected: Counts wanted in each table, each of shape [rows, codes].
    """
    width = table.shape[1]
    starts = np.concatenate([[0], np.cumsum([counts.size for counts in expected])])[:-1].astype(np.int64)
    excess = -np.concatenate([counts.ravel() for counts in expected])
    steps = np.asarray(strides, dtype=np.int64).reshape(len(expected), len(radices)) * width
    places = _places(found.keys, np.asarray(radices, dtype=np.int64), steps, starts)
    _count(found.firsts, found.codes, places, excess)
    _steer(found.keys, found.firsts, found.extras, found.codes, table, places, excess)


@compiled
def _places(keys: Longs, radices: Longs, steps: Longs, starts: Longs) -> Longs:
    """Where each group's row begins in each table, shape [groups, tables]."""
    places = np.empty((len(keys), len(starts)), dtype=np.int64)
    for group in range(len(keys)):
        rest = keys[group]
        places[group] = starts
        for j in range(len(radices) - 1, -1, -1):
            digit = rest % radices[j]
            rest //= radices[j]
            for c in range(len(starts)):
                places[group, c] += digit * steps[c, j]
    return places


@compiled
def _count(firsts: Longs, codes: Ints, places: Longs, excess: Floats) -> None:
    """Add the rows to the tables, equal codes that lie together at once."""
    for group in range(len(places)):
        first, last = firsts[group], firsts[group + 1]
        while first < last:
            code, end = codes[first], first + 1
            while end < last and codes[end] == code:
                end += 1
            for place in places[group]:
                excess[place + code] += end - first
            first = end


@compiled
def _steer(
    keys: Longs, firsts: Longs, extras: Longs, codes: Ints, table: Floats, places: Longs, excess: Floats
) -> None:
    width = table.shape[1]
    fractions, costs = np.empty(width), np.empty(width)
    for _ in range(PASSES):
        quiet = True
        for group in range(len(keys)):
            rows, last = firsts[group + 1] - firsts[group], firsts[group + 1]
            ready = False
            for i in range(last - extras[group], last):
                if not _over(places[group], codes[i], excess):
                    continue
                if not ready:
                    _free(table[keys[group]], rows, codes[last - extras[group] : last], fractions)
                    ready = True
                old = codes[i]
                new = _better(places[group], old, fractions, excess, costs)
                if new != old:
                    codes[i] = new
                    fractions[old], fractions[new] = -fractions[old], -fractions[new]
                    for place in places[group]:
                        excess[place + old] -= 1.0
                        excess[place + new] += 1.0
                    quiet = False
        if quiet:
            break


@compiled
def _over(places: Longs, code: int, excess: Floats) -> bool:
    """Whether any table has too many of a group's code."""
    found = False
    for place in places:
        found |= excess[place + code] > OVER
    return found


@compiled
def _free(weights: Floats, rows: int, taken: Ints, fractions: Floats) -> None:
    """Fractional parts of a group's expectations, negative for the codes that were rounded up."""
    total = weights.sum()
    for a in range(len(weights)):
        expected = rows * (weights[a] / total) if total > 0.0 else rows / len(weights)
        fractions[a] = min(max(expected - int(expected + 1e-9), 0.0), 1.0 - 1e-9)
    for code in taken:
        fractions[code] = -abs(fractions[code])


@compiled
def _better(places: Longs, old: int, fractions: Floats, excess: Floats, costs: Floats) -> int:
    """The code to have rounded up in place of `old`, or `old` itself."""
    bound = 0.0
    costs[:] = 0.0
    for place in places:
        e = excess[place + old]
        bound += ((4.0 * e - 6.0) * e + 4.0) * e - 1.0
        for a in range(len(costs)):
            e = excess[place + a]
            costs[a] += ((4.0 * e + 6.0) * e + 4.0) * e + 1.0
    best, bound = old, bound - 1e-6
    odds = abs(fractions[old]) / (1.0 - abs(fractions[old]))
    for a in range(len(costs)):
        if fractions[a] > 0.0 and costs[a] < bound:
            less = odds * (1.0 - fractions[a]) / fractions[a]
            cost = costs[a] + (np.log(less) if less > 1.0 else 0.0)
            if less < ODDS and cost < bound:
                best, bound = a, cost
    return best
