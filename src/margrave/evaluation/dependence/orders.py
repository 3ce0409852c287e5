"""Orders such as admitted <= discharged that no real row breaks, rows that break them. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.dependence.kernels import count_exceeding, order_holds
from margrave.evaluation.dependence.ordered import OrderedColumn, read_ordered
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

__all__ = ["OrderBroken", "find_orders", "take_day"]

Numbers = NDArray[np.float64]
EXPECTED_BREAKS = 10.0
"""An order counts if independent columns of the same numbers would break it in as many rows or more, which
they all keep by chance with probability exp(-10) at most."""
MICROSECONDS_A_DAY = 86_400_000_000
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
    days = [np.floor(values / MICROSECONDS_A_DAY) for values in (column.real, column.synthetic)]
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
            return self.facts.undefined(scope, "no two columns stand in an order that every real row keeps")
        broken = np.zeros(task.synthetic.size, dtype=np.bool_)
        parts = {}
        for lower, upper in orders:
            breaks = lower.synthetic > upper.synthetic
            parts[f"{lower.name} <= {upper.name}"] = float(breaks.mean())
            broken |= breaks
        return self.facts.score(float(broken.mean()), scope, parts=parts)
