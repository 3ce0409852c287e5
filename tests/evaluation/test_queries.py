from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from counted import encoded
from people import SCHEMA, made

from margrave.evaluation.metrics.marginals import CountingQueries, RangeQueries, ThresholdQueries
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts
from margrave.evaluation.task import Task
from margrave.schema.columns import Real
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

FACTS = Facts("queries", "")


def _coded(sizes: dict[str, int], table: list[list[int]]) -> tuple[Rows, Schema]:
    schema = Schema.from_sizes(sizes)
    return Rows(encoded(schema.domain, np.array(table))), schema


def test_point_queries_are_the_mean_over_all_triples_and_values() -> None:
    rng = np.random.default_rng(0)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2}
    tables = [rng.integers(0, [2, 3, 2, 2], (40, 4)).tolist() for _ in range(2)]
    (real, schema), (synthetic, _) = (_coded(sizes, table) for table in tables)
    errors = []
    for places in combinations(range(4), 3):
        cells = list(product(*(range(list(sizes.values())[place]) for place in places)))
        shares = [
            [sum(tuple(row[p] for p in places) == cell for row in table) / 40 for cell in cells]
            for table in tables
        ]
        errors.append(np.abs(np.subtract(*shares)).mean())
    found = RangeQueries(FACTS, queries=3000).run(Task(real, synthetic, schema))
    assert found.value == pytest.approx(np.mean(errors), rel=0.08)
    assert found.scope == "3000 queries"


def test_range_queries_ask_for_intervals_of_raw_numbers() -> None:
    # One column, real values 0 and 1, synthetic all 0: the error is that of an interval that holds an end.
    schema = Schema((Real(name="x", lower=0.0, upper=1.0, bins=1, missing=False),))
    codes = Encoded(schema.domain, (np.zeros(2, np.uint8),))
    real, synthetic = Rows(codes, {"x": np.array([0.0, 1.0])}), Rows(codes, {"x": np.array([0.3, 0.3])})
    # An interval between two even draws holds 0.3 with chance 2 * 0.3 * 0.7 and an end with chance 0.
    found = RangeQueries(FACTS, queries=5_000).run(Task(real, synthetic, schema))
    assert found.value == pytest.approx(2 * 0.3 * 0.7, abs=0.025)


def test_missing_numbers_are_in_no_interval_and_held_out_rows_are_the_truth() -> None:
    schema = Schema((Real(name="x", lower=0.0, upper=1.0, bins=1, missing=True),))
    codes = Encoded(schema.domain, (np.zeros(2, np.uint8),))
    nothing = Rows(codes, {"x": np.array([np.nan, np.nan])})
    real, held_out = Rows(codes, {"x": np.array([0.4, 0.6])}), Rows(codes, {"x": np.array([0.0, 1.0])})
    assert RangeQueries(FACTS, queries=50).run(Task(real, nothing, schema, held_out=held_out)).value == 0
    assert RangeQueries(FACTS, queries=50).run(Task(real, nothing, schema)).value == pytest.approx(
        0, abs=1e-12
    )
    assert RangeQueries(FACTS, queries=50).run(Task(held_out, real, schema)).value > 0.1
    # No number is known at all: the codes are asked for, and they agree.
    assert RangeQueries(FACTS, queries=50).run(Task(nothing, nothing, schema)).value == 0


def test_counting_queries_are_the_mean_over_accepted_intervals() -> None:
    rng = np.random.default_rng(1)
    tables = [rng.integers(0, [3, 2, 4], (30, 3)).tolist() for _ in range(2)]
    (real, schema), (synthetic, _) = (_coded({"a": 3, "b": 2, "c": 4}, table) for table in tables)
    weights, shares = [], []
    boxes = [[(low, high) for low in range(size) for high in range(low, size)] for size in (3, 2, 4)]
    for box in product(*boxes):
        inside = [
            sum(all(lo <= v <= hi for v, (lo, hi) in zip(row, box, strict=True)) for row in table) / 30
            for table in tables
        ]
        if 0.05 <= inside[0] <= 0.95:
            weights.append(np.prod([1 / (size - low) for size, (low, _) in zip((3, 2, 4), box, strict=True)]))
            shares.append(inside)
    answers = np.array(shares)
    expected = np.average(np.abs(answers[:, 0] - answers[:, 1]), weights=weights)
    expected /= np.average(answers[:, 0], weights=weights)
    found = CountingQueries(FACTS, queries=3000).run(Task(real, synthetic, schema))
    assert found.value == pytest.approx(expected, rel=0.08)


def test_counting_queries_give_up_on_a_constant_table() -> None:
    rows, schema = _coded({"a": 1}, [[0], [0]])
    found = CountingQueries(FACTS, queries=5).run(Task(rows, rows, schema))
    assert np.isnan(found.value)
    assert "no query" in found.note


def test_threshold_queries_of_one_column_are_known() -> None:
    # Embedded at 1/4 and 3/4; real half and half, synthetic all low: each query errs by one half.
    (real, schema), (synthetic, _) = _coded({"a": 2}, [[0], [1]]), _coded({"a": 2}, [[0], [0]])
    found = ThresholdQueries(FACTS, queries=400).run(Task(real, synthetic, schema))
    assert found.value == pytest.approx(1.0)
    assert np.isnan(ThresholdQueries(FACTS).run(Task(synthetic, synthetic, schema)).value)


def test_threshold_queries_agree_with_a_count_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    real, synthetic = made(25, 0), made(20, 1, 0.8)
    task = Task(real, synthetic, SCHEMA)
    found = score_metrics(task, ["threshold_queries"])[0]
    rng, errors, answers = task.rng("threshold_queries"), 0.0, 0.0
    for _ in range(200):
        names = [SCHEMA.names[place] for place in rng.choice(6, 3, replace=False)]
        theta = rng.normal(size=3)
        theta = theta / np.sqrt((theta**2).sum())
        heights = [
            [
                sum(
                    t * (2 * int(side.encoded.column(n)[i]) + 1) / 2 / SCHEMA.domain[n]
                    for t, n in zip(theta, names, strict=True)
                )
                for i in range(side.size)
            ]
            for side in (real, synthetic)
        ]
        bound = rng.uniform(min(heights[0]), max(heights[0]))
        shares = [sum(height > bound for height in side) / len(side) for side in heights]
        errors, answers = errors + abs(shares[0] - shares[1]), answers + shares[0]
    assert found.value == pytest.approx(errors / answers, rel=1e-6)


def test_the_seed_and_the_name_decide_the_queries() -> None:
    real, synthetic = made(50, 0), made(60, 1)
    alone = score_metrics(Task(real, synthetic, SCHEMA, seed=4), ["query_error"])
    among = score_metrics(Task(real, synthetic, SCHEMA, seed=4), ["counting_queries", "query_error"])
    other = score_metrics(Task(real, synthetic, SCHEMA, seed=5), ["query_error"])
    assert alone[0] == among[1]
    assert alone[0] != other[0]


def test_narrow_tables_are_asked_for_what_they_have() -> None:
    domain = Domain(("a", "b"), (2, 2))
    rows = Rows(encoded(domain, np.array([[0, 1], [1, 0], [1, 1]])))
    task = Task(rows, rows, Schema.from_sizes({"a": 2, "b": 2}))
    names = ["query_error", "counting_queries", "threshold_queries"]
    assert [score.value for score in score_metrics(task, names)] == [0, 0, 0]
