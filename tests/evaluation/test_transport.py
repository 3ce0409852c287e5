from __future__ import annotations

import importlib

import numpy as np
import pytest
from people import SCHEMA, made
from scipy.stats import wasserstein_distance

from margrave.evaluation.distance import centres, embed_rows
from margrave.evaluation.metrics.marginals import sliced_distance
from margrave.evaluation.review import score_metrics
from margrave.evaluation.task import Task


def _directions(count: int, axes: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, axes))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4)])
def test_it_is_the_mean_of_scipys_distances(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    first, second = (rng.dirichlet(np.ones(np.prod(shape)) / 2).reshape(shape) for _ in range(2))
    directions = _directions(30, len(shape))
    grid = np.stack(np.meshgrid(*(centres(size) for size in shape), indexing="ij"), axis=-1).reshape(
        -1, len(shape)
    )
    expected = [
        wasserstein_distance(grid @ theta, grid @ theta, first.ravel(), second.ravel())
        for theta in directions
    ]
    assert sliced_distance(first, second, directions) == pytest.approx(np.mean(expected), abs=1e-12)


def test_blocks_of_directions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    first, second = (rng.dirichlet(np.ones(12)).reshape(3, 4) for _ in range(2))
    whole = sliced_distance(first, second, _directions(40, 2))
    monkeypatch.setattr("margrave.evaluation.metrics.marginals.BLOCK", 30)
    assert sliced_distance(first, second, _directions(40, 2)) == pytest.approx(whole, abs=1e-14)


def test_equal_tables_are_at_no_distance_and_a_shift_at_its_length() -> None:
    table = np.random.default_rng(0).dirichlet(np.ones(10)).reshape(2, 5)
    assert sliced_distance(table, table, _directions(5, 2)) == 0
    moved = [np.eye(4)[place] for place in (0, 3)]
    assert sliced_distance(*moved, np.array([[1.0]])) == pytest.approx(0.75)


def test_the_score_is_the_mean_over_pairs_of_rows() -> None:
    real, synthetic = made(60, 0), made(50, 1, 0.7)
    task = Task(real, synthetic, SCHEMA)
    score = score_metrics(task, ["average_sw1"])[0]
    directions = task.once("directions of average_sw1", lambda: np.zeros(0))
    assert directions.shape == (100, 2)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    points = [embed_rows(side.encoded, ("pay", "town")) for side in (real, synthetic)]
    expected = np.mean([wasserstein_distance(points[0] @ theta, points[1] @ theta) for theta in directions])
    assert score.parts["pay x town"] == pytest.approx(expected, abs=1e-12)
    assert score.value == pytest.approx(np.mean(list(score.parts.values())))


def test_the_embedding_is_the_papers() -> None:
    assert centres(4).tolist() == [0.125, 0.375, 0.625, 0.875]
    assert centres(1).tolist() == [0.5]


@pytest.mark.oracle("ot")
@pytest.mark.filterwarnings("ignore")
def test_the_distance_of_rows_is_pots() -> None:
    ot = importlib.import_module("ot")
    real, synthetic = made(60, 0), made(50, 1, 0.7)
    task = Task(real, synthetic, SCHEMA)
    score = score_metrics(task, ["average_sw1"])[0]
    directions = task.once("directions of average_sw1", lambda: np.zeros(0))
    for names in (("pay", "town"), ("age", "job")):
        points = [embed_rows(side.encoded, names) for side in (real, synthetic)]
        expected = ot.sliced_wasserstein_distance(*points, projections=directions.T, p=1)
        assert score.parts[" x ".join(names)] == pytest.approx(expected, abs=1e-9)
