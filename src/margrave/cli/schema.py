"""The command `margrave schema`: a schema.json to fill in.

propose_declarations: what a user may want to declare, from names and storage types of columns alone.

Both are public, so a proposal tells nothing about the rows, and it may be wrong. What is declared has
to be public knowledge; it then costs nothing, where discovery would have to pay for it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from margrave.cli.options import Columns, Drop, split_names

if TYPE_CHECKING:
    from margrave.schema.columns import Column
    from margrave.schema.frame import Selection


def schema(
    table: Annotated[
        Path | None, typer.Argument(help="The private table, as for synthesize; left out with --from-sdv.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it here instead of printing it.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(help="Column that says whose row it is: left out, since it is not released."),
    ] = None,
    columns: Columns = None,
    drop: Drop = None,
    from_sdv: Annotated[
        Path | None, typer.Option("--from-sdv", help="Metadata of SDV, as JSON, instead of a table.")
    ] = None,
    sdv_table: Annotated[
        str | None, typer.Option("--sdv-table", help="Which table of that metadata, where it has several.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    text: Any = None,
) -> None:
    """Write a schema.json to fill in, from column names and storage types alone. Spends nothing.

    What names and types suggest to declare is proposed on standard error.
    """
    from margrave.errors import InputError, invalid
    from margrave.files import check_outputs, write_text
    from margrave.schema.frame import Selection
    from margrave.schema.schema import Schema

    if (table is None) == (from_sdv is None):
        raise InputError(invalid("table", "given, or --from-sdv instead", "Give one of them."))
    check_outputs({"out": out}, {"table": table, "metadata": from_sdv}, new=not force)
    selection = Selection(split_names("columns", columns), split_names("drop", drop) or ())
    selection.check_owner(owner)
    stored, formats = _stored_columns(table, text, selection, owner), dict[str, str]()
    if from_sdv is not None:
        stored, formats = _sdv_columns(from_sdv, sdv_table, selection, owner)
    names = [column.name for column in stored]
    if owner is not None and (owner not in names or len(names) == 1):
        constraint = f"one of {names}" if owner not in names else "beside another column"
        raise InputError(invalid("owner", constraint, "Check the spelling.", got=owner))
    kept = tuple(column for column in stored if column.name != owner)
    document = json.dumps(Schema(kept).to_json(), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        typer.echo(document, nl=False)
    else:
        write_text(out, document)
        typer.echo(f"{out}: {len(kept)} columns; fill in what is public, leave out the rest")
    for name, written in formats.items():
        typer.echo(f"note: the file's dates need --format {name}={written}", err=True)
    proposals = propose_declarations(kept)
    for line in proposals:
        typer.echo(f"proposal: {line}", err=True)
    if proposals:
        typer.echo(
            "Declare only what is public: then it costs nothing, and is as certain as you are.", err=True
        )


def _stored_columns(
    table: Path | None, text: Any, selection: Selection, owner: str | None
) -> tuple[Column, ...]:
    from margrave.engines.opening import open_head

    choose = functools.partial(selection.choose, owner=owner)
    return () if table is None else tuple(open_head(table, text=text, choose=choose)[0].columns)


def _sdv_columns(
    path: Path, table: str | None, selection: Selection, owner: str | None
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """The columns that metadata of SDV describes, and the date formats that a text file needs."""
    from margrave.schema.sdv import columns_from_sdv, dates_from_sdv, table_from_sdv

    described = table_from_sdv(path, table)
    columns = columns_from_sdv(described)
    chosen = selection.choose([column.name for column in columns], owner)
    return tuple(column for column in columns if column.name in chosen), dates_from_sdv(described)


KEYS = {"id", "key", "uuid", "guid", "nr", "no", "num", "number", "visit", "record"}
POSTCODES = {"zip", "zipcode", "postcode", "postal", "plz", "postleitzahl"}
LISTS = {
    "icd",
    "icd9",
    "icd10",
    "diagnosis",
    "naics",
    "sic",
    "nace",
    "isco",
    "soc",
    "atc",
    "cpt",
    "drg",
    "country",
}
TEXTS = {
    "note",
    "notes",
    "comment",
    "comments",
    "description",
    "remark",
    "remarks",
    "text",
    "message",
    "address",
}
NAMES = {"name", "firstname", "lastname", "surname", "email", "mail", "phone", "mobile", "telephone"}
BOUNDS = {
    "age": "0 and 120",
    "month": "1 and 12",
    "weekday": "1 and 7",
    "hour": "0 and 23",
    "percent": "0 and 100",
    "percentage": "0 and 100",
    "pct": "0 and 100",
    "latitude": "-90 and 90",
    "longitude": "-180 and 180",
}
ORDERS = (
    (
        {"born", "birth", "birthday", "birthdate", "dob"},
        {"died", "death", "admitted", "hire", "opened", "diagnosed"},
    ),
    ({"admitted", "admission"}, {"discharged", "discharge"}),
    ({"start", "started", "begin", "from"}, {"end", "ended", "finish", "finished", "to", "until"}),
    ({"opened", "open"}, {"closed", "close"}),
    ({"arrival", "arrived"}, {"departure", "departed"}),
    ({"ordered", "order"}, {"shipped", "delivered", "paid"}),
    ({"created", "issued"}, {"updated", "modified", "expires", "expired"}),
    ({"min", "minimum", "least", "low"}, {"max", "maximum", "most", "high"}),
)
"""Words of columns of which the first is usually not above the second."""
FLAGS = {"is", "has", "was"}
DATES = {"at", "date", "datetime", "day", "dt", "on", "time", "timestamp", "ts", "year"}
OFTEN_NO_DATES = {"admission", "death", "diagnosed", "died", "discharge", "hire", "open", "order"}
"""Words of ORDERS that name a truth value, a kind or a number as often as a moment: without a type they are
taken for one beside a word of DATES only.
"""
BIRTHDAYS = {"birthdate", "birthday", "dob"}


def propose_declarations(columns: Sequence[Column]) -> list[str]:
    """Sentences that propose declarations, one a column or pair of columns at most.

    Args:
        columns: As the storage has them.

    Example:
        >>> from margrave.schema.columns import Unknown
        >>> propose_declarations([Unknown(name="visit_note")])
        ["'visit_note' may be free text: declare it as omitted, and it costs nothing"]
    """
    from margrave.schema.columns.base import split_words

    words = {column.name: split_words(column.name) for column in columns}
    found = [line for column in columns if (line := _propose_column(column, words[column.name]))]
    return found + _propose_formats(columns, words) + _propose_orders(columns, words)


def _propose_column(column: Column, words: tuple[str, ...]) -> str:
    from margrave.schema.columns import Real, Temporal, Unknown
    from margrave.schema.columns.binned import SpeltNumber

    said = set(words)
    open_text = isinstance(column, Unknown)
    number = isinstance(column, SpeltNumber) or (isinstance(column, Unknown) and not column.textual)
    if open_text and said & NAMES:
        return f"{column.name!r} may tell persons apart: declare it as identifier or omitted, at no cost"
    if open_text and said & TEXTS:
        return f"{column.name!r} may be free text: declare it as omitted, and it costs nothing"
    if words and words[-1] in KEYS and not isinstance(column, Real | Temporal):
        return (
            f"{column.name!r} may be a key: declare it as identifier if no two rows share a value; "
            "if it says whose row it is, name it with --owner"
        )
    if said & POSTCODES or (open_text and said & LISTS):
        return (
            f"{column.name!r} may hold codes of a published list: declare it as categorical with its values"
        )
    bounds = next((ends for word, ends in BOUNDS.items() if word in said), None)
    if number and bounds is not None:
        return f"{column.name!r} may have public bounds: declare lower and upper, such as {bounds}"
    if open_text and words and words[0] in FLAGS:
        return f"{column.name!r} may hold truth values: declare it as boolean"
    return ""


def _propose_orders(columns: Sequence[Column], words: dict[str, tuple[str, ...]]) -> list[str]:
    """Pairs of columns of one type whose names say that one is never above the other."""
    found = []
    for low in columns:
        for high in columns:
            if not _type_of(low) or _type_of(low) != _type_of(high):
                continue
            below, above = _order_words(low, words[low.name]), _order_words(high, words[high.name])
            if any(below & a and above & b and below - a == above - b for a, b in ORDERS):
                found.append(
                    f"{low.name!r} may never be after {high.name!r}: if that is so for every row, declare "
                    f'the rule {{"kind": "ordered", "low": "{low.name}", "high": "{high.name}"}}'
                )
    return found


def _type_of(column: Column) -> str:
    """The type within which values may be compared; empty where they may not."""
    from margrave.schema.columns import Temporal, Unknown
    from margrave.schema.columns.binned import SpeltNumber

    if isinstance(column, Temporal):
        return column.read
    if isinstance(column, SpeltNumber):
        return "number"
    return "open" if isinstance(column, Unknown) and not column.textual else ""


def _order_words(column: Column, words: tuple[str, ...]) -> set[str]:
    """The words of a name that may say where the column stands in an order."""
    from margrave.schema.columns import Temporal

    said = set(words)
    if words and words[0] in FLAGS:
        return set()
    return said if isinstance(column, Temporal) or said & DATES else said - OFTEN_NO_DATES


def _propose_formats(columns: Sequence[Column], words: dict[str, tuple[str, ...]]) -> list[str]:
    """One sentence on how dates are written, where the storage does not say that they are dates."""
    from margrave.schema.columns import Unknown

    dates = [
        repr(column.name)
        for column in columns
        if isinstance(column, Unknown) and set(words[column.name]) & (BIRTHDAYS | {"date"})
    ]
    sentence = (
        f"{', '.join(dates)} may hold dates: if they are not written as in 2024-12-31, declare date with the "
        'format, such as "%m/%d/%Y" or "%d.%m.%Y"'
    )
    return [sentence] if dates else []
