"""Canary audit of Fourier moments: do they tell neighbours apart better than they are priced?

The canary's rows have the phase 0 at every frequency, and what they replace half a turn: one unit moves the
sums by the most it can. The attacker adds up the log-likelihood ratio of all sums of one answer that takes
the whole budget. With the noise halved, or half the sensitivity, the audit must find the violation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_audit import halve_the_noise, told_apart

import margrave.measure.mechanisms.moments as door
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.features import Embedding
from margrave.schema.schema import Schema

FREQUENCIES = 12
PHASES = np.repeat(np.array([[1 << 15], [0]], dtype=np.uint16), FREQUENCIES, axis=1)
FEATURES = Embedding(("a",), (PHASES,), "y")
CASES = [(adjacency, k, gdp) for adjacency in ("add_remove", "replace_one") for k in (1, 3) for gdp in (0, 1)]
PLAIN = 20


def _codes(adjacency: Adjacency, k: int, canary: bool) -> NDArray[np.int64]:
    extra = [1] * k if canary else [0] * k if adjacency == "replace_one" else []
    return np.array([0] * PLAIN + extra, dtype=np.int64)


def _truth(codes: NDArray[np.int64]) -> float:
    """The cosine sum of label 0, which every row has."""
    return float(np.count_nonzero(codes == 1) - np.count_nonzero(codes == 0))


def _answers(adjacency: Adjacency, k: int, gdp: int, canary: bool) -> tuple[NDArray[np.float64], float]:
    """What one run releases, and rho it is priced at."""
    codes = _codes(adjacency, k, canary)
    columns = {"a": codes, "y": np.zeros_like(codes)}
    unit = Unit()
    if k > 1:
        unit = Unit("id", k)
        columns["id"] = np.concatenate([np.arange(PLAIN), np.full(len(codes) - PLAIN, 999)])
    neighbours = Neighbours(unit, adjacency)
    ledger = Ledger(epsilon=8.0, delta=1e-5, neighbours=neighbours, accountant=GDP() if gdp else ZCDP())
    curator = Curator(open_source(pa.table(columns))[0], ledger)
    curator.discover(Schema.from_sizes({"a": 2, "y": 2}))
    return curator.moments(FEATURES, ledger.total).values, float(ledger.total)


def _violated(adjacency: Adjacency, k: int, gdp: int, runs: int) -> bool:
    low, high = (_truth(_codes(adjacency, k, canary)) for canary in (False, True))
    sides = [[_answers(adjacency, k, gdp, canary) for _ in range(runs)] for canary in (False, True)]
    null, alt = (
        np.array([(found[0, :FREQUENCIES] - low).sum() * (high - low) for found, _ in side]) for side in sides
    )
    return told_apart(null, alt, sides[0][0][1])


def _halve_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = door.Gaussian
    monkeypatch.setattr(door, "Gaussian", lambda book, bits, squared: honest(book, bits, squared // 4))


def test_the_audit_of_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _violated("add_remove", 1, 0, 300)
    _halve_the_sensitivity(monkeypatch)
    assert _violated("add_remove", 1, 0, 300)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_no_violation_of_moments_is_found(adjacency: Adjacency, k: int, gdp: int) -> None:
    assert not _violated(adjacency, k, gdp, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [halve_the_noise, _halve_the_sensitivity])
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_halved_moments_are_found(
    adjacency: Adjacency, k: int, gdp: int, cheat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheat(monkeypatch)
    assert _violated(adjacency, k, gdp, 3000)
