"""Arrow storage types: their names, and decoding into them.

A listed column has one value a code, in whatever Arrow type is wanted (`label_array`). Whole numbers of days
or microseconds become dates, time stamps, times, durations or text (`temporal_array`). All else that is drawn
inside bins becomes numbers of the type wanted (`decode_column`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Identifier,
    Integer,
    Listed,
    Moment,
    Scalar,
    Temporal,
    Time,
    Whole,
)
from margrave.schema.columns.binned import SpeltNumber
from margrave.schema.columns.identifier import MOST_TRIES, draw_distinct, draw_texts, keys
from margrave.schema.columns.repeats import share_rows
from margrave.schema.draws import real_numbers, repeated_numbers, unique_numbers, whole_numbers
from margrave.schema.encoded import Codes
from margrave.schema.frame import TEXT_FILE
from margrave.schema.queries import readings
from margrave.schema.storage import clock, forms
from margrave.schema.storage.clock_numbers import clock_numbers, holds_numbers
from margrave.schema.storage.date_numbers import (
    POINT,
    date_numbers,
    is_date_number_format,
    is_stamp_format,
    stamp_numbers,
)
from margrave.schema.storage.spelling import respelt, write_format
from margrave.schema.storage.zones import mark_of


def temporal_array(ticks: Any, column: Binned, kind: Any = None) -> Any:
    """The values of a column of whole units in an Arrow type.

    Args:
        ticks: Whole numbers of the column's unit, an int64 Arrow array.
        column: What they are of; a column of plain whole numbers has the unit of the type.
        kind: The Arrow type wanted; the one that the column kind suggests when None. Text is in ISO
            form, that of durations the number of microseconds.
    """
    if kind is None:
        kind = _natural(column)
    if clock.is_temporal(kind):
        return clock.from_ticks(_shift_ticks(ticks, column.read, clock.temporal_kind(kind)), kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(ticks))
    coded = ticks.dictionary_encode()
    texts = _texts(np.asarray(coded.dictionary.to_numpy(zero_copy_only=False)), column)
    return pa.array(texts, pa.large_string()).take(coded.indices).cast(kind)


def _texts(values: NDArray[np.int64], column: Binned) -> list[str]:
    if isinstance(column, (Moment, Time)):
        zone = column.zone if isinstance(column, Moment) else None
        return respelt(values, column.read, column.spelling, zone)
    iso_form = isinstance(column, Temporal) and column.read != "duration"
    return [column.spell(value) if iso_form else str(value) for value in values.tolist()]


def _natural(column: Binned) -> Any:
    """Dates as dates; times as precise as their spelling."""
    if column.read == "date":
        return pa.date32()
    if not isinstance(column, (Moment, Time)):
        return pa.duration("us")
    digits = len(column.spelling.removesuffix(mark_of(column.spelling)).partition(".")[2])
    unit = {0: "s", 3: "ms", 6: "us"}[digits]
    if isinstance(column, Moment):
        return pa.timestamp(unit, column.zone)
    return pa.time64(unit) if unit == "us" else pa.time32(unit)


def _shift_ticks(ticks: Any, held: str, wanted: str) -> Any:
    """Days as microseconds, or the other way round, where the type wanted holds the other."""
    if held == "date" and wanted != "date":
        values, most = np.asarray(pc.fill_null(ticks, 0)), clock.MAX_TICKS // clock.DAY
        return pa.array(np.clip(values, -most, most) * clock.DAY, mask=np.asarray(ticks.is_null()))
    if held in ("moment", "time", "duration") and wanted == "date":
        values = np.asarray(pc.fill_null(ticks, 0)) // clock.DAY
        return pa.array(values, mask=np.asarray(ticks.is_null()))
    return ticks


REDRAWS = 4
"""How often a completed text that the column lists is drawn anew."""
TRUTHS = {"true": True, "false": False, "1": True, "0": False}


def label_array(column: Listed, kind: Any = None) -> Any:
    """What each code decodes to, an Arrow array of shape [codes].

    Args:
        column: A column with known values.
        kind: The Arrow type wanted, not a dictionary; the one that the values suggest when None. A label
            that it cannot hold, such as the text of `other` among numbers, becomes null.

    A beginning or pattern that stands for many texts decodes to itself here; `with_endings` completes it.
    """
    values: list[Scalar] = [*(column.values or ()), *column.stems, *column.patterns]
    if column.other is not None:
        values.append(column.other)
    wanted = _natural_type(values, column) if kind is None else kind
    if isinstance(column, Boolean) and forms.is_text_type(wanted):
        values = [column.spell(value) for value in values]
    entries = [_label(value, wanted) for value in values] + [None] * bool(column.missing)
    if clock.is_temporal(wanted):
        return _instants(entries, wanted)
    if pa.types.is_decimal(wanted) or pa.types.is_floating(wanted):
        return pa.array(entries, pa.float64()).cast(wanted, safe=False)
    return pa.array(entries, wanted)


def with_endings(values: Any, codes: Codes, column: Listed, rng: np.random.Generator) -> Any:
    """Decoded values whose beginnings are completed: a text is drawn for each that has an ending, for each of
    a pattern, and for those of the code `other` where the column has a shape for them.

    A text that the column lists is drawn again a few times, since it has a code of its own. No text of a
    column of keys is drawn twice; where it is known in how many rows texts are, rows of a code share them.

    Args:
        values: An Arrow array of text, as `label_array` decodes the codes, shape [rows].
        codes: Shape [rows].
        column: Of the codes.
        rng: Draws the endings.
    """
    if isinstance(column, Categorical) and column.unique:
        return _with_keys(values, codes, column, rng)
    listed, found = set(column.values or ()), None
    whole = [("", shape) for shape in (*column.patterns, column.other_shape)]
    drawn = [*zip(column.stems, column.rests, strict=True), *whole]
    repeats = column.repeats if isinstance(column, Categorical) else ()
    for place, (prefix, ending) in enumerate(drawn, len(column.values or ())):
        rows = np.flatnonzero(codes == place)
        if not ending or not len(rows):
            continue
        found = values.to_pylist() if found is None else found
        owners = share_rows(len(rows), repeats, rng)
        texts = _draw_again(prefix, ending, int(owners.max()) + 1, listed, bool(repeats), rng)
        for row, owner in zip(rows.tolist(), owners.tolist(), strict=True):
            found[row] = texts[owner]
    return values if found is None else pa.array(found, values.type)


def _draw_again(
    prefix: str, ending: str, count: int, listed: Collection[Any], apart: bool, rng: np.random.Generator
) -> list[str]:
    """Texts that begin so; listed ones are drawn again a few times, and, apart, those that repeat as well."""
    texts, again = [""] * count, list(range(count))
    for _ in range(MOST_TRIES if apart else REDRAWS):
        for place, rest in zip(again, draw_texts(ending, len(again), rng), strict=True):
            texts[place] = prefix + rest
        taken = set(listed)
        again = []
        for place, text in enumerate(texts):
            if text in taken:
                again.append(place)
            elif apart:
                taken.add(text)
        if not again:
            break
    return texts


def _with_keys(values: Any, codes: Codes, column: Categorical, rng: np.random.Generator) -> Any:
    """As `with_endings`, of a column of keys: a new key for each row of a pattern or of the code `other`."""
    places = codes.astype(np.int64) - len(column.values or ()) - len(column.stems)
    shapes = [*column.patterns, *([column.other_shape] if column.other_shape else [])]
    rows = np.flatnonzero((places >= 0) & (places < len(shapes)))
    drawn = draw_distinct(shapes, places[rows], rng, taken=column.values or ())
    found = values.to_pylist()
    for row, text in zip(rows.tolist(), drawn, strict=True):
        found[row] = text
    return pa.array(found, values.type)


def _instants(entries: list[Any], kind: Any) -> Any:
    """Labels in ISO form as dates or times; null where they are something else."""
    texts = ["" if entry is None else entry for entry in entries]
    values, known = readings(pa.array(texts, pa.large_string()), clock.temporal_kind(kind))
    return clock.from_ticks(pa.array(values, mask=~known), kind)


def _natural_type(values: list[Scalar], column: Listed) -> Any:
    kinds = {type(value) for value in values}
    if kinds == {bool} or (not kinds and isinstance(column, Boolean)):
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.large_string()


def _label(value: Scalar, kind: Any) -> Any:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_boolean(kind):
        return TRUTHS.get(value.lower()) if isinstance(value, str) else bool(value)
    if pa.types.is_integer(kind):
        return _whole(value, kind)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return forms.number_of(TRUTHS.get(value, value) if isinstance(value, str) else value)
    return forms.spell_value(value)


def _whole(value: Scalar, kind: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.lstrip("+-").isdecimal():
        number: float | None = int(value)
    else:
        number = value if isinstance(value, int) else forms.number_of(value)
    if number is None or number != int(number):
        return None
    low, high = integer_range(kind)
    return int(number) if low <= number <= high else None


def integer_range(kind: Any) -> tuple[int, int]:
    """Least and greatest value of an Arrow integer type."""
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


NAMED: dict[str, Any] = {
    str(kind): kind
    for kind in (
        *(pa.null(), pa.bool_(), pa.string(), pa.large_string(), pa.string_view()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    )
}
DECIMAL = re.compile(r"(decimal\d+)\((\d+), (-?\d+)\)")
TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=(\d)>")


def type_text(kind: Any) -> str:
    """An Arrow type as text; of a dictionary with indices of 32 bits, whatever it has.

    Writers choose the width of indices by the number of categories, which follows from the rows.
    """
    if not pa.types.is_dictionary(kind):
        return str(kind)
    return str(pa.dictionary(pa.int32(), kind.value_type, ordered=kind.ordered))


def arrow_type(text: str | None) -> Any:
    """The Arrow type that `type_text` wrote; None for None and for the columns of text files.

    Raises:
        SchemaError: The text is no supported type.
    """
    if text is None or text == TEXT_FILE:
        return None
    if text in NAMED:
        return NAMED[text]
    if found := DECIMAL.fullmatch(text):
        return getattr(pa, found[1])(int(found[2]), int(found[3]))
    if found := TIMESTAMP.fullmatch(text):
        return pa.timestamp(found[1], found[2])
    if found := DICTIONARY.fullmatch(text):
        return pa.dictionary(arrow_type(found[2]), arrow_type(found[1]), ordered=found[3] == "1")
    raise SchemaError(
        invalid("dtype", "a type of numbers, truth values, text, dates or times", "Cast it.", got=text)
    )


def decode_column(
    codes: Codes, column: Column, rng: np.random.Generator, kind: Any = None, drawn: Any = None
) -> Any:
    """One column's values as an Arrow array, shape [rows].

    Args:
        codes: Codes of the column, shape [rows].
        column: A known column.
        rng: Draws the numbers inside the bins, and new keys.
        kind: The Arrow type wanted; the one that the column kind suggests when None.
        drawn: The numbers, if they were drawn before; an Arrow array of the texts.
    """
    if kind is not None and pa.types.is_dictionary(kind):
        return _dictionary(decode_column(codes, column, rng, _plain(kind.value_type), drawn), kind)
    if kind is not None and _plain(kind) != kind:
        return decode_column(codes, column, rng, _plain(kind), drawn).cast(kind)
    if drawn is not None and not isinstance(column, Binned):
        return drawn if kind is None else drawn.cast(kind)
    if isinstance(column, Listed):
        values = label_array(column, kind).take(pa.array(codes))
        if (column.grouped or column.other_shape) and forms.is_text_type(values.type):
            return with_endings(values, codes, column, rng)
        return values
    if isinstance(column, Identifier):
        return keys(column, len(codes), rng, kind)
    if not isinstance(column, Binned):
        raise SchemaError(invalid(f"column {column.name!r}", "known before it is decoded", "Discover it."))
    return _decode_binned(codes, column, rng, kind, drawn)


def _decode_binned(
    codes: Codes, column: Binned, rng: np.random.Generator, kind: Any = None, drawn: Any = None
) -> Any:
    """As `decode_column`, of a column that has bins."""
    absent = codes == column.present
    # A missing value is drawn in the first bin like any other, and the mask hides what was drawn.
    bins = np.where(absent, 0, codes).astype(np.int64)
    textual = bool(column.format) and (kind is None or forms.is_text_type(kind))
    textual &= kind is not None or not _holds_numbers(column)
    if isinstance(column, Whole):
        drawn = _draw_whole(bins, absent, column, rng) if drawn is None else drawn
        if textual:
            return _write_values(pa.array(drawn, mask=absent), column)
        as_number = isinstance(column, Temporal) and column.as_number
        if as_number and not (kind is not None and clock.is_temporal(kind)):
            return _numbers(_write_numbers(drawn, column), absent, column, kind)
        if _is_temporal(column, kind):
            return temporal_array(pa.array(drawn, mask=absent), column, kind)
        return _numbers(drawn, absent, column, kind)
    dtype = kind.to_pandas_dtype() if kind is not None and pa.types.is_floating(kind) else np.float64
    if drawn is None:
        drawn = real_numbers(bins, column, rng, dtype)
    if textual:
        return _write_values(pa.array(drawn, mask=absent), column)
    return _numbers(drawn, absent, column, kind)


def _holds_numbers(column: Binned) -> bool:
    """Whether dates or times of day are plain numbers, without zeros in front or a point."""
    if column.read in ("date", "moment"):
        plain = is_date_number_format(column.format) or is_stamp_format(column.format)
        return plain and POINT not in str(column.format)
    return holds_numbers(column.format)


def _write_numbers(drawn: NDArray[np.int64], column: Whole) -> NDArray[np.int64]:
    """Times of day, dates or moments as the numbers that stand for them: shape [rows]."""
    if isinstance(column, Moment):
        return stamp_numbers(drawn, column.format or "")
    return (clock_numbers if isinstance(column, Time) else date_numbers)(drawn, column.format or "")


def _draw_whole(bins: Any, absent: Any, column: Whole, rng: np.random.Generator) -> Any:
    """A number in each row's bin; of keys none twice among the present ones, or each as often as is known."""
    if isinstance(column, Integer) and column.unique:
        return unique_numbers(bins, column, rng, np.flatnonzero(~absent))
    if isinstance(column, Integer) and column.repeats:
        return repeated_numbers(bins, column, rng, np.flatnonzero(~absent))
    return whole_numbers(bins, column, rng)


def _write_values(values: Any, column: Binned) -> Any:
    """Numbers, days or microseconds as text in the format of the column."""
    spelling = column.spelling if isinstance(column, (Moment, SpeltNumber)) else ""
    return write_format(values, column.read, column.format or "", spelling)


def _is_temporal(column: Column, kind: Any) -> bool:
    """Whether values are to become dates or times, or their text."""
    if kind is not None and clock.is_temporal(kind):
        return True
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return isinstance(column, Temporal) and (kind is None or not any(check(kind) for check in plain))


def restore_column(values: Any, kind: Any) -> Any:
    """Values that a table kept in the storage forms, as they came in.

    Args:
        values: An Arrow array of numbers, truth values, text, dates or times. What came in a dictionary is
            text; a decimal is the nearest number.
        kind: The Arrow type that they came in.

    Raises:
        pa.ArrowException: The type cannot hold them.
    """
    if pa.types.is_dictionary(kind):
        return _dictionary(restore_column(values, _plain(kind.value_type)), kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if clock.is_temporal(kind) and clock.is_temporal(values.type):
        if values.type == kind or clock.temporal_kind(kind) != clock.temporal_kind(values.type):
            return values.cast(kind)
        return clock.from_ticks(clock.ticks(values), kind)
    if clock.is_temporal(kind) and forms.is_text_type(values.type):
        coded = values.cast(pa.large_string()).dictionary_encode()
        return _instants(coded.dictionary.to_pylist(), kind).take(coded.indices)
    if pa.types.is_decimal(kind) and pa.types.is_floating(values.type):
        # The nearest number to one at the end of the type may lie beyond it.
        top = float(np.nextafter(10.0 ** (kind.precision - kind.scale), 0.0))
        held = np.clip(np.asarray(values.to_numpy(zero_copy_only=False)), -top, top)
        return pa.array(held, mask=np.isnan(held)).cast(kind)
    return values if values.type == kind else values.cast(kind)


def _plain(kind: Any) -> Any:
    """A type that Arrow can pick rows of and find the distinct values of: not that of views of text."""
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def _dictionary(values: Any, kind: Any) -> Any:
    coded = values.dictionary_encode()
    # Releases of earlier versions may ask for narrow indices, and rows for more distinct values than they
    # reach.
    fits = len(coded.dictionary) - 1 <= integer_range(kind.index_type)[1]
    indices = coded.indices.cast(kind.index_type if fits else pa.int32())
    return pa.DictionaryArray.from_arrays(
        indices, coded.dictionary.cast(kind.value_type), ordered=kind.ordered
    )


def _numbers(drawn: NDArray[Any], absent: NDArray[np.bool_], column: Binned, kind: Any) -> Any:
    """Numbers as an Arrow array of the type wanted, held inside what it and the column's bounds allow."""
    if kind is None or kind == pa.from_numpy_dtype(drawn.dtype):
        return pa.array(drawn, mask=absent)
    if pa.types.is_null(kind):
        return pa.nulls(len(drawn))
    if pa.types.is_boolean(kind):
        return pa.array(drawn != 0, mask=absent)
    if pa.types.is_integer(kind):
        return pa.array(_integers(drawn, column, kind), mask=absent)
    if pa.types.is_floating(kind):
        dtype = kind.to_pandas_dtype()
        top = float(np.finfo(dtype).max)  # a cast to a narrower type would make infinity beyond it
        return pa.array(np.clip(drawn, -top, top).astype(dtype), mask=absent)
    if pa.types.is_decimal(kind):
        return _decimals(drawn, absent, column, kind)
    codes, distinct = forms.texts(pa.array(drawn, mask=absent))
    return distinct.cast(kind).take(pa.array(codes, mask=codes < 0))


def _integers(drawn: NDArray[Any], column: Binned, kind: Any) -> NDArray[Any]:
    low, high = integer_range(kind)
    if drawn.dtype.kind == "f":
        edges = column.edge_array
        assert column.upper is not None  # noqa: S101 - it has edges
        first, last = np.ceil(edges[0]), np.floor(column.upper)
        drawn = np.clip(np.rint(drawn), min(first, last), max(first, last))
        held = np.clip(drawn, float(max(low, -(1 << 53))), float(min(high, 1 << 53)))
    else:
        held = np.clip(drawn, low, min(high, (1 << 63) - 1))
    whole: NDArray[Any] = held.astype(kind.to_pandas_dtype())
    return whole


def _decimals(drawn: NDArray[Any], absent: NDArray[np.bool_], column: Binned, kind: Any) -> Any:
    top = float(10 ** min(kind.precision - kind.scale, 15) - 1)
    held = np.clip(drawn.astype(np.float64), -top, top)
    if drawn.dtype.kind == "f":
        assert column.upper is not None  # noqa: S101 - it has edges
        # Rounding carries no number beyond the bounds, unless they have none of so few decimals between them.
        step, lower = 10.0**-kind.scale, float(column.edge_array[0])
        first, last = round(lower, kind.scale), round(float(column.upper), kind.scale)
        first += step if first < lower else 0.0
        last -= step if last > column.upper else 0.0
        held = np.clip(held, first, last) if first <= last else held
    rounded = pc.round(pa.array(held), ndigits=kind.scale)
    return pc.if_else(pa.array(absent), pa.scalar(None, kind), rounded.cast(kind, safe=False))
