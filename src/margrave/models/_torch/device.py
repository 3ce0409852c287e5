"""Where a fit runs, PyTorch where that is not the processor's own kernels, and the descent that fits share.

`serial` keeps PyTorch to one thread of the processor. `Adam` takes the steps of the optimiser of that name,
in a few operations a tensor; `descend` takes them until the loss stands still, with steeper sigmoids and
smaller steps on the way.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, MissingExtraError, invalid

NAMES = re.compile(r"torch-cpu|mps|cuda(:\d{1,3})?")
"""Devices that need PyTorch; torch-cpu runs the same code on the processor."""

SHARE = 0.8
"""Part of a device's memory that a fit may plan to use."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of PyTorch.

    Args:
        torch: The library.
        place: The device, as the library names it.
    """

    torch: Any
    place: Any

    @property
    def double(self) -> bool:
        """Whether it computes in double precision; Apple's do not."""
        return bool(self.place.type != "mps")

    @property
    def wide(self) -> Any:
        """Its most precise type."""
        return self.torch.float64 if self.double else self.torch.float32

    @property
    def memory(self) -> int | None:
        """Bytes that a fit may plan to use; None where the program's own memory is what counts."""
        if self.place.type != "cuda":
            return None
        return int(SHARE * self.torch.cuda.get_device_properties(self.place).total_memory)

    def put(self, array: NDArray[Any], dtype: Any) -> Any:
        """A copy of an array on the device."""
        # Converted here first: not every device takes the type that an array comes in.
        made = self.torch.tensor(np.ascontiguousarray(array), dtype=dtype, device="cpu")
        return made.to(self.place)


def open_device(device: str | None) -> Device | None:
    """The device of this name; None for the compiled kernels, "cpu" or None.

    Raises:
        InputError: There is no such device.
        MissingExtraError: It needs PyTorch, which is not installed.
    """
    if device is None or device == "cpu":
        return None
    if not NAMES.fullmatch(device):
        names = "cpu, cuda, cuda:N, mps or torch-cpu"
        raise InputError(invalid("device", names, "Leave it out for the processor.", got=device))
    torch = _torch()
    kind, _, number = device.removeprefix("torch-").partition(":")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}[kind]
    if not there or (number and int(number) >= torch.cuda.device_count()):
        remedy = "Leave it out for the processor, or install a build of torch for this machine."
        raise InputError(invalid("device", "one that torch finds on this machine", remedy, got=device))
    return Device(torch, torch.device(kind, int(number) if number else None))


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError:
        raise MissingExtraError(
            invalid("torch", "installed to compute on this device", "Run: pip install 'margrave[gpu]'")
        ) from None


def ready(device: str | None) -> Device:
    """The device of this name for a fitter that always needs PyTorch: the processor for "cpu" or None.

    Raises:
        InputError: There is no such device.
        MissingExtraError: PyTorch is not installed.
    """
    found = open_device("torch-cpu" if device in (None, "cpu") else device)
    if found is None:
        raise AssertionError("only cpu has no device")
    return found


@contextmanager
def serial(device: Device) -> Iterator[None]:
    """One thread inside the block, and as many as before afterwards.

    Threads that wait for each other spin: where another process keeps one core of two busy, a projection took
    130 s with two threads and 18 s with one. Sums have one order, too.
    """
    before = device.torch.get_num_threads()
    device.torch.set_num_threads(1)
    try:
        yield
    finally:
        device.torch.set_num_threads(before)


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
