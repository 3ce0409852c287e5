"""Times of day that are written as numbers, as in 517 for 05:17, 1340 for 13:40 and 5 for 00:05.

A format says so: "%-H%M" for numbers as they are, "%H%M" for four digits each, as in 0517; with ".0" behind
where whole numbers are written with a point, and then with " 24" where midnight is 2400 and not 0. Both 0 and
2400 are read as midnight. A number such as 1373, whose last two digits are no minutes, is no time of day.

A cell votes for one of a few classes by its own number; their counts say whether a column holds such times.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.storage.clock import DAY, SECOND

Whole = NDArray[np.int64]
Truths = NDArray[np.bool_]

FORMAT = re.compile(r"%(?P<bare>-?)H%M(?P<point>\.0)?(?P<late> 24)?")
MINUTE = 60 * SECOND
"""Microseconds of a minute."""
MIDNIGHT = 2400
"""How the end of a day may be written."""
CLOCK_VOTES = ("none", "zero", "2400", "first hour", "30 or 40", "last quarter", "other")
"""The classes of whole numbers: no time of day; midnight as 0, and as 2400; a time before one o'clock at
night; of the others those at minute 30 or 40, those at 45 to 59 but 50, and the rest. Numbers in steps of 50
are times of day, each of them, and so are many numbers of rooms: neither has many rows in both of the former
classes."""
MAX_OTHER_SHARE = 0.005
"""Most cells that are no time of day, as a share of all whole numbers: slips."""
MAX_FIRST_SHARE = 0.5
"""Most cells before one o'clock, as a share of all: other small numbers look like these."""
LAST_SHARES, ROUND_SHARES = (0.05, 0.6), (0.15, 0.7)
"""Shares of all cells, least and most, that are in the last quarter of an hour, or at minute 30 or 40. One of
both says that they are times: in minutes or steps of 5 or 15 the former, of 10, 20 or 30 the latter. Where
nearly all end alike, as prices do in 45, they are none. None of these was tuned on a table: bench/LOG.md."""
DOUBT = 3.0
"""Noise standard deviations by which counts may be off."""
MAX_NOISE = 0.025
"""Most noise of a count, as a share of all, with which anything is said."""


def is_clock_format(written: str | None) -> bool:
    """Whether a format is one of times of day as numbers."""
    return FORMAT.fullmatch(written or "") is not None


def read_clock(values: NDArray[Any]) -> tuple[Whole, Truths]:
    """Microseconds since midnight of numbers that are times of day, 0 for the rest, and which are.

    Args:
        values: Whole numbers or floats, NaN among them, shape [values].
    """
    values = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        sound = (values >= 0) & (values <= MIDNIGHT) & (values == np.floor(values))
        sound &= np.mod(values, 100) < 60
    whole = np.where(sound, values, 0).astype(np.int64) % MIDNIGHT
    return (whole // 100 * 60 + whole % 100) * MINUTE, sound


def clock_numbers(ticks: Whole, written: str) -> Whole:
    """Times of day as numbers, down to the minute: shape [values].

    Args:
        ticks: Microseconds since midnight.
        written: The format.
    """
    minutes = np.clip(ticks, 0, DAY - 1) // MINUTE
    found = minutes // 60 * 100 + minutes % 60
    return np.where((found == 0) & written.endswith(" 24"), MIDNIGHT, found)


def spell_clock(ticks: Whole, written: str) -> list[str]:
    """Times of day as text in a format: shape [values]."""
    parts = FORMAT.fullmatch(written)
    if parts is None:
        raise ValueError("not a format of times of day as numbers")
    wide, point = (0 if parts["bare"] else 4), parts["point"] or ""
    return [f"{number:0{wide}d}{point}" for number in clock_numbers(ticks, written).tolist()]


def holds_numbers(written: str | None) -> bool:
    """Whether a format of times of day writes them as plain numbers, without zeros in front or a point."""
    return is_clock_format(written) and str(written).startswith("%-H") and ".0" not in str(written)


def vote_on_clock(values: NDArray[Any]) -> Whole:
    """The place in CLOCK_VOTES of each whole number, -1 for other numbers and for NaN: shape [values].

    Args:
        values: Whole numbers or floats, shape [values].
    """
    values = values.astype(np.float64)
    _, sound = read_clock(values)
    minute = np.mod(np.where(sound, values, 0), 100)
    late = (minute >= 45) & (minute != 50)
    classes = [~sound, values == 0, values == MIDNIGHT, values < 100, np.isin(minute, (30, 40)), late]
    found = np.select(classes, range(len(classes)), len(classes))
    with np.errstate(invalid="ignore"):
        return np.where(values == np.floor(values), found, -1).astype(np.int64)


def choose_clock_format(votes: NDArray[np.float64], sigma: float, padded: bool, pointed: bool) -> str:
    """The format of a column of times of day as numbers; "" if it is none, or where noise hides it.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of CLOCK_VOTES, shape [votes].
        sigma: Standard deviation of their noise.
        padded: Whether numbers have zeros in front.
        pointed: Whether whole numbers are written with a point.
    """
    total, doubt = float(votes.sum()), DOUBT * sigma
    none, zero, late, first, even, last, _ = votes.tolist()
    if total <= 0 or sigma > MAX_NOISE * total or none > MAX_OTHER_SHARE * total + doubt:
        return ""
    if zero + first > MAX_FIRST_SHARE * total:
        return ""
    told = (
        low * total + doubt < count < high * total
        for count, (low, high) in ((last, LAST_SHARES), (even, ROUND_SHARES))
    )
    if not any(told):
        return ""
    ending = " 24" if late > max(zero, doubt) else ""
    return f"%{'' if padded else '-'}H%M{'.0' if pointed else ''}{ending}"
