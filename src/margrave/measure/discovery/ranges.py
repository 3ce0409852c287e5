"""Cells of the looks at numbers, dates and moments: each row is in one cell of a look at most.

Of numbers the first cells are fixed and cover all of them, and finer ones lie between noisy bounds. Of dates
and moments, in the second half, the first cells are years, then come days, then what the span allows. There
numbers are days since 1970-01-01 throughout; moments are the same cells in microseconds.

The first cells of either are public. All others are made from released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.occupancy import trimmed_range
from margrave.schema.columns import Binned, Date, Moment, Whole
from margrave.schema.storage.clock import DAY

Array = NDArray[np.float64]

PLACE_CELLS = 128
"""Cells of equal width in the second look at bounds."""
REFINED_CELLS = 16
"""Cells an octave in the second look, over the twelve octaves below the top; half as many below those."""
OCTAVES, MOST_OCTAVES = 12, 44
"""Octaves below the top that have REFINED_CELLS, and most further ones below those. Not measured."""
TYPICAL_OCTAVE, SLOPE, NEGATIVE_ODDS = 6.0, 3.0, 0.125
"""The likeliest octave of numbers, how many octaves off are e times less likely, and numbers below zero."""
NEAR_ZERO = 1 / 4
"""Size of the nearer bound, as a share of the other's, up to which the range begins at zero."""
UNIFORM_CELLS = 256
"""Equal-width cells in the second look, so that numbers far from zero (years) are resolved too."""
MOST_VALUES = 300
"""Whole numbers in range up to which each has a cell, if one deviation of rows a number is there."""
MOST_DAYS = 1100
"""Days between declared bounds up to which each has a cell of its own, if there are rows enough."""
CELL_DEVIATIONS, MAX_LOOK_CELLS = 2.0, 512
"""Noise standard deviations of rows that a cell should have in the mean, and cells of the finest look. Cells
are pooled afterwards as far as the counts suggest: bench/LOG.md, 2026-11-24."""


def number_edges(whole: bool) -> Array:
    """Public, fixed edges that cover all numbers: the powers of two either side of zero.

    Cells are few, so that small tables show where their numbers are at all; `place_edges` follows.

    Whole numbers up to 2^53, where integers stop being exact in float64; other numbers between 2^-30 and
    2^60, with one cell for all that is nearer to zero.
    """
    low, high = (0, 53) if whole else (-30, 60)
    positive = np.ldexp(1.0, np.arange(low, high + 1))
    if whole:
        return np.concatenate([1 - positive[::-1], positive])
    return np.concatenate([-positive[::-1], positive])


def place_edges(lower: float, upper: float, whole: bool) -> Array:
    """Edges of the second look at bounds, of equal width, so that numbers far from zero (years) are found.

    Args:
        lower: Where the cells begin.
        upper: Where they end.
        whole: Whether edges have to be whole numbers.
    """
    edges = np.linspace(lower, upper, PLACE_CELLS + 1)
    return np.unique(np.ceil(edges)) if whole else edges


def nearest(edges: Array, noisy: Array, sigma: float, z: float) -> float | None:
    """The power of two down to which numbers go towards zero, by the octaves that hold anything for certain.

    Args:
        edges: Cell edges of the first look, shape [cells + 1].
        noisy: Its noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        z: Standard deviations above which an octave counts.

    Returns:
        None where no octave does.
    """
    size = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:]))
    crossing = edges[:-1] * edges[1:] <= 0
    octaves = np.floor(np.log2(np.where(crossing, 1.0, np.maximum(size, 1e-300)))).astype(np.int64)
    for octave in np.unique(octaves[~crossing]):
        cells = (octaves == octave) & ~crossing
        if float(noisy[cells].max()) > z * sigma:
            return float(np.ldexp(1.0, int(octave)))
    return None


def number_prior(edges: Array) -> Array:
    """The share of the numbers of a column of which nothing is known in each cell of the first look: [cells].

    Numbers are likeliest around TYPICAL_OCTAVE in size, less so by a factor of e for each SLOPE octaves up or
    down, and seldom below zero. It matters only where noise hides the numbers.

    Args:
        edges: Those of `number_edges`, shape [cells + 1].
    """
    size = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:]))
    octave = np.log2(np.where(edges[:-1] * edges[1:] <= 0, 1.0, np.maximum(size, 1e-300)))
    share = np.exp(-np.abs(octave - TYPICAL_OCTAVE) / SLOPE) * np.where(edges[1:] <= 0, NEGATIVE_ODDS, 1.0)
    return np.asarray(share / share.sum())


def reach_to_zero(edges: Array, counts: Array, held: tuple[int, int]) -> tuple[Array, Array, tuple[int, int]]:
    """Cells and their range, which is made to begin at zero where that widens it by little.

    The new cell between zero and the range is expected to hold rows as densely as the cell beside it.

    Args:
        edges: Cell edges, shape [cells + 1].
        counts: Expected counts, shape [cells].
        held: First cell of the range, and the one after its last.

    Returns:
        The same, one cell for all between zero and the range.
    """
    first, last = held
    lower, upper = float(edges[first]), float(edges[last])
    if 0 < lower <= upper * NEAR_ZERO:
        beside = counts[first] / (edges[first + 1] - lower) * lower
        return np.append(0.0, edges[first:]), np.append(beside, counts[first:]), (0, last - first + 1)
    if lower * NEAR_ZERO <= upper < 0:
        beside = counts[last - 1] / (upper - edges[last - 1]) * -upper
        return np.append(edges[: last + 1], 0.0), np.append(counts[:last], beside), (first, last + 1)
    return edges, counts, held


SLIVER = 1e-6
"""Part of their size that edges are apart, at least: numbers are not seen more finely."""


def choose_fineness(rows: float, sigma: float) -> float:
    """Share of MAX_LOOK_CELLS that the rows suffice for: CELL_DEVIATIONS deviations of noise in each cell.

    Args:
        rows: How many rows there are, about.
        sigma: Standard deviation of the noise in each cell.
    """
    return float(np.clip(rows / (CELL_DEVIATIONS * sigma * MAX_LOOK_CELLS), 1 / MAX_LOOK_CELLS, 1.0))


def refined_edges(
    lower: float,
    upper: float,
    whole: bool,
    near: float | None = None,
    detail: float = 1.0,
    inner: tuple[float, float] | None = None,
) -> Array:
    """Edges for the second look over [lower, upper): cells that grow with the number, and equal ones.

    Sixteen cells an octave over the twelve octaves below the top, eight an octave from there down to `near`,
    so that amounts over many orders of magnitude are resolved at each of them, and 256 cells of equal width.
    0 has a cell of its own where it is inside.

    Args:
        lower: Where the cells begin.
        upper: Where they end.
        whole: Whether edges have to be whole numbers.
        near: How near to zero numbers come; None if that is not known.
        detail: Share of all these cells to have, above 0: few rows are better seen in few cells.
        inner: Where nearly all rows are expected, and the cells of equal width are; everywhere when None.
    """
    octave_cells = max(2 * round(REFINED_CELLS * detail / 2), 2)
    low, high = (lower, upper) if inner is None or inner[0] >= inner[1] else inner
    uniform = np.linspace(low, high, max(round(UNIFORM_CELLS * detail), 8) + 1)
    top = int(np.ceil(np.log2(max(abs(lower), abs(upper)))))
    octave, part = np.divmod(np.arange(OCTAVES * octave_cells + 1), octave_cells)
    positive = np.ldexp(1.0 + part / octave_cells, octave + top - OCTAVES)
    deeper = 0 if near is None else top - OCTAVES - int(np.floor(np.log2(near)))
    steps = np.arange(max(min(deeper, MOST_OCTAVES), 0) * octave_cells // 2)
    octave, part = np.divmod(steps, octave_cells // 2)
    small = np.ldexp(1.0 + 2 * part / octave_cells, top - OCTAVES - 1 - octave)
    positive = np.concatenate([positive, small])
    alone = [0.0, 1.0] if whole else [0.0, np.nextafter(0.0, 1.0)]
    edges = np.concatenate([uniform, positive, -positive, alone])
    edges = np.unique(np.ceil(edges) + 0.0 if whole else edges)
    inside = edges[(edges > lower) & (edges < upper)]
    edges = np.concatenate([[lower], inside, [upper]])
    # Equal cells and octaves meet now and then but for rounding: a cell between such edges would be drawn as
    # one number that no row has.
    near = np.diff(edges) <= SLIVER * np.abs(edges[1:])
    near &= np.abs(edges[1:]) >= np.finfo(np.float64).tiny
    dropped = np.append(False, near)
    if len(edges) > 2:  # the ends stay, so the edge before a near end goes
        dropped[-2] |= dropped[-1]
    dropped[[0, -1]] = False
    return np.asarray(edges[~dropped])


def add_end(edges: Array, prior: Array) -> tuple[Array, Array]:
    """Half-open cells with one more, of the last edge alone, and the counts expected of them.

    A declared greatest number is often one that many rows have, as 100 of percentages, and rows beyond it
    are moved there. As many rows are expected of it as of the average cell.

    Args:
        edges: Cell edges, shape [cells + 1].
        prior: Counts expected of the cells, shape [cells].
    """
    return np.append(edges, np.nextafter(edges[-1], np.inf)), np.append(prior, prior.mean())


def reach_ends(
    edges: Array, fine: Array, weights: Array, lower: float, upper: float
) -> tuple[Array, Array, Array]:
    """Bins made to begin and end where that is declared; nothing is drawn from what is added.

    Args:
        edges: Bin edges, shape [bins + 1].
        fine: Edges of the cells inside, shape [cells + 1].
        weights: Weight of each cell, shape [cells].
        lower: Where the first bin has to begin.
        upper: Where the last bin has to end.
    """
    edges, fine, weights = edges.copy(), fine.copy(), weights.copy()
    if lower < fine[0]:
        fine, weights = np.append(lower, fine), np.append(0.0, weights)
    if upper > fine[-1]:
        fine, weights = np.append(fine, upper), np.append(weights, 0.0)
    elif fine[-2] < upper < fine[-1]:
        fine[-1] = upper
    edges[0], edges[-1] = fine[0], fine[-1]
    return edges, fine, weights


def on_steps(edges: Array, step: float) -> Array:
    """The edges moved up to multiples of a step that all values are on: no value changes its cell.

    Args:
        edges: Increasing, shape [cells + 1].
        step: Positive; below 1 one over a whole number.
    """
    found = move_to_steps(edges, step)
    return found if len(found) > 1 else np.array([found[0], found[0] + step])


def move_to_steps(edges: Array, step: float) -> Array:
    """Edges inside a cell moved up to multiples of a step, as `on_steps` does; those that meet are one."""
    moved = np.ceil(edges / step) * step if step >= 1 else np.ceil(edges * round(1 / step)) / round(1 / step)
    return np.unique(moved + 0.0)


def steps_between(low: float, high: float, step: float) -> Array:
    """Edges from low to beyond high, one step apart, to be moved onto whole multiples by `on_steps`."""
    return np.asarray(np.arange(math.floor(low / step), math.ceil(high / step) + 1) * step, dtype=np.float64)


Spans = list[tuple[float, float]]

YEARS = (1, 2, 3, 1000, *range(1600, 2501), 3000, 9000, 9998, 9999, 10_000)
"""First years of the first look's cells: one a year where dates are, and room for placeholders."""
FEW_CELLS, MOST_CELLS = 800, 1100
"""Cells of the last look at dates, about, and those that single days may take at most. Not measured."""
GAP = 30.0
"""Cells of nothing between two spans that stay one."""
RECENT_YEARS, OTHER_YEARS_ODDS = (1900, 2051), 0.01
"""Years in which dates are likeliest, and how likely others of this calendar are against them."""
MAX_GAP_SHARE = 0.05
"""Share of the mean count below which a cell is part of a gap."""
MONDAY = 4
"""The first Monday after 1970-01-01, in days."""
SECONDS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0)
"""Lengths in seconds that cells within a day may have, the finest that fits being taken."""
A_DAY = 86_400.0
"""Seconds of a day."""


def year_edges() -> Array:
    """Public, fixed edges that cover all dates of the years 1 to 9999, in days: shape [cells + 1]."""
    return np.array([_day(year) for year in YEARS], dtype=np.float64)


def _day(year: int) -> int:
    return int(np.datetime64(f"{year:05d}-01-01" if year > 9999 else f"{year:04d}-01-01", "D").astype(int))


def year_prior() -> Array:
    """The share of dates of which nothing is known in each cell of the first look: shape [cells]."""
    years = np.asarray(YEARS[:-1])
    share = np.where((years >= 1600) & (years <= 2500), OTHER_YEARS_ODDS, OTHER_YEARS_ODDS / 2)
    share = np.where((years >= RECENT_YEARS[0]) & (years < RECENT_YEARS[1]), 1.0, share)
    return np.asarray(share / share.sum())


def spans(edges: Array, counts: Array, share: float) -> Spans:
    """Stretches that rows are expected in, without long gaps and with few rows outside.

    Args:
        edges: Cell edges of a look, shape [cells + 1].
        counts: Expected counts, shape [cells].
        share: Of their sum, what may be outside, half of it at either end.
    """
    first, last = trimmed_range(counts, share)
    held = np.flatnonzero(counts[first:last] > MAX_GAP_SHARE * float(counts.sum()) / len(counts)) + first
    held = np.unique([first, *held.tolist(), last - 1])
    runs = np.split(held, np.flatnonzero(np.diff(held) > GAP) + 1)
    return [(float(edges[run[0]]), float(edges[run[-1] + 1])) for run in runs]


def day_edges(found: Spans) -> Array | None:
    """Edges of a second look, by the day; None if that were too many cells."""
    if sum(high - low for low, high in found) > MOST_CELLS:
        return None
    return _join_edges([np.arange(low, high + 1) for low, high in found])


def span_edges(found: Spans, clock: bool, detail: float = 1.0) -> Array:
    """Edges of the last look: in units of the calendar or the clock, as fine as a few hundred cells allow.

    Args:
        found: The stretches to look at, in days; each has its own unit.
        clock: Whether cells may be shorter than a day.
        detail: Share of those few hundred cells to have, above 0.
    """
    few = max(FEW_CELLS * detail, 8.0)
    return _join_edges(
        [_clock(low, high, few) if clock else _calendar(low, high, few) for low, high in found]
    )


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


def _join_edges(parts: Sequence[Array]) -> Array:
    """Edges of all stretches, with one cell for each gap between them."""
    return np.unique(np.concatenate([np.asarray(part, dtype=np.float64) for part in parts]))


def count_zeros(edges: Array, counts: Array) -> float:
    """Rows expected in the cell of a look at bounds that begins with 0 or holds it, where that is narrow."""
    cell = int(np.searchsorted(edges, 0.0, side="right")) - 1
    held = 0 <= cell < len(counts) and edges[cell + 1] - edges[cell] <= 1.0
    return float(counts[cell]) if held else 0.0


def is_narrow(column: Binned) -> bool:
    """Whether declared bounds lie so close together that no look at powers of two is needed: public.

    Each whole number, or each day, between them can have a cell of its own.
    """
    if not column.provisional or column.lower is None or column.upper is None:
        return False
    wide = float(column.upper) - float(column.lower)
    if isinstance(column, (Date, Moment)):
        return wide <= MOST_DAYS * (DAY if isinstance(column, Moment) else 1)
    return isinstance(column, Whole) and column.read == "number" and wide < MOST_VALUES
