"""Do the samplers draw from the distributions they promise, on the fast path and on the exact one?"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from noise_fit import (
    chi_squared,
    discrete_gaussian_cdf,
    pooled,
    rounded_gaussian_cdf,
    two_samples,
)
from numpy.typing import NDArray

from margrave.privacy.noise import (
    BitSource,
    SecureSource,
    discrete_gaussian,
    exponential,
    gaussian,
    rounded,
    rounded_gaussian,
)
from margrave.privacy.noise.exponential import _draw as draw_index
from seeded_noise import SeededSource

SIGMAS = [
    Fraction(1, 10),
    Fraction(3, 10),
    Fraction(49, 100),
    Fraction(1),
    Fraction(73, 10),
    Fraction(1000),
    Fraction(1025),
    Fraction(10**5),
    Fraction(10**7),
]
GAUSSIANS = {
    "discrete": (gaussian._draws, discrete_gaussian_cdf),
    "rounded": (rounded._draws, rounded_gaussian_cdf),
}
FORCED = (1 << 61, 2.0)
"""Margins so wide that every draw is in doubt."""
LEVEL = 1e-4
Sampler = Callable[[Fraction, int, BitSource], NDArray[np.int64]]


@pytest.mark.parametrize("name", GAUSSIANS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_gaussians_fit(name: str, sigma: Fraction) -> None:
    draw, cdf = {"discrete": discrete_gaussian, "rounded": rounded_gaussian}[name], GAUSSIANS[name][1]
    draws = draw(sigma**2, 200_000, SeededSource(1))
    assert chi_squared(draws, cdf(float(sigma)), float(sigma)) > LEVEL


@pytest.mark.parametrize("name", GAUSSIANS)
@pytest.mark.parametrize("sigma", [s for s in SIGMAS if s < 10 or s > 10**4])
def test_gaussians_fit_on_the_exact_path(name: str, sigma: Fraction) -> None:
    draw, cdf = GAUSSIANS[name]
    draws = draw(sigma**2, 2_000, SeededSource(2), *FORCED)
    assert chi_squared(draws, cdf(float(sigma)), float(sigma), 20) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("path", ["fast", "exact"])
@pytest.mark.parametrize("name", GAUSSIANS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_gaussians_fit_closely(name: str, sigma: Fraction, path: str) -> None:
    draw, cdf = GAUSSIANS[name]
    size = 20_000_000 if path == "fast" else 50_000
    margins = (gaussian.SLACK, 2.0**-39 if name == "discrete" else 2.0**-46) if path == "fast" else FORCED
    draws = draw(sigma**2, size, SeededSource(3), *margins)
    assert chi_squared(draws, cdf(float(sigma)), float(sigma), 400) > LEVEL


def test_the_fit_notices_half_the_noise() -> None:
    for sigma in (Fraction(1), Fraction(100), Fraction(10**6)):
        for draw, cdf in (
            (discrete_gaussian, discrete_gaussian_cdf),
            (rounded_gaussian, rounded_gaussian_cdf),
        ):
            draws = draw(sigma**2 / 4, 20_000, SeededSource(7))
            assert chi_squared(draws, cdf(float(sigma)), float(sigma)) < 1e-20


def test_the_fit_tells_the_two_gaussians_apart() -> None:
    draws = rounded_gaussian(Fraction(1, 4), 200_000, SeededSource(8))
    assert chi_squared(draws, discrete_gaussian_cdf(0.5), 0.5) < 1e-20


@pytest.mark.parametrize("sigma", SIGMAS[3:])
def test_moments_and_symmetry(sigma: Fraction) -> None:
    size = 1_000_000
    for draw, variance in ((discrete_gaussian, sigma**2), (rounded_gaussian, sigma**2 + Fraction(1, 12))):
        draws = draw(sigma**2, size, SeededSource(9)).astype(np.float64)
        spread = math.sqrt(variance)
        assert abs(draws.mean()) < 4.5 * spread / math.sqrt(size)
        assert abs(draws.var() / float(variance) - 1) < 4.5 * math.sqrt(2 / size) + 1e-6
        signs = np.count_nonzero(draws > 0) - np.count_nonzero(draws < 0)
        assert abs(signs) < 4.5 * math.sqrt(size)


@pytest.mark.parametrize("draw", [discrete_gaussian, rounded_gaussian])
@pytest.mark.parametrize("sigma", [Fraction(1025), Fraction(4000)])
def test_the_middle_has_its_full_weight(draw: Sampler, sigma: Fraction) -> None:
    size, reach = 2_000_000, 12
    expected = size * np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * float(sigma**2)))
    expected /= math.sqrt(2 * math.pi) * float(sigma)
    draws = draw(sigma**2, size, SeededSource(13))
    near = draws[np.abs(draws) <= reach]
    observed = np.bincount(near + reach, minlength=2 * reach + 1).astype(np.float64)
    rest = size - len(near)
    assert pooled(np.append(observed, rest), np.append(expected, size - expected.sum())) > LEVEL


def test_draws_are_independent_of_their_neighbours() -> None:
    for draws in (
        discrete_gaussian(Fraction(100), 400_000, SeededSource(10)),
        discrete_gaussian(Fraction(10**9), 400_000, SeededSource(10)),
        rounded_gaussian(Fraction(100), 400_000, SeededSource(10)),
    ):
        x = draws / draws.std()
        for lag in (1, 2, 3):
            assert abs((x[lag:] * x[:-lag]).mean()) < 4.5 / math.sqrt(len(x))


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(73, 10), Fraction(1000)])
def test_gaussian_against_opendp(sigma: Fraction) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.asarray(dp.m.make_gaussian(*space, scale=float(sigma))([0] * 30_000))
    ours = discrete_gaussian(sigma**2, 300_000, SecureSource())
    assert two_samples(ours, theirs) > 1e-6
    assert two_samples(discrete_gaussian(sigma**2 / 4, 300_000, SecureSource()), theirs) < 1e-6


@pytest.mark.parametrize("widen", [1.0, 1e18])
@pytest.mark.parametrize(
    ("scores", "epsilon", "sensitivity"),
    [
        ([0.0, 1.0, 2.0, 3.0], Fraction(1), Fraction(1)),
        ([5.5, -1.25, 1e6, 1e6 - 3], Fraction(1, 2), Fraction(3)),
        ([1e-3, 0.1, 0.7], Fraction(20), Fraction(1, 3)),
        ([3.0] * 7, Fraction(4), Fraction(1)),
        ([0.0, 900.0], Fraction(0), Fraction(1)),
    ],
)
def test_choices_follow_the_softmax(
    scores: list[float], epsilon: Fraction, sensitivity: Fraction, widen: float
) -> None:
    array, rate = np.asarray(scores), epsilon / (2 * sensitivity)
    weights = np.exp((array - array.max()) * float(rate))
    source, size = SeededSource(11), 3_000
    drawn = [draw_index(array, rate, source, widen) for _ in range(size)]
    observed = np.bincount(drawn, minlength=len(scores)).astype(np.float64)
    order = np.argsort(-weights)
    assert pooled(observed[order], (weights / weights.sum() * size)[order]) > LEVEL
    assert exponential(array, epsilon, sensitivity, source) in range(len(scores))


def test_choices_notice_half_the_epsilon() -> None:
    scores, source = np.arange(6.0), SeededSource(12)
    drawn = [exponential(scores, Fraction(1, 2), Fraction(1), source) for _ in range(5_000)]
    weights = np.exp((scores - 5) / 2)
    observed = np.bincount(drawn, minlength=6).astype(np.float64)
    assert pooled(observed, weights / weights.sum() * 5_000) < 1e-10
