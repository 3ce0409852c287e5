"""Orders of columns, in a real and in a synthetic table. **Not private**.

Columns that stand in an order are read as numbers (`read_ordered`). Two things are asked of all their pairs:
which orders, such as admitted <= discharged, no real row breaks and how many synthetic rows do, and how much
of their rank correlations is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from margrave.evaluation.metrics.dependence import count_exceeding, order_holds
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.columns import Column, Listed, Temporal
from margrave.schema.storage import clock

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OrderedColumn:
    """One column of two tables. **Not private**.

    Args:
        name: The column.
        scale: What its numbers mean: "number", "date", "moment", "time" or "duration"; "code" for ordered
            codes that are no numbers. Numbers of one scale can be compared across columns.
        real: Shape [real rows], NaN where missing.
        synthetic: Shape [synthetic rows], NaN where missing.
    """

    name: str
    scale: str
    real: Numbers
    synthetic: Numbers


def read_ordered(task: Task) -> tuple[OrderedColumn, ...]:
    """The columns of numbers, dates and times whose raw values are known, and those of ordered codes."""
    return task.once("ordered columns", lambda: _read_all(task))


def _read_all(task: Task) -> tuple[OrderedColumn, ...]:
    numeric, found = set(task.numeric), []
    for column in task.schema.attributes:
        if column.name in numeric:
            sides = [rows.numbers[column.name] for rows in (task.real, task.synthetic)]
        elif isinstance(column, Listed) and column.ordered:
            sides = [_number_codes(column, rows) for rows in (task.real, task.synthetic)]
        else:
            continue
        found.append(OrderedColumn(column.name, _name_scale(column), sides[0], sides[1]))
    return tuple(found)


def _name_scale(column: Column) -> str:
    if isinstance(column, Listed):
        return "code" if any(isinstance(value, str) for value in column.values or ()) else "number"
    return column.kind if isinstance(column, Temporal) else "number"


def _number_codes(column: Listed, rows: Rows) -> Numbers:
    """Listed values as numbers, or their places where they are texts; NaN for other and missing ones."""
    values = column.values or ()
    named = _name_scale(column) == "code"
    known = [float(place if named else value) for place, value in enumerate(values)]
    numbers = np.array([*known, *[np.nan] * (column.size - len(known))])
    return np.asarray(numbers[rows.encoded.column(column.name)], dtype=np.float64)


EXPECTED_BREAKS = 10.0
"""An order counts if independent columns of the same numbers would break it in as many rows or more, which
they all keep by chance with probability exp(-10) at most."""
DAY = " (day)"


def find_orders(task: Task) -> tuple[tuple[OrderedColumn, OrderedColumn], ...]:
    """Pairs of columns of which the first is at most the second in every real row that has both.

    Numbers are held against numbers, dates against dates and against the days of moments, and so on. An order
    that follows from the columns' ranges alone is left out, see `EXPECTED_BREAKS`.
    """
    return task.once("orders", lambda: _find_all(task))


def _find_all(task: Task) -> tuple[tuple[OrderedColumn, OrderedColumn], ...]:
    columns = [column for column in read_ordered(task) if column.scale != "code"]
    columns += [take_day(column) for column in columns if column.scale == "moment"]
    known = {column.name: np.sort(column.real[~np.isnan(column.real)]) for column in columns}
    found = []
    for lower, upper in permutations(columns, 2):
        if lower.scale != upper.scale or (lower.name.endswith(DAY) and upper.name.endswith(DAY)):
            continue
        first, last = known[lower.name], known[upper.name]
        if not first.size or not last.size or first[-1] <= last[0]:
            continue
        holds, rows = order_holds(lower.real, upper.real)
        if holds and rows * count_exceeding(first, last) >= EXPECTED_BREAKS:
            found.append((lower, upper))
    return tuple(found)


def take_day(column: OrderedColumn) -> OrderedColumn:
    """The dates of a column of moments, to hold against columns of dates."""
    days = [np.floor(values / clock.DAY) for values in (column.real, column.synthetic)]
    return OrderedColumn(column.name + DAY, "date", days[0], days[1])


@final
@dataclass(frozen=True, slots=True)
class OrderBroken:
    """The share of synthetic rows that break an order which no real row breaks. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The share of rows that break one or more; each order's own share is a part."""
        orders = find_orders(task)
        scope = f"{len(orders)} orders of two columns"
        if not orders:
            return self.facts.undefined_score(
                scope, "no two columns stand in an order that every real row keeps"
            )
        broken = np.zeros(task.synthetic.size, dtype=np.bool_)
        parts = {}
        for lower, upper in orders:
            breaks = lower.synthetic > upper.synthetic
            parts[f"{lower.name} <= {upper.name}"] = float(breaks.mean())
            broken |= breaks
        return self.facts.score(float(broken.mean()), scope, parts=parts)


BLOCK = 1 << 16
"""Rows whose ranks are held at a time."""
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
            return self.facts.undefined_score(
                "0 pairs", "there are no two columns of numbers or ordered codes"
            )
        upper = np.triu_indices(len(columns), 1)
        found, both = rank_correlations([column.real for column in columns])
        real, rows = found[upper], both[upper]
        synthetic = rank_correlations([column.synthetic for column in columns])[0][upper]
        defined = ~np.isnan(real) & (rows > 2)
        real, rows = real[defined], rows[defined]
        synthetic = np.nan_to_num(synthetic[defined])
        scope = f"{real.size} pairs of columns in order"
        if float(np.sum(real**2 * (rows - 1))) <= real.size + NOISE_DEVIATIONS * np.sqrt(2 * real.size):
            return self.facts.undefined_score(
                scope, "the real table has no rank correlation above sampling noise"
            )
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
