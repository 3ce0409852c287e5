"""Files as Arrow tables: CSV in a declared format, Excel, Parquet, Arrow.

Nothing is guessed from the rows. A text file is as its `TextFormat` says, completed from its first line, and
every column is text: discovery or a declaration decides what it means. Readers' own messages quote the row
they fail on, so none is ever passed on.

Excel files become tables of text as well: a cell of a sheet has a type of its own, so a column has none, and
each cell is taken as the text of its value.
"""

from __future__ import annotations

import csv
import datetime
import io
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from margrave.engines.sheet_head import SOUND, choose_sheet, read_first_row
from margrave.engines.streaming.batches import read_guarded
from margrave.engines.text import CELLS, ENDS, QUOTES, Shape, TextHead, read_head, shape_of, text_blocks
from margrave.errors import InputError, MissingExtraError, invalid
from margrave.schema.storage import forms
from margrave.schema.storage.spelling import read_cells
from margrave.schema.storage.text import ROW_NUMBERS, TextFormat

OTHER_FILES = (
    "Rename a text file to .csv or .tsv, by what parts its cells. Read one of Stata, SPSS or SAS with pandas "
    "(read_stata, read_spss, read_sas) and pass the frame, or save it as Parquet; convert another."
)
"""What to do with a file of another kind than those that are read."""
BLANKS = " \t"
DEFAULT_TEXT_FORMAT = TextFormat()
ENCODING = (
    "Check that the file is complete; if it is in another encoding, say so: --encoding cp1252 (of Windows), "
    "--encoding utf-16."
)
BLOCK = 1 << 22
"""Least number of bytes that the reader takes at a time."""
TEXT = pa.dictionary(pa.int32(), pa.string())
NO_OWNER = ("",)
"""What means missing in the column that says whose row it is, whatever does in others."""
Choose = Callable[[Sequence[str]], list[str]]
"""Picks the columns of a table that are read, by their names."""


def all_columns(names: Sequence[str]) -> list[str]:
    """All of them."""
    return list(names)


def chosen_columns(names: Sequence[Any], choose: Choose) -> list[str] | None:
    """The columns to read; None for all, also where names repeat or are no texts, which is refused later."""
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        return None
    kept = choose(names)
    return None if kept == list(names) else kept


def choose_columns(table: Any, choose: Choose) -> Any:
    """An Arrow table with the columns to read."""
    kept = chosen_columns(table.column_names, choose)
    return table if kept is None else table.select(kept)


def is_text_file(path: Path) -> bool:
    """Whether the file's name says that it is CSV or TSV."""
    return _suffix(path) in (".csv", ".tsv")


def is_untyped_file(path: Path) -> bool:
    """Whether the columns of a file have no types of their own, as in text files and Excel sheets."""
    return is_text_file(path) or _suffix(path) == ".xlsx"


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return Path(name[:-3] if name.endswith((".csv.gz", ".tsv.gz")) else name).suffix


def read_file(
    path: Path,
    missing: Sequence[str] = ("",),
    text: TextFormat = DEFAULT_TEXT_FORMAT,
    sheet: str | None = None,
    owner: str | None = None,
    choose: Choose = all_columns,
) -> tuple[Any, TextFormat]:
    """A file's rows as a pyarrow.Table, and the text format that holds for them. **Not private.**

    Args:
        path: A .csv, .tsv (either may end in .gz), .xlsx, .parquet, .arrow, .feather or .ipc file.
        missing: Texts that mean missing, in text files and Excel sheets.
        text: How a text file is written.
        sheet: Name of the sheet of an Excel file; the first by default.
        owner: Name of the column that says whose row it is, see `_normalise_cells`; None for none.
        choose: Picks the columns to read by their names. Of a Parquet or an Arrow file the others are not
            looked at; text files and sheets have to be sound as a whole.

    Returns:
        The table, and the format with what its first line says of the encoding and the separator.

    Raises:
        InputError: The file is absent, of another kind, or broken. The error holds nothing of its content.
        MissingExtraError: It is an Excel file and no reader of such files is installed.
    """
    if not path.is_file():
        raise InputError(invalid("data", "a table or the path of a file", "Check the path.", got=str(path)))
    suffix = _suffix(path)
    if is_text_file(path):
        table, text = _read_text(path, text, missing, owner)
        return choose_columns(table, choose), text
    if suffix == ".xlsx":
        table = read_sheet(path, sheet, missing, text, owner=owner)
        check_names(list(table.column_names), text)
        return choose_columns(table, choose), text
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path, choose), text
    if suffix in (".arrow", ".feather", ".ipc"):
        return _read_arrow(path, choose), text
    raise InputError(
        invalid(
            "data",
            "a .csv, .csv.gz, .tsv, .xlsx, .parquet, .arrow or .feather file",
            OTHER_FILES,
            got=path.name,
        )
    )


def _read_guarded(
    read: Callable[[], Any], constraint: str, remedy: str = "Check that the file is complete."
) -> Any:
    """What read returns; whatever it raises is replaced, not chained, for it may quote rows."""
    try:
        return read()
    except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error, csv.Error):
        pass
    raise InputError(invalid("data", constraint, remedy))


def _read_parquet(path: Path, choose: Choose) -> Any:
    sound = "a readable Parquet file"
    names = _read_guarded(lambda: pq.ParquetFile(path).schema_arrow.names, sound)
    kept = chosen_columns(names, choose)
    table = _read_guarded(lambda: pq.ParquetFile(path).read(columns=kept), sound)
    # A name with a point in it also picks what is nested under its first part.
    return table if kept is None else table.select(kept)


def _read_arrow(path: Path, choose: Choose) -> Any:
    sound = "a readable Arrow file"
    names = _read_guarded(lambda: _load_arrow(path, None, lambda reader: reader.schema.names), sound)
    kept = chosen_columns(names, choose)
    places = None if kept is None else [names.index(name) for name in kept]
    table = _read_guarded(
        lambda: _validate_table(_load_arrow(path, places, lambda reader: reader.read_all())), sound
    )
    return table if kept is None else table.select(kept)


def _load_arrow(path: Path, places: list[int] | None, take: Callable[[Any], Any]) -> Any:
    """What is taken of an Arrow file, or a stream in one, with the columns at some places; None for all."""
    options = pa.ipc.IpcReadOptions(included_fields=places)
    try:
        with pa.OSFile(str(path)) as file:
            return take(pa.ipc.open_file(file, options=options))
    except pa.ArrowInvalid:
        with pa.OSFile(str(path)) as file:
            return take(pa.ipc.open_stream(file, options=options))


def _validate_table(table: Any) -> Any:
    """The table, found sound: the reader trusts offsets and indices, and would follow wrong ones anywhere."""
    table.validate(full=True)
    return table


def _read_text(
    path: Path, text: TextFormat, missing: Sequence[str], owner: str | None
) -> tuple[Any, TextFormat]:
    head = read_head(path, text)
    blocks = text_blocks(path, head, BLOCK)
    data = _read_guarded(lambda: b"".join(blocks), f"a text file in {head.codec}", ENCODING)
    return text_table(data, head, missing, owner), head.text


def text_table(
    data: bytes, head: TextHead, missing: Sequence[str], owner: str | None = None, *, whole: bool = True
) -> Any:
    """A text's rows, below its header, as a pyarrow.Table of dictionary-coded text. **Not private.**

    Args:
        data: UTF-8, without a byte order mark, from the header on.
        head: How it is written.
        missing: Texts that mean missing.
        owner: Name of the column that says whose row it is; None for none.
        whole: Whether it is all of a file, so that how its rows end can be told.

    Raises:
        InputError: The text is broken. The error holds nothing of its content.
    """
    quote = head.text.quote
    # The shape is checked byte by byte first, since the fast reader would swallow rows after an unclosed
    # quote without a word.
    shape = shape_of(np.frombuffer(data, dtype=np.uint8), ord(head.separator), ord(quote) if quote else None)
    if shape.fault == QUOTES:
        constraint = "a text file in which every quote is closed and opens right behind a separator"
        remedy = (
            'Put cells that hold quotes in quotes and double those inside, as in "5"" wide"; '
            "or say that quotes mean nothing: --quote none."
        )
        raise InputError(invalid("data", constraint, remedy))
    names = _read_guarded(
        lambda: _read_header(data, shape, head), "a text file with a header, in UTF-8", ENCODING
    )
    check_names(names, head.text)
    _check_closed(names, head)
    if shape.fault == CELLS:
        constraint = f"a text file in which every row has the header's {shape.cells} cells"
        remedy = (
            "Put cells that hold the separator in quotes, and say which if they are not double: --quote. "
            "Remove titles and remarks above the names, totals and remarks below the rows, and separators "
            "at the ends of rows."
        )
        raise InputError(invalid("data", constraint, remedy))
    if shape.fault == ENDS and whole:
        raise unlike_ends()
    columns = _read_guarded(lambda: _read_rows(data, shape, head), "a text file in UTF-8", ENCODING)
    cells = [
        _normalise_cells(column, name, missing, head.text, owner)
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.table(cells, names=names)


def _read_header(data: bytes, shape: Shape, head: TextHead) -> list[str]:
    line = io.StringIO(data[: shape.header].decode("utf-8"), newline="")
    quoted: Any = {"quotechar": head.text.quote} if head.text.quote else {"quoting": csv.QUOTE_NONE}
    cells = next(csv.reader(line, delimiter=head.separator, strict=True, **quoted), [])
    return _name_row_numbers([cell.strip(BLANKS) for cell in cells])


def _name_row_numbers(names: list[str]) -> list[str]:
    """The names with one for row numbers that pandas or R wrote, which have none: that of pandas."""
    unnamed = len(names) > 1 and not names[0] and all(names[1:]) and ROW_NUMBERS not in names
    return [ROW_NUMBERS, *names[1:]] if unnamed else names


def check_names(names: list[str], text: TextFormat) -> None:
    """Refuse what is no header; its cells are not shown, for without a header they are a row of the table."""
    if not names or "" in names:
        remedy = (
            "Complete the header: separators at the ends of lines make a column without a name; merged cells "
            "name one column alone. If the first line is a row, say --no-header."
        )
        raise InputError(invalid("data", "headed by a first line that names every column", remedy))
    if len(set(names)) != len(names):
        remedy = "Rename the columns that repeat; if the first line is a row, say --no-header."
        raise InputError(invalid("data", "headed by distinct names", remedy))
    # The first line may be a row: its cells are private, and numbers are a sign of it.
    if text.header is None and any(forms.number_of(name) is not None for name in names):
        remedy = (
            "If the first line is a row, say --no-header; if a remark, remove it; if names, say --header."
        )
        raise InputError(invalid("data", "headed by names, not by numbers", remedy))


def unlike_ends() -> InputError:
    """The error about a file of one column in which a return may be the end of a row or a part of a cell."""
    remedy = "Put cells that hold line ends in quotes, or store the table as Parquet."
    return InputError(invalid("data", "a text file of one column whose rows all end alike", remedy))


def _check_closed(names: list[str], head: TextHead) -> None:
    """Refuse names with a separator behind a line end: most likely a quote of the first line is open, and was
    closed by one in a row, whose cells would be told as a part of a name.

    Raises:
        InputError: There is one, and nobody said that these are names.
    """
    behind = "".join(name.replace("\r", "\n").partition("\n")[2] for name in names)
    if head.text.header is None and head.separator in behind:
        remedy = (
            "Close the quotes of the first line, or say that quotes mean nothing: --quote none; if names go "
            "over several lines, say --header."
        )
        raise InputError(invalid("data", "headed by a first line in which every quote is closed", remedy))


def _read_rows(data: bytes, shape: Shape, head: TextHead) -> list[Any]:
    """The columns as dictionary-coded text, none missing."""
    names = [f"c{index}" for index in range(shape.cells)]
    if not shape.rows:
        return [pa.array([], TEXT)] * shape.cells
    table = pa.csv.read_csv(
        pa.py_buffer(data)[shape.header :],
        read_options=pa.csv.ReadOptions(
            column_names=names, block_size=max(BLOCK, min(2 * shape.longest, (1 << 31) - 1))
        ),
        parse_options=pa.csv.ParseOptions(
            delimiter=head.separator,
            quote_char=head.text.quote or False,
            double_quote=bool(head.text.quote),
            escape_char=False,
            newlines_in_values=True,
        ),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, TEXT), check_utf8=True),
    )
    if table.num_rows != shape.rows:
        raise ValueError  # the reader and the scan disagree: refuse
    return list(table.columns)


def _normalise_cells(
    column: Any, name: str, missing: Sequence[str], text: TextFormat, owner: str | None
) -> Any:
    """Cells without the blanks around them, in their usual form, null where the value is missing.

    Of the owner's column the empty cell alone is missing, and the others stay as they are written. A missing
    owner is an error, so a mark that an argument chooses would ask whether one person is in the table; and a
    format that makes one text of two would have two persons share a cap.
    """
    coded = forms.normal(column, "")
    trimmed = pc.utf8_trim(coded.dictionary, characters=BLANKS)
    marks = NO_OWNER if name == owner else [mark.strip(BLANKS) for mark in missing]
    absent = pa.array(marks, pa.large_string())
    present = pc.if_else(pc.is_in(trimmed, value_set=absent), None, trimmed)
    kept = (present if name == owner else read_cells(present, name, text)).dictionary_encode()
    return pa.DictionaryArray.from_arrays(pc.take(kept.indices, coded.indices), kept.dictionary)


def read_sheet(
    path: Path,
    sheet: str | None,
    missing: Sequence[str],
    text: TextFormat,
    *,
    owner: str | None = None,
    head: bool = False,
) -> Any:
    """The rows of a sheet, below its first row, as a pyarrow.Table of dictionary-coded text. **Not private.**

    Formulas are taken as the values that were saved with them. Rows without any value are left out, as empty
    lines of text files are, and so are columns behind the last one that the first row names.

    Args:
        path: An .xlsx file.
        sheet: Name of the sheet; the first by default.
        missing: Texts that mean missing.
        text: Formats of numbers and dates that are kept as text, and whether the first row names the columns.
        owner: Name of the column that says whose row it is, see `_normalise_cells`; None for none.
        head: Whether to read the names alone, and no row.

    Raises:
        InputError: The file is broken or has no such sheet, or nothing names its columns. The error holds
            nothing of its rows.
        MissingExtraError: openpyxl is not installed.
    """
    try:
        import openpyxl
    except ImportError:
        remedy = "Run: pip install 'margrave[excel]', or save the sheet as CSV."
        raise MissingExtraError(invalid("openpyxl", "installed to read Excel files", remedy)) from None
    # Programs do not write empty cells at the end of a row, so a first row that is no header would tell the
    # number of columns by a private cell.
    if not text.headed and not text.names:
        remedy = "Give them in order: --names age,sex or TextFormat(header=False, names=('age', 'sex'))."
        raise InputError(invalid("names", "given for an Excel file without a header", remedy))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about styles of the sheet, which mean nothing here
        rows = [read_first_row(path, sheet, text.headed)] if head else _cells_of(openpyxl, path, sheet)
    return _make_table(rows, missing, text, owner)


def _cells_of(openpyxl: Any, path: Path, sheet: str | None) -> list[list[Any]]:
    """The values of a sheet's cells, row by row, the first row included. **Not private.**"""
    options = {"read_only": True, "data_only": True, "keep_links": False}
    # The file is opened here because openpyxl leaves it open where it cannot read it.
    with read_guarded(lambda: path.open("rb"), SOUND) as file:
        book = read_guarded(lambda: openpyxl.load_workbook(file, **options), SOUND)
        place = choose_sheet(list(book.sheetnames), sheet)
        rows: list[list[Any]] = read_guarded(lambda: _list_rows(book[book.sheetnames[place]]), SOUND)
        return rows


def _list_rows(page: Any) -> list[list[Any]]:
    page.reset_dimensions()  # what a sheet says of its own size would cut rows and names where it is wrong
    return [list(row) for row in page.iter_rows(values_only=True)]


def _make_table(rows: list[list[Any]], missing: Sequence[str], text: TextFormat, owner: str | None) -> Any:
    names = _first_names(rows) if text.headed else list(text.names)
    if not names:
        remedy = "Name every column in the first row."
        raise InputError(invalid("data", "a sheet whose first row names the columns", remedy))
    width = len(names)
    body = [row for row in rows[int(text.headed) :] if any(cell not in (None, "") for cell in row)]
    if any(cell not in (None, "") for row in body for cell in row[width:]):
        remedy = "Clear the cells beside the table; remove titles and merged cells above the names."
        raise InputError(invalid("data", "a sheet with nothing beside its named columns", remedy))
    columns = []
    for place, name in enumerate(names):
        absent = {mark.strip() for mark in (NO_OWNER if name == owner else missing)}
        cells = [_cell_text(row[place]) if place < len(row) else "" for row in body]
        kept = [None if cell in absent else cell for cell in cells]
        coded = pa.array(kept, pa.large_string()).dictionary_encode()
        texts = coded.dictionary if name == owner else read_cells(coded.dictionary, name, text)
        usual = texts.dictionary_encode()
        indices = pc.take(usual.indices, coded.indices)
        columns.append(pa.DictionaryArray.from_arrays(indices, usual.dictionary))
    if len(set(names)) != len(names):
        raise InputError(invalid("data", "headed by distinct names", "Rename the columns that repeat."))
    return pa.table(columns, names=names)


def _first_names(rows: list[list[Any]]) -> list[str]:
    names = [_cell_text(cell) for cell in rows[0]] if rows else []
    # Spreadsheets keep empty cells at the end of a row that were once filled.
    while names and not names[-1]:
        names.pop()
    return _name_row_numbers(names)


def _cell_text(cell: Any) -> str:
    """The text of a cell's value: numbers and dates in their usual form, empty where there is none."""
    if cell is None:
        return ""
    # A bool is an int in Python, and a datetime a date: the narrower kind comes first.
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
