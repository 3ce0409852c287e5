"""Curves against scikit-learn, and what is learned against a table in which it is known."""

from __future__ import annotations

import numpy as np
import pytest
from people import SCHEMA, made
from sklearn import metrics

from margrave.evaluation.metrics.pictures import Curves, draw_curves, precision_recall, roc
from margrave.evaluation.rows import Rows, shuffled_rows
from margrave.schema.schema import Schema


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ties", [True, False])
def test_curves_and_areas_are_those_of_scikit_learn(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    actual = rng.random(200) < 0.3
    chances = np.round(rng.random(200) + 0.2 * actual, 1 if ties else 9)
    points, area = roc(actual, chances)
    false, true, _ = metrics.roc_curve(actual, chances, drop_intermediate=False)
    np.testing.assert_allclose(points, np.column_stack([false, true]), atol=1e-12)
    assert area == pytest.approx(metrics.roc_auc_score(actual, chances), abs=1e-12)
    points, area = precision_recall(actual, chances)
    precision, recall, _ = metrics.precision_recall_curve(actual, chances)
    np.testing.assert_allclose(points[1:], np.column_stack([recall, precision])[-2::-1], atol=1e-12)
    assert area == pytest.approx(metrics.average_precision_score(actual, chances), abs=1e-12)


@pytest.mark.parametrize(("target", "held_out"), [("rich", True), ("town", False), ("tax", True)])
def test_a_good_table_lies_between_real_rows_and_shuffled_ones(target: str, held_out: bool) -> None:
    real, rng = made(500, 0, 0.1), np.random.default_rng(0)
    tables = {"near": made(500, 1, 0.3), "far": shuffled_rows(made(500, 2, 0.1), rng)}
    found = draw_curves(
        real, tables, SCHEMA, target, held_out=made(300, 3, 0.1) if held_out else None, seed=1
    )
    assert isinstance(found, Curves)
    near, far = found.tables
    truth, lost = found.references
    assert [truth.name, lost.name] == ["real rows", "shuffled"]
    assert min(truth.auc, near.auc) > max(far.auc, lost.auc)
    worst = max(far.average_precision, lost.average_precision)
    assert min(truth.average_precision, near.average_precision) > worst
    assert found.tested == (300 if held_out else 250)
    assert 0 < found.share < 1
    for curve in (*found.tables, *found.references):
        for points in (curve.roc, curve.precision_recall):
            assert points.shape[1] == 2
            assert points.min() >= 0
            assert points.max() <= 1
            assert len(points) <= 170
            assert (np.diff(points[:, 0]) >= 0).all()
        assert curve.roc[0].tolist() == [0, 0]
        assert curve.roc[-1].tolist() == [1, 1]
    scores = {score.name: score for score in found.scores("near")}
    assert scores["roc_auc"].value == near.auc
    assert found.reference_scores["shuffled"]["average_precision"] == lost.average_precision
    assert ("pooled" in found.how) is (target == "town")


def test_the_seed_decides_all() -> None:
    real, tables = made(200, 0), {"a": made(200, 1)}
    first, again, other = (draw_curves(real, tables, SCHEMA, "rich", seed=seed) for seed in (0, 0, 1))
    assert isinstance(first, Curves)
    assert isinstance(again, Curves)
    assert isinstance(other, Curves)
    assert first.tables[0].auc == again.tables[0].auc != other.tables[0].auc


def test_what_cannot_be_drawn_is_said() -> None:
    rows = made(40, 0)
    same = rows.take(np.zeros(40, np.int64))
    assert "one value of rich" in str(draw_curves(same, {"a": rows}, SCHEMA, "rich"))
    assert "too few rows" in str(draw_curves(made(9, 0), {"a": rows}, SCHEMA, "rich"))
    alone = Schema((SCHEMA["town"],))
    coded = Rows.from_codes(_only(rows, "town"), alone)
    assert "no other column" in str(draw_curves(coded, {"a": coded}, alone, "town"))


def test_a_table_without_the_value_finds_nothing() -> None:
    real = made(300, 0)
    poor = real.take(np.flatnonzero(real.encoded.column("rich") == 0))
    found = draw_curves(real, {"poor": poor}, SCHEMA, "rich")
    assert isinstance(found, Curves)
    assert found.tables[0].auc == 0.5


def _only(rows: Rows, name: str):  # type: ignore[no-untyped-def]
    from margrave.schema.domain import Domain
    from margrave.schema.encoded import Encoded

    column = rows.encoded.column(name)
    return Encoded(Domain((name,), (rows.domain[name],)), (column,))
