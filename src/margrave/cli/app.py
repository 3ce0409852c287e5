"""The command line: a thin shell over the Python API. Exit codes: 0 done, 1 failed, 2 bad input, 3 not up to
what was required (`release`).
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from margrave import __version__
from margrave.cli.audit import audit
from margrave.cli.bench import bench_app
from margrave.cli.dummy import dummy
from margrave.cli.evaluate import evaluate
from margrave.cli.example import demo, example
from margrave.cli.ledger import ledger_app
from margrave.cli.regress import regress
from margrave.cli.release import release as make_release
from margrave.cli.sample import sample
from margrave.cli.schema import schema
from margrave.cli.show import column_notes, rule_notes, show
from margrave.cli.tables import fit, owners, tables
from margrave.cli.text import Columns, Drop, split_names, with_text_options
from margrave.errors import MargraveError

__all__ = ["app", "main"]


INTERRUPTED = 130
STOPPED = (
    "stopped; what was spent is in the ledger file, and no output was left half-written; "
    "the same command with --resume goes on"
)
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
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss for everything, above 0.")]
Delta = Annotated[float, typer.Option(help="Far below one over the number of people protected.")]
# Written out, so that help need not import the methods; a test holds them together.
METHODS_HELP = (
    "One of aim, aim_grem, auto, batched, conditional_aim, dp_merf, gated, gem, independent, mst, mwem, "
    "private_gsd, privmrf, privpgd, privsyn, rap, rap_pp, residual_planner, tabddpm."
)
Method = Annotated[str, typer.Option(help=METHODS_HELP)]
SchemaFile = Annotated[Path | None, typer.Option("--schema", help="schema.json with what is public.")]
Outside = Annotated[
    Literal["refuse", "absorb"],
    typer.Option(help="A value the schema rules out: an error, or the nearest bin or (other)."),
]
Owner = Annotated[
    str | None,
    typer.Option(help="Column that says whose row it is: protects owners and leaves it out; else rows."),
]
MaxRows = Annotated[
    int | None, typer.Option(help="At most this many rows of one owner are used; 1 by default.")
]
Adjacency = Annotated[
    Literal["add_remove", "replace_one", "replace_private"] | None,
    typer.Option(help="Which tables are neighbours: add_remove, or with --public replace_private."),
]
Public = Annotated[
    list[str] | None,
    typer.Option("--public", help="Columns whose rows are public and come back as they are: A,B."),
]
Missing = Annotated[list[str] | None, typer.Option("--missing", help="Text that means missing; repeatable.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of sampling (never of the noise).")]
Rows = Annotated[int | None, typer.Option(min=0, help="How many rows; the noisy count by default.")]
Target = Annotated[str | None, typer.Option(help="Column that rows are meant to predict.")]
MaxMemory = Annotated[
    str | None, typer.Option("--max-memory", help="For the model, like 800MB or 4GB; the table not counted.")
]
MaxSeconds = Annotated[
    float | None,
    typer.Option("--max-seconds", help="Of post-processing, then end early but complete; reading is extra."),
]
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
TestSeed = Annotated[
    int | None,
    typer.Option(
        "--not-private-test-seed",
        min=0,
        help="NOT PRIVATE: draws the noise from this seed, for tests of programs. All output says so.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and no progress.")]


@app.command()
@with_text_options
def synthesize(
    table: Table,
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the synthetic rows go.")],
    delta: Delta = 1e-9,
    method: Method = "auto",
    schema: SchemaFile = None,
    outside: Outside = "refuse",
    owner: Owner = None,
    max_rows: MaxRows = None,
    adjacency: Adjacency = None,
    public: Public = None,
    missing: Missing = None,
    columns: Columns = None,
    drop: Drop = None,
    target: Target = None,
    engine: Engine = "auto",
    max_memory: MaxMemory = None,
    max_seconds: MaxSeconds = None,
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
    not_private_test_seed: TestSeed = None,
    text: Any = None,
) -> None:
    """Turn a private table into synthetic rows under one (epsilon, delta) for everything."""
    kept = _kept(ledger, out, not_private_test_seed)
    files = {"out": out, "ledger": kept, "report": report, "release": release}
    going_on = run if run is not None else resume
    _check_new(files, {"table": table}, force or going_on is not False)
    tokens = _missing(missing)
    options: dict[str, Any] = {"target": target, "engine": engine, **_limits(max_memory, max_seconds)}
    options |= {"outside": outside, "ledger": kept, "analyst": analyst, "text": text}
    options |= _selected(columns, drop, public)
    options |= _named(dataset, operator or analyst, ledger)
    options["not_private_test_seed"] = not_private_test_seed
    cap = _cap(owner, max_rows, quiet or as_json)
    asked = (method, epsilon, delta, schema, owner, cap, adjacency, tokens)
    drawn = {"rows": rows, "rng": not_private_test_seed if seed is None else seed}
    with _progress(quiet or as_json) as options["on_step"]:
        synthesis = _synthesized(table, files, asked, options, drawn, going_on)
    _tell_done(synthesis, {name: str(path) for name, path in files.items() if path}, quiet, as_json)


@app.command()
@with_text_options
def plan(
    table: Table,
    epsilon: Epsilon,
    delta: Delta = 1e-9,
    method: Method = "auto",
    schema: SchemaFile = None,
    outside: Outside = "refuse",
    owner: Owner = None,
    max_rows: MaxRows = None,
    adjacency: Adjacency = None,
    public: Public = None,
    missing: Missing = None,
    columns: Columns = None,
    drop: Drop = None,
    target: Target = None,
    max_memory: MaxMemory = None,
    max_seconds: MaxSeconds = None,
    rows: Annotated[int | None, typer.Option(help="Public guess of the row count, for the error.")] = None,
    as_json: AsJson = False,
    not_private_test_seed: TestSeed = None,
    text: Any = None,
) -> None:
    """Say what a run would discover, spend and cost. Spends nothing."""
    tokens = _missing(missing)
    options = {"outside": outside, "target": target, "text": text, **_limits(max_memory, max_seconds)}
    options |= {"not_private_test_seed": not_private_test_seed, **_selected(columns, drop, public)}
    cap = _cap(owner, max_rows, as_json)
    synthesizer = _synthesizer(method, epsilon, delta, schema, owner, cap, adjacency, tokens, **options)
    found = synthesizer.plan(table, rows=rows)
    typer.echo(json.dumps(found.to_json(), default=dict) if as_json else str(found))


app.add_typer(bench_app, name="bench")
app.add_typer(ledger_app, name="ledger")
app.command()(audit)
app.command()(with_text_options(evaluate))
app.command()(tables)
app.command()(with_text_options(fit))
app.command()(regress)
app.command()(with_text_options(owners))
app.command()(with_text_options(schema))
app.command(name="release")(make_release)
app.command()(sample)
app.command()(show)
app.command()(with_text_options(dummy))
app.command()(with_text_options(example))
app.command()(demo)


@app.callback(invoke_without_command=True)
def _version(
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
        _usage(error)
    except MargraveError as error:
        _fail(error, 2 if isinstance(error, ValueError) else 1)
    except (KeyboardInterrupt, typer.Abort):
        _fail(STOPPED, 1)
    except MemoryError:
        _fail("out of memory; declare coarser columns or lower max_cells", 1)
    except OSError as error:
        _fail(f"a file could not be written or read: {error.strerror}; free the disk and run again", 1)
    except Exception as error:  # its message and its traceback may quote the table: neither is shown
        _fail(f"unexpected {type(error).__name__}{_place(error)}; please report it", 1)
    if code == INTERRUPTED:
        _fail(STOPPED, 1)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> NoReturn:
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


def _place(error: BaseException) -> str:
    """Where in the code it was raised, in words."""
    trace = traceback.extract_tb(error.__traceback__)
    return f" at {Path(trace[-1].filename).name}:{trace[-1].lineno}" if trace else ""


def _fail(message: object, code: int) -> NoReturn:
    sys.stderr.write(f"margrave: {' '.join(str(message).split())}\n")
    sys.exit(code)


def _synthesizer(
    method: str,
    epsilon: float,
    delta: float,
    schema: Path | None,
    owner: str | None,
    max_rows: int,
    adjacency: Literal["add_remove", "replace_one", "replace_private"] | None,
    missing: list[str],
    **options: Any,
) -> Any:
    from margrave.privacy.unit import Unit
    from margrave.run.synthesizer import Synthesizer

    usual: Literal["add_remove", "replace_private"] = (
        "replace_private" if options.get("public") else "add_remove"
    )
    return Synthesizer(
        method,
        epsilon=epsilon,
        delta=delta,
        unit=Unit(owner, max_rows),
        adjacency=adjacency or usual,
        schema=schema,
        missing=missing,
        **options,
    )


def _synthesized(
    table: Path,
    files: dict[str, Path | None],
    asked: tuple[Any, ...],
    options: dict[str, Any],
    drawn: dict[str, Any],
    resume: bool | int,
) -> Any:
    """Fit, then write all that was asked for; only then are the answers kept for resuming dropped."""
    from margrave.files import write_table

    out, release, report = Path(str(files["out"])), files["release"], files["report"]
    synthesizer = _synthesizer(*asked, **options)
    synthesis = synthesizer.fit(table, resume=resume)
    if release is not None:
        synthesis.save(release)
    drawn |= {"max_seconds": synthesizer.sampling_seconds, "on_step": options["on_step"]}
    write_table(synthesis.sample_arrow(**drawn), out, asked[-1][0], synthesis.release.text)
    if report is not None:
        synthesis.report(report, outputs=[path for path in (out, release) if path is not None])
    synthesizer.forget()
    return synthesis


def _selected(columns: list[str] | None, drop: list[str] | None, public: list[str] | None) -> dict[str, Any]:
    """The columns to release, and the public ones among them, as arguments of the synthesizer."""
    return {
        "columns": split_names("columns", columns),
        "drop": split_names("drop", drop) or (),
        "public": split_names("public", public) or (),
    }


def _named(dataset: str | None, operator: str | None, ledger: Path | None) -> dict[str, Any]:
    """Where the release comes from, for its report; with a ledger, the data set is one of its book."""
    from margrave.release import Provenance

    provenance = Provenance(dataset=dataset or "", operator=operator or "")
    return {"provenance": provenance, "dataset": None if ledger is None else dataset}


def _kept(ledger: Path | None, out: Path, test_seed: int | None) -> Path | None:
    """Where the ledger goes: where it was asked for, or beside the output; a test run keeps none."""
    from margrave.files import suffix_of
    from margrave.release import check_marked_name

    suffix_of(out)
    if test_seed is not None:
        check_marked_name(out)
        return ledger  # which the synthesizer refuses
    return ledger or out.with_name(out.name + ".ledger.jsonl")


def _cap(owner: str | None, max_rows: int | None, quiet: bool) -> int:
    """The cap on the rows of an owner; says so where it was not chosen, since other rows are then dropped."""
    if owner is not None and max_rows is None and not quiet:
        typer.echo(
            f"note: one row of each {owner!r} is used and the others are dropped; choose with --max-rows, "
            "and see `margrave owners`",
            err=True,
        )
    return 1 if max_rows is None else max_rows


def _check_new(files: dict[str, Path | None], inputs: dict[str, Path | None], force: bool) -> None:
    """Check the files to be written; the ledger's own place is looked at by the ledger."""
    from margrave.files import check_outputs

    check_outputs(files, inputs)
    check_outputs({name: path for name, path in files.items() if name != "ledger"}, inputs, new=not force)


def _limits(max_memory: str | None, max_seconds: float | None) -> dict[str, Any]:
    from margrave.limits import bytes_of

    return {"max_memory": None if max_memory is None else bytes_of(max_memory), "max_seconds": max_seconds}


def _missing(texts: list[str] | None) -> list[str]:
    """The missing texts, the one to write first; an empty field always means missing."""
    return list(dict.fromkeys([*(texts or []), ""]))


def _progress(quiet: bool) -> Any:
    from margrave.cli.console import listening

    return listening(quiet)


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
    from margrave.report.release.usefulness import GOOD

    use = synthesis.usefulness()
    typer.echo(str(use), err=use.level != GOOD)
