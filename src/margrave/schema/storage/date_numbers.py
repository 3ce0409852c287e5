"""Dates that are written as numbers, as in 20240229 for 2024-02-29 and 202402 for a month.

A format says so: "%Y%m%d", or "%Y%m" for months, each of which stands for its first day; with ".0" behind
where whole numbers are written with a point. A number such as 20240230, which is no day, is no date.

A cell votes for one class by its own number; the counts say whether a column holds such dates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.storage.clock import are_days

Whole = NDArray[np.int64]
Truths = NDArray[np.bool_]

DAYS, MONTHS = "%Y%m%d", "%Y%m"
POINT = ".0"
DATE_NUMBER_VOTES = ("none", DAYS)
"""The classes of whole numbers: no date, and a day. Months are left numbers where nobody declares them: that
they are the year and month of a date beside them is told by numbers (`schema.calendar`)."""
YEARS = 1800, 2199
"""Years of the dates that vote, first and last; and LATEST, which stands for no end."""
LATEST = 9999
MOST_NUMBER = 99_999_999
"""The greatest number that may stand for a date."""
OCTAVES = 2.0**24, 2.0**27
"""The powers of two between which days lie, those of LATEST included."""
MAX_OTHER_SHARE = 0.005
"""Most cells that are no date, as a share of all whole numbers: slips. Of numbers in a row one in 27 is a
day. Not measured."""
DOUBT = 3.0
"""Noise standard deviations by which counts may be off."""


def is_date_number_format(written: str | None) -> bool:
    """Whether a format is one of dates as numbers."""
    return (written or "").removesuffix(POINT) in (DAYS, MONTHS)


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
    days, sound = read_date_numbers(values, DAYS)
    year = days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    sound &= ((year >= YEARS[0]) & (year <= YEARS[1])) | (year == LATEST)
    with np.errstate(invalid="ignore"):
        return np.where(values == np.floor(values), sound, -1).astype(np.int64)


def choose_date_number_format(votes: NDArray[np.float64], sigma: float, pointed: bool) -> str:
    """The format of a column of dates as numbers; "" if it is none.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of DATE_NUMBER_VOTES, shape [votes].
        sigma: Standard deviation of their noise.
        pointed: Whether whole numbers are written with a point.
    """
    none, days = votes.tolist()
    if days <= max(none, 0.0) or none > MAX_OTHER_SHARE * (none + days) + DOUBT * sigma:
        return ""
    return DAYS + POINT * pointed
