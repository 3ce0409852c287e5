"""The command `margrave dummy`: made-up rows from a schema alone. Free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def dummy(
    schema: Annotated[Path, typer.Argument(help="A schema.json; what it leaves open is filled in.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV, TSV, Parquet or Arrow file to write.")],
    rows: Annotated[int, typer.Option(min=0, help="How many rows.")] = 100,
    missing: Annotated[str, typer.Option("--missing", help="Text for missing values in CSV.")] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same rows.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    text: Any = None,
) -> None:
    """Write made-up rows from a schema alone, to try programs on. No table is read, nothing is spent."""
    from margrave.files import check_outputs, suffix_of, write_table
    from margrave.run.dummy import make_dummy
    from margrave.schema.schema import Schema

    suffix_of(out)
    check_outputs({"out": out}, {"schema": schema}, new=not force)
    declared = Schema.load(schema)
    write_table(make_dummy(declared, rows, rng=seed), out, missing, text)
    if quiet:
        return
    typer.echo(f"{out}: {rows:,} made-up rows, {len(declared.columns)} columns, from the schema alone")
    guessed = [column.name for column in declared.columns if not column.known]
    if guessed:
        typer.echo(f"filled in with placeholders, since not declared: {', '.join(guessed)}")
