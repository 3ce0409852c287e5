"""Canary audits: many runs on neighbouring tables try to tell them apart better than the claim allows.

The attacker is the strongest there is: it knows both tables and adds up the log-likelihood ratio of every
released marginal. An audit finds a violation when, with 99.9 % confidence on runs not used to pick the
threshold, its true positive rate at its false positive rate exceeds what the claim (rho or mu) allows.
Each audit is also run with the noise halved on purpose, and must then find the violation: an audit
that cannot fail proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, norm

import margrave.measure.mechanisms.gaussian as door
from margrave import Guarantee, Schema, Synthesizer, Unit
from margrave.models.independent import Independent
from margrave.privacy.unit import Adjacency
from margrave.select import (
    AIM,
    MST,
    AllKWay,
    AllPairs,
    Batched,
    PrivMRF,
    PrivSyn,
    ResidualPlanner,
    TopQ,
)

SIZES = {"a": 2, "b": 3, "c": 2}
EPSILON, DELTA = 8.0, 1e-5
STRATEGIES = {
    "independent": AllKWay(degree=1),
    "mst": MST(),
    "aim": AIM(rounds=6),
    "batched": Batched(),
    "auto": AllPairs(),
    "privsyn": PrivSyn(),
    "privmrf": PrivMRF(),
    "residual planner": ResidualPlanner(),
    "top q": TopQ(rounds=2, q=2, choosing=Fraction(1, 10)),
}
Table = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class World:
    """Two neighbouring tables and how they are protected."""

    without: Table
    canary: Table
    unit: Unit
    adjacency: Adjacency


def _base(rows: int = 60) -> Table:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.8, a, 2)
    return {"a": a, "b": b, "c": rng.integers(0, 2, rows)}


def _rows(codes: tuple[int, int, int], times: int) -> Table:
    return {name: np.full(times, code) for name, code in zip(SIZES, codes, strict=True)}


def _joined(first: Table, second: Table) -> Table:
    return {name: np.concatenate([first[name], second[name]]) for name in first}


def _world(adjacency: Adjacency, k: int) -> World:
    base, canary, plain = _base(), _rows((1, 2, 1), k), _rows((0, 0, 0), k)
    tables = [base, _joined(base, canary)]
    if adjacency == "replace_one":
        tables = [_joined(base, plain), _joined(base, canary)]
    if k > 1:
        owner = np.arange(len(base["a"]))
        tables = [t | {"id": np.append(owner, np.full(len(t["a"]) - len(owner), 999))} for t in tables]
    return World(tables[0], tables[1], Unit("id", k) if k > 1 else Unit(), adjacency)


def _counts(table: Table, clique: tuple[str, ...]) -> NDArray[np.float64]:
    shape = tuple(SIZES[name] for name in clique)
    counts = np.zeros(shape)
    np.add.at(counts, tuple(table[name] for name in clique), 1)
    return counts


def _evidence(world: World, table: Table, strategy: Any) -> tuple[float, Guarantee]:
    """The log-likelihood ratio of one run's Gaussian releases, and the claim."""
    synthesizer = Synthesizer(
        epsilon=EPSILON,
        delta=DELTA,
        unit=world.unit,
        adjacency=world.adjacency,
        schema=Schema.from_sizes(SIZES),
        select=strategy,
        model=Independent(),
    )
    synthesis = synthesizer.fit(pa.table(table))
    total = 0.0
    for m in synthesis.measurements:
        low, high = _counts(world.without, m.clique), _counts(world.canary, m.clique)
        total += float(((m.values - (low + high) / 2) * (high - low) / m.sigmas**2).sum())
    return total, synthesis.guarantee


def _allowed(false_rate: float, rho: float) -> float:
    """The largest true positive rate of a Gaussian mechanism of the claimed rho.

    Exactly what a claim under GDP allows. Under zCDP the claim allows more; the attack sees only the
    Gaussian answers, whose share of rho no honest run exceeds, so the tighter curve is asked for.
    """
    return float(norm.sf(norm.isf(false_rate) - np.sqrt(2 * rho)))


def _violated(world: World, strategy: Any, runs: int) -> bool:
    pairs = [[_evidence(world, t, strategy) for _ in range(runs)] for t in (world.without, world.canary)]
    null, alt = (np.array([score for score, _ in side]) for side in pairs)
    return told_apart(null, alt, pairs[0][0][1].rho)


def told_apart(null: NDArray[np.float64], alt: NDArray[np.float64], rho: float) -> bool:
    """Whether scores of runs on two neighbours separate them better than rho allows: [runs] each."""
    runs = len(null)
    half = runs // 2
    # Scores of whole numbers tie, so that a bar of the one side alone may stand where many of it are equal.
    bars = [
        *np.quantile(null[:half], np.linspace(0.5, 0.98, 17)),
        *np.quantile(alt[:half], np.linspace(0.02, 0.5, 17)),
    ]
    excess = {
        t: (alt[:half] >= t).mean() - _allowed(max(float((null[:half] >= t).mean()), 2 / half), rho)
        for t in bars
    }
    bar = max(excess, key=lambda t: (excess[t], t))  # of equals the one that fewest pass by chance
    rest = runs - half
    false, true = int((null[half:] >= bar).sum()), int((alt[half:] >= bar).sum())
    false_high = float(beta.ppf(0.9995, false + 1, rest - false)) if false < rest else 1.0
    true_low = float(beta.ppf(0.0005, true, rest - true + 1)) if true else 0.0
    return true_low > _allowed(false_high, rho)


def halve_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("discrete_gaussian", "rounded_gaussian"):
        honest = getattr(door, name)

        def cheat(variance: Fraction, size: int, source: Any, honest: Any = honest) -> Any:
            return honest(variance / 4, size, source)

        monkeypatch.setattr(door, name, cheat)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_audit_of_one_ways(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    world = _world(adjacency, 1)
    assert not _violated(world, STRATEGIES["independent"], 800)
    halve_the_noise(monkeypatch)
    assert _violated(world, STRATEGIES["independent"], 800)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", sorted(STRATEGIES))
def test_no_violation_is_found(method: str, adjacency: Adjacency, k: int) -> None:
    assert not _violated(_world(adjacency, k), STRATEGIES[method], 2000)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", sorted(STRATEGIES))
def test_halved_noise_is_found(
    method: str, adjacency: Adjacency, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    halve_the_noise(monkeypatch)
    assert _violated(_world(adjacency, k), STRATEGIES[method], 2000)


@pytest.mark.slow
def test_an_owner_who_is_not_capped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve rows of one owner under a cap of three, with the cap left out on purpose."""
    from margrave.engines.memory import MemorySource

    base, canary = _base(), _rows((1, 2, 1), 12)
    owner = np.arange(60)
    first = base | {"id": owner}
    second = _joined(base, canary) | {"id": np.append(owner, np.full(12, 999))}
    world = World(first, second, Unit("id", 3), "add_remove")
    honest = MemorySource.bound_owners
    monkeypatch.setattr(MemorySource, "bound_owners", lambda self, name, k: honest(self, name, 100))
    assert _violated(world, STRATEGIES["independent"], 400)
