"""Where an attribute is missing, or 0, as another one says, as far as noise of a measured pair lets one see.

A panel of laboratory values that are missing together, a question that is left out where another one's answer
is no; hours of work that are 0 where there is no work, an amount that is 0 where the number of claims is. A
value here is one of these two, a missing one, or 0 where that has a code of its own. In a measured pair of
`by` and `of` take the cells in which `of` has the value, one a line (a code of `by`), with noise of standard
deviation s. Independent attributes would have rows in the line that do *not* have it: the line's rows times
the share of all rows that do not. A line is certain where these would be seen, more than 2 VISIBLE s, and
fewer than half of them are there; noise hardly decides that. `of` has the value where `by` has one of the
certain codes if what all their cells lack together is at most MOST_OFF of what independent attributes would
lack, or one deviation of its noise, and at most UNSURE with EXACT deviations. It has it there and nowhere
else if what is off on both sides, in these lines and beyond them, is at most TOLERATED of that with noise,
which serves in place of UNSURE.

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
    "{of} is 0 where {by} is, and nowhere else",
    "{of} is 0 where {by} is",
    "{of} is 0 where {by} says so, and nowhere else",
    "{of} is 0 where {by} says so",
)
"""What may be found: four of missing values, then four of 0. In the first two of each the only certain line
is that in which `by` has the same value."""


@final
@dataclass(frozen=True, slots=True)
class StructuralValue(Rule):
    """An attribute is missing, or 0, as another one says: seen in a measured pair, and never declared.

    Args:
        of: The attribute that is.
        by: The one that says so.
        sentence: What is said, for reading.
        share: The noisy share of the rows that keep to it, and its standard error.
    """

    kind: ClassVar[str] = "structural_value"
    of: str
    by: str
    sentence: str
    share: tuple[float, float] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What says it, and what has the value."""
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
class StructuralPattern:
    """What a measured pair shows of where an attribute has a value.

    Args:
        lines: Which lines are certain, shape [lines].
        share: The share of these lines' rows that have the value, 1 where noise explains what is off.
        elsewhere: How many rows of other lines have it.
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

    def say(self, like: int | None, zero: bool = False) -> str:
        """Its sentence.

        Args:
            like: The line in which the other attribute has the same value; None if it never has.
            zero: Whether that is 0, and not a missing one.
        """
        told = like is None or not self.lines[like] or int(self.lines.sum()) > 1
        return SENTENCES[4 * zero + 2 * told + (not self.alone)]


def find_structural_pattern(cells: Counted, lines: Counted, value: Counted) -> StructuralPattern | None:
    """Where an attribute has a value as another one says; None where noise does not show that.

    Args:
        cells: The cells of a measured pair in which it has the value, shape [lines].
        lines: All rows of each line, shape [lines].
        value: All rows that have the value, shape [].
    """
    total, having = float(lines.rows.sum()), float(value.rows)
    if not 0.0 < having < total:
        return None
    lacking = lines.rows * (1.0 - having / total)
    certain = lacking > 2.0 * VISIBLE * cells.sigma
    certain &= lines.rows - cells.rows < 0.5 * lacking
    rows = float(lines.rows[certain].sum())
    if not certain.any() or rows >= total:
        return None
    most = min(rows, having)
    held, deviation = _add_cells(cells, value, certain)
    lacks, beyond = (one - min(held, most) for one in (rows, having))
    chance, other_chance = float(lacking[certain].sum()), having * (1.0 - rows / total)
    doubt = (lacks + EXACT * deviation) / chance
    alone = max(doubt, (beyond + EXACT * deviation) / other_chance) <= TOLERATED
    if lacks > max(MOST_OFF * chance, deviation) or not (alone or doubt <= UNSURE):
        return None
    # What noise of the cells may hide the one-ways may show: one has it and the other has not.
    exact = held + EXACT * deviation >= most
    apart = EXACT * math.hypot(float(np.linalg.norm(lines.sigma[certain])), float(value.sigma))
    taken = most if exact else held
    taken = rows if exact and rows - taken <= apart else taken
    elsewhere = having - taken if having - taken > apart * exact * alone else 0.0
    kept = max(1.0 - (lacks + beyond * alone) / total, 0.0), (1.0 + alone) * deviation / total
    return StructuralPattern(certain, min(taken / rows, 1.0), elsewhere, alone, kept, doubt)


def _add_cells(cells: Counted, value: Counted, certain: NDArray[np.bool_]) -> tuple[float, float]:
    """The rows of certain cells and the deviation of their noise: added up, or what other lines leave."""
    own = float(np.linalg.norm(cells.sigma[certain]))
    other = math.hypot(float(np.linalg.norm(cells.sigma[~certain])), float(value.sigma))
    if other < own:
        return float(value.rows - cells.rows[~certain].sum()), other
    return float(cells.rows[certain].sum()), own
