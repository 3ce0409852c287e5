"""Columns of an ibis table as numbers, and numbers as codes: expressions with typed literals. Not private.

They mirror `schema.storage.forms`, `schema.queries` and `schema.encode`; the contract suite compares the two.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import ibis
import ibis.expr.operations as ops
import numpy as np
import pyarrow as pa

from margrave.engines.streaming.batches import read_guarded
from margrave.errors import InputError, invalid
from margrave.schema.columns import Column, Moment, Temporal, Time
from margrave.schema.columns.relative import take_own
from margrave.schema.storage import clock
from margrave.schema.storage.clock import DAY, SECOND
from margrave.schema.storage.clock_numbers import MIDNIGHT, MINUTE
from margrave.schema.storage.date_numbers import CLOCK_DIGITS, LATEST, MOST_NUMBER, POINT, STAMPS
from margrave.schema.storage.forms import MAX_EXACT_FLOAT, MOST_PLACES

SINGLE_WHOLE = float(1 << 23)
"""Size from which all numbers of single precision are whole."""
MIN_INEXACT_NUMBER = float(1 << 52)
"""Numbers of this size and more are looked at here, value by value: SQL has no exact arithmetic for them."""


def _of_moment(moment):  # type: ignore[no-untyped-def]  # ibis reads the names of its arguments
    """Stands for a function of the backend."""


def _spell_moment(moment, pattern):  # type: ignore[no-untyped-def]
    """Stands for a function of the backend."""


def _builtin(function: Any, name: str, *kinds: str, gives: str = "int64") -> Any:
    return ibis.udf.scalar.builtin(function, name=name, signature=(kinds, gives))


ZONED = _builtin(_of_moment, "epoch_us", "timestamp('UTC')")
"""DuckDB's microseconds of a moment with a zone."""
MICROS = _builtin(_of_moment, "epoch_us", "timestamp(6)")
"""DuckDB's microseconds of a moment without one, null where it has no end."""
NANOS = _builtin(_of_moment, "epoch_ns", "timestamp")
"""DuckDB's nanoseconds of a moment."""
LEAST_NANOS = clock.MIN_TICKS + 1_000
"""From here on nanoseconds are rounded down within 64 bits."""
INSTANT = _builtin(_of_moment, "unix_micros", "timestamp")
"""Spark's microseconds of an instant."""
SPELT = _builtin(_spell_moment, "date_format", "timestamp", "string", gives="string")
"""Spark's spelling of a moment; its ibis backend takes no microseconds out of one."""


def _bytes_of(text):  # type: ignore[no-untyped-def]
    """Stands for a function of the backend."""


def _bytes_in(text, encoding):  # type: ignore[no-untyped-def]
    """Stands for a function of the backend."""


CAST_TO_BYTES = frozenset({"bigquery", "databricks", "pyspark"})
"""Backends in which a cast of text to bytes gives its UTF-8 bytes."""

TO_BYTES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "duckdb": (_builtin(_bytes_of, "encode", "string", gives="binary"), ()),
    "postgres": (_builtin(_bytes_in, "convert_to", "string", "string", gives="binary"), ("UTF8",)),
    "snowflake": (_builtin(_bytes_in, "to_binary", "string", "string", gives="binary"), ("UTF-8",)),
    "trino": (_builtin(_bytes_of, "to_utf8", "string", gives="binary"), ()),
}
"""The function of other backends that gives the UTF-8 bytes of a text, and its further arguments."""

FROM_TEXT = _builtin(_bytes_in, "decode", "string", "string", gives="binary")
"""PostgreSQL's bytes of their hexadecimal digits."""

READS_BYTES = CAST_TO_BYTES | TO_BYTES.keys()
"""Backends in which text can be read. In all others columns of text are refused."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A column as what `schema.storage.forms.normal` makes of it.

    Args:
        name: The column's name.
        kind: The Arrow type that stands for its storage. Public.
        form: "int", "uint", "float", "bool" or "text".
        value: The expression: whole numbers of the unit of `schema.storage.clock`, finite float64, truths, or
        the
            UTF-8 bytes of text (`text_bytes`).
        backend: Name of ibis' backend.
    """

    name: str
    kind: Any
    form: str
    value: Any
    backend: str

    @property
    def number(self) -> Any:
        """The value as a float64 expression."""
        if self.form == "bool":
            return ibis.cases((self.value, 1.0), (~self.value, 0.0), else_=ibis.null("float64"))
        return self.value.cast("float64")

    def read_numbers(self, read: str) -> Stored:
        """The numbers that cells are read as, as `schema.queries.readings` has them.

        Raises:
            InputError: The storage has no such reading.
        """
        # What the storage of dates and times holds is compared with what is asked for.
        held = clock.temporal_kind(self.kind) if clock.is_temporal(self.kind) else read
        if self.form != "int":
            return dataclasses.replace(self, form="float", value=self.number)
        if read in (held, "number"):
            return self
        if (held, read) == ("moment", "date"):
            return dataclasses.replace(self, kind=pa.int64(), value=floor_divide(self.value, clock.DAY))
        if (held, read) == ("date", "moment"):
            most = clock.MAX_TICKS // clock.DAY
            # Days are bounded so that their microseconds fit into 64 bits.
            return dataclasses.replace(self, kind=pa.int64(), value=self.value.clip(-most, most) * clock.DAY)
        constraint = f"stored as what it is declared, a {read}"
        raise InputError(invalid(f"column {self.name!r}", constraint, f"It stores a {held}."))

    def literal(self, key: Any) -> Any:
        """A value, as `arrow` gives them, as a literal to compare `value` with."""
        if self.form == "text":
            return byte_literal(key.encode(), self.backend)
        return number(key) if isinstance(key, float) else ibis.literal(key, type=self.value.type())

    def arrow(self, values: Any) -> Any:
        """Values that were fetched, as an Arrow array of the storage type.

        Raises:
            InputError: Text is not valid UTF-8.
        """
        if self.form == "text":
            return read_guarded(lambda: values.cast(pa.string()), "made of text in valid Unicode")
        if self.form != "int" or not clock.is_temporal(self.kind):
            return values
        kept = clock.keep_temporal(pa.array([], self.kind)).type
        return clock.from_ticks(values.cast(pa.int64()), kept)


def store_column(table: Any, name: str, kind: Any, backend: str, instant: bool) -> Stored:
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
    form, value = _find_form(table[name], kind, backend, instant)
    if value is not None:
        return Stored(name, kind, form, value, backend)
    raise InputError(
        invalid(
            f"column {name!r}",
            "made of numbers, truth values, text, dates or times",
            "Cast it to text or numbers, or drop the column.",
        )
    )


def _find_form(column: Any, kind: Any, backend: str, instant: bool) -> tuple[str, Any]:
    """The form of a column and the expression of its values, None if it stores what has no column kind."""
    stored_type = column.type()
    if stored_type.is_date():
        return "int", _days(column)
    if stored_type.is_timestamp():
        return "int", _micros(column, backend, instant)
    if stored_type.is_time():
        return "int", _clock(column)
    if pa.types.is_null(kind):
        return "text", ibis.null("binary")
    if is_text(stored_type, kind):
        return "text", text_bytes(column.cast("string"), backend)
    if stored_type.is_boolean():
        return "bool", column
    if pa.types.is_uint64(kind):
        return "uint", column
    if stored_type.is_integer():
        return "int", column.cast("int64")
    return "float", _finite(column) if stored_type.is_numeric() else None


def is_text(stored_type: Any, kind: Any) -> bool:
    """Whether a column is read as text: its type in the backend, the Arrow type that stands for it."""
    return bool(stored_type.is_string() or pa.types.is_string(kind))


def text_bytes(text: Any, backend: str) -> Any:
    """The UTF-8 bytes of a text expression, null for null.

    A backend may hold different texts for equal: a collation that ignores case, accents or trailing blanks
    merges them wherever text is compared, grouped or joined, and names the group by one row of its choice.
    Bytes have no collation: they are equal only if they are the same. So no text is ever compared, grouped or
    joined as text, and the answer for a row depends on that row's own bytes alone.

    Raises:
        InputError: It is not known how the backend gives the bytes of a text. Decided by its name alone.
    """
    if backend in CAST_TO_BYTES:
        return text.cast("binary")
    if backend not in TO_BYTES:
        what = f"columns of text in {backend}"
        remedy = f"Export the table to Parquet, or use one of {sorted(READS_BYTES)}."
        raise InputError(invalid(what, "in a backend whose text can be grouped byte by byte", remedy))
    if backend == "postgres":  # ibis takes enumerations for text already and would leave a cast out
        text = ops.Cast(text, "string").to_expr()
    function, more = TO_BYTES[backend]
    return function(text, *more)


def byte_literal(value: bytes, backend: str) -> Any:
    """Bytes that are public as a literal."""
    if backend == "postgres":  # what ibis writes for bytes is none of its forms
        return FROM_TEXT(ibis.literal(value.hex()), "hex")
    return ibis.literal(value, type="binary")


def _finite(column: Any) -> Any:
    """Numbers in double precision, null for NaN and the infinities."""
    # Decimals by their digits: the nearest double, as in `storage`; backends' own casts may be one off.
    value = (column.cast("string") if column.type().is_decimal() else column).cast("float64")
    # A size above the largest float tells the infinities.
    absent = value.isnan() | (value.abs() > number(sys.float_info.max))
    read = _read_narrow(column, value) if column.type().is_float32() else value
    return ibis.ifelse(absent, ibis.null("float64"), read + 0.0)


def _read_narrow(column: Any, exact: Any) -> Any:
    """Numbers of single precision as the decimals that they stand for, as `schema.storage.forms.read_narrow`.

    Args:
        column: The column.
        exact: The same in double precision.
    """
    branches = []
    for places in range(MOST_PLACES + 1):  # 0: whole numbers are what they are
        scale = 10.0**places
        near = (exact * number(scale) + number(0.5)).floor().cast("float64") / number(scale)
        branches.append((near.cast("float32") == column, near))
    # Beyond 2^23 all are whole, and the infinities have no floor.
    small = exact.abs() < number(SINGLE_WHOLE)
    return ibis.ifelse(small, ibis.cases(*branches, else_=exact), exact)


def has_number_format(column: Column) -> bool:
    """Whether a column is one of times of day, or of dates, that are written as numbers."""
    own = take_own(column)
    return isinstance(own, Temporal) and own.as_number


def read_number_format(stored: Stored, column: Column) -> Stored:
    """Numbers that stand for times of day or dates, as `schema.storage.clock_numbers.read_clock` and
    `schema.storage.date_numbers.read_date_numbers` read them; what is stored as something else as it is.
    """
    plain = stored.form in ("int", "uint", "float") and not clock.is_temporal(stored.kind)
    own = take_own(column)
    if not plain or not isinstance(own, Temporal) or not own.as_number:
        return stored
    if isinstance(own, Time):
        value = _read_clock(_whole_up_to(stored, MIDNIGHT))
    elif isinstance(own, Moment):
        value = _read_stamps(_whole_up_to(stored, MOST_NUMBER * CLOCK_DIGITS), str(own.format))
    else:
        value = _read_dates(_whole_up_to(stored, MOST_NUMBER), own.has_months)
    # Moments are read as dates as well.
    kind = pa.timestamp("us") if isinstance(own, Moment) else pa.int64()
    return dataclasses.replace(stored, kind=kind, form="int", value=value)


def _whole_up_to(stored: Stored, most: int) -> Any:
    """Whole numbers from 0 to a bound, null for all others."""
    sound = stored.value.between(0, most)
    if stored.form == "float":
        sound = sound & (stored.value == stored.value.floor().cast("float64"))
    return ibis.ifelse(sound, stored.value, ibis.null(stored.value.type())).cast("int64")


def _read_dates(whole: Any, months: bool) -> Any:
    """Days since 1970-01-01 of numbers that are dates, or months, null for the rest."""
    day = whole * 0 + 1 if months else whole % 100
    whole = whole if months else divide_small(whole, 100)
    year, month = divide_small(whole, 100), whole % 100
    first, next_first = (_first_day(year, month, later) for later in (0, 1))
    sound = (year >= 1) & (year <= LATEST) & (month >= 1) & (month <= 12) & (day >= 1)
    return ibis.ifelse(sound & (first + day <= next_first), first + day - 1, ibis.null("int64"))


def _read_stamps(whole: Any, written: str) -> Any:
    """Microseconds since 1970 of numbers that are time stamps, null for the rest."""
    minutes = whole if written.removesuffix(POINT) == STAMPS[0] else divide_small(whole, 100)
    second = whole * 0 if written.removesuffix(POINT) == STAMPS[0] else whole % 100
    day, hour, minute = divide_small(minutes, 10_000), divide_small(minutes, 100) % 100, minutes % 100
    sound = (hour < 24) & (minute < 60) & (second < 60) & (day <= MOST_NUMBER)
    ticks = _read_dates(day, False) * DAY + (hour * 3600 + minute * 60 + second) * SECOND
    return ibis.ifelse(sound, ticks, ibis.null("int64"))


def _first_day(year: Any, month: Any, later: int) -> Any:
    """Days from 1970-01-01 to the first day of a month, or of one so many months later."""
    # Years that begin in March have their leap day at the end; a month of it has 30.6 days on average.
    months = year * 12 + month + (later - 3)
    begun = divide_small(months, 12)
    leaps = divide_small(begun, 4) - divide_small(begun, 100) + divide_small(begun, 400)
    return begun * 365 + leaps + divide_small(months % 12 * 153 + 2, 5) - 719_468


def divide_small(value: Any, unit: int) -> Any:
    """A whole number of at most 2^53 in size in units, rounded down.

    It has the value once, `floor_divide` three times: expressions of several such steps stay short.
    """
    return (value / unit).floor().cast("int64")


def _read_clock(whole: Any) -> Any:
    """Microseconds since midnight of numbers that are times of day, null for the rest."""
    ticks = (divide_small(whole, 100) * 60 + whole % 100) % (24 * 60) * MINUTE
    return ibis.ifelse(whole % 100 < 60, ticks, ibis.null("int64"))


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
            # Parts of a moment would overflow at the end of what is stored. What is stored in seconds and
            # lies beyond all microseconds is missing, as what is without end is: no cell ends in an error.
            return MICROS(column.try_cast("timestamp(6)"))
        nanos = NANOS(column)
        nanos = ibis.ifelse(nanos < LEAST_NANOS, LEAST_NANOS, nanos)
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
    return _days(column.date()) * clock.DAY + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micro


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
    cuts = _make_cuts(column, edges)

    def tree(first: int, end: int) -> Any:
        if first == end:
            return ibis.literal(int(codes[first]), type="int32")
        # A balanced tree, so that a value is compared as often as the logarithm of the edges.
        middle = (first + end) // 2
        return ibis.ifelse(column.value >= cuts[middle], tree(middle + 1, end), tree(first, middle))

    return ibis.ifelse(column.value.isnull(), ibis.null("int32"), tree(0, len(cuts)))


def _make_cuts(column: Stored, edges: Any) -> list[Any]:
    """The edges as literals of the column's own type, as `schema.queries.places` compares them."""
    edges = np.asarray(edges)
    if column.form != "int":
        return [number(float(edge)) for edge in edges]
    if edges.dtype.kind != "i":
        # The first whole number at or above an edge divides whole numbers as the edge does.
        edges = np.clip(np.ceil(edges), float(clock.MIN_TICKS), float(1 << 62)).astype(np.int64)
    return [ibis.literal(int(edge), type="int64") for edge in edges]


def whole(column: Stored) -> Any:
    """Whether a number is whole and at most 2^53 in size."""
    number = column.number
    small = number.abs() <= MAX_EXACT_FLOAT
    if column.form != "float":
        return small
    return ibis.ifelse(small, number == number.floor().cast("float64"), False)


def multiple(column: Stored, step: float) -> Any:
    """Whether a number is a whole multiple of a step, as `schema.queries.grids`; floats must be below
    MIN_INEXACT_NUMBER."""
    if step >= 1:
        if column.form == "int":
            return column.value % int(step) == 0
        near = column.value.floor().cast("int64")
        return (column.value == near.cast("float64")) & (near % int(step) == 0)
    # A step below 1 divides 1, so that the number is scaled by how many of them 1 has.
    parts = float(round(1 / step))
    scaled = column.value.cast("float64") * parts
    below = scaled.abs() < MIN_INEXACT_NUMBER
    near = ibis.ifelse(below, (ibis.ifelse(below, scaled, 0.0) + 0.5).floor().cast("float64"), scaled)
    return near / parts == column.value.cast("float64")


def place_in_cycle(value: Any, tick: int, ticks: int) -> Any:
    """The place of a whole number in a period of so many ticks, as `schema.queries.places_in_cycle`."""
    return floor_divide(take_rest(value, tick * ticks), tick)


def take_rest(value: Any, unit: int) -> Any:
    """What a whole number is above the multiple of a unit below it."""
    rest = value % unit
    # Backends differ in the sign of a remainder, so that it is made positive.
    return ibis.ifelse(rest < 0, rest + unit, rest)


def floor_divide(value: Any, unit: int) -> Any:
    """A whole number in units, rounded down."""
    # At the ends of what is stored nothing may pass 64 bits, or one moment there would end the run. So the
    # half is added to the quotient, and the remainder has the sign of the value, as in nearly all backends.
    rest = value % unit
    # The half keeps a quotient that the backend takes in double precision on the right side.
    units = ((value - rest) / unit + 0.5).floor().cast("int64")
    return ibis.ifelse(rest < 0, units - 1, units)
