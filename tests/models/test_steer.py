from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.models._sampling.repair import LIMIT, repair, steer
from margrave.models._sampling.rounding import hand_out, order_by_group, round_counts
from margrave.models.pgm.fitter import PGM
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

WIDE = Domain(tuple("abcdefg"), (9, 6, 14, 5, 11, 2, 8))
LOOPS = [tuple("ab"), tuple("bc"), tuple("ac"), tuple("cde"), tuple("ea"), tuple("fg"), tuple("ga"), ("d",)]


def made(strength=0.02, alpha=0.4, seed=3):
    """A model with loops, a triple and cells that are nearly impossible."""
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.full(WIDE.size(c), alpha)).reshape(WIDE.shape(c)) for c in LOOPS]
    return PGM(strength=strength).fit(
        WIDE, [NoisyMarginal(c, 5000 * t, 5.0) for c, t in zip(LOOPS, tables, strict=True)]
    )


@pytest.fixture(scope="module")
def model():
    return made()


def counted(encoded, clique):
    codes = [encoded.column(name).astype(np.int64) for name in clique]
    shape = encoded.domain.shape(clique)
    return np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("rows", [1, 30, 1000, 4321, 32_561, 300_000])
def test_every_cell_of_every_measured_table_is_within_two(model, rows):
    for seed in range(3):
        encoded = model.sample(rows, np.random.default_rng(seed))
        for clique in LOOPS:
            expected = model.project(clique) * (rows / model.total)
            assert np.abs(counted(encoded, clique) - expected).max() < 2


def test_the_parts_of_a_triple_are_near_their_counts_too(model):
    encoded = model.sample(20_000, np.random.default_rng(1))
    for name in WIDE.names:
        expected = model.project((name,)) * (20_000 / model.total)
        assert np.abs(counted(encoded, (name,)) - expected).max() < 6


@pytest.mark.parametrize("given", [{"a": 2}, {"c": 3, "g": 1}])
def test_given_codes_leave_measured_tables_within_two(model, given):
    rows, names = 3000, WIDE.names
    encoded = model.sample(rows, np.random.default_rng(2), given)
    for clique in [c for c in LOOPS if len(c) == 2 and not given.keys() & set(c)]:
        wanted = tuple(dict.fromkeys((*given, *clique)))
        table = model.project(wanted)[tuple(given.values())]
        assert np.abs(counted(encoded, clique) - rows * table / table.sum()).max() < 2
    assert all((encoded.column(n) == c).all() for n, c in given.items())
    assert set(names) == set(encoded.domain.names)


def test_no_kind_of_cell_is_starved_or_a_dump(model):
    rows, draws = 500, 60
    sums = {clique: np.zeros(WIDE.shape(clique)) for clique in LOOPS}
    for seed in range(draws):
        encoded = model.sample(rows, np.random.default_rng(seed))
        for clique, total in sums.items():
            total += counted(encoded, clique)
    counts = np.concatenate([sums[c].ravel() for c in LOOPS]) / draws
    expected = np.concatenate([model.project(c).ravel() for c in LOOPS]) * (rows / model.total)
    for low, high in itertools.pairwise((0.1, 0.5, 1.0, 3.0, 1000.0)):
        kind = (expected > low) & (expected <= high)
        assert kind.any()
        assert abs(counts[kind].sum() / expected[kind].sum() - 1) < 0.15


def test_steering_keeps_groups_within_one_and_mends_the_table():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.full(7, 0.7), size=(30, 20))
    keys = rng.integers(0, 600, size=9000)
    by = order_by_group(keys, 600)
    found = round_counts(keys, by, table.reshape(600, 7), rng)
    sizes = np.bincount(keys, minlength=600)
    expected = (sizes.reshape(30, 20, 1) * table).sum(axis=1)
    before = np.zeros((30, 7))
    np.add.at(before, (np.repeat(found.keys // 20, np.diff(found.firsts)), found.codes), 1)
    steer(found, table.reshape(600, 7), [30, 20], [[1, 0]], [expected])
    codes = np.empty(9000, dtype=np.uint8)
    hand_out(found, by, codes, rng)
    groups, after = np.zeros((600, 7)), np.zeros((30, 7))
    np.add.at(groups, (keys, codes), 1)
    np.add.at(after, (keys // 20, codes), 1)
    assert np.abs(groups - sizes[:, None] * table.reshape(600, 7)).max() < 1 + 1e-9
    assert (np.abs(after - expected) > 1).sum() < 0.4 * (np.abs(before - expected) > 1).sum()


def test_repair_mends_what_swapped_rows_broke(model):
    names, cliques = WIDE.names, [tuple(WIDE.index(n) for n in c) for c in LOOPS]
    encoded = model.sample(2000, np.random.default_rng(0))
    codes = np.stack(encoded.columns)
    codes[0, :60] = codes[0, 60:120]
    held = {frozenset(c): (c, t) for c, t in model.potentials().items()}
    turned = [(held[frozenset(c)], c) for c in LOOPS]
    potentials = [t.transpose([own.index(n) for n in c]).ravel() for (own, t), c in turned]
    expected = np.concatenate([model.project(c).ravel() * (2000 / model.total) for c in LOOPS])
    broken = codes.copy()
    arguments = (WIDE.sizes, cliques, expected, np.concatenate(potentials))
    # How near it comes hangs on the last digits of the model that was fitted: 1.9 to 2.1 on two machines.
    assert repair(codes, *arguments, np.random.default_rng(1)) <= 1.2 * LIMIT
    assert 0 < (codes != broken).any(axis=0).sum() < 400
    assert (codes < np.asarray(WIDE.sizes)[:, None]).all()
    assert len(names) == len(codes)


def test_repair_has_nothing_to_do_without_tables_or_rows():
    rng = np.random.default_rng(0)
    none = np.zeros(0)
    assert repair(np.zeros((2, 5), dtype=np.uint8), (2, 2), [], none, none, rng) == 0.0
    assert repair(np.zeros((1, 0), dtype=np.uint8), (2,), [(0,)], np.zeros(2), np.zeros(2), rng) == 0.0


def test_what_cannot_be_met_is_left_and_said():
    codes = np.zeros((1, 10), dtype=np.uint8)
    left = repair(codes, (2,), [(0,)], np.array([0.0, 0.0]), np.zeros(2), np.random.default_rng(0))
    assert left == pytest.approx(5.0, abs=1.0)
