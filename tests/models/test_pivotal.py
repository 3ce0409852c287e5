from __future__ import annotations

import numpy as np
import pytest

from margrave.models._sampling.rounding import pivotal


def drawn(probabilities, seed=0, order=None):
    order = np.arange(len(probabilities)) if order is None else order
    return pivotal(probabilities, order, np.random.default_rng(seed))


@pytest.mark.parametrize("size", [2, 3, 7, 30])
@pytest.mark.parametrize("spread", [0.1, 5.0])
def test_counts_are_expectations_rounded_and_near_them_all_along(size, spread):
    rng = np.random.default_rng(size)
    probabilities = rng.dirichlet(np.full(size, spread), size=2000)
    order = rng.permutation(2000)
    codes = drawn(probabilities, order=order)
    excess = np.cumsum((np.eye(size)[codes] - probabilities)[order], axis=0)
    assert np.abs(excess[-1]).max() < 1 + 1e-6
    assert np.abs(excess).max() < (1 + 1e-6 if size == 2 else min(size - 1, 4))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_every_row_keeps_its_own_probabilities(size):
    probabilities = np.random.default_rng(1).dirichlet(np.full(size, 0.7), size=12)
    rng, runs = np.random.default_rng(2), 20_000
    counts = np.zeros((12, size))
    for _ in range(runs):
        counts[np.arange(12), pivotal(probabilities, np.arange(12), rng)] += 1
    errors = (counts / runs - probabilities) / np.sqrt(probabilities * (1 - probabilities) / runs)
    assert np.abs(errors).max() < 4.5
    assert 0.4 < (errors**2).mean() < 2.0


def test_equal_rows_and_ties_are_settled():
    codes = drawn(np.full((4001, 4), 0.25))
    assert set(np.bincount(codes, minlength=4)) == {1000, 1001}
    assert np.abs(np.cumsum(np.eye(4)[codes] - 0.25, axis=0)).max() < 3


def test_certain_rows_stay_certain():
    certain = np.eye(3)[np.arange(60) % 3]
    assert np.array_equal(drawn(certain), np.arange(60) % 3)
    mixed = np.where((np.arange(60) % 2 == 0)[:, None], certain, [0.5, 0.0, 0.5])
    codes = drawn(mixed)
    assert np.array_equal(codes[::2], np.arange(60)[::2] % 3)
    assert 1 not in codes[1::2]


def test_hardly_anything():
    assert drawn(np.zeros((0, 3))).shape == (0,)
    assert drawn(np.ones((3, 1))).tolist() == [0, 0, 0]
    assert drawn(np.array([[0.0, 1.0]])).tolist() == [1]


def test_the_same_generator_gives_the_same_codes():
    probabilities = np.random.default_rng(3).dirichlet(np.ones(4), size=200)
    assert np.array_equal(drawn(probabilities, 5), drawn(probabilities, 5))
    assert (drawn(probabilities, 5) != drawn(probabilities, 6)).any()
