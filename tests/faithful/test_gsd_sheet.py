"""Private-GSD against its sheet: single edits, exact tables found again, and a ledger of pairs alone."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from faithful_door import chain

import margrave as mg
from margrave.models._base.pooling import pool, rows_of
from margrave.models._sampling.streams import fresh_state
from margrave.models.rowwise.genetic import (
    BEST,
    CROSS,
    MUTATE,
    OPERATORS,
    STEP,
    SWAP,
    Genetic,
    Search,
    Tables,
    search,
)
from margrave.models.rowwise.targets import STARTS, targets
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.unit import Adjacency
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain


def pooled(domain, measurements):
    return pool(domain, measurements), rows_of(measurements, None)


def known(domain: Domain, rows: int, seed: int) -> list[NoisyMarginal]:
    """All pairs of a table of so many rows, without noise."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, rows) for size in domain.sizes]
    found = []
    for pair in itertools.combinations(range(len(domain)), 2):
        table = np.zeros([domain.sizes[i] for i in pair])
        np.add.at(table, tuple(columns[i] for i in pair), 1)
        found.append(NoisyMarginal(tuple(domain.names[i] for i in pair), table, 1e-6))
    return found


@pytest.mark.parametrize("operator", [MUTATE, CROSS, SWAP, STEP, BEST])
def test_one_proposal_edits_one_code_or_swaps_two_in_a_column_and_never_loses(operator: int) -> None:
    domain = Domain(("a", "b", "c"), (3, 4, 2), (0, 4, 0))
    wanted = targets(domain, *pooled(domain, known(domain, 200, 1)))
    held = Search(wanted, STARTS["uniform"](wanted, 200, np.random.default_rng(0)))
    rows, tables = held._rows, held._tables
    assert isinstance(tables, Tables)
    odds, state = np.eye(OPERATORS)[operator], fresh_state(np.random.default_rng(2))
    edits, fitness = 0, held.fitness
    for _ in range(1500):
        before = rows.copy()
        tally = np.zeros((2, OPERATORS), np.int64)
        fell = search(rows, tables, odds, 1, tally, state)
        places = np.argwhere(rows != before)
        assert len(places) in ((0, 2) if operator == SWAP else (0, 1))
        if operator == SWAP and len(places):
            assert places[0, 1] == places[1, 1]
            assert sorted(rows[places[:, 0], places[0, 1]]) == sorted(before[places[:, 0], places[0, 1]])
        assert (fell > 0) == (len(places) > 0) == (tally[1, operator] > 0)
        assert held.fitness == pytest.approx(fitness - fell, rel=1e-9, abs=1e-6)
        fitness, edits = held.fitness, edits + (len(places) > 0)
    assert edits > 20


@pytest.mark.parametrize("start", ["uniform", "scattered"])
def test_the_tables_of_a_table_of_rows_are_reached(start: str) -> None:
    domain, rows = Domain(("a", "b", "c"), (2, 2, 2)), 40
    for seed in range(6):
        wanted = targets(domain, pool(domain, known(domain, rows, seed)), float(rows))
        found = Search(wanted, STARTS[start](wanted, rows, np.random.default_rng(100 + seed)))
        assert found.fitness > 0
        state = fresh_state(np.random.default_rng(seed))
        for _ in range(60):
            found.round(2000, state)
        assert found.fitness < 1e-6


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_all_of_rho_goes_to_marginals_and_the_search_costs_nothing(adjacency: Adjacency) -> None:
    sizes = {"a": 3, "b": 4, "c": 2}
    synthesis = mg.Synthesizer(
        "private_gsd",
        epsilon=1.0,
        adjacency=adjacency,
        schema=mg.Schema.from_sizes(sizes),
        model=Genetic(rows=300, rounds=3),
    ).fit(chain(sizes, 300))
    events = synthesis.release.events
    assert len(events) == len(synthesis.measurements) == 6
    assert all(isinstance(event, GaussianEvent) for event in events)
    costs = [event_rho(event) for event in events]
    assert float(sum(costs, Fraction(0))) == pytest.approx(synthesis.guarantee.rho, rel=1e-6)
    assert sum(costs, Fraction(0)) <= Fraction(synthesis.guarantee.rho) * (1 + Fraction(1, 10**9))
    pairs = [float(c) for c, m in zip(costs, synthesis.measurements, strict=True) if len(m.clique) == 2]
    assert pairs == pytest.approx([0.3 * synthesis.guarantee.rho] * 3, rel=1e-6)
