"""MemorySource and MemoryEngine: a table held in memory, before and after encoding. Not private."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.engines.counting import count_tables
from margrave.engines.counts import Counts, PrivateRows
from margrave.engines.cover import check_clique
from margrave.engines.files import DEFAULT_TEXT_FORMAT, Choose, all_columns
from margrave.engines.frames import (
    check_bounds,
    check_most,
    check_owner,
    lone_owner,
    read_table,
    unknown_column,
    unknown_owner,
)
from margrave.entropy import fresh_generator
from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.columns import Column
from margrave.schema.columns.relative import Comparison, count_relation
from margrave.schema.constraints.flag_counts import count_agreeing
from margrave.schema.constraints.rules import CalendarRule, FlagCount
from margrave.schema.domain import Clique, Domain
from margrave.schema.encode import encode, in_usual_form
from margrave.schema.encoded import Encoded
from margrave.schema.frame import TEXT_FILE, Frame, stored_column
from margrave.schema.profile import profile
from margrave.schema.queries import (
    Numbers,
    agreements,
    count_numbers,
    count_repeats,
    grids,
    histogram,
    places_in_cycle,
    weigh_unlisted,
)
from margrave.schema.schema import Schema
from margrave.schema.storage import forms
from margrave.schema.storage.spelling import spellings
from margrave.schema.storage.text import TextFormat

MAX_CELLS = 1 << 27
"""Most cells of one table, a GiB of counts."""


def open_source(
    data: Any,
    *,
    missing: Sequence[str] = ("",),
    text: TextFormat = DEFAULT_TEXT_FORMAT,
    choose: Choose = all_columns,
    owner: str | None = None,
) -> tuple[MemorySource, Frame]:
    """A private table, ready for the door, and what is public about it.

    **Not private**: the source answers exactly.

    Args:
        data: A pandas or polars DataFrame, a pyarrow.Table, another eager frame that narwhals knows, or the
            path of a CSV, TSV, Excel, Parquet or Arrow file.
        missing: Texts that mean missing, in text files only, as in ("", "?").
        text: How a text file is written.
        choose: Picks the columns to read by their names.
        owner: Name of the column that says whose row it is, see `read_table`.

    Raises:
        InputError: The table cannot be used; the error holds no value of it.

    Example:
        >>> source, frame = open_source(pa.table({"age": [41, 7], "sex": ["F", "M"]}))
        >>> source, frame.dtypes
        (MemorySource(['age', 'sex']), {'age': 'int64', 'sex': 'string'})
    """
    table, frame = read_table(data, missing, text, choose, owner)
    loose = frozenset(name for name, dtype in frame.dtypes.items() if dtype == TEXT_FILE)
    return MemorySource(table, loose), frame


@final
class MemorySource(PrivateRows):
    """A private table in memory (the `Source` of protocols). **Not private.**

    Its repr shows names only and it refuses to be pickled.

    Args:
        table: A pyarrow.Table whose columns are as `margrave.schema.storage.forms.keep_column` leaves them.
        loose: Names of the text columns of which even the kind is open.
    """

    __slots__ = ("_loose", "_table", "_written")

    def __init__(self, table: Any, loose: frozenset[str] = frozenset()) -> None:
        self._table = table
        self._loose = loose
        self._written: dict[str, Any] = {}

    @property
    def holds_rows(self) -> bool:
        """Whether its engine has the rows as codes, for `moments` and `train` at the door."""
        return True

    @property
    def comparable(self) -> frozenset[str]:
        """Names of the columns that can be compared with each other: all. Public."""
        return frozenset(self._table.column_names)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the storage says about each column; nothing is read from the rows."""
        return tuple(
            stored_column(name, kind, name in self._loose)
            for name, kind in zip(self._table.column_names, self._table.schema.types, strict=True)
        )

    def only(self, names: Sequence[str]) -> MemorySource:
        """The table with some of its columns, in the order given.

        Raises:
            InputError: There is no such column.
        """
        for name in names:
            if name not in self._table.column_names:
                raise InputError(
                    invalid("columns", f"among {self._table.column_names}", "Check it.", got=name)
                )
        other = MemorySource(self._table.select(list(names)), self._loose & set(names))
        other._written = {name: array for name, array in self._written.items() if name in names}
        return other

    def read_as(self, columns: Sequence[Column]) -> MemorySource:
        """The table with the texts of some columns read in their formats, see `Source.read_as`."""
        other = MemorySource(self._table, self._loose)
        read = {one.name: in_usual_form(self._array(one.name), one) for one in columns}
        other._written = self._written | read
        return other

    def bound_owners(self, owner: str, max_rows: int, *, key: bytes | None = None) -> MemorySource:
        """The table with at most max_rows rows of each owner, drawn at random, and no owner column.

        Raises:
            InputError: There is no such column, it has missing values, it is the only one, or max_rows is
                below 1.
        """
        check_bounds(max_rows)
        codes = self._owners(owner)
        if len(self._table.column_names) == 1:
            raise lone_owner(owner)
        rest = self._table.drop_columns([owner])
        if len(codes):
            rest = rest.take(pa.array(_bounded_rows(codes, max_rows, key)))
        return MemorySource(rest, self._loose - {owner})

    def sizes(self, owner: str, most: int) -> Counts:
        """Owners by how many rows they have, 1 to most, and more: shape [most + 1].

        Raises:
            InputError: There is no such column, it has missing values, or most is below 1.
        """
        check_most(most)
        rows = np.bincount(self._owners(owner))
        found = np.bincount(np.minimum(rows[rows > 0], most + 1), minlength=most + 2)
        return Counts(found[1:].astype(np.int64))

    def _owners(self, owner: str) -> NDArray[np.int32]:
        codes, _ = forms.texts(forms.normal(self._array(owner, "owner"), owner))
        check_owner(self._table, owner)
        if bool((codes < 0).any()):
            raise unknown_owner(owner)
        return codes

    def rows(self) -> Counts:
        """How many rows there are: shape [1]."""
        return Counts(np.array([self._table.num_rows], dtype=np.int64))

    def kinds(self, column: str) -> Counts:
        """Rows by what their value is, in the order of `schema.profile.PROFILE`."""
        return Counts(profile(self._array(column), column))

    def grids(self, column: str, steps: Sequence[float], read: str = "number") -> Counts:
        """Cells with a reading by the first step they are a multiple of, see `schema.queries`: [steps +
        1].
        """
        return Counts(grids(self._array(column), steps, read, column))

    def places_in_cycle(self, column: str, read: str, tick: int, ticks: int) -> Counts:
        """Cells with a reading by their place in a period of so many ticks, see `schema.queries`: [ticks]."""
        return Counts(places_in_cycle(self._array(column), read, tick, ticks, column))

    def repeats(self, column: str, steps: Sequence[int], read: str = "number") -> Counts:
        """How many different numbers at least so many cells are read as, see `schema.queries`: [steps]."""
        return Counts(count_repeats(self.count_numbers(column, read)[1], steps))

    def count_numbers(self, column: str, read: str) -> tuple[Numbers, NDArray[np.int64]]:
        """The different numbers themselves and their rows, for who has a table in parts. **Not private.**"""
        return count_numbers(self._array(column), read, column)

    def spellings(self, column: str, read: str) -> Counts:
        """Cells of text by the spelling of their moment or time, see `schema.storage.spelling`:
        [spellings].
        """
        return Counts(spellings(self._array(column), read, column))

    def histogram(
        self, column: str, edges: NDArray[np.float64], read: str = "number", *, absent: bool = False
    ) -> Counts:
        """Cells with a reading by half-open interval, outside ones in the end ones: [edges - 1].

        Args:
            column: Its name.
            edges: Increasing, two or more.
            read: As what the cells are read, one of `schema.queries.READS`.
            absent: Whether cells without such a number are counted, too, in one more cell at the end.

        Raises:
            InputError: The edges are fewer than two or do not increase, or the storage has no such reading.
        """
        return Counts(histogram(self._array(column), edges, read, column, absent=absent))

    def differences(
        self,
        column: str,
        base: str,
        comparison: Comparison,
        edges: NDArray[np.float64],
        others: Sequence[str] = (),
    ) -> Counts:
        """Rows by how a column compares with another, see `schema.columns.relative`: [edges - 1 +
        ABSENT_CELLS].

        Args:
            column: Its name.
            base: The name of the column it is compared with.
            comparison: How.
            edges: Increasing, two or more, of the cells of the difference or quotient.
            others: Names of columns that are added to the base.
        """
        first, *more = (self._array(name, "base") for name in (base, *others))
        return Counts(count_relation(self._array(column), first, comparison, edges, more))

    def agreements(self, rules: Sequence[CalendarRule | FlagCount], reads: Mapping[str, str]) -> list[Counts]:
        """For each rule the rows in which its number is what its dates say, or not, or one is missing.

        Or in which it is how many flags say yes. See `schema.queries`; shape of each: [3].
        """
        arrays = {name: self._array(name) for rule in rules for name in rule.names}
        dated = [rule for rule in rules if not isinstance(rule, FlagCount)]
        found = iter(agreements(arrays, dated, reads))
        return [
            Counts(count_agreeing(arrays, rule) if isinstance(rule, FlagCount) else next(found))
            for rule in rules
        ]

    def value_parts(self, column: str) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """The distinct present values as text, sorted, and how many rows hold each, in one part."""
        codes, distinct = forms.texts(forms.list_values(self._array(column), column))
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        held = sorted(
            (text, count) for text, count in zip(distinct.to_pylist(), counts, strict=True) if count
        )
        found = np.array([*(count for _, count in held), (codes < 0).sum()], dtype=np.int64)
        yield tuple(text for text, _ in held), Counts(found)

    @property
    def joins_texts(self) -> bool:
        """Whether it answers `unlisted_parts`: yes. Public."""
        return True

    def unlisted_parts(
        self, listed: Mapping[str, Collection[str]], weights: Sequence[int]
    ) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """Texts of several columns that are not listed, weighted, in one part; see `Source`."""
        names, sums = weigh_unlisted({name: self._array(name) for name in listed}, listed, weights)
        yield tuple(names), Counts(np.append(sums, 0))

    def bind(self, schema: Schema) -> MemoryEngine:
        """The table encoded under a known schema.

        Raises:
            InputError: The schema and the table differ in columns, or a strict column holds what it does
                not declare.
            SchemaError: A column is not known yet.
        """
        return MemoryEngine(encode(self._table, schema))

    def read_rows(self) -> Any:
        """The rows as they are, in order: an Arrow table. **Not private.**"""
        return self._table

    def _array(self, name: str, param: str = "column") -> Any:
        if name in self._written:
            return self._written[name]
        place = self._table.schema.get_field_index(name)  # a list of all names takes as long as a short look
        if place < 0:
            raise unknown_column(name, self._table.column_names, param)
        return self._table.column(place)

    def __repr__(self) -> str:
        return f"MemorySource({list(self._table.column_names)})"


def _bounded_rows(codes: NDArray[np.int32], max_rows: int, key: bytes | None) -> NDArray[np.int64]:
    """Rows to keep, in the table's order: of each code at most max_rows, every choice equally likely."""
    generator = fresh_generator(key)
    shuffled = generator.permutation(len(codes))
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    starts = np.zeros(len(codes), dtype=np.int64)
    starts[ends] = ends
    rank = np.arange(len(codes)) - np.maximum.accumulate(starts)
    kept: NDArray[np.int64] = np.sort(order[rank < max_rows])
    return kept


@final
class MemoryEngine(PrivateRows):
    """Exact counts over an encoded table (the `Engine` of protocols). **Not private.**

    Its repr shows the domain's names only and it refuses to be pickled.

    Args:
        encoded: The rows.
        max_cells: Most cells of one table.
        threads: Most threads that count; None for one a core. The answers are the same.

    Raises:
        SchemaError: A code is not below its attribute's size.
    """

    __slots__ = ("_encoded", "_max_cells", "_threads")

    def __init__(self, encoded: Encoded, *, max_cells: int = MAX_CELLS, threads: int | None = None) -> None:
        for name, column, size in zip(
            encoded.domain.names, encoded.columns, encoded.domain.sizes, strict=True
        ):
            if column.dtype.kind != "u" or int(column.max(initial=0)) >= size:
                raise SchemaError(
                    invalid(f"codes of column {name!r}", "unsigned and below its size", "Encode it again.")
                )
        self._encoded = encoded
        self._max_cells = min(max_cells, (1 << 31) - 1)
        self._threads = threads

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._encoded.domain

    @property
    def encoded(self) -> Encoded:
        """The rows as codes. **Not private.**"""
        return self._encoded

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Rows in each cell of each clique's table, in one pass over the data.

        The axes of a table are in the clique's order; the empty clique counts the rows.

        Raises:
            SchemaError: A clique names an attribute twice or one that does not exist.
            InputError: A table would have more than max_cells cells.
        """
        for clique in cliques:
            check_clique(self.domain, clique, self._max_cells)
        return [Counts(table) for table in count_tables(self._encoded, cliques, threads=self._threads)]

    def __repr__(self) -> str:
        return f"MemoryEngine({list(self.domain.names)})"
