"""Estimate: potentials that explain the measurements, by a preconditioned L-BFGS on a smooth convex dual."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models.pgm.inference import Inference

__all__ = ["Dual", "Solution", "minimise"]

Floats = NDArray[np.float64]
MEMORY = 12
"""Pairs of steps and gradient changes that L-BFGS remembers."""


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

    def __init__(self, inference: Inference, target: Floats, ridge: Floats) -> None:
        self.inference = inference
        self.ridge = ridge
        self.starts = np.asarray(inference.layout.starts[:-1], dtype=np.int64)
        self.target = self._balanced(target)
        self.evaluations = 0

    def _balanced(self, target: Floats) -> Floats:
        """The target with every table made to sum to 1 in the way that leaves the solution the same.

        sum((t - mu)^2 / ridge) over tables mu that sum to 1 changes by a constant when t moves along
        ridge, so the part of t that no probability can explain is taken out beforehand.
        """
        if not len(self.starts):
            return target
        lengths = np.diff([*self.starts.tolist(), len(target)])
        missing = (1.0 - np.add.reduceat(target, self.starts)) / np.add.reduceat(self.ridge, self.starts)
        return target + np.repeat(missing, lengths) * self.ridge

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient at theta."""
        self.evaluations += 1
        pull = self.ridge * theta
        log_z = self.inference.run(theta)
        value = log_z - float(theta @ self.target) + 0.5 * float(theta @ pull)
        return value, self.inference.marginals - self.target + pull

    def gap(self, gradient: Floats) -> float:
        """The largest L1 norm of the gradient over one measured table."""
        return float(np.add.reduceat(np.abs(gradient), self.starts).max()) if len(self.starts) else 0.0

    def curvature(self) -> Floats:
        """The diagonal of the Hessian at the last theta: variances of the cells' indicators plus ridge."""
        mu = self.inference.marginals
        diagonal: Floats = np.maximum(mu * (1.0 - mu), 1e-12) + self.ridge
        return diagonal


def minimise(dual: Dual, theta: Floats, max_iterations: int, tolerance: float) -> Solution:
    """Minimise by L-BFGS (Nocedal and Wright, algorithm 7.4) scaled by the Hessian's diagonal.

    Stops when `Dual.gap` is at most tolerance, after max_iterations steps, or when rounding leaves no
    descent; `Solution.converged` tells which.
    """
    value, gradient = dual(theta)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    iterations = 0
    while dual.gap(gradient) > tolerance and iterations < max_iterations:
        step = -_precondition(gradient, pairs, dual.curvature())
        slope = float(step @ gradient)
        found = _search(dual, theta, value, gradient, step, slope) if slope < 0.0 else None
        if found is None:
            if not pairs:
                break
            pairs.clear()
            value, gradient = dual(theta)
            continue
        length, value, fresh = found
        moved, change = length * step, fresh - gradient
        theta, gradient = theta + moved, fresh
        bent = float(moved @ change)
        if bent > 1e-12 * float(np.linalg.norm(moved) * np.linalg.norm(change)):
            pairs.append((moved, change, 1.0 / bent))
        iterations += 1
    gap = dual.gap(gradient)
    return Solution(theta, gap, iterations, dual.evaluations, gap <= tolerance)


def _precondition(gradient: Floats, pairs: deque[tuple[Floats, Floats, float]], curvature: Floats) -> Floats:
    """The two-loop recursion, started from the inverse of the diagonal curvature."""
    q: Floats = gradient.copy()
    weights = []
    for moved, change, inverse in reversed(pairs):
        weight = inverse * float(moved @ q)
        q = q - weight * change
        weights.append(weight)
    q = q / curvature
    if pairs:
        _, change, inverse = pairs[-1]
        q = q / (inverse * float(change @ (change / curvature)))
    for (moved, change, inverse), weight in zip(pairs, reversed(weights), strict=True):
        q = q + (weight - inverse * float(change @ q)) * moved
    return q


def _search(
    dual: Callable[[Floats], tuple[float, Floats]],
    theta: Floats,
    value: float,
    gradient: Floats,
    step: Floats,
    slope: float,
) -> tuple[float, float, Floats] | None:
    """A step length that meets the strong Wolfe conditions (c1 1e-4, c2 0.9), by bracketing and secants.

    Returns the length, the value and the gradient there; None when no length descends.
    """
    low, high, length = 0.0, np.inf, 1.0
    low_slope = slope
    best: tuple[float, float, Floats] | None = None
    slack = 1e-14 * abs(value)
    for _ in range(25):
        trial, fresh = dual(theta + length * step)
        end = float(fresh @ step)
        if not np.isfinite(trial) or trial > value + 1e-4 * length * slope + slack:
            high = length
            length = (
                low + 0.5 * (high - low) if not np.isfinite(trial) else _between(low, high, low_slope, end)
            )
            continue
        best = (length, trial, fresh)
        if abs(end) <= 0.9 * abs(slope):
            return best
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
