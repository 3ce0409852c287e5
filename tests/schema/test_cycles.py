"""Dates and moments drawn by hours and weekdays: in proportion, inside their cells, with what is declared."""

from __future__ import annotations

import datetime
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import SchemaError
from margrave.schema.calendar import HOUR
from margrave.schema.columns import Binned, Date, Duration, Integer, Moment, Relative
from margrave.schema.constraints.draws import relative_numbers
from margrave.schema.cycles import Cycle, count_month_days
from margrave.schema.draws import whole_numbers
from margrave.schema.encoded import Encoded
from margrave.schema.queries import places_in_cycle
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY
from margrave.schema.storage.months import CALENDAR

ROWS = 20_000
OFFICE = (1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)
FIRST = (1.0, *[0.0] * 30)
DAYTIME = tuple(float(8 <= hour < 18) for hour in range(24))


def draw(column: Binned, rows: int = ROWS, seed: int = 0) -> np.ndarray:
    bins = np.random.default_rng(seed + 1).integers(0, column.present, rows)
    return whole_numbers(bins, column, np.random.default_rng(seed))


def weekdays(days: np.ndarray) -> np.ndarray:
    """Monday is 0, by numpy's own calendar."""
    return (days.astype("datetime64[D]") - np.datetime64("2024-01-01")).astype(int) % 7


def test_days_fall_on_weekdays_in_their_shares() -> None:
    weights = (2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0)
    column = Date(name="d", lower="1965-01-04", upper="2030-01-06", bins=3, missing=False, weekdays=weights)
    found = np.bincount(weekdays(draw(column)), minlength=7) / ROWS
    assert found == pytest.approx(np.array(weights) / 6.5, abs=5 * np.sqrt(0.25 / ROWS))
    assert found[6] == 0.0


def test_moments_fall_on_hours_and_weekdays() -> None:
    column = Moment(
        name="m", lower="2024-01-01", upper="2024-12-31T23:59", bins=7, missing=False, hours=DAYTIME,
        weekdays=OFFICE, grids=((6e7, 1.0),),
    )  # fmt: skip
    drawn = draw(column)
    hours = drawn // HOUR % 24
    assert set(hours.tolist()) == set(range(8, 18))
    assert np.bincount(hours)[8:] / ROWS == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / ROWS))
    assert set(weekdays(drawn // DAY).tolist()) == set(range(5))
    assert (drawn % 60_000_000 == 0).all()
    # Whole days of an even share of their hours: rounding down to days keeps the weekday.
    days = draw(Moment(name="m", lower="2024-01-01", upper="2024-12-31", bins=7, weekdays=OFFICE,
                       missing=False, grids=((float(DAY), 1.0),)))  # fmt: skip
    assert (days % DAY == 0).all()
    assert set(weekdays(days // DAY).tolist()) == set(range(5))


def month_places(days: np.ndarray) -> np.ndarray:
    """0 is the first day of a month and -1 its last, by Python's own calendar."""
    dates = [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(day)) for day in days]
    return np.array([
        -1 if (date + datetime.timedelta(days=1)).day == 1 else date.day - 1 for date in dates
    ])  # fmt: skip


def test_dates_fall_on_days_of_the_month_in_their_shares() -> None:
    months = (6.0, *[0.0] * 13, 3.0, *[0.0] * 15, 1.0)  # the 1st, the 15th and the last
    column = Date(name="d", lower="1899-12-15", upper="2430-01-06", bins=3, missing=False, month_days=months)
    drawn = draw(column)
    found = Counter(month_places(drawn).tolist())
    assert {place: found[place] / ROWS for place in found} == pytest.approx(
        {0: 0.6, 14: 0.3, -1: 0.1}, abs=0.02
    )
    assert (drawn >= column.edge_array[0]).all()
    assert (drawn < column.edge_array[-1]).all()
    # Where weekdays forbid a day of the month, others of it are drawn: no first day is a Sunday's.
    both = Date(name="d", lower="2001-01-01", upper="2020-12-31", bins=3, month_days=months, weekdays=OFFICE)
    drawn = draw(both)
    assert set(month_places(drawn).tolist()) == {0, 14, -1}
    assert set(weekdays(drawn).tolist()) == set(range(5))
    # April 1, 2001, is a Sunday: a range with no other of these days is drawn from evenly.
    even = Date(name="d", lower="2001-03-31", upper="2001-04-03", bins=1, month_days=FIRST, weekdays=OFFICE)
    assert set(draw(even).tolist()) == set(range(11_412, 11_416))


def test_days_of_intervals_are_counted_by_weekday_and_place_in_the_month() -> None:
    low, high = np.array([-800.0, 5.0, 11_000.0]), np.array([5.0, 5.0, 11_000.0 + 3 * CALENDAR + 40])
    found = count_month_days(low, high).reshape(3, 7, 31)
    assert found.sum(axis=(1, 2)).tolist() == (high - low).tolist()
    days = np.arange(-800, 5)
    counted = np.zeros((7, 31))
    np.add.at(counted, (days % 7, month_places(days)), 1)
    assert found[0].tolist() == counted.tolist()
    more = np.zeros((7, 31))
    days = np.arange(11_000, 11_040)
    np.add.at(more, (days % 7, month_places(days)), 1)
    assert (found[2] - more).sum(axis=0)[[0, 29, 30]].tolist() == [14_400, 7 * 1200, 14_400]


def test_a_cell_without_weight_is_drawn_from_evenly() -> None:
    column = Date(name="d", edges=("2024-01-06", "2024-01-08", "2024-01-15"), missing=False, weekdays=OFFICE)
    bins = np.repeat([0, 1], ROWS)
    drawn = weekdays(whole_numbers(bins, column, np.random.default_rng(0)))
    assert abs((drawn[:ROWS] == 5).mean() - 0.5) < 0.02
    assert drawn[:ROWS].min() == 5
    assert drawn[ROWS:].max() == 4


@given(
    low=st.integers(-(10**15), 4 * 10**15),
    width=st.integers(1, 10**13),
    weights=st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=24, max_size=24).filter(any),
    seed=st.integers(0, 1000),
)
def test_numbers_stay_in_their_cell_and_where_there_is_weight(
    low: int, width: int, weights: list[float], seed: int
) -> None:
    cycle = Cycle(HOUR, np.array(weights))
    ends = np.full(50, low), np.full(50, low + width)
    drawn = cycle.draw(*ends, np.random.default_rng(seed))
    assert (drawn >= low).all()
    assert (drawn < low + width).all()
    if width >= DAY:  # then some hour of the cell has weight; ends may be off by less than rounding
        inside = (drawn > low + 10) & (drawn < low + width - 10)
        held = np.array(weights)[drawn // HOUR % 24] > 0
        assert (held | ~inside | (np.abs(drawn % HOUR) < 10)).all()


def test_what_ends_a_difference_falls_on_its_own_hours() -> None:
    own = Moment(name="left", lower="2024-01-01", upper="2024-02-01", bins=4, missing=False, hours=DAYTIME)
    part = Duration(name="left", edges=(0, 2 * DAY, 10 * DAY), missing=False)
    came = Moment(name="came", lower="2024-01-01", upper="2024-01-20", bins=4, missing=False)
    left = Relative(name="left", base="came", base_read="moment", own=own, part=part, missing=False)
    schema = Schema((came, left))
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(0, size, ROWS).astype(np.uint8) for size in (4, 2))
    drawn = relative_numbers(Encoded(schema.domain, codes), schema, {}, rng, {}, {})
    took = drawn["left"].numbers - drawn["came"].numbers
    assert (np.searchsorted([0, 2 * DAY], took, side="right") - 1 == codes[1]).all()
    hours = drawn["left"].numbers // HOUR % 24
    assert set(hours.tolist()) == set(range(8, 18))


def test_what_ends_a_difference_falls_on_its_own_days_of_the_month() -> None:
    own = Date(name="ends", lower="2020-01-01", upper="2024-01-01", bins=4, missing=False, month_days=FIRST)
    begun = Date(name="begun", lower="2020-01-01", upper="2021-12-31", bins=4, missing=False)
    whole = Integer(name="ends", edges=(0, 90, 700), missing=False)
    ends = Relative(name="ends", base="begun", base_read="date", own=own, part=whole, missing=False)
    schema = Schema((begun, ends))
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(0, size, ROWS).astype(np.uint8) for size in (4, 2))
    drawn = relative_numbers(Encoded(schema.domain, codes), schema, {}, rng, {}, {})
    took = drawn["ends"].numbers - drawn["begun"].numbers
    assert (np.searchsorted([0, 90], took, side="right") - 1 == codes[1]).all()
    assert (month_places(drawn["ends"].numbers) == 0).mean() > 0.99


def test_schemas_keep_weights_and_refuse_others() -> None:
    column = Moment(name="m", lower="2024-01-01", upper="2024-02-01", hours=DAYTIME, weekdays=OFFICE)
    schema = Schema((column, Date(name="d", weekdays=OFFICE), Date(name="begun", month_days=FIRST)))
    assert Schema.from_json(schema.to_json()) == schema
    assert "month_days" not in Schema((Date(name="d"),)).to_json()  # as in schemas of before
    with pytest.raises(SchemaError, match=r"month_days of column 'd' must be 31 weights"):
        Date(name="d", month_days=OFFICE)
    for weights in ((1.0,) * 6, (0.0,) * 7, (-1.0, *(1.0,) * 6), (float("nan"),) * 7, ("a",) * 7, 3):
        with pytest.raises(SchemaError, match=r"weekdays of column 'd' must be 7 weights"):
            Date(name="d", weekdays=weights)
    with pytest.raises(SchemaError, match=r"hours of column 'm' must be 24 weights"):
        Moment(name="m", hours=OFFICE)


def test_places_in_a_cycle() -> None:
    days = pa.array(["1969-12-31", "1970-01-01", "2024-01-01", None, "x"])
    assert places_in_cycle(days, "date", 1, 7).tolist() == [1, 0, 0, 0, 1, 0, 1]
    moments = pa.array([-1, 0, HOUR, None, 25 * HOUR], pa.timestamp("us"))
    assert places_in_cycle(moments, "moment", HOUR, 24).tolist() == [1, 2, *[0] * 21, 1]
    numbers = pa.array([-1e-20, -0.5, 6.9, 7.0, float("nan"), None])
    assert places_in_cycle(numbers, "date", 1, 7).tolist() == [1, 0, 0, 0, 0, 0, 3]


def test_the_last_multiple_of_a_cell_is_as_likely_as_the_others() -> None:
    column = Moment(
        name="m", edges=("2024-01-01", "2024-01-08"), missing=False, weekdays=(1.0,) * 7, hours=DAYTIME,
        grids=((float(DAY), 1.0),),
    )  # fmt: skip
    days = np.bincount(draw(column) // DAY - draw(column).min() // DAY, minlength=7) / ROWS
    assert days == pytest.approx(np.full(7, 1 / 7), abs=5 * np.sqrt(0.25 / ROWS))
