from __future__ import annotations

import numpy as np
import pytest

from margrave.models._sampling import pivotal as pivotal_module
from margrave.models._sampling.pivotal import pivotal


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


@pytest.mark.parametrize("size", [9, 30])
def test_halves_of_codes_are_decided_first_where_rows_and_codes_are_many(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts stay far nearer to their expectations than those of independent draws, of which none is lost."""
    rng = np.random.default_rng(size)
    centres = rng.uniform(0, size, (4000, 1))
    probabilities = np.exp(-0.5 * ((np.arange(size) - centres) / 1.5) ** 2)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    order = np.argsort(centres[:, 0])
    at_once = drawn(probabilities, order=order)
    monkeypatch.setattr(pivotal_module, "MAX_WORK", 0.0)
    codes = drawn(probabilities, order=order)
    assert (codes != at_once).any()
    assert (probabilities[np.arange(4000), codes] > 0).all()
    excess = np.cumsum((np.eye(size)[codes] - probabilities)[order], axis=0)
    independent = np.sqrt((probabilities * (1 - probabilities)).sum(axis=0))
    assert np.abs(excess[-1]).mean() < 0.2 * independent.mean()
    assert np.abs(excess).max() < 1.5 * independent.mean()


def test_rows_keep_their_probabilities_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pivotal_module, "MAX_WORK", 0.0)
    probabilities = np.random.default_rng(1).dirichlet(np.full(11, 0.7), size=6)
    probabilities[0, :6], probabilities[1, 4:] = 0.0, 0.0
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    rng, runs = np.random.default_rng(2), 20_000
    counts = np.zeros((6, 11))
    for _ in range(runs):
        counts[np.arange(6), pivotal(probabilities, np.arange(6), rng)] += 1
    assert not counts[probabilities == 0].any()
    some = probabilities > 1e-4
    errors = (counts / runs - probabilities)[some]
    errors /= np.sqrt(probabilities * (1 - probabilities) / runs)[some]
    assert np.abs(errors).max() < 4.5
    assert 0.4 < (errors**2).mean() < 2.0
