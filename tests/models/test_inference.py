from __future__ import annotations

import itertools

import numpy as np
import pytest
from enumeration import joint, random_layout, summed

from margrave.errors import InputError
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.marginals import contract_tables, marginal, marginals, pair_marginals
from margrave.models.pgm.model import condition_layout
from margrave.models.pgm.tree import Layout

LOOP = Layout([2, 3, 3, 4, 4], [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (2,)], 1 << 20)


def tables(layout, belief):
    for k, clique in enumerate(layout.tree.cliques):
        yield clique, belief[layout.node_starts[k] : layout.node_starts[k + 1]].reshape(layout.shape(clique))


@pytest.mark.parametrize("seed", range(40))
def test_inference_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    layout = LOOP if seed == 0 else random_layout(rng)
    theta = rng.normal(size=layout.starts[-1]) * rng.choice([0.1, 1.0, 10.0])
    inference = Inference(layout)
    log_z = inference.run(theta)
    table, expected = joint(layout, theta)
    assert log_z == pytest.approx(expected, abs=1e-9)
    for clique, found in tables(layout, inference.belief):
        np.testing.assert_allclose(found, summed(table, clique), atol=1e-10)
    for k, clique in enumerate(layout.measured):
        found = inference.marginals[layout.starts[k] : layout.starts[k + 1]]
        np.testing.assert_allclose(found, summed(table, clique).ravel(), atol=1e-10)


@pytest.mark.parametrize("scale", [300.0, 1e4, 1e7])
@pytest.mark.parametrize("seed", range(6))
def test_huge_potentials_are_caught_and_done_in_log_space(seed, scale):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=LOOP.starts[-1]) * scale
    inference = Inference(LOOP)
    log_z = inference.run(theta)
    table, expected = joint(LOOP, theta)
    assert log_z == pytest.approx(expected, rel=1e-12)
    for clique, found in tables(LOOP, inference.belief):
        np.testing.assert_allclose(found, summed(table, clique), atol=1e-8)


def test_log_space_is_used_only_where_it_must():
    inference = Inference(LOOP)
    rng = np.random.default_rng(3)
    inference.run(rng.normal(size=LOOP.starts[-1]) * 3)
    assert inference.log_space_runs == 0
    for seed in range(20):
        inference.run(np.random.default_rng(seed).normal(size=LOOP.starts[-1]) * 1e5)
    assert inference.log_space_runs > 0


@pytest.mark.parametrize("seed", range(5))
def test_the_slope_of_log_z_is_the_marginal(seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=LOOP.starts[-1])
    inference = Inference(LOOP)
    inference.run(theta)
    found = inference.marginals.copy()
    for i in rng.choice(len(theta), size=12, replace=False):
        step = np.zeros_like(theta)
        step[i] = 1e-5
        slope = (inference.run(theta + step) - inference.run(theta - step)) / 2e-5
        assert slope == pytest.approx(found[i], abs=1e-8)


@pytest.mark.parametrize("seed", range(25))
def test_any_projection_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    layout = LOOP if seed == 0 else random_layout(rng)
    theta = rng.normal(size=layout.starts[-1]) * 2
    inference = Inference(layout)
    inference.run(theta)
    table, _ = joint(layout, theta)
    for width in range(len(layout.sizes) + 1):
        for wanted in itertools.combinations(range(len(layout.sizes)), width):
            found = marginal(layout, inference.belief, wanted)
            np.testing.assert_allclose(found, summed(table, wanted), atol=1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_all_pairs_at_once_equal_enumeration(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    layout = LOOP if seed == 0 else random_layout(rng, largest=8, widest=3)
    if seed % 2:
        monkeypatch.setattr("margrave.models.pgm.marginals.MAX_STACK_CELLS", 20)
    theta = rng.normal(size=layout.starts[-1]) * 2
    inference = Inference(layout)
    inference.run(theta)
    table, _ = joint(layout, theta)
    wanted = list(itertools.combinations(range(len(layout.sizes)), 2))
    if seed % 3 == 0:
        wanted = wanted[::2]
    found = pair_marginals(layout, inference.belief, wanted)
    assert set(found) == set(wanted)
    for pair, probabilities in found.items():
        np.testing.assert_allclose(probabilities, summed(table, pair), atol=1e-10)


@pytest.mark.parametrize("seed", range(25))
def test_conditioning_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    layout = LOOP if seed == 0 else random_layout(rng)
    theta = rng.normal(size=layout.starts[-1]) * 2
    table, _ = joint(layout, theta)
    given = {v: int(rng.integers(n)) for v, n in enumerate(layout.sizes) if rng.random() < 0.5}
    smaller, belief = condition_layout(layout, theta, given)
    cut = table[
        tuple(slice(given[v], given[v] + 1) if v in given else slice(None) for v in range(table.ndim))
    ]
    cut = cut / cut.sum()
    for clique, found in tables(smaller, belief):
        np.testing.assert_allclose(found, summed(cut, clique), atol=1e-10)


def test_conditioning_on_a_code_that_cannot_happen_stays_exact():
    theta = np.zeros(LOOP.starts[-1])
    theta[: LOOP.starts[1]] = np.where(np.arange(LOOP.starts[1]) < 3, 0.0, -1e6)
    rest = theta[LOOP.starts[1] :]
    rest[:] = np.random.default_rng(0).normal(size=len(rest))
    smaller, belief = condition_layout(LOOP, theta, {0: 1})
    shifted = theta.copy()
    shifted[: LOOP.starts[1]] = np.where(np.arange(LOOP.starts[1]) < 3, -1e6, 0.0)
    table, _ = joint(LOOP, shifted)
    for clique, found in tables(smaller, belief):
        np.testing.assert_allclose(found, summed(table[1:2], clique), atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_many_projections_at_once_equal_enumeration(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    layout = LOOP if seed == 0 else random_layout(rng, largest=8, widest=3)
    if seed % 2:
        monkeypatch.setattr("margrave.models.pgm.marginals.MAX_CACHED_CELLS", 0)
    theta = rng.normal(size=layout.starts[-1]) * 2
    inference = Inference(layout)
    inference.run(theta)
    table, _ = joint(layout, theta)
    everything = [
        clique
        for width in (0, 1, 2, 3, 4)
        for clique in itertools.combinations(range(len(layout.sizes)), width)
    ]
    found = marginals(layout, inference.belief, everything)
    assert list(found) == everything
    for clique, probabilities in found.items():
        np.testing.assert_allclose(probabilities, summed(table, clique), atol=1e-10)


@pytest.mark.parametrize(
    ("limit", "wanted"), [(9, [(0, 5), (1, 5)]), (27, [(0, 1, 5), (0, 3, 5)]), (9, [(0, 2)])]
)
def test_where_messages_would_be_too_large_projections_are_found_code_by_code(limit, wanted, monkeypatch):
    # A separator of two attributes has nine cells, a message three times as many for each one it carries.
    layout = Layout([3] * 6, [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)], 1 << 20)
    theta = np.random.default_rng(0).normal(size=layout.starts[-1]) * 2
    inference = Inference(layout)
    inference.run(theta)
    table, _ = joint(layout, theta)
    built = []
    contract = contract_tables

    def watch(tables, out):
        built.append(contract(tables, out))
        return built[-1]

    monkeypatch.setattr("margrave.models.pgm.marginals.contract_tables", watch)
    monkeypatch.setattr("margrave.models.pgm.marginals.MAX_PROJECTED_CELLS", limit)
    found = marginals(layout, inference.belief, wanted)
    assert max((part.size for part in built), default=0) <= limit
    for clique, probabilities in found.items():
        np.testing.assert_allclose(probabilities, summed(table, clique), atol=1e-10)


def test_an_answer_that_is_itself_too_large_is_refused(monkeypatch):
    layout = Layout([3] * 4, [(0, 1), (2, 3)], 1 << 20)
    inference = Inference(layout)
    inference.run(np.zeros(layout.starts[-1]))
    monkeypatch.setattr("margrave.models.pgm.marginals.MAX_PROJECTED_CELLS", 26)
    with pytest.raises(InputError, match="at most 26 cells"):
        marginals(layout, inference.belief, [(0, 1, 2)])


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_small_tables_of_a_large_node_are_joined_and_still_exact(scale):
    sizes = [2, 2, 3, 3, 4, 4, 5]
    measured = [(0, 1), (1, 2), (0, 2), *itertools.combinations(range(1, 7), 2), (3,)]
    layout = Layout(sizes, measured, 1 << 20)
    hosts = len(layout.groups)
    assert hosts < sum(not any(set(a) < set(b) for b in measured) for a in measured)
    assert max(np.diff(layout.group_starts)) * 8 <= max(np.diff(layout.node_starts))
    theta = np.random.default_rng(1).normal(size=layout.starts[-1]) * scale
    inference = Inference(layout)
    log_z = inference.run(theta)
    table, expected = joint(layout, theta)
    assert log_z == pytest.approx(expected, abs=1e-8)
    for k, clique in enumerate(layout.measured):
        found = inference.marginals[layout.starts[k] : layout.starts[k + 1]]
        np.testing.assert_allclose(found, summed(table, clique).ravel(), atol=1e-10)


def test_nodes_larger_than_a_block_of_rows_equal_enumeration():
    sizes = [3, 5, 7, 9, 11]
    layout = Layout(sizes, [*itertools.combinations(range(5), 2), (1, 2, 4)], 1 << 20)
    assert max(np.diff(layout.node_starts)) > 2 * 2048
    theta = np.random.default_rng(2).normal(size=layout.starts[-1])
    inference = Inference(layout)
    log_z = inference.run(theta)
    table, expected = joint(layout, theta)
    assert log_z == pytest.approx(expected, abs=1e-9)
    for clique, found in tables(layout, inference.belief):
        np.testing.assert_allclose(found, summed(table, clique), atol=1e-12)
