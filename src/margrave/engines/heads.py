"""open_head: the names and storage types of a table, which are public, without its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from margrave.engines import memory, opening
from margrave.engines.batches import guarded
from margrave.engines.files import PLAIN, Choose, all_columns, check_names, is_text_file, text_table
from margrave.engines.frames import read_table
from margrave.engines.memory import MemorySource
from margrave.engines.text_head import TextHead, read_head, text_blocks
from margrave.engines.text_shape import shape_of
from margrave.errors import InputError, invalid
from margrave.schema.frame import TEXT_FILE, Frame
from margrave.schema.text_format import TextFormat

if TYPE_CHECKING:
    from margrave.protocols import Source

__all__ = ["file_bytes", "open_head"]

BLOCK = 1 << 20
"""Bytes that are read at a time in search of the end of the first line."""
LONGEST = 1 << 26
"""Most bytes of a first line."""


def open_head(
    data: Any,
    *,
    missing: Sequence[str] = ("",),
    text: TextFormat = PLAIN,
    engine: str = "auto",
    choose: Choose = all_columns,
) -> tuple[Source, Frame]:
    """A table without its rows: a source whose `columns` are those of `open_source`, and the frame.

    Of a file that says its storage types, only these are read; of a text file, the first line; of an Excel
    file, the first row of a sheet. A frame is cut to no rows before its columns are looked at. So an error
    says nothing about the rows, and a large file costs no more time than a small one. An ibis table stays
    where it is.

    Args:
        data: As for `margrave.engines.opening.open_source`.
        missing: As there.
        text: As there.
        engine: As there.
        choose: As there.

    Raises:
        InputError: The table cannot be used, as far as its head tells.
        MissingExtraError: It is an ibis.Table and its backend is not installed, or an Excel file and
            openpyxl is not.
    """
    if not isinstance(data, (str, os.PathLike)):
        empty = _without_rows(data)
        return opening.open_source(empty, missing=missing, text=text, engine=engine, choose=choose)
    if isinstance(missing, str):
        raise InputError(invalid("missing", "a list of texts", f"Try missing=[{missing!r}].", got=missing))
    name, _, sheet = str(data).partition("::")
    if name.lower().endswith(".xlsx"):
        return _sheet_head(Path(name), sheet or None, missing, text, choose)
    path = Path(name)
    if path.is_file() and is_text_file(path) and not sheet:
        return _text_head(path, text, missing, choose)
    batches = opening.open_batches(str(data))
    return memory.open_source(batches.schema.empty_table(), missing=missing, text=text, choose=choose)


def file_bytes(data: Any) -> int | None:
    """About how many bytes the content of a file takes when it is not packed; None for anything else.

    Whoever can list the folder sees it. It tells about the number of rows, so no release may depend on it.
    """
    if not isinstance(data, (str, os.PathLike)):
        return None
    path = Path(str(data).partition("::")[0])
    return opening.content_bytes(path) if path.is_file() else None


def _without_rows(data: Any) -> Any:
    """A frame with its columns and none of its rows, where it is of a kind that says its types."""
    native = nw.to_native(data, pass_through=True)
    if isinstance(native, pa.Table):
        return native.schema.empty_table()
    if nw.dependencies.is_pandas_dataframe(native):
        return native.iloc[:0]
    if nw.dependencies.is_polars_dataframe(native):
        return native.head(0)
    return data


def _text_head(
    path: Path, text: TextFormat, missing: Sequence[str], choose: Choose
) -> tuple[MemorySource, Frame]:
    head = read_head(path, text)
    table = text_table(_first_line(path, head), head, missing)
    table = table.select(choose(table.column_names))
    frame = Frame("arrow", dict.fromkeys(table.column_names, TEXT_FILE), head.text)
    return MemorySource(table, frozenset(table.column_names)), frame


def _first_line(path: Path, head: TextHead) -> bytes:
    """The first line in UTF-8, which may go on over line ends within quotes.

    Raises:
        InputError: The file cannot be read, or its first line does not end.
    """
    separator, quote = ord(head.separator), ord(head.text.quote) if head.text.quote else None
    blocks, data, end = text_blocks(path, head, BLOCK), b"", -1
    while not 0 <= end < len(data) <= LONGEST:
        block = guarded(lambda: next(blocks, None), f"a readable text file in {head.codec}")
        if block is None:
            break
        data += block
        end = shape_of(np.frombuffer(data, dtype=np.uint8), separator, quote).header
    if len(data) > LONGEST and end < 0:
        constraint = f"a text file with a first line of at most {LONGEST:,} bytes"
        raise InputError(invalid("data", constraint, "Close its quotes, or say --quote none."))
    return data if end < 0 else data[:end]


def _sheet_head(
    path: Path, sheet: str | None, missing: Sequence[str], text: TextFormat, choose: Choose
) -> tuple[Source, Frame]:
    from margrave.engines.excel import read_sheet

    if not path.is_file():
        raise InputError(invalid("data", "a table or the path of a file", "Check the path.", got=str(path)))
    table = read_sheet(path, sheet, missing, text, most=1)
    check_names(list(table.column_names), text)
    table = table.select(choose(table.column_names))
    frame = Frame("arrow", dict.fromkeys(table.column_names, TEXT_FILE), text)
    return MemorySource(read_table(table)[0], frozenset(table.column_names)), frame
