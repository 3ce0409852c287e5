"""The command `margrave ledger`: the steward's side of a book, and what an auditor takes away."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from margrave.privacy.ledger.book import Book
    from margrave.privacy.ledger.book_run import Account, Attempt, BookedRun

ledger_app = typer.Typer(
    help="Books: durable ledgers of all runs on a data set, with caps that no run may pass.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

BookFile = Annotated[Path, typer.Argument(help="A book: a file ending in .book, .db, .sqlite or .sqlite3.")]
Dataset = Annotated[str | None, typer.Option(help="Only this data set.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
EXPORTS = (".csv", ".json", ".parquet")
SQUARES = (
    "What is spent or reserved goes with the delta of the cap, and one more run with its own, 1e-9. The two "
    "do not add up to the cap, and the latter may be above it: runs are added up by rho, which grows with "
    "the square of epsilon. Half of the epsilon takes about a quarter of the rho."
)
"""Why an account of spent 0.44 of epsilon 1 has room for one more run of 0.9."""


@ledger_app.command()
def init(file: BookFile) -> None:
    """Make a new, empty book, readable by its owner alone."""
    from margrave.privacy.ledger.book import Book
    from margrave.privacy.ledger.book_file import SUFFIXES

    if file.suffix.lower() not in SUFFIXES:
        raise InputError(invalid("ledger", f"a file ending in one of {list(SUFFIXES)}", "Rename it."))
    Book.create(file)


@ledger_app.command()
def cap(
    file: BookFile,
    dataset: Annotated[str, typer.Option(help="A name for the data set; it is made if it is new.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="For all runs together, above 0.")],
    delta: Annotated[float, typer.Option(help="For all runs together; at least twice that of one run.")],
    analyst: Annotated[str, typer.Option(help="Only for this analyst's runs, besides the cap for all.")] = "",
    owner: Annotated[
        str | None, typer.Option(help="Protect the owners named in this column; else rows.")
    ] = None,
    adjacency: Annotated[
        Literal["add_remove", "replace_one"], typer.Option(help="Which tables are neighbours.")
    ] = "add_remove",
) -> None:
    """Say what all runs on a data set, or all of one analyst's, may spend together."""
    from margrave.privacy.unit import Neighbours, Unit

    _open_book(file).cap(dataset, epsilon, delta, Neighbours(Unit(owner), adjacency), analyst)


@ledger_app.command()
def show(file: BookFile, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """What is capped, spent, reserved and left, by data set and analyst."""
    found = [_describe_account(account) for account in _open_book(file).accounts(dataset)]
    if dataset is not None and not found:
        raise InputError(
            invalid("dataset", "one with a cap", "See all: margrave ledger show FILE.", got=dataset)
        )
    notes = ["", *(explain_account(account) for account in found), SQUARES] if found else []
    _tell(found, as_json, "no cap has been set", notes)


@ledger_app.command()
def runs(file: BookFile, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """All runs, oldest first."""
    _tell([_run(booked) for booked in _open_book(file).runs(dataset)], as_json, "no run has been made")


@ledger_app.command()
def refusals(file: BookFile, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """All runs that ended in an error or were killed: each error told its caller which it was."""
    book = _open_book(file)
    found = [
        _describe_attempt(book, one) for one in book.attempts(dataset) if one.outcome is None or one.refused
    ]
    _tell(found, as_json, "no run has been refused")


@ledger_app.command()
def events(
    file: BookFile,
    dataset: Dataset = None,
    run: Annotated[int | None, typer.Option("--run", help="Only this run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Every spend of every run, in order."""
    _tell(_list_events(_open_book(file), dataset, run), as_json, "nothing has been spent")


@ledger_app.command()
def export(
    file: BookFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="A .csv, .json or .parquet file.")],
    dataset: Dataset = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write everything for an auditor: a line a spend (.csv, .parquet), or caps, runs and spends (.json)."""
    from margrave.files import check_outputs, write_table, write_text

    if out.suffix.lower() not in EXPORTS:
        raise InputError(
            invalid("out", f"a file ending in one of {list(EXPORTS)}", "Rename it.", got=str(out))
        )
    check_outputs({"out": out}, {"ledger": file}, new=not force)
    book = _open_book(file)
    lines = _audit(book, dataset)
    if out.suffix.lower() == ".json":
        everything = {
            "caps": [_describe_account(account) for account in book.accounts(dataset)],
            "runs": [_run(booked) for booked in book.runs(dataset)],
            "refusals": [_describe_attempt(book, one) for one in book.attempts(dataset) if one.refused],
            "events": _list_events(book, dataset, None),
        }
        write_text(out, json.dumps(everything, indent=2) + "\n")
    elif out.suffix.lower() == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, fieldnames=list(_describe_event({}, {})), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        write_text(out, text.getvalue())
    else:
        import pyarrow as pa

        write_table(pa.Table.from_pylist(lines, schema=_arrow_schema()), out)
    typer.echo(
        f"{out}: caps, runs and spends of {file}"
        if out.suffix.lower() == ".json"
        else f"{out}: spends of {file}"
    )


@ledger_app.command()
def close(
    file: BookFile, run: Annotated[int, typer.Argument(help="The number of an open run that was killed.")]
) -> None:
    """Give up a run that crashed: all it reserved stays spent, and it cannot be resumed."""
    _open_book(file).give_up(run)


@ledger_app.command()
def retire(file: BookFile) -> None:
    """Close a book for good: all its caps count as spent. For one that was restored from an older copy."""
    from margrave.privacy.ledger.book import Book

    Book(file, restored=True).retire()


def _open_book(file: Path) -> Book:
    from margrave.privacy.ledger.book import Book

    return Book(file)


def _describe_account(account: Account) -> dict[str, Any]:
    cap, who = account.cap, account.cap.neighbours
    return {
        "dataset": cap.dataset,
        "analyst": cap.analyst,
        "protects": "rows" if who.unit.owner is None else f"owners in {who.unit.owner}",
        "adjacency": who.adjacency,
        "epsilon": cap.epsilon,
        "delta": cap.delta,
        "spent": _show_epsilon(account.spent.together),
        "reserved": _show_epsilon(account.reserved.together),
        "left": round(account.left, 6),
        "refused": account.refused,
        "retired": account.retired,
        "since": cap.made,
    }


def _run(booked: BookedRun) -> dict[str, Any]:
    who = booked.header.neighbours
    return {
        "run": booked.run,
        "dataset": booked.dataset,
        "analyst": booked.analyst,
        "state": booked.state,
        "epsilon": booked.header.epsilon,
        "delta": booked.header.delta,
        "rho": float(booked.rho),
        "rho_counted": float(booked.spent) if booked.charge else 0.0,
        "owner": who.unit.owner,
        "max_rows": who.unit.max_rows,
        "adjacency": who.adjacency,
        "accounting": booked.header.accounting,
        "events": booked.events,
        "opened": booked.opened,
        "ended": booked.ended,
    }


def _describe_attempt(book: Book, attempt: Attempt) -> dict[str, Any]:
    from margrave.privacy.accounting.accountants import event_rho

    spends = [] if attempt.run is None else book.events(attempt.run)
    return {
        "attempt": attempt.number,
        "dataset": attempt.dataset,
        "analyst": attempt.analyst,
        "run": attempt.run,
        "began": attempt.began,
        "ended": attempt.ended,
        "events": len(spends),
        "rho": float(sum(event_rho(event) for event, _ in spends)),
        "refusal": attempt.outcome or "not ended: going, or killed",
    }


def _list_events(book: Book, dataset: str | None, run: int | None) -> list[dict[str, Any]]:
    from margrave.privacy.accounting.accountants import event_delta, event_rho
    from margrave.privacy.accounting.events import event_to_json

    found: list[dict[str, Any]] = []
    for booked in book.runs(dataset):
        if run in (None, booked.run):
            for number, (event, made) in enumerate(book.events(booked.run)):
                said = event_to_json(event)
                line = {"run": booked.run, "number": number, "made": made, "event": said.pop("event")}
                line |= {"what": said.pop("what"), "rho": float(event_rho(event))}
                found.append({**line, "delta": float(event_delta(event)), "parameters": said})
    return found


def _audit(book: Book, dataset: str | None) -> list[dict[str, Any]]:
    """A line a spend, with its run; a run without one, and a refusal before any run, has its own line."""
    spends: dict[int, list[dict[str, Any]]] = {}
    for event in _list_events(book, dataset, None):
        spends.setdefault(event["run"], []).append(event)
    attempts = book.attempts(dataset)
    ended = {one.run: one.outcome for one in attempts if one.refused}
    lines = [
        _describe_event(_run(booked) | {"refusal": ended.get(booked.run)}, event)
        for booked in book.runs(dataset)
        for event in spends.get(booked.run, [{}])
    ]
    for one in attempts:
        if one.refused and one.run is None:
            said = {"dataset": one.dataset, "analyst": one.analyst, "state": "refused", "opened": one.began}
            lines.append(_describe_event({**said, "ended": one.ended, "refusal": one.outcome}, {}))
    return lines


def _describe_event(run: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    names = (
        "run",
        "dataset",
        "analyst",
        "state",
        "epsilon",
        "delta",
        "rho",
        "owner",
        "max_rows",
        "adjacency",
    )
    ends = ("accounting", "opened", "ended", "refusal")
    asked = {name: run.get(name) for name in (*names, *ends)}
    spent = {f"event_{name}": event.get(name) for name in ("number", "made", "event", "what", "rho", "delta")}
    parameters = event.get("parameters")
    return {**asked, **spent, "event_parameters": parameters and json.dumps(parameters)}


def _arrow_schema() -> Any:
    import pyarrow as pa

    numbers = {"epsilon", "delta", "rho", "event_rho", "event_delta"}
    whole = {"run", "max_rows", "event_number"}
    kinds = {**dict.fromkeys(numbers, pa.float64()), **dict.fromkeys(whole, pa.int64())}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in _describe_event({}, {})])


def _show_epsilon(value: float) -> float | None:
    """An epsilon for show; None where no account holds, which only a lowered cap can bring about."""
    return round(value, 6) if value < float("inf") else None


def _tell(rows: list[dict[str, Any]], as_json: bool, nothing: str, notes: Sequence[str] = ()) -> None:
    """Print rows as one JSON document, or as a table whose columns are aligned and what explains it."""
    if as_json:
        typer.echo(json.dumps(rows))
        return
    if not rows:
        typer.echo(nothing)
        return
    typer.echo("\n".join([*align_table(rows), *notes]))


def align_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows with the same keys as lines of text: a header, then one line a row; numbers to the right."""
    names = list(rows[0])
    cells = [["" if value is None else _show_cell(value) for value in row.values()] for row in rows]
    numbers = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    widths = [max(len(line[i]) for line in [names, *cells]) for i in range(len(names))]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in [names, *cells]
    ]


def explain_account(account: Mapping[str, Any]) -> str:
    """How a cap stands, in a sentence."""
    whose = (
        f"{account['dataset']}, analyst {account['analyst']}" if account["analyst"] else account["dataset"]
    )
    if account["retired"]:
        return f"{whose}: the book is retired, and all of its cap counts as spent."
    known = [account[name] is not None for name in ("spent", "reserved")]
    if not all(known):
        return f"{whose}: runs made before the cap was lowered promise more than it allows; nothing is left."
    spent, reserved = (_show_cell(account[name]) for name in ("spent", "reserved"))
    going = "" if reserved == spent else f", {reserved} with the runs that are open or were given up"
    one_more = (
        f"one more run of epsilon {_show_cell(account['left'])} and delta 1e-9 fits"
        if account["left"]
        else "nothing fits"
    )
    return f"{whose}: epsilon {spent} of {_show_cell(account['epsilon'])} is spent{going}; {one_more}."


def _show_cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
