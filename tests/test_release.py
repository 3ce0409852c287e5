"""NoisyMarginal: what a table says beyond what is expected of it."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.release import NoisyMarginal

ROWS = 100_000


def product(size: int) -> np.ndarray:
    """Two attributes that have nothing to do with each other."""
    ways = np.linspace(1.0, 3.0, size)
    return np.asarray(ROWS * np.outer(ways, ways) / ways.sum() ** 2)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return 0.5 * float(np.abs(one - other).sum()) / ROWS


@pytest.mark.parametrize("sigma", [5.0, 300.0])
def test_noise_alone_says_nothing_beyond(sigma: float) -> None:
    expected = product(30)
    kept = 0
    for seed in range(40):
        noise = sigma * np.random.default_rng(seed).standard_normal(expected.shape)
        found = NoisyMarginal(("a", "b"), expected + noise, sigma).beyond(expected)
        kept += int((found == expected).all())
    # Three standard deviations, of a sum of squares with a heavier upper tail.
    assert kept >= 37


@pytest.mark.parametrize("sigma", [5.0, 50.0])
def test_what_noise_does_not_explain_is_added(sigma: float) -> None:
    expected, truth = product(30), np.diag(product(30).sum(axis=0))
    noisy = truth + sigma * np.random.default_rng(0).standard_normal(truth.shape)
    found = NoisyMarginal(("a", "b"), noisy, sigma).beyond(expected)
    assert distance(found, truth) < 1.01 * min(distance(expected, truth), distance(noisy, truth))
    assert distance(found, expected) == pytest.approx(distance(truth, expected), abs=0.1)


def test_it_does_not_hang_on_the_unit() -> None:
    expected, truth = product(8), np.diag(product(8).sum(axis=0))
    noisy = truth + 20.0 * np.random.default_rng(0).standard_normal(truth.shape)
    sigma = np.full(truth.shape, 20.0)
    counts = NoisyMarginal(("a", "b"), noisy, sigma).beyond(expected)
    shares = NoisyMarginal(("a", "b"), noisy / ROWS, sigma / ROWS).beyond(expected / ROWS)
    assert np.allclose(shares * ROWS, counts)
