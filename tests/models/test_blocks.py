from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from enumeration import joint, random_layout, summed

from margrave.models.pgm import inference as blocks
from margrave.models.pgm.inference import Inference, share_work, splits
from margrave.models.pgm.kernels import ROWS
from margrave.models.pgm.tree import Layout

CHAIN = [(a, b) for a, b in itertools.combinations(range(9), 2) if b - a < 6]


@pytest.fixture
def dealt(monkeypatch):
    """Even the smallest nodes are dealt out."""
    monkeypatch.setattr("margrave.models.pgm.inference.MIN_DEALT_CELLS", 2)
    for name in ("MIN_BLOCK_CELLS", "RUN", "COPY_DIVISOR"):
        monkeypatch.setattr(blocks, name, 1)


def same(layout, theta, inference, tolerance):
    log_z = inference.run(theta)
    table, expected = joint(layout, theta)
    assert log_z == pytest.approx(expected, abs=1e-8)
    for k, clique in enumerate(layout.tree.cliques):
        found = inference.belief[layout.node_starts[k] : layout.node_starts[k + 1]]
        np.testing.assert_allclose(found, summed(table, clique).ravel(), atol=tolerance)
    for k, clique in enumerate(layout.measured):
        found = inference.marginals[layout.starts[k] : layout.starts[k + 1]]
        np.testing.assert_allclose(found, summed(table, clique).ravel(), atol=tolerance)


@pytest.mark.parametrize("seed", range(40))
def test_inference_by_blocks_equals_enumeration(seed, dealt):
    rng = np.random.default_rng(seed)
    layout = random_layout(rng, largest=8, widest=4, cliques=9)
    theta = rng.normal(size=layout.starts[-1]) * rng.choice([0.1, 1.0, 10.0])
    same(layout, theta, Inference(layout, 3), 1e-10)


def test_blocks_with_copies_and_without_equal_enumeration(dealt):
    layout = Layout([3, 4, 4, 5, 6, 7], [*itertools.combinations(range(5), 2), (1, 2, 5), (5,)], 1 << 20)
    found = splits(layout, 0, 2)
    assert any(way.room for split in found for way in (split.up, split.down))
    assert any(len(split.up.parts) > 1 and not split.up.room for split in found)
    theta = np.random.default_rng(0).normal(size=layout.starts[-1])
    same(layout, theta, Inference(layout, 2), 1e-12)


@pytest.mark.parametrize("scale", [1e4, 1e7])
def test_huge_potentials_are_caught_in_blocks_too(scale, dealt):
    layout = Layout([2, 3, 3, 4, 4], [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (2,)], 1 << 20)
    inference = Inference(layout, 2)
    theta = np.random.default_rng(1).normal(size=layout.starts[-1]) * scale
    log_z = inference.run(theta)
    table, expected = joint(layout, theta)
    assert log_z == pytest.approx(expected, rel=1e-12)
    assert inference.log_space_runs == 1
    for k, clique in enumerate(layout.measured):
        found = inference.marginals[layout.starts[k] : layout.starts[k + 1]]
        np.testing.assert_allclose(found, summed(table, clique).ravel(), atol=1e-8)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr("margrave.models.pgm.inference.MIN_DEALT_CELLS", 1 << 14)
    monkeypatch.setattr(blocks, "MIN_BLOCK_CELLS", 1 << 11)
    monkeypatch.setattr(blocks, "RUN", 1 << 8)
    layout = Layout([6] * 9, [*CHAIN, (0, 1, 2), (3, 4, 5)], 1 << 20)
    found = splits(layout, 0, 1 << 14)
    assert any(len(split.up.parts) >= 8 for split in found)
    assert any(split.room for split in found)
    theta = np.random.default_rng(3).normal(size=layout.starts[-1])
    several = [Inference(layout, threads) for threads in (1, 2, 3, 7, None)]
    for _ in range(5):
        values = {inference.run(theta) for inference in several}
        assert len(values) == 1
        for other in several[1:]:
            np.testing.assert_array_equal(other.belief, several[0].belief)
            np.testing.assert_array_equal(other.marginals, several[0].marginals)


@pytest.mark.parametrize("seed", range(15))
def test_every_row_is_in_one_block_and_copies_do_not_overlap(seed, dealt):
    layout = random_layout(np.random.default_rng(seed), largest=8, widest=5, cliques=9)
    for split in splits(layout, 1000, 2):
        for way in (split.up, split.down):
            rows = [
                row
                for first, many, apart, times in way.parts.tolist()
                for time in range(times)
                for row in range(first + time * apart, first + time * apart + many)
            ]
            assert sorted(rows) == list(range(layout.nodes[split.node, ROWS]))
            copies = way.into[:, :, 1][way.into[:, :, 1] >= 1000].tolist()
            assert len(set(copies)) == len(copies) == len(way.parts) * len(way.copied)
            assert max(copies, default=1000) < 1000 + way.room * len(way.parts) + (not copies)


def test_small_trees_are_not_dealt_out():
    layout = Layout([6] * 9, CHAIN, 1 << 20)
    assert not splits(layout, 0, blocks.MIN_DEALT_CELLS)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_shared_work_is_done_once_each(threads):
    done, lock = [], threading.Lock()

    def work(turn):
        with lock:
            done.append(turn)

    share_work(work, 100, threads)
    assert sorted(done) == list(range(100))


def test_an_error_in_shared_work_comes_out():
    def work(turn):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share_work(work, 4, 3)
