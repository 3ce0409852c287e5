"""Numbers drawn on grids: the shares asked for, never outside the bin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import SchemaError
from margrave.schema.columns import Integer, Real
from margrave.schema.draws import real_numbers, whole_numbers
from margrave.schema.encode import encode_column

ROWS = 20_000


def near(share: float, expected: float) -> bool:
    return abs(share - expected) < 5 * np.sqrt(0.25 / ROWS)


def test_whole_numbers_fall_on_grids_in_their_shares() -> None:
    column = Integer(name="x", edges=(0, 50_000), missing=False, grids=((1000, 0.5), (10, 0.3)))
    drawn = whole_numbers(np.zeros(ROWS, dtype=np.int64), column, np.random.default_rng(0))
    assert near((drawn % 1000 == 0).mean(), 0.5 + 0.3 / 100 + 0.2 / 1000)
    assert near((drawn % 10 == 0).mean(), 0.8 + 0.02)


def test_a_bin_without_a_multiple_tries_the_next_finer() -> None:
    column = Integer(name="x", edges=(1001, 1010, 1100), missing=False, grids=((1000, 0.9), (5, 0.1)))
    drawn = whole_numbers(np.repeat([0, 1], ROWS), column, np.random.default_rng(0))
    assert set(drawn[:ROWS]) == {1005}
    assert (drawn[ROWS:] % 5 == 0).all()
    assert drawn[ROWS:].min() >= 1010


def test_a_fine_cell_beside_the_multiple_goes_to_the_nearest() -> None:
    column = Integer(
        name="x",
        edges=(0, 200),
        fine=(0, 60, 90, 200),
        weights=(0.0, 1.0, 0.0),
        missing=False,
        grids=((100, 1.0),),
    )
    drawn = whole_numbers(np.zeros(100, dtype=np.int64), column, np.random.default_rng(0))
    assert set(drawn) == {100}


def test_a_cell_of_one_multiple_holds_it_whatever_coarser_grids_there_are() -> None:
    column = Real(
        name="x",
        edges=(2.0, 9.0),
        fine=(2.0, 2.5, 3.0, 9.0),
        weights=(0.0, 1.0, 0.0),
        missing=False,
        grids=((1.0, 0.5), (0.5, 0.5)),
    )
    drawn = real_numbers(np.zeros(200, dtype=np.int64), column, np.random.default_rng(0))
    assert set(drawn) == {2.5}


def test_a_cell_from_0_to_the_step_of_all_values_holds_0() -> None:
    grids = ((100.0, 0.2), (50.0, 0.8))
    whole = Integer(name="x", edges=(0, 50, 100), fine=(0, 50, 100), weights=(1.0, 0.0), grids=grids)
    drawn = whole_numbers(np.zeros(200, dtype=np.int64), whole, np.random.default_rng(0))
    assert set(drawn) == {0}
    # Beside other multiples 0 has a cell of its own.
    wide = Integer(name="x", edges=(0, 200), fine=(0, 1, 200), weights=(0.0, 1.0), grids=grids)
    drawn = whole_numbers(np.zeros(200, dtype=np.int64), wide, np.random.default_rng(0))
    assert set(drawn) == {50, 100, 150}


def test_decimals_that_are_not_exact_keep_their_cell() -> None:
    edges = np.arange(100, 131) / 100
    column = Real(name="x", edges=tuple(edges), fine=tuple(edges), weights=(1.0,) * 30, grids=((0.01, 1.0),))
    drawn = real_numbers(np.repeat(np.arange(30), 20), column, np.random.default_rng(0))
    assert (drawn == np.repeat(edges[:-1], 20)).all()


@pytest.mark.parametrize("step", [0.01, 0.5, 0.001])
def test_decimals_are_the_nearest_doubles(step: float) -> None:
    column = Real(name="x", lower=-3.0, upper=7.0, bins=9, missing=False, grids=((step, 1.0),))
    bins = np.random.default_rng(0).integers(0, 9, ROWS)
    drawn = real_numbers(bins, column, np.random.default_rng(1))
    digits = {0.01: 2, 0.5: 1, 0.001: 3}[step]
    assert all(float(f"{value:.{digits}f}") == value for value in drawn[:2000])
    np.testing.assert_array_equal(encode_column(_arrow(drawn), column), bins)


def test_a_number_alone_is_drawn_as_it_is() -> None:
    tiny = np.nextafter(0.0, 1.0)
    column = Real(name="x", edges=(0.0, tiny, 10.0), missing=False)
    drawn = real_numbers(np.repeat([0, 1], 500), column, np.random.default_rng(0))
    assert (drawn[:500] == 0.0).all()
    assert (drawn[500:] > 0.0).all()
    assert column.labels == ("0", "above 0 to 10")
    inside = Real(name="x", edges=(0.0, 10.0), fine=(0.0, tiny, 10.0), weights=(1.0, 1.0), missing=False)
    drawn = real_numbers(np.zeros(4000, dtype=np.int64), inside, np.random.default_rng(0))
    assert abs((drawn == 0.0).mean() - 0.5) < 0.05


def _arrow(values: np.ndarray) -> object:
    import pyarrow as pa

    return pa.array(values)


@given(
    edges=st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=8, unique=True).map(sorted),
    grids=st.sampled_from((((1000, 0.5), (7, 0.5)), ((2, 0.3),), ((10**6, 1.0),), ((60, 0.5), (5, 0.25)))),
    seed=st.integers(0, 2**32),
    whole=st.booleans(),
)
def test_no_grid_carries_a_value_out_of_its_bin(
    edges: list[int], grids: tuple[tuple[float, float], ...], seed: int, whole: bool
) -> None:
    rng = np.random.default_rng(seed)
    kind = Integer if whole else Real
    column = kind(name="x", edges=tuple(edges), missing=False, grids=grids)
    bins = rng.integers(0, column.present, 100)
    drawn = whole_numbers(bins, column, rng) if whole else real_numbers(bins, column, rng)
    np.testing.assert_array_equal(encode_column(_arrow(drawn), column), bins)


@pytest.mark.parametrize(
    "grids",
    [((5, 0.5), (10, 0.5)), ((0, 1.0),), ((10, 0.7), (5, 0.7)), ((0.3, 1.0),), ((10, -0.1),), (5,), ((5,),)],
)
def test_grids_that_make_no_sense_are_refused(grids: object) -> None:
    with pytest.raises(SchemaError, match="grids of column"):
        Real(name="x", lower=0, upper=1, grids=grids)


@pytest.mark.parametrize(
    ("upper", "step", "last"), [(100.0, 1.0, 100.0), (100.3, 1.0, 100.0), (99.95, 0.1, 99.9), (1.0, 0.1, 1.0)]
)
def test_the_end_of_the_last_declared_bin_is_drawn_where_it_is_on_the_grid(
    upper: float, step: float, last: float
) -> None:
    """Before, no row had the greatest number."""
    column = Real(name="x", lower=0.0, upper=upper, bins=4, missing=False, grids=((step, 1.0),))
    drawn = real_numbers(np.full(ROWS, 3), column, np.random.default_rng(0))
    assert drawn.max() == last
    expected = 1.0 / len(np.unique(drawn))
    assert near((drawn == last).mean(), expected)


def test_a_fine_cell_that_ends_at_the_last_edge_is_half_open() -> None:
    column = Real(
        name="x",
        edges=(0.0, 37.0),
        fine=(0.0, 36.0, 37.0),
        weights=(0.0, 1.0),
        missing=False,
        grids=((1.0, 1.0),),
    )
    drawn = real_numbers(np.zeros(200, dtype=np.int64), column, np.random.default_rng(0))
    assert set(drawn) == {36.0}


def test_a_last_cell_of_one_number_ends_with_it() -> None:
    column = Real(
        name="x",
        edges=(0.0, 100.0, float(np.nextafter(100.0, np.inf))),
        fine=(0.0, 99.0, 100.0, float(np.nextafter(100.0, np.inf))),
        weights=(0.0, 1.0, 3.0),
        missing=False,
    )
    assert column.upper == 100.0
    drawn = real_numbers(np.repeat([0, 1], ROWS), column, np.random.default_rng(0))
    assert drawn[:ROWS].max() < 100.0
    assert set(drawn[ROWS:]) == {100.0}


@pytest.mark.parametrize("upper", [79.6, 0.3, 1e-7, 1234.56])
def test_numbers_of_single_precision_stay_in_their_bins_as_they_are_read(upper: float) -> None:
    # The nearest number of single precision to an end may lie on its other side, but is read as the end.
    edges = (0.0, upper * (1 - 2.0**-22), upper, upper * (1 + 2.0**-22), 2 * upper)
    column = Real(name="x", edges=edges, missing=False)
    bins = np.repeat(np.arange(4), 300)
    drawn = real_numbers(bins, column, np.random.default_rng(0), np.float32)
    assert drawn.dtype == np.float32
    np.testing.assert_array_equal(encode_column(pa.array(drawn), column), bins)
