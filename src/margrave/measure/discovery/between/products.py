"""Which columns may be the product of two others, by released bins alone.

An amount is a price times a number, a premium what is insured times a rate in percent, a price paid the list
price times one less the discount. Which of the products of all columns, and with which public factor, are the
likeliest is told by how the logarithms of their released numbers are spread, and by how often the first look
has a column above another: a premium is above what is insured where the rate is above 100 %, whatever else
hangs together. The look at sums and products then shows how many rows have it exactly.

Everything here is made from public things and released numbers only. None of the constants below but SPREADS
was measured, unless that is said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import MAX_WRONG_SHARE, Candidate, Pair, share_equal
from margrave.schema.columns import Binned, Temporal
from margrave.schema.constraints.draws import draw_overall

Array = NDArray[np.float64]

MOST_COLUMNS = 300
"""Columns of which products are sought, the first ones: the triples of more would take seconds."""
FACTORS = (1.0, 1 / 100, 1 / 1000, 1 / 10_000, 1 / 12, 1 / 1200, 1 / 60, 1 / 3600, 12.0, 60.0, 100.0, 1000.0)
"""What a product may be multiplied by: for percent, per mille and basis points, a month's part of a yearly
rate, minutes and seconds of hours, cents and grams."""
COMMON, RARE = (1.0, 1 / 100), 1.5
"""The usual ones among them, and how much nearer the quantiles have to be for another to come first."""
COMPLEMENTS = (1.0, 1.0), (100.0, 1 / 100)
"""What a share is taken from, written as .15 or as 15, and the factor of the product then."""
FACTOR_GAP = 0.7
"""Greatest distance of the medians' logarithms, added, from that of a product: a factor of two."""
SPREADS = 0.3, 3.0
"""Least and greatest variance of the logarithms of a product, over that of its factors together."""
DRAWS, LEVELS = 4_000, 16
"""Numbers drawn from each released column, and quantiles of those above 0 that are multiplied."""
MOST_NEGATIVE, LEAST_POSITIVE = 0.1, 0.05
"""Greatest share of negative numbers in a column, and least one of numbers above 0."""
SLACK = 0.05
"""Share of the rows by which zeros, and rows above another column, may be off from what a product has."""
Z = 3.0
"""Noise deviations by which such rows may be off as well."""
LEAST_ROWS = 0.5
"""Least number of rows in which a part has a value, as a share of those in which the product has one."""
BATCH = 4_096
"""Products whose quantiles are worked out at once."""


Sides = tuple[float, float, float]
"""The noisy shares of the rows in which a column is above, and below, another, and what both may be off by."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A column, or a complement of it, as the released numbers have it.

    Args:
        column: Of numbers.
        place: Where it stands in the table.
        complement: What it is subtracted from; 0 for the column itself.
        factor: The one factor that the complement's products have; 0 for any.
        values: Numbers drawn from it, shape [draws].
        logs: LEVELS quantiles of the logarithms of those above 0, ascending.
    """

    column: Binned
    place: int
    complement: float
    factor: float
    values: Array
    logs: Array

    @property
    def zeros(self) -> float:
        """Share of the draws that are 0."""
        return float((self.values == 0.0).mean())

    @property
    def rows(self) -> float:
        """Rows that have a value."""
        return float(sum(self.column.weights or ()))


def find_products(
    columns: Sequence[Binned],
    pairs: Sequence[Pair],
    noisy: Sequence[Array],
    sigma: float,
    most: int,
    fixed: Collection[str] = (),
) -> list[Candidate]:
    """Products of two columns that the released numbers and steps leave open, the likeliest first.

    Args:
        columns: Of numbers, with bins and weights; dates are passed over.
        pairs: What was looked at.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        most: How many products, at most.
        fixed: Names of columns that keep their own bins: none of them is a product.
    """
    numbers = [column for column in columns if not isinstance(column, Temporal)][:MOST_COLUMNS]
    # Seeded by the column's place, so that each column always has the same draws.
    draws = [draw_overall(c, DRAWS, np.random.default_rng(place)) for place, c in enumerate(numbers)]
    told = [_describe(c, place, draws[place].astype(np.float64)) for place, c in enumerate(numbers)]
    plain = [part for part in told if part is not None]
    if most <= 0 or len(plain) < 3:
        return []
    sides = _share_sides(pairs, noisy, sigma)
    alike = share_equal(pairs, noisy)
    found: list[Candidate] = []
    for total, one, other, factor in _rank(plain, fixed):
        if len(found) == most:
            break
        if _fits_pair(total, one, other, factor, sides) and _fits_pair(total, other, one, factor, sides):
            found.append(_make_candidate(total, one, other, factor, alike))
    return found


def _describe(
    column: Binned, place: int, values: Array, complement: float = 0.0, factor: float = 0.0
) -> _Part | None:
    """A part by numbers drawn of it; None where too few are above 0, or nearly all of these are alike."""
    positive = values[values > 0.0]
    if (values < 0.0).mean() > MOST_NEGATIVE or len(positive) < LEAST_POSITIVE * len(values):
        return None
    logs = np.quantile(np.log(positive), (np.arange(LEVELS) + 0.5) / LEVELS)
    # A product by one number alone is a line.
    return _Part(column, place, complement, factor, values, logs) if logs[-2] > logs[1] else None


def _take_complements(part: _Part) -> Iterator[_Part]:
    """What a column leaves of 1, or of 100, if next to none of its numbers is below 0 or above that."""
    for whole, factor in COMPLEMENTS:
        inside = (part.values >= 0.0) & (part.values <= whole)
        if inside.mean() >= 1.0 - MAX_WRONG_SHARE:
            turned = _describe(part.column, part.place, whole - part.values, whole, factor)
            if turned is not None:
                yield turned


def _rank(plain: Sequence[_Part], fixed: Collection[str]) -> Iterator[tuple[_Part, _Part, _Part, float]]:
    """Totals, the two parts of each and the factor: those first whose logarithms are spread most alike."""
    parts = [*plain, *(turned for part in plain for turned in _take_complements(part))]
    names = np.array([part.column.name for part in parts])
    one, other = np.triu_indices(len(parts), 1)
    apart = (one < len(plain)) & (names[one] != names[other])
    one, other = one[apart], other[apart]
    logs, units = np.array([part.logs for part in parts]), np.array([part.column.unit for part in parts])
    zeros, rows = np.array([part.zeros for part in parts]), np.array([part.rows for part in parts])
    factors = np.array([part.factor for part in parts])[other]
    at = np.array([part.place for part in parts])
    products = _multiply(logs, one, other)
    spread = np.hypot(*(logs[side, -2] - logs[side, 1] for side in (one, other)))
    found: list[tuple[float, int, int, float]] = []
    for place, total in enumerate(plain):
        if total.column.name in fixed:
            continue
        ends = np.array([at[one], at[other], np.full(len(one), total.place)])
        span = ends.max(axis=0) - ends.min(axis=0)
        wide = ((total.logs[-2] - total.logs[1]) / spread) ** 2
        able = (wide >= SPREADS[0]) & (wide <= SPREADS[1])
        able &= (one != place) & (names[other] != total.column.name)
        # Where a part is 0 so is the product, and nowhere else; where a part is missing there is none.
        able &= total.zeros >= np.maximum(zeros[one], zeros[other]) - SLACK
        able &= total.zeros <= zeros[one] + zeros[other] + SLACK
        able &= np.minimum(rows[one], rows[other]) >= LEAST_ROWS * total.rows
        middle = LEVELS // 2
        gaps = np.median(total.logs) - (products[:, middle - 1] + products[:, middle]) / 2
        for factor in FACTORS:
            # Numbers of cents, times whole ones, are numbers of cents; rounding makes them no finer.
            finest = units[one] * units[other] * factor * (1 - 1e-9)
            near = able & (np.abs(gaps - math.log(factor)) <= FACTOR_GAP)
            near &= (total.column.unit >= finest) | (total.column.unit == 0.0)
            near &= (factors == 0.0) | (factors == factor)
            chosen = np.flatnonzero(near)
            far = np.abs(total.logs - products[chosen] - math.log(factor)).mean(axis=1)
            far *= np.sqrt(span[chosen]) * (1.0 if factor in COMMON else RARE)
            found += [(float(d), place, int(where), factor) for d, where in zip(far, chosen, strict=True)]
    for _, place, where, factor in sorted(found):
        yield plain[place], parts[one[where]], parts[other[where]], factor


def _multiply(logs: Array, one: NDArray[np.int64], other: NDArray[np.int64]) -> Array:
    """LEVELS quantiles of the products of columns that have nothing to do with each other, as logarithms.

    Args:
        logs: The quantiles of each, shape [parts, LEVELS].
        one: Places of the first parts, shape [products].
        other: Those of the second.
    """
    found = np.empty((len(one), LEVELS))
    for first in range(0, len(one), BATCH):
        sides = slice(first, first + BATCH)
        sums = logs[one[sides], :, None] + logs[other[sides], None, :]
        ordered = np.sort(sums.reshape(len(sums), LEVELS**2), axis=1)
        found[sides] = ordered[:, LEVELS // 2 :: LEVELS]
    return found


def _share_sides(pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float) -> dict[tuple[str, str], Sides]:
    """In which shares of the rows one column is above, and below, another: by the names of the two."""
    found = {}
    for pair, counts in zip(pairs, noisy, strict=True):
        starts = pair.edges[:-1]
        cells = counts[: len(starts)]
        rows = max(float(cells.sum()), 1.0)
        more, less = float(cells[starts > 0.0].sum()) / rows, float(cells[starts < 0.0].sum()) / rows
        off = SLACK + Z * sigma * math.sqrt(len(starts) / 2) / rows
        found[pair.column.name, pair.base.name] = more, less, off
        found[pair.base.name, pair.column.name] = less, more, off
    return found


def _fits_pair(
    total: _Part, one: _Part, other: _Part, factor: float, sides: dict[tuple[str, str], Sides]
) -> bool:
    """Whether a product is above its first part, and below it, in as many rows as the second part says."""
    seen = sides.get((total.column.name, one.column.name))
    if seen is None or one.complement:
        return True
    more, less, off = seen
    differences = one.values * (other.values * factor - 1.0)
    step = total.column.unit / 2
    above, below = (differences > step).mean(), (differences < -step).mean()
    return bool(abs(above - more) <= off and abs(below - less) <= off)


def _make_candidate(
    total: _Part, one: _Part, other: _Part, factor: float, alike: dict[frozenset[str], float]
) -> Candidate:
    """The product, to be looked at; what its most frequent value has, and equality, is no evidence of it."""
    names = [part.column.name for part in (one, other)]
    equal = max(alike.get(frozenset((total.column.name, name)), 0.0) for name in names)
    weights = np.asarray(total.column.weights)
    frequent = max(float(weights.max() / weights.sum()), total.zeros)
    terms = one.column, other.column
    line = (factor, 0.0)
    return Candidate(total.column, terms, min(max(equal, frequent), 1.0), "product", line, other.complement)
