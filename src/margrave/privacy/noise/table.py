"""HalfTable: integers k >= 0 drawn with probability proportional to exp(-k^2 / (2 s^2)), by inversion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from margrave.privacy.noise.source import BitSource
from margrave.privacy.noise.uniform import Cumulated, LazyUniform, exp_bounds, invert

__all__ = ["UNIT", "HalfTable", "half_table"]

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
        clear = k < len(self.bounds) and int(self.bounds[k]) - value > slack
        if clear and (k == 0 or value - int(self.bounds[k - 1]) >= slack):
            return k
        uniform = LazyUniform(value, UNIT, source)
        return invert(uniform, lambda bits: _cumulated(self.squared, self.halved, bits))


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
    cells = int(9.2 * deviation) + 3
    weights = np.exp(np.square(np.arange(cells, dtype=np.float64)) * (-1.0 / (2.0 * float(squared))))
    if halved:
        weights[0] = 0.5
    power = 62 - math.frexp(float(weights.sum()))[1]
    sums = np.cumsum(np.rint(np.ldexp(weights, power)).astype(np.int64))
    scaled = np.minimum(sums * (2.0**UNIT / float(sums[-1])), 2.0**UNIT)
    bounds = scaled.astype(np.int64)
    bits = min(max(math.ceil(math.log2(cells)) + 1, 6), 15)
    starts = np.arange((1 << bits) + 1, dtype=np.int64) << (UNIT - bits)
    guide = np.minimum(np.searchsorted(bounds, starts, side="right"), cells - 1).astype(np.int32)
    return HalfTable(squared, halved, bounds, guide, UNIT - bits)


@lru_cache(maxsize=8)
def _cumulated(squared: Fraction, halved: bool, bits: int) -> Cumulated:
    """Partial sums of the weights with rigorous bounds, down to weights of 2^-bits.

    The cells left out from K on sum to at most w(K) / (1 - exp(-K / s^2)) <= w(K) (1 + s^2 / K).
    """
    factor = 2 if halved else 1
    low, high = [1 << bits], [1 << bits]
    k = 0
    while high[-1] > factor or k == 0:
        k += 1
        below, above = exp_bounds(Fraction(k * k) / (2 * squared), bits)
        low.append(factor * below)
        high.append(factor * above)
    sums_low, sums_high = list(accumulate(low)), list(accumulate(high))
    tail = factor * math.ceil(1 + squared / (k + 1))
    return Cumulated(sums_low, sums_high, sums_low[-1], sums_high[-1] + tail)
