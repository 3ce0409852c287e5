"""What a run releases must not depend on how long the private table takes to answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from torch_fitters import NEEDS_TORCH, TINY

import margrave as mg
from margrave import limits
from margrave.errors import InputError
from margrave.methods import METHODS
from margrave.models.auto import Auto
from margrave.models.networks.merf import Merf
from margrave.models.registry import resolve
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.sliced.fitter import SliceFDiv, SliceWass
from margrave.models.sliced.training import Course
from margrave.progress import Step
from margrave.select.aim import AIM
from margrave.select.from_rows import Training
from stopping import repeatable, same

__all__ = ["repeatable"]

SCHEMA = mg.Schema(
    (
        mg.Categorical(name="town", values=("Basel", "Bern"), missing=False, strict=False),
        mg.Integer(name="size", lower=0, upper=5, missing=False),
        mg.Integer(name="age", lower=0, upper=3, missing=False),
        mg.Boolean(name="sold", missing=False),
    )
)
LONG = "x" * 100_000
"""The cell of one row that takes long to read; it is counted as any other town that is not declared."""
SHORT = Course(steps=3, batch=16, slices=2, k=1)
QUICK = TINY | {"merf": lambda: Merf(network=TINY["network"](), features=16)}
QUICK |= {
    "slice_fdiv": lambda: SliceFDiv(course=SHORT, noise=4),
    "slice_wass": lambda: SliceWass(course=SHORT, noise=4),
}
QUICK |= {"auto": Auto, "genetic": lambda: Genetic(rows=200), "gum": lambda: GUM(start="scattered")}
TORCH = set(TINY) | {"merf", "slice_fdiv", "slice_wass"}
TIMED = [
    pytest.param(name, marks=NEEDS_TORCH if METHODS[name].fitter in TORCH else ())
    for name in METHODS
    if METHODS[name].strategy().keeps_deadline
]
ROUNDS = {
    "aim", "aim_grem", "batched", "conditional_aim", "gem", "jam", "mwem", "privmrf", "rap", "rap_pp",
    "vgem", "vjam", "vpmw",
}  # fmt: skip
"""Methods that ask in rounds, so that time can end them early; that of others ends a fit."""
A_READING = 1_000_000
"""Nanoseconds that the clock of these tests goes on by itself whenever somebody reads it."""
FAST, SLOW = 0.0, 3600.0
"""Seconds that one question to the table takes without and with the long cell."""


class Clock:
    """Stands where the machine's clock is read. It goes on at each reading, and when it is told to."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic_ns(self) -> int:
        self.now += A_READING
        return self.now

    def monotonic(self) -> float:
        return self.monotonic_ns() * 1e-9

    def pass_by(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limits, "time", made)
    return made


class Delaying:
    """A table, or its engine, for which every question takes some time on the clock."""

    def __init__(self, answering: Any, ask: Callable[[], None]) -> None:
        self._answering, self._ask = answering, ask

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._answering, name)
        if name in {"columns", "holds_rows"}:  # the public part
            return found
        self._ask()
        return self._delaying(found) if callable(found) else found

    def _delaying(self, method: Any) -> Any:
        def answer(*args: Any, **kwargs: Any) -> Any:
            found = method(*args, **kwargs)
            self._ask()
            again = method.__name__ in {"only", "bounded", "bind"}
            return Delaying(found, self._ask) if again else found

        return answer


def _table(cell: str) -> pa.Table:
    rng = np.random.default_rng(0)
    town = rng.choice(["Basel", "Bern"], 400)
    size = rng.integers(0, 4, 400) + 2 * (town == "Bern")
    age = np.minimum(size // 2 + rng.integers(0, 3, 400), 3)
    sold = size + 2 * age + 3 * (town == "Basel") + rng.integers(0, 3, 400) > 7
    return pa.table({"town": np.append(town[:-1], cell), "size": size, "age": age, "sold": sold})


def _fit(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, table: pa.Table, method: str, **more: Any
) -> tuple[mg.Synthesis, list[Step]]:
    """A release of the table, whose time to answer depends on its longest cell."""
    seconds = SLOW if max(len(cell) for cell in table["town"].to_pylist()) > 1000 else FAST
    true = mg.Synthesizer._open

    def opened(self: mg.Synthesizer, data: Any) -> Any:
        source, frame = true(self, data)
        return Delaying(source, lambda: clock.pass_by(seconds)), frame

    steps: list[Step] = []
    options: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-6, "schema": SCHEMA} | more
    fitter = METHODS[method].fitter
    if fitter in QUICK and "model" not in options:
        options["model"] = QUICK[fitter]()
    if method == "dp_merf":
        options["target"] = "sold"
    if method in ("slice_fdiv", "slice_wass", "slicing"):
        options["adjacency"] = "zero_out"
    with monkeypatch.context() as patch:
        patch.setattr(mg.Synthesizer, "_open", opened)
        synthesizer = mg.Synthesizer(
            method, on_step=lambda s: None if s.waiting else steps.append(s), **options
        )
        return synthesizer.fit(table), steps


def _is_same(one: mg.Synthesis, two: mg.Synthesis) -> bool:
    try:
        same(one, two)
    except AssertionError:
        return False
    return True


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("max_seconds", [1e-9, pytest.param(0.04, marks=pytest.mark.slow), 0.4])
@pytest.mark.parametrize("method", TIMED)
def test_a_row_that_takes_long_to_read_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, method: str, max_seconds: float
) -> None:
    """Both tables have the same codes, so with the same noise both releases have to be the same."""
    found = [
        _fit(monkeypatch, clock, _table(cell), method, max_seconds=max_seconds) for cell in ("Ulm", LONG)
    ]
    (first, told), (second, told_then) = found
    assert [event.what for event in first.release.events] == [event.what for event in second.release.events]
    assert [(step.stage, step.message) for step in told] == [(s.stage, s.message) for s in told_then]
    same(first, second)
    assert clock.now * 1e-9 > 10 * SLOW


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("method", TIMED)
def test_time_outside_the_door_ends_a_run_early_but_complete(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, method: str
) -> None:
    enough = 0.04 if method in ROUNDS else 1e-9
    free, steps = _fit(monkeypatch, clock, _table("Ulm"), method)
    ended, steps_then = _fit(monkeypatch, clock, _table("Ulm"), method, max_seconds=enough)
    for told in (steps, steps_then):
        assert max(step.spent for step in told) == pytest.approx(1.0, abs=1e-6)
    assert ended.guarantee == free.guarantee
    assert ended.sample(20, rng=0).num_rows == 20
    asked, ended_asked = len(free.release.events), len(ended.release.events)
    # `AllPairs` looks at its pairs once instead of twice.
    if method in ROUNDS or METHODS[method].strategy().name == "all_pairs":
        assert ended_asked < asked
    assert ended_asked <= asked
    if ended_asked == asked:
        fitter = resolve(ended.release.fitter)
        assert _is_same(free, ended) == fitter.instant, (
            f"A deadline must end the fit of {fitter.name!r} early: look at effort.over between steps "
            "and stop with what is there. If a fit has no steps worth stopping and never looks, its class "
            "says instant = True; see docs/extending.md, A generator."
        )


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("method", ["aim", "batched", "mst"])
def test_a_clock_that_runs_over_counting_is_found(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, method: str
) -> None:
    """The same two runs with a deadline on a clock that never stops: `same` tells them apart."""

    def start(self: limits.Limits, stopwatch: limits.Stopwatch) -> limits.Deadline:
        assert self.max_seconds is not None
        return limits.Deadline(self.max_seconds)

    monkeypatch.setattr(limits.Limits, "start", start)
    found = [_fit(monkeypatch, clock, _table(cell), method, max_seconds=0.4)[0] for cell in ("Ulm", LONG)]
    with pytest.raises(AssertionError):
        same(*found)


@pytest.mark.usefixtures("repeatable")
def test_the_limit_of_aim_itself_does_not_count_the_table_either(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    found = [
        _fit(monkeypatch, clock, _table(cell), "aim", select=AIM(max_seconds=0.4))[0]
        for cell in ("Ulm", LONG)
    ]
    same(*found)
    free, _ = _fit(monkeypatch, clock, _table("Ulm"), "aim")
    assert len(found[0].release.events) < len(free.release.events)


@pytest.mark.usefixtures("repeatable")
def test_discovery_is_not_counted_either(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Nothing is declared: everything about the columns is asked before the strategy starts."""
    (first, told), (second, _) = [
        _fit(monkeypatch, clock, _table(cell), "aim", schema=None, max_seconds=0.1) for cell in ("Ulm", LONG)
    ]
    same(first, second)
    assert sum("time is nearly up" in step.message for step in told) == 1
    assert sum(step.stage == "select" for step in told) > 1


def test_a_training_takes_no_time_limit() -> None:
    for options in ({"method": "tabddpm"}, {"method": "dpsgd_gan"}, {"method": "auto", "select": Training()}):
        with pytest.raises(InputError, match=r"max_seconds.*public number of steps") as refused:
            mg.Synthesizer(epsilon=1.0, max_seconds=60.0, **options)  # type: ignore[arg-type]
        assert "Training(steps=" in str(refused.value)
    nobody: Any = None
    with pytest.raises(InputError, match="deadline"):
        Training().run(nobody, nobody, lambda step: None, limits.Deadline(60.0))
