"""Canary audit of appraisals: do many noisy errors tell neighbours apart better than they are priced?

The tables and the expected counts are such that one unit moves every error by the most it can. The attacker
adds up the log-likelihood ratio of all answers of one appraisal that takes the whole budget. With the
noise halved, or half the sensitivity, the audit must find the violation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_audit import halve_the_noise, told_apart

import margrave.measure.mechanisms.appraise as door
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.schema import Schema

SIZES = {"a": 2, "b": 3, "c": 2}
CLIQUES = [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
CASES = [(adjacency, k, gdp) for adjacency in ("add_remove", "replace_one") for k in (1, 3) for gdp in (0, 1)]
PLAIN = 20


def _codes(adjacency: Adjacency, k: int, canary: bool) -> NDArray[np.int64]:
    """The code of each row in every column: the canary's is 1, and 0 what it replaces."""
    extra = [1] * k if canary else [0] * k if adjacency == "replace_one" else []
    return np.array([0] * PLAIN + extra, dtype=np.int64)


def _expected() -> list[NDArray[np.float64]]:
    """Fewer rows than there are where the canary is, more where it is not."""
    tables = [np.zeros([SIZES[name] for name in clique]) for clique in CLIQUES]
    for table in tables:
        table.flat[0] = 2 * PLAIN + 1 / 3
    return tables


def _truth(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    zero, one = np.count_nonzero(codes == 0), np.count_nonzero(codes == 1)
    return np.full(len(CLIQUES), 2 * PLAIN + 1 / 3 - zero + one)


def _answers(adjacency: Adjacency, k: int, gdp: int, canary: bool) -> tuple[NDArray[np.float64], float]:
    """What one run releases, and rho it is priced at."""
    codes = _codes(adjacency, k, canary)
    columns = dict.fromkeys(SIZES, codes)
    unit = Unit()
    if k > 1:
        unit = Unit("id", k)
        columns["id"] = np.concatenate([np.arange(PLAIN), np.full(len(codes) - PLAIN, 999)])
    accountant = GDP() if gdp else ZCDP()
    neighbours = Neighbours(unit, adjacency)
    ledger = Ledger(epsilon=8.0, delta=1e-5, neighbours=neighbours, accountant=accountant)
    curator = Curator(open_source(pa.table(columns))[0], ledger)
    curator.discover(Schema.from_sizes(SIZES))
    return curator.appraise(CLIQUES, _expected(), ledger.total), float(ledger.total)


def _violated(adjacency: Adjacency, k: int, gdp: int, runs: int) -> bool:
    low, high = (_truth(_codes(adjacency, k, canary)) for canary in (False, True))
    sides = [[_answers(adjacency, k, gdp, canary) for _ in range(runs)] for canary in (False, True)]
    null, alt = (np.array([(found - low) @ (high - low) for found, _ in side]) for side in sides)
    return told_apart(null, alt, sides[0][0][1])


def _halve_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = door.Gaussian
    monkeypatch.setattr(door, "Gaussian", lambda book, bits, squared: honest(book, bits, squared // 4))


def test_the_audit_of_appraisals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _violated("add_remove", 1, 0, 300)
    _halve_the_sensitivity(monkeypatch)
    assert _violated("add_remove", 1, 0, 300)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_no_violation_of_appraisals_is_found(adjacency: Adjacency, k: int, gdp: int) -> None:
    assert not _violated(adjacency, k, gdp, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [halve_the_noise, _halve_the_sensitivity])
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_halved_appraisals_are_found(
    adjacency: Adjacency, k: int, gdp: int, cheat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheat(monkeypatch)
    assert _violated(adjacency, k, gdp, 3000)
