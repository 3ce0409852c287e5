"""Columns of labels that follow from others, such as a state from a county. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.first_look.finding import Finding, share_kept
from margrave.evaluation.first_look.pairs import EXCEPTIONS, ROWS_TRIED, SLACK

Codes = NDArray[np.int64]

MIN_ROWS_A_VALUE = 10.0
"""Real rows a value of the column that decides in the mean; from fewer, anything would follow."""
MAX_CHANCE = 0.9
"""Largest share of rows in which independent columns would obey it; else it says little."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of labels.

    Args:
        name: Of the column.
        real: The codes of the real rows, -1 for missing, shape [rows].
        synthetic: The same of the synthetic rows.
    """

    name: str
    real: Codes
    synthetic: Codes


def find_dependencies(columns: list[Labels]) -> list[Finding]:
    """Columns whose value follows from another's in nearly all real rows, and how often in synthetic ones.

    Of two columns that follow from each other, as a label and its number, one direction is told.

    Args:
        columns: Those of labels, both tables' rows perhaps samples.
    """
    found: dict[tuple[str, str], Finding] = {}
    for base, column in permutations(columns, 2):
        if (column.name, base.name) in found:
            continue
        finding = _find_dependency(base, column)
        if finding is not None:
            found[base.name, column.name] = finding
    return list(found.values())


def _find_dependency(base: Labels, column: Labels) -> Finding | None:
    head = slice(0, ROWS_TRIED)
    _, share = _learn_function(base.real[head], column.real[head])
    if share < 1.0 - EXCEPTIONS - SLACK:
        return None
    function, share = _learn_function(base.real, column.real)
    both = (base.real >= 0) & (column.real >= 0)
    distinct = len(np.unique(base.real[both]))
    if share < 1.0 - EXCEPTIONS or both.sum() < MIN_ROWS_A_VALUE * max(distinct, 1):
        return None
    chance = _obey_by_chance(function, base.real[both], column.real[both])
    if chance > MAX_CHANCE:
        return None
    known = (base.synthetic >= 0) & (column.synthetic >= 0)
    known &= np.append(function, -1)[np.minimum(base.synthetic, len(function))] >= 0
    obeyed = function[base.synthetic[known]] == column.synthetic[known]
    made = float(obeyed.mean()) if len(obeyed) else 0.0
    words = f"{column.name} is as {base.name} says in {made:.1%} of its rows, {share:.1%} of the real ones."
    kept = share_kept(share, min(made, share), chance)
    return Finding("dependency", f"{column.name} follows from {base.name}", kept, words)


def _learn_function(base: Codes, column: Codes) -> tuple[Codes, float]:
    """The commonest code of a column by that of another, -1 for none, and the share of rows that have it.

    Rows without one of the two are left out; the share is 0 where none has both.
    """
    both = (base >= 0) & (column >= 0)
    function = np.full(int(base.max(initial=-1)) + 1, -1, dtype=np.int64)
    if not both.any():
        return function, 0.0
    size = int(column.max()) + 1
    cells, counts = np.unique(base[both] * size + column[both], return_counts=True)
    order = np.argsort(counts, kind="stable")  # the last that is written is the commonest
    function[cells[order] // size] = cells[order] % size
    return function, float((function[base[both]] == column[both]).mean())


def _obey_by_chance(function: Codes, base: Codes, column: Codes) -> float:
    """Share of rows that would obey a function if the columns were independent."""
    size = max(int(column.max()), int(function.max())) + 1
    wanted = np.bincount(function[base], minlength=size) / len(base)
    held = np.bincount(column, minlength=size) / len(column)
    return float(wanted @ held)
