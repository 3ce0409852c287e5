"""The head of a text file: its encoding and separator, from its first line, which is public.

Nothing behind the first line decides how a file is read. Where the first line does not look as the declared
format has it, the file is refused before anything is spent, with the option that would read it.
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

from margrave.engines.batches import guarded
from margrave.engines.text_shape import shape_of
from margrave.errors import InputError, invalid
from margrave.schema.text_format import TextFormat

__all__ = ["TextHead", "read_head", "text_blocks"]

HEAD = 1 << 20
"""Most bytes of a first line."""
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: ("utf-8-sig", "utf-8"),
    codecs.BOM_UTF16_LE: ("utf-16", "utf-16-le"),
    codecs.BOM_UTF16_BE: ("utf-16", "utf-16-be"),
}
"""The encoding that a mark at the start of a file names, and the codec of what follows the mark."""
CANDIDATES = (";", "\t", "|", ",")
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


def read_head(path: Path, text: TextFormat) -> TextHead:
    """Read the first line of a text file and complete the format from it.

    Args:
        path: A .csv or .tsv file; its name may end in .gz.
        text: What is declared.

    Raises:
        InputError: The file cannot be read, or its first line is not written in this format.
    """
    raw = _first_bytes(path)
    mark = next((mark for mark in BYTE_ORDER_MARKS if raw.startswith(mark)), b"")
    encoding, codec = BYTE_ORDER_MARKS.get(mark, (text.encoding or "utf-8",) * 2)
    if not mark and codec in ("utf-16", "utf-8-sig"):
        codec = {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}[codec]
    line = _first_line(raw[len(mark) :], codec, text)
    skipped = len(mark)
    hint = HINT.fullmatch(line.rstrip("\r\n"))
    if hint is not None and text.headed:
        skipped += len(line.encode(codec))
        text = dataclasses.replace(text, separator=text.separator or hint[1])
        line = _first_line(raw[skipped:], codec, text)
    separator = text.separator or _default_separator(path, text, line)
    if line.strip():
        _check_separator(line, separator, text)
    kept = text.separator or (separator if text.decimal == "," else None)
    text = dataclasses.replace(text, encoding=None if encoding == "utf-8" else encoding, separator=kept)
    return TextHead(text, separator, codec, skipped, _made_header(raw[skipped:], codec, separator, text))


def _first_bytes(path: Path) -> bytes:
    def read() -> bytes:
        with _opened(path) as file:
            return bytes(file.read(HEAD))

    return bytes(guarded(read, "a readable text file"))


def _opened(path: Path) -> Any:
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
    if "\0" in line:
        likely = "utf-16-be" if raw[:1] == b"\0" else "utf-16-le"
        remedy = f"Try --encoding {likely}, or TextFormat(encoding={likely!r})."
        raise InputError(invalid("data", f"a text file in {codec}", remedy))
    if "\ufffd" in line:
        other = "cp1252" if codec == "utf-8" else "utf-8"
        remedy = f"Try --encoding {other}, or TextFormat(encoding={other!r})."
        raise InputError(invalid("data", f"a text file whose first line is in {codec}", remedy))
    return line


def _default_separator(path: Path, text: TextFormat, line: str) -> str:
    if ".tsv" in path.name.lower()[-7:]:
        return "\t"
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
        word = "tab" if likely == "\t" else likely
        remedy = f"Try --separator '{word}', or TextFormat(separator='{word}')."
        if likely == ";":
            remedy += " A file of a German or French spreadsheet is read by --locale de or --locale fr."
        constraint = f"parted by {_spelt(separator)}: its first line has more of {_spelt(likely)}"
        raise InputError(invalid("data", constraint, remedy))
    if not count and text.separator is None:
        word = "tab" if separator == "\t" else separator
        remedy = (
            f"Say what parts the names in its first line by --separator; for a file of one column that is "
            f"--separator '{word}'. Remove lines above the names."
        )
        raise InputError(invalid("data", f"parted by {_spelt(separator)}: its first line has none", remedy))


def _spelt(separator: str) -> str:
    return {",": "commas", ";": "semicolons", "\t": "tabs"}.get(separator, f"{separator!r}")


def _made_header(raw: bytes, codec: str, separator: str, text: TextFormat) -> bytes:
    """A first line of names for a file that has none.

    Raises:
        InputError: The names are more or fewer than the cells of the first line.
    """
    if text.headed:
        return b""
    quote = ord(text.quote) if text.quote else None
    content = codecs.getincrementaldecoder(codec)(errors="replace").decode(raw).encode()
    shape = shape_of(np.frombuffer(content, dtype=np.uint8), ord(separator), quote)
    names = text.names or tuple(f"c{place}" for place in range(1, shape.cells + 1))
    if len(names) != shape.cells:
        remedy = "Name every column, or leave the names out."
        raise InputError(invalid("names", f"{shape.cells}, one a column", remedy, got=len(names)))
    written = io.StringIO()
    quoting: Any = csv.QUOTE_MINIMAL if text.quote else csv.QUOTE_NONE
    try:
        csv.writer(written, delimiter=separator, quotechar=text.quote or None, quoting=quoting).writerow(
            names
        )
    except csv.Error:
        raise InputError(invalid("names", "free of the separator", "Rename such columns.")) from None
    return written.getvalue().encode()


def text_blocks(path: Path, head: TextHead, size: int) -> Iterator[bytes]:
    """The content of a text file from its header on, in UTF-8, in blocks. **Not private.**

    Args:
        path: The file.
        head: What `read_head` found.
        size: Bytes that are read at a time.

    Raises:
        OSError, EOFError, ValueError: The file is broken or in another encoding; the errors may quote it.
    """
    if head.header:
        yield head.header
    decoder = None if head.codec == "utf-8" else codecs.getincrementaldecoder(head.codec)()
    with _opened(path) as file:
        file.read(head.skipped)
        while block := file.read(size):
            yield block if decoder is None else decoder.decode(block).encode()
        if decoder is not None:
            yield decoder.decode(b"", True).encode()
