"""pandas frames: their storage types by name, their columns as Arrow arrays, and decoding into them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from margrave.errors import InputError, invalid
from margrave.schema.columns import Column, Listed
from margrave.schema.encoded import Codes
from margrave.schema.storage import forms
from margrave.schema.storage.arrow import (
    arrow_type,
    decode_column,
    label_array,
    restore_column,
    type_text,
)

CATEGORY = re.compile(r"category\[(.+)\]")
ARROW = re.compile(r"arrow\[(.+)\]")
MOMENT = re.compile(r"datetime64\[(s|ms|us|ns)(?:, (.+))?\]")
DURATION = re.compile(r"timedelta64\[(s|ms|us|ns)\]")
SPARSE = re.compile(r"Sparse\[(\w+)(?:, .+)?\]")
NUMERIC = re.compile(r"u?int\d+|float\d+|bool")


def dtype_text(dtype: Any) -> str:
    """A pandas dtype as text; of a categorical the type of its categories, never the categories, and of a
    sparse one that of its values, never the value that is left out: it may be the one that most rows have."""
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category[{dtype_text(dtype.categories.dtype)}]"
    if isinstance(dtype, pd.SparseDtype):
        return f"Sparse[{dtype.subtype}]"
    if isinstance(dtype, pd.ArrowDtype):
        return f"arrow[{type_text(dtype.pyarrow_dtype)}]"
    if isinstance(dtype, pd.StringDtype) and str(dtype) == "string":
        return f"string[{dtype.storage}]"
    return str(dtype)


def series(
    codes: Codes, column: Column, rng: np.random.Generator, dtype: str | None, drawn: Any = None
) -> Any:
    """One column's values as a pandas Series.

    Args:
        codes: Codes of the column, shape [rows].
        column: A known column.
        rng: Draws the numbers inside the bins.
        dtype: What `dtype_text` wrote. A type without missing values gives way to its nullable twin
            ("int64" to "Int64", "bool" to "boolean") where the column's declaration allows them. So does a
            sparse one, which else leaves out what pandas does by default: zeros, false or NaN.
        drawn: The numbers, if they were drawn before.
    """
    if dtype is not None and (found := SPARSE.fullmatch(dtype)):
        return _sparse(series(codes, column, rng, found[1], drawn), dtype)
    if dtype is not None and (found := CATEGORY.fullmatch(dtype)):
        return _category(codes, column, rng, found[1], drawn)
    return _plain_series(codes, column, rng, dtype, drawn)


def _sparse(dense: Any, dtype: str) -> Any:
    """A Series as a sparse type; a nullable twin as it is."""
    return dense.astype(dtype) if f"Sparse[{dense.dtype.name}]" == dtype else dense


def _plain_series(
    codes: Codes, column: Column, rng: np.random.Generator, dtype: str | None, drawn: Any
) -> Any:
    values = decode_column(codes, column, rng, _arrow(dtype), drawn)
    if dtype is None:
        return values.to_pandas()
    if dtype == "object":
        return pd.Series(values.to_pylist(), dtype=object)
    if MOMENT.fullmatch(dtype) or DURATION.fullmatch(dtype):
        return pd.Series(values.to_pandas()).astype(dtype)
    if dtype.startswith("float"):
        return pd.Series(values.to_numpy(zero_copy_only=False))
    if NUMERIC.fullmatch(dtype):
        if not _nullable(column, values.type):
            return pd.Series(values.to_numpy(zero_copy_only=False))
        dtype = "boolean" if dtype == "bool" else dtype.replace("uint", "UInt").replace("int", "Int")
    if ARROW.fullmatch(dtype):
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([values])))
    kind: Any = pd.api.types.pandas_dtype(dtype)
    if not hasattr(kind, "__from_arrow__"):  # "str" of pandas 3 in pandas 2, which keeps text as objects
        return pd.Series(values.to_pylist(), dtype=object)
    return pd.Series(kind.__from_arrow__(values))


def _arrow(dtype: str | None) -> Any:
    """The Arrow type whose values a pandas type is made from; None for object, which holds anything."""
    if dtype is None or dtype == "object":
        return None
    if found := MOMENT.fullmatch(dtype):
        return pa.timestamp(found[1], found[2])
    if found := DURATION.fullmatch(dtype):
        return pa.duration(found[1])
    if found := ARROW.fullmatch(dtype):
        return arrow_type(found[1])
    if dtype.lower() in ("bool", "boolean"):
        return pa.bool_()
    if NUMERIC.fullmatch(dtype.lower()):
        return pa.from_numpy_dtype(np.dtype(dtype.lower()))
    return pa.large_string()


def arrow_kind(dtype: str) -> Any:
    """The Arrow type of what `dtype_text` wrote; None where values stay in the storage form, as texts do."""
    if found := CATEGORY.fullmatch(dtype) or SPARSE.fullmatch(dtype):
        return arrow_kind(found[1])
    kind = _arrow(dtype)
    return None if kind is None or (forms.is_text_type(kind) and not ARROW.fullmatch(dtype)) else kind


def restore_series(values: Any, dtype: str) -> Any:
    """Values that a table kept in the storage forms, as the pandas Series that they came in.

    Categories are those of the values, in their order; of numbers that cannot be missing, where one is, the
    nullable twin.

    Args:
        values: An Arrow array, which is no dictionary.
        dtype: What `dtype_text` wrote.
    """
    if found := SPARSE.fullmatch(dtype):
        return _sparse(restore_series(values, found[1]), dtype)
    kind = arrow_kind(dtype)
    if found := CATEGORY.fullmatch(dtype):
        coded = values.dictionary_encode()
        codes = np.asarray(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
        made = pd.Categorical.from_codes(codes, pd.Index(restore_series(coded.dictionary, found[1])))
        return pd.Series(made.reorder_categories(made.categories.sort_values()))
    values = values if kind is None else restore_column(values, kind)
    if ARROW.fullmatch(dtype):
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([values])))
    # By way of a Series missing text would be NaN, where drawn columns of objects have None.
    if dtype == "object":
        return pd.Series(values.to_pylist(), dtype=object)
    if values.null_count and NUMERIC.fullmatch(dtype) and not dtype.startswith("float"):
        dtype = "boolean" if dtype == "bool" else dtype.replace("uint", "UInt").replace("int", "Int")
    if not dtype:
        return values.to_pandas()
    wanted: Any = pd.api.types.pandas_dtype(dtype)
    if kind is not None and hasattr(wanted, "__from_arrow__"):
        return pd.Series(wanted.__from_arrow__(values))
    found_series = pd.Series(values.to_pandas())
    return found_series if str(found_series.dtype) == dtype else found_series.astype(wanted)


def _nullable(column: Column, kind: Any) -> bool:
    """Whether decoding can give nulls: by declaration, not by the rows that were drawn."""
    if isinstance(column, Listed):
        return bool(label_array(column, kind).null_count)
    return bool(column.missing)


def _category(codes: Codes, column: Column, rng: np.random.Generator, inner: str, drawn: Any) -> Any:
    kind = _arrow(inner)
    if drawn is not None or not isinstance(column, Listed) or column.grouped or column.other_shape:
        return pd.Series(pd.Categorical(decode_column(codes, column, rng, kind, drawn).to_pandas()))
    coded = label_array(column, kind).dictionary_encode()
    lookup = np.asarray(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
    categories = pd.Index(coded.dictionary.to_pylist(), dtype=inner)
    return pd.Series(
        pd.Categorical.from_codes(lookup[codes], categories=categories, ordered=column.ordered > 0)
    )


def name_by_text(frame: Any) -> Any:
    """The frame with columns that are named by whole numbers, as without a header, named by their text."""
    names = [str(name) if _is_whole(name) else name for name in frame.columns]
    return frame if names == list(frame.columns) else frame.set_axis(names, axis=1)


def without_rows(frame: Any) -> Any:
    """The frame with its names and storage types and nothing of its rows: categories follow from rows too."""
    empty = frame.iloc[:0].copy()
    for place, dtype in enumerate(frame.dtypes):
        if isinstance(dtype, pd.CategoricalDtype):
            values: Any = pd.Categorical([], dtype=pd.CategoricalDtype(dtype.categories[:0], dtype.ordered))
        elif isinstance(dtype, pd.ArrowDtype):  # a dictionary's values would stay behind
            values = pd.arrays.ArrowExtensionArray(pa.chunked_array([], dtype.pyarrow_dtype))
        else:
            continue
        empty.isetitem(place, pd.Series(values, index=empty.index))
    return empty


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
    """The column as Arrow; what is said of a value that cannot be read would quote it, so it is not chained.

    An object may be of any class, whose code writes its text and may raise anything.
    """
    try:
        return _to_array(column, name)
    except (InputError, MemoryError):
        raise
    except Exception:  # noqa: S110
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
    raise forms.unsupported_column(name)


def _to_texts(column: Any, name: Any) -> Any:
    values = column.to_numpy()
    absent = pd.isna(values)
    if pd.api.types.infer_dtype(column, skipna=True) == "string":
        # The same as below at a tenth of the time: Arrow too takes the text of a text, whatever its class.
        # What is missing is said, as Arrow knows not all that pandas takes for it, such as a short float.
        return pa.array(values, pa.large_string(), mask=absent)
    if any(isinstance(value, (bytes, bytearray, memoryview)) for value in values):
        raise InputError(invalid(f"column {name!r}", "text, not bytes", "Decode it, or drop the column."))
    entries = [None if gone else _spell(value) for gone, value in zip(absent, values, strict=True)]
    return pa.array(entries, pa.large_string())


def _spell(value: Any) -> str:
    """The text of one object, whatever the others are: a text of any class is its own, not what it says."""
    return str.__str__(value) if isinstance(value, str) else str(value)
