"""decode: codes back to a table with the names, order and storage types that went in."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.errors import MissingExtraError, SchemaError, invalid
from margrave.schema.columns import Boolean, Column, Integer, Moment, Omitted, Real, Relative, Time
from margrave.schema.constraints.draws import agreed_numbers, relative_numbers
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema
from margrave.schema.storage.arrow import arrow_type, decode_column

SPELT_KINDS = (Boolean, Integer, Moment, Real, Time)
"""Kinds of columns that have a spelling."""


def decode(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    frame: Frame | None = None,
    known: Mapping[str, NDArray[np.float64]] | None = None,
) -> Any:
    """The rows that codes stand for, as the kind of table that went in.

    A listed value decodes to itself, `other` to its label (null where the storage type cannot hold the
    label), missing to null. A bin decodes to a number drawn in it: first a fine cell by weight, where
    the column knows them, then evenly inside, on one of the column's grids where it has some. Identifiers
    get new keys, and omitted columns are left out.

    Args:
        encoded: The rows, under the schema's domain.
        schema: The schema they were encoded or fitted with.
        rng: Draws the numbers inside the bins.
        frame: Library, storage types and order of the columns; an Arrow table with the types that the
            column kinds suggest when None.
        known: Numbers by column that are not to be drawn, NaN where they are, each of shape [rows].

    Returns:
        A pandas or polars DataFrame, or a pyarrow.Table.

    Raises:
        SchemaError: The codes belong to another domain, or break the schema's rules.
        MissingExtraError: The library of the table that went in is not installed.

    Example:
        >>> schema = Schema.from_sizes({"a": 2})
        >>> rows = Encoded(schema.domain, (np.array([1, 0], dtype=np.uint8),))
        >>> decode(rows, schema, np.random.default_rng(0)).to_pydict()
        {'a': [1, 0]}
    """
    if encoded.domain != schema.domain:
        raise SchemaError(invalid("encoded", "under the schema's domain", "Decode with the schema it has."))
    library, frame = _library((frame or Frame()).kind), frame or Frame()
    table = _table(encoded, schema, rng, frame, known or {})
    return _arrow_table(table, schema) if frame.kind == "arrow" else library.DataFrame(table)


def _arrow_table(table: Mapping[str, Any], schema: Schema) -> Any:
    fields = [_field(schema[name], values.type) for name, values in table.items()]
    return pa.table(list(table.values()), schema=pa.schema(fields))


def _field(column: Column, kind: Any) -> Any:
    """The Arrow field of a column; its metadata say how values are written in text files."""
    column = column.own if isinstance(column, Relative) else column
    plain = "true" if isinstance(column, Boolean) else ""
    spelling = (column.spelling or "") if isinstance(column, SPELT_KINDS) else ""
    told = {"spelling": spelling} if spelling != plain else {}
    told |= {"missing": column.mark} if column.mark else {}
    return pa.field(column.name, kind, metadata=told or None)


def _table(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    frame: Frame,
    known: Mapping[str, NDArray[np.float64]],
) -> dict[str, Any]:
    """Columns in the frame's order; drawn in the schema's, so that the frame's order changes no value."""
    rows = np.zeros(encoded.rows, dtype=np.uint8)
    numbers = agreed_numbers(encoded, schema, frame.dtypes, rng, known)
    linked = relative_numbers(encoded, schema, frame.dtypes, rng, numbers, known)
    table = {}
    for column in schema.columns:
        if isinstance(column, Omitted):
            continue
        codes = encoded.column(column.name) if column.attribute else rows
        drawn = numbers.get(column.name)
        if column.name in linked:
            drawn = linked[column.name].numbers
        # What was modelled is the difference to another column; the number itself stands now, so it is
        # written like any column of its own kind.
        if isinstance(column, Relative):
            absent = linked[column.name].absent
            column = dataclasses.replace(column.own, missing=column.missing)
            codes = np.where(absent, column.present, 0).astype(np.uint32)
        table[column.name] = _values(codes, column, rng, frame, drawn)
    # The frame's columns in its own order, and then those that it did not have.
    names = [name for name in frame.dtypes if name in table]
    names += [name for name in table if name not in frame.dtypes]
    return {name: table[name] for name in names}


def _library(kind: str) -> Any:
    if kind == "arrow":
        return pa
    try:
        return importlib.import_module(kind)
    except ImportError:
        raise MissingExtraError(
            invalid(kind, "installed to make its tables", f"Run: pip install 'margrave[{kind}]'")
        ) from None


def _values(codes: Codes, column: Column, rng: np.random.Generator, frame: Frame, drawn: Any) -> Any:
    dtype = frame.dtypes.get(column.name)
    if frame.kind == "arrow":
        return decode_column(codes, column, rng, arrow_type(dtype), drawn)
    module = importlib.import_module(f"margrave.schema.storage.{frame.kind}")
    return module.series(codes, column, rng, dtype, drawn)
