from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people import SCHEMA, made
from scipy.stats import ks_2samp

from margrave.evaluation.metrics.marginals import ks_complement, tv_complement
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.schema.encoded import Encoded

SOME = st.lists(st.integers(0, 9), min_size=1, max_size=40)


@settings(max_examples=60)
@given(SOME, SOME)
def test_ks_is_the_largest_gap_at_any_number(first: list[int], second: list[int]) -> None:
    one, two = np.array(first) / 3, np.array(second) / 3
    gaps = [abs(np.mean(one <= place) - np.mean(two <= place)) for place in (*one, *two)]
    assert ks_complement(one, two) == pytest.approx(1 - max(gaps), abs=1e-12)
    assert ks_complement(np.append(one, np.nan), two) == ks_complement(one, two)


def test_ks_is_scipys() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=70).round(1), rng.normal(0.5, 1, 90).round(1)
    assert ks_complement(one, two) == pytest.approx(1 - ks_2samp(one, two).statistic, abs=1e-12)


def test_ks_of_nothing_is_not_defined() -> None:
    assert np.isnan(ks_complement(np.array([np.nan]), np.array([1.0])))
    assert np.isnan(ks_complement(np.array([1.0]), np.array([])))


def test_tv_counts_a_value_the_real_column_lacks_as_next_to_nothing() -> None:
    assert tv_complement(np.array([2, 2]), np.array([1, 3])) == pytest.approx(0.75)
    assert tv_complement(np.array([4, 0]), np.array([3, 1])) == pytest.approx(0.75, abs=1e-6)
    assert tv_complement(np.array([4, 0]), np.array([3, 1])) > 0.75
    assert np.isnan(tv_complement(np.array([0, 0]), np.array([3, 1])))


def test_a_column_without_values_is_left_out() -> None:
    real = made(40, 0)
    gone = {name: np.full(40, np.nan) if name == "age" else values for name, values in real.numbers.items()}
    codes = tuple(
        np.full(40, SCHEMA["job"].missing_code, np.uint8) if name == "job" else real.encoded.column(name)
        for name in SCHEMA.names
    )
    synthetic = Rows(Encoded(SCHEMA.domain, codes), gone)
    ks, tv = score_metrics(Task(real, synthetic, SCHEMA), ["ks_complement", "tv_complement"])
    assert (ks.scope, ks.note) == ("2 numeric columns", "1 left out, a table holds no value of it")
    assert (tv.scope, tv.note) == ("2 listed columns", "1 left out, a table holds no value of it")
    assert np.isnan(ks.parts["age"])
    assert ks.to_json()["parts"]["age"] is None
    assert ks.value == tv.value == 1.0
