"""pandas frames as Arrow columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from margrave.errors import InputError, invalid
from margrave.schema.storage.pandas import dtype_text


def name_by_text(frame: Any) -> Any:
    """The frame with columns that are named by whole numbers, as without a header, named by their text."""
    names = [str(name) if _is_whole(name) else name for name in frame.columns]
    return frame if names == list(frame.columns) else frame.set_axis(names, axis=1)


def _is_whole(name: object) -> bool:
    return isinstance(name, int | np.integer) and not isinstance(name, bool)


def arrow_columns(frame: Any) -> tuple[list[Any], list[Any], list[str]]:
    """Names, Arrow arrays and dtype texts of a pandas frame's columns. **Not private.**

    What an object column means is its storage type, so it is text whatever its values are: they are
    turned into text one by one, None and NaN into missing.

    Raises:
        InputError: A column stores intervals, bytes or other things that have no column kind.
    """
    names = list(frame.columns)
    arrays = [_to_readable(frame.iloc[:, index], name) for index, name in enumerate(names)]
    return names, arrays, [dtype_text(dtype) for dtype in frame.dtypes]


def _to_readable(column: Any, name: Any) -> Any:
    """The column as Arrow; what Arrow says of a value it cannot read would quote it, so it is not chained."""
    try:
        return _to_array(column, name)
    except (pa.ArrowException, UnicodeError, OverflowError):
        pass
    raise InputError(invalid(f"column {name!r}", "text in valid Unicode", "Clean or drop the column."))


def _to_array(column: Any, name: Any) -> Any:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        entries = _to_array(pd.Series(dtype.categories), name)
        codes = column.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), entries)
    if pd.api.types.is_object_dtype(dtype):
        return _to_texts(column, name)
    if isinstance(dtype, (pd.StringDtype, pd.ArrowDtype)) or dtype.kind in "biufmM":
        if isinstance(dtype, pd.SparseDtype):
            column = column.sparse.to_dense()
        return pa.array(column, from_pandas=True)
    raise InputError(
        invalid(
            f"column {name!r}",
            "made of numbers, truth values, text, dates or times",
            "Cast it to text or numbers, or drop the column.",
        )
    )


def _to_texts(column: Any, name: Any) -> Any:
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "empty":
        return pa.nulls(len(column), pa.large_string())
    if kind == "string":
        return pa.array(column, pa.large_string(), from_pandas=True)
    values = column.to_numpy()
    absent = pd.isna(values)
    if any(isinstance(value, (bytes, bytearray, memoryview)) for value in values):
        raise InputError(invalid(f"column {name!r}", "text, not bytes", "Decode it, or drop the column."))
    entries = [None if gone else str(value) for gone, value in zip(absent, values, strict=True)]
    return pa.array(entries, pa.large_string())
