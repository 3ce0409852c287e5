"""Many contingency tables in one pass over integer-coded columns.

The cliques asked for are answered from fewer, larger tables (`cover`), each block of rows is added to all of
those while it is in cache, and threads take rows of their own with counters of their own. Counts are
integers, so no answer depends on any of this.

First come the compiled loops, from rows into tables and from tables into those asked for; `count_tables`
calls them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.engines.cover import Members, cover_cliques
from margrave.limits import count_cores
from margrave.schema.domain import Clique
from margrave.schema.encoded import Encoded

CHUNK = 4096
"""Rows whose cell numbers are worked out at a time: they stay in the fastest cache."""

COLUMNS_A_LOOP = 3
"""Columns of bytes that one loop adds to the cell numbers; `_add_bytes` is written for three."""

MAX_SHORT_CELLS = 1 << 16
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
    """Add code * stride of the rows from `first` on, COLUMNS_A_LOOP columns at a time."""
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
        # Row i and row i + half are counted in different copies, so that neither waits for the other's store.
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
    # What does not divide by the number of copies goes into the first one.
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
        COLUMNS_A_LOOP, filled up with strides of 0. cells, copies: counters lie table by table, copy by copy.
    """
    short, long = np.empty(CHUNK, dtype=np.uint16), np.empty(CHUNK, dtype=np.uint32)
    base = 0
    for table in range(len(cells)):
        length = cells[table] * copies[table]
        mine = counters[base : base + length]
        some = slice(narrow_starts[table], narrow_starts[table + 1])
        others = slice(wide_starts[table], wide_starts[table + 1])
        # A chunk at a time: its cell numbers stay in the fastest cache between the loops over columns.
        for first in range(0, rows, CHUNK):
            now = min(CHUNK, rows - first)
            # Sixteen bits hold the cell numbers of a small table: twice as many fit into a vector register.
            if cells[table] <= MAX_SHORT_CELLS:
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
        # The last axis is contiguous: either all of its cells fall into one, or each has its own.
        if step == 0:
            total = 0
            for k in range(length):
                total += counters[cell + k]
            out[base] += total
        else:
            for k in range(length):
                out[base + k * step] += counters[cell + k]
        cell += length
        # Count up the other axes like an odometer, and move `base` along with them.
        axis = last - 1
        while axis >= 0:
            place[axis] += 1
            base += strides[axis]
            if place[axis] < shape[axis]:
                break
            base -= strides[axis] * shape[axis]
            place[axis] = 0
            axis -= 1


BLOCK = 1 << 18
"""Rows a block: a table that comes into cache serves many rows, and twenty columns of codes stay near."""

BUFFER = 1 << 23
"""Most bytes of a block of codes, as long as that is CHUNK rows."""

COUNTERS = 1 << 20
"""Counters a thread holds at a time, 4 MiB, but for a single table that is larger. Sixteen times as many
count no faster (bench/LOG.md, 2026-11-26)."""

MAX_ROWS_UNCHECKED = (1 << 32) - 1
"""Rows after which a counter could overflow: they are added to the answers before that."""

MIN_UPDATES_A_THREAD = 1 << 21
"""Updates below which a further thread is not worth its start."""

COPIES = ((1 << 12, 4), (1 << 14, 2))
"""Most cells of a table that is counted in so many copies."""


_Axes = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Tables counted together, and the memory each thread needs for it.

    Args:
        tables: Attributes of each, by number.
        narrow, wide: Attributes of bytes, and of wider codes, in the order of the block's columns.
        axes: For narrow and for wide columns: the tables' axes as columns of the block, where each table's
            axes start, and the cells that a step along them moves.
        cells: Of each table.
        copies: Of each table.
    """

    tables: tuple[Members, ...]
    narrow: tuple[int, ...]
    wide: tuple[int, ...]
    axes: tuple[_Axes, _Axes]
    cells: NDArray[np.int64]
    copies: NDArray[np.int64]

    @property
    def counters(self) -> int:
        """Counters of all tables."""
        return int((self.cells * self.copies).sum())

    @property
    def block(self) -> int:
        """Rows a block."""
        return max(CHUNK, min(BLOCK, BUFFER // (len(self.narrow) + 4 * len(self.wide))))


def count_tables(
    encoded: Encoded, cliques: Sequence[Clique], *, threads: int | None = None
) -> list[NDArray[np.int64]]:
    """Rows in each cell of each clique's table. **Not private.**

    Besides the answers this holds at most 4 MiB of counters a thread, or 4 bytes a cell of the largest
    table where that is more, and one block of codes a thread. The rows are read once for every 4 MiB of
    counters.

    Args:
        encoded: Codes, each below its attribute's size: the caller has checked.
        cliques: Names of the domain, none twice in a clique, of fewer than 2^31 cells each.
        threads: Most threads; None for one a core. The answers are the same.

    Returns:
        One array a clique, shape domain.shape(clique).
    """
    domain = encoded.domain
    answers = [np.zeros(domain.shape(clique), dtype=np.int64) for clique in cliques]
    # Attributes of one code add an axis of length 1 and no information, so they are not counted by.
    # A table's axes are in ascending order; the clique's own order comes back when it is summed out.
    axes = [tuple(domain.index(name) for name in clique if domain[name] > 1) for clique in cliques]
    # Cliques that differ in the order of their names share a table, which is summed out for each in its own
    # order.
    asked = sorted({tuple(sorted(members)) for members in axes if members})
    cover = cover_cliques(asked, domain.sizes, encoded.rows)
    owner = dict(zip(asked, cover.owner, strict=True))
    wanted: dict[int, list[int]] = {}
    for index, members in enumerate(axes):
        if members:
            wanted.setdefault(owner[tuple(sorted(members))], []).append(index)
        else:
            answers[index][...] = encoded.rows
    done = 0
    # Tables are counted batch by batch, so that `done` is the number of the batch's first table.
    for batch in _make_batches(encoded, cover.tables):
        for counters in _count_batch(encoded, batch, threads):
            for table, cells in enumerate(_sum_copies(counters, batch)):
                for index in wanted[done + table]:
                    _project(cells, batch.tables[table], domain.sizes, axes[index], answers[index])
        done += len(batch.tables)
    return answers


def _make_batches(encoded: Encoded, tables: Sequence[Members]) -> Iterator[_Batch]:
    """The tables in their order, in runs of at most COUNTERS counters or of one table."""
    run: list[Members] = []
    held = 0
    # Counters of one run fit into the cache together: the rows are read once a run, and every read is used
    # for all its tables.
    for table in tables:
        needs = math.prod(_count_counters(table, encoded.domain.sizes))
        if run and held + needs > COUNTERS:
            yield _make_batch(encoded, run)
            run, held = [], 0
        run.append(table)
        held += needs
    if run:
        yield _make_batch(encoded, run)


def _count_counters(table: Members, sizes: Sequence[int]) -> tuple[int, int]:
    """Cells of a table, and in how many copies it is counted."""
    cells = math.prod(sizes[v] for v in table)
    return cells, next((copies for most, copies in COPIES if cells <= most), 1)


def _make_batch(encoded: Encoded, tables: Sequence[Members]) -> _Batch:
    sizes = encoded.domain.sizes
    columns = sorted({v for table in tables for v in table})
    # Most columns have at most 256 codes. Kept in bytes they take a quarter of the memory to stream.
    narrow = tuple(v for v in columns if encoded.columns[v].dtype == np.uint8)
    wide = tuple(v for v in columns if encoded.columns[v].dtype != np.uint8)
    counters = np.array([_count_counters(table, sizes) for table in tables], dtype=np.int64)
    return _Batch(
        tables=tuple(tables),
        narrow=narrow,
        wide=wide,
        axes=(_pad_axes(tables, sizes, narrow, COLUMNS_A_LOOP), _pad_axes(tables, sizes, wide, 1)),
        cells=np.ascontiguousarray(counters[:, 0]),
        copies=np.ascontiguousarray(counters[:, 1]),
    )


def _pad_axes(tables: Sequence[Members], sizes: Sequence[int], columns: Members, together: int) -> _Axes:
    """The tables' axes over some columns, those of each table filled up to a multiple of `together`."""
    place = {v: k for k, v in enumerate(columns)}
    found: list[tuple[int, int]] = []
    starts = [0]
    for table in tables:
        strides = _strides([sizes[v] for v in table])
        mine = [(place[v], stride) for v, stride in zip(table, strides, strict=True) if v in place]
        # Filled up with a stride of 0, which adds nothing to a cell's number, so that the kernel needs no
        # branch.
        found += mine + [(0, 0)] * (-len(mine) % together)
        starts.append(len(found))
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return (
        np.ascontiguousarray(pairs[:, 0]),
        np.array(starts, dtype=np.int64),
        np.ascontiguousarray(pairs[:, 1], dtype=np.uint32),
    )


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _count_batch(encoded: Encoded, batch: _Batch, threads: int | None) -> Iterator[NDArray[np.uint32]]:
    """The batch's counters after every MAX_ROWS_UNCHECKED rows and after the last."""
    # Counters have 32 bits; after so many rows they are handed over before any could pass their end.
    for first in range(0, encoded.rows, MAX_ROWS_UNCHECKED):
        rows = min(MAX_ROWS_UNCHECKED, encoded.rows - first)
        workers = _count_workers(rows, batch, threads)
        if workers == 1:
            yield _fill_rows(encoded, batch, first, first + rows)
            continue
        # Sums of whole numbers: where the rows are cut changes no answer.
        # Whole rows for each worker, cut as evenly as they divide.
        cuts = [first + rows * k // workers for k in range(workers + 1)]
        with ThreadPoolExecutor(workers) as pool:
            parts = pool.map(lambda ends: _fill_rows(encoded, batch, *ends), itertools.pairwise(cuts))
            total = next(parts)
            for part in parts:
                total += part
        yield total


def _count_workers(rows: int, batch: _Batch, threads: int | None) -> int:
    """Threads for a batch: one where its counters are too many to hold twice."""
    if batch.counters > COUNTERS:
        return 1
    return max(
        1,
        min(
            count_cores() if threads is None else threads,
            rows * len(batch.tables) // MIN_UPDATES_A_THREAD,
            rows,
        ),
    )


def _fill_rows(encoded: Encoded, batch: _Batch, first: int, end: int) -> NDArray[np.uint32]:
    """The batch's counters over the rows from first to before end."""
    block = min(batch.block, end - first)
    narrow = np.empty((len(batch.narrow), block), dtype=np.uint8)
    wide = np.empty((len(batch.wide), block), dtype=np.uint32)
    counters = np.zeros(batch.counters, dtype=np.uint32)
    # Codes are copied block by block into arrays of one type each, which is all that the kernel takes.
    for start in range(first, end, block):
        rows = min(block, end - start)
        for buffer, columns in ((narrow, batch.narrow), (wide, batch.wide)):
            for index, v in enumerate(columns):
                buffer[index, :rows] = encoded.columns[v][start : start + rows]
        few, many = batch.axes
        fill(narrow, *few, wide, *many, rows, batch.cells, batch.copies, counters)
    return counters


def _sum_copies(counters: NDArray[np.uint32], batch: _Batch) -> Iterator[NDArray[np.uint32]]:
    """Each table's cells, its copies added up."""
    base = 0
    for cells, copies in zip(batch.cells.tolist(), batch.copies.tolist(), strict=True):
        add_copies(counters[base : base + cells * copies], cells, copies)
        yield counters[base : base + cells]
        base += cells * copies


def _project(
    cells: NDArray[np.uint32],
    table: Members,
    sizes: Sequence[int],
    axes: Members,
    answer: NDArray[np.int64],
) -> None:
    """Add a table's cells to the answer of a clique whose axes are some of its own, in any order."""
    flat = answer.reshape(-1)
    # The same axes in the same order need no projection.
    if axes == table:
        flat += cells
        return
    stride = dict(zip(axes, _strides([sizes[v] for v in axes]), strict=True))
    shape = np.array([sizes[v] for v in table], dtype=np.int64)
    project(cells, shape, np.array([stride.get(v, 0) for v in table], dtype=np.int64), flat)
