"""Choices: ranges and sets of values of which a sampled row may have any."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.columns import Binned, Column, Whole

__all__ = ["Between", "Choice"]

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Between:
    """A range of values, both ends included, for `given` in `Synthesis.sample`.

    Args:
        lower: Least value: a number, a date or time as in the column's declaration, or a value of an ordinal
            column; None for no bound.
        upper: Greatest value; None for no bound.

    Raises:
        InputError: Both are None.

    Example:
        ``synthesis.sample(1000, given={"age": mg.Between(18, 64)})``
    """

    lower: Any = None
    upper: Any = None

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            remedy = "Leave the column out to allow any value."
            raise InputError(invalid("Between", "a range with at least one end", remedy))


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What values of one column sampled rows may have.

    Args:
        column: The column, known.
        codes: Which codes may occur, if only for some of the numbers in their bin, shape [codes].
        least, most: Ends of the numbers that may occur, included; for columns with bins.
        listed: The numbers that may occur, in increasing order; None for all from least to most.
    """

    column: Column
    codes: Truths
    least: float = -math.inf
    most: float = math.inf
    listed: tuple[float, ...] | None = None

    @property
    def partial(self) -> NDArray[np.int64]:
        """The codes of which only some numbers may occur."""
        column = self.column
        if not isinstance(column, Binned):
            return np.zeros(0, dtype=np.int64)
        whole = isinstance(column, Whole)
        edges = column.edge_array
        first, last = edges[:-1], edges[1:] - 1.0 if whole else edges[1:]
        inside = (self.least <= first) & (last <= self.most)
        if self.listed is not None:
            held = np.searchsorted(self.listed, edges)
            inside &= np.diff(held) == last - first + 1.0
        found: NDArray[np.int64] = np.flatnonzero(self.codes[: column.present] & ~inside)
        return found

    def allows(self, numbers: Floats) -> Truths:
        """Whether numbers may occur, in the shape given."""
        found: Truths = (numbers >= self.least) & (numbers <= self.most)
        return found if self.listed is None else found & np.isin(numbers, self.listed)

    def any_number(self, code: int, count: int, rng: np.random.Generator) -> Floats:
        """Numbers in a code's bin that may occur, each as likely as the others, shape [count]."""
        column = self.column
        assert isinstance(column, Binned)  # noqa: S101 - the others have no partial codes
        low, high = (float(edge) for edge in column.edge_array[code : code + 2])
        low, high = max(low, self.least), min(high, self.most)
        if self.listed is not None:
            numbers = np.asarray(self.listed)
            found: Floats = rng.choice(
                numbers[(numbers >= low) & (numbers <= high) & self._in(code, numbers)], count
            )
            return found
        if isinstance(column, Whole):
            last = min(math.floor(high), int(column.edge_array[code + 1]) - 1)
            return rng.integers(math.ceil(low), last, count, endpoint=True).astype(np.float64)
        return low + rng.random(count) * (high - low)

    def _in(self, code: int, numbers: Floats) -> Truths:
        assert isinstance(self.column, Binned)  # noqa: S101
        found: Truths = np.searchsorted(self.column.edge_array, numbers, side="right") - 1 == code
        return found
