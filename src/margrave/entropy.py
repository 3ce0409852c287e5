"""Where secret choices come from: the operating system, and nothing else in a private run."""

from __future__ import annotations

import os

import numpy as np


def system_bytes(size: int) -> bytes:
    """Bytes of the operating system's generator, which cannot be seeded."""
    return os.urandom(size)


def fresh_generator(key: bytes | None = None) -> np.random.Generator:
    """A generator begun from 256 bits of the system's, for choices too many to ask the system for each.

    Args:
        key: 32 bytes to begin from instead, which only runs that are marked as not private have.
    """
    begun = system_bytes(32) if key is None else key
    return np.random.Generator(np.random.PCG64(int.from_bytes(begun, "little")))
