"""LazyUniform and the exact comparisons that settle a draw when floating point cannot."""

from __future__ import annotations

import decimal
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from margrave.privacy.noise.source import BitSource

__all__ = ["Cumulated", "LazyUniform", "accept", "exp_bounds", "invert"]

FIRST_BITS = 128


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
        upper = -(-(value + 1) * sums.total_high >> uniform.bits)  # rounded up
        k = bisect_left(sums.low, upper)
        below = sums.high[k - 1] << uniform.bits if k else 0
        if k < len(sums.low) and value * sums.total_low >= below:
            return k
        bits *= 2
