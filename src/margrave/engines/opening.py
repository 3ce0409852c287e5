"""open_source: any table, by the engine that suits it.

`open_head` reads the names and storage types of a table, which are public, without its rows.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from margrave.engines import memory
from margrave.engines.files import (
    DEFAULT_TEXT_FORMAT,
    OTHER_FILES,
    Choose,
    all_columns,
    check_names,
    chosen_columns,
    is_text_file,
    text_table,
)
from margrave.engines.frames import read_table, rows_elsewhere
from margrave.engines.memory import MemorySource
from margrave.engines.streaming.batches import (
    ArrowBatches,
    Batches,
    DuckBatches,
    ParquetBatches,
    read_guarded,
)
from margrave.engines.streaming.engine import MAX_CODE_BYTES, StreamSource, text_batches
from margrave.engines.text import TextHead, read_head, shape_of, text_blocks
from margrave.errors import InputError, invalid
from margrave.schema.frame import TEXT_FILE, Frame
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    from margrave.protocols import Source

ENGINES = ("auto", "memory", "stream")

MIN_STREAMED_BYTES = 1 << 28
"""Bytes of a file's content from which it is read in batches, 256 MiB; packed text counts eight times."""

DATABASE = (".duckdb", ".db", ".ddb")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")


def open_source(
    data: Any,
    *,
    missing: Sequence[str] = ("",),
    text: TextFormat = DEFAULT_TEXT_FORMAT,
    engine: str = "auto",
    held: int = MAX_CODE_BYTES,
    choose: Choose = all_columns,
    fixed_rows: bool = False,
    in_memory: bool = False,
    owner: str | None = None,
) -> tuple[Source, Frame]:
    """A private table, ready for the door, and what is public about it.

    **Not private**: the source answers exactly. All engines give the same answers.

    Args:
        data: A pandas or polars DataFrame, a pyarrow.Table, another eager frame that narwhals knows; an
            ibis.Table, whose rows stay where they are; the path of a CSV, TSV, Excel, Parquet or Arrow file;
            a folder or a pattern (`*`) of Parquet files; `people.duckdb::adults`, a DuckDB table; or
            `people.xlsx::Sheet2`, a sheet other than the first.
        missing: Texts that mean missing, in text files only, as in ("", "?").
        text: How a text file is written.
        engine: "memory" loads a file, "stream" reads it in batches, "auto" streams large files.
        held: Most bytes of codes that streaming holds in memory.
        choose: Picks the columns to read by their names, which are public; others may store anything.
        fixed_rows: Refuse a file in which the content of cells decides how many rows there are, before a row
            is read: where neighbouring tables have the same number of rows.
        in_memory: Load a file of any size, and refuse what cannot be loaded, before a row is read: where rows
            are handed out as they are.
        owner: Name of the column that says whose row it is: in text files and Excel sheets the empty cell
            alone is missing there, and all others are taken as they stand.

    Raises:
        InputError: The table cannot be used; the error holds no value of it.
        MissingExtraError: It is an ibis.Table and its backend is not installed.
    """
    if engine not in ENGINES:
        raise InputError(invalid("engine", f"one of {list(ENGINES)}", "Leave it out.", got=engine))
    # Before anything is read: under this adjacency the number of rows is public, so it may not hang on what
    # a cell holds.
    if fixed_rows:
        _check_rows_fixed(data, text)
    if in_memory:
        _check_loadable(data, engine)
    if _is_ibis(data):
        from margrave.engines.ibis.source import open_table

        if engine != "auto":
            raise InputError(
                invalid("engine", "left out for an ibis table", "Its backend counts.", got=engine)
            )
        return open_table(data, choose)
    if not isinstance(data, (str, os.PathLike)):
        if engine == "stream":
            raise InputError(invalid("engine", "left out for a table in memory", "Pass a file to stream."))
        return memory.open_source(data, missing=missing, text=text, choose=choose, owner=owner)
    wanted = "memory" if in_memory else engine
    return _from_path(str(data), missing, text, wanted, held, choose, owner)


def _check_loadable(data: Any, engine: str) -> None:
    """Refuse a table that is read in batches or counted elsewhere, by what it is and never by its size.

    Raises:
        InputError: It is one.
    """
    batched = False
    if isinstance(data, (str, os.PathLike)):
        name, _, table = str(data).partition("::")
        batched = not name.lower().endswith(".xlsx") and _is_read_in_batches(name, table)
    if batched or engine == "stream" or _is_ibis(data):
        raise rows_elsewhere()


def _check_rows_fixed(data: Any, text: TextFormat) -> None:
    """Refuse Excel files, and text files of one column.

    A row of a sheet of which all cells are empty is no row, and what a program writes of empty cells, at the
    end of a sheet above all, is up to that program. An empty line of a text file is no row either: in a file
    of two columns or more no row is written so, in one of a single column a row without a value may be.

    Raises:
        InputError: It is one of these; or the head of a text file cannot be used.
    """
    if not isinstance(data, (str, os.PathLike)):
        return
    constraint = "a file that says how many rows it has, whatever its cells hold, under this adjacency"
    for path in (Path(str(data)), Path(str(data).partition("::")[0])):
        if path.name.lower().endswith(".xlsx"):
            remedy = "An Excel file does not: save it as Parquet, or as CSV of two columns or more."
            raise InputError(invalid("data", constraint, remedy, got=path.name))
        if path.is_file() and is_text_file(path):
            head = read_head(path, text, rows=False)
            if text_table(_first_line(path, head), head, ()).num_columns == 1:
                remedy = "A text file of one column does not: save it as Parquet."
                raise InputError(invalid("data", constraint, remedy, got=path.name))


def open_here(
    data: Any, missing: Sequence[str] = ("",), text: TextFormat = DEFAULT_TEXT_FORMAT
) -> MemorySource | StreamSource:
    """A table whose codes can be held here, as `open_source`. **Not private.**

    Raises:
        InputError: The table cannot be used, or is one that another system counts.
    """
    source = open_source(data, missing=missing, text=text)[0]
    if not isinstance(source, (MemorySource, StreamSource)):
        remedy = "Export a sample of it to a file."
        raise InputError(invalid("data", "a table in memory or in files", remedy, got=type(data).__name__))
    return source


def _is_ibis(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "ibis"


def _from_path(
    address: str,
    missing: Sequence[str],
    text: TextFormat,
    engine: str,
    held: int,
    choose: Choose,
    owner: str | None,
) -> tuple[Source, Frame]:
    name, _, table = address.partition("::")
    if name.lower().endswith(".xlsx"):
        return memory.open_source(address, missing=missing, text=text, choose=choose, owner=owner)
    path, in_batches = Path(name), _is_read_in_batches(name, table)
    if engine == "memory" and in_batches:
        constraint = "left out for databases and for more than one file"
        raise InputError(invalid("engine", constraint, "They are read in batches.", got=engine))
    if not in_batches and (engine == "memory" or not path.is_file()):
        return memory.open_source(address, missing=missing, text=text, choose=choose, owner=owner)
    if not in_batches and engine == "auto" and content_bytes(path) < MIN_STREAMED_BYTES:
        return memory.open_source(address, missing=missing, text=text, choose=choose, owner=owner)
    if isinstance(missing, str):
        raise InputError(invalid("missing", "a list of texts", f"Try missing=[{missing!r}].", got=missing))
    if is_text_file(path) and not in_batches:
        return _open_text(*text_batches(path, text, missing, owner), held, choose)
    batches = open_batches(address)
    frame = read_table(batches.schema.empty_table(), text=text, choose=choose)[1]
    return _choose_from_batches(StreamSource(batches, held=held), batches, choose), frame


def _is_read_in_batches(name: str, table: str) -> bool:
    """Whether a path can only be read in batches: several files, or a database."""
    return bool(_parquet_files(name) or table or Path(name).suffix.lower() in DATABASE)


def open_batches(address: str) -> Batches:
    """The reader of a Parquet or Arrow file, a folder or pattern of Parquet files, or a DuckDB table.

    Its `schema` is public. **Not private** otherwise.

    Args:
        address: As `open_source` takes it.

    Raises:
        InputError: There is no such file, it is of another kind, or it is broken.
    """
    name, _, table = address.partition("::")
    several = _parquet_files(name)
    return ParquetBatches(several) if several else _open_batches(Path(name), table or None)


def _open_text(batches: Batches, text: TextFormat, held: int, choose: Choose) -> tuple[Source, Frame]:
    names = batches.schema.names
    frame = Frame("arrow", dict.fromkeys(choose(names), TEXT_FILE), text)
    return _choose_from_batches(StreamSource(batches, frozenset(names), held=held), batches, choose), frame


def _choose_from_batches(source: StreamSource, batches: Batches, choose: Choose) -> StreamSource:
    kept = chosen_columns(batches.schema.names, choose)
    return source if kept is None else source.only(kept)


def _open_batches(path: Path, table: str | None) -> Batches:
    suffix = path.suffix.lower()
    if suffix in DATABASE or table is not None:
        if not path.is_file():
            raise InputError(invalid("data", "the path of a file", "Check the path.", got=str(path)))
        return DuckBatches(path, table)
    if not path.is_file():
        raise InputError(invalid("data", "a table or the path of a file", "Check the path.", got=str(path)))
    if suffix in PARQUET:
        return ParquetBatches([path])
    if suffix in ARROW:
        return ArrowBatches(path)
    raise InputError(
        invalid("data", "a .csv, .tsv, .xlsx, .parquet, .arrow or .duckdb file", OTHER_FILES, got=path.name)
    )


def _parquet_files(name: str) -> list[Path]:
    """The files of a folder or a pattern, sorted by name; none if it is neither."""
    path = Path(name)
    if path.is_dir():
        found = _find_inside(path)
    elif any(mark in name for mark in "*?[") and not path.exists():
        matches = map(Path, glob.glob(name, recursive=True))
        found = [file for match in matches for file in (_find_inside(match) if match.is_dir() else [match])]
    else:
        return []
    shown = sorted({file for file in found if file.is_file() and not file.name.startswith((".", "_"))})
    if not shown:
        raise InputError(
            invalid("data", "a folder or pattern with Parquet files", "Check the path.", got=name)
        )
    return shown


def _find_inside(folder: Path) -> list[Path]:
    return [file for suffix in PARQUET for file in folder.rglob(f"*{suffix}")]


def content_bytes(path: Path) -> int:
    """About how many bytes a file's content takes when it is not packed. It tells about the number of rows.

    Raises:
        InputError: It is no readable Parquet file though its name says so.
    """
    size = path.stat().st_size
    if path.suffix.lower() in PARQUET:
        return max(size, int(read_guarded(lambda: _unpacked_bytes(path), "a readable Parquet file")))
    return 8 * size if path.name.lower().endswith(".gz") else size


def _unpacked_bytes(path: Path) -> int:
    found = pq.ParquetFile(path).metadata
    return sum(int(found.row_group(index).total_byte_size) for index in range(found.num_row_groups))


BLOCK = 1 << 20
"""Bytes that are read at a time in search of the end of the first line."""
MAX_HEADER_BYTES = 1 << 26
"""Most bytes of a first line."""


def open_head(
    data: Any,
    *,
    missing: Sequence[str] = ("",),
    text: TextFormat = DEFAULT_TEXT_FORMAT,
    engine: str = "auto",
    choose: Choose = all_columns,
    fixed_rows: bool = False,
    in_memory: bool = False,
    owner: str | None = None,
) -> tuple[Source, Frame]:
    """A table without its rows: a source whose `columns` are those of `open_source`, and the frame.

    Of a file that says its storage types, only these are read; of a text file, the first line; of an Excel
    file, the first row of a sheet. A frame is cut to no rows, and loses its categories, before its columns
    are looked at. So an error says nothing about the rows, but for the number of columns of a text file that
    has neither a header nor names, and a large file costs no more time than a small one. An ibis table stays
    where it is.

    Args:
        data: As for `margrave.engines.opening.open_source`.
        missing: As there.
        text: As there.
        engine: As there.
        choose: As there.
        fixed_rows: As there.
        in_memory: As there.
        owner: As there.

    Raises:
        InputError: The table cannot be used, as far as its head tells.
        MissingExtraError: It is an ibis.Table and its backend is not installed, or an Excel file and
            openpyxl is not.
    """
    if not isinstance(data, (str, os.PathLike)):
        empty = _without_rows(data)
        reading: dict[str, Any] = {"missing": missing, "text": text, "engine": engine, "choose": choose}
        return open_source(empty, **reading, in_memory=in_memory, owner=owner)
    if isinstance(missing, str):
        raise InputError(invalid("missing", "a list of texts", f"Try missing=[{missing!r}].", got=missing))
    if fixed_rows:
        _check_rows_fixed(data, text)
    if in_memory:
        _check_loadable(data, engine)
    name, _, sheet = str(data).partition("::")
    if name.lower().endswith(".xlsx"):
        return _sheet_head(Path(name), sheet or None, missing, text, choose)
    path = Path(name)
    if path.is_file() and is_text_file(path) and not sheet:
        return _text_head(path, text, missing, choose)
    batches = open_batches(str(data))
    return memory.open_source(batches.schema.empty_table(), missing=missing, text=text, choose=choose)


def file_bytes(data: Any) -> int | None:
    """About how many bytes the content of a file, or of the files of a folder or pattern, takes unpacked;
    None for anything else.

    Whoever can list the folder sees it. It tells about the number of rows, so no release may depend on it.
    """
    if not isinstance(data, (str, os.PathLike)):
        return None
    path = Path(str(data).partition("::")[0])
    files = [path] if path.is_file() else _parquet_files(str(data))
    return sum(map(content_bytes, files)) if files else None


def _without_rows(data: Any) -> Any:
    """A frame with its columns and none of its rows, where it is of a kind that says its types."""
    if isinstance(data, pa.Table):
        return data.schema.empty_table()
    import narwhals as nw  # as in `frames.read_table`: what tables of Arrow never ask

    native = nw.to_native(data, pass_through=True)
    if isinstance(native, pa.Table):
        return native.schema.empty_table()
    if nw.dependencies.is_pandas_dataframe(native):
        from margrave.schema.storage.pandas import without_rows

        return without_rows(native)
    if nw.dependencies.is_polars_dataframe(native):
        return native.head(0)
    if isinstance(native, pa.RecordBatch):
        return native.schema.empty_table()
    try:
        return nw.to_native(nw.from_native(native, eager_only=True).head(0))
    except (TypeError, ValueError, AttributeError):  # no frame, or one whose rows are elsewhere
        return data


def _text_head(
    path: Path, text: TextFormat, missing: Sequence[str], choose: Choose
) -> tuple[MemorySource, Frame]:
    head = read_head(path, text, rows=False)
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
    # The blocks hold rows as well, and this comes before a run is on record: no byte of theirs may end it.
    blocks, data, end = text_blocks(path, head, BLOCK, "replace"), b"", -1
    # Block by block, since a file may be larger than memory and its first line is small.
    while not 0 <= end < len(data) <= MAX_HEADER_BYTES:
        block = read_guarded(lambda: next(blocks, None), f"a readable text file in {head.codec}")
        if block is None:
            break
        data += block
        end = shape_of(np.frombuffer(data, dtype=np.uint8), separator, quote).header
    if len(data) > MAX_HEADER_BYTES and end < 0:
        constraint = f"a text file with a first line of at most {MAX_HEADER_BYTES:,} bytes"
        raise InputError(invalid("data", constraint, "Close its quotes, or say --quote none."))
    return data if end < 0 else data[:end]


def _sheet_head(
    path: Path, sheet: str | None, missing: Sequence[str], text: TextFormat, choose: Choose
) -> tuple[Source, Frame]:
    from margrave.engines.files import read_sheet

    if not path.is_file():
        raise InputError(invalid("data", "a table or the path of a file", "Check the path.", got=str(path)))
    table = read_sheet(path, sheet, missing, text, head=True)
    check_names(list(table.column_names), text)
    table = table.select(choose(table.column_names))
    frame = Frame("arrow", dict.fromkeys(table.column_names, TEXT_FILE), text)
    return MemorySource(read_table(table)[0], frozenset(table.column_names)), frame
