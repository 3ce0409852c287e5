"""Bins from noisy histograms: they cover, they trim, they keep spikes sharp."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margrave.measure.bins import denoise, place, sharp, support
from margrave.measure.cuts import cut
from margrave.measure.ranges import (
    nearest,
    number_edges,
    on_steps,
    place_edges,
    refined_edges,
    widened,
)


@pytest.mark.parametrize("whole", [True, False])
def test_the_fixed_grid_covers_numbers_in_order(whole: bool) -> None:
    edges = number_edges(whole)
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= -(2.0**52)
    assert edges[-1] >= 2.0**53
    if whole:
        assert (edges == np.round(edges)).all()
        assert {0.0, 1.0, 2.0, 4.0, 16.0, 32.0} <= set(edges)


@given(
    low=st.floats(-1e9, 1e9, allow_nan=False),
    width=st.floats(1.0, 1e9, allow_nan=False),
    whole=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_the_second_look_refines_the_range_exactly(low: float, width: float, whole: bool) -> None:
    low, high = (np.floor(low), np.floor(low) + np.ceil(width)) if whole else (low, low + width)
    edges = refined_edges(low, high, whole)
    assert edges[0] == low
    assert edges[-1] == high
    assert (np.diff(edges) > 0).all()
    assert len(edges) < 1200
    if whole:
        assert (edges == np.round(edges)).all()


def test_years_far_from_zero_are_resolved_to_the_year() -> None:
    edges = refined_edges(1950.0, 2030.0, True)
    assert (np.diff(edges) == 1).all()


def test_denoise_keeps_mass_and_is_never_negative() -> None:
    rng = np.random.default_rng(3)
    noisy = np.where(np.arange(300) < 40, 200.0, 0.0) + rng.normal(0, 20, 300)
    found = denoise(noisy, 20.0, 2.0, 3.2)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(8000, rel=0.1)
    assert found[60:].sum() < 0.025 * 8000


def test_denoise_beats_the_raw_noise() -> None:
    rng = np.random.default_rng(4)
    truth = 2000 * np.exp(-0.5 * ((np.arange(256) - 90) / 12) ** 2)
    noisy = truth + rng.normal(0, 60, 256)
    assert np.abs(denoise(noisy, 60.0, 2.0, 3.2) - truth).sum() < 0.6 * np.abs(noisy - truth).sum()


def test_without_noise_a_histogram_is_returned_as_it_is() -> None:
    truth = np.array([0.0, 3.0, 900.0, 1.0, 0.0, 0.0, 7.0, 2.0])
    assert denoise(truth, 1e-9, 2.0, 3.2) == pytest.approx(truth)


def test_an_empty_column_gets_one_bin() -> None:
    edges, weights = np.arange(9.0), np.zeros(8)
    found = cut(edges, weights, 32, 10.0)
    assert found.edges[0] == 0
    assert found.edges[-1] == 8


def test_a_spike_has_a_bin_of_its_own_and_ends_are_trimmed() -> None:
    edges = np.arange(101.0)
    weights = np.full(100, 10.0)
    weights[:5], weights[90:], weights[40] = 0.0, 0.0, 5000.0
    found = cut(edges, weights, 10, 20.0)
    assert found.edges[0] == 5
    assert found.edges[-1] == 90
    assert {40.0, 41.0} <= set(found.edges)
    assert len(found.edges) - 1 <= 10
    assert found.weights.sum() == weights.sum()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.integers(1, 40), st.floats(0, 1e5))
@settings(max_examples=200, deadline=None)
def test_bins_partition_the_range(weights: list[float], bins: int, least: float) -> None:
    edges = np.arange(len(weights) + 1.0)
    found = cut(edges, np.array(weights), bins, least)
    assert 1 <= len(found.edges) - 1 <= bins
    assert set(found.edges) <= set(found.fine)
    assert (np.diff(found.edges) > 0).all()


def test_widened_bounds_stay_on_their_side_of_zero() -> None:
    edges = number_edges(True)
    inside = np.flatnonzero((edges[:-1] >= 16) & (edges[:-1] < 64))
    low, high = widened(edges, (inside[0], inside[-1]), True)
    assert low == 0.0
    assert high == 88
    assert widened(edges, None, True) == (0.0, 1.0)


@pytest.mark.parametrize("rows", [300, 1000, 3000, 30_000])
def test_bounds_of_a_small_table_are_never_astronomical(rows: int) -> None:
    edges = number_edges(True)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        counts = np.histogram(rng.integers(18, 80, rows), edges)[0]
        held = place(counts + rng.normal(0, 60, len(counts)), 60.0, 4.5)
        low, high = widened(edges, held, True)
        assert 0 <= low < high <= 256


def test_the_support_of_an_exact_histogram_is_exact() -> None:
    counts = np.zeros(200)
    counts[[17, 120]] = 1000.0
    assert support(counts, 1e-9, 4.5) == (17, 120)
    assert support(np.zeros(200), 1.0, 4.5) is None


def test_a_place_is_found_at_any_offset() -> None:
    noise = np.random.default_rng(0).normal(0, 1.0, 108)
    for start in range(40, 60):
        counts = np.zeros(108)
        counts[start : start + 4] = 3.6  # seven deviations together
        found = place(counts + noise, 1.0, 4.5)
        assert found is not None
        assert start - 4 <= found[0] <= found[1] <= start + 7
    assert place(noise, 1.0, 4.5) is None


def test_noise_far_from_the_numbers_does_not_stretch_the_range() -> None:
    counts = np.zeros(107)
    counts[54:60] = 300.0, 900.0, 2000.0, 500.0, 60.0, 5.0
    rows, ends, far, alone = (float(counts.sum()), 1.0), 0, 0, 0
    for seed in range(4000):
        noisy = counts + np.random.default_rng(seed).normal(0, 1, 107)
        found = place(noisy, 1.0, 4.5, rows)
        assert found is not None
        assert found[0] <= 54
        assert found[1] >= 58
        ends += found[1] == 59  # a thin end beside the rest is evident at 4.5 deviations
        far += found[0] < 54 - 12 or found[1] > 59 + 12
        alone += place(noisy, 1.0, 4.5) != found
    assert far == 0
    assert alone > 3  # without the row count
    assert ends > 2000


def test_a_second_place_is_kept_where_it_is_clear_or_rows_are_left() -> None:
    counts = np.zeros(107)
    counts[54], counts[100] = 500.0, 9.0
    noisy = counts + 0.01
    assert place(noisy, 1.0, 4.5, (509.0, 1.0)) == (54, 100)
    counts[100] = 5.0
    assert place(counts, 1.0, 4.5, (505.0, 1.0)) == (54, 54)
    assert place(counts, 1.0, 4.5, (560.0, 1.0)) == (54, 100)


def test_a_spike_is_not_smeared_over_its_neighbours() -> None:
    rng = np.random.default_rng(1)
    truth = np.full(256, 2.0)
    truth[0] = 700.0
    for _ in range(20):
        noisy = truth + rng.normal(0, 60, 256)
        assert sharp(noisy, 60.0, 2.0, 3.2)[0] > 450
    assert sharp(np.zeros(3), 1.0, 2.0, 3.2).tolist() == [0.0, 0.0, 0.0]


def test_amounts_over_many_orders_have_cells_at_each() -> None:
    edges = refined_edges(0.0, 2.0**20, False, 2.0**-6)
    assert edges[0] == 0.0
    assert edges[1] == np.nextafter(0.0, 1.0)
    for octave in range(-6, 20):
        assert ((edges >= 2.0**octave) & (edges < 2.0 ** (octave + 1))).sum() >= 8
    coarse = refined_edges(0.0, 2.0**20, False, 2.0**-6, 0.05)
    assert len(coarse) < len(edges) / 5
    assert {0.0, np.nextafter(0.0, 1.0), 2.0**20} <= set(coarse)


def test_how_near_to_zero_numbers_come() -> None:
    edges = number_edges(False)
    counts = np.histogram(np.geomspace(0.01, 1e5, 20_000), edges)[0].astype(float)
    assert nearest(edges, counts, 10.0, 4.5) == 2.0**-7
    assert nearest(edges, -counts, 10.0, 4.5) is None
    assert nearest(number_edges(True), np.zeros(len(number_edges(True)) - 1), 1.0, 4.5) is None


def test_edges_move_to_the_storage_s_own_steps() -> None:
    assert on_steps(np.array([0.0, 0.013, 0.02, 0.021]), 0.01).tolist() == [0.0, 0.02, 0.03]
    assert on_steps(np.array([-7.0, 12.0, 19.0]), 10.0).tolist() == [0.0, 20.0]
    assert on_steps(np.array([1.0, 2.0]), 10.0).tolist() == [10.0, 20.0]
    assert place_edges(0.0, 64.0, True).tolist() == list(range(65))
    assert len(place_edges(0.0, 1.0, False)) == 129
