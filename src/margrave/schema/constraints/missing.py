"""Where an attribute is missing as another one says, as far as the noise of a measured pair lets one see.

A panel of laboratory values that are missing together, a question that is left out where another one's answer
is no. In a measured pair of `by` and `name` take the cells in which `name` is missing, one a line (a code of
`by`), with noise of standard deviation s. Independent attributes would have rows in the line that are *not*
missing: the line's rows times the share of all rows that are not. A line is certain where these would be
seen, more than 2 VISIBLE s, and fewer than half of them are there; noise hardly decides that. `name` is
missing where `by` has one of the certain codes if what all their cells lack together is at most MOST_OFF of
what independent attributes would lack, or one deviation of its noise, and at most UNSURE with EXACT
deviations. It is missing there and nowhere else if what is off on both sides, in these lines and beyond them,
is at most TOLERATED of that with noise, which serves in place of UNSURE.

The one-ways of both have less noise than cells, and say more: of two that are missing together as many rows
are missing. A cell cannot have more rows than either, only where both agree within their own noise are all
rows taken to be in it, and what the one-way has beyond the certain lines is in other lines.

**Privacy.** Looks at released tables, and at counts that are released or public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.schema.constraints.certain_lines import EXACT, VISIBLE
from margrave.schema.constraints.rule import Rule

Floats = NDArray[np.float64]

MOST_OFF = 0.05
"""Share of what independent attributes would lack that certain lines may lack. With .1 questions that one in
twenty leaves out by themselves were taken for missing together on choosing/gaps-a (bench/LOG.md)."""
UNSURE, TOLERATED = 0.15, 0.25
"""The same with noise included, of what is missing elsewhere as well, and of what is not: the latter is that
of `margrave.models._determined`. Neither was measured."""
SENTENCES = (
    "{of} is missing where {by} is, and nowhere else",
    "{of} is missing where {by} is",
    "{of} is missing where {by} says so, and nowhere else",
    "{of} is missing where {by} says so",
)
"""What may be found. In the first two the only certain line is that in which `by` is missing."""


@final
@dataclass(frozen=True, slots=True)
class MissingWhere(Rule):
    """An attribute is missing as another one says: seen in a measured pair, and never declared.

    Args:
        of: The attribute that is missing.
        by: The one that says so.
        sentence: What is said, for reading.
        share: The noisy share of the rows that keep to it, and its standard error.
    """

    kind: ClassVar[str] = "missing_where"
    of: str
    by: str
    sentence: str
    share: tuple[float, float] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What says it, and what is missing."""
        return (self.by, self.of)

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that keep to it, and its standard error."""
        return self.share

    @property
    def words(self) -> str:
        """The sentence."""
        return self.sentence


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows and the standard deviations of their noise, of the same shape.

    Args:
        rows: A number a line, or one.
        sigma: Standard deviations, 0 of what is public.
    """

    rows: Floats
    sigma: Floats


@dataclass(frozen=True, slots=True)
class MissingPattern:
    """What a measured pair shows of where an attribute is missing.

    Args:
        lines: Which lines are certain, shape [lines].
        share: The share of these lines' rows in which it is missing, 1 where noise explains what is off.
        elsewhere: In how many rows of other lines it is missing.
        alone: Whether these are few.
        held: The noisy share of all rows that keep to the pattern, and its standard deviation.
        doubt: What may be off, noise included, over what would be off of independent attributes.
    """

    lines: NDArray[np.bool_]
    share: float
    elsewhere: float
    alone: bool
    held: tuple[float, float]
    doubt: float

    def say(self, absent: int | None) -> str:
        """Its sentence.

        Args:
            absent: The line in which the other attribute is missing; None if it never is.
        """
        told = absent is None or not self.lines[absent] or int(self.lines.sum()) > 1
        return SENTENCES[2 * told + (not self.alone)]


def find_missing_pattern(cells: Counted, lines: Counted, missing: Counted) -> MissingPattern | None:
    """Where an attribute is missing as another one says; None where noise does not show that.

    Args:
        cells: The cells of a measured pair in which it is missing, shape [lines].
        lines: All rows of each line, shape [lines].
        missing: All rows in which it is missing, shape [].
    """
    total, absent = float(lines.rows.sum()), float(missing.rows)
    if not 0.0 < absent < total:
        return None
    lacking = lines.rows * (1.0 - absent / total)
    certain = lacking > 2.0 * VISIBLE * cells.sigma
    certain &= lines.rows - cells.rows < 0.5 * lacking
    rows = float(lines.rows[certain].sum())
    if not certain.any() or rows >= total:
        return None
    most = min(rows, absent)
    held, deviation = _add_cells(cells, missing, certain)
    lacks, beyond = (one - min(held, most) for one in (rows, absent))
    chance, other_chance = float(lacking[certain].sum()), absent * (1.0 - rows / total)
    doubt = (lacks + EXACT * deviation) / chance
    alone = max(doubt, (beyond + EXACT * deviation) / other_chance) <= TOLERATED
    if lacks > max(MOST_OFF * chance, deviation) or not (alone or doubt <= UNSURE):
        return None
    # What noise of the cells may hide the one-ways may show: one is missing and the other is not.
    exact = held + EXACT * deviation >= most
    apart = EXACT * math.hypot(float(np.linalg.norm(lines.sigma[certain])), float(missing.sigma))
    taken = most if exact else held
    taken = rows if exact and rows - taken <= apart else taken
    elsewhere = absent - taken if absent - taken > apart * exact * alone else 0.0
    kept = max(1.0 - (lacks + beyond * alone) / total, 0.0), (1.0 + alone) * deviation / total
    return MissingPattern(certain, min(taken / rows, 1.0), elsewhere, alone, kept, doubt)


def _add_cells(cells: Counted, missing: Counted, certain: NDArray[np.bool_]) -> tuple[float, float]:
    """The rows of certain cells and the deviation of their noise: added up, or what other lines leave."""
    own = float(np.linalg.norm(cells.sigma[certain]))
    other = math.hypot(float(np.linalg.norm(cells.sigma[~certain])), float(missing.sigma))
    if other < own:
        return float(missing.rows - cells.rows[~certain].sum()), other
    return float(cells.rows[certain].sum()), own
