"""Rank correlations of all pairs of ordered columns, and how much of them is kept. **Not private**."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from margrave.evaluation.dependence.ordered import read_ordered
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

__all__ = ["RankSlope", "rank_correlations"]

Numbers = NDArray[np.float64]
BLOCK = 1 << 16
NOISE_DEVIATIONS = 5.0
"""Sums of squared correlations of noise lie within as many standard deviations of what is expected."""


def rank_correlations(columns: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Pearson's coefficients of ranks, over the rows that have both numbers. **Not private**.

    Ranks are those of a column's own numbers, the mean rank where several are equal. So without missing
    numbers the coefficients are Spearman's. Rows are taken in blocks; the work is a product of matrices.

    Args:
        columns: Each of shape [rows], NaN where missing.

    Returns:
        The coefficients, NaN where one of the two does not vary, and the rows that have both; each of shape
        [columns, columns].
    """
    ranks = [_rank(column) for column in columns]
    size = len(columns)
    both, sums, squares, products = (np.zeros((size, size)) for _ in range(4))
    for start in range(0, columns[0].size, BLOCK):
        part = np.column_stack([rank[start : start + BLOCK] for rank in ranks])
        missing = np.isnan(part)
        part[missing] = 0.0
        there = 1.0 - missing
        both += there.T @ there
        sums += part.T @ there
        squares += (part * part).T @ there
        products += part.T @ part
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = products - sums * sums.T / both
        variance = squares - sums * sums / both
        scale = np.sqrt(np.clip(variance, 0, None) * np.clip(variance.T, 0, None))
        found = np.where(scale > 1e-10 * both, covariance / scale, np.nan)
    return np.clip(found, -1, 1), both


def _rank(column: Numbers) -> Numbers:
    """Ranks spread over (-1/2, 1/2), NaN where missing."""
    there = ~np.isnan(column)
    ranks = np.full(column.size, np.nan)
    if there.any():
        ranks[there] = (rankdata(column[there]) - 0.5) / there.sum() - 0.5
    return ranks


@final
@dataclass(frozen=True, slots=True)
class RankSlope:
    """The slope of synthetic on real rank correlations, through the origin. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """Sum of products of real and synthetic coefficients over the sum of squares of the real ones.

        A coefficient that the synthetic table does not have, since a column is constant there, counts as 0.
        """
        columns = read_ordered(task)
        if len(columns) < 2:
            return self.facts.undefined("0 pairs", "there are no two columns of numbers or ordered codes")
        upper = np.triu_indices(len(columns), 1)
        found, both = rank_correlations([column.real for column in columns])
        real, rows = found[upper], both[upper]
        synthetic = rank_correlations([column.synthetic for column in columns])[0][upper]
        defined = ~np.isnan(real) & (rows > 2)
        real, rows = real[defined], rows[defined]
        synthetic = np.nan_to_num(synthetic[defined])
        scope = f"{real.size} pairs of columns in order"
        if float(np.sum(real**2 * (rows - 1))) <= real.size + NOISE_DEVIATIONS * np.sqrt(2 * real.size):
            return self.facts.undefined(scope, "the real table has no rank correlation above sampling noise")
        left_out = defined.size - real.size
        note = f"{left_out} pairs left out, a column is constant" if left_out else ""
        value = float(real @ synthetic) / float(real @ real)
        return self.facts.score(value, scope, parts=_describe(real, synthetic), note=note)


def _describe(real: Numbers, synthetic: Numbers) -> dict[str, float]:
    """The slope with an intercept, which does not see what all pairs have in common; strong pairs alone."""
    parts = {}
    centred = real - real.mean()
    if centred @ centred > 1e-12:
        parts["slope with an intercept"] = float(centred @ synthetic) / float(centred @ centred)
    strong = np.abs(real) > 0.5
    if strong.any():
        parts["slope of pairs above 0.5"] = float(real[strong] @ synthetic[strong]) / float(
            real[strong] @ real[strong]
        )
    parts["largest change of a coefficient"] = float(np.abs(real - synthetic).max())
    return parts
