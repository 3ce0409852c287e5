"""Text files larger than memory: read once, in pieces that end with a row, into a nameless Parquet file.

The dialect, the checks and their errors are those of `files`, piece by piece. Not private.

`Scratch` makes arrays for codes: in memory while they fit, else in files without a name. Private rows lie in
both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from margrave.engines.files import text_table
from margrave.engines.streaming.batches import ParquetBatches, read_guarded
from margrave.engines.text import TextHead, last_end, read_head, shape_of, text_blocks
from margrave.errors import InputError, invalid
from margrave.schema.storage.text import TextFormat

MAX_CODE_BYTES = 1 << 31
"""Most bytes of codes that are held in memory, 2 GiB, unless told otherwise."""


def nameless() -> Any:
    """A file open for reading and writing that has no name, so that nothing is left of it, even on a crash.

    It lies where temporary files go (TMPDIR), readable by its owner alone, and is gone when it is closed or
    the process ends, however that ends.
    """
    return tempfile.TemporaryFile(prefix="margrave-")


class Scratch:
    """Makes arrays until `held` bytes are in memory; those after them are mapped from nameless files.

    Mapped pages are the system's to write out and drop, so they take memory only where it is free.

    Args:
        held: Most bytes in memory.
    """

    __slots__ = ("_left",)

    def __init__(self, held: int = MAX_CODE_BYTES) -> None:
        self._left = held

    def array(self, rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array of shape [rows] to be written; it holds zeros where nothing is written."""
        size = rows * dtype.itemsize
        if size <= self._left or not size:
            self._left -= size
            return np.zeros(rows, dtype=dtype)
        with nameless() as file:
            file.truncate(size)
            return np.memmap(file, dtype=dtype, mode="r+", shape=(rows,))


PIECE = 1 << 25
"""Bytes that are read at a time."""

SIZE = "of a size that fits where temporary files go"

MAX_ROW_BYTES = 1 << 29
"""Most bytes of one row: a quote that nobody closes must not swallow all memory."""


def text_batches(
    path: Path, text: TextFormat, missing: Sequence[str], *, piece: int = PIECE
) -> tuple[ParquetBatches, TextFormat]:
    """The rows of a text file, all columns text, ready to be read in batches. **Not private.**

    The rows are kept in a compressed file without a name, in the folder for temporary files (TMPDIR).

    Args:
        path: A .csv or .tsv file; its name may end in .gz.
        text: How it is written.
        missing: Texts that mean missing.
        piece: Bytes that are read at a time.

    Returns:
        The batches, and the format with what the first line says of the encoding and the separator.

    Raises:
        InputError: The file is broken. The error holds nothing of its content.
    """
    head = read_head(path, text)
    with ExitStack() as undone:
        file = undone.enter_context(nameless())
        writer = None
        # Written to disk once as Parquet: the text is then split, checked and decoded a single time,
        # however often columns are read again.
        for data in _cut_pieces(path, head, piece):
            table = text_table(data, head, missing)
            if writer is None:
                writer = pq.ParquetWriter(pa.PythonFile(file, mode="w"), table.schema, compression="lz4")
                undone.callback(_abandon, writer)
            _write(writer, table)
        if writer is not None:
            read_guarded(writer.close, SIZE)
        batches = ParquetBatches([file])
        finalize(batches, file.close)
        undone.pop_all()
    return batches, head.text


def _abandon(writer: Any) -> None:
    with suppress(Exception):
        writer.close()


def _write(writer: Any, table: Any) -> None:
    read_guarded(lambda: writer.write_table(table), SIZE)


def _cut_pieces(path: Path, head: TextHead, piece: int) -> Iterator[bytes]:
    """The file in pieces of whole rows, each headed by the file's first line; one piece at least."""
    header, rest, place = b"", b"", np.zeros(1, dtype=np.int64)
    separator, quote = ord(head.separator), ord(head.text.quote) if head.text.quote else None
    for block in _read_blocks(path, head, piece):
        end = last_end(np.frombuffer(block, dtype=np.uint8), separator, place, quote)
        # No row ends in this block; it is kept until one does, up to a limit, since an unclosed quote would
        # swallow the file.
        if end < 0:
            rest += block
            if len(rest) > MAX_ROW_BYTES:
                raise InputError(
                    invalid(
                        "data", f"a text file with rows of at most {MAX_ROW_BYTES} bytes", "Close its quotes."
                    )
                )
            continue
        whole = rest + block[:end]
        rest = block[end:]
        yield header + whole
        header = header or whole[: shape_of(np.frombuffer(whole, dtype=np.uint8), separator, quote).header]
    if rest or not header:
        yield header + rest


def _read_blocks(path: Path, head: TextHead, piece: int) -> Iterator[bytes]:
    blocks = text_blocks(path, head, piece)
    while (
        block := read_guarded(lambda: next(blocks, None), f"a readable text file in {head.codec}")
    ) is not None:
        if block:
            yield block
