"""How texts of moments and times are spelt, so that they come out as they went in.

A spelling is written as midnight is in it: "T00:00:00Z", " 00:00", "00:00:00.000".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema import iso, storage

__all__ = ["SPELLINGS", "respelt", "spellings"]

CLOCKS = ("00:00", "00:00:00", "00:00:00.000", "00:00:00.000000")
ZONES = ("", "Z", "+00:00")
SPELLINGS: dict[str, tuple[str, ...]] = {
    "moment": tuple(f"{blank}{clock}{zone}" for blank in "T " for clock in CLOCKS for zone in ZONES),
    "time": CLOCKS,
}
"""The spellings told apart, by reading. Up to three digits of a second count as three, more as six; any
offset from UTC counts as +00:00."""
DATE_LETTERS = 10


def spellings(array: Any, read: str, name: str = "") -> NDArray[np.int64]:
    """Cells of text by the spelling of their moment or time: shape [spellings]. **Not private.**

    A cell is counted once at most: one that is no such text, such as a date or a typed value, is not.

    Args:
        array: An Arrow array.
        read: "moment" or "time".
        name: The column's name, for the error.
    """
    known = SPELLINGS[read]
    array = storage.normal(array, name)
    if not storage.is_text(array):
        return np.zeros(len(known), dtype=np.int64)
    codes, distinct = storage.texts(array)
    _, sound = (iso.moments if read == "moment" else iso.times)(distinct)
    places = np.full(len(distinct) + 1, len(known))
    for place in np.flatnonzero(sound):
        places[place] = known.index(_spelling(distinct[int(place)].as_py(), read))
    return np.bincount(places[codes], minlength=len(known) + 1)[:-1].astype(np.int64)


def _spelling(text: str, read: str) -> str:
    blank, clock = (text[DATE_LETTERS], text[DATE_LETTERS + 1 :]) if read == "moment" else ("", text)
    zone = "Z" if clock.endswith("Z") else "+00:00" if "+" in clock or "-" in clock else ""
    clock = clock.removesuffix("Z").split("+")[0].split("-")[0]
    digits = len(clock.partition(".")[2])
    form = CLOCKS[0] if clock.count(":") == 1 else CLOCKS[1 + (digits > 0) + (digits > 3)]
    return f"{blank}{form}{zone}"


def respelt(values: NDArray[np.int64], read: str, spelling: str) -> list[str]:
    """Moments or times as text in a spelling, cut down to its precision.

    Args:
        values: Microseconds, shape [values].
        read: "moment" or "time".
        spelling: One of `SPELLINGS`.
    """
    found = []
    zone = next(zone for zone in reversed(ZONES) if spelling.endswith(zone))
    for value in values.tolist():
        day, clock = divmod(value, iso.DAY)
        text = iso.time_text(clock)
        text = text if "." in text else f"{text}.000000"
        length = len(spelling) - len(zone) - (read == "moment")
        head = iso.date_text(day) + spelling[0] if read == "moment" else ""
        found.append(f"{head}{text[:length]}{zone}")
    return found
