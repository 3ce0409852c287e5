"""The command `margrave audit`: many runs on made-up neighbouring tables try to break a method's claim."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from margrave.auditing import World

Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="What a run claims, above 0.")]
Method = Annotated[str, typer.Option(help="The method to audit.")]
Delta = Annotated[float, typer.Option(help="What a run claims.")]
Runs = Annotated[int | None, typer.Option(help="Runs, half with the canary: 400. With --canaries: 1.")]
Canaries = Annotated[
    int | None, typer.Option(help="Put so many canaries in one table: one run is enough, but proves less.")
]
Confidence = Annotated[float, typer.Option(help="That the bounds hold, between 0 and 1.")]
MaxRows = Annotated[int, typer.Option(help="Rows of the canary's owner.")]
Adjacency = Annotated[
    Literal["add_remove", "replace_one"], typer.Option(help="Whether the canary is added or replaces.")
]
Hidden = Annotated[
    Path | None, typer.Option(help="A table to hide the canary in, with --schema. Then NOT PRIVATE.")
]
SchemaFile = Annotated[Path | None, typer.Option(help="schema.json of that table, with all of it declared.")]
Missing = Annotated[list[str] | None, typer.Option("--missing", help="Text that means missing; repeatable.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the made-up rows and of sampling.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and no progress.")]


def audit(
    epsilon: Epsilon,
    method: Method = "auto",
    delta: Delta = 1e-9,
    runs: Runs = None,
    canaries: Canaries = None,
    confidence: Confidence = 0.95,
    max_rows: MaxRows = 1,
    adjacency: Adjacency = "add_remove",
    table: Hidden = None,
    schema: SchemaFile = None,
    missing: Missing = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Bound a method's epsilon from below by many runs. Ends with code 1 if the claim is broken."""
    from margrave.auditing import audit as play
    from margrave.auditing import audit_in_one_run

    world = _make_world(
        table, schema, max_rows, adjacency, [*dict.fromkeys([*(missing or []), ""])], seed, canaries
    )
    shared: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "confidence": confidence, "seed": seed}
    found: Any
    if canaries is not None:
        found = audit_in_one_run(
            method, canaries=canaries, runs=1 if runs is None else runs, world=world, **shared
        )
    else:
        shown = _print_progress if sys.stderr.isatty() and not as_json else _silent
        found = play(method, runs=400 if runs is None else runs, world=world, on_run=shown, **shared)
    typer.echo(json.dumps(found.to_json()) if as_json else str(found))
    if found.violated:
        raise typer.Exit(1)


def _make_world(
    table: Path | None,
    schema: Path | None,
    max_rows: int,
    adjacency: Literal["add_remove", "replace_one"],
    missing: list[str],
    seed: int,
    canaries: int | None,
) -> World:
    from margrave.auditing import generated, worlds_of
    from margrave.auditing.canary import WIDE
    from margrave.engines.frames import read_table
    from margrave.errors import InputError, invalid
    from margrave.schema.schema import Schema

    options: Any = {"max_rows": max_rows, "adjacency": adjacency, "seed": seed}
    if (table is None) is not (schema is None):
        raise InputError(invalid("table", "given with schema, or both left out", "Try margrave schema."))
    if table is None or schema is None:
        options |= {} if canaries is None else {"sizes": WIDE, "rows": 1000}
        return generated(**options)
    known = Schema.load(schema)
    rows = read_table(table, missing)[0]
    absent = [name for name in known.names if name not in rows.column_names]
    if absent:
        raise InputError(invalid("schema", "made of the table's columns", "Remove the others.", got=absent))
    return worlds_of(rows.select(list(known.names)), known, **options)


def _silent(done: int, runs: int) -> None:
    pass


def _print_progress(done: int, runs: int) -> None:
    if done % max(runs // 20, 1) == 0:
        typer.echo(f"run {done} of {runs}", err=True)
