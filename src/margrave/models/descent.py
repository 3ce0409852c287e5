"""Descent: L-BFGS with a scaled start and backtracking, for smooth functions that are strictly convex."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Convex", "lowest"]

Floats = NDArray[np.float64]

MEMORY = 12
"""Steps and changes of the gradient that are remembered."""
LOOKS = (0, 5, 25)
"""Steps before which the function may look at its Hessian."""


class Convex(Protocol):
    """What is minimised, and what its optimiser needs to know about it."""

    def __call__(self, at: Floats) -> tuple[float, Floats]:
        """The value and the gradient."""

    def bend(self, at: Floats) -> None:
        """Look at the Hessian at a point; asked before steps in LOOKS."""

    def solved(self, vector: Floats) -> Floats:
        """About the inverse of the Hessian times a vector, shape of vector."""

    def gap(self, gradient: Floats) -> float:
        """How far from the minimum a gradient is, in the terms of the tolerance."""


def lowest(function: Convex, at: Floats, tolerance: float, most: int) -> tuple[Floats, float, int]:
    """Minimise by L-BFGS (Nocedal and Wright 2006, algorithm 7.4), around the function's own Hessian.

    Convexity makes every step usable for the next ones, so lengths need only descend enough.

    Args:
        function: Smooth and strictly convex.
        at: Where to start, shape [parameters].
        tolerance: The gap at which to stop.
        most: Steps after which to stop.

    Returns:
        Where it stopped, the gap there, and the number of steps.
    """
    value, gradient = function(at)
    steps: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    taken = 0
    while function.gap(gradient) > tolerance and taken < most:
        if taken in LOOKS:
            function.bend(at)
        step = _direction(gradient, steps, function)
        found = _search(function, at, value, gradient, step)
        if found is None and not steps:
            break
        if found is None:
            steps.clear()
            continue
        length, value, fresh = found
        moved, changed = length * step, fresh - gradient
        bent = float(moved @ changed)
        if bent > 1e-14 * float(np.linalg.norm(moved) * np.linalg.norm(changed)):
            steps.append((moved, changed, bent))
        at, gradient, taken = at + moved, fresh, taken + 1
    return at, function.gap(gradient), taken


def _direction(gradient: Floats, steps: deque[tuple[Floats, Floats, float]], function: Convex) -> Floats:
    """Minus the approximate inverse Hessian times the gradient, by the two loops."""
    q = -gradient
    weights = []
    for moved, changed, bent in reversed(steps):
        weights.append(float(moved @ q) / bent)
        q -= weights[-1] * changed
    scale = 1.0
    if steps:
        _, changed, bent = steps[-1]
        scale = bent / float(changed @ function.solved(changed))
    q = scale * function.solved(q)
    for (moved, changed, bent), weight in zip(steps, reversed(weights), strict=True):
        q += (weight - float(changed @ q) / bent) * moved
    return q


def _search(
    function: Convex, at: Floats, value: float, gradient: Floats, step: Floats
) -> tuple[float, float, Floats] | None:
    """A length that lowers the value enough (Armijo), with the value and the gradient there, if any does.

    Where rounding hides by how much the value falls, a slope that has become flatter will do.
    """
    slope = float(step @ gradient)
    if slope >= 0.0:
        return None
    length, slack = 1.0, 1e-12 * abs(value)
    for _ in range(30):
        trial, fresh = function(at + length * step)
        end = float(fresh @ step)
        if trial <= value + 1e-4 * length * slope or (trial <= value + slack and abs(end) <= -0.9 * slope):
            return length, trial, fresh
        # Where the line between the slopes at both ends is zero.
        share = slope / (slope - end) if np.isfinite(end) and end > slope else 0.1
        length *= min(max(share, 0.1), 0.7)
    return None
