"""decode: codes back to a table with the names, order and storage types that went in."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pyarrow as pa

from margrave.errors import MissingExtraError, SchemaError, invalid
from margrave.schema.arrow_types import arrow_type, decode_column
from margrave.schema.columns import Column
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema

__all__ = ["decode"]


def decode(encoded: Encoded, schema: Schema, rng: np.random.Generator, frame: Frame | None = None) -> Any:
    """The rows that codes stand for, as the kind of table that went in.

    A listed value decodes to itself, `other` to its label (null where the storage type cannot hold the
    label), missing to null. A bin decodes to a number drawn in it: first a fine cell by weight, where
    the column knows them, then evenly inside.

    Args:
        encoded: The rows, under the schema's domain.
        schema: The schema they were encoded or fitted with.
        rng: Draws the numbers inside the bins.
        frame: Library, storage types and order of the columns; an Arrow table with the types that the
            column kinds suggest when None.

    Returns:
        A pandas or polars DataFrame, or a pyarrow.Table.

    Raises:
        SchemaError: The codes belong to another domain.
        MissingExtraError: The library of the table that went in is not installed.

    Example:
        >>> schema = Schema.from_sizes({"a": 2})
        >>> rows = Encoded(schema.domain, (np.array([1, 0], dtype=np.uint8),))
        >>> decode(rows, schema, np.random.default_rng(0)).to_pydict()
        {'a': [1, 0]}
    """
    if encoded.domain != schema.domain:
        raise SchemaError(invalid("encoded", "under the schema's domain", "Decode with the schema it has."))
    frame = frame or Frame()
    library = _library(frame.kind)
    # Drawn in the schema's order, so that the order of the columns in the frame changes no value.
    table = {
        column.name: _values(encoded.column(column.name), column, rng, frame) for column in schema.columns
    }
    names = [name for name in frame.dtypes if name in table]
    names += [name for name in schema.names if name not in frame.dtypes]
    if frame.kind == "arrow":
        return pa.table({name: table[name] for name in names})
    return library.DataFrame({name: table[name] for name in names})


def _library(kind: str) -> Any:
    if kind == "arrow":
        return pa
    try:
        return importlib.import_module(kind)
    except ImportError:
        raise MissingExtraError(
            invalid(kind, "installed to make its tables", f"Run: pip install 'margrave[{kind}]'")
        ) from None


def _values(codes: Codes, column: Column, rng: np.random.Generator, frame: Frame) -> Any:
    dtype = frame.dtypes.get(column.name)
    if frame.kind == "arrow":
        return decode_column(codes, column, rng, arrow_type(dtype))
    module = importlib.import_module(f"margrave.schema.{frame.kind}_types")
    return module.series(codes, column, rng, dtype)
