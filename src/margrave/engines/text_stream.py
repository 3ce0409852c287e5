"""Text files larger than memory: read once, in pieces that end with a row, into a nameless Parquet file.

The dialect, the checks and their errors are those of `files`, piece by piece. Not private.
"""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from margrave.engines.batches import ParquetBatches, guarded
from margrave.engines.files import text_table
from margrave.engines.scratch import nameless
from margrave.engines.text_shape import last_end, shape_of
from margrave.errors import InputError, invalid

__all__ = ["PIECE", "text_batches"]

PIECE = 1 << 25
"""Bytes that are read at a time."""

SIZE = "of a size that fits where temporary files go"

LONGEST = 1 << 29
"""Most bytes of one row: a quote that nobody closes must not swallow all memory."""


def text_batches(path: Path, delimiter: str, missing: Sequence[str], *, piece: int = PIECE) -> ParquetBatches:
    """The rows of a text file, all columns text, ready to be read in batches. **Not private.**

    The rows are kept in a compressed file without a name, in the folder for temporary files (TMPDIR).

    Args:
        path: A .csv or .tsv file; its name may end in .gz.
        delimiter: What parts the cells.
        missing: Texts that mean missing.
        piece: Bytes that are read at a time.

    Raises:
        InputError: The file is broken. The error holds nothing of its content.
    """
    with ExitStack() as undone:
        file = undone.enter_context(nameless())
        writer = None
        for data in _pieces(path, delimiter, piece):
            table = text_table(data, delimiter, missing)
            if writer is None:
                writer = pq.ParquetWriter(pa.PythonFile(file, mode="w"), table.schema, compression="lz4")
                undone.callback(_abandon, writer)
            _write(writer, table)
        if writer is not None:
            guarded(writer.close, SIZE)
        batches = ParquetBatches([file])
        finalize(batches, file.close)
        undone.pop_all()
    return batches


def _abandon(writer: Any) -> None:
    with suppress(Exception):
        writer.close()


def _write(writer: Any, table: Any) -> None:
    guarded(lambda: writer.write_table(table), SIZE)


def _pieces(path: Path, delimiter: str, piece: int) -> Iterator[bytes]:
    """The file in pieces of whole rows, each headed by the file's first line; one piece at least."""
    header, rest, place = b"", b"", np.zeros(1, dtype=np.int64)
    for block in _blocks(path, piece):
        end = last_end(np.frombuffer(block, dtype=np.uint8), ord(delimiter), place)
        if end < 0:
            rest += block
            if len(rest) > LONGEST:
                raise InputError(
                    invalid("data", f"a text file with rows of at most {LONGEST} bytes", "Close its quotes.")
                )
            continue
        whole = rest + block[:end]
        rest = block[end:]
        yield header + whole
        header = header or whole[: shape_of(np.frombuffer(whole, dtype=np.uint8), ord(delimiter)).header]
    if rest or not header:
        yield header + rest


def _blocks(path: Path, piece: int) -> Iterator[bytes]:
    packed = path.name.lower().endswith(".gz")
    with gzip.open(path) if packed else open(path, "rb") as file:
        block = guarded(lambda: file.read(piece), "a readable text file")
        block = block.removeprefix(codecs.BOM_UTF8)
        while block:
            yield block
            block = guarded(lambda: file.read(piece), "a readable text file")
