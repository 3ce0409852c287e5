"""Given: values that sampled rows must have, for all of them or in a table, as codes and numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.columns import Binned, Column, Listed, Relative
from margrave.schema.encode import encode_column, likeliest
from margrave.schema.encoded import Codes
from margrave.schema.looks import readings
from margrave.schema.relative import relative_codes
from margrave.schema.schema import Schema

__all__ = ["Given", "given_values"]


@dataclass(frozen=True, slots=True)
class Given:
    """What sampled rows are conditioned on.

    Args:
        rows: How many rows a table of given values has; None for values that hold for all rows.
        codes: By attribute: one code, or one a row.
        numbers: The numbers of binned columns by name, one or one a row, NaN where missing.
    """

    rows: int | None
    codes: Mapping[str, int | Codes]
    numbers: Mapping[str, NDArray[np.float64]]

    def spread(self, rows: int) -> dict[str, NDArray[np.float64]]:
        """The numbers, one a row."""
        return {name: np.broadcast_to(numbers, rows) for name, numbers in self.numbers.items()}


def given_values(schema: Schema, given: Any) -> Given:
    """The codes and numbers of given values.

    Args:
        schema: The columns, all known.
        given: A mapping of column names to values, None for a missing one; or an Arrow table with some of the
            columns; or None.

    Raises:
        SchemaError: There is no such column.
        InputError: It is an identifier, or a value is none that the column can have.
    """
    if given is None or isinstance(given, Mapping):
        return _alike(schema, given or {})
    table = given
    codes: dict[str, int | Codes] = {}
    numbers = {}
    for name in table.column_names:
        column = _column(schema, name)
        array = table.column(name)
        base = table.column(_base(column, table.column_names)) if isinstance(column, Relative) else None
        try:
            codes[name] = _coded(array, column, base)
            if isinstance(column, Binned | Relative):
                numbers[name] = _numbers(array, column)
            continue
        except (InputError, pa.ArrowException, TypeError):
            pass
        asked = f"values of the column in {name!r}"
        raise InputError(invalid("given", asked, f"Look at schema[{name!r}]."))
    return Given(table.num_rows, codes, numbers)


def _alike(schema: Schema, given: Mapping[str, Any]) -> Given:
    codes: dict[str, int | Codes] = {}
    numbers = {}
    for name, value in given.items():
        column = _column(schema, name)
        beside = given[_base(column, list(given))] if isinstance(column, Relative) else None
        try:
            array, base = pa.array([value]), pa.array([beside])
            codes[name] = int(_coded(array, column, base)[0])
            if isinstance(column, Binned | Relative):
                numbers[name] = _numbers(array, column)[:1].reshape(())
            continue
        except (InputError, pa.ArrowException, TypeError):
            pass
        remedy = f"Look at schema[{name!r}]."
        raise InputError(invalid(f"given[{name!r}]", "a value of the column", remedy, got=value))
    return Given(None, codes, numbers)


def _column(schema: Schema, name: str) -> Column:
    """The column of a name.

    Raises:
        SchemaError: There is none.
        InputError: It is an identifier.
    """
    column = schema[name]
    if not column.attribute:
        remedy = "Identifiers are made anew."
        raise InputError(invalid("given", "about columns that are modelled", remedy, got=name))
    return column


def _base(column: Relative, names: Sequence[str]) -> str:
    """The base of a column that is relative to it, found among the given ones.

    Raises:
        InputError: It is not given: without it, nothing says which difference the value is.
    """
    if column.base not in names:
        remedy = f"Give {column.base!r} as well: {column.name!r} is modelled by how it differs from that."
        raise InputError(invalid("given", f"with {column.base!r}", remedy, got=list(names)))
    return column.base


def _coded(array: Any, column: Column, base: Any = None) -> Codes:
    """Codes of given values; a value of no code of its own is refused. A relative column needs its base's."""
    if isinstance(column, Relative):
        if column.missing_code is None and pc.sum(pc.is_null(array, nan_is_null=True)).as_py():
            raise InputError(invalid("given", "without missing values", "Leave the column out."))
        encode_column(array, dataclasses.replace(column.own, strict=True, missing=True))
        return relative_codes(array, base, column, likeliest(column.part))
    codes = encode_column(array, dataclasses.replace(column, strict=True))
    if column.missing_code is None and pc.sum(pc.is_null(array, nan_is_null=True)).as_py():
        raise InputError(invalid("given", "without missing values", "Leave the column out."))
    if isinstance(column, Listed) and column.other_code is not None:
        rest = np.flatnonzero((codes >= len(column.values or ())) & (codes <= column.other_code))
        if len(rest) and not all(value == column.other for value in array.take(pa.array(rest)).to_pylist()):
            raise InputError(invalid("given", "a listed value", "Use the label of the others."))
    return codes


def _numbers(array: Any, column: Binned | Relative) -> NDArray[np.float64]:
    read = column.own.read if isinstance(column, Relative) else column.read
    values, known = readings(array, read, column.name)
    return np.where(known, np.asarray(values, dtype=np.float64), np.nan)
