"""What is public of a table: how it looked from outside when it came in, and which columns are released.

`Frame` holds names, order and storage types, and what the storage of a column says about it; nothing is read
from the rows. `Selection` says which columns of a table are released, by their names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.columns import Boolean, Column, Date, Duration, Integer, Moment, Real, Time, Unknown
from margrave.schema.schema import Schema
from margrave.schema.storage import clock
from margrave.schema.storage.text import TextFormat

FRAME_KINDS = ("pandas", "polars", "arrow")
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
        if self.kind not in FRAME_KINDS:
            raise SchemaError(invalid("kind", f"one of {list(FRAME_KINDS)}", "Pick one.", got=self.kind))
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


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns that are named, or all but those that are named. Others are as if they were not there.

    Args:
        columns: Names of the columns to release, in any order; None for all.
        drop: Names of columns to leave out; only without `columns`.

    Raises:
        InputError: Both are given, or one of them is no list of names, or names nothing to release.

    Example:
        >>> Selection(drop=["note"]).choose(["age", "note", "sex"], owner=None)
        ['age', 'sex']
    """

    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()

    def __post_init__(self) -> None:
        for param, names in (("columns", self.columns), ("drop", self.drop)):
            if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
                remedy = f"Try {param}=['age', 'sex']."
                raise InputError(invalid(param, "a list of names of columns", remedy, got=names))
        if self.columns is not None and self.drop:
            remedy = "Name the columns to release, or those to leave out."
            raise InputError(invalid("drop", "left out with columns", remedy))
        if self.columns is not None and not self.columns:
            raise InputError(invalid("columns", "of one name or more", "Leave it out for all columns."))

    def keeps(self, name: str) -> bool:
        """Whether a column is released, if the table has it."""
        return name not in self.drop if self.columns is None else name in self.columns

    def choose(self, names: Sequence[str], owner: str | None) -> list[str]:
        """The columns of a table that a run reads, in the table's order: those to release, and the owner's.

        Args:
            names: All columns of the table.
            owner: Name of the column that says whose row it is.

        Raises:
            InputError: A name is no column of the table, or no column is left to release.
        """
        if self.columns is None and not self.drop:
            return list(names)
        if owner is not None and owner not in names:
            raise InputError(invalid("owner", f"one of {list(names)}", "Check the spelling.", got=owner))
        for param, asked in (("columns", self.columns or ()), ("drop", self.drop)):
            unknown = [name for name in asked if name not in names]
            if unknown:
                raise InputError(invalid(param, f"among {list(names)}", "Check the spelling.", got=unknown))
        kept = [name for name in names if name == owner or self.keeps(name)]
        if not set(kept) - {owner}:
            raise InputError(invalid("drop", "such that a column is left", "Keep one to release."))
        return kept

    def check_used(self, param: str, names: Iterable[str]) -> None:
        """Refuse to leave out columns that something else of the run is about.

        Args:
            param: The argument that names them.
            names: The columns.

        Raises:
            InputError: One of them is left out.
        """
        gone = sorted(name for name in names if not self.keeps(name))
        if gone:
            remedy = "Keep the column, or change what names it."
            raise InputError(invalid(param, "about columns that are released", remedy, got=gone))

    def check_owner(self, owner: str | None) -> None:
        """Refuse to speak of the owner's column, which is always read and never released.

        Raises:
            InputError: It is among the names.
        """
        for param, names in (("columns", self.columns or ()), ("drop", self.drop)):
            if owner in names:
                remedy = "It says whose row it is: it is read, and never released. Leave it out here."
                raise InputError(invalid(param, "of other columns than the owner's", remedy, got=owner))

    def restrict(self, schema: Schema | None) -> Schema | None:
        """What a schema says of the released columns; None if it speaks of none.

        Raises:
            SchemaError: A rule is about a column that is left out.
        """
        if schema is None or all(self.keeps(name) for name in schema.names):
            return schema
        gone = {name for name in schema.names if not self.keeps(name)}
        ruled = _names_under_rules(schema, gone)
        if ruled:
            remedy = f"Keep {ruled}, or take the rules that name them out of the schema."
            raise SchemaError(invalid("rules", "about columns that are released", remedy))
        rest = tuple(column for column in schema.columns if column.name not in gone)
        return Schema(rest, schema.rules) if rest else None


def _names_under_rules(schema: Schema, gone: Collection[str]) -> list[str]:
    """Those of some columns that rules are about."""
    return sorted({name for rule in schema.rules for name in rule.names} & set(gone))
