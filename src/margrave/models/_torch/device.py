"""Where a fit runs, and PyTorch where that is not the processor's own kernels.

`serial` keeps PyTorch to one thread of the processor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
