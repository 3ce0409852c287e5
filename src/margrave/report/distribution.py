"""Two distributions over one column, shortened to what a picture can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.report.numerals import count
from margrave.schema.columns import Column, Listed

__all__ = ["ORDERED", "Bar", "Distribution", "tail_of"]

BINNED = frozenset({"integer", "real", "date", "moment", "time", "duration"})
ORDERED = BINNED | {"ordinal", "relative"}
MOST_BINS = 40
MOST_VALUES = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """One place on the picture's axis.

    Args:
        label: What it stands for.
        tick: A shorter label for the axis.
        first: Share of rows in the first distribution.
        second: Share of rows in the second; None if there is none.
        margin: Half the length of the first one's error bar, as a share; None if it is exact.
        apart: Whether it stands apart from the axis: missing, other, or the rest.
    """

    label: str
    tick: str
    first: float
    second: float | None
    margin: float | None
    apart: bool


@dataclass(frozen=True, slots=True)
class Distribution:
    """A column's two distributions, ready to draw.

    Args:
        kind: The column's kind.
        bars: In the order of the axis.
        codes: Number of codes before shortening.
    """

    kind: str
    bars: tuple[Bar, ...]
    codes: int

    @property
    def ordered(self) -> bool:
        """Whether the axis has an order."""
        return self.kind in ORDERED

    @property
    def shortened(self) -> bool:
        """Whether a bar stands for several codes."""
        return len(self.bars) < self.codes

    @classmethod
    def of(
        cls,
        kind: str,
        labels: Sequence[str],
        tail: int,
        first: NDArray[np.float64],
        second: NDArray[np.float64] | None = None,
        margin: NDArray[np.float64] | None = None,
    ) -> Distribution:
        """The distribution of a column.

        Args:
            kind: The column's kind.
            labels: A label for each code.
            tail: How many of the last codes stand for other or missing values.
            first: Shares, shape [codes].
            second: Shares, shape [codes].
            margin: Half-lengths of the first one's error bars, shape [codes].
        """
        body = len(labels) - tail
        groups = _runs(body) if kind in ORDERED else _largest(first[:body])
        bars = []
        for group in groups:
            label, tick = _label(kind, [labels[code] for code in group[:1] + group[-1:]], len(group))
            apart = len(group) > 1 and kind not in ORDERED
            bars.append(_bar(label, tick, group, first, second, margin, apart))
        for code in range(body, len(labels)):
            bars.append(_bar(labels[code], labels[code], [code], first, second, margin, True))
        return cls(kind, tuple(bars), len(labels))


def tail_of(column: Column) -> int:
    """How many of the last codes stand for other or missing values."""
    other = isinstance(column, Listed) and column.other is not None
    return int(other) + int(bool(column.missing))


def _runs(codes: int) -> list[list[int]]:
    """Neighbouring codes in at most MOST_BINS groups."""
    width = -(-codes // MOST_BINS) if codes else 1
    return [list(range(start, min(start + width, codes))) for start in range(0, codes, width)]


def _largest(first: NDArray[np.float64]) -> list[list[int]]:
    """The codes of largest share alone, from the largest down, and the rest together."""
    order = np.argsort(-first, kind="stable").tolist()
    if len(order) <= MOST_VALUES + 1:
        return [[code] for code in order]
    return [[code] for code in order[:MOST_VALUES]] + [order[MOST_VALUES:]]


def _label(kind: str, ends: list[str], codes: int) -> tuple[str, str]:
    first, last = ends
    if kind in BINNED:
        low, high = first.split(" to ")[0], last.split(" to ")[-1]
        if low == high:
            return low, _compact(low)
        return f"{low} to {high}", f"{_compact(low)}\u2013{_compact(high)}"
    if kind not in ORDERED and codes > 1:
        text = f"{count(codes)} other values"
        return text, text
    return (first if codes == 1 else f"{first} … {last}"), first


def _compact(number: str) -> str:
    """A long number in thousands or millions, for the axis."""
    try:
        value = float(number)
    except ValueError:
        return number
    if len(number) < 6 or abs(value) < 10_000:
        return number if len(number) < 9 else f"{value:.4g}"
    return f"{value / 1e6:.3g}M" if abs(value) >= 1e6 else f"{value / 1e3:.3g}k"


def _bar(
    label: str,
    tick: str,
    group: list[int],
    first: NDArray[np.float64],
    second: NDArray[np.float64] | None,
    margin: NDArray[np.float64] | None,
    apart: bool,
) -> Bar:
    return Bar(
        label,
        tick,
        float(first[group].sum()),
        None if second is None else float(second[group].sum()),
        None if margin is None else float(np.sqrt(np.square(margin[group]).sum())),
        apart,
    )
