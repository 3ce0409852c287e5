"""Tables of very many columns: pairs are drawn, each score says so, and smaller tables are as they were."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from counted import Rows, encoded

import margrave as mg
from margrave.evaluation import compare, task
from margrave.evaluation.task import draw_pairs, say_sample
from margrave.schema.domain import Domain


def test_all_pairs_are_compared_where_they_are_few() -> None:
    rng = np.random.default_rng(0)
    assert draw_pairs(5, rng) == (list(combinations(range(5), 2)), 10)
    assert rng.integers(1 << 30) == np.random.default_rng(0).integers(1 << 30)
    assert say_sample(10, 10) == ""


def test_pairs_are_drawn_evenly_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "SAMPLED_PAIRS", 15)
    seen = np.zeros((10, 10))
    rng = np.random.default_rng(1)
    for _ in range(600):
        pairs, total = draw_pairs(10, rng)
        assert total == 45
        assert len(set(pairs)) == 15
        assert pairs == sorted(pairs)
        seen[tuple(np.array(pairs).T)] += 1
    upper = seen[np.triu_indices(10, 1)]
    assert seen.sum() == upper.sum()
    assert np.abs(upper - 200).max() < 5 * np.sqrt(200 * 2 / 3)
    assert say_sample(15, 45) == "15 pairs drawn of 45"


def test_a_comparison_of_drawn_pairs_says_so_and_shows_the_first_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    domain = Domain(tuple(f"c{place}" for place in range(12)), (3,) * 12)
    real, other = (Rows(encoded(domain, rng.integers(0, 3, (90, 12)))) for _ in range(2))
    whole = compare(real, other)
    monkeypatch.setattr(task, "SAMPLED_PAIRS", 20)
    monkeypatch.setattr(task, "MAX_COLUMNS_SHOWN", 4)
    drawn = compare(real, other, seed=3)
    assert compare(real, other, seed=3).to_json() == drawn.to_json()
    scores = {score.name: score for score in drawn.scores}
    for name in ("tv_2_mean", "tv_2_max", "association_mean"):
        assert (scores[name].scope, scores[name].note) == ("20 pairs", "20 pairs drawn of 66")
    assert scores["tv_1_mean"].note == ""
    known = ~np.isnan(drawn.pairs.tv)
    assert known[:4, :4].sum() == 12
    assert 40 < known.sum() <= 52
    np.testing.assert_array_equal(drawn.pairs.tv[known], whole.pairs.tv[known])
    np.testing.assert_array_equal(drawn.pairs.synthetic[known], whole.pairs.synthetic[known])


def test_dependence_of_drawn_pairs_is_near_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    base = rng.integers(0, 4, (400, 1))
    real, other = (
        pa.table(
            {f"c{k}": column for k, column in enumerate(np.where(rng.random((400, 16)) < keep, base, 3).T)}
        )
        for keep in (0.9, 0.7)
    )
    metrics = ("dependence_kept", "dependence_invented")
    whole = mg.evaluate(real, other, metrics=metrics)
    assert all(score.note == "" for score in whole.scores if score.name in metrics)
    monkeypatch.setattr(task, "SAMPLED_PAIRS", 60)
    drawn = mg.evaluate(real, other, metrics=metrics)
    notes = {score.name: score.note for score in drawn.scores}
    assert notes["dependence_kept"] == notes["dependence_invented"] == "60 pairs drawn of 120"
    assert drawn["dependence_kept"] == pytest.approx(whole["dependence_kept"], abs=0.1)
    assert drawn["rank_slope"] == whole["rank_slope"]
