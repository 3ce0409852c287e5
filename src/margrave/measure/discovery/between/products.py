"""Which columns may be the product of others, by released bins alone.

An amount is a price times a number, a premium what is insured times a rate in percent, a price paid the list
price times one less the discount, a body mass index the weight over the height squared. Which of the products
of all columns, and with which public factor, are the likeliest is told by how the logarithms of what is
released are spread, and by how often the first look has a column above another: a premium is above what is
insured where the rate is above 100 %, whatever else hangs together. The look at sums and products then shows
how many rows have it exactly.

A quotient has parts that go together, as a distance and a time do: what it makes of these, were they apart,
says little of it. So it is found from the product that it turns round: the distance is the speed times the
time, and these hardly go together.

Everything here is made from public things and released numbers only. Of the constants below FARTHEST, RARE,
SLACK, FAR, DRAWS, LEVELS and TURNED were measured (bench/LOG.md, 2026-11-29), the others not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import MAX_WRONG_SHARE, Candidate, Pair, share_equal
from margrave.schema.columns import Binned, Temporal
from margrave.schema.columns.relative import MAX_FACTOR, apply_share
from margrave.schema.constraints.draws import draw_overall

Array = NDArray[np.float64]

MOST_COLUMNS = 100
"""Columns of which products are sought, the first ones: of more than this it would take many seconds."""
FACTORS = (1.0, 1 / 100, 1 / 1000, 1 / 10_000, 1 / 12, 1 / 1200, 1 / 60, 1 / 3600, 12.0, 60.0, 100.0, 1000.0)
"""What a product may be multiplied by: for percent, per mille and basis points, a month's part of a yearly
rate, minutes and seconds of hours, cents and grams."""
DIVIDED = (1 / 100_000, 1 / 3.6, 1 / 703)
"""What it may be multiplied by besides where it is turned round: rates per 100,000, km/h of m/s, pounds over
square inches."""
TURNED, LEAST_STEPS, STEPS_OFF = 1.5, 10.0, 100.0
"""How much nearer the quantiles of a product have to be for its quotients to come first; least number of
steps in the median of a quotient; and how many times as coarse as the step of one part makes it in the median
a product may be for this part to be a quotient: one that is rounded that much is no dividend."""
COMMON, RARE = (1.0, 1 / 100), 1.5
"""The usual ones among them, and how much nearer the quantiles have to be for another to come first; and for
three parts."""
WHOLES = ((1.0, 1.0), (100.0, 1 / 100), (-1.0, 1.0), (-100.0, 1 / 100))
"""What shares written as .15, or as 15, are taken off or added to (`Comparison.share_of`), and the factor."""
FACTOR_GAP = 0.7
"""Greatest distance of the medians' logarithms, added, from that of a product: a factor of two."""
FARTHEST = 0.3
"""Greatest mean distance of the quantiles' logarithms from those of a product: of true ones .04 in the median
with 30,000 rows, up to .23 in nine tenths with 2,000 at epsilon 3."""
SPREADS = 0.3, 3.0
"""Least and greatest variance of the logarithms of a product, over that of its factors together."""
DRAWS, LEVELS = 4_000, 16
"""Numbers drawn from each released column, and quantiles of those above 0 that are multiplied."""
MOST_NEGATIVE, LEAST_POSITIVE = 0.1, 0.05
"""Greatest share of negative numbers in a column, and least one of numbers above 0."""
SLACK = 0.05
"""Share of the rows by which zeros, and rows above another column, may be off from what a product has."""
NEAR, FAR = 6, 12
"""Most columns that three parts and their product are apart; and those beyond which it makes no difference
how far two and theirs are. The less that is, by its root, the sooner they are looked at."""
Z = 3.0
"""Noise deviations by which such rows may be off as well."""
LEAST_ROWS = 0.5
"""Least number of rows in which a part has a value, as a share of those in which the product has one."""
BATCH = 4_096
"""Products whose quantiles are worked out at once."""


Sides = tuple[float, float, float]
"""The noisy shares of the rows in which a column is above, and below, another; what both may be off by."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A column, or a whole less or with it, as the released numbers have it.

    Args:
        column: Of numbers.
        place: Where it stands in the table.
        share_of: The whole that it is taken off, or added to, as in `Comparison`; 0 for the column itself.
        factor: The one factor that products of that have; 0 for any.
        values: Numbers drawn from it, shape [draws].
        logs: LEVELS quantiles of the logarithms of those above 0, ascending.
        power: 2 for its square, of which values and logs then are.
    """

    column: Binned
    place: int
    share_of: float
    factor: float
    values: Array
    logs: Array
    power: int = 1

    @property
    def step(self) -> float:
        """The step of the values, 0 if they have none."""
        return float(self.column.unit**self.power)

    @property
    def square(self) -> _Part:
        """The column times itself."""
        return replace(self, values=self.values**2, logs=2.0 * self.logs, power=2)

    def may_divide(self, fixed: Collection[str]) -> bool:
        """Whether it may be a quotient: of enough steps that few rows have it by chance."""
        plain = self.power == 1 and not self.share_of and self.column.name not in fixed
        return plain and float(np.exp(np.median(self.logs))) >= LEAST_STEPS * self.step

    @property
    def zeros(self) -> float:
        """Share of the draws that are 0."""
        return float((self.values == 0.0).mean())

    @property
    def width(self) -> float:
        """How wide the logarithms spread, without the ends."""
        return float(self.logs[-2] - self.logs[1])

    @property
    def rows(self) -> float:
        """Rows that have a value."""
        return float(sum(self.column.weights or ()))


class _Products:
    """Products of columns that have nothing to do with each other.

    Args:
        parts: What they are made of.
        terms: Places of these, shape [products, terms].
        logs: LEVELS quantiles of the logarithms of each product, shape [products, LEVELS].
        fixed: Names of columns that keep their own bins.
    """

    def __init__(
        self, parts: Sequence[_Part], terms: NDArray[np.int64], logs: Array, fixed: Collection[str]
    ) -> None:
        def collect(measure: Callable[[_Part], float]) -> Array:
            found: Array = np.array([measure(part) for part in parts], dtype=np.float64)[terms]
            return found

        self.parts, self.terms, self.logs = parts, terms, logs
        self.places = collect(lambda part: part.place)
        self.ends = self.places.min(axis=1), self.places.max(axis=1)
        zeros = collect(lambda part: part.zeros)
        self.zeros = zeros.max(axis=1), zeros.sum(axis=1)
        self.spread = (collect(lambda part: part.width) ** 2).sum(axis=1)
        self.rows = collect(lambda part: part.rows).min(axis=1)
        steps = collect(lambda part: part.step)
        self.unit = steps.prod(axis=1) * (1 - 1e-9)
        middles = collect(lambda part: float(np.median(part.logs)))
        # By how much a step of one part moves the product, in the median; any for what has no steps.
        moved = steps * np.exp(middles.sum(axis=1, keepdims=True) - middles)
        able = collect(lambda part: float(part.may_divide(fixed))) > 0.0
        # What is left of a whole is no divisor, as of two prices the lower one is the rounded one.
        able &= (terms.shape[1] == 2) & (collect(lambda part: part.share_of) == 0.0).all(axis=1)[:, None]
        self.coarsest = np.where(able, np.where(steps > 0.0, STEPS_OFF * moved, np.inf), -1.0)
        squared = bool((collect(lambda part: part.power) > 1.0).any())
        self.is_near = terms.shape[1] > 1 + (not squared)
        self.factor = collect(lambda part: part.factor).max(axis=1)
        self.middle = np.median(logs, axis=1)


def find_products(
    columns: Sequence[Binned],
    pairs: Sequence[Pair],
    noisy: Sequence[Array],
    sigma: float,
    most: int,
    fixed: Collection[str] = (),
) -> list[Candidate]:
    """Products of columns that the released numbers and steps leave open, the likeliest first.

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
    for total, terms, factor, turned in _rank(plain, fixed):
        if len(found) == most:
            break
        if all(_fits_pair(total, terms, place, factor, sides) for place in range(len(terms))):
            if turned < 0:
                found.append(_make_candidate(total, terms, factor, alike))
            else:
                parts = total, terms[1 - turned]
                found.append(_make_candidate(terms[turned], parts, _turn_factor(factor), alike, -1))
    return found


def _describe(
    column: Binned, place: int, values: Array, share_of: float = 0.0, factor: float = 0.0
) -> _Part | None:
    """A part by numbers drawn of it; None where few are above 0, some too large, or nearly all alike."""
    positive = values[values > 0.0]
    few = (values < 0.0).mean() > MOST_NEGATIVE or len(positive) < LEAST_POSITIVE * len(values)
    if few or float(np.abs(values).max()) > MAX_FACTOR:
        return None
    logs = np.quantile(np.log(positive), (np.arange(LEVELS) + 0.5) / LEVELS)
    # A product by one number alone is a line.
    return _Part(column, place, share_of, factor, values, logs) if logs[-2] > logs[1] else None


def _take_shares(part: _Part) -> Iterator[_Part]:
    """What wholes are without, or with, a column, if next to none of its numbers is below 0 or above them."""
    for whole, factor in WHOLES:
        inside = (part.values >= 0.0) & (part.values <= abs(whole))
        if inside.mean() >= 1.0 - MAX_WRONG_SHARE:
            turned = _describe(part.column, part.place, apply_share(whole, part.values), whole, factor)
            if turned is not None:
                yield turned


def _rank(
    plain: Sequence[_Part], fixed: Collection[str]
) -> Iterator[tuple[_Part, tuple[_Part, ...], float, int]]:
    """Totals, the parts of each, the factor, and which part is the quotient of the total by the other, -1 for
    none: those first whose logarithms are spread most alike."""
    groups, found = list(_list_products(plain, fixed)), []
    for place, total in enumerate(plain):
        for group, products in enumerate(groups):
            told = _compare(total, products, total.column.name in fixed)
            found.append(np.stack([*told, np.full_like(told[0], place), np.full_like(told[0], group)]))
    table = np.concatenate([np.empty((6, 0)), *found], axis=1)
    for candidate in np.argsort(table[0], kind="stable"):
        _, row, factor, turned, place, group = table[:, candidate].tolist()
        products = groups[int(group)]
        terms = tuple(products.parts[at] for at in products.terms[int(row)])
        yield plain[int(place)], terms, factor, int(turned)


def _list_products(plain: Sequence[_Part], fixed: Collection[str]) -> Iterator[_Products]:
    """The products of all columns two by two, squares, and of those that stand near each other products of
    three and of one with the square of another."""
    parts = [*plain, *(turned for part in plain for turned in _take_shares(part))]
    logs, at = np.array([part.logs for part in parts]), np.array([part.place for part in parts])
    one, other = np.triu_indices(len(parts), 1)
    # The last term alone may be taken off a whole.
    apart = (one < len(plain)) & (at[one] != at[other])
    terms = np.stack([one[apart], other[apart]], axis=1)
    joined = _multiply(logs[terms[:, 0]], logs[terms[:, 1]])
    yield _Products(parts, terms, joined, fixed)
    near = np.flatnonzero((terms[:, 1] < len(plain)) & (np.ptp(at[terms], axis=1) <= NEAR))
    after = terms[near, 1][:, None] < np.arange(len(parts))
    steps = np.abs(at[terms[near]][:, :, None] - at)
    first, last = np.nonzero(after & (steps.min(axis=1) > 0) & (steps.max(axis=1) <= NEAR))
    if len(first):
        longer = np.concatenate([terms[near[first]], last[:, None]], axis=1)
        yield _Products(parts, longer, _multiply(joined[near[first]], logs[last]), fixed)
    count, squares = len(plain), [part.square for part in plain]
    own, places = logs[:count], at[:count]
    yield _Products(squares, np.arange(count)[:, None], 2.0 * own, fixed)
    steps = np.abs(places[:, None] - places)
    one, other = np.nonzero((steps > 0) & (steps <= NEAR))
    terms = np.stack([one, count + other], axis=1)
    yield _Products([*plain, *squares], terms, _multiply(own[one], 2.0 * own[other]), fixed)


def _compare(total: _Part, products: _Products, is_fixed: bool) -> tuple[Array, ...]:
    """How far a column is from the products that it may be, the rows of these in the table, factors, and the
    part that may be a quotient, -1 for the product itself."""
    first, last = products.ends
    span = np.maximum(last, total.place) - np.minimum(first, total.place)
    wide = total.width**2 / products.spread
    able = (products.places != total.place).all(axis=1) & (wide >= SPREADS[0]) & (wide <= SPREADS[1])
    # Where a part is 0 so is the product, and nowhere else; where a part is missing there is none.
    able &= (total.zeros >= products.zeros[0] - SLACK) & (total.zeros <= products.zeros[1] + SLACK)
    able &= products.rows >= LEAST_ROWS * total.rows
    weights = np.sqrt(np.minimum(span, FAR))
    if products.is_near:
        able, weights = able & (span <= NEAR), weights * RARE
    gaps, unit = np.median(total.logs) - products.middle, total.column.unit
    found: list[tuple[Array, ...]] = []
    for factor in (*FACTORS, *DIVIDED):
        chosen = able & (np.abs(gaps - math.log(factor)) <= FACTOR_GAP)
        held = np.flatnonzero(chosen & ((products.factor == 0.0) | (products.factor == factor)))
        far = np.abs(total.logs - products.logs[held] - math.log(factor)).mean(axis=1)
        near = far <= FARTHEST
        held, far = held[near], far[near]
        far *= weights[held] * (1.0 if factor in COMMON else RARE)
        # Numbers of cents, times whole ones, are numbers of cents; rounding makes them no finer.
        fits = (unit >= products.unit[held] * factor) | (unit == 0.0)
        fits &= factor in FACTORS and not is_fixed
        forms = [(-1, fits, 1.0)]
        for place, coarsest in enumerate(products.coarsest[held].T):
            forms.append((place, (coarsest > 0.0) & (unit <= coarsest * factor), TURNED))
        for form, chosen, weight in forms:
            rows = held[chosen].astype(np.float64)
            found.append((far[chosen] * weight, rows, np.full(len(rows), factor), np.full(len(rows), form)))
    return tuple(np.concatenate(columns) for columns in zip(*found, strict=True))


def _turn_factor(factor: float) -> float:
    """One over a factor, to the last digit: 1200 of a float near 1 / 1200."""
    return float(1 / Fraction(factor).limit_denominator(100_000))


def _multiply(left: Array, right: Array) -> Array:
    """Quantiles of the products of columns that have nothing to do with each other, as logarithms.

    Args:
        left: LEVELS quantiles of the one factors, shape [products, LEVELS].
        right: Those of the others.
    """
    found = np.empty_like(left)
    for first in range(0, len(left), BATCH):
        held = slice(first, first + BATCH)
        sums = left[held, :, None] + right[held, None, :]
        ordered = np.sort(sums.reshape(len(sums), LEVELS**2), axis=1)
        found[held] = ordered[:, LEVELS // 2 :: LEVELS]
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
    total: _Part, terms: Sequence[_Part], place: int, factor: float, sides: dict[tuple[str, str], Sides]
) -> bool:
    """Whether a product is above one of its parts, and below it, in as many rows as the other parts say."""
    one = terms[place]
    seen = sides.get((total.column.name, one.column.name))
    if seen is None or one.share_of or one.power > 1:
        return True
    more, less, off = seen
    others = [part.values for at, part in enumerate(terms) if at != place]
    differences = one.values * (np.multiply.reduce(others) * factor - 1.0)
    step = total.column.unit / 2
    above, below = (differences > step).mean(), (differences < -step).mean()
    return bool(abs(above - more) <= off and abs(below - less) <= off)


def _make_candidate(
    total: _Part,
    terms: Sequence[_Part],
    factor: float,
    alike: dict[frozenset[str], float],
    sign: int = 1,
) -> Candidate:
    """The product, to be looked at; what its most frequent value has, and equality, is no evidence of it.

    With the sign -1 the last term is divided by.
    """
    equal = max(alike.get(frozenset((total.column.name, part.column.name)), 0.0) for part in terms)
    weights = np.asarray(total.column.weights)
    frequent = max(float(weights.max() / weights.sum()), total.zeros)
    columns, line = tuple(part.column for part in terms), (factor, 0.0)
    known = min(max(equal, frequent), 1.0)
    powers = (*(part.power for part in terms[:-1]), sign * terms[-1].power)
    powers = powers if set(powers) != {1} else ()
    return Candidate(total.column, columns, known, "product", line, terms[-1].share_of, powers)
