"""Split noise: independence, unbiased differences, and the right to overrule a default."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.models.pooled import Pooled
from margrave.models.splitting import halves, pick, scores

SIGMA = 4.0


def tables(truth: np.ndarray, rng: np.random.Generator) -> list[Pooled]:
    noisy = truth + SIGMA * rng.standard_normal(truth.shape)
    return [Pooled(("a", "b"), noisy, np.full(truth.shape, SIGMA))]


@pytest.mark.parametrize("share", [1 / 3, 1.0])
def test_halves_have_independent_noise_of_the_stated_size(share: float) -> None:
    rng = np.random.default_rng(0)
    truth = np.zeros((200, 500))
    (a,), (b,) = halves(tables(truth, rng), np.random.default_rng(1), share)
    assert a.values.var() == pytest.approx(SIGMA**2 * (1 + share), rel=0.02)
    assert b.values.var() == pytest.approx(SIGMA**2 * (1 + 1 / share), rel=0.02)
    assert np.allclose(a.sigma**2, SIGMA**2 * (1 + share))
    assert np.allclose(b.sigma**2, SIGMA**2 * (1 + 1 / share))
    correlation = np.corrcoef(a.values.ravel(), b.values.ravel())[0, 1]
    assert abs(correlation) < 4 / np.sqrt(truth.size)


def test_differences_are_unbiased_and_their_spread_is_known() -> None:
    truth = np.array([[30.0, 10.0], [20.0, 40.0]])
    rows = truth.sum()
    models = [[truth + 3.0], [truth * 1.2], [np.full((2, 2), 25.0)]]
    weight = 1 / (np.mean([m[0] / rows for m in models], axis=0) + 1e-4)

    def error(model: np.ndarray) -> float:
        return float((weight * ((model - truth) / rows) ** 2).sum())

    exact = np.array([error(m[0]) - error(models[0][0]) for m in models])
    draws, spreads = [], []
    for seed in range(400):
        _, judged = halves(tables(truth, np.random.default_rng(seed)), np.random.default_rng(seed + 9_000))
        gain, spread = scores(models, judged, rows, 0)
        draws.append(gain)
        spreads.append(spread)
    assert np.allclose(np.mean(spreads, axis=0), np.std(draws, axis=0), rtol=0.12)
    assert np.all(np.abs(np.mean(draws, axis=0) - exact) <= 4 * np.mean(spreads, axis=0) / 20 + 1e-12)


def test_the_default_yields_only_to_what_is_better_beyond_doubt() -> None:
    truth = np.full((10, 10), 1000.0)
    judged = [Pooled(("a", "b"), truth + 1.0, np.full(truth.shape, 5.0))]
    far, near, same = [truth * 1.3], [truth * 1.01], [truth * 1.01 + 1e-3]
    assert pick([far, near], judged, truth.sum(), 0) == 1
    assert pick([near, far], judged, truth.sum(), 0) == 0
    assert pick([near, same], judged, truth.sum(), 0) == 0


def test_an_inferred_pair_has_no_noise_and_is_judged_by_the_models_own_one_ways() -> None:
    held = Pooled(("a", "b"), np.full((2, 2), 25.0), np.full((2, 2), 5.0), inferred=True)
    (a,), (b,) = halves([held], np.random.default_rng(0))
    assert a is held
    assert b is held
    skewed = np.outer([90.0, 10.0], [0.8, 0.2])
    dependent = np.array([[40.0, 10.0], [10.0, 40.0]])
    gain, spread = scores([[skewed], [dependent]], [held], 100.0, 0)
    assert gain[1] > 0.1
    assert (spread == 0.0).all()
