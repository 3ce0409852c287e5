from __future__ import annotations

import numpy as np
import pytest
from people import SCHEMA, made
from sklearn.tree import DecisionTreeClassifier

from margrave.evaluation.metrics.efficiency import pmse
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows, bootstrap_rows
from margrave.evaluation.task import Task

NAMES = ("propensity_cart", "propensity_logistic")
LISTED = ("job", "town", "rich")
TREE = DecisionTreeClassifier(max_depth=5, random_state=0)


def test_the_error_is_that_of_scikit_learns_tree() -> None:
    real, synthetic = made(120, 0), made(80, 1, 0.9)
    found = score_metrics(Task(real, synthetic, SCHEMA), NAMES[:1])[0]
    sides = [
        np.column_stack([*side.numbers.values(), *(side.encoded.column(n) for n in LISTED)])
        for side in (real, synthetic)
    ]
    inputs, wanted = np.concatenate(sides), np.repeat([0, 1], [120, 80])
    chances = TREE.fit(inputs, wanted).predict_proba(inputs)[:, 1]
    assert found.value == pytest.approx(sum((p - 0.4) ** 2 for p in chances) / 200)
    assert found.parts["share of synthetic rows"] == 0.4


def test_tables_that_nothing_tells_apart_and_tables_that_all_does() -> None:
    real = made(300, 0)
    same = score_metrics(Task(real, real, SCHEMA), NAMES)
    assert [score.value for score in same] == pytest.approx([0, 0], abs=1e-12)
    far = Rows(real.encoded, {name: values + 500 for name, values in real.numbers.items()})
    apart = score_metrics(Task(real, far, SCHEMA), NAMES)
    assert [score.value for score in apart] == pytest.approx([0.25, 0.25], abs=1e-3)
    assert pmse(np.array([0.0, 1.0]), 0.5) == 0.25


def test_a_bootstrap_has_the_error_that_theory_says_and_fresh_rows_twice_as_much() -> None:
    def ratio(real: Rows, synthetic: Rows) -> float:
        return score_metrics(Task(real, synthetic, SCHEMA), NAMES[1:])[0].parts["ratio to a bootstrap"]

    drawn, fresh = [], []
    for seed in range(12):
        real = made(800, 2 * seed)
        drawn.append(ratio(real, bootstrap_rows(real, np.random.default_rng(seed))))
        fresh.append(ratio(real, made(800, 2 * seed + 1)))
    assert np.mean(drawn) == pytest.approx(1, abs=0.35)
    assert np.mean(fresh) == pytest.approx(2, abs=0.6)
    richer = {name: 1.5 * values for name, values in real.numbers.items()}
    assert ratio(real, Rows(real.encoded, richer)) > 4
