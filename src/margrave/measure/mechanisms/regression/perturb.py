"""perturb: a logistic regression whose objective has a ridge and a random linear term, solved at the door.

Released is nearly the minimiser over theta of

    J(theta) = sum over rows of (ln(1 + exp(s)) - y s) + (Lambda / 2) ||theta||^2 + b'theta,     s = theta'x

with b Gaussian (Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012; Ferrando and Sheldon
2025, Algorithm 6), plus a little Gaussian noise that covers what keeps it from being exact.

**Privacy.** Unit and adjacency: the ledger's, rows or owners capped at k rows, add_remove or replace_one;
all else is refused before anything is spent. x and Lambda are public maps and numbers.
*The exact minimiser.* A row's loss is a function of theta'x with a slope of at most 1 and a curvature of at
most 1/4; ||x|| <= R over all codes, in the very numbers that are used. `privacy.accounting.renyi`
proves the Renyi divergence of theta for b ~ N(0, sigma^2 I), a continuous Gaussian.
*What keeps it from being exact.* b is the continuous Gaussian b* rounded to steps of 2^-16: ||b - b*|| <=
2^-17 sqrt(p). The solver stops where the gradient it computes is at most 2^-13, and what rounding in
float64 adds is below 2^-13 for tables with n sqrt(p) <= 2^28 (see *Rounding*). The result is rounded to
steps of w <= 2^-12 / (Lambda sqrt(p)), which moves it by at most w sqrt(p) / 2, and cut to 2^52 steps, as
theta* may be as well. J is Lambda-strongly convex, so that the distance of the result from the minimiser
theta* for b* is at most

    (2^-12 + 2^-17 sqrt(p)) / Lambda + w sqrt(p) / 2   =:  r.

Given theta*, the vector from it to the result has a length of at most r whatever the rows, so with noise N(0,
tau^2 I), the continuous one rounded to steps of w, it is a Gaussian mechanism of sensitivity 2 r; what is
released is made of theta* and of this (approximate minima perturbation: Iyengar et al. 2019). The two
compose.
*Rounding*, with u = 2^-53, of n rows of numbers within -1 and 1. A score is made of two parts of theta: the
leading one is so short that its products with numbers of ten binary digits, and all sums of these, are exact
in any order; the other is below 2^-42 p max |theta_j|, and adds less than u while p^3 max |theta_j| <= 2^42.
So a score s is within u (|s| + 1), however its parts cancel, and its mean, whose slope is at most 1/4 and at
most 1/4 of 1 / |s|, with the few operations that follow, within 16 u. A block of 2^11 rows is summed in any
order to within 2^11 u of the sum of lengths, and blocks are added with what rounding loses kept apart. In all
this is at most n sqrt(p) (2^11 + 16) u <= 2^-25 2^11.02, and what is left of 2^-13 covers the last additions.
*Failure.* Newton's method with halved steps converges for every table, as J is strongly convex and its
curvature is Lipschitz; there is an end to it after 10,000 steps, an error that has been paid for.
*Cost.* Two events, recorded before b is drawn: an `ObjectiveEvent`, priced by `Renyi` at the ledger's
order, and a `GaussianEvent` of the sensitivity 2 r for the rest, which gets 1/64 of rho.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import GRID, check_drawable
from margrave.measure.mechanisms.regression.statistics import check_exchanged
from margrave.measure.mechanisms.regression.sums import bound_rows
from margrave.privacy.accounting.accountants import Renyi
from margrave.privacy.accounting.events import GaussianEvent, ObjectiveEvent
from margrave.privacy.accounting.renyi import objective_divergence
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource, rounded_gaussian
from margrave.schema.encoded import Encoded
from margrave.schema.features import RowNumbers

Floats = NDArray[np.float64]

DIGITS, NOISE_DIGITS = 10, 16
"""Binary digits of the numbers, and of the linear term."""
TOLERANCE = 2.0**-13
"""Largest norm of the gradient at which the solver stops."""
MOST_STEPS = 10_000
"""Newton steps after which the solver gives up; see *Failure* at the head of this file."""
OUTPUT_SHARE = Fraction(1, 64)
"""The part of rho for the noise on the result."""
ROWS = 1 << 11
"""Rows whose numbers are held at once, and summed without care for rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """What is minimised.

    Args:
        numbers: Of the codes of attributes; the last attribute has one number, the target, 0 or 1.
        ridge: Lambda, above 0, a multiple of 2^-20: public.

    Raises:
        InputError: The target is another, or the ridge is not above 0.
    """

    numbers: RowNumbers
    ridge: Fraction

    def __post_init__(self) -> None:
        last = self.numbers.numbers[-1]
        if len(last) != 1 or not np.isin(last, (0.0, 1.0)).all():
            raise InputError(invalid("numbers", "0 or 1 for the target", "Pick a target of two levels."))
        if self.ridge <= 0 or (self.ridge * (1 << 20)).denominator != 1:
            raise InputError(invalid("ridge", "above 0, a multiple of 2^-20", "Try Fraction(1)."))

    def bound(self) -> int:
        """R^2, in steps of 2^-20."""
        return bound_rows(self.numbers.cut(1 << DIGITS)[:-1])


def perturb(
    rows: Callable[[], Encoded], objective: Objective, rho: Fraction, ledger: Ledger, noise: BitSource
) -> tuple[Floats, float, float]:
    """Coefficients, shape [p - 1], and the standard deviations of b's and of the result's noise.

    **Privacy.** Costs rho, in the ledger's rho at its order; proof at the head of this file.

    Args:
        rows: Gives the private rows; not called when a resumed run has the answer already.
        objective: What is minimised.
        rho: What it may cost, above 0.
        ledger: Where the spends are recorded, kept by `Renyi`.
        noise: Source of random bits.

    Raises:
        InputError: The ledger's neighbours or accountant are others, or rho is too small for the ridge.
        BudgetError: The spends do not fit.
    """
    check_exchanged(ledger.neighbours)
    accountant, p = ledger.accountant, objective.numbers.size - 1
    if not isinstance(accountant, Renyi):
        remedy = "Use `Regressor('objpert')`, or make the ledger with `Renyi(order)`."
        raise InputError(invalid("accountant", "one that prices perturbed objectives", remedy))
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give the objective a share."))
    price = ledger.price(rho)
    event = _event(objective, price * (1 - OUTPUT_SHARE), ledger, accountant.order)
    # The result is rounded to whole steps, since noise is exact only on those; they are about as fine as
    # what the solver may be off.
    digits = 12 + math.ceil(math.log2(float(objective.ridge) * math.sqrt(p))) + 1
    # A step of a power of two keeps all scaling below exact.
    step = 2.0**-digits
    # A solver stops near the minimiser, not at it, and how near hangs on the rows: that much more noise,
    # priced as an event of its own, hides the difference.
    away = (2.0**-12 + 2.0**-17 * math.sqrt(p)) / float(objective.ridge) + step * math.sqrt(p) / 2.0
    # Sensitivity 2 r in whole steps, rounded up; the margin covers float arithmetic.
    reach = math.ceil(2.0 * away / step * (1 + 2.0**-40)) + 1
    spread = check_drawable(Fraction(math.ceil(Fraction(reach**2) / (2 * price * OUTPUT_SHARE) * GRID), GRID))
    events = [event, GaussianEvent(f"rounding of the {event.what}", reach**2, spread, True)]

    def answer(private: Encoded) -> Answer:
        linear = rounded_gaussian(event.sigma_squared, p, noise) / 2.0**NOISE_DIGITS
        theta = solve_perturbed(private, objective, linear)
        # Rounded and cut by a rule that follows from theta alone; the proof counts both.
        whole = np.clip(np.rint(theta / step), -(2.0**52), 2.0**52).astype(np.int64)
        return Answer(((whole + rounded_gaussian(spread, p, noise)).astype(np.float64),))

    (found,) = ledger.ask(events, rows, answer).arrays
    if found.shape != (p,):
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    sigma = math.sqrt(float(event.sigma_squared)) / 2.0**NOISE_DIGITS
    return found * step, sigma, math.sqrt(float(spread)) * step


def _event(objective: Objective, price: Fraction, ledger: Ledger, order: int) -> ObjectiveEvent:
    """What is recorded: the least noise that a price pays for.

    Raises:
        InputError: The price does not even pay for the ridge.
    """
    neighbours, squared = ledger.neighbours, objective.bound()
    changed, replaced = neighbours.marginal_l1, neighbours.unit.max_rows
    ratio = Fraction(squared, 1 << 2 * DIGITS) / 4 / objective.ridge
    # What the ridge costs by itself is paid first; what is left of the price says how much noise the linear
    # term needs.
    without = objective_divergence(order, (changed, replaced), ratio, Fraction(0))
    shift = 2 * (order * price - without) / order
    if shift <= 0:
        remedy = "Raise epsilon, or the ridge."
        raise InputError(invalid("rho", "enough for the ridge alone", remedy))
    # The numbers are in steps of 2^-10 and the linear term in steps of 2^-16.
    moved = changed**2 * squared << 2 * (NOISE_DIGITS - DIGITS)
    variance = check_drawable(Fraction(math.ceil(moved / shift * GRID), GRID))
    what = f"logistic regression of {objective.numbers.names[-1]} on {objective.numbers.size - 1} numbers"
    return ObjectiveEvent(what, changed, replaced, ratio, moved, variance, order)


def solve_perturbed(private: Encoded, objective: Objective, linear: Floats) -> Floats:
    """The minimiser of J, to a gradient of at most TOLERANCE: shape [p - 1]. **Not private.**

    Raises:
        InputError: The solver did not converge.
    """
    ridge, theta = float(objective.ridge), np.zeros(len(linear))
    value, gradient, curvature = _differentiate(private, objective, linear, theta)
    for _ in range(MOST_STEPS):
        if float(np.linalg.norm(gradient)) <= TOLERANCE:
            return theta
        # Newton's direction; the ridge keeps the matrix invertible for every table.
        step = np.linalg.solve(curvature + ridge * np.eye(len(theta)), gradient)
        length, norm = 1.0, float(np.linalg.norm(gradient))
        while True:
            trial = theta - length * step
            found = _differentiate(private, objective, linear, trial)
            # Near the minimum J differs by less than its rounding: there the gradient decides.
            falls = found[0] <= value - 1e-4 * length * float(gradient @ step)
            if falls or float(np.linalg.norm(found[1])) <= (1.0 - 1e-4 * length) * norm or length < 2.0**-40:
                break
            length /= 2.0
        theta, (value, gradient, curvature) = trial, found
    raise InputError(invalid("numbers", "such that the regression converges", "Use fewer columns."))


def _differentiate(
    private: Encoded, objective: Objective, linear: Floats, theta: Floats
) -> tuple[float, Floats, Floats]:
    """J and its gradient at theta, and the curvature of its sum over rows."""
    ridge, curvature = float(objective.ridge), np.zeros((len(theta), len(theta)))
    value, slope, lost = ridge / 2 * float(theta @ theta) + float(linear @ theta), 0.0 * theta, 0.0 * theta
    leading = _cut_leading(theta)
    for vectors, labels in _walk_rows(private, objective.numbers):
        # The leading digits of theta times whole numbers are exact, and only the small rest is rounded.
        score = vectors @ leading + vectors @ (theta - leading)
        # The logistic function without overflow for large scores.
        mean = 0.5 * (1.0 + np.tanh(score / 2.0))
        value += float((np.logaddexp(0.0, score) - labels * score).sum())
        slope, error = _add_exactly(slope, vectors.T @ (mean - labels))
        lost += error
        curvature += (vectors.T * (mean * (1.0 - mean))) @ vectors
    return value, (slope + lost) + (ridge * theta + linear), curvature


def _cut_leading(theta: Floats) -> Floats:
    """theta cut to so few digits that its products with a row's numbers are added without rounding."""
    _, exponent = math.frexp(len(theta) * float(np.abs(theta).max()))
    # As many digits as leave room for ten digits of the numbers and the sum over features in 53 bits.
    unit = 2.0 ** max(exponent + DIGITS - 52, -512)
    return np.asarray(np.rint(theta / unit) * unit)


def _add_exactly(total: Floats, part: Floats) -> tuple[Floats, Floats]:
    """A rounded sum, elementwise, and what rounding has taken from it (Knuth's two-sum)."""
    found = total + part
    back = found - total
    return found, (total - (found - back)) + (part - back)


def _walk_rows(private: Encoded, numbers: RowNumbers) -> Iterator[tuple[Floats, Floats]]:
    """Rows in blocks: their numbers, [rows, p - 1], and their targets, [rows]."""
    matrices, first = numbers.cut(1 << DIGITS), int(numbers.constant)
    # Dividing by a power of two is exact.
    held = [matrix / 2.0**DIGITS for matrix in matrices[first:]]
    for start in range(0, private.rows, ROWS):
        codes = [private.column(name)[start : start + ROWS] for name in numbers.names]
        parts = [matrix.T[column] for matrix, column in zip(held[:-1], codes[:-1], strict=True)]
        yield np.hstack([np.ones((len(codes[-1]), first)), *parts]), held[-1][0][codes[-1]]
