"""What rates and guesses prove, against the theorems computed another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from margrave.auditing.bounds import (
    Rates,
    epsilon_of_guesses,
    epsilon_of_mu,
    gdp_curve,
    highest_rate,
    lowest_rate,
    zcdp_curve,
)
from margrave.privacy.accounting.conversions import gdp_epsilon, zcdp_delta, zcdp_rho


@pytest.mark.parametrize(("hits", "runs"), [(0, 20), (3, 20), (19, 20), (20, 20)])
def test_rates_are_bounded_as_the_binomial_says(hits: int, runs: int) -> None:
    low, high = lowest_rate(hits, runs, 0.01), highest_rate(hits, runs, 0.01)
    assert low <= hits / runs <= high
    assert low == 0 if hits == 0 else binom.sf(hits - 1, runs, low) == pytest.approx(0.01)
    assert high == 1 if hits == runs else binom.cdf(hits, runs, high) == pytest.approx(0.01)


def test_epsilon_is_that_of_randomised_response() -> None:
    """A mechanism that tells the truth with chance e^2 / (1 + e^2) has epsilon 2."""
    truth = 1 / (1 + math.exp(-2))
    many = 10**7
    rates = Rates(round(many * (1 - truth)), many, round(many * truth), many, 0.95)
    assert 1.99 < rates.epsilon(0.0) < 2
    assert rates.epsilon(0.1) < rates.epsilon(0.0)
    few = Rates(0, 50, 50, 50, 0.95)
    assert few.epsilon(0.0) == pytest.approx(math.log(few.lowest_true / few.highest_false))


def test_both_kinds_of_error_count() -> None:
    """A test that is never wrong about present canaries, and often about absent ones, proves as much."""
    rates, turned = Rates(5, 1000, 500, 1000, 0.95), Rates(500, 1000, 995, 1000, 0.95)
    assert rates.epsilon(0.0) == pytest.approx(turned.epsilon(0.0))
    assert rates.epsilon(0.0) > 3


def test_bounds_are_wrong_as_rarely_as_they_say() -> None:
    """Of a Gaussian mechanism with mu = 1 and a fixed threshold, over 1,000 audits at 90 %."""
    rng, audits, runs = np.random.default_rng(0), 1000, 100
    false, true = rng.binomial(runs, norm.sf(0.5), audits), rng.binomial(runs, norm.sf(-0.5), audits)
    curve, epsilon = gdp_curve(1.0), gdp_epsilon(1.0, 1e-3)
    rates = [Rates(int(f), runs, int(t), runs, 0.9) for f, t in zip(false, true, strict=True)]
    assert np.mean([one.mu > 1 for one in rates]) < 0.1
    assert np.mean([one.violates(curve) for one in rates]) < 0.1
    assert max(one.mu for one in rates) > 0.7
    assert np.mean([one.epsilon(1e-3) > epsilon for one in rates]) < 0.1


def test_curves_are_those_of_the_claims() -> None:
    curve = gdp_curve(1.0)
    assert curve(norm.sf(0.5)) == pytest.approx(norm.sf(-0.5))
    assert (curve(0.0), curve(1.0)) == (0, 1)
    rho = zcdp_rho(1.0, 1e-5)
    looser, gaussian = zcdp_curve(rho), gdp_curve(math.sqrt(2 * rho))
    for false in (0.001, 0.01, 0.1, 0.5):
        exact = min(math.exp(e) * false + zcdp_delta(rho, e) for e in np.linspace(0, 3, 300))
        assert gaussian(false) < looser(false) < exact + 0.01
        assert looser(false) > exact - 1e-3
    assert Rates(100, 1000, 300, 1000, 0.95).violates(looser)
    assert not Rates(100, 1000, 130, 1000, 0.95).violates(looser)


@pytest.mark.parametrize(("right", "guesses"), [(60, 60), (50, 60), (31, 60), (10, 60)])
def test_guesses_prove_what_the_binomial_says(right: int, guesses: int) -> None:
    found = epsilon_of_guesses(right, guesses, guesses, 0.0, 0.95)
    if found == 0:
        assert binom.sf(right - 1, guesses, 0.5) >= 0.05
    else:
        assert binom.sf(right - 1, guesses, 1 / (1 + math.exp(-found))) == pytest.approx(0.05)
    assert epsilon_of_guesses(right, guesses, guesses, 1e-3, 0.95) <= found


def test_a_delta_costs_what_the_theorem_says() -> None:
    """The least epsilon at which the bound, summed term by term, is not below 5 %."""
    right, guesses, canaries, delta = 45, 50, 200, 1e-4
    found = epsilon_of_guesses(right, guesses, canaries, delta, 0.95)

    def chance(epsilon: float) -> float:
        share = 1 / (1 + math.exp(-epsilon))
        terms = [
            sum(binom.pmf(right - j, guesses, share) for j in range(1, i + 1)) / i
            for i in range(1, right + 1)
        ]
        return float(binom.sf(right - 1, guesses, share) + 2 * canaries * delta * max(terms))

    assert chance(found) == pytest.approx(0.05)
    assert 0 < found < epsilon_of_guesses(right, guesses, canaries, 0.0, 0.95)


def test_mu_is_turned_into_epsilon_from_below() -> None:
    assert epsilon_of_mu(1.0, 1e-5) == pytest.approx(gdp_epsilon(1.0, 1e-5), abs=1e-6)
    assert epsilon_of_mu(1.0, 1e-5) <= gdp_epsilon(1.0, 1e-5)
    assert epsilon_of_mu(0.0, 1e-5) == epsilon_of_mu(0.01, 0.3) == 0
    assert epsilon_of_mu(1.0, 0.0) == math.inf
