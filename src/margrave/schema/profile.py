"""What the cells of a column are: seven classes, of which each cell is in exactly one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema import iso, storage

__all__ = ["PROFILE", "classes", "profile"]

PROFILE = ("missing", "whole", "number", "date", "moment", "time", "text")
"""The classes: missing, a whole number of at most 2^53, another number, an ISO date, moment or time of day,
and any other text. The spelling of numbers is that of `storage`, of the others that of `iso`."""

MISSING, WHOLE, NUMBER, DATE, MOMENT, TIME, TEXT = range(len(PROFILE))


def profile(array: Any, name: str = "") -> NDArray[np.int64]:
    """Cells of a column by class, in the order of `PROFILE`: shape [7]. **Not private.**

    Typed storage holds numbers only (of dates and times the number of `storage.normal`); truth values are
    whole numbers. Counts of parts of a column add up to those of the column.

    Args:
        array: An Arrow array, such as one batch of a column.
        name: The column's name, for the error.

    Raises:
        InputError: The column stores what has no column kind.
    """
    array = storage.normal(array, name)
    if storage.is_text(array):
        codes, distinct = storage.texts(array)
        found = np.append(classes(distinct), MISSING)
        return np.bincount(found[codes], minlength=len(PROFILE)).astype(np.int64)
    values, _ = storage.numbers(array)
    present = ~np.isnan(values)
    whole = int(storage.whole(values[present]).sum())
    held = int(present.sum())
    return np.array([len(values) - held, whole, held - whole, 0, 0, 0, 0], dtype=np.int64)


def classes(distinct: Any) -> NDArray[np.int64]:
    """The class of each text, as a place in `PROFILE`: shape [texts].

    A number beyond float64, such as "1e999", is missing.

    Args:
        distinct: An Arrow array of text without nulls.
    """
    values, text = storage.parse(distinct)
    result = np.where(storage.whole(values), WHOLE, NUMBER)
    result[np.isnan(values)] = MISSING
    result[text] = TEXT
    for place, read in ((DATE, iso.dates), (MOMENT, iso.moments), (TIME, iso.times)):
        result[_where(distinct, text, read)] = place
    return result


def _where(distinct: Any, text: NDArray[np.bool_], read: Any) -> NDArray[np.int64]:
    """Places of the texts that a reader knows."""
    places = np.flatnonzero(text)
    _, known = read(pc.take(distinct, pa.array(places)))
    found: NDArray[np.int64] = places[known]
    return found
