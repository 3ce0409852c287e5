"""Counts as they probably are: the averages are those of the definition, and nearer than the noisy counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate, stats

from margrave import smoothing
from margrave.engines.memory import open_source
from margrave.limits import FULL
from margrave.measure.curator import Curator
from margrave.models._base.pooling import Pooled, pool, smooth_one_ways
from margrave.models.auto import Auto
from margrave.models.independent import Independent
from margrave.models.mixture.fitter import Mixture
from margrave.models.mixture.policy import Setting, Trials
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.protocols import Fitter
from margrave.release import NoisyMarginal, project_simplex
from margrave.schema.columns import Integer
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema
from margrave.select._screening.pairs import OneWays, summarise_one_ways
from margrave.select.strategy import released_one_ways
from margrave.smoothing import CHANGES, LEVELS, STEPS, smooth_counts
from seeded_noise import SeededSource

SHAPES = {
    "even": np.ones(32),
    "bell": np.exp(-0.5 * ((np.arange(32) - 12) / 5) ** 2),
    "mostly zeros": np.r_[0.9, np.full(31, 0.1 / 31)],
    "falling": 0.7 ** np.arange(32),
    "steps": np.repeat([4.0, 1.0, 9.0, 2.0], 8),
}
ROWS = 5000.0


def errors(shares: np.ndarray, ordered: int, sigma: float, runs: int = 20) -> tuple[float, float]:
    """Mean total variation of the nearest distribution to noisy counts, and of the smoothed ones."""
    rng, codes = np.random.default_rng(0), len(shares)
    plain = smooth = 0.0
    for _ in range(runs):
        noisy = ROWS * shares + rng.normal(0.0, sigma, codes)
        found = smooth_counts(noisy, np.full(codes, sigma**2), ordered, ROWS).values
        plain += np.abs(project_simplex(noisy / ROWS, np.ones(codes)) - shares).sum() / 2
        smooth += np.abs(found / ROWS - shares).sum() / 2
    return plain / runs, smooth / runs


@pytest.mark.parametrize("name", SHAPES)
def test_ordered_counts_are_nearer_where_noise_is_large_and_no_further_where_it_is_small(name: str) -> None:
    shares = SHAPES[name] / SHAPES[name].sum()
    for sigma, most in ((300.0, 0.8), (100.0, 0.9), (10.0, 1.02)):
        plain, smooth = errors(shares, len(shares), sigma)
        assert smooth < most * plain, sigma


@pytest.mark.parametrize("seed", range(4))
def test_a_peak_among_even_counts_stays(seed: int) -> None:
    truth = np.full(40, 50.0)
    truth[17] = 900.0
    noisy = truth + np.random.default_rng(seed).normal(0.0, 30.0, 40)
    found = smooth_counts(noisy, np.full(40, 900.0), 40, truth.sum()).values
    assert abs(found[17] - noisy[17]) < 10.0
    off, before = (np.abs(np.delete(counts - truth, 17)).max() for counts in (found, noisy))
    assert off < 0.4 * before


@pytest.mark.parametrize("codes", [20, 100])
def test_codes_without_an_order_are_nearer_too_and_their_order_says_nothing(codes: int) -> None:
    shares = 1.0 / np.arange(1.0, codes + 1)
    shares /= shares.sum()
    for sigma, most in ((300.0, 0.8), (100.0, 0.9), (3.0, 1.02)):
        plain, smooth = errors(shares, 0, sigma)
        assert smooth < most * plain, sigma
    rng = np.random.default_rng(1)
    noisy, variances = ROWS * shares + rng.normal(0.0, 80.0, codes), rng.uniform(50.0, 90.0, codes) ** 2
    order = rng.permutation(codes)
    found = smooth_counts(noisy, variances, 0, ROWS)
    turned = smooth_counts(noisy[order], variances[order], 0, ROWS)
    np.testing.assert_allclose(turned.values, found.values[order], atol=1e-6)
    np.testing.assert_allclose(turned.variances, found.variances[order], atol=1e-6)


@pytest.mark.parametrize(("name", "ordered"), [("bell", 32), ("steps", 32), ("falling", 0)])
def test_the_variances_are_those_of_the_errors(name: str, ordered: int) -> None:
    shares = SHAPES[name] / SHAPES[name].sum()
    rng = np.random.default_rng(5)
    for sigma in (20.0, 100.0):
        off, told = [], []
        for _ in range(60):
            noisy = ROWS * shares + rng.normal(0.0, sigma, 32)
            found = smooth_counts(noisy, np.full(32, sigma**2), ordered, ROWS)
            off.append(np.square(found.values - ROWS * shares).mean())
            told.append(found.variances.mean())
        assert 0.6 < np.mean(told) / np.mean(off) < 1.7


def test_stretches_are_averaged_over_all_cuts() -> None:
    """Five codes have 16 cuts, whose levels are integrated here."""
    noisy, spread = np.array([3.0, 5.0, 40.0, 38.0, -2.0]), np.array([4.0, 6.0, 5.0, 8.0, 4.0])
    levels, change = np.array([2.0, 20.0, 60.0]), 0.3

    def prior(level: float) -> float:
        return float(np.mean(np.exp(-level / levels) / levels))

    def integral(begin: int, end: int, power: int) -> float:
        """Of one stretch: its counts' density over that of true ones, times a power of its level."""
        own, sigma = noisy[begin:end], spread[begin:end]

        def density(level: float) -> float:
            ratio = np.exp(-0.5 * np.sum((own - level) ** 2 / sigma**2))
            return float(level**power * prior(level) * ratio)

        return float(integrate.quad(density, 0.0, 120.0, points=[1.0, 5.0, 20.0, 40.0], limit=200)[0])

    whole, first, second = 0.0, np.zeros(5), np.zeros(5)
    for cuts in itertools.product([False, True], repeat=4):
        ends = [i + 1 for i, cut in enumerate(cuts) if cut] + [5]
        stretches = list(itertools.pairwise([0, *ends]))
        chance = change ** sum(cuts) * (1.0 - change) ** (4 - sum(cuts))
        likely = [integral(a, b, 0) for a, b in stretches]
        weight = chance * math.prod(likely)
        whole += weight
        for (a, b), own in zip(stretches, likely, strict=True):
            first[a:b] += weight * integral(a, b, 1) / own
            second[a:b] += weight * integral(a, b, 2) / own
    stretches = smoothing._weigh_stretches(noisy, spread**-2.0, levels)
    means, squares = np.empty(5), np.empty(5)
    log = smoothing._average_cuts(stretches, change, means, squares)
    assert log == pytest.approx(math.log(whole), abs=1e-6)
    np.testing.assert_allclose(means, first / whole, rtol=1e-6)
    np.testing.assert_allclose(squares, second / whole, rtol=1e-6)


def test_levels_without_an_order_are_learned_from_all_codes() -> None:
    """By the densities of scipy, and the mean given y as y + sigma^2 d log f / dy (Tweedie)."""
    rng = np.random.default_rng(2)
    noisy, spread = rng.exponential(60.0, 25) + rng.normal(0.0, 20.0, 25), rng.uniform(15.0, 25.0, 25)
    levels = np.array([1.0, 10.0, 100.0])

    def densities(at: np.ndarray) -> np.ndarray:
        return np.stack([stats.exponnorm.pdf(at, c / spread, scale=spread) for c in levels], axis=1)

    shares = np.full(3, 1.0 / 3.0)
    for _ in range(smoothing.PASSES):
        own = shares * densities(noisy)
        meant = (own / own.sum(axis=1, keepdims=True)).sum(axis=0) + smoothing.DOUBT / 3.0
        shares = meant / meant.sum()
    ends = [np.log((shares * densities(noisy + step)).sum(axis=1)) for step in (-0.01, 0.0, 0.01)]
    slopes, bends = (ends[2] - ends[0]) / 0.02, (ends[2] - 2.0 * ends[1] + ends[0]) / 1e-4
    means, variances = smoothing._learn_levels(noisy, spread, levels)
    np.testing.assert_allclose(means, noisy + spread**2 * slopes, atol=1e-2)
    np.testing.assert_allclose(variances, spread**2 * (1.0 + spread**2 * bends), rtol=0.05, atol=1.0)


def test_a_very_long_order_is_none() -> None:
    noisy = np.random.default_rng(4).normal(20.0, 30.0, smoothing.MAX_ORDERED + 1)
    variances = np.full(noisy.size, 900.0)
    long, none = (smooth_counts(noisy, variances, n, noisy.sum()).values for n in (noisy.size, 0))
    assert long.tolist() == none.tolist()
    short = [
        smooth_counts(noisy[:-1], variances[:-1], n, noisy[:-1].sum()).values for n in (noisy.size - 1, 0)
    ]
    assert np.abs(short[0] - short[1]).max() > 1.0


def test_a_walk_is_the_conditional_normal_distribution() -> None:
    noisy, spread = np.array([30.0, 50.0, 20.0, 90.0]), np.array([10.0, 30.0, 20.0, 10.0])
    mean, step = 40.0, 15.0
    first = (smoothing.FIRST_SPREAD * mean) ** 2
    before = first + step**2 * np.minimum.outer(np.arange(4), np.arange(4))
    whole = before + np.diag(spread**2)
    expected = mean + before @ np.linalg.solve(whole, noisy - mean)
    variances = np.diag(before - before @ np.linalg.solve(whole, before))
    likely = stats.multivariate_normal(np.full(4, mean), whole).logpdf(noisy)
    likely -= stats.norm(noisy, spread).logpdf(noisy).sum()
    means, squares = np.empty(4), np.empty(4)
    log = smoothing._follow_walk(noisy, spread**-2.0, mean, step, means, squares)
    assert log == pytest.approx(likely)
    np.testing.assert_allclose(means, expected)
    np.testing.assert_allclose(squares - means**2, variances)


@pytest.mark.parametrize(
    ("value", "spread", "level"),
    [(-3.0, 1.0, 0.02), (2.0, 3.0, 0.1003), (2.0, 3.0, 0.0995), (5.0, 2.0, 1.0), (40.0, 2.0, 30.0)],
)
def test_a_level_given_its_noisy_count(value: float, spread: float, level: float) -> None:
    """Two of them have means 29.9 and 30.1 deviations below 0, where the formula changes."""

    def density(count: float, power: int) -> float:
        return count**power * math.exp(-count / level - 0.5 * ((value - count) / spread) ** 2) / level

    most = min(40.0 * level, max(value, 0.0) + 15.0 * spread)
    whole, first, second = (
        integrate.quad(density, 0.0, most, args=(k,), points=[min(level, most / 2)], limit=200)[0]
        for k in range(3)
    )
    log, mean, variance = smoothing._weigh_level(value, spread, level)
    assert log == pytest.approx(math.log(whole), abs=1e-6)
    assert spread * mean == pytest.approx(first / whole, rel=1e-5)
    assert spread**2 * variance == pytest.approx(second / whole - (first / whole) ** 2, rel=1e-4)


def test_guesses_are_finite_however_large_or_small_noise_is() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        codes, rows = int(rng.integers(3, 40)), 10.0 ** rng.uniform(0, 9)
        spread = 10.0 ** rng.uniform(-9, 12, codes if rng.random() < 0.3 else 1) * np.ones(codes)
        truth = rows * rng.dirichlet(np.full(codes, 10.0 ** rng.uniform(-2, 2)))
        noisy = truth + spread * rng.standard_normal(codes)
        for ordered in (0, codes - 2, codes):
            found = smooth_counts(noisy, spread**2, ordered, rows)
            assert np.isfinite(found.values).all()
            assert ((found.variances >= 0) & (found.variances <= spread**2)).all()


def test_what_is_certain_or_too_little_stays() -> None:
    few = np.array([30.0, 90.0])
    assert smooth_counts(few, np.full(2, 400.0), 2, 100.0).values is few
    some = np.array([30.0, 90.0, 10.0])
    assert smooth_counts(some, np.array([4.0, 0.0, 4.0]), 3, 130.0).values is some
    hidden = np.array([-30.0, -90.0, -10.0])
    assert smooth_counts(hidden, np.full(3, 4.0), 3, 0.0).values is hidden
    exact = np.random.default_rng(0).uniform(50.0, 500.0, 300)
    for ordered in (0, 250, 300):
        found = smooth_counts(exact, np.full(300, 1e-6), ordered, exact.sum())
        np.testing.assert_allclose(found.values, exact, rtol=1e-3)
        assert np.isfinite(found.variances).all()


def test_codes_behind_the_ordered_ones_stay_and_all_add_up() -> None:
    noisy = np.array([90.0, 130.0, 70.0, 110.0, 95.0, 400.0, -20.0])
    found = smooth_counts(noisy, np.full(7, 900.0), 5, 900.0)
    assert found.values[5:].tolist() == [400.0, -20.0]
    assert found.variances[5:].tolist() == [900.0, 900.0]
    # Their own sum is 495 with five cells' noise, what the others leave of all rows 520 with two cells'.
    assert found.values[:5].sum() == pytest.approx((495.0 * 2 + 520.0 * 5) / 7)


def test_only_tables_of_one_attribute_are_smoothed_and_their_noise_stays() -> None:
    domain = Domain(("a", "b"), (5, 2), (5, 0))
    one = Pooled(("a",), np.array([90.0, 130.0, 70.0, 110.0, 100.0]), np.full(5, 30.0))
    pair = Pooled(("a", "b"), np.arange(10.0).reshape(5, 2), np.full((5, 2), 30.0))
    smooth, same = smooth_one_ways(domain, [one, pair], 500.0)
    assert np.ptp(smooth.values) < 0.5 * np.ptp(one.values)
    assert smooth.sigma.tolist() == one.sigma.tolist()
    assert same is pair


def test_grids_are_increasing_and_positive() -> None:
    for grid in (CHANGES, LEVELS, STEPS):
        assert (np.diff(grid) > 0).all()
        assert grid[0] > 0
    assert CHANGES[-1] < 1


EVEN = Domain(("a", "b", "c"), (24, 24, 24), (24, 24, 24))


def even_tables(cliques: list[tuple[str, ...]], sigma: float) -> list[NoisyMarginal]:
    """Tables of independent attributes whose codes hold 100 rows each, with noise."""
    rng = np.random.default_rng(6)
    made = []
    for clique in cliques:
        exact = np.full(EVEN.shape(clique), 2400.0 / EVEN.size(clique))
        made.append(NoisyMarginal(clique, exact + sigma * rng.standard_normal(exact.shape), sigma))
    return made


@pytest.mark.parametrize("model", [Auto(), Independent(), Mixture(components=20, steps=60)])
def test_models_are_fitted_to_what_one_ways_probably_are(model: Fitter) -> None:
    """`auto` takes the graphical model here, as the pairs with c were not measured."""
    measured = even_tables([("a",), ("b",), ("c",), ("a", "b")], 60.0)
    found = model.fit(EVEN, measured, total=2400.0).project(("c",))
    nearest = 2400.0 * project_simplex(measured[2].values / 2400.0, np.ones(24))
    assert np.ptp(found) < 0.4 * np.ptp(nearest)


def test_candidates_are_fitted_to_guesses_and_judged_by_what_was_measured() -> None:
    measured = even_tables([("a",), ("b",), ("c",), ("a", "b")], 60.0)
    trials = Trials(EVEN, pool(EVEN, measured), 2400.0, 0, FULL)
    mixture = Mixture(components=20, steps=60)
    found = trials.fit_model(mixture, Setting(1000.0, components=20)).project(("c",))
    assert np.ptp(found) < 0.4 * np.ptp(np.maximum(trials.half[2].values, 0.0))
    assert np.std(trials._judged[2].values) > 60.0


def test_pairs_are_screened_by_what_one_ways_probably_are() -> None:
    rows = np.arange(2400)
    source, _ = open_source(pa.table({"a": rows % 24, "b": rows % 2}))
    ledger = Ledger(epsilon=0.1, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(
        Schema(
            (
                Integer(name="a", lower=0, upper=23, missing=False),
                Integer(name="b", lower=0, upper=1, missing=False),
            )
        )
    )
    curator.measure([("a",), ("b",)], curator.total / 8)
    released = released_one_ways(curator)[0]["a"]
    ways = summarise_one_ways(curator)
    assert np.ptp(ways.shares["a"]) < 0.4 * np.ptp(released)
    assert 0.5 * np.abs(ways.shares["a"] - 1 / 24).sum() < 2.0 * ways.off["a"]
    few = OneWays({"a": np.array([0.7, 0.2994, 0.0006])}, {"a": 0.0}, {"a": 2.0}, 1000.0)
    assert few.held == {"a": 3.0}
    assert OneWays(few.shares, few.off, few.codes, 100.0).held == {"a": 2.0}
