"""GUM: each update moves whole rows towards one table, and all of them together fit all tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import InputError, ReleaseError
from margrave.limits import Deadline, Effort
from margrave.models._base.pooling import pool, rows_of
from margrave.models._sampling.streams import fresh_state
from margrave.models.rowwise.gum import GUM, distance, move_rows, update
from margrave.models.rowwise.targets import link_rows, scatter_rows, targets
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (3, 4, 2, 5))
PAIRS = list(itertools.combinations(DOMAIN.names, 2))


def pooled(domain, measurements):
    return pool(domain, measurements), rows_of(measurements, None)


def exact(clique, rows=40_000.0, seed=0):
    joint = rows * np.random.default_rng(seed).dirichlet(np.full(120, 0.5)).reshape(DOMAIN.sizes)
    gone = tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique)
    return joint.sum(axis=gone)


def released(cliques, sigma=1.0):
    rng = np.random.default_rng(1)
    return [NoisyMarginal(c, exact(c) + rng.normal(size=DOMAIN.shape(c)) * sigma, sigma) for c in cliques]


def one_update(alpha, copied=0.5, fresh=True, clique=("a", "d"), seed=0):
    wanted = targets(DOMAIN, *pooled(DOMAIN, released([clique, ("b",), ("c",)])))
    columns = scatter_rows(wanted, 40_000, np.random.default_rng(seed))
    place = wanted.cliques.index(clique)
    goal = wanted.tables[place].ravel() * (40_000 / wanted.tables[place].sum())
    attributes = np.array([wanted.names.index(name) for name in clique])
    sizes = np.array(DOMAIN.shape(clique))
    before, state = columns.copy(), fresh_state(np.random.default_rng(seed))
    away = update(columns, attributes, sizes, goal, alpha, copied, fresh, state)
    return before, columns, away, distance(columns, attributes, sizes, goal)


@pytest.mark.parametrize("alpha", [1.0, 0.3, 0.01])
def test_an_update_keeps_the_rows_and_comes_nearer(alpha):
    before, after, away, left = one_update(alpha)
    assert after.shape == before.shape
    assert left < away
    # What is gained is what is lost: as many rows changed as the distance says, to within one a cell.
    changed = int((before != after).any(axis=0).sum())
    assert changed <= (away - left) / 2 + 15
    assert changed >= (away - left) / 2 - 15 if alpha < 1 else changed > 0


def test_with_alpha_one_a_table_is_met_in_one_update_where_no_cell_has_to_double():
    columns = np.array(np.unravel_index(np.repeat(np.arange(15), 1000), (3, 5)), dtype=np.uint8)
    goal = np.linspace(200.3, 1799.7, 15)
    state = fresh_state(np.random.default_rng(0))
    arguments = (np.array([0, 1]), np.array([3, 5]), goal)
    away = update(columns, *arguments, 1.0, 0.5, True, state)
    assert away == pytest.approx(np.abs(goal - 1000).sum())
    assert distance(columns, *arguments) <= 15


def test_copies_are_of_whole_rows_that_were_there():
    before, after, _, _ = one_update(1.0, copied=1.0, fresh=False)
    there = {tuple(row) for row in before.T.tolist()}
    changed = (before != after).any(axis=0)
    assert changed.sum() > 500
    assert all(tuple(row) in there for row in after[:, changed].T.tolist())


def test_rows_that_change_their_table_only_keep_everything_else():
    before, after, _, _ = one_update(1.0, copied=0.0)
    np.testing.assert_array_equal(before[1:3], after[1:3])
    assert (before[[0, 3]] != after[[0, 3]]).any()


def test_an_empty_cell_gets_rows():
    table = NoisyMarginal(("a", "b"), np.array([[0.0, 500, 0, 0], [500, 0, 0, 0], [0, 0, 500, 500]]), 0.01)
    model = GUM(start="scattered").fit(DOMAIN, [table])
    np.testing.assert_allclose(model.project(("a", "b")), table.values, atol=3)


@pytest.mark.parametrize("start", ["linked", "scattered"])
def test_all_pairs_are_fitted(start):
    model = GUM(start=start).fit(DOMAIN, released(PAIRS), total=40_000.0)
    for pair in PAIRS:
        assert np.abs(model.project(pair) - exact(pair)).sum() < 0.006 * 2 * 40_000, pair


def test_linked_rows_begin_nearer_than_scattered_ones():
    wanted = targets(DOMAIN, pool(DOMAIN, released(PAIRS)), 40_000.0)
    far = []
    for start in (link_rows, scatter_rows):
        columns = start(wanted, 40_000, np.random.default_rng(0))
        far.append(move_rows(wanted, columns, 0, np.random.default_rng(0)).sum())
    assert far[0] < 0.7 * far[1]


def test_a_chain_is_drawn_as_the_chain_it_is():
    """Pairs of a Markov chain: the pair that was not measured follows from those that were."""
    rng = np.random.default_rng(0)
    first, steps = rng.dirichlet(np.ones(4)), [rng.dirichlet(np.full(4, 0.5), size=4) for _ in range(2)]
    domain = Domain(("a", "b", "c"), (4, 4, 4))
    joint = 50_000 * first[:, None, None] * steps[0][:, :, None] * steps[1][None, :, :]
    tables = [
        NoisyMarginal(("a", "b"), joint.sum(axis=2), 0.5),
        NoisyMarginal(("b", "c"), joint.sum(axis=0), 0.5),
    ]
    model = GUM().fit(domain, tables)
    assert np.abs(model.project(("a", "c")) - joint.sum(axis=1)).sum() < 0.02 * 2 * 50_000


def test_rows_are_used_evenly():
    model = GUM(rows=1000).fit(DOMAIN, released(PAIRS))
    whole = model.sample(1000, np.random.default_rng(0))
    for pair in PAIRS:
        cells = np.zeros(DOMAIN.shape(pair))
        np.add.at(cells, tuple(whole.column(name) for name in pair), 1)
        np.testing.assert_allclose(cells, model.project(pair) * 1000 / model.total)
    twice = model.sample(2500, np.random.default_rng(1))
    for pair in PAIRS:
        cells = np.zeros(DOMAIN.shape(pair))
        np.add.at(cells, tuple(twice.column(name) for name in pair), 1)
        expected = model.project(pair) * 1000 / model.total
        assert (cells >= 2 * expected - 1e-6).all()
        assert (cells <= 3 * expected + 1e-6).all()


def test_codes_that_no_row_has_are_met_by_the_nearest_rows():
    table = NoisyMarginal(("a", "b"), np.diag([500.0, 300.0, 200.0, 0.0])[:3], 0.01)
    model = GUM().fit(DOMAIN, [table])
    found = model.sample(400, np.random.default_rng(0), {"a": 0, "b": 1, "c": 1})
    assert (found.column("a") == 0).all()
    assert (found.column("b") == 1).all()
    assert (found.column("c") == 1).all()
    own = np.tile([0, 1], 200)
    found = model.sample(400, np.random.default_rng(0), {"a": own, "b": np.full(400, 1)})
    np.testing.assert_array_equal(found.column("a"), own)


def test_what_is_asked_is_checked():
    for wrong in ({"iterations": 0}, {"rows": 0}, {"max_rows": -1}, {"max_memory": 10}, {"start": "x"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            GUM(**wrong)
    with pytest.raises(InputError, match="cells"):
        GUM(max_cells=50).admit(DOMAIN, PAIRS)
    assert np.isinf(GUM(max_cells=30).cells(DOMAIN, [("a", "b")], [("c", "d"), ("b", "d")])[1])
    assert GUM(max_memory=500_000_000).most_cells < GUM().most_cells


def test_a_deadline_that_is_over_ends_it_at_once():
    model = GUM().fit(DOMAIN, released(PAIRS), effort=Effort(deadline=Deadline(0.0)))
    assert model.project(("a",)).sum() == pytest.approx(model.total)


@pytest.mark.parametrize(
    "damage",
    [
        {"total": np.asarray(-1.0)},
        {"total": np.asarray(np.nan)},
        {"held": np.array([0, 0, 1, 2])},
        {"held": np.array([3, 2, 1, 0])},
        {"held": np.array([0, 1, 2, 9])},
        {"rows": np.zeros((4, 0), np.uint8)},
        {"rows": np.full((4, 3), 5, np.uint8)},
        {"rows": np.zeros((3, 3), np.uint8)},
        {"rows": np.zeros((4, 3))},
    ],
)
def test_a_damaged_state_is_refused(damage):
    model = GUM(rows=50).fit(DOMAIN, released(PAIRS))
    with pytest.raises(ReleaseError, match="state"):
        GUM().restore(DOMAIN, [], model.state() | damage)
