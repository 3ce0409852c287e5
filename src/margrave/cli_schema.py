"""The command `margrave schema`: a schema.json to fill in."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from margrave.cli_text import Columns, Drop, split_names

if TYPE_CHECKING:
    from margrave.schema.columns import Column
    from margrave.schema.selection import Selection

__all__ = ["schema"]


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
    from margrave.schema.proposals import propose_declarations
    from margrave.schema.schema import Schema
    from margrave.schema.selection import Selection

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
    from margrave.engines.opening import open_source

    choose = functools.partial(selection.choose, owner=owner)
    return () if table is None else tuple(open_source(table, text=text, choose=choose)[0].columns)


def _sdv_columns(
    path: Path, table: str | None, selection: Selection, owner: str | None
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """The columns that metadata of SDV describes, and the date formats that a text file needs."""
    from margrave.schema.sdv import columns_from_sdv, dates_from_sdv, table_from_sdv

    described = table_from_sdv(path, table)
    columns = columns_from_sdv(described)
    chosen = selection.choose([column.name for column in columns], owner)
    return tuple(column for column in columns if column.name in chosen), dates_from_sdv(described)
