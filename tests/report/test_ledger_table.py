from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest

from margrave.errors import UnsupportedEventError
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    ObjectiveEvent,
    PartitionEvent,
    event_from_json,
    event_to_json,
)
from margrave.report.release.ledger import fold_spends, price_events


def _gaussian(what: str, variance: int) -> GaussianEvent:
    return GaussianEvent(what, 1, Fraction(variance))


def _choice(epsilon: Fraction) -> ExponentialEvent:
    return ExponentialEvent("choice", epsilon, Fraction(1), 10)


def test_every_kind_is_priced_and_described() -> None:
    events: tuple[Event, ...] = (
        GaussianEvent("g", 2, Fraction(100)),
        GaussianEvent("r", 16, Fraction(100), rounded=True),
        _choice(Fraction(1, 5)),
        PartitionEvent("p", 1, Fraction(50), 40, Fraction(1, 10**6)),
    )
    spends = price_events(events)
    assert [spend.rho for spend in spends] == [
        Fraction(1, 100), Fraction(8, 100), Fraction(1, 200), Fraction(1, 100)
    ]  # fmt: skip
    assert [spend.sensitivity.replace("\u00a0", " ") for spend in spends] == [
        "√2 (L2)",
        "4 (L2)",
        "1 (score)",
        "1 (L2)",
    ]
    asked = ObjectiveEvent("o", 1, 1, Fraction(1, 8), 9, Fraction(100), 12)
    (perturbed,) = price_events((asked,))
    assert perturbed.mechanism == "Objective perturbation"
    assert perturbed.sensitivity.replace("\u00a0", " ") == "3 (L2)"
    assert perturbed.rho == event_rho(asked) > Fraction(9, 200)
    assert event_from_json(event_to_json(asked)) == asked
    assert spends[-1].cumulative == sum(spend.rho for spend in spends)
    assert spends[-1].delta == Fraction(1, 10**6)
    assert spends[-1].noise.replace("\u00a0", " ") == "σ = 7.071, threshold 40, δ = 1e-6"


def test_an_unknown_event_is_refused() -> None:
    @dataclass(frozen=True)
    class Strange(Event):
        pass

    with pytest.raises(UnsupportedEventError):
        price_events((Strange("x"),))


def test_long_runs_are_folded_and_nothing_is_lost() -> None:
    events: list[Event] = [_gaussian(f"m{place}", 10) for place in range(6)]
    for place in range(5):
        events += [_choice(Fraction(1, 7)), _gaussian(f"s{place}", 20)]
    events += [_gaussian("x", 30), _gaussian("y", 31), _gaussian("y", 31)]
    spends = price_events(tuple(events))
    runs = fold_spends(spends)
    assert [len(run) for run in runs] == [6, 10, 1, 1, 1]
    assert [spend for run in runs for spend in run] == list(spends)


def test_short_repetitions_stay_apart() -> None:
    spends = price_events(tuple(_gaussian("m", 10) for _ in range(3)))
    assert [len(run) for run in fold_spends(spends)] == [1, 1, 1]
    assert fold_spends(()) == []
