"""What all exact samplers share: fast kernels in floating point, and exact arithmetic where these are in
doubt.

`draw` runs a kernel over random words until an array is full. A kernel turns 64-bit words into draws and
stops at any draw that floating point cannot settle; `LazyUniform` and the comparisons beside it settle that
one exactly, with more random bits. `HalfTable` draws integers k >= 0 with probability proportional to
exp(-k^2 / (2 s^2)), by inversion.

Each kernel fills `out` from position `filled` on and returns (filled, used, doubtful): how far `out` is
filled, how many words are used up, and whether it stopped at a draw in doubt, whose words begin at
`used` and are not used up yet. It also stops when words run out. Every comparison keeps a margin at least
as large as the proven error of its two sides; the callers settle the rest exactly.
"""

from __future__ import annotations

import decimal
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.noise.source import BitSource

CHUNK = 1 << 14
"""Random words that are asked for at a time: 128 KiB."""
MAX_VARIANCE = 1 << 60
"""The largest and the least variance: draws stay inside int64, and the error bounds of the tables hold."""
MIN_VARIANCE = Fraction(1, 1 << 60)
"""The least variance, as the inverse of the largest."""

Kernel = Callable[[NDArray[np.uint64], NDArray[np.int64], int], tuple[int, int, bool]]
Resolve = Callable[[list[int], BitSource], int | None]


def draw(
    size: int, source: BitSource, words_each: int, kernel: Kernel, resolve: Resolve
) -> NDArray[np.int64]:
    """An array of draws, shape [size].

    Args:
        size: How many.
        source: Where words come from.
        words_each: The most words one try may look at.
        kernel: Called with (words, out, filled); see `kernels`.
        resolve: Settles one doubtful try from its first words, with more from the source; None when
            the try is rejected.
    """
    out = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # A few words more than are needed, since some draws take a second attempt.
        # Bounded, so that a large draw does not hold all its random words at once.
        words = source.words(min((size - filled) * words_each + 16, CHUNK))
        used, enough = 0, True
        while enough and filled < size:
            filled, step, doubtful = kernel(words[used:], out, filled)
            used += step
            # The words that the kernel could not decide are looked at exactly; only they, so that the fast
            # path is not biased by what it leaves out.
            if doubtful:
                settled = resolve([int(word) for word in words[used : used + words_each]], source)
                used += words_each
                if settled is not None:
                    out[filled] = settled
                    filled += 1
            # A try needs all its words at hand, so the rest of a short chunk is left unused.
            enough = used + words_each <= len(words)
    return out


def check_size(size: int) -> int:
    """The number of draws as an int.

    Raises:
        InputError: It is not a whole number of at least 0.
    """
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise InputError(invalid("size", "a whole number of at least 0", "Pass how many draws.", got=size))
    return int(size)


def check_variance(sigma_squared: Fraction) -> Fraction:
    """The variance as a fraction.

    Raises:
        InputError: It is not an int or Fraction between 2^-60 and 2^60.
    """
    exact = isinstance(sigma_squared, int | Fraction) and not isinstance(sigma_squared, bool)
    if not exact or not MIN_VARIANCE <= sigma_squared <= MAX_VARIANCE:
        remedy = "Floats are not exact: wrap them in Fraction."
        raise InputError(
            invalid("sigma_squared", "an int or Fraction in [2^-60, 2^60]", remedy, got=sigma_squared)
        )
    return Fraction(sigma_squared)


FIRST_BITS = 128
"""Bits at which the exact path begins: twice the word that left the draw in doubt."""


class LazyUniform:
    """A real number, uniform on [0, 1), of which only the bits asked for have been drawn.

    It lies in [value, value + 1] / 2^bits.

    Args:
        value: The bits drawn so far, as an integer.
        bits: How many.
        source: Where further bits come from.
    """

    __slots__ = ("_source", "bits", "value")

    def __init__(self, value: int, bits: int, source: BitSource) -> None:
        self.value, self.bits, self._source = value, bits, source

    def extend(self, bits: int) -> int:
        """The value after drawing until at least `bits` bits are known."""
        while self.bits < bits:
            self.value = self.value << 64 | int(self._source.words(1)[0])
            self.bits += 64
        return self.value


@dataclass(frozen=True, slots=True)
class Cumulated:
    """Bounds on the partial sums of weights, in units of 2^-bits.

    Args:
        low: At most the sum of the first k + 1 weights, for each k.
        high: At least that sum.
        total_low: At most the sum of all weights, those not listed included.
        total_high: At least that sum.
    """

    low: list[int]
    high: list[int]
    total_low: int
    total_high: int


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers with low <= 2^bits exp(-x) <= high, at most 3 apart, for x >= 0.

    `decimal` rounds division and exp correctly. With p digits the quotient is off by x 10^(1-p) at
    most, exp(-x) by (x + 1) 10^(1-p) relatively, and x <= bits here; p is chosen so that 2^bits times
    that is below 10^-9.
    """
    if x > bits:  # exp(-x) < 2^-bits
        return 0, 1
    context = decimal.Context(prec=bits // 3 + 30, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    quotient = context.divide(decimal.Decimal(-x.numerator), decimal.Decimal(x.denominator))
    scaled = context.multiply(context.exp(quotient), decimal.Decimal(1 << bits))
    low = int(scaled)
    return max(low - 1, 0), low + 2


def accept(uniform: LazyUniform, bounds: Callable[[int], tuple[int, int]]) -> bool:
    """Whether the uniform lies below a number p, drawing as many bits as that takes.

    Args:
        uniform: The uniform.
        bounds: Given bits, integers with low <= 2^bits p <= high, ever closer as bits grow.
    """
    bits = max(FIRST_BITS, uniform.bits)
    while True:
        value = uniform.extend(bits)
        bits = uniform.bits
        low, high = bounds(bits)
        if value + 1 <= low:
            return True
        if value >= high:
            return False
        bits *= 2


def invert(uniform: LazyUniform, cumulate: Callable[[int], Cumulated]) -> int:
    """The k with C(k-1) <= uniform * total < C(k), C the partial sums, drawing as many bits as that takes.

    Args:
        uniform: The uniform.
        cumulate: Given bits, bounds on the partial sums; with more bits, closer and further.
    """
    bits = FIRST_BITS
    while True:
        value = uniform.extend(bits)
        sums = cumulate(bits)
        # The smallest k whose lower bound on C(k) reaches the uniform's upper end is certain from above.
        upper = -(-(value + 1) * sums.total_high >> uniform.bits)  # rounded up
        k = bisect_left(sums.low, upper)
        # It must also be certain that the uniform's lower end has passed C(k - 1).
        below = sums.high[k - 1] << uniform.bits if k else 0
        if k < len(sums.low) and value * sums.total_low >= below:
            return k
        bits *= 2


UNIT = 62
"""A table's boundaries are integers in units of 2^-62."""
SLACK = 1 << (UNIT - 46)
"""Bound on the error of a boundary, in these units, twice over: see `half_table`."""


@dataclass(frozen=True, slots=True, eq=False)
class HalfTable:
    """A table of the distribution function and a guide into it.

    Args:
        squared: s^2.
        halved: Whether 0 has half its weight, so that a random sign makes it the discrete Gaussian.
        bounds: P(k <= j) * 2^62 to within `SLACK`, for each j but the far tail, shape [cells].
        guide: For each value of the top bits, the first cell whose boundary is above it, [2^bits + 1].
        shift: How far to shift a 62-bit uniform to get its top bits.
    """

    squared: Fraction
    halved: bool
    bounds: NDArray[np.int64]
    guide: NDArray[np.int32]
    shift: int

    def resolve(self, value: int, source: BitSource, slack: int) -> int:
        """The k that a uniform with these first 62 bits falls on, settled exactly near a boundary."""
        k = int(np.searchsorted(self.bounds, value, side="right"))
        # Away from both boundaries by more than their error the table has decided.
        clear = k < len(self.bounds) and int(self.bounds[k]) - value > slack
        if clear and (k == 0 or value - int(self.bounds[k - 1]) >= slack):
            return k
        uniform = LazyUniform(value, UNIT, source)
        return invert(uniform, lambda bits: _cumulate_weights(self.squared, self.halved, bits))


@lru_cache(maxsize=64)
def half_table(squared: Fraction, halved: bool) -> HalfTable:
    """The table for a variance of at most 2^20.

    Error of a boundary, in units of the total mass, at K <= 2^13.3 cells. Weights: the exponent
    x = k^2 / (2 s^2) is off by x 2^-52, exp by 4 ulp at most (NumPy promises less), so a weight w by
    w (x 2^-52 + 2^-50); summed, in numerator and denominator together, below 2^-49. Weights are rounded to
    multiples of 2^-62 of a power of two within twice the total, and then summed exactly in integers:
    K 2^-61 < 2^-47.7. The scaling to 62 bits costs 2^-51. The cut tail, beyond 9.2 s, is below 2^-64.
    Together below 2^-47, under half of `SLACK`.
    """
    deviation = math.sqrt(float(squared))
    # Beyond 9.2 standard deviations less than 2^-64 is left: the error bound of docs/privacy/noise.md
    # counts it.
    cells = int(9.2 * deviation) + 3
    weights = np.exp(np.square(np.arange(cells, dtype=np.float64)) * (-1.0 / (2.0 * float(squared))))
    if halved:
        weights[0] = 0.5
    # Sums of whole numbers are exact in any order; by this power of two they stay below 2^62.
    power = 62 - math.frexp(float(weights.sum()))[1]
    sums = np.cumsum(np.rint(np.ldexp(weights, power)).astype(np.int64))
    scaled = np.minimum(sums * (2.0**UNIT / float(sums[-1])), 2.0**UNIT)
    bounds = scaled.astype(np.int64)
    # The guide says where to begin the search for a number by its first bits, so most searches take one
    # step.
    bits = min(max(math.ceil(math.log2(cells)) + 1, 6), 15)
    starts = np.arange((1 << bits) + 1, dtype=np.int64) << (UNIT - bits)
    guide = np.minimum(np.searchsorted(bounds, starts, side="right"), cells - 1).astype(np.int32)
    return HalfTable(squared, halved, bounds, guide, UNIT - bits)


@lru_cache(maxsize=8)
def _cumulate_weights(squared: Fraction, halved: bool, bits: int) -> Cumulated:
    """Partial sums of the weights with rigorous bounds, down to weights of 2^-bits.

    The cells left out from K on sum to at most w(K) / (1 - exp(-K / s^2)) <= w(K) (1 + s^2 / K).
    """
    factor = 2 if halved else 1
    low, high = [1 << bits], [1 << bits]
    k = 0
    # Weights fall with k, so the first one that rounds to nothing ends the list; the tail is bounded below.
    while high[-1] > factor or k == 0:
        k += 1
        below, above = exp_bounds(Fraction(k * k) / (2 * squared), bits)
        low.append(factor * below)
        high.append(factor * above)
    sums_low, sums_high = list(accumulate(low)), list(accumulate(high))
    tail = factor * math.ceil(1 + squared / (k + 1))
    return Cumulated(sums_low, sums_high, sums_low[-1], sums_high[-1] + tail)


Loop = TypeVar("Loop", bound=Callable[..., Any])
Words = NDArray[np.uint64]
Ints = NDArray[np.int64]
State = tuple[int, int, bool]


def _compile_kernel(kernel: Loop) -> Loop:
    # Compiled without `fastmath`: the error bounds count each operation in the order that is written.
    return cast(Loop, njit(cache=True, nogil=True)(kernel))


@_compile_kernel
def _find(bounds: Ints, guide: NDArray[np.int32], shift: int, slack: int, value: int) -> int:
    """The first cell whose boundary is above value, or -1 where a boundary is within slack of it."""
    top = value >> shift
    # The guide narrows the search to the cells that share the value's first bits.
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


@_compile_kernel
def _floor(z: float, error: float) -> int:
    """The floor of a number known to within error, at least 0; or -1 where that is in doubt."""
    whole = np.floor(z)
    if z - whole <= error or whole + 1.0 - z <= error:
        return -1
    return int(whole)


@_compile_kernel
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


@_compile_kernel
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
        # The block by inversion; -1 where its boundary is too near to be sure, and exact arithmetic decides.
        block = _find(bounds, guide, shift, slack, np.int64(word >> np.uint64(2)))
        if block < 0:
            return filled, used, True
        offset = np.float64(second & mask)
        start = block * width
        # Accepted if this is above 0; within `margin` the rounding of exp could decide, so exact arithmetic
        # does.
        gap = np.exp(-(2.0 * start + offset) * offset * rate) - np.float64(second >> np.uint64(24)) * 2.0**-40
        if abs(gap) <= margin:
            return filled, used, True
        used += 2
        # One of the two zeros is refused, or 0 would be twice as likely.
        negative = bool(word & np.uint64(1))
        if gap > 0.0 and not (negative and start + offset == 0.0):
            k = np.int64(start + offset)
            out[filled] = -k if negative else k
            filled += 1
    return filled, used, False


@_compile_kernel
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
        # Fourteen bits of the uniform decide most tries; the third word is read only where they do not.
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
        # Adding a half and taking the floor rounds to the nearest whole number.
        z = sigma * ((b + t) * 2.0**-10) + 0.5
        k = _floor(z, (z + 1.0) * margin + sigma * 2.0**-58)
        if k < 0:
            return filled, used, True
        out[filled] = -k if word & np.uint64(1) else k
        filled, used = filled + 1, used + taken
    return filled, used, False
