"""The command `margrave sample`: rows from a release file. Free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from margrave.errors import InputError, invalid

__all__ = ["sample"]


def sample(
    release: Annotated[Path, typer.Argument(help="A release file written by --release or save().")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the synthetic rows go.")],
    rows: Annotated[int | None, typer.Option(min=0, help="How many; the noisy count by default.")] = None,
    given: Annotated[
        list[str] | None, typer.Option("--given", help="COLUMN=VALUE to condition on exactly; repeatable.")
    ] = None,
    given_table: Annotated[
        Path | None,
        typer.Option("--given-table", help="Table of some columns: one row is drawn for each of its rows."),
    ] = None,
    missing: Annotated[str, typer.Option("--missing", help="Text for missing values in CSV.")] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of sampling.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Also write the HTML report here.")] = None,
) -> None:
    """Draw synthetic rows from a release file. Free: post-processing."""
    from margrave.files import check_outputs, suffix_of, write_table
    from margrave.synthesis import load

    suffix_of(out)
    check_outputs({"out": out, "report": report}, {"release": release, "given table": given_table})
    synthesis = load(release)
    values: Any = _given(given, missing)
    if given_table is not None:
        values = _given_table(given_table, missing) if values is None else _one_given()
    write_table(synthesis.sample_arrow(rows, given=values, rng=seed), out, missing)
    if report is not None:
        synthesis.report(report)


def _given(pairs: list[str] | None, missing: str) -> dict[str, Any] | None:
    given: dict[str, Any] = {}
    for pair in pairs or []:
        name, found, value = pair.partition("=")
        if not found:
            raise InputError(
                invalid("given", "of the form COLUMN=VALUE", "Try --given sex=Female.", got=pair)
            )
        given[name] = None if value == missing else value
    return given or None


def _given_table(path: Path, missing: str) -> Any:
    from margrave.engines.frames import read_table

    return read_table(path, (missing,))[0]


def _one_given() -> NoReturn:
    raise InputError(invalid("given", "left out with --given-table", "Add a column to the table."))
