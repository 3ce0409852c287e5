"""PrivMRF's graph, its useful marginals, its first choice and what it spends."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.privacy.accounting.accountants import GDP
from margrave.schema.domain import Domain
from margrave.select.privmrf import (
    PrivMRF,
    chordal_cliques,
    correlation,
    first_marginals,
    grown,
    useful_subsets,
)
from margrave.select.strategy import NOISE_L1

SIZES = {"a": 4, "b": 3, "c": 5, "d": 3, "e": 2}


def chain(rows=4000, seed=0):
    """a - b - c - d in a row, e apart."""
    rng = np.random.default_rng(seed)
    columns = {"a": rng.integers(0, 4, rows)}
    for before, name in zip("abc", "bcd", strict=True):
        noise = rng.random(rows) < 0.15
        columns[name] = np.where(noise, rng.integers(0, SIZES[name], rows), columns[before] % SIZES[name])
    columns["e"] = rng.integers(0, 2, rows)
    return pa.table(columns)


def is_chordal(graph):
    """By taking away attributes whose neighbours are all tied."""
    left = set(range(len(graph)))
    while left:
        free = [
            v
            for v in left
            if all(graph[u, w] for u, w in itertools.combinations([u for u in left if graph[v, u]], 2))
        ]
        if not free:
            return False
        left.discard(free[0])
    return True


@pytest.mark.parametrize("seed", range(8))
def test_the_graph_is_chordal_and_within_its_limits(seed):
    rng = np.random.default_rng(seed)
    worth = rng.exponential(0.1, size=(9, 9)) * (rng.random((9, 9)) < 0.5)
    worth = np.triu(worth, 1) + np.triu(worth, 1).T
    sizes = rng.integers(2, 9, 9).tolist()
    graph = grown(worth, sizes, 1e-8, 3000.0, 600.0)
    assert (graph == graph.T).all()
    assert is_chordal(graph)
    cliques = chordal_cliques(graph, sizes)
    cells = [math.prod(sizes[v] for v in clique) for clique in cliques]
    assert max(cells) <= 600
    assert sum(cells) <= 3000
    for clique in cliques:
        assert all(graph[u, w] for u, w in itertools.combinations(clique, 2))
    tied = {edge for clique in cliques for edge in itertools.combinations(clique, 2)}
    assert tied == {tuple(edge) for edge in np.argwhere(np.triu(graph)).tolist()}
    assert not any(set(one) < set(two) for one in cliques for two in cliques)


def test_every_edge_is_taken_where_cells_cost_nothing_and_none_where_they_cost_too_much():
    worth = np.ones((6, 6)) - np.eye(6)
    assert chordal_cliques(grown(worth, [2] * 6, 0.0, 1e9, 1e9), [2] * 6) == [tuple(range(6))]
    assert grown(worth, [3] * 6, 10.0, 1e9, 1e9).sum() == 0
    assert grown(-worth, [2] * 6, 1e-8, 1e9, 1e9).sum() == 0


def test_the_graph_of_a_chain_holds_the_chain():
    bought = []
    for seed in range(3):
        synthesis = mg.Synthesizer(
            select=PrivMRF(seed=seed), model="pgm", epsilon=100.0, schema=mg.Schema.from_sizes(SIZES)
        ).fit(chain())
        bought.append({m.clique for m in synthesis.measurements})
        for pair in zip("abc", "bcd", strict=True):
            assert any(set(pair) <= set(clique) for clique in bought[-1]), pair
    assert len(bought) == 3


def test_all_of_rho_is_spent_and_each_share_is_as_stated():
    synthesis = mg.Synthesizer("privmrf", epsilon=2.0, schema=mg.Schema.from_sizes(SIZES)).fit(chain())
    total = Fraction(synthesis.guarantee.rho)
    cost = {"errors": Fraction(0), "marginal": Fraction(0)}
    looks = []
    for event in synthesis.release.events:
        own = Fraction(event.l2_squared) / (2 * event.sigma_squared)
        cost[event.what.split()[0]] += own
        if event.what.startswith("errors"):
            looks.append(float(own / total))
    assert looks[0] == pytest.approx(0.1, rel=1e-6)
    assert sum(looks[1:]) <= 0.1 * (1 + 1e-6)
    assert float(sum(cost.values()) / total) == pytest.approx(1.0, abs=1e-6)
    assert sum(cost.values()) <= total
    assert synthesis.guarantee.accounting == "gdp"


def test_the_papers_table_of_budgets_is_the_gaussian_mechanisms():
    mu_squared = 2 * float(GDP().total(1.0, Fraction(1, 100_000)))
    assert mu_squared == pytest.approx(0.0719, abs=1e-4)


def test_no_marginal_is_measured_that_noise_would_drown():
    strategy = PrivMRF()
    synthesis = mg.Synthesizer(
        select=strategy, model="pgm", epsilon=1.0, schema=mg.Schema.from_sizes(SIZES)
    ).fit(chain())
    several = [m for m in synthesis.measurements if len(m.clique) > 1]
    assert several
    rows = synthesis.model.total
    ledger = Fraction(synthesis.guarantee.rho)
    each = ledger * Fraction(8, 10) / 9 * Fraction(99, 100)
    sigma = 1 / math.sqrt(2 * float(each))
    for m in several:
        # The rule takes the plan's noise and the one-ways' rows; both within a few per cent of these.
        assert m.values.size * strategy.theta * sigma * NOISE_L1 <= 1.15 * rows


def test_useful_subsets_lie_in_cliques_and_weigh_what_they_should():
    domain = Domain.of(dict.fromkeys("abcde", 3))
    found = useful_subsets(domain, [("a", "b", "c"), ("c", "d")], 9.0, 6)
    assert set(found) == {("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")}
    assert found["a", "b"] == pytest.approx(9 / 3)
    assert found["c", "d"] == pytest.approx(4.0)
    assert set(useful_subsets(domain, [("a", "b", "c", "d", "e")], 1e9, 3)) == {
        c for k in (2, 3) for c in itertools.combinations("abcde", k)
    }
    assert useful_subsets(domain, [("a", "b")], 8.0, 6) == {}


def test_correlation_is_that_of_the_right_parents():
    """The public code takes positions 0 and 1 of the table for the pair of parents."""
    domain = Domain.of(dict.fromkeys("abcde", 3))
    scores = np.zeros((5, 5))
    for i, j, value in ((4, 2, 0.4), (4, 3, 0.5), (2, 3, 0.25), (0, 1, 9.0)):
        scores[i, j] = scores[j, i] = value
    assert correlation(domain, scores, "e", ("c", "d")) == pytest.approx(0.9 / math.sqrt(2.25))


def test_first_marginals_hold_the_strongest_ties():
    domain = Domain.of(dict.fromkeys("abcd", 4))
    scores = np.full((4, 4), 0.01)
    scores[0, 1] = scores[1, 0] = scores[2, 3] = scores[3, 2] = 0.6
    for seed in range(6):
        found = first_marginals(domain, [("a", "b", "c", "d")], scores, 16.0, np.random.default_rng(seed))
        assert ("a", "b") in found
        assert ("c", "d") in found
        assert len(found) == 4
        assert all(domain.size(c) <= 16 for c in found)


@pytest.mark.parametrize(
    "wrong", [{"theta": -1.0}, {"price": math.nan}, {"degree": 1}, {"ones": 0}, {"errors": Fraction(9, 10)}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        PrivMRF(**wrong)
