"""The discrete Gaussian, drawn exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.privacy.noise.sampling import (
    SLACK,
    HalfTable,
    LazyUniform,
    accept,
    block_draws,
    check_size,
    check_variance,
    draw,
    exp_bounds,
    half_table,
    table_draws,
)
from margrave.privacy.noise.source import BitSource

LARGEST_TABLE = 1 << 20
"""Variance of the largest table, which has sigma = 1024; above it draws are made of blocks."""
MARGIN = 2.0**-39
"""How near to the chance of acceptance a draw may fall before exact arithmetic decides: twice the proven
error, see docs/privacy/noise.md."""


def discrete_gaussian(sigma_squared: Fraction, size: int, source: BitSource) -> NDArray[np.int64]:
    """Integers k with probability exactly proportional to exp(-k^2 / (2 sigma^2)).

    Canonne, Kamath and Steinke 2020, Definition 1. Up to sigma = 1024 by inversion. Above, with a width
    w = 2^j such that sigma / w is in (512, 1024]: a block b >= 0 is drawn by inversion in proportion to
    exp(-(b w)^2 / (2 sigma^2)), an offset r uniformly below w, and k = b w + r is accepted with
    probability exp(-(2 b w r + r^2) / (2 sigma^2)), which makes it proportional to exp(-k^2 / (2 sigma^2)).
    A random sign follows, with -0 rejected. Draws that floating point cannot settle are settled in exact
    arithmetic with more random bits: docs/privacy/noise.md has the proof.

    Args:
        sigma_squared: The variance parameter, in [2^-60, 2^60].
        size: How many draws.
        source: Where random bits come from.

    Returns:
        The draws, shape [size].

    Raises:
        InputError: sigma_squared or size is out of range.

    Example:
        >>> from margrave.privacy.noise.source import SecureSource
        >>> discrete_gaussian(Fraction(25), 3, SecureSource()).shape
        (3,)
    """
    return _draws(check_variance(sigma_squared), check_size(size), source, SLACK, MARGIN)


def _draws(squared: Fraction, size: int, source: BitSource, slack: int, margin: float) -> NDArray[np.int64]:
    """`discrete_gaussian` with the margins given: wider ones send more draws down the exact path."""
    # A table grows with sigma. Above the largest one a draw is a block of 2^log_width integers and a place
    # inside it, and the table is that of the blocks.
    log_width = 0
    while squared > LARGEST_TABLE << (2 * log_width):
        log_width += 1
    table = half_table(squared / (1 << 2 * log_width), log_width == 0)
    bounds, guide, shift = table.bounds, table.guide, table.shift
    if log_width == 0:
        return draw(
            size,
            source,
            1,
            lambda words, out, filled: table_draws(words, out, filled, bounds, guide, shift, slack),
            lambda words, source: _settle_table(words, source, table, slack),
        )
    rate = float(1 / (2 * squared))
    return draw(
        size,
        source,
        2,
        lambda words, out, filled: block_draws(
            words, out, filled, bounds, guide, shift, slack, log_width, rate, margin
        ),
        lambda words, source: _settle_block(words, source, table, slack, squared, log_width),
    )


def _settle_table(words: list[int], source: BitSource, table: HalfTable, slack: int) -> int:
    """The draw whose word this is, exactly."""
    k = table.resolve(words[0] >> 2, source, slack)
    return -k if words[0] & 1 else k


def _settle_block(
    words: list[int], source: BitSource, table: HalfTable, slack: int, squared: Fraction, log_width: int
) -> int | None:
    """The draw whose words these are, exactly; None when it is rejected."""
    block = table.resolve(words[0] >> 2, source, slack) << log_width
    offset = words[1] & ((1 << log_width) - 1)
    exponent = (2 * block + offset) * offset / (2 * squared)
    chance = LazyUniform(words[1] >> 24, 40, source)
    if not accept(chance, lambda bits: exp_bounds(exponent, bits)):
        return None
    k = block + offset
    if words[0] & 1:
        return -k if k else None
    return k
