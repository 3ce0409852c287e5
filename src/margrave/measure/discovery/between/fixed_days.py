"""Fixed days that numbers are told to, as an age on the day of an export: what is asked, and what it shows.

Released bins say which number may be the time from which date to a day, in which unit, and about which day:
where dates are late, numbers are small. It is then counted in how many rows the number is the time to each of
some days about there. With the right day all rows agree, with one that is a tenth of a unit off nine in ten,
and with one a unit off none, so the counts together tell the day.

Everything here is made from public things and released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.schema.calendar import FIRST_DAY, LAST_DAY, find_date, rank_day
from margrave.schema.constraints.rules import Age

Array = NDArray[np.float64]
Longs = NDArray[np.int64]

LENGTHS = {"years": 365.2425, "months": 30.436875, "weeks": 7.0, "days": 1.0}
"""Days of each unit, on average."""
QUANTILES = np.linspace(0.1, 0.9, 9)
"""By which numbers and dates are compared."""
FIT = 0.35
"""Most days by which the day that quantiles tell may differ from one to another, as a share of those between
the dates' upper and lower tenth. Of columns that have nothing to do with each other few differ by less."""
REACH = 1.5
"""Days are asked about as far from the middle one of these as they differ among each other, times REACH, and
half a unit at least."""
STEPS = 4
"""Days that are asked about in a unit, where it has as many."""
MOST_ASKED, MOST_NUMBERS = 96, 4
"""Most days that are asked about for one number, and most numbers, the nearest first."""
Z_DAY = 5.0
"""Noise standard deviations by which a day must stand out."""
LIKELY = 4.0
"""Twice the nats by which a day may be less likely than the likeliest, to be taken for being rounder. None of
these constants was measured."""


@dataclass(frozen=True, slots=True)
class FixedDay:
    """A number that may be the time from a date to a fixed day.

    Args:
        number: Name of the column of numbers.
        date: Name of the column of dates.
        unit: One of `LENGTHS`.
        days: Days since 1970-01-01 that are asked about, in order, shape [days].
        apart: How far the quantiles are from telling one day, as a share of the dates' spread.
    """

    number: str
    date: str
    unit: str
    days: Longs
    apart: float

    @property
    def rules(self) -> list[Age]:
        """What is asked: one rule a day."""
        return [self.make_rule(day) for day in self.days.tolist()]

    def make_rule(self, day: int) -> Age:
        """The rule that the number is the time to a day."""
        return Age(self.number, self.date, find_date(day).isoformat(), self.unit)


def find_fixed_days(
    numbers: Sequence[tuple[str, Array]], dates: Sequence[tuple[str, Array]]
) -> list[FixedDay]:
    """The numbers that may be told to fixed days, those whose quantiles fit best first, one date for each.

    Args:
        numbers: Names of columns of whole numbers, and numbers drawn from their released bins.
        dates: Names of columns of dates or moments, and days drawn likewise.
    """
    found: list[FixedDay] = []
    late = [(name, np.quantile(days, 1.0 - QUANTILES)) for name, days in dates]
    for number, drawn in numbers:
        small = np.quantile(drawn, QUANTILES)
        able = [
            one
            for name, ends in late
            for unit in LENGTHS
            if (one := _compare_quantiles(number, small, name, ends, unit)) is not None
        ]
        if able:
            found.append(min(able, key=lambda one: one.apart))
    return sorted(found, key=lambda one: one.apart)[:MOST_NUMBERS]


def _compare_quantiles(number: str, small: Array, date: str, late: Array, unit: str) -> FixedDay | None:
    """The days that quantiles of a number, and of dates from the late to the early ones, leave open."""
    length, spread = LENGTHS[unit], float(late[0] - late[-1])
    # A number that is rounded down stands for half a unit more.
    told = late + length * (small + 0.5 * (unit != "days"))
    apart = float(np.ptp(told)) / spread if spread > 0 else math.inf
    if apart > FIT or not small[0] < small[-1]:
        return None
    reach = max(REACH * float(np.ptp(told)), length / 2)
    step = max(length / STEPS, 1.0)
    count = min(2 * math.ceil(reach / step) + 1, MOST_ASKED)
    middle = float(np.median(told))
    days = np.rint(middle + step * (np.arange(count) - (count - 1) / 2)).astype(np.int64)
    held = days[(days >= FIRST_DAY) & (days <= LAST_DAY)]
    return FixedDay(number, date, unit, held, apart) if len(held) else None


def choose_days(one: FixedDay, agreeing: Array, sigma: float) -> list[Age]:
    """The likeliest day and before it a rounder one that is nearly as likely, none where none stands out.

    By least squares: the rows that agree with each day, as a share of those that agree with the right one,
    fall evenly from 1 to 0 within a unit on either side.

    Args:
        one: What was asked.
        agreeing: Noisy counts of the rows that agree with each of its days, shape [days].
        sigma: Standard deviation of their noise.
    """
    length = LENGTHS[one.unit]
    first, last = one.days[0] - math.ceil(length) + 1, one.days[-1] + math.ceil(length)
    able = np.arange(max(first, FIRST_DAY), min(last, LAST_DAY + 1), dtype=np.int64)
    shares = np.maximum(1.0 - np.abs(able[:, None] - one.days[None, :]) / length, 0.0)
    sizes = np.sqrt(np.square(shares).sum(axis=1))
    deviations = shares @ agreeing / np.maximum(sizes, 1e-9) / sigma
    best = int(np.argmax(deviations))
    if deviations[best] <= Z_DAY:
        return []
    near = np.flatnonzero((deviations > 0) & (deviations**2 >= deviations[best] ** 2 - LIKELY))
    round_one = min(near.tolist(), key=lambda place: (rank_day(int(able[place])), -deviations[place]))
    chosen = dict.fromkeys([int(able[round_one]), int(able[best])])
    return [one.make_rule(day) for day in chosen]
