from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import SchemaError
from margrave.models.pgm.tree import candidate_cells, junction_tree, rank_attributes, tree_cells
from margrave.schema.domain import Domain


def random_cliques(rng, count):
    return [
        tuple(int(v) for v in rng.choice(count, size=min(count, int(rng.integers(1, 4))), replace=False))
        for _ in range(int(rng.integers(0, 2 * count)))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_forest_covers_its_cliques_and_has_the_running_intersection_property(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    sizes = [int(n) for n in rng.integers(1, 9, size=count)]
    cliques = random_cliques(rng, count)
    tree = junction_tree(sizes, cliques)
    sets = [set(clique) for clique in tree.cliques]
    assert all(any(set(clique) <= s for s in sets) for clique in [*cliques, *((v,) for v in range(count))])
    assert not any(a < b for a, b in itertools.permutations(sets, 2))
    assert tree.cells == sum(np.prod([sizes[v] for v in s]) for s in sets)
    for k, parent in enumerate(tree.parents):
        assert parent == -1 or parent > k
        assert set(tree.separators[k]) == (sets[k] & sets[parent] if parent >= 0 else set())
    for v in range(count):
        holding = {k for k, s in enumerate(sets) if v in s}
        state_weights = [k for k in holding if tree.parents[k] not in holding or v not in tree.separators[k]]
        assert len(state_weights) == 1


@pytest.mark.parametrize("seed", range(10))
def test_every_later_neighbourhood_lies_in_one_clique(seed):
    rng = np.random.default_rng(seed)
    tree = junction_tree([3] * 9, random_cliques(rng, 9))
    assert sorted(tree.order) == list(range(9))
    position = {v: i for i, v in enumerate(tree.order)}
    for v, later in enumerate(tree.later):
        assert all(position[u] > position[v] for u in later)
        assert any({v, *later} <= set(clique) for clique in tree.cliques)


def test_a_cycle_of_three_is_as_large_as_its_triangle():
    domain = Domain(("a", "b", "c"), (2, 3, 5))
    cycle = [("a", "b"), ("b", "c"), ("c", "a")]
    assert tree_cells(domain, cycle) == tree_cells(domain, [("a", "b", "c")]) == 30


def test_a_cycle_of_four_is_cut_where_it_is_cheapest():
    domain = Domain(("a", "b", "c", "d"), (10, 2, 10, 2))
    cycle = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    assert tree_cells(domain, cycle) == 2 * (10 * 2 * 2)


@pytest.mark.parametrize("seed", range(15))
def test_candidates_are_sized_as_the_tree_that_a_fit_would_build(seed):
    rng = np.random.default_rng(seed)
    names = tuple("abcdefghi")
    domain = Domain(names, tuple(int(n) for n in rng.integers(1, 9, size=9)))
    cliques = [tuple(names[v] for v in clique) for clique in random_cliques(rng, 9)]
    candidates = [*itertools.combinations(names, 2), (), ("i", "a", "d"), ("b",)]
    found = candidate_cells(domain, cliques, candidates)
    order = rank_attributes(domain)
    for cells, candidate in zip(found, candidates, strict=True):
        engine = [[order.index(n) for n in clique] for clique in [*cliques, candidate]]
        assert cells == junction_tree(domain.shape(order), engine).cells


def test_a_candidate_inside_a_measured_clique_is_free():
    domain = Domain(tuple("abcd"), (4, 3, 2, 5))
    found = candidate_cells(domain, [("a", "b", "c")], [("c", "a"), ("b",), ("a", "d")])
    assert found.tolist() == [24 + 5, 24 + 5, 24 + 20]


def test_an_unknown_attribute_is_refused():
    with pytest.raises(SchemaError):
        candidate_cells(Domain(("a",), (2,)), [], [("z",)])
