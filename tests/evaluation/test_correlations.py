from __future__ import annotations

import numpy as np
import pytest
from people import SCHEMA, made, people
from scipy.stats import pearsonr

from margrave.evaluation.distance import embed_rows
from margrave.evaluation.metrics.dependence import covariance, pearson
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.schema.columns import Real
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema


def test_the_covariance_is_numpys_in_any_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made(200, 0).encoded
    expected = np.cov(embed_rows(rows), rowvar=False, bias=True)
    np.testing.assert_allclose(covariance(rows), expected, atol=1e-14)
    monkeypatch.setattr("margrave.evaluation.metrics.dependence.BLOCK", 7)
    np.testing.assert_allclose(covariance(rows), expected, atol=1e-14)


def test_the_covariance_error_is_relative_to_the_synthetic_table() -> None:
    real, synthetic = made(200, 0), made(150, 1, 0.8)
    first, second = (np.cov(embed_rows(side.encoded), rowvar=False, bias=True) for side in (real, synthetic))
    found = score_metrics(Task(real, synthetic, SCHEMA), ["covariance_error"])[0]
    assert found.value == pytest.approx(np.sqrt(((first - second) ** 2).sum() / (second**2).sum()))
    one = real.take(np.zeros(5, np.int64))
    constant = score_metrics(Task(real, one, SCHEMA), ["covariance_error"])[0]
    assert np.isnan(constant.value)
    assert "no column" in constant.note


def test_pearson_is_scipys_over_rows_that_have_both() -> None:
    rows, table = made(100, 3), people(100, 3).to_pandas()
    both = table[["age", "tax"]].dropna()
    assert len(both) < 100
    assert pearson(rows, "age", "tax") == pytest.approx(pearsonr(both["age"], both["tax"])[0], abs=1e-12)


def test_pearson_of_large_and_of_constant_numbers() -> None:
    schema = Schema(tuple(Real(name=name, lower=0.0, upper=1.0, missing=True) for name in "xyz"))
    codes = Encoded(schema.domain, tuple(np.zeros(4, np.uint8) for _ in "xyz"))
    x = 1.7e15 + np.array([0.0, 1, 2, 3]) * 1e6
    rows = Rows(codes, {"x": x, "y": np.array([1.0, 3, 2, 5]), "z": np.array([2.0, 2, 2, np.nan])})
    assert pearson(rows, "x", "y") == pytest.approx(np.corrcoef([0, 1, 2, 3], [1, 3, 2, 5])[0, 1], abs=1e-9)
    assert np.isnan(pearson(rows, "x", "z"))
    scores = score_metrics(Task(rows, rows, schema), ["correlation_similarity", "pearson_difference"])
    assert [score.value for score in scores] == [1.0, 0.0]
    assert scores[0].scope == "1 pairs of numeric columns"
    assert scores[0].note == "2 pairs left out, a column is constant"


def test_the_scores_are_means_over_pairs() -> None:
    real, synthetic = made(100, 0), made(80, 1, 0.9)
    similar, different = score_metrics(
        Task(real, synthetic, SCHEMA), ["correlation_similarity", "pearson_difference"]
    )
    gaps = [
        abs(pearson(real, *pair) - pearson(synthetic, *pair))
        for pair in (("age", "pay"), ("age", "tax"), ("pay", "tax"))
    ]
    assert different.value == pytest.approx(np.mean(gaps))
    assert similar.value == pytest.approx(1 - np.mean(gaps) / 2)
    assert set(similar.parts) == {"age x pay", "age x tax", "pay x tax"}


def test_association_is_the_difference_of_scipys_coefficients() -> None:
    from itertools import combinations

    from scipy.stats.contingency import association, crosstab

    real, synthetic = made(200, 0), made(200, 1, 0.9)

    def coefficient(rows: Rows, pair: tuple[str, str]) -> float:
        table = crosstab(*(rows.encoded.column(name) for name in pair)).count
        return float(association(table, method="cramer"))

    expected = [
        abs(coefficient(real, pair) - coefficient(synthetic, pair)) for pair in combinations(SCHEMA.names, 2)
    ]
    found = score_metrics(Task(real, synthetic, SCHEMA), ["association_difference"])[0]
    assert found.value == pytest.approx(np.mean(expected), abs=1e-9)
