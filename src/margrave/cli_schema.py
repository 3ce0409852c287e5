"""The command `margrave schema`: a schema.json to fill in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["schema"]


def schema(
    table: Annotated[Path, typer.Argument(help="The private table, as for synthesize.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it here instead of printing it.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(help="Column that says whose row it is: left out, since it is not released."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    text: Any = None,
) -> None:
    """Write a schema.json to fill in, from column names and storage types alone. Spends nothing.

    What names and types suggest to declare is proposed on standard error.
    """
    from margrave.engines.opening import open_source
    from margrave.errors import InputError, invalid
    from margrave.files import check_outputs, write_text
    from margrave.schema.proposals import propose_declarations
    from margrave.schema.schema import Schema

    check_outputs({"out": out}, {"table": table}, new=not force)
    source, _ = open_source(table, text=text)
    names = [column.name for column in source.columns]
    if owner is not None and (owner not in names or len(names) == 1):
        constraint = f"one of {names}" if owner not in names else "beside another column"
        raise InputError(invalid("owner", constraint, "Check the spelling.", got=owner))
    columns = tuple(column for column in source.columns if column.name != owner)
    document = json.dumps(Schema(columns).to_json(), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        typer.echo(document, nl=False)
    else:
        write_text(out, document)
        typer.echo(f"{out}: {len(columns)} columns; fill in what is public, leave out the rest")
    proposals = propose_declarations(columns)
    for line in proposals:
        typer.echo(f"proposal: {line}", err=True)
    if proposals:
        typer.echo(
            "Declare only what is public: then it costs nothing, and is as certain as you are.", err=True
        )
