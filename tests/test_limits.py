"""Limits of memory and time: what they mean, and that every front door honours or refuses them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from command_line import call, people
from margrave.errors import InputError
from margrave.limits import Deadline, Effort, Limits, Stopwatch, bytes_of, price_question
from margrave.models._base.estimator import Estimator
from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.progress import Step
from margrave.select.fixed import Fixed
from margrave.select.strategy import Strategy

SIZES = {"a": 4, "b": 5, "c": 3}


def _table(rows: int = 2000) -> pa.Table:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, rows)
    return pa.table({"a": a, "b": (a + rng.integers(0, 2, rows)) % 5, "c": rng.integers(0, 3, rows)})


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("800mb", 8 * 10**8), ("512k", 512_000), ("2048 b", 2048)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-4GB", "0", "4 GB or so", "nan", "1e9", "0.1"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="max_memory"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_memory": 0}, "max_memory"),
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"max_seconds": float("nan")}, "max_seconds"),
        ({"max_seconds": float("inf")}, "max_seconds"),
    ],
)
def test_limits_are_above_zero(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Limits(**arguments)
    with pytest.raises(InputError, match=named):
        mg.Synthesizer(epsilon=1.0, **arguments)


def test_a_deadline_starts_when_the_strategy_does() -> None:
    assert Limits().start(Stopwatch()) is None
    running = Limits(max_seconds=1000.0).start(Stopwatch())
    assert running is not None
    assert 0 < running.left <= 1000.0
    assert not running.passed
    assert Deadline(0.0).passed


@pytest.mark.parametrize("method", ["aim", "mst", "independent"])
def test_every_method_is_complete_when_time_is_up_at_once(method: str) -> None:
    steps: list[Step] = []
    synthesizer = mg.Synthesizer(
        method, epsilon=1.0, delta=1e-6, schema=mg.Schema.from_sizes(SIZES), max_seconds=1e-9,
        on_step=lambda step: None if step.waiting else steps.append(step),
    )  # fmt: skip
    synthesis = synthesizer.fit(_table())
    spent = max(step.spent for step in steps)
    assert spent == pytest.approx(1.0, abs=1e-6)
    assert synthesis.guarantee.epsilon == 1.0
    assert synthesis.sample(50, rng=0).num_rows == 50
    assert sum("time is nearly up" in step.message for step in steps) == (method == "aim")


def test_memory_bounds_the_model_and_the_smaller_limit_counts() -> None:
    for own, least in ((None, 500_000_000), (450_000_000, 450_000_000), (10**9, 500_000_000)):
        made = mg.Synthesizer(epsilon=1.0, model=PGM(max_memory=own), max_memory=500_000_000)
        assert isinstance(made.fitter, PGM)
        assert made.fitter.max_memory == least
    assert isinstance(mg.Synthesizer("independent", epsilon=1.0, max_memory=10**6).fitter, Independent)
    with pytest.raises(InputError, match="max_memory"):
        mg.Synthesizer(epsilon=1.0, max_memory=10**6)


@dataclass(frozen=True)
class _Untimed(Strategy):
    name: ClassVar[str] = "untimed"
    gaussian_only: ClassVar[bool] = True
    keeps_deadline: ClassVar[bool] = False

    def run(self, curator: Any, fitter: Any, on_step: Any, deadline: Any = None) -> Any:
        return Fixed([("a", "b")]).run(curator, fitter, on_step)


class _Unbounded(Estimator[Any]):
    name = "unbounded"

    def restore(self, domain: Any, measurements: Any, state: Any) -> Any:
        raise AssertionError


def test_what_cannot_keep_a_limit_is_refused_before_anything_is_spent() -> None:
    untimed: Any = _Untimed()
    unbounded: Any = _Unbounded()
    schema = mg.Schema.from_sizes(SIZES)
    assert mg.Synthesizer(epsilon=1.0, select=untimed, schema=schema).fit(_table()).release.measurements
    with pytest.raises(InputError, match=r"max_seconds.*untimed"):
        mg.Synthesizer(epsilon=1.0, select=untimed, max_seconds=1.0)
    with pytest.raises(InputError, match=r"max_memory.*unbounded"):
        mg.Synthesizer(epsilon=1.0, model=unbounded, max_memory=10**9)


def test_the_plan_says_the_limits_and_keeps_to_them() -> None:
    schema = mg.Schema.from_sizes({f"c{i}": 40 for i in range(12)})
    table = pa.table({f"c{i}": [0, 39] for i in range(12)})
    free = mg.Synthesizer("aim", epsilon=10.0, schema=schema).plan(table, rows=10**6)
    bound = mg.Synthesizer("aim", epsilon=10.0, schema=schema, max_memory=500_000_000, max_seconds=9.0)
    plan = bound.plan(table, rows=10**6)
    assert free.limits == {}
    assert set(plan.limits) == {"memory", "time"}
    # Seconds for the table, which the limit does not count, and nine of post-processing.
    assert 9.0 < plan.seconds[1] < 9.0 + 10.0 < free.seconds[1]
    assert plan.seconds[0] <= plan.seconds[1]
    assert plan.memory < free.memory
    assert "500 MB" in str(plan)
    assert json.loads(json.dumps(plan.to_json(), default=dict))["limits"] == plan.limits


def test_a_rough_fit_is_cheaper_and_an_expired_one_is_honest() -> None:
    rng = np.random.default_rng(3)
    domain = mg.Schema.from_sizes({"a": 8, "b": 7, "c": 6, "d": 5}).domain
    noisy = [
        mg.NoisyMarginal(c, rng.uniform(0, 60, size=domain.shape(c)), 3.0)
        for c in (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))
    ]
    full = PGM().fit(domain, noisy)
    rough = PGM().fit(domain, noisy, effort=Effort(rough=True))
    late = PGM().fit(domain, noisy, effort=Effort(deadline=Deadline(0.0)))
    assert full.converged
    assert rough.converged
    assert full.gap <= 1e-3 < rough.gap <= 1e-2
    assert rough.evaluations < full.evaluations
    assert not late.converged
    assert late.evaluations < rough.evaluations
    assert late.project(("a", "c")).sum() == pytest.approx(late.total)


def test_the_command_line_takes_limits(tmp_path: Path) -> None:
    data = people(tmp_path / "people.csv", rows=400)
    done = call(
        "synthesize", data, "-e", 1, "--missing", "?", "--max-memory", "600MB", "--max-seconds", 0.001,
        "--out", tmp_path / "out.csv",
    )  # fmt: skip
    assert done.code == 0
    assert (tmp_path / "out.csv").exists()
    plan = call("plan", data, "-e", 1, "--max-memory", "600MB", "--max-seconds", 7, "--json")
    assert json.loads(plan.out)["limits"] == {"memory": "600 MB for the model", "time": (
        "7 s of post-processing, then it ends early but complete; reading and counting are extra"
    )}  # fmt: skip
    for option, value in (("--max-memory", "lots"), ("--max-memory", "1MB"), ("--max-seconds", -1)):
        refused = call("synthesize", data, "-e", 1, option, value, "--out", tmp_path / "no.csv")
        assert refused.code == 2
        assert option[2:].replace("-", "_") in refused.err
    assert not (tmp_path / "no.csv").exists()


@pytest.mark.parametrize("method", ["mst", "independent", "auto", "privsyn"])
def test_drawing_rows_keeps_a_limit_and_says_what_is_not_finished(method: str) -> None:
    synthesis = mg.Synthesizer(method, epsilon=1.0, schema=mg.Schema.from_sizes(SIZES)).fit(_table())
    steps: list[Step] = []
    hurried = synthesis.sample_arrow(4000, rng=0, max_seconds=1e-9, on_step=steps.append)
    calm = synthesis.sample_arrow(4000, rng=0, max_seconds=1e6, on_step=steps.append)
    assert hurried.num_rows == calm.num_rows == 4000
    assert sum("time is up" in step.message for step in steps if not step.waiting) == 1
    for name, size in SIZES.items():
        counts = [np.bincount(table[name].to_numpy(), minlength=size) for table in (hurried, calm)]
        assert np.abs(counts[0] - counts[1]).max() <= 40
    if method == "mst":
        # What is left out is what brings pairs near to the model's.
        pair = synthesis.marginal("a", "c") * 4000 / synthesis.rows
        off = [
            np.abs(np.histogram2d(table["a"], table["c"], bins=(4, 3))[0] - pair).sum()
            for table in (hurried, calm)
        ]
        assert off[1] < off[0]
    with pytest.raises(InputError, match="max_seconds"):
        synthesis.sample(10, max_seconds=0.0)


def test_what_is_left_of_the_limit_is_for_the_rows() -> None:
    run = mg.Synthesizer("independent", epsilon=1.0, schema=mg.Schema.from_sizes(SIZES), max_seconds=1e3)
    assert run.sampling_seconds == 1e3
    run.fit(_table())
    assert 900.0 < (run.sampling_seconds or 0.0) < 1e3
    late = mg.Synthesizer("independent", epsilon=1.0, schema=mg.Schema.from_sizes(SIZES), max_seconds=1e-3)
    late.fit(_table())
    assert late.sampling_seconds == pytest.approx(1e-4)
    assert mg.Synthesizer(epsilon=1.0).sampling_seconds is None
    options: dict[str, Any] = {"schema": mg.Schema.from_sizes(SIZES), "method": "mst", "max_seconds": 1e-9}
    steps: list[Step] = []
    rows = mg.synthesize(_table(), epsilon=1.0, rows=50, on_step=steps.append, **options)
    assert rows.num_rows == 50
    assert any("time is up" in step.message for step in steps)


def test_a_question_counts_for_a_public_price() -> None:
    assert price_question(1, 10) < price_question(2, 10) < price_question(2, 10**6)
    stopwatch = Stopwatch()
    deadline = Deadline(1000.0, stopwatch)
    with stopwatch.pause():
        stopwatch.add(990.0)
    assert 0.0 < deadline.left <= 10.0
    stopwatch.add(10.0)
    assert deadline.passed
