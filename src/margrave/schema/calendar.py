"""What dates and moments tell: parts of them, such as the year or the hour, and the whole units between two.

The formulas are written for numpy's arrays and for expressions of a database alike: a number is divided by
the `divide` that is handed in, and all else is sums and products.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.storage.clock import DAY

Longs = NDArray[np.int64]
Divide = Callable[[Any, int], Any]
"""Divides whole numbers by a unit, rounding down."""

HOUR = DAY // 24
"""Microseconds of an hour."""
MINUTE = HOUR // 60
"""Microseconds of a minute."""
TICKS = {"hours": HOUR, "minutes": MINUTE, "seconds": HOUR // 3600}
"""Microseconds of the units that are shorter than a day."""
DAY_UNITS = ("years", "months", "weeks", "days")
"""Units of the calendar, in which whole days are told."""
UNITS = (*DAY_UNITS, *TICKS)
"""In which the time between two dates or moments is told."""
WEEKDAYS = {
    "weekday": (0, 1),
    "weekday_from_0": (0, 0),
    "weekday_from_sunday": (1, 1),
    "weekday_from_sunday_0": (1, 0),
}
"""Ways of numbering weekdays: how many days before Monday a week begins, and the number of its first day."""
CLOCK_PARTS = ("hour", "minute")
"""What moments and times of day have of their own, and dates have not."""
FISCAL_YEARS = {
    "fiscal_year_april": (4, 0),
    "fiscal_year_july": (7, 1),
    "fiscal_year_september": (9, 1),
    "fiscal_year_october": (10, 1),
}
"""The month in which a fiscal year begins, and how many years later than that one it is called."""
NAMED_PARTS = ("half", "season", "season_from_21", "weekend", "day_of_year", "week", "decade", *FISCAL_YEARS)
"""Parts that discovery seeks in columns alone whose names or texts say so."""
COMMON_PARTS = ("year", "quarter", "month", "day", *WEEKDAYS, *CLOCK_PARTS, "year_quarter", "year_month")
PARTS = (*COMMON_PARTS, *NAMED_PARTS)
"""What a date or moment has of its own. A year and its quarter are one number,
20231 for the first of 2023, and so are a year and its month, 202301 for its January. A season is 1 for
winter to 4 for autumn of the north, from December 1 on or from December 21; a weekend is 1 on Saturdays and
Sundays, else 0; a week is that of ISO 8601."""
PERIODS = ("month_start", "month_end", "week_start")
"""Dates that another date tells: the first and the last day of its month, and the Monday of its week."""
PART_WORDS = {
    "year_quarter": "year and quarter",
    "year_month": "year and month",
    "season_from_21": "season from the 21st on",
    "month_start": "first day of the month",
    "month_end": "last day of the month",
    "week_start": "Monday of the week",
    **{part: f"fiscal year from {part.split('_')[-1].capitalize()}" for part in FISCAL_YEARS},
}
"""What parts are called for reading where that is not their name."""
NO_PART = -1
"""A number that is no part of any date."""
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 to 9999. Others tell nothing, as databases do not agree on them."""
FAR = 1 << 62
"""Beyond every date, in days and in microseconds."""
FIRST_WEEKDAY = 3
"""The weekday of 1970-01-01, a Thursday, where Monday is 0."""


ENDS = {
    **dict.fromkeys(("year", *FISCAL_YEARS), (1, 9999)),
    **dict.fromkeys(("quarter", "season", "season_from_21"), (1, 4)),
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 23),
    "minute": (0, 59),
    "half": (1, 2),
    "weekend": (0, 1),
    "day_of_year": (1, 366),
    "week": (1, 53),
    "decade": (0, 9990),
}
"""The least and the greatest number of each part but weekdays."""


def is_possible(part: str, number: int) -> bool:
    """Whether a part of a date, one of `PARTS`, can be this number."""
    if part in ("year_quarter", "year_month"):
        year, rest = divmod(number, 10 if part == "year_quarter" else 100)
        return is_possible("year", year) and is_possible(part.removeprefix("year_"), rest)
    if part in WEEKDAYS:
        return 0 <= number - WEEKDAYS[part][1] < 7
    first, last = ENDS.get(part, (FIRST_DAY, LAST_DAY))
    return first <= number <= last


def list_parts(read: str) -> tuple[str, ...]:
    """The parts that each "date", "moment" or "time" of day has."""
    if read == "time":
        return CLOCK_PARTS
    return PARTS if read == "moment" else tuple(part for part in PARTS if part not in CLOCK_PARTS)


def find_date(day: int) -> datetime.date:
    """The date that is so many days after 1970-01-01; day lies within the years 1 to 9999."""
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=day)


def rank_day(day: int) -> int:
    """How round a day is: 0 for the first or last of a year, then half years, quarters and months; or 4."""
    ends = (find_date(one) for one in (day, min(day + 1, LAST_DAY)))
    begins = [one.month for one in ends if one.day == 1]
    periods = enumerate((12, 6, 3, 1))
    return min((rank for rank, months in periods for m in begins if (m - 1) % months == 0), default=4)


@dataclass(frozen=True, slots=True)
class Instant:
    """Dates, moments or times of day by their parts, each of shape [rows] or an expression.

    Args:
        days: Since 1970-01-01.
        ticks: Microseconds since midnight; 0 for dates.
        year: Of the Gregorian calendar.
        month: 1 to 12.
        day: Of the month, from 1 on.
        daily: Whether they are times of day, which come again each day.
    """

    days: Any
    ticks: Any
    year: Any
    month: Any
    day: Any
    daily: bool = False

    @classmethod
    def of(cls, values: NDArray[Any], clock: bool, daily: bool = False) -> Instant:
        """Those of numbers, held within the years 1 to 9999; anything where they are NaN.

        Args:
            values: Days, or microseconds with `clock`, since 1970-01-01, or since midnight, whole: shape
                [rows].
            clock: Whether they are moments or times of day; else they are dates.
            daily: Whether they are times of day.
        """
        if values.dtype.kind == "f":
            values = np.clip(np.nan_to_num(values), -float(FAR), float(FAR)).astype(np.int64)
        days = values // DAY if clock else values
        ticks = values - days * DAY if clock else np.zeros_like(values)
        days = np.clip(days, FIRST_DAY, LAST_DAY)
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        month = months.astype(np.int64)
        day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
        return cls(days, ticks, 1970 + month // 12, month % 12 + 1, day, daily)


def count_units(since: Instant, until: Instant, unit: str, divide: Divide) -> Any:
    """The whole units from one instant to another, rounded down, one of `UNITS`.

    A month is over on the day of the same number, or where there is none on the first of the month after it:
    so a year is over on a birthday. Days, and what is made of them, are those of the calendar, whatever the
    hour. From one time of day to another it is the shorter way, over midnight too: from -12 hours on and
    below 12.
    """
    days = until.days - since.days
    if unit in TICKS:
        ticks = days * DAY + until.ticks - since.ticks
        if since.daily:
            ticks = ticks - DAY * divide(ticks + DAY // 2, DAY)
        return divide(ticks, TICKS[unit])
    if unit in ("days", "weeks"):
        return days if unit == "days" else divide(days, 7)
    months = 12 * (until.year - since.year) + until.month - since.month
    # The last month is not over where its day is still to come: days of months differ by at most 30.
    months = months + divide(until.day - since.day, 32)
    return months if unit == "months" else divide(months, 12)


def take_part(instant: Instant, part: str, divide: Divide) -> Any:
    """A part of an instant, one of `PARTS`; or one of `PERIODS`, in days since 1970-01-01."""
    if part in CLOCK_PARTS:
        hour = divide(instant.ticks, HOUR)
        return hour if part == "hour" else divide(instant.ticks, MINUTE) - 60 * hour
    if part == "quarter":
        return divide(instant.month + 2, 3)
    if part in WEEKDAYS:
        before, first = WEEKDAYS[part]
        days = instant.days + (FIRST_WEEKDAY + before)
        return days - 7 * divide(days, 7) + first
    if part in NAMED_PARTS:
        return _take_named_part(instant, part, divide)
    if part == "week_start":
        return instant.days - take_part(instant, "weekday_from_0", divide)
    if part in PERIODS:
        first = instant.days - instant.day + 1
        return first if part == "month_start" else first + _count_month(instant, divide) - 1
    if part == "year_quarter":
        return instant.year * 10 + divide(instant.month + 2, 3)
    return instant.year * 100 + instant.month if part == "year_month" else getattr(instant, part)


def _take_named_part(instant: Instant, part: str, divide: Divide) -> Any:
    """One of NAMED_PARTS of an instant."""
    if part in FISCAL_YEARS:
        first, later = FISCAL_YEARS[part]
        return instant.year + divide(instant.month - first, 12) + later
    if part in ("half", "decade"):
        return divide(instant.month + 5, 6) if part == "half" else 10 * divide(instant.year, 10)
    if part in ("season", "season_from_21"):
        # Of the latter each month begins on its 21st, and is called the one after it.
        month = instant.month if part == "season" else instant.month - 1 + divide(instant.day + 11, 32)
        return divide(month - 12 * divide(month, 12), 3) + 1
    weekday = take_part(instant, "weekday_from_0", divide)
    if part == "weekend":
        return divide(weekday, 5)
    before, length = (_count_days(instant.year - back, divide) for back in (1, 0))
    day = instant.days - FIRST_DAY + 1 - before
    if part == "day_of_year":
        return day
    # A week is of the year that has its Thursday.
    thursday = day - weekday + 3
    year_before = before - _count_days(instant.year - 2, divide)
    # Both are found before either is moved, as a year of 366 days would be longer than the one after it.
    earlier = 1 - divide(thursday + 399, 400)
    later = divide(thursday - (length - before) + 399, 400)
    return divide(thursday + year_before * earlier - (length - before) * later + 6, 7)


def _count_month(instant: Instant, divide: Divide) -> Any:
    """The days of an instant's month."""
    odd = instant.month + divide(instant.month, 8)
    leap = _count_days(instant.year, divide) - _count_days(instant.year - 1, divide) - 365
    february = 1 - divide((instant.month - 2) * (instant.month - 2) + 100, 101)
    return 30 + odd - 2 * divide(odd, 2) - february * (2 - leap)


def _count_days(year: Any, divide: Divide) -> Any:
    """The days of all years from 1 to a year."""
    return 365 * year + divide(year, 4) - divide(year, 100) + divide(year, 400)


def find_range(at: Instant, number: Longs, unit: str, ahead: bool) -> tuple[Longs, Longs]:
    """The first and the last instant that are so many whole units from another, shape [rows] each.

    In days for years, months, weeks and days, else in microseconds. Of times of day within the day on which
    the first one is.

    Args:
        at: The instant that is known.
        number: Of units, shape [rows].
        unit: One of `UNITS`.
        ahead: Whether the instant sought is the later one if the number is positive; else the earlier one.
    """
    if unit in TICKS:
        start, width = at.days * DAY + at.ticks, TICKS[unit]
    elif unit in ("days", "weeks"):
        start, width = at.days, 7 if unit == "weeks" else 1
    else:
        months = 12 if unit == "years" else 1
        if ahead:
            return _begin_months(at, number * months), _begin_months(at, (number + 1) * months) - 1
        return _end_months(at, (number + 1) * months) + 1, _end_months(at, number * months)
    first = start + number * width if ahead else start - (number + 1) * width + 1
    last = first + width - 1
    if at.daily:
        midnight = last // DAY * DAY if not ahead else first // DAY * DAY
        first, last = np.maximum(first - midnight, 0), np.minimum(last - midnight, DAY - 1)
    return first, last


def _begin_months(at: Instant, months: Longs) -> Longs:
    """The first day on which so many months since another are over."""
    first, following = _month_days(at, months)
    return np.asarray(np.minimum(first + at.day - 1, following))


def _end_months(at: Instant, months: Longs) -> Longs:
    """The last day since which so many months are over on another."""
    first, following = _month_days(at, -months)
    return np.asarray(np.minimum(first + at.day - 1, following - 1))


def _month_days(at: Instant, months: Longs) -> tuple[Longs, Longs]:
    """The first days of the month that is so many after that of an instant, and of the one behind it."""
    month = 12 * (at.year - 1970) + at.month - 1 + np.clip(months, -200_000, 200_000)
    first, following = (one.astype("datetime64[M]").astype("datetime64[D]") for one in (month, month + 1))
    return first.astype(np.int64), following.astype(np.int64)
