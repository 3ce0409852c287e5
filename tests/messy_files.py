"""Text files as they are met in the world, made by a script: how each is read, or that it is refused.

All that are read hold the same table: a city, an amount, a share, a day and a number of visits, in 60 rows.
"""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FILES", "NAMES", "Messy", "table_rows", "write_messy"]

NAMES = ("city", "amount", "share", "day", "visits")
CITIES = ("Köln", "Zürich", "Orléans", "Bath")
ROWS = 60


def table_rows() -> list[tuple[str, float, float, datetime.date, int]]:
    """The rows that every readable file holds."""
    first = datetime.date(2024, 1, 5)
    return [
        (CITIES[i % 4], 1000.5 + 37 * i, 0.5 * i, first + datetime.timedelta(days=13 * i), 40 * i)
        for i in range(ROWS)
    ]


@dataclass(frozen=True)
class Messy:
    """A file.

    Args:
        name: Of the file.
        content: Its bytes.
        option: The one option that reads it, as on the command line; None where none is needed.
        named: Whether the refusal without the option names it.
        readable: Whether it is read at all.
        found: Whether discovery finds its formats where nothing is said, so that it is read right as it is.
    """

    name: str
    content: bytes
    option: tuple[str, ...] | None = None
    named: bool = True
    readable: bool = True
    found: bool = False


def lines(
    separator: str = ",",
    number: Callable[[float], str] = "{:.2f}".format,
    share: Callable[[float], str] = "{:.1f}".format,
    day: Callable[[datetime.date], str] = datetime.date.isoformat,
    city: Callable[[str], str] = str,
    names: Sequence[str] | None = NAMES,
    visits: Callable[[int], str] = str,
) -> list[str]:
    head = [] if names is None else [separator.join(names)]
    return head + [
        separator.join((city(place), number(amount), share(part), day(date), visits(count)))
        for place, amount, part, date, count in table_rows()
    ]


def text(rows: list[str], end: str = "\n") -> str:
    return end.join(rows) + end


def comma(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


def german(value: float) -> str:
    return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


def french(value: float) -> str:
    return german(value).replace(".", "\u202f")


def swiss(value: float) -> str:
    return f"{value:,.2f}".replace(",", "'")


def dotted(date: datetime.date) -> str:
    return date.strftime("%d.%m.%Y")


def slashed(date: datetime.date) -> str:
    return date.strftime("%d/%m/%Y")


def american(date: datetime.date) -> str:
    return f"{date.month}/{date.day}/{date.year}"


def quoted(value: object) -> str:
    return f'"{value}"'


def dollars(value: float) -> str:
    return quoted(f"${value:,.2f}")


def amounts(value: float) -> str:
    return quoted(f"{value:,.2f}")


def in_parentheses(value: float) -> str:
    return quoted(f"({value:,.2f})") if int(value) % 2 else amounts(value)


def minus_behind(value: float) -> str:
    return quoted(f"{german(value)}-" if int(value) % 2 else german(value))


def days(written: str) -> bytes:
    return text(lines(day=lambda date: date.strftime(written))).encode()


def zipped(content: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("visits.csv", content)
    return packed.getvalue()


PLAIN = text(lines())
PIPE = ("--separator", "|")
GERMAN = text(lines(";", german, comma, dotted), "\r\n")


def _readable() -> list[Messy]:
    """Files that are read, with at most one option."""
    oracle = text(lines(day=lambda date: date.strftime("%d-%b-%y").upper())).encode()
    return [
        Messy("plain.csv", PLAIN.encode()),
        Messy("windows_lines.csv", text(lines(), "\r\n").encode()),
        Messy("old_mac_lines.csv", text(lines(), "\r").encode()),
        Messy("no_last_line_end.csv", PLAIN.rstrip("\n").encode()),
        Messy("byte_order_mark.csv", PLAIN.encode("utf-8-sig")),
        Messy("utf16_with_mark.csv", PLAIN.encode("utf-16")),
        Messy("utf16_big_endian_with_mark.csv", b"\xfe\xff" + PLAIN.encode("utf-16-be")),
        Messy("excel_unicode_text.tsv", text(lines("\t"), "\r\n").encode("utf-16")),
        Messy("tabs.tsv", text(lines("\t")).encode()),
        Messy("all_quoted.csv", text(lines(city=quoted, number=lambda v: quoted(f"{v:.2f}"))).encode()),
        Messy("blanks_around_cells.csv", PLAIN.replace(",", " ,  ").encode()),
        Messy("empty_lines.csv", PLAIN.replace("\n", "\n\n").encode()),
        Messy("separator_line.csv", ("sep=|\r\n" + text(lines("|"), "\r\n")).encode()),
        Messy("header_with_comma_in_quotes.csv", PLAIN.replace("share,", '"share",', 1).encode()),
        Messy("semicolons.csv", text(lines(";")).encode(), ("--separator", ";")),
        Messy("tabs.csv", text(lines("\t")).encode(), ("--separator", "tab")),
        Messy("pipes.csv", text(lines("|")).encode(), ("--separator", "|")),
        Messy("commas.tsv", PLAIN.encode(), ("--separator", ",")),
        Messy("colons.csv", text(lines(":")).encode(), ("--separator", ":")),
        Messy("german.csv", GERMAN.encode(), ("--locale", "de")),
        Messy("german_with_mark.csv", GERMAN.encode("utf-8-sig"), ("--locale", "de")),
        Messy("german_unicode.csv", GERMAN.encode("utf-16"), ("--locale", "de")),
        Messy("french.csv", text(lines(";", french, comma, slashed)).encode(), ("--locale", "fr")),
        Messy("latin_cells.csv", PLAIN.encode("cp1252"), ("--encoding", "cp1252")),
        Messy("utf16_without_mark.csv", PLAIN.encode("utf-16-le"), ("--encoding", "utf-16-le")),
        Messy("utf16_big_endian.csv", PLAIN.encode("utf-16-be"), ("--encoding", "utf-16-be")),
        Messy(
            "latin_header.csv", PLAIN.replace("city", "cité", 1).encode("cp1252"), ("--encoding", "cp1252")
        ),
        Messy("inches.csv", PLAIN.replace("Bath", '"Bath" 5').encode(), ("--quote", "none")),
        Messy("no_header.csv", text(lines(names=None)).encode(), ("--no-header",)),
        Messy("no_header_with_mark.csv", text([*lines(names=None)]).encode("utf-8-sig"), ("--no-header",)),
        Messy("gzip.csv.gz", gzip.compress(PLAIN.encode())),
        Messy("apostrophes.csv", text(lines(city="'{}'".format)).encode()),
        Messy("mixed_line_ends.csv", PLAIN.replace("\n", "\r\n", 20).encode()),
        Messy("german_in_quotes.csv", text(lines(";", city=quoted)).encode(), ("--separator", ";")),
        Messy("semicolons_with_mark.csv", text(lines(";"), "\r\n").encode("utf-8-sig"), ("--separator", ";")),
        Messy(
            "blanks_around_pipes.csv", text([" | ".join(row.split(",")) for row in lines()]).encode(), PIPE
        ),
        Messy("carets.csv", text(lines("^")).encode(), ("--separator", "^")),
        Messy("tildes.csv", text(lines("~")).encode(), ("--separator", "~")),
        Messy("hive.csv", text(lines("\x01")).encode(), ("--separator", "\\x01")),
        Messy("unit_signs.csv", text(lines("\x1f")).encode(), ("--separator", "\\x1f")),
        Messy("single_quotes.csv", text(lines(city="'{},'".format)).encode(), ("--quote", "'")),
        Messy("three_line_ends.csv", PLAIN.replace("\n", "\r\n", 20).replace("\r\n", "\r", 9).encode()),
        Messy("names_differ_by_case.csv", PLAIN.replace("amount", "City", 1).encode()),
        Messy("line_end_in_a_name.csv", PLAIN.replace("share", '"share\nof all"', 1).encode()),
        *_found(),
        # What only the cells show cannot be named by an error, which would tell about private rows.
        Messy("months.csv", days("%d %b %Y"), ("--dates", "%d %b %Y"), named=False),
        Messy("oracle_days.csv", oracle, ("--dates", "%d-%^b-%y"), named=False),
        Messy("days_of_digits.csv", days("%Y%m%d"), ("--format", "day=%Y%m%d"), named=False),
    ]


def _found() -> list[Messy]:
    """Files whose formats only the cells show: discovery finds them, or an option says them."""

    def one(name: str, content: bytes, *option: str) -> Messy:
        return Messy(name, content, option, named=False, found=True)

    euros, commas = (lambda v: quoted(f"{german(v)} €")), (lambda v: quoted(comma(v)))
    us = text(lines(number=amounts, day=american)).encode()
    windows = text(lines(";", lambda v: swiss(v).replace("'", "\u2019"), day=dotted))
    return [
        one("swiss_marks_of_windows.csv", windows.encode(), "--locale", "ch"),
        one("swiss.csv", text(lines(";", swiss, day=dotted)).encode(), "--locale", "ch"),
        one("american.csv", us, "--locale", "us"),
        one("dollars.csv", text(lines(number=dollars)).encode(), "--format", "amount=$1,234.50"),
        one("euros.csv", text(lines(number=euros)).encode(), "--format", "amount=1.234,50 €"),
        one("losses.csv", text(lines(number=in_parentheses)).encode(), "--format", "amount=1,234.50"),
        one("losses_behind.csv", text(lines(number=minus_behind)).encode(), "--format", "amount=1.234,50-"),
        one("decimal_commas.csv", text(lines(number=commas)).encode(), "--format", "amount=1234,50"),
        one("percent.csv", text(lines(share="{:.1f}%".format)).encode(), "--format", "share=1.5%"),
        one("british_dates.csv", days("%d/%m/%Y"), "--dates", "%d/%m/%Y"),
        one("short_years.csv", days("%m/%d/%y"), "--dates", "%m/%d/%y"),
        one("moments.csv", days("%m/%d/%Y 12:00 AM"), "--dates", "%m/%d/%Y %p"),
    ]


def _unreadable() -> list[Messy]:
    """Files that are refused, whatever is said."""
    rows = lines()
    return [
        Messy("title_above.csv", ("Visits of 2024\n\n" + PLAIN).encode(), readable=False),
        Messy("ragged.csv", text([*rows[:9], rows[9] + ",more", *rows[10:]]).encode(), readable=False),
        Messy("open_quote.csv", PLAIN.replace("Bath", '"Bath', 1).encode(), readable=False),
        Messy("names_repeat.csv", PLAIN.replace("share", "city", 1).encode(), readable=False),
        Messy("fixed_width.csv", text([row.replace(",", "  ") for row in rows]).encode(), readable=False),
        Messy("empty.csv", b"", readable=False),
        Messy("remark_above.csv", f"# written by R, 2024\n{PLAIN}".encode(), readable=False),
        Messy("empty_line_above.csv", f"\n{PLAIN}".encode(), readable=False),
        Messy("backslashes.csv", PLAIN.replace("Bath", '"Ba\\"th"').encode(), readable=False),
        Messy("total_below.csv", f"{PLAIN}60 rows\n".encode(), readable=False),
        Messy("utf32.csv", PLAIN.encode("utf-32"), readable=False),
        Messy("zip.csv", zipped(PLAIN), readable=False),
        Messy("old_excel.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000), readable=False),
        Messy("gzip.csv", gzip.compress(PLAIN.encode()), readable=False),
        Messy("page.csv", b"<html>\n<body>Please log in</body>\n</html>\n", readable=False),
        Messy("trailing_separators.csv", text([row + "," for row in rows]).encode(), readable=False),
        Messy("binary.csv", bytes(range(256)) * 40, readable=False),
        Messy("remark_with_commas.csv", f"# written by R, 2024, again\n{PLAIN}".encode(), readable=False),
        Messy("groups_above.csv", f"place,money,,when,\n{PLAIN}".encode(), readable=False),
        Messy(
            "separators_below.csv", text([rows[0], *(f"{row}," for row in rows[1:])]).encode(), readable=False
        ),
        Messy("separator_above.csv", text([f"{rows[0]},", *rows[1:]]).encode(), readable=False),
        Messy("a_name_is_empty.csv", PLAIN.replace("share", "", 1).encode(), readable=False),
        Messy("rows_in_quotes.csv", text([quoted(row) for row in rows]).encode(), readable=False),
        Messy("end_of_file_sign.csv", f"{PLAIN}\x1a".encode(), readable=False),
        Messy("short_row.csv", text([*rows[:9], "Bath,5", *rows[9:]]).encode(), readable=False),
        Messy("table_of_markdown.csv", text([f"|{row}|" for row in lines("|")]).encode(), readable=False),
        Messy("records.csv", b'[\n{"city": "Bath", "amount": 5}\n]\n', readable=False),
        Messy("record_a_line.csv", b'{"city": "Bath", "amount": 5}\n' * 60, readable=False),
        Messy("bzip2.csv", bz2.compress(PLAIN.encode()), readable=False),
        Messy("xz.csv", lzma.compress(PLAIN.encode()), readable=False),
        Messy("document.csv", b"%PDF-1.7\n1 0 obj\n", readable=False),
        Messy("database.csv", b"SQLite format 3\0" + bytes(5000), readable=False),
    ]


FILES: tuple[Messy, ...] = (*_readable(), *_unreadable())


def write_messy(messy: Messy, folder: Path) -> Path:
    """Write the file into a folder."""
    path = folder / messy.name
    path.write_bytes(messy.content)
    return path
