"""as_written: how the numbers and missing values of a text column are written, by votes of its cells.

**Privacy.** Unit and adjacency: the ledger's. Each look is a histogram over a public list of spellings
(`margrave.schema.spelling.SPELLINGS`): a cell of the table votes for one of them at most, which depends on
that cell alone, so its sensitivity is that of one marginal. Which looks are taken depends on released counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Integer, Real
from margrave.schema.spelling import SPELLINGS

if TYPE_CHECKING:
    from margrave.protocols import Source

__all__ = ["as_written", "votes_on_numbers"]

NEARLY_ALL = 0.95
"""Share of the numbers with as many decimals from which all are written with so many."""
RARE = 0.002
"""Least share of the numbers with so many decimals for which output has so many."""
EVIDENT = 4.0
"""Noise standard deviations from which a spelling occurs for certain."""

Look = Callable[[str, Callable[[], NDArray[np.int64]], Fraction], tuple[NDArray[np.float64], float]]
"""What is looked at, the exact counts, rho; the noisy counts and sigma."""


def votes_on_numbers(column: Binned) -> bool:
    """Whether it is asked how the numbers of a text column are written; not where that is declared."""
    if isinstance(column, Real):
        return not (column.provisional and column.spelling)
    return isinstance(column, Integer) and not column.provisional and bool(column.spelling)


def as_written(
    column: Binned,
    source: Source,
    look: Look,
    unit: Fraction,
    weights: dict[str, Fraction],
    looks: frozenset[str],
) -> Binned:
    """The column with the spelling of its numbers and the mark of its missing values.

    **Privacy.** Proof at the head of this file.

    Args:
        column: Of text; a known column of numbers, dates or times.
        source: The private table.
        look: Prices, records and adds the noise.
        unit: rho of a look of weight 1.
        weights: The weight of each sort of look.
        looks: Those to be taken: of "spelling" and "marks", what is not declared.
    """
    name = column.name
    if isinstance(column, Integer | Real) and "spelling" in looks:
        noisy, sigma = look(
            f"spelling of {name}",
            lambda: source.spellings(name, "number").reveal(),
            unit * weights["spelling"],
        )
        column = dataclasses.replace(column, spelling=_number_spelling(noisy, sigma))
    if "marks" in looks:
        noisy, _ = look(
            f"marks of {name}", lambda: source.spellings(name, "mark").reveal(), unit * weights["marks"]
        )
        column = dataclasses.replace(column, mark=SPELLINGS["mark"][int(np.argmax(noisy))])
    return column


def _number_spelling(votes: NDArray[np.float64], sigma: float) -> str:
    """The spelling of nearly all numbers; else the fewest and the most decimals that evidently occur."""
    total = float(votes.sum())
    main = int(np.argmax(votes))
    if votes[main] >= NEARLY_ALL * total:
        return SPELLINGS["number"][main]
    held = np.flatnonzero(votes > max(EVIDENT * sigma, RARE * total))
    if not len(held) or held[-1] == len(votes) - 1 or held[-1] == 0:
        return ""
    least, most = min(int(held[0]), 1), int(held[-1])
    return f"0.{'0' * least}{'#' * (most - least)}"
