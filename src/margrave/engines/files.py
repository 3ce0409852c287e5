"""Files as Arrow tables: CSV in one fixed dialect, Parquet, Arrow.

Nothing is guessed from the rows. A text file is UTF-8, its first line is the header, cells are parted by
commas (tabs in .tsv) and may stand in double quotes, and every column is text: discovery or a declaration
decides what it means. Readers' own messages quote the row they fail on, so none is ever passed on.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from margrave.engines.text_shape import CELLS, QUOTES, Shape, shape_of
from margrave.errors import InputError, invalid
from margrave.schema import storage

__all__ = ["is_text_file", "read_file", "text_table"]

BLANKS = " \t"
BLOCK = 1 << 22
"""Least number of bytes that the reader takes at a time."""
TEXT = pa.dictionary(pa.int32(), pa.string())


def is_text_file(path: Path) -> bool:
    """Whether the file's name says that it is CSV or TSV."""
    return _suffix(path) in (".csv", ".tsv")


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return Path(name[:-3] if name.endswith((".csv.gz", ".tsv.gz")) else name).suffix


def read_file(path: Path, missing: Sequence[str] = ("",)) -> Any:
    """A file's rows as a pyarrow.Table. **Not private.**

    Args:
        path: A .csv, .tsv (either may end in .gz), .parquet, .arrow, .feather or .ipc file.
        missing: Texts that mean missing, in text files.

    Raises:
        InputError: The file is absent, of another kind, or broken. The error holds nothing of its content.
    """
    if not path.is_file():
        raise InputError(invalid("data", "a table or the path of a file", "Check the path.", got=str(path)))
    suffix = _suffix(path)
    if is_text_file(path):
        return _read_text(path, "\t" if suffix == ".tsv" else ",", missing)
    if suffix in (".parquet", ".pq"):
        return _guarded(lambda: pq.ParquetFile(path).read(), "a readable Parquet file")
    if suffix in (".arrow", ".feather", ".ipc"):
        return _guarded(lambda: _validated(_read_arrow(path)), "a readable Arrow file")
    raise InputError(
        invalid(
            "data",
            "a .csv, .csv.gz, .tsv, .parquet, .arrow or .feather file",
            "Rename or convert the file.",
            got=path.name,
        )
    )


def _guarded(read: Callable[[], Any], constraint: str) -> Any:
    """What read returns; whatever it raises is replaced, not chained, for it may quote rows."""
    try:
        return read()
    except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error, csv.Error):
        pass
    raise InputError(invalid("data", constraint, "Check that the file is complete and in UTF-8."))


def _read_arrow(path: Path) -> Any:
    try:
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_file(file).read_all()
    except pa.ArrowInvalid:
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()


def _validated(table: Any) -> Any:
    """The table, found sound: the reader trusts offsets and indices, and would follow wrong ones anywhere."""
    table.validate(full=True)
    return table


def _read_text(path: Path, delimiter: str, missing: Sequence[str]) -> Any:
    return text_table(_guarded(lambda: _content(path), "a readable text file"), delimiter, missing)


def text_table(data: bytes, delimiter: str, missing: Sequence[str]) -> Any:
    """A text's rows, below its header, as a pyarrow.Table of dictionary-coded text. **Not private.**

    Args:
        data: UTF-8, without a byte order mark.
        delimiter: What parts the cells.
        missing: Texts that mean missing.

    Raises:
        InputError: The text is broken. The error holds nothing of its content.
    """
    shape = shape_of(np.frombuffer(data, dtype=np.uint8), ord(delimiter))
    if shape.fault == QUOTES:
        raise InputError(
            invalid(
                "data",
                "a text file in which every quote is closed and opens right behind a separator",
                'Put cells that hold quotes in quotes and double those inside, as in "5"" wide".',
            )
        )
    names = _guarded(lambda: _header(data, shape, delimiter), "a text file with a header, in UTF-8")
    _check_names(names)
    if shape.fault == CELLS:
        raise InputError(
            invalid(
                "data",
                f"a text file in which every row has the header's {shape.cells} cells",
                "Put cells that hold the separator in double quotes.",
            )
        )
    columns = _guarded(lambda: _rows(data, shape, delimiter), "a text file in UTF-8")
    absent = pa.array([text.strip(BLANKS) for text in missing], pa.large_string())
    return pa.table([_cells(column, absent) for column in columns], names=names)


def _content(path: Path) -> bytes:
    packed = path.name.lower().endswith(".gz")
    with gzip.open(path) if packed else open(path, "rb") as file:
        return file.read().removeprefix(codecs.BOM_UTF8)


def _header(data: bytes, shape: Shape, delimiter: str) -> list[str]:
    line = io.StringIO(data[: shape.header].decode("utf-8"), newline="")
    cells = next(csv.reader(line, delimiter=delimiter, strict=True), [])
    return [cell.strip(BLANKS) for cell in cells]


def _check_names(names: list[str]) -> None:
    """Refuse what is no header; its cells are not shown, for without a header they are a row of the table."""
    if not names or "" in names:
        raise InputError(
            invalid("data", "headed by a first line that names every column", "Add or complete the header.")
        )
    if len(set(names)) != len(names):
        raise InputError(
            invalid("data", "headed by distinct names", "Add a header, or rename the columns that repeat.")
        )
    if any(storage.number_of(name) is not None for name in names):
        raise InputError(
            invalid("data", "headed by names, not by numbers", "Add a header, or rename such columns.")
        )


def _rows(data: bytes, shape: Shape, delimiter: str) -> list[Any]:
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
            delimiter=delimiter, quote_char='"', double_quote=True, escape_char=False, newlines_in_values=True
        ),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, TEXT), check_utf8=True),
    )
    if table.num_rows != shape.rows:
        raise ValueError  # the reader and the scan disagree: refuse
    return list(table.columns)


def _cells(column: Any, absent: Any) -> Any:
    """Cells without the blanks around them, null where they say that the value is missing."""
    coded = storage.normal(column, "")
    trimmed = pc.utf8_trim(coded.dictionary, characters=BLANKS)
    kept = pc.if_else(pc.is_in(trimmed, value_set=absent), None, trimmed).dictionary_encode()
    return pa.DictionaryArray.from_arrays(pc.take(kept.indices, coded.indices), kept.dictionary)
