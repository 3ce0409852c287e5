"""The compiled loops of counting: rows into tables, and tables into the tables asked for."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["CHUNK", "TOGETHER", "add_copies", "fill", "project"]

CHUNK = 4096
"""Rows whose cell numbers are worked out at a time: they stay in the fastest cache."""

TOGETHER = 3
"""Columns of bytes that one loop adds to the cell numbers; `_add_bytes` is written for three."""

SHORT = 1 << 16
"""Cells whose numbers fit in 16 bits, so that twice as many are worked out at once."""


@njit(
    [
        "void(uint16[::1], uint8[:, ::1], int64, int64[::1], uint32[::1])",
        "void(uint32[::1], uint8[:, ::1], int64, int64[::1], uint32[::1])",
    ],
    cache=True,
    nogil=True,
)
def _add_bytes(numbers, codes, first, columns, strides):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add code * stride of the rows from `first` on, TOGETHER columns at a time."""
    end = first + len(numbers)
    for axis in range(0, len(columns), 3):
        one, two, three = strides[axis], strides[axis + 1], strides[axis + 2]
        a = codes[columns[axis], first:end]
        b = codes[columns[axis + 1], first:end]
        c = codes[columns[axis + 2], first:end]
        for row in range(len(numbers)):
            numbers[row] += a[row] * one + b[row] * two + c[row] * three


@njit(
    [
        "void(uint16[::1], uint32[:, ::1], int64, int64[::1], uint32[::1])",
        "void(uint32[::1], uint32[:, ::1], int64, int64[::1], uint32[::1])",
    ],
    cache=True,
    nogil=True,
)
def _add_words(numbers, codes, first, columns, strides):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add code * stride of the rows from `first` on, column by column."""
    for axis in range(len(columns)):
        a, one = codes[columns[axis], first : first + len(numbers)], strides[axis]
        for row in range(len(numbers)):
            numbers[row] += a[row] * one


@njit(
    ["void(uint16[::1], uint32[::1], int64, int64)", "void(uint32[::1], uint32[::1], int64, int64)"],
    cache=True,
    nogil=True,
)
def _tally(numbers, counters, cells, copies):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add 1 to the counter of each number, in one, two or four copies of the table.

    A counter that was just written must be read back from the store behind it, which takes several cycles:
    rows of the same cell would wait for one another, and with copies they wait less.
    """
    rows = len(numbers)
    start = 0
    if copies == 2:
        half = rows // 2
        start = 2 * half
        one, two = counters[:cells], counters[cells : 2 * cells]
        for row in range(half):
            one[numbers[row]] += 1
            two[numbers[row + half]] += 1
    elif copies == 4:
        part = rows // 4
        start = 4 * part
        one, two = counters[:cells], counters[cells : 2 * cells]
        three, four = counters[2 * cells : 3 * cells], counters[3 * cells : 4 * cells]
        for row in range(part):
            one[numbers[row]] += 1
            two[numbers[row + part]] += 1
            three[numbers[row + 2 * part]] += 1
            four[numbers[row + 3 * part]] += 1
    for row in range(start, rows):
        counters[numbers[row]] += 1


@njit(
    "void(uint8[:, ::1], int64[::1], int64[::1], uint32[::1], uint32[:, ::1], int64[::1], int64[::1], "
    "uint32[::1], int64, int64[::1], int64[::1], uint32[::1])",
    cache=True,
    nogil=True,
)
def fill(  # type: ignore[no-untyped-def]  # pragma: no cover
    narrow,
    narrow_columns,
    narrow_starts,
    narrow_strides,
    wide,
    wide_columns,
    wide_starts,
    wide_strides,
    rows,
    cells,
    copies,
    counters,
):
    """Add a block of rows to the counters of every table.

    narrow, wide: codes by column, [columns, block], of which `rows` are filled.
    columns, starts, strides: table t's axes are starts[t] to starts[t + 1]; narrow ones come in multiples of
        TOGETHER, filled up with strides of 0. cells, copies: counters lie table by table, copy by copy.
    """
    short, long = np.empty(CHUNK, dtype=np.uint16), np.empty(CHUNK, dtype=np.uint32)
    base = 0
    for table in range(len(cells)):
        length = cells[table] * copies[table]
        mine = counters[base : base + length]
        some = slice(narrow_starts[table], narrow_starts[table + 1])
        others = slice(wide_starts[table], wide_starts[table + 1])
        for first in range(0, rows, CHUNK):
            now = min(CHUNK, rows - first)
            if cells[table] <= SHORT:
                short[:now] = 0
                _add_bytes(short[:now], narrow, first, narrow_columns[some], narrow_strides[some])
                _add_words(short[:now], wide, first, wide_columns[others], wide_strides[others])
                _tally(short[:now], mine, cells[table], copies[table])
            else:
                long[:now] = 0
                _add_bytes(long[:now], narrow, first, narrow_columns[some], narrow_strides[some])
                _add_words(long[:now], wide, first, wide_columns[others], wide_strides[others])
                _tally(long[:now], mine, cells[table], copies[table])
        base += length


@njit("void(uint32[::1], int64, int64)", cache=True, nogil=True)
def add_copies(counters, cells, copies):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add the further copies of a table to the first."""
    for copy in range(1, copies):
        other = counters[copy * cells : (copy + 1) * cells]
        for cell in range(cells):
            counters[cell] += other[cell]


@njit("void(uint32[::1], int64[::1], int64[::1], int64[::1])", cache=True, nogil=True)
def project(counters, shape, strides, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add a table's counters to one of fewer axes: strides are the axes' in `out`, 0 where summed over."""
    last = len(shape) - 1
    length, step = shape[last], strides[last]
    place = np.zeros(len(shape), dtype=np.int64)
    base, cell = 0, 0
    while cell < len(counters):
        if step == 0:
            total = 0
            for k in range(length):
                total += counters[cell + k]
            out[base] += total
        else:
            for k in range(length):
                out[base + k * step] += counters[cell + k]
        cell += length
        axis = last - 1
        while axis >= 0:
            place[axis] += 1
            base += strides[axis]
            if place[axis] < shape[axis]:
                break
            base -= strides[axis] * shape[axis]
            place[axis] = 0
            axis -= 1
