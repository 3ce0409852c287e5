"""slopes: the gradient of a regression's log likelihood at given coefficients, and its curvature, with noise.

A public `RowNumbers` gives row r a vector x_r and a target y_r, its last number; coefficients theta are
public, since they were made of earlier answers. With s = theta'x and A'(s) = s for a linear regression, 1 /
(1 + exp(-s)) for a logistic one, released are

    sum over rows of a_r x_r,   a_r = y_r - A'(s_r), shortened so that |a_r| ||x_r|| <= clip,
    sum over rows of h_r x_r x_r',   h_r = A''(s_r), which is 1 or at most 1/4, where it is asked for.

The first alone, step by step, is gradient descent with clipped rows (Abadi et al. 2016; Song, Chaudhuri and
Sarwate 2013); both together are a Newton step with noise.

**Privacy.** Unit and adjacency: the ledger's, rows or owners capped at k rows, add_remove or replace_one.
*Whole numbers.* x_r has d binary digits, a_r and h_r have W. The score s_r is a sum of whole numbers, one an
attribute, that were computed from theta and the codes there are, not from rows. a_r and h_r are looked up
in a table of steps of the score, computed beforehand as well; a_r is then cut to at most c / sqrt(||x_r||^2),
rounded down, c = clip 2^(W+d) a whole number. That quotient and its square root are single operations in
float64, elementwise and correctly rounded, of whole numbers, and c <= 2^24, so the whole number below
is at most one unit in the last place too large: a_r^2 ||x_r||^2 <= c^2 (1 + 2^-50) < c^2 + 1, and both sides
are whole numbers. So |a_r| ||x_r|| <= c for every row, and what a row adds hangs on its codes alone. Sums
are in int64, of blocks of 2^20 rows that are exact in float64: |a_r| <= 2^26.
*Gradient.* At most k rows come or go, each of norm c: k c; under replace_one as many leave as enter: 2 k c.
That is the L1 sensitivity of one marginal times c.
*Curvature.* h_r x_r x_r' is positive semidefinite of Frobenius norm h_r ||x_r||^2 <= H R^2, so the proof of
`sums` beside this file holds with H R^2 for R^2: released are 3 and 2 times the entries, and the
squared sensitivity is (9/2) H^2 R^4 times that of one marginal, rounded up.
*Cost.* Noise of variance l2_squared / (2 rho): see `Gaussian`. Steps compose adaptively: theta may follow
from all earlier answers. The events are recorded before any noise is drawn.
*Samples.* With a rate below 1 each row is in the sum with that probability, by itself and anew at each call;
the gradient alone may be asked then, of single rows that come or go, and the event is a
`SubsampledGaussianEvent` of one step, priced by `Renyi` (proof: `margrave.privacy.accounting.renyi`).
Coins are 32 fresh bits a row of the secure source, drawn after the event is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import LARGEST_NOISE, Gaussian, check_drawable
from margrave.measure.mechanisms.gradients import DRAWS_PER_UNIT, sample_places
from margrave.measure.mechanisms.regression.statistics import check_exchanged
from margrave.measure.mechanisms.regression.sums import MIN_DIGITS, OFF, ON, add_products, bound_rows
from margrave.privacy.accounting.accountants import Renyi
from margrave.privacy.accounting.events import SubsampledGaussianEvent
from margrave.privacy.accounting.renyi import check_sampled, least_variance
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource, rounded_gaussian
from margrave.release import NoisySlope
from margrave.schema.encoded import Encoded
from margrave.schema.features import RowNumbers

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

DIGITS, WEIGHTS, SCORES = 8, 8, 20
"""d and W, binary digits of numbers and of weights; those of scores."""
MOST_SCORE = 16
"""Scores beyond this many units, either way, are taken for it where A' is logistic."""
STEPS = 10
"""Binary digits of a score where A' and A'' are looked up."""
MOST_WEIGHT = float(1 << 26)
"""Largest |a_r| in steps, for exact sums of a block in float64: see *Whole numbers* at the head of this
file."""
ROWS = 1 << 20
"""Rows whose weights are summed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Slope:
    """Where a gradient is asked for.

    Args:
        numbers: Of the codes of attributes; the last attribute has one number, the target: 0 or 1 where the
            kind is logistic.
        kind: "linear" or "logistic".
        theta: Coefficients of the others, public: shape [p - 1].
        clip: The largest norm of a row's gradient, from 2^-8 to 2^8.
        rate: Probability of each row to be in the sum, a multiple of 2^-32.

    Raises:
        InputError: An argument is out of range, or the shapes differ.
    """

    numbers: RowNumbers
    kind: Literal["linear", "logistic"]
    theta: Floats
    clip: float
    rate: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        single = len(self.numbers.numbers[-1]) == 1
        if not single or self.theta.shape != (self.numbers.size - 1,) or not np.isfinite(self.theta).all():
            remedy = "Give one finite number for each number of a row but the last, the target."
            raise InputError(invalid("theta", "of as many numbers as the features have", remedy))
        if self.kind == "logistic" and not np.isin(self.numbers.numbers[-1], (0.0, 1.0)).all():
            raise InputError(invalid("numbers", "0 or 1 for the target", "Pick a target of two levels."))
        if not 2.0**-8 <= self.clip <= 2.0**8:
            raise InputError(invalid("clip", "from 2^-8 to 2^8", "Try 1.0.", got=self.clip))
        if not 0 < self.rate <= 1 or (self.rate * DRAWS_PER_UNIT).denominator != 1:
            raise InputError(invalid("rate", "above 0, at most 1, a multiple of 2^-32", "Try 1.0."))

    @property
    def bound(self) -> int:
        """c: the largest norm of a row's gradient, in steps."""
        return math.floor(self.clip * 2.0 ** (DIGITS + WEIGHTS))


def slopes(
    rows: Callable[[], Encoded],
    slope: Slope,
    rho: Fraction,
    curvature_rho: Fraction,
    ledger: Ledger,
    noise: BitSource,
) -> NoisySlope:
    """The noisy gradient, for p - 1 coefficients, and the noisy curvature, zeros where it costs 0.

    **Privacy.** Costs rho and curvature_rho; proof at the head of this file.

    Args:
        rows: Gives the private rows; not called when a resumed run has the answers already.
        slope: What is asked.
        rho: What the gradient may cost, above 0.
        curvature_rho: What the curvature may cost; 0 asks for none.
        ledger: Where the spends are recorded.
        noise: Source of random bits.

    Raises:
        InputError: A rho is out of range, or the ledger's neighbours or accountant are others.
        BudgetError: The spends do not fit.
    """
    check_exchanged(ledger.neighbours)
    if rho <= 0 or curvature_rho < 0 or (curvature_rho > 0 and slope.rate < 1):
        raise InputError(invalid("rho", "above 0, for all rows or a gradient alone", "Give it a share."))
    matrices, p = slope.numbers.cut(1 << DIGITS), slope.numbers.size - 1
    names = " x ".join(slope.numbers.names)
    what = f"gradient of a {slope.kind} regression, {p} numbers of {names}, rows of norm {slope.clip:g}"
    # Rows are cut to norm `bound` before they are added, so one that comes or goes moves the sum by that.
    squared = (ledger.neighbours.marginal_l1 * slope.bound) ** 2
    if slope.rate < 1:
        found, sigma = _ask_sampled(
            rows, slope, matrices, (what, slope.bound**2), ledger.price(rho), ledger, noise
        )
    else:
        gaussian = Gaussian(ledger, noise, squared)
        if math.ceil(squared / (2 * ledger.price(rho))).bit_length() >= LARGEST_NOISE:
            raise InputError(invalid("rho", "enough for noise that can be drawn", "Take fewer steps."))
        (found,), sigma = gaussian.ask([what], rho, lambda: [sum_slopes(rows(), slope, (matrices,))[0]])
    if found.shape != (p,):
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    unit = 2.0 ** (DIGITS + WEIGHTS)
    gradient, sigma = found / unit, sigma / unit
    if curvature_rho == 0:
        return NoisySlope(gradient, np.zeros((p, p)), sigma)
    crossed, spread = _ask_curvature(rows, slope, curvature_rho, ledger, noise)
    return NoisySlope(gradient, crossed, sigma, spread)


def _ask_curvature(
    rows: Callable[[], Encoded], slope: Slope, rho: Fraction, ledger: Ledger, noise: BitSource
) -> tuple[Floats, float]:
    """The noisy curvature, and the standard deviation of its noise off the diagonal."""
    p, names = slope.numbers.size - 1, " x ".join(slope.numbers.names)
    digits = _choose_digits(slope, ledger.neighbours.marginal_l2_squared, ledger.price(rho))
    matrices = slope.numbers.cut(1 << digits)
    upper = np.triu_indices(p)
    # Entries off the diagonal stand twice in the matrix and are measured once, so they get less noise: see
    # `sums`.
    factors = np.where(upper[0] == upper[1], ON, OFF)

    def exact() -> list[Integers]:
        return [sum_slopes(rows(), slope, (slope.numbers.cut(1 << DIGITS), matrices))[1][upper] * factors]

    most = _square_curvature(slope, matrices, ledger.neighbours.marginal_l2_squared)
    what = f"curvature of a {slope.kind} regression, {p} numbers of {names}, in steps of 2^-{digits}"
    (found,), spread = Gaussian(ledger, noise, most).ask([what], rho, exact)
    if found.shape != factors.shape:
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    crossed, unit = np.zeros((p, p)), 2.0 ** (2 * digits + WEIGHTS)
    crossed[upper] = found / factors / unit
    return np.triu(crossed) + np.triu(crossed, 1).T, spread / OFF / unit


def _square_curvature(slope: Slope, matrices: tuple[Integers, ...], units: int) -> int:
    """Squared L2 sensitivity of what is released of the curvature, where one marginal's is `units`."""
    # A'' is at most 1/4 for the logistic function and 1 for the linear one.
    steepest = 1 << (WEIGHTS - 2 if slope.kind == "logistic" else WEIGHTS)
    return math.ceil(Fraction(OFF**2, 2) * (steepest * bound_rows(matrices[:-1])) ** 2 * units)


def _choose_digits(slope: Slope, units: int, price: Fraction) -> int:
    """The most binary digits of the curvature's numbers for which noise can be drawn, from public numbers.

    Raises:
        InputError: There are too few.
    """
    # The finest numbers whose noise can still be drawn lose least to rounding.
    for digits in range(DIGITS, MIN_DIGITS - 1, -1):
        most = _square_curvature(slope, slope.numbers.cut(1 << digits), units)
        if math.ceil(most / (2 * price)).bit_length() < LARGEST_NOISE:
            return digits
    raise InputError(invalid("rho", "enough for noise that can be drawn", "Use fewer columns or steps."))


def _ask_sampled(
    rows: Callable[[], Encoded],
    slope: Slope,
    matrices: tuple[Integers, ...],
    asked: tuple[str, int],
    price: Fraction,
    ledger: Ledger,
    noise: BitSource,
) -> tuple[Floats, float]:
    """The noisy gradient of a sample of the rows, and the standard deviation of its noise, in steps."""
    check_sampled(ledger.neighbours)
    accountant = ledger.accountant
    if not isinstance(accountant, Renyi):
        remedy = "Use rate=1, or a ledger that is kept with `Renyi(order)`."
        raise InputError(invalid("rate", "1 where the ledger prices no samples of rows", remedy))
    what, squared = asked

    def event(variance: Fraction) -> SubsampledGaussianEvent:
        return SubsampledGaussianEvent(what, 1, slope.rate, squared, variance, accountant.order)

    least = least_variance(price, squared, lambda variance: accountant.cost(event(variance)))
    variance = check_drawable(least)

    def answer(private: Encoded) -> Answer:
        taken = sample_places(private.rows, slope.rate, noise)
        kept = Encoded(private.domain, tuple(column[taken] for column in private.columns))
        exact = sum_slopes(kept, slope, (matrices,))[0]
        return Answer(((exact + rounded_gaussian(variance, len(exact), noise)).astype(np.float64),))

    (found,) = ledger.ask([event(variance)], rows, answer).arrays
    return np.asarray(found), math.sqrt(float(variance))


def sum_slopes(
    private: Encoded, slope: Slope, held: Sequence[tuple[Integers, ...]]
) -> tuple[Integers, Integers]:
    """Gradient and curvature in steps, the second empty where it is not asked. **Not private.**

    Args:
        private: The rows.
        slope: What is asked.
        held: The numbers in steps of 2^-8 for the gradient; and those for the curvature, where it is asked.
    """
    matrices, curved = held[0], len(held) > 1
    names, first = slope.numbers.names, int(slope.numbers.constant)
    own, p = matrices[first:-1], slope.numbers.size - 1
    features, offset = names[:-1], np.zeros(1, dtype=np.int64)
    if first:
        offset = _round_scores(slope.theta[:1])
    # The part of each attribute is looked up by its code, so the score of a row is a few additions of whole
    # numbers.
    shares, place = [], first
    for matrix in own:
        shares.append(_round_scores(slope.theta[place : place + len(matrix)] @ matrix / 2.0**DIGITS))
        place += len(matrix)
    lengths = [(matrix**2).sum(axis=0) for matrix in own]
    gradient, tables = np.zeros(p, dtype=np.int64), _start_tables(private, features, curved)
    for start in range(0, private.rows, ROWS):
        codes = [private.column(name)[start : start + ROWS].astype(np.int64) for name in names]
        score = np.broadcast_to(offset, codes[-1].shape).copy()
        # The constant adds the square of one unit to every row's length.
        length = np.full(codes[-1].shape, first << 2 * DIGITS, dtype=np.int64)
        for share, squares, column in zip(shares, lengths, codes[:-1], strict=True):
            score += share[column]
            length += squares[column]
        labels = matrices[-1][0][codes[-1]]
        weights, heights = _weigh(slope, score, labels, length)
        if first:
            gradient[0] += (1 << DIGITS) * int(weights.sum())
        place = first
        for matrix, column in zip(own, codes[:-1], strict=True):
            gradient[place : place + len(matrix)] += matrix @ _sum_by(column, weights, matrix.shape[1])
            place += len(matrix)
        if curved:
            _add_tables(tables, codes[:-1], heights)
    if not curved:
        return gradient, np.zeros((0, 0), dtype=np.int64)
    kept = RowNumbers(features, slope.numbers.numbers[:-1], slope.numbers.constant)
    return gradient, add_products(tables, kept, held[1][:-1])


def _round_scores(scores: Floats) -> Integers:
    """Parts of a score in whole steps, of public numbers; no sum of 2^12 of them overflows."""
    return np.rint(np.clip(scores * 2.0**SCORES, -(2.0**48), 2.0**48)).astype(np.int64)


def _weigh(slope: Slope, score: Integers, labels: Integers, length: Integers) -> tuple[Integers, Integers]:
    """a and h of each row in steps, elementwise: from the row's score, label and squared norm."""
    # Shifts of whole numbers round alike on every processor, as floats beside other rows might not.
    if slope.kind == "linear":
        exact = (labels << SCORES - DIGITS) - score
        # Half a step is added before the shift, so that it rounds to the nearest.
        weights = (exact + (1 << SCORES - WEIGHTS - 1)) >> SCORES - WEIGHTS
        heights = np.full(len(score), 1 << WEIGHTS, dtype=np.int64)
    else:
        limit = MOST_SCORE << SCORES
        # The score as the number of a step of the lookup table, counted from the lowest.
        at = (np.clip(score, -limit, limit - 1) + limit) >> SCORES - STEPS
        middles = (np.arange(2 * MOST_SCORE << STEPS) + 0.5) / 2.0**STEPS - MOST_SCORE
        mean = 1.0 / (1.0 + np.exp(-middles))
        means = np.rint(mean * 2.0**WEIGHTS).astype(np.int64)
        # Rounded down, so that no row's curvature exceeds the bound that the noise is scaled to.
        curves = np.floor(mean * (1.0 - mean) * 2.0**WEIGHTS).astype(np.int64)
        weights = (labels >> DIGITS - WEIGHTS) - means[at]
        heights = curves[at]
    least = (1 << 2 * DIGITS) / 2.0**30
    # Rounded down, so that no row's gradient is longer than the bound that the noise is scaled to.
    cap = np.floor(float(slope.bound) / np.sqrt(np.maximum(length, max(least, 1.0)).astype(np.float64)))
    most = np.minimum(cap, MOST_WEIGHT).astype(np.int64)
    return np.clip(weights, -most, most), heights


def _sum_by(column: Integers, weights: Integers, size: int) -> Integers:
    """Sums of weights by code, exact: at most 2^20 of at most 2^26."""
    return np.bincount(column, weights=weights, minlength=size).astype(np.int64)


def _start_tables(private: Encoded, features: tuple[str, ...], curved: bool) -> list[Integers]:
    """Empty tables of all rows, of each attribute and of each pair."""
    if not curved:
        return []
    sizes = [private.domain.size((name,)) for name in features]
    shapes = [(), *((size,) for size in sizes), *combinations(sizes, 2)]
    return [np.zeros(shape, dtype=np.int64) for shape in shapes]


def _add_tables(tables: list[Integers], codes: list[Integers], heights: Integers) -> None:
    """Add a block of rows, each counted as its height, to the tables."""
    width = len(codes)
    tables[0] += int(heights.sum())
    for table, column in zip(tables[1 : 1 + width], codes, strict=True):
        table += _sum_by(column, heights, len(table))
    pairs = combinations(codes, 2)
    for table, (one, two) in zip(tables[1 + width :], pairs, strict=True):
        # A pair's cell is the first code times the width plus the second.
        flat = one * table.shape[1] + two
        table += _sum_by(flat, heights, table.size).reshape(table.shape)
