"""Poisson samples with Gaussian noise: the divergence against integrals and other libraries; its ledger."""

from __future__ import annotations

import importlib
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from recording import record_event
from scipy.special import logsumexp

from margrave.errors import BudgetError, InputError, UnsupportedEventError
from margrave.privacy.accounting.accountants import GDP, ZCDP, Renyi, event_rho
from margrave.privacy.accounting.conversions import zcdp_delta, zcdp_rho
from margrave.privacy.accounting.events import (
    GaussianEvent,
    SubsampledGaussianEvent,
    event_from_json,
    event_to_json,
)
from margrave.privacy.accounting.renyi import (
    best_order,
    check_sampled,
    least_variance,
    renyi_allowed,
    sampled_divergence,
)
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.journal import LedgerHeader
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit

CASES = [
    (order, rate, ratio)
    for order in (2, 3, 8, 20, 64)
    for rate in (Fraction(1, 1000), Fraction(1, 32), Fraction(1, 2))
    for ratio in (Fraction(1, 100), Fraction(1, 4), Fraction(2))
]


def _integrals(order: int, q: float, sigma: float) -> tuple[float, float]:
    """Renyi divergences of the two one-dimensional answers in both directions, by the trapezoidal rule."""
    z = np.linspace(-45 * sigma - 2, 45 * sigma + 2 * order + 2, 200_001)
    null = -0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
    shifted = null + (2 * z - 1) / (2 * sigma**2)
    mixed = np.logaddexp(math.log1p(-q) + null, math.log(q) + shifted)
    step = math.log(z[1] - z[0])
    pairs = ((mixed, null), (null, mixed))
    one, other = (float(logsumexp(order * p + (1 - order) * r)) + step for p, r in pairs)
    return one / (order - 1), other / (order - 1)


@pytest.mark.parametrize(("order", "rate", "ratio"), CASES)
def test_it_is_the_larger_of_both_directions_by_integration(
    order: int, rate: Fraction, ratio: Fraction
) -> None:
    there, back = _integrals(order, float(rate), float(ratio) ** -0.5)
    found = float(sampled_divergence(order, rate, ratio))
    assert found == pytest.approx(there, rel=1e-6, abs=1e-9)
    assert back <= found * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(("order", "rate", "ratio"), CASES)
def test_it_is_that_of_other_libraries(order: int, rate: Fraction, ratio: Fraction) -> None:
    import dp_accounting as accounting

    theirs = accounting.rdp.RdpAccountant([order])
    event = accounting.PoissonSampledDpEvent(float(rate), accounting.GaussianDpEvent(float(ratio) ** -0.5))
    theirs.compose(event, 7)
    assert 7 * float(sampled_divergence(order, rate, ratio)) == pytest.approx(theirs._rdp[0], rel=1e-7)


@pytest.mark.oracle("opacus")
@pytest.mark.slow  # half a minute of imports
def test_it_is_that_of_opacus() -> None:
    analysis = importlib.import_module("opacus.accountants.analysis.rdp")
    for order, rate, ratio in CASES:
        found = 7 * float(sampled_divergence(order, rate, ratio))
        noise = float(ratio) ** -0.5
        said = analysis.compute_rdp(q=float(rate), noise_multiplier=noise, steps=7, orders=[order])
        assert found == pytest.approx(float(said[0]), rel=1e-7)


def test_it_is_rounded_up_and_known_where_floats_are_not() -> None:
    """Against sums of exact fractions, for order 2: ln(1 + q^2 (exp(ratio) - 1))."""
    for rate, ratio in ((Fraction(1, 1 << 20), Fraction(1, 1 << 40)), (Fraction(1, 3), Fraction(1, 7))):
        term, exact = Fraction(1), Fraction(0)
        for k in range(1, 40):
            term = term * ratio / k
            exact += term
        small = rate**2 * exact
        log = sum((small**k / k * (-1) ** (k + 1) for k in range(1, 60)), Fraction(0))
        found = sampled_divergence(2, rate, ratio)
        assert log < found < log * (1 + Fraction(1, 10**9)) + Fraction(2, 1 << 160)


def test_limits() -> None:
    assert sampled_divergence(5, Fraction(1), Fraction(1, 3)) == Fraction(5, 6)  # all rows: a / (2 sigma^2)
    assert sampled_divergence(5, Fraction(1, 3), Fraction(0)) == 0
    rising = [sampled_divergence(9, Fraction(k, 10), Fraction(1, 2)) for k in range(1, 11)]
    assert rising == sorted(rising)
    assert all(found < rising[-1] for found in rising[:-1])
    for order, rate in (
        (1, Fraction(1, 2)),
        (True, Fraction(1, 2)),
        (2000, Fraction(1, 2)),
        (2, Fraction(0)),
    ):
        with pytest.raises(InputError):
            sampled_divergence(order, rate, Fraction(1))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5])
def test_what_an_order_allows_is_what_zcdp_does_at_that_order(epsilon: float, delta: float) -> None:
    """zCDP takes the best of all orders, so no order allows more rho; the best whole one nearly as much."""
    total = zcdp_rho(epsilon, delta)
    shares = [renyi_allowed(order, epsilon, delta) / order for order in range(2, 400)]
    assert max(shares) <= total * (1 + 1e-12)
    assert max(shares) >= total * 0.97
    order = 2 + int(np.argmax(shares))
    rho = max(shares)
    log_delta = (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)
    assert log_delta == pytest.approx(math.log(delta), rel=1e-9)
    assert zcdp_delta(rho, epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [(1.0, 1e-5, 32, 1000), (0.2, 1e-9, 64, 300), (8.0, 1e-6, 16, 200)],
)
def test_the_noise_keeps_the_whole_run_within_epsilon_by_an_independent_account(
    epsilon: float, delta: float, rate: int, steps: int
) -> None:
    """A fifth of rho for counts and the rest for a training, as `Training` spends it."""
    import dp_accounting as accounting

    order = best_order(epsilon, delta, Fraction(1, rate), steps, Fraction(4, 5))
    renyi = Renyi(order)
    rho = renyi.total(epsilon, Fraction(delta))

    def event(variance: Fraction) -> SubsampledGaussianEvent:
        return SubsampledGaussianEvent("w", steps, Fraction(1, rate), 4, variance, order)

    variance = least_variance(rho * Fraction(4, 5), 4, lambda v: renyi.cost(event(v)))
    assert Fraction(999, 1000) * rho * Fraction(4, 5) <= renyi.cost(event(variance)) <= rho * Fraction(4, 5)
    gaussian = accounting.GaussianDpEvent(1 / math.sqrt(2 * float(rho) / 5))
    multiplier = math.sqrt(float(variance) / 4)
    sampled = accounting.PoissonSampledDpEvent(1 / rate, accounting.GaussianDpEvent(multiplier))
    found = []
    for theirs in (accounting.rdp.RdpAccountant(), accounting.pld.PLDAccountant()):
        theirs.compose(gaussian)
        theirs.compose(sampled, steps)
        found.append(theirs.get_epsilon(delta))
    assert found[0] == pytest.approx(epsilon, rel=0.02)
    assert 0.6 * epsilon < found[1] < epsilon


def test_a_ledger_at_one_order_adds_up_and_refuses_all_else() -> None:
    neighbours = Neighbours()
    ledger = Ledger(epsilon=1.0, delta=1e-5, neighbours=neighbours, accountant=Renyi(20))
    assert ledger.accountant.name == "rdp-20"
    training = SubsampledGaussianEvent("w", 100, Fraction(1, 32), 1, Fraction(9), 20)
    record_event(ledger, GaussianEvent("a", 1, Fraction(1000)))
    record_event(ledger, training)
    assert ledger.spent == Fraction(1, 2000) + event_rho(training)
    assert event_rho(training) == 100 * sampled_divergence(20, Fraction(1, 32), Fraction(1, 9)) / 20
    with pytest.raises(UnsupportedEventError, match="Renyi"):
        record_event(ledger, SubsampledGaussianEvent("w", 1, Fraction(1, 32), 1, Fraction(100), 21))
    with pytest.raises(BudgetError):
        record_event(ledger, SubsampledGaussianEvent("w", 10**6, Fraction(1, 32), 1, Fraction(1), 20))
    for accountant in (ZCDP(), GDP()):
        with pytest.raises(UnsupportedEventError):
            accountant.cost(training)
    for order in (1, True, 2.5):
        with pytest.raises(InputError, match="order"):
            Renyi(order)  # type: ignore[arg-type]


def test_bad_events_have_no_price() -> None:
    good = {"what": "w", "steps": 5, "rate": Fraction(1, 4), "l2_squared": 1, "order": 3}
    bad = [("steps", 0), ("rate", Fraction(5, 4)), ("rate", 0.5), ("order", 1), ("l2_squared", -1)]
    for name, value in bad:
        with pytest.raises(InputError):
            event_rho(SubsampledGaussianEvent(**good | {name: value}, sigma_squared=Fraction(1)))  # type: ignore[arg-type]


def test_the_event_survives_a_file() -> None:
    event = SubsampledGaussianEvent("w", 100, Fraction(1, 32), 1 << 44, Fraction(9, 7), 20)
    assert event_from_json(event_to_json(event)) == event


def test_no_variance_is_enough_for_no_price() -> None:
    with pytest.raises(InputError, match="noise that can be drawn"):
        least_variance(Fraction(1, 10**9), 1, lambda variance: Fraction(1))
    with pytest.raises(InputError, match="epsilon"):
        best_order(1e-6, 1e-300, Fraction(1, 32), 10, Fraction(1))


def test_who_is_protected() -> None:
    check_sampled(Neighbours())
    check_sampled(Neighbours(Unit("id", 1)))
    with pytest.raises(InputError, match="add_remove"):
        check_sampled(Neighbours(Unit(), "replace_one"))
    with pytest.raises(InputError, match="max_rows"):
        check_sampled(Neighbours(Unit("id", 2)))


def test_a_book_takes_no_such_run(tmp_path: Path) -> None:
    book = Book.create(tmp_path / "b.book")
    book.cap("people", 3.0, 1e-5)
    header = LedgerHeader(1.0, 1e-6, Fraction(0), Neighbours(), "rdp-20")
    with pytest.raises(InputError, match="book"):
        book.open_run("people", "", header, Fraction(1, 100))
    assert book.runs() == []
