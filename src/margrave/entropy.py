"""Where secret choices come from: the operating system, and nothing else outside the tests."""

from __future__ import annotations

import os

import numpy as np

__all__ = ["fresh_generator", "system_bytes"]


def system_bytes(size: int) -> bytes:
    """Bytes of the operating system's generator, which cannot be seeded."""
    return os.urandom(size)


def fresh_generator() -> np.random.Generator:
    """A generator begun from 256 bits of the system's, for choices too many to ask the system for each."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(system_bytes(32), "little")))
