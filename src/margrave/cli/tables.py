"""Commands about counts: `margrave tables` and `margrave fit` are free, `margrave owners` spends a little."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from margrave.cli.options import Estimator


def tables(
    release: Annotated[Path, typer.Argument(help="A release file written by --release or save().")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A CSV, TSV, Parquet, Arrow or JSON file.")],
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Columns of one table, as in sex,age; repeatable. Every measured one by default."),
    ] = None,
    level: Annotated[float, typer.Option(help="Of the confidence limits.")] = 0.95,
    estimator: Estimator = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Write noisy contingency tables with standard errors from a release file. Free: post-processing."""
    from margrave.cli.show import tell_warning
    from margrave.files import check_outputs
    from margrave.run.synthesis import load

    check_outputs({"out": out}, {"release": release}, new=not force)
    synthesis = load(release, estimator)
    tell_warning(synthesis.guarantee, out)
    cliques = [_split_clique(text, synthesis.schema.names) for text in columns] if columns else None
    synthesis.write_tables(out, cliques, level=level, on_refit=None if quiet else _tell_refit)
    if not quiet:
        typer.echo(f"{out}: contingency tables with standard errors; nothing was spent")


def _tell_refit(done: int, refits: int) -> None:
    """Say on standard error how far the bootstrap is: each refit takes as long as a fit."""
    if not done:
        typer.echo(
            "a table that was not measured: the model is fitted again for its standard errors", err=True
        )
    typer.echo(f"refit {done + 1} of {refits}", err=True)


def _split_clique(text: str, known: tuple[str, ...]) -> list[str]:
    """Column names parted by commas, or one name that holds commas itself."""
    return [text] if text in known else text.split(",")


def fit(
    table: Annotated[Path, typer.Argument(help="Tables with standard errors, as `margrave tables` writes.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the synthetic rows go.")],
    schema: Annotated[
        Path | None, typer.Option(help="schema.json, where the tables do not carry theirs.")
    ] = None,
    model: Annotated[str, typer.Option(help="mixture, pgm or independent.")] = "mixture",
    total: Annotated[float | None, typer.Option(help="The number of rows, if it is public.")] = None,
    rows: Annotated[int | None, typer.Option(min=0, help="How many rows to draw.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of sampling.")] = None,
    release: Annotated[Path | None, typer.Option(help="Also write a release file here.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the HTML report here.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="What the tables were released under, if they do not say.")
    ] = None,
    delta: Annotated[float, typer.Option(help="The same.")] = 1e-9,
    owner: Annotated[str | None, typer.Option(help="The same: whose rows were protected.")] = None,
    max_rows: Annotated[int, typer.Option(help="The same: at most so many rows of one owner.")] = 1,
    adjacency: Annotated[Literal["add_remove", "replace_one"], typer.Option(help="The same.")] = "add_remove",
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    text: Any = None,
) -> None:
    """Fit a model to noisy tables alone and draw rows from it. Spends nothing: the tables are public."""
    from margrave.cli.show import tell_warning
    from margrave.files import check_outputs, suffix_of, write_table
    from margrave.privacy.unit import Neighbours, Unit
    from margrave.run.fit_tables import fit_tables, stated_guarantee

    suffix_of(out)
    outputs = {"out": out, "release": release, "report": report}
    check_outputs(outputs, {"tables": table, "schema": schema}, new=not force)
    promise = None
    if epsilon is not None:
        promise = stated_guarantee(epsilon, delta, Neighbours(Unit(owner, max_rows), adjacency))
    synthesis = fit_tables(table, schema=schema, model=model, total=total, guarantee=promise)
    tell_warning(synthesis.guarantee, out)
    if release is not None:
        synthesis.save(release)
    drawn = synthesis.sample_arrow(rows, rng=seed)
    write_table(drawn, out, text=text)
    if report is not None:
        synthesis.report(report)
    typer.echo(f"{out}: {drawn.num_rows:,} synthetic rows, {drawn.num_columns} columns; nothing was spent")
    for name, path in (("release", release), ("report", report)):
        if path is not None:
            typer.echo(f"{name}: {path}")


def owners(
    table: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file with the private table.")],
    owner: Annotated[str, typer.Option(help="Column that says whose row it is.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss of this look, above 0.")],
    delta: Annotated[float, typer.Option(help="Far below one over the number of people.")] = 1e-9,
    most: Annotated[int, typer.Option(help="Owners with more rows are not told apart.")] = 64,
    adjacency: Annotated[
        Literal["add_remove", "replace_one"], typer.Option(help="Which tables are neighbours.")
    ] = "add_remove",
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="Text that means missing; repeatable.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Book, or new ledger file; TABLE.owners.ledger.jsonl by default.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="With a book: the name of the data set.")] = None,
    analyst: Annotated[str | None, typer.Option(help="With a book: who asks.")] = None,
    text: Any = None,
) -> None:
    """Say how many rows owners have, with noise, to choose --max-rows. Spends its own epsilon."""
    from margrave.run.owner_sizes import owner_sizes

    book = ledger or table.with_name(f"{table.name}.owners.ledger.jsonl")
    texts = list(dict.fromkeys([*(missing or []), ""]))
    found = owner_sizes(
        table,
        owner,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        most=most,
        missing=texts,
        text=text,
        ledger=book,
        dataset=dataset,
        analyst=analyst,
    )
    typer.echo(str(found))
