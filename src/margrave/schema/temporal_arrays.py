"""Whole numbers of days or microseconds as an Arrow array of dates, time stamps, times, durations or text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema import clock, iso
from margrave.schema.columns import Binned, Moment, Temporal, Time
from margrave.schema.spelling import respelt

__all__ = ["temporal_array"]


def temporal_array(ticks: Any, column: Binned, kind: Any = None) -> Any:
    """The values of a column of whole units in an Arrow type.

    Args:
        ticks: Whole numbers of the column's unit, an int64 Arrow array.
        column: What they are of; a column of plain whole numbers has the unit of the type.
        kind: The Arrow type wanted; the one that the column kind suggests when None. Text is in ISO
            form, that of durations the number of microseconds.
    """
    if kind is None:
        kind = _natural(column)
    if clock.is_temporal(kind):
        return clock.from_ticks(_shifted(ticks, column.read, clock.meaning(kind)), kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(ticks))
    coded = ticks.dictionary_encode()
    texts = _texts(np.asarray(coded.dictionary.to_numpy(zero_copy_only=False)), column)
    return pa.array(texts, pa.large_string()).take(coded.indices).cast(kind)


def _texts(values: NDArray[np.int64], column: Binned) -> list[str]:
    if isinstance(column, (Moment, Time)):
        return respelt(values, column.read, column.spelling)
    iso_form = isinstance(column, Temporal) and column.read != "duration"
    return [column.spell(value) if iso_form else str(value) for value in values.tolist()]


def _natural(column: Binned) -> Any:
    """Dates as dates; times as precise as their spelling."""
    if column.read == "date":
        return pa.date32()
    if not isinstance(column, (Moment, Time)):
        return pa.duration("us")
    digits = len(column.spelling.rstrip("Z").removesuffix("+00:00").partition(".")[2])
    unit = {0: "s", 3: "ms", 6: "us"}[digits]
    if isinstance(column, Moment):
        return pa.timestamp(unit, column.zone)
    return pa.time64(unit) if unit == "us" else pa.time32(unit)


def _shifted(ticks: Any, held: str, wanted: str) -> Any:
    """Days as microseconds, or the other way round, where the type wanted holds the other."""
    if held == "date" and wanted != "date":
        values, most = np.asarray(pc.fill_null(ticks, 0)), clock.MOST // iso.DAY
        return pa.array(np.clip(values, -most, most) * iso.DAY, mask=np.asarray(ticks.is_null()))
    if held in ("moment", "time", "duration") and wanted == "date":
        values = np.asarray(pc.fill_null(ticks, 0)) // iso.DAY
        return pa.array(values, mask=np.asarray(ticks.is_null()))
    return ticks
