"""Reconstruct: the best unbiased marginals from noisy ones, and the nearest that are counts.

Mullins, Fuentes, Xiao, Kifer, Musco and Sheldon 2024, "Efficient and Private Marginal Reconstruction with
Local Non-Negativity" (arXiv 2410.01091): GReM-MLE and GReM-LNN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models.pooled import Pooled
from margrave.models.residual.basis import others, rebuilt, residual, subsets
from margrave.schema.domain import Clique

__all__ = ["Residuals", "combined", "local"]

Floats = NDArray[np.float64]

CLOSE = 1e-4
"""Negative counts that are left, over the rows, at which the ascent ends."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals with their precisions.

    Args:
        values: By set of attributes, in the domain's order.
        precisions: One over the variance that noise has along each direction of a residual.
    """

    values: Mapping[Clique, Floats]
    precisions: Mapping[Clique, float]


def combined(tables: Sequence[Pooled], total: float | None = None) -> Residuals:
    """Generalised least squares over all tables, in closed form (GReM-MLE).

    A table with independent noise of variance s^2 a cell says of the residual over T what it is with noise of
    variance s^2 times the cells of its other attributes along every direction, independently for different
    T; so each residual is the mean of what the tables say, weighted by precision. Where a table's cells
    differ in s^2 their mean is taken.

    Args:
        tables: One a clique.
        total: Rows, where that is known without noise.
    """
    sums: dict[Clique, Floats] = {}
    precisions: dict[Clique, float] = {}
    for table in tables:
        variance = float((table.sigma**2).mean())
        for part in subsets(table.clique):
            weight = 1.0 / (variance * others(table.values, table.clique, part))
            sums[part] = sums.get(part, 0.0) + weight * residual(table.values, table.clique, part)
            precisions[part] = precisions.get(part, 0.0) + weight
    values = {part: value / precisions[part] for part, value in sums.items()}
    if total is not None and () in values:
        values[()], precisions[()] = np.asarray(float(total)), math.inf
    return Residuals(values, precisions)


def local(
    best: Residuals,
    shapes: Mapping[Clique, tuple[int, ...]],
    rounds: int,
    stop: Callable[[], bool] = lambda: False,
) -> dict[Clique, Floats]:
    """The tables nearest to the residuals, by their precisions, in which no count is negative (GReM-LNN).

    Minimises  sum over T of precision * |r_T - best_T|^2 / 2  over all residuals whose tables are nowhere
    negative, by accelerated ascent on the dual: with multipliers m >= 0 a cell the best residuals are
    best_T + (sum over tables of residual_T(m) / cells of their other attributes) / precision. Along the
    directions of T the dual's curvature is  sum over tables of 1 / (precision_T * cells of their other
    attributes), so that the step is known exactly.

    Args:
        best: What is unbiased.
        shapes: The tables wanted, by clique; best has all their residuals. Counts still below 0 in them after
            the last step are cut.
        rounds: Steps at most.
        stop: Asked before each.
    """
    rows = max(float(best.values.get((), np.zeros(()))), 1.0)
    length = _step(best, shapes)
    now = {clique: np.zeros(shape) for clique, shape in shapes.items()}
    ahead, pace = dict(now), 1.0
    tables = _tables(best, ahead)
    for _ in range(rounds):
        negative = max((float(-np.minimum(table, 0.0).sum()) for table in tables.values()), default=0.0)
        if negative <= CLOSE * rows or stop():
            break
        after = {c: np.maximum(ahead[c] - length * tables[c], 0.0) for c in shapes}
        faster = 0.5 + math.sqrt(0.25 + pace**2)
        push = (pace - 1.0) / faster
        # Momentum is dropped when it points downhill (O'Donoghue and Candes 2015, gradient scheme).
        if sum(float((tables[c] * (after[c] - now[c])).sum()) for c in shapes) > 0.0:
            push, faster = 0.0, 1.0
        ahead = {c: after[c] + push * (after[c] - now[c]) for c in shapes}
        now, pace = after, faster
        tables = _tables(best, ahead)
    return {clique: np.maximum(table, 0.0) for clique, table in tables.items()}


def _step(best: Residuals, shapes: Mapping[Clique, tuple[int, ...]]) -> float:
    """One over the dual's largest curvature."""
    bent = dict.fromkeys(best.values, 0.0)
    for clique, shape in shapes.items():
        for part in subsets(clique):
            bent[part] += 1.0 / (best.precisions[part] * others(np.empty(shape), clique, part))
    return 1.0 / max(max(bent.values(), default=1.0), 1e-300)


def _tables(best: Residuals, multipliers: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
    """The tables of the residuals that are best under some multipliers."""
    values = dict(best.values)
    for clique, table in multipliers.items():
        if table.any():
            for part in subsets(clique):
                weight = best.precisions[part] * others(table, clique, part)
                values[part] = values[part] + residual(table, clique, part) / weight
    return {clique: rebuilt(values, clique, table.shape) for clique, table in multipliers.items()}
