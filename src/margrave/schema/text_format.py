"""TextFormat: how a text file is written. Public: the user's word, never read from the rows."""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from margrave.errors import InputError, invalid
from margrave.schema.cell_format import DateFormat, NumberFormat, date_format, number_format

__all__ = ["LOCALES", "TextFormat"]

LOCALES: dict[str, dict[str, str]] = {
    "ch": {"separator": ";", "thousands": "'", "dates": "%d.%m.%Y"},
    "de": {"separator": ";", "decimal": ",", "thousands": ".", "dates": "%d.%m.%Y"},
    "fr": {"separator": ";", "decimal": ",", "thousands": " ", "dates": "%d/%m/%Y"},
    "uk": {"thousands": ",", "dates": "%d/%m/%Y"},
    "us": {"thousands": ",", "dates": "%m/%d/%Y"},
}
"""What spreadsheets write in Switzerland, Germany, France, the United Kingdom and the United States."""
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "colon": ":"}
"""Names of separators that are hard to type in a shell."""
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
        separator: What parts the cells: one character, or "tab", "semicolon", "pipe". None means a tab in
            .tsv files and a comma in others; where the decimal mark is a comma, a semicolon if the first line
            has one.
        quote: What cells that hold the separator stand in: one character, or "none".
        encoding: A Python codec such as "utf-8", "cp1252", "latin-1" or "utf-16". None means what the byte
            order mark says, and UTF-8 where there is none.
        header: Whether the first line names the columns. None means that it does, but that a name which is a
            number is refused, since the line is then most likely a row; True takes any names.
        names: Names of the columns of a file without a header; c1, c2, ... by default.
        decimal: Decimal mark of numbers, "." or ",".
        thousands: Mark between groups of three digits, where there is one; with a decimal comma it is the
            point unless another is given. It is optional in cells.
        dates: How dates are written, as in "%d.%m.%Y": %d, %m and %Y or %y, in any order with any marks
            between, and %-d, %-m where output shall have no leading zeros. A time of day may follow a date.
            None means as ISO 8601 has them, 2024-12-31; such dates are always read.
        columns: Formats of single columns by name: an example of a number, as in "$1,234.50", "1.234,5 €" or
            "32%"; a date format as in "%m/%d/%y"; or "text" for cells that are taken as they stand.

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
        for name in self.columns:
            self._parsed(name)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_marks(self) -> None:
        if self.separator is not None and not _is_mark(self.separator, also="\t"):
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
        found = self._parsed(name)
        return found if isinstance(found, NumberFormat) else self._usual_number()

    def date(self, name: str) -> DateFormat | None:
        """How dates of a column are written; None for ISO 8601."""
        found = self._parsed(name)
        if isinstance(found, DateFormat):
            return found
        return None if self.dates is None else date_format(self.dates, "dates")

    def _usual_number(self) -> NumberFormat:
        point = "." if self.decimal == "," else ""
        return NumberFormat(decimal=self.decimal, thousands=self.thousands or point)

    def _parsed(self, name: str) -> NumberFormat | DateFormat | None:
        written = self.columns.get(name)
        if written is None or written == AS_TEXT:
            return None
        if "%d" in written or "%-d" in written:
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
