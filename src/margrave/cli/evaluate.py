"""Judging synthetic tables and methods: `margrave evaluate`, **not private**, and `margrave audit`.

`evaluate` lays synthetic tables beside the real one. `audit`, below, tries to break a method's claim by many
runs on made-up neighbouring tables.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from margrave.cli.options import list_missing_texts

if TYPE_CHECKING:
    from margrave.auditing import World
    from margrave.evaluation.review import Review


PRINTED_SCORES = (
    *("overall", "first_look", "dependence_kept", "rank_slope"),
    *("tv_1_mean", "tv_2_mean", "tv_3_mean", "association_mean", "roc_auc", "average_precision", "rules"),
    "unique_exact_match",
)
"""Scores that are printed; the page and --json have all."""


def evaluate(
    real: Annotated[Path, typer.Argument(help="The private table.")],
    synthetic: Annotated[list[Path], typer.Argument(help="The synthetic table, or several.")],
    report: Annotated[Path | None, typer.Option(help="Write the comparison as HTML. Not private.")] = None,
    schema: Annotated[Path | None, typer.Option(help="schema.json with what is known, and rules.")] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict, for scores of models.")] = None,
    test: Annotated[Path | None, typer.Option(help="Held-out real table, for models and attacks.")] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(help="Scores to add by name, see docs/metrics.md; repeatable, or 'all'."),
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="Text that means missing; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the samples that are drawn and models that are trained.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and no progress.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    text: Any = None,
) -> None:
    """Compare synthetic tables with the real one. NOT PRIVATE: do not publish what it says."""
    from margrave.files import check_outputs, write_text
    from margrave.report.comparison.page import render_comparison
    from margrave.run.evaluate import review

    tables = _name_files(synthetic)
    inputs = {"real": real, "schema": schema, "test": test}
    inputs |= {f"synthetic {name}": path for name, path in tables.items()}
    check_outputs({"report": report}, inputs, new=not force)
    found = review(
        *(real, tables),
        schema=schema,
        target=target,
        test=test,
        missing=list_missing_texts(missing),
        text=text,
        metrics=list(metrics or ()),
        pictures=report is not None or target is not None,
        seed=seed,
        on_step=_print_progress if sys.stderr.isatty() and not as_json else _silent,
    )
    typer.echo(json.dumps(found.to_json()) if as_json else _write_text(found, metrics or ()))
    if report is not None:
        write_text(report, render_comparison(found, title=f"{', '.join(tables)} against {real.stem}"))


def _name_files(paths: Sequence[Path]) -> dict[str, Path]:
    """A short name for each file: without its suffix where that is enough to tell it from the others."""
    from margrave.evaluation.review import RESERVED_NAMES

    for names in (
        [path.stem for path in paths],
        [path.name for path in paths],
        [str(path) for path in paths],
    ):
        if max(Counter(names).values()) == 1 and not RESERVED_NAMES & set(names):
            return dict(zip(names, paths, strict=True))
    return {f"{path} ({place})": path for place, path in enumerate(paths, 1)}


def _write_text(found: Review, asked: Sequence[str]) -> str:
    from margrave.report.comparison.verdict import plain_lines

    return "\n".join([found.table(PRINTED_SCORES, asked), "", *plain_lines(found)])


def _silent(words: str) -> None:
    pass


def _print_progress(words: str) -> None:
    typer.echo(f"{words} ...", err=True)


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

    world = _make_world(table, schema, max_rows, adjacency, list_missing_texts(missing), seed, canaries)
    shared: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "confidence": confidence, "seed": seed}
    found: Any
    if canaries is not None:
        found = audit_in_one_run(
            method, canaries=canaries, runs=1 if runs is None else runs, world=world, **shared
        )
    else:
        if sys.stderr.isatty() and not as_json:
            shared["on_run"] = _print_run
        found = play(method, runs=400 if runs is None else runs, world=world, **shared)
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


def _print_run(done: int, runs: int) -> None:
    if done % max(runs // 20, 1) == 0:
        typer.echo(f"run {done} of {runs}", err=True)
