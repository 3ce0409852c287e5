"""Drawing: run a kernel over words until an array is full, settling its doubtful draws exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.noise.source import BitSource

__all__ = ["check_size", "check_variance", "draw"]

CHUNK = 1 << 14
LARGEST = 1 << 60
LEAST = Fraction(1, 1 << 60)

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
        words = source.words(min((size - filled) * words_each + 16, CHUNK))
        used, enough = 0, True
        while enough and filled < size:
            filled, step, doubtful = kernel(words[used:], out, filled)
            used += step
            if doubtful:
                settled = resolve([int(word) for word in words[used : used + words_each]], source)
                used += words_each
                if settled is not None:
                    out[filled] = settled
                    filled += 1
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
    if not exact or not LEAST <= sigma_squared <= LARGEST:
        remedy = "Floats are not exact: wrap them in Fraction."
        raise InputError(
            invalid("sigma_squared", "an int or Fraction in [2^-60, 2^60]", remedy, got=sigma_squared)
        )
    return Fraction(sigma_squared)
