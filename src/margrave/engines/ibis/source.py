"""PushdownSource: a table that stays where it is and is counted there, through Ibis. Not private."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, final

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.engines.counts import Counts, PrivateRows, sum_counts
from margrave.engines.files import Choose, all_columns, chosen_columns
from margrave.engines.frames import (
    check_bounds,
    check_most,
    is_rounded,
    lone_owner,
    read_table,
    rounded_owner,
    rows_elsewhere,
    unknown_column,
    unknown_owner,
)
from margrave.engines.ibis.codings import (
    FAULTS,
    Coding,
    agreement_cell,
    check_number,
    code_column,
    comparison_cell,
    flag_cell,
    read_instants,
    read_number,
    relative_code,
)
from margrave.engines.ibis.engine import PushdownEngine, draw_rows, fetch_rows, quiet
from margrave.engines.ibis.expressions import (
    MIN_INEXACT_NUMBER,
    Stored,
    has_number_format,
    interval,
    multiple,
    place_in_cycle,
    read_number_format,
    store_column,
    whole,
)
from margrave.engines.memory import MemorySource
from margrave.engines.streaming.batches import BATCH
from margrave.engines.streaming.tallies import MOST_VALUES
from margrave.errors import InputError, invalid
from margrave.schema.columns import Binned, Column, Date, Moment, Relative
from margrave.schema.columns.relative import ABSENT_CELLS, Comparison, take_own
from margrave.schema.constraints.rules import CalendarRule, FlagCount
from margrave.schema.encode import encode, in_usual_form
from margrave.schema.frame import Frame
from margrave.schema.profile import PROFILE, profile
from margrave.schema.queries import count_numbers, count_repeats, grids, histogram, places_in_cycle
from margrave.schema.schema import Schema
from margrave.schema.storage import forms
from margrave.schema.storage.spelling import NUMBER_VOTERS, spellings

UNTYPED = frozenset({"sqlite"})
"""Backends in which a cell may be of another type than its column: one row could end a look at the others."""


def open_table(table: Any, choose: Choose = all_columns) -> tuple[PushdownSource, Frame]:
    """An ibis.Table of any backend, ready for the door, and what is public about it. **Not private.**

    Raises:
        InputError: A column stores what has no column kind, a name repeats, there is text and it is not
            known how this backend gives its bytes, or columns of this backend have no types.
    """
    backend = table.get_backend().name
    if backend in UNTYPED:
        constraint = f"of a backend whose columns have types; cells of {backend} may be of any"
        raise InputError(invalid("data", constraint, "Export the table to Parquet."))
    kept = chosen_columns(table.columns, choose)
    table = table if kept is None else table.select(*kept)
    schema = _arrow_schema(table)
    frame = read_table(schema.empty_table())[1]
    source = PushdownSource(table, schema)
    source.check_columns()
    return source, frame


def _arrow_schema(table: Any) -> Any:
    """The Arrow types that stand for the table's storage types."""
    instants = _find_instants(table)
    fields = []
    for name, kind in table.schema().items():
        if kind.is_timestamp() and name in instants and kind.timezone is None:
            arrow: Any = pa.timestamp("us", "UTC")
        elif kind.is_decimal() and kind.precision is None:
            arrow = pa.float64()
        else:
            arrow = quiet(kind.to_pyarrow, f"without column {name!r}, whose type has no column kind")
        fields.append((name, arrow))
    return pa.schema(fields)


def _find_instants(table: Any) -> frozenset[str]:
    """Names of the columns whose moments are of UTC; Spark has both kinds, and ibis tells them not apart."""
    schema = table.schema()
    if table.get_backend().name != "pyspark":
        return frozenset(n for n, kind in schema.items() if kind.is_timestamp() and kind.timezone is not None)
    from pyspark.sql import SparkSession

    session: Any = SparkSession.getActiveSession()
    # Compiled with no rows, so that Spark tells the types and reads nothing.
    text = table.get_backend().compile(table.limit(0))
    kinds = quiet(lambda: session.sql(text).schema, "a table that Spark can read")
    return frozenset(field.name for field in kinds if field.dataType.typeName() == "timestamp")


IN_PROCESS = frozenset({"duckdb"})
"""Backends that run in this process. Looks at numbers, dates and times fetch their columns and look at them
here: a query with hundreds of edges takes such a backend longer to read than the rows take (bench/LOG.md)."""


@final
class PushdownSource(PrivateRows):
    """A private table that its own backend counts (the `Source` of protocols). **Not private.**

    Only grouped counts come here, but from backends that run IN_PROCESS. For text those are the rows of each
    distinct value, however many there are, which the functions that read tables in memory then look at. Text
    is grouped, compared and joined by its bytes (`expressions.text_bytes`), so that what a row counts for
    depends on that row alone, whatever the backend's collations hold for equal. Its repr shows names only and
    it refuses to be pickled.

    Args:
        table: An ibis.Table.
        schema: The Arrow types that stand for its storage types.
    """

    __slots__ = ("_in_process", "_last", "_schema", "_table", "_written")

    def __init__(self, table: Any, schema: Any) -> None:
        self._table = table
        self._schema = schema
        self._last: tuple[str, Any, NDArray[np.int64]] | None = None
        self._written: dict[str, Column] = {}
        self._in_process = table.get_backend().name in IN_PROCESS

    @property
    def holds_rows(self) -> bool:
        """Whether its engine has rows for `moments` and `train` at the door: only counts come here."""
        return False

    @property
    def comparable(self) -> frozenset[str]:
        """Names of the columns that can be compared with each other: all but text. Public."""
        return frozenset(name for name in self._schema.names if self._stored_column(name).form != "text")

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the storage says about each column; nothing is read from the rows."""
        return MemorySource(read_table(self._schema.empty_table())[0]).columns

    def check_columns(self) -> None:
        """Find each column to be of a storage type that its backend can be asked about; no row is read.

        Raises:
            InputError: One is not, or is text, and it is not known how this backend gives its bytes.
        """
        for name in self._schema.names:
            self._store(name)

    def only(self, names: Sequence[str]) -> PushdownSource:
        """The table with some of its columns, in the order given.

        Raises:
            InputError: There is no such column.
        """
        for name in names:
            self._check_known(name, "columns")
        kinds = pa.schema([self._schema.field(name) for name in names])
        return PushdownSource(self._table.select(*names), kinds)

    def read_as(self, columns: Sequence[Column]) -> PushdownSource:
        """The table with the texts of some columns read in their formats, see `Source.read_as`."""
        other = PushdownSource(self._table, self._schema)
        other._written = self._written | {column.name: column for column in columns}
        return other

    def bound_owners(self, owner: str, max_rows: int, *, key: bytes | None = None) -> PushdownSource:
        """The table with at most max_rows rows of each owner, drawn at random, and no owner column.

        See `engine.draw_rows` for the draw and its proof. What is drawn is stored in the backend
        (`Table.cache`), so that it is worked out once.

        Raises:
            InputError: There is no such column, it has missing values, it is the only one, or max_rows is
                below 1.
        """
        check_bounds(max_rows)
        self._check_owner(owner)
        if len(self._schema) == 1:
            raise lone_owner(owner)
        names = [name for name in self._schema.names if name != owner]
        columns = {name: self._stored_column(name) for name in names}
        table = draw_rows(self._table, self._stored_column(owner), columns, max_rows, key)
        table = quiet(table.cache, "a table whose backend can store a part of it")
        return PushdownSource(table, pa.schema([self._schema.field(name) for name in names]))

    def sizes(self, owner: str, most: int) -> Counts:
        """Owners by how many rows they have, 1 to most, and more: shape [most + 1].

        Raises:
            InputError: There is no such column, it has missing values, or most is below 1.
        """
        check_most(most)
        self._check_owner(owner)
        rows = self._table.select(o=self._stored_column(owner).value).group_by("o").agg(n=lambda t: t.count())
        return self._group_rows(rows, ibis.least(rows.n, most + 1).cast("int64") - 1, most + 1)

    def _check_owner(self, owner: str) -> None:
        self._check_known(owner, "owner")
        if is_rounded(self._schema.field(owner).type) or self._table[owner].type().is_decimal():
            raise rounded_owner(owner)
        absent = self._table.select(v=self._stored_column(owner).value).filter(lambda t: t.v.isnull())
        if fetch_rows(absent.aggregate(n=absent.count()))["n"][0].as_py():
            raise unknown_owner(owner)

    def rows(self) -> Counts:
        """How many rows there are: shape [1]."""
        found = fetch_rows(self._table.aggregate(n=self._table.count()))
        return Counts(np.array([found["n"][0].as_py()], dtype=np.int64))

    def read_rows(self) -> Any:
        """Refuses: the rows are not held in memory.

        Raises:
            InputError: Always.
        """
        raise rows_elsewhere()

    def kinds(self, column: str) -> Counts:
        """Rows by what their value is, in the order of `schema.profile.PROFILE`."""
        held = self._stored_column(column)
        if self._is_read_here(held):
            return self._sum([column], lambda part: part.kinds(column))
        if held.form == "text":
            return self._weigh_values(column, lambda array: profile(array, column))
        rows = self._table.select(v=held.value, w=ibis.ifelse(whole(held), 1, 0))
        found = fetch_rows(rows.aggregate(n=rows.count(), p=rows.v.count(), w=rows.w.sum()))
        n, p, w = (int(found[name][0].as_py() or 0) for name in ("n", "p", "w"))
        result = np.zeros(len(PROFILE), dtype=np.int64)
        # Null, whole and other numbers, in the order of `PROFILE`.
        result[:3] = n - p, w, p - w
        return Counts(result)

    def grids(self, column: str, steps: Sequence[float], read: str = "number") -> Counts:
        """Cells with a reading by the first step they are a multiple of, as `schema.queries.grids`."""
        held = self._stored_column(column)
        grids(pa.array([], held.kind), steps, read, column)
        if self._is_read_here(held):
            return self._sum([column], lambda part: part.grids(column, steps, read))
        if held.form == "text":
            return self._weigh_values(column, lambda array: grids(array, steps, read, column))
        table, (number,) = self._select_values([held.read_numbers(read)])
        place: Any = ibis.literal(len(steps), type="int64")
        # From the finest step to the coarsest, so that the coarsest that divides a number wins.
        for index in reversed(range(len(steps))):
            place = ibis.ifelse(multiple(number, float(steps[index])), index, place)
        place = ibis.ifelse(number.value.isnull(), ibis.null("int64"), place)
        if number.form != "float":
            return self._group_rows(table, place, len(steps) + 1)
        return self._float_grids(table, number, place, steps)

    def _float_grids(self, table: Any, number: Stored, place: Any, steps: Sequence[float]) -> Counts:
        """Rows by place, but very large numbers by their value, and their place found here: one scan."""
        odd = number.value.abs() >= MIN_INEXACT_NUMBER
        rows = table.select(
            p=ibis.ifelse(odd, ibis.null("int64"), place),
            m=ibis.ifelse(odd, number.value, ibis.literal(0.0)),
            w=number.value.notnull(),
        )
        found = fetch_rows(rows.filter(lambda t: t.w).group_by("p", "m").agg(n=lambda t: t.count()))
        # Very large numbers come back one by one, with how often each occurs.
        counts = np.asarray(found["n"].to_numpy(), dtype=np.int64)
        large = np.asarray(found["p"].is_null().to_numpy(), dtype=np.bool_)
        result = np.zeros(len(steps) + 1, dtype=np.int64)
        places = np.asarray(found["p"].fill_null(0).to_numpy(), dtype=np.int64)
        np.add.at(result, places[~large], counts[~large])
        values = found["m"].combine_chunks().filter(pa.array(large))
        return sum_counts(
            [Counts(result), _weigh_look(lambda array: grids(array, steps), values, counts[large])]
        )

    def places_in_cycle(self, column: str, read: str, tick: int, ticks: int) -> Counts:
        """Cells with a reading by their place in a period of so many ticks, see `schema.queries`: [ticks]."""
        held = self._stored_column(column)
        places_in_cycle(pa.array([], held.kind), read, tick, ticks, column)
        if self._is_read_here(held):
            return self._sum([column], lambda part: part.places_in_cycle(column, read, tick, ticks))
        if held.form != "int" or self._is_grouped(held):
            return self._weigh_values(column, lambda array: places_in_cycle(array, read, tick, ticks, column))
        table, (number,) = self._select_values([held.read_numbers(read)])
        return self._group_rows(table, place_in_cycle(number.value, tick, ticks), ticks)

    def repeats(self, column: str, steps: Sequence[int], read: str = "number") -> Counts:
        """How many different numbers at least so many cells are read as, see `schema.queries`: [steps]."""
        held = self._stored_column(column)
        if held.form != "int":
            array, rows = self._distinct_array(column)
            return Counts(count_repeats(count_numbers(array, read, column, rows)[1], steps))
        table = self._table.select(v=held.read_numbers(read).value)
        table = table.filter(table.v.notnull()).group_by("v").agg(n=lambda t: t.count())
        # The backend counts the numbers with so many rows, so that few rows come here.
        found = fetch_rows(table.group_by("n").agg(k=lambda t: t.count()))
        sizes, keys = (np.asarray(found[name].to_numpy(), dtype=np.int64) for name in ("n", "k"))
        exact = [int(keys[sizes >= step].sum()) for step in steps]
        return Counts(np.array(exact, dtype=np.int64))

    def spellings(self, column: str, read: str) -> Counts:
        """Cells of text by the spelling of their moment or time, see `schema.storage.spelling`:
        [spellings].
        """
        held = self._stored_column(column)
        votes = read in NUMBER_VOTERS and held.form in ("int", "uint", "float")
        if held.form != "text" and not (votes and not pa.types.is_temporal(held.kind)):
            return Counts(spellings(pa.array([], held.kind), read, column))
        return self._weigh_values(column, lambda array: spellings(array, read, column))

    def histogram(
        self, column: str, edges: NDArray[np.float64], read: str = "number", *, absent: bool = False
    ) -> Counts:
        """Cells with a reading by half-open interval, as `schema.queries.histogram`: [edges - 1].

        absent: Whether cells without a reading are counted, too, in one more cell at the end.

        Raises:
            InputError: The edges are fewer than two or do not increase, or the storage has no such reading.
        """
        held = self._stored_column(column)
        histogram(pa.array([], held.kind), edges, read, column)
        if self._is_read_here(held):
            return self._sum([column], lambda part: part.histogram(column, edges, read, absent=absent))
        if self._is_grouped(held):
            return self._weigh_values(
                column, lambda array: histogram(array, edges, read, column, absent=absent)
            )
        cells = len(edges) - 1
        table, (number,) = self._select_values([held.read_numbers(read)])
        place = interval(number, np.asarray(edges)[1:-1], range(cells))
        if absent:
            place = ibis.coalesce(place, ibis.literal(cells, type="int32"))
        return self._group_rows(table, place, cells + absent)

    def differences(
        self,
        column: str,
        base: str,
        comparison: Comparison,
        edges: NDArray[np.float64],
        others: Sequence[str] = (),
    ) -> Counts:
        """Rows by how a column compares with another, as `schema.columns.relative.count_relation`.

        Raises:
            InputError: One of them is text, of which only distinct values are read.
        """
        self._check_comparable((column, base, *others))
        if self._in_process:
            asked = (column, base, comparison, edges, others)
            return self._sum([column, base, *others], lambda part: part.differences(*asked))
        table, (left, *bases) = self._select_values(
            [self._stored_column(name) for name in (column, base, *others)]
        )
        place = comparison_cell(left, bases, comparison, np.asarray(edges))
        return self._group_rows(table, place, len(edges) - 1 + ABSENT_CELLS)

    def agreements(self, rules: Sequence[CalendarRule | FlagCount], reads: Mapping[str, str]) -> list[Counts]:
        """For each rule the rows in which its number is what its dates say, or not, or one is missing.

        Or in which it is how many flags say yes. See `schema.queries`; shape of each: [3].

        Raises:
            InputError: A column of dates or numbers is text, of which only distinct values are read.
        """
        for rule in rules:
            if isinstance(rule, FlagCount):
                self._check_comparable((rule.number,))
                continue
            self._check_comparable(rule.dates if rule.pairs else rule.names)
            check_number(self._stored_column(rule.number), rule)
        if not self._in_process:
            return [
                self._count_flags(rule)
                if isinstance(rule, FlagCount)
                else self._count_agreements(rule, reads)
                for rule in rules
            ]
        names = list(dict.fromkeys(name for rule in rules for name in rule.names))
        parts = [part.agreements(rules, reads) for part in self._parts(names)]
        return [sum_counts(counts) for counts in zip(*parts, strict=True)]

    def _count_agreements(self, rule: CalendarRule, reads: Mapping[str, str]) -> Counts:
        names = (rule.number, *rule.dates)
        table, (number, *dates) = self._select_values([self._stored_column(name) for name in names])
        # Each part of a date is a column before the rule makes use of it, several times over.
        own = [reads[name] for name in rule.dates]
        parts = read_instants(dates, own)
        read = reads[rule.number] if rule.tells_date else "number"
        table = table.select(**read_number(number, rule, read), **parts)
        return self._group_rows(table, agreement_cell(table, rule, own), 3)

    def _count_flags(self, rule: FlagCount) -> Counts:
        table, (number, *flags) = self._select_values(
            [self._stored_column(name) for name in (rule.number, *rule.flags)]
        )
        return self._group_rows(table, flag_cell(number, flags, rule.counted), 3)

    def value_parts(self, column: str) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """The distinct present values as text, and how many rows hold each, in parts of MOST_VALUES.

        The backend's answer is kept as it came; only what a part holds is spelt out.
        """
        names, counts, none = self._texts(column)
        # One part at least, so that rows without a value are told even where there is no text.
        for start in range(0, max(len(names), 1), MOST_VALUES):
            part = names.slice(start, MOST_VALUES).to_pylist()
            held = [*counts[start : start + MOST_VALUES].tolist(), none if start == 0 else 0]
            yield tuple(part), Counts(np.array(held, dtype=np.int64))

    def _texts(self, column: str) -> tuple[Any, NDArray[np.int64], int]:
        """The distinct present values as an Arrow array of text, the rows of each, and those without one."""
        array, rows = self._distinct(column)
        codes, names = forms.texts(forms.list_values(self._stored_column(column).arrow(array), column))
        counts = np.zeros(len(names), dtype=np.int64)
        # Different stored values may have one spelling, and their rows add up.
        np.add.at(counts, codes[codes >= 0], rows[codes >= 0])
        held = np.flatnonzero(counts)
        return names.take(pa.array(held)), counts[held], int(rows[codes < 0].sum())

    @property
    def joins_texts(self) -> bool:
        """Whether it answers `unlisted_parts`: no, texts are grouped one column at a time. Public."""
        return False

    def unlisted_parts(
        self, listed: Mapping[str, Collection[str]], weights: Sequence[int]
    ) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """Refuses: texts are grouped one column at a time.

        Raises:
            InputError: Always.
        """
        remedy = "Ask `joins_texts` first."
        raise InputError(invalid("columns", "one at a time where a backend counts", remedy, got=[*listed]))

    def bind(self, schema: Schema) -> PushdownEngine:
        """The table encoded under a known schema, by expressions; strict columns are checked in one scan.

        Raises:
            InputError: The schema and the table differ in columns, or a strict column holds what it does
                not declare.
            SchemaError: A column is not known yet.
        """
        encode(read_table(self._schema.empty_table())[0], schema)  # refuses what does not fit
        columns = [schema[name] for name in schema.domain.names]
        source = self.read_as([take_own(column) for column in schema.columns if has_number_format(column)])
        table, values = self._select_values([source._read_as(column) for column in columns])
        codings = [
            code_column(column, held, self._distinct) for column, held in zip(columns, values, strict=True)
        ]
        self._check(table, codings)
        return PushdownEngine(table, schema.domain, codings)

    def _read_as(self, column: Column) -> Stored:
        held = self._stored_column(column.name)
        if isinstance(column, Relative):
            return relative_code(held, [self._stored_column(name) for name in column.bases], column)
        return held.read_numbers(column.read) if isinstance(column, Binned) and held.form != "text" else held

    def _select_values(self, columns: list[Stored]) -> tuple[Any, list[Stored]]:
        """A table of the columns' values alone, so that what is made of one works it out once."""
        if not columns:
            return self._table, []
        table = self._table.select(**{f"v{i}": held.value for i, held in enumerate(columns)})
        return table, [dataclasses.replace(held, value=table[f"v{i}"]) for i, held in enumerate(columns)]

    def _check(self, table: Any, codings: list[Coding]) -> None:
        asked = [(found, fault) for found in codings for fault in FAULTS if fault in found.faults]
        if not asked:
            return
        # The worst of all rows: 1 where any row has the fault.
        flags = {f"f{i}": ibis.ifelse(found.faults[fault], 1, 0) for i, (found, fault) in enumerate(asked)}
        rows = table.select(**flags)
        counts = fetch_rows(rows.aggregate(**{name: rows[name].max() for name in flags}))
        for place, (found, fault) in enumerate(asked):
            if counts[f"f{place}"][0].as_py():
                raise found.refuse(fault)

    def _store(self, name: str) -> Stored:
        """A column in its storage form, numbers that stand for dates or times of day as they are."""
        self._check_known(name)
        kind = self._schema.field(name).type
        backend = self._table.get_backend().name
        instant = pa.types.is_timestamp(kind) and kind.tz is not None
        return store_column(self._table, name, kind, backend, instant)

    def _stored_column(self, name: str) -> Stored:
        stored, written = self._store(name), self._written.get(name)
        return stored if written is None else read_number_format(stored, written)

    def _distinct(self, name: str) -> tuple[Any, NDArray[np.int64]]:
        """The distinct values of a column in their storage form, null among them, and their rows."""
        if self._last is None or self._last[0] != name:
            self._last = (name, *self._group_values(self._table, self._stored_column(name).value))
        return self._last[1], self._last[2]

    @staticmethod
    def _group_values(table: Any, value: Any) -> tuple[Any, NDArray[np.int64]]:
        # Nulls apart: what reads the backend's answer may make whole numbers with nulls floats.
        filled = value
        if not value.type().is_binary():
            zero = ibis.literal(False if value.type().is_boolean() else 0, type=value.type())
            filled = ibis.ifelse(value.isnull(), zero, value)
        rows = table.select(v=filled, m=value.isnull())
        found = fetch_rows(rows.group_by("v", "m").agg(n=lambda t: t.count()))
        values = pc.if_else(found["m"], None, found["v"]).combine_chunks()
        return values, np.asarray(found["n"].to_numpy(), dtype=np.int64)

    def _weigh_values(self, column: str, look: Callable[[Any], NDArray[np.int64]]) -> Counts:
        return _weigh_look(look, *self._distinct_array(column))

    def _distinct_array(self, column: str) -> tuple[Any, NDArray[np.int64]]:
        """The different cells of a column, as an Arrow array in the usual form, and the rows of each."""
        values, rows = self._distinct(column)
        held = self._stored_column(column)
        array, written = held.arrow(values), self._written.get(column)
        # Numbers that stand for times of day are read as such by the backend.
        return in_usual_form(array, written) if written and held.form == "text" else array, rows

    def _is_read_here(self, held: Stored) -> bool:
        """Whether a column's values are fetched as they are; those of text are grouped everywhere."""
        return self._in_process and held.form != "text"

    def _is_grouped(self, held: Stored) -> bool:
        """Whether a column's different values are fetched with their rows: text, and dates that are numbers,
        which no query can work out again for each edge."""
        written = self._written.get(held.name)
        return held.form == "text" or (isinstance(written, Date | Moment) and has_number_format(written))

    def _sum(self, names: Sequence[str], look: Callable[[MemorySource], Counts]) -> Counts:
        """What a look at some columns counts over all batches."""
        return sum_counts(look(part) for part in self._parts(list(dict.fromkeys(names))))

    def _parts(self, names: Sequence[str]) -> Iterator[MemorySource]:
        """Some columns, which are fetched whole, batch by batch as tables in memory; one at least."""
        stored = [self._store(name) for name in names]
        written = [self._written[name] for name in names if name in self._written]
        rows = fetch_rows(
            self._table.select(**{f"v{place}": held.value for place, held in enumerate(stored)})
        )
        for first in range(0, max(len(rows), 1), BATCH):
            part = rows.slice(first, BATCH)
            columns = [held.arrow(array) for held, array in zip(stored, part.columns, strict=True)]
            source = MemorySource(read_table(pa.table(columns, names=list(names)))[0])
            yield source.read_as(written) if written else source

    def _group_rows(self, table: Any, place: Any, cells: int) -> Counts:
        """Rows by a place below cells, those where it is null left out."""
        rows = table.select(p=place)
        found = fetch_rows(rows.group_by("p").agg(n=lambda t: t.count()))
        result = np.zeros(cells, dtype=np.int64)
        for cell, count in zip(found["p"].to_pylist(), found["n"].to_pylist(), strict=True):
            if cell is not None:
                result[cell] = count
        return Counts(result)

    def _check_comparable(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.comparable:
                remedy = "Export the table to Parquet, or cast the text to dates or numbers."
                raise InputError(invalid(f"column {name!r}", "not text where it is compared", remedy))

    def _check_known(self, name: str, param: str = "column") -> None:
        if name not in self._schema.names:
            raise unknown_column(name, self._schema.names, param)

    def __repr__(self) -> str:
        return f"PushdownSource({list(self._schema.names)})"


def _weigh_look(look: Callable[[Any], NDArray[np.int64]], values: Any, rows: NDArray[np.int64]) -> Counts:
    """An additive look at distinct values with many rows each: one look for each binary digit of rows."""
    # A look at no values has the right shape and holds zeros.
    total = look(values.slice(0, 0))
    for digit in range(int(rows.max(initial=0)).bit_length()):
        # Looks are additive, so that rows with 2^d copies are looked at once and count 2^d times.
        total = total + (look(values.filter(pa.array((rows >> digit) & 1 == 1))) << digit)
    return Counts(total)
