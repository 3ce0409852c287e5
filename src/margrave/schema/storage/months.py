"""Months: dates of which texts have year and month alone, as in 2011-05, and stand for the first day of it.

And days of the month: the first 30 and the last, in the calendar that repeats itself every 400 years.

A column of months is one of dates whose `format` names no day. Its cells are read as first days, so that it
has an order and differences as all dates do, and the days that are drawn for it are first days as well.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

Days = NDArray[np.int64]

MONTH_VOTES = ("%Y-%m", "%m/%Y", "%Y/%m", "%m.%Y", "%m-%Y")
"""The formats of months that can be found."""
YEAR, MONTH = "(?:1[89]|2[01])[0-9]{2}", "(?:0[1-9]|1[0-2])"
"""Years and months of such texts. Codes such as 2011-37 are none, and there are few others like them."""
POINTED = MONTH_VOTES.index("%m.%Y")

CALENDAR = 146_097
"""Days after which the Gregorian calendar repeats itself, weekdays included: 400 years, 20,871 weeks."""
MONTH_PLACES = 31
"""Places of a day in its month: the first to the 30th, and the last day of a month, which is none of them."""


def names_months(written: str | None) -> bool:
    """Whether a format is one of dates that names a year and a month and no day, as in "%m/%Y"."""
    fields = set(re.findall(r"%[-^#]?([a-zA-Z])", written or ""))
    return bool(fields & set("Yy")) and bool(fields & set("mbB")) and "d" not in fields


def vote_on_months(texts: Any) -> Days:
    """The place in MONTH_VOTES of each text that is a month, -1 for others: shape [texts].

    Texts such as 10.2011 are numbers as well; 05.2011 hardly is one.

    Args:
        texts: An Arrow array of text without nulls.
    """
    result = np.full(len(texts), -1, dtype=np.int64)
    for place, written in enumerate(MONTH_VOTES):
        pattern = re.escape(written).replace("%Y", YEAR).replace("%m", MONTH)
        found = pc.match_substring_regex(texts, f"^{pattern}$")
        result[np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)] = place
    return result


def are_months(texts: Any) -> NDArray[np.bool_]:
    """Which texts are months and no number that somebody would write: shape [texts]."""
    zero = pc.match_substring_regex(texts, "^0")
    led = np.asarray(zero.to_numpy(zero_copy_only=False), dtype=np.bool_)
    places = vote_on_months(texts)
    return np.asarray((places >= 0) & ((places != POINTED) | led))


def draw_first_days(cells: tuple[Days, Days], bins: tuple[Days, Days], part: NDArray[np.float64]) -> Days:
    """A first day of a month for each row: shape [rows].

    One of those in the row's cell, each as likely as another; where there is none the nearest in its bin; and
    where that has none, either, the nearest of all.

    Args:
        cells: First day of each row's cell, and the day behind its last.
        bins: The same of its bin, of which the cell is a part.
        part: Drawn evenly from 0 to 1.
    """
    first, last = _months_between(*cells)
    inside = first + np.floor(part * np.maximum(last - first + 1, 1)).astype(np.int64)
    least, most = _months_between(*bins)
    near = _nearest_month((cells[0] + cells[1]) // 2)
    near = np.where(most >= least, np.clip(near, least, np.maximum(least, most)), near)
    return _first_day(np.where(last >= first, inside, near))


def move_to_first_days(days: Days) -> Days:
    """The first day of the month of each day, shape [days].

    What a rule has moved, or a difference from another column made, is any day. Not the nearest one: what
    was drawn to be no later than another date, as a birth before a visit, would lie behind it.
    """
    return _first_day(_month_of(days))


def narrow_to_first_days(low: Days, high: Days) -> tuple[Days, Days]:
    """The first and the last first day of a month in each range, both ends included; in order where there is
    one."""
    first, last = _months_between(low, high + 1)
    return _first_day(first), _first_day(last)


def _months_between(low: Days, high: Days) -> tuple[Days, Days]:
    """The first and the last month, since January 1970, whose first day is from low on and before high."""
    return _month_of(low - 1) + 1, _month_of(high - 1)


def _nearest_month(days: Days) -> Days:
    month = _month_of(days)
    later = _first_day(month + 1) - days < days - _first_day(month)
    return np.asarray(month + later, dtype=np.int64)


def _month_of(days: Days) -> Days:
    """The month of each day since 1970-01-01, counted from January 1970."""
    return np.asarray(days, dtype=np.int64).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_day(months: Days) -> Days:
    return np.asarray(months, dtype=np.int64).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


@functools.cache
def find_month_places() -> Days:
    """The place in its month of each day from 1970-01-01 on, 0 for a first day: shape [CALENDAR]."""
    days = np.arange(CALENDAR).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    places: Days = (days - months.astype("datetime64[D]")).astype(np.int64)
    places[(days + 1).astype("datetime64[M]") != months] = MONTH_PLACES - 1
    places.flags.writeable = False
    return places


def sum_month_places(counts: Days) -> Days:
    """Counts by day of the calendar summed by place in the month: shape [MONTH_PLACES].

    Args:
        counts: From 1970-01-01 on, shape [CALENDAR].
    """
    sums = np.zeros(MONTH_PLACES, dtype=np.int64)
    np.add.at(sums, find_month_places(), counts)
    return sums
