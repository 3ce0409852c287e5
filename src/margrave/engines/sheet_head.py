"""The first row of a sheet, whatever the cells below it hold.

It is read before a run is on record, so no other cell may end it. openpyxl looks at more: it parses the text
of all cells of a file, which lies in one list, the caches of links and charts, of sheets that do not say how
large they are all rows, and of others the second row as well. Here the part that holds the sheet is parsed up
to the end of its first row, and of the list of texts those alone to which this row refers.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

from margrave.engines.streaming.batches import read_guarded
from margrave.errors import InputError, invalid

SOUND = "a readable .xlsx file"
NAME = r"<((?:[\w.-]+:)?{})(?=[\s/>])[^>]*>"
LIST = re.compile(NAME.format("sst"))
ITEM = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|" + NAME.format("si"), re.DOTALL)
"""The beginning of a text, or what may hold the like without being one."""
DECLARED = re.compile(rb"\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.-]+)")


def read_first_row(path: Path, sheet: str | None, headed: bool) -> list[Any]:
    """The values of the cells of a sheet's first row; none where the first row is empty.

    Args:
        path: An .xlsx file.
        sheet: Name of the sheet; the first by default.
        headed: Whether the row names the columns. Where it does not, it is left alone, and no value is given.

    Raises:
        InputError: The file has no such sheet, or what says where its sheets and this row are is broken.
    """
    with read_guarded(lambda: path.open("rb"), SOUND) as file:
        book = read_guarded(lambda: _open_book(file), SOUND)
        parts = read_guarded(lambda: _list_parts(book), SOUND)
        place = choose_sheet([name for name, _ in parts], sheet)
        row: list[Any] = read_guarded(lambda: _parse_row(book, parts[place][1]), SOUND) if headed else []
        return row


def choose_sheet(names: list[str], sheet: str | None) -> int:
    """The place of a sheet among the names of all; of the first where none is wanted.

    Raises:
        InputError: There is no such sheet.
    """
    if sheet is not None and sheet not in names:
        raise InputError(invalid("sheet", f"one of {names}", "Write FILE.xlsx::SHEET.", got=sheet))
    return 0 if sheet is None else names.index(sheet)


def _open_book(file: Any) -> Any:
    """openpyxl's reader, which has read what is said of the file, its sheets and its styles and no cell."""
    from openpyxl.reader.excel import ExcelReader
    from openpyxl.styles.stylesheet import apply_stylesheet

    book = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
    book.read_manifest()
    book.read_workbook()
    apply_stylesheet(book.archive, book.wb)  # a number that is a date says so by its style
    return book


def _list_parts(book: Any) -> list[tuple[str, str]]:
    """Name and part of each sheet, in the order in which openpyxl has them."""
    found = [(sheet.name, link.target) for sheet, link in book.parser.find_sheets()]
    return [(name, part) for name, part in found if part in book.valid_files]


def _parse_row(book: Any, part: str) -> list[Any]:
    from openpyxl.worksheet._reader import ROW_TAG, WorkSheetParser
    from openpyxl.xml.functions import iterparse

    with book.archive.open(part) as source:
        parser = WorkSheetParser(
            source,
            _SharedTexts(book),
            data_only=True,
            epoch=book.wb.epoch,
            date_formats=book.wb._date_formats,
            timedelta_formats=book.wb._timedelta_formats,
        )
        row = next((element for _, element in iterparse(source) if element.tag == ROW_TAG), None)
        # Programs need not write empty rows, so the first one that is there may be another.
        if row is None or float(row.get("r", "1")) != 1:
            return []
        cells = parser.parse_row(row)[1]
    values: list[Any] = [None] * (cells[-1]["column"] if cells else 0)
    for cell in cells:
        if cell["column"] <= len(values):
            values[cell["column"] - 1] = cell["value"]
    return values


class _SharedTexts:
    """The texts to which cells refer by number; of those not asked for only the beginnings are found."""

    def __init__(self, book: Any) -> None:
        self._text = _read_texts(book)
        self._items = (found for found in ITEM.finditer(self._text) if found[1])
        self._starts: list[re.Match[str]] = []

    def __getitem__(self, place: int) -> str:
        from openpyxl.cell.text import Text
        from openpyxl.xml.functions import fromstring

        outer = LIST.search(self._text)
        while place >= len(self._starts):
            self._starts.append(next(self._items))
        if outer is None or place < 0:
            raise IndexError
        start = self._starts[place]
        end = start.end()
        if not start[0].endswith("/>"):
            end = self._text.index(">", self._text.index(f"</{start[1]}", end)) + 1
        # Alone within the outer element, which names what the tags belong to.
        (node,) = fromstring(f"{outer[0]}{self._text[start.start() : end]}</{outer[1]}>")
        return str(Text.from_tree(node).content).replace("x005F_", "")  # as openpyxl reads the whole list


def _read_texts(book: Any) -> str:
    """The list of texts; bytes that are none may be other cells', and are refused when all is read."""
    from openpyxl.xml.constants import SHARED_STRINGS

    part = book.package.find(SHARED_STRINGS)
    if part is None:
        return ""
    data: bytes = book.archive.read(part.PartName[1:])
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    declared = DECLARED.match(data.removeprefix(codecs.BOM_UTF8))
    return data.decode(declared[1].decode() if declared else "utf-8", "replace")
