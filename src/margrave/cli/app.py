"""The command line: a thin shell over the Python API. Exit codes: 0 done, 1 failed, 2 bad input, 3 not up to
what was required (`release`).

The commands that spend a budget of their own stand here: `synthesize`, `plan`, which says what that would
spend, `release` and `owners`; `regress` has a module of its own. `main`, below, runs any command.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from margrave import __version__
from margrave.cli.bench import bench_app
from margrave.cli.evaluate import audit, evaluate
from margrave.cli.example import demo, dummy, example
from margrave.cli.images import images_app
from margrave.cli.ledger import ledger_app
from margrave.cli.options import (
    MethodCommand,
    check_epsilon,
    list_missing_texts,
    with_plan_options,
    with_run_options,
    with_text_options,
)
from margrave.cli.regress import regress
from margrave.cli.released import column_notes, fit, rule_notes, sample, show, tables
from margrave.cli.schema import schema
from margrave.errors import MargraveError, locate_error

INTERRUPTED_EXIT_CODE = 130
"""Exit code after an interrupt: 128 and the number of SIGINT, as shells have it."""
STOPPED_MESSAGE = (
    "stopped; what was spent is in the ledger file, and no output was left half-written; "
    "the same command with --resume goes on, or without it where there is no ledger file yet; "
    "a regression with --spend cannot go on and spends anew"
)
NOT_MET = 3
"""The exit code of a release that was made and does not meet what was required of it."""
USAGE: type[Exception] = typer.BadParameter.__mro__[2]
"""Click's base of all errors about the command line, wherever this version of Typer keeps Click."""

app = typer.Typer(
    help="Differentially private releases of tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Table = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, Excel, Parquet or Arrow file, folder of Parquet, or DATABASE.duckdb::TABLE."
    ),
]
Engine = Annotated[Literal["auto", "memory", "stream"], typer.Option(help="Load a file, or read in batches.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of sampling (never of the noise).")]
Rows = Annotated[int | None, typer.Option(min=0, help="How many rows; the noisy count by default.")]
LedgerFile = Annotated[
    Path | None,
    typer.Option(help="New ledger file, OUT.ledger.jsonl by default; or a book: *.book, *.db, *.sqlite."),
]
Dataset = Annotated[
    str | None,
    typer.Option(help="The data set's name, for the report; with a book: as its steward named it."),
]
Operator = Annotated[
    str | None, typer.Option(help="Who makes this release, for the report; the analyst by default.")
]
Analyst = Annotated[str | None, typer.Option(help="With a book: who asks.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the run that was stopped: same table, same options.")
]
Run = Annotated[int | None, typer.Option("--run", help="Resume this run of the book.")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="Also write the HTML report here.")]
Force = Annotated[bool, typer.Option("--force", help="Write over files that are there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and no progress.")]


@app.command(cls=MethodCommand)
@with_run_options
def synthesize(
    table: Table,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the synthetic rows go.")],
    engine: Engine = "auto",
    rows: Rows = None,
    seed: Seed = None,
    report: ReportFile = None,
    release: Annotated[Path | None, typer.Option(help="Also write the release file here.")] = None,
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    analyst: Analyst = None,
    operator: Operator = None,
    resume: Resume = False,
    run: Run = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    asked: Any = None,
) -> None:
    """Turn a private table into synthetic rows under one (epsilon, delta) for everything."""
    kept = _place_ledger(ledger, out, asked.not_private_test_seed)
    files = {"out": out, "ledger": kept, "report": report, "release": release}
    going_on = run if run is not None else resume
    _check_new(files, {"table": table}, force or going_on is not False)
    options: dict[str, Any] = {"engine": engine, "ledger": kept, "analyst": analyst}
    options |= _name_source(dataset, operator or analyst, ledger)
    drawn = {"rows": rows, "rng": asked.not_private_test_seed if seed is None else seed}
    with _show_progress(quiet or as_json) as options["on_step"]:
        synthesizer = asked.make_synthesizer(quiet or as_json, **options)
        synthesis = _synthesize_files(synthesizer, table, files, asked.missing_texts[0], drawn, going_on)
    _tell_done(synthesis, {name: str(path) for name, path in files.items() if path}, quiet, as_json)


@app.command(cls=MethodCommand)
@with_plan_options
def plan(
    table: Table,
    rows: Annotated[int | None, typer.Option(help="Public guess of the row count, for the error.")] = None,
    error: Annotated[
        float | None,
        typer.Option(help="Find the least epsilon for this error of tables of two columns; with --rows."),
    ] = None,
    risk: Annotated[
        str | None,
        typer.Option(
            help="Find the largest epsilon at which an attack finds so many: '10% at 1%' false alarms."
        ),
    ] = None,
    as_json: AsJson = False,
    asked: Any = None,
) -> None:
    """Say what a run would discover, spend and cost. Spends nothing."""
    check_epsilon(asked.epsilon, error, risk)
    found = asked.make_synthesizer(as_json).plan(table, rows=rows, error=error, risk=risk)
    typer.echo(json.dumps(found.to_json(), default=dict) if as_json else str(found))


def release(
    spec: Annotated[Path, typer.Argument(help="A TOML or JSON file that says all of the release.")],
    fail_under: Annotated[
        float | None,
        typer.Option(
            "--fail-under",
            help="End with code 3 if a smaller share of the measured tables is usable: moved by noise by at "
            "most 0.1 in total variation. Over what [checks] says.",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what it would do. Spends nothing.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that was stopped.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a release as one file says it, and check it. Ends with code 3 if a requirement is not met."""
    from margrave.archive import guarantee_to_json
    from margrave.run.specification import make_release, read_specification

    said = read_specification(spec)
    if "owner" in said.data and "max_rows" not in said.data and not (quiet or as_json):
        owner = said.data["owner"]
        words = f"note: one row of each {owner!r} is used and the others are dropped; choose with max_rows"
        typer.echo(f"{words} in [data], and see `margrave owners`", err=True)
    if plan:
        found = said.synthesizer().plan(str(said.folder / said.data["table"]))
        typer.echo(json.dumps(found.to_json(), default=dict) if as_json else str(found))
        return
    with _show_progress(quiet or as_json) as on_step:
        made = make_release(said, usable=fail_under, resume=resume, force=force, on_step=on_step)
    if as_json:
        checks = [
            {
                "name": one.name,
                "value": one.value if math.isfinite(one.value) else None,
                "bound": one.bound,
                "at_least": one.at_least,
                "met": one.met,
                "private": one.private,
            }
            for one in made.checks
        ]
        files = {name: str(path) for name, path in made.files.items()}
        promise = guarantee_to_json(made.synthesis.guarantee)
        typer.echo(json.dumps({"guarantee": promise, "files": files, "checks": checks, "met": made.met}))
    elif not quiet:
        for line in rule_notes(made.synthesis.release):
            typer.echo(f"warning: {line}", err=True)
        typer.echo(f"guarantee: {made.synthesis.guarantee}")
        for name, path in made.files.items():
            typer.echo(f"{name}: {path}")
        for one in made.checks:
            typer.echo(f"check: {one}")
    if not made.met:
        raise typer.Exit(NOT_MET)


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
    found = owner_sizes(
        table,
        owner,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        most=most,
        missing=list_missing_texts(missing),
        text=text,
        ledger=book,
        dataset=dataset,
        analyst=analyst,
    )
    typer.echo(str(found))


app.add_typer(bench_app, name="bench")
app.add_typer(images_app, name="images")
app.add_typer(ledger_app, name="ledger")
app.command()(audit)
app.command()(with_text_options(evaluate))
app.command()(tables)
app.command()(with_text_options(fit))
app.command()(regress)
app.command()(with_text_options(owners))
app.command()(with_text_options(schema))
app.command()(release)
app.command()(sample)
app.command()(show)
app.command()(with_text_options(dummy))
app.command()(with_text_options(example))
app.command()(demo)


@app.callback(invoke_without_command=True)
def _print_version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; whatever fails ends with one clear line on standard error."""
    try:
        code = app(standalone_mode=False)
    except USAGE as error:
        _fail_with_usage(error)
    except MargraveError as error:
        _fail(error, 2 if isinstance(error, ValueError) else 1)
    except (KeyboardInterrupt, typer.Abort):
        _fail(STOPPED_MESSAGE, 1)
    except MemoryError:
        _fail("out of memory; declare coarser columns or lower max_cells", 1)
    except OSError as error:
        said = f"a file could not be written or read: {error.strerror}; free the disk and run again"
        _fail(f"{said}, a release with --resume: what was spent is in its ledger file", 1)
    except Exception as error:  # its message and its traceback may quote the table: neither is shown
        _fail(f"unexpected {type(error).__name__}{locate_error(error)}; please report it", 1)
    if code == INTERRUPTED_EXIT_CODE:
        _fail(STOPPED_MESSAGE, 1)
    sys.exit(code if isinstance(code, int) else 0)


def _fail_with_usage(error: Any) -> NoReturn:
    """End with what is wrong with the command line; a bare `margrave` gets the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    context = getattr(error, "ctx", None)
    words: list[str] = []
    while context is not None and context.parent:
        words.insert(0, context.info_name)
        context = context.parent
    command = " ".join(["margrave", *words])
    _fail(f"{error.format_message()} Try '{command} --help'.", 2)


def _fail(message: object, code: int) -> NoReturn:
    sys.stderr.write(f"margrave: {' '.join(str(message).split())}\n")
    sys.exit(code)


def _synthesize_files(
    synthesizer: Any,
    table: Path,
    files: dict[str, Path | None],
    missing: str,
    drawn: dict[str, Any],
    resume: bool | int,
) -> Any:
    """Fit, then write all that was asked for; only then are the answers kept for resuming dropped."""
    from margrave.files import write_table
    from margrave.progress import Step, keep_telling

    out, release, report = Path(str(files["out"])), files["release"], files["report"]
    synthesis = synthesizer.fit(table, resume=resume)
    if release is not None:
        synthesis.save(release)
    drawn |= {"max_seconds": synthesizer.sampling_seconds, "on_step": synthesizer.on_step}
    rows = synthesis.sample_arrow(**drawn)
    with keep_telling(synthesizer.on_step) as tell:
        tell(Step("sample", "rows are written", 0, 1.0))
        write_table(rows, out, missing, synthesis.release.text)
        if report is not None:
            synthesis.report(report, outputs=[path for path in (out, release) if path is not None])
        synthesizer.forget()
    return synthesis


def _name_source(dataset: str | None, operator: str | None, ledger: Path | None) -> dict[str, Any]:
    """Where the release comes from, for its report; with a ledger, the data set is one of its book."""
    from margrave.release import Provenance

    provenance = Provenance(dataset=dataset or "", operator=operator or "")
    return {"provenance": provenance, "dataset": None if ledger is None else dataset}


def _place_ledger(ledger: Path | None, out: Path, test_seed: int | None) -> Path | None:
    """Where the ledger goes: where it was asked for, or beside the output; a test run keeps none."""
    from margrave.files import suffix_of
    from margrave.release import check_marked_name

    suffix_of(out)
    if test_seed is not None:
        check_marked_name(out)
        return ledger  # which the synthesizer refuses
    return ledger or out.with_name(out.name + ".ledger.jsonl")


def _check_new(files: dict[str, Path | None], inputs: dict[str, Path | None], force: bool) -> None:
    """Check the files to be written; the ledger's own place is looked at by the ledger."""
    from margrave.files import check_outputs

    check_outputs(files, inputs)
    check_outputs({name: path for name, path in files.items() if name != "ledger"}, inputs, new=not force)


def _show_progress(quiet: bool) -> Any:
    from margrave.cli.console import listen_to_steps

    return listen_to_steps(quiet)


def _tell_done(synthesis: Any, files: dict[str, str], quiet: bool, as_json: bool) -> None:
    """Print what may be done with the release, what was promised and what was written."""
    from margrave.archive import guarantee_to_json

    if synthesis.guarantee.warning:
        typer.echo(f"warning: {synthesis.guarantee.warning}", err=True)
    if as_json:
        verdict = synthesis.usefulness().to_json()
        guarantee = guarantee_to_json(synthesis.guarantee)
        typer.echo(json.dumps({"usefulness": verdict, "guarantee": guarantee, "files": files}))
    elif not quiet:
        for line in rule_notes(synthesis.release):
            typer.echo(f"warning: {line}", err=True)
        _tell_usefulness(synthesis)
        typer.echo(f"guarantee: {synthesis.guarantee}")
        for line in column_notes(synthesis.release):
            typer.echo(f"note: {line}")
        for name, path in files.items():
            typer.echo(f"{name}: {path}")


def _tell_usefulness(synthesis: Any) -> None:
    """Print the verdict; a warning goes to standard error."""
    from margrave.report.html import Level

    use = synthesis.usefulness()
    typer.echo(str(use), err=use.level != Level.GOOD)
