"""Compiled loops that turn 64-bit words into draws, and stop at any draw that floating point cannot settle.

Each kernel fills `out` from position `filled` on and returns (filled, used, doubtful): how far `out` is
filled, how many words are used up, and whether it stopped at a draw in doubt, whose words begin at
`used` and are not used up yet. It also stops when words run out. Every comparison keeps a margin at least
as large as the proven error of its two sides; the callers settle the rest exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["block_draws", "laplace_draws", "rounded_draws", "table_draws"]

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
State = tuple[int, int, bool]


def _compiled(kernel: Kernel) -> Kernel:
    return cast(Kernel, njit(cache=True, nogil=True)(kernel))


@_compiled
def _find(bounds: Ints, guide: NDArray[np.int32], shift: int, slack: int, value: int) -> int:
    """The first cell whose boundary is above value, or -1 where a boundary is within slack of it."""
    top = value >> shift
    low, high = guide[top], guide[top + 1]
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] > value:
            high = middle
        else:
            low = middle + 1
    if bounds[low] - value <= slack or (low > 0 and value - bounds[low - 1] < slack):
        return -1
    return int(low)


@_compiled
def _floor(z: float, error: float) -> int:
    """The floor of a number known to within error, at least 0; or -1 where that is in doubt."""
    whole = np.floor(z)
    if z - whole <= error or whole + 1.0 - z <= error:
        return -1
    return int(whole)


@_compiled
def table_draws(
    words: Words, out: Ints, filled: int, bounds: Ints, guide: NDArray[np.int32], shift: int, slack: int
) -> State:
    """Signed integers by inversion: one word each, 62 bits to invert and the lowest for the sign."""
    used = 0
    while filled < len(out) and used < len(words):
        word = words[used]
        k = _find(bounds, guide, shift, slack, np.int64(word >> np.uint64(2)))
        if k < 0:
            return filled, used, True
        out[filled] = -k if word & np.uint64(1) else k
        filled += 1
        used += 1
    return filled, used, False


@_compiled
def block_draws(
    words: Words,
    out: Ints,
    filled: int,
    bounds: Ints,
    guide: NDArray[np.int32],
    shift: int,
    slack: int,
    log_width: int,
    rate: float,
    margin: float,
) -> State:
    """Signed integers by block and offset: two words each try.

    Word 1: 62 bits for the block b, the lowest for the sign. Word 2: the low 24 bits hold the offset r
    below 2^log_width, the high 40 the uniform v that accepts when v < exp(-(2 b w r + r^2) rate).
    """
    used = 0
    width = np.float64(1 << log_width)
    mask = np.uint64((1 << log_width) - 1)
    while filled < len(out) and used + 1 < len(words):
        word, second = words[used], words[used + 1]
        block = _find(bounds, guide, shift, slack, np.int64(word >> np.uint64(2)))
        if block < 0:
            return filled, used, True
        offset = np.float64(second & mask)
        start = block * width
        gap = np.exp(-(2.0 * start + offset) * offset * rate) - np.float64(second >> np.uint64(24)) * 2.0**-40
        if abs(gap) <= margin:
            return filled, used, True
        used += 2
        negative = bool(word & np.uint64(1))
        if gap > 0.0 and not (negative and start + offset == 0.0):
            k = np.int64(start + offset)
            out[filled] = -k if negative else k
            filled += 1
    return filled, used, False


@_compiled
def rounded_draws(
    words: Words,
    out: Ints,
    filled: int,
    bounds: Ints,
    guide: NDArray[np.int32],
    shift: int,
    slack: int,
    sigma: float,
    margin: float,
) -> State:
    """Rounded Gaussians: sigma times a standard normal (b + t) / 1024, two or three words each try.

    Word 1: 62 bits for the block b, the lowest for the sign. Word 2: the low 50 bits are t in [0, 1), the
    high 14 begin the uniform v that accepts when v < exp(-(2 b t + t^2) / 2^21), which word 3 continues.
    """
    used = 0
    while filled < len(out) and used + 2 < len(words):
        word, second, taken = words[used], words[used + 1], 2
        block = _find(bounds, guide, shift, slack, np.int64(word >> np.uint64(2)))
        if block < 0:
            return filled, used, True
        b, t = np.float64(block), np.float64(second & np.uint64((1 << 50) - 1)) * 2.0**-50
        high = np.float64(second >> np.uint64(50)) * 2.0**-14
        chance = np.exp(-(2.0 * b + t) * t * 2.0**-21)
        if high + 2.0**-14 > chance - margin:
            taken = 3
            high += np.float64(words[used + 2] >> np.uint64(26)) * 2.0**-52
            if abs(chance - high) <= margin:
                return filled, used, True
            if high > chance:
                used += 3
                continue
        z = sigma * ((b + t) * 2.0**-10) + 0.5
        k = _floor(z, (z + 1.0) * margin + sigma * 2.0**-58)
        if k < 0:
            return filled, used, True
        out[filled] = -k if word & np.uint64(1) else k
        filled, used = filled + 1, used + taken
    return filled, used, False


@_compiled
def laplace_draws(words: Words, out: Ints, filled: int, scale: float, margin: float) -> State:
    """Discrete Laplace draws: the floor of scale * -ln(uniform), one word each try.

    The high 62 bits begin the uniform, the lowest is the sign; a negative zero is drawn again.
    """
    used = 0
    while filled < len(out) and used < len(words):
        word = words[used]
        uniform = np.float64(np.int64(word >> np.uint64(2))) + 0.5
        log = -np.log(uniform * 2.0**-62)
        z = scale * log
        k = _floor(z, scale * (1.0 / uniform + margin) + (z + 1.0) * margin)
        if uniform < 1.0 or k < 0:
            return filled, used, True
        used += 1
        if word & np.uint64(1):
            if k:
                out[filled] = -k
                filled += 1
        else:
            out[filled] = k
            filled += 1
    return filled, used, False
