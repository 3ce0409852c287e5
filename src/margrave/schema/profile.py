"""What the cells of a column are: classes of which each cell is in exactly one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.columns.listed import FALSITIES
from margrave.schema.storage import clock, forms
from margrave.schema.storage.censored import MARKS, vote_on_censored
from margrave.schema.storage.date_votes import written_dates
from margrave.schema.storage.months import are_months
from margrave.schema.storage.numbers import are_written_numbers

TRUTHS = tuple(FALSITIES)
"""How the truth values of a column are spelt, by the word for true."""
PROFILE = (
    *("missing", "whole", "number", "date", "moment", "time", "text"),
    *("mark", "padded", "pointed", "written number", "written date", "written moment", *TRUTHS),
    *("written month", "censored"),
)
"""The classes: missing, a whole number of at most 2^53, another number, an ISO date, moment or time of day,
and any other text. The spelling of numbers is that of `storage`, of the others that of `iso`.

Further kinds of text have classes of their own. A *mark* is one of `schema.storage.censored.MARKS`. *padded*
is a whole number that would lose something as a number: a zero in front of other digits (01591), or a plus
sign in front of seven digits or more. *pointed* is a whole number that is written with a decimal point or an
exponent (12.0). Numbers, dates and moments in a format of their own (1,234.50, 01/31/2020) are *written*:
`storage.spelling` says in which. There are truth values, by how they are spelt. And a *written month* is a
year and a month alone (2011-05, 05/2011), see `storage.months`; 10.2011 is a number, as others may be. A
*censored* result is a text that stands for a number, such as <0.5, see `storage.censored`."""
MISSING, WHOLE, NUMBER, DATE, MOMENT, TIME, TEXT, MARK, PADDED, POINTED, *OTHERS = range(len(PROFILE))
WRITTEN_NUMBER, WRITTEN_DATE, WRITTEN_MOMENT, *TRUE, WRITTEN_MONTH, CENSORED = OTHERS
PADDED_NUMBER = r"^([+-]?0[0-9]+|\+[0-9]{7,})$"
POINTED_NUMBER = r"[.eE]"


def profile(array: Any, name: str = "") -> NDArray[np.int64]:
    """Cells of a column by class, in the order of `PROFILE`. **Not private.**

    Typed storage holds numbers only (of dates and times the number of `schema.storage.forms.normal`); truth
    values are whole numbers. Counts of parts of a column add up to those of the column.

    Args:
        array: An Arrow array, such as one batch of a column.
        name: The column's name, for the error.

    Raises:
        InputError: The column stores what has no column kind.
    """
    array = forms.normal(array, name)
    if forms.is_text(array):
        # Each distinct text is classed once.
        codes, distinct = forms.texts(array)
        found = np.append(classes(distinct), MISSING)
        return np.bincount(found[codes], minlength=len(PROFILE)).astype(np.int64)
    values, _ = forms.numbers(array)
    present = ~np.isnan(values)
    whole = int(forms.whole(values[present]).sum())
    held = int(present.sum())
    result = np.zeros(len(PROFILE), dtype=np.int64)
    result[[MISSING, WHOLE, NUMBER]] = len(values) - held, whole, held - whole
    return result


def classes(distinct: Any) -> NDArray[np.int64]:
    """The class of each text, as a place in `PROFILE`: shape [texts].

    A number beyond float64, such as "1e999", is missing, and so is text of nothing but blanks.

    Args:
        distinct: An Arrow array of text without nulls.
    """
    values, text = forms.parse(distinct)
    result = np.where(forms.whole(values), WHOLE, NUMBER)
    whole = result == WHOLE
    result[whole & _matches(distinct, POINTED_NUMBER)] = POINTED
    result[whole & _matches(distinct, PADDED_NUMBER)] = PADDED
    result[np.isnan(values)] = MISSING
    result[text] = TEXT
    result[forms.are_blank(distinct)] = MISSING
    # The order decides: a text is of the last class that claims it, so the strictest ways to read it come
    # last.
    _mark_written(result, distinct, np.flatnonzero(text))
    result[are_months(distinct)] = WRITTEN_MONTH
    result[text & (vote_on_censored(distinct) > 0)] = CENSORED
    result[text & _is_in(distinct, MARKS)] = MARK
    for place, word in zip(TRUE, TRUTHS, strict=True):
        result[text & _is_in(distinct, (word, FALSITIES[word]))] = place
    for place, read in ((DATE, clock.dates), (MOMENT, clock.moments), (TIME, clock.times)):
        result[_where(distinct, text, read)] = place
    return result


def _mark_written(result: NDArray[np.int64], distinct: Any, places: NDArray[np.int64]) -> None:
    """Give texts that are written numbers, dates and moments their class.

    Args:
        result: The class of each text, changed in place, shape [texts].
        distinct: The texts.
        places: Those that are no plain number.
    """
    found = pc.take(distinct, pa.array(places))
    dated, timed = written_dates(found)
    result[places[are_written_numbers(found)]] = WRITTEN_NUMBER
    result[places[dated & ~timed]] = WRITTEN_DATE
    result[places[dated & timed]] = WRITTEN_MOMENT


def _matches(distinct: Any, pattern: str) -> NDArray[np.bool_]:
    found = pc.match_substring_regex(distinct, pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _is_in(distinct: Any, words: tuple[str, ...]) -> NDArray[np.bool_]:
    found = pc.is_in(distinct, value_set=pa.array(words, distinct.type))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _where(distinct: Any, text: NDArray[np.bool_], read: Any) -> NDArray[np.int64]:
    """Places of the texts that a reader knows."""
    places = np.flatnonzero(text)
    _, known = read(pc.take(distinct, pa.array(places)))
    found: NDArray[np.int64] = places[known]
    return found
