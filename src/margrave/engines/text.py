"""The shape of a delimited text, checked byte by byte before any reader is trusted with it.

Readers forgive: one that meets a quote nobody closes swallows or drops every row behind it without a word. A
quote inside a cell that does not begin with one is refused, too. Who writes such a cell may write one that
begins with a quote as well, which would take all rows up to the next such cell with it: one line of a file
would decide about the rows of others.

The head of a text file is its encoding and separator, from its first line, which is public (`read_head`).
Nothing behind the first line decides how a file is read. Where the first line does not look as the declared
format has it, the file is refused before anything is spent, with the option that would read it.

Without a header the first line is a row, which is private: how such a file is read follows from the arguments
alone, but for a byte order mark, which stands before the row, and the number of columns.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import gzip
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.engines.streaming.batches import read_guarded
from margrave.errors import InputError, invalid
from margrave.schema.storage.text import SEPARATOR_WORDS, TextFormat

SOUND, QUOTES, CELLS, ENDS = 0, 1, 2, 3
"""What is wrong: nothing; a quote out of place or never closed; a row with another number of cells; in a file
of one column rows that end by a line feed and others by a return alone. Some programs put no quotes around a
cell with a return, which would then be several rows; of two columns or more these are ragged."""
UNLIKE = 3
"""Ends of rows by a line feed, 1, and by a return alone, 2."""

START, QUOTED, FAULT = 0, 3, 6
"""Places in `NEXT` that the scan asks for by name."""
OTHER, BLANK, QUOTE, DELIMITER, END = 0, 1, 2, 3, 4
"""Kinds of bytes, the columns of `NEXT`."""
LINE_FEED = ord("\n")
NEXT = np.array(
    [  # other, blank, quote, delimiter, end of line
        [2, 1, 3, 0, 0],  # 0, at the start of a cell
        [2, 1, 6, 0, 0],  # 1, in blanks at its start
        [2, 2, 6, 0, 0],  # 2, in plain text
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
        fault: SOUND, QUOTES, CELLS or ENDS.
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
    found = np.array([SOUND, 0, -1, 0, 0, 0], dtype=np.int64)
    _scan(data, _classify_bytes(delimiter, quote), NEXT, found)
    fault, cells, *rest, ends = found.tolist()
    return Shape(ENDS if (fault, cells, ends) == (SOUND, 1, UNLIKE) else fault, cells, *rest)


def last_end(
    data: NDArray[np.uint8], delimiter: int, place: NDArray[np.int64], quote: int | None = ord('"')
) -> int:
    """Bytes of a piece of a text up to the last end of a row in it; -1 if no row ends there.

    Args:
        data: The piece.
        delimiter: What parts the cells.
        quote: What cells may stand in; None for nothing.
        place: Where the scan is, the ends of rows so far, and whether the last was a return, shape [3]: 0 at
            first, and moved on. A fault ends the piece, and with it the last row: `shape_of` says what is
            wrong with it.
    """
    return int(_last_end(data, _classify_bytes(delimiter, quote), NEXT, place))


def _classify_bytes(delimiter: int, quote: int | None) -> NDArray[np.int64]:
    kinds = np.zeros(256, dtype=np.int64)
    kinds[[ord(" "), ord("\t")]] = BLANK
    kinds[[ord("\n"), ord("\r")]] = END
    if quote is not None:
        kinds[quote] = QUOTE
    kinds[delimiter] = DELIMITER
    return kinds


@njit(cache=True, nogil=True)
def _end_row(found, cells, length):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Take note of a finished line."""
    if found[2] < 0:
        found[1], found[2] = cells, length
        return
    found[3] += 1
    found[4] = max(found[4], length)
    if cells != found[1]:
        found[0] = CELLS


@njit(cache=True, nogil=True)
def _scan(data, kinds, following, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill in [fault, cells of the first line, its bytes, rows, bytes of the longest row, ends of rows].

    Ends are 1 for a line feed, 2 for a return with text behind it, and UNLIKE where there are both.
    """
    # One pass over the bytes with a table of states, since quoting makes it impossible to tell where a row
    # ends by looking at the line end alone.
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
            if data[at] == LINE_FEED:
                found[5] |= 1
            elif at + 1 < len(data) and kinds[data[at + 1]] != END:
                found[5] |= 2
            # An empty line is no row, unless it is the first, which has the names.
            if at > start or found[2] < 0:
                _end_row(found, cells, at + 1 - start)
            start, cells = at + 1, 1
    if state == QUOTED:
        found[0] = QUOTES
    elif len(data) > start:
        _end_row(found, cells, len(data) - start)


@njit(cache=True, nogil=True)
def _last_end(data, kinds, following, place):  # type: ignore[no-untyped-def]  # pragma: no cover
    """As `last_end`."""
    last, state = -1, place[0]
    for at in range(len(data)):
        kind = kinds[data[at]]
        if place[2] and kind != END:
            place[1], place[2] = place[1] | 2, 0
        state = following[state, kind]
        if state == FAULT:
            place[0] = START
            return len(data)
        if state == START and kind == END:
            last, place[2] = at + 1, data[at] != LINE_FEED
            place[1] |= data[at] == LINE_FEED
    place[0] = state
    return last


HEAD_BYTES = 1 << 20
"""Bytes at the beginning of a file from which its encoding and separator are read."""
MAX_FIRST_ROW_BYTES = 1 << 29
"""Bytes in which the end of the first row is looked for where it is no header; streamed rows end there."""
NO_TEXT = frozenset(range(32)) - frozenset(b"\t\n\r\x01\x1f")
"""Control signs that are neither line ends nor separators: no text begins with a signature that holds one."""
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: ("utf-8-sig", "utf-8"),
    codecs.BOM_UTF16_LE: ("utf-16", "utf-16-le"),
    codecs.BOM_UTF16_BE: ("utf-16", "utf-16-be"),
}
"""The encoding that a mark at the start of a file names, and the codec of what follows the mark."""
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
SIGNATURES = {
    b"PK\x03\x04": ("a zip archive or an Excel file", "Unpack it, or let its name end in .xlsx."),
    b"\xd0\xcf\x11\xe0": ("an old Excel file", "Save it as .xlsx or as CSV."),
    b"\x1f\x8b": ("a gzip archive", "Let its name end in .csv.gz."),
    b"PAR1": ("a Parquet file", "Let its name end in .parquet."),
    b"ARROW1": ("an Arrow file", "Let its name end in .arrow."),
    **{b"BZh%d1AY" % level: ("a bzip2 archive", "Unpack it.") for level in range(1, 10)},
    b"\xfd7zXZ": ("an xz archive", "Unpack it."),
    b"7z\xbc\xaf": ("a 7-Zip archive", "Unpack it."),
    b"\x28\xb5\x2f\xfd": ("a Zstandard archive", "Unpack it."),
    b"SQLite format 3": ("an SQLite database", "Export its table as CSV."),
    **dict.fromkeys((b"$FL2@", b"$FL3@"), ("an SPSS file", "Save it as CSV or Parquet.")),
    b"<stata_dta>": ("a Stata file", "Save it as CSV or Parquet."),
    b"\x89HDF": ("an HDF5 file", "Save its table as CSV or Parquet."),
    b"%PDF": ("a PDF document", "Save the table that it shows as CSV."),
    b"{\\rtf": ("a document of formatted text", "Save the table that it shows as CSV."),
    **dict.fromkeys((b'{"', b"[{", b"[\n", b"[\r"), ("JSON", "Save its records as CSV or Parquet.")),
    **dict.fromkeys(
        (b"<?xml", b"<html", b"<HTML", b"<!DOCTYPE", b"<!doctype"), ("a web page", "Save its table as CSV.")
    ),
    **dict.fromkeys(UTF_32, ("text in UTF-32", "Save it in UTF-8.")),
}
"""First bytes of files that are no text files of rows whatever their names say; and what to do about them."""
CANDIDATES = (";", "\t", "|", ",", "^", "~", "\x01", "\x1f")
HINT = re.compile(r'"?sep=(.)"?')
"""A first line by which spreadsheets say what parts the cells."""


@dataclass(frozen=True, slots=True)
class TextHead:
    """What is public about a text file.

    Args:
        text: Its format, with the encoding and the separator that hold.
        separator: What parts its cells.
        codec: What its bytes are in, from `skipped` on.
        skipped: Bytes before the header: a byte order mark, and a line that names the separator.
        header: A first line of names to put before the content, in UTF-8; empty where the file has one.
    """

    text: TextFormat
    separator: str
    codec: str
    skipped: int
    header: bytes


def read_head(path: Path, text: TextFormat, rows: bool = True) -> TextHead:
    """Read the first line of a text file and complete the format from it.

    Args:
        path: A .csv or .tsv file; its name may end in .gz.
        text: What is declared.
        rows: Whether rows may be looked at: then names that are given are compared with the first one of a
            file that has no header. Without names it tells the number of columns in any case.

    Raises:
        InputError: The file cannot be read, or its first line is not written in this format.
    """
    raw = _first_bytes(path)
    _check_signature(raw, text)
    mark = next((mark for mark in BYTE_ORDER_MARKS if raw.startswith(mark) and _may_mark(mark, text)), b"")
    encoding, codec = BYTE_ORDER_MARKS.get(mark, (text.encoding or "utf-8",) * 2)
    # Without a mark these codecs would guess the order of bytes, or expect a mark.
    if not mark and codec in ("utf-16", "utf-8-sig"):
        codec = {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}[codec]
    skipped = len(mark)
    line = _first_line(raw[skipped:], codec, text) if text.headed else None
    # Excel writes its separator into a line of its own, which is no row.
    if line is not None and (hint := HINT.fullmatch(line.rstrip("\r\n"))) is not None:
        skipped += len(line.encode(codec))
        text = dataclasses.replace(text, separator=text.separator or hint[1])
        line = _first_line(raw[skipped:], codec, text)
    separator = text.separator or _default_separator(path, text, line)
    if line is not None and line.strip():
        _check_separator(line, separator, text)
    kept = text.separator or (separator if text.decimal == "," else None)
    text = dataclasses.replace(text, encoding=None if encoding == "utf-8" else encoding, separator=kept)
    head = TextHead(text, separator, codec, skipped, b"")
    return head if text.headed else dataclasses.replace(head, header=_made_header(path, head, rows))


def _check_signature(raw: bytes, text: TextFormat) -> None:
    """Refuse what its first bytes say is another kind of file.

    Without a header the first bytes are those of a private cell, so only what no text begins with counts.
    """
    for signature, (kind, remedy) in SIGNATURES.items():
        if raw.startswith(signature) and (text.headed or not NO_TEXT.isdisjoint(signature)):
            raise InputError(invalid("data", f"a text file; it begins as {kind} does", remedy))


def _may_mark(mark: bytes, text: TextFormat) -> bool:
    """Whether a byte order mark can be one, and not the beginning of a private cell in another encoding."""
    family = BYTE_ORDER_MARKS[mark][1].removesuffix("-le").removesuffix("-be")
    return text.headed or text.encoding is None or text.encoding.startswith(family)


def _first_bytes(path: Path, size: int = HEAD_BYTES) -> bytes:
    def read() -> bytes:
        with _open_text(path) as file:
            return bytes(file.read(size))

    return bytes(read_guarded(read, "a readable text file"))


def _open_text(path: Path) -> Any:
    return gzip.open(path) if path.name.lower().endswith(".gz") else open(path, "rb")


def _first_line(raw: bytes, codec: str, text: TextFormat) -> str:
    """The first line, its end included.

    Raises:
        InputError: It is not in the encoding.
    """
    found = codecs.getincrementaldecoder(codec)(errors="replace").decode(raw)
    line = found[: next((place + 1 for place, sign in enumerate(found) if sign in "\r\n"), len(found))]
    if found[len(line) - 1 : len(line) + 1] == "\r\n":
        line += "\n"
    # Every other byte of UTF-16 is zero in Latin text; which one tells the order.
    if "\0" in line:
        likely = "utf-16-be" if raw[:1] == b"\0" else "utf-16-le"
        remedy = f"Try --encoding {likely}, or TextFormat(encoding={likely!r})."
        raise InputError(invalid("data", f"a text file in {codec}", remedy))
    if "\ufffd" in line:
        other = "cp1252" if codec == "utf-8" else "utf-8"
        remedy = f"Try --encoding {other}, or TextFormat(encoding={other!r})."
        if text.separator is None and line.count(";") > line.count(","):
            remedy += f" A German or French spreadsheet's file may need --encoding {other} --locale de or fr."
        raise InputError(invalid("data", f"a text file whose first line is in {codec}", remedy))
    return line


def _default_separator(path: Path, text: TextFormat, line: str | None) -> str:
    """What parts the cells where nothing is declared; line is the header, None where there is none."""
    if line is None or ".tsv" in path.name.lower()[-7:]:
        return str(text.with_separator(path).separator)
    return ";" if text.decimal == "," and line.count(";") >= max(1, line.count(",")) else ","


def _check_separator(line: str, separator: str, text: TextFormat) -> None:
    """Refuse a first line in which something else than the separator seems to part the names.

    A separator that was declared is doubted only where the line has none but has another candidate: a file of
    one column has none at all.

    Raises:
        InputError: It has no separator, or another candidate stands there more often.
    """
    quote = text.quote
    if quote and line.count(quote) % 2:
        return  # a name in quotes goes on in the next line
    bare = re.sub(f"{quote}[^{quote}]*{quote}", "", line) if quote else line
    count = bare.count(separator)
    likely = max((sign for sign in CANDIDATES if sign != separator), key=bare.count)
    if bare.count(likely) > count and not (text.separator and count):
        word = SEPARATOR_WORDS.get(likely, likely)
        remedy = f"Try --separator '{word}', or TextFormat(separator='{word}')."
        if likely == ";":
            remedy += " A file of a German or French spreadsheet is read by --locale de or --locale fr."
        constraint = (
            f"parted by {_name_separator(separator)}: its first line has more of {_name_separator(likely)}"
        )
        raise InputError(invalid("data", constraint, remedy))
    if not count and quote and separator in line:
        constraint = f"parted by {_name_separator(separator)}: those of its first line all stand in quotes"
        remedy = "If whole rows stand in quotes, remove those; if the line is one name, give --separator."
        raise InputError(invalid("data", constraint, remedy))
    if not count and text.separator is None:
        word = SEPARATOR_WORDS.get(separator, separator)
        remedy = (
            f"Say what parts the names in its first line by --separator; for a file of one column that is "
            f"--separator '{word}'. Remove lines above the names."
        )
        raise InputError(
            invalid("data", f"parted by {_name_separator(separator)}: its first line has none", remedy)
        )


def _name_separator(separator: str) -> str:
    return {",": "commas", ";": "semicolons", "\t": "tabs"}.get(separator, f"{separator!r}")


def _made_header(path: Path, head: TextHead, rows: bool) -> bytes:
    """A first line of names for a file that has none; `rows` as for `read_head`.

    Raises:
        InputError: The names are more or fewer than the cells of the first row.
    """
    text, separator = head.text, head.separator
    cells = _count_cells(path, head) if rows or not text.names else 0
    names = text.names or tuple(f"c{place}" for place in range(1, cells + 1))
    if cells not in (0, len(names)):
        remedy = "Name every column, or leave the names out."
        raise InputError(invalid("names", f"{cells}, one a column", remedy, got=len(names)))
    written = io.StringIO()
    quoting: Any = csv.QUOTE_MINIMAL if text.quote else csv.QUOTE_NONE
    try:
        csv.writer(written, delimiter=separator, quotechar=text.quote or None, quoting=quoting).writerow(
            names
        )
    except csv.Error:
        raise InputError(invalid("names", "free of the separator", "Rename such columns.")) from None
    return written.getvalue().encode()


def _count_cells(path: Path, head: TextHead) -> int:
    """Cells of the first row; 0 where there is no row, or none that ends."""
    quote, size = ord(head.text.quote) if head.text.quote else None, HEAD_BYTES
    while True:
        raw = _first_bytes(path, size)
        found = codecs.getincrementaldecoder(head.codec)(errors="replace").decode(raw[head.skipped :])
        # Empty lines are no rows, wherever they are.
        content = np.frombuffer(found.lstrip("\r\n").encode(errors="replace"), dtype=np.uint8)
        shape = shape_of(content, ord(head.separator), quote)
        # The first row may be as long as any other; a text that ends within it is looked at as it is.
        if 0 <= shape.header < len(content) or len(raw) < size or size >= MAX_FIRST_ROW_BYTES:
            return shape.cells
        size *= 8


def text_blocks(path: Path, head: TextHead, size: int, errors: str = "strict") -> Iterator[bytes]:
    """The content of a text file from its header on, in UTF-8, in blocks. **Not private.**

    Args:
        path: The file.
        head: What `read_head` found.
        size: Bytes that are read at a time.
        errors: What becomes of bytes that are in another encoding, as for `bytes.decode`.

    Raises:
        OSError, EOFError, ValueError: The file is broken or, where that is strict, in another encoding; the
            errors may quote it.
    """
    if head.header:
        yield head.header
    decoder = None if head.codec == "utf-8" else codecs.getincrementaldecoder(head.codec)(errors)
    with _open_text(path) as file:
        file.read(head.skipped)
        while block := file.read(size):
            yield block if decoder is None else decoder.decode(block).encode()
        if decoder is not None:
            yield decoder.decode(b"", True).encode()
