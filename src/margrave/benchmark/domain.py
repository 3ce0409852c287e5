"""What of a table is public, what methods have to find, what scores are by. **Not private**: off the rows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from margrave.schema import clock
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Date,
    Duration,
    Integer,
    Moment,
    Ordinal,
    Real,
    Time,
)
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OTHER", "merging_schema", "read_schema", "scoring_schema"]

MOST_TEXTS = 256
"""A text column with more values keeps the commonest of them, and one code for all others."""
OTHER = "(other)"
TEMPORAL: dict[str, type[Date] | type[Moment] | type[Time] | type[Duration]] = {
    "date": Date,
    "moment": Moment,
    "time": Time,
    "duration": Duration,
}


def read_schema(table: pa.Table, bins: int, cut: str = "equal") -> Schema:
    """The columns of a table with the values and ranges it holds. **Not private.**

    The rule of the papers: a column of numbers or times with more than `bins` distinct values goes to as
    many bins of equal width over [least, greatest]; one with fewer lists them in order; text lists what
    it holds.

    Args:
        table: In the storage forms, see `margrave.engines.frames.read_table`.
        bins: As above.
        cut: "equal" for bins of equal width, "quantile" for bins of like many rows.
    """
    columns = [_column(name, table.column(name), bins, cut) for name in table.column_names]
    return Schema(tuple(columns))


def merging_schema(schema: Schema, rare: float) -> Schema:
    """The same columns with rare bins of numbers and times left to discovery to merge; see `Binned`."""
    return schema.replace(
        [dataclasses.replace(column, rare=rare) for column in schema.columns if isinstance(column, Binned)]
    )


def scoring_schema(schema: Schema) -> Schema:
    """The same columns with a place for what they do not list: any method's rows encode under it."""
    columns: list[Column] = []
    for column in schema.columns:
        wider = dataclasses.replace(column, missing=True, strict=False)
        if isinstance(wider, (Categorical, Ordinal)) and wider.other is None:
            wider = dataclasses.replace(wider, other=OTHER)
        columns.append(wider)
    return Schema(tuple(columns))


def _column(name: str, array: Any, bins: int, cut: str) -> Column:
    kind, missing = array.type, bool(array.null_count > 0)
    if pa.types.is_boolean(kind):
        return Boolean(name=name, missing=missing, strict=False)
    if clock.is_temporal(kind):
        values = _distinct(clock.ticks(_whole(array)))
        low, high = (min(values), max(values)) if values else (0, 1)
        made = TEMPORAL[clock.meaning(kind)]
        return made(name=name, lower=low, upper=high, bins=bins, missing=missing, strict=False)
    if pa.types.is_dictionary(kind):
        return _listed(name, array, missing)
    values = _distinct(array)
    if 0 < len(values) <= bins:
        return Ordinal(name=name, values=tuple(values), missing=missing, strict=False)
    number = Integer if pa.types.is_integer(kind) else Real
    if values and cut == "quantile":
        edges = _quantiles(array, bins, number is Integer)
        return number(name=name, edges=edges, missing=missing, strict=False)
    low, high = (values[0], values[-1]) if values else (0, 1)
    return number(name=name, lower=low, upper=high, bins=bins, missing=missing, strict=False)


def _whole(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _distinct(array: Any) -> Sequence[Any]:
    return sorted(pc.unique(pc.drop_null(array)).to_pylist())


def _quantiles(array: Any, bins: int, whole: bool) -> tuple[float, ...]:
    """Edges between which like many rows lie; fewer than asked for where many rows hold one value."""
    values = np.asarray(pc.drop_null(array).to_numpy(), dtype=np.float64)
    cuts = np.quantile(values, np.linspace(0, 1, bins + 1))
    if whole:
        cuts = np.append(np.floor(cuts[:-1]), np.floor(cuts[-1]) + 1)
    return tuple(np.unique(cuts).tolist())


def _listed(name: str, array: Any, missing: bool) -> Column:
    counted = pc.value_counts(pc.drop_null(array.cast(pa.string()))).to_pylist()
    ranked = sorted(counted, key=lambda entry: (-entry["counts"], entry["values"]))
    kept = sorted(entry["values"] for entry in ranked[:MOST_TEXTS])
    other = OTHER if len(ranked) > MOST_TEXTS or not kept else None
    return Categorical(name=name, values=tuple(kept), other=other, missing=missing, strict=False)
