"""SeededSource: repeatable bits for the tests of the samplers. Noise drawn from it protects nobody."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["SeededSource"]


@final
class SeededSource:
    """A `BitSource` anyone can repeat: for tests only, where a draw must not change from run to run.

    Whoever knows or guesses the seed can subtract the noise. It is no part of the package, and a test holds
    the package to that.

    Args:
        seed: Of numpy's PCG64.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def words(self, n: int) -> NDArray[np.uint64]:
        """64-bit words from the seed, shape [n]."""
        return self._rng.integers(0, 2**64, size=n, dtype=np.uint64)
