"""What becomes of rows that break a declaration: an error, or the nearest thing that was declared."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.columns import Binned, Unknown
from margrave.schema.schema import Schema
from margrave.schema.selection import Selection

if TYPE_CHECKING:
    from margrave.privacy.place import Place
    from margrave.protocols import Source

__all__ = ["OUTSIDE", "check_no_oracle", "check_rows", "check_ruled_kinds", "declared_schema"]

ALL_COLUMNS = Selection()
OUTSIDE = ("refuse", "absorb")
"""What may become of a value outside its column's declaration; see `Schema.absorb_outside`."""


def declared_schema(
    schema: Schema | str | Path | None,
    outside: str,
    owner: str | None = None,
    selection: Selection = ALL_COLUMNS,
) -> Schema | None:
    """The schema that a run is given, without the owner's column and others that are not released.

    Args:
        schema: The schema, or the path of its file.
        outside: One of `OUTSIDE`: what becomes of values that the schema rules out.
        owner: Name of the column that says whose row it is.
        selection: The columns that are released.

    Raises:
        InputError: The file cannot be read, or outside is not one of `OUTSIDE`.
        SchemaError: A rule is about a column that is not released.
    """
    if outside not in OUTSIDE:
        raise InputError(invalid("outside", f"one of {list(OUTSIDE)}", "Leave it out.", got=outside))
    known = schema if isinstance(schema, Schema) or schema is None else Schema.load(schema)
    released = selection.restrict(None if known is None else known.without(owner))
    return released.absorb_outside() if released is not None and outside == "absorb" else released


def check_ruled_kinds(schema: Schema) -> None:
    """Refuse rules about columns of unknown kind, before anything is spent.

    Discovery decides such a column's kind by noisy counts. If it turned out to be one that the rule cannot
    speak of, the run would end with an error after it has spent its budget, or the rule would not hold.

    Raises:
        SchemaError: A rule is about a column of which the schema does not say the kind.
    """
    unsure = sorted(
        {name for rule in schema.rules for name in rule.names if isinstance(schema[name], Unknown)}
    )
    if unsure:
        remedy = (
            'Say "kind": "date", "integer", "real" or "categorical" in the schema; bounds and values may be '
            "left out."
        )
        raise SchemaError(
            invalid("rules", f"about columns of a declared kind, which {unsure} have not", remedy)
        )


def check_no_oracle(schema: Schema | None, place: Place) -> None:
    """Refuse strict declarations in a book, from the schema alone and before the table is opened.

    A strict declaration says exactly whether any row breaks it, and costs nothing. Where runs share a cap,
    a few dozen of them would find one person's value by halving, and the book would show nothing spent.

    Raises:
        InputError: The run is kept in a book and a column is strict.
    """
    if schema is None or not place.in_book or not schema.strict_columns:
        return
    remedy = (
        "Say outside='absorb' (--outside absorb) to count values outside in the nearest bin or as '(other)', "
        'or "strict": false in those columns. An error for a row that breaks a declaration tells about the '
        "rows and is paid for by no epsilon."
    )
    constraint = f"without strict columns in a book, which {list(schema.strict_columns)} are"
    raise InputError(invalid("schema", constraint, remedy))


def check_rows(source: Source, declared: Schema) -> None:
    """Refuse rows that a declaration rules out, before anything is spent. **Not private.**

    Only for runs that are not kept in a book: see `check_no_oracle`.

    Raises:
        InputError: A column that is declared strictly holds something else.
    """
    sure = []
    for name in declared.strict_columns:
        column = declared[name]
        trial = column if column.missing is not None else dataclasses.replace(column, missing=True)
        sure.append(dataclasses.replace(trial, rare=0.0) if isinstance(trial, Binned) else trial)
    if sure:
        source.only([column.name for column in sure]).bind(Schema(tuple(sure)))
