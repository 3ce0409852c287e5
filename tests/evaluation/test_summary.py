from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import bootstrap, ttest_1samp

from margrave.errors import InputError
from margrave.evaluation.score import Score, summarise


def _runs(values: list[float], name: str = "tv") -> list[list[Score]]:
    return [[Score(name, value, "lower", "", "")] for value in values]


def test_the_t_interval_is_scipys() -> None:
    values = [0.1, 0.4, 0.2, 0.35]
    for level in (0.9, 0.95):
        found = summarise(_runs(values), level=level)[0]
        expected = ttest_1samp(values, 0).confidence_interval(level)
        assert found.interval == pytest.approx((expected.low, expected.high))
        assert (found.mean, found.spread) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
        assert (found.runs, found.better, found.method, found.level) == (4, "lower", "t", level)


def test_the_bootstrap_interval_is_scipys() -> None:
    values = np.random.default_rng(0).gamma(2, size=20)
    found = summarise(_runs(values.tolist()), method="bootstrap", rng=np.random.default_rng(1))[0]
    expected = bootstrap(
        (values,), np.mean, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert found.interval == pytest.approx((expected.low, expected.high), abs=0.03)


def test_t_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        low, high = summarise(_runs(rng.normal(size=5).tolist()))[0].interval
        covered += low <= 0 <= high
    assert 0.91 < covered / 400 < 0.99


def test_runs_without_a_value_are_left_out() -> None:
    found = summarise(_runs([1.0, math.nan, 3.0]))[0]
    assert (found.mean, found.runs) == (2.0, 2)
    alone, none = summarise(_runs([1.0]))[0], summarise(_runs([math.nan]))[0]
    assert alone.mean == 1.0
    assert math.isnan(alone.spread)
    assert math.isnan(alone.interval[0])
    assert math.isnan(none.mean)
    assert none.runs == 0
    assert summarise([]) == ()


def test_metrics_are_kept_apart_and_in_order() -> None:
    runs = [
        [*first, *second] for first, second in zip(_runs([1.0, 2.0]), _runs([5.0, 7.0], "auc"), strict=True)
    ]
    assert [(one.name, one.mean) for one in summarise(runs)] == [("tv", 1.5), ("auc", 6.0)]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        summarise([], level=1)
    with pytest.raises(InputError, match="method must be"):
        summarise([], method="z")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rng must be given for a bootstrap"):
        summarise([], method="bootstrap")
