"""Every run in a book that ends in an error is on record, spent or not, and so is one that was killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import margrave as mg
from command_line import call, files
from margrave.engines.memory import MemorySource
from margrave.errors import BudgetError, InputError, MargraveError
from margrave.measure.discovery.discover import Discovery
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.book_run import Attempt, describe_refusal
from margrave.privacy.unit import Neighbours, Unit
from margrave.run.regressor import Regressor
from margrave.schema.storage.text import TextFormat
from raw_sheets import ODD_CELLS, write_odd_sheet

INCOME = 48_217
"""What the canary earns: more than everybody else."""
MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d\+00:00")


def table(canary: bool) -> pa.Table:
    rng = np.random.default_rng(3)
    income = rng.integers(10_000, 40_000, 300)
    return pa.table({"income": np.append(income, INCOME) if canary else income})


def book(folder: Path, owner: str | None = None) -> Book:
    made = Book.create(folder / "steward.book")
    made.cap("people", 1.0, 1e-8, Neighbours(Unit(owner)))
    return made


def synthesizer(kept: Book, schema: mg.Schema | None = None, **more: Any) -> mg.Synthesizer:
    options = {"epsilon": 0.1, "ledger": kept, "dataset": "people", "analyst": "eve", "schema": schema}
    return mg.Synthesizer("independent", **(options | more))


OWNERS = pa.table({"id": ["p", None, "q"] * 50, "n": list(range(150))})


def _gaps(folder: Path, kept: Book) -> Any:
    return synthesizer(kept, unit="id", analyst="ann").fit(OWNERS)


def _gaps_of_sizes(folder: Path, kept: Book) -> Any:
    return mg.owner_sizes(OWNERS, "id", epsilon=0.1, ledger=kept, dataset="people", analyst="ann")


def _ragged(folder: Path, kept: Book) -> Any:
    (folder / "t.csv").write_text("id,n\np,1\nq\n", encoding="utf-8")
    return synthesizer(kept, unit="id", analyst="ann").fit(folder / "t.csv")


def _memory(folder: Path, kept: Book) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Discovery, "run", fail)
        return synthesizer(kept, unit="id", analyst="ann").fit(OWNERS.drop_null())


def _backend(folder: Path, kept: Book) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("row 17 holds CANARY")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemorySource, "histogram", fail)
        return synthesizer(kept, unit="id", analyst="ann").fit(OWNERS.drop_null())


def _past_the_cap(folder: Path, kept: Book) -> Any:
    return synthesizer(kept, unit="id", analyst="ann", epsilon=5.0).fit(OWNERS.drop_null())


REFUSALS = {
    "owners with gaps": (_gaps, "InputError: owner must be a column without missing values", 1),
    "owners with gaps, counted": (_gaps_of_sizes, "InputError: owner must be a column without missing", 1),
    "ragged file": (_ragged, "InputError: data must be a text file in which", 1),
    "memory": (_memory, "out of memory", 1),
    "backend": (_backend, "unexpected RuntimeError", 1),
    "cap": (_past_the_cap, "BudgetError: epsilon must be within what the cap of data set", None),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_every_refused_run_is_on_record(tmp_path: Path, name: str) -> None:
    act, words, run = REFUSALS[name]
    kept = book(tmp_path, "id")
    with pytest.raises((MargraveError, MemoryError, RuntimeError)):
        act(tmp_path, kept)
    (one,) = kept.attempts()
    assert (one.dataset, one.analyst, one.run, one.refused) == ("people", "ann", run, True)
    assert str(one.outcome).startswith(words)
    assert "CANARY" not in str(one.outcome)
    assert MINUTE.fullmatch(one.began)
    assert MINUTE.fullmatch(str(one.ended))
    assert [booked.state for booked in kept.runs()] == ["open"] * (run is not None)
    account = kept.accounts()[0]
    assert (account.refused, float(account.spent.total.epsilon)) == (1, 0.0)
    # What a run reserved before its table was opened stays reserved until the steward gives it back.
    assert (account.reserved.total.epsilon > 0) == (run is not None)
    if run is not None:
        assert call("ledger", "close", kept.path, run).code == 0
    assert kept.accounts()[0].reserved.total.epsilon == 0


def test_an_error_after_a_spend_is_on_record_and_the_run_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, true = book(tmp_path), MemorySource.histogram

    def fail(self: Any, *args: Any, **more: Any) -> Any:
        if kept.events(1):
            raise InputError("column 'income' must be of at most 3 different values.")
        return true(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(MemorySource, "histogram", fail)
        with pytest.raises(InputError, match="different values"):
            synthesizer(kept).fit(table(True))
    (run,) = kept.runs()
    assert (run.state, run.events > 0) == ("open", True)
    assert kept.accounts()[0].reserved.total.rho == run.rho
    synthesizer(kept).fit(table(True), resume=True)
    assert [one.outcome == "done" for one in kept.attempts()] == [False, True]
    assert {one.run for one in kept.attempts()} == {1}


def _people(path: Path, *more: str) -> Path:
    rows = [f"P{100 + i % 50},{20 + i % 60}" for i in range(400)]
    path.write_text("\n".join(["patient,age", *rows, *more]) + "\n", encoding="utf-8")
    return path


UNUSUAL = {
    "quote": ({"text": TextFormat(separator=",", quote="-")}, "quote must be one of"),
    "separator": ({"text": TextFormat(separator="-")}, "separator must be one of"),
    "encoding": ({"text": TextFormat(encoding="ascii")}, "encoding must be one of"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_book_refuses_to_read_in_ways_that_ask_about_cells(tmp_path: Path, name: str) -> None:
    options, words = UNUSUAL[name]
    kept = book(tmp_path, "patient")
    said = set()
    for rows in ([], ["P777,-77"], ["jé,1"]):
        path = _people(tmp_path / "p.csv", *rows)
        for ask in (
            lambda path=path: synthesizer(kept, unit="patient", **options).fit(path),
            lambda path=path: mg.owner_sizes(
                path, "patient", epsilon=0.1, ledger=kept, dataset="people", **options
            ),
            lambda path=path: Regressor(
                target="age", unit="patient", epsilon=0.1, ledger=kept, dataset="people", **options
            ).fit(path),
        ):
            with pytest.raises(InputError, match=words) as refused:
                ask()
            said.add(str(refused.value))
    assert len(said) == 1  # the same whoever is in the table
    assert kept.attempts() == []


def test_usual_ways_to_read_are_taken_in_a_book(tmp_path: Path) -> None:
    for number, (encoding, quote) in enumerate([("latin-1", "none"), ("windows", "'"), ("UTF8", '"')]):
        (tmp_path / str(number)).mkdir()
        kept = book(tmp_path / str(number), "patient")
        text = TextFormat(encoding=encoding, quote=quote, separator="comma")
        run = synthesizer(kept, unit="patient", text=text, missing=["", "NA", " Null ", "?"])
        run.fit(_people(tmp_path / "p.csv", "P777,NA"))
    own = tmp_path / "run.jsonl"  # outside a book the format is whatever the file has
    run = synthesizer(kept, unit="patient", ledger=own, dataset=None, analyst=None, missing=["", "-99"])
    run.fit(_people(tmp_path / "p.csv", "P777,-99"))


REFUSED_ON_ONE = {
    "an owner that is missing": ",30",
    "a row with a cell more": "P101,30,1",
    "a quote that is open": 'P101,"30',
}


@pytest.mark.parametrize("name", REFUSED_ON_ONE)
def test_a_later_release_does_not_say_whether_an_earlier_run_was_refused(tmp_path: Path, name: str) -> None:
    def write(folder: Path, odd: bool) -> Path:
        return _people(folder / f"{odd}.csv", *([REFUSED_ON_ONE[name]] if odd else []))

    _check_histories(tmp_path, write, unit="patient", outside="absorb")


def _write_bytes(folder: Path, odd: bool) -> Path:
    path = folder / f"{odd}.csv"
    path.write_bytes(b"place,age\n" + b"K\xf6ln,30\n" * 300 + (b"\x81,30\n" if odd else b""))
    return path


def _write_no_header(folder: Path, odd: bool) -> Path:
    path = folder / f"{odd}.csv"
    path.write_bytes((b"x,30,1\n" if odd else b"") + b"x,30\n" * 300)
    return path


def _make_categories(folder: Path, odd: bool) -> Any:
    places = ["x", "y"] * 150 + ([b"z"] if odd else [])
    return pd.DataFrame({"place": pd.Categorical(places), "age": [30] * len(places)})


def _make_dictionary(folder: Path, odd: bool) -> Any:
    raw = pa.array([b"x", b"y\xff"] if odd else [b"x", b"y"])
    texts = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    places = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 150, pa.int8()), texts, safe=False)
    return pa.record_batch({"place": places, "age": pa.array([30] * 300)})


def _make_arrow_dictionary(folder: Path, odd: bool) -> Any:
    places = _make_dictionary(folder, odd).column("place")
    return pd.DataFrame(
        {"place": pd.arrays.ArrowExtensionArray(pa.chunked_array([places])), "age": [30] * 300}
    )


BEFORE_THE_ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bytes in another encoding": (_write_bytes, {"text": TextFormat(encoding="cp1252")}),
    "a first row with a cell more": (_write_no_header, {"text": TextFormat(header=False, names=("a", "b"))}),
    "a category that is no text": (_make_categories, {}),
    "a dictionary's value that is no text": (_make_dictionary, {}),
    "the same in a frame": (_make_arrow_dictionary, {}),
}


@pytest.mark.parametrize("name", ODD_CELLS)
def test_a_run_on_a_sheet_is_on_record_before_a_cell_can_end_it(tmp_path: Path, name: str) -> None:
    _check_histories(tmp_path, lambda folder, odd: write_odd_sheet(folder / f"{odd}.xlsx", name, odd))


@pytest.mark.parametrize("name", BEFORE_THE_ROWS)
def test_a_run_is_on_record_before_a_row_can_end_it(tmp_path: Path, name: str) -> None:
    make, options = BEFORE_THE_ROWS[name]
    _check_histories(tmp_path, make, **options)


def _check_histories(folder: Path, make: Any, **run: Any) -> None:
    """A run on a table that has an odd row, and one on its neighbour, look alike in the next release."""
    found = []
    for odd in (False, True):
        (folder / f"book {odd}").mkdir()
        kept = book(folder / f"book {odd}", run.get("unit"))
        first = synthesizer(kept, **run)
        if odd:
            with pytest.raises(InputError):
                first.fit(make(folder, True))
        else:
            first.fit(make(folder, False))
        second = synthesizer(kept, **run).fit(make(folder, False))
        history = second.release.provenance.history
        assert history is not None
        found.append(history.to_json())
        # The book's own views keep how each run ended, and the truth is never above what is told.
        assert kept.runs()[0].state == ("open" if odd else "closed")
        assert history.epsilon >= kept.accounts()[0].reserved.together
    for one in found[0]["earlier"] + found[1]["earlier"]:
        one["date"] = ""  # midnight may lie between
    assert found[0] == found[1]
    assert [(one["run"], one["epsilon"], one["state"]) for one in found[0]["earlier"]] == [
        (1, 0.1, "admitted")
    ]


def test_who_is_let_in_later_does_not_follow_a_row_of_an_earlier_table(tmp_path: Path) -> None:
    said = []
    for odd in (False, True):
        (tmp_path / f"book {odd}").mkdir()
        kept = book(tmp_path / f"book {odd}", "patient")
        most = kept.accounts()[0].cap.epsilon
        ask = {"unit": "patient", "outside": "absorb", "epsilon": 0.9 * most}
        rows = _people(tmp_path / f"{odd}.csv", *([",30"] if odd else []))
        with contextlib.suppress(InputError):
            synthesizer(kept, analyst="ann", **ask).fit(rows)
        with pytest.raises(BudgetError) as refused:
            synthesizer(kept, analyst="bob", **ask).fit(_people(tmp_path / "more.csv"))
        said.append((str(refused.value), kept.runs()[0].state))
    (one, closed), (other, left_open) = said
    assert (closed, left_open) == ("closed", "open")
    assert _without_numbers(one) == _without_numbers(other)


def _without_numbers(text: str) -> str:
    """What is left may differ by how what is spent is rounded."""
    return re.sub(r"[0-9.]+", "0", text)


def test_bad_arguments_leave_no_record(tmp_path: Path) -> None:
    kept = book(tmp_path)
    with pytest.raises(InputError, match="epsilon"):
        synthesizer(kept, epsilon=-1.0)
    with pytest.raises(InputError, match="one with a cap"):
        synthesizer(kept, dataset="others").fit(tmp_path / "no such file.csv")
    assert kept.attempts() == []


def test_the_command_shows_refused_runs(tmp_path: Path) -> None:
    kept = book(tmp_path, "id")
    for act in (_ragged, _gaps):
        with pytest.raises(InputError):
            act(tmp_path, kept)
    shown = json.loads(call("ledger", "refusals", kept.path, "--json").out)
    assert [(row["run"], row["events"], row["rho"]) for row in shown] == [(1, 0, 0.0), (2, 0, 0.0)]
    assert all(row["analyst"] == "ann" and MINUTE.fullmatch(row["ended"]) for row in shown)
    assert shown[1]["refusal"].startswith("InputError: owner must be a column without missing values")
    assert json.loads(call("ledger", "show", kept.path, "--json").out)[0]["refused"] == 2
    assert json.loads(call("ledger", "runs", kept.path, "--json").out)[0]["state"] == "open"
    assert call("ledger", "export", kept.path, "--out", tmp_path / "a.csv").code == 0
    lines = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert all("InputError" in line and "open" in line for line in lines[1:])
    assert call("ledger", "export", kept.path, "--out", tmp_path / "a.json").code == 0
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["refusals"] == shown
    assert "no run has been refused" in call("ledger", "refusals", book(_folder(tmp_path)).path).out


def _folder(path: Path) -> Path:
    (path / "other").mkdir()
    return path / "other"


KILLED = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
import margrave as mg
from margrave.engines import opening
from margrave.privacy.ledger.book_run import BookRun

def die(*args, **more):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "opening":
    opening.open_source = die
else:
    BookRun.discard = die
data = pa.table({"id": ["p", None], "n": [1, 2]})
mg.Synthesizer("independent", epsilon=0.1, unit="id", ledger=sys.argv[1], dataset="people").fit(data)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(("when", "run"), [("opening", None), ("refusal", 1)])
def test_a_process_killed_before_its_record_is_seen_too(tmp_path: Path, when: str, run: int | None) -> None:
    kept = book(tmp_path, "id")
    command = [sys.executable, "-c", KILLED, str(kept.path), when]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    (one,) = kept.attempts()
    assert (one.run, one.outcome, one.ended) == (run, None, None)
    assert [booked.state for booked in kept.runs()] == ["open"] * (run is not None)
    assert (kept.accounts()[0].reserved.total.epsilon > 0) == (run is not None)
    (shown,) = json.loads(call("ledger", "refusals", kept.path, "--json").out)
    assert shown["refusal"] == "not ended: going, or killed"
    if run is not None:
        assert call("ledger", "close", kept.path, run).code == 0
        assert kept.attempts()[0].outcome == "stopped before its end"


RACER = """
import sys
import pyarrow as pa
import margrave as mg
data = pa.table({"id": ["p", None], "n": [1, 2]})
print("ready", flush=True)
sys.stdin.readline()
for _ in range(8):
    made = mg.Synthesizer("independent", epsilon=0.9, unit="id", ledger=sys.argv[1], dataset="people")
    try:
        made.fit(data)
    except (mg.errors.InputError, mg.errors.BudgetError):
        pass
"""


def test_two_processes_at_once_lose_no_record(tmp_path: Path) -> None:
    kept = book(tmp_path, "id")
    command = [sys.executable, "-c", RACER, str(kept.path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("go\n", timeout=120)
        assert process.returncode == 0
    assert [one.refused for one in kept.attempts()] == [True] * 16
    # Runs that the owners ended stay open; once they hold the cap, no further one is let in.
    (account,) = kept.accounts()
    assert {booked.state for booked in kept.runs()} == {"open"}
    assert (account.refused, account.spent.total.epsilon) == (16, 0)
    assert 0 < account.reserved.together <= account.cap.epsilon


def test_time_stamps_are_to_the_minute(tmp_path: Path) -> None:
    kept = book(tmp_path)
    synthesizer(kept).fit(table(True))
    kept.close()
    found = []
    with sqlite3.connect(tmp_path / "steward.book") as db:
        for name, fields in {"caps": "made", "events": "made", "runs": "opened, ended"}.items():
            found += [text for row in db.execute(f"SELECT {fields} FROM {name}") for text in row]  # noqa: S608
        found += [text for row in db.execute("SELECT began, ended FROM attempts") for text in row]
    db.close()
    assert len(found) > 6
    assert all(MINUTE.fullmatch(text) for text in found)
    data = b"".join((tmp_path / name).read_bytes() for name in files(tmp_path))
    assert re.search(rb"T\d\d:\d\d:\d\d", data) is None


def test_a_book_of_the_first_version_is_read_and_goes_on(tmp_path: Path) -> None:
    kept = book(tmp_path)
    synthesizer(kept).fit(table(True))
    kept.close()
    with sqlite3.connect(kept.path) as db:
        for statement in (
            "DROP TABLE attempts",
            "DROP TABLE retired",
            "DROP TABLE identity",
            "PRAGMA user_version = 1",
        ):
            db.execute(statement)
    db.close()
    old = Book(kept.path)
    assert [run.state for run in old.runs()] == ["closed"]
    assert old.attempts() == []
    with pytest.raises(InputError):
        synthesizer(Book(kept.path), unit="id").fit(OWNERS)
    synthesizer(old).fit(table(True))
    assert [one.outcome == "done" for one in old.attempts()] == [False, True]


def test_only_margraves_own_words_are_kept() -> None:
    assert describe_refusal(ValueError("CANARY")) == "unexpected ValueError"
    assert describe_refusal(OSError(5, "CANARY")) == "a file could not be read or written"
    assert describe_refusal(KeyboardInterrupt()) == "stopped by its user"
    assert describe_refusal(InputError("a\n b\x00" + "c" * 999)) == "InputError: a b" + "c" * 285
    going = Attempt(1, "people", "", None, "", None, None)
    assert not going.refused
