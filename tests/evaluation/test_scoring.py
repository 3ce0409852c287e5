"""What holds of every metric."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import numpy as np
import pytest
from counted import encoded
from people import SCHEMA, made
from threadpoolctl import threadpool_info, threadpool_limits

from margrave.errors import InputError, SchemaError
from margrave.evaluation import METRICS, Score, Task, score_metrics, score_references
from margrave.evaluation.learners import LEARNERS
from margrave.evaluation.rows import Rows, bootstrap_rows, shuffled_rows
from margrave.evaluation.score import Facts
from margrave.schema.columns import Binned, Categorical, Real
from margrave.schema.constraints.rules import Ordered, Within
from margrave.schema.schema import Schema

NUMERIC_TARGET = {"ml_r2", "ml_rmse"}
RULES = (Ordered("tax", "pay"), Within("pay", "town", {"south": (50, 300), "west": (120, None)}))
"""Some real rows break the second, all the more shuffled ones do."""


@pytest.fixture(autouse=True)
def _forest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "margrave.evaluation.metrics.efficiency.LEARNERS", {"random_forest": LEARNERS["random_forest"]}
    )


@functools.cache
def _bracket(target: str) -> tuple[dict[str, Score], ...]:
    """Every score of the real rows, of a bootstrap of them and of shuffled columns."""
    real, held_out, rng = made(700, 0, 0.2), made(700, 1, 0.2), np.random.default_rng(0)
    tables = (real, bootstrap_rows(real, rng), shuffled_rows(real, rng))
    tasks = [Task(real, table, SCHEMA, held_out=held_out, target=target, rules=RULES) for table in tables]
    names = sorted(NUMERIC_TARGET) if target == "tax" else None
    return tuple({score.name: score for score in score_metrics(task, names)} for task in tasks)


def test_every_metric_runs_on_one_thread() -> None:
    """So that a score does not hang on the number of cores, and threads do not wait for each other."""
    seen: list[int] = []

    class Threads:
        facts = Facts("threads", "What it is.", reads="rows")

        def run(self, task: Task) -> Score:
            seen.extend(entry["num_threads"] for entry in threadpool_info())
            return self.facts.score(0.0, "none")

    one: list[Any] = [Threads()]
    with threadpool_limits(limits=2):
        score_metrics(Task(made(20, 0), made(20, 1), SCHEMA), one)
    assert set(seen) == {1}


@pytest.mark.parametrize("name", METRICS)
def test_real_rows_and_shuffled_ones_bracket(name: str) -> None:
    itself, drawn, shuffled = (
        scores[name] for scores in _bracket("tax" if name in NUMERIC_TARGET else "rich")
    )
    facts = METRICS[name].facts
    sign = 1 if facts.better == "higher" else -1
    if facts.discloses and facts.single_columns:
        assert itself.value == shuffled.value > drawn.value
    elif facts.discloses:
        assert itself.value > drawn.value > shuffled.value
    elif name == "dependence_invented":  # dependence that is lost is not invented
        assert itself.value == 0
        assert max(drawn.value, shuffled.value) < 0.02
    elif facts.single_columns:
        assert sign * (shuffled.value - drawn.value) > 0
        assert abs(shuffled.value - itself.value) < 1e-6
    else:
        assert sign * (drawn.value - shuffled.value) > 0
        assert sign * (itself.value - shuffled.value) > 0
    if facts.goal is not None and name not in {"fidelity_error", "query_error"}:
        assert itself.value == pytest.approx(facts.goal, abs=1e-9)
    for score in (itself, drawn, shuffled):
        assert facts.low is None or score.value >= facts.low - 1e-12
        assert facts.high is None or score.value <= facts.high + 1e-12


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_says_what_it_is(name: str) -> None:
    facts = METRICS[name].facts
    assert facts.name == name
    assert facts.definition.endswith(".")
    assert facts.source
    assert facts.cost
    assert facts.better in ("lower", "higher")
    score = _bracket("rich")[1][name]
    assert score.private
    assert (score.definition, score.source, score.goal) == (facts.definition, facts.source, facts.goal)
    assert score.scope
    document = json.loads(json.dumps(score.to_json(), allow_nan=False))
    assert (document["value"] is None) is math.isnan(score.value)


def test_the_table_is_sorted() -> None:
    assert list(METRICS) == sorted(METRICS)
    assert len(METRICS) >= 30


def test_scores_come_in_the_order_asked_for_and_unknown_ones_are_refused() -> None:
    task = Task(made(30, 0), made(30, 1), SCHEMA)
    names = ["tv_complement", "average_tv"]
    assert [score.name for score in score_metrics(task, names)] == names
    assert [score.name for score in score_metrics(task, [METRICS["k_marginal"]])] == ["k_marginal"]
    with pytest.raises(InputError, match="metrics must be among"):
        score_metrics(task, ["accuracy of all"])
    with pytest.raises(InputError, match="metrics must be of distinct names"):
        score_metrics(task, ["average_tv", METRICS["average_tv"]])


def test_a_metric_that_says_counts_and_names_no_cliques_is_told_what_to_say() -> None:
    class Own:
        facts = Facts("own", "What its writer counts.")

        def run(self, task: Task) -> Score:
            return self.facts.score(0.0, "none")

    own: list[Any] = [Own()]
    with pytest.raises(InputError, match=r"metric 'own' must be one with `cliques`.*reads='rows'"):
        score_metrics(Task(made(20, 0), made(20, 1), SCHEMA), own)


def test_without_a_target_all_that_need_none_are_run() -> None:
    names = [score.name for score in score_metrics(Task(made(40, 0), made(40, 1), SCHEMA))]
    assert names == [name for name in METRICS if not METRICS[name].facts.needs]


def test_references_stand_beside_the_scores() -> None:
    real, synthetic, names = made(300, 0), made(300, 1, 0.6), ["fidelity_error", "average_tv", "ml_r2"]
    found = score_references(Task(real, synthetic, SCHEMA, held_out=made(300, 2)), names)
    assert list(found) == ["real rows", "bootstrap", "shuffled"]
    assert list(found["real rows"]) == ["fidelity_error", "average_tv"]
    assert found["real rows"]["average_tv"] == 0
    assert 0 < found["real rows"]["fidelity_error"] < found["shuffled"]["fidelity_error"]
    assert list(score_references(Task(real, synthetic, SCHEMA), names)) == ["bootstrap", "shuffled"]
    again = score_references(Task(real, synthetic, SCHEMA, seed=7), names)
    assert again == score_references(Task(real, synthetic, SCHEMA, seed=7), names)
    assert again["bootstrap"] != found["bootstrap"]


def _tiny(kind: str) -> tuple[Rows, Rows, Schema]:
    if kind == "constant columns":
        row = made(30, 0).take(np.zeros(30, np.int64))
        return row, row, SCHEMA
    if kind == "one row":
        return made(1, 0), made(1, 1), SCHEMA
    if kind == "one column":
        schema = Schema((Categorical(name="a", values=("x", "y"), missing=True),))
        return (*(Rows(encoded(schema.domain, np.array(t))) for t in ([[0], [1], [2]], [[0], [0]])), schema)
    if kind == "numbers all missing":
        schema = Schema(tuple(Real(name=name, lower=0.0, upper=1.0, bins=2, missing=True) for name in "ab"))
        codes = encoded(schema.domain, np.full((5, 2), 2))
        rows = Rows(codes, {name: np.full(5, np.nan) for name in "ab"})
        return rows, rows, schema
    schema = Schema.from_sizes({"a": 2, "b": 2})
    tables = ([[0, 0], [0, 1], [0, 1]], [[1, 1], [1, 0]])
    return (*(Rows(encoded(schema.domain, np.array(table))) for table in tables), schema)


@pytest.mark.parametrize(
    "kind", ["constant columns", "one row", "one column", "numbers all missing", "codes never seen"]
)
@pytest.mark.parametrize("last", [True, False])
def test_tiny_tables_are_scored_or_said_to_have_no_score(kind: str, last: bool) -> None:
    real, synthetic, schema = _tiny(kind)
    target = schema.names[-1 if last else 0]
    for score in score_metrics(Task(real, synthetic, schema, target=target)):
        assert math.isfinite(score.value) or score.note, score.name
        if math.isfinite(score.value):
            assert score.low is None or score.value >= score.low - 1e-12
            assert score.high is None or score.value <= score.high + 1e-12


def test_tables_without_rows_or_of_another_domain_are_refused() -> None:
    rows = made(9, 0)
    nothing = rows.take(np.zeros(0, np.int64))
    for param, tables in (("real", (nothing, rows)), ("synthetic", (rows, nothing))):
        with pytest.raises(InputError, match=f"{param} must be a table with rows"):
            Task(*tables, SCHEMA)
    with pytest.raises(InputError, match="held_out must be a table with rows"):
        Task(rows, rows, SCHEMA, held_out=nothing)
    with pytest.raises(InputError, match="real must be of the schema's domain"):
        Task(rows, rows, Schema.from_sizes({"a": 2}))
    with pytest.raises(SchemaError, match="clique must be made of"):
        Task(rows, rows, SCHEMA, target="nobody")


def test_what_is_read_is_what_is_said() -> None:
    """A metric of counts or codes gives the same score without the raw numbers."""
    real, synthetic = made(60, 0), made(60, 1)
    bare = [Rows(side.encoded) for side in (real, synthetic)]
    names = [name for name in METRICS if METRICS[name].facts.reads != "values"]
    assert score_metrics(Task(*bare, SCHEMA), names) == score_metrics(Task(real, synthetic, SCHEMA), names)
    assert any(isinstance(column, Binned) for column in SCHEMA.columns)
