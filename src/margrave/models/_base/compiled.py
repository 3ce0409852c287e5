"""The one decorator of every kernel here, typed so that mypy still checks the bodies.

A division by 0 gives what IEEE 754 says, as in NumPy: the check that would raise Python's error instead keeps
a loop off the vector units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compile_kernel(kernel: Kernel) -> Kernel:
    """Compile a function of flat arrays with Numba, once a machine: cached on disk, without the GIL."""
    return cast(Kernel, njit(cache=True, nogil=True, error_model="numpy")(kernel))


def compile_summing(kernel: Kernel) -> Kernel:
    """As `compile_kernel`, but sums may be added in any order, so that they run on vector units."""
    return cast(Kernel, njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})(kernel))
