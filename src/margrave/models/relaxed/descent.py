"""Descent: Adam until the loss stands still, with steeper sigmoids and smaller steps on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from margrave.models.device import Device

__all__ = ["Plan", "descend"]

LOOK = 25
"""Steps between two looks at the loss: each look waits for the device."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to go down.

    Args:
        steps: Most steps of one pass.
        rates: Adam's step length of each tensor in the first pass; half of it in the next, and so on.
        passes: How often to start anew from the best so far.
        steepness: Of sigmoids, at the start of each pass.
        doublings: How often the steepness doubles in a pass.
        tolerance: The loss stands still when LOOK steps lower it by less than this part.
    """

    steps: int
    rates: tuple[float, ...]
    passes: int
    steepness: float
    doublings: int
    tolerance: float


def descend(
    device: Device,
    parts: Sequence[Any],
    loss: Callable[[Sequence[Any], float], Any],
    plan: Plan,
    *,
    settle: Callable[[Sequence[Any]], None] = lambda parts: None,
    exact: Callable[[Sequence[Any]], float] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Any]:
    """Tensors with less loss, the best that were seen.

    Args:
        device: Where to compute.
        parts: Where to start; not changed.
        loss: Of the tensors at a steepness, a scalar tensor.
        plan: How to go down.
        settle: Brings tensors back to where they may be, in place, after each step.
        exact: What "best" means; the loss at the last steepness of a pass when None.
        stop: Whether to end at once.
    """
    best, least = [part.detach().clone() for part in parts], math.inf
    for turn in range(plan.passes):
        at = [part.clone().requires_grad_() for part in best]
        groups = [{"params": [part], "lr": r * 0.5**turn} for part, r in zip(at, plan.rates, strict=True)]
        adam, steepness = device.torch.optim.Adam(groups), plan.steepness
        left = plan.steps
        for level in range(plan.doublings + 1):
            share = math.ceil(left / (plan.doublings + 1 - level))
            taken, value = _level(device, at, adam, loss, steepness, share, plan, settle, stop)
            left -= taken
            here = value if exact is None else exact([part.detach() for part in at])
            if here < least and (exact is not None or level == plan.doublings or stop()):
                best, least = [part.detach().clone() for part in at], here
            steepness *= 2.0
        if stop():
            break
    return best


def _level(
    device: Device,
    at: Sequence[Any],
    adam: Any,
    loss: Callable[[Sequence[Any], float], Any],
    steepness: float,
    most: int,
    plan: Plan,
    settle: Callable[[Sequence[Any]], None],
    stop: Callable[[], bool],
) -> tuple[int, float]:
    """At most `most` steps at one steepness, until the loss stands still; steps taken, and the loss."""
    before, taken = math.inf, 0
    while taken < most and not stop():
        for _ in range(min(LOOK, most - taken)):
            adam.zero_grad()
            loss(at, steepness).backward()
            adam.step()
            with device.torch.no_grad():
                settle(at)
        taken += LOOK
        with device.torch.no_grad():
            now = float(loss(at, steepness))
        if not now < before * (1.0 - plan.tolerance):
            break
        before = now
    with device.torch.no_grad():
        return min(taken, most), float(loss(at, steepness))
