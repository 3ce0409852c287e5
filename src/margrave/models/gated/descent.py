"""Descent: Adam on a gated mixture's gradients, first over a part of the public rows, at last over all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.public_rows import PublicRows
from margrave.models.gated.objective import Objective, Point, Targets

Singles = NDArray[np.float32]

MOMENTUM, MEMORY, LAST = np.float32(0.9), np.float32(0.9), 0.02
"""How long means and squares of gradients are remembered, and the last step over the first: those of
models/mixture, whose gradients shrink alike."""
SPREAD = 0.5
"""Standard deviation of the starting log-odds of the gate and of log Q around the one-ways."""


def start(rows: PublicRows, targets: Targets, components: int, rng: np.random.Generator) -> Point:
    """Around the measured one-ways, uniform where nothing is known of an attribute."""
    codes = int(targets.starts[-1])
    logs = np.zeros((codes, components), np.float32)
    for first, end in zip(targets.starts[:-1], targets.starts[1:], strict=True):
        part = slice(int(first), int(end))
        base = np.maximum(targets.ones[part], 1e-6 if targets.one_weights[part].any() else 1.0)
        logs[part] = np.log(base / base.sum())[:, None]
    logs += SPREAD * rng.standard_normal(logs.shape, dtype=np.float32)
    width = max(len(rows.names), 1)
    gate = rng.standard_normal((int(rows.starts[-1]), components), dtype=np.float32)
    gate *= SPREAD * 2.0 / np.sqrt(width)
    at = Point(gate, np.zeros(components, np.float32), logs, np.empty_like(logs))
    at.settle(targets.starts)
    return at


class _Moves:
    """The remembered gradients of one array."""

    def __init__(self, array: Singles) -> None:
        self._array = array
        self._mean, self._square = np.zeros_like(array), np.zeros_like(array)

    def step(self, gradient: Singles, length: float, done: int) -> None:
        """Move the array, in place; no entry moves by more than 1."""
        self._mean += (1 - MOMENTUM) * (gradient - self._mean)
        self._square += (1 - MEMORY) * (gradient * gradient - self._square)
        scale = np.float32(length / (1.0 - float(MOMENTUM) ** done))
        bias = np.float32(1.0 / (1.0 - float(MEMORY) ** done))
        move = scale * self._mean / (np.sqrt(self._square * bias) + np.float32(1e-12))
        self._array -= np.clip(move, -1.0, 1.0)


def descend(
    rows: PublicRows,
    targets: Targets,
    at: Point,
    penalties: tuple[float, float],
    steps: int,
    rate: float,
    part: int,
    last: int,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> float:
    """Move `at` down the objective, in place; returns the value at the end, over all rows.

    Args:
        rows: All public rows.
        targets: What was measured.
        at: Start and end.
        penalties: Of a nat between component and private attributes, and between row and component.
        steps: Steps in all.
        rate: First step length, in logarithms.
        part: Distinct rows that early steps look at.
        last: Steps at the end that look at all rows.
        rng: Draws the parts.
        stop: Asked before each step; ends the descent early.
    """
    moves = [_Moves(array) for array in (at.gate, at.bias, at.logs)]
    whole = Objective(rows, targets, *penalties)
    few = whole if len(rows.codes) <= part else Objective(rows.part(part, rng), targets, *penalties)
    for done in range(1, steps + 1):
        if stop():
            break
        objective = whole if done > steps - last else few
        objective(at)
        length = rate * (1.0 - done / steps + LAST)
        for move, gradient in zip(moves, (objective.gate, objective.bias, objective.logs), strict=True):
            move.step(gradient, length, done)
        at.settle(targets.starts)
    return whole(at)
