"""Dates that are written as numbers, as in 20240229 for 2024-02-29 and 202402 for a month, and time stamps.

A format says so: "%Y%m%d", or "%Y%m" for months, each of which stands for its first day; "%Y%m%d%H%M%S" or
"%Y%m%d%H%M" for time stamps; with ".0" behind where whole numbers are written with a point. A number such as
20240230, which is no day, is no date.

Text of eight digits may have the day first, as in 29022024, "%d%m%Y", or the month, "%m%d%Y": as a number it
would lose its zeros in front, so it is text alone that votes on these. Text of typed storage, of which digits
are codes and no numbers, votes on dates with the year first as well.

A cell votes for one class by its own number; the counts say whether a column holds such dates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.storage.clock import DAY, SECOND, are_days

Whole = NDArray[np.int64]
Truths = NDArray[np.bool_]

DAYS, MONTHS = "%Y%m%d", "%Y%m"
POINT = ".0"
STAMPS = ("%Y%m%d%H%M", "%Y%m%d%H%M%S")
CLOCK_DIGITS = 10**6
"""What hours, minutes and seconds are to the day before them."""
DATE_NUMBER_VOTES = ("none", DAYS, *STAMPS)
"""The classes of whole numbers: no date, a day, and time stamps, which have more digits. Months are left
numbers where nobody declares them: that they are the year and month of a date beside them is told by numbers
(`schema.calendar`)."""
DIGIT_DATE_VOTES = ("day first", "month first", "either first", "year first")
"""The classes of eight digits that are a date. With the year last: what has to stand first, as what stands
second is no month, or as what stands first is none."""
DAY_FIRST, MONTH_FIRST = "%d%m%Y", "%m%d%Y"
MAX_DIGITS_NOISE = 0.1
"""Most noise of a count, as a share of all, with which it is said that digits are dates: of other digits less
than one in a hundred are. Not measured."""
YEARS = 1800, 2199
"""Years of the dates that vote, first and last; and LATEST, which stands for no end."""
LATEST = 9999
MOST_NUMBER = 99_999_999
"""The greatest number that may stand for a date."""
OCTAVES = ((2.0**24, 2.0**27), (2.0**37, 2.0**38), (2.0**44, 2.0**45))
"""The powers of two between which days lie, those of LATEST included, and time stamps to the minute and to
the second."""
MAX_OTHER_SHARE = 0.005
"""Most cells that are no date, as a share of all whole numbers: slips. Of numbers in a row one in 27 is a
day. Not measured."""
DOUBT = 3.0
"""Noise standard deviations by which counts may be off."""


def is_date_number_format(written: str | None) -> bool:
    """Whether a format is one of dates as numbers."""
    return (written or "").removesuffix(POINT) in (DAYS, MONTHS)


def is_stamp_format(written: str | None) -> bool:
    """Whether a format is one of time stamps as numbers."""
    return (written or "").removesuffix(POINT) in STAMPS


def read_stamp_numbers(values: NDArray[Any], written: str) -> tuple[Whole, Truths]:
    """Microseconds since 1970 of numbers that are time stamps, 0 for the rest, and which are.

    Args:
        values: Whole numbers or floats, NaN among them, shape [values].
        written: The format.
    """
    values = values.astype(np.float64)
    scale = 100 if written.removesuffix(POINT) == STAMPS[0] else 1
    with np.errstate(invalid="ignore"):
        whole = (values >= 0) & (values < MOST_NUMBER * CLOCK_DIGITS / scale) & (values == np.floor(values))
    number = np.where(whole, values, 0).astype(np.int64) * scale
    days, sound = read_date_numbers(number // CLOCK_DIGITS, DAYS)
    hour, minute, second = (number // part % 100 for part in (10_000, 100, 1))
    sound &= whole & (hour < 24) & (minute < 60) & (second < 60)
    ticks = days * DAY + (hour * 3600 + minute * 60 + second) * SECOND
    return np.where(sound, ticks, 0), sound


def stamp_numbers(ticks: Whole, written: str) -> Whole:
    """Time stamps as numbers in a format, down to its last unit: shape [values].

    Args:
        ticks: Microseconds since 1970.
        written: The format.
    """
    days, clock = np.divmod(np.asarray(ticks, dtype=np.int64), DAY)
    seconds = clock // SECOND
    number = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
    number += date_numbers(days, DAYS) * CLOCK_DIGITS
    return np.asarray(number // (100 if written.removesuffix(POINT) == STAMPS[0] else 1))


def spell_stamps(ticks: Whole, written: str) -> list[str]:
    """Time stamps as text in a format: shape [values]."""
    return [f"{number}{POINT * written.endswith(POINT)}" for number in stamp_numbers(ticks, written).tolist()]


def read_date_numbers(values: NDArray[Any], written: str) -> tuple[Whole, Truths]:
    """Days since 1970-01-01 of numbers that are dates, 0 for the rest, and which are.

    Args:
        values: Whole numbers or floats, NaN among them, shape [values].
        written: The format.
    """
    values = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        whole = (values >= 0) & (values <= MOST_NUMBER) & (values == np.floor(values))
    number = np.where(whole, values, 0).astype(np.int64)
    months = written.removesuffix(POINT) == MONTHS
    day = np.ones_like(number) if months else number % 100
    number = number if months else number // 100
    year, month = number // 100, number % 100
    sound = np.asarray(whole & (year >= 1) & (year <= LATEST) & are_days(year, month, day))
    first = np.where(sound, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = first.astype("datetime64[D]").astype(np.int64) + day - 1
    return np.where(sound, days, 0), sound


def date_numbers(days: Whole, written: str) -> Whole:
    """Days as numbers in a format: shape [values]."""
    day = np.asarray(days, dtype=np.int64).astype("datetime64[D]")
    month = day.astype("datetime64[M]")
    months = month.astype(np.int64)
    number = (months // 12 + 1970) * 100 + months % 12 + 1
    if written.removesuffix(POINT) == MONTHS:
        return np.asarray(number)
    return np.asarray(number * 100 + (day - month.astype("datetime64[D]")).astype(np.int64) + 1)


def vote_on_date_numbers(values: NDArray[Any]) -> Whole:
    """The place in DATE_NUMBER_VOTES of each whole number, -1 for other numbers and for NaN: shape [values].

    Args:
        values: Whole numbers or floats, shape [values].
    """
    values = values.astype(np.float64)
    found = np.zeros(len(values), dtype=np.int64)
    for place, written in enumerate(DATE_NUMBER_VOTES[1:], 1):
        read = read_stamp_numbers if written in STAMPS else read_date_numbers
        ticks, sound = read(values, written)
        days = ticks // DAY if written in STAMPS else ticks
        year = days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
        found[sound & _may_vote(year)] = place
    with np.errstate(invalid="ignore"):
        return np.where(values == np.floor(values), found, -1).astype(np.int64)


def choose_date_number_format(votes: NDArray[np.float64], sigma: float, pointed: bool) -> str:
    """The format of a column of dates or time stamps as numbers; "" if it is none.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of DATE_NUMBER_VOTES, shape [votes].
        sigma: Standard deviation of their noise.
        pointed: Whether whole numbers are written with a point.
    """
    best = int(np.argmax(votes[1:])) + 1
    dates, other = float(votes[best]), float(np.delete(votes, best).max())
    if dates <= max(other, 0.0) or other > MAX_OTHER_SHARE * (other + dates) + DOUBT * sigma:
        return ""
    return DATE_NUMBER_VOTES[best] + POINT * pointed


def vote_on_digit_dates(texts: Any) -> Whole:
    """The place in DIGIT_DATE_VOTES of each text that is such a date, -1 for others: shape [texts].

    No text is a date with its year first and last: either its first or its last four digits are no year.

    Args:
        texts: An Arrow array of text without nulls.
    """
    digits = pc.match_substring_regex(texts, "^[0-9]{8}$")
    number = pc.if_else(digits, texts, pa.scalar("0", texts.type)).cast(pa.int64())
    number = np.asarray(number.to_numpy(zero_copy_only=False))
    ahead, one, two, year = number // 10**4, number // 10**6, number // 10**4 % 100, number % 10**4
    day_first, month_first = are_days(year, two, one), are_days(year, one, two)
    found = np.select([day_first & month_first, day_first, month_first], [2, 0, 1], -1)
    found = np.where(_may_vote(year), found, -1)
    year_first = _may_vote(ahead) & are_days(ahead, year // 100, year % 100)
    return np.where(year_first, 3, found).astype(np.int64)


def choose_digit_date_format(votes: NDArray[np.float64], others: NDArray[np.float64], sigma: float) -> str:
    """The format of a column of dates in eight digits; "" if it is none.

    Where no date tells, the day stands first. This is post-processing of released counts.

    Args:
        votes: Noisy counts of DIGIT_DATE_VOTES, shape [votes].
        others: Of the other classes, shape [classes].
        sigma: Standard deviation of their noise.
    """
    last, ahead = float(votes[:-1].sum()), float(votes[-1])
    dates, other = max(last, ahead), float(others.sum()) + min(last, ahead)
    doubt = DOUBT * sigma * (len(others) + 1) ** 0.5
    if sigma > MAX_DIGITS_NOISE * (dates + other) or dates <= other:
        return ""
    if other > MAX_OTHER_SHARE * (dates + other) + doubt:
        return ""
    if ahead > last:
        return DAYS
    return MONTH_FIRST if votes[1] > votes[0] else DAY_FIRST


def _may_vote(year: Whole) -> Truths:
    """Which years dates that vote may have."""
    return np.asarray(((year >= YEARS[0]) & (year <= YEARS[1])) | (year == LATEST))
