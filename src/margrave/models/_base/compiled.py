"""compiled: the one decorator of every kernel here, typed so that mypy still checks the bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

__all__ = ["compiled", "summing"]


Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a function of flat arrays with Numba, once a machine: cached on disk, without the GIL."""
    return cast(Kernel, njit(cache=True, nogil=True)(kernel))


def summing(kernel: Kernel) -> Kernel:
    """As `compiled`, but sums may be added in any order, so that they run on vector units."""
    return cast(Kernel, njit(cache=True, nogil=True, fastmath={"reassoc"})(kernel))
