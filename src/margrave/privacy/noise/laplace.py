"""The discrete Laplace distribution, drawn exactly."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.noise.sampling import LazyUniform, check_size, draw, laplace_draws
from margrave.privacy.noise.source import BitSource

MARGIN = 2.0**-48
"""Relative error of the logarithm and the product up to which exact arithmetic decides; see
docs/privacy/noise.md."""
MAX_SCALE = 1 << 40
"""The largest and the least scale: draws stay far inside int64."""
MIN_SCALE = Fraction(1, 1 << 40)
"""The least scale, as the inverse of the largest."""


def discrete_laplace(scale: Fraction, size: int, source: BitSource) -> NDArray[np.int64]:
    """Integers k with probability exactly proportional to exp(-|k| / scale).

    The floor of scale * -ln(U), U uniform on [0, 1), is at least m with probability exp(-m / scale), hence
    m itself in proportion to that; a random sign follows, with -0 drawn again.

    Args:
        scale: In (0, 2^40].
        size: How many draws.
        source: Where random bits come from.

    Returns:
        The draws, shape [size].

    Raises:
        InputError: scale or size is out of range.
    """
    exact = isinstance(scale, int | Fraction) and not isinstance(scale, bool)
    if not exact or not MIN_SCALE <= scale <= MAX_SCALE:
        remedy = "Floats are not exact: wrap them in Fraction."
        raise InputError(invalid("scale", "an int or Fraction in [2^-40, 2^40]", remedy, got=scale))
    return _draws(Fraction(scale), check_size(size), source, MARGIN)


def _draws(scale: Fraction, size: int, source: BitSource, margin: float) -> NDArray[np.int64]:
    """`discrete_laplace` with the margin given: a wider one sends more draws down the exact path."""
    return draw(
        size,
        source,
        1,
        lambda words, out, filled: laplace_draws(words, out, filled, float(scale), margin),
        lambda words, source: _settle(words, source, scale),
    )


def _settle(words: list[int], source: BitSource, scale: Fraction) -> int | None:
    """The draw whose word this is, exactly; None when it is a negative zero."""
    uniform = LazyUniform(words[0] >> 2, 62, source)
    # About twice the word's bits to begin with, doubled while both ends disagree.
    bits = 128
    # The uniform number lies between two ends; once both give the same integer, no further bit can change
    # it.
    while True:
        value = uniform.extend(bits)
        if value:
            low = _floor(scale, value + 1, uniform.bits, -1)
            if low == _floor(scale, value, uniform.bits, 1):
                break
        bits *= 2
    # Zero would come with either sign, so one of the two is drawn again.
    if words[0] & 1:
        return -low if low else None
    return low


def _floor(scale: Fraction, value: int, bits: int, side: int) -> int:
    """The floor of a bound below (side -1) or above (+1) on scale * -ln(value / 2^bits).

    `decimal` rounds the quotient and ln correctly: with p digits -ln is off by less than
    10^(1-p) (2 + |ln|), and |ln| < bits.
    """
    # As many decimal digits as the bits hold, and forty more for ln and the product.
    digits = bits // 3 + 40
    context = decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    log = -context.ln(context.divide(decimal.Decimal(value), decimal.Decimal(1 << bits)))
    error = Fraction(side * (bits + 2) * 10, 10**digits)
    return max(math.floor(scale * (Fraction(log) + error)), 0)
