"""Shares of rho: nearly equal ones are measured together where there are many, and cost what they did."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.measure.curator import Curator
from margrave.schema.domain import Clique
from margrave.select import strategy
from margrave.select.strategy import apportion_rho, measure_shares


class _Asked:
    """Takes note of what would be measured, and for how much."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[Clique], Fraction]] = []

    def measure(self, cliques: Sequence[Clique], rho: Fraction) -> None:
        self.calls.append((list(cliques), rho))


def _shares(count: int) -> dict[Clique, Fraction]:
    rng = np.random.default_rng(0)
    names = [f"c{k}" for k in range(200)]
    pairs = list(combinations(names, 2))[:count]
    return apportion_rho(
        dict(zip(pairs, rng.uniform(0.01, 1.0, count).tolist(), strict=True)), Fraction(3, 7)
    )


def test_few_are_measured_one_by_one() -> None:
    shares, asked = _shares(500), _Asked()
    measure_shares(asked, shares)  # type: ignore[arg-type]
    assert asked.calls == [([clique], share) for clique, share in shares.items()]


def test_many_are_measured_in_groups_of_nearly_one_share() -> None:
    shares, asked = _shares(5000), _Asked()
    measure_shares(asked, shares)  # type: ignore[arg-type]
    assert len(asked.calls) < 8 * 8
    assert sorted(clique for cliques, _ in asked.calls for clique in cliques) == sorted(shares)
    assert sum(shares.values()) == Fraction(3, 7)
    spent = sum(len(cliques) * rho for cliques, rho in asked.calls)
    assert (1 - Fraction(2, 10**9)) * Fraction(3, 7) <= spent <= Fraction(3, 7)
    for cliques, rho in asked.calls:
        off = [float(shares[clique] / rho) for clique in cliques]
        assert 2.0 ** (-1 / 8) <= min(off) <= max(off) <= 2.0 ** (1 / 8)


def test_auto_asks_few_questions_about_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question a pair took a record on disk each: that is what took minutes on wide tables."""
    monkeypatch.setattr(strategy, "MAX_QUESTIONS", 20)
    sizes = {f"c{k}": 3 for k in range(12)}
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, 3, 30_000) for name in sizes})
    calls: list[int] = []
    measure = Curator.measure

    def counted(self: Curator, cliques: Any, rho: Any) -> Any:
        calls.append(len(cliques))
        return measure(self, cliques, rho)

    monkeypatch.setattr(Curator, "measure", counted)
    found = mg.Synthesizer("auto", epsilon=5.0, schema=mg.Schema.from_sizes(sizes), max_seconds=1e-3).fit(
        table
    )
    assert sum(calls) == len(found.measurements)
    assert sum(calls) >= 66 + 12
    assert len(calls) < 66
    assert found.guarantee.epsilon == 5.0
