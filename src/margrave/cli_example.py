"""The commands `margrave example`, a made-up table to try things on, and `margrave demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

__all__ = ["demo", "example"]


def example(
    name: Annotated[Literal["hospital"], typer.Argument(help="Which table; hospital: visits of patients.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV, TSV, Parquet or Arrow file to write.")],
    rows: Annotated[int, typer.Option(min=1, help="How many visits.")] = 30_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same table.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    text: Any = None,
) -> None:
    """Write a made-up table to try the other commands on. It describes nobody."""
    from margrave.datasets.hospital import make_hospital
    from margrave.files import check_outputs, suffix_of, write_table

    suffix_of(out)
    check_outputs({"out": out}, {}, new=not force)
    table = make_hospital(rows, seed=seed)
    write_table(table, out, text=text)
    typer.echo(f"{out}: a made-up {name}, {table.num_rows:,} rows, {table.num_columns} columns")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo-output"),
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss, above 0.")] = 1.0,
    method: Annotated[str, typer.Option(help="Name of a method, as for synthesize.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Write over the files of an earlier demo.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """The whole story on the shipped Adult table, offline: rows, release file, report, comparison."""
    from margrave.console import listening
    from margrave.demo import run_demo

    with listening(quiet) as listen:
        lines = run_demo(out, epsilon, method, listen, force=force)
    if not quiet:
        typer.echo("\n".join(lines))
