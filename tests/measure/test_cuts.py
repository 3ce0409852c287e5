"""Four ways to cut bins, from one histogram; and given bins merged where they are rare."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margrave.measure.discovery.bins import cut, cut_by, cut_differences, merge_rare
from margrave.schema.columns.binned import BINNINGS


@pytest.mark.parametrize("binning", BINNINGS)
@given(
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=120),
    bins=st.integers(1, 40),
    least=st.floats(0, 1e5),
    steps=st.lists(st.floats(0.1, 100), min_size=120, max_size=120),
)
@settings(max_examples=60, deadline=None)
def test_bins_partition_the_range(
    binning: str, weights: list[float], bins: int, least: float, steps: list[float]
) -> None:
    edges = np.append(0.0, np.cumsum(steps[: len(weights)]))
    found = cut_by(binning, edges, np.array(weights), bins, least)
    assert 1 <= len(found.edges) - 1 <= bins
    assert (np.diff(found.edges) > 0).all()
    assert set(found.edges) <= set(found.fine)
    assert found.edges[0] == found.fine[0]
    assert found.edges[-1] == found.fine[-1]
    assert found.weights.sum() == pytest.approx(sum(weights))


def test_uniform_bins_have_one_width() -> None:
    found = cut_by("uniform", np.arange(101.0), np.ones(100), 10, 0.0)
    assert np.diff(found.edges).tolist() == [10.0] * 10


def test_quantile_bins_have_one_mass() -> None:
    weights = np.concatenate([np.full(50, 9.0), np.full(50, 1.0)])
    found = cut_by("quantile", np.arange(101.0), weights, 10, 0.0)
    mass = np.add.reduceat(found.weights, found.starts)
    assert len(mass) == 10
    assert (np.abs(mass - 50) < 10).all()


def test_privtree_halves_where_the_mass_is() -> None:
    weights = np.zeros(128)
    weights[:4], weights[64:] = 1000.0, 1.0
    found = cut_by("privtree", np.arange(129.0), weights, 12, 5.0)
    assert {1.0, 2.0, 3.0, 4.0} <= set(found.edges)
    assert np.diff(found.edges)[-1] >= 32


def test_privtree_decays_with_depth() -> None:
    """A node is halved only if its mass exceeds what its depth has taken off and a bin's mass."""
    weights = np.full(64, 10.0)
    deep = cut_by("privtree", np.arange(65.0), weights, 64, 1.0)
    flat = cut_by("privtree", np.arange(65.0), weights, 64, 60.0)
    assert len(flat.edges) < len(deep.edges)
    # Root 640: h=0; halves 320 - 41.6, quarters 160 - 83.2 > 60, eighths 80 - 124.8 < 60.
    assert np.diff(flat.edges).tolist() == [8.0] * 8


def test_rare_cells_fill_bins_with_their_neighbours() -> None:
    """10 rows is the bar: 9 joins the bin before, 4 4 4 make one bin, and so does what begins the line."""
    assert merge_rare(np.array([2.0, 20, 30, 9, 10, 4, 4, 4, 1, 5]), 1.0, 10.0).tolist() == [0, 2, 4, 5]
    assert merge_rare(np.array([4.0, 4, 4, 1, 50]), 1.0, 10.0).tolist() == [0, 4]


def test_a_sum_of_cells_is_rare_by_the_noise_of_a_sum() -> None:
    """With sigma 4, one cell needs 12 rows, four cells together 24."""
    assert merge_rare(np.array([50.0, 11, 1, 1, 10, 50]), 4.0, 0.0).tolist() == [0, 5]
    assert merge_rare(np.array([50.0, 11, 1, 1, 12, 50]), 4.0, 0.0).tolist() == [0, 4, 5]
    assert merge_rare(np.array([50.0, 11, 6, 1, 1, 50]), 4.0, 0.0).tolist() == [0, 1, 5]


def test_nothing_but_noise_is_one_bin() -> None:
    assert merge_rare(np.zeros(9), 1.0, 0.0).tolist() == [0]
    assert merge_rare(np.array([-5.0]), 1.0, 10.0).tolist() == [0]


@given(
    noisy=st.lists(st.floats(-1e3, 1e5), min_size=1, max_size=120),
    sigma=st.floats(0.5, 500.0),
    least=st.floats(0, 1e4),
)
@settings(max_examples=200, deadline=None)
def test_no_merged_bin_is_rare(noisy: list[float], sigma: float, least: float) -> None:
    """What joins a bin after it was closed is rare; what closed it was not: only that is certain."""
    starts = merge_rare(np.array(noisy), sigma, least)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    for first, stop in zip(starts, [*starts[1:], len(noisy)], strict=True):
        sums = [sum(noisy[first:k]) for k in range(first + 1, stop + 1)]
        bars = [max(least, 3 * sigma * np.sqrt(k)) for k in range(1, stop - first + 1)]
        if first > 0:
            assert any(s >= bar * (1 - 1e-9) for s, bar in zip(sums, bars, strict=True))
        heavy = [cell for cell in range(first, stop) if noisy[cell] >= max(least, 3 * sigma)]
        assert len(heavy) <= 1


@given(
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=80),
    bins=st.integers(1, 40),
    least=st.floats(0, 1e5),
    steps=st.lists(st.floats(0.1, 1e6), min_size=80, max_size=80),
    alone=st.lists(st.booleans(), min_size=80, max_size=80),
)
@settings(max_examples=60, deadline=None)
def test_bins_of_differences_partition_the_range(
    weights: list[float], bins: int, least: float, steps: list[float], alone: list[bool]
) -> None:
    cells = len(weights)
    edges = np.append(0.0, np.cumsum(steps[:cells]))
    found = cut_differences(edges, np.array(weights), bins, least, np.array(alone[:cells]))
    assert 1 <= len(found.edges) - 1 <= bins
    assert (np.diff(found.edges) > 0).all()
    assert set(found.edges) <= set(found.fine)
    assert (found.edges[0], found.edges[-1]) == (found.fine[0], found.fine[-1])
    assert found.weights.sum() == pytest.approx(sum(weights))


def mean_error(edges: np.ndarray, fine: np.ndarray, weights: np.ndarray) -> float:
    """The mean distance of numbers in a histogram from the median cell of their bin."""
    middle, total = (fine[:-1] + fine[1:]) / 2, 0.0
    owner = np.searchsorted(edges, fine[:-1], side="right") - 1
    for one in range(len(edges) - 1):
        rows, at = weights[owner == one], middle[owner == one]
        running = np.cumsum(rows)
        centre = at[int(np.searchsorted(running, running[-1] / 2))]
        total += float((rows * np.abs(at - centre)).sum())
    return total / float(weights.sum())


def test_bins_of_differences_lose_less_in_the_tails() -> None:
    """Nine rows of ten within a hundredth of the range: bins of like mass leave all others in two bins."""
    half = 2.0 ** np.arange(4.0, 20.0)
    edges = np.concatenate([-half[::-1], [0.0], half])
    weights = 1e5 / (1.0 + np.abs(edges[:-1] + edges[1:]) / 2e3) ** 0.7
    alone = np.zeros(len(weights), dtype=np.bool_)
    even = cut(edges, weights, 9, 100.0)
    near = cut_differences(edges, weights, 9, 100.0, alone)
    errors = [mean_error(one.edges, one.fine, one.weights) for one in (even, near)]
    assert errors[1] < 0.7 * errors[0]


def test_equal_rows_keep_a_bin_of_their_own() -> None:
    edges = np.array([-1000.0, -100.0, -10.0, 0.0, 1.0, 10.0, 100.0, 1000.0])
    weights = np.array([50.0, 50.0, 50.0, 300.0, 50.0, 50.0, 50.0])
    alone = np.diff(edges) == 1.0
    found = cut_differences(edges, weights, 5, 40.0, alone)
    assert {0.0, 1.0} <= set(found.edges)
