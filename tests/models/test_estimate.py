from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import InputError, ReleaseError
from margrave.models._base.pooling import estimated_total, pool
from margrave.models.pgm.estimate import Dual, minimise
from margrave.models.pgm.fitter import PGM, pool_one_ways
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.tree import Layout
from margrave.release import NoisyMarginal, project_simplex
from margrave.schema.domain import Domain

ABC = Domain(("a", "b", "c"), (3, 4, 2))
SQUARES = PGM(strength=1e-3, penalty="squares", tolerance=1e-9, max_iterations=5000)


def exact(sigma=1e-3):
    """AB and BC of one joint over ABC, all but exact."""
    joint = np.random.default_rng(5).dirichlet(np.ones(24)).reshape(3, 4, 2) * 1000
    ab, bc = joint.sum(axis=2), joint.sum(axis=0)
    return ab, bc, [NoisyMarginal(("a", "b"), ab, sigma), NoisyMarginal(("b", "c"), bc, sigma)]


def test_one_identity_measurement_is_projected_on_the_simplex():
    values = np.array([500.0, 320.0, 240.0, 10.0, -30.0, -40.0])
    domain = Domain(("a",), (6,))
    model = SQUARES.fit(domain, [NoisyMarginal(("a",), values, 10.0)], total=1000.0)
    assert model.converged
    expected = project_simplex(values / 1000, np.ones(6)) * 1000
    np.testing.assert_allclose(model.project(("a",)), expected, atol=0.05)


def test_cells_of_unequal_noise_are_projected_in_their_own_metric():
    values, sigma = np.array([520.0, 320.0, 210.0]), np.array([1.0, 2.0, 3.0])
    model = SQUARES.fit(Domain(("a",), (3,)), [NoisyMarginal(("a",), values, sigma)], total=1000.0)
    expected = values - 50 * sigma**2 / (sigma**2).sum()
    np.testing.assert_allclose(model.project(("a",)), expected, atol=0.05)


def test_exact_chain_is_reproduced_with_conditional_independence():
    ab, bc, measurements = exact()
    model = PGM(strength=1e-4, tolerance=1e-8).fit(ABC, measurements)
    expected = ab[:, :, None] * bc[None] / ab.sum(axis=0)[None, :, None]
    assert model.total == pytest.approx(1000)
    np.testing.assert_allclose(model.project(("a", "b", "c")), expected, rtol=1e-3)


@pytest.mark.parametrize("fitter", [SQUARES, PGM(strength=1e-5, tolerance=1e-9)])
def test_measurements_of_one_clique_count_by_one_over_sigma_squared(fitter):
    rng = np.random.default_rng(0)
    y1 = rng.uniform(50, 150, size=(3, 4))
    y2 = y1 + rng.normal(size=(3, 4))
    y2 += (y1.sum() - y2.sum()) / 12
    two = [NoisyMarginal(("a", "b"), y1, 1.0), NoisyMarginal(("b", "a"), y2.T, 3.0)]
    model = fitter.fit(ABC, two)
    np.testing.assert_allclose(model.project(("a", "b")), (9 * y1 + y2) / 10, atol=5e-3)


def test_pooling_takes_one_sigma_a_cell():
    sigma = np.array([1.0, 2.0, 4.0])
    y1, y2 = np.array([10.0, 20.0, 30.0]), np.array([16.0, 26.0, 36.0])
    (found,) = pool(ABC, [NoisyMarginal(("a",), y1, sigma), NoisyMarginal(("a",), y2, 2.0)])
    weight = (1 / 4) / (1 / 4 + 1 / sigma**2)
    np.testing.assert_allclose(found.values, y1 + 6 * weight)
    np.testing.assert_allclose(found.sigma, (1 / sigma**2 + 1 / 4) ** -0.5)


def test_the_total_weighs_sums_by_the_noise_in_them_and_is_at_least_one():
    one, two = (
        NoisyMarginal(("a",), np.array([30.0, 30.0, 40.0]), 1.0),
        NoisyMarginal((), np.array(94.0), 3.0),
    )
    assert estimated_total([one, two]) == pytest.approx((100 / 3 + 94 / 9) / (1 / 3 + 1 / 9))
    cellwise = NoisyMarginal(("a",), np.array([30.0, 30.0, 40.0]), np.array([1.0, 1.0, 2.0]))
    assert estimated_total([cellwise, two]) == pytest.approx((100 / 6 + 94 / 9) / (1 / 6 + 1 / 9))
    assert estimated_total([NoisyMarginal((), np.array(-50.0), 3.0)]) == 1.0
    assert estimated_total([]) == 1.0


def test_the_gradient_is_zero_at_the_solution():
    rng = np.random.default_rng(2)
    noisy = [NoisyMarginal(c, rng.uniform(-5, 60, size=ABC.shape(c)), 10.0) for c in (("a", "b"), ("c", "b"))]
    model = PGM(strength=0.5, tolerance=1e-10).fit(ABC, noisy, total=300.0)
    assert model.converged
    assert model.gap <= 1e-10
    for clique, theta in model.potentials().items():
        table = next(m for m in pool_one_ways(pool(ABC, noisy)) if m.clique == clique)
        strength = 0.5 if len(clique) > 1 else 0.5 / 8
        left = (model.project(clique) - table.values + strength * table.sigma * theta) / 300
        np.testing.assert_allclose(left - left.mean(), 0, atol=1e-9)


@pytest.mark.parametrize("penalty", ["noise_aware", "squares"])
def test_more_strength_means_more_entropy(penalty):
    rng = np.random.default_rng(4)
    noisy = [NoisyMarginal(("a", "b"), rng.uniform(0, 100, size=(3, 4)), 5.0)]
    entropies = []
    for strength in (1e-3, 0.1, 10.0, 1e3):
        p = PGM(strength=strength, penalty=penalty).fit(ABC, noisy).project(("a", "b"))
        p = p / p.sum()
        entropies.append(-(p[p > 0] * np.log(p[p > 0])).sum())
    assert entropies == sorted(entropies)
    assert entropies[-1] > entropies[0] + 0.05


def test_the_optimiser_never_goes_up_and_says_when_it_stops_early():
    rng = np.random.default_rng(1)
    layout = Layout([3, 4, 5], [(0, 1), (1, 2), (0, 2)], 1000)
    target = rng.dirichlet(np.ones(layout.starts[-1]))
    dual = Dual(Inference(layout), target, np.full(len(target), 1e-3))
    values = []
    for steps in (0, 1, 2, 5, 20, 100):
        found = minimise(dual, np.zeros(len(target)), steps, 1e-8)
        values.append(dual(found.theta)[0])
        assert found.converged == (found.gap <= 1e-8)
        assert found.iterations <= steps
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))
    assert not minimise(dual, np.zeros(len(target)), 1, 1e-8).converged
    assert minimise(dual, np.zeros(len(target)), 500, 1e-8).converged


def test_tables_that_do_not_sum_to_the_total_leave_the_solution_where_it_is():
    layout = Layout([3, 4], [(0, 1), (1,)], 1000)
    rng = np.random.default_rng(8)
    target, ridge = rng.uniform(0, 0.2, size=16), rng.uniform(0.01, 0.05, size=16)
    dual = Dual(Inference(layout), target, ridge)
    minimise(dual, np.zeros(16), 500, 1e-12)
    plain = Dual(Inference(layout), target, ridge)
    plain.target = target
    minimise(plain, np.zeros(16), 500, 1e-12)
    np.testing.assert_allclose(dual.inference.marginals, plain.inference.marginals, atol=1e-10)


def test_a_warm_start_needs_fewer_steps_and_ends_at_the_same_model():
    rng = np.random.default_rng(6)
    domain = Domain(tuple("abcdef"), (6, 5, 4, 3, 5, 2))
    cliques = [("a", "b"), ("b", "c"), ("d", "c"), ("e", "a"), ("f", "e")]
    noisy = [NoisyMarginal(c, rng.uniform(0, 50, size=domain.shape(c)), 3.0) for c in cliques]
    fitter = PGM(tolerance=1e-6)
    first = fitter.fit(domain, noisy[:4], total=500.0)
    cold, warm = (fitter.fit(domain, noisy, total=500.0, warm=w) for w in (None, first))
    assert warm.iterations < cold.iterations
    np.testing.assert_allclose(warm.project(tuple("abc")), cold.project(tuple("abc")), atol=1e-2)
    again = fitter.fit(domain, noisy, total=500.0, warm=warm)
    assert again.iterations == 0


def test_a_strength_near_zero_is_approached_and_found():
    rng = np.random.default_rng(9)
    domain = Domain(tuple("abcd"), (4, 3, 5, 3))
    noisy = [
        NoisyMarginal(c, 500 * rng.dirichlet(np.full(domain.size(c), 0.1)).reshape(domain.shape(c)) - 5, 20.0)
        for c in (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))
    ]
    fits = [
        PGM(strength=s, penalty="squares", tolerance=1e-5, max_iterations=30_000).fit(
            domain, noisy, total=500.0
        )
        for s in (1e-3, 1e-2)
    ]
    assert all(model.converged for model in fits)
    for m in noisy:
        tiny, small = (model.project(m.clique) / 500 for model in fits)
        assert np.abs(tiny - small).sum() / 2 < 1e-3


def test_a_fit_that_ran_out_of_steps_says_so_and_is_still_a_distribution():
    rng = np.random.default_rng(9)
    noisy = [NoisyMarginal(c, rng.normal(0, 50, size=ABC.shape(c)), 5.0) for c in (("a", "b"), ("b", "c"))]
    model = PGM(strength=1e-6, penalty="squares", max_iterations=3).fit(ABC, noisy, total=100.0)
    assert not model.converged
    assert model.iterations <= 3
    assert model.project(("a", "c")).sum() == pytest.approx(100)


def test_too_large_a_tree_is_refused_by_name():
    domain = Domain(tuple("abcde"), (1000,) * 5)
    noisy = [NoisyMarginal((), np.array(10.0), 1.0)]
    triple = [NoisyMarginal(c, np.zeros((1000, 1000)), 1.0) for c in (("a", "b"), ("b", "c"), ("a", "c"))]
    assert PGM().fit(domain, noisy).project(("a",)).sum() == pytest.approx(10)
    with pytest.raises(InputError, match="max_cells"):
        PGM().fit(domain, triple)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"strength": 0.0}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"penalty": "none"}, "penalty"),
        ({"max_cells": 1 << 31}, "max_cells"),
        ({"max_iterations": -1}, "max_iterations"),
    ],
)
def test_bad_settings_are_named(arguments, named):
    with pytest.raises(InputError, match=named):
        PGM(**arguments)


def test_a_damaged_state_is_refused():
    _, _, measurements = exact()
    state = PGM().fit(ABC, measurements).state()
    for damage in (
        {"theta": state["theta"][:-1]},
        {"fit": state["fit"][:2]},
        {"theta": state["theta"] * np.nan},
    ):
        with pytest.raises(ReleaseError, match="state"):
            PGM().restore(ABC, measurements, {**state, **damage})
    with pytest.raises(ReleaseError, match="state"):
        PGM().restore(ABC, measurements, {"theta": state["theta"]})
    with pytest.raises(ReleaseError, match="state"):
        PGM().restore(ABC, measurements, {**state, "fit": -state["fit"]})


@pytest.mark.parametrize("seed", range(5))
def test_settling_one_table_minimises_over_its_potentials(seed):
    rng = np.random.default_rng(seed)
    layout = Layout([3, 4, 5], [(0, 1), (1, 2), (0, 2)], 1000)
    target = np.concatenate([rng.dirichlet(np.full(n, 0.3)) for n in (12, 20, 15)])
    dual = Dual(Inference(layout), target + rng.normal(0, 0.01, len(target)), np.full(len(target), 2e-3))
    theta = rng.normal(size=len(target))
    before, gradient = dual(theta)
    worst = int(np.argmax(np.add.reduceat(np.abs(gradient), dual.starts)))
    fresh = dual.solve_worst_table(theta, gradient)
    after, gradient = dual(fresh)
    cut = slice(layout.starts[worst], layout.starts[worst + 1])
    assert after < before
    assert np.abs(gradient[cut]).max() < 1e-6
    np.testing.assert_array_equal(np.delete(fresh, cut), np.delete(theta, cut))


def test_memory_lowers_what_a_tree_may_hold():
    small = PGM(max_memory=400_000_000)
    assert small.most_cells < PGM(max_memory=10**9).most_cells < PGM().most_cells
    assert PGM(max_memory=10**9, max_cells=5).most_cells == 5
    domain = Domain(tuple("abc"), (200,) * 3)
    found = small.cells(domain, [("a", "b"), ("b", "c")], [("b",), ("a", "c")])
    assert found.tolist() == [80_000, np.inf]
    with pytest.raises(InputError, match="max_cells"):
        small.admit(domain, [("a", "b", "c")])
    with pytest.raises(InputError, match="max_memory"):
        PGM(max_memory=10**6)


def test_one_ways_are_pooled_from_every_table_that_holds_them():
    ab, one = np.arange(12.0).reshape(3, 4), np.array([9.0, 20.0, 41.0])
    tables = pool(ABC, [NoisyMarginal(("a", "b"), ab, 2.0), NoisyMarginal(("a",), one, 3.0)])
    found = {table.clique: table for table in pool_one_ways(tables)}
    assert set(found) == {("a",), ("b",), ("a", "b")}
    # A sum over four cells has variance 4 * 2^2 = 16, the one-way 9.
    np.testing.assert_allclose(found["a",].values, (ab.sum(axis=1) / 16 + one / 9) / (1 / 16 + 1 / 9))
    np.testing.assert_allclose(found["a",].sigma, (1 / 16 + 1 / 9) ** -0.5)
    np.testing.assert_allclose(found["b",].values, ab.sum(axis=0))
    np.testing.assert_allclose(found["b",].sigma, np.sqrt(12.0))
    np.testing.assert_array_equal(found["a", "b"].values, ab)


def test_pooling_one_ways_from_sums_of_cells_with_noise_of_their_own():
    sigma = np.array([[1.0, 2.0], [3.0, 4.0]])
    values = np.array([[10.0, 20.0], [30.0, 40.0]])
    domain = Domain(("a", "b"), (2, 2))
    found = pool_one_ways(pool(domain, [NoisyMarginal(("a", "b"), values, sigma)]))
    assert [table.clique for table in found] == [("a",), ("b",), ("a", "b")]
    np.testing.assert_allclose(found[0].sigma, np.sqrt([5.0, 25.0]))
    np.testing.assert_allclose(found[1].sigma, np.sqrt([10.0, 20.0]))


def dependent(seed, rows=5000.0, noise=50.0):
    """The truth over three attributes, and one-ways and two pairs of it under noise."""
    rng = np.random.default_rng(seed)
    domain = Domain(("a", "b", "c"), (12, 10, 8))
    chain = rng.dirichlet(np.full(10, 0.4), size=12), rng.dirichlet(np.full(8, 0.4), size=10)
    truth = rows * rng.dirichlet(np.ones(12))[:, None, None] * chain[0][:, :, None] * chain[1][None]
    noisy = []
    for clique, axes in ((("a",), (1, 2)), (("b",), (0, 2)), (("a", "b"), (2,)), (("b", "c"), (0,))):
        exact = truth.sum(axis=axes)
        noisy.append(NoisyMarginal(clique, exact + noise * rng.normal(size=exact.shape), noise))
    return domain, truth, noisy


def test_noise_aware_fits_are_nearer_to_the_truth_than_least_squares():
    nearer = []
    for seed in range(8):
        domain, truth, noisy = dependent(seed)
        errors = []
        for penalty in ("noise_aware", "squares"):
            model = PGM(penalty=penalty, max_iterations=5000).fit(domain, noisy, total=5000.0)
            errors.append(np.abs(model.project(("a", "b", "c")) - truth).sum())
        nearer.append(errors[0] < errors[1])
    assert sum(nearer) >= 6


@pytest.mark.parametrize("penalty", ["noise_aware", "squares"])
def test_a_model_is_restored_whichever_one_ways_it_was_fitted_to(penalty):
    _, _, measurements = exact(sigma=5.0)
    fitted = PGM(penalty=penalty).fit(ABC, measurements)
    restored = PGM().restore(ABC, measurements, fitted.state())
    np.testing.assert_array_equal(restored.project(("a", "b", "c")), fitted.project(("a", "b", "c")))
    assert set(restored.potentials()) == set(fitted.potentials())
