"""The shape of a delimited text, checked byte by byte before any reader is trusted with it.

Readers forgive: one that meets a quote nobody closes swallows or drops every row behind it without a word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

__all__ = ["CELLS", "QUOTES", "SOUND", "Shape", "last_end", "shape_of"]

SOUND, QUOTES, CELLS = 0, 1, 2
"""What is wrong: nothing; a quote out of place or never closed; a row with another number of cells."""

START, QUOTED, FAULT = 0, 3, 6
OTHER, BLANK, QUOTE, DELIMITER, END = 0, 1, 2, 3, 4
NEXT = np.array(
    [  # other, blank, quote, delimiter, end of line
        [2, 1, 3, 0, 0],  # 0, at the start of a cell
        [2, 1, 6, 0, 0],  # 1, in blanks at its start
        [2, 2, 2, 0, 0],  # 2, in plain text
        [3, 3, 4, 3, 3],  # 3, in quotes
        [6, 5, 3, 0, 0],  # 4, behind a quote inside them: it closes them, or a second one makes it text
        [6, 5, 6, 0, 0],  # 5, in blanks behind them
    ],
    dtype=np.int64,
)
"""Where the next byte leads from each place; FAULT is the end."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a scan found.

    Args:
        fault: SOUND, QUOTES or CELLS.
        cells: Cells in the first line.
        header: Bytes of the first line, its line end included.
        rows: Rows behind it. Private.
        longest: Bytes of the longest row. Private.
    """

    fault: int
    cells: int
    header: int
    rows: int
    longest: int


def shape_of(data: NDArray[np.uint8], delimiter: int, quote: int | None = ord('"')) -> Shape:
    """The shape of a text whose cells are parted by delimiter and may stand in quotes; None for no quotes.

    A quote opens a cell only as its first byte; inside, two quotes are one; behind the closing quote only
    blanks may follow. In a cell that starts with anything else quotes are plain text, but blanks and then a
    quote is a fault, for nobody can tell which was meant. Empty lines behind the first are no rows.
    """
    found = np.array([SOUND, 0, -1, 0, 0], dtype=np.int64)
    _scan(data, _kinds(delimiter, quote), NEXT, found)
    return Shape(*(int(part) for part in found))


def last_end(
    data: NDArray[np.uint8], delimiter: int, place: NDArray[np.int64], quote: int | None = ord('"')
) -> int:
    """Bytes of a piece of a text up to the last end of a row in it; -1 if no row ends there.

    Args:
        data: The piece.
        delimiter: What parts the cells.
        quote: What cells may stand in; None for nothing.
        place: Where the scan is, shape [1]: 0 at first, and moved on. A fault ends the piece, and with it the
            last row: `shape_of` says what is wrong with it.
    """
    return int(_last_end(data, _kinds(delimiter, quote), NEXT, place))


def _kinds(delimiter: int, quote: int | None) -> NDArray[np.int64]:
    kinds = np.zeros(256, dtype=np.int64)
    kinds[[ord(" "), ord("\t")]] = BLANK
    kinds[[ord("\n"), ord("\r")]] = END
    if quote is not None:
        kinds[quote] = QUOTE
    kinds[delimiter] = DELIMITER
    return kinds


@njit("void(int64[::1], int64, int64)", cache=True, nogil=True)
def _end_row(found, cells, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Take note of a finished line."""
    if found[2] < 0:
        found[1], found[2] = cells, length
        return
    found[3] += 1
    found[4] = max(found[4], length)
    if cells != found[1]:
        found[0] = CELLS


BYTES = types.Array(types.uint8, 1, "C", readonly=True)


@njit(types.void(BYTES, types.int64[::1], types.int64[:, ::1], types.int64[::1]), cache=True, nogil=True)
def _scan(data, kinds, following, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill in [fault, cells of the first line, its bytes, rows, bytes of the longest row]."""
    start, cells, state = 0, 1, START
    for at in range(len(data)):
        kind = kinds[data[at]]
        state = following[state, kind]
        if state == FAULT:
            found[0] = QUOTES
            return
        if state == START and kind == DELIMITER:
            cells += 1
        elif state == START:
            if at > start or found[2] < 0:
                _end_row(found, cells, at + 1 - start)
            start, cells = at + 1, 1
    if state == QUOTED:
        found[0] = QUOTES
    elif len(data) > start:
        _end_row(found, cells, len(data) - start)


@njit(types.int64(BYTES, types.int64[::1], types.int64[:, ::1], types.int64[::1]), cache=True, nogil=True)
def _last_end(data, kinds, following, place):  # type: ignore[no-untyped-def]  # pragma: no cover
    """As `last_end`."""
    last, state = -1, place[0]
    for at in range(len(data)):
        kind = kinds[data[at]]
        state = following[state, kind]
        if state == FAULT:
            place[0] = START
            return len(data)
        if state == START and kind == END:
            last = at + 1
    place[0] = state
    return last
