"""Frame: what a table looked like from outside when it came in. Public.

What the storage of a column says about it: public, nothing is read from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from margrave.errors import SchemaError, invalid
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
from margrave.schema.storage import clock
from margrave.schema.storage.text import TextFormat

KINDS = ("pandas", "polars", "arrow")
TEXT_FILE = "text"
"""The storage type of every column of a text file: decoding gives it the type of its column kind."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The library and the storage types of a table, plain enough for a release file.

    Args:
        kind: "pandas", "polars" or "arrow"; files are "arrow".
        dtypes: The storage type of each column as text, by name, in the table's order. Lists of
            categories are not part of it: they would come from the rows.
        text: How a text file was written, and how synthetic rows are written to one.

    Raises:
        SchemaError: kind is none of the three.
    """

    kind: str = "arrow"
    dtypes: Mapping[str, str] = field(default_factory=dict)
    text: TextFormat = field(default_factory=TextFormat)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SchemaError(invalid("kind", f"one of {list(KINDS)}", "Pick one.", got=self.kind))
        object.__setattr__(self, "dtypes", dict(self.dtypes))


def type_warning(kind: str) -> str:
    """What to say of the storage types of a table of this kind, which count as public; empty if nothing.

    Readers of text files in pandas and polars choose types by looking at the rows. Where a frame's types come
    from cannot be seen, so it is said of every such frame.
    """
    if kind not in ("pandas", "polars"):
        return ""
    return (
        f"a {kind} frame made by read_csv has types that follow its rows: pass the file itself, or give the "
        "reader explicit types"
    )


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
    unit, held = clock.unit_of(kind), clock.temporal_kind(kind)
    grids = ((float(unit), 1.0),) if unit > 1 else ()
    if held == "date":
        return Date(name=name)
    if held == "moment":
        return Moment(name=name, zone=kind.tz, grids=grids)
    return Time(name=name, grids=grids) if held == "time" else Duration(name=name, grids=grids)
