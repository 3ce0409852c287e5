"""Dates, time stamps, times and durations as whole numbers of one unit each: from Arrow, from text, and back.

    date             days since 1970-01-01
    time stamp       microseconds since 1970-01-01T00:00, of UTC where it has a zone, else of the wall clock
    time             microseconds since midnight
    duration         microseconds

Arrow's types come first. Nanoseconds are cut down to microseconds (towards the past), and what lies beyond
int64 is held at its end.

Text follows, in the strict spelling of ISO 8601 that is read:

    date     2024-02-29
    moment   2024-02-29T08:05, a blank for the T, seconds, up to nine digits of a second, Z or UTC or an
             offset as +01:00, +0100 and +01 are, with a blank in front or without
    time     08:05, 08:05:09, 08:05:09.25, and with hours below 10 in one digit, 8:05, as lengths of time have

The calendar is Gregorian, years 0001 to 9999; hours run to 23 and seconds to 59. Anything else is text. What
is finer than a microsecond is cut off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Ticks of a second in each unit of Arrow."""
MIN_TICKS, MAX_TICKS = np.iinfo(np.int64).min, np.iinfo(np.int64).max
Whole = NDArray[np.int64]
DAY = 86_400_000_000
"""Microseconds of a day."""
SECOND = PER_SECOND["us"]
"""Microseconds of a second."""

DATE_PARTS = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
TIME_PARTS = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<part>[0-9]{1,9}))?)?"
ZONE_PARTS = r"(?:Z| UTC| ?(?P<sign>[+-])(?P<east>[0-9]{2})(?::?(?P<more>[0-9]{2}))?)?"
DATE = f"^{DATE_PARTS}$"
MOMENT = f"^{DATE_PARTS}[T ]{TIME_PARTS}{ZONE_PARTS}$"
TIME = f"^{TIME_PARTS.replace('{2}', '{1,2}', 1)}$"

Truths = NDArray[np.bool_]
DAYS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
"""Days of each month, in a leap year."""


def is_temporal(kind: Any) -> bool:
    """Whether an Arrow type is a date, time stamp, time or duration."""
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def temporal_kind(kind: Any) -> str:
    """What an Arrow temporal type holds: "date", "moment", "time" or "duration"."""
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "moment"
    return "time" if pa.types.is_time(kind) else "duration"


def unit_of(kind: Any) -> int:
    """The least difference between two values of an Arrow temporal type, in days or microseconds: public."""
    return 1 if pa.types.is_date(kind) else max(SECOND // PER_SECOND[kind.unit], 1)


def keep_temporal(array: Any) -> Any:
    """Temporal values as they are kept in memory: dates by day, nothing finer than a microsecond."""
    kind = array.type
    if pa.types.is_date64(kind):
        return from_ticks(ticks(array), pa.date32())
    if pa.types.is_date32(kind) or kind.unit != "ns":
        return array
    if pa.types.is_timestamp(kind):
        return from_ticks(ticks(array), pa.timestamp("us", kind.tz))
    return from_ticks(ticks(array), pa.time64("us") if pa.types.is_time(kind) else pa.duration("us"))


def ticks(array: Any) -> Any:
    """A temporal Arrow array as int64 of its unit, nulls kept. **Not private.**"""
    kind = array.type
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).cast(pa.int64())
    raw = array.cast(pa.int32()).cast(pa.int64()) if pa.types.is_time32(kind) else array.cast(pa.int64())
    values = np.asarray(pc.fill_null(raw, 0).to_numpy(zero_copy_only=False))
    if pa.types.is_date64(kind):
        values = values // (DAY // 1_000)
    elif kind.unit == "ns":
        values = values // 1_000
    elif kind.unit != "us":
        values = _times(values, unit_of(kind))
    return pa.array(values, mask=np.asarray(raw.is_null().to_numpy(zero_copy_only=False)))


def _times(values: Whole, factor: int) -> Whole:
    # Held before they are multiplied: a product beyond int64 would wrap around, to another century.
    return np.clip(values, -(MAX_TICKS // factor), MAX_TICKS // factor) * factor


def spell_temporal(values: Any, kind: Any) -> list[str]:
    """Whole numbers of a temporal type as text: ISO form, durations as microseconds.

    Args:
        values: An int64 Arrow array without nulls.
        kind: The Arrow type they come from.
    """
    held, numbers = temporal_kind(kind), values.to_pylist()
    if held == "date":
        return [date_text(value) for value in numbers]
    if held == "time":
        return [time_text(value) for value in numbers]
    if held == "duration":
        return [str(value) for value in numbers]
    return [moment_text(value, kind.tz is not None) for value in numbers]


def from_ticks(array: Any, kind: Any) -> Any:
    """Whole numbers of the type's unit, an int64 Arrow array, as that temporal type.

    Values are cut down to the type's own unit and held inside what it can hold.
    """
    values = np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False))
    absent = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_date32(kind):
        # Days are int32 there, and a cast of NumPy's wraps around where Arrow's would fail.
        return pa.array(np.clip(values, -(1 << 31), (1 << 31) - 1).astype(np.int32), mask=absent).cast(kind)
    if pa.types.is_date64(kind):
        return pa.array(_times(values, DAY // 1_000), mask=absent).cast(kind)
    if pa.types.is_time(kind):
        values = np.clip(values, 0, DAY - 1)
    values = _times(values, 1_000) if kind.unit == "ns" else values // unit_of(kind)
    narrow = pa.array(values, mask=absent)
    return narrow.cast(pa.int32()).cast(kind) if pa.types.is_time32(kind) else narrow.cast(kind)


def dates(texts: Any) -> tuple[Whole, Truths]:
    """Days since 1970-01-01 of texts that are dates, 0 for the rest, and which are; both of shape [texts].

    Args:
        texts: An Arrow array of text without nulls.
    """
    return _fill(texts, DATE, _days)


def moments(texts: Any) -> tuple[Whole, Truths]:
    """Microseconds since 1970 of texts that are moments, 0 for the rest, and which are; as `dates`."""
    return _fill(texts, MOMENT, _instant)


def times(texts: Any) -> tuple[Whole, Truths]:
    """Microseconds since midnight of texts that are times, 0 for the rest, and which are; as `dates`."""
    return _fill(texts, TIME, _clock)


def _fill(texts: Any, pattern: str, read: Any) -> tuple[Whole, Truths]:
    spelt = np.asarray(
        pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False), dtype=np.bool_
    )
    values = np.zeros(len(texts), dtype=np.int64)
    if spelt.any():
        parts = pc.extract_regex(texts.filter(pa.array(spelt)), pattern)
        found, sound = read(parts)
        values[spelt] = np.where(sound, found, 0)
        spelt[spelt] = sound
    return values, spelt


def _part(parts: Any, name: str) -> Whole:
    """One part as a number, 0 where it is left out."""
    text = parts.field(name)
    filled = pc.if_else(pc.equal(text, ""), "0", text)
    return np.asarray(filled.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _days(parts: Any) -> tuple[Whole, Truths]:
    year, month, day = (_part(parts, name) for name in ("year", "month", "day"))
    sound = (year >= 1) & are_days(year, month, day)
    first = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    days = first.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    return days, sound


def are_days(year: Whole, month: Whole, day: Whole) -> Truths:
    """Which days there are in the Gregorian calendar, shape [days]."""
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    within = (month >= 1) & (month <= 12) & (day >= 1) & (day <= DAYS[np.clip(month, 1, 12) - 1])
    return np.asarray(within & (leap | (month != 2) | (day < 29)))


def _clock(parts: Any) -> tuple[Whole, Truths]:
    hour, minute, second = (_part(parts, name) for name in ("hour", "minute", "second"))
    part = pc.utf8_slice_codeunits(pc.utf8_rpad(parts.field("part"), 6, "0"), 0, 6)
    micro = np.asarray(part.cast(pa.int64()).to_numpy(zero_copy_only=False))
    sound = (hour < 24) & (minute < 60) & (second < 60)
    return ((hour * 60 + minute) * 60 + second) * SECOND + micro, sound


def _instant(parts: Any) -> tuple[Whole, Truths]:
    days, real = _days(parts)
    clock, sound = _clock(parts)
    east, more = _part(parts, "east"), _part(parts, "more")
    west = np.asarray(pc.equal(parts.field("sign"), "-").to_numpy(zero_copy_only=False), dtype=np.bool_)
    shift = np.where(west, -1, 1) * (east * 60 + more) * 60 * SECOND
    return days * DAY + clock - shift, real & sound & (east < 24) & (more < 60)


def date_text(days: int) -> str:
    """A date as it is spelt, as in 2024-02-29."""
    return str(np.datetime64(int(days), "D"))


def moment_text(micros: int, zone: bool = False) -> str:
    """A moment as it is spelt, as in 2024-02-29T08:05:00, with a Z where it has a zone."""
    day, clock = divmod(int(micros), DAY)
    return f"{date_text(day)}T{time_text(clock)}{'Z' if zone else ''}"


def time_text(micros: int) -> str:
    """A time of day as it is spelt, as in 08:05:00 or 08:05:00.250000."""
    seconds, part = divmod(int(micros), SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{part:06d}" if part else text


def duration_text(micros: int) -> str:
    """A length of time for reading, as in 2 d 03:00:00."""
    sign, (days, clock) = "-" * (micros < 0), divmod(abs(int(micros)), DAY)
    return f"{sign}{days} d {time_text(clock)}" if days else f"{sign}{time_text(clock)}"
