"""The continuous Gaussian rounded to the nearest integer, drawn exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.privacy.noise.sampling import (
    SLACK,
    HalfTable,
    LazyUniform,
    accept,
    check_size,
    check_variance,
    draw,
    exp_bounds,
    half_table,
    rounded_draws,
)
from margrave.privacy.noise.source import BitSource

BLOCKS = 1 << 10
"""Blocks in one standard deviation."""
MARGIN = 2.0**-46
"""Relative error of the float64 draw up to which exact arithmetic decides; see docs/privacy/noise.md."""


def rounded_gaussian(sigma_squared: Fraction, size: int, source: BitSource) -> NDArray[np.int64]:
    """Integers distributed exactly as the nearest integer to a draw from N(0, sigma^2).

    Rounding is post-processing of the continuous Gaussian, so what holds for that (GDP above all) holds
    exactly. A standard normal is (b + t) / 1024 with a random sign: a block b >= 0 drawn by inversion in
    proportion to exp(-b^2 / 2^21), t a real uniform on [0, 1), accepted with probability
    exp(-(2 b t + t^2) / 2^21), so that its density is proportional to exp(-(b + t)^2 / 2^21); compare
    Karney 2016, Algorithm N. Only the bits of t that decide the acceptance and the rounding are
    drawn. One table serves every sigma. docs/privacy/noise.md has the proof.

    Args:
        sigma_squared: The variance of the Gaussian before rounding, in [2^-60, 2^60].
        size: How many draws.
        source: Where random bits come from.

    Returns:
        The draws, shape [size].

    Raises:
        InputError: sigma_squared or size is out of range.
    """
    return _draws(check_variance(sigma_squared), check_size(size), source, SLACK, MARGIN)


def _draws(squared: Fraction, size: int, source: BitSource, slack: int, margin: float) -> NDArray[np.int64]:
    """`rounded_gaussian` with the margins given: wider ones send more draws down the exact path."""
    # The blocks are a thousandth of a standard deviation wide, whatever sigma is: one table serves all.
    table = half_table(Fraction(BLOCKS**2), False)
    bounds, guide, shift = table.bounds, table.guide, table.shift
    sigma = math.sqrt(float(squared))
    return draw(
        size,
        source,
        3,
        lambda words, out, filled: rounded_draws(
            words, out, filled, bounds, guide, shift, slack, sigma, margin
        ),
        lambda words, source: _settle(words, source, table, slack, squared),
    )


def _settle(
    words: list[int], source: BitSource, table: HalfTable, slack: int, squared: Fraction
) -> int | None:
    """The draw whose words these are, exactly; None when it is rejected."""
    # The same bits of the same words that the kernel read, so that the exact path continues its draw.
    block = table.resolve(words[0] >> 2, source, slack)
    part = LazyUniform(words[1] & ((1 << 50) - 1), 50, source)
    chance = LazyUniform((words[1] >> 50) << 64 | words[2], 78, source)
    if not accept(chance, lambda bits: _density(block, part, bits)):
        return None
    k = _magnitude(squared, block, part)
    # The sign is the lowest bit of the first word; a rounded 0 is the same number with either sign.
    return -k if words[0] & 1 else k


def _density(block: int, part: LazyUniform, bits: int) -> tuple[int, int]:
    """Bounds on 2^bits exp(-(2 b t + t^2) / 2^21), for all t that agree with the bits drawn."""
    value = part.extend(bits)
    ends = (Fraction(value + 1, 1 << part.bits), Fraction(value, 1 << part.bits))
    low, high = (exp_bounds((2 * block + t) * t / (2 * BLOCKS**2), bits) for t in ends)
    return low[0], high[1]


def _magnitude(squared: Fraction, block: int, part: LazyUniform) -> int:
    """The nearest integer to sigma (b + t) / 1024.

    floor(s + 1/2) = floor((floor(2 s) + 1) / 2), and floor(2 s) is the integer square root of floor(4 s^2).
    """
    while True:
        ends = (Fraction((block << part.bits) + part.value + step, BLOCKS << part.bits) for step in (0, 1))
        low, high = ((math.isqrt(math.floor(4 * squared * x * x)) + 1) // 2 for x in ends)
        if low == high:
            return low
        part.extend(part.bits + 64)
