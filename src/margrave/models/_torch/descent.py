"""Adam until the loss stands still, with steeper sigmoids and smaller steps on the way.

`Adam` takes the steps of the optimiser of that name, in a few operations a tensor.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from margrave.models._torch.device import Device

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


LOOK = 25
"""Steps between two looks at the loss: each look waits for the device."""
STEP_DECAY = 0.25
"""A pass's step lengths, as part of those of the pass before."""
MIN_LOSS = 1e-9
"""Added to the loss before its logarithm is taken."""


Losses = Callable[[Sequence[Any], float], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to go down.

    Args:
        steps: Most steps of one pass.
        rates: Adam's step length of each tensor in the first pass.
        passes: How often to start anew from the best so far.
        steepness: Of sigmoids, at the start of each pass.
        doublings: How often the steepness doubles in a pass.
        tolerance: The loss stands still when LOOK steps lower it by less than this part.
        floor: The descent ends as soon as the first loss is no larger, whatever the steepness then.
    """

    steps: int
    rates: tuple[float, ...]
    passes: int
    steepness: float
    doublings: int
    tolerance: float
    floor: float


def descend(
    device: Device,
    parts: Sequence[Any],
    losses: Losses,
    plan: Plan,
    *,
    settle: Callable[[Sequence[Any]], None] = lambda parts: None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[Any], float]:
    """Tensors with less loss, the best of all passes, and the steepness that they are for.

    Args:
        device: Where to compute.
        parts: Where to start; not changed.
        losses: Of the tensors at a steepness, scalar tensors; their sum goes down, and the first is what has
            to reach the floor.
        plan: How to go down.
        settle: Brings tensors back to where they may be, in place, after each step.
        stop: Whether to end at once.
    """
    best, least, found = [part.detach().clone() for part in parts], math.inf, plan.steepness
    # Each pass starts from the best so far with shorter steps, a fresh Adam and gentle sigmoids.
    for turn in range(plan.passes):
        at = [part.clone().requires_grad_() for part in best]
        adam, rates = Adam([part.detach() for part in at]), [rate * STEP_DECAY**turn for rate in plan.rates]
        steepness = plan.steepness
        left = plan.steps
        for level in range(plan.doublings + 1):
            # What is left of the steps is shared out evenly over the levels of steepness that are still to
            # come.
            share = math.ceil(left / (plan.doublings + 1 - level))
            taken, value, over = _level(device, at, adam, rates, losses, steepness, share, plan, settle, stop)
            left -= taken
            over = over or stop()
            if over or level == plan.doublings:
                break
            steepness *= 2.0
        # Losses of different passes compare: all are of the last, steepest sigmoids unless the descent was
        # ended.
        if value < least:
            best, least, found = [part.detach().clone() for part in at], value, steepness
        if over:
            break
    return best, found


def _level(
    device: Device,
    at: Sequence[Any],
    adam: Adam,
    rates: Sequence[float],
    losses: Losses,
    steepness: float,
    most: int,
    plan: Plan,
    settle: Callable[[Sequence[Any]], None],
    stop: Callable[[], bool],
) -> tuple[int, float, bool]:
    """At most `most` steps at one steepness, until the loss stands still.

    Returns steps taken, the loss at the last one and whether the floor was reached.

    Steps go down the loss's logarithm: it has the same lowest point, and gradients that stay of one size
    while the loss falls by orders of magnitude. Adam divides by a mean of squares that remembers the first
    gradients for long, so that steps down the loss itself are soon far too short.
    """
    before, taken = math.inf, 0
    while True:
        parts = losses(at, steepness)
        whole, over = reduce(operator.add, parts), float(parts[0].detach()) <= plan.floor
        ends = over or taken >= most or stop()
        if ends or taken % LOOK == 0:
            now = float(whole.detach())
            if ends or not now < before * (1.0 - plan.tolerance):
                return taken, now, over
            before = now
        adam.step(device.torch.autograd.grad((whole + MIN_LOSS).log(), at), rates)
        taken += 1
        with device.torch.no_grad():
            settle(at)
