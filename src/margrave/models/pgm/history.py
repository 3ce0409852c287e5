"""History: what L-BFGS remembers, and vector work in as few passes over memory as it takes.

Sums run in one thread and one order: they are the same on any number of cores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import summing

__all__ = ["MEMORY", "History", "ahead", "bent", "dot", "largest", "pulled"]

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
        k = self.count % MEMORY
        bending = _remembered(self._moved[k], self._changed[k], length, step, fresh, gradient)
        if bending > 0.0:
            self._inverse[k] = 1.0 / bending
            self.count += 1

    def direction(self, gradient: Floats, curvature: Floats) -> Floats:
        """Minus the approximate inverse Hessian times the gradient."""
        step = np.empty(len(gradient))
        _two_loops(step, gradient, self._moved, self._changed, self._inverse, self.count, curvature)
        return step


@summing
def _remembered(
    moved: Singles, changed: Singles, length: float, step: Floats, fresh: Floats, gradient: Floats
) -> float:
    """Fill in one step and gradient change; return their product, 0 if it is not clearly above 0."""
    product, far, wide = 0.0, 0.0, 0.0
    for i in range(len(step)):
        s, y = np.float32(length * step[i]), np.float32(fresh[i] - gradient[i])
        moved[i], changed[i] = s, y
        product += np.float64(s) * np.float64(y)
        far += np.float64(s) * np.float64(s)
        wide += np.float64(y) * np.float64(y)
    return product if product > 1e-12 * np.sqrt(far) * np.sqrt(wide) else 0.0


@summing
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
    scale = 1.0 / (inverse[newest] * bends)
    for back in range(held):
        k = (count - 1 - back) % MEMORY
        weights[back] = inverse[k] * total
        if back < held - 1:
            total = _stepped(q, -weights[back], changed[k], moved[(k - 1) % MEMORY])
        else:
            total = _scaled(q, -weights[back], changed[k], scale, curvature)
    for back in range(held - 1, -1, -1):
        k = (count - 1 - back) % MEMORY
        weight = weights[back] - inverse[k] * total
        total = _stepped(q, weight, moved[k], changed[(k + 1) % MEMORY])


@summing
def _stepped(q: Floats, weight: float, along: Singles, onto: Singles) -> float:
    """Add a multiple of one vector to q and return the product with another."""
    total = 0.0
    for i in range(len(q)):
        q[i] += weight * along[i]
        total += q[i] * onto[i]
    return total


@summing
def _scaled(q: Floats, weight: float, along: Singles, scale: float, curvature: Floats) -> float:
    """Add a multiple of a vector to q, divide by the scaled curvature; return the product with the vector."""
    total = 0.0
    for i in range(len(q)):
        q[i] = (q[i] + weight * along[i]) * (scale / curvature[i])
        total += q[i] * along[i]
    return total


@summing
def dot(a: Floats, b: Floats) -> float:
    """The product of two vectors."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@summing
def ahead(theta: Floats, length: float, step: Floats) -> Floats:
    """theta + length * step."""
    found = np.empty(len(theta))
    for i in range(len(theta)):
        found[i] = theta[i] + length * step[i]
    return found


@summing
def pulled(theta: Floats, target: Floats, ridge: Floats, mu: Floats, gradient: Floats) -> float:
    """Fill gradient with mu - target + ridge * theta; return sum(ridge * theta^2) / 2 - <theta, target>."""
    total = 0.0
    for i in range(len(theta)):
        pull = ridge[i] * theta[i]
        gradient[i] = mu[i] - target[i] + pull
        total += theta[i] * (0.5 * pull - target[i])
    return total


@summing
def bent(mu: Floats, ridge: Floats, gradient: Floats, leap: float) -> Floats:
    """mu (1.02 - mu) + ridge, and minus the gradient over leap where that is above 0."""
    found = np.empty(len(mu))
    for i in range(len(mu)):
        found[i] = mu[i] * (1.02 - mu[i]) + ridge[i] + max(-gradient[i], 0.0) / leap
    return found


@summing
def largest(gradient: Floats, starts: NDArray[np.int64]) -> float:
    """The largest L1 norm of the tables that begin at starts[:-1]."""
    most = 0.0
    for k in range(len(starts) - 1):
        total = 0.0
        for i in range(starts[k], starts[k + 1]):
            total += abs(gradient[i])
        most = max(most, total)
    return most
