"""Scores: the numbers that stand for the codes of a column in means, quantiles and regressions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Column, Integer, Listed, Real, Whole

Floats = NDArray[np.float64]


def scores_of(column: Column) -> Floats | None:
    """A number for each code, shape [codes], NaN where a code has none; None if no code has.

    The number of a bin is the middle of its values, that of a listed value is the value. Missing values, and
    "(other)", have none. Dates, times and durations are not numbers here.
    """
    found: Floats = np.full(column.size, np.nan)
    if isinstance(column, Integer | Real):
        edges = column.edge_array
        last = 1.0 if isinstance(column, Whole) else 0.0
        found[: column.present] = (edges[:-1] + edges[1:] - last) / 2.0
        return found
    if not isinstance(column, Listed) or column.values is None or column.stems:
        return None
    if not column.values or any(isinstance(value, str) for value in column.values):
        return None
    found[: len(column.values)] = [float(value) for value in column.values]
    return found


def ranges_of(column: Column) -> tuple[Floats, Floats] | None:
    """The least and the greatest number of each code, both of shape [codes]; see `scores_of`."""
    middles = scores_of(column)
    if middles is None or not isinstance(column, Integer | Real):
        return None if middles is None else (middles, middles)
    least, greatest = middles.copy(), middles.copy()
    edges = column.edge_array
    least[: column.present] = edges[:-1]
    greatest[: column.present] = edges[1:] - (1.0 if isinstance(column, Whole) else 0.0)
    return least, greatest
