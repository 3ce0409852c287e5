"""Columns of an ibis table as numbers, and numbers as codes: expressions with typed literals. Not private.

They mirror `schema.storage`, `schema.looks` and `schema.encode`; the contract suite compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from margrave.errors import InputError, invalid
from margrave.schema import clock, iso
from margrave.schema.storage import EXACT

__all__ = ["ODD", "Stored", "interval", "multiple", "number", "stored", "whole"]

ODD = float(1 << 52)
"""Numbers of this size and more are looked at here, value by value: SQL has no exact arithmetic for them."""


def _of_moment(moment):  # type: ignore[no-untyped-def]  # ibis reads the names of its arguments
    """Stands for a function of the backend."""


def _spelt(moment, pattern):  # type: ignore[no-untyped-def]
    """Stands for a function of the backend."""


def _builtin(function: Any, name: str, *kinds: str, gives: str = "int64") -> Any:
    return ibis.udf.scalar.builtin(function, name=name, signature=(kinds, gives))


ZONED = _builtin(_of_moment, "epoch_us", "timestamp('UTC')")
"""DuckDB's microseconds of a moment with a zone."""
NANOS = _builtin(_of_moment, "epoch_ns", "timestamp")
"""DuckDB's nanoseconds of a moment."""
INSTANT = _builtin(_of_moment, "unix_micros", "timestamp")
"""Spark's microseconds of an instant."""
SPELT = _builtin(_spelt, "date_format", "timestamp", "string", gives="string")
"""Spark's spelling of a moment; its ibis backend takes no microseconds out of one."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A column as what `schema.storage.normal` makes of it.

    Args:
        name: The column's name.
        kind: The Arrow type that stands for its storage. Public.
        form: "int", "float", "bool" or "text".
        value: The expression: whole numbers of the unit of `schema.clock`, finite float64, truths or text.
    """

    name: str
    kind: Any
    form: str
    value: Any

    @property
    def number(self) -> Any:
        """The value as a float64 expression."""
        if self.form == "bool":
            return ibis.cases((self.value, 1.0), (~self.value, 0.0), else_=ibis.null("float64"))
        return self.value.cast("float64")

    def reading(self, read: str) -> Stored:
        """The numbers that cells are read as, as `schema.looks.readings` has them.

        Raises:
            InputError: The storage has no such reading.
        """
        held = clock.meaning(self.kind) if clock.is_temporal(self.kind) else read
        if self.form != "int":
            return Stored(self.name, self.kind, "float", self.number)
        if read in (held, "number"):
            return self
        if (held, read) == ("moment", "date"):
            rest = self.value % iso.DAY
            rest = ibis.ifelse(rest < 0, rest + iso.DAY, rest)
            # The half keeps a quotient that the backend takes in double precision on the right side.
            days = ((self.value - rest + iso.DAY // 2) / iso.DAY).floor()
            return Stored(self.name, pa.int64(), "int", days.cast("int64"))
        if (held, read) == ("date", "moment"):
            most = clock.MOST // iso.DAY
            return Stored(self.name, pa.int64(), "int", self.value.clip(-most, most) * iso.DAY)
        constraint = f"stored as what it is declared, a {read}"
        raise InputError(invalid(f"column {self.name!r}", constraint, f"It stores a {held}."))

    def arrow(self, values: Any) -> Any:
        """Values that were fetched, as an Arrow array of the storage type."""
        if self.form != "int" or not clock.is_temporal(self.kind):
            return values
        kept = clock.held(pa.array([], self.kind)).type
        return clock.from_ticks(values.cast(pa.int64()), kept)


def stored(table: Any, name: str, kind: Any, backend: str, instant: bool) -> Stored:
    """A column in its storage form.

    Args:
        table: An ibis table.
        name: Of the column.
        kind: The Arrow type that stands for its storage.
        backend: Name of ibis' backend.
        instant: Whether a moment is one of UTC, not of the wall clock.

    Raises:
        InputError: The column stores what has no column kind.
    """
    column = table[name]
    if column.type().is_date():
        return Stored(name, kind, "int", _days(column))
    if column.type().is_timestamp():
        return Stored(name, kind, "int", _micros(column, backend, instant))
    if column.type().is_time():
        return Stored(name, kind, "int", _clock(column))
    if pa.types.is_null(kind):
        return Stored(name, kind, "text", ibis.null("string"))
    if column.type().is_string() or pa.types.is_string(kind):
        return Stored(name, kind, "text", column.cast("string"))
    if column.type().is_boolean():
        return Stored(name, kind, "bool", column)
    if pa.types.is_uint64(kind):
        return Stored(name, kind, "uint", column)
    if column.type().is_integer():
        return Stored(name, kind, "int", column.cast("int64"))
    if column.type().is_numeric():
        return Stored(name, kind, "float", _finite(column))
    raise InputError(
        invalid(
            f"column {name!r}",
            "made of numbers, truth values, text, dates or times",
            "Cast it to text or numbers, or drop the column.",
        )
    )


def _finite(column: Any) -> Any:
    """Numbers in double precision, null for NaN and the infinities."""
    # Decimals by their digits: the nearest double, as in `storage`; backends' own casts may be one off.
    value = (column.cast("string") if column.type().is_decimal() else column).cast("float64")
    absent = value.isnan() | (value.abs() > number(sys.float_info.max))
    return ibis.ifelse(absent, ibis.null("float64"), value + 0.0)


def _days(column: Any) -> Any:
    return column.delta(ibis.date(1970, 1, 1), unit="day").cast("int64")


def _clock(column: Any) -> Any:
    hours, minutes, seconds = (
        part.cast("int64") for part in (column.hour(), column.minute(), column.second())
    )
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + column.microsecond().cast("int64")


def _micros(column: Any, backend: str, instant: bool) -> Any:
    if backend == "duckdb":
        if instant:
            return ZONED(column)
        if column.type().scale != 9:
            return _wall(column, column.microsecond().cast("int64"))
        nanos = NANOS(column)
        rest = nanos % 1_000
        rest = ibis.ifelse(rest < 0, rest + 1_000, rest)
        return ((nanos - rest + 500) / 1_000).floor().cast("int64")
    if backend == "pyspark":
        if instant:
            return INSTANT(column)
        return _wall(column, SPELT(column, "SSSSSS").cast("int64"))
    if instant:
        seconds = column.truncate("s").epoch_seconds().cast("int64")
        return seconds * 1_000_000 + column.microsecond().cast("int64")
    return _wall(column, column.microsecond().cast("int64"))


def _wall(column: Any, micro: Any) -> Any:
    hours, minutes, seconds = (
        part.cast("int64") for part in (column.hour(), column.minute(), column.second())
    )
    return _days(column.date()) * iso.DAY + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micro


def number(value: float) -> Any:
    """A float64 literal, cast from text: digits in SQL are decimals to some backends, and rounded twice."""
    return ibis.literal(repr(float(value))).cast("float64")


def interval(column: Stored, edges: Any, codes: Sequence[int]) -> Any:
    """The code of the half-open interval between edges that a number lies in, null where there is none.

    Args:
        column: Of form "int" or "float".
        edges: Increasing, one less than codes.
        codes: Of what is below all edges, between each two, and above all.
    """
    cuts = _cuts(column, edges)

    def tree(first: int, end: int) -> Any:
        if first == end:
            return ibis.literal(int(codes[first]), type="int32")
        middle = (first + end) // 2
        return ibis.ifelse(column.value >= cuts[middle], tree(middle + 1, end), tree(first, middle))

    return ibis.ifelse(column.value.isnull(), ibis.null("int32"), tree(0, len(cuts)))


def _cuts(column: Stored, edges: Any) -> list[Any]:
    """The edges as literals of the column's own type, as `schema.looks.places` compares them."""
    edges = np.asarray(edges)
    if column.form != "int":
        return [number(float(edge)) for edge in edges]
    if edges.dtype.kind != "i":
        edges = np.clip(np.ceil(edges), float(clock.LEAST), float(1 << 62)).astype(np.int64)
    return [ibis.literal(int(edge), type="int64") for edge in edges]


def whole(column: Stored) -> Any:
    """Whether a number is whole and at most 2^53 in size."""
    number = column.number
    small = number.abs() <= EXACT
    if column.form != "float":
        return small
    return ibis.ifelse(small, number == number.floor().cast("float64"), False)


def multiple(column: Stored, step: float) -> Any:
    """Whether a number is a whole multiple of a step, as `schema.looks.grids`; floats must be below ODD."""
    if step >= 1:
        if column.form == "int":
            return column.value % int(step) == 0
        near = column.value.floor().cast("int64")
        return (column.value == near.cast("float64")) & (near % int(step) == 0)
    parts = float(round(1 / step))
    scaled = column.value.cast("float64") * parts
    below = scaled.abs() < ODD
    near = ibis.ifelse(below, (ibis.ifelse(below, scaled, 0.0) + 0.5).floor().cast("float64"), scaled)
    return near / parts == column.value.cast("float64")
