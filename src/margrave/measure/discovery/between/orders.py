"""Orders of dates and of numbers: nobody is admitted before being born, nor is a wind above its gusts.

They are read off the first look at pairs, and where its noise leaves them open, as it does where few rows
have both dates, off a look of their own. What the look at relations codes anew keeps its order by that. Two
dates far apart gain nothing by being coded by their difference, and are in order all the same; likewise two
numbers that depend on each other little. As there are many pairs of numbers, theirs are not asked again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import Pair, round_share
from margrave.measure.discovery.reach import is_noise
from margrave.schema.columns import Binned, Date, Moment
from margrave.schema.constraints.rules import Ordered

Array = NDArray[np.float64]

LEAST_BROKEN = 0.001
"""Share of the rows that would break an order by chance, from which on it is worth a rule."""
MOST_BROKEN = 0.1
"""Share of the rows that break it, with a deviation of the noise, up to which it holds. Neither measured."""
MOST_BROKEN_BY_NUMBERS, MOST_BY_CHANCE = 0.02, 0.25
"""The most of numbers, also as a share of what would break the order by chance: many pairs of numbers that
have nothing to do with each other are in order nearly everywhere. Not measured."""
MOST_DATES_BY_CHANCE = 0.5
"""The most of dates, as a share of what would break the order by chance, where that is OPEN_BROKEN or more:
the nearer of what all rows and what independent dates would have. Not measured beside others."""
EVIDENT = 2.0
"""Deviations of noise from which it is evident that rows break an order of numbers. Not measured."""
OPEN_BROKEN = 0.02
"""Share that would break an order by chance, from which on it is asked again. Not measured."""
EDGES = np.array([-(2.0**61), 0.0, 1.0, 2.0**61])
"""Cells of the look at an order: before, on the same day or at the same moment, after."""


def find_orders(
    pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float, held: Collection[str]
) -> list[Ordered]:
    """The orders between columns of one kind that next to no row breaks and some would by chance.

    That an order holds need not be evident against chance where few rows would break it, as few are moved.

    Post-processing of a released look.

    Args:
        pairs: What was looked at.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        held: Names of columns that no order moves, such as those that others are coded by: of two of them
            none is sought.
    """
    found = []
    for pair, counts in zip(pairs, noisy, strict=True):
        if not _may_be_ordered(pair, held):
            continue
        starts = pair.edges[:-1]
        cells = counts[: len(starts)]
        rows = float(cells.sum())
        for low, high, wrong in _list_sides(pair):
            noise = sigma * math.sqrt(int(wrong.sum()))
            broken = max(float(cells[wrong].sum()), 0.0)
            chance = float(pair.chance[wrong].sum())
            most, least_evident = MOST_BROKEN, math.inf
            if not _are_dates(pair):
                most, least_evident = min(MOST_BROKEN_BY_NUMBERS, MOST_BY_CHANCE * chance), EVIDENT * noise
            elif chance >= OPEN_BROKEN:
                # Dates that have nothing to do with each other are in order in nearly as many rows.
                most, least_evident = min(MOST_BROKEN, chance), MOST_DATES_BY_CHANCE * chance * rows
            matters = chance >= LEAST_BROKEN
            few = broken + noise <= most * rows and broken <= least_evident
            if matters and few and is_noise(cells[wrong], cells, sigma):
                found.append(Ordered(low, high, share=round_share(1.0 - broken / rows, noise / rows)))
                break
    return found


def drop_implied(orders: Sequence[Ordered], columns: Mapping[str, Binned]) -> list[Ordered]:
    """The orders without those of numbers that two others imply in every row: at most hits, and hits at most
    turns at bat.

    Args:
        orders: What was found.
        columns: All columns with bins, by name.
    """
    told = {order.names for order in orders}
    always = [
        name for name, one in columns.items() if not one.missing and not isinstance(one, (Date, Moment))
    ]
    return [
        order
        for order in orders
        if not any((order.low, name) in told and (name, order.high) in told for name in always)
    ]


def list_open(
    pairs: Sequence[Pair],
    noisy: Sequence[Array],
    sigma: float,
    joined: Collection[frozenset[str]],
    fixed: Collection[str],
) -> list[Pair]:
    """The pairs of dates of which the noise of a look leaves open whether they are in order.

    Args:
        pairs: What was looked at.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        joined: Columns that are to be coded one by the other: these keep their order by that.
        fixed: Names of columns that keep their own bins.
    """
    told = {frozenset(order.names) for order in find_orders(pairs, noisy, sigma, fixed)}
    found = []
    for pair, counts in zip(pairs, noisy, strict=True):
        names = frozenset((pair.base.name, pair.column.name))
        if not _may_be_ordered(pair, fixed) or not _are_dates(pair) or names in told or names in joined:
            continue
        cells = counts[: len(pair.edges) - 1]
        rows = float(cells.sum())
        for _, _, wrong in _list_sides(pair):
            noise = sigma * math.sqrt(int(wrong.sum()))
            sure = float(cells[wrong].sum()) - 2.0 * noise > MOST_BROKEN * rows
            if not sure and float(pair.chance[wrong].sum()) >= OPEN_BROKEN:
                sides = np.sign(pair.edges[:-1]).astype(np.int64) + 1
                chance = np.bincount(sides, weights=pair.chance, minlength=3).astype(np.float64)
                found.append(Pair(pair.base, pair.column, EDGES, chance))
                break
    return found


def _may_be_ordered(pair: Pair, held: Collection[str]) -> bool:
    """Whether both are dates, or moments, times or numbers, and an order may move one of them."""
    if {pair.base.name, pair.column.name} <= set(held):
        return False
    kinds = {type(pair.base), type(pair.column)}
    return len(kinds) == 1 if kinds & {Date, Moment} else pair.base.read == pair.column.read


def _are_dates(pair: Pair) -> bool:
    return isinstance(pair.base, Date | Moment)


def _list_sides(pair: Pair) -> tuple[tuple[str, str, NDArray[np.bool_]], ...]:
    """Either order of a pair: the earlier column, the later one, and the cells that break it."""
    starts, names = pair.edges[:-1], (pair.base.name, pair.column.name)
    return (*names, starts < 0.0), (*names[::-1], starts > 0.0)
