"""Multiplicative weights: the update in closed form, what it lowers, parts, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import InputError
from margrave.limits import Deadline, Effort
from margrave.models.pgm.multiplicative_weights import PMW, group_attributes, update_weights
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))


def joint(seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(24, 0.6)).reshape(DOMAIN.sizes)


def over(table, clique):
    return table.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))


def test_one_update_is_the_papers():
    """A'(x) = A(x) exp(q(x) (m - q(A)) eta) / Z for each cell's indicator q, all disjoint."""
    weights, shares = joint(), np.array([[0.2, 0.1, 0.1], [0.3, 0.2, 0.1]])
    now = over(weights, ("a", "b"))
    found = update_weights(weights, DOMAIN.names, ("a", "b"), shares, 0.5)
    expected = weights * np.exp(0.5 * (shares - now) / now.max())[:, :, None]
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-12)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_every_update_lowers_the_relative_entropy_to_the_truth(rate):
    truth, weights = joint(1), np.full(DOMAIN.sizes, 1 / 24)
    for turn in range(60):
        clique = [("a", "b"), ("b", "c"), ("a", "c")][turn % 3]
        before = float((truth * np.log(truth / weights)).sum())
        error = np.abs(over(weights, clique) - over(truth, clique)).sum()
        weights = update_weights(weights, DOMAIN.names, clique, over(truth, clique), rate)
        after = float((truth * np.log(truth / weights)).sum())
        assert after <= before + 1e-12
        # A quadratic fall, by the descent lemma for relative entropy.
        assert before - after >= 0.3 * rate * error**2 / 4 / len(over(truth, clique).ravel()) - 1e-9


def test_without_noise_all_marginals_are_met():
    domain = Domain(("x", "y", "z"), (2, 2, 2))
    truth = np.random.default_rng(2).dirichlet(np.ones(8)).reshape(2, 2, 2)
    tables = [
        NoisyMarginal(clique, 1000 * truth.sum(axis=gone), 0.01)
        for clique, gone in ((("x", "y"), 2), (("y", "z"), 0), (("x", "z"), 1))
    ]
    far = []
    for passes in (4, 40, 400):
        model = PMW(passes=passes).fit(domain, tables)
        far.append(max(float(np.abs(model.project(m.clique) - m.values).max()) for m in tables))
    assert far[0] > far[1] > far[2]
    assert far[2] < 1.0


def test_the_answer_is_an_average_and_not_the_last_weights():
    tables = [NoisyMarginal(("a", "b"), 100 * over(joint(), ("a", "b")), 1.0)]
    tables.append(NoisyMarginal(("b", "c"), 100 * over(joint(3), ("b", "c")), 1.0))  # contradicts it on b
    model = PMW(passes=4).fit(DOMAIN, tables, total=100.0)
    weights, kept = np.full(DOMAIN.sizes, 1 / 24), []
    for turn in range(4):
        for m in tables:
            weights = update_weights(weights, DOMAIN.names, m.clique, m.values / 100, 1.0)
        if turn >= 2:
            kept.append(weights)
    np.testing.assert_allclose(model.project(DOMAIN.names) / 100, np.mean(kept, axis=0), atol=1e-9)
    assert np.abs(model.project(DOMAIN.names) / 100 - weights).max() > 1e-5


def test_attributes_that_nothing_ties_are_independent_and_small_parts_are_enough():
    domain = Domain(tuple("abcdef"), (30, 30, 30, 30, 30, 30))
    rng = np.random.default_rng(0)
    tables = [NoisyMarginal(c, rng.uniform(0, 2, (30, 30)), 1.0) for c in (("a", "b"), ("c", "e"))]
    model = PMW(passes=20).fit(domain, tables)
    assert group_attributes(domain, [("a", "b"), ("c", "e")]) == [("a", "b"), ("c", "e")]
    one, two = model.project(("a",)), model.project(("c",))
    np.testing.assert_allclose(model.project(("a", "c")), np.outer(one, two) / model.total, atol=1e-8)
    with pytest.raises(InputError, match="cells"):
        PMW().admit(domain, list(itertools.combinations(domain.names, 2)))
    sizes = PMW().cells(domain, [("a", "b"), ("c", "e")], [("a", "b"), ("b", "c"), ("d",)])
    np.testing.assert_array_equal(sizes[[0, 2]], [1800, 1830])
    assert sizes[1] == 30**4
    assert np.isinf(PMW(max_cells=5000).cells(domain, [("a", "b")], [("b", "c")])[0])


def test_no_weight_is_lost_for_good():
    """A cell that one table all but empties comes back when another wants it."""
    sharp = NoisyMarginal(("a",), np.array([1000.0, 0.0]), 0.01)
    model = PMW(passes=400).fit(DOMAIN, [sharp])
    assert model.project(("a",))[1] > 0
    assert model.sample(20, np.random.default_rng(0), {"a": 1}).rows == 20


def test_settings_out_of_range_are_refused_and_deadlines_kept():
    for wrong in ({"passes": 0}, {"rate": 0.0}, {"rate": 1.5}, {"max_cells": 0}, {"max_memory": 5}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            PMW(**wrong)
    assert PMW(max_memory=400_000_000).most_cells < PMW().most_cells
    table = NoisyMarginal(("a",), np.array([30.0, 10.0]), 0.1)
    late = PMW().fit(DOMAIN, [table], effort=Effort(deadline=Deadline(0.0)))
    np.testing.assert_allclose(late.project(("a",)), [20, 20])
