"""Split noise: independence, unbiased differences, and what is charged where nothing was measured."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.models._base.pooling import FLOOR, Pooled, compare, halves, weigh_tables

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


def interaction(table: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """What a pair holds beyond the one-ways of `mean`, by its definition with matrices."""
    q, p = mean.sum(axis=1) / mean.sum(), mean.sum(axis=0) / mean.sum()
    left = np.eye(len(q)) - np.outer(q, np.ones(len(q)))
    return left @ table @ (np.eye(len(p)) - np.outer(np.ones(len(p)), p))


def test_differences_are_unbiased_and_their_spread_is_known() -> None:
    truth = np.array([[30.0, 10.0, 5.0], [20.0, 40.0, 15.0]])
    rows = truth.sum()
    one, other = truth * 1.2 + 1.0, truth[::-1] * 0.9
    mean = 0.5 * (one + other) / rows
    weight = 1 / (mean + FLOOR)

    def error(model: np.ndarray) -> float:
        off = (model - truth) / rows
        return float((weight * (off**2 + interaction(off, mean) ** 2)).sum())

    draws, spreads = [], []
    for seed in range(600):
        _, judged = halves(tables(truth, np.random.default_rng(seed)), np.random.default_rng(seed + 9_000))
        gain, spread = compare([one], [other], judged, rows)
        draws.append(gain)
        spreads.append(spread)
    assert np.mean(spreads) == pytest.approx(np.std(draws), rel=0.12)
    assert abs(np.mean(draws) - error(one) + error(other)) <= 4 * np.mean(spreads) / np.sqrt(600)


def test_without_noise_the_difference_is_that_of_the_errors() -> None:
    rng = np.random.default_rng(7)
    truth, one, other = rng.gamma(1.0, 20.0, (3, 4, 6))
    one[1, 2] = other[1, 2] = -3.0  # a model's cell may be negative; its mean counts as 0
    rows, sigma = truth.sum(), rng.uniform(1.0, 5.0, truth.shape)
    mean = np.maximum(0.5 * (one + other) / rows, 0.0)
    weight = 1 / (mean + FLOOR)

    def error(model: np.ndarray) -> float:
        off = (model - truth) / rows
        return float((weight * (off**2 + interaction(off, mean) ** 2)).sum())

    gain, spread = compare(
        [one.astype(np.float32), one[0]],
        [other.T.copy().T, other[0]],
        [Pooled(("a", "b"), truth, sigma), Pooled(("b",), one[0], np.zeros(6))],
        rows,
    )
    alone = 0.5 * (one[0] + other[0]) / rows
    alone_gain = (((one[0] - other[0]) / rows) * ((other[0] - one[0]) / rows) / (alone + FLOOR)).sum()
    assert gain == pytest.approx(error(one) - error(other) + alone_gain, rel=1e-5)
    # The derivative of the difference by each cell of the truth, times the cell's noise.
    squares = 0.0
    for cell in np.ndindex(truth.shape):
        bump = np.zeros(truth.shape)
        bump[cell] = sigma[cell]
        moved, _ = compare([one], [other], [Pooled(("a", "b"), truth + bump, sigma)], rows)
        still, _ = compare([one], [other], [Pooled(("a", "b"), truth, sigma)], rows)
        squares += (moved - still) ** 2
    assert spread == pytest.approx(np.sqrt(squares), rel=1e-5)


def weights(judged: list[Pooled]) -> list[float]:
    return [table.weight for table in weigh_tables(judged)]


def test_a_table_of_much_more_noise_than_others_counts_less() -> None:
    def pair(name: str, sigma: float) -> Pooled:
        return Pooled(("a", name), np.zeros((2, 3)), np.full((2, 3), sigma))

    one_way = Pooled(("a",), np.zeros(2), np.full(2, 90.0))
    unmeasured = Pooled(("b", "c"), np.zeros((2, 2)), np.full((2, 2), 90.0), inferred=True)
    judged = [one_way, pair("b", 1.0), pair("c", 3.0), pair("d", 3.0), pair("e", 12.0), unmeasured]
    # Of four pairs the median is 3.
    assert weights(judged) == pytest.approx([1.0, 1.0, 1.0, 1.0, 1.0 / 16.0, 1.0])
    assert weights([one_way, unmeasured]) == [1.0, 1.0]
    # The cells' mean variance counts, not their mean deviation.
    mixed = Pooled(("a", "b"), np.zeros((1, 2)), np.array([[1.0, 7.0]]))
    assert weights([mixed, pair("c", 5.0), pair("d", 10.0)]) == pytest.approx([1.0, 1.0, 0.25])
    # Halves of split noise are weighed by the noise that they have.
    measured = [table for table in judged if not table.inferred]
    _, split = halves(measured, np.random.default_rng(0))
    assert [table.weight for table in split] == pytest.approx([1.0, 1.0, 1.0, 1.0, 1.0 / 16.0])


def test_one_very_noisy_pair_does_not_hide_what_the_others_say() -> None:
    truth = np.array([[400.0, 100.0], [100.0, 400.0]])
    flat, rows = np.full((2, 2), 250.0), 1000.0
    rng, gains = np.random.default_rng(5), []
    for _ in range(50):
        sigmas = (10.0, 10.0, 10.0, 2000.0)
        judged = [
            Pooled(("a", name), truth + sigma * rng.standard_normal((2, 2)), np.full((2, 2), sigma))
            for name, sigma in zip("bcde", sigmas, strict=True)
        ]
        gain, spread = compare([truth] * 4, [flat] * 4, weigh_tables(judged), rows)
        assert (type(gain), type(spread)) == (float, float)
        gains.append(gain / spread)
    # Some 26 standard errors, as without the noisy pair; less than one if that counted alike.
    assert max(gains) < -15.0


def test_a_model_without_dependence_loses_to_one_that_is_as_far_off_and_keeps_it() -> None:
    rng = np.random.default_rng(3)
    truth = np.outer([300.0, 200.0, 500.0], [0.2, 0.3, 0.5]) + np.array(
        [[60, -60, 0], [-60, 60, 0], [0, 0, 0]]
    )
    rows, flat = truth.sum(), np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    # As far from the truth in every cell, but by a shift of the one-ways.
    sides = np.sign(np.outer([1.0, 1.0, -1.0], [1.0, 1.0, 1.0]))
    shifted = truth + sides * np.abs(truth - flat).sum() / truth.size
    judged = [Pooled(("a", "b"), truth + rng.standard_normal(truth.shape), np.ones(truth.shape))]
    assert compare([shifted], [flat], judged, rows)[0] < 0.0
    assert compare([flat], [shifted], judged, rows)[0] > 0.0


def test_an_inferred_pair_has_no_noise_and_charges_only_dependence_beyond_what_was_appraised() -> None:
    flat, dependent = np.full((2, 2), 25.0), np.array([[40.0, 10.0], [10.0, 40.0]])
    held = Pooled(("a", "b"), flat, np.full((2, 2), 5.0), inferred=True, distance=0.1, uncertainty=0.02)
    (a,), (b,) = halves([held], np.random.default_rng(0))
    assert a is held
    assert b is held
    # Its total variation from independence is 0.3, and 0.1 with two standard deviations explains 0.14 of it.
    assert compare([dependent], [flat], [held], 100.0) == (pytest.approx(4 * 0.16**2), 0.0)
    within = 0.7 * flat + 0.3 * dependent
    assert compare([within], [flat], [held], 100.0) == (0.0, 0.0)
    skewed = np.outer([90.0, 10.0], [0.8, 0.2])
    assert compare([skewed], [flat], [held], 100.0) == (0.0, 0.0)
    unknown = Pooled(("a", "b"), flat, np.full((2, 2), 5.0), inferred=True)
    assert compare([dependent], [flat], [unknown], 100.0) == (0.0, 0.0)
