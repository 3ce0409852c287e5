"""A run that was killed goes on: what was answered is not paid again, and the total is never passed."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import margrave as mg
from command_line import call, files
from margrave.engines.memory import MemorySource
from margrave.errors import BudgetError, InputError, PlanWarning
from margrave.measure.curator import Curator
from margrave.models import GUM, PMW, Residual
from margrave.models.mixture import Mixture
from margrave.privacy.accounting.events import PartitionEvent
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.unit import Neighbours
from margrave.select.aim import AIM
from margrave.select.top_q import TopQ
from stopping import Killed, frame, killing, repeatable, same, total_of

METHODS = ("auto", "aim", "mst", "batched", "independent", "privsyn", "privmrf", "mwem", "residual_planner")
"""Each strategy once; tests/test_every_method.py stops and resumes every method."""
WHEN = ("before", "lost", "stored")
SCHEMA = mg.Schema(
    (
        mg.Categorical(name="a", values=("x", "y", "z"), missing=False),
        mg.Integer(name="b", lower=0, upper=6, missing=False),
        mg.Real(name="c", lower=0, upper=2, bins=4, missing=False),
    )
)
__all__ = ["repeatable"]


def run(method: str, ledger: Any, **more: Any) -> mg.Synthesizer:
    parts: dict[str, Any] = {
        "aim": {"select": AIM(rounds=12)},
        "auto": {"model": Mixture(components=8, steps=20)},
        "mwem": {"select": TopQ(rounds=4, q=1), "model": PMW(passes=20)},
        "privsyn": {"model": GUM(iterations=5, max_rows=1000)},
        "residual_planner": {"model": Residual(rounds=20, rows=GUM(iterations=5, max_rows=1000))},
    }
    options = {"epsilon": 2.0, "delta": 1e-6, "ledger": ledger, **parts.get(method, {}), **more}
    return mg.Synthesizer(method, **options)


def places(folder: Path, kind: str) -> dict[str, Any]:
    """A ledger for one run, as a file or in a book."""
    if kind == "file":
        return {"ledger": folder / "run.jsonl"}
    path = folder / "steward.book"
    if not path.exists():
        Book.create(path).cap("people", 10.0, 1e-5, Neighbours())
    return {"ledger": path, "dataset": "people", "analyst": "ann"}


def spends(folder: Path, kind: str) -> tuple[Any, ...]:
    """The events on disk."""
    if kind == "file":
        return read_ledger(folder / "run.jsonl")[1]
    book = Book(folder / "steward.book")
    return tuple(event for event, _ in book.events(book.runs()[-1].run))


def check_total(found: mg.Synthesis) -> None:
    events = found.release.events
    assert float(total_of(events)) <= found.guarantee.rho * (1 + 1e-12)
    assert total_of(events) <= Fraction(found.guarantee.rho) * (1 + Fraction(1, 10**12))
    assert (
        sum(e.delta for e in events if isinstance(e, PartitionEvent)) <= Fraction(found.guarantee.delta) / 4
    )


def stopped(
    monkeypatch: pytest.MonkeyPatch, method: str, folder: Path, kind: str, step: int, when: str, **more: Any
) -> bool:
    """Whether a fresh run is killed at that step: it is not, where it has fewer."""
    try:
        with killing(monkeypatch, step, when):
            run(method, **places(folder, kind), **more).fit(frame())
    except Killed:
        return True
    return False


def check_every_step(
    monkeypatch: pytest.MonkeyPatch, folder: Path, method: str, when: str, steps: range, kind: str
) -> None:
    whole, refused = run(method, folder / "whole.jsonl").fit(frame()), 0
    for step in steps:
        place = folder / str(step)
        place.mkdir()
        if not stopped(monkeypatch, method, place, kind, step, when):
            assert step > 4
            assert refused <= 2
            return
        before = spends(place, kind)
        try:
            found = run(method, **places(place, kind)).fit(frame(), resume=True)
        except BudgetError:
            refused += 1
            # The stop cost all that was kept for a search for values, or all that would tell of a column.
            assert when == "lost"
            assert spends(place, kind) == before
            continue
        assert found.release.events == spends(place, kind)
        assert found.release.events[: len(before)] == before
        check_total(found)
        if when != "lost":
            same(whole, found)
    pytest.fail("the run has more steps than were tried")


SOME = [
    pytest.param(
        method, when, marks=() if METHODS.index(method) % 3 == WHEN.index(when) else pytest.mark.slow
    )
    for method, when in product(METHODS, WHEN)
]
"""The fast tier stops each strategy in one of the three ways, and each way is that of three strategies."""


@pytest.mark.parametrize(("method", "when"), SOME)
@pytest.mark.usefixtures("repeatable")
def test_killed_at_some_steps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, when: str
) -> None:
    start = (METHODS.index(method) + WHEN.index(when)) % 4
    kind = "file" if start % 2 else "book"
    check_every_step(monkeypatch, tmp_path, method, when, range(start, 40, 4), kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "book"])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("repeatable")
def test_killed_at_every_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, when: str, kind: str
) -> None:
    check_every_step(monkeypatch, tmp_path, method, when, range(100), kind)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("repeatable")
def test_killed_again_and_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str) -> None:
    """Resumed runs see the same budget each time they replay, losses included, whoever lost what."""
    events: tuple[Any, ...] = ()
    for turn in range(12):
        when = WHEN[turn % 3]
        try:
            with killing(monkeypatch, 2 if when == "stored" else 1, when):
                found = run(method, tmp_path / "run.jsonl").fit(frame(), resume=turn > 0)
                break
        except Killed:
            now = read_ledger(tmp_path / "run.jsonl")[1]
            assert now[: len(events)] == events
            events = now
        except BudgetError:
            return
    else:
        found = run(method, tmp_path / "run.jsonl").fit(frame(), resume=True)
    check_total(found)
    assert found.release.events[: len(events)] == events
    same(found, run(method, tmp_path / "run.jsonl").fit(frame(), resume=True))


@pytest.mark.parametrize("method", METHODS)
def test_a_lost_answer_is_bought_again_from_what_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str
) -> None:
    """With a declared schema the first loss is of the strategy's: the plan shrinks, and all is spent."""
    assert stopped(monkeypatch, method, tmp_path, "file", 0, "lost", schema=SCHEMA)
    lost = read_ledger(tmp_path / "run.jsonl")[1]
    again = run(method, tmp_path / "run.jsonl", schema=SCHEMA)
    if method == "independent":  # its first spend is all there is
        with pytest.raises(InputError, match="stopped after its last spend"):
            again.fit(frame(), resume=True)
        return
    found = again.fit(frame(), resume=True)
    assert found.release.events[: len(lost)] == lost
    assert found.release.events[len(lost)].what == lost[0].what
    check_total(found)
    assert float(total_of(found.release.events)) >= 0.999 * found.guarantee.rho


def test_a_loss_at_the_end_keeps_what_was_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Declared: how many looks discovery takes hangs on the noise of the first ones.
    steps = []
    with killing(monkeypatch, 10**6, "lost") as calls:
        run("mst", tmp_path / "count.jsonl", schema=SCHEMA).fit(frame())
        steps = calls
    assert stopped(monkeypatch, "mst", tmp_path, "file", steps[0] - 1, "lost", schema=SCHEMA)
    said: list[str] = []
    listen = {"on_step": lambda step: said.append(step.message)}
    again = run("mst", tmp_path / "run.jsonl", schema=SCHEMA, **listen)
    found = again.fit(frame(), resume=True)
    assert any("what was left was spent" in message for message in said)
    assert {len(m.clique) for m in found.release.measurements} == {1}
    check_total(found)


def test_replay_touches_no_row_and_spends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = run("batched", tmp_path / "run.jsonl").fit(frame())

    def no(*args: Any, **more: Any) -> Any:
        raise AssertionError("a row was looked at")

    for name in ("kinds", "histogram", "value_parts", "grids"):
        monkeypatch.setattr(MemorySource, name, no)
    monkeypatch.setattr(Curator, "_recall_counts", no)
    text = (tmp_path / "run.jsonl").read_bytes()
    same(whole, run("batched", tmp_path / "run.jsonl").fit(frame(), resume=True))
    assert (tmp_path / "run.jsonl").read_bytes() == text


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"epsilon": 3.0}, "another epsilon"),
        ({"delta": 1e-7}, "another delta"),
        ({"adjacency": "replace_one"}, "another neighbours"),
        ({"schema": SCHEMA}, "another partition_delta"),
        ({"discovery": 0.25}, "another share for discovery"),
        ({"missing": ("", "?")}, "another text for missing values"),
        ({"text": mg.TextFormat(decimal=",")}, "another format of text files"),
        ({"model": "independent"}, "another model"),
        ({"max_seconds": 100.0}, "max_seconds must be left out when a run is resumed"),
    ],
)
def test_other_arguments_are_refused(tmp_path: Path, more: dict[str, Any], named: str) -> None:
    run("mst", tmp_path / "run.jsonl").fit(frame())
    before = (tmp_path / "run.jsonl").read_bytes()
    with pytest.raises(InputError, match=named):
        run("mst", tmp_path / "run.jsonl", **more).fit(frame(), resume=True)
    with pytest.raises(InputError, match="another set of columns"):
        run("mst", tmp_path / "run.jsonl").fit(frame().rename(columns={"b": "d"}), resume=True)
    assert (tmp_path / "run.jsonl").read_bytes() == before
    run("mst", tmp_path / "run.jsonl").fit(frame(), resume=True)


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ledger must be given"):
        run("mst", None).fit(frame(), resume=True)
    with pytest.raises(InputError, match="stopped"):
        run("mst", tmp_path / "nowhere.jsonl").fit(frame(), resume=True)
    assert files(tmp_path) == set()


def test_a_new_run_beside_a_stopped_one_is_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = places(tmp_path, "book")

    def interrupt(step: Any) -> None:
        if step.stage == "measure":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("mst", **place, on_step=interrupt).fit(frame())
    # One that ended in an error may have done so because of a row, and nothing is said of it.
    assert stopped(monkeypatch, "mst", tmp_path, "book", 2, "before", epsilon=1.5)
    # Not of runs with other arguments, nor of another analyst.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("mst", place["ledger"], dataset="people", analyst="bob").fit(frame())
        run("mst", **{**place, "epsilon": 1.5}).fit(frame())
    with pytest.warns(PlanWarning, match="^run 1 of the book was begun with the same arguments"):
        run("mst", **place).fit(frame())


def test_a_run_in_use_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from margrave.measure.mechanisms import gaussian

    tries: list[str] = []
    true = gaussian.discrete_gaussian

    def draw(*args: Any) -> Any:
        if not tries:
            with pytest.raises(InputError) as error:
                run("mst", tmp_path / "run.jsonl").fit(frame(), resume=True)
            tries.append(str(error.value))
        return true(*args)

    monkeypatch.setattr(gaussian, "discrete_gaussian", draw)
    run("mst", tmp_path / "run.jsonl").fit(frame())
    assert tries == [
        "ledger must be in use by no other process. Wait until the other process is done, or stop it."
    ]


def test_a_book_has_every_event_before_its_noise_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from margrave.measure.mechanisms import choose, gaussian

    place, seen = places(tmp_path, "book"), []

    def watch(module: Any, name: str) -> None:
        true = getattr(module, name)

        def sampler(*args: Any) -> Any:
            seen.append(len(spends(tmp_path, "book")))
            return true(*args)

        monkeypatch.setattr(module, name, sampler)

    watch(gaussian, "discrete_gaussian")
    watch(choose, "exponential")
    found = run("mst", **place).fit(frame())
    assert len(seen) == seen[-1] == len(found.release.events)
    assert all(events > draws for draws, events in enumerate(seen))


def test_answers_of_another_ledger_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run("mst", tmp_path / name).fit(frame())
    (tmp_path / "one.answers").replace(tmp_path / "two.answers")
    with pytest.raises(InputError, match="its own answers"):
        run("mst", tmp_path / "two").fit(frame(), resume=True)


def test_without_its_answers_a_finished_run_has_nothing_left(tmp_path: Path) -> None:
    synthesizer = run("mst", tmp_path / "run.jsonl")
    synthesizer.fit(frame())
    synthesizer.forget()
    assert files(tmp_path) == {"run.jsonl"}
    with pytest.raises(InputError, match="this one has finished"):
        run("mst", tmp_path / "run.jsonl").fit(frame(), resume=True)


def test_what_did_not_pass_the_threshold_is_not_kept(tmp_path: Path) -> None:
    rare = frame(600)
    rare.loc[7, "a"] = "canary"
    run("independent", tmp_path / "run.jsonl").fit(rare)
    kept = (tmp_path / "run.jsonl.answers").read_bytes()
    assert b"canary" not in kept
    assert b'"x"' in kept
    assert (tmp_path / "run.jsonl.answers").stat().st_mode & 0o777 == 0o600


REPLAY = """
import json, sys
sys.path[:0] = [{tests!r}, {tests!r} + "/run"]
import numpy as np
from pathlib import Path
from types import SimpleNamespace
from stopping import frame
from test_resume import METHODS, run
sums = []
for method in METHODS:
    found = run(method, Path({folder!r}) / method).fit(frame(), resume=True).release
    sums.append([len(found.events), *(float(np.sum(found.state[name])) for name in sorted(found.state))])
print(json.dumps(sums))
"""


@pytest.mark.slow
def test_another_process_asks_the_same_questions(tmp_path: Path) -> None:
    """Nothing a strategy or a fitter does hangs on the order of a set, which differs between processes."""
    sums = []
    for method in METHODS:
        found = run(method, tmp_path / method).fit(frame()).release
        sums.append([len(found.events), *(float(np.sum(found.state[n])) for n in sorted(found.state))])
    code = REPLAY.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout) == sums


def test_a_release_with_a_lost_spend_is_as_good_as_any(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert stopped(monkeypatch, "aim", tmp_path, "file", 7, "lost")
    found = run("aim", tmp_path / "run.jsonl").fit(frame(), resume=True)
    assert len(found.release.events) == len(read_ledger(tmp_path / "run.jsonl")[1])
    found.save(tmp_path / "r.margrave")
    found.report(tmp_path / "r.html")
    assert mg.load(tmp_path / "r.margrave").release.events == found.release.events
    assert len(found.sample(50, rng=0)) == 50


@pytest.mark.skipif(os.name == "nt", reason="this machine has no POSIX signals")
def test_the_command_line_resumes_after_kill_9(tmp_path: Path) -> None:
    frame(3000).to_csv(tmp_path / "t.csv", index=False)
    command = [
        "synthesize",
        "t.csv",
        "-e",
        "2",
        "--method",
        "aim",
        "-o",
        "out.csv",
        "--release",
        "p.margrave",
    ]
    process = subprocess.Popen([sys.executable, "-m", "margrave", *command, "-q"], cwd=tmp_path)
    ledger, limit = tmp_path / "out.csv.ledger.jsonl", time.monotonic() + 600
    while process.poll() is None and time.monotonic() < limit:
        if ledger.exists() and ledger.read_bytes().count(b"\n") > 8:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait(600) == -signal.SIGKILL
    _, before = read_ledger(ledger)
    assert len(before) >= 8
    done = call(*[str(tmp_path / word) if "." in word else word for word in command], "--resume")
    assert (done.code, "Traceback" in done.err) == (0, False)
    released = mg.load(tmp_path / "p.margrave").release
    assert released.events == read_ledger(ledger)[1]
    assert released.events[: len(before)] == before
    assert total_of(released.events) <= Fraction(released.guarantee.rho)
    assert files(tmp_path) == {"t.csv", "out.csv", "p.margrave", "out.csv.ledger.jsonl"}
    assert len(pd.read_csv(tmp_path / "out.csv")) > 2000


@pytest.mark.parametrize("kind", ["file", "book"])
def test_a_resumed_run_goes_by_the_day_on_which_it_began(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    class Clock(datetime.datetime):
        day = 1

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
            return cls(2021, 6, cls.day, 12, tzinfo=tz)

    stub = SimpleNamespace(datetime=Clock, date=datetime.date, timezone=datetime.timezone)
    monkeypatch.setattr("margrave.run.resume.datetime", stub)
    days = np.datetime64("2021-05-31") - np.random.default_rng(0).integers(0, 500, 3_000)
    table = pa.table({"at": days, "x": ["a", "b", "c"] * 1_000})
    with pytest.raises(Killed), killing(monkeypatch, 4, "stored"):
        run("independent", **places(tmp_path, kind), epsilon=0.5).fit(table)
    before = spends(tmp_path, kind)
    assert before
    Clock.day = 30
    found = run("independent", **places(tmp_path, kind), epsilon=0.5).fit(table, resume=True)
    assert spends(tmp_path, kind)[: len(before)] == before
    column = found.schema["at"]
    assert isinstance(column, mg.Date)
    edges = np.asarray(column.fine, dtype=np.int64)
    held = edges[1:][np.asarray(column.weights) > 0].max()
    assert np.datetime64(int(held) - 1, "D") <= np.datetime64("2021-06-02")
    check_total(found)
