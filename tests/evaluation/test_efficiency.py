from __future__ import annotations

import sys

import numpy as np
import pytest
from people import SCHEMA, made
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from margrave.errors import MissingExtraError
from margrave.evaluation.learners import LEARNERS, Features, absent, learn, score_classifier, stops_early
from margrave.evaluation.metrics import efficiency
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.schema.encoded import Encoded

CLASSES = ("ml_accuracy", "ml_auc", "ml_f1")
NUMBERS = ("ml_r2", "ml_rmse")


def _task(target: str, noise: float = 0.3, **more: object) -> Task:
    held_out = made(200, 2)
    return Task(made(300, 0), made(300, 1, noise), SCHEMA, held_out=held_out, target=target, **more)  # type: ignore[arg-type]


@pytest.fixture
def _forest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "LEARNERS", {"random_forest": LEARNERS["random_forest"]})


def test_every_model_of_the_paper_learns() -> None:
    here = [name for name, learner in LEARNERS.items() if not absent(learner)]
    assert {"mlp", "random_forest"} <= set(here)
    scores = score_metrics(_task("rich"), CLASSES)
    for score in scores:
        assert set(score.parts) == set(here)
        assert all(0.6 < value <= 1 for value in score.parts.values()), score.parts
        assert score.value == pytest.approx(np.mean(list(score.parts.values())))
        assert score.scope == f"predict rich, {len(here)} models"
    gone = [name for name in LEARNERS if name not in here]
    assert scores[0].note == (f"without {', '.join(gone)}, not installed" if gone else "")


def test_every_model_predicts_numbers() -> None:
    r2, rmse = score_metrics(_task("tax"), NUMBERS)
    assert len(r2.parts) == len(rmse.parts) >= 2
    assert r2.parts["random_forest"] > 0.8
    assert rmse.parts["random_forest"] < 15


@pytest.mark.usefixtures("_forest_only")
def test_the_scores_are_scikit_learns() -> None:
    task = _task("job")
    accuracy, auc, f1 = score_metrics(task, CLASSES)
    features = Features(task.synthetic, SCHEMA, ("job",))
    model = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
    model.fit(features.plain(task.synthetic), task.synthetic.encoded.column("job"))
    actual, found = task.truth.encoded.column("job"), model.predict(features.plain(task.truth))
    assert accuracy.value == pytest.approx((actual == found).mean())
    assert f1.value == pytest.approx(f1_score(actual, found, average="macro"))
    assert 0.6 < auc.value < 1


@pytest.mark.usefixtures("_forest_only")
def test_numbers_are_scored_where_they_are_known() -> None:
    r2, rmse = score_metrics(_task("age"), NUMBERS)
    ages = made(200, 2).numbers["age"]
    spread = ages[~np.isnan(ages)].std()
    assert 1 - (rmse.value / spread) ** 2 == pytest.approx(r2.value)


@pytest.mark.usefixtures("_forest_only")
def test_a_score_for_another_kind_of_target_is_not_defined() -> None:
    for target, names in (("rich", NUMBERS), ("pay", CLASSES), ("pay", ("logistic_f1",))):
        for score in score_metrics(_task(target), names):
            assert np.isnan(score.value)
            assert "target" in score.note
    untold = Task(made(20, 0), made(20, 1), SCHEMA)
    for score in score_metrics(untold, [*CLASSES, "downstream_error", "logistic_f1", "regression_overlap"]):
        assert np.isnan(score.value)
        assert score.note == "name a target, the column to predict"


@pytest.mark.usefixtures("_forest_only")
def test_a_single_class_is_predicted_always_and_notes_are_kept() -> None:
    real, synthetic = made(60, 0), made(60, 1)
    poor = Encoded(SCHEMA.domain, (*synthetic.encoded.columns[:-1], np.zeros(60, np.uint8)))
    task = Task(real, Rows(poor, synthetic.numbers), SCHEMA, target="rich")
    share = float(real.encoded.column("rich").mean())
    names = ["ml_accuracy", "ml_auc", "downstream_error", "logistic_f1"]
    accuracy, auc, error, f1 = score_metrics(task, names)
    assert accuracy.value == pytest.approx(1 - share)
    assert auc.value == 0.5
    assert error.value == pytest.approx(share)
    assert f1.value == 0
    assert "tested on the very rows" in accuracy.note
    same = Task(Rows(poor, synthetic.numbers), real, SCHEMA, target="rich")
    assert np.isnan(score_metrics(same, ["ml_auc"])[0].value)


@pytest.mark.usefixtures("_forest_only")
def test_long_tables_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency.sample_rows, "__defaults__", (100,))
    scores = [score_metrics(_task("rich", seed=seed), ["ml_f1"])[0] for seed in (0, 0, 1)]
    assert "rows drawn" in scores[0].note
    assert scores[0] == scores[1]
    assert scores[0].value != scores[2].value


def test_the_downstream_error_is_that_of_boosted_trees() -> None:
    task = _task("rich")
    features = Features(task.synthetic, SCHEMA, ("rich",))
    model = HistGradientBoostingClassifier(categorical_features=[3, 4], random_state=0)
    model.fit(features.plain(task.synthetic), task.synthetic.encoded.column("rich"))
    expected = (model.predict(features.plain(task.truth)) != task.truth.encoded.column("rich")).mean()
    wrong, squared = (score_metrics(_task(target), ["downstream_error"])[0] for target in ("rich", "pay"))
    assert wrong.value == pytest.approx(expected)
    features = Features(task.synthetic, SCHEMA, ("pay",))
    trees = HistGradientBoostingRegressor(categorical_features=[2, 3, 4], random_state=0)
    trees.fit(features.plain(task.synthetic), (task.synthetic.encoded.column("pay") + 0.5) / 8)
    gap = trees.predict(features.plain(task.truth)) - (task.truth.encoded.column("pay") + 0.5) / 8
    assert squared.value == pytest.approx((gap**2).mean())


def test_the_logistic_f1_is_scikit_learns() -> None:
    task = _task("rich")
    found = score_metrics(task, ["logistic_f1"])[0]
    features = Features(task.synthetic, SCHEMA, ("rich",))
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    model.fit(features.dense(task.synthetic), task.synthetic.encoded.column("rich"))
    expected = f1_score(task.truth.encoded.column("rich"), model.predict(features.dense(task.truth)))
    assert found.value == pytest.approx(expected)
    assert score_metrics(_task("town"), ["logistic_f1"])[0].value > 0.5


EVERY_LEARNER = [
    pytest.param(name, marks=[pytest.mark.needs_extra("boost")] if learner.module != "sklearn" else [])
    for name, learner in LEARNERS.items()
]


@pytest.mark.parametrize("name", EVERY_LEARNER)
def test_where_there_is_nothing_to_learn_shares_and_means_are_predicted(name: str) -> None:
    flat, slope = np.column_stack([np.ones(4), np.full(4, np.nan)]), np.arange(8.0).reshape(4, 2)
    chances = learn(LEARNERS[name], flat, np.array([0, 1, 1, 1]), slope, 0)
    assert chances.tolist() == [[0.25, 0.75]] * 4
    assert learn(LEARNERS[name], flat, np.array([1.0, 2, 3, 6]), slope[:1], 0).tolist() == [3.0]
    assert learn(LEARNERS[name], slope, np.array([2.0, 2, 2, 2]), flat[:2], 0).tolist() == [2.0, 2.0]


def test_classes_that_only_a_model_thinks_of_do_not_count() -> None:
    actual, chances = np.array([0, 0, 1, 1]), np.eye(3)[[0, 2, 1, 1]]
    assert efficiency.macro_f1(actual, chances) == pytest.approx((2 / 3 + 1) / 2)


@pytest.mark.parametrize("name", EVERY_LEARNER)
def test_a_class_of_one_row_and_missing_numbers_do_no_harm(name: str) -> None:
    inputs = np.column_stack([np.arange(30.0), np.where(np.arange(30) % 4 == 0, np.nan, 1.0)])
    wanted = np.r_[np.zeros(15, int), np.ones(14, int), 2]
    learner = LEARNERS[name]
    known = np.nan_to_num(inputs) if learner.dense else inputs
    chances = learn(learner, known, wanted, known, 0)
    assert chances.shape == (30, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)


def test_boosting_learns_from_a_long_table_in_which_a_class_has_one_row() -> None:
    """Above 10,000 rows scikit-learn would hold some out of each class to stop early."""
    rows = made(10_500, 0)
    towns = np.where(np.arange(rows.size) == 7, 2, rows.encoded.column("town") % 2).astype(np.uint8)
    place = SCHEMA.domain.index("town")
    columns = (*rows.encoded.columns[:place], towns, *rows.encoded.columns[place + 1 :])
    lone = Rows(Encoded(SCHEMA.domain, columns), rows.numbers)
    task = Task(lone, lone, SCHEMA, held_out=made(200, 2), target="town")
    assert 0 < score_metrics(task, ["downstream_error"])[0].value < 1
    assert len(score_classifier(lone.encoded, lone.encoded, "town", schema=SCHEMA)) > 0
    assert stops_early(towns) is False
    assert stops_early(np.arange(40) // 2) is False
    assert stops_early(np.arange(40) // 20) == "auto"


def test_an_absent_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    score = score_metrics(_task("rich"), ["ml_f1"])[0]
    assert score.note == "without catboost, xgboost, not installed"
    assert set(score.parts) == {"mlp", "random_forest"}
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(MissingExtraError, match=r"margrave\[eval\]"):
        score_metrics(_task("rich"), ["logistic_f1"])


def test_features_are_scaled_by_the_rows_they_learn_from() -> None:
    rows = made(100, 0)
    features = Features(rows, SCHEMA, ("rich",))
    dense = features.dense(rows)
    assert dense.shape == (100, len(features.dense_names)) == (100, 3 * 2 + 6 + 3)
    pay = dense[:, features.dense_names.index("pay")]
    assert (pay.mean(), pay.std()) == pytest.approx((0, 1))
    assert dense[:, features.dense_names.index("age missing")].mean() == pytest.approx(
        np.isnan(rows.numbers["age"]).mean()
    )
    towns = [place for place, name in enumerate(features.dense_names) if name.startswith("town = ")]
    assert dense[:, towns].sum(axis=1).tolist() == [1.0] * 100
    assert features.categorical == [False, False, False, True, True]
    far = Rows(rows.encoded, rows.numbers | {"pay": rows.numbers["pay"] + 1e9})
    assert features.dense(far)[:, features.dense_names.index("pay")].max() == 20


def test_wide_columns_are_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("margrave.evaluation.learners.MOST_LEVELS", 4)
    features = Features(made(50, 0), SCHEMA)
    assert "job" in features.dense_names
    assert features.categorical == [False, False, False, False, True, True]
