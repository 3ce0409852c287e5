"""The genetic search: edits keep its counts right, the fitness only falls, and small tables are found
exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import InputError
from margrave.limits import Deadline, Effort
from margrave.models._base.pooling import pool, rows_of
from margrave.models._sampling.streams import fresh_state
from margrave.models.rowwise.genetic import BEST, CROSS, FLOOR, MUTATE, OPERATORS, STEP, SWAP, Genetic, Search
from margrave.models.rowwise.targets import scatter_rows, targets, uniform
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 4, 2, 5), (0, 4, 0, 4))
PAIRS = [("a", "b"), ("b", "c"), ("d", "a"), ("b", "c", "d")]


def pooled(domain, measurements):
    return pool(domain, measurements), rows_of(measurements, None)


def released(rows=2000, sigma=1.0, cliques=PAIRS):
    rng = np.random.default_rng(0)
    joint = rng.multinomial(rows, rng.dirichlet(np.full(120, 0.5))).reshape(DOMAIN.sizes).astype(float)
    made = []
    for clique in cliques:
        gone = tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique)
        kept = [name for name in DOMAIN.names if name in clique]
        table = joint.sum(axis=gone).transpose([kept.index(name) for name in clique])
        made.append(NoisyMarginal(clique, table + rng.normal(size=table.shape) * sigma, max(sigma, 1e-6)))
    return made


def begun(rows=500, start=uniform, **options):
    wanted = targets(DOMAIN, *pooled(DOMAIN, released(**options)))
    return wanted, Search(wanted, start(wanted, rows, np.random.default_rng(0)))


def recounted(wanted, columns):
    found = []
    for clique in wanted.cliques:
        table = np.zeros(DOMAIN.shape(clique), dtype=np.int64)
        np.add.at(table, tuple(columns[wanted.names.index(name)] for name in clique), 1)
        found.append(table.ravel())
    return np.concatenate(found)


class Fixed(Search):
    """A search with the odds held."""

    held = np.full(OPERATORS, 0.2)

    @property
    def odds(self):
        return self.held


def with_operator(operator, rows=500, start=scatter_rows):
    wanted = targets(DOMAIN, *pooled(DOMAIN, released()))
    search = Fixed(wanted, start(wanted, rows, np.random.default_rng(0)))
    search.held = np.eye(OPERATORS)[operator]
    return wanted, search


def test_counts_and_fitness_after_many_edits_are_those_of_the_rows():
    wanted, search = begun()
    state, before = fresh_state(np.random.default_rng(1)), search.fitness
    for _ in range(5):
        fell = search.round(1000, state)
        np.testing.assert_array_equal(search.counts, recounted(wanted, search.columns))
        assert fell >= 0
        assert search.fitness == pytest.approx(before - fell, rel=1e-9)
        before = search.fitness


@pytest.mark.parametrize("operator", [MUTATE, CROSS, SWAP, STEP, BEST])
def test_an_edit_changes_one_code_or_exchanges_two(operator):
    _, search = with_operator(operator)
    state = fresh_state(np.random.default_rng(2))
    for _ in range(60):
        before, fitness = search.columns, search.fitness
        search.round(1, state)  # ten bursts of one proposal
        changed = int((search.columns != before).sum())
        assert changed <= (20 if operator == SWAP else 10)
        assert search.fitness <= fitness + 1e-9
        if operator == SWAP:
            for one, two in zip(before, search.columns, strict=True):
                np.testing.assert_array_equal(np.bincount(one), np.bincount(two))


def test_swaps_alone_improve_pairs_and_keep_every_one_way():
    wanted, search = with_operator(SWAP, rows=2000)
    before, start = search.columns, search.fitness
    search.round(40_000, fresh_state(np.random.default_rng(3)))
    assert search.fitness < 0.5 * start
    np.testing.assert_array_equal(search.counts, recounted(wanted, search.columns))
    for one, two in zip(before, search.columns, strict=True):
        np.testing.assert_array_equal(np.bincount(one), np.bincount(two))


def test_the_best_code_is_the_best_of_all():
    wanted, search = with_operator(BEST, rows=40, start=uniform)
    start, before = search.fitness, search.columns
    for row in range(40):
        for place, name in enumerate(wanted.names):
            for code in range(DOMAIN[name]):
                trial = before.copy()
                trial[place, row] = code
                found = Search(wanted, trial).fitness
                start = min(start, found)
    search.round(1, fresh_state(np.random.default_rng(0)))
    # Ten edits, each the best of its row's attribute: further than the best one edit of all.
    assert search.fitness < start
    state = fresh_state(np.random.default_rng(1))
    for _ in range(40):
        search.round(400, state)
    final = search.columns
    for row in range(40):
        for place, name in enumerate(wanted.names):
            for code in range(DOMAIN[name]):
                trial = final.copy()
                trial[place, row] = code
                assert Search(wanted, trial).fitness >= search.fitness - 1e-6


def test_steps_move_ordered_codes_by_one():
    wanted, search = with_operator(STEP, start=uniform)
    before = search.columns.astype(int)
    search.round(1, fresh_state(np.random.default_rng(4)))
    moved = search.columns.astype(int) - before
    for name in ("b", "d"):
        place = wanted.names.index(name)
        own = moved[place][before[place] < 4]
        assert np.abs(own).max() <= 1


def test_tables_of_a_table_of_rows_are_met_exactly():
    domain = Domain(("a", "b", "c"), (2, 2, 3))
    rng = np.random.default_rng(5)
    rows = [rng.integers(0, size, 60) for size in domain.sizes]
    exact = []
    for pair in itertools.combinations(range(3), 2):
        table = np.zeros([domain.sizes[i] for i in pair])
        np.add.at(table, tuple(rows[i] for i in pair), 1)
        exact.append(NoisyMarginal(tuple(domain.names[i] for i in pair), table, 1e-6))
    model = Genetic(rows=60, start="uniform", tolerance=1e-9, rounds=400).fit(domain, exact, total=60.0)
    far = sum(float(np.abs(model.project(m.clique) - m.values).sum()) for m in exact)
    assert far <= 6  # single edits may end one exchange of two codes away


def test_every_operator_stays_likely():
    _, search = begun()
    state = fresh_state(np.random.default_rng(6))
    for _ in range(30):
        search.round(1000, state)
        assert search.odds.sum() == pytest.approx(1.0)
        assert (search.odds >= FLOOR / OPERATORS - 1e-12).all()


@pytest.mark.parametrize("start", ["linked", "scattered", "uniform"])
def test_noisy_tables_are_followed_from_any_start(start):
    model = Genetic(start=start).fit(DOMAIN, released(rows=50_000))
    for m in released(rows=50_000):
        assert np.abs(model.project(m.clique) - m.values).sum() < 0.004 * 2 * 50_000


def test_sharper_tables_are_followed_more_closely():
    one = NoisyMarginal(("a", "b"), np.full((3, 4), 100.0), 1.0)
    # It contradicts the other about a: consistency weighs by precision, and the search too.
    two = NoisyMarginal(("a", "c"), np.array([[400.0, 200], [200, 200], [100, 100]]), 30.0)
    model = Genetic().fit(DOMAIN, [one, two])
    np.testing.assert_allclose(model.project(("a",)), [400, 400, 400], atol=15)


def test_a_deadline_that_is_over_leaves_the_start():
    model = Genetic().fit(DOMAIN, released(), effort=Effort(deadline=Deadline(0.0)))
    assert model.rows == 10_000


@pytest.mark.parametrize(
    "wrong",
    [{"rounds": 0}, {"tolerance": 0.0}, {"start": "x"}, {"rows": 0}, {"max_cells": 0}, {"max_memory": 1}],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Genetic(**wrong)
