"""PrivSyn's choice of pairs: InDif and its sensitivity, DenseMarg, combining, and the split of rho."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.models.rowwise.gum import GUM
from margrave.schema.domain import Domain
from margrave.select.privsyn import PrivSyn, combine_pairs, dense
from margrave.select.strategy import CELLS_POWER, NOISE_L1


def indif(table):
    """The paper's score on exact counts."""
    rows = table.sum()
    apart = np.outer(table.sum(axis=1), table.sum(axis=0)) / rows if rows else 0.0
    return float(np.abs(table - apart).sum())


def test_the_papers_score_moves_by_up_to_4_and_6_and_never_more():
    rng, largest = np.random.default_rng(0), {"add_remove": 0.0, "replace_one": 0.0}
    for _ in range(4000):
        shape = tuple(rng.integers(2, 5, size=2))
        table = rng.integers(0, int(rng.choice([2, 5, 40])), size=shape).astype(float)
        table[0, 0] += 1
        cells = list(np.ndindex(shape))
        cell, other = (cells[i] for i in rng.integers(0, len(cells), size=2))
        more = table.copy()
        more[cell] += 1
        largest["add_remove"] = max(largest["add_remove"], abs(indif(more) - indif(table)))
        if table[other]:
            swapped = more.copy()
            swapped[other] -= 1
            moved = abs(indif(swapped) - indif(table))
            assert moved <= 6 + 4 / table.sum() + 1e-9
            largest["replace_one"] = max(largest["replace_one"], moved)
    assert largest["add_remove"] < 4
    assert largest["replace_one"] > 2


def test_tables_on_which_one_row_moves_the_papers_score_by_nearly_4_and_6():
    table = np.diag([1000.0, 1.0])
    more = np.diag([1000.0, 2.0])
    assert 3.98 < indif(more) - indif(table) < 4
    table = np.array([[1e6, 1499.0, 0.0], [1499.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    swapped = table + np.array([[0, 0, 0], [0, -1, 0], [0, 0, 1]])
    assert 5.9 < indif(swapped) - indif(table) < 6 + 4 / table.sum()


def test_densemarg_chooses_what_lowers_the_sum_most():
    domain = Domain.of({"a": 4, "b": 3, "c": 5, "d": 2})
    pairs = list(itertools.combinations(domain.names, 2))
    rng = np.random.default_rng(2)
    sigma = 12.0

    def objective(chosen, errors):
        whole = sum(domain.size(pair) ** CELLS_POWER for pair in chosen)
        return NOISE_L1 * sigma * whole**1.5 + sum(e for p, e in errors.items() if p not in chosen)

    for _ in range(20):
        errors = dict(zip(pairs, (rng.exponential(200, len(pairs))).tolist(), strict=True))
        chosen = dense(domain, errors, sigma)
        left = [pair for pair in pairs if pair not in chosen]
        value = objective(chosen, errors)
        assert all(objective([*chosen, pair], errors) >= value - 1e-9 for pair in left)
        for k in range(len(chosen)):
            steps = [objective([*chosen[:k], pair], errors) for pair in pairs if pair not in chosen[:k]]
            assert objective(chosen[: k + 1], errors) == pytest.approx(min(steps))
    assert dense(domain, dict.fromkeys(pairs, -1.0), sigma) == []
    assert dense(domain, dict.fromkeys(pairs, 1e9), sigma, lambda chosen, more: "a" not in more) == [
        pair for pair in sorted(pairs, key=domain.size) if "a" not in pair
    ]


def test_the_split_by_two_thirds_powers_has_the_least_noise():
    cells = np.array([6.0, 40.0, 1000.0, 90.0])

    def noise(weights):
        return float((cells / np.sqrt(weights / weights.sum())).sum())

    best = noise(cells**CELLS_POWER)
    rng = np.random.default_rng(0)
    assert noise(np.ones(4)) > 1.05 * best
    assert all(noise(cells**CELLS_POWER * rng.uniform(0.5, 2.0, 4)) >= best for _ in range(100))


def test_combining_takes_larger_cliques_first_and_keeps_every_pair():
    domain = Domain.of(dict.fromkeys("abcdef", 3))
    pairs = [*itertools.combinations("abcd", 2), ("d", "e"), ("e", "f"), ("d", "f")]
    found = combine_pairs(domain, pairs, 5000)
    assert found == [("a", "b", "c", "d"), ("d", "e", "f")]
    assert combine_pairs(domain, pairs, 28) == [
        ("a", "b", "c"), ("a", "b", "d"), ("d", "e", "f"), ("c", "d"),
    ]  # fmt: skip
    assert combine_pairs(domain, pairs, 1) == pairs
    assert combine_pairs(domain, [], 5000) == []
    for gamma in (10, 28, 100, 5000):
        held = combine_pairs(domain, pairs, gamma)
        assert all(any(set(pair) <= set(clique) for clique in held) for pair in pairs)


def people(rows=3000):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, rows)
    b = (a + (rng.random(rows) < 0.1)) % 4
    return pa.table({"a": a, "b": b, "c": rng.integers(0, 5, rows), "d": (b + a) % 3})


SIZES = {"a": 4, "b": 4, "c": 5, "d": 3}


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_dependent_columns_are_measured_together(adjacency):
    strategy = PrivSyn()
    schema = mg.Schema.from_sizes(SIZES)
    synthesis = mg.Synthesizer(
        select=strategy, model="gum", epsilon=1.0, adjacency=adjacency, schema=schema
    ).fit(people())
    bought = [m.clique for m in synthesis.measurements if len(m.clique) > 1]
    assert bought[0] == ("a", "b", "d")
    assert synthesis.guarantee.accounting == "gdp"
    table = people()
    counts = np.zeros((4, 4))
    np.add.at(counts, (table["a"].to_numpy(), table["b"].to_numpy()), 1)
    assert np.abs(synthesis.marginal("a", "b") - counts).sum() / 6000 < 0.1


def test_shares_of_rho_are_as_stated():
    schema = mg.Schema.from_sizes(SIZES)
    synthesizer = mg.Synthesizer(select=PrivSyn(gamma=1), model=GUM(), epsilon=3.0, schema=schema)
    synthesis = synthesizer.fit(people())
    total = Fraction(synthesis.guarantee.rho)
    costs = [Fraction(event.l2_squared) / (2 * event.sigma_squared) for event in synthesis.release.events]
    names = [event.what for event in synthesis.release.events]
    scores = sum(c for c, n in zip(costs, names, strict=True) if n.startswith("errors"))
    ones = sum(c for c, n in zip(costs, names, strict=True) if n.startswith("marginal") and " x " not in n)
    assert float(scores / total) == pytest.approx(0.1, abs=1e-6)
    assert float(ones / total) == pytest.approx(0.1, abs=1e-6)
    assert float(sum(costs) / total) == pytest.approx(1.0, abs=1e-6)
    rest = {
        m.clique: m.sigma * mg.Schema.from_sizes(SIZES).domain.size(m.clique) ** (1 / 3)
        for m in synthesis.measurements
        if len(m.clique) == 2
    }
    assert max(rest.values()) == pytest.approx(min(rest.values()), rel=1e-3)


def test_shares_that_leave_nothing_are_refused():
    for ones, scores in ((0, 0.1), (0.1, 0), (0.5, 0.5)):
        with pytest.raises(InputError, match="shares"):
            PrivSyn(ones=Fraction(ones), scores=Fraction(scores))
