"""The command `margrave regress`: a regression from a release file, which is free, or with --spend one from a
private table, which spends a budget of its own.

Which of the two it is follows from --spend alone, never from the file: a release file is refused with it,
and a table without it, before anything is read of it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from margrave.cli.options import (
    Adjacency,
    Estimator,
    MaxRows,
    Missing,
    Outside,
    Owner,
    SchemaFile,
    expand_parameter,
    list_missing_texts,
    with_text_options,
)

if TYPE_CHECKING:
    from margrave.progress import OnStep
    from margrave.run.regressor import Regressor
    from margrave.run.regressor.result import PerturbedRegression


@dataclass(frozen=True, kw_only=True)
class SpendOptions:
    """What was said of a regression that spends; its fields are the options.

    Args:
        text: How a text file is written, from options of its own.
        Others: As the help of the command says.
    """

    spend: Annotated[
        Literal["ssp", "adassp", "objpert", "noisy_newton", "dp_sgd"] | None,
        typer.Option(help="SPENDS: fit to a private table by this method, instead of to a release file."),
    ] = None
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="With --spend: privacy loss for everything.")
    ] = None
    delta: Annotated[
        float | None, typer.Option(help="With --spend: far below one over the number of people; 1e-9.")
    ] = None
    schema: SchemaFile = None
    outside: Outside = "refuse"
    owner: Owner = None
    max_rows: MaxRows = None
    adjacency: Adjacency = None
    missing: Missing = None
    ledger: Annotated[
        Path | None,
        typer.Option(help="With --spend: new ledger file, OUT.ledger.jsonl by default; or a book."),
    ] = None
    dataset: Annotated[
        str | None, typer.Option(help="With a book: the data set, as its steward named it.")
    ] = None
    analyst: Annotated[str | None, typer.Option(help="With a book: who asks.")] = None
    details: Annotated[
        Path | None,
        typer.Option(help="With --spend: also write coefficients, promise and ledger to this JSON file."),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option(help="With --spend: also write an HTML page of coefficients, promise and ledger."),
    ] = None
    text: Any = None

    def list_given(self) -> list[str]:
        """Names of the options that only mean something with --spend and were given."""
        fields = [field for field in dataclasses.fields(self) if field.name not in ("spend", "text")]
        given = [field.name for field in fields if self.__dict__[field.name] != field.default]
        return [f"--{name.replace('_', '-')}" for name in given]


def _with_spend_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options, and those of text files, in place of its parameter `spending`."""
    annotations = get_type_hints(SpendOptions, include_extras=True)
    expanded = {
        field.name: (
            annotations[field.name],
            inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
        )
        for field in dataclasses.fields(SpendOptions)
    }
    # --encoding says here how a column becomes numbers; files are in UTF-8.
    return with_text_options(expand_parameter(command, "spending", expanded, SpendOptions), ("encoding",))


@_with_spend_options
def regress(
    release: Annotated[
        Path, typer.Argument(help="A release file (.margrave); with --spend the private table itself.")
    ],
    target: Annotated[str, typer.Option(help="Column to explain.")],
    kind: Annotated[
        Literal["linear", "logistic", "poisson"] | None,
        typer.Option(help="Of regression; linear by default, with --spend what the method can."),
    ] = None,
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
    spending: Any = None,
) -> None:
    """Fit a regression and give its coefficients with intervals.

    To a release file it is free: post-processing. With --spend it is fitted to a private table and spends
    epsilon on this one regression.
    """
    asked = dict(locals())
    if spending.spend is None:
        _fit_release(release, asked)
    else:
        _spend(release, asked)


def _fit_release(release: Path, asked: dict[str, Any]) -> None:
    """Fit to a release file. Free: post-processing."""
    from margrave.errors import InputError, invalid
    from margrave.files import check_outputs, suffix_of
    from margrave.regression.fit import Options, fit
    from margrave.run.synthesis import load

    out = asked["out"]
    _check_release(release, asked["spending"])
    if out is None and asked["quiet"]:
        raise InputError(invalid("--out", "given with --quiet", "Name a file, or leave --quiet out."))
    if out is not None:
        suffix_of(out)
        check_outputs({"out": out}, {"release": release}, new=not asked["force"])
    synthesis = load(release, asked["estimator"])
    names = synthesis.schema.names
    options = Options(
        features=asked["features"],
        encodings=_by_column("--encoding", asked["encoding"], names),
        reference=_by_column("--reference", asked["reference"], names),
        positive=asked["positive"],
        intercept=not asked["no_intercept"],
        source=asked["source"],
        of=asked["of"],
        level=asked["level"],
    )
    found = fit(synthesis, asked["target"], asked["kind"] or "linear", options)
    if out is not None:
        found.write(out)
    if not asked["quiet"]:
        typer.echo(f"{found}\nnothing was spent")


def _check_release(release: Path, spending: SpendOptions) -> None:
    """Refuse what belongs to --spend alone, and tables, before anything is opened."""
    from margrave.errors import InputError, invalid

    given = spending.list_given()
    if given:
        remedy = "Name the method that spends: --spend ssp."
        raise InputError(invalid(", ".join(given), "left out without --spend", remedy))
    if release.exists() and not _is_archive(release):
        remedy = "To fit to a private table, and to spend for it, add --spend ssp --epsilon 1."
        raise InputError(invalid("release", "a release file without --spend", remedy, got=str(release)))


def _is_archive(path: Path) -> bool:
    """Whether a file is a release file, by what it holds, not by its name; spreadsheets are zips too."""
    import zipfile

    from margrave.archive import DOCUMENT

    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return DOCUMENT in archive.namelist()


def _spend(table: Path, asked: dict[str, Any]) -> None:
    """Fit to a private table; what is written follows from the release of the coefficients alone."""
    from margrave.cli.console import listen_to_steps

    spending, quiet = asked["spending"], asked["quiet"]
    out, kept = _check_spending(table, asked)
    with listen_to_steps(quiet) as on_step:
        regressor = _make_regressor(table, asked, kept, on_step)
        found = regressor.fit(table, forget=False)
    _write_found(found, out, spending)
    regressor.forget()
    if not quiet:
        typer.echo(f"{found}\nwrote {out}; ledger {kept}")


def _write_found(found: PerturbedRegression, out: Path, spending: SpendOptions) -> None:
    """Write all that was asked for; where that fails, by whatever, print what was paid for.

    A regression cannot be resumed, and a second one would spend again.

    Raises:
        InputError: A file cannot be written.
    """
    from margrave.errors import InputError, invalid

    writing = ("--out", out)
    try:
        found.write(out)
        if spending.details is not None:
            writing = ("--details", spending.details)
            found.save(spending.details)
        if spending.report is not None:
            writing = ("--report", spending.report)
            found.report(spending.report)
        return
    except BaseException as error:
        # With all their digits, as --out would have them, so that they can be kept.
        typer.echo(found.format_csv(), nl=False)
        if not isinstance(error, OSError | InputError):
            raise
    remedy = "The coefficients are paid for and printed in its place: keep them."
    raise InputError(invalid(writing[0], "a file that can be written", remedy, got=str(writing[1])))


def _check_spending(table: Path, asked: dict[str, Any]) -> tuple[Path, Path]:
    """Where the coefficients and the ledger go; refuses what belongs to releases, and release files."""
    from margrave.errors import InputError, invalid
    from margrave.files import check_outputs, suffix_of

    spending, out = asked["spending"], asked["out"]
    only = {"source": "both", "of": "population", "estimator": None}
    left_out = [f"--{name}" for name, default in only.items() if asked[name] != default]
    if left_out:
        raise InputError(invalid(", ".join(left_out), "left out with --spend", "They are of releases."))
    if table.suffix == ".margrave" or _is_archive(table):
        remedy = "A release is regressed for nothing: leave --spend out."
        raise InputError(invalid("table", "a private table with --spend", remedy, got=str(table)))
    if spending.epsilon is None or out is None:
        remedy = "What is bought must not get lost: name --epsilon and --out coefficients.csv."
        raise InputError(invalid("--epsilon and --out", "given with --spend", remedy))
    suffix_of(out)
    kept = spending.ledger or out.with_name(out.name + ".ledger.jsonl")
    files = {"out": out, "details": spending.details, "report": spending.report}
    check_outputs(files | {"ledger": kept}, {"table": table})
    check_outputs(files, {"table": table}, new=not asked["force"])
    return out, kept


def _make_regressor(table: Path, asked: dict[str, Any], kept: Path, on_step: OnStep) -> Regressor:
    """The regressor of the options."""
    from margrave.privacy.unit import Unit
    from margrave.run.regressor import Regressor

    spending, names = asked["spending"], _column_names(table, asked["spending"])
    return Regressor(
        spending.spend,
        target=asked["target"],
        kind=asked["kind"],
        features=asked["features"],
        encodings=_by_column("--encoding", asked["encoding"], names),
        reference=_by_column("--reference", asked["reference"], names),
        positive=asked["positive"],
        intercept=not asked["no_intercept"],
        level=asked["level"],
        epsilon=spending.epsilon,
        delta=1e-9 if spending.delta is None else spending.delta,
        unit=Unit(spending.owner, spending.max_rows or 1),
        adjacency=spending.adjacency or "add_remove",
        schema=spending.schema,
        outside=spending.outside,
        missing=list_missing_texts(spending.missing),
        text=spending.text,
        ledger=kept,
        dataset=spending.dataset,
        analyst=spending.analyst,
        on_step=on_step,
    )


def _column_names(table: Path, spending: SpendOptions) -> tuple[str, ...]:
    """Names of the table's columns, which are public; no row is read."""
    from margrave.engines.opening import open_head

    source, _ = open_head(table, missing=list_missing_texts(spending.missing), text=spending.text)
    return tuple(column.name for column in source.columns)


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
