"""MST against its sheet: noise by thirds, the tree of a noiseless run, and domain compression."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from faithful_door import counted, opened

from margrave.models._base.pooling import Pooled, one_ways, pool
from margrave.models._grouping import merge_rare_codes
from margrave.models.compressed import Compressed
from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.events import ExponentialEvent
from margrave.privacy.unit import Adjacency
from margrave.progress import silent
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.select.mst import MST

SIZES = {"x1": 2, "x2": 2, "x3": 2, "x4": 2, "x5": 3}


def linked(rows: int = 5000) -> pa.Table:
    """x1 and x2 nearly alike, x3 a looser copy of x2, the others by themselves."""
    rng = np.random.default_rng(0)
    x1 = rng.integers(0, 2, rows)
    x2 = np.where(rng.random(rows) < 0.03, 1 - x1, x1)
    x3 = np.where(rng.random(rows) < 0.1, 1 - x2, x2)
    return pa.table(
        {"x1": x1, "x2": x2, "x3": x3, "x4": rng.integers(0, 2, rows), "x5": rng.integers(0, 3, rows)}
    )


@pytest.mark.parametrize(("adjacency", "step"), [("add_remove", 1), ("replace_one", 2)])
def test_noise_and_draws_have_the_scales_of_a_third_each(adjacency: Adjacency, step: int) -> None:
    """sigma = S root(3 / (2 rho)), times root(d) for one-ways, root(d - 1) for pairs; S root 2 if replaced.

    A draw has epsilon = root(8 (rho / 3) / (d - 1)) and the L1 sensitivity of a marginal, 1 or 2.
    """
    curator, ledger = opened(linked(), SIZES, adjacency=adjacency)
    MST().run(curator, Independent(), silent)
    base = math.sqrt(step * 3 / (2 * float(ledger.total)))
    for k, count in ((1, 5), (2, 4)):
        sigmas = [float(m.sigma) for m in curator.measurements if len(m.clique) == k]
        assert sigmas == pytest.approx([base * math.sqrt(count)] * count, rel=1e-6)
    draws = [event for event in ledger.events if isinstance(event, ExponentialEvent)]
    assert len(draws) == 4
    for draw in draws:
        assert draw.sensitivity == step
        assert float(draw.epsilon) == pytest.approx(math.sqrt(8 * float(ledger.total) / 3 / 4), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_without_noise_the_heaviest_tree_is_chosen_and_met(seed: int) -> None:
    table = linked()
    curator, _ = opened(table, SIZES, 1e6, seed=seed)
    model = MST().run(curator, PGM(strength=1e-6), silent)
    pairs = {m.clique for m in curator.measurements if len(m.clique) == 2}
    assert {("x1", "x2"), ("x2", "x3")} < pairs
    assert len(pairs) == 4
    for pair in pairs:
        exact = counted(table, pair, [SIZES[name] for name in pair])
        assert np.abs(model.project(pair) - exact).max() < 0.01 * 5000


def test_a_merged_cell_has_the_noise_of_all_that_are_in_it() -> None:
    """Divided by the root of how many there are, as the reference states it, it is that of one cell again."""
    sigma, hidden, draws = 4.0, 6, 100_000
    domain = Domain(("a",), (2 + hidden,))
    truth = np.array([900.0, 400.0] + [0.0] * hidden)
    coarse = merge_rare_codes(domain, {"a": Pooled(("a",), truth, np.full(8, sigma))}, 3.0)
    assert coarse is not None
    assert coarse.inner.sizes == (3,)
    rng = np.random.default_rng(0)
    # A second attribute stands for the draws: the merging is along the first one alone.
    noise = sigma * rng.standard_normal((8, draws))
    found = coarse.summed(Pooled(("a", "draw"), noise, np.full(noise.shape, sigma)))
    assert found.values.shape == (3, draws)
    np.testing.assert_allclose(found.values[2] / math.sqrt(hidden), noise[2:].sum(axis=0) / math.sqrt(hidden))
    np.testing.assert_allclose((found.values[2] / math.sqrt(hidden)).std(), sigma, rtol=0.01)
    np.testing.assert_allclose(found.sigma[:, 0] / sigma, [1, 1, math.sqrt(hidden)])
    np.testing.assert_array_equal(found.values[:2], noise[:2])


def test_codes_that_are_kept_come_back_as_they_went_in() -> None:
    domain = Domain(("a", "b"), (6, 2))
    one = NoisyMarginal(("a",), np.array([3000.0, 2.0, 500.0, -1.0, 1.0, 900.0]), 5.0)
    pair = NoisyMarginal(
        ("a", "b"), np.array([[2000.0, 1000], [1, 1], [100, 400], [0, 0], [1, 0], [450, 450]]), 5.0
    )
    coarse = merge_rare_codes(domain, one_ways(pool(domain, [one, pair])), 3.0)
    assert coarse is not None
    kept = [0, 2, 5]
    groups = coarse.groups["a"]
    assert len(set(groups[kept])) == 3
    assert set(groups[kept]).isdisjoint(groups[[1, 3, 4]])
    drawn = coarse.draw_codes("a", groups[np.array(kept)], np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, kept)
    model = Compressed().fit(domain, [one, pair])
    rows = model.sample(4400, np.random.default_rng(0))
    counts = np.bincount(rows.column("a"), minlength=6)
    np.testing.assert_allclose(counts[kept], [3000, 500, 900], rtol=0.02)
    assert counts[[1, 3, 4]].sum() < 40
