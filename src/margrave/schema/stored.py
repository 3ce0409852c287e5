"""What the storage of a column says about it: public, nothing is read from the rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from margrave.schema import clock
from margrave.schema.columns import (
    Boolean,
    Column,
    Date,
    Duration,
    Integer,
    Moment,
    Real,
    Time,
    Unknown,
)

__all__ = ["stored_column"]

MOST_DIGITS = 9
"""Digits behind the point up to which the scale of decimals is kept as a grid in double precision."""


def stored_column(name: str, kind: Any, loose: bool = False) -> Column:
    """The column kind that an Arrow storage type suggests, all else not known.

    A resolution that the type fixes (the scale of decimals, seconds of a time stamp) is a grid that all
    values are on.

    Args:
        name: The column's name.
        kind: The Arrow type.
        loose: Whether it is a text of which even the kind is open, as in text files.
    """
    if loose:
        return Unknown(name=name)
    if clock.is_temporal(kind):
        return _temporal(name, kind)
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= 0):
        return Integer(name=name)
    if pa.types.is_decimal(kind):
        return Real(name=name, grids=((10.0**-kind.scale, 1.0),) if kind.scale <= MOST_DIGITS else ())
    if pa.types.is_floating(kind):
        return Real(name=name)
    return Boolean(name=name) if pa.types.is_boolean(kind) else Unknown(name=name, textual=True)


def _temporal(name: str, kind: Any) -> Column:
    unit, held = clock.unit_of(kind), clock.meaning(kind)
    grids = ((float(unit), 1.0),) if unit > 1 else ()
    if held == "date":
        return Date(name=name)
    if held == "moment":
        return Moment(name=name, zone=kind.tz, grids=grids)
    return Time(name=name, grids=grids) if held == "time" else Duration(name=name, grids=grids)
