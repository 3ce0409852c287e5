"""Adam: steps of the optimiser of that name, in a few operations a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["BETAS", "Adam"]

BETAS = (0.9, 0.99)
"""How much of the gradient's mean and of its mean square is kept in a step."""
SLACK = 1e-8
"""Added to the root of the mean square before it is divided by."""


class Adam:
    """Kingma and Ba 2015, algorithm 1, in place.

    PyTorch's own class loads its compiler with the first step, two seconds of a processor, and takes a dozen
    operations a tensor; parameters that lie in one tensor are cheaper still.

    Args:
        parts: The parameters, which steps change.
        betas: How much of the gradient's mean and of its mean square is kept in a step.
    """

    def __init__(self, parts: Sequence[Any], betas: tuple[float, float] = BETAS) -> None:
        self._parts, self._betas, self._taken = list(parts), betas, 0
        self._means = [part.new_zeros(part.shape) for part in parts]
        self._squares = [part.new_zeros(part.shape) for part in parts]

    def step(self, gradients: Sequence[Any], rates: Sequence[float]) -> None:
        """One step down.

        Args:
            gradients: Of each part, of its shape.
            rates: Step length of each part.
        """
        self._taken += 1
        kept, squared = self._betas
        of_mean, of_square = (1.0 - beta**self._taken for beta in self._betas)
        held = zip(self._parts, self._means, self._squares, gradients, rates, strict=True)
        for part, mean, square, gradient, rate in held:
            mean.lerp_(gradient, 1.0 - kept)
            square.mul_(squared).addcmul_(gradient, gradient, value=1.0 - squared)
            size = square.sqrt().div_(math.sqrt(of_square)).add_(SLACK)
            part.addcdiv_(mean, size, value=-rate / of_mean)
