"""polars frames as Arrow columns."""

from __future__ import annotations

from typing import Any

import polars as pl

from margrave.errors import InputError, invalid
from margrave.schema.storage.polars import dtype_text, is_supported

TYPES_READ_AS_FLOAT = ("Int128", "UInt128", "Float16")
"""Types that Arrow or its kernels do not know: read as float64."""


def arrow_columns(frame: Any) -> tuple[list[Any], list[Any], list[str]]:
    """Names, Arrow arrays and dtype texts of a polars frame's columns. **Not private.**

    Raises:
        InputError: A column stores lists or other things that have no column kind.
    """
    dtypes = [dtype_text(column.dtype) for column in frame]
    for column, dtype in zip(frame, dtypes, strict=True):
        if not is_supported(dtype):
            raise InputError(
                invalid(
                    f"column {column.name!r}",
                    "made of numbers, truth values, text, dates or times",
                    "Cast it to text or numbers, or drop the column.",
                )
            )
    return list(frame.columns), [_to_array(column) for column in frame], dtypes


def _to_array(column: Any) -> Any:
    dtype = dtype_text(column.dtype)
    if dtype in TYPES_READ_AS_FLOAT:
        column = column.cast(pl.Float64)
    return column.to_arrow(compat_level=pl.CompatLevel.oldest())
