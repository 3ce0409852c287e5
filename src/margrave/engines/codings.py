"""Columns of an ibis table as codes: what `schema.encode.encode_column` does, as expressions. Not private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.engines.expressions import ODD, Stored, interval, number
from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.columns import Binned, Column, Listed, Relative, Whole
from margrave.schema.encode import encode_column, likeliest

__all__ = ["Coding", "coding"]

FEW = 48
"""Most values that are told apart by a chain of comparisons; more are joined."""

Distinct = Callable[[str], tuple[Any, NDArray[np.int64]]]
"""Gives the distinct values of a column as an Arrow array, null among them, and their rows."""

FAULTS = {
    "whole": ("made of whole numbers", "Declare it as real."),
    "bounds": ("within its declared bounds", "Widen lower and upper."),
    "unseen": ("within its declared values", "Declare every value, or an `other` label."),
    "missing": ("without missing values", "Declare missing=True, or fill them in."),
}
"""What a strict column may rule out, in the order in which it is looked for, and what to say."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How a column is encoded.

    Args:
        column: Its declaration.
        code: The expression of its codes, int32 and never null; None if they are looked up.
        faults: Truths that no row of a strict column may have, by their key in FAULTS.
        stored: The storage form of what is looked up.
        keys: Its values, an Arrow array without repeats, and `codes`, their codes, both of shape [values].
        absent: The code of a null.
        unseen: The code of a value that is not among the keys.
    """

    column: Column
    code: Any
    faults: dict[str, Any]
    stored: Stored | None = None
    keys: Any = None
    codes: NDArray[np.int64] | None = None
    absent: int = 0
    unseen: int = 0

    def refuse(self, fault: str) -> InputError:
        """The error for a fault that occurs."""
        constraint, remedy = FAULTS[fault]
        return InputError(invalid(f"column {self.column.name!r}", constraint, remedy))


def coding(column: Column, stored: Stored, distinct: Distinct) -> Coding:
    """How to encode a column of known kind.

    Numbers are cut by comparisons and declared texts found by their spelling, both in the backend. Where the
    rules are longer (text that has to be read as numbers, numbers that are listed) the column's distinct
    values are fetched, encoded here, and their codes joined.

    Args:
        column: The declaration.
        stored: The column's storage form; of a relative column its codes.
        distinct: Fetches distinct values.

    Raises:
        InputError: The column is strict and one of its distinct values is ruled out.
        SchemaError: The column is not known yet.
    """
    if isinstance(column, Relative):
        return Coding(column, stored.value.cast("int32"), {})
    if not column.known or not isinstance(column, (Binned, Listed)):
        what = f"column {column.name!r}"
        raise SchemaError(invalid(what, "known before it is encoded", "Declare it or discover it."))
    other = column.other_code if isinstance(column, Listed) else None
    fallback = likeliest(column) if other is None else other
    absent = fallback if column.missing_code is None else column.missing_code
    if isinstance(column, Binned):
        if stored.form == "text":
            return _looked_up(column, stored, distinct, absent)
        return _binned(column, stored.reading(column.read), absent)
    values = column.values or ()
    if stored.form == "text" and not column.stems and all(isinstance(value, str) for value in values):
        faults = _faults(column, stored)
        if "unseen" in faults:
            named = [stored.literal(value) for value in values]
            faults["unseen"] = (
                stored.value.notnull() & ~stored.value.isin(named) if named else stored.value.notnull()
            )
        keys = pa.array(list(values), pa.string())
        codes = np.arange(len(values), dtype=np.int64)
        return _by_key(Coding(column, None, faults, stored, keys, codes, absent, fallback))
    return _looked_up(column, stored, distinct, absent)


def _faults(column: Listed, stored: Stored) -> dict[str, Any]:
    faults: dict[str, Any] = {}
    if column.strict and column.other is None:
        faults["unseen"] = None
    if column.strict and column.missing_code is None:
        faults["missing"] = stored.value.isnull()
    return faults


def _binned(column: Binned, stored: Stored, absent: int) -> Coding:
    edges: Any = column.edge_array
    if isinstance(column, Whole) and bool((np.abs(edges) < float(1 << 62)).all()):
        edges = np.asarray(column.edges, dtype=np.int64)
    codes = interval(stored, edges[1:-1], range(column.present))
    faults: dict[str, Any] = {}
    if column.strict:
        if stored.form == "float" and isinstance(column, Whole):
            small = ibis.ifelse(stored.value.abs() < ODD, stored.value, 0.0)
            faults["whole"] = small != small.floor().cast("float64")
        faults["bounds"] = _outside(column, stored, edges)
        if column.missing_code is None:
            faults["missing"] = stored.value.isnull()
    return Coding(column, ibis.coalesce(codes, ibis.literal(absent, type="int32")), faults)


def _outside(column: Binned, stored: Stored, edges: Any) -> Any:
    exact = stored.form == "int" and edges.dtype.kind == "i"
    value = stored.value if exact else stored.number
    ends = edges[0].item(), edges[-1].item()
    low, high = (ibis.literal(end, type="int64") if exact else number(end) for end in ends)
    return (value < low) | ((value >= high) if isinstance(column, Whole) else (value > high))


def _looked_up(column: Column, stored: Stored, distinct: Distinct, absent: int) -> Coding:
    """By the codes of the distinct values, found here."""
    values, _ = distinct(column.name)
    codes = encode_column(stored.arrow(values), column).astype(np.int64)
    held = values.is_valid()
    kept = np.asarray(held.to_numpy(zero_copy_only=False), dtype=np.bool_)
    keys = values.filter(held)
    if stored.form == "text":
        keys = keys.cast(pa.string())
    return _by_key(Coding(column, None, {}, stored, keys, codes[kept], absent, absent))


def _by_key(found: Coding) -> Coding:
    """With comparisons where the keys are few."""
    if len(found.keys) > FEW or found.codes is None or found.stored is None:
        return found
    value = found.stored.value
    cases = [
        (found.stored.literal(key), ibis.literal(place, type="int32"))
        for key, place in zip(found.keys.to_pylist(), found.codes.tolist(), strict=True)
    ]
    code = ibis.literal(found.unseen, type="int32")
    if cases:
        code = value.cases(*cases, else_=code)  # the value once, not once a key
    code = ibis.ifelse(value.isnull(), ibis.literal(found.absent, type="int32"), code)
    return Coding(found.column, code, found.faults)
