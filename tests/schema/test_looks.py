"""What discovery asks about a column: exact, each cell once, parts adding up to the whole."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import InputError
from margrave.schema.profile import profile
from margrave.schema.queries import count_numbers, count_repeats, grids, histogram, places, readings
from margrave.schema.storage import clock, forms
from margrave.schema.storage.clock import DAY

NOON = datetime.datetime(1969, 12, 31, 12, 0)


def read(array: Any, as_what: str) -> list[int | None]:
    values, known = readings(array, as_what)
    return [int(value) if sure else None for value, sure in zip(values, known, strict=True)]


@pytest.mark.parametrize(
    ("kind", "value", "ticks"),
    [
        (pa.date32(), NOON.date(), -1),
        (pa.date64(), NOON.date(), -1),
        *[(pa.timestamp(unit), NOON, -DAY // 2) for unit in ("s", "ms", "us", "ns")],
        (pa.timestamp("us", "Asia/Tokyo"), NOON, -DAY // 2),
        *[
            (pa.duration(unit), datetime.timedelta(seconds=-90), -90_000_000)
            for unit in ("s", "ms", "us", "ns")
        ],
        *[(pa.time32(unit), datetime.time(0, 1), 60_000_000) for unit in ("s", "ms")],
        *[(pa.time64(unit), datetime.time(0, 1), 60_000_000) for unit in ("us", "ns")],
    ],
)
def test_typed_storage_has_a_number(kind: Any, value: Any, ticks: int) -> None:
    array = pa.array([value, None], kind)
    assert forms.normal(array, "x").to_pylist() == [ticks, None]
    assert read(array, clock.temporal_kind(kind)) == [ticks, None]
    assert read(pa.chunked_array([array, array]), clock.temporal_kind(kind)) == [ticks, None] * 2
    assert clock.from_ticks(forms.normal(array, "x"), kind).to_pylist() == array.to_pylist()
    assert read(clock.keep_temporal(array), clock.temporal_kind(kind)) == [ticks, None]


def test_nanoseconds_are_cut_towards_the_past() -> None:
    array = pa.array([-1, 1, 1999, None], pa.int64()).cast(pa.timestamp("ns"))
    assert forms.normal(array, "x").to_pylist() == [-1, 0, 1, None]
    assert clock.keep_temporal(array).type == pa.timestamp("us")


def test_what_int64_cannot_hold_is_held_at_its_end() -> None:
    ends = pa.array([-(1 << 62), 1 << 62], pa.int64()).cast(pa.timestamp("s"))
    low, high = forms.normal(ends, "x").to_pylist()
    assert low < -(1 << 62)
    assert high > 1 << 62
    narrow = clock.from_ticks(pa.array([low, high]), pa.timestamp("ns")).cast(pa.int64()).to_pylist()
    assert narrow[0] < -(1 << 62) < 1 << 62 < narrow[1]


def test_text_is_read_by_its_spelling() -> None:
    array = pa.array(["2024-01-01", "2024-01-01T06:00", "06:00", "7", "7.5", "x", None, "1e999"])
    assert read(array, "number") == [None, None, None, 7, 7, None, None, None]
    assert read(array, "date") == [19723, *[None] * 7]
    assert read(array, "moment") == [19723 * DAY, 19723 * DAY + DAY // 4, *[None] * 6]
    assert read(array, "time") == [None, None, DAY // 4, *[None] * 5]
    assert read(array, "duration") == [None, None, None, 7, *[None] * 4]


def test_a_stored_moment_has_a_date_and_a_date_a_moment() -> None:
    assert read(pa.array([NOON]), "date") == [-1]
    assert read(pa.array([NOON.date()]), "moment") == [-DAY]
    assert read(pa.array([5]), "date") == [5]
    with pytest.raises(InputError, match="stored as what it is declared"):
        readings(pa.array([datetime.timedelta(1)]), "date")


@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=20), st.integers(-(1 << 61), 1 << 61))
def test_whole_numbers_are_placed_exactly_at_any_size(values: list[int], edge: int) -> None:
    array = np.asarray(values, dtype=np.int64)
    edges = np.asarray([edge, edge + 1], dtype=np.int64)
    expected = [-1 if value < edge else 0 if value == edge else 1 for value in values]
    assert places(array, edges).tolist() == expected


def test_microseconds_beyond_2_to_the_53_keep_their_cell() -> None:
    edge = (1 << 53) // DAY * DAY + DAY  # a midnight in 2255, exact in double precision
    moments = pa.array([edge - 1, edge, edge + 1], pa.int64()).cast(pa.timestamp("us"))
    assert histogram(moments, np.array([0.0, edge, 2.0**60]), "moment").tolist() == [1, 2]


def test_a_histogram_counts_each_cell_once() -> None:
    array = pa.array(["1", "2024-01-01", "2", "-5", "99", None, "x"])
    counts = histogram(array, np.array([0.0, 2.0, 3.0]))
    assert counts.tolist() == [2, 2]
    assert int(profile(array).sum() - counts.sum()) == 3
    with pytest.raises(InputError, match="edges must be increasing"):
        histogram(array, np.array([1.0, 1.0]))


@given(
    st.lists(st.decimals(-1000, 1000, places=4), min_size=1, max_size=30),
)
def test_grids_agree_with_exact_arithmetic(values: list[Decimal]) -> None:
    steps = (100.0, 10.0, 1.0, 0.5, 0.1, 0.05, 0.01, 0.001)
    exact = [Fraction(100), Fraction(10), Fraction(1), Fraction(1, 2), Fraction(1, 10), Fraction(1, 20)]
    exact += [Fraction(1, 100), Fraction(1, 1000)]
    expected = np.zeros(len(steps) + 1, dtype=np.int64)
    for value in values:
        on = [place for place, step in enumerate(exact) if Fraction(value) % step == 0]
        expected[on[0] if on else -1] += 1
    assert grids(pa.array([float(value) for value in values]), steps).tolist() == expected.tolist()


def test_grids_of_whole_numbers_and_times() -> None:
    assert grids(pa.array([0, 1000, 500, 7, None, -5]), (1000, 500, 5)).tolist() == [2, 1, 1, 1]
    clocks = pa.array([datetime.time(8), datetime.time(8, 30), datetime.time(8, 30, 1)])
    assert grids(clocks, (3.6e9, 1.8e9), "time").tolist() == [1, 1, 1]
    assert grids(pa.array(["2024-01-01T10:00", "x"]), (3.6e9,), "moment").tolist() == [1, 0]
    assert grids(pa.array([1e300, 1e-300, 2.0**60]), (5.0, 0.5)).sum() == 3


def test_different_numbers_are_counted_by_what_they_are_read_as() -> None:
    def counted(cells: Any, read: str = "number", rows: Any = None) -> dict[float, int]:
        values, held = count_numbers(cells, read, rows=None if rows is None else np.array(rows))
        return dict(zip(values.tolist(), held.tolist(), strict=True))

    assert counted(pa.array([3, 1, 3, None, 2])) == {1: 1, 2: 1, 3: 2}
    assert counted(pa.array(["1", "1.0", "x", " ", "2"])) == {1.0: 2, 2.0: 1}
    assert counted(pa.array(["1", "1.0", "x", "2"]), rows=[5, 2, 9, 1]) == {1.0: 7, 2.0: 1}
    assert counted(pa.array([], pa.int64())) == {}
    dates = pa.array(["2024-01-01", "2024-01-01", "2024-01-02"])
    assert counted(dates, "date") == {19723: 2, 19724: 1}


def test_values_are_counted_that_are_in_so_many_rows() -> None:
    assert count_repeats(np.array([1, 1, 4, 2]), (1, 2, 3, 4, 5)).tolist() == [4, 2, 1, 1, 0]
    assert count_repeats(np.array([], dtype=np.int64), (1, 2)).tolist() == [0, 0]
