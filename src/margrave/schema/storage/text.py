"""TextFormat: how a text file is written. Public: the user's word, never read from the rows.

`NumberFormat` and `DateFormat` are how numbers and dates are written in its cells. They are read into their
usual form, and written again. The usual form is that of `forms` for numbers (12, -3.5, 1e5) and that of
`clock` for dates (2024-12-31).
"""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from margrave.errors import InputError, invalid
from margrave.schema.storage.clock_numbers import is_clock_format
from margrave.schema.storage.date_numbers import POINT, is_date_number_format, is_stamp_format
from margrave.schema.storage.months import names_months

SPACES = "[ \u00a0\u202f]"
"""Blanks that part groups of digits: the space, the no-break space and the narrow no-break space."""
DIGIT_MARKS = ".,'_ \u00a0\u202f\u2019"
ROW_NUMBERS = "Unnamed: 0"
"""The name of a first column that has none in a text file: that under which pandas reads it."""
FIRST_YEAR_OF_TWO_DIGITS = 69
"""Years of two digits from here on are of the twentieth century, those below of the next, as in POSIX."""
CLOCK = r"(?P<gap>[T :]|, )(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?P<second>:[0-9]{2}(?:\.[0-9]{1,9})?)?"
HALF = r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
MONTH_NAMES = ("%b", "%B", "%^b", "%#b")
"""Fields of months in words: Jan, January, JAN and jan in output; in input any of these will do."""
MONTH_FIELDS = ("%m", "%-m", *MONTH_NAMES)
DATE_ENDINGS = (" %p", " %-H", ":%H", POINT)
"""What may stand behind a date format: for the times behind its dates, or for a point behind digits."""
CENTS = 17
"""Most significant digits of a number that are written in groups; larger ones are written without."""


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How numbers are written.

    Args:
        decimal: The decimal mark.
        thousands: What may part groups of three digits; "" for nothing.
        prefix, suffix: What may stand before and behind, as in "$" and " €".
        trailing: Whether the minus stands behind, as in "12.50-"; one in front is read as well.
        brackets: Whether brackets are written in place of a minus, as in "(12.50)"; a minus is read as well.
        grouped: Whether output parts groups of three digits.
        decimals: Digits behind the mark in output; None for as many as the number has.
    """

    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    trailing: bool = False
    brackets: bool = False
    grouped: bool = False
    decimals: int | None = None

    def read(self, texts: Any) -> tuple[Any, Any]:
        """Texts in their usual form where they are numbers of this format, and which are.

        Args:
            texts: An Arrow array of text without nulls.

        Returns:
            Two Arrow arrays of shape [texts]: text, unchanged where it is no number; and truth values.
        """
        texts = texts.cast(pa.large_string())
        parts = pc.extract_regex(texts, self._pattern())
        get = partial(get_group, parts)
        digits = join_texts("", get("whole"), get("part"))
        signs = join_texts("", get("sign"), get("inner"), get("open"), get("last"))
        sound = pc.and_(pc.is_valid(parts), pc.not_equal(digits, ""))
        sound = pc.and_(sound, pc.less_equal(pc.binary_length(signs), 1))
        sound = pc.and_(sound, pc.equal(pc.equal(get("open"), "("), pc.equal(get("close"), ")")))
        sign = pc.replace_substring(signs, "(", "-")
        whole = get("whole")
        if self.thousands:
            whole = pc.replace_substring_regex(whole, self._blank(), "")
        point = pc.replace_substring(get("mark"), self.decimal, ".")
        usual = join_texts("", sign, whole, point, get("part"), get("power"))
        return pc.if_else(sound, usual, texts), sound

    def _blank(self) -> str:
        if self.thousands == " ":
            return SPACES
        return "['\u2019]" if self.thousands == "'" else re.escape(self.thousands)

    def _pattern(self) -> str:
        groups = f"[0-9]{{1,3}}(?:{self._blank()}[0-9]{{3}})+|" if self.thousands else ""
        before, behind = (_optional(text) for text in (self.prefix, self.suffix))
        brackets = r"(?P<open>\(?)", r"(?P<close>\)?)"
        if not (self.prefix or self.suffix or self.grouped or self.brackets):
            brackets = "(?P<open>)", "(?P<close>)"
        last = "(?P<last>-?)" if self.trailing else "(?P<last>)"
        return (
            rf"^{brackets[0]}(?P<sign>[+-]?){before}(?P<inner>[+-]?)(?P<whole>{groups}[0-9]*)"
            rf"(?:(?P<mark>{re.escape(self.decimal)})(?P<part>[0-9]*))?(?P<power>[eE][+-]?[0-9]+)?"
            rf"{behind}{last}{brackets[1]}$"
        )

    def write(self, number: float | str) -> str:
        """A number, or the text of one in its usual form, as this format has it."""
        text = str(number)
        sign, text = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
        if self.decimals is not None and len(text) < CENTS + self.decimals:
            text = f"{float(text):.{self.decimals}f}"
            sign = "" if not text.strip("0.") else sign
        whole, point, part = text.partition(".")
        if self.grouped and whole.isdigit():
            whole = f"{int(whole):,}".replace(",", self.thousands)
        before, behind = ("", sign) if self.trailing else (sign, "")
        if self.brackets and sign:
            before, behind = "(", ")"
        return f"{before}{self.prefix}{whole}{self.decimal if point else ''}{part}{self.suffix}{behind}"


def get_group(parts: Any, name: str) -> Any:
    """A group of a matched pattern as text, empty where the pattern did not match."""
    return pc.fill_null(parts.field(name).cast(pa.large_string()), "")


def join_texts(between: str, *texts: Any) -> Any:
    """Arrow arrays of text, joined place by place: [texts]."""
    return pc.binary_join_element_wise(*texts, pa.scalar(between, pa.large_string()))


def _two_digits(text: Any) -> Any:
    return pc.utf8_lpad(text, 2, "0")


def _optional(text: str) -> str:
    """A pattern of a text that may be left out, with any blanks between it and the number."""
    return f"(?:{SPACES}*{re.escape(text.strip())}{SPACES}*)?" if text.strip() else f"{SPACES}*" * bool(text)


def number_format(example: str, param: str, decimal: str = ".") -> NumberFormat:
    """The format in which a number is written as in an example.

    Args:
        example: Such as "$1,234.50", "1.234,5 €" or "32%"; or "1,234.50-" where a minus stands behind, and
            "(1,234.50)" where brackets stand for one. Digits behind the decimal mark say how many are
            written.
        param: What the example is, for the error.
        decimal: The decimal mark where the example shows none.

    Raises:
        InputError: It is no number, or it can be read in two ways, such as "1,234".

    Example:
        >>> number_format("1.234,50 €", "format").write(9876543.21)
        '9.876.543,21 €'
    """
    brackets = example.startswith("(") and example.endswith(")")
    bare = example[1:-1] if brackets else example
    # Units may end in a digit, such as m2.
    found = re.fullmatch(
        rf"([^0-9]*?)([0-9](?:[0-9{DIGIT_MARKS}]*[0-9])?)((?:[^0-9]|(?<=[A-Za-z])[0-9])*)", bare
    )
    behind = "" if found is None else found[3] if brackets else found[3].removesuffix("-")
    if found is None or set("+-()") & set(found[1] + behind):
        remedy = "Write it as in '$1,234.50', '32%' or '%m/%d/%Y', or 'text'."
        raise InputError(invalid(param, "an example of a number, or a date format", remedy, got=example))
    prefix, core, suffix = found.groups()
    trailing, suffix = suffix.endswith("-"), suffix.removesuffix("-")
    used = [mark for mark in core if not mark.isdigit()]
    kinds = list(dict.fromkeys(used))
    if len(kinds) == 1 and len(used) == 1 and re.fullmatch(r"[0-9]{1,3}[^0-9][0-9]{3}", core):
        remedy = "Write an example such as 1,234.50 or 1.234.567, which shows what the mark parts."
        raise InputError(invalid(param, "an example that can be read in one way", remedy, got=example))
    thousands = kinds[0] if len(kinds) == 2 or len(used) > 1 else ""
    mark = kinds[-1] if kinds and kinds[-1] != thousands else ""
    pattern = r"[0-9]{1,3}(?:T[0-9]{3})+".replace("T", re.escape(thousands)) if thousands else "[0-9]+"
    if (
        len(kinds) > 2
        or mark not in ("", ".", ",")
        or not re.fullmatch(pattern, core.partition(mark or "\0")[0])
    ):
        remedy = "Write it as in '$1,234.50' or '1.234,5 €'."
        raise InputError(invalid(param, "an example of a number", remedy, got=example))
    other = "," if thousands == "." else "."
    return NumberFormat(
        decimal=mark or (decimal if decimal != thousands else other),
        thousands=" " if thousands in ("\u00a0", "\u202f") else thousands.replace("\u2019", "'"),
        prefix=prefix,
        suffix=suffix,
        trailing=trailing,
        brackets=brackets,
        grouped=bool(thousands),
        decimals=len(core.rpartition(mark)[2]) if mark else None,
    )


@dataclass(frozen=True, slots=True)
class DateFormat:
    """How dates are written, from a checked format such as "%d.%m.%Y"; see `date_format`.

    Args:
        pattern: Of the date alone.
        half: Whether times of day behind it are written in hours of 12, with AM or PM.
        short: Whether hours of 24 below 10 are written in one digit.
        gap: What stands between a date and its time.
        point: Whether a date of digits alone is written as a number with a point, as in 20240229.0.
    """

    pattern: str
    half: bool = False
    short: bool = False
    gap: str = " "
    point: bool = False

    def read(self, texts: Any) -> tuple[Any, Any]:
        """Texts in ISO form where they are dates of this format, perhaps with a time, and which are.

        A time is hours and minutes, with seconds or without, of 24 hours or of 12 with AM or PM behind.
        Whether there is such a day is not checked here. A format without a day means the first one.

        Args:
            texts: An Arrow array of text without nulls.

        Returns:
            Two Arrow arrays of shape [texts]: text, unchanged where it is no date; and truth values.
        """
        texts = texts.cast(pa.large_string())
        parts = pc.extract_regex(texts, f"^{self._regex()}(?:{CLOCK}{HALF})?$")
        get = partial(get_group, parts)
        sound, month = pc.is_valid(parts), get("month")
        if self._month_field() not in ("%m", "%-m"):
            month = number_months(month)
        first = pa.scalar("01", pa.large_string())
        day = first if names_months(self.pattern) else _two_digits(get("day"))
        date = join_texts("-", _full_year(get("year")), _two_digits(month), day)
        hour = _two_digits(_full_hour(get("hour"), get("half")))
        moment = join_texts(" ", date, join_texts("", join_texts(":", hour, get("minute")), get("second")))
        return pc.if_else(sound, pc.if_else(pc.equal(get("hour"), ""), date, moment), texts), sound

    def _month_field(self) -> str:
        """The field of the pattern that is the month."""
        return next(part for part in _parts(self.pattern) if part in MONTH_FIELDS)

    def _regex(self) -> str:
        digits = "[0-9]{2}" if are_joined(self.pattern) else "[0-9]{1,2}"
        words = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS) + "|Sept"
        names = {
            **dict.fromkeys(("%d", "%-d"), f"(?P<day>{digits})"),
            **dict.fromkeys(MONTH_FIELDS, rf"(?P<month>(?i:{words}))\.?"),
            **dict.fromkeys(("%m", "%-m"), f"(?P<month>{digits})"),
            "%Y": "(?P<year>[0-9]{4})",
            "%y": "(?P<year>[0-9]{2})",
        }
        found = "".join(names.get(part) or re.escape(part) for part in _parts(self.pattern))
        return rf"{found}(?:\.0*)?" if self.point else found

    def write(self, text: str) -> str:
        """A date in ISO form, a time of day behind it included, as this format has it."""
        year, month, day, rest = text[:4], text[5:7], text[8:10], text[10:]
        values = {"%d": day, "%m": month, "%Y": year, "%y": year[2:]}
        values |= {"%-d": str(int(day)), "%-m": str(int(month))}
        name = MONTHS[int(month) - 1]
        values |= {"%B": name, "%b": name[:3], "%^b": name[:3].upper(), "%#b": name[:3].lower()}
        written = "".join(values.get(part, part) for part in _parts(self.pattern)) + POINT * self.point
        clock = rest[1:]
        if self.half and clock:
            hour = (int(clock[:2]) + 11) % 12 + 1
            short = f"{hour}" if "%-" in self.pattern else f"{hour:02d}"
            clock = f"{short}{clock[2:]} {'PM' if int(clock[:2]) >= 12 else 'AM'}"
        elif self.short and clock:
            clock = f"{int(clock[:2])}{clock[2:]}"
        return f"{written}{self.gap}{clock}" if rest else written


def _parts(pattern: str) -> list[str]:
    """A date format cut into its fields and what stands between them."""
    return [part for part in re.split(r"(%[-^#]?[a-zA-Z])", pattern) if part]


def are_joined(pattern: str) -> bool:
    """Whether two fields of a date format that are digits have nothing between them, as in "%Y%m%d"."""
    numeric = [part[:1] == "%" and part not in MONTH_NAMES for part in _parts(pattern)]
    return any(one and two for one, two in pairwise(numeric))


def number_months(words: Any) -> Any:
    """The numbers of months that are named by English words, as text; empty where there is no name."""
    short = pc.utf8_lower(pc.utf8_slice_codeunits(words, 0, 3))
    known = pa.array([name[:3].lower() for name in MONTHS], short.type)
    return pc.fill_null(pc.add(pc.index_in(short, value_set=known), 1).cast(pa.large_string()), "")


def _full_year(year: Any) -> Any:
    """Years of four digits, from years of two or four."""
    short = np.asarray(pc.equal(pc.binary_length(year), 2).to_numpy(zero_copy_only=False))
    number = pc.if_else(pa.array(short), year, "0").cast(pa.int64())
    old, new = (pa.scalar(text, pa.large_string()) for text in ("19", "20"))
    century = pc.if_else(pc.greater_equal(number, FIRST_YEAR_OF_TWO_DIGITS), old, new)
    return pc.if_else(pa.array(short), join_texts("", century, year), year)


def _full_hour(hour: Any, half: Any) -> Any:
    """Hours of 24, from hours of 12 where it is said which half of the day is meant."""
    half = pc.utf8_upper(half)
    number = pc.if_else(pc.equal(hour, ""), "0", hour).cast(pa.int64())
    late = pc.and_(pc.equal(half, "P"), pc.less(number, 12))
    early = pc.and_(pc.equal(half, "A"), pc.equal(number, 12))
    shifted = pc.if_else(late, pc.add(number, 12), pc.if_else(early, 0, number))
    return pc.if_else(pc.equal(half, ""), hour, shifted.cast(hour.type))


def date_format(pattern: str, param: str) -> DateFormat:
    """A date format, found to name the day, the month and the year once each, or a month and a year alone.

    Args:
        pattern: Such as "%d.%m.%Y", "%-m/%-d/%y", "%d-%b-%Y", "%Y%m%d" or "%m/%Y"; with " %p" behind where
            times of day have AM or PM, " %-H" where their hours have no leading zeros, or ":%H" where a colon
            stands before them, as in 28MAR2013:05:11; "%Y%m%d" and "%Y%m" with ".0" behind for 20240229.0.
        param: What the pattern is, for the error.

    Raises:
        InputError: It is none.
    """
    given, ending = pattern, next((end for end in DATE_ENDINGS if pattern.endswith(end)), "")
    pattern = pattern.removesuffix(ending)
    parts = _parts(pattern)
    kinds = {"%d": "d", "%-d": "d", "%Y": "y", "%y": "y", **dict.fromkeys(MONTH_FIELDS, "m")}
    fields = sorted(kinds.get(part, "?") for part in parts if part.startswith("%"))
    between = "".join(part for part in parts if not part.startswith("%"))
    timed_months = ending not in ("", POINT) and names_months(pattern)
    pointless = ending == POINT and not is_date_number_format(pattern)
    named = fields in (["d", "m", "y"], ["m", "y"]) and not timed_months
    if not named or pointless or re.search(r"[0-9a-zA-Z%]", between):
        remedy = (
            "Try '%d.%m.%Y', '%m/%d/%Y', '%d/%m/%y' or, with English names of months, '%d %b %Y'; for months "
            "without a day '%Y-%m'."
        )
        raise InputError(invalid(param, "a date format of %d, %m and %Y", remedy, got=given))
    gap = ":" if ending == ":%H" else " "
    return DateFormat(pattern, ending == " %p", ending == " %-H", gap, ending == POINT)


LOCALES: dict[str, dict[str, str]] = {
    "ch": {"separator": ";", "thousands": "'", "dates": "%d.%m.%Y"},
    "de": {"separator": ";", "decimal": ",", "thousands": ".", "dates": "%d.%m.%Y"},
    "fr": {"separator": ";", "decimal": ",", "thousands": " ", "dates": "%d/%m/%Y"},
    "uk": {"thousands": ",", "dates": "%d/%m/%Y"},
    "us": {"thousands": ",", "dates": "%m/%d/%Y"},
}
"""What spreadsheets write in Switzerland, Germany, France, the United Kingdom and the United States."""
CONTROL_SIGNS = {"\\t": "\t", "\\x01": "\x01", "\\x1e": "\x1e", "\\x1f": "\x1f"}
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "colon": ":", **CONTROL_SIGNS}
"""Names of separators that are hard to type in a shell."""
SEPARATOR_WORDS = {sign: word for word, sign in CONTROL_SIGNS.items()} | {"\t": "tab"}
"""How a command line says signs that do not print."""
MARKS = {"": "", "none": "", "space": " ", "point": ".", "comma": ",", "apostrophe": "'"}
"""Names of decimal and thousands marks."""
AS_TEXT = "text"
"""The format of a column whose cells are taken as they stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """How a CSV or TSV file is written: how it is read, and how synthetic rows are written again.

    **Privacy.** A format is public. It is what the user says, completed from the first line of the file,
    which holds column names: a byte order mark, and a line such as ``sep=;`` that spreadsheets put first.
    Each cell is then read on its own, so neighbouring tables stay neighbours.

    Args:
        separator: What parts the cells: one character, or "tab", "semicolon", "pipe", "\\x01", "\\x1f".
            None means a tab in .tsv files and a comma in others; where the decimal mark is a comma, a
            semicolon if the first line has one, or is no header.
        quote: What cells that hold the separator stand in: one character, or "none".
        encoding: A Python codec such as "utf-8", "cp1252", "latin-1" or "utf-16". None means what the byte
            order mark says, and UTF-8 where there is none.
        header: Whether the first line names the columns. None means that it does, but that a name which is a
            number, or has a separator behind a line end, is refused, since it is then most likely (a part of)
            a row; True takes any names.
        names: Names of the columns of a file without a header; c1, c2, ... by default. An Excel file without
            a header needs them.
        decimal: Decimal mark of numbers, "." or ",".
        thousands: Mark between groups of three digits, where there is one; with a decimal comma it is the
            point unless another is given. It is optional in cells.
        dates: How dates are written, as in "%d.%m.%Y": %d, %m and %Y or %y, in any order with any marks
            between, and %-d, %-m where output shall have no leading zeros; or English names of months, %b for
            Jan, %^b for JAN, %#b for jan, %B for January. A time of day may follow a date;
            " %p" at the end means that output has hours of 12, with AM or PM, " %-H" hours without a
            leading zero, and ":%H" a colon before them.
            None means as ISO 8601 has them, 2024-12-31; such dates are always read.
        columns: Formats of single columns by name: an example of a number, as in "$1,234.50", "1.234,5 €" or
            "32%"; a date format as in "%m/%d/%y", "%Y%m%d" or "%Y-%m"; or "text" for cells that are taken as
            they stand. The column that says whose row it is has none.

    Raises:
        InputError: A part is not of this form.

    Example:
        >>> TextFormat.for_locale("de", encoding="cp1252").separator
        ';'
        >>> TextFormat(columns={"charge": "$1,234.50"}).number("charge").write(-1234.5)
        '-$1,234.50'
    """

    separator: str | None = None
    quote: str = '"'
    encoding: str | None = None
    header: bool | None = None
    names: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    dates: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._set("separator", SEPARATORS.get(self.separator or "", self.separator or None))
        self._set("quote", "" if self.quote == "none" else self.quote)
        self._set("decimal", MARKS.get(self.decimal, self.decimal))
        self._set("thousands", MARKS.get(self.thousands, self.thousands))
        self._set("names", tuple(self.names))
        self._set("columns", dict(self.columns))
        self._check_marks()
        if self.encoding is not None:
            self._set("encoding", _codec_name(self.encoding))
        if self.names and (
            self.header is not False or len(set(self.names)) != len(self.names) or "" in self.names
        ):
            remedy = "Give names with header=False, or --no-header on the command line."
            raise InputError(invalid("names", "distinct, and of a file without a header", remedy))
        if self.dates is not None:
            date_format(self.dates, "dates")
            if are_joined(self.dates) or names_months(self.dates):
                constraint = (
                    "a date format of %d, %m and %Y with marks between, since other cells are written "
                    "otherwise as well"
                )
                remedy = f"Say it of its column: --format NAME={self.dates}, or columns={{'NAME': ...}}."
                raise InputError(invalid("dates", constraint, remedy, got=self.dates))
        for name in self.columns:
            self._parse_format(name)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_marks(self) -> None:
        if self.separator is not None and not _is_mark(self.separator, also="".join(SEPARATOR_WORDS)):
            raise InputError(
                invalid("separator", "one character, or 'tab'", "Try separator=';'.", got=self.separator)
            )
        if self.quote and (not _is_mark(self.quote) or self.quote == self.separator):
            raise InputError(
                invalid("quote", "one other character, or 'none'", "Try quote='\"'.", got=self.quote)
            )
        if self.decimal not in (".", ","):
            raise InputError(invalid("decimal", "'.' or ','", "Try decimal=','.", got=self.decimal))
        if self.thousands not in ("", ".", ",", " ", "'", "_") or self.thousands == self.decimal:
            constraint = "none or one of . , ' _ and the space, other than the decimal mark"
            raise InputError(invalid("thousands", constraint, "Try thousands='.'.", got=self.thousands))

    @classmethod
    def for_locale(cls, locale: str, **parts: Any) -> TextFormat:
        """The format that spreadsheets write in a country, with parts of it replaced.

        Raises:
            InputError: There is no such locale in `LOCALES`, or a part is not valid.
        """
        if locale not in LOCALES:
            raise InputError(invalid("locale", f"one of {list(LOCALES)}", "Pick one.", got=locale))
        return cls(**{**LOCALES[locale], **parts})

    @property
    def headed(self) -> bool:
        """Whether the first line names the columns."""
        return self.header is not False

    @property
    def plain_cells(self) -> bool:
        """Whether every cell is taken as it stands, numbers and dates being in the usual form already."""
        return self.decimal == "." and not self.thousands and self.dates is None and not self.columns

    def is_text(self, name: str) -> bool:
        """Whether the cells of a column are taken as they stand."""
        return self.columns.get(name) == AS_TEXT

    def number(self, name: str) -> NumberFormat:
        """How numbers of a column are written."""
        found = self._parse_format(name)
        return found if isinstance(found, NumberFormat) else self._usual_number()

    def date(self, name: str) -> DateFormat | None:
        """How dates of a column are written; None for ISO 8601."""
        found = self._parse_format(name)
        if isinstance(found, DateFormat):
            return found
        return None if self.dates is None else date_format(self.dates, "dates")

    def declares_dates(self, name: str) -> bool:
        """Whether a column has a date format of its own, so that digits alone may be a date."""
        return isinstance(self._parse_format(name), DateFormat)

    def _usual_number(self) -> NumberFormat:
        point = "." if self.decimal == "," else ""
        return NumberFormat(decimal=self.decimal, thousands=self.thousands or point)

    def _parse_format(self, name: str) -> NumberFormat | DateFormat | None:
        written = self.columns.get(name)
        if written is None or written == AS_TEXT or is_clock_format(written) or is_stamp_format(written):
            return None
        if "%d" in written or "%-d" in written or names_months(written):
            return date_format(written, f"format of column {name!r}")
        return number_format(written, f"format of column {name!r}", self.decimal)

    def with_text(self, names: tuple[str, ...]) -> TextFormat:
        """The same format with some columns taken as they stand, unless they have a format of their own."""
        if self.plain_cells:
            return self
        more = {name: AS_TEXT for name in names if name not in self.columns}
        return dataclasses.replace(self, columns={**self.columns, **more}) if more else self

    def with_separator(self, path: str | Path) -> TextFormat:
        """The same format with its separator said, for a file of one column: its header cannot show one."""
        usual = "\t" if ".tsv" in str(path).lower()[-7:] else ";" if self.decimal == "," else ","
        return dataclasses.replace(self, separator=self.separator or usual)

    def to_json(self) -> dict[str, Any]:
        """A JSON object; parts that hold their default are left out."""
        document = {}
        for part in dataclasses.fields(self):
            value = getattr(self, part.name)
            if part.name == "columns":
                value = dict(value)
            if value not in (part.default, {}, ()):
                document[part.name] = list(value) if isinstance(value, tuple) else value
        return document

    @classmethod
    def from_json(cls, document: Any) -> TextFormat:
        """The format of a JSON object.

        Raises:
            InputError: It is none.
        """
        known = {part.name for part in dataclasses.fields(cls)}
        if not isinstance(document, dict) or not set(document) <= known:
            raise InputError(invalid("text format", f"an object made of {sorted(known)}", "Remove the rest."))
        try:
            return cls(**document)
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(invalid("text format", "of the right types", "Write texts in quotes.")) from None


def _is_mark(text: str, also: str = "") -> bool:
    printed = text.isascii() and text.isprintable() and not text.isalnum() and text != " "
    return len(text) == 1 and (printed or text in also)


def _codec_name(encoding: str) -> str:
    """The name of a text codec as Python has it."""
    try:
        found = codecs.lookup("cp1252" if encoding.lower() in ("ansi", "windows") else encoding)
        "".encode(found.name)
    except (LookupError, TypeError, ValueError):
        constraint = "one that Python knows"
        raise InputError(invalid("encoding", constraint, "Try encoding='cp1252'.", got=encoding)) from None
    return found.name
