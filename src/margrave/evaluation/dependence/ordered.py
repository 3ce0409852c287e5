"""Columns that stand in an order, as numbers: of a real and a synthetic table. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.schema.columns import Column, Ordinal, Temporal

__all__ = ["OrderedColumn", "read_ordered"]

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
        elif isinstance(column, Ordinal):
            sides = [_number_codes(column, rows) for rows in (task.real, task.synthetic)]
        else:
            continue
        found.append(OrderedColumn(column.name, _name_scale(column), sides[0], sides[1]))
    return tuple(found)


def _name_scale(column: Column) -> str:
    if isinstance(column, Ordinal):
        return "code" if any(isinstance(value, str) for value in column.values or ()) else "number"
    return column.kind if isinstance(column, Temporal) else "number"


def _number_codes(column: Ordinal, rows: Rows) -> Numbers:
    """Listed values as numbers, or their places where they are texts; NaN for other and missing ones."""
    values = column.values or ()
    named = _name_scale(column) == "code"
    known = [float(place if named else value) for place, value in enumerate(values)]
    numbers = np.array([*known, *[np.nan] * (column.size - len(known))])
    return np.asarray(numbers[rows.encoded.column(column.name)], dtype=np.float64)
