"""Numbers drawn inside the bins of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Integer, Whole
from margrave.schema.columns.repeats import share_rows
from margrave.schema.cycles import Cycle
from margrave.schema.storage.forms import read_narrow
from margrave.schema.storage.months import draw_first_days

Bins = NDArray[np.int64]
Reals = NDArray[np.float64]

UNIQUE_ROUNDS = 20
"""How often numbers that were drawn before are drawn again."""


def whole_numbers(
    bins: Bins,
    column: Whole,
    rng: np.random.Generator,
    cycle: Cycle | None = None,
    start: NDArray[np.int64] | int = 0,
) -> NDArray[np.int64]:
    """A whole number in each row's bin, shape [rows], on one of the column's grids as their shares say.

    Dates and moments are drawn by their hours and weekdays where these are known, and dates whose texts name
    no day on the first of a month.

    Args:
        bins: Shape [rows].
        column: Their column.
        rng: Source of randomness.
        cycle: The cycle of what the numbers are added to `start` for; that of the column itself if None.
        start: What the cycle is to be counted from, shape [rows] or one for all.
    """
    low, high = (end.astype(np.int64) for end in _cells(bins, column, rng))
    if column.has_months:
        edges = column.edge_array.astype(np.int64)
        return draw_first_days((low, high), (edges[bins], edges[bins + 1]), rng.random(len(bins)))
    cycle = cycle or Cycle.of(column)
    if cycle is None:
        drawn = rng.integers(low, high, dtype=np.int64)
    else:
        drawn = cycle.draw(start + low, start + high, rng) - start
    found: NDArray[np.int64] = _round_to_grid(drawn, (low, high), bins, column, rng)
    return found


def unique_numbers(
    bins: Bins, column: Whole, rng: np.random.Generator, rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """As `whole_numbers`, no number twice among some of the rows, as far as the column's range has so many.

    Numbers that were drawn before are drawn again from the same bin; where it has no more, the nearest free
    ones beyond it are taken.

    Args:
        bins: Shape [all rows].
        column: Their column.
        rng: Source of randomness.
        rows: The rows whose numbers are to differ.
    """
    found = whole_numbers(bins, column, rng)
    if not _redraw_repeats(found, rows, bins, column, rng):
        found[rows] = _move_apart(found[rows], column)
    return found


def repeated_numbers(
    bins: Bins, column: Integer, rng: np.random.Generator, rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """As `whole_numbers`, numbers shared by some of the rows of a bin as the column's `repeats` say.

    Numbers with a cell of their own stay as they are drawn.

    Args:
        bins: Shape [all rows].
        column: Their column.
        rng: Source of randomness.
        rows: The rows whose numbers may be shared.
    """
    found = whole_numbers(bins, column, rng)
    fine = np.asarray(column.fine if column.fine is not None else column.edges)
    cells = np.searchsorted(fine, found[rows], side="right") - 1
    rows = rows[np.diff(fine)[cells] > 1]
    heads, owners, keys = list[NDArray[np.intp]](), np.zeros(len(rows), dtype=np.int64), 0
    for held in np.unique(bins[rows]):
        inside = np.flatnonzero(bins[rows] == held)
        _, first, owner = np.unique(
            share_rows(len(inside), column.repeats, rng), return_index=True, return_inverse=True
        )
        heads.append(rows[inside[first]])
        owners[inside] = owner + keys
        keys += len(first)
    if not keys:
        return found
    # The number of a key is that of its first row.
    head = np.concatenate(heads)
    _redraw_repeats(found, head, bins, column, rng)
    found[rows] = found[head][owners]
    return found


def _redraw_repeats(
    found: NDArray[np.int64], rows: NDArray[np.intp], bins: Bins, column: Whole, rng: np.random.Generator
) -> bool:
    """Draw numbers of some rows that were drawn before again, from the same bin and in place, a few times.

    Returns:
        Whether all of these rows differ then.
    """
    for _ in range(UNIQUE_ROUNDS):
        again = rows[_find_repeats(found[rows])]
        if not len(again):
            return True
        found[again] = whole_numbers(bins[again], column, rng)
    return False


def _find_repeats(values: NDArray[np.int64]) -> NDArray[np.intp]:
    """Places of values that are equal to an earlier one."""
    order = np.argsort(values, kind="stable")
    found: NDArray[np.intp] = order[1:][np.diff(values[order]) == 0]
    return found


def _move_apart(values: NDArray[np.int64], column: Whole) -> NDArray[np.int64]:
    """Different numbers near the values, in the column's range and on the step that all are on."""
    step = int(column.step) or 1
    edges = column.edge_array
    first, last = -(-int(edges[0]) // step), (int(edges[-1]) - 1) // step
    place = np.arange(len(values))
    if last - first + 1 < len(values):
        return values
    order = np.argsort(values, kind="stable")
    # Each at least one above the one before, then each low enough for those behind it.
    apart = place + np.maximum.accumulate(np.maximum(values[order] // step, first) - place)
    apart = np.minimum(apart, last - place[::-1])
    found = np.empty_like(values)
    found[order] = apart * step
    return found


def real_numbers(bins: Bins, column: Binned, rng: np.random.Generator, dtype: Any = np.float64) -> Any:
    """A number in each row's bin, shape [rows], rounded to dtype, on one of the column's grids.

    Rounding never carries a number out of its bin, unless dtype has no number in it at all.
    """
    low, high = _cells(bins, column, rng)
    part = rng.random(len(bins))
    top = float(np.finfo(dtype).max)
    # A cell with no number between its ends holds that one number. The sum of two products cannot overflow
    # as the width of a wide cell might.
    drawn = np.where(high > np.nextafter(low, np.inf), low * (1.0 - part) + high * part, low)
    values = np.clip(_round_to_grid(drawn, (low, high), bins, column, rng), -top, top).astype(dtype)
    # Rounding to a smaller type may carry a number over its bin's end, where it would be read back as the
    # next code: so the ends are the nearest numbers of that type inside of each bin.
    edges = column.edge_array
    near = np.clip(edges, -top, top).astype(dtype)
    read = near if dtype == np.float64 else read_narrow(near)
    infinity = dtype(np.inf)
    with np.errstate(over="ignore"):
        floor = np.minimum(np.where(read < edges, np.nextafter(near, infinity), near), dtype(top))
        below = np.maximum(np.nextafter(near, -infinity), dtype(-top))
    ceiling = np.where(read >= edges, below, near)
    # The kind says whether its last bin has its end.
    ceiling[-1] = near[-1] if read[-1] <= np.float64(column.upper) else below[-1]
    return np.clip(values, floor[bins], np.maximum(ceiling[bins + 1], floor[bins]))


def choose_grids(column: Binned, rows: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], float]:
    """The place of the grid that each row is put on, as the column's shares say, and the sum of these.

    Args:
        column: With one grid or more.
        rows: How many.
        rng: Source of randomness.

    Returns:
        Shape [rows]; the number of grids for a row that is put on none.
    """
    ends = np.cumsum([share for _, share in column.grids])
    covered = float(ends[-1])
    return np.searchsorted(ends, rng.random(rows) * max(1.0, covered), side="right"), covered


def _round_to_grid(
    values: Any, cells: tuple[Any, Any], bins: Bins, column: Binned, rng: np.random.Generator
) -> Any:
    """The values with each row's share put on a grid; a row whose bin has no such value tries the next finer.

    A grid's value is drawn evenly among those in the row's fine cell; where that has none it is the one in
    the bin that is nearest to the value. The last bin has its end where the kind says so.
    """
    if not column.grids:
        return values
    edges = np.asarray(column.edges)
    chosen, covered = choose_grids(column, len(bins), rng)
    done = np.zeros(len(bins), dtype=np.bool_)
    cycle = Cycle.of(column)
    finest = len(column.grids) - 1
    if column.fine is not None:  # a cell of one value is no matter of rounding
        done = cells[1] <= (cells[0] + 1 if isinstance(column, Whole) else np.nextafter(cells[0], np.inf))
        if covered > 1 - 1e-6:  # nor is one that holds a single multiple of the step that all values are on
            chosen[cells[1] - cells[0] <= column.grids[-1][0] * (1 + 1e-9)] = finest
    for place, (step, _) in enumerate(column.grids):
        rows = np.flatnonzero((chosen <= place) & ~done)
        lower, upper = edges[bins[rows]], edges[bins[rows] + 1]
        inner = cells[0][rows], cells[1][rows]
        # Fine cells are half open, and the greatest number may have one of its own; no whole number is its
        # bin's end.
        with_end = (upper == column.upper) & (column.fine is None)
        found: Any = (
            _whole_multiples(values[rows], inner, (lower, upper), step, cycle, rng)
            if isinstance(column, Whole)
            else _real_multiples(values[rows], inner, (lower, upper), with_end, step, rng)
        )
        inside = (found >= lower) & ((found < upper) | (with_end & (found == upper)))
        if column.fine is not None:
            # Then 0 has a cell of its own, or one with no other multiple of the step that all values are on:
            # it is on no grid beside that.
            inside &= (found != 0) | (inner[0] == 0) & (inner[1] <= max(column.step, 1.0) * (1 + 1e-9))
            if place < finest or covered < 1 - 1e-6:
                inside &= ~_are_others(found, inner[0], column)
        values[rows[inside]] = found[inside]
        done[rows[inside]] = True
    return values


def _are_others(found: Any, low: Any, column: Binned) -> NDArray[np.bool_]:
    """Which numbers have a fine cell of their own that is not the one drawn: that holds all of their rows.

    Args:
        found: The numbers, shape [rows].
        low: Where the fine cell drawn begins, shape [rows].
        column: Their column, which has fine cells.
    """
    fine = np.asarray(column.fine)
    cell = np.clip(np.searchsorted(fine, found, side="right") - 1, 0, len(fine) - 2)
    single = fine[1:] <= (fine[:-1] + 1 if isinstance(column, Whole) else np.nextafter(fine[:-1], np.inf))
    return np.asarray(single[cell] & (fine[cell] != low))


def _whole_multiples(
    values: Any,
    cell: tuple[Any, Any],
    ends: tuple[Any, Any],
    step: float,
    cycle: Cycle | None,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """A multiple of step for each value; one outside its bin where the bin has none.

    cycle: by which they are drawn, the numbers up to the next multiple counting for each; evenly if None.
    """
    step = int(step)
    first, last = -(-cell[0] // step), (cell[1] - 1) // step
    near = np.clip((values + step // 2) // step, -(-ends[0] // step), (ends[1] - 1) // step)
    if cycle is None:
        drawn = first + (rng.random(len(values)) * np.maximum(last - first + 1, 1)).astype(np.int64)
    else:
        drawn = cycle.draw(first * step, (np.maximum(last, first) + 1) * step, rng) // step
    found: NDArray[np.int64] = np.where(last >= first, drawn, near) * step
    return found


def _real_multiples(
    values: Any,
    cell: tuple[Any, Any],
    ends: tuple[Any, Any],
    with_end: NDArray[np.bool_],
    step: float,
    rng: np.random.Generator,
) -> Reals:
    """As `_whole_multiples`, for numbers; steps below 1 divide by a whole number, to be exact in decimals.

    with_end: which rows' bins have their upper end.
    """
    times, over = (1.0, step) if step >= 1 else (float(round(1 / step)), 1.0)
    low, high, least, most, at = (_near_whole(x * times / over) for x in (*cell, *ends, values))
    first = np.ceil(low)
    last = np.where(with_end & (cell[1] == ends[1]), np.floor(high), np.ceil(high) - 1)
    near = np.clip(np.rint(at), np.ceil(least), np.where(with_end, np.floor(most), np.ceil(most) - 1))
    drawn = first + np.floor(rng.random(len(values)) * np.maximum(last - first + 1, 1.0))
    found: Reals = np.where(last >= first, drawn, near) * over / times
    return found


def _near_whole(numbers: Any) -> Any:
    """The numbers, those but for rounding whole being so: 1.1 * 100 is no more than 110."""
    whole = np.rint(numbers)
    return np.where(np.abs(numbers - whole) <= 1e-12 * np.maximum(np.abs(whole), 1.0), whole, numbers)


def _cells(bins: Bins, column: Binned, rng: np.random.Generator) -> tuple[Any, Any]:
    """Lower and upper end of the fine cell drawn for each row's bin, both of shape [rows]."""
    edges = np.asarray(column.edges)
    if column.fine is None or column.weights is None:
        return edges[bins], edges[bins + 1]
    fine = np.asarray(column.fine)
    first = np.searchsorted(fine, edges)
    owner = np.repeat(np.arange(column.present), np.diff(first))
    share = _shares(np.asarray(column.weights), np.diff(fine.astype(np.float64)), owner)
    running = np.append(0.0, np.cumsum(share))
    ends = running[1:] - running[first[owner]] + owner
    drawn = np.searchsorted(ends, bins + rng.random(len(bins)), side="right")
    weighted = np.where(share > 0, np.arange(len(share)), -1)
    last = np.maximum.reduceat(weighted, first[:-1])  # rounding must not draw an empty cell behind it
    cell = np.clip(drawn, first[bins], last[bins])
    return fine[cell], fine[cell + 1]


def _shares(weights: Reals, widths: Reals, owner: NDArray[np.int64]) -> Reals:
    """Each cell's share of its bin: by weight, or by width in a bin without weight."""
    mass = np.bincount(owner, weights=weights)
    weights = np.where(mass[owner] > 0, weights, widths)
    shares: Reals = weights / np.bincount(owner, weights=weights)[owner]
    return shares
