"""`margrave ledger`: the steward sets caps, analysts run under them, the auditor takes a record away."""

from __future__ import annotations

import csv
import gc
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import margrave as mg
from command_line import call, files
from margrave.cli.ledger import explain_account
from stopping import Killed, frame, killing

SYNTHESIZE = ("-e", 1, "--method", "independent", "--dataset", "people", "--analyst", "ann")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table, and a book with a cap that leaves room for two runs by the sum of epsilons."""
    frame(300).to_csv(tmp_path / "t.csv", index=False)
    for words in (("init",), ("cap",)):
        more = ("--dataset", "people", "--epsilon", 2, "--delta", "4e-9") if words == ("cap",) else ()
        done = call("ledger", *words, tmp_path / "s.book", *more)
        assert (done.code, done.out, done.err) == (0, "", "")
    return tmp_path


def synthesize(folder: Path, *more: object) -> Any:
    words = (folder / "t.csv", *SYNTHESIZE, "--ledger", folder / "s.book", "-o", folder / "out.csv", *more)
    return call("synthesize", *words)


def rows(folder: Path, what: str, *more: object) -> list[dict[str, Any]]:
    done = call("ledger", what, folder / "s.book", "--json", *more)
    assert (done.code, done.err) == (0, "")
    return list(json.loads(done.out))


def test_from_cap_to_audit(folder: Path) -> None:
    assert rows(folder, "show")[0]["left"] == pytest.approx(2.0)
    assert synthesize(folder).code == 0
    (account,) = rows(folder, "show", "--dataset", "people")
    assert {k: account[k] for k in ("dataset", "analyst", "protects", "adjacency", "epsilon", "delta")} == {
        "dataset": "people", "analyst": "", "protects": "rows", "adjacency": "add_remove",
        "epsilon": 2.0, "delta": 4e-9,
    }  # fmt: skip
    assert 0.8 < account["spent"] <= account["reserved"] <= 1.2
    assert 1.0 <= account["left"] < 1.9
    with sqlite3.connect(folder / "s.book") as db:  # its release is saved: nothing is kept for resuming
        assert db.execute("SELECT count(*) FROM answers").fetchone() == (0,)
    db.close()
    (run,) = rows(folder, "runs")
    assert (run["analyst"], run["state"], run["epsilon"], run["accounting"]) == ("ann", "closed", 1.0, "gdp")
    assert 0.99 * run["rho"] < run["rho_counted"] <= run["rho"]
    spends = rows(folder, "events", "--run", 1)
    assert len(spends) == run["events"] > 3
    assert sum(spend["rho"] for spend in spends) == pytest.approx(run["rho_counted"])
    assert spends[0]["what"].endswith(" of a")
    for name in ("a.csv", "a.json", "a.parquet"):
        assert call("ledger", "export", folder / "s.book", "--out", folder / name).code == 0
    with (folder / "a.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    table = pq.read_table(folder / "a.parquet").to_pylist()
    assert [line["event_what"] for line in lines] == [row["event_what"] for row in table]
    assert [row["event_what"] for row in table] == [spend["what"] for spend in spends]
    assert list(lines[0]) == list(table[0])
    assert float(lines[0]["event_rho"]) == table[0]["event_rho"] == spends[0]["rho"]
    everything = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    assert everything["caps"] == [account]
    assert everything["runs"] == [run]
    assert everything["events"] == spends


def test_the_tables_for_people(folder: Path) -> None:
    empty = call("ledger", "runs", folder / "s.book")
    assert empty.out == "no run has been made\n"
    assert call("ledger", "events", folder / "s.book").out == "nothing has been spent\n"
    assert synthesize(folder).code == 0
    for what in ("show", "runs", "events"):
        done = call("ledger", what, folder / "s.book")
        assert (done.code, done.err) == (0, "")
        header, first, *_ = done.out.splitlines()
        starts = [found.start() for found in re.finditer(r"(?<=  )\S|^\S", header)]
        assert len(starts) > 5
        assert "\t" not in done.out
        # A text begins and a number ends where its heading does.
        assert all(first[at - 1 : at] in (" ", "") or first[at : at + 1].isdigit() for at in starts)
    told = call("ledger", "show", folder / "s.book").out.splitlines()
    account = rows(folder, "show")[0]
    assert f"people: epsilon {account['spent']:.6g} of 2 is spent; " in told[3]
    assert f"one more run of epsilon {account['left']:.6g} and delta 1e-9 fits." in told[3]
    assert "square of epsilon" in told[4]


def test_an_account_is_explained_however_it_stands(folder: Path) -> None:
    (account,) = rows(folder, "show")
    assert (
        explain_account(account)
        == "people: epsilon 0 of 2 is spent; one more run of epsilon 2 and delta 1e-9 fits."
    )
    open_run = {**account, "reserved": 0.75, "analyst": "ann", "left": 0.0}
    assert explain_account(open_run) == (
        "people, analyst ann: epsilon 0 of 2 is spent, 0.75 with the runs that are open or were given up; "
        "nothing fits."
    )
    assert "nothing is left" in explain_account({**account, "reserved": None})
    assert "retired" in explain_account({**account, "retired": True})


def test_an_export_is_not_written_over(folder: Path) -> None:
    out = folder / "a.csv"
    first = call("ledger", "export", folder / "s.book", "--out", out)
    assert (first.code, first.out) == (0, f"{out}: spends of {folder / 's.book'}\n")
    out.write_text("kept", encoding="utf-8")
    refused = call("ledger", "export", folder / "s.book", "--out", out)
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert out.read_text(encoding="utf-8") == "kept"
    assert call("ledger", "export", folder / "s.book", "--out", out, "--force").code == 0
    assert out.read_text(encoding="utf-8") != "kept"


def test_a_run_past_the_cap_is_refused_in_one_line(folder: Path) -> None:
    assert synthesize(folder, "--epsilon", 2).code == 0
    (folder / "out.csv").unlink()
    done = synthesize(folder, "--epsilon", 1.9)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("margrave: epsilon must be within what the cap of data set 'people' leaves")
    assert len(rows(folder, "runs")) == 1
    assert "out.csv" not in files(folder)


def test_a_run_that_fails_before_it_asks_is_given_back_by_the_steward(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from margrave.measure.discovery.discover import Discovery

    def fail(*args: object) -> None:
        raise mg.errors.InputError("no")

    monkeypatch.setattr(Discovery, "run", fail)
    assert synthesize(folder).code == 2
    (run,) = rows(folder, "runs")
    # The error may follow the rows, so that a later run must not be let in by it.
    assert (run["state"], run["events"], run["rho_counted"]) == ("open", 0, run["rho"])
    assert rows(folder, "show")[0]["left"] < 1.9
    assert call("ledger", "close", folder / "s.book", run["run"]).code == 0
    (run,) = rows(folder, "runs")
    assert (run["state"], run["events"], run["rho_counted"]) == ("crashed", 0, 0.0)
    assert rows(folder, "show")[0]["left"] == pytest.approx(2.0)
    alone = (folder / "t.csv", "-e", 1, "-o", folder / "out.csv", "--ledger", folder / "alone.jsonl")
    assert call("synthesize", *alone).code == 2
    assert "alone.jsonl" not in files(folder)


def test_a_killed_run_is_resumed_or_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(folder / "t.csv")
    book = str(folder / "s.book")
    for _ in range(2):
        synthesizer = mg.Synthesizer("independent", epsilon=1.0, ledger=book, dataset="people", analyst="ann")
        with killing(monkeypatch, 3, "stored"), pytest.raises(Killed):
            synthesizer.fit(data)
    held = rows(folder, "show")[0]
    assert held["spent"] == 0.0
    several = synthesize(folder, "--resume")
    assert (several.code, several.err.count("\n")) == (2, 1)
    assert "these are alike: 1, 2" in several.err
    assert synthesize(folder, "--run", 1).code == 0
    assert call("ledger", "close", folder / "s.book", 2).code == 0
    assert [run["state"] for run in rows(folder, "runs")] == ["closed", "crashed"]
    assert rows(folder, "show")[0]["left"] == held["left"]
    again = call("ledger", "close", folder / "s.book", 2)
    assert (again.code, again.out) == (2, "")
    assert again.err == "margrave: run must be an open run of this book, got 2. See its runs.\n"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("init", "s.book"), "ledger must be a file that does not exist yet"),
        (("init", "s.txt"), "ledger must be a file ending in one of"),
        (("init", "no/s.book"), "ledger must be a file that can be written"),
        (("show", "none.book"), "ledger must be an existing book"),
        (("show", "t.csv"), "ledger must be an intact book"),
        (("show", "s.book", "--dataset", "x"), "dataset must be one with a cap, got 'x'"),
        (
            ("cap", "s.book", "--dataset", "", "-e", "1", "--delta", "1e-6"),
            "dataset must be a printable name",
        ),
        (
            ("cap", "s.book", "--dataset", "x", "-e", "0", "--delta", "1e-6"),
            "epsilon must be a finite number",
        ),
        (("cap", "s.book", "--dataset", "x", "-e", "1", "--delta", "1"), "delta must be a number above 0"),
        (("export", "s.book", "--out", "a.txt"), "out must be a file ending in one of"),
        (("export", "s.book", "--out", "no/a.csv"), "out must be a file in a writable folder"),
        (("close", "s.book", "5"), "run must be an open run of this book"),
        (("close", "s.book", "x"), "Try 'margrave ledger close --help'"),
        (("runs",), "Try 'margrave ledger runs --help'"),
    ],
)
def test_bad_input_ends_with_code_2_and_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], named: str
) -> None:
    monkeypatch.chdir(folder)
    before = files(folder)
    done = call("ledger", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert named in done.err
    assert files(folder) == before


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--ledger", "x.jsonl"), "dataset and analyst must be left out without a book"),
        (("--ledger", "none.book"), "ledger must be an existing book"),
        (("--dataset", "other"), "dataset must be one with a cap, got 'other'"),
        (("--adjacency", "replace_one"), "unit and adjacency must be those of data set 'people'"),
        (("--resume",), "resume must be of a run in this book"),
    ],
)
def test_bad_books_for_a_run_end_with_code_2(
    folder: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], named: str
) -> None:
    monkeypatch.chdir(folder)
    before = files(folder)
    done = synthesize(folder, *more)
    assert (done.code, done.out) == (2, "")
    assert named in done.err
    assert files(folder) - {"s.book-wal", "s.book-shm"} == before


def test_a_book_put_back_from_a_copy_is_retired(folder: Path) -> None:
    with sqlite3.connect(folder / "s.book") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    copy = (folder / "s.book").read_bytes()
    assert synthesize(folder).code == 0
    gc.collect()  # no connection of this process may still have the log
    for name in ("s.book-wal", "s.book-shm"):
        (folder / name).unlink(missing_ok=True)
    (folder / "s.book").write_bytes(copy)
    for words in (("show", folder / "s.book"), ("runs", folder / "s.book")):
        done = call("ledger", *words)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert "the newest state of its book" in done.err
        assert "retire the copy (margrave ledger retire FILE)" in done.err
    (folder / "out.csv").unlink()
    assert synthesize(folder).code == 2
    assert call("ledger", "retire", folder / "s.book").code == 0
    (account,) = rows(folder, "show")
    assert (account["left"], account["retired"]) == (0.0, True)
    done = synthesize(folder)
    assert (done.code, "ledger must be a book that is not retired" in done.err) == (2, True)
    assert "out.csv" not in files(folder)
