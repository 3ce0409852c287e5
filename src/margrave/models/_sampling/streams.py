"""Random numbers inside compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel


def fresh_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of a generator of the kernels' own, shape [1]."""
    return np.array([rng.integers(1 << 63)], dtype=np.uint64)


@compile_kernel
def uniform(state: NDArray[np.uint64]) -> float:
    """A number in [0, 1) by SplitMix64; Steele, Lea and Flood 2014."""
    # SplitMix64's step and mixing constants, and the 53 bits that a double holds.
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compile_kernel
def shuffle(values: NDArray[Any], count: int, state: NDArray[np.uint64]) -> None:
    """Put the first `count` values in random order."""
    for i in range(count - 1, 0, -1):
        j = int(uniform(state) * (i + 1))
        values[i], values[j] = values[j], values[i]
