"""The shape of a noisy histogram: how far it reaches, and the mean of what may be in each cell."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.measure.bins import sharp
from margrave.measure.shape import EMPTY, EVEN, _first_half, expected, reach, shaped

SIGMA = 50.0


def _bell(cells: int = 256, top: float = 400.0) -> np.ndarray:
    return top * np.exp(-0.5 * ((np.arange(cells) - 90) / 20) ** 2)


def _apart(truth: np.ndarray, found: np.ndarray) -> float:
    """Wasserstein distance of two histograms, in cells."""
    both = [np.cumsum(part) / part.sum() for part in (truth, found)]
    return float(np.abs(both[0] - both[1]).sum())


def test_counts_without_noise_stay_as_they_are() -> None:
    truth = np.array([0.0, 3.0, 900.0, 1.0, 0.0, 0.0, 7.0, 2.0, 5.0])
    assert expected(truth, 1e-6) == pytest.approx(truth, abs=1e-5)
    assert shaped(truth, 1e-6) == pytest.approx(truth, abs=1e-5)


@pytest.mark.parametrize(
    ("left", "right", "mass"), [(5, 7, 30), (-60, 90, 30), (90, -60, 30), (40, 10, 200), (0, 0, 1e-3)]
)
@pytest.mark.parametrize("cells", [(1, 1), (2, 3), (40, 41)])
def test_a_half_gets_the_mean_of_what_it_may_hold(
    left: float, right: float, mass: float, cells: tuple[int, int]
) -> None:
    """Against the sum over ten thousand masses of the first half, by Bayes' rule."""
    sigma, whole = 10.0, sum(cells)
    held = (np.arange(10_000) + 0.5) / 10_000 * mass
    held = np.append(held, [mass * cells[0] / whole, 0.0, mass])
    prior = np.append(np.full(10_000, (1 - EVEN - 2 * EMPTY) / 10_000), [EVEN, EMPTY, EMPTY])
    off = (left - held) ** 2 / cells[0] + (right - (mass - held)) ** 2 / cells[1]
    after = prior * np.exp(-(off - off.min()) / (2 * sigma**2))
    wanted = float((after * held).sum() / after.sum())
    found = _first_half((left, right), cells, mass, sigma)
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-6)


def test_the_sum_stays_and_nothing_is_below_zero() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 7, 100):
        noisy = rng.normal(20, SIGMA, size)
        found = expected(noisy, SIGMA)
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(max(noisy.sum(), 0.0))
    assert expected(np.array([-3.0, -4.0]), SIGMA).tolist() == [0.0, 0.0]
    assert len(expected(np.zeros(0), SIGMA)) == 0


def test_far_from_what_can_be_no_number_is_lost() -> None:
    found = expected(np.array([1e9, -9e8, 5.0]), 1e-3)
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(found.sum())


def test_the_mean_is_nearer_than_the_noisy_counts_and_than_a_threshold() -> None:
    rng, truth = np.random.default_rng(1), _bell()
    off = {"noisy": 0.0, "threshold": 0.0, "mean": 0.0}
    for _ in range(30):
        noisy = truth + rng.normal(0, SIGMA, len(truth))
        off["noisy"] += np.abs(noisy - truth).sum()
        off["threshold"] += np.abs(sharp(noisy, SIGMA, 2.0, 3.2) - truth).sum()
        off["mean"] += np.abs(shaped(noisy, SIGMA) - truth).sum()
    assert off["mean"] < 0.5 * off["noisy"]
    assert off["mean"] < 0.95 * off["threshold"]


def test_a_thin_tail_is_reached_though_no_cell_of_it_is_evident() -> None:
    """Tail cells hold half a deviation of the noise each, sixteen of them six deviations together."""
    truth = np.zeros(300)
    truth[100:140], truth[140:204] = 900.0, 0.5 * SIGMA
    reached, apart = [], {"sure": 0.0, "tail": 0.0}
    for seed in range(40):
        noisy = truth + np.random.default_rng(seed).normal(0, SIGMA, 300)
        first, last = reach(noisy, SIGMA)
        reached.append(last)
        assert first >= 85
        sure = sharp(noisy, SIGMA, 2.0, 4.2)
        apart["sure"] += _apart(truth, sure)
        apart["tail"] += _apart(truth, shaped(noisy, SIGMA))
    assert 160 <= np.median(reached) <= 212
    assert apart["tail"] < 0.75 * apart["sure"]


def test_where_nothing_is_the_range_rarely_goes() -> None:
    truth = np.zeros(400)
    truth[180:220] = 900.0
    wide = 0
    for seed in range(300):
        first, last = reach(truth + np.random.default_rng(seed).normal(0, SIGMA, 400), SIGMA)
        assert first <= 180
        assert last >= 220
        wide += (first, last) != (180, 220)
    assert wide <= 0.15 * 300


def test_rows_that_have_to_be_somewhere_widen_the_range() -> None:
    """Half of all rows are in one cell, the others too thin to be evident without knowing that they exist."""
    truth = np.array([75.0, 75.0, 75.0, 500.0, 75.0, 75.0, 60.0, 40.0])
    alone, known = 0, 0
    for seed in range(60):
        noisy = truth + np.random.default_rng(seed).normal(0, SIGMA, 8)
        alone += np.subtract(*reach(noisy, SIGMA)[::-1])
        known += np.subtract(*reach(noisy, SIGMA, (float(truth.sum()), SIGMA**2))[::-1])
        assert reach(noisy, SIGMA, (0.0, SIGMA**2)) == reach(noisy, SIGMA)
        assert reach(noisy, SIGMA, (1e9, np.inf)) == reach(noisy, SIGMA)
    assert known > alone + 60


def test_a_spike_stays_in_its_cell_and_nothing_lies_beyond() -> None:
    truth = np.full(64, 30.0)
    truth[:8], truth[56:], truth[20] = 0.0, 0.0, 2000.0
    for seed in range(20):
        noisy = truth + np.random.default_rng(seed).normal(0, SIGMA, 64)
        first, last = reach(noisy, SIGMA)
        found = shaped(noisy, SIGMA)
        assert found[20] == pytest.approx(noisy[20], abs=2 * SIGMA)
        assert not found[:first].any()
        assert not found[last:].any()


def test_nothing_certain_leaves_all_cells() -> None:
    noisy = np.random.default_rng(3).normal(0, SIGMA, 32)
    assert reach(noisy, SIGMA) == (0, 32)
    assert shaped(noisy, SIGMA).sum() == pytest.approx(max(noisy.sum(), 0.0))
