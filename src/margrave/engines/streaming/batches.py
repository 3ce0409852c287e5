"""Tables on disk, read in batches: Parquet, Arrow files and DuckDB databases. Not private.

Each reader names its columns and their storage types, and reads any of the columns again and again, always in
the same order of rows. Readers' own messages quote what they fail on, so none is ever passed on.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, final

import pyarrow as pa
import pyarrow.parquet as pq

from margrave.errors import InputError, invalid

BATCH = 1 << 18
"""Most rows of a batch."""

BUFFER = 1 << 20
"""Bytes that are read of a Parquet column at a time."""


class Batches(ABC):
    """A table that is read in batches. **Not private.**"""

    __slots__ = ("__weakref__", "schema")

    schema: Any
    """Names and storage types, a pyarrow.Schema. Public."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of rows. **Not private.**"""

    @abstractmethod
    def _read(self, names: Sequence[str]) -> Iterator[Any]:
        """As `read`, with the reader's own errors."""

    def read(self, names: Sequence[str]) -> Iterator[Any]:
        """Some of the columns as pyarrow.Tables of at most BATCH rows, always in the same order.

        Raises:
            InputError: The file is broken, or was changed after it was opened.
        """
        batches = self._read(list(names))
        while True:
            batch = read_guarded(lambda: next(batches, None), "a table that can be read to its end")
            if batch is None:
                return
            yield batch


def read_guarded(
    read: Callable[[], Any], constraint: str, remedy: str = "Check that it is complete and readable."
) -> Any:
    """What read returns; whatever it raises is replaced, not chained, for it may quote rows.

    Raises:
        InputError: It raised.
    """
    try:
        return read()
    except (InputError, MemoryError):
        raise
    except Exception:  # noqa: S110  # readers' errors have no common base, and none may be shown
        pass
    raise InputError(invalid("data", constraint, remedy))


@final
class ParquetBatches(Batches):
    """Parquet files of the same columns, one behind the other.

    Text is read as its dictionary and the codes into it, wherever the file has one.

    Args:
        files: Paths, or open files that nobody else reads, one or more.

    Raises:
        InputError: A file is no Parquet, or has other columns than the first.
    """

    __slots__ = ("_files", "_rows", "_stamps", "_texts")

    def __init__(self, files: Sequence[Any]) -> None:
        self._files = list(files)
        self._stamps = [_stamp_file(file) for file in self._files]
        heads = [read_guarded(partial(_read_head, file), "a readable Parquet file") for file in self._files]
        self.schema = heads[0][0]
        self._rows: int = sum(rows for _, rows in heads)
        if any(not schema.equals(self.schema) for schema, _ in heads):
            raise InputError(
                invalid("data", "made of files with the same columns", "Read the others on their own.")
            )
        self._texts = [field.name for field in self.schema if _is_plain_text(field.type)]

    @property
    def rows(self) -> int:
        """Number of rows. **Not private.**"""
        return self._rows

    def _read(self, names: Sequence[str]) -> Iterator[Any]:
        for file, stamp in zip(self._files, self._stamps, strict=True):
            _check_stamp(file, stamp)
            reader = pq.ParquetFile(
                file,
                read_dictionary=[name for name in names if name in self._texts],
                pre_buffer=False,
                buffer_size=BUFFER,
            )
            for batch in reader.iter_batches(BATCH, columns=names):
                # A name with a point in it also picks what is nested under its first part.
                yield pa.Table.from_batches([batch]).select(names)


def _read_head(file: Any) -> tuple[Any, int]:
    reader = pq.ParquetFile(file)
    return reader.schema_arrow.remove_metadata(), reader.metadata.num_rows


def _is_plain_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _stamp_file(file: Any) -> tuple[int, int, int] | None:
    """What changes with a file's content; None for an open file."""
    if not isinstance(file, (str, os.PathLike)):
        return None
    found = os.stat(file)
    return found.st_size, found.st_mtime_ns, found.st_ino


def _check_stamp(file: Any, stamp: tuple[int, int, int] | None) -> None:
    if _stamp_file(file) != stamp:
        raise InputError(invalid("data", "left alone while it is read", "Run again on a copy of it."))


@final
class ArrowBatches(Batches):
    """An Arrow file, in the file or the stream format. It is mapped, not loaded.

    Args:
        path: Of the file.

    Raises:
        InputError: It is no Arrow file.
    """

    __slots__ = ("_path", "_rows", "_stamp")

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp_file(path)
        self.schema, rows = read_guarded(self._head, "a readable Arrow file")
        self._rows = int(rows)

    @property
    def rows(self) -> int:
        """Number of rows. **Not private.**"""
        return self._rows

    def _head(self) -> tuple[Any, int]:
        schema, parts = self._parts([])
        return schema.remove_metadata(), sum(part.num_rows for part in parts)

    def _parts(self, places: list[int]) -> tuple[Any, Iterator[Any]]:
        """The file's schema, and its record batches with the columns at some places."""
        source = pa.memory_map(str(self._path))
        # A file with an index can be read column by column; a stream, which has none, from its start.
        try:
            whole = pa.ipc.open_file(source).schema
            options = pa.ipc.IpcReadOptions(included_fields=places or [0])
            reader = pa.ipc.open_file(source, options=options)
            return whole, (reader.get_batch(k) for k in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            source.seek(0)
            whole = pa.ipc.open_stream(source).schema
            source.seek(0)
            options = pa.ipc.IpcReadOptions(included_fields=places or [0])
            return whole, iter(pa.ipc.open_stream(source, options=options))

    def _read(self, names: Sequence[str]) -> Iterator[Any]:
        _check_stamp(self._path, self._stamp)
        for part in self._parts([self.schema.get_field_index(name) for name in names])[1]:
            table = pa.Table.from_batches([part]).select(names)
            for first in range(0, len(table), BATCH):
                yield table.slice(first, BATCH)


@final
class DuckBatches(Batches):
    """A table of a DuckDB database, opened for reading only.

    One thread reads it, so that its rows always come in the same order.

    Args:
        path: Of the database.
        table: Name of a table in it; may be left out where there is only one.

    Raises:
        InputError: It is no database, or has no such table.
    """

    __slots__ = ("_connection", "_name", "_rows")

    def __init__(self, path: Path, table: str | None = None) -> None:
        # DuckDB opens no file that has a connection which may write, be it of this process.
        self._connection = read_guarded(
            lambda: _connect(path),
            "a readable DuckDB database",
            "Close other connections to it, or pass a table of theirs by ibis; check that it is complete.",
        )
        names = read_guarded(lambda: _list_tables(self._connection), "a readable DuckDB database")
        self._name = _choose_table(names, table)
        self.schema = read_guarded(
            lambda: self._select("*").limit(0).to_arrow_table().schema, "a readable table"
        )
        self._rows = read_guarded(lambda: self._select("count(*)").fetchall()[0][0], "a readable table")

    @property
    def rows(self) -> int:
        """Number of rows. **Not private.**"""
        return int(self._rows)

    def _select(self, what: str) -> Any:
        return self._connection.cursor().sql(f"SELECT {what} FROM main.{_quote_name(self._name)}")  # noqa: S608

    def _read(self, names: Sequence[str]) -> Iterator[Any]:
        found = self._select(", ".join(_quote_name(name) for name in names))
        reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader  # before DuckDB 2
        for batch in reader(BATCH):
            yield pa.Table.from_batches([batch])


def _connect(path: Path) -> Any:
    import duckdb

    settings: dict[str, Any] = {"threads": 1, "memory_limit": "1GB", "enable_external_access": False}
    return duckdb.connect(str(path), read_only=True, config=settings)


def _list_tables(connection: Any) -> list[str]:
    rows = connection.sql(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT temporary ORDER BY 1"
    ).fetchall()
    return [row[0] for row in rows]


def _choose_table(names: list[str], table: str | None) -> str:
    if table is None and len(names) == 1:
        return names[0]
    if table is None or table not in names:
        how = "Name it behind two colons, as in people.duckdb::adults."
        raise InputError(invalid("table", f"one of {names}", how, got=table))
    return table


def _quote_name(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
