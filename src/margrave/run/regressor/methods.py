"""The methods of `Regressor`: what each asks at the door, and what it makes of the answers.

`Scaling`, first, makes numbers of rows for the door, and is the way back to those of the encodings.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gradients import DRAWS_PER_UNIT
from margrave.measure.mechanisms.regression.perturb import OUTPUT_SHARE, Objective
from margrave.measure.mechanisms.regression.slopes import Slope
from margrave.measure.mechanisms.regression.statistics import check_exchanged
from margrave.privacy.accounting.accountants import GDP, Accountant, Renyi
from margrave.privacy.accounting.renyi import (
    LARGEST_ORDER,
    best_order,
    check_sampled,
    choose_objective_order,
    objective_divergence,
    renyi_allowed,
)
from margrave.privacy.ledger.ledger import split
from margrave.privacy.unit import Neighbours
from margrave.regression.encoding import Encoding
from margrave.regression.number_sums import SHRINK
from margrave.regression.perturbed import PerturbedFit, fit_statistics, fit_sums
from margrave.schema.features import RowNumbers

if TYPE_CHECKING:
    from margrave.measure.curator import Curator


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Numbers of rows for the door, and the way back to those of the encodings.

    Args:
        kind: "linear" or "logistic": a logistic regression's target is not scaled.
        encodings: Of the features.
        labels: The number of each code of the target.
        meaning: Of a logistic regression: the level that counts as 1.
        numbers: What is summed: (number - shift) / scale, the target's last.
        shifts, scales: Of each number, the target's last: shape [p - 1], the constant left out.
    """

    kind: str
    encodings: tuple[Encoding, ...]
    labels: Floats
    meaning: str
    numbers: RowNumbers
    shifts: Floats
    scales: Floats

    @classmethod
    def of(
        cls,
        kind: str,
        target: str,
        labels: Floats,
        meaning: str,
        encodings: Sequence[Encoding],
        intercept: bool,
    ) -> Scaling:
        """The scaling of encodings, from public numbers alone."""
        matrices, shifts, scales = [], [], []
        marked = [[bool(level) for level in encoding.levels] for encoding in encodings]
        for matrix, marks in zip(
            [*(e.matrix for e in encodings), labels[None, :]],
            [*marked, [kind == "logistic"]],
            strict=True,
        ):
            middle = (matrix.max(axis=1) + matrix.min(axis=1)) / 2.0
            shift = np.where(np.asarray(marks) | (not intercept), 0.0, middle)
            scale = np.abs(matrix - shift[:, None]).max(axis=1)
            scale = np.where(scale > 0.0, scale, 1.0)
            matrices.append((matrix - shift[:, None]) / scale[:, None])
            shifts += shift.tolist()
            scales += scale.tolist()
        names = (*(encoding.column for encoding in encodings), target)
        numbers = RowNumbers(names, tuple(matrices), intercept)
        found = np.asarray(shifts), np.asarray(scales)
        return cls(kind, tuple(encodings), labels, meaning, numbers, *found)

    def centre(self) -> Scaling:
        """With columns of one number from -1 to 1, two levels among them, where there is an intercept."""
        if not self.numbers.constant:
            return self
        shifts, scales, matrices = self.shifts.copy(), self.scales.copy(), list(self.numbers.numbers)
        start = 0
        for place, matrix in enumerate(matrices[:-1]):
            middle, half = (matrix.max() + matrix.min()) / 2.0, np.ptp(matrix) / 2.0
            if len(matrix) == 1 and half > 0.0:
                matrices[place] = (matrix - middle) / half
                shifts[start] += middle * scales[start]
                scales[start] *= half
            start += len(matrix)
        numbers = RowNumbers(self.numbers.names, tuple(matrices), self.numbers.constant)
        return replace(self, numbers=numbers, shifts=shifts, scales=scales)

    def shrink(self, factor: float) -> Scaling:
        """With the numbers of the features multiplied by a factor of at most 1."""
        *features, label = self.numbers.numbers
        matrices = (*(factor * matrix for matrix in features), label)
        scales = np.append(self.scales[:-1] / factor, self.scales[-1])
        numbers = RowNumbers(self.numbers.names, matrices, self.numbers.constant)
        return replace(self, numbers=numbers, scales=scales)

    def restore(self, fit: PerturbedFit, level: float) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Estimates, middles and half lengths of intervals, in the encodings' units, and which are known."""
        first = int(self.numbers.constant)
        shifts, scales = self.shifts[:-1], self.scales[:-1]
        raw = np.diag(np.concatenate([np.ones(first), 1.0 / scales]))
        if first:
            raw[0, 1:] = -shifts / scales
        raw *= self.scales[-1]
        offset = np.zeros(len(raw))
        offset[:first] = self.shifts[-1]
        known = fit.identified.copy()
        if first:
            # The intercept hangs on the slopes of all features that were shifted.
            shifted = np.flatnonzero(shifts) + 1
            known[0] = bool(known[0]) and bool(known[shifted].all())
        wide = np.where(known, fit.half_widths(raw, level), np.inf)
        return raw @ fit.estimates + offset, raw @ fit.middles + offset, wide, known


@dataclass(frozen=True, slots=True)
class Promise:
    """What a run promises, which published constants are made of.

    Args:
        epsilon, delta: Of the whole run.
        neighbours: Whom it protects.
        share: The part of rho that discovery leaves.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    share: Fraction


class Spending(ABC):
    """A regression that asks at the door for itself alone."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    rows: ClassVar[bool] = True
    """Whether it looks at single rows, which the engine then has to hold."""

    def scale(self, scaling: Scaling) -> Scaling:
        """The numbers that it asks about, made of those that reach from -1 to 1."""
        return scaling

    def check(self, neighbours: Neighbours) -> None:
        """Check, before anything is opened, that these neighbours are protected.

        Raises:
            InputError: They are not.
        """
        check_exchanged(neighbours)

    def choose_accountant(self, promise: Promise) -> Accountant:
        """What keeps the ledger.

        Raises:
            InputError: Nothing can be bought with so little.
        """
        return GDP()

    @abstractmethod
    def run(self, curator: Curator, scaling: Scaling, promise: Promise) -> PerturbedFit:
        """Spend what is left, and find the coefficients of the numbers of the rows."""


@final
@dataclass(frozen=True, slots=True)
class SSP(Spending):
    """One release of Z'Z; see `margrave.regression.perturbed`."""

    name: ClassVar[str] = "ssp"
    kinds: ClassVar[tuple[str, ...]] = ("linear",)
    rows: ClassVar[bool] = False

    def scale(self, scaling: Scaling) -> Scaling:
        """Features are divided by their largest squared norm to the power of SHRINK.

        Z'Z has noise in proportion to the squared norm of a row. With smaller features X'y has less noise
        over its size, and X'X has more, which counts for less.
        """
        scaling = scaling.centre()
        features = scaling.numbers.numbers[:-1]
        largest = sum(float((matrix**2).sum(axis=0).max()) for matrix in features)
        return scaling.shrink(largest**-SHRINK) if largest > 1.0 else scaling

    def check(self, neighbours: Neighbours) -> None:
        """All neighbours are protected."""

    def run(self, curator: Curator, scaling: Scaling, promise: Promise) -> PerturbedFit:
        """Spend what is left, and find the coefficients of the numbers of the rows."""
        return fit_sums(curator.sums(scaling.numbers, curator.remaining))


@final
@dataclass(frozen=True, slots=True)
class AdaSSP(Spending):
    """Least squares with a ridge from the smallest eigenvalue of X'X (Wang 2018, Algorithm 2).

    Args:
        variant: "published": each of three releases has noise of standard deviation sqrt(ln(6 / delta)) /
            (epsilon / 3) times its sensitivity, which costs less than a half of what is promised; the rest
            is not spent. "released": the constants of the code that Ferrando and Sheldon (2025) ran: a
            third of epsilon and delta for the eigenvalue, and of the other two 95 % for X'X and 5 % for
            X'y, each with sqrt(ln(2 / delta_i)) / epsilon_i. "exact": a third of the whole budget's rho for
            each.

    Raises:
        InputError: There is no such variant.
    """

    variant: Literal["exact", "published", "released"] = "exact"

    name: ClassVar[str] = "adassp"
    kinds: ClassVar[tuple[str, ...]] = ("linear",)
    rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.variant not in ("exact", "published", "released"):
            known = "'exact', 'published' or 'released'"
            raise InputError(invalid("variant", known, "Pick one.", got=self.variant))

    def choose_accountant(self, promise: Promise) -> Accountant:
        """What keeps the ledger.

        Raises:
            InputError: The published constants cost more than discovery leaves of what is promised.
        """
        allowed = GDP().total(promise.epsilon, Fraction(promise.delta)) * promise.share
        if sum(self.share_rho(promise, allowed)) > allowed:
            raise _published_error()
        return GDP()

    def share_rho(self, promise: Promise, remaining: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        """rho of the eigenvalue, of X'X and of X'y.

        Args:
            promise: What the run promises.
            remaining: rho that is left.
        """
        if self.variant == "exact":
            first, second, third = split(remaining, [1, 1, 1])
            return first, second, third
        parts = [1 / 3] * 3
        if self.variant == "released":
            parts = [1 / 3, 2 / 3 * 0.95, 2 / 3 * 0.05]
        # A standard deviation of sqrt(ln(2 / delta_i)) / epsilon_i sensitivities costs epsilon_i^2 / (2
        # ln(2 / delta_i)) in rho; delta_i = delta / 3 makes ln(6 / delta) of it.
        rhos = [
            Fraction((promise.epsilon * part) ** 2 / (2.0 * math.log(2.0 / (promise.delta * part))))
            for part in parts
        ]
        return rhos[0], rhos[1], rhos[2]

    def run(self, curator: Curator, scaling: Scaling, promise: Promise) -> PerturbedFit:
        """Spend what is left, and find the coefficients of the numbers of the rows."""
        rhos = self.share_rho(promise, curator.remaining)
        found = curator.statistics(scaling.numbers, rhos)
        # The released ridge is for the noise that a third of epsilon would give X'X, which is that of the
        # eigenvalue, although X'X has less there.
        sigma = found.sigmas[0] if self.variant == "released" else None
        return fit_statistics(found, promise.delta, sigma)


@final
@dataclass(frozen=True, slots=True)
class ObjPert(Spending):
    """Logistic regression by objective perturbation; see `margrave.measure.mechanisms.regression.perturb`.

    Args:
        variant: "exact": the noise that the Renyi divergence allows, and a ridge for which the curvature
            takes an eighth of that, or less: a row's own curvature at least. "published": the noise and the
            ridge of Ferrando and Sheldon 2025, Algorithm 6: b of variance R^2 (8 ln(2 / delta) + 4 epsilon)
            / epsilon^2 and the ridge R^2 / (2 epsilon), for k = 1.

    Raises:
        InputError: There is no such variant.
    """

    variant: Literal["exact", "published"] = "exact"

    name: ClassVar[str] = "objpert"
    kinds: ClassVar[tuple[str, ...]] = ("logistic",)
    CURVED: ClassVar[float] = 0.125

    def __post_init__(self) -> None:
        if self.variant not in ("exact", "published"):
            raise InputError(invalid("variant", "'exact' or 'published'", "Pick one.", got=self.variant))

    def check(self, neighbours: Neighbours) -> None:
        """Check, before anything is opened, that these neighbours are protected.

        Raises:
            InputError: They are not.
        """
        check_exchanged(neighbours)
        if self.variant == "published" and neighbours.marginal_l1 != 1:
            remedy = "They are for one row that comes or goes: use add_remove without owners."
            raise InputError(invalid("variant", "'exact' with these neighbours", remedy, got=self.variant))

    def choose_accountant(self, promise: Promise) -> Renyi:
        """What keeps the ledger: one order, from the promise alone.

        Raises:
            InputError: Nothing can be bought with so little.
        """
        rows = promise.neighbours.marginal_l1, promise.neighbours.unit.max_rows
        if self.variant == "exact":
            return Renyi(choose_objective_order(promise.epsilon, promise.delta, rows, self.CURVED))

        def spare(order: int) -> float:
            allowed = renyi_allowed(order, promise.epsilon, promise.delta)
            return (allowed - order * float(self._published_rho(promise, order))) / order

        order = max(range(2, LARGEST_ORDER + 1), key=spare)
        allowed = Fraction(max(renyi_allowed(order, promise.epsilon, promise.delta), 0.0)) / order
        if self._published_rho(promise, order) > allowed * promise.share:
            raise _published_error()
        return Renyi(order)

    def _published_rho(self, promise: Promise, order: int) -> Fraction:
        """What the published constants cost, the noise on the result included."""
        rows = promise.neighbours.marginal_l1, promise.neighbours.unit.max_rows
        epsilon = promise.epsilon
        shift = Fraction(rows[0] ** 2 * epsilon**2 / (8.0 * math.log(2.0 / promise.delta) + 4.0 * epsilon))
        cost = objective_divergence(order, rows, Fraction(epsilon) / 2, shift) / order
        return cost / (1 - OUTPUT_SHARE)

    def run(self, curator: Curator, scaling: Scaling, promise: Promise) -> PerturbedFit:
        """Spend what is left, and find the coefficients of the numbers of the rows."""
        order = self.choose_accountant(promise).order
        bound = float(Objective(scaling.numbers, Fraction(1)).bound()) / 2.0**20
        rho = curator.remaining
        if self.variant == "exact":
            allowed = float(rho * order) * self.CURVED
            # A ridge below a row's own curvature gains nothing, and leaves the solver's error uncovered.
            ridge = bound / 4.0 / min(math.expm1(min(allowed / promise.neighbours.unit.max_rows, 1.0)), 1.0)
        else:
            ridge, rho = bound / (2.0 * promise.epsilon), self._published_rho(promise, order)
        objective = Objective(scaling.numbers, Fraction(math.ceil(ridge * 2**20), 2**20))
        return PerturbedFit.without_intervals(curator.perturb(objective, rho)[0])


@final
@dataclass(frozen=True, slots=True)
class NoisyNewton(Spending):
    """Logistic regression by a few Newton steps, each with noise on the gradient and on the curvature.

    The ridge is half of the edge of the curvature's noise, in the objective from the first
    step. Gradient and curvature of each step have a half of the step's rho, and steps have alike.

    Args:
        steps: How many, from 1 to 100.

    Raises:
        InputError: steps is out of range.
    """

    steps: int = 3

    name: ClassVar[str] = "noisy_newton"
    kinds: ClassVar[tuple[str, ...]] = ("logistic",)

    def __post_init__(self) -> None:
        _check_steps(self.steps, 100)

    def run(self, curator: Curator, scaling: Scaling, promise: Promise) -> PerturbedFit:
        """Spend what is left, and find the coefficients of the numbers of the rows."""
        theta = np.zeros(scaling.numbers.size - 1)
        reach = _longest_row(scaling)
        rhos = split(curator.remaining, [1] * (2 * self.steps))
        for step in range(self.steps):
            slope = Slope(scaling.numbers, "logistic", theta, reach)
            found = curator.slopes(slope, rhos[2 * step], rhos[2 * step + 1])
            ridge = found.curvature_sigma * math.sqrt(len(theta))
            values, vectors = np.linalg.eigh(found.curvature)
            inverse = (vectors / (np.maximum(values, 0.0) + ridge)) @ vectors.T
            theta = theta + inverse @ (found.gradient - ridge * theta)
        return PerturbedFit.without_intervals(theta)


@final
@dataclass(frozen=True, slots=True)
class DPSGD(Spending):
    """Gradient descent with clipped rows and noise (Abadi et al. 2016), linear or logistic.

    One fixed setting for all tables: no search, which would have to be paid for. The step is one over the
    largest curvature that a row may have times the number of rows, noisy where it is private, which has a
    hundredth of rho.

    Args:
        steps: How many, from 1 to 10,000.
        rate: Probability of each row to be in a step's sample. 1 takes all rows, in Gaussian accounting;
            less is accounted for at one Renyi order, and protects single rows that come or go.
        clip: The largest norm of a row's gradient, as a part of the longest row's: above 0 and at most 1.

    Raises:
        InputError: An argument is out of range.
    """

    steps: int = 50
    rate: float = 1.0
    clip: float = 1.0

    name: ClassVar[str] = "dp_sgd"
    kinds: ClassVar[tuple[str, ...]] = ("linear", "logistic")
    COUNTED: ClassVar[Fraction] = Fraction(1, 100)

    def __post_init__(self) -> None:
        _check_steps(self.steps, 10_000)
        if not 2.0**-20 <= self.rate <= 1.0:
            raise InputError(invalid("rate", "at least 2^-20 and at most 1", "Try 1.0.", got=self.rate))
        if not 2.0**-6 <= self.clip <= 1.0:
            raise InputError(invalid("clip", "at least 1/64 and at most 1", "Try 1.0.", got=self.clip))

    @property
    def exact_rate(self) -> Fraction:
        """The rate as a multiple of 2^-32."""
        return Fraction(max(round(self.rate * DRAWS_PER_UNIT), 1), DRAWS_PER_UNIT)

    def check(self, neighbours: Neighbours) -> None:
        """Check, before anything is opened, that these neighbours are protected.

        Raises:
            InputError: They are not.
        """
        check_exchanged(neighbours)
        if self.exact_rate < 1:
            check_sampled(neighbours)

    def choose_accountant(self, promise: Promise) -> Accountant:
        """What keeps the ledger: Gaussian, or one Renyi order where rows are sampled."""
        if self.exact_rate == 1:
            return GDP()
        return Renyi(best_order(promise.epsilon, promise.delta, self.exact_rate, self.steps, promise.share))

    def run(self, curator: Curator, scaling: Scaling, promise: Promise) -> PerturbedFit:
        """Spend what is left, and find the coefficients of the numbers of the rows."""
        kind: Literal["linear", "logistic"] = "logistic" if scaling.kind == "logistic" else "linear"
        rows = curator.public_rows
        if rows is None:
            (counted,) = curator.measure([()], curator.remaining * self.COUNTED)
            rows = max(float(counted.values), 1.0)
        reach = _longest_row(scaling)
        steepest = reach**2 / (4.0 if kind == "logistic" else 1.0)
        length = 1.0 / (steepest * rows * float(self.exact_rate))
        theta = np.zeros(scaling.numbers.size - 1)
        for rho in split(curator.remaining, [1] * self.steps):
            slope = Slope(scaling.numbers, kind, theta, self.clip * reach, self.exact_rate)
            theta = theta + length * curator.slopes(slope, rho).gradient
        return PerturbedFit.without_intervals(theta)


METHODS: dict[str, type[Spending]] = {kind.name: kind for kind in (SSP, AdaSSP, ObjPert, NoisyNewton, DPSGD)}


def _published_error() -> InputError:
    remedy = "Declare every column, use a smaller epsilon, or variant='exact'."
    return InputError(invalid("variant", "one whose constants the budget pays for", remedy))


def _check_steps(steps: int, most: int) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= most:
        raise InputError(invalid("steps", f"a whole number from 1 to {most}", "Try 3.", got=steps))


def _longest_row(scaling: Scaling) -> float:
    """R: the largest norm of a row's numbers, the target's left out, over all codes there are."""
    numbers = scaling.numbers
    squares = [float((matrix**2).sum(axis=0).max()) for matrix in numbers.numbers[:-1]]
    return math.sqrt(int(numbers.constant) + sum(squares))
