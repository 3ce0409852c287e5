"""Draws: random numbers that are the same under every version of numpy and on every platform.

numpy promises that the raw stream of PCG64 and the mixing of `SeedSequence` never change, but not the methods
of `Generator`, which may draw a normal number otherwise in the next version. So everything here is a
function of the raw stream: uniform numbers, and all else by the inverse of a distribution function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Draws:
    """A stream of random numbers.

    Args:
        seed: A whole number, not negative.
        word: Keeps streams of one seed apart, such as the name of a table.
    """

    def __init__(self, seed: int, word: str) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, crc32(word.encode())]))

    def uniform(self, *shape: int) -> Floats:
        """Numbers in (0, 1), neither end included."""
        raw = self._bits.random_raw(int(np.prod(shape, dtype=np.int64)))
        # 52 bits and a half: the largest is 1 - 2^-53, which a float64 can still tell from 1.
        steps = (np.asarray(raw, dtype=np.uint64) >> np.uint64(12)).astype(np.float64) + 0.5
        return np.asarray(steps.reshape(shape) * 2.0**-52, dtype=np.float64)

    def between(self, low: float, high: float, *shape: int) -> Floats:
        """Numbers in (low, high), each as likely as any other."""
        return low + (high - low) * self.uniform(*shape)

    def normal(self, *shape: int) -> Floats:
        """Standard normal numbers."""
        return np.asarray(ndtri(self.uniform(*shape)), dtype=np.float64)

    def exponential(self, *shape: int) -> Floats:
        """Exponential numbers of mean 1."""
        return -np.log(self.uniform(*shape))

    def pareto(self, tail: float, *shape: int) -> Floats:
        """Pareto numbers above 1: the chance to exceed x is x to the power of -tail."""
        return np.asarray(self.uniform(*shape) ** (-1.0 / tail), dtype=np.float64)

    def gamma(self, mean: float, *shape: int) -> Floats:
        """Gamma numbers of scale 1."""
        return np.asarray(gammaincinv(mean, self.uniform(*shape)), dtype=np.float64)

    def geometric(self, chance: float | NDArray[np.floating[Any]], *shape: int) -> Whole:
        """Failures before the first success, 0 up; `chance` is one number or one a draw."""
        failures = np.log(self.uniform(*shape)) / np.log1p(-np.asarray(chance, dtype=np.float64))
        return np.asarray(np.floor(failures), dtype=np.int64)

    def below(self, count: int, *shape: int) -> Whole:
        """Whole numbers from 0 to count - 1, each as likely as any other."""
        found = np.asarray(self.uniform(*shape) * count, dtype=np.int64)
        return np.minimum(found, count - 1)

    def flags(self, chance: float | NDArray[np.floating[Any]], *shape: int) -> NDArray[np.bool_]:
        """True with a chance, which is one number or one a draw."""
        return np.asarray(self.uniform(*shape) < chance, dtype=np.bool_)

    def codes(self, weights: Sequence[float] | Floats, *shape: int) -> Whole:
        """Codes of which each is as likely as its weight says."""
        ends = np.cumsum(np.asarray(weights, dtype=np.float64))
        found = np.searchsorted(ends, self.uniform(*shape) * ends[-1], side="right")
        return np.asarray(np.minimum(found, ends.size - 1), dtype=np.int64)

    def codes_by_row(self, scores: Floats) -> Whole:
        """One code a row, as likely as the exponential of its score: scores of shape [rows, codes]."""
        gumbel = -np.log(self.exponential(*scores.shape))
        return np.asarray(np.argmax(scores + gumbel, axis=1), dtype=np.int64)

    def permutation(self, count: int) -> Whole:
        """0 to count - 1 in an order drawn at random."""
        return np.asarray(np.argsort(self.uniform(count), kind="stable"), dtype=np.int64)
