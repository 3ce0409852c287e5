"""Rows of a junction tree given codes of their own: in stretches, on any tree, as the joint says."""

from __future__ import annotations

import numpy as np
import pytest
from enumeration import joint, random_layout
from scipy.stats import chi2

from margrave.models.pgm import model as sampling
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.model import distinct, draw_given


def drawn(layout, theta, given, rows, seed=0):
    inference = Inference(layout)
    inference.run(theta)
    return draw_given(layout, inference.belief, given, rows, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(12))
def test_any_tree_and_any_given_codes(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    layout = random_layout(rng)
    theta = rng.normal(size=layout.starts[-1]) * 2
    count, rows = len(layout.sizes), 12_000
    names = rng.choice(count, size=int(rng.integers(1, count + 1)), replace=False).tolist()
    given = {v: rng.integers(0, layout.sizes[v], rows) for v in names}
    monkeypatch.setattr(sampling, "ROOM", 1 << int(rng.integers(0, 12)))
    codes = drawn(layout, theta, given, rows, seed)
    for v, own in given.items():
        np.testing.assert_array_equal(codes[v], own)
    table, _ = joint(layout, theta)
    free = tuple(v for v in range(count) if v not in names)
    held = np.zeros(layout.sizes)
    shape = [n if v in names else 1 for v, n in enumerate(layout.sizes)]
    held = np.zeros(shape)
    np.add.at(held, tuple(given[v] if v in names else 0 for v in range(count)), 1)
    expected = table / table.sum(axis=free, keepdims=True) * held
    counts = np.zeros(layout.sizes)
    np.add.at(counts, tuple(codes), 1)
    enough = expected >= 5
    statistic = float(((counts - expected)[enough] ** 2 / expected[enough]).sum())
    assert chi2.sf(statistic, max(int(enough.sum()), 1)) > 1e-6


def test_stretches_hold_few_cells_whatever_the_rows(monkeypatch):
    layout = random_layout(np.random.default_rng(1), largest=6, widest=4)
    rng = np.random.default_rng(2)
    last = len(layout.sizes) - 1
    given = {last: rng.integers(0, layout.sizes[last], 500)}
    monkeypatch.setattr(sampling, "ROOM", 1)
    one = drawn(layout, rng.normal(size=layout.starts[-1]), given, 500)
    assert one.shape == (last + 1, 500)
    work = sampling._Work(layout, np.ones(layout.node_starts[-1]), set(given))
    assert [last - first for first, last in work.parts(3)] == [1, 1, 1] or not work.told


def test_rows_that_are_given_the_same_share_their_work():
    given = {0: np.array([1, 0, 1, 1]), 2: np.array([2, 2, 2, 0])}
    sets, which = distinct(given, (0, 1, 2))
    assert list(sets) == [2, 0]  # what is eliminated last comes first
    assert len(sets[0]) == 3
    assert (sets[0][which] == given[0]).all()
    assert (sets[2][which] == given[2]).all()
