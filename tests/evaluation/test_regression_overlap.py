from __future__ import annotations

import numpy as np
import pytest
from counted import encoded
from people import SCHEMA, made
from scipy.stats import linregress

from margrave.evaluation.metrics.efficiency import interval_overlap, least_squares
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows, bootstrap_rows, shuffled_rows
from margrave.evaluation.task import Task
from margrave.schema.columns import Real
from margrave.schema.schema import Schema


def test_least_squares_is_scipys() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y = 2 * x + rng.normal(size=50)
    found, errors = least_squares(np.column_stack([x, np.ones(50)]), y)
    expected = linregress(x, y)
    assert found.tolist() == pytest.approx([expected.slope, expected.intercept])
    assert errors.tolist() == pytest.approx([expected.stderr, expected.intercept_stderr])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 1), (0, 1), 1),
        ((0, 1), (2, 3), 0),
        ((0, 2), (1, 3), 0.5),
        ((0, 4), (1, 2), (1 / 4 + 1) / 2),
        ((1, 1), (1, 1), 1),
        ((1, 1), (0, 2), 0),
    ],
)
def test_overlap_of_intervals(first: tuple[int, int], second: tuple[int, int], expected: float) -> None:
    assert interval_overlap(first, second) == pytest.approx(expected)
    assert interval_overlap(second, first) == pytest.approx(expected)


def test_one_slope_overlaps_as_scipys_does() -> None:
    rng = np.random.default_rng(1)
    schema = Schema(tuple(Real(name=name, lower=-9.0, upper=9.0, bins=2, missing=False) for name in "xy"))
    sides, intervals = [], []
    real_x = rng.normal(size=40)
    for slope in (1.0, 1.2):
        x = real_x if not sides else rng.normal(size=60)
        y = slope * x + rng.normal(size=len(x))
        codes = encoded(schema.domain, np.zeros((len(x), 2)))
        sides.append(Rows(codes, {"x": x, "y": y}))
        line = linregress((x - real_x.mean()) / real_x.std(), y)
        intervals.append((line.slope - 1.959964 * line.stderr, line.slope + 1.959964 * line.stderr))
    found = score_metrics(Task(*sides, schema, target="y"), ["regression_overlap"])[0]
    assert found.scope == "predict y, 1 coefficients"
    assert found.parts["x"] == pytest.approx(interval_overlap(*intervals), abs=1e-6)


@pytest.mark.parametrize("target", ["tax", "rich", "age"])
def test_equal_tables_overlap_in_full_and_shuffled_ones_less(target: str) -> None:
    real = made(500, 0)
    rng = np.random.default_rng(0)
    tables = [real, bootstrap_rows(real, rng), shuffled_rows(real, rng)]
    tasks = [Task(real, table, SCHEMA, target=target) for table in tables]
    values = [score_metrics(task, ["regression_overlap"])[0].value for task in tasks]
    assert values[0] == pytest.approx(1)
    assert 1 > values[1] > values[2]


def test_a_code_that_the_synthetic_rows_lack_counts_as_no_overlap() -> None:
    real = made(400, 0)
    without = real.take(np.flatnonzero(real.encoded.column("job") != 0))
    score = score_metrics(Task(real, without, SCHEMA, target="tax"), ["regression_overlap"])[0]
    assert score.parts["job = 0"] == 0
    assert score.value < 1


def test_what_cannot_be_regressed_is_said() -> None:
    real = made(8, 0)
    few = score_metrics(Task(real, real, SCHEMA, target="tax"), ["regression_overlap"])[0]
    assert np.isnan(few.value)
    assert few.note == "there are fewer real rows than coefficients"
    alone = Schema.from_sizes({"a": 2})
    rows = Rows(encoded(alone.domain, np.zeros((5, 1))))
    score = score_metrics(Task(rows, rows, alone, target="a"), ["regression_overlap"])[0]
    assert score.note == "no other column is left to regress on"
    constant = made(50, 0).take(np.zeros(50, np.int64))
    score = score_metrics(Task(constant, constant, SCHEMA, target="tax"), ["regression_overlap"])[0]
    assert score.note == "no other column varies"
