"""Progress: something is heard at least every two seconds, and nothing of it feeds back into a run."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import margrave as mg
from margrave import progress
from margrave.cli import console
from margrave.cli.console import listen_to_steps
from margrave.progress import Step, keep_telling, silent

TICK = 0.02


@pytest.fixture
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TICK", TICK)


def _wait_for(told: list[Step], least: int) -> None:
    """Until so many steps were told, for a minute at most."""
    for _ in range(60_000):
        if len(told) >= least:
            return
        time.sleep(1e-3)
    raise AssertionError("nothing is told again")


@pytest.mark.usefixtures("_fast")
def test_a_step_that_goes_on_is_told_again() -> None:
    told: list[Step] = []
    with keep_telling(told.append) as tell:
        tell(Step("fit", "a model", 3, 0.5))
        _wait_for(told, 4)
        tell(Step("fit", "another"))
        there = len(told)
    assert [step.waiting for step in told[: there - 1]] == pytest.approx(
        [0.0, *(TICK * k for k in range(2, there))]
    )
    assert {(step.stage, step.message, step.round, step.spent) for step in told[: there - 1]} == {
        ("fit", "a model", 3, 0.5)
    }
    assert told[there - 1] == Step("fit", "another")
    time.sleep(5 * TICK)
    assert len(told) <= there + 1  # the thread has ended with the block
    assert "margrave-progress" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.usefixtures("_fast")
def test_the_thread_ends_with_an_error_too() -> None:
    def fail() -> None:
        with keep_telling([].append) as tell:
            tell(Step("fit", "a model"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "margrave-progress" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.usefixtures("_fast")
def test_what_a_listener_raises_ends_the_run() -> None:
    heard: list[Step] = []

    def tired(step: Step) -> None:
        heard.append(step)
        if step.waiting:
            raise KeyError("tired")

    def run(more: bool) -> None:
        with keep_telling(tired) as tell:
            tell(Step("fit", "a model"))
            _wait_for(heard, 2)
            time.sleep(5 * TICK)
            if more:
                tell(Step("fit", "another"))
                raise AssertionError("it goes on")

    for more in (True, False):
        heard.clear()
        with pytest.raises(KeyError, match="tired"):
            run(more)
        assert len(heard) == 2


def test_nobody_listens_without_a_thread() -> None:
    before = threading.active_count()
    with keep_telling(silent) as tell:
        assert tell is silent
        assert threading.active_count() == before


@pytest.mark.usefixtures("_fast")
@pytest.mark.parametrize("method", ["auto", "aim", "batched", "mst", "independent", "privsyn"])
def test_every_stage_of_a_run_is_told_again(method: str) -> None:
    """Reading, selecting, fitting and sampling: a listener hears of whatever takes longer than two ticks."""
    rng = np.random.default_rng(0)
    sizes = {f"c{k}": 6 for k in range(12)}
    table = pa.table({name: rng.integers(0, 6, 3000) for name in sizes})
    told: list[tuple[float, Step]] = []
    run = mg.Synthesizer(
        method,
        epsilon=1.0,
        schema=mg.Schema.from_sizes(sizes),
        on_step=lambda step: told.append((time.monotonic(), step)),
    )
    synthesis = run.fit(table)
    synthesis.sample(20_000, rng=0, on_step=lambda step: told.append((time.monotonic(), step)))
    stages = [step.stage for _, step in told]
    assert stages[0] == "read"
    assert {"fit", "sample"} <= set(stages)
    assert any(step.waiting for _, step in told) or told[-1][0] - told[0][0] < 10 * TICK
    assert all(0.0 <= step.spent <= 1.0 for _, step in told)


def test_lines_are_printed_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text, now = io.StringIO(), [0.0]
    monkeypatch.setattr(console, "Console", lambda **_: Console(file=text, width=100))
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with listen_to_steps(False) as listen:
        for seconds, step in (
            (0.0, Step("select", "a", 1, 0.1)),
            (0.5, Step("select", "b", 2, 0.2)),
            (1.5, Step("select", "b", 2, 0.2, 1.0)),
            (1.6, Step("fit", "a model", 0, 1.0)),
            *((1.6 + wait, Step("fit", "a model", 0, 1.0, wait)) for wait in np.arange(1.0, 5.0, 0.5)),
            (7.0, Step("fit", "another model", 0, 1.0)),
        ):
            now[0] = seconds
            listen(step)
    assert text.getvalue().splitlines() == [
        "select: rho 10% spent, round 1, a",
        "select: rho 20% spent, round 2, b",
        "fit: rho 100% spent, a model",
        "fit: rho 100% spent, a model, 2 s",
        "fit: rho 100% spent, a model, 3 s",
        "fit: rho 100% spent, a model, 4 s",
        "fit: rho 100% spent, another model",
    ]


def test_a_bar_shows_a_step_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text: Any = io.StringIO()
    made = Console(file=text, width=120, force_terminal=True)
    monkeypatch.setattr(console, "Console", lambda **_: made)
    with listen_to_steps(False) as listen:
        listen(Step("fit", "a model", 0, 0.5, 2.0))
    assert "a model" in text.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_message_is_shown_as_it_is_written(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closing tag that nothing opened ended a paid run, and others were left out of what is shown."""
    text: Any = io.StringIO()
    made = Console(file=text, width=160, force_terminal=terminal)
    monkeypatch.setattr(console, "Console", lambda **_: made)
    for name in ("income [/EUR]", "[bold]", "[red]x[/red]", ":smile:", "{task.id}"):
        with listen_to_steps(False) as listen:
            listen(Step("select", f"{name} x sex", 1, 0.5, 2.0))
        assert f"{name} x sex" in text.getvalue()
