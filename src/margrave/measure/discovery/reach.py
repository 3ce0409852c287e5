"""How far a column's numbers go: what noise leaves far out, or in the future, is little or nothing."""

from __future__ import annotations

import dataclasses
import datetime
import math

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.values import Histogram
from margrave.measure.mechanisms.partition import MIN_DEVIATIONS
from margrave.schema.columns import Binned, Date, Moment, Whole
from margrave.schema.columns.binned import fade_factors
from margrave.schema.storage.clock import DAY

Array = NDArray[np.float64]

LEAST_DEVIATIONS = 20.0
"""Rows, in deviations of the noise in a cell, from which on what is not evident may be left out of a range.
Not measured."""
Z_SIDE = 4.5
"""Noise standard deviations from which on some cells beside each other hold rows for certain."""
AGAINST = 0.01
"""Share of the rows up to which those in a part of the cells are taken for noise, and get no bin."""


def limit_reach(
    found: Histogram, column: Binned, near: bool, today: datetime.date
) -> tuple[Histogram, tuple[float, ...]]:
    """The cells with less weight where no rows are evident, and the reach beyond which it fades, if any.

    Args:
        found: The cells of a column after all looks.
        column: The column, before its bins are known.
        near: Whether its declared bounds are near each other, so that no number is far out.
        today: The day on which the run began.
    """
    noise = float(np.sqrt(found.variances.mean()))
    if isinstance(column, (Date, Moment)):
        return leave_future(found, column, noise, today), ()
    # Times have no octaves.
    if column.read != "number" or near:
        return found, ()
    reach = find_reach(found.weights, noise, found.edges)
    weights = fade_cells(found.weights, found.edges, reach, noise, isinstance(column, Whole))
    return dataclasses.replace(found, weights=weights), reach


def leave_future(found: Histogram, column: Date | Moment, sigma: float, today: datetime.date) -> Histogram:
    """The cells without weight in the future, where no rows are evident there.

    Most dates tell what has happened. What day it is is public. A day is left for clocks elsewhere.

    Args:
        found: The cells of a column.
        column: Of dates or moments; a declared upper bound says how far they go.
        sigma: Standard deviation of the noise in a cell.
        today: The day on which the run began.
    """
    end = float(((today - datetime.date(1970, 1, 1)).days + 2) * (DAY if isinstance(column, Moment) else 1))
    first = int(np.searchsorted(found.edges, end))
    if column.upper is not None or not 0 < first < len(found.edges):
        return found
    if found.edges[first] != end:
        found = _split_cell(found, first - 1, end)
    ahead = slice(first, None)
    if not is_noise(found.noisy[ahead], found.noisy, sigma):
        return found
    weights = found.weights.copy()
    weights[ahead] = 0.0
    return dataclasses.replace(found, weights=weights)


def _split_cell(found: Histogram, cell: int, at: float) -> Histogram:
    """The cells with one of them cut in two, of which the first keeps its rows and the second has none."""
    return Histogram(
        edges=np.insert(found.edges, cell + 1, at),
        noisy=np.insert(found.noisy, cell + 1, 0.0),
        variances=np.insert(found.variances, cell + 1, 0.0),
        weights=np.insert(found.weights, cell + 1, 0.0),
        alone=np.insert(found.alone, cell + 1, False),
        atoms=np.insert(found.atoms, cell + 1, False),
    )


def find_reach(weights: Array, rows: float, edges: Array) -> tuple[float, float]:
    """The ends of the cells beyond either of which fewer than so many rows are expected, all together.

    What is expected beyond fades (`fade_factors`). Without it a few rows in the thousands made a mean of 1 a
    mean of 8 where one octave in fifty was more than three deviations of its noise above 0: bench/LOG.md,
    2026-11-29.

    Args:
        weights: Expected counts, none negative, shape [cells].
        rows: A standard deviation of the noise in a cell: rows of which there are fewer are not evident even
            together.
        edges: Shape [cells + 1].
    """
    upper = np.flatnonzero(np.cumsum(weights[::-1])[::-1] >= rows)
    lower = np.flatnonzero(np.cumsum(weights) >= rows)
    if not len(upper):
        return float(edges[0]), float(edges[-1])
    return float(edges[lower[0]]), float(edges[upper[-1] + 1])


def fade_cells(weights: Array, edges: Array, reach: tuple[float, float], sigma: float, whole: bool) -> Array:
    """Weights that fade beyond a reach, and are 0 where columns seldom have rows: shape [cells].

    Most columns of numbers have none below 0, and of those of whole numbers whose rows are 0 and 1 most are
    flags. So where the reach ends there, and noise is not so large that it tells nothing, what noise leaves
    of other numbers is left out: fewer rows, all together, than one deviation of the noise in a cell.

    Args:
        weights: Expected counts, none negative, shape [cells].
        edges: Shape [cells + 1].
        reach: As `find_reach` has it.
        sigma: Standard deviation of the noise in a cell.
        whole: Whether the numbers are whole.
    """
    found = weights * fade_factors(edges, reach)
    if reach[0] < 0.0 or float(weights.sum()) < LEAST_DEVIATIONS * sigma:
        return found
    found = np.where(edges[1:] <= 0.0, 0.0, found)
    return np.where(edges[:-1] >= 2.0, 0.0, found) if whole and reach[1] <= 2.0 else found


def is_noise(part: Array, cells: Array, sigma: float) -> bool:
    """Whether a part of the cells holds a negligible share of the rows, or noise: in all and in every run."""
    bar = max(AGAINST * float(cells.sum()), MIN_DEVIATIONS * sigma * math.sqrt(len(part)))
    return float(part.sum()) <= bar and not (len(part) > 1 and _some_run_stands_out(part, sigma))


def _some_run_stands_out(cells: Array, sigma: float) -> bool:
    """Whether some run of 1, 2, 4, 8, ... cells holds more than Z_SIDE standard deviations of its noise."""
    sums = np.concatenate([[0.0], np.cumsum(cells)])
    lengths = (1 << power for power in range(len(cells).bit_length()))
    return any(
        float((sums[length:] - sums[:-length]).max()) > Z_SIDE * sigma * math.sqrt(length)
        for length in lengths
    )
