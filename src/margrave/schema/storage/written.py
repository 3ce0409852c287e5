"""In which format the numbers and dates of a column of text are written, told by votes of its cells.

A *format* is what a user may declare for a column as well: an example of a number, as in "$1,234.5", or a
date format, as in "%m/%d/%Y". The formats that can be found are a public list. A cell votes for one class at
most, which depends on that cell alone: how its digits are grouped and what stands beside them, or which marks
part a date and which of its first two numbers may be the month. Counts of these classes choose the format.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.storage import forms
from margrave.schema.storage.iso import DAYS
from margrave.schema.storage.text import (
    CLOCK,
    FIRST_YEAR_OF_TWO_DIGITS,
    HALF,
    SPACES,
    NumberFormat,
    date_format,
    get_group,
    number_format,
)

Places = NDArray[np.int64]
Truths = NDArray[np.bool_]

AFFIXES = (
    *(("", ""), ("$", ""), ("€", ""), ("£", ""), ("¥", "")),
    *(("EUR ", ""), ("USD ", ""), ("CHF ", "")),
    *(("", "%"), ("", " %"), ("", "€"), ("", " €"), ("", " EUR"), ("", " USD"), ("", " CHF")),
)
"""What stands before and behind a number."""
GROUP = "[1-9][0-9]{0,2}"
CORES = {
    "whole": "[0-9]+",
    "point3": rf"{GROUP}\.[0-9]{{3}}",
    "point": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "comma3": rf"{GROUP},[0-9]{{3}}",
    "comma": "[0-9]*,[0-9]+",
    "commas": rf"{GROUP}(?:,[0-9]{{3}}){{2,}}",
    "points": rf"{GROUP}(?:\.[0-9]{{3}}){{2,}}",
    "commas point": rf"{GROUP}(?:,[0-9]{{3}})+\.[0-9]+",
    "points comma": rf"{GROUP}(?:\.[0-9]{{3}})+,[0-9]+",
    "blanks": rf"{GROUP}(?:{SPACES}[0-9]{{3}})+",
    "blanks comma": rf"{GROUP}(?:{SPACES}[0-9]{{3}})+,[0-9]+",
    "apostrophes": f"{GROUP}(?:['\u2019][0-9]{{3}})+",
    "apostrophes point": f"{GROUP}(?:['\u2019][0-9]{{3}})+[.][0-9]+",
}
"""How the digits of a number are grouped: the first pattern that fits. One mark before three digits may part
thousands or decimals."""
PLAIN_CORES = ("whole", "point3", "point")
STYLES: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {
    (".", ""): (("whole",), ("point", "point3")),
    (".", ","): (("whole", "comma3", "commas"), ("point", "point3", "commas point")),
    (",", ""): (("whole",), ("comma", "comma3")),
    (",", "."): (("whole", "point3", "points"), ("comma", "comma3", "points comma")),
    (",", " "): (("whole", "blanks"), ("comma", "comma3", "blanks comma")),
    (".", "'"): (("whole", "apostrophes"), ("point", "point3", "apostrophes point")),
}
"""By decimal and thousands mark the classes of digits that can be whole numbers, and those with decimals. The
first of several styles that fit as many cells is chosen, so "12,345" alone is a number of thousands."""
NUMBER_VOTES = tuple(product(AFFIXES, CORES))
"""The classes of numbers: what stands beside the digits, and how these are grouped."""

MARKS = ("/", ".", "-")
ORDERS = ("day", "month", "either", "year")
"""What stands first in a date: a day, since the number is no month; a month, since the second is none; one of
them; the year."""
PADDINGS = ("padded", "bare", "neither")
"""Whether days and months below 10 have a zero in front; a date without any such does not tell."""
HOURS = ("wide", "half", "bare")
"""How a time behind a date has its hours: in two digits, or of no time; with AM or PM; of 24 in one digit."""
DATE_VOTES = tuple(product(MARKS, ORDERS, (4, 2), PADDINGS, HOURS))
"""The classes of dates: mark, order, digits of the year, padding, and how hours are written."""
LEAST_BARE = 0.1
"""Share of the dates with an hour in one digit from which hours are taken to be written so below 10."""
NUMBER_PARTS = (
    r"^\(?[+-]?(?P<before>[$€£¥]|EUR ?|USD ?|CHF ?)? ?[+-]?"
    "(?P<core>[0-9.,](?:[0-9.,'\u2019 \u00a0\u202f]*[0-9.])?)"
    rf"(?P<behind>{SPACES}?(?:[%€]|EUR|USD|CHF))?\)?$"
)
DATE_PARTS = (
    r"^(?P<one>[0-9]{4}|[0-9]{1,2})(?P<mark>[/.-])(?P<two>[0-9]{1,2})(?P<again>[/.-])"
    rf"(?P<three>[0-9]{{4}}|[0-9]{{1,2}})(?P<time>{CLOCK}{HALF})?$"
)


def vote_on_numbers(texts: Any) -> Places:
    """The class in NUMBER_VOTES of each text that is a number in some format, -1 for others: shape [texts].

    Args:
        texts: An Arrow array of text without nulls.
    """
    parts = pc.extract_regex(texts.cast(pa.large_string()), NUMBER_PARTS)
    sound = _truths(pc.is_valid(parts))
    core = get_group(parts, "core")
    cores = np.full(len(texts), -1, dtype=np.int64)
    for place, pattern in reversed(list(enumerate(CORES.values()))):
        cores[_truths(pc.match_substring_regex(core, f"^(?:{pattern})$"))] = place
    before = pc.utf8_trim_whitespace(get_group(parts, "before"))
    behind = pc.replace_substring_regex(get_group(parts, "behind"), f"^{SPACES}", " ")
    beside = pc.binary_join_element_wise(before, behind, pa.scalar("|", pa.large_string()))
    known = pa.array([f"{one.strip()}|{other}" for one, other in AFFIXES], pa.large_string())
    found = pc.fill_null(pc.index_in(beside, value_set=known), -1)
    affixes = np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)
    sound &= (cores >= 0) & (affixes >= 0)
    return np.where(sound, affixes * len(CORES) + cores, -1)


def are_written_numbers(texts: Any) -> Truths:
    """Which texts, none of them a plain number, are numbers in some format: shape [texts]."""
    places = vote_on_numbers(texts)
    plain = np.array([not any(affix) and core in PLAIN_CORES for affix, core in NUMBER_VOTES])
    return np.asarray((places >= 0) & ~plain[places])


def vote_on_dates(texts: Any) -> Places:
    """The class in DATE_VOTES of each text that is a date, with a time or without, -1 for others: [texts].

    Dates as ISO 8601 has them are no such texts. Years of two digits behind a point or a hyphen are read
    only where day and month have two digits each, since other numbers are written so as well.

    Args:
        texts: An Arrow array of text without nulls.
    """
    return _date_places(pc.extract_regex(texts.cast(pa.large_string()), DATE_PARTS))


def written_dates(texts: Any) -> tuple[Truths, Truths]:
    """Which texts are dates in some format, and which of these have a time: both of shape [texts]."""
    parts = pc.extract_regex(texts.cast(pa.large_string()), DATE_PARTS)
    return _date_places(parts) >= 0, _truths(pc.not_equal(get_group(parts, "time"), ""))


def _date_places(parts: Any) -> Places:
    texts = {name: get_group(parts, name) for name in ("one", "two", "three", "mark")}
    first, second, third = (_numbers(texts[name]) for name in ("one", "two", "three"))
    lengths = {name: _numbers(pc.utf8_length(text)) for name, text in texts.items()}
    ahead, mark = lengths["one"] == 4, texts["mark"]
    mark_place = _numbers(pc.fill_null(pc.index_in(mark, value_set=pa.array(MARKS, pa.large_string())), 0))
    century = np.where(third >= FIRST_YEAR_OF_TWO_DIGITS, 1900, 2000)
    year = np.where(ahead, first, np.where(lengths["three"] == 2, century + third, third))
    day_first, month_first = _is_day(first, second, year), _is_day(second, first, year)
    order = np.select([ahead, day_first & month_first, day_first], [3, 2, 0], 1)
    sound = _truths(pc.is_valid(parts)) & _truths(pc.equal(mark, get_group(parts, "again")))
    sound &= (year > 0) & _is_clock(parts)
    short = ~ahead & (lengths["three"] == 2)
    wide = (lengths["one"] == 2) & (lengths["two"] == 2)
    sound &= np.where(
        ahead,
        _is_day(third, second, year) & (lengths["three"] <= 2),
        (day_first | month_first) & ((short & (wide | (mark_place == 0))) | (lengths["three"] == 4)),
    )
    small = np.where(ahead, third, first), np.where(ahead, lengths["three"], lengths["one"])
    zero = ((small[0] < 10) & (small[1] == 2)) | ((second < 10) & (lengths["two"] == 2))
    bare = (small[1] == 1) | (lengths["two"] == 1)
    padding = np.select([bare, zero], [1, 0], 2)
    half = _truths(pc.not_equal(get_group(parts, "half"), ""))
    one_digit = _numbers(pc.utf8_length(get_group(parts, "hour"))) == 1
    hours = np.select([half, one_digit], [1, 2], 0)
    found = mark_place
    sizes = ((order, ORDERS), (short.astype(np.int64), (4, 2)), (padding, PADDINGS), (hours, HOURS))
    for place, classes in sizes:
        found = found * len(classes) + place
    return np.where(sound, found, -1)


def _is_day(day: Places, month: Places, year: Places) -> Truths:
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    within = (month >= 1) & (month <= 12) & (day >= 1) & (day <= DAYS[np.clip(month, 1, 12) - 1])
    return np.asarray(within & (leap | (month != 2) | (day < 29)))


def _is_clock(parts: Any) -> Truths:
    """Whether the time of day behind a date, if there is one, is one of 24 hours or of 12."""
    hour, minute = (_numbers(get_group(parts, name)) for name in ("hour", "minute"))
    second = _numbers(pc.utf8_slice_codeunits(get_group(parts, "second"), 1, 3))
    half = _truths(pc.not_equal(get_group(parts, "half"), ""))
    hours = np.where(half, (hour >= 1) & (hour <= 12), hour < 24)
    return np.asarray(hours & (minute < 60) & (second < 60))


def choose_number_format(votes: NDArray[np.float64], evident: float) -> tuple[str, bool] | None:
    """The format that most numbers fit, "" for plain ones, and whether they have decimals; else None.

    None means that blanks between digits are all that makes them numbers, as in codes such as "123 456". This
    is post-processing of released counts.

    Args:
        votes: Noisy counts of NUMBER_VOTES, shape [votes].
        evident: From how many cells a class is taken to occur.
    """
    table = np.where(votes > evident, votes, 0.0).reshape(len(AFFIXES), len(CORES))
    cores = dict(zip(CORES, table.sum(axis=0).tolist(), strict=True))
    before, behind = AFFIXES[_evident_affix(table.sum(axis=1))]
    if not (before or behind) and cores["blanks"] and not (cores["blanks comma"] or cores["comma"]):
        return None
    scores = [sum(cores[core] for core in (*whole, *part)) for whole, part in STYLES.values()]
    decimal, thousands = list(STYLES)[int(np.argmax(scores))]
    has_decimals = any(cores[core] for core in STYLES[decimal, thousands][1])
    if (decimal, thousands, before, behind) == (".", "", "", ""):
        return "", has_decimals
    return f"{before}1{thousands}234{decimal}5{behind}", has_decimals


def _evident_affix(counts: NDArray[np.float64]) -> int:
    """The commonest sign beside the numbers; none only where no sign is evident, since cells may lack it."""
    return 0 if not counts[1:].any() else int(np.argmax(counts[1:])) + 1


def choose_date_format(votes: NDArray[np.float64], evident: float) -> str:
    """The format that most dates fit. Where no date tells day from month, a month before "/", else a day.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of DATE_VOTES, shape [votes].
        evident: From how many cells a class is taken to occur.
    """
    clear = np.where(votes > evident, votes, 0.0)
    clear = clear if clear.any() else np.maximum(votes, 0.0)

    def count(fits: Callable[[Any], bool]) -> float:
        return float(sum(count for vote, count in zip(DATE_VOTES, clear, strict=True) if fits(vote)))

    scores: dict[tuple[str, str, int], float] = {}
    for mark, year in product(MARKS, (4, 2)):
        for order in ("month", "day", "year") if mark == "/" else ("day", "month", "year"):
            allowed = (order,) if order == "year" else (order, "either")
            scores[mark, order, year] = count(
                lambda vote, m=mark, y=year, a=allowed: vote[0] == m and vote[2] == y and vote[1] in a  # type: ignore[misc]
            )
    mark, order, year = max(scores, key=lambda one: scores[one])
    bare = "-" if count(lambda vote: vote[3] == "bare") > count(lambda vote: vote[3] == "padded") else ""
    fields = {"d": f"%{bare}d", "m": f"%{bare}m", "y": "%Y" if year == 4 else "%y"}
    letters = {"day": "dmy", "month": "mdy", "year": "ymd"}[order]
    hours = {name: count(lambda vote, n=name: vote[4] == n) for name in HOURS}  # type: ignore[misc]
    if hours["half"] > hours["wide"] + hours["bare"]:
        ending = " %p"
    else:
        ending = " %-H" if hours["bare"] > LEAST_BARE * sum(hours.values()) else ""
    return mark.join(fields[letter] for letter in letters) + ending


def rewrite_column(array: Any, read: str, written: str, name: str = "") -> Any:
    """A column whose texts in a format are in their usual form; one that is no text as it is: [rows].

    Args:
        array: An Arrow array of any storage that has a column kind.
        read: "number", "date" or "moment".
        written: The format.
        name: The column's name, for the error.
    """
    normal = forms.normal(array, name)
    if not forms.is_text(normal):
        return array
    style = number_style(written) if read == "number" else date_format(written, "format")
    usual = style.read(normal.dictionary)[0].dictionary_encode()
    indices = pc.take(usual.indices, normal.indices)
    return pa.DictionaryArray.from_arrays(indices, usual.dictionary)


def number_style(written: str) -> NumberFormat:
    """The number format of an example, with as many decimals as a number has."""
    return dataclasses.replace(number_format(written, "format"), decimals=None)


def _truths(array: Any) -> Truths:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _numbers(array: Any) -> Places:
    """Whole numbers of an Arrow array of numbers or of digits, 0 for empty text."""
    if pa.types.is_large_string(array.type):
        array = pc.if_else(pc.equal(array, ""), "0", array).cast(pa.int64())
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64)
