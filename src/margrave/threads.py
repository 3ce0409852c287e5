"""Threads of the linear algebra library: one, because more make our many small products slower, not faster.

A BLAS thread that waits for another spins. On a machine with other work the products of a mixture took 13
times as long with two threads as with one (bench/LOG.md), and a machine with many cores would start them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@cache
def _libraries() -> ThreadpoolController:
    """The libraries loaded so far, found once: looking for them takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread inside the block, and what it used before afterwards."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
