"""Cells of the looks at numbers, and bins cut from them: they cover, they trim, they keep spikes sharp."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margrave import Synthesizer
from margrave.measure.discovery.bins import cut
from margrave.measure.discovery.ranges import (
    nearest,
    number_edges,
    number_prior,
    on_steps,
    place_edges,
    reach_to_zero,
    refined_edges,
)
from margrave.schema.columns import Integer, Real
from margrave.schema.schema import Schema


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


def test_equal_cells_lie_where_nearly_all_rows_are() -> None:
    edges = refined_edges(0.0, 2.0**20, False, inner=(100.0, 356.0))
    assert edges[0] == 0.0
    assert edges[-1] == 2.0**20
    assert set(np.arange(100.0, 357.0)) <= set(edges)


@pytest.mark.parametrize(
    ("bounds", "wider"),
    [
        ((16.0, 128.0), (0.0, 128.0)),
        ((1024.0, 2048.0), (1024.0, 2048.0)),
        ((-128.0, -16.0), (-128.0, 0.0)),
        ((-2048.0, -1024.0), (-2048.0, -1024.0)),
        ((-4.0, 128.0), (-4.0, 128.0)),
    ],
)
def test_a_range_that_comes_near_zero_begins_there(
    bounds: tuple[float, float], wider: tuple[float, float]
) -> None:
    edges = np.array([-4096.0, *sorted({*bounds, sum(bounds) / 2}), 4096.0])
    found, counts, (first, last) = reach_to_zero(edges, np.array([1.0, 64.0, 80.0, 2.0]), (1, 3))
    assert (found[first], found[last]) == wider
    assert len(counts) == len(found) - 1
    if wider != bounds:
        beside = counts[first] if wider[0] == 0.0 else counts[last - 1]
        assert beside == pytest.approx((64.0 if wider[0] == 0.0 else 80.0) * 16 / 56)


@pytest.mark.parametrize("whole", [True, False])
def test_numbers_of_which_nothing_is_known_are_of_common_sizes(whole: bool) -> None:
    edges = number_edges(whole)
    share = number_prior(edges)
    assert share.sum() == pytest.approx(1.0)
    assert (share > 0).all()
    assert share[(edges[:-1] >= 0) & (edges[:-1] < 2.0**20)].sum() > 0.8
    assert share[edges[1:] <= 0].sum() < 0.2


@settings(max_examples=200)
@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.booleans(), st.sampled_from([None, 1e-6, 1.0]))
def test_no_two_edges_are_one_but_for_rounding(
    low: float, width: float, whole: bool, near: float | None
) -> None:
    lower, upper = (np.floor(low), np.floor(low) + np.ceil(width)) if whole else (low, low + width)
    edges = refined_edges(float(lower), float(upper), whole, near)
    assert edges[0] == lower
    assert edges[-1] == upper
    apart = np.diff(edges) / np.maximum(np.abs(edges[1:]), 1e-300)
    assert (apart[edges[1:] > 1e-300] > 1e-6).all() or len(edges) == 2


def test_numbers_are_near_zero_where_one_side_shows_it() -> None:
    edges = number_edges(True)
    noisy = np.zeros(len(edges) - 1)
    noisy[np.searchsorted(edges, 1.0)] = 5.0 * 10.0  # five deviations of 1, nothing of -1
    assert nearest(edges, noisy, 10.0, 4.5) == 1.0
    assert nearest(edges, noisy, 10.0, 5.5) is None


def test_small_whole_numbers_keep_cells_of_their_own_below_a_far_end() -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random(6_000) < 0.02, 1, 0)
    values[:300] = 100_000
    made = Synthesizer("independent", epsilon=0.3, not_private_test_seed=0).fit(pa.table({"x": values}))
    fine = getattr(made.schema["x"], "fine", ())
    assert {0.0, 1.0, 2.0, 4.0, 8.0} <= set(fine)


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "epsilon"),
    [(Real, None, 99.5, 3.0), (Real, 5000.5, None, 3.0), (Integer, None, 99, 0.5)],
)
def test_where_all_numbers_are_beyond_a_declared_bound_they_are_drawn_at_it(
    kind: type[Real] | type[Integer], lower: float | None, upper: float | None, epsilon: float
) -> None:
    years = np.random.default_rng(0).integers(1950, 2020, 3_000).astype(np.float64)
    schema = Schema((kind(name="x", lower=lower, upper=upper, strict=False),))
    run = Synthesizer("independent", epsilon=epsilon, schema=schema, not_private_test_seed=1)
    column = run.fit(pa.table({"x": years})).schema["x"]
    assert isinstance(column, Real | Integer)
    assert lower is None or column.edge_array[0] >= lower
    assert upper is None or column.edge_array[-1] <= np.nextafter(upper + (kind is Integer), np.inf)
