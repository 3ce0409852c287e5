"""Risk: how much more often an attack succeeds on the rows of a table than on rows that are not in it.

`Closeness` says how far rows of mixed columns are from each other. **Not private** where rows are real.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from margrave.evaluation.rows import Rows

LEVEL = 0.95
"""Confidence of the intervals, as in Giomi et al. 2023."""


def wilson(hits: float, tries: int, level: float = LEVEL) -> tuple[float, float]:
    """The middle of the score interval of a rate, and half its width (Wilson 1927).

    Args:
        hits: Successes; expected ones need not be whole.
        tries: One or more.
        level: Of the interval, in (0, 1).
    """
    z = float(norm.isf((1 - level) / 2))
    middle = (hits + z * z / 2) / (tries + z * z)
    half = z / (tries + z * z) * math.sqrt(hits * (tries - hits) / tries + z * z / 4)
    return middle, half


@dataclass(frozen=True, slots=True)
class Risk:
    """The share of what an attacker could still gain over the control that it gains (Giomi et al. 2023).

    risk = (attack rate - control rate) / (1 - control rate), both rates the middles of their Wilson
    intervals, and its error propagated from theirs, as the package Anonymeter does. What is learned about
    people in general succeeds on the control rows as well, and is no risk.

    Args:
        hits: Successes on rows of the table.
        tries: Attacks on them.
        control_hits: Successes on rows that nothing was made from.
        control_tries: Attacks on those.
        level: Of the interval.
    """

    hits: float
    tries: int
    control_hits: float
    control_tries: int
    level: float = LEVEL

    @property
    def value(self) -> float:
        """The risk, 0 where the control does no worse."""
        return min(max(self._centre, 0.0), 1.0)

    @property
    def interval(self) -> tuple[float, float]:
        """Limits of the confidence interval, within 0 and 1."""
        attack, wide = wilson(self.hits, self.tries, self.level)
        control, control_wide = wilson(self.control_hits, self.control_tries, self.level)
        half = math.hypot(wide / (1 - control), control_wide * (1 - attack) / (1 - control) ** 2)
        low, high = (min(max(self._centre + side * half, 0.0), 1.0) for side in (-1, 1))
        return low, high

    @property
    def _centre(self) -> float:
        attack, _ = wilson(self.hits, self.tries, self.level)
        control, _ = wilson(self.control_hits, self.control_tries, self.level)
        return (attack - control) / (1 - control)

    def parts(self) -> dict[str, float]:
        """Both rates and the interval, for the parts of a score."""
        low, high = self.interval
        return {
            "attack rate": self.hits / self.tries,
            "control rate": self.control_hits / self.control_tries,
            "risk at least": low,
            "risk at most": high,
        }


BLOCK = 1 << 24
"""Distances that are held at a time: 64 MiB in single precision."""
Matrix = NDArray[np.float32]


@final
class Closeness:
    """Gower's distance of rows: the mean over columns of how much two values differ, from 0 to 1.

    Numbers differ by their distance over the range of the synthetic rows, 1 at most, other values by
    0 or 1. A missing number differs from a number by 1 and from another missing one by 0 (Gower 1971).

    Args:
        rows: The rows that distances are taken to.
        numeric: Columns with raw numbers.
        names: All columns that count.
    """

    def __init__(self, rows: Rows, numeric: Sequence[str], names: Sequence[str]) -> None:
        self._rows, self._names, self._numeric = rows, tuple(names), frozenset(numeric)
        self._ranges: dict[str, tuple[float, float]] = {}
        for name in self._names:
            if name in self._numeric:
                known = rows.numbers[name][~np.isnan(rows.numbers[name])]
                low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
                self._ranges[name] = (low, (high - low) or 1.0)

    def blocks(self, asked: Rows) -> Iterator[Matrix]:
        """Distances of some of the asked rows after the others to all rows: each [some, rows]."""
        step = max(1, BLOCK // max(self._rows.size, 1))
        for start in range(0, asked.size, step):
            yield self._distances(asked.take(np.arange(start, min(start + step, asked.size))))

    def nearest(self, asked: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The distance to the nearest row, and which it is (the first of several): both [asked]."""
        found = [(block.min(axis=1), block.argmin(axis=1)) for block in self.blocks(asked)]
        distances, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return distances.astype(np.float64), places.astype(np.int64)

    def nearest_rows(self, asked: Rows, near: int) -> NDArray[np.int64]:
        """Which rows are the nearest so many, in no order, any of those equally near: [asked, near]."""
        found = [np.argpartition(block, near - 1, axis=1)[:, :near] for block in self.blocks(asked)]
        return np.concatenate(found).astype(np.int64)

    def _distances(self, asked: Rows) -> Matrix:
        total = np.zeros((asked.size, self._rows.size), dtype=np.float32)
        for name in self._names:
            if name in self._numeric:
                first, second = (self._scale_numbers(side, name) for side in (asked, self._rows))
                apart = np.abs(first[:, None] - second[None, :])
                np.minimum(apart, 1, out=apart)
                # NaN where either is missing: 1 then, or 0 where both are.
                unlike = np.isnan(first)[:, None] != np.isnan(second)[None, :]
                total += np.where(np.isnan(apart), unlike, apart)
            else:
                total += asked.encoded.column(name)[:, None] != self._rows.encoded.column(name)[None, :]
        mean: Matrix = total / np.float32(len(self._names))
        return mean

    def _scale_numbers(self, rows: Rows, name: str) -> Matrix:
        low, width = self._ranges[name]
        scaled: Matrix = ((rows.numbers[name] - low) / width).astype(np.float32)
        return scaled
