"""Parts of dates and times between them, held against Python's own calendar day by day."""

from __future__ import annotations

import calendar
import datetime

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from margrave.schema.calendar import (
    FIRST_DAY,
    LAST_DAY,
    PARTS,
    PERIODS,
    UNITS,
    Instant,
    count_units,
    find_range,
    take_part,
)
from margrave.schema.storage.clock import DAY

EPOCH = datetime.date(1970, 1, 1)
days = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
moments = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))


def instant_of(*dates: datetime.date) -> Instant:
    return Instant.of(np.array([(date - EPOCH).days for date in dates]), clock=False)


def clock_of(*moments: datetime.datetime) -> Instant:
    epoch = datetime.datetime(1970, 1, 1)
    step = datetime.timedelta(microseconds=1)
    return Instant.of(np.array([(moment - epoch) // step for moment in moments]), clock=True)


def count_months(since: datetime.date, until: datetime.date) -> int:
    """Whole months, by their definition: the last is over once its day has come."""
    months = 12 * (until.year - since.year) + until.month - since.month
    return months - (until.day < since.day)


@example(datetime.datetime(2021, 1, 1))
@given(moments)
def test_parts_are_those_of_python(moment: datetime.datetime) -> None:
    told = {part: int(take_part(clock_of(moment), part, np.floor_divide)[0]) for part in (*PARTS, *PERIODS)}
    day = (moment.date() - EPOCH).days
    assert told == {
        "year": moment.year,
        "quarter": (moment.month + 2) // 3,
        "month": moment.month,
        "day": moment.day,
        "weekday": moment.isoweekday(),
        "weekday_from_0": moment.weekday(),
        "weekday_from_sunday": moment.isoweekday() % 7 + 1,
        "weekday_from_sunday_0": moment.isoweekday() % 7,
        "hour": moment.hour,
        "minute": moment.minute,
        "year_quarter": moment.year * 10 + (moment.month + 2) // 3,
        "year_month": moment.year * 100 + moment.month,
        "half": 1 if moment.month < 7 else 2,
        "season": {12: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 3, 7: 3, 8: 3}.get(moment.month, 4),
        "season_from_21": tell_season(moment),
        "weekend": int(moment.isoweekday() > 5),
        "day_of_year": moment.timetuple().tm_yday,
        "week": moment.isocalendar().week,
        "decade": moment.year // 10 * 10,
        "fiscal_year_april": moment.year - (moment.month < 4),
        "fiscal_year_july": moment.year + (moment.month >= 7),
        "fiscal_year_september": moment.year + (moment.month >= 9),
        "fiscal_year_october": moment.year + (moment.month >= 10),
        "month_start": day - moment.day + 1,
        "month_end": day - moment.day + calendar.monthrange(moment.year, moment.month)[1],
        "week_start": day - moment.weekday(),
    }


def tell_season(moment: datetime.datetime) -> int:
    """1 from December 21 on, 2 from March 21, 3 from June 21 and 4 from September 21."""
    begun = [(moment.month, moment.day) >= (month, 21) for month in (3, 6, 9, 12)]
    return sum(begun) % 4 + 1


@given(days, days)
def test_times_between_dates(since: datetime.date, until: datetime.date) -> None:
    ends = instant_of(since), instant_of(until)
    told = {unit: int(count_units(*ends, unit, np.floor_divide)[0]) for unit in UNITS}
    between = (until - since).days
    months = count_months(since, until)
    assert told == {
        "years": months // 12,
        "months": months,
        "weeks": between // 7,
        "days": between,
        "hours": between * 24,
        "minutes": between * 24 * 60,
        "seconds": between * 24 * 3600,
    }


@given(moments, moments)
def test_hours_are_counted_by_the_clock_and_days_by_the_calendar(
    since: datetime.datetime, until: datetime.datetime
) -> None:
    ends = clock_of(since), clock_of(until)
    assert count_units(*ends, "minutes", np.floor_divide)[0] == (until - since) // datetime.timedelta(
        minutes=1
    )
    assert count_units(*ends, "days", np.floor_divide)[0] == (until.date() - since.date()).days


@pytest.mark.parametrize(
    ("born", "seen", "age"),
    [
        ((2000, 2, 29), (2001, 2, 28), 0),
        ((2000, 2, 29), (2001, 3, 1), 1),
        ((2000, 2, 29), (2004, 2, 29), 4),
        ((1990, 7, 15), (2020, 7, 14), 29),
        ((1990, 7, 15), (2020, 7, 15), 30),
        ((1990, 7, 15), (1990, 7, 14), -1),
    ],
)
def test_a_year_is_over_on_a_birthday(born: tuple[int, ...], seen: tuple[int, ...], age: int) -> None:
    ends = instant_of(datetime.date(*born)), instant_of(datetime.date(*seen))
    assert count_units(*ends, "years", np.floor_divide)[0] == age


@given(
    st.integers(-200_000, 200_000),
    st.integers(0, DAY - 1),
    st.integers(-150, 150),
    st.sampled_from(UNITS),
    st.booleans(),
)
def test_ranges_hold_just_what_is_so_far(day: int, tick: int, number: int, unit: str, ahead: bool) -> None:
    clock = unit in ("hours", "minutes", "seconds")
    at = Instant.of(np.array([day * DAY + tick if clock else day]), clock)
    low, high = find_range(at, np.array([number]), unit, ahead)
    assert low[0] <= high[0]
    around = np.array([low[0] - 1, low[0], (low[0] + high[0]) // 2, high[0], high[0] + 1])
    other = Instant.of(around, clock)
    same = Instant(*(np.repeat(getattr(at, part), 5) for part in ("days", "ticks", "year", "month", "day")))
    ends = (same, other) if ahead else (other, same)
    told = count_units(*ends, unit, np.floor_divide) == number
    assert told.tolist() == [False, True, True, True, False]


def test_dates_beyond_the_calendar_are_held_within_it() -> None:
    found = Instant.of(np.array([FIRST_DAY - 10, LAST_DAY + 10, np.iinfo(np.int64).max]), clock=False)
    assert found.year.tolist() == [1, 9999, 9999]
    assert found.day.tolist() == [1, 31, 31]
