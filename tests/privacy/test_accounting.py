from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margrave.errors import InputError, UnsupportedEventError
from margrave.privacy.accounting.accountants import (
    GDP,
    ZCDP,
    event_delta,
    event_rho,
)
from margrave.privacy.accounting.conversions import (
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from margrave.privacy.accounting.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    PartitionEvent,
)

KNOWN = [
    (1.0, 1e-5, 0.030557, 0.268051),
    (1.0, 1e-9, 0.014973, 0.181975),
    (0.1, 1e-5, 4.3299e-4, 0.032521),
    (5.0, 1e-5, 0.550973, 1.121242),
    (10.0, 1e-9, 1.090786, 1.537877),
]
EXTREMES = [(e, d) for e in (1e-3, 0.1, 1.0, 10.0, 100.0) for d in (1e-300, 1e-50, 1e-9, 1e-2, 0.5)]


@pytest.mark.parametrize(("epsilon", "delta", "rho", "mu"), KNOWN)
def test_the_published_constants(epsilon: float, delta: float, rho: float, mu: float) -> None:
    assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=2e-5)
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=2e-5)


@pytest.mark.parametrize(("epsilon", "delta"), EXTREMES)
def test_calibration_is_safe_and_tight(epsilon: float, delta: float) -> None:
    rho, mu = zcdp_rho(epsilon, delta), gdp_mu(epsilon, delta)
    assert zcdp_delta(rho, epsilon) <= delta < zcdp_delta(rho * (1 + 1e-8), epsilon)
    assert gdp_delta(mu, epsilon) <= delta < gdp_delta(mu * (1 + 1e-8), epsilon)
    assert zcdp_delta(rho, zcdp_epsilon(rho, delta)) <= delta
    assert gdp_delta(mu, gdp_epsilon(mu, delta)) <= delta
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-8)
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-8)
    assert mu**2 / 2 > rho


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-3, 100.0), st.floats(0.31, 690.0))
def test_calibration_is_safe_anywhere(epsilon: float, log: float) -> None:
    delta = min(math.exp(-log), 0.5)
    assert zcdp_delta(zcdp_rho(epsilon, delta), epsilon) <= delta
    assert gdp_delta(gdp_mu(epsilon, delta), epsilon) <= delta


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("rho", [1e-4, 0.02, 1.0, 30.0])
def test_zcdp_delta_is_the_infimum_over_orders(rho: float, epsilon: float) -> None:
    best = 1.0
    for step in range(1, 60_000):
        a = 1.0 + 1e-4 * math.exp(step * 3e-4)
        log = (a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1)
        best = min(best, math.exp(min(log, 0.0)))
    assert zcdp_delta(rho, epsilon) == pytest.approx(best, rel=1e-5, abs=1e-300)


def test_gdp_delta_against_the_error_function() -> None:
    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    for mu, epsilon in [(0.3, 0.5), (1.0, 1.0), (2.0, 0.0), (3.0, 5.0)]:
        plain = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
        assert gdp_delta(mu, epsilon) == pytest.approx(plain, rel=1e-9)


def test_gaussian_conversions_against_dp_accounting() -> None:
    import dp_accounting as accounting

    for mu, delta in [(0.2, 1e-9), (1.0, 1e-5), (3.0, 1e-6)]:
        theirs = accounting.get_epsilon_gaussian(1 / mu, delta)
        assert gdp_epsilon(mu, delta) == pytest.approx(theirs, rel=1e-6)


def test_zcdp_conversion_against_dp_accounting() -> None:
    import dp_accounting as accounting

    for rho, delta in [(0.015, 1e-9), (0.1, 1e-5), (1.0, 1e-6)]:
        orders = [1 + 1.01**k * 1e-2 for k in range(1200)]
        accountant = accounting.rdp.RdpAccountant(orders=orders)
        accountant.compose(accounting.ZCDpEvent(rho))
        assert zcdp_epsilon(rho, delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-4)


def test_degenerate_amounts() -> None:
    assert zcdp_delta(0.0, 1.0) == gdp_delta(0.0, 1.0) == 0.0
    assert zcdp_epsilon(0.0, 1e-9) == gdp_epsilon(0.0, 1e-9) == 0.0
    assert zcdp_delta(1e6, 1.0) == gdp_delta(1e3, 1.0) == 1.0
    assert zcdp_delta(1e-12, 1.0) < 1e-300
    assert gdp_delta(1e-200, 1.0) < 1e-300


@pytest.mark.parametrize("convert", [zcdp_rho, gdp_mu, zcdp_epsilon, gdp_epsilon])
@pytest.mark.parametrize("delta", [0, 0.0, 1.0, -1e-9, math.nan, math.inf, True])
def test_an_impossible_delta_is_refused(convert: object, delta: float) -> None:
    with pytest.raises(InputError, match="delta must be above 0 and below 1"):
        convert(1.0, delta)  # type: ignore[operator]


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf, True])
def test_an_impossible_amount_is_refused(amount: float) -> None:
    for convert in (zcdp_rho, gdp_mu, zcdp_epsilon, gdp_epsilon):
        with pytest.raises(InputError, match="must be a finite number"):
            convert(amount, 1e-9)
    with pytest.raises(InputError, match="rho must be"):
        zcdp_delta(amount, 1.0)
    with pytest.raises(InputError, match="epsilon must be"):
        gdp_delta(1.0, amount)


GAUSSIAN = GaussianEvent("age", 2, Fraction(50, 3))
ROUNDED = GaussianEvent("age", 2, Fraction(50, 3), rounded=True)
PARTITION = PartitionEvent("city", 1, Fraction(9), 40, Fraction(1, 10**10), rounded=True)
CHOICE = ExponentialEvent("3 candidates", Fraction(2, 3), Fraction(1), 3)


@pytest.mark.parametrize(
    ("event", "rho", "delta"),
    [
        (GAUSSIAN, Fraction(3, 50), 0),
        (PARTITION, Fraction(1, 18), Fraction(1, 10**10)),
        (CHOICE, Fraction(1, 18), 0),
        (GaussianEvent("rows, public", 0, Fraction(1)), 0, 0),
    ],
)
def test_costs_are_exact(event: Event, rho: Fraction, delta: Fraction) -> None:
    assert event_rho(event) == ZCDP().cost(event) == rho
    assert event_delta(event) == delta


def test_unknown_events_are_refused() -> None:
    class Cheap(GaussianEvent):
        """Looks like a known event, but promises nothing."""

    for event in (Event("anything"), Cheap("age", 2, Fraction(1))):
        for price in (event_rho, event_delta, ZCDP().cost, GDP().cost):
            with pytest.raises(UnsupportedEventError):
                price(event)


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent("x", -1, Fraction(1)),
        GaussianEvent("x", 1, Fraction(0)),
        GaussianEvent("x", 1, Fraction(-1)),
        GaussianEvent("x", 1, 1.5),  # type: ignore[arg-type]
        GaussianEvent("x", True, Fraction(1)),
        ExponentialEvent("x", Fraction(-1), Fraction(1), 2),
        ExponentialEvent("x", Fraction(1), Fraction(0), 2),
    ],
)
def test_impossible_parameters_are_refused(event: Event) -> None:
    with pytest.raises(InputError):
        event_rho(event)


def test_a_negative_partition_delta_is_refused() -> None:
    with pytest.raises(InputError, match="delta"):
        event_delta(PartitionEvent("city", 1, Fraction(9), 40, Fraction(-1)))


def test_gdp_prices_rounded_gaussians_and_choices_alone() -> None:
    assert GDP().cost(ROUNDED) == event_rho(ROUNDED)
    assert GDP().cost(PARTITION) == event_rho(PARTITION)
    for event in (GAUSSIAN, PartitionEvent("city", 1, Fraction(9), 40, Fraction(0))):
        with pytest.raises(UnsupportedEventError, match="rounded Gaussian"):
            GDP().cost(event)


def _corner(epsilon: float, t: float) -> tuple[float, float]:
    """The chances of the side of a coin whose likelihood ratios are e^t and e^(t - epsilon)."""
    p = (1 - math.exp(t - epsilon)) / (math.exp(t) - math.exp(t - epsilon))
    return p, p * math.exp(t)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 12.0])
def test_a_choice_is_no_easier_to_see_than_gaussian_noise_of_its_price(epsilon: float) -> None:
    """Every law of bounded range; at the price of zCDP, ε²/8, the worst of them would be easier to see."""
    cost = float(GDP().cost(ExponentialEvent("choice", Fraction(epsilon), Fraction(1), 9)))
    normal = NormalDist()
    shifts = []
    for k in range(1, 200):
        p, q = _corner(epsilon, epsilon * k / 200)
        shifts.append(normal.inv_cdf(q) - normal.inv_cdf(p))
        for e in (0.0, epsilon / 4, epsilon / 2, epsilon):
            seen = max(q - math.exp(e) * p, 0.0) + max((1 - q) - math.exp(e) * (1 - p), 0.0)
            assert seen <= gdp_delta(math.sqrt(2 * cost), e) + 1e-12
    assert max(shifts) <= math.sqrt(2 * cost)
    if epsilon <= 1:
        assert max(shifts) > 0.98 * math.sqrt(2 * cost)
        assert max(shifts) > 1.2 * math.sqrt(2 * epsilon**2 / 8)


def test_choices_are_bought_at_the_price_of_the_accountant() -> None:
    for accountant in (ZCDP(), GDP()):
        event = ExponentialEvent("choice", Fraction(3, 7), Fraction(2), 4)
        assert accountant.cost(event) == accountant.choice_price * Fraction(9, 49)
    assert 0 < float(GDP.choice_price) - math.pi / 16 < 1e-7


def test_totals_are_exact_and_gdp_allows_more() -> None:
    assert (ZCDP().name, GDP().name) == ("zcdp", "gdp")
    assert ZCDP().total(1.0, Fraction(1e-5)) == Fraction(zcdp_rho(1.0, 1e-5))
    assert GDP().total(1.0, Fraction(1e-5)) == Fraction(gdp_mu(1.0, 1e-5)) ** 2 / 2
    ratio = GDP().total(1.0, Fraction(1e-5)) / ZCDP().total(1.0, Fraction(1e-5))
    assert float(ratio) == pytest.approx(1.1757, rel=1e-3)


def test_a_total_uses_no_more_than_the_delta_given() -> None:
    delta = Fraction(1e-9) - Fraction(1, 10**60)
    assert float(delta) == 1e-9
    assert Fraction(1e-9) > delta
    assert zcdp_delta(float(ZCDP().total(1.0, delta)), 1.0) < 1e-9
    with pytest.raises(InputError):
        ZCDP().total(1.0, Fraction(1, 10**400))
