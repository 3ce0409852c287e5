"""Arrays for codes: in memory while they fit, else in files without a name. Private rows lie in both."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HELD", "Scratch", "nameless"]

HELD = 1 << 31
"""Most bytes of codes that are held in memory, 2 GiB, unless told otherwise."""


def nameless() -> Any:
    """A file open for reading and writing that has no name, so that nothing is left of it, even on a crash.

    It lies where temporary files go (TMPDIR), readable by its owner alone, and is gone when it is closed or
    the process ends, however that ends.
    """
    return tempfile.TemporaryFile(prefix="margrave-")


class Scratch:
    """Makes arrays until `held` bytes are in memory; those after them are mapped from nameless files.

    Mapped pages are the system's to write out and drop, so they take memory only where it is free.

    Args:
        held: Most bytes in memory.
    """

    __slots__ = ("_left",)

    def __init__(self, held: int = HELD) -> None:
        self._left = held

    def array(self, rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array of shape [rows] to be written; it holds zeros where nothing is written."""
        size = rows * dtype.itemsize
        if size <= self._left or not size:
            self._left -= size
            return np.zeros(rows, dtype=dtype)
        with nameless() as file:
            file.truncate(size)
            return np.memmap(file, dtype=dtype, mode="r+", shape=(rows,))
