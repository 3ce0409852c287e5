"""Cells of the looks at dates and moments: years first, then days, then what the span allows.

The first grid is public; the others are made from released numbers only. Numbers are days since 1970-01-01
throughout; moments are the same cells in microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.measure.occupancy import trimmed_range

__all__ = ["day_edges", "span_edges", "spans", "year_edges", "year_prior"]

Array = NDArray[np.float64]
Spans = list[tuple[float, float]]

YEARS = (1, 2, 3, 1000, *range(1600, 2501), 3000, 9000, 9998, 9999, 10_000)
"""First years of the first look's cells: one a year where dates are, and room for placeholders."""
FEW_CELLS, MOST_CELLS = 800, 1100
GAP = 30.0
"""Cells of nothing between two spans that stay one."""
RECENT, SELDOM = (1900, 2051), 0.01
"""Years in which dates are likeliest, and how likely others of this calendar are against them."""
EMPTY = 0.05
"""Share of the mean count below which a cell is part of a gap."""
MONDAY = 4
"""The first Monday after 1970-01-01, in days."""
SECONDS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0)
A_DAY = 86_400.0


def year_edges() -> Array:
    """Public, fixed edges that cover all dates of the years 1 to 9999, in days: shape [cells + 1]."""
    return np.array([_day(year) for year in YEARS], dtype=np.float64)


def _day(year: int) -> int:
    return int(np.datetime64(f"{year:05d}-01-01" if year > 9999 else f"{year:04d}-01-01", "D").astype(int))


def year_prior() -> Array:
    """The share of dates of which nothing is known in each cell of the first look: shape [cells]."""
    years = np.asarray(YEARS[:-1])
    share = np.where((years >= 1600) & (years <= 2500), SELDOM, SELDOM / 2)
    share = np.where((years >= RECENT[0]) & (years < RECENT[1]), 1.0, share)
    return np.asarray(share / share.sum())


def spans(edges: Array, counts: Array) -> Spans:
    """Stretches that rows are expected in, without long gaps and with few rows outside.

    Args:
        edges: Cell edges of a look, shape [cells + 1].
        counts: Expected counts, shape [cells].
    """
    first, last = trimmed_range(counts)
    held = np.flatnonzero(counts[first:last] > EMPTY * float(counts.sum()) / len(counts)) + first
    held = np.unique([first, *held.tolist(), last - 1])
    runs = np.split(held, np.flatnonzero(np.diff(held) > GAP) + 1)
    return [(float(edges[run[0]]), float(edges[run[-1] + 1])) for run in runs]


def day_edges(found: Spans) -> Array | None:
    """Edges of a second look, by the day; None if that were too many cells."""
    if sum(high - low for low, high in found) > MOST_CELLS:
        return None
    return _joined([np.arange(low, high + 1) for low, high in found])


def span_edges(found: Spans, clock: bool, detail: float = 1.0) -> Array:
    """Edges of the last look: in units of the calendar or the clock, as fine as a few hundred cells allow.

    Args:
        found: The stretches to look at, in days; each has its own unit.
        clock: Whether cells may be shorter than a day.
        detail: Share of those few hundred cells to have, above 0.
    """
    few = max(FEW_CELLS * detail, 8.0)
    return _joined([_clock(low, high, few) if clock else _calendar(low, high, few) for low, high in found])


def _clock(low: float, high: float, few: float) -> Array:
    """Edges over [low, high] by the second, minute, hour or what lies between, else as `_calendar`."""
    for unit in SECONDS:
        if (high - low) * A_DAY / unit <= few:
            per_day = round(A_DAY / unit)
            return np.arange(low * per_day, high * per_day + 1) / per_day
    return _calendar(low, high, few)


def _calendar(low: float, high: float, few: float) -> Array:
    """Edges over [low, high] by the day, week, month, quarter or year, whichever keeps within the cells."""
    days = high - low
    if days <= MOST_CELLS / FEW_CELLS * few:
        return np.arange(low, high + 1)
    if days <= 7 * few:
        first = low + (MONDAY - low) % 7
        return np.concatenate([[low], np.arange(first, high, 7), [high]])
    months = next((unit for unit in (1, 3) if days <= 30 * unit * few), 12)
    first, last = (np.datetime64(int(day), "D").astype("datetime64[M]").astype(int) for day in (low, high))
    starts = np.arange(first // months * months, last + 1, months).astype("datetime64[M]")
    found = starts.astype("datetime64[D]").astype(np.int64)
    return np.concatenate([[low], found[(found > low) & (found < high)], [high]])


def _joined(parts: Sequence[Array]) -> Array:
    """Edges of all stretches, with one cell for each gap between them."""
    return np.unique(np.concatenate([np.asarray(part, dtype=np.float64) for part in parts]))
