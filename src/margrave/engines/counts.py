"""Counts: exact integers about private rows, kept from being printed or saved by accident."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, final

import numpy as np
from numpy.typing import NDArray


class PrivateRows:
    """What holds private rows or exact answers about them: it has no pickle.

    So it gets neither into a file nor into another process by accident, as what is public of it may.
    """

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} is private and cannot be pickled. Release it through a Curator."
        )


@final
class Counts(PrivateRows):
    """Exact counts. **Not private**: only the door and `evaluate` may call `reveal`.

    Its repr shows the shape alone.
    """

    __slots__ = ("_values",)

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._values = np.asarray(
            values, dtype=np.int64, order="C"
        )  # `ascontiguousarray` would give () an axis
        self._values.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table; public when the question was."""
        return self._values.shape

    def reveal(self) -> NDArray[np.int64]:
        """The exact counts, read-only. **Not private.**"""
        return self._values

    def __repr__(self) -> str:
        return f"Counts(shape={self.shape})"


def sum_counts(parts: Iterable[Counts]) -> Counts:
    """Counts of all rows from those of parts of them, one or more and of one shape. **Not private.**"""
    # Copied once, so that the first part's own counts are not changed.
    total: NDArray[np.int64] | None = None
    for part in parts:
        total = part._values.copy() if total is None else total + part._values
    if total is None:
        raise ValueError("no parts")
    return Counts(total)
