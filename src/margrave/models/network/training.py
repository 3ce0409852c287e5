"""Training: steps of Adam that grow short like a cosine, weights averaged over their second half."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from margrave.models.network.generator import Generator
from margrave.models.relaxed.adam import Adam

__all__ = ["Training", "trained"]

Sloped = Callable[[Sequence[Any], Sequence[Any]], float]


@dataclass(frozen=True, slots=True)
class Training:
    """How to train.

    Args:
        steps: Most steps.
        rate: Adam's first step length.
        average: The share that one step leaves of the averaged weights, 0 for the last weights alone.
        floor: The loss at which to end.
        betas: Adam's.
        exact: Whether every step's loss is of the same noise and all features, so that losses compare.
    """

    steps: int
    rate: float
    average: float
    floor: float
    betas: tuple[float, float]
    exact: bool = True


def trained(network: Generator, start: Any, sloped: Sloped, pace: Training, stop: Callable[[], bool]) -> Any:
    """Weights after the steps, in one tensor: their average, or those of less loss than it has.

    Where measurements are sharp the loss can leap by a factor of a thousand in the last steps.

    Args:
        network: Whose weights they are.
        start: Weights to go on from, in one tensor; changed.
        sloped: Writes the derivative at weights, of `Generator.shapes`, into tensors alike; returns the loss.
        pace: How to train.
        stop: Whether to end at once.
    """
    weights, mean, best, least = start, None, None, math.inf
    slope = weights.new_empty(weights.shape)
    parts, into, adam = network.parts(weights), network.parts(slope), Adam([weights], pace.betas)
    for step in range(pace.steps):
        if stop() or (loss := sloped(parts, into)) <= pace.floor:
            break
        if mean is not None and pace.exact and loss < least:
            best, least = weights.clone(), loss
        if pace.average and mean is None and step and 2 * step >= pace.steps:
            mean = weights.clone()
        adam.step([slope], [pace.rate * 0.5 * (1.0 + math.cos(math.pi * step / pace.steps))])
        if mean is not None:
            mean.lerp_(weights, 1.0 - pace.average)
    if mean is None:
        return weights
    return mean if best is None or sloped(network.parts(mean), into) <= least else best
