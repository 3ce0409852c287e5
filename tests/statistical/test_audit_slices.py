"""Canary audits of `slices`: noisy copies of rows are no easier to tell than the guarantee says.

The canary's vector is as long as one can be; under replace_one it takes the place of a row with no code in
common. The other rows are all alike, so which noisy row is the canary's is told by the likelihoods of all of
them together. With the noise halved, half the sensitivity, or an attribute left out of the bound, the audit
must find the violation; and the paper's price for emptying a row is too low where a row is replaced.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import beta, norm
from test_audit import halve_the_noise, told_apart

import margrave.measure.mechanisms.slices as door
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.accounting.conversions import gdp_epsilon
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
SCHEMA = Schema.from_sizes(SIZES)
PLAIN, CANARY = (0, 0, 0, 0), (1, 2, 1, 1)
CASES = [(adjacency, gdp) for adjacency in ("replace_one", "zero_out") for gdp in (0, 1)]


def _vector(codes: tuple[int, ...]) -> NDArray[np.float64]:
    return np.concatenate([np.eye(size)[code] for size, code in zip(SIZES.values(), codes, strict=True)])


def _answer(adjacency: Adjacency, gdp: int, canary: bool, rows: int) -> tuple[float, float]:
    """The log-likelihood ratio of one run's rows, up to a constant, and rho.

    Under zero_out an emptied row has a vector of zeros, which no table holds: its noisy copy is made by
    taking the canary's vector off the row that the door gave.
    """
    ledger = Ledger(
        epsilon=6.0, delta=1e-5, neighbours=Neighbours(Unit(), adjacency), accountant=GDP() if gdp else ZCDP()
    )
    table = np.array([PLAIN] * (rows - 1) + [CANARY if canary or adjacency == "zero_out" else PLAIN])
    curator = Curator(open_source(pa.table(dict(zip(SIZES, table.T, strict=True))))[0], ledger)
    if adjacency == "zero_out" and not canary:
        honest = door.build_vectors
        empty = _vector(CANARY).astype(np.int64)

        def build_emptied(*args: Any) -> Any:
            found = honest(*args)
            found[-1] -= empty
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(door, "build_vectors", build_emptied)
            found = _release(curator, ledger)
    else:
        found = _release(curator, ledger)
    other = np.zeros(sum(SIZES.values())) if adjacency == "zero_out" else _vector(PLAIN)
    base, high = _vector(PLAIN), _vector(CANARY)
    values, variance = found.values, found.sigma**2

    def likely(target: NDArray[np.float64]) -> float:
        """Of one row in a random place having this vector, all others the plain one."""
        return float(logsumexp((values @ (target - base) - (target @ target - base @ base) / 2) / variance))

    return likely(high) - likely(other), float(ledger.total)


def _release(curator: Curator, ledger: Ledger) -> Any:
    curator.discover(SCHEMA)
    return curator.slices(RowNumbers.indicate_codes(SCHEMA.domain), ledger.total)


def _scores(adjacency: Adjacency, gdp: int, runs: int, rows: int = 1) -> tuple[Any, Any, float]:
    sides = [[_answer(adjacency, gdp, canary, rows) for _ in range(runs)] for canary in (False, True)]
    null, alt = (np.array([score for score, _ in side]) for side in sides)
    return null, alt, sides[0][0][1]


def _violated(adjacency: Adjacency, gdp: int, runs: int, rows: int = 1) -> bool:
    return told_apart(*_scores(adjacency, gdp, runs, rows))


def _halve_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = door.bound_change
    monkeypatch.setattr(door, "bound_change", lambda *args: honest(*args) // 4)


def _forget_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that leaves all but the first column out."""
    honest = door.bound_change
    monkeypatch.setattr(door, "bound_change", lambda matrices, *more: honest(matrices[:1], *more))


def _charge_an_emptied_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's price, where a row is replaced."""
    honest = door.bound_change
    emptied = Neighbours(Unit(), "zero_out")
    monkeypatch.setattr(
        door, "bound_change", lambda matrices, cap, neighbours: honest(matrices, cap, emptied)
    )


def test_the_audit_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _violated("replace_one", 1, 300)
    _halve_the_sensitivity(monkeypatch)
    assert _violated("replace_one", 1, 300)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("adjacency", "gdp"), CASES)
def test_no_violation_of_slices_is_found(adjacency: Adjacency, gdp: int, rows: int) -> None:
    assert not _violated(adjacency, gdp, 3000, rows)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [halve_the_noise, _halve_the_sensitivity, _forget_an_attribute])
@pytest.mark.parametrize(("adjacency", "gdp"), CASES)
def test_cheaper_slices_are_found(
    adjacency: Adjacency, gdp: int, cheat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheat(monkeypatch)
    assert _violated(adjacency, gdp, 3000)


@pytest.mark.slow
def test_the_price_of_an_emptied_row_is_too_low_where_one_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _charge_an_emptied_row(monkeypatch)
    assert _violated("replace_one", 1, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_the_lower_bound_comes_near_the_promise(adjacency: Adjacency) -> None:
    """A lower bound on mu, sure at 95 %, from the errors of the best test at its middle threshold; and the
    epsilon of that mu beside the epsilon of the price.
    """
    null, alt, rho = _scores(adjacency, 1, 8000)
    threshold = (np.median(null) + np.median(alt)) / 2
    false = beta.ppf(0.975, (null > threshold).sum() + 1, (null <= threshold).sum())
    missed = beta.ppf(0.975, (alt <= threshold).sum() + 1, (alt > threshold).sum())
    found, price = float(norm.isf(false) + norm.isf(missed)), math.sqrt(2 * rho)
    assert 0.85 * price <= found <= price
    assert 0.85 <= gdp_epsilon(found, 1e-5) / gdp_epsilon(price, 1e-5) <= 1.0
