"""Ordering: which particle is the lowest, the next and so on, in each direction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from margrave.models.device import Device

__all__ = ["lowest_first"]

DIGIT = 11
"""Bits of a pass: three passes see all 32."""


def lowest_first(device: Device, scores: Any) -> Any:
    """The particles of each direction from the lowest score to the highest, as a tensor of int64.

    On the processor a sort by digits: ten directions of 10,000 particles took 0.8 ms of one core where
    PyTorch's sort took 6.3 ms, and of 100,000 particles 6 ms and 79 ms. Elsewhere the device's own.

    Args:
        device: Where the scores are.
        scores: Finite, of type float32, shape [directions, particles].
    """
    if device.place.type != "cpu":
        return device.torch.argsort(scores, dim=1)
    bits = np.ascontiguousarray(scores.numpy()).view(np.uint32)
    found = np.empty(bits.shape, dtype=np.int64)
    _by_digits(bits, found)
    return device.torch.from_numpy(found)


@njit("void(uint32[:, ::1], int64[:, ::1])", cache=True, nogil=True)
def _by_digits(bits, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Stable orders of rows of floats without NaN, given as their bits.

    Bits of floats above 0 rise with them, those of floats below 0 fall and have the sign bit set: with the
    sign bit turned, and of floats below 0 all others as well, they rise throughout.
    """
    rows, count = bits.shape
    tally = np.empty((3, 2048), np.int64)
    keys, other_keys = np.empty(count, np.uint32), np.empty(count, np.uint32)
    order, other_order = np.empty(count, np.int64), np.empty(count, np.int64)
    low = np.uint32(2047)
    for row in range(rows):
        tally[:] = 0
        for i in range(count):
            own = bits[row, i]
            own ^= np.uint32(0xFFFFFFFF) if own >> np.uint32(31) else np.uint32(0x80000000)
            keys[i], order[i] = own, i
            tally[0, own & low] += 1
            tally[1, (own >> np.uint32(DIGIT)) & low] += 1
            tally[2, own >> np.uint32(2 * DIGIT)] += 1
        for level in range(3):
            below = 0
            for digit in range(2048):
                here = tally[level, digit]
                tally[level, digit] = below
                below += here
            shift = np.uint32(DIGIT * level)
            for i in range(count):
                digit = (keys[i] >> shift) & low
                at = tally[level, digit]
                tally[level, digit] = at + 1
                other_keys[at], other_order[at] = keys[i], order[i]
            keys, other_keys = other_keys, keys
            order, other_order = other_order, order
        found[row] = order
