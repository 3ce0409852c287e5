"""The compiled loop of GUM: one table's counts brought nearer to its target by moving whole rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.rounding import shuffle, uniform

__all__ = ["distance", "update"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Rows = NDArray[Any]
State = NDArray[np.uint64]

HALVINGS = 50
"""Bisections for the share of rows that leave cells with too many."""


@compiled
def distance(columns: Rows, attributes: Longs, sizes: Longs, target: Floats) -> float:
    """The L1 distance between a table of the rows and its target, in rows."""
    counts = np.zeros(len(target), dtype=np.int64)
    for row in range(columns.shape[1]):
        counts[_cell(columns, attributes, sizes, row)] += 1
    return float(np.abs(counts - target).sum())


@compiled
def update(
    columns: Rows,
    attributes: Longs,
    sizes: Longs,
    target: Floats,
    alpha: float,
    copied: float,
    fresh: bool,
    state: State,
) -> float:
    """Move rows from cells with too many to cells with too few; return the L1 distance before, in rows.

    Args:
        columns: Codes, shape [names, rows], changed.
        attributes: The table's attributes, places in `columns`.
        sizes: Codes of each of them.
        target: Counts wanted in each cell, summing to the rows, shape [cells].
        alpha: What a cell may gain at most, over what it has or, where that is nothing, over its target.
        copied: Share of gains that are copies of whole rows; of the others only these attributes change.
        fresh: Whether cells that are empty may gain rows.
        state: Of the random numbers.
    """
    rows, cells = columns.shape[1], len(target)
    keys, firsts = np.empty(rows, dtype=np.int64), np.zeros(cells + 1, dtype=np.int64)
    for row in range(rows):
        keys[row] = _cell(columns, attributes, sizes, row)
        firsts[keys[row] + 1] += 1
    gains, losses, away = _wanted(firsts[1:], target, alpha, fresh)
    for cell in range(cells):
        firsts[cell + 1] += firsts[cell]
    if gains.sum() <= 0.0:
        return away
    order, ends = np.empty(rows, dtype=np.int64), firsts[:-1].copy()
    for row in range(rows):
        order[ends[keys[row]]] = row
        ends[keys[row]] += 1
    victims = _victims(order, firsts, _whole(losses, state), state)
    shuffle(victims, len(victims), state)
    _place(columns, attributes, sizes, victims, _whole(gains, state), order, firsts, copied, state)
    return away


@compiled
def _place(
    columns: Rows,
    attributes: Longs,
    sizes: Longs,
    victims: Longs,
    added: Longs,
    order: Longs,
    firsts: Longs,
    copied: float,
    state: State,
) -> None:
    """Put victims into cells, empty ones first."""
    taken = 0
    for empty in (True, False):
        for cell in range(len(added)):
            if added[cell] == 0 or (firsts[cell] == firsts[cell + 1]) != empty:
                continue
            # Rounding can leave one victim too few.
            more = min(added[cell], len(victims) - taken)
            copies = 0 if empty else min(int(more * copied + uniform(state)), more)
            moving = victims[taken : taken + more]
            _fill(columns, attributes, sizes, cell, moving, order, firsts, copies, state)
            taken += more


@compiled
def _cell(columns: Rows, attributes: Longs, sizes: Longs, row: int) -> int:
    cell = 0
    for k in range(len(attributes)):
        cell = cell * sizes[k] + int(columns[attributes[k], row])
    return int(cell)


@compiled
def _wanted(counts: Longs, target: Floats, alpha: float, fresh: bool) -> tuple[Floats, Floats, float]:
    """Rows each cell is to gain and to lose, equal in all, and the L1 distance to the target.

    A cell within a row of its target is left alone: to move its rows would cost other tables more than it
    helps.
    """
    gains, losses, away = np.zeros(len(target)), np.zeros(len(target)), 0.0
    for cell in range(len(target)):
        gap = target[cell] - counts[cell]
        away += abs(gap)
        if gap >= 1.0 and counts[cell] > 0:
            gains[cell] = min(np.floor(gap), alpha * counts[cell])
        elif gap >= 1.0 and fresh:
            gains[cell] = alpha * np.floor(gap)
        elif gap <= -1.0:
            losses[cell] = np.floor(-gap)
    wanted, there, low, high = gains.sum(), losses.sum(), 0.0, 1.0
    if wanted >= there:
        return gains * (there / max(wanted, 1.0)), losses, away
    for _ in range(HALVINGS):
        beta, lost = 0.5 * (low + high), 0.0
        for cell in range(len(target)):
            lost += min(losses[cell], beta * counts[cell])
        if lost < wanted:
            low = beta
        else:
            high = beta
    for cell in range(len(target)):
        losses[cell] = min(losses[cell], high * counts[cell])
    return gains, losses, away


@compiled
def _whole(amounts: Floats, state: State) -> Longs:
    """Whole numbers within 1 of the amounts, each expected to be its amount; sums are kept to within 1."""
    found, reached, given = np.zeros(len(amounts), dtype=np.int64), uniform(state), 0
    for cell in range(len(amounts)):
        reached += amounts[cell]
        found[cell] = int(reached) - given
        given += found[cell]
    return found


@compiled
def _victims(order: Longs, firsts: Longs, leaving: Longs, state: State) -> Longs:
    """Rows drawn from each cell without replacement, as many as leave it."""
    found, count = np.empty(leaving.sum(), dtype=np.int64), 0
    for cell in range(len(leaving)):
        first, last = firsts[cell], firsts[cell + 1]
        for k in range(min(leaving[cell], last - first)):
            other = first + k + int(uniform(state) * (last - first - k))
            order[first + k], order[other] = order[other], order[first + k]
            found[count] = order[first + k]
            count += 1
    return found[:count]


@compiled
def _fill(
    columns: Rows,
    attributes: Longs,
    sizes: Longs,
    cell: int,
    victims: Longs,
    order: Longs,
    firsts: Longs,
    copies: int,
    state: State,
) -> None:
    """Put victims into a cell: the first of them as copies of rows there, the others with its codes."""
    there = firsts[cell + 1] - firsts[cell]
    for k in range(copies):
        source = order[firsts[cell] + int(uniform(state) * there)]
        for name in range(columns.shape[0]):
            columns[name, victims[k]] = columns[name, source]
    rest = cell
    for axis in range(len(attributes) - 1, -1, -1):
        code = rest % sizes[axis]
        rest //= sizes[axis]
        for k in range(copies, len(victims)):
            columns[attributes[axis], victims[k]] = code
