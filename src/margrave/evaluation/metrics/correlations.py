"""Covariances and correlations of two tables. **Not private**."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import embed_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task, draw_pairs, say_sample
from margrave.schema.encoded import Encoded

BLOCK = 1 << 16
"""Rows whose indicators are held at a time."""


def covariance(rows: Encoded) -> NDArray[np.float64]:
    """The centred covariance matrix of embedded rows, over n: shape [attributes, attributes].

    **Not private** if the rows are real. Rows are taken in blocks, so that memory does not grow with them.
    """
    size = len(rows.domain)
    sums, products = np.zeros(size), np.zeros((size, size))
    for start in range(0, rows.rows, BLOCK):
        part = Encoded(rows.domain, tuple(column[start : start + BLOCK] for column in rows.columns))
        points = embed_rows(part) - 0.5
        sums += points.sum(axis=0)
        products += points.T @ points
    mean = sums / rows.rows
    return products / rows.rows - np.outer(mean, mean)


@final
@dataclass(frozen=True, slots=True)
class CovarianceError:
    """How far the covariance matrices of the embedded tables are apart, relatively. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The Frobenius norm of the difference over that of the synthetic table's matrix."""
        real, synthetic = covariance(task.real.encoded), covariance(task.synthetic.encoded)
        scope, norm = f"{len(task.names)} columns", float(np.linalg.norm(synthetic))
        if norm < 1e-12:
            return self.facts.undefined_score(scope, "no column of the synthetic table varies")
        return self.facts.score(float(np.linalg.norm(real - synthetic)) / norm, scope)


def pearson(rows: Rows, first: str, second: str) -> float:
    """Pearson's coefficient over the rows that have both numbers; NaN where one of them is constant.

    **Not private** if the rows are real.
    """
    x, y = rows.numbers[first], rows.numbers[second]
    both = ~(np.isnan(x) | np.isnan(y))
    if both.sum() < 2:
        return float("nan")
    x, y = x[both] - x[both].mean(), y[both] - y[both].mean()
    if not (np.ptp(x) and np.ptp(y)):
        return float("nan")
    # Each is scaled first: squares of numbers such as microseconds since 1970 would lose digits.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def similarity(real: float, synthetic: float) -> float:
    """SDMetrics' CorrelationSimilarity of two coefficients: 1 if equal, 0 if 1 and -1."""
    return 1 - abs(real - synthetic) / 2


def pearson_difference(real: float, synthetic: float) -> float:
    """How far two coefficients are apart, from 0 to 2."""
    return abs(real - synthetic)


@final
@dataclass(frozen=True, slots=True)
class PairCorrelations:
    """The mean of something about the Pearson coefficients of pairs of raw numbers. **Not private**.

    Args:
        facts: What the metric says about itself.
        of: Of the real and the synthetic coefficient.
    """

    facts: Facts
    of: Callable[[float, float], float]

    def run(self, task: Task) -> Score:
        """The mean over pairs of numeric columns that vary in both tables; each pair is a part."""
        table = task.once("pearson", lambda: self._coefficients(task))
        parts = {" x ".join(pair): self.of(real, synthetic) for pair, (real, synthetic) in table.items()}
        known = [value for value in parts.values() if not np.isnan(value)]
        scope = f"{len(known)} pairs of numeric columns"
        if not known:
            return self.facts.undefined_score(
                scope, "there are no two numeric columns that vary in both tables"
            )
        left = len(parts) - len(known)
        total = len(task.numeric) * (len(task.numeric) - 1) // 2
        constant = f"{left} pairs left out, a column is constant" if left else ""
        note = "; ".join(filter(None, [say_sample(len(parts), total), constant]))
        return self.facts.score(float(np.mean(known)), scope, parts=parts, note=note)

    @staticmethod
    def _coefficients(task: Task) -> dict[tuple[str, str], tuple[float, float]]:
        sides, names = (task.real, task.synthetic), task.numeric
        return {
            (names[i], names[j]): (
                pearson(sides[0], names[i], names[j]),
                pearson(sides[1], names[i], names[j]),
            )
            for i, j in draw_pairs(len(names), task.rng("pairs of numbers"))[0]
        }
