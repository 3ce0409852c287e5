"""The command `margrave regress`: a regression from a release file, with intervals. Free: post-processing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from margrave.cli.options import Estimator

__all__ = ["regress"]


def regress(
    release: Annotated[Path, typer.Argument(help="A release file written by --release or save().")],
    target: Annotated[str, typer.Option(help="Column to explain.")],
    kind: Annotated[Literal["linear", "logistic", "poisson"], typer.Option(help="Of regression.")] = "linear",
    features: Annotated[
        list[str] | None, typer.Option(help="Columns to explain it with; repeatable. All others by default.")
    ] = None,
    encoding: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=scores, levels or ranks: how a column becomes numbers; repeatable."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LEVEL that others are compared with; the likeliest by default."),
    ] = None,
    positive: Annotated[str | None, typer.Option(help="The level of the target that counts as 1.")] = None,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Without a constant.")] = False,
    source: Annotated[
        Literal["both", "model", "measured"], typer.Option(help="Where estimates come from.")
    ] = "both",
    of: Annotated[
        Literal["population", "table"],
        typer.Option(help="Whether intervals hold sampling noise too, or privacy noise alone."),
    ] = "population",
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a CSV, TSV, Parquet or Arrow file.")
    ] = None,
    estimator: Estimator = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Fit a regression to a release file and give its coefficients with intervals. Free: post-processing."""
    from margrave.errors import InputError, invalid
    from margrave.files import check_outputs, suffix_of
    from margrave.regression.fit import Options, fit
    from margrave.run.synthesis import load

    if out is None and quiet:
        raise InputError(invalid("--out", "given with --quiet", "Name a file, or leave --quiet out."))
    if out is not None:
        suffix_of(out)
        check_outputs({"out": out}, {"release": release}, new=not force)
    synthesis = load(release, estimator)
    names = synthesis.schema.names
    options = Options(
        features=features,
        encodings=_by_column("--encoding", encoding, names),
        reference=_by_column("--reference", reference, names),
        positive=positive,
        intercept=not no_intercept,
        source=source,
        of=of,
        level=level,
    )
    found = fit(synthesis, target, kind, options)
    if out is not None:
        found.write(out)
    if not quiet:
        typer.echo(f"{found}\nnothing was spent")


def _by_column(option: str, texts: list[str] | None, names: tuple[str, ...]) -> dict[str, str]:
    """COLUMN=VALUE by column, where column names may hold equality signs themselves.

    Raises:
        InputError: A text does not begin with a column and an equality sign, or a column comes twice.
    """
    from margrave.errors import InputError, invalid

    found: dict[str, str] = {}
    for text in texts or []:
        fitting = [name for name in names if text.startswith(f"{name}=")]
        if not fitting or max(fitting, key=len) in found:
            remedy = f"Columns are {list(names)}."
            raise InputError(invalid(option, "as in COLUMN=VALUE, once a column", remedy, got=text))
        name = max(fitting, key=len)
        found[name] = text[len(name) + 1 :]
    return found
