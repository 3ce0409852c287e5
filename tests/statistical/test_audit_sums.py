"""Audits of sums of products: canaries that move them furthest, and the twin audit of a whole `Regressor`.

The canary's row has every number at its end, so that zz' is as long as a row's can be; under replace_one it
takes the place of a row that is orthogonal to it. The attacker adds up the log-likelihood ratio of all sums
of one answer that takes the whole budget. With the noise halved, half the sensitivity, or an attribute left
out of the bound on rows, the audit must find the violation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, norm
from test_audit import halve_the_noise, told_apart
from twin_runs import audited
from twins import Run

import margrave.measure.mechanisms.regression.sums as door
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.run.regressor import Regressor
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema

NUMBERS = RowNumbers(("a", "b"), (np.array([[1.0, 1.0]] * 2), np.array([[1.0, -1.0]] * 2)), constant=False)
"""Rows of b = 0 and of b = 1 have orthogonal vectors of the same length."""
CASES = [(adjacency, k, gdp) for adjacency in ("add_remove", "replace_one") for k in (1, 3) for gdp in (0, 1)]
PLAIN = 20


def _codes(adjacency: Adjacency, k: int, canary: bool) -> NDArray[np.int64]:
    extra = [1] * k if canary else [0] * k if adjacency == "replace_one" else []
    return np.array([0] * PLAIN + extra, dtype=np.int64)


def _truth(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    vectors = np.hstack([np.ones((len(codes), 2)), np.repeat(1.0 - 2.0 * codes[:, None], 2, axis=1)])
    return np.asarray(vectors.T @ vectors)


def _answers(adjacency: Adjacency, k: int, gdp: int, canary: bool) -> tuple[NDArray[np.float64], float]:
    """What one run releases, off-diagonal and diagonal entries in units of their noise, and rho."""
    codes = _codes(adjacency, k, canary)
    columns = {"a": np.zeros_like(codes), "b": codes}
    unit = Unit()
    if k > 1:
        unit = Unit("id", k)
        columns["id"] = np.concatenate([np.arange(PLAIN), np.full(len(codes) - PLAIN, 999)])
    ledger = Ledger(
        epsilon=8.0, delta=1e-5, neighbours=Neighbours(unit, adjacency), accountant=GDP() if gdp else ZCDP()
    )
    curator = Curator(open_source(pa.table(columns))[0], ledger)
    curator.discover(Schema.from_sizes({"a": 2, "b": 2}))
    return _weighted(curator.sums(NUMBERS, ledger.total).values), float(ledger.total)


def _weighted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    upper = np.triu_indices(len(values))
    return np.asarray(values[upper] * np.where(upper[0] == upper[1], 2.0, 3.0))


def _scores(adjacency: Adjacency, k: int, gdp: int, runs: int) -> tuple[Any, Any, float]:
    low, high = (_weighted(_truth(_codes(adjacency, k, canary))) for canary in (False, True))
    sides = [[_answers(adjacency, k, gdp, canary) for _ in range(runs)] for canary in (False, True)]
    null, alt = (np.array([float((found - low) @ (high - low)) for found, _ in side]) for side in sides)
    return null, alt, sides[0][0][1]


def _violated(adjacency: Adjacency, k: int, gdp: int, runs: int) -> bool:
    return told_apart(*_scores(adjacency, k, gdp, runs))


def _halve_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = door.Gaussian
    monkeypatch.setattr(door, "Gaussian", lambda book, bits, squared: honest(book, bits, squared // 4))


def _forget_an_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on rows that leaves all but the first column out."""
    honest = door.bound_rows
    monkeypatch.setattr(door, "bound_rows", lambda matrices: honest(matrices[:1]))


def test_the_audit_of_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _violated("add_remove", 1, 0, 300)
    _halve_the_sensitivity(monkeypatch)
    assert _violated("add_remove", 1, 0, 300)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_no_violation_of_sums_is_found(adjacency: Adjacency, k: int, gdp: int) -> None:
    assert not _violated(adjacency, k, gdp, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [halve_the_noise, _halve_the_sensitivity, _forget_an_attribute])
@pytest.mark.parametrize(("adjacency", "k", "gdp"), CASES)
def test_cheaper_sums_are_found(
    adjacency: Adjacency, k: int, gdp: int, cheat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheat(monkeypatch)
    assert _violated(adjacency, k, gdp, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_canary_comes_near_what_is_promised(adjacency: Adjacency) -> None:
    """The lower bound on mu at 95 % confidence is near mu: the sensitivity is reached."""
    null, alt, rho = _scores(adjacency, 1, 1, 4000)
    bar = float((null.mean() + alt.mean()) / 2)
    false_high = float(beta.ppf(0.975, (null >= bar).sum() + 1, (null < bar).sum()))
    true_low = float(beta.ppf(0.025, (alt >= bar).sum(), (alt < bar).sum() + 1))
    found = norm.isf(false_high) - norm.isf(true_low)
    assert 0.85 <= found / np.sqrt(2 * rho) <= 1.0


COLUMNS = {"age": 6, "ward": 4, "pay": 5}


def _pair(adjacency: Adjacency, k: int, odd: tuple[int, int, int]) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(3)
    shared = rng.integers(0, list(COLUMNS.values()), (200, 3)).tolist()
    mine, other = [list(odd)] * max(k, 1), [[0, 0, 0]] * (max(k, 1) if adjacency == "replace_one" else 0)
    owners = list(range(200))
    found = []
    for rows in (shared + other, shared + mine):
        table = pa.table(dict(zip(COLUMNS, np.array(rows).T, strict=True)))
        own = owners + [999] * (len(rows) - 200)
        found.append(table.append_column("who", pa.array(own)) if k else table)
    return found[0], found[1]


def _findings(adjacency: Adjacency, k: int) -> list[str]:
    """What the twin audit of a whole regression shows that no event pays for."""

    def run(data: pa.Table) -> Run:
        def fit(on_step: Any) -> Any:
            unit = Unit("who", k) if k else Unit()
            options = {"epsilon": 8.0, "delta": 1e-6, "schema": Schema.from_sizes(COLUMNS)}
            made = Regressor(
                target="pay", encodings="ranks", unit=unit, adjacency=adjacency, on_step=on_step, **options
            )
            return made.fit(data).estimates.tolist()

        return fit

    pairs = [_pair(adjacency, k, odd) for odd in ((5, 3, 4), (0, 3, 0), (2, 1, 2))]
    found = []
    for one, two in pairs:
        tape, differences = audited(run(one), run(two), rows=200 + max(k, 1))
        assert tape.error is None
        found += differences
    return found


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_a_regression_loses_no_more_than_it_declares(adjacency: Adjacency, k: int) -> None:
    assert _findings(adjacency, k) == []


def _count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares weigh three times as much as the proof says."""
    monkeypatch.setattr(door, "ON", 6)


def _ask_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact count, asked beside the ledger."""
    honest = Curator.sums

    def sums(self: Any, numbers: RowNumbers, rho: Any) -> Any:
        self._counts([("age",)])
        return honest(self, numbers, rho)

    monkeypatch.setattr(Curator, "sums", sums)


@pytest.mark.parametrize(
    "fault", [_halve_the_sensitivity, _forget_an_attribute, _count_twice, _ask_for_nothing]
)
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert _findings("add_remove", 0) != []
