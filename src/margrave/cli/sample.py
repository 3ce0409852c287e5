"""The command `margrave sample`: rows from a release file. Free."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from margrave.cli.options import Estimator
from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from margrave.run.synthesis import Synthesis
    from margrave.schema.storage.text import TextFormat


def sample(
    release: Annotated[Path, typer.Argument(help="A release file written by --release or save().")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the synthetic rows go.")],
    rows: Annotated[int | None, typer.Option(min=0, help="How many; the noisy count by default.")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            help="COLUMN=VALUE to condition on exactly, or COLUMN=LOW..HIGH (either end may be left out); "
            "repeatable. The same column again: either value will do.",
        ),
    ] = None,
    given_table: Annotated[
        Path | None,
        typer.Option("--given-table", help="Table of some columns: one row is drawn for each of its rows."),
    ] = None,
    missing: Annotated[str, typer.Option("--missing", help="Text for missing values in CSV.")] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of sampling.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Also write the HTML report here.")] = None,
    estimator: Estimator = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Draw synthetic rows from a release file. Free: post-processing."""
    from margrave.cli.show import tell_warning
    from margrave.files import check_outputs, suffix_of, write_table
    from margrave.run.synthesis import load

    suffix_of(out)
    inputs = {"release": release, "given table": given_table}
    check_outputs({"out": out, "report": report}, inputs, new=not force)
    synthesis = load(release, estimator)
    tell_warning(synthesis.guarantee, out)
    text = synthesis.release.text
    values: Any = _parse_given(given, missing, synthesis)
    if given_table is not None:
        values = _given_table(given_table, missing, text) if values is None else _one_given()
    drawn = synthesis.sample_arrow(rows, given=values, rng=seed)
    write_table(drawn, out, missing, text)
    if not quiet:
        typer.echo(
            f"{out}: {drawn.num_rows:,} synthetic rows, {drawn.num_columns} columns; nothing was spent"
        )
    if report is not None:
        synthesis.report(report)
        if not quiet:
            typer.echo(f"{report}: the report")


def _parse_given(pairs: list[str] | None, missing: str, synthesis: Synthesis) -> dict[str, Any] | None:
    """The values, ranges and sets of values that are said on the command line, by column."""
    from margrave.schema.given import Between

    values: dict[str, list[Any]] = {}
    for pair in pairs or []:
        name, found, value = pair.partition("=")
        if not found:
            raise InputError(
                invalid("given", "of the form COLUMN=VALUE", "Try --given sex=Female.", got=pair)
            )
        values.setdefault(name, []).append(_read_value(name, value, missing, synthesis))
    given: dict[str, Any] = {}
    for name, said in values.items():
        if len(said) > 1 and any(isinstance(value, Between) for value in said):
            remedy = "Name a range once, or single values as often as you like."
            raise InputError(invalid("given", "one range or several values for a column", remedy, got=name))
        given[name] = said[0] if len(said) == 1 else said
    return given or None


def _read_value(name: str, value: str, missing: str, synthesis: Synthesis) -> Any:
    """A value, or a range where the column has an order and no such value itself."""
    import pyarrow as pa

    from margrave.schema.columns import Binned, Ordinal
    from margrave.schema.given import Between
    from margrave.schema.storage.spelling import read_cells

    text, schema = synthesis.release.text, synthesis.schema
    column = schema[name] if name in schema.names else None

    def read(part: str) -> Any:
        return read_cells(pa.array([part], pa.large_string()), name, text)[0].as_py()

    ordered = isinstance(column, Binned) or (isinstance(column, Ordinal) and value not in column.labels)
    if ordered and ".." in value:
        low, _, high = value.partition("..")
        return Between(read(low) if low else None, read(high) if high else None)
    return None if value == missing else read(value)


def _given_table(path: Path, missing: str, text: TextFormat) -> Any:
    from margrave.engines.frames import read_table

    return read_table(path, (missing,), text.with_separator(path))[0]


def _one_given() -> NoReturn:
    raise InputError(invalid("given", "left out with --given-table", "Add a column to the table."))
