"""The trade-off curve of each accountant: reached by Gaussian noise, never below what an attack can do."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from margrave.errors import InputError
from margrave.privacy.accounting.conversions import bound_belief, bound_power, gdp_delta, zcdp_delta

RATES = [1e-6, 0.001, 0.01, 0.05, 0.3, 0.5, 0.9]


def reach(mu: float, rate: float) -> float:
    """Power of the likelihood ratio test between N(0, 1) and N(mu, 1)."""
    return float(norm.sf(norm.isf(rate) - mu))


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 4.0])
@pytest.mark.parametrize("rate", RATES)
def test_gaussian_noise_reaches_the_curve_of_gdp_and_stays_below_that_of_zcdp(
    rho: float, rate: float
) -> None:
    """Gaussian noise of cost rho is within both promises. At half of rho it would break the curve."""
    attack = reach(math.sqrt(2 * rho), rate)
    assert bound_power("gdp", rho, rate) == pytest.approx(attack, rel=1e-9)
    assert bound_power("zcdp", rho, rate) >= attack * (1 - 1e-9)
    assert bound_power("rdp-20", rho, rate) >= bound_power("zcdp", rho, rate) * (1 - 1e-6)
    assert bound_power("zcdp", rho / 4, rate) < attack  # a curve for too small a cost is caught


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_curve_is_the_dual_of_delta_by_epsilon(epsilon: float) -> None:
    """delta(epsilon) is the largest power - e^epsilon rate; zCDP allows no more than its conversion."""
    rates = [math.exp(-k / 4) for k in range(1, 120)]
    for rho in (0.02, 0.5):
        gaps = [bound_power("gdp", rho, rate) - math.exp(epsilon) * rate for rate in rates]
        delta = gdp_delta(math.sqrt(2 * rho), epsilon)
        assert max(gaps) <= delta * (1 + 1e-9)
        assert max(gaps) == pytest.approx(delta, rel=0.05, abs=1e-11)
        for rate in rates:
            allowed = zcdp_delta(rho, epsilon) + math.exp(epsilon) * rate
            assert bound_power("zcdp", rho, rate) <= allowed * (1 + 1e-3)


def test_no_cost_leaves_guessing_and_slack_is_added() -> None:
    for accounting in ("gdp", "zcdp", "rdp-7"):
        assert bound_power(accounting, 0.0, 0.05) == pytest.approx(0.05, abs=1e-4)
    assert bound_power("gdp", 0.0, 0.05, slack=0.01) == pytest.approx(0.07)
    assert bound_power("gdp", 1.0, 0.5, slack=0.5) == 1.0
    assert bound_belief(0.5, 0.05, 0.05) == pytest.approx(0.5)


@pytest.mark.parametrize(("accounting", "rate"), [("gdp", 0.0), ("zcdp", 1.0), ("rdp-x", 0.1), ("", 0.1)])
def test_what_is_no_rate_or_accountant_is_refused(accounting: str, rate: float) -> None:
    with pytest.raises(InputError, match="must be"):
        bound_power(accounting, 0.1, rate)
