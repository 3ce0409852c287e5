"""polars frames: their storage types by name, their columns as Arrow arrays, and decoding into them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from margrave.schema.columns import Column, Listed
from margrave.schema.encoded import Codes
from margrave.schema.storage import forms
from margrave.schema.storage.arrow import decode_column, label_array, restore_column

PLAIN: dict[str, Any] = {
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "Int128": pa.int64(),
    "UInt128": pa.uint64(),
    "Float16": pa.float32(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Boolean": pa.bool_(),
    "Null": pa.null(),
    "String": pa.large_string(),
    "Categorical": pa.large_string(),
    "Enum": pa.large_string(),
    "Date": pa.date32(),
    "Time": pa.time64("ns"),
}
MOMENT = re.compile(r"Datetime\((ms|us|ns)(?:, (.+))?\)")
DURATION = re.compile(r"Duration\((ms|us|ns)\)")
MOST_DIGITS = 38
"""Digits of the widest decimals that polars has."""
DECIMAL = re.compile(r"Decimal\((\d+), (\d+)\)")


def dtype_text(dtype: Any) -> str:
    """A polars dtype as text; of an Enum the name alone, never the categories."""
    name = str(dtype.base_type().__name__)
    if name == "Datetime":
        return f"Datetime({dtype.time_unit}{f', {dtype.time_zone}' if dtype.time_zone else ''})"
    if name == "Duration":
        return f"Duration({dtype.time_unit})"
    return f"Decimal({dtype.precision}, {dtype.scale})" if name == "Decimal" else name


def is_supported(text: str) -> bool:
    """Whether columns of this type can be encoded."""
    return _wide(text) is not None or text in PLAIN


def _wide(text: str) -> Any:
    """The Arrow type of a polars type with parameters; None for another."""
    if (found := DECIMAL.fullmatch(text)) and int(found[1]) <= MOST_DIGITS:
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := MOMENT.fullmatch(text):
        return pa.timestamp(found[1], found[2])
    return pa.duration(found[1]) if (found := DURATION.fullmatch(text)) else None


def series(
    codes: Codes, column: Column, rng: np.random.Generator, dtype: str | None, drawn: Any = None
) -> Any:
    """One column's values as a polars Series, of the type that `dtype_text` wrote."""
    wide = _wide(dtype or "")
    kind = wide if wide is not None else PLAIN.get(dtype or "")
    values: Any = pl.from_arrow(decode_column(codes, column, rng, kind, drawn))
    values = values.alias(column.name)
    if dtype == "Enum":
        return values.cast(pl.Enum(_entries(values, column, drawn is None)))
    return values if wide is not None or dtype is None else values.cast(getattr(pl, dtype))


def arrow_kind(dtype: str) -> Any:
    """The Arrow type of what `dtype_text` wrote; None where values stay in the storage form."""
    wide = _wide(dtype)
    # Whole numbers of 128 bits are float64 there, and int64 does not hold all of them.
    return wide if wide is not None or dtype in TYPES_READ_AS_FLOAT else PLAIN.get(dtype)


def restore_series(values: Any, dtype: str) -> Any:
    """Values that a table kept in the storage forms, as the polars Series that they came in.

    Args:
        values: An Arrow array, which is no dictionary.
        dtype: What `dtype_text` wrote; an Enum has the values in the order in which they come.
    """
    kind = arrow_kind(dtype)
    made: Any = pl.from_arrow(values if kind is None else restore_column(values, kind))
    if dtype == "Enum":
        return made.cast(pl.Enum(list(made.drop_nulls().unique(maintain_order=True))))
    # Not strict: the float64 nearest to a whole number at the end of 128 bits may lie beyond it.
    known = _wide(dtype) is None and dtype in PLAIN
    return made.cast(getattr(pl, dtype), strict=False) if known else made


def _entries(values: Any, column: Column, listed: bool) -> list[str]:
    """An Enum's categories: what the column lists; of other columns what was drawn."""
    if listed and isinstance(column, Listed) and not (column.grouped or column.other_shape):
        return list(dict.fromkeys(label_array(column, pa.large_string()).drop_null().to_pylist()))
    return list(values.drop_nulls().unique(maintain_order=True))


WIDE_INTEGERS = ("Int128", "UInt128")
"""Whole numbers of which float64 cannot tell all apart."""
TYPES_READ_AS_FLOAT = (*WIDE_INTEGERS, "Float16")
"""Types that Arrow or its kernels do not know: read as float64."""


def arrow_columns(frame: Any) -> tuple[list[Any], list[Any], list[str]]:
    """Names, Arrow arrays and dtype texts of a polars frame's columns. **Not private.**

    Raises:
        InputError: A column stores lists or other things that have no column kind.
    """
    dtypes = [dtype_text(column.dtype) for column in frame]
    for column, dtype in zip(frame, dtypes, strict=True):
        if not is_supported(dtype):
            raise forms.unsupported_column(column.name)
    return list(frame.columns), [_to_array(column) for column in frame], dtypes


def _to_array(column: Any) -> Any:
    dtype = dtype_text(column.dtype)
    if dtype in TYPES_READ_AS_FLOAT:
        column = column.cast(pl.Float64)
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())
