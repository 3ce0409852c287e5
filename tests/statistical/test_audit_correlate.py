"""Canary audit of rank products: do many noisy sums tell neighbours apart better than they are priced?

One unit moves every sum by the most it can. The attacker adds up the log-likelihood ratio of all answers of
one question that takes the whole budget. With the noise halved, or half the sensitivity, the audit must find
the violation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_audit import halve_the_noise, told_apart

import margrave.measure.mechanisms.correlate as door
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.schema import Schema

NAMES = ("a", "b", "c", "d")
PAIRS = [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")]
SCORES = {"a": [16, -16, 16], "b": [16, -16, 16], "c": [-16, -16, 16], "d": [-16, -16, 16]}
CASES = [(adjacency, k, gdp) for adjacency in ("add_remove", "replace_one") for k in (1, 3) for gdp in (0, 1)]
PLAIN = 20


def _codes(adjacency: Adjacency, k: int, canary: bool) -> list[NDArray[np.int64]]:
    """Codes of each attribute by row: the canary has a product of 1 in each pair, what it replaces -1."""
    extra = [2] * k if canary else [0] * k if adjacency == "replace_one" else []
    return [np.array([1] * PLAIN + extra, dtype=np.int64)] * len(NAMES)


def _answers(adjacency: Adjacency, k: int, gdp: int, canary: bool) -> tuple[NDArray[np.float64], float]:
    """What one run releases, and rho it is priced at."""
    columns = dict(zip(NAMES, _codes(adjacency, k, canary), strict=True))
    unit = Unit()
    if k > 1:
        unit = Unit("id", k)
        columns["id"] = np.concatenate([np.arange(PLAIN), np.full(len(columns["a"]) - PLAIN, 999)])
    accountant = GDP() if gdp else ZCDP()
    ledger = Ledger(epsilon=8.0, delta=1e-5, neighbours=Neighbours(unit, adjacency), accountant=accountant)
    curator = Curator(open_source(pa.table(columns))[0], ledger)
    curator.discover(Schema.from_sizes(dict.fromkeys(NAMES, 3)))
    found, _ = curator.correlate(PAIRS, {n: np.array(s) for n, s in SCORES.items()}, ledger.total)
    return found, float(ledger.total)


def _violated(adjacency: Adjacency, k: int, gdp: int, runs: int) -> bool:
    # Plain rows add 1 to each sum; the canary adds 1, and what it replaces takes 1 away.
    low = np.full(4, PLAIN - (k if adjacency == "replace_one" else 0))
    high = np.full(4, PLAIN + k)
    sides = [[_answers(adjacency, k, gdp, canary) for _ in range(runs)] for canary in (False, True)]
    null, alt = (np.array([(found - low) @ (high - low) for found, _ in side]) for side in sides)
    return told_apart(null, alt, sides[0][0][1])


def _halve_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = door.Gaussian
    monkeypatch.setattr(door, "Gaussian", lambda book, bits, squared: honest(book, bits, squared // 4))


def test_the_audit_of_rank_products(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _violated("add_remove", 1, 0, 300)
    _halve_the_sensitivity(monkeypatch)
    assert _violated("add_remove", 1, 0, 300)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_no_violation_of_rank_products_is_found(adjacency: Adjacency, k: int, gdp: int) -> None:
    assert not _violated(adjacency, k, gdp, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [halve_the_noise, _halve_the_sensitivity])
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_halved_rank_products_are_found(
    adjacency: Adjacency, k: int, gdp: int, cheat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheat(monkeypatch)
    assert _violated(adjacency, k, gdp, 3000)
