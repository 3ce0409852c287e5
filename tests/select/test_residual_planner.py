"""ResidualPlanner's design: optimal, near the mechanism that penalties residuals, and exact in what it
spends."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.schema.domain import Domain
from margrave.select.residual_planner import ResidualPlanner, best_design, planner_bound
from margrave.select.strategy import closure

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 8, "d": 20})
PAIRS = dict.fromkeys(itertools.combinations(DOMAIN.names, 2), 1.0)


def variance(shares, workload, known=None):
    """The workload's variance by its definition, from the least-squares estimate of each residual."""
    total = 0.0
    for clique, weight in workload.items():
        for k in range(len(clique) + 1):
            for part in itertools.combinations(clique, k):
                precision = sum(
                    share / math.prod(DOMAIN[n] for n in c if n not in part)
                    for c, share in [*shares.items(), *(known or {}).items()]
                    if set(part) <= set(c)
                )
                inside = math.prod((DOMAIN[n] - 1) / DOMAIN[n] for n in part)
                outside = math.prod(DOMAIN[n] for n in clique if n not in part)
                total += weight * DOMAIN.size(clique) * inside / outside**2 / precision
    return total


@pytest.mark.parametrize("known", [None, {("c",): 0.7, ("a",): 3.0}])
def test_no_other_shares_do_better(known):
    marginals = closure(list(PAIRS), DOMAIN)
    found = best_design(DOMAIN, PAIRS, marginals, known)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.gap <= 1e-4
    assert found.variance == pytest.approx(variance(found.shares, PAIRS, known), rel=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(100):
        push = rng.exponential(size=len(marginals))
        for far in (0.01, 0.2, 1.0):
            mixed = {
                c: (1 - far) * share + far * p / push.sum()
                for (c, share), p in zip(found.shares.items(), push, strict=True)
            }
            assert variance(mixed, PAIRS, known) >= found.variance * (1 - 1e-4)


def test_whole_marginals_come_near_the_mechanism_of_residuals():
    ones = {(name,): 1.0 for name in DOMAIN.names}
    for workload in (PAIRS, {("c", "d"): 1.0}, {("b", "c", "d"): 1.0, ("a", "d"): 2.0}):
        found = best_design(DOMAIN, workload, closure(list(workload), DOMAIN)).variance
        assert planner_bound(DOMAIN, workload) <= found * (1 + 1e-4)
        assert found <= 1.25 * planner_bound(DOMAIN, workload)
    alike = {pair: 1 / len(PAIRS) for pair in PAIRS}
    assert best_design(DOMAIN, PAIRS, closure(list(PAIRS), DOMAIN)).variance < 0.9 * variance(alike, PAIRS)
    assert best_design(DOMAIN, ones, list(ones)).variance >= planner_bound(DOMAIN, ones)


def test_a_marginal_costs_what_all_its_residuals_cost():
    """The sum over T of p_T / cells of the others is 1, p_T = prod (n - 1) / n: under add_remove."""
    for clique in closure([("a", "b", "c", "d")], DOMAIN):
        cost = sum(
            math.prod((DOMAIN[n] - 1) / DOMAIN[n] for n in part)
            / math.prod(DOMAIN[n] for n in clique if n not in part)
            for k in range(len(clique) + 1)
            for part in itertools.combinations(clique, k)
        )
        assert cost == pytest.approx(1.0)


def people():
    rng = np.random.default_rng(0)
    return pa.table({name: rng.integers(0, DOMAIN[name], 2000) for name in DOMAIN.names})


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_shares_are_bought_as_designed(adjacency):
    schema = mg.Schema.from_sizes({name: DOMAIN[name] for name in DOMAIN.names})
    synthesis = mg.Synthesizer(
        select=ResidualPlanner(), model="residual", epsilon=1.0, schema=schema, adjacency=adjacency
    ).fit(people())
    weights = {pair: 1.0 / DOMAIN.size(pair) for pair in PAIRS}
    wanted = best_design(DOMAIN, weights, closure(list(PAIRS), DOMAIN)).shares
    rho = synthesis.guarantee.rho
    squared = 2.0 if adjacency == "replace_one" else 1.0
    bought = {m.clique: squared / (2 * rho * (m.sigma**2 - 1 / 12)) for m in synthesis.measurements}
    assert sum(bought.values()) == pytest.approx(1.0, rel=1e-5)
    for clique, share in bought.items():
        assert share == pytest.approx(wanted[clique], rel=1e-3, abs=1e-5)
    assert set(bought) >= set(PAIRS)


def test_a_workload_of_ones_own_is_followed_and_wrong_ones_are_refused():
    schema = mg.Schema.from_sizes({name: DOMAIN[name] for name in DOMAIN.names})
    own = ResidualPlanner(workload={("d", "a"): 2.0, ("b",): 1.0})
    synthesis = mg.Synthesizer(select=own, model="residual", epsilon=1.0, schema=schema).fit(people())
    assert {m.clique for m in synthesis.measurements} <= {("a",), ("b",), ("d",), ("a", "d")}
    with pytest.raises(InputError, match="degree"):
        ResidualPlanner(degree=0)
    with pytest.raises(InputError, match="workload"):
        ResidualPlanner(workload={("a",): 0.0})
    with pytest.raises(InputError, match="workload"):
        mg.Synthesizer(
            select=ResidualPlanner(max_clique_cells=3), model="residual", epsilon=1.0, schema=schema
        ).fit(people())
