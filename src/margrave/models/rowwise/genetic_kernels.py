"""The compiled loop of the genetic search: single codes changed while that brings rows nearer to tables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.rounding import uniform

__all__ = ["BEST", "CROSS", "MUTATE", "OPERATORS", "STEP", "SWAP", "Tables", "counted", "search"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Rows = NDArray[Any]
State = NDArray[np.uint64]

MUTATE, CROSS, SWAP, STEP, BEST = 0, 1, 2, 3, 4
OPERATORS = 5
"""A code at random, another row's code, two rows' codes exchanged, a neighbour among ordered codes, and the
code that fits best of all."""
ALIKE = 1e-9
"""Gains below this are rounding."""


class Tables(NamedTuple):
    """All tables as flat arrays.

    Args:
        sizes, ordered: Codes of each attribute, and how many of them stand in order.
        parts: Where each table's attributes begin in `places`, and the end of the last, shape [tables + 1].
        places, strides: Attributes of each table, and what a step of each moves the cell by.
        offsets: Where each table's cells begin in `over`.
        ties: Where each attribute's tables begin in `tied`, and the end of the last, shape [names + 1].
        tied, steps: The tables of each attribute, and the attribute's stride in each.
        over: By how much each cell has more than it should: a count less a goal, exact to a billionth.
        weights: Of each table's squares.
    """

    sizes: Longs
    ordered: Longs
    parts: Longs
    places: Longs
    strides: Longs
    offsets: Longs
    ties: Longs
    tied: Longs
    steps: Longs
    over: Floats
    weights: Floats


@compiled
def counted(rows: Rows, tables: Tables) -> None:
    """Add rows of shape [rows, names] to all tables."""
    for row in range(rows.shape[0]):
        for table in range(len(tables.offsets)):
            tables.over[_cell(rows, row, table, tables)] += 1.0


@compiled
def search(rows: Rows, tables: Tables, odds: Floats, proposals: int, tally: Longs, state: State) -> float:
    """Propose edits, take each that lowers the weighted squares; return how much they fell.

    Args:
        rows: Codes, shape [rows, names], changed.
        tables: With the counts of the rows, kept up to date.
        odds: Probability of each operator.
        proposals: How many.
        tally: Of each operator, codes judged and edits taken, added to: shape [2, operators].
        state: Of the random numbers.
    """
    fell = 0.0
    number, names = rows.shape
    change = np.empty(tables.sizes.max())
    for _ in range(proposals):
        point, operator = uniform(state), 0
        while operator < OPERATORS - 1 and point >= odds[operator]:
            point -= odds[operator]
            operator += 1
        row, name = int(uniform(state) * number), int(uniform(state) * names)
        other = int(uniform(state) * number)
        tally[0, operator] += 1
        if operator == SWAP:
            tally[0, operator] += 1
            gain = _swapped(rows, row, other, name, tables)
        elif operator == BEST:
            tally[0, operator] += tables.sizes[name] - 1
            gain = _changed(rows, row, name, _fittest(rows, row, name, tables, change), tables)
        else:
            code = _proposed(rows, operator, row, other, name, tables, state)
            gain = _changed(rows, row, name, code, tables)
        if gain > 0.0:
            tally[1, operator] += 1
            fell += gain
    return fell


@compiled
def _proposed(
    rows: Rows, operator: int, row: int, other: int, name: int, tables: Tables, state: State
) -> int:
    """The code an operator would give a row."""
    old = int(rows[row, name])
    if operator == CROSS:
        return int(rows[other, name])
    if operator == STEP and old < tables.ordered[name]:
        near = old + (1 if uniform(state) < 0.5 else -1)
        return near if 0 <= near < tables.ordered[name] else old
    return int(uniform(state) * tables.sizes[name])


@compiled
def _fittest(rows: Rows, row: int, name: int, tables: Tables, change: Floats) -> int:
    """The code of an attribute that leaves the least squares; change: room for one number a code."""
    own, size = int(rows[row, name]), tables.sizes[name]
    change[:size] = 0.0
    for k in range(tables.ties[name], tables.ties[name + 1]):
        step = tables.steps[k]
        cell = _cell(rows, row, tables.tied[k], tables)
        weight, start, here = tables.weights[tables.tied[k]], cell - own * step, tables.over[cell]
        for code in range(size):
            change[code] += weight * (tables.over[start + code * step] - here + 1.0)
    change[own] = 0.0
    return int(np.argmin(change[:size]))


@compiled
def _changed(rows: Rows, row: int, name: int, code: int, tables: Tables) -> float:
    """Give a row a code if that helps; return by how much the squares fell, 0 if it was not done."""
    if code == int(rows[row, name]):
        return 0.0
    gain = -_change(rows, row, name, code, tables)
    if gain <= ALIKE:
        return 0.0
    _make(rows, row, name, code, tables)
    return gain


@compiled
def _swapped(rows: Rows, row: int, other: int, name: int, tables: Tables) -> float:
    """As `_changed`, for two rows that exchange their codes."""
    one, two = int(rows[row, name]), int(rows[other, name])
    if one == two:
        return 0.0
    gain = -_change(rows, row, name, two, tables)
    # The second half is judged after the first: both may touch the same cells.
    _make(rows, row, name, two, tables)
    gain -= _change(rows, other, name, one, tables)
    if gain <= ALIKE:
        _make(rows, row, name, one, tables)
        return 0.0
    _make(rows, other, name, one, tables)
    return gain


@compiled
def _cell(rows: Rows, row: int, table: int, tables: Tables) -> int:
    cell = tables.offsets[table]
    for k in range(tables.parts[table], tables.parts[table + 1]):
        cell += int(rows[row, tables.places[k]]) * tables.strides[k]
    return int(cell)


@compiled
def _change(rows: Rows, row: int, name: int, code: int, tables: Tables) -> float:
    """By how much the weighted squares would change with one code."""
    move, change = code - int(rows[row, name]), 0.0
    for k in range(tables.ties[name], tables.ties[name + 1]):
        cell = _cell(rows, row, tables.tied[k], tables)
        to = cell + move * tables.steps[k]
        # (n - 1 - t)^2 - (n - t)^2 + (m + 1 - u)^2 - (m - u)^2
        change += tables.weights[tables.tied[k]] * (tables.over[to] - tables.over[cell] + 1.0)
    return 2.0 * change


@compiled
def _make(rows: Rows, row: int, name: int, code: int, tables: Tables) -> None:
    """Give a row a code and count it."""
    move = code - int(rows[row, name])
    for k in range(tables.ties[name], tables.ties[name + 1]):
        cell = _cell(rows, row, tables.tied[k], tables)
        tables.over[cell] -= 1.0
        tables.over[cell + move * tables.steps[k]] += 1.0
    rows[row, name] = code
