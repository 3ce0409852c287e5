"""Orders of dates, read off the first look at pairs: nobody is admitted before being born.

What the look at relations codes anew keeps its order by that. Two dates far apart gain nothing by being coded
by their difference, and are in order all the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import Pair, round_share
from margrave.measure.discovery.reach import is_noise
from margrave.schema.columns import Date, Moment
from margrave.schema.constraints.rules import Ordered

Array = NDArray[np.float64]

LEAST_BROKEN = 0.001
"""Share of the rows that would break an order by chance, from which on it is worth a rule."""
MOST_BROKEN = 0.1
"""Share of the rows that break it, with a deviation of the noise, up to which it holds. Neither measured."""


def find_orders(
    pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float, held: Collection[str]
) -> list[Ordered]:
    """The orders between dates, or between moments, that next to no row breaks and some would by chance.

    That an order holds need not be evident against chance: where few rows would break it, few are moved.

    Post-processing of a released look.

    Args:
        pairs: What was looked at.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        held: Names of columns of which no order is sought, such as those that are coded by others.
    """
    found = []
    for pair, counts in zip(pairs, noisy, strict=True):
        kinds = {type(pair.base), type(pair.column)}
        if len(kinds) > 1 or not kinds <= {Date, Moment} or {pair.base.name, pair.column.name} & set(held):
            continue
        starts = pair.edges[:-1]
        cells = counts[: len(starts)]
        rows = float(cells.sum())
        for low, high, wrong in (
            (pair.base.name, pair.column.name, starts < 0.0),
            (pair.column.name, pair.base.name, starts > 0.0),
        ):
            noise = sigma * math.sqrt(int(wrong.sum()))
            broken = float(cells[wrong].sum())
            matters = float(pair.chance[wrong].sum()) >= LEAST_BROKEN
            few = broken + noise <= MOST_BROKEN * rows
            if matters and few and is_noise(cells[wrong], cells, sigma):
                found.append(Ordered(low, high, share=round_share(1.0 - broken / rows, noise / rows)))
                break
    return found
