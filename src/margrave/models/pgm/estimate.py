"""Potentials that explain the measurements, by a preconditioned L-BFGS on a smooth convex dual.

`History` is what L-BFGS remembers, with vector work in as few passes over memory as it takes. Sums run in one
thread and one order: they are the same on any number of cores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel, compile_summing

if TYPE_CHECKING:
    from margrave.limits import Deadline
    from margrave.models.pgm.inference import Calibration

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

MEMORY = 12
"""Pairs of steps and gradient changes that L-BFGS remembers."""


class History:
    """The last MEMORY steps and gradient changes, in a ring, in single precision.

    They only say where to look next: rounding them changes how soon the minimum is found, not where it is.
    """

    def __init__(self, length: int) -> None:
        self._moved = np.empty((MEMORY, length), dtype=np.float32)
        self._changed = np.empty((MEMORY, length), dtype=np.float32)
        self._inverse = np.empty(MEMORY)
        self.count = 0

    def add(self, length: float, step: Floats, fresh: Floats, gradient: Floats) -> None:
        """Remember a step of some length and the gradients after and before it.

        It is left out where the function bends too little along it.
        """
        # The slot of the oldest pair; it is overwritten even if the new pair turns out to be useless.
        k = self.count % MEMORY
        bending = _remember_step(self._moved[k], self._changed[k], length, step, fresh, gradient)
        if bending > 0.0:
            self._inverse[k] = 1.0 / bending
            self.count += 1

    def direction(self, gradient: Floats, curvature: Floats) -> Floats:
        """Minus the approximate inverse Hessian times the gradient."""
        step = np.empty(len(gradient))
        _two_loops(step, gradient, self._moved, self._changed, self._inverse, self.count, curvature)
        return step


@compile_summing
def _remember_step(
    moved: Singles, changed: Singles, length: float, step: Floats, fresh: Floats, gradient: Floats
) -> float:
    """Fill in one step and gradient change; return their product, 0 if it is not clearly above 0."""
    product, far, wide = 0.0, 0.0, 0.0
    for i in range(len(step)):
        # Rounded to single precision before the products, so that s'y belongs to the vectors that are kept.
        s, y = np.float32(length * step[i]), np.float32(fresh[i] - gradient[i])
        moved[i], changed[i] = s, y
        product += np.float64(s) * np.float64(y)
        far += np.float64(s) * np.float64(s)
        wide += np.float64(y) * np.float64(y)
    return product if product > 1e-12 * np.sqrt(far) * np.sqrt(wide) else 0.0


@compile_summing
def _two_loops(
    q: Floats,
    gradient: Floats,
    moved: Singles,
    changed: Singles,
    inverse: Floats,
    count: int,
    curvature: Floats,
) -> None:
    """The two-loop recursion from minus the gradient, around the inverse of the scaled diagonal curvature.

    A pass applies one product and takes the next.
    """
    # Without a history: a Newton step with the diagonal alone.
    held = min(count, MEMORY)
    if not held:
        for i in range(len(q)):
            q[i] = -gradient[i] / curvature[i]
        return
    weights, newest = np.empty(held), (count - 1) % MEMORY
    s, y, total, bends = moved[newest], changed[newest], 0.0, 0.0
    for i in range(len(q)):
        q[i] = -gradient[i]
        total += s[i] * q[i]
        bends += np.float64(y[i]) * np.float64(y[i]) / curvature[i]
    # The usual scale s'y / y'By, with B the inverse diagonal: as if the newest step had been exact.
    scale = 1.0 / (inverse[newest] * bends)
    # First loop, newest to oldest: take each remembered gradient change out of q.
    for back in range(held):
        k = (count - 1 - back) % MEMORY
        weights[back] = inverse[k] * total
        if back < held - 1:
            total = _add_step(q, -weights[back], changed[k], moved[(k - 1) % MEMORY])
        else:
            total = _scale_step(q, -weights[back], changed[k], scale, curvature)
    # Second loop, oldest to newest: put the steps back in.
    for back in range(held - 1, -1, -1):
        k = (count - 1 - back) % MEMORY
        weight = weights[back] - inverse[k] * total
        total = _add_step(q, weight, moved[k], changed[(k + 1) % MEMORY])


@compile_summing
def _add_step(q: Floats, weight: float, along: Singles, onto: Singles) -> float:
    """Add a multiple of one vector to q and return the product with another."""
    total = 0.0
    for i in range(len(q)):
        q[i] += weight * along[i]
        total += q[i] * onto[i]
    return total


@compile_summing
def _scale_step(q: Floats, weight: float, along: Singles, scale: float, curvature: Floats) -> float:
    """Add a multiple of a vector to q, divide by the scaled curvature; return the product with the vector."""
    total = 0.0
    for i in range(len(q)):
        q[i] = (q[i] + weight * along[i]) * (scale / curvature[i])
        total += q[i] * along[i]
    return total


@compile_summing
def dot(a: Floats, b: Floats) -> float:
    """The product of two vectors."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compile_summing
def ahead(theta: Floats, length: float, step: Floats) -> Floats:
    """theta + length * step."""
    found = np.empty(len(theta))
    for i in range(len(theta)):
        found[i] = theta[i] + length * step[i]
    return found


@compile_summing
def fill_gradient(theta: Floats, target: Floats, ridge: Floats, mu: Floats, gradient: Floats) -> float:
    """Fill gradient with mu - target + ridge * theta; return sum(ridge * theta^2) / 2 - <theta, target>."""
    total = 0.0
    for i in range(len(theta)):
        pull = ridge[i] * theta[i]
        gradient[i] = mu[i] - target[i] + pull
        total += theta[i] * (0.5 * pull - target[i])
    return total


@compile_summing
def bent(mu: Floats, ridge: Floats, gradient: Floats, leap: float) -> Floats:
    """mu (1.02 - mu) + ridge, and minus the gradient over leap where that is above 0."""
    found = np.empty(len(mu))
    for i in range(len(mu)):
        found[i] = mu[i] * (1.02 - mu[i]) + ridge[i] + max(-gradient[i], 0.0) / leap
    return found


@compile_summing
def largest(gradient: Floats, starts: NDArray[np.int64]) -> float:
    """The largest L1 norm of the tables that begin at starts[:-1]."""
    most = 0.0
    for k in range(len(starts) - 1):
        total = 0.0
        for i in range(starts[k], starts[k + 1]):
            total += abs(gradient[i])
        most = max(most, total)
    return most


LEAP = 10.0
"""About the most a log-potential is raised in the first step."""

WELL_CONDITIONED_RIDGE = 1e-5
"""A ridge of this size is well conditioned; smaller ones are approached from it."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Where the optimiser stopped.

    Args:
        theta: Potentials, shape [measured cells].
        gap: The largest L1 norm of the gradient over one measured table, in probability.
        iterations: Steps taken.
        evaluations: Inferences run.
        converged: Whether gap is at most the tolerance.
    """

    theta: Floats
    gap: float
    iterations: int
    evaluations: int
    converged: bool


class Dual:
    """f(theta) = log Z(theta) - <theta, target> + sum(ridge * theta^2) / 2.

    Its gradient is mu(theta) - target + ridge * theta. At the minimum ridge * theta is what the measured
    tables keep unexplained: theta are the multipliers of max H(p) - sum((target - mu)^2 / ridge) / 2.

    Args:
        inference: Over the measured cliques.
        target: Noisy probabilities, shape [measured cells].
        ridge: Weight of each potential's square, above 0, shape [measured cells].
    """

    def __init__(self, inference: Calibration, target: Floats, ridge: Floats) -> None:
        self.inference = inference
        self.ridge = ridge
        # Tables of rules come last among the layout's and are held fixed, so they have no target.
        known = [start for start in inference.layout.starts if start <= len(target)]  # the rest are held
        self._ends = np.asarray(known, dtype=np.int64)
        self.starts = self._ends[:-1]
        self.target = self._balance_tables(target)
        self.evaluations = 0

    def _balance_tables(self, target: Floats) -> Floats:
        """The target with every table made to sum to 1 in the way that leaves the solution the same.

        sum((t - mu)^2 / ridge) over tables mu that sum to 1 changes by a constant when t moves along
        ridge, so the part of t that no probability can explain is taken out beforehand.
        """
        if not len(self.starts):
            return target
        # Each table moves along its own ridge until it sums to 1.
        lengths = np.diff([*self.starts.tolist(), len(target)])
        missing = (1.0 - np.add.reduceat(target, self.starts)) / np.add.reduceat(self.ridge, self.starts)
        return target + np.repeat(missing, lengths) * self.ridge

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient at theta."""
        self.evaluations += 1
        log_z = self.inference.run(theta)
        gradient = np.empty(len(theta))
        rest = fill_gradient(theta, self.target, self.ridge, self.inference.marginals, gradient)
        return log_z + float(rest), gradient

    def gap(self, gradient: Floats) -> float:
        """The largest L1 norm of the gradient over one measured table."""
        return float(largest(gradient, self._ends))

    def solve_worst_table(self, theta: Floats, gradient: Floats) -> Floats:
        """theta with the potentials of one table solved for, that of the largest gradient, all others held.

        The table that was measured last is nearly always the one: a warm start is most of the way then.
        """
        worst = int(np.argmax(np.add.reduceat(np.abs(gradient), self.starts)))
        ends = self.inference.layout.starts
        cut = slice(ends[worst], ends[worst + 1])
        fresh: Floats = theta.copy()
        fresh[cut] = _solve_table(
            self.inference.marginals[cut], theta[cut], self.target[cut], self.ridge[cut]
        )
        return fresh

    def curvature(self, gradient: Floats) -> Floats:
        """A little above the diagonal of the Hessian at the last theta, which is mu (1 - mu) + ridge.

        A cell that has nearly everything must still be lowered with care; and a cell that is to grow bends
        more the more it grows, so it is held to steps of about LEAP.
        """
        return bent(self.inference.marginals, self.ridge, gradient, LEAP)


def approach(
    inference: Calibration,
    target: Floats,
    ridge: Floats,
    theta: Floats,
    max_iterations: int,
    tolerance: float,
    deadline: Deadline | None = None,
) -> Solution:
    """Minimise the dual of these measurements, through larger ridges first where the ridge is tiny.

    Where the measurements contradict each other or dip below zero, potentials grow like 1 / ridge; a tenth of
    the last ridge is within reach. Where it is not, the last solution is kept and marked as not converged.
    """
    # Factors above 1 begin with a ridge that is well conditioned and end at the ridge that was asked for.
    factor = max(1.0, WELL_CONDITIONED_RIDGE / float(ridge.max(initial=1e-300)))
    steps = calls = 0
    gap = np.inf
    while True:
        last = factor <= 1.0
        dual = Dual(inference, target, ridge * factor)
        # Ridges on the way only have to lead near; a thousandth of the probability is near enough.
        near = tolerance if last else max(tolerance, 1e-3)
        found = minimise(dual, theta, max_iterations - steps, near, deadline)
        steps, calls = steps + found.iterations, calls + found.evaluations
        # A smaller ridge that leaves a gap so much larger has led nowhere: what was found before it stays.
        lost = found.gap > 10.0 * max(gap, 1e-3)
        theta, gap = (theta, gap) if lost else (found.theta, found.gap)
        if last or lost or (deadline is not None and deadline.passed):
            return Solution(theta, gap, steps, calls, found.converged and last)
        factor = max(1.0, factor / 10.0)


def minimise(
    dual: Dual, theta: Floats, max_iterations: int, tolerance: float, deadline: Deadline | None = None
) -> Solution:
    """Minimise by L-BFGS (Nocedal and Wright, algorithm 7.4) scaled by the Hessian's diagonal.

    Stops when `Dual.gap` is at most tolerance, after max_iterations steps, when rounding leaves no descent,
    or with the first step that ends after the deadline; `Solution.converged` tells which.
    """
    theta, value, gradient = _start_descent(dual, theta, max_iterations, tolerance)
    history = History(len(theta))
    iterations = 0
    while dual.gap(gradient) > tolerance and iterations < max_iterations:
        if deadline is not None and deadline.passed:
            break
        step = history.direction(gradient, dual.curvature(gradient))
        slope = float(dot(step, gradient))
        found = _search(dual, theta, value, gradient, step, slope) if slope < 0.0 else None
        if found is None:
            # No step goes down along this direction. Once more along the gradient alone, with a history that
            # is empty; if that fails as well, rounding leaves no descent.
            if not history.count:
                break
            history = History(len(theta))
            value, gradient = dual(theta)
            continue
        length, value, fresh, theta = found
        history.add(length, step, fresh, gradient)
        gradient = fresh
        iterations += 1
    gap = dual.gap(gradient)
    return Solution(theta, gap, iterations, dual.evaluations, gap <= tolerance)


def _start_descent(
    dual: Dual, theta: Floats, max_iterations: int, tolerance: float
) -> tuple[Floats, float, Floats]:
    """Where to start, the value and the gradient: with the worst table settled if that goes down."""
    value, gradient = dual(theta)
    if not max_iterations or dual.gap(gradient) <= tolerance:
        return theta, value, gradient
    trial = dual.solve_worst_table(theta, gradient)
    lower, fresh = dual(trial)
    if lower < value:
        return trial, lower, fresh
    # The trial left the inference at another point, so the state is brought back to theta.
    value, gradient = dual(theta)
    return theta, value, gradient


@compile_kernel
def _solve_table(mu: Floats, theta: Floats, target: Floats, ridge: Floats) -> Floats:
    """Potentials of one table that minimise the dual while all others are held, about; shape of the table.

    With m = mu exp(-theta), the table's marginal but for its own potentials, the solution is p with
    log p = log m + (target - p) / ridge - shift and sum 1: Newton's method for log p, and for the shift.
    """
    base, logs = np.empty(len(mu)), np.empty(len(mu))
    for i in range(len(mu)):
        # Fixed part of the equation for p, and where Newton's method for log p begins.
        # log m is log mu less the table's own potential, which is what the rest of the model says.
        base[i] = target[i] + ridge[i] * (np.log(max(mu[i], 1e-300)) - theta[i])
        logs[i] = np.log(max(target[i], min(mu[i], ridge[i]), 1e-12))
    shift = 0.0
    for _ in range(30):
        total, slope = 0.0, 0.0
        for i in range(len(mu)):
            c, wanted = ridge[i], base[i] - ridge[i] * shift
            # p + c log p = wanted has one root, as its left side rises with p; steps are capped where exp is
            # steep.
            for _ in range(40):
                p = np.exp(logs[i])
                step = min(max((p + c * logs[i] - wanted) / (p + c), -5.0), 5.0)
                logs[i] -= step
                if abs(step) < 1e-6:
                    break
            p = np.exp(logs[i])
            total += p
            slope += c * p / (p + c)
        # Newton's method for the shift, in the logarithm of the total.
        shift += min(max(total * np.log(total) / slope, -50.0), 50.0)
        if abs(total - 1.0) < 1e-9:
            break
    # The stationary point: ridge times theta is what the table leaves unexplained.
    solution: Floats = (target - np.exp(logs)) / ridge
    return solution


def _search(
    dual: Callable[[Floats], tuple[float, Floats]],
    theta: Floats,
    value: float,
    gradient: Floats,
    step: Floats,
    slope: float,
) -> tuple[float, float, Floats, Floats] | None:
    """A step length that meets the strong Wolfe conditions (c1 1e-4, c2 0.9), by bracketing and secants.

    Returns the length, the value, the gradient and theta there; None when no length descends.
    """
    low, high, length = 0.0, np.inf, 1.0
    low_slope = slope
    best: tuple[float, float, Floats, Floats] | None = None
    slack = 1e-14 * abs(value)
    for tried in range(25):
        place = ahead(theta, length, step)
        trial, fresh = dual(place)
        # The derivative of the value along the step.
        end = float(dot(fresh, step))
        # Too far: the value has risen, or fallen by less than the first condition asks. `slack` is what
        # rounding may hide of it.
        if not np.isfinite(trial) or trial > value + 1e-4 * length * slope + slack:
            high = length
            # A failed trial's slope is of use only if its value is finite; after four trials a tenth of the
            # bracket is tried.
            near = np.isfinite(trial) and tried < 4
            length = _between(low, high, low_slope, end) if near else low + 0.1 * (high - low)
            continue
        best = (length, trial, fresh, place)
        if abs(end) <= 0.9 * abs(slope):
            return best
        # Still going down steeply: farther on, doubling until something bounds the step from above.
        if end < 0.0:
            low, low_slope = length, end
            length = 2.0 * length if not np.isfinite(high) else 0.5 * (low + high)
        else:
            high = length
            length = _between(low, high, low_slope, end)
    return best


def _between(low: float, high: float, low_slope: float, high_slope: float) -> float:
    """Where the line between two slopes is zero, kept away from both ends."""
    share = low_slope / (low_slope - high_slope) if high_slope > low_slope else 0.5
    return low + min(max(share, 0.1), 0.9) * (high - low)
