"""Arrow storage types: their names, and decoding into them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema import clock, storage
from margrave.schema.columns import Binned, Categorical, Column, Identifier, Listed, Temporal, Whole
from margrave.schema.draws import real_numbers, whole_numbers
from margrave.schema.encoded import Codes
from margrave.schema.frame import TEXT_FILE
from margrave.schema.identifier import keys
from margrave.schema.labels import integer_range, is_text_type, label_array, with_endings
from margrave.schema.temporal_arrays import temporal_array

__all__ = ["arrow_type", "decode_column"]

NAMED: dict[str, Any] = {
    str(kind): kind
    for kind in (
        *(pa.null(), pa.bool_(), pa.string(), pa.large_string()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        *([pa.string_view()] if hasattr(pa, "string_view") else []),
    )
}
DECIMAL = re.compile(r"(decimal\d+)\((\d+), (-?\d+)\)")
TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=(\d)>")


def arrow_type(text: str | None) -> Any:
    """The Arrow type that str() wrote; None for None and for the columns of text files.

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
        drawn: The numbers, if they were drawn before.
    """
    if kind is not None and pa.types.is_dictionary(kind):
        return _dictionary(decode_column(codes, column, rng, kind.value_type, drawn), kind)
    if isinstance(column, Listed):
        values = label_array(column, kind).take(pa.array(codes))
        if (
            isinstance(column, Categorical)
            and (column.prefixes or column.others)
            and is_text_type(values.type)
        ):
            return with_endings(values, codes, column, rng)
        return values
    if isinstance(column, Identifier):
        return keys(column, len(codes), rng, kind)
    if not isinstance(column, Binned):
        raise SchemaError(invalid(f"column {column.name!r}", "known before it is decoded", "Discover it."))
    absent = codes == column.present
    bins = np.where(absent, 0, codes).astype(np.int64)
    if isinstance(column, Whole):
        drawn = whole_numbers(bins, column, rng) if drawn is None else drawn
        if _is_temporal(column, kind):
            return temporal_array(pa.array(drawn, mask=absent), column, kind)
        return _numbers(drawn, absent, column, kind)
    single = kind is not None and pa.types.is_float32(kind)
    if drawn is None:
        drawn = real_numbers(bins, column, rng, np.float32 if single else np.float64)
    return _numbers(drawn, absent, column, kind)


def _is_temporal(column: Column, kind: Any) -> bool:
    """Whether values are to become dates or times, or their text."""
    if kind is not None and clock.is_temporal(kind):
        return True
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return isinstance(column, Temporal) and (kind is None or not any(check(kind) for check in plain))


def _dictionary(values: Any, kind: Any) -> Any:
    coded = values.dictionary_encode()
    fits = len(coded.dictionary) - 1 <= integer_range(kind.index_type)[1]
    indices = coded.indices.cast(kind.index_type if fits else pa.int32())
    return pa.DictionaryArray.from_arrays(indices, coded.dictionary, ordered=kind.ordered)


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
        top = float(np.finfo(dtype).max)
        return pa.array(np.clip(drawn, -top, top).astype(dtype), mask=absent)
    if pa.types.is_decimal(kind):
        return _decimals(drawn, absent, kind)
    codes, distinct = storage.texts(pa.array(drawn, mask=absent))
    return distinct.cast(kind).take(pa.array(codes, mask=codes < 0))


def _integers(drawn: NDArray[Any], column: Binned, kind: Any) -> NDArray[Any]:
    low, high = integer_range(kind)
    if drawn.dtype.kind == "f":
        edges = column.edge_array
        first, last = np.ceil(edges[0]), np.floor(edges[-1])
        drawn = np.clip(np.rint(drawn), min(first, last), max(first, last))
        held = np.clip(drawn, float(max(low, -(1 << 53))), float(min(high, 1 << 53)))
    else:
        held = np.clip(drawn, low, min(high, (1 << 63) - 1))
    whole: NDArray[Any] = held.astype(kind.to_pandas_dtype())
    return whole


def _decimals(drawn: NDArray[Any], absent: NDArray[np.bool_], kind: Any) -> Any:
    top = float(10 ** min(kind.precision - kind.scale, 15) - 1)
    rounded = pc.round(pa.array(np.clip(drawn.astype(np.float64), -top, top)), ndigits=kind.scale)
    return pc.if_else(pa.array(absent), pa.scalar(None, kind), rounded.cast(kind, safe=False))
