"""KSComplement and TVComplement: how alike single columns are, as SDMetrics counts it. **Not private**."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import shares
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

__all__ = ["KSComplement", "TVComplement", "ks_complement", "tv_complement"]

DECIMALS = sys.float_info.dig - 1
UNSEEN = 1e-6
"""Rows that SDMetrics adds to the real count of a value that only the synthetic column has."""


def ks_complement(real: NDArray[np.float64], synthetic: NDArray[np.float64]) -> float:
    """1 minus the largest gap between two empirical distribution functions; NaN if a side is empty.

    Missing values (NaN) are left out and numbers rounded to 14 decimals, as SDMetrics does.
    """
    first, second = (np.sort(np.round(side[~np.isnan(side)], DECIMALS)) for side in (real, synthetic))
    if not (first.size and second.size):
        return float("nan")
    places = np.concatenate([first, second])
    below = [np.searchsorted(side, places, side="right") / side.size for side in (first, second)]
    return 1 - float(np.abs(below[0] - below[1]).max())


def tv_complement(real: NDArray[np.int64], synthetic: NDArray[np.int64]) -> float:
    """1 minus the total variation of two columns' counts; NaN if a side is empty.

    A value that only the synthetic column has counts as a millionth of a real row, as in SDMetrics.
    """
    if not (real.sum() and synthetic.sum()):
        return float("nan")
    padded = np.where((real == 0) & (synthetic > 0), UNSEEN, real.astype(np.float64))
    return 1 - float(np.abs(shares(padded) - shares(synthetic)).sum()) / 2


@final
@dataclass(frozen=True, slots=True)
class KSComplement:
    """Mean over numeric columns of `ks_complement` of the raw numbers. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The mean over columns; each column is a part."""
        first, second = task.real.numbers, task.synthetic.numbers
        parts = {name: ks_complement(first[name], second[name]) for name in task.numeric}
        return _mean(self.facts, parts, "numeric")


@final
@dataclass(frozen=True, slots=True)
class TVComplement:
    """Mean over columns of listed values of `tv_complement` of their codes. **Not private**.

    Missing values are left out; values that the schema does not list are one value.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The mean over columns; each column is a part."""
        names, parts = task.listed, {}
        cliques = [(name,) for name in names]
        counted = zip(names, task.real.count(cliques), task.synthetic.count(cliques), strict=True)
        for name, real, synthetic in counted:
            present = task.schema[name].present
            parts[name] = tv_complement(real[:present], synthetic[:present])
        return _mean(self.facts, parts, "listed")


def _mean(facts: Facts, parts: dict[str, float], kind: str) -> Score:
    known = [value for value in parts.values() if not np.isnan(value)]
    scope = f"{len(known)} {kind} columns"
    if not known:
        return facts.undefined(scope, f"no {kind} column has values in both tables")
    left = len(parts) - len(known)
    note = f"{left} left out, a table holds no value of it" if left else ""
    return facts.score(float(np.mean(known)), scope, parts=parts, note=note)
