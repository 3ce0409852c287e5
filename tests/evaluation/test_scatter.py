"""Rows as points: alike rows lie together, and the fallback is a principal component analysis."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from people import SCHEMA, made
from sklearn.decomposition import PCA

from margrave.errors import MissingExtraError
from margrave.evaluation.metrics import pictures
from margrave.evaluation.metrics.pictures import Scatter, draw_scatter, principal


def test_components_are_those_of_scikit_learn() -> None:
    points = np.random.default_rng(0).normal(size=(60, 5)) * [5, 3, 2, 1, 0.1]
    ours, theirs = principal(points, 3), PCA(3).fit_transform(points)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-9)
    assert principal(points[:, :1], 2).shape == (60, 2)


def test_a_picture_is_the_same_each_time_and_within_its_frame() -> None:
    tables = {"a": made(80, 1), "b": made(50, 2)}
    first, again = (draw_scatter(made(90, 0), tables, SCHEMA) for _ in range(2))
    assert isinstance(first, Scatter)
    assert isinstance(again, Scatter)
    assert first.how.startswith("t-SNE of ")
    assert [len(points) for points in first.points.values()] == [90, 80, 50]
    for name, points in first.points.items():
        assert (points == again.points[name]).all()
        assert points.min() >= 0
        assert points.max() <= 1


def test_rows_are_capped() -> None:
    with mock.patch.object(pictures, "PLOTTED_ROWS", 30):
        found = draw_scatter(made(90, 0), {"a": made(80, 1), "b": made(20, 2)}, SCHEMA)
    assert isinstance(found, Scatter)
    assert [len(points) for points in found.points.values()] == [30, 30, 20]
    assert found.how.startswith("t-SNE of 30 rows of each table")


def test_without_scikit_learn_components_are_drawn_and_the_page_says_how_to_get_more() -> None:
    with mock.patch.object(pictures, "part", side_effect=MissingExtraError("none")):
        found = draw_scatter(made(60, 0), {"a": made(60, 1)}, SCHEMA)
    assert isinstance(found, Scatter)
    assert found.how.startswith("The first two principal components of ")
    assert "pip install 'margrave[eval]'" in found.how
    assert np.ptp(found.points["real"]) > 0.1


def test_rows_all_alike_and_too_few_rows() -> None:
    same = made(30, 0).take(np.zeros(30, np.int64))
    found = draw_scatter(same, {"a": same}, SCHEMA)
    assert isinstance(found, Scatter)
    assert all((points == 0.5).all() for points in found.points.values())
    assert draw_scatter(made(3, 0), {"a": made(3, 1)}, SCHEMA) == "There are too few rows to draw."


def test_two_sources_are_told_apart() -> None:
    """Rows of two groups that share nothing lie nearer to their own kind."""
    real = made(120, 0, 0.0)
    poor = np.flatnonzero(real.encoded.column("rich") == 0)
    rich = np.flatnonzero(real.encoded.column("rich") == 1)
    found = draw_scatter(real.take(poor), {"rich": real.take(rich)}, SCHEMA)
    assert isinstance(found, Scatter)
    points = np.concatenate(list(found.points.values()))
    kind = np.repeat([0, 1], [len(poor), len(rich)])
    apart = np.square(points[:, None] - points[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (kind[apart.argmin(axis=1)] == kind).mean() > 0.9


@pytest.mark.parametrize("size", [5, 7])
def test_a_handful_of_rows_is_drawn(size: int) -> None:
    assert isinstance(draw_scatter(made(size, 0), {"a": made(size, 1)}, SCHEMA), Scatter)
