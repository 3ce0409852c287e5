"""Cells of text files in a declared format: into the form that is read, and out again.

Reading looks at each cell on its own, so it changes no count by more than the cell's own row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from margrave.schema import iso, storage
from margrave.schema.text_format import TextFormat

__all__ = ["read_cells", "write_cells"]


def read_cells(distinct: Any, name: str, text: TextFormat) -> Any:
    """Texts with numbers and dates in their usual form. **Not private.**

    Args:
        distinct: An Arrow array of the different texts of a column, nulls included, shape [texts].
        name: The column.
        text: The format of the file.

    Returns:
        An Arrow array of shape [texts], in the same order; two texts may have become one.
    """
    if text.plain_cells or text.is_text(name) or not len(distinct):
        return distinct
    filled = pc.fill_null(distinct.cast(pa.large_string()), "")
    found, sound = text.number(name).read(filled)
    dates = text.date(name)
    if dates is not None:
        dated, known = dates.read(filled)
        found = pc.if_else(pc.and_(known, pc.invert(sound)), dated, found)
    return pc.if_else(pc.is_null(distinct), None, found)


def write_cells(table: Any, text: TextFormat) -> Any:
    """A table with its numbers and dates as text in the format of a file.

    Args:
        table: An Arrow table. Moments and times of day are text in ISO form already.
        text: The format of the file.
    """
    if text.plain_cells:
        return table
    columns = [
        _write_column(column, name, text)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def _write_column(column: Any, name: str, text: TextFormat) -> Any:
    kind = column.type
    if text.is_text(name) or pa.types.is_boolean(kind) or pa.types.is_duration(kind):
        return column
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if numeric and name not in text.columns and (text.decimal == "." or pa.types.is_integer(kind)):
        return column
    coded = pa.chunked_array(column).combine_chunks() if isinstance(column, list) else _one_array(column)
    coded = coded if pa.types.is_dictionary(kind) else coded.dictionary_encode()
    if numeric:
        written = _write_all(_number_texts(coded.dictionary), text.number(name).write)
    else:
        written = _write_texts(coded.dictionary.cast(pa.large_string()), name, text)
    return pa.DictionaryArray.from_arrays(coded.indices, written).cast(pa.large_string())


def _one_array(column: Any) -> Any:
    combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _number_texts(values: Any) -> Any:
    """Numbers in their usual form, without exponents where decimals write them in full."""
    if pa.types.is_floating(values.type):
        return storage.number_texts(values.cast(pa.float64()))
    return values.cast(pa.string())


def _write_texts(distinct: Any, name: str, text: TextFormat) -> Any:
    """Texts, of which those that are numbers with decimals or dates are written as numbers and dates."""
    result = distinct.to_pylist()
    dates, number = text.date(name), text.number(name)
    if dates is not None:
        for read in (iso.dates, iso.moments):
            for place in read(pc.fill_null(distinct, ""))[1].nonzero()[0].tolist():
                result[place] = dates.write(result[place])
    own = name in text.columns
    for place, value in enumerate(distinct.to_pylist()):
        if value is not None and storage.number_of(value) is not None and (own or "." in value):
            result[place] = number.write(value)
    return pa.array(result, pa.large_string())


def _write_all(texts: Any, write: Callable[[str], str]) -> Any:
    return pa.array(
        [None if value is None else write(value) for value in texts.to_pylist()], pa.large_string()
    )
