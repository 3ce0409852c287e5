from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people import SCHEMA, made
from sklearn.metrics import roc_auc_score

from margrave.errors import SchemaError
from margrave.evaluation.attacks import (
    AttributeInference,
    Closeness,
    MembershipInference,
    area,
    area_error,
    caught,
)
from margrave.evaluation.metrics.efficiency import join_rows
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows, shuffled_rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

MEMBERSHIP = ("attack_density", "attack_nearest")
SOME = st.lists(st.integers(0, 5), min_size=1, max_size=20)


def _attacked(synthetic: Rows, names: tuple[str, ...] = MEMBERSHIP, rows: int = 500) -> list[Score]:
    task = Task(made(rows, 0), synthetic, SCHEMA, held_out=made(rows, 1), target="tax")
    return list(score_metrics(task, names))


def test_copies_of_rows_are_told() -> None:
    for score in _attacked(made(500, 0)):
        assert score.value > 0.95
        assert score.parts["caught at 1 % false alarms"] > 0.5
    guessed = _attacked(made(500, 0), ("attack_attribute",))[0]
    assert guessed.parts["right for members"] == 1
    assert guessed.value > 5 * guessed.parts["standard error"]


def test_rows_that_are_half_copies_are_told_too() -> None:
    leaking = join_rows(made(500, 0).take(np.arange(250)), made(250, 5))
    for score in _attacked(leaking):
        assert 0.65 < score.value < 0.95


def test_fresh_and_shuffled_rows_are_not_told() -> None:
    fresh, shuffled = made(500, 7), shuffled_rows(made(500, 0), np.random.default_rng(0))
    for synthetic in (fresh, shuffled):
        for score in _attacked(synthetic):
            assert abs(score.value - 0.5) < 3.5 * score.parts["standard error"], score.name
            assert score.parts["caught at 1 % false alarms"] < 0.08
        guessed = _attacked(synthetic, ("attack_attribute",))[0]
        assert abs(guessed.value) < 3.5 * guessed.parts["standard error"]


def test_a_column_that_follows_from_the_others_is_no_leak() -> None:
    held_out = made(600, 1, 0.0)
    task = Task(made(600, 0, 0.0), made(600, 2, 0.0), SCHEMA, held_out=held_out, target="rich")
    guessed = score_metrics(task, ["attack_attribute"])[0]
    assert guessed.parts["right for members"] > 0.9
    assert abs(guessed.value) < 0.06


@settings(max_examples=40)
@given(SOME, SOME)
def test_the_area_is_scikit_learns(first: list[int], second: list[int]) -> None:
    expected = roc_auc_score(np.repeat([1, 0], [len(first), len(second)]), [*first, *second])
    assert area(np.array(first, float), np.array(second, float)) == pytest.approx(expected)


def test_the_standard_error_is_that_of_repetitions() -> None:
    rng = np.random.default_rng(0)
    values = [area(rng.normal(0.5, 1, 60), rng.normal(0, 1, 80)) for _ in range(800)]
    assert area_error(float(np.mean(values)), 60, 80) == pytest.approx(np.std(values), rel=0.15)


def test_false_alarms_are_few() -> None:
    others = np.arange(1000) / 1000
    assert caught(np.array([0.995, 0.5]), others) == 0.5
    assert caught(others, others) <= 0.01


def test_distances_are_gowers() -> None:
    near, asked = made(30, 0), made(20, 1)
    distances = np.concatenate(list(Closeness(near, ("age", "pay", "tax"), SCHEMA.names).blocks(asked)))
    for one in range(20):
        for two in range(30):
            total = 0.0
            for name in SCHEMA.names:
                if name in near.numbers:
                    first, second = asked.numbers[name][one], near.numbers[name][two]
                    width = np.nanmax(near.numbers[name]) - np.nanmin(near.numbers[name])
                    gone = math.isnan(first) + math.isnan(second)
                    total += gone % 2 if gone else min(abs(first - second) / width, 1)
                else:
                    total += asked.encoded.column(name)[one] != near.encoded.column(name)[two]
            assert distances[one, two] == pytest.approx(total / 6, abs=1e-6)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    near, asked = Closeness(made(30, 0), ("pay",), ("pay", "job")), made(20, 1)
    whole = near.nearest(asked)
    monkeypatch.setattr("margrave.evaluation.attacks.BLOCK", 70)
    for first, second in zip(whole, near.nearest(asked), strict=True):
        np.testing.assert_array_equal(first, second)


def test_what_an_attack_lacks_is_said() -> None:
    task = Task(made(20, 0), made(20, 1), SCHEMA)
    for score in score_metrics(task, ["attack_attribute", *MEMBERSHIP]):
        assert np.isnan(score.value)
        assert score.note
    task = Task(made(20, 0), made(20, 1), SCHEMA, target="rich")
    assert score_metrics(task, ["attack_attribute"])[0].note == "hold out real rows"
    task = Task(made(20, 0), made(20, 1), SCHEMA, held_out=made(20, 2))
    found = AttributeInference(Facts("a", ""), column="town").run(task)
    assert found.scope == "guess town, 20 members, 20 others"
    with pytest.raises(SchemaError, match="clique must be made of"):
        AttributeInference(Facts("a", ""), column="shoes").run(task)


def test_long_tables_are_sampled_by_the_seed() -> None:
    attack = MembershipInference(Facts("a", ""), most=30, rows=40)
    tasks = [Task(made(90, 0), made(90, 1), SCHEMA, held_out=made(90, 2), seed=seed) for seed in (0, 0, 1)]
    scores = [attack.run(task) for task in tasks]
    assert scores[0] == scores[1] != scores[2]
    assert scores[0].scope == "30 members, 30 others"
