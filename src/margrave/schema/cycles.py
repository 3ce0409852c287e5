"""Moments and dates drawn by the hours, the days of the week and the days of the month that they fall on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.calendar import FIRST_WEEKDAY, HOUR
from margrave.schema.columns import Binned, Date, Moment
from margrave.schema.storage.clock import DAY
from margrave.schema.storage.months import CALENDAR, MONTH_PLACES, find_month_places

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

CYCLES = (("hours", HOUR, 24), ("weekdays", DAY, 7))
"""What comes back each day and each week: the field of a column, and its ticks in microseconds and number."""


def list_cycles(clock: bool) -> tuple[tuple[str, int, int], ...]:
    """The cycles that numbers have, with the length of a tick in their own unit.

    Args:
        clock: Whether they are moments; else they are dates, which have no hours.
    """
    return (
        CYCLES if clock else tuple((name, tick // DAY, ticks) for name, tick, ticks in CYCLES if tick >= DAY)
    )


@dataclass(frozen=True, slots=True)
class Cycle:
    """A density of whole numbers that repeats itself: even inside a tick, and the same every so many ticks.

    Args:
        tick: Length of a tick in the column's unit.
        weights: Weight of each tick of a period, which begins with the one of 0: none negative, some above 0,
            shape [ticks].
    """

    tick: int
    weights: Floats

    @classmethod
    def of(cls, column: Binned) -> Cycle | None:
        """The week of a column of dates or moments by what is known of its hours and weekdays.

        Where days of the month are known it is the whole calendar, which repeats itself every 400 years.

        Returns:
            None where neither is known, and for columns of other kinds.
        """
        if not isinstance(column, (Date, Moment)):
            return None
        if isinstance(column, Date) and column.month_days is not None:
            return cls.of_months(column.weekdays, column.month_days)
        hours = column.hours if isinstance(column, Moment) else None
        if hours is None and column.weekdays is None:
            return None
        return cls.of_parts(isinstance(column, Moment), np.array(hours or [1.0] * 24), column.weekdays)

    @classmethod
    def of_parts(cls, clock: bool, hours: Floats, weekdays: Sequence[float] | None) -> Cycle:
        """A week in which each hour weighs what its hour of the day does, times its weekday.

        Args:
            clock: Whether numbers are moments; else they are dates, which have no hours.
            hours: From midnight on, shape [24].
            weekdays: Monday first, shape [7]; None for alike.
        """
        days = np.roll(np.ones(7) if weekdays is None else weekdays, -FIRST_WEEKDAY)
        return cls(HOUR, np.outer(days, hours).ravel()) if clock else cls(1, days)

    @classmethod
    def of_months(cls, weekdays: Sequence[float] | None, month_days: Sequence[float]) -> Cycle:
        """The calendar, in which each day weighs what its place in the month does, times its weekday.

        Days of both may have no weight in common, such as the first days of months in a range where all are
        Sundays: an interval without weight is drawn from evenly, as anywhere.

        Args:
            weekdays: Monday first, shape [7]; None for alike.
            month_days: The first 30 days of a month and its last, shape [MONTH_PLACES].
        """
        days = np.roll(np.ones(7) if weekdays is None else weekdays, -FIRST_WEEKDAY)
        weights = np.asarray(month_days)[find_month_places()] * np.resize(days, CALENDAR)
        return cls(1, weights if weights.any() else np.ones(CALENDAR))

    def lengths(self, low: Floats, high: Floats) -> Floats:
        """How much of each interval [low, high) lies in each tick of the period, shape [intervals, ticks].

        Args:
            low: Shape [intervals].
            high: Above low, shape [intervals].
        """
        begin = self.tick * np.arange(len(self.weights), dtype=np.float64)
        upto = []
        for number in (low, high):
            periods, rest = np.divmod(np.asarray(number, dtype=np.float64)[:, None], self.tick * len(begin))
            upto.append(periods * self.tick + np.clip(rest - begin, 0.0, self.tick))
        return np.asarray(upto[1] - upto[0])

    def mass(self, low: Longs, high: Longs) -> Floats:
        """The mass of each interval [low, high), in ticks of the mean weight: shape [intervals].

        Args:
            low: Shape [intervals].
            high: Above low, shape [intervals].
        """
        ends = np.append(0.0, np.cumsum(self.weights / self.weights.mean()))
        start = low - low % (self.tick * len(self.weights))
        return self._mass(high - start, ends) - self._mass(low - start, ends)

    def draw(self, low: Longs, high: Longs, rng: np.random.Generator) -> Longs:
        """A number in each of the intervals [low, high) in proportion to the density, shape [rows].

        Drawn evenly in an interval without weight.

        Args:
            low: Shape [rows].
            high: Above low, shape [rows].
            rng: Source of randomness.
        """
        period = self.tick * len(self.weights)
        start = low - low % period
        # Mass from the beginning of the period, in ticks of the mean weight.
        ends = np.append(0.0, np.cumsum(self.weights / self.weights.mean()))
        first, last = self._mass(low - start, ends), self._mass(high - start, ends)
        part = rng.random(len(low))
        periods, rest = np.divmod(first + part * (last - first), ends[-1])
        tick = np.clip(np.searchsorted(ends, rest, side="right") - 1, 0, len(self.weights) - 1)
        inside = (rest - ends[tick]) / np.maximum(ends[tick + 1] - ends[tick], 1e-300)
        offset = periods * period + np.floor((tick + inside) * self.tick)
        even = np.floor(part * (high - low))
        drawn = np.where(last > first, start + offset.astype(np.int64), low + even.astype(np.int64))
        return np.asarray(np.clip(drawn, low, high - 1), dtype=np.int64)

    def _mass(self, numbers: Longs, ends: Floats) -> Floats:
        """The mass of [0, number) for numbers of at least 0, shape [rows]."""
        periods, rest = np.divmod(numbers, self.tick * len(self.weights))
        found: Any = periods * ends[-1] + np.interp(rest / self.tick, np.arange(len(ends)), ends)
        return np.asarray(found, dtype=np.float64)


def count_month_days(low: Floats, high: Floats) -> Floats:
    """The days of each interval [low, high) by weekday and place in the month, [intervals, 7 * MONTH_PLACES].

    Weekdays begin with Thursday, and each has its places. Days are counted one by one, whole periods of the
    calendar at once.

    Args:
        low: Whole days, shape [intervals].
        high: At least low, shape [intervals].
    """
    joint = np.arange(CALENDAR) % 7 * MONTH_PLACES + find_month_places()
    cells, places = len(low), 7 * MONTH_PLACES
    starts = low.astype(np.int64)
    periods, rest = np.divmod(high.astype(np.int64) - starts, CALENDAR)
    owner = np.repeat(np.arange(cells), rest)
    day = np.arange(len(owner)) + np.repeat(starts - (np.cumsum(rest) - rest), rest)
    found = np.bincount(owner * places + joint[day % CALENDAR], minlength=cells * places)
    whole = np.outer(periods, np.bincount(joint, minlength=places))
    return np.asarray(found.reshape(cells, places) + whole, dtype=np.float64)
