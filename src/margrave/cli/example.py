"""The commands `margrave example` and `margrave dummy`, made-up tables to try things on, and `margrave demo`.

The demo: raw Adult in, synthetic rows, a release file, a report and a comparison out. Offline.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from margrave.progress import OnStep
    from margrave.schema.columns import Column


def example(
    name: Annotated[Literal["hospital"], typer.Argument(help="Which table; hospital: visits of patients.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV, TSV, Parquet or Arrow file to write.")],
    rows: Annotated[int, typer.Option(min=1, help="How many visits.")] = 30_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same table.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    text: Any = None,
) -> None:
    """Write a made-up table to try the other commands on. It describes nobody."""
    from margrave.datasets import make_hospital
    from margrave.files import check_outputs, suffix_of, write_table

    suffix_of(out)
    check_outputs({"out": out}, {}, new=not force)
    table = make_hospital(rows, seed=seed)
    write_table(table, out, text=text)
    typer.echo(f"{out}: a made-up {name}, {table.num_rows:,} rows, {table.num_columns} columns")


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
    from margrave.run.without_table import make_dummy
    from margrave.schema.schema import Schema

    suffix_of(out)
    check_outputs({"out": out}, {"schema": schema}, new=not force)
    declared = Schema.load(schema)
    write_table(make_dummy(declared, rows, rng=seed), out, missing, text)
    if quiet:
        return
    width = len(declared.columns)
    columns = f"{width} column{'s' if width != 1 else ''}"
    typer.echo(f"{out}: {rows:,} made-up rows, {columns}, from the schema alone")
    unknown = [column for column in declared.columns if not column.known]
    gaps = [column.name for column in unknown if _lacks_missing_alone(column)]
    guessed = [column.name for column in unknown if column.name not in gaps]
    if guessed:
        typer.echo(f"filled in with placeholders, since not declared: {', '.join(guessed)}")
    if gaps:
        typer.echo(f"with empty cells, since nothing declares whether values are missing: {', '.join(gaps)}")


def _lacks_missing_alone(column: Column) -> bool:
    """Whether all is declared of a column but whether values of it are missing."""
    return column.missing is None and dataclasses.replace(column, missing=True).known


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo-output"),
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss, above 0.")] = 1.0,
    method: Annotated[str, typer.Option(help="Name of a method, as for synthesize.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Write over the files of an earlier demo.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """The whole story on the shipped Adult table, offline: rows, release file, report, comparison."""
    from margrave.cli.console import listen_to_steps

    with listen_to_steps(quiet) as listen:
        lines = run_demo(out, epsilon, method, listen, force=force)
    if not quiet:
        typer.echo("\n".join(lines))


FILES = ("synthetic.csv", "report.html", "adult.margrave", "ledger.jsonl", "comparison.html")
"""What the demo writes into its folder."""


def run_demo(out: Path, epsilon: float, method: str, on_step: OnStep, *, force: bool = False) -> list[str]:
    """Run the main job on the shipped table and say what was made, one line each.

    Nothing about the table is declared but the text that marks a missing value, and for `auto` the column to
    predict: kinds, bounds, categories, missing values and the row count are all discovered within epsilon.

    Args:
        out: Folder for the results, made if need be.
        epsilon: Privacy loss for everything.
        method: Name of the method.
        on_step: Told about each step.
        force: Whether to write over the files of an earlier demo, its ledger included: the shipped table is
            public.

    Raises:
        InputError: The folder cannot be made, or holds such a file and force is False.
    """
    from margrave.datasets import adult_path
    from margrave.files import check_outputs, write_table, write_text
    from margrave.report.comparison.page import render_comparison
    from margrave.run.evaluate import evaluate
    from margrave.run.synthesizer import Synthesizer

    started = time.perf_counter()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(invalid("out", "a folder that can be made", "Pick another.", got=str(out))) from None
    check_outputs({name: out / name for name in FILES}, {}, new=not force)
    ledger = out / "ledger.jsonl"
    ledger.unlink(missing_ok=True)
    target = "income" if method == "auto" else None
    synthesizer = Synthesizer(
        method, epsilon=epsilon, target=target, missing=("?", ""), ledger=ledger, on_step=on_step
    )
    synthesis = synthesizer.fit(adult_path())
    synthesis.save(out / "adult.margrave")
    write_table(synthesis.sample_arrow(), out / "synthetic.csv", "?")
    synthesis.report(out / "report.html", title="Synthetic Adult")
    synthesizer.forget()
    comparison = evaluate(adult_path(), out / "synthetic.csv", schema=synthesis.schema, missing=("?", ""))
    write_text(out / "comparison.html", render_comparison(comparison, title="Synthetic Adult against Adult"))
    return [
        str(synthesis.usefulness()),
        f"guarantee: {synthesis.guarantee}",
        f"{out / 'synthetic.csv'}: synthetic rows",
        f"{out / 'report.html'}: the report, from released quantities only",
        f"{out / 'adult.margrave'}: the release file, for margrave sample",
        f"{ledger}: every spend, written before its noise was drawn",
        f"{out / 'comparison.html'}: against the real rows. NOT PRIVATE",
        f"done in {time.perf_counter() - started:.1f} s",
    ]
