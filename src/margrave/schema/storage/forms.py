"""The storage forms of a column (whole numbers, numbers, truth values, text) and how one reads as another.

Dates, time stamps, times and durations are whole numbers of the units in `clock`.

Reading is strict and knows no locale: a text is a number if it is written in ASCII digits with at most one
sign, one point and one exponent ("12", "-3", "+7", "0.5", "1e5"); "nan", "inf", "0x10" and "1_000" are text.
NaN and the infinities count as missing.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.storage import clock

MAX_EXACT_FLOAT = float(1 << 53)
"""Whole numbers beyond it are not exact in float64 and count as numbers that are not whole."""

MOST_PLACES = 5
"""Decimal places up to which a number of less than double precision is read as the decimal it stands for:
singles of a hundred and more tell no more of them apart. Not measured."""

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
TEXT = pa.dictionary(pa.int32(), pa.large_string())

Array = Any
"""A pyarrow.Array or ChunkedArray; pyarrow ships no types."""


def normal(array: Array, name: str) -> Array:
    """The column as int64, uint64, float64 without NaN or infinities, bool, or dictionary-coded text.

    Numbers of less than double precision become the decimals they stand for; see `read_narrow`. Dates become
    days and other temporal values microseconds, in int64; see `clock`.

    **Not private**: nothing is left out.

    Args:
        array: A pyarrow.Array or ChunkedArray of numbers, truth values, text, dates or times.
        name: The column's name, for the error.

    Raises:
        InputError: The column stores something else, such as lists.
    """
    array, kind = one_chunk(array), array.type
    if clock.is_temporal(kind):
        return clock.ticks(array)
    if pa.types.is_integer(kind):
        return pc.cast(array, pa.uint64() if pa.types.is_uint64(kind) else pa.int64())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _finite(array)
    if pa.types.is_boolean(kind):
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.large_string()).dictionary_encode()
    if is_text_type(kind):
        return pc.cast(array, pa.large_string()).dictionary_encode()
    if pa.types.is_dictionary(kind):
        return _recode(array, name)
    raise unsupported_column(name)


def unsupported_column(name: object) -> InputError:
    """The error about a column that stores something that has no column kind, such as lists."""
    constraint = "made of numbers, truth values, text, dates or times"
    remedy = "Cast it to text or numbers, or drop the column."
    return InputError(invalid(f"column {name!r}", constraint, remedy))


def keep_column(array: Array, name: str) -> Array:
    """The column as it is kept in memory: as `normal`, but dates and times keep their own type.

    Raises:
        InputError: The column stores something that has no column kind.
    """
    if not clock.is_temporal(array.type):
        return normal(array, name)
    return clock.keep_temporal(one_chunk(array))


def list_values(array: Array, name: str) -> Array:
    """As `normal`, for columns read by value: dates and times are text in ISO form.

    Raises:
        InputError: The column stores something that has no column kind.
    """
    if not clock.is_temporal(array.type):
        return normal(array, name)
    coded = normal(array, name).dictionary_encode()
    labels = pa.array(clock.spell_temporal(coded.dictionary, array.type), pa.large_string())
    return pa.DictionaryArray.from_arrays(coded.indices, labels)


def one_chunk(array: Array) -> Array:
    """A column, whatever its chunks are, as one pyarrow.Array."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    if pa.types.is_dictionary(array.type):
        array = _unify(array)
    elif is_text_type(array.type):
        # Offsets of plain text hold 2 GiB, all chunks together; that a column has more is no reason to fail.
        array = array.cast(pa.large_string())
    combined = array.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _unify(array: Array) -> Array:
    """A dictionary-coded column whose chunks have one dictionary, whatever the rows hold.

    Chunks may each have a dictionary of their own, and then a code means another text in each. Arrow refuses
    to join those that together have more values than the codes' type can count, or in which one is null: an
    error that would tell how many values there are. Of text that is not large it refuses more than 2 GiB
    together, and says of how many bytes.
    """
    chunks, kind = [], _widen(array.type.value_type)
    for chunk in array.chunks:
        kept = chunk.dictionary.is_valid().to_numpy(zero_copy_only=False)
        # The code of each value among those that are not null; none for a null.
        codes = pa.array(np.cumsum(kept, dtype=np.int32) - 1, pa.int32(), mask=~kept)
        indices = pc.take(codes, chunk.indices)
        chunks.append(pa.DictionaryArray.from_arrays(indices, chunk.dictionary.cast(kind).drop_null()))
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), kind)).unify_dictionaries()


def _widen(kind: Any) -> Any:
    """The type of any amount of the same text or bytes; other types as they are."""
    if is_text_type(kind):
        return pa.large_string()
    views = pa.types.is_binary_view(kind)
    return pa.large_binary() if views or pa.types.is_binary(kind) else kind


def is_text_type(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def without_views(table: Any) -> Any:
    """An Arrow table with large text for views of text, of which Arrow picks no rows and writes few files."""
    for place, field in enumerate(table.schema):
        coded = pa.types.is_dictionary(field.type)
        if not pa.types.is_string_view(field.type.value_type if coded else field.type):
            continue
        kind = pa.large_string()
        if coded:
            kind = pa.dictionary(field.type.index_type, kind, field.type.ordered)
        table = table.set_column(place, field.with_type(kind), table.column(place).cast(kind))
    return table


def is_text(array: Array) -> bool:
    """Whether a normal column holds text."""
    return bool(pa.types.is_dictionary(array.type))


def _finite(array: Array) -> Array:
    if pa.types.is_decimal(array.type):
        array = pc.cast(pc.cast(array, pa.string()), pa.float64())  # by its digits: the nearest double
    values = array.to_numpy(zero_copy_only=False)
    if pa.types.is_float16(array.type) or pa.types.is_float32(array.type):
        values = read_narrow(np.asarray(values, dtype=array.type.to_pandas_dtype()))
    values = np.asarray(values, dtype=np.float64)
    return pa.array(values + 0.0, mask=~np.isfinite(values))  # + 0.0: minus zero is zero


def read_narrow(values: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers of half or single precision as the decimals that they stand for, in double precision.

    The nearest single to 3.2 is 3.2000000477 in double precision, which is on no grid of tenths and above a
    bound of 3.2. So a number is read as the decimal of the fewest places, MOST_PLACES at most, that it is the
    nearest number of its type to; one that is none as it is. Backends compute the same
    (`margrave.engines.ibis.expressions`), which is why no texts are compared: they spell such numbers in
    different ways.

    Args:
        values: Of type float16 or float32, shape [rows]; NaN and the infinities are left.
    """
    with np.errstate(invalid="ignore"):  # a NaN of any kind is one
        exact = values.astype(np.float64)
    found: NDArray[np.float64] = exact.copy()
    left = np.flatnonzero(np.isfinite(exact) & (exact != np.floor(exact)))
    for places in range(1, MOST_PLACES + 1):
        scale = 10.0**places
        near = np.floor(exact[left] * scale + 0.5) / scale
        held = near.astype(values.dtype) == values[left]
        found[left[held]] = near[held]
        left = left[~held]
    return found


def _recode(array: Array, name: str) -> Array:
    """Dictionary-coded values of any kind as dictionary-coded distinct text without null entries."""
    values = list_values(array.dictionary, name)
    codes, labels = texts(values)
    entries = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), labels)
    return pa.DictionaryArray.from_arrays(pc.take(entries.indices, array.indices), labels)


def texts(array: Array) -> tuple[NDArray[np.int32], Array]:
    """A normal column as codes into distinct texts, numbers in their one canonical spelling.

    **Not private.**

    Returns:
        Codes of shape [rows], -1 where missing, and the distinct texts (some may have no row).
    """
    coded = array if is_text(array) else array.dictionary_encode()
    codes = np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int32)
    if is_text(array):
        return codes, coded.dictionary
    if pa.types.is_floating(array.type):
        return codes, number_texts(coded.dictionary)
    return codes, pc.cast(coded.dictionary, pa.large_string())


def number_texts(values: Array) -> Array:
    """The canonical spelling of floats: "1" for 1.0, else the shortest text that reads back the same."""
    plain = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    integral = whole(plain)
    as_int = pa.array(np.where(integral, plain, 0).astype(np.int64))
    return pc.if_else(
        pa.array(integral), pc.cast(as_int, pa.large_string()), pc.cast(values, pa.large_string())
    )


def whole(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are whole numbers of at most 2^53 in size."""
    result: NDArray[np.bool_] = (values == np.floor(values)) & (np.abs(values) <= MAX_EXACT_FLOAT)
    return result


def numbers(array: Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A normal column as numbers: the values, NaN where there is none, and where other text stands.

    **Not private.** Both of shape [rows].
    """
    if not is_text(array):
        if pa.types.is_boolean(array.type):
            array = pc.cast(array, pa.int8())
        values = np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
        return values, np.zeros(len(values), dtype=np.bool_)
    codes, distinct = texts(array)
    values, text = parse(distinct)
    # The code of a missing value is -1, which picks the last place: the one that is appended here.
    return np.append(values, np.nan)[codes], np.append(text, False)[codes]


def parse(distinct: Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Texts as numbers: the values, NaN where there is none, and which texts are no number; both [texts]."""
    spelt = pc.match_substring_regex(distinct, NUMBER)
    written = np.asarray(spelt.to_numpy(zero_copy_only=False), dtype=np.bool_)
    values = np.full(len(distinct), np.nan)
    values[written] = _floats(distinct.filter(spelt))
    values[np.isinf(values)] = np.nan
    return values + 0.0, ~written


def are_blank(distinct: Array) -> NDArray[np.bool_]:
    """Which texts hold nothing, or nothing but blanks: shape [texts]."""
    blank = pc.equal(pc.utf8_trim_whitespace(distinct), "")
    return np.asarray(blank.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _floats(spelt: Array) -> NDArray[np.float64]:
    try:
        cast = pc.cast(pc.replace_substring_regex(spelt, r"^\+", ""), pa.float64())
        return np.asarray(cast.to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid:  # a spelling that Arrow does not read, such as a value beyond float64
        return np.asarray([float(text) for text in spelt.to_pylist()], dtype=np.float64)


_COMPILED = re.compile(NUMBER.replace("$", r"\Z"))


def number_of(label: object) -> float | None:
    """A declared label as a number; None if it is none."""
    if isinstance(label, str):
        if not _COMPILED.match(label):
            return None
        label = float(label)
    return float(label) if isinstance(label, (bool, int, float)) and np.isfinite(label) else None


def spell_value(label: object) -> str | None:
    """A declared value's text: itself, "true" or "false", or the canonical spelling of a number."""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, str):
        return label
    return number_spelling(label)


def number_spelling(label: object) -> str | None:
    """The canonical spelling of a declared value as a number ("1" for True); None if it is none."""
    if type(label) is int:
        return str(label)
    number = number_of(label)
    return None if number is None else str(number_texts(pa.array([number]))[0])


PIECE = 1 << 16
"""Rows of a piece of a column that is copied: so few that the texts of one fit into Arrow's short offsets."""


def copy_values(table: Any) -> Any:
    """An Arrow table of the same values, in new memory that follows from them and from nothing else.

    A missing value is a bit beside a number, and the number that was there before may still be; so may rows
    before and behind those that a slice has left. `take` writes zeros for what is missing. How a column is
    cut into chunks may follow from columns beside it, as it does where a text file is read by blocks; pieces
    have as many rows as any table's.

    Args:
        table: Columns without dictionaries.
    """
    columns = []
    for column in table.columns:
        pieces = []
        for start in range(0, max(table.num_rows, 1), PIECE):
            chunks = column.slice(start, PIECE).chunks
            whole = pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
            pieces.append(_take_all(whole))
        columns.append(pa.chunked_array(pieces, column.type))
    return pa.table(columns, names=table.column_names)


def _take_all(array: Any) -> Any:
    """The same values in new memory, zeros where one is missing."""
    places = pa.array(np.arange(len(array)))
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        # Arrow takes nothing out of views.
        return array.cast(_widen(array.type)).take(places).cast(array.type)
    return array.take(places)
