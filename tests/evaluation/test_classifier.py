from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble
import threadpoolctl
from counted import Rows, dependent, encoded

from margrave.errors import InputError, MissingExtraError, SchemaError
from margrave.evaluation import compare, score_classifier
from margrave.schema.columns import Categorical
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema


def test_what_can_be_learned_is_learned() -> None:
    scores = score_classifier(dependent(2000, 0), dependent(1000, 1), "e")
    values = {score.name: score.value for score in scores}
    assert list(values) == ["accuracy", "auc"]
    assert values["accuracy"] > 0.8
    assert values["auc"] > 0.8
    assert all(score.better == "higher" and score.scope == "predict e" for score in scores)


def test_trees_are_trained_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """More would spin while they wait for each other: on a busy machine that took minutes."""
    seen: list[int] = []
    trees = sklearn.ensemble.HistGradientBoostingClassifier
    for name in ("fit", "predict_proba"):
        true = getattr(trees, name)

        def called(self: Any, *args: Any, true: Any = true) -> Any:
            seen.extend(entry["num_threads"] for entry in threadpoolctl.threadpool_info())
            return true(self, *args)

        monkeypatch.setattr(trees, name, called)
    with threadpoolctl.threadpool_limits(2):
        score_classifier(dependent(300, 0), dependent(300, 1), "e")
        assert {entry["num_threads"] for entry in threadpoolctl.threadpool_info()} == {2}
    assert set(seen) == {1}


def test_nothing_is_learned_from_noise() -> None:
    accuracy, auc = score_classifier(dependent(2000, 0, noise=1.0), dependent(2000, 1), "e")
    assert accuracy.value < 0.65
    assert 0.35 < auc.value < 0.65


def test_categories_without_order_are_split_as_such() -> None:
    rng = np.random.default_rng(0)
    domain = Domain(("x", "y"), (40, 2))
    good = rng.permutation(40) < 20
    tables = [np.column_stack([x, good[x]]) for x in (rng.integers(0, 40, 3000), rng.integers(0, 40, 500))]
    train, test = (encoded(domain, table) for table in tables)
    schema = Schema(
        tuple(Categorical(name=name, values=tuple(range(domain[name])), missing=False) for name in "xy")
    )
    accuracy, auc = score_classifier(train, test, "y", schema=schema)
    assert accuracy.value == 1.0
    assert auc.value == 1.0


def test_many_classes_one_of_them_never_seen() -> None:
    train, test = dependent(800, 0), dependent(500, 1)
    kept = train.column("d") != 3
    train = Encoded(train.domain, tuple(column[kept] for column in train.columns))
    accuracy, auc = score_classifier(train, test, "d")
    assert 0.4 < accuracy.value <= 0.84
    assert 0.6 < auc.value < 1


def test_a_single_class_is_predicted_always() -> None:
    train, test = dependent(100, 0), dependent(100, 1)
    same = Encoded(train.domain, (*train.columns[:4], np.ones(100, np.uint8)))
    accuracy, auc = score_classifier(same, test, "e")
    assert accuracy.value == pytest.approx(float(test.column("e").mean()))
    assert auc.value == 0.5
    assert [score.name for score in score_classifier(test, same, "e")] == ["accuracy"]


def test_the_seed_decides_the_scores() -> None:
    train, test = dependent(500, 0), dependent(500, 1)
    assert score_classifier(train, test, "e", seed=1) == score_classifier(train, test, "e", seed=1)


def test_scores_join_a_comparison() -> None:
    real, other = dependent(400, 0), dependent(400, 1)
    found = compare(Rows(real), Rows(other))
    scores = score_classifier(other, real, "e")
    joined = found.with_scores(scores, {"real rows": {"accuracy": 0.9}})
    assert joined["accuracy"] == scores[0].value
    assert joined.references["real rows"] == {"accuracy": 0.9}
    assert "accuracy" not in [score.name for score in found.scores]
    assert "real rows" in str(joined)


def test_bad_input_is_named() -> None:
    rows = dependent(20, 0)
    with pytest.raises(SchemaError, match="clique must be made of"):
        score_classifier(rows, rows, "nothing")
    empty = Encoded(rows.domain, tuple(column[:0] for column in rows.columns))
    with pytest.raises(InputError, match="test must be a table with rows"):
        score_classifier(rows, empty, "e")
    alone = encoded(Domain(("e",), (2,)), np.zeros((4, 1)))
    with pytest.raises(InputError, match="test must be of the domain of train"):
        score_classifier(rows, alone, "e")
    with pytest.raises(InputError, match="train must be of two columns or more"):
        score_classifier(alone, alone, "e")


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtraError, match="pip install 'margrave\\[eval\\]'"):
        score_classifier(dependent(20, 0), dependent(20, 1), "e")
