"""Which columns may be the product of two others, by released bins alone: an amount, a price and a number."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import Candidate, Pair, share_equal
from margrave.schema.columns import Binned, Temporal, Whole

Array = NDArray[np.float64]

MOST_COLUMNS = 300
"""Columns of which products are sought, the first ones: the triples of more would take seconds."""
FACTOR_GAP = 0.7
"""Greatest distance of the medians' logarithms, added, from that of a product: a factor of two."""
SPREADS = 0.3, 3.0
"""Least and greatest variance of the logarithms of a product, over that of its factors together."""
TAILS = 0.1, 0.5, 0.9
"""Quantiles by which columns are multiplied."""
LEAST_FACTOR = 1e-6
"""Least share of the upper tenth that the lower one is: else it is 0, or next to it."""


def find_products(
    columns: Sequence[Binned],
    pairs: Sequence[Pair],
    noisy: Sequence[Array],
    most: int,
    fixed: Collection[str] = (),
) -> list[Candidate]:
    """Products of two columns that the released quantiles and steps leave open, the nearest first.

    Args:
        columns: Of numbers, with bins and weights; dates are passed over.
        pairs: What was looked at.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        most: How many products, at most.
        fixed: Names of columns that keep their own bins: none of them is a product.
    """
    told = [(c, _log_quantiles(c)) for c in columns if not isinstance(c, Temporal)]
    held = [(column, logs) for column, logs in told if logs is not None][:MOST_COLUMNS]
    if most <= 0 or len(held) < 3:
        return []
    logs = np.array([one for _, one in held])
    units = np.array([column.unit for column, _ in held])
    spans = logs[:, 2] - logs[:, 0]
    one, other = np.triu_indices(len(held), 1)
    middle, spread = logs[one, 1] + logs[other, 1], np.hypot(spans[one], spans[other])
    found: list[tuple[float, int, int]] = []
    for total, (column, _) in enumerate(held):
        gaps = np.abs(logs[total, 1] - middle)
        wide = (spans[total] / spread) ** 2
        able = (gaps <= FACTOR_GAP) & (wide >= SPREADS[0]) & (wide <= SPREADS[1])
        able &= (one != total) & (other != total) & (column.name not in fixed)
        if units[total] > 0:
            # Numbers of cents, times whole ones, are numbers of cents; rounding makes them no finer.
            able &= units[total] >= units[one] * units[other] * (1 - 1e-9)
        places = np.flatnonzero(able)
        nearest = places[np.argsort(gaps[places], kind="stable")[:most]]
        found += [(float(gaps[place]), total, int(place)) for place in nearest]
    alike = share_equal(pairs, noisy)
    products = []
    for _, total, place in sorted(found)[:most]:
        parts = held[one[place]][0], held[other[place]][0]
        column = held[total][0]
        equal = max(alike.get(frozenset((column.name, part.name)), 0.0) for part in parts)
        products.append(Candidate(column, parts, equal, "product"))
    return products


def _log_quantiles(column: Binned) -> tuple[float, float, float] | None:
    """The logarithms of the lower tenth, the median and the upper tenth; None where the lowest is about 0, or
    all are alike."""
    running = np.cumsum(column.weights or (0.0,))
    if not running[-1] > 0:
        return None
    fine = np.asarray(column.fine, dtype=np.float64)
    upto = np.append(0.0, running) / running[-1]
    found = [float(np.interp(part, upto, fine)) for part in TAILS]
    if isinstance(column, Whole):  # the number that a cell begins with is no further than it
        found = [float(fine[max(int(np.searchsorted(upto, part)) - 1, 0)]) for part in TAILS]
    low, middle, high = found
    # Where a tenth of the rows has 0 so has the product, and 0 is 0 whatever it is multiplied by.
    if not low > LEAST_FACTOR * high or not high > low:
        return None
    return math.log(low), math.log(middle), math.log(high)
