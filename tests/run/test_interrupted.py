"""Killed at any moment: no half-written output, and a ledger file that never says less than was done."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import margrave as mg
from command_line import files
from margrave.measure.mechanisms import choose as choosing
from margrave.measure.mechanisms import gaussian
from margrave.privacy.accounting.events import Event
from margrave.privacy.ledger.journal import read_ledger

WAIT = 600.0
HIDDEN = re.compile(r"^\.[0-9a-f]{12}\.(out\.csv|report\.html|p\.margrave)$")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "people.csv"
    rng = np.random.default_rng(0)
    level = rng.integers(0, 8, 20_000)
    columns = {f"c{i}": np.minimum(level, rng.integers(0, 8, 20_000)) for i in range(12)}
    pd.DataFrame({name: np.char.add("v", codes.astype(str)) for name, codes in columns.items()}).to_csv(
        path, index=False
    )
    return path


def start(table: Path, folder: Path, method: str = "aim") -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "margrave", "synthesize", str(table), "-e", "1", "-q", "-o", "out.csv",
        "--ledger", "ledger.jsonl", "--report", "report.html", "--release", "p.margrave",
        "--method", method,
    ]  # fmt: skip
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(run: subprocess.Popen[str], ledger: Path, lines: int) -> None:
    """Return when the ledger file has that many lines or the run is over."""
    limit = time.monotonic() + WAIT
    while run.poll() is None and time.monotonic() < limit:
        if ledger.exists() and ledger.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.002)


def wait_for_file(run: subprocess.Popen[str], folder: Path, pause: float) -> None:
    """Return a moment after the first output, or the hidden file it is written to, is seen.

    Before there is a ledger hidden files are there for an instant, by which paths are tried.
    """
    limit = time.monotonic() + WAIT
    while run.poll() is None and time.monotonic() < limit:
        found = files(folder)
        if "ledger.jsonl" in found and found - {"ledger.jsonl", "ledger.jsonl.answers"}:
            time.sleep(pause)
            return


def check_whole(folder: Path, hidden: bool) -> set[str]:
    """What a stopped run may leave: whole files, a ledger that reads, hidden files where killed outright."""
    left = files(folder)
    strange = left - {"out.csv", "report.html", "p.margrave", "ledger.jsonl", "ledger.jsonl.answers"}
    assert all(hidden and HIDDEN.match(name) for name in strange), strange
    if "out.csv" in left:
        with (folder / "out.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert header == [f"c{i}" for i in range(12)]
        assert {len(row) for row in rows} == {12}
        assert abs(len(rows) - 20_000) < 2000
    if "report.html" in left:
        assert (folder / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    if "ledger.jsonl" in left:
        promise, events = read_ledger(folder / "ledger.jsonl")
        assert promise.epsilon == 1.0
        if "p.margrave" in left:
            assert mg.load(folder / "p.margrave").release.events == events
    else:
        assert left == strange
    return left


def stop(table: Path, folder: Path, lines: int, how: signal.Signals) -> tuple[int, str, str]:
    """Start a run, stop it once its ledger has so many lines, and check what it leaves."""
    run = start(table, folder)
    wait_for(run, folder / "ledger.jsonl", lines)
    run.send_signal(how)
    out, err = run.communicate(timeout=WAIT)
    check_whole(folder, hidden=how == signal.SIGKILL)
    return run.returncode, out, err


@pytest.mark.skipif(os.name == "nt", reason="this machine has no POSIX signals")
def test_killed_between_spends(table: Path, tmp_path: Path) -> None:
    code, out, err = stop(table, tmp_path, 20, signal.SIGKILL)
    assert (code, out, err) == (-signal.SIGKILL, "", "")
    assert files(tmp_path) == {"ledger.jsonl", "ledger.jsonl.answers"}
    assert len(read_ledger(tmp_path / "ledger.jsonl")[1]) >= 19


@pytest.mark.skipif(os.name == "nt", reason="this machine has no POSIX signals")
def test_interrupted_it_says_so_in_one_line(table: Path, tmp_path: Path) -> None:
    code, out, err = stop(table, tmp_path, 30, signal.SIGINT)
    assert (code, out) == (1, "")
    assert err.startswith("margrave: stopped; what was spent is in the ledger file")
    assert err.count("\n") == 1
    assert "the same command with --resume goes on" in err
    assert files(tmp_path) == {"ledger.jsonl", "ledger.jsonl.answers"}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="this machine has no POSIX signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_stopped_at_many_moments(table: Path, tmp_path: Path, how: signal.Signals) -> None:
    for lines in (1, 5, 13, 40, 90):
        folder = tmp_path / str(lines)
        folder.mkdir()
        code, out, err = stop(table, folder, lines, how)
        assert out == ""
        assert "Traceback" not in err
        assert code in (0, 1 if how == signal.SIGINT else -how)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="this machine has no POSIX signals")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_while_it_writes(table: Path, tmp_path: Path, how: signal.Signals) -> None:
    found = set()
    for pause in (0.0, 0.002, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4):
        folder = tmp_path / str(pause)
        folder.mkdir()
        run = start(table, folder, "mst")
        wait_for_file(run, folder, pause)
        run.send_signal(how)
        run.communicate(timeout=WAIT)
        found |= check_whole(folder, hidden=how == signal.SIGKILL)
    assert found & {"p.margrave", "out.csv", "report.html"}


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[tuple[str, Any]]]:
    """A ledger path, and what its file's last event was at every call of a noise sampler."""
    path, seen = tmp_path / "ledger.jsonl", []

    def watch(module: Any, name: str) -> None:
        true = getattr(module, name)

        def sampler(*args: Any) -> Any:
            seen.append((name, (read_ledger(path)[1], args)))
            return true(*args)

        monkeypatch.setattr(module, name, sampler)

    watch(gaussian, "discrete_gaussian")
    watch(gaussian, "rounded_gaussian")
    watch(choosing, "exponential")
    return path, seen


@pytest.mark.parametrize("method", ["independent", "mst", "aim"])
def test_every_event_is_on_disk_before_its_noise_is_drawn(
    watched: tuple[Path, list[tuple[str, Any]]], method: str
) -> None:
    """At every draw the file holds an event of that draw's very parameters, one for each."""
    path, seen = watched
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.choice(["x", "y"], 900), "b": rng.integers(0, 9, 900), "c": rng.random(900)}
    )
    found = mg.Synthesizer(method, epsilon=2.0, ledger=path).fit(frame)
    assert read_ledger(path)[1] == found.release.events
    assert len(seen) == len(found.release.events)
    unused = set(range(len(seen)))
    for name, (events, args) in seen:
        mine = [i for i in sorted(unused) if i < len(events) and _priced(events[i], name, args)]
        assert mine, f"{name} was drawn before its event was on disk"
        unused.remove(mine[0])


def _priced(event: Event, name: str, args: tuple[Any, ...]) -> bool:
    """Whether an event describes a sampler's call."""
    if name == "exponential":
        scores, epsilon, sensitivity, _ = args
        wanted = {"epsilon": epsilon, "sensitivity": sensitivity, "candidates": len(scores)}
    else:
        wanted = {"sigma_squared": args[0], "rounded": name == "rounded_gaussian"}
    return all(getattr(event, key, None) == value for key, value in wanted.items())


def test_what_cannot_be_written_down_is_not_drawn(
    watched: tuple[Path, list[tuple[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up in the middle of a run stops the run, with no draw beyond the file's events."""
    from margrave.privacy.ledger import journal

    path, seen = watched
    true, writes = journal.os.write, []

    def write(handle: int, line: bytes) -> int:
        writes.append(line)
        if sum(bytes(line).startswith(b'{"event') for line in writes) > 5:
            raise OSError(28, "No space left on device")
        return true(handle, line)

    monkeypatch.setattr(journal.os, "write", write)
    frame = pd.DataFrame({"a": ["x", "y"] * 300, "b": [1.5, 2.5] * 300})
    with pytest.raises(mg.errors.InputError, match="ledger must be a file that can be written"):
        mg.Synthesizer("aim", epsilon=2.0, ledger=path).fit(frame)
    assert 0 < len(seen) <= len(read_ledger(path)[1]) == 5
