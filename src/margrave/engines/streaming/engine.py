"""A table larger than memory, read in batches and counted from compact codes. Not private.

A text file is read once, in pieces that end with a row, into a nameless Parquet file (`text_batches`). The
dialect, the checks and their errors are those of `files`, piece by piece.

`Scratch` makes arrays for codes: in memory while they fit, else in files without a name. Private rows lie in
both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, final
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from margrave.engines.counts import Counts, PrivateRows, sum_counts
from margrave.engines.files import text_table, unlike_ends
from margrave.engines.frames import (
    check_bounds,
    check_most,
    check_owner,
    lone_owner,
    read_table,
    rows_elsewhere,
    unknown_column,
    unknown_owner,
)
from margrave.engines.memory import MemoryEngine, MemorySource
from margrave.engines.streaming.batches import Batches, ParquetBatches, read_guarded
from margrave.engines.streaming.tallies import (
    MOST_VALUES,
    Part,
    Tally,
    Texts,
    count_texts,
    kept_rows,
    ones,
    owner_sizes,
    tally,
)
from margrave.engines.text import UNLIKE, TextHead, last_end, read_head, shape_of, text_blocks
from margrave.errors import InputError, invalid
from margrave.limits import count_cores
from margrave.schema.columns import Column
from margrave.schema.columns.relative import Comparison
from margrave.schema.constraints.rules import CalendarRule, FlagCount
from margrave.schema.encode import coded_from, encode, encode_from
from margrave.schema.encoded import Codes, Encoded, code_dtype
from margrave.schema.queries import add_rows, count_repeats, weigh_unlisted
from margrave.schema.schema import Schema
from margrave.schema.storage import forms
from margrave.schema.storage.text import TextFormat

MAX_CODE_BYTES = 1 << 31
"""Most bytes of codes that are held in memory, 2 GiB, unless told otherwise."""


@final
class StreamSource(PrivateRows):
    """A private table read in batches (the `Source` of protocols). **Not private.**

    Every look is one pass over the columns it is about, and `bind` one over all, batch by batch with the
    functions that read tables in memory: the answers are the same. In memory are one batch, at most `held`
    bytes of codes (2 GiB; those after them are in files without a name, and the kernel keeps of them what
    it has room for), and for owners and listed values what `run.owner_sizes.MOST` and MOST_VALUES say; where
    there are more, they are looked at in parts.

    Its repr shows names only and it refuses to be pickled.

    Args:
        batches: The table.
        loose: Names of the text columns of which even the kind is open.
        held: Most bytes of codes in memory.
    """

    __slots__ = ("_batches", "_codes", "_held", "_kept", "_loose", "_names", "_written")

    def __init__(
        self, batches: Batches, loose: frozenset[str] = frozenset(), *, held: int = MAX_CODE_BYTES
    ) -> None:
        self._batches = batches
        self._loose = loose
        self._held = held
        self._names: tuple[str, ...] = tuple(batches.schema.names)
        self._kept: NDArray[np.uint8] | None = None
        self._codes: dict[Column, Codes] = {}
        self._written: dict[str, Column] = {}

    @property
    def holds_rows(self) -> bool:
        """Whether its engine has the rows as codes, for `moments` and `train` at the door."""
        return True

    @property
    def comparable(self) -> frozenset[str]:
        """Names of the columns that can be compared with each other: all. Public."""
        return frozenset(self._names)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the storage says about each column; nothing is read from the rows."""
        return self._part(self._none()).columns

    def only(self, names: Sequence[str]) -> StreamSource:
        """The table with some of its columns, in the order given.

        Raises:
            InputError: There is no such column.
        """
        for name in names:
            self._check_known(name, "columns")
        return self._like(tuple(names), self._kept, self._codes)

    def _like(
        self, names: tuple[str, ...], kept: NDArray[np.uint8] | None, codes: dict[Column, Codes]
    ) -> StreamSource:
        other = StreamSource(self._batches, self._loose & set(names), held=self._held)
        other._names, other._kept, other._codes, other._written = names, kept, codes, self._written
        return other

    def read_as(self, columns: Sequence[Column]) -> StreamSource:
        """The table with the texts of some columns read in their formats, see `Source.read_as`."""
        other = self._like(self._names, self._kept, self._codes)
        other._written = self._written | {column.name: column for column in columns}
        return other

    def bound_owners(self, owner: str, max_rows: int, *, key: bytes | None = None) -> StreamSource:
        """The table with at most max_rows rows of each owner, drawn at random, and no owner column.

        Args:
            owner: Its name.
            max_rows: At least 1.
            key: Settles the draw, 32 bytes; from the system where it is None, as in every private run.

        Raises:
            InputError: There is no such column, it has missing values, it is the only one, or max_rows is
                below 1.
        """
        check_bounds(max_rows)
        self._check_known(owner, "owner")
        if len(self._names) == 1:
            raise lone_owner(owner)
        if self._kept is not None:
            raise InputError(invalid("bounded", "called once", "Bound the table that was opened."))
        kept = kept_rows(lambda: self._owners(owner), self._batches.rows, max_rows, key=key)
        return self._like(tuple(name for name in self._names if name != owner), kept, {})

    def sizes(self, owner: str, most: int) -> Counts:
        """Owners by how many rows they have, 1 to most, and more: shape [most + 1].

        Raises:
            InputError: There is no such column, it has missing values, or most is below 1.
        """
        check_most(most)
        self._check_known(owner, "owner")
        return Counts(owner_sizes(lambda: self._owners(owner), most))

    def _owners(self, owner: str) -> Iterator[tuple[NDArray[np.int32], Any]]:
        for table in self._tables([owner]):
            check_owner(table, owner)
            codes, names = forms.texts(forms.normal(table.column(owner), owner))
            if bool((codes < 0).any()):
                raise unknown_owner(owner)
            yield codes, names

    def rows(self) -> Counts:
        """How many rows there are: shape [1]."""
        return Counts(np.array([self._rows], dtype=np.int64))

    def read_rows(self) -> Any:
        """Refuses: the rows are not held in memory.

        Raises:
            InputError: Always.
        """
        raise rows_elsewhere()

    def kinds(self, column: str) -> Counts:
        """Rows by what their value is, in the order of `schema.profile.PROFILE`."""
        return self._sum(column, lambda part: part.kinds(column))

    def grids(self, column: str, steps: Sequence[float], read: str = "number") -> Counts:
        """Cells with a reading by the first step they are a multiple of, as `schema.queries.grids`."""
        return self._sum(column, lambda part: part.grids(column, steps, read))

    def places_in_cycle(self, column: str, read: str, tick: int, ticks: int) -> Counts:
        """Cells with a reading by their place in a period of so many ticks, see `schema.queries`: [ticks]."""
        return self._sum(column, lambda part: part.places_in_cycle(column, read, tick, ticks))

    def repeats(self, column: str, steps: Sequence[int], read: str = "number") -> Counts:
        """How many different numbers at least so many cells are read as, see `schema.queries`: [steps]."""
        self._check_known(column)
        found = [self._part(table).count_numbers(column, read) for table in self._tables([column])]
        values, rows = (np.concatenate(part) for part in zip(*found, strict=True))
        return Counts(count_repeats(add_rows(values, rows)[1], steps))

    def spellings(self, column: str, read: str) -> Counts:
        """Cells of text by the spelling of their moment or time, see `schema.storage.spelling`:
        [spellings].
        """
        return self._sum(column, lambda part: part.spellings(column, read))

    def histogram(
        self, column: str, edges: NDArray[np.float64], read: str = "number", *, absent: bool = False
    ) -> Counts:
        """Cells with a reading by half-open interval, as `schema.queries.histogram`: [edges - 1].

        Raises:
            InputError: The edges are fewer than two or do not increase, or the storage has no such reading.
        """
        return self._sum(column, lambda part: part.histogram(column, edges, read, absent=absent))

    def differences(
        self,
        column: str,
        base: str,
        comparison: Comparison,
        edges: NDArray[np.float64],
        others: Sequence[str] = (),
    ) -> Counts:
        """Rows by how a column compares with another, as `schema.columns.relative.count_relation`."""
        self._check_known(column)
        for name in (base, *others):
            self._check_known(name, "base")
        tables = self._tables([column, base, *others])
        asked = (column, base, comparison, edges, others)
        return sum_counts(self._part(table).differences(*asked) for table in tables)

    def agreements(self, rules: Sequence[CalendarRule | FlagCount], reads: Mapping[str, str]) -> list[Counts]:
        """For each rule the rows in which its number is what its dates say, or not, or one is missing.

        Or in which it is how many flags say yes. See `schema.queries`; shape of each: [3]. All of them in one
        scan.
        """
        names = list(dict.fromkeys(name for rule in rules for name in rule.names))
        for name in names:
            self._check_known(name, "rules")
        parts = [self._part(table).agreements(rules, reads) for table in self._tables(names)]
        return [sum_counts(counts) for counts in zip(*parts, strict=True)]

    def value_parts(self, column: str) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """The distinct present values as text, and how many rows hold each, in parts of at most MOST_VALUES.

        A column of more values is parted by a hash of its texts, and read once for each part, so that no
        number of values ends in an error. How many parts there are decides nothing but time and memory.
        """
        self._check_known(column)
        none, first = 0, True

        def read() -> Iterator[Texts]:
            nonlocal none
            none = 0
            for table in self._tables([column]):
                codes, names = forms.texts(forms.list_values(table.column(column), column))
                none += int((codes < 0).sum())
                yield codes, names

        for held in self._tally_parts(lambda: count_texts(read())):
            pairs = sorted(zip(held.names.to_pylist(), held.counts.tolist(), strict=True))
            # Rows without a value are told with the first part.
            counts = np.array([*(count for _, count in pairs), none if first else 0], dtype=np.int64)
            yield tuple(text for text, _ in pairs), Counts(counts)
            first = False

    def _tally_parts(self, read: Callable[[], Iterator[Tally]]) -> Iterator[Tally]:
        """Sums of texts, in parts of at most MOST_VALUES of them, each of which takes a pass of its own."""
        todo = [Part()]
        while todo:
            part = todo.pop()
            held = tally(read(), part, MOST_VALUES)
            if held is None:
                # Halving suits a part that was split already; the first split aims at the right number at
                # once.
                todo += part.halves() if part.parts > 1 else part.split(self._rows // MOST_VALUES)
                continue
            yield held

    @property
    def joins_texts(self) -> bool:
        """Whether it answers `unlisted_parts`: yes. Public."""
        return True

    def unlisted_parts(
        self, listed: Mapping[str, Collection[str]], weights: Sequence[int]
    ) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """Texts of several columns that are not listed, weighted; parted as `value_parts` is."""
        for name in listed:
            self._check_known(name)

        def read() -> Iterator[Tally]:
            for table in self._tables(list(listed)):
                part = {name: table.column(name) for name in listed}
                names, sums = weigh_unlisted(part, listed, weights)
                yield Tally(pa.array(names, pa.large_string()), sums)

        for held in self._tally_parts(read):
            yield tuple(held.names.to_pylist()), Counts(np.append(held.counts, 0))

    def _sum(self, column: str, look: Callable[[MemorySource], Counts]) -> Counts:
        self._check_known(column)
        return sum_counts(look(self._part(table)) for table in self._tables([column]))

    def bind(self, schema: Schema) -> MemoryEngine:
        """The table encoded under a known schema, in one pass over what is not encoded yet.

        Raises:
            InputError: The schema and the table differ in columns, or a strict column holds what it does
                not declare.
            SchemaError: A column is not known yet.
        """
        encode(read_table(self._none())[0], schema)  # refuses what does not fit, without a row
        columns = [schema[name] for name in schema.domain.names]
        self._encode([column for column in columns if column not in self._codes], schema)
        # Codes of columns under an earlier schema would hold memory that nobody asks for.
        for stale in set(self._codes) - set(columns):
            del self._codes[stale]
        return MemoryEngine(Encoded(schema.domain, tuple(self._codes[column] for column in columns)))

    def _encode(self, columns: list[Column], schema: Schema) -> None:
        """Fill in the codes of some columns."""
        if not columns:
            return
        # What codes of earlier binds hold counts towards the same limit.
        scratch = Scratch(self._held - sum(codes.nbytes for codes in self._codes.values()))
        found = [scratch.array(self._rows, code_dtype(column.size)) for column in columns]

        def fill(place: int, table: Any, first: int) -> None:
            column = columns[place]
            values = read_table(table.select(list(coded_from(column))))[0]
            found[place][first : first + len(table)] = encode_from(values, column, schema)

        first = 0
        # Columns are independent and Arrow's kernels release the lock, so each has a thread; the order of
        # rows is that of the batches.
        with ThreadPoolExecutor(count_cores()) as pool:
            for table in self._raw(list(dict.fromkeys(n for column in columns for n in coded_from(column)))):
                for _ in pool.map(lambda place, t=table, f=first: fill(place, t, f), range(len(columns))):
                    pass
                first += len(table)
        self._codes.update(zip(columns, found, strict=True))

    @property
    def _rows(self) -> int:
        return self._batches.rows if self._kept is None else ones(self._kept)

    def _raw(self, names: Sequence[str]) -> Iterator[Any]:
        """Batches of some columns, of the rows that are kept."""
        first = 0
        for table in self._batches.read(names):
            end = first + len(table)
            if self._kept is not None:
                # One bit a row, so that the kept rows of a very large table fit into memory.
                bits = np.unpackbits(self._kept[first // 8 : (end + 7) // 8], bitorder="little")
                kept = pa.array(bits[first % 8 :][: len(table)].astype(np.bool_))
                yield forms.without_views(table).filter(kept)
            else:
                yield table
            first = end
        # A file that changed between two passes would mix rows of two tables.
        if first != self._batches.rows:
            raise InputError(invalid("data", "left alone while it is read", "Run again on a copy of it."))

    def _tables(self, names: Sequence[str]) -> Iterator[Any]:
        """The same in their storage forms, one at least."""
        # An empty table first, so that whoever adds up looks has the shape even without rows.
        yield read_table(self._none().select(list(names)))[0]
        for table in self._raw(names):
            yield read_table(table)[0]

    def _none(self) -> Any:
        """A table of these columns without a row."""
        return self._batches.schema.empty_table().select(list(self._names))

    def _part(self, table: Any) -> MemorySource:
        source = MemorySource(read_table(table)[0], self._loose & set(table.column_names))
        written = [self._written[name] for name in table.column_names if name in self._written]
        return source.read_as(written) if written else source

    def _check_known(self, name: str, param: str = "column") -> None:
        if name not in self._names:
            raise unknown_column(name, list(self._names), param)

    def __repr__(self) -> str:
        return f"StreamSource({list(self._names)})"


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
            # Truncation makes a sparse file, which reads as zeros where nothing is written.
            file.truncate(size)
            return np.memmap(file, dtype=dtype, mode="r+", shape=(rows,))


PIECE = 1 << 25
"""Bytes that are read at a time."""

SIZE = "of a size that fits where temporary files go"

MAX_ROW_BYTES = 1 << 29
"""Most bytes of one row: a quote that nobody closes must not swallow all memory."""


def text_batches(
    path: Path, text: TextFormat, missing: Sequence[str], owner: str | None = None, *, piece: int = PIECE
) -> tuple[ParquetBatches, TextFormat]:
    """The rows of a text file, all columns text, ready to be read in batches. **Not private.**

    The rows are kept in a compressed file without a name, in the folder for temporary files (TMPDIR).

    Args:
        path: A .csv or .tsv file; its name may end in .gz.
        text: How it is written.
        missing: Texts that mean missing.
        owner: Name of the column that says whose row it is, see `margrave.engines.files.text_table`.
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
            table = text_table(data, head, missing, owner, whole=False)
            if writer is None:
                writer = pq.ParquetWriter(pa.PythonFile(file, mode="w"), table.schema, compression="lz4")
                undone.callback(_abandon, writer)
            _write(writer, table)
        if writer is not None:
            read_guarded(writer.close, SIZE)
        batches = ParquetBatches([file])
        # The nameless file lives as long as the batches, and goes with them.
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
    header, rest, place = b"", b"", np.zeros(3, dtype=np.int64)
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
        # Whole rows only: what is left of the block begins the next piece.
        whole = rest + block[:end]
        rest = block[end:]
        yield header + whole
        # The first line heads every piece, so that each is a text file of its own.
        header = header or whole[: shape_of(np.frombuffer(whole, dtype=np.uint8), separator, quote).header]
    if rest or not header:
        yield header + rest
    cells = shape_of(np.frombuffer(header, dtype=np.uint8), separator, quote).cells
    if cells == 1 and place[1] == UNLIKE:
        raise unlike_ends()


def _read_blocks(path: Path, head: TextHead, piece: int) -> Iterator[bytes]:
    blocks = text_blocks(path, head, piece)
    while (
        block := read_guarded(lambda: next(blocks, None), f"a readable text file in {head.codec}")
    ) is not None:
        if block:
            yield block
