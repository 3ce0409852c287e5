"""How texts of numbers, dates and times are written and spelt, so that they come out as they went in.

A *format* is what a user may declare for a column as well: an example of a number, as in "$1,234.5", or a
date format, as in "%m/%d/%Y". The formats that can be found are a public list. A cell votes for one class at
most, which depends on that cell alone: how its digits are grouped and what stands beside them, or which marks
part a date and which of its first two numbers may be the month. Counts of these classes choose the format.

A *spelling*, in the second half, is written as midnight or zero is in it: "T00:00:00Z", " 00:00",
"00:00:00.000", "0.00". That of numbers may have marks for decimals which are left out where they would be
zeros: "0.0##" for 1.0 and 1.125. `read_cells` and `write_cells` take cells of text files in a declared format
into the form that is read, and out again.

Reading looks at each cell on its own, so it changes no count by more than the cell's own row.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.storage import clock, forms, zones
from margrave.schema.storage.censored import CENSORED_VOTES, MARKS, vote_on_censored
from margrave.schema.storage.clock_numbers import (
    CLOCK_VOTES,
    MINUTE,
    read_clock,
    spell_clock,
    vote_on_clock,
)
from margrave.schema.storage.date_numbers import (
    DATE_NUMBER_VOTES,
    DIGIT_DATE_VOTES,
    is_date_number_format,
    is_stamp_format,
    read_date_numbers,
    read_stamp_numbers,
    spell_stamps,
    vote_on_date_numbers,
    vote_on_digit_dates,
)
from margrave.schema.storage.date_votes import DATE_VOTES, LEAST_BARE, vote_on_dates
from margrave.schema.storage.months import MONTH_VOTES, move_to_first_days, names_months, vote_on_months
from margrave.schema.storage.numbers import CERTAIN_DEVIATIONS, NUMBER_VOTES, vote_on_numbers
from margrave.schema.storage.text import NumberFormat, TextFormat, date_format, number_format


def rewrite_column(array: Any, read: str, written: str, name: str = "") -> Any:
    """A column whose texts in a format are in their usual form; one that is no text as it is: [rows].

    Args:
        array: An Arrow array of any storage that has a column kind.
        read: "number", "date", "moment" or "time".
        written: The format.
        name: The column's name, for the error.
    """
    normal = forms.normal(array, name)
    if read == "time" or is_stamp_format(written):
        return array if clock.is_temporal(array.type) else _read_clock(normal, read, written)
    if not forms.is_text(normal):
        numbers = read == "date" and is_date_number_format(written) and not clock.is_temporal(array.type)
        return _read_dates(normal, written) if numbers else array
    style = number_style(written) if read == "number" else date_format(written, "format")
    usual = style.read(normal.dictionary)[0].dictionary_encode()
    indices = pc.take(usual.indices, normal.indices)
    return pa.DictionaryArray.from_arrays(indices, usual.dictionary)


def _read_clock(normal: Any, read: str, written: str) -> Any:
    """Times or moments that are written as numbers: microseconds of numbers, of text the usual form."""

    def find_ticks(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        return read_clock(values) if read == "time" else read_stamp_numbers(values, written)

    if not forms.is_text(normal):
        ticks, sound = find_ticks(forms.numbers(normal)[0])
        return pa.array(ticks, mask=~sound)
    values, text = forms.parse(normal.dictionary)
    ticks, sound = find_ticks(np.where(text, np.nan, values))
    spell = clock.time_text if read == "time" else clock.moment_text
    usual = pa.array([spell(tick) for tick in ticks.tolist()], pa.large_string())
    found = pc.if_else(pa.array(sound), usual, normal.dictionary.cast(pa.large_string())).dictionary_encode()
    return pa.DictionaryArray.from_arrays(pc.take(found.indices, normal.indices), found.dictionary)


def _read_dates(normal: Any, written: str) -> Any:
    """Days of numbers that are dates."""
    days, sound = read_date_numbers(forms.numbers(normal)[0], written)
    return pa.array(days, mask=~sound)


def number_style(written: str) -> NumberFormat:
    """The number format of an example, with as many decimals as a number has."""
    return dataclasses.replace(number_format(written, "format"), decimals=None)


CLOCKS = ("00:00", "00:00:00", "00:00:00.000", "00:00:00.000000")
BARE_CLOCKS = tuple(form.removeprefix("0") for form in CLOCKS)
"""Times of day whose hours below 10 have one digit."""
DIGITS = 9
"""Most digits behind the point of a spelling of numbers."""
SPELLINGS: dict[str, tuple[str, ...]] = {
    "moment": tuple(f"{blank}{clock}{zone}" for blank in "T " for clock in CLOCKS for zone in zones.MARKS),
    "time": (*CLOCKS, *BARE_CLOCKS),
    "number": ("0", *(f"0.{'0' * digits}" for digits in range(1, DIGITS + 1)), ""),
    "mark": MARKS,
    "number format": tuple(" ".join((before, core, behind)) for (before, behind), core in NUMBER_VOTES),
    "date format": tuple(" ".join(map(str, vote)) for vote in DATE_VOTES),
    "month format": MONTH_VOTES,
    "censored": CENSORED_VOTES,
    "clock format": CLOCK_VOTES,
    "digit format": (*CLOCK_VOTES, *DIGIT_DATE_VOTES),
    "date number": DATE_NUMBER_VOTES,
    "offset": zones.OFFSET_VOTES,
}
"""The spellings told apart, by reading. Up to three digits of a second count as three, more as six; any
offset from UTC counts as 0. Numbers go by their digits behind the point, "" for more of them and for
those with an exponent; marks are texts that stand for a missing value. Those of formats are the classes that
vote on them: NUMBER_VOTES, DATE_VOTES, MONTH_VOTES, CLOCK_VOTES and with these, of texts of digits alone,
DIGIT_DATE_VOTES; those of offsets are OFFSET_VOTES, and those of censored results CENSORED_VOTES, of which
the first are missing cells."""
SHORTEST = "0.*"
"""The spelling of numbers of any number of digits of which whole ones have no point."""
NUMBER_SPELLING = re.compile(rf"|0|0\.\*|0\.(?=.{{1,{DIGITS}}}$)0*#*")
DATE_LETTERS = 10
"""Letters of a date, YYYY-MM-DD, in front of the time of a moment."""


def spellings(array: Any, read: str, name: str = "") -> NDArray[np.int64]:
    """Cells of text by how their moment, time, number or mark is spelt: shape [spellings]. **Not private.**

    A cell is counted once at most: one that is no such text, such as a date or a typed value, is not; nor is
    a missing one, but among those of censored results. Numbers vote on times of day and dates as texts do.

    Args:
        array: An Arrow array.
        read: "moment", "time", "number", "mark" or "censored"; or "number format", "date format",
            "month format", "clock format", "digit format", "date number" or "offset".
        name: The column's name, for the error.
    """
    known = SPELLINGS[read]
    temporal = clock.is_temporal(array.type)
    array = forms.normal(array, name)
    if not forms.is_text(array):
        asked = read in NUMBER_VOTERS and not temporal
        places = NUMBER_VOTERS[read](forms.numbers(array)[0]) if asked else np.zeros(0, dtype=np.int64)
        return np.bincount(places[places >= 0], minlength=len(known)).astype(np.int64)
    codes, distinct = forms.texts(array)
    # The code of a missing value is -1, which picks the last place.
    places = np.full(len(distinct) + 1, len(known))
    if read == "censored":
        places[-1] = 0
    if read not in ("moment", "time"):
        found = PLACES[read](distinct)
        places[:-1] = np.where(found < 0, len(known), found)
    else:
        _, sound = (clock.moments if read == "moment" else clock.times)(distinct)
        for place in np.flatnonzero(sound):
            places[place] = known.index(_find_spelling(distinct[int(place)].as_py(), read))
    return np.bincount(places[codes], minlength=len(known) + 1)[:-1].astype(np.int64)


NUMBER_VOTERS: dict[str, Callable[[NDArray[Any]], NDArray[np.int64]]] = {
    "clock format": vote_on_clock,
    "date number": vote_on_date_numbers,
}
"""Finds the class of each number among those that say what numbers stand for, in any storage."""


def _number_places(distinct: Any) -> NDArray[np.int64]:
    """The place in SPELLINGS of each text that is a number, -1 for other text: shape [texts]."""
    values, _ = forms.parse(distinct)
    plain = pc.match_substring_regex(distinct, rf"^[+-]?[0-9]*(\.[0-9]{{0,{DIGITS}}})?$")
    part = pc.replace_substring_regex(distinct, r"^[^.]*\.?", "")
    digits = np.asarray(pc.binary_length(part).to_numpy(zero_copy_only=False), dtype=np.int64)
    places = np.where(np.asarray(plain.to_numpy(zero_copy_only=False), dtype=np.bool_), digits, DIGITS + 1)
    return np.where(np.isnan(values), -1, places)


def _number_vote_places(distinct: Any, read: str) -> NDArray[np.int64]:
    """The vote of each text that is a whole number, -1 for other text: shape [texts]."""
    values, text = forms.parse(distinct)
    return NUMBER_VOTERS[read](np.where(text, np.nan, values))


def _digit_places(distinct: Any) -> NDArray[np.int64]:
    """The vote of each text of digits: a date, else that of its number on times of day: shape [texts]."""
    dates = vote_on_digit_dates(distinct)
    return np.where(dates < 0, _number_vote_places(distinct, "clock format"), len(CLOCK_VOTES) + dates)


def _places(distinct: Any, known: tuple[str, ...]) -> NDArray[np.int64]:
    """The place of each text in a list, -1 for none."""
    found = pc.index_in(distinct, value_set=pa.array(known, distinct.type))
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


PLACES: dict[str, Callable[[Any], NDArray[np.int64]]] = {
    "number": _number_places,
    "mark": lambda distinct: _places(distinct, MARKS),
    "number format": vote_on_numbers,
    "date format": vote_on_dates,
    "month format": vote_on_months,
    "censored": vote_on_censored,
    "offset": zones.vote_on_offsets,
    "digit format": _digit_places,
    **{read: partial(_number_vote_places, read=read) for read in NUMBER_VOTERS},
}
"""Finds the place of each text among the spellings of a reading, -1 for none."""


def write_format(values: Any, read: str, written: str, spelling: str) -> Any:
    """Values as text in a format, an Arrow array of text of shape [rows].

    Args:
        values: An Arrow array: numbers, days or microseconds.
        read: "number", "date", "moment" or "time".
        written: The format.
        spelling: Of numbers and moments, as their column has it; "" for dates and times.
    """
    coded = values.dictionary_encode()
    distinct = coded.dictionary
    if read == "time" or is_stamp_format(written):
        spell = spell_clock if read == "time" else spell_stamps
        texts = spell(np.asarray(distinct.to_numpy(zero_copy_only=False)), written)
        return pa.array(texts, pa.large_string()).take(coded.indices)
    if read == "number":
        texts = spell_numbers(distinct, spelling) if spelling else _number_texts(distinct)
        found = [number_style(written).write(text) for text in texts.to_pylist()]
    elif read == "date":
        days = np.asarray(distinct.to_numpy(zero_copy_only=False))
        days = move_to_first_days(days) if names_months(written) else days
        found = [date_format(written, "format").write(clock.date_text(day)) for day in days.tolist()]
    else:
        moments = respelt(np.asarray(distinct.to_numpy(zero_copy_only=False)), read, spelling)
        found = [date_format(written, "format").write(text) for text in moments]
    return pa.array(found, pa.large_string()).take(coded.indices)


def spell_numbers(values: Any, spelling: str) -> Any:
    """Numbers as text in a spelling, rounded to its decimals.

    Args:
        values: An Arrow array of whole numbers or floats.
        spelling: As `NUMBER_SPELLING` has it, such as "0.00" or "0.##".
    """
    coded = forms.one_chunk(values).dictionary_encode()
    if spelling == SHORTEST:
        usual = _number_texts(coded.dictionary).to_pylist()
        short = [None if one is None else one.removesuffix(".0") for one in usual]
        return pa.array(short, pa.large_string()).take(coded.indices)
    part = spelling.partition(".")[2]
    texts = [
        None if one is None else _spell(one, part.count("0"), len(part))
        for one in coded.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.large_string()).take(coded.indices)


def _spell(value: float, least: int, most: int) -> str:
    """A number with so many decimals, of which zeros at the end are left out down to the least."""
    whole, point, part = f"{value:.{most}f}".partition(".")
    part = part[:least] + part[least:].rstrip("0")
    text = f"{whole}{point if part else ''}{part}"
    return text if text.strip("-0.") else text.removeprefix("-")


def _find_spelling(text: str, read: str) -> str:
    blank, hours = (text[DATE_LETTERS], text[DATE_LETTERS + 1 :]) if read == "moment" else ("", text)
    zone = zones.find_mark(hours) if read == "moment" else ""
    hours = hours[: len(hours) - len(zone)]
    digits = len(hours.partition(".")[2])
    forms = BARE_CLOCKS if hours[1:2] == ":" else CLOCKS
    form = forms[0] if hours.count(":") == 1 else forms[1 + (digits > 0) + (digits > 3)]
    return f"{blank}{form}{zone}"


def respelt(values: NDArray[np.int64], read: str, spelling: str, zone: str | None = None) -> list[str]:
    """Moments or times as text in a spelling, cut down to its precision.

    Args:
        values: Microseconds, shape [values].
        read: "moment" or "time".
        spelling: One of `SPELLINGS`.
        zone: In which moments are shown where the spelling has an offset from UTC, as `Moment` has it.
    """
    found = []
    mark = zones.mark_of(spelling) if read == "moment" else ""
    offsets = zones.find_offsets(values, zone if "+" in mark else None)
    local = (values + offsets * MINUTE).tolist()
    for value, offset in zip(local, offsets.tolist(), strict=True):
        day, hours = divmod(value, clock.DAY)
        text = clock.time_text(hours)
        text = text if "." in text else f"{text}.000000"
        bare = spelling in BARE_CLOCKS
        length = len(spelling) - len(mark) - (read == "moment") + bare
        head = clock.date_text(day) + spelling[0] if read == "moment" else ""
        text = text[:length].removeprefix("0" * bare)
        found.append(f"{head}{text}{zones.spell_offset(offset, mark)}")
    return found


def choose_time_spelling(votes: NDArray[np.float64], evident: float) -> str:
    """The spelling that most times have, with hours in one digit where evidently some below 10 have.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of `SPELLINGS["time"]`, shape [spellings].
        evident: From how many cells a spelling is taken to occur.
    """
    wide, bare = votes.reshape(2, len(CLOCKS))
    form = int(np.argmax(wide + bare))
    short = bare[form] > max(LEAST_BARE * (wide[form] + bare[form]), evident)
    return (BARE_CLOCKS if short else CLOCKS)[form]


NEARLY_ALL = 0.95
"""Share of the numbers with as many decimals from which all are written with so many."""
LEFT_OUT = 0.05
"""Numbers with one decimal less, over those with the usual number, above which zeros at the end are left out.
Of numbers whose last digits are any, a tenth to a ninth as many have one decimal less where they are left
out, and none where they are written; this is half of that. Under noise alone it decides rightly in .90 to 1.0
of 400 draws where a share of the sum of all noisy counts had .65 to .87 (bench/LOG.md, 2026-12-01)."""
MIN_DECIMALS_SHARE = 0.002
"""Least share of the numbers with so many decimals for which output has so many."""


def choose_number_spelling(votes: NDArray[np.float64], sigma: float) -> str:
    """The spelling of nearly all numbers; else the fewest and the most decimals that evidently occur.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of `SPELLINGS["number"]`, shape [spellings].
        sigma: Standard deviation of their noise.
    """
    total, evident = float(votes.sum()), votes > CERTAIN_DEVIATIONS * sigma
    main = int(np.argmax(votes))
    # Noise of decimals that do not occur would decide, were it added up. Whole numbers are another question:
    # decimals of which each is too rare to be evident are many together.
    decimal = bool(evident[main]) and 0 < main < len(votes) - 1
    whole = float(votes[evident].sum()) if decimal else total
    shorter = decimal and bool(votes[main - 1] > LEFT_OUT * votes[main])
    if votes[main] >= NEARLY_ALL * whole and not shorter:
        return SPELLINGS["number"][main]
    # Decimals that hardly ever occur would make all output longer.
    likely = evident & (votes > MIN_DECIMALS_SHARE * total)
    if shorter:
        likely[main - 1] = True
    held = np.flatnonzero(likely)
    if not len(held) or held[-1] == 0:
        return ""
    if held[-1] == len(votes) - 1:
        return SHORTEST if held[0] == 0 else ""
    least, most = min(int(held[0]), 1), int(held[-1])
    return f"0.{'0' * least}{'#' * (most - least)}"


def read_cells(distinct: Any, name: str, text: TextFormat) -> Any:
    """Texts with numbers and dates in their usual form. **Not private.**

    Args:
        distinct: An Arrow array of the different texts of a column, nulls included, shape [texts].
        name: The column.
        text: The format of the file.

    Returns:
        An Arrow array of shape [texts], in the same order; two texts may have become one.
    """
    if text.plain_cells or text.is_text(name) or not len(distinct):
        return distinct
    filled = pc.fill_null(distinct.cast(pa.large_string()), "")
    found, sound = text.number(name).read(filled)
    dates = text.date(name)
    if dates is not None:
        dated, known = dates.read(filled)
        if not text.declares_dates(name):
            known = pc.and_(known, pc.invert(sound))
        found = pc.if_else(known, dated, found)
    return pc.if_else(pc.is_null(distinct), None, found)


def write_cells(table: Any, text: TextFormat) -> Any:
    """A table with its numbers and dates as text in the format of a file.

    Args:
        table: An Arrow table. Moments and times of day are text in ISO form already.
        text: The format of the file.
    """
    if text.plain_cells:
        return table
    columns = [
        _write_column(column, name, text)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def _write_column(column: Any, name: str, text: TextFormat) -> Any:
    kind = column.type
    if text.is_text(name) or pa.types.is_boolean(kind) or pa.types.is_duration(kind):
        return column
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if numeric and name not in text.columns and (text.decimal == "." or pa.types.is_integer(kind)):
        return column
    coded = forms.one_chunk(column)
    coded = coded if pa.types.is_dictionary(kind) else coded.dictionary_encode()
    if numeric:
        written = _write_all(_number_texts(coded.dictionary), text.number(name).write)
    else:
        written = _write_texts(coded.dictionary.cast(pa.large_string()), name, text)
    return pa.DictionaryArray.from_arrays(coded.indices, written).cast(pa.large_string())


def _number_texts(values: Any) -> Any:
    """Numbers in their usual form, without exponents where decimals write them in full."""
    if pa.types.is_floating(values.type):
        return forms.number_texts(forms.normal(values, "numbers"))
    return values.cast(pa.string())


def _write_texts(distinct: Any, name: str, text: TextFormat) -> Any:
    """Texts, of which those that are numbers with decimals or dates are written as numbers and dates."""
    result = distinct.to_pylist()
    dates, number = text.date(name), text.number(name)
    if dates is not None:
        for read in (clock.dates, clock.moments):
            for place in read(pc.fill_null(distinct, ""))[1].nonzero()[0].tolist():
                result[place] = dates.write(result[place])
    own = name in text.columns
    for place, value in enumerate(distinct.to_pylist()):
        if value is not None and forms.number_of(value) is not None and (own or "." in value):
            result[place] = number.write(value)
    return pa.array(result, pa.large_string())


def _write_all(texts: Any, write: Callable[[str], str]) -> Any:
    return pa.array(
        [None if value is None else write(value) for value in texts.to_pylist()], pa.large_string()
    )
