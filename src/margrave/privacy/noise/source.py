"""Where random bits come from: the operating system, or a seed in runs that promise nothing."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from margrave import entropy
from margrave.errors import InputError, invalid


class BitSource(Protocol):
    """A source of independent fair bits."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """64-bit words, each uniform and independent of all others, shape [n], writable."""


@final
class SecureSource:
    """The operating system's generator: cannot be seeded, and keeps nothing.

    No word is held back for a later call: a buffer would be copied by a fork, and two processes would
    then draw the same noise. A call costs about a microsecond and 20 ns a word.

    Example:
        >>> SecureSource().words(3).shape
        (3,)
    """

    __slots__ = ()

    def words(self, n: int) -> NDArray[np.uint64]:
        """64-bit words from the operating system, shape [n]."""
        drawn: NDArray[np.uint64] = np.frombuffer(entropy.system_bytes(8 * n), dtype=np.uint64).copy()
        return drawn


@final
class RepeatableSource:
    """Bits that a seed settles: **not private**, for tests of programs that use margrave.

    Whoever knows or guesses the seed can draw the same noise and subtract it. In the package a `Ledger` with
    a seed draws from it, and nothing else does: such a ledger promises nothing, and `Guarantee.of` says
    so. A curator refuses it beside another ledger.

    Args:
        seed: A whole number, not negative.

    Raises:
        InputError: It is something else.

    Example:
        >>> bool((RepeatableSource(7).words(3) == RepeatableSource(7).words(3)).all())
        True
    """

    __slots__ = ("_generator", "_seed")

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            remedy = "Leave it out: with it nothing is promised."
            raise InputError(
                invalid("not_private_test_seed", "a whole number, not negative", remedy, got=seed)
            )
        self._seed = seed
        self._generator = np.random.Generator(np.random.PCG64(seed))

    @property
    def seed(self) -> int:
        """What it began from."""
        return self._seed

    def words(self, n: int) -> NDArray[np.uint64]:
        """64-bit words of the generator, shape [n]."""
        return self._generator.integers(0, 1 << 64, size=n, dtype=np.uint64)
