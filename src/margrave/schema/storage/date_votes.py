"""In which format the dates of a column of text are written: votes of its cells, and the format they choose.

A cell votes for one class at most, which depends on that cell alone. Dates in digits vote for the mark that
parts them, for which of their first two numbers may be the month, the digits of the year, whether numbers
below 10 have a zero in front, and how the hours of a time behind the date are written. Dates that name the
month, as in 28MAR2013, 28-Mar-13 or March 28, 2013, vote for where it stands and how it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.storage import clock
from margrave.schema.storage.text import (
    CLOCK,
    FIRST_YEAR_OF_TWO_DIGITS,
    HALF,
    MONTHS,
    date_format,
    get_group,
    number_months,
)

Places = NDArray[np.int64]
Truths = NDArray[np.bool_]

DATE_MARKS = ("/", ".", "-")
ORDERS = ("day", "month", "either", "year")
"""What stands first in a date: a day, since the number is no month; a month, since the second is none; one of
them; the year."""
PADDINGS = ("padded", "bare", "neither")
"""Whether days and months below 10 have a zero in front; a date without any such does not tell."""
HOURS = ("wide", "half", "bare", "colon")
"""How a time behind a date has its hours: in two digits, or of no time; with AM or PM; of 24 in one digit; in
two digits behind a colon, as in 28MAR2013:05:11:57, which dates in digits have not."""


class Digits(NamedTuple):
    """A class of dates in digits."""

    mark: str
    order: str
    years: int
    padding: str
    hours: str


class Named(NamedTuple):
    """A class of dates that name the month: the format with "%b" for it, and how it is written."""

    pattern: str
    style: str
    padding: str
    hours: str


NAMED_PATTERNS = (
    *("%d-%b-%Y", "%d-%b-%y", "%d%b%Y", "%d%b%y", "%d %b %Y", "%d/%b/%Y", "%d.%b.%Y"),
    *("%b %d, %Y", "%b %d %Y", "%Y-%b-%d"),
)
"""The formats of dates that name the month."""
STYLES = {"Jan": "%b", "JAN": "%^b", "jan": "%#b", "January": "%B", "May": ""}
"""How months are written, and the field of each; May may be short or long."""
DATE_VOTES: tuple[Digits | Named, ...] = (
    *(Digits(*vote) for vote in product(DATE_MARKS, ORDERS, (4, 2), PADDINGS, HOURS[:3])),
    *(Named(*vote) for vote in product(NAMED_PATTERNS, STYLES, PADDINGS, HOURS)),
)
"""The classes of dates."""
HIDDEN_LEAD = 0.25
"""How much further, as a share of what is evident, a format that names the month has to stand out where noise
hides all classes: most dates are in digits, and there are more ways to name a month. Of 1,000 dates under a
noise of 150 it has .04 of those in digits and .15 of those with names misread, no lead .06 and .01."""
SPREAD_DAYS = range(11_323, 11_688, 5)
"""Every fifth day of 2001, in days from 1970 on: days as any dates have them."""
FIRST_NAMED = sum(isinstance(vote, Digits) for vote in DATE_VOTES)
"""Place of the first class that names the month."""
LEAST_BARE = 0.1
"""Share of the dates, or times, with an hour in one digit from which hours are taken to be written so below
10."""
DATE_PARTS = (
    r"^(?P<one>[0-9]{4}|[0-9]{1,2})(?P<mark>[/.-])(?P<two>[0-9]{1,2})(?P<again>[/.-])"
    rf"(?P<three>[0-9]{{4}}|[0-9]{{1,2}})(?P<time>{CLOCK}{HALF})?$"
)
WORDS = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS)
FIELDS = {
    "%d": "(?P<day>[0-9]{1,2})",
    "%b": rf"(?P<month>(?i:{WORDS}|Sept))",
    "%Y": "(?P<year>[0-9]{4})",
    "%y": "(?P<year>[0-9]{2})",
}


def vote_on_dates(texts: Any) -> Places:
    """The class in DATE_VOTES of each text that is a date, with a time or without, -1 for others: [texts].

    Dates as ISO 8601 has them are no such texts. Years of two digits behind a point or a hyphen are read
    only where day and month have two digits each, since other numbers are written so as well.

    Args:
        texts: An Arrow array of text without nulls.
    """
    return _class_dates(texts)[0]


def written_dates(texts: Any) -> tuple[Truths, Truths]:
    """Which texts are dates in some format, and which of these have a time: both of shape [texts]."""
    places, timed = _class_dates(texts)
    return places >= 0, timed


def _class_dates(texts: Any) -> tuple[Places, Truths]:
    """The class of each text, -1 for no date, and which dates have a time: both of shape [texts]."""
    texts = texts.cast(pa.large_string())
    parts = pc.extract_regex(texts, DATE_PARTS)
    places, timed = _date_places(parts), _truths(pc.not_equal(get_group(parts, "time"), ""))
    lettered = np.flatnonzero(_truths(pc.match_substring_regex(texts, "[A-Za-z]{3}")) & (places < 0))
    words = pc.take(texts, pa.array(lettered))
    for pattern in NAMED_PATTERNS if len(lettered) else ():
        fields = re.split("(%[dbYy])", pattern)
        form = "".join(FIELDS.get(part) or re.escape(part) for part in fields)
        parts = pc.extract_regex(words, rf"^{form}(?P<time>{CLOCK}{HALF})?$")
        found = _named_places(parts, pattern)
        places[lettered] = np.where(found >= 0, found, places[lettered])
        timed[lettered] |= (found >= 0) & _truths(pc.not_equal(get_group(parts, "time"), ""))
    return places, timed


def _named_places(parts: Any, pattern: str) -> Places:
    """The class of each text by its parts in a format that names the month, -1 for no date: [texts]."""
    name = get_group(parts, "month")
    month = _numbers(number_months(name))
    year, day = (_numbers(get_group(parts, part)) for part in ("year", "day"))
    century = np.where(year >= FIRST_YEAR_OF_TWO_DIGITS, 1900, 2000)
    year = np.where(_numbers(pc.utf8_length(get_group(parts, "year"))) == 2, century + year, year)
    sound = _truths(pc.is_valid(parts)) & (year > 0) & clock.are_days(year, month, day) & _is_clock(parts)
    upper = _truths(pc.equal(name, pc.utf8_upper(name)))
    lower = _truths(pc.equal(name, pc.utf8_lower(name)))
    long = _numbers(pc.utf8_length(name)) > 3
    # March in capitals is read, and comes back as March: there is no field of long names in capitals.
    style = np.select([long, upper, lower, month == 5], [3, 1, 2, 4], 0)
    digits = _numbers(pc.utf8_length(get_group(parts, "day")))
    padding = np.select([day >= 10, digits == 2], [2, 0], 1)
    half = _truths(pc.not_equal(get_group(parts, "half"), ""))
    one_digit = _numbers(pc.utf8_length(get_group(parts, "hour"))) == 1
    behind = _truths(pc.equal(get_group(parts, "gap"), ":"))
    hours = np.select([half, behind, one_digit], [1, 3, 2], 0)
    found = np.full(len(style), NAMED_PATTERNS.index(pattern))
    for place, classes in ((style, STYLES), (padding, PADDINGS), (hours, HOURS)):
        found = found * len(classes) + place
    return np.where(sound, FIRST_NAMED + found, -1)


def _date_places(parts: Any) -> Places:
    texts = {name: get_group(parts, name) for name in ("one", "two", "three", "mark")}
    first, second, third = (_numbers(texts[name]) for name in ("one", "two", "three"))
    lengths = {name: _numbers(pc.utf8_length(text)) for name, text in texts.items()}
    ahead, mark = lengths["one"] == 4, texts["mark"]
    mark_place = _numbers(
        pc.fill_null(pc.index_in(mark, value_set=pa.array(DATE_MARKS, pa.large_string())), 0)
    )
    century = np.where(third >= FIRST_YEAR_OF_TWO_DIGITS, 1900, 2000)
    year = np.where(ahead, first, np.where(lengths["three"] == 2, century + third, third))
    day_first, month_first = clock.are_days(year, second, first), clock.are_days(year, first, second)
    order = np.select([ahead, day_first & month_first, day_first], [3, 2, 0], 1)
    sound = _truths(pc.is_valid(parts)) & _truths(pc.equal(mark, get_group(parts, "again")))
    sound &= (year > 0) & _is_clock(parts) & ~_truths(pc.equal(get_group(parts, "gap"), ":"))
    short = ~ahead & (lengths["three"] == 2)
    wide = (lengths["one"] == 2) & (lengths["two"] == 2)
    sound &= np.where(
        ahead,
        clock.are_days(year, second, third) & (lengths["three"] <= 2),
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
    sizes = ((order, ORDERS), (short.astype(np.int64), (4, 2)), (padding, PADDINGS), (hours, HOURS[:3]))
    for place, classes in sizes:
        found = found * len(classes) + place
    return np.where(sound, found, -1)


def _is_clock(parts: Any) -> Truths:
    """Whether the time of day behind a date, if there is one, is one of 24 hours or of 12."""
    hour, minute = (_numbers(get_group(parts, name)) for name in ("hour", "minute"))
    second = _numbers(pc.utf8_slice_codeunits(get_group(parts, "second"), 1, 3))
    half = _truths(pc.not_equal(get_group(parts, "half"), ""))
    hours = np.where(half, (hour >= 1) & (hour <= 12), hour < 24)
    return np.asarray(hours & (minute < 60) & (second < 60))


@dataclass(frozen=True, slots=True)
class Tally:
    """Noisy counts of DATE_VOTES, and how many dates evident classes have together."""

    votes: NDArray[np.float64]
    evident: float

    def count(self, kind: type[Digits] | type[Named], **fields: object) -> float:
        """Dates of the evident classes of a kind whose fields have these values, or one of several in a
        tuple."""
        found = self.votes[_find_classes(kind, fields)]
        return float(found[found > self.evident].sum())

    def add(self, **fields: object) -> float:
        """Dates of the classes that name the month and have these fields, with what noise adds to them."""
        return float(self.votes[_find_classes(Named, fields)].sum())


def _find_classes(kind: type[Digits] | type[Named], fields: Mapping[str, object]) -> list[int]:
    """Places of the classes of a kind whose fields have these values, or one of several in a tuple."""
    wanted = {name: value if isinstance(value, tuple) else (value,) for name, value in fields.items()}
    return [
        place
        for place, vote in enumerate(DATE_VOTES)
        if isinstance(vote, kind) and all(getattr(vote, name) in wanted[name] for name in wanted)
    ]


def choose_date_format(votes: NDArray[np.float64], evident: float) -> str:
    """The format that most dates fit. Where no date tells day from month, a month before "/", else a day.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of DATE_VOTES, shape [votes].
        evident: From how many cells a class is taken to occur.
    """
    if not (votes > evident).any():
        return _choose_hidden(votes, HIDDEN_LEAD * evident)
    tally = Tally(votes, evident)
    named = {pattern: tally.count(Named, pattern=pattern) for pattern in NAMED_PATTERNS}
    digits: dict[tuple[str, str, int], float] = {}
    for mark, years in product(DATE_MARKS, (4, 2)):
        for order in ("month", "day", "year") if mark == "/" else ("day", "month", "year"):
            allowed = (order,) if order == "year" else (order, "either")
            digits[mark, order, years] = tally.count(Digits, mark=mark, years=years, order=allowed)
    if max(named.values()) > max(digits.values()):
        return _format_named(tally, max(named, key=lambda one: named[one]))
    mark, order, years = max(digits, key=lambda one: digits[one])
    bare = "-" if tally.count(Digits, padding="bare") > tally.count(Digits, padding="padded") else ""
    fields = {"d": f"%{bare}d", "m": f"%{bare}m", "y": "%Y" if years == 4 else "%y"}
    letters = {"day": "dmy", "month": "mdy", "year": "ymd"}[order]
    return mark.join(fields[letter] for letter in letters) + _end_format(tally, Digits)


@cache
def _expect_votes() -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Formats of dates without a time, and the votes of SPREAD_DAYS in each, of norm 1: [formats, votes]."""
    days = [clock.date_text(day) for day in SPREAD_DAYS]
    digits = (
        mark.join(f"%{bare if letter in 'dm' else ''}{letter}" for letter in letters)
        for mark, letters, bare in product(DATE_MARKS, ("dmY", "mdY", "Ymd", "dmy", "mdy"), ("", "-"))
    )
    named = (
        pattern.replace("%b", field).replace("%d", day)
        for pattern, field, day in product(NAMED_PATTERNS, filter(None, STYLES.values()), ("%d", "%-d"))
    )
    formats = (*digits, *named)
    writers = [date_format(one, "format") for one in formats]
    written = [writer.write(day) for writer in writers for day in days]
    places = vote_on_dates(pa.array(written)).reshape(len(formats), len(days))
    # Formats of which most dates cast no vote, such as "%-d.%-m.%y", are none that columns are read by.
    known = (places >= 0).mean(axis=1) > 0.5
    formats = tuple(one for one, own in zip(formats, known, strict=True) if own)
    votes = np.stack([np.bincount(own[own >= 0], minlength=len(DATE_VOTES)) for own in places[known]])
    return formats, votes / np.linalg.norm(votes, axis=1, keepdims=True)


def _choose_hidden(votes: NDArray[np.float64], lead: float) -> str:
    """The format that is likeliest where noise hides all classes, if days are any of the year.

    Its dates are many times as likely in some classes as in others. Votes that are weighed so stand out of
    the noise as far as weights can make them. Of 1,000 dates under a noise of 100, in eleven formats, .002
    were misread, where .051 were with weights that are alike; under 150 .06 and .29 (bench/LOG.md).

    Args:
        votes: Noisy counts of DATE_VOTES, shape [votes].
        lead: How much further a format that names the month has to stand out.
    """
    formats, expected = _expect_votes()
    named = expected[:, FIRST_NAMED:].any(axis=1)
    return formats[int(np.argmax(expected @ votes - lead * named))]


def share_date_formats(
    found: Sequence[str], votes: Sequence[NDArray[np.float64]], evident: Sequence[float], together: float
) -> list[str]:
    """The formats of a table's columns of dates, where columns of which little is evident follow the others.

    Most files write all their dates alike, and a column whose days are mostly the first of a month hardly
    says whether a day or a month stands first. So a column takes the format that most dates of all columns
    fit, unless dates of its own that fit its own format alone are evident; how times end stays its own. This
    is post-processing of released counts.

    Args:
        found: What `choose_date_format` says of each column.
        votes: Noisy counts of DATE_VOTES of each of them, shape [votes] each.
        evident: From how many cells a class is taken to occur in each of them.
        together: The same of the sum of all.
    """
    common, ending = _split_ending(choose_date_format(np.sum(votes, axis=0), together))
    fitting = _find_fitting(common)
    shared = []
    for own, counts, least in zip(found, votes, evident, strict=True):
        base, ending = _split_ending(own)
        fits = _find_fitting(base)
        seen = np.where(counts > least, counts, 0.0)
        lead = float(seen[sorted(fits - fitting)].sum() - seen[sorted(fitting - fits)].sum())
        shared.append(own if lead > 0 else common + ending)
    return shared


def _split_ending(found: str) -> tuple[str, str]:
    """The format of a date, and how it ends by times."""
    ending = next((one for one in (" %p", " %-H", ":%H") if found.endswith(one)), "")
    return found.removesuffix(ending), ending


def _find_fitting(base: str) -> set[int]:
    """Places of the classes of dates that a format without an ending reads."""
    plain = re.sub(r"%[#^]?[bB]", "%b", base.replace("%-", "%"))
    if "%b" in plain:
        return set(_find_classes(Named, {"pattern": plain}))
    order = {"d": "day", "m": "month"}.get(plain[1], "year")
    orders = (order,) if order == "year" else (order, "either")
    years = 4 if "%Y" in plain else 2
    return set(_find_classes(Digits, {"mark": plain[2], "years": years, "order": orders}))


def _format_named(tally: Tally, pattern: str) -> str:
    """A format that names the month, as its dates write it."""
    styles = {style: tally.count(Named, style=style) for style in STYLES}
    del styles["May"]  # as long as it is short
    style = max(styles, key=lambda one: styles[one])
    found = pattern.replace("%b", STYLES[style])
    # Few days are below 10, so that neither class of them need be evident.
    bare, padded = (
        tally.add(pattern=pattern, style=(style, "May"), padding=one) for one in ("bare", "padded")
    )
    found = found.replace("%d", "%-d") if bare > padded else found
    return found + _end_format(tally, Named)


def _end_format(tally: Tally, kind: type[Digits] | type[Named]) -> str:
    """How a format ends by the times behind its dates."""
    hours = {name: tally.count(kind, hours=name) for name in HOURS}
    if hours["half"] > hours["wide"] + hours["bare"]:
        return " %p"
    if hours["colon"] > hours["wide"] + hours["bare"]:
        return ":%H"
    return " %-H" if hours["bare"] > LEAST_BARE * sum(hours.values()) else ""


def _truths(array: Any) -> Truths:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _numbers(array: Any) -> Places:
    """Whole numbers of an Arrow array of numbers or of digits, 0 for empty text."""
    if pa.types.is_large_string(array.type):
        array = pc.if_else(pc.equal(array, ""), "0", array).cast(pa.int64())
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64)
