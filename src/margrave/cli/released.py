"""Commands on what is public already, all free: `margrave show`, `sample`, `tables` and `fit`.

`show` says what a release file holds, `sample` draws rows from it, `tables` writes its noisy contingency
tables, and `fit` makes a model of such tables, whoever released them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from margrave.cli.options import Estimator
from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from collections.abc import Sized

    from margrave.protocols import Model
    from margrave.release import Guarantee, Release
    from margrave.run.synthesis import Synthesis
    from margrave.schema.columns import Column
    from margrave.schema.storage.text import TextFormat


def show(
    release: Annotated[Path, typer.Argument(help="A release file written by --release or save().")],
    estimator: Estimator = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say what a release file is good for and what it holds: guarantee, columns. Free: post-processing."""
    from margrave.archive import guarantee_to_json, provenance_to_json
    from margrave.run.synthesis import load
    from margrave.schema.constraints.references import find_references

    synthesis = load(release, estimator)
    found = synthesis.release
    if as_json:
        marked = {"NOT PRIVATE": found.guarantee.warning} if found.guarantee.warning else {}
        document = {
            **marked,
            "usefulness": synthesis.usefulness().to_json(),
            "provenance": provenance_to_json(found.provenance),
            "guarantee": guarantee_to_json(found.guarantee),
            "method": found.notes.get("method"),
            "rows": round(found.total),
            "schema": found.schema.to_json(),
            "measurements": [list(marginal.clique) for marginal in found.measurements],
            "text": found.text.to_json(),
            "notes": dict(found.notes),
            "rules left out": [rule.to_json() for rule in found.rules_left_out],
            "rules not read": [rule.to_json() for rule in found.rules_not_read],
            "found rules": [rule.to_json() for rule in synthesis.model.found_rules],
            "references": find_references(found.schema),
        }
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    warning = [found.guarantee.warning] if found.guarantee.warning else []
    notes = [f"warning: {line}" for line in rule_notes(found)]
    lines = [*describe_release(found), *describe_found_rules(synthesis.model)]
    typer.echo("\n".join([*warning, *notes, str(synthesis.usefulness()), *lines]))


def tell_warning(guarantee: Guarantee, out: Path) -> None:
    """Say on standard error, however quiet the command is to be, that rows or tables are not private.

    Args:
        guarantee: Of the release that they come from.
        out: The file to write.

    Raises:
        InputError: They are not private and the name of the file does not say so.
    """
    from margrave.release import check_marked_name

    if guarantee.warning:
        check_marked_name(out)
        typer.echo(f"warning: {guarantee.warning}", err=True)


def describe_release(release: Release) -> list[str]:
    """A release in a few lines, all of them from released quantities."""
    from margrave.schema.constraints.orders import describe_found
    from margrave.schema.constraints.references import describe_references
    from margrave.schema.describe import describe_column

    sizes = [len(marginal.clique) for marginal in release.measurements]
    counts = [f"{sizes.count(size)} of {size} column(s)" for size in sorted(set(sizes))]
    lines = [
        f"guarantee     {release.guarantee}",
        f"method        {release.method}",
        f"rows          about {max(round(release.total), 0):,}",
        f"measured      {', '.join(counts) or 'nothing'}; {len(release.events)} spends in its ledger",
        f"written by    margrave {release.notes.get('margrave', 'unknown')}",
    ]
    origin = release.provenance
    said = {
        "data set": origin.dataset,
        "made by": origin.operator,
        "read from": origin.source,
        "day": origin.date,
    }
    lines += [f"{what:<13} {text}" for what, text in said.items() if text]
    format_parts = release.text.to_json()
    if format_parts:
        parts = [f"{name} {value!r}" for name, value in format_parts.items()]
        lines.append(f"text files    {', '.join(parts)}")
    width = max(len(column.name) for column in release.schema.columns)
    lines.append(f"columns       {len(release.schema.columns)}")
    lines += [f"  {column.name:<{width}}  {describe_column(column)}" for column in release.schema.columns]
    if release.schema.rules:
        declared = [rule.kind for rule in release.schema.rules if rule.found is None]
        lines += [f"rules         {', '.join(declared)}"] if declared else []
        lines += [f"found         {words}" for words in describe_found(release.schema.rules)]
    lines += [f"found         {words}" for words in describe_references(release.schema)]
    return lines


def describe_found_rules(model: Model) -> list[str]:
    """What a fit saw in released tables, a line each."""
    from margrave.schema.describe import describe_rule

    return [f"found         {describe_rule(rule)}" for rule in model.found_rules]


def rule_notes(release: Release) -> list[str]:
    """Declared rules that the rows of a release may break, with the reason."""
    from margrave.schema.describe import describe_rule

    left_out = [
        f"the rule {describe_rule(rule)} is left out, and rows may break it: no row of the values that were "
        "discovered obeys it. Declare bounds and values of its columns, or check the rule"
        for rule in release.rules_left_out
    ]
    not_read = [
        f"rows may break the rule {describe_rule(rule)}: its two columns were not measured together, which "
        "leaves nothing to read it off. Declare its table, or take a method that measures the pair"
        for rule in release.rules_not_read
    ]
    return [*left_out, *not_read]


def _note_format(column: Column) -> list[str]:
    """In which format a column was found to be written, and what to do if it is not."""
    from margrave.schema.columns import Binned, Time
    from margrave.schema.columns.relative import take_own

    own = take_own(column)
    if isinstance(own, Time) and own.format:
        again = f"if that is wrong, declare {column.name!r} as an integer and run again"
        return [f"{column.name!r}: found times of day written as {own.format}; {again}"]
    if not isinstance(column, Binned) or not column.format:
        return []
    again = f"if that is wrong, run again with --format '{column.name}=...'"
    return [f"{column.name!r}: found format {column.format}; {again}"]


def column_notes(release: Release) -> list[str]:
    """What was found out about columns that a reader of the synthetic rows has to know."""
    from margrave.schema.columns import Identifier, Omitted
    from margrave.schema.columns.identifier import name_shapes
    from margrave.schema.columns.public_lists import lists_used
    from margrave.schema.constraints.references import describe_references
    from margrave.schema.describe import describe_found_ranges

    ranges = describe_found_ranges(release.schema.columns, release.declared_columns)
    found = [ranges] if ranges else []
    lists = lists_used([event.what for event in release.events])
    for column in release.schema.columns:
        if isinstance(column, Omitted) and column.reason:
            found.append(f"{column.name!r} is left out: {column.reason}")
        if column.name in release.declared_columns:
            continue
        if isinstance(column, Identifier):
            named, more = name_shapes(column)
            shapes = " or ".join((*named, *([f"{more} more"] if more else [])))
            found.append(
                f"{column.name!r} holds new keys of the shape {shapes}; one may be a real one by chance"
            )
        found += _note_format(column)
        if column.name in lists:
            found.append(
                f"{column.name!r}: values of the public list {lists[column.name]!r}; found, not promised: "
                "rare ones may be there by noise alone"
            )
        found += _drawing_notes(column)
    return [*found, *describe_references(release.schema)]


def _drawing_notes(column: Column) -> list[str]:
    """What a reader has to know of texts and numbers that are made up."""
    from margrave.schema.columns import Categorical, Integer, Listed
    from margrave.schema.columns.listed import has_new_keys
    from margrave.schema.columns.repeats import rows_per_key

    found = list[str]()
    if isinstance(column, Listed) and column.values is not None and not column.present:
        found.append(
            f"{column.name!r} is missing in every row: noise hides what its other cells hold, if it has any. "
            "Declare its kind, and its bounds or values, to keep them"
        )
    if isinstance(column, Listed) and column.stems:
        found.append(
            f"{column.name!r}: codes that are not frequent fell back to "
            f"{_count_of(column.stems, 'beginning')}; "
            "these stand alone, or what follows is made up"
        )
    if isinstance(column, Listed) and has_new_keys(column):
        many = f"{len(column.patterns)} patterns, which go with the other columns"
        shape = many if len(column.patterns) > 1 else f"the shape {column.patterns[0]}"
        found.append(f"{column.name!r} holds new keys of {shape}; one may be a real one by chance")
    if isinstance(column, Categorical | Integer) and column.repeats:
        what = "numbers" if isinstance(column, Integer) else "texts"
        found.append(
            f"{column.name!r}: {what} that are made up come back as often as real ones, in "
            f"{rows_per_key(column.repeats):.1f} rows in the mean; rows of one are not alike otherwise"
        )
    if isinstance(column, Listed) and column.patterns and not has_new_keys(column):
        found.append(
            f"{column.name!r}: texts that are not frequent fell back to "
            f"{_count_of(column.patterns, 'pattern')}, of which texts are made up; one may be a real one by "
            "chance"
        )
    return found


def _count_of(parts: Sized, word: str) -> str:
    """How many there are of something, in words."""
    return f"{len(parts)} {word}" if len(parts) == 1 else f"{len(parts)} {word}s"


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

    from margrave.schema.columns import Binned, Listed, Relative
    from margrave.schema.given import Between
    from margrave.schema.storage.spelling import read_cells

    text, schema = synthesis.release.text, synthesis.schema
    column = schema[name] if name in schema.names else None

    def read(part: str) -> Any:
        return read_cells(pa.array([part], pa.large_string()), name, text)[0].as_py()

    listed = isinstance(column, Listed) and column.ordered > 0 and value not in column.labels
    ordered = listed or isinstance(column, (Binned, Relative))
    if ordered and ".." in value:
        low, _, high = value.partition("..")
        return Between(read(low) if low else None, read(high) if high else None)
    return None if value == missing else read(value)


def _given_table(path: Path, missing: str, text: TextFormat) -> Any:
    from margrave.engines.frames import read_table

    return read_table(path, (missing,), text.with_separator(path))[0]


def _one_given() -> NoReturn:
    raise InputError(invalid("given", "left out with --given-table", "Add a column to the table."))


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
    from margrave.files import check_outputs, suffix_of, write_table
    from margrave.privacy.unit import Neighbours, Unit
    from margrave.run.without_table import fit_tables, stated_guarantee

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
