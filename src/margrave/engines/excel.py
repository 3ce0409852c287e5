"""Excel files as Arrow tables of text. Not private.

A cell of a sheet has a type of its own, so a column has none: each cell is taken as the text of its value,
and discovery or a declaration decides what the column means, as in text files.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from margrave.engines.batches import guarded
from margrave.errors import InputError, MissingExtraError, invalid
from margrave.schema.text_cells import read_cells
from margrave.schema.text_format import TextFormat

__all__ = ["read_sheet"]

TEXT = pa.dictionary(pa.int32(), pa.large_string())


def read_sheet(
    path: Path, sheet: str | None, missing: Sequence[str], text: TextFormat, *, most: int | None = None
) -> Any:
    """The rows of a sheet, below its first row, as a pyarrow.Table of dictionary-coded text. **Not private.**

    Formulas are taken as the values that were saved with them. Rows without any value are left out, as empty
    lines of text files are, and so are columns behind the last one that the first row names.

    Args:
        path: An .xlsx file.
        sheet: Name of the sheet; the first by default.
        missing: Texts that mean missing.
        text: Formats of numbers and dates that are kept as text, and whether the first row names the columns.
        most: Rows of the sheet that are read, the first included; all by default.

    Raises:
        InputError: The file is broken or has no such sheet. The error holds nothing of its rows.
        MissingExtraError: openpyxl is not installed.
    """
    try:
        import openpyxl
    except ImportError:
        remedy = "Run: pip install 'margrave[excel]', or save the sheet as CSV."
        raise MissingExtraError(invalid("openpyxl", "installed to read Excel files", remedy)) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about styles of the sheet, which mean nothing here
        rows = _cells_of(openpyxl, path, sheet, most)
    return _table(rows, missing, text)


def _cells_of(openpyxl: Any, path: Path, sheet: str | None, most: int | None) -> list[list[Any]]:
    """The values of a sheet's cells, row by row, the first row included. **Not private.**"""
    sound = "a readable .xlsx file"
    book = guarded(lambda: openpyxl.load_workbook(path, read_only=True, data_only=True), sound)
    try:
        if sheet is not None and sheet not in book.sheetnames:
            remedy = "Write FILE.xlsx::SHEET."
            raise InputError(invalid("sheet", f"one of {list(book.sheetnames)}", remedy, got=sheet))
        page = book[book.sheetnames[0] if sheet is None else sheet]
        rows: list[list[Any]] = guarded(
            lambda: [list(row) for row in page.iter_rows(max_row=most, values_only=True)], sound
        )
        return rows
    finally:
        book.close()


def _table(rows: list[list[Any]], missing: Sequence[str], text: TextFormat) -> Any:
    first = [_cell_text(cell) for cell in rows[0]] if rows else []
    while first and not first[-1]:
        first.pop()
    names = first if text.headed else list(text.names or [f"c{place + 1}" for place in range(len(first))])
    if not names or len(names) != len(first):
        remedy = "Name every column in the first row."
        raise InputError(invalid("data", "a sheet whose first row names the columns", remedy))
    width = len(names)
    body = [row for row in rows[1 if text.headed else 0 :] if any(cell not in (None, "") for cell in row)]
    if any(cell not in (None, "") for row in body for cell in row[width:]):
        remedy = "Clear the cells beside the table."
        raise InputError(invalid("data", "a sheet with nothing beside its named columns", remedy))
    absent = {mark.strip() for mark in missing}
    columns = []
    for place, name in enumerate(names):
        cells = [_cell_text(row[place]) if place < len(row) else "" for row in body]
        kept = [None if cell in absent else cell for cell in cells]
        coded = pa.array(kept, pa.large_string()).dictionary_encode()
        usual = read_cells(coded.dictionary, name, text).dictionary_encode()
        indices = pc.take(usual.indices, coded.indices)
        columns.append(pa.DictionaryArray.from_arrays(indices, usual.dictionary))
    if len(set(names)) != len(names):
        raise InputError(invalid("data", "headed by distinct names", "Rename the columns that repeat."))
    return pa.table(columns, names=names)


def _cell_text(cell: Any) -> str:
    """The text of a cell's value: numbers and dates in their usual form, empty where there is none."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1 << 53 else repr(cell)
    if isinstance(cell, datetime.datetime):
        whole_day = cell.time() == datetime.time()
        return cell.date().isoformat() if whole_day else cell.isoformat(" ")
    if isinstance(cell, (datetime.date, datetime.time)):
        return cell.isoformat()
    return str(cell).strip()
