"""Serial: PyTorch on one thread of the processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from margrave.models.device import Device, opened

__all__ = ["ready", "serial"]


def ready(device: str | None) -> Device:
    """The device of this name for a fitter that always needs PyTorch: the processor for "cpu" or None.

    Raises:
        InputError: There is no such device.
        MissingExtraError: PyTorch is not installed.
    """
    found = opened("torch-cpu" if device in (None, "cpu") else device)
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
