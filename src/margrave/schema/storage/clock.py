"""Arrow's dates, time stamps, times and durations as whole numbers of one unit each, and back.

    date             days since 1970-01-01
    time stamp       microseconds since 1970-01-01T00:00, of UTC where it has a zone, else of the wall clock
    time             microseconds since midnight
    duration         microseconds

Nanoseconds are cut down to microseconds (towards the past), and what lies beyond int64 is held at its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.storage import iso
from margrave.schema.storage.iso import DAY

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
MICRO = PER_SECOND["us"]
MIN_TICKS, MAX_TICKS = np.iinfo(np.int64).min, np.iinfo(np.int64).max
Whole = NDArray[np.int64]


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
    return 1 if pa.types.is_date(kind) else max(MICRO // PER_SECOND[kind.unit], 1)


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
    return np.clip(values, -(MAX_TICKS // factor), MAX_TICKS // factor) * factor


def spell_temporal(values: Any, kind: Any) -> list[str]:
    """Whole numbers of a temporal type as text: ISO form, durations as microseconds.

    Args:
        values: An int64 Arrow array without nulls.
        kind: The Arrow type they come from.
    """
    held, numbers = temporal_kind(kind), values.to_pylist()
    if held == "date":
        return [iso.date_text(value) for value in numbers]
    if held == "time":
        return [iso.time_text(value) for value in numbers]
    if held == "duration":
        return [str(value) for value in numbers]
    return [iso.moment_text(value, kind.tz is not None) for value in numbers]


def from_ticks(array: Any, kind: Any) -> Any:
    """Whole numbers of the type's unit, an int64 Arrow array, as that temporal type.

    Values are cut down to the type's own unit and held inside what it can hold.
    """
    values = np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False))
    absent = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_date32(kind):
        return pa.array(np.clip(values, -(1 << 31), (1 << 31) - 1).astype(np.int32), mask=absent).cast(kind)
    if pa.types.is_date64(kind):
        return pa.array(_times(values, DAY // 1_000), mask=absent).cast(kind)
    if pa.types.is_time(kind):
        values = np.clip(values, 0, DAY - 1)
    values = _times(values, 1_000) if kind.unit == "ns" else values // unit_of(kind)
    narrow = pa.array(values, mask=absent)
    return narrow.cast(pa.int32()).cast(kind) if pa.types.is_time32(kind) else narrow.cast(kind)
