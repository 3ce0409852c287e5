"""Optimise: Adam on natural gradients of the logarithms, with a step that falls to nearly nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.mixture.objective import Objective, Point

__all__ = ["Descent", "descend"]

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

MOMENTUM, MEMORY = 0.9, 0.9
"""How long the mean and the mean square of gradients are remembered. Squares are forgotten as quickly as the
mean: gradients shrink by orders of magnitude on the way, and a long memory stalls (0.999, the usual value,
needs five times the steps)."""
LAST = 0.02
"""The last step's length over the first one's."""


@dataclass(frozen=True, slots=True)
class Descent:
    """How an optimisation went.

    Args:
        value: The objective at the end.
        gap: Mean absolute natural gradient under the model over the price of a nat: how far, relative to what
            dependence costs, the codes' prices are from being in balance.
        steps: Steps taken.
    """

    value: float
    gap: float
    steps: int


def descend(
    objective: Objective,
    at: Point,
    steps: int,
    rate: float,
    stop: Callable[[], bool] = lambda: False,
) -> Descent:
    """Move `at` down the objective, in place.

    Args:
        objective: What is minimised.
        at: Start and end.
        steps: How many steps the falling step length is planned for.
        rate: First step length, in logarithms.
        stop: Asked before each step; ends the descent early.
    """
    starts = objective.stacked.starts
    moves, inner = _Moves(at), [[_Moves(part) for part in nest.points] for nest in objective.nests]
    slope, bend = np.zeros_like(at.weigh), np.zeros_like(at.weigh)
    done = 0
    while done < steps and not stop():
        done += 1
        _, by_weight = objective(at)
        objective.centre()
        length = rate * (1.0 - done / steps + LAST)
        early, young = 1.0 - MOMENTUM**done, 1.0 - MEMORY**done
        scale, bias = np.float32(length / early), np.float32(1.0 / young)
        moves.step(objective.gradient, scale, bias)
        for nest, own in zip(objective.nests, inner, strict=True):
            for move, gradient in zip(own, nest.slopes, strict=True):
                move.step(gradient, scale, bias)
            nest.settle()
        pull = at.weights * (by_weight - float(at.weights @ by_weight))
        slope += (1.0 - MOMENTUM) * (pull - slope)
        bend += (1.0 - MEMORY) * (pull * pull - bend)
        at.weigh -= length / early * slope / (np.sqrt(bend / young) + 1e-12)
        at.settle(starts)
    value, _ = objective(at)
    objective.centre()
    return Descent(value, _gap(objective, at), done)


class _Moves:
    """The remembered gradients of one table of logarithms."""

    def __init__(self, at: Point) -> None:
        self._logs = at.logs
        self._mean, self._square = np.zeros_like(at.logs), np.zeros_like(at.logs)

    def step(self, gradient: Singles, scale: np.float32, bias: np.float32) -> None:
        """Move the logarithms, in place."""
        _advance(self._logs, gradient, self._mean, self._square, scale, bias)


def _gap(objective: Objective, at: Point) -> float:
    """Mean over attributes, and nests' atoms, of E|natural gradient|, over the price of a nat."""
    moved = float(np.abs(objective.gradient * objective.shares).sum(axis=0, dtype=np.float64) @ at.weights)
    moved += sum(nest.moved(at.weights) for nest in objective.nests)
    places = objective.stacked.attributes + len(objective.nests)
    return moved / max(places, 1) / max(float(objective.information), 1e-30)


@compiled
def _advance(
    logs: Singles,
    gradient: Singles,
    mean: Singles,
    square: Singles,
    scale: np.float32,
    bias: np.float32,
) -> None:
    """One step; no logarithm moves by more than 1."""
    part, kept = np.float32(1.0 - 0.9), np.float32(1.0 - 0.9)
    one = np.float32(1.0)
    for c in range(logs.shape[0]):
        for k in range(logs.shape[1]):
            g = gradient[c, k]
            mean[c, k] += part * (g - mean[c, k])
            square[c, k] += kept * (g * g - square[c, k])
            step = scale * mean[c, k] / (np.sqrt(square[c, k] * bias) + np.float32(1e-12))
            logs[c, k] -= min(max(step, -one), one)
