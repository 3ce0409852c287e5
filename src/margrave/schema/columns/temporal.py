"""Columns of dates, moments, times of day and durations: whole numbers of a unit, cut into bins."""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import pyarrow as pa

from margrave.errors import SchemaError, invalid
from margrave.schema.columns.binned import Binned, Whole
from margrave.schema.queries import readings
from margrave.schema.storage import clock
from margrave.schema.storage.clock import SECOND
from margrave.schema.storage.clock_numbers import MINUTE, is_clock_format
from margrave.schema.storage.date_numbers import is_date_number_format, is_stamp_format
from margrave.schema.storage.months import MONTH_PLACES
from margrave.schema.storage.spelling import SPELLINGS

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal(Whole):
    """A column of dates or times, as whole numbers of days or microseconds.

    Bounds, edges and fine edges may be given as ISO text, as objects of Python's datetime, or as whole
    numbers of the unit; they are kept as whole numbers.
    """

    def __post_init__(self) -> None:
        for part in ("lower", "upper"):
            if getattr(self, part) is not None:
                object.__setattr__(self, part, self._unit(getattr(self, part)))
        for part in ("edges", "fine"):
            if getattr(self, part) is not None:
                object.__setattr__(self, part, tuple(self._unit(edge) for edge in getattr(self, part)))
        Binned.__post_init__(self)

    def _unit(self, value: Any) -> float:
        """A declared value in whole units."""
        found = iso_number(self, value) if isinstance(value, str) else self._whole(value)
        if found is None or isinstance(found, bool):
            raise SchemaError(
                invalid(
                    f"bounds of column {self.name!r}",
                    f"{self.kind}s in ISO form, of datetime, or whole numbers",
                    "Write them as in 2024-02-29, 2024-02-29T08:05 or 08:05.",
                )
            )
        return found

    @property
    def as_number(self) -> bool:
        """Whether its dates, moments or times of day are written as numbers, as in 20240229 and 517."""
        dates = is_date_number_format if self.read == "date" else is_stamp_format
        return is_clock_format(self.format) or dates(self.format)

    def spell_step(self, step: float) -> str:
        """A grid's step for reading, as in 1 d or 00:15:00."""
        return f"{step:g} d" if self.read == "date" else clock.duration_text(int(step))

    @abstractmethod
    def _whole(self, value: Any) -> float | None:
        """A declared object or number in whole units; None if it is none of the kind."""

    def _label(self, low: float, high: float) -> str:
        single = high - low == 1
        return (
            self.spell(low) if single else f"{self.spell(low)} to {self.spell(high - (self.read == 'date'))}"
        )

    def written(self, value: float) -> str | int:
        """A bound as schema.json keeps it: as ISO text where that reads back the same, else the number."""
        text = self.spell(value)
        return text if iso_number(self, text) == value else int(value)


def iso_number(column: Temporal, text: str) -> int | None:
    """What an ISO text stands for in a temporal column, in its unit; None if it is none of the kind."""
    if column.read == "time" and text == "24:00:00":
        return clock.DAY  # as the end of the last bin
    if column.read == "duration":
        return None
    values, known = readings(pa.array([text]), column.read)
    return int(values[0]) if known[0] else None


def check_spelling(column: Temporal, spelling: object) -> None:
    """Find the spelling among those of the kind.

    Raises:
        SchemaError: It is none of them.
    """
    known = SPELLINGS[column.read]
    if spelling not in known:
        raise SchemaError(
            invalid(f"spelling of column {column.name!r}", f"one of {known}", "Pick one.", got=spelling)
        )


def check_weights(column: Temporal, part: str, count: int) -> None:
    """Make weights of hours, weekdays or days of the month a tuple of floats; None stays.

    Raises:
        SchemaError: They are not that many numbers, one is negative, or none is above 0.
    """
    given = getattr(column, part)
    if given is None:
        return
    try:
        weights = tuple(float(weight) for weight in given)
    except (TypeError, ValueError):
        weights = ()
    fit = all(0.0 <= weight < math.inf for weight in weights) and sum(weights) > 0.0
    if len(weights) != count or not fit:
        where, constraint = (
            f"{part} of column {column.name!r}",
            f"{count} weights, none negative, one above 0",
        )
        raise SchemaError(invalid(where, constraint, "Leave it out, or give all.", got=given))
    object.__setattr__(column, part, weights)


def _moment(value: datetime.datetime) -> int:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return (value - EPOCH) // MICROSECOND


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Date(Temporal):
    """A column of calendar days, kept as whole numbers of days since 1970-01-01.

    Args:
        name: Name of the column.
        lower: The earliest day, as in "2024-02-29" or a datetime.date; left out, it is discovered.
        upper: The latest day; left out, it is discovered.
        bins: Into how many bins of equal width the range is cut, 32 by default.
        edges: The bins themselves instead, of which the last edge lies after the latest day.
        missing: True if values may be missing, False if none ever is; left out, it is discovered.
        strict: Whether a value outside the bounds ends the run with an error (the default) or counts in the
            nearest bin (False).
        format: How texts have the date, if not as ISO 8601, as in "%m/%d/%Y" or "%-d.%-m.%y"; left
            out, it is found, but not between strict bounds. One without a day, as in "%Y-%m", means that
            each date is the first of a month, and only such days are drawn.
        weekdays: A weight of each day of the week, Monday first, by which days are drawn inside a bin, as in
            (1, 1, 1, 1, 1, 0, 0); left out, it is discovered together with the bins.
        month_days: A weight of each of the first 30 days of a month and one of its last day, whichever that
            is, likewise: the last of 31 weights is that of January 31 and April 30. Left out, it is
            discovered where some days of the month hold far more rows, or far fewer, than others.
        binning, rare, fine, weights, grids: As for `Integer`.

    Example:
        >>> Date(name="born", lower="1950-01-01", upper="1950-01-03", missing=False).labels
        ('1950-01-01', '1950-01-02', '1950-01-03')
    """

    kind: ClassVar[str] = "date"
    read: ClassVar[str] = "date"
    weekdays: tuple[float, ...] | None = None
    month_days: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        Temporal.__post_init__(self)
        check_weights(self, "weekdays", 7)
        check_weights(self, "month_days", MONTH_PLACES)

    def _whole(self, value: Any) -> float | None:
        if isinstance(value, datetime.datetime):
            return _moment(value) // clock.DAY
        if isinstance(value, datetime.date):
            return (value - EPOCH.date()).days
        return value if isinstance(value, (int, float)) else None

    def spell(self, value: float) -> str:
        """A date as in 2024-02-29."""
        return clock.date_text(int(value))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Moment(Temporal):
    """A column of moments, kept as whole microseconds since 1970-01-01T00:00.

    Args:
        name: Name of the column.
        lower: The earliest moment, as in "2024-02-29T08:05" or a datetime.datetime; left out, it is
            discovered.
        upper: The latest moment; left out, it is discovered.
        bins: Into how many bins of equal width the range is cut, 32 by default.
        edges: The bins themselves instead, of which the last edge lies after the latest moment.
        missing: True if values may be missing, False if none ever is; left out, it is discovered.
        strict: Whether a value outside the bounds ends the run with an error (the default) or counts in the
            nearest bin (False).
        hours: A weight of each hour of the day, from midnight on, by which moments are drawn inside a bin;
            left out, it is discovered together with the bins. Of a column with a zone the hours are of UTC.
        weekdays: A weight of each day of the week, Monday first, likewise.
        binning, rare, fine, weights, grids: As for `Integer`.
        zone: Name of the time zone the values are shown in, as in "Europe/Berlin" or "UTC"; the numbers are
            of UTC then. None for moments without a zone, the wall clock's.
        spelling: How moments stored as text are spelt, one of `margrave.schema.storage.spelling.SPELLINGS`.
        format: How texts have the date, if not as ISO 8601, as in "%m/%d/%Y"; with " %p" behind, times have
            AM or PM, with " %-H" hours without a leading zero; or "%Y%m%d%H%M%S" and "%Y%m%d%H%M" for digits.
            Left out, it is found, but not between strict bounds.

    Example:
        >>> Moment(name="seen", lower="2024-01-01", upper="2024-12-31T23:59", bins=4, missing=False).present
        4
    """

    kind: ClassVar[str] = "moment"
    read: ClassVar[str] = "moment"
    hours: tuple[float, ...] | None = None
    weekdays: tuple[float, ...] | None = None
    zone: str | None = None
    spelling: str = "T00:00:00"

    def __post_init__(self) -> None:
        Temporal.__post_init__(self)
        if is_stamp_format(self.format) and not self.grids:
            step = SECOND if "%S" in str(self.format) else MINUTE
            object.__setattr__(self, "grids", ((float(step), 1.0),))
        check_weights(self, "hours", 24)
        check_weights(self, "weekdays", 7)
        check_spelling(self, self.spelling)

    def _whole(self, value: Any) -> float | None:
        if isinstance(value, datetime.datetime):
            return _moment(value)
        if isinstance(value, datetime.date):
            return (value - EPOCH.date()).days * clock.DAY
        return value if isinstance(value, (int, float)) else None

    def spell(self, value: float) -> str:
        """A moment as in 2024-02-29T08:05:00, with a Z where the column has a zone."""
        return clock.moment_text(int(value), self.zone is not None)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Temporal):
    """Times of day: whole microseconds since midnight. The day's bounds are public by nature.

    Args:
        spelling: How times stored as text are spelt, one of `margrave.schema.storage.spelling.SPELLINGS`.
        format: Where they are written as numbers, "%-H%M" for 517 and 5, or "%H%M" for 0517 and 0005; with
            ".0" behind for 517.0, and then with " 24" where midnight is 2400. Other numbers, as 1373, are
            missing, or an error where the column is strict. Left out, numbers are found to be times of day,
            or not.
    """

    kind: ClassVar[str] = "time"
    read: ClassVar[str] = "time"
    spelling: str = "00:00:00"

    def __post_init__(self) -> None:
        if self.format and not self.grids:
            object.__setattr__(self, "grids", ((float(MINUTE), 1.0),))
        Temporal.__post_init__(self)
        check_spelling(self, self.spelling)

    def _whole(self, value: Any) -> float | None:
        if isinstance(value, datetime.time):
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return seconds * 1_000_000 + value.microsecond
        return value if isinstance(value, (int, float)) else None

    def spell(self, value: float) -> str:
        """A time as in 08:05:00."""
        return clock.time_text(int(value))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(Temporal):
    """Lengths of time: whole microseconds, below 0 too."""

    kind: ClassVar[str] = "duration"
    read: ClassVar[str] = "duration"

    def _whole(self, value: Any) -> float | None:
        if isinstance(value, datetime.timedelta):
            return value // MICROSECOND
        return value if isinstance(value, (int, float)) else None

    def spell(self, value: float) -> str:
        """A length of time as in 2 d 03:00:00."""
        return clock.duration_text(int(value))
