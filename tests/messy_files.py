"""Forty text files as they are met in the world, made by a script: how each is read, or that it is refused.

All that are read hold the same table: a city, an amount, a share, a day and a number of visits, in 60 rows.
"""

from __future__ import annotations

import datetime
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
    """

    name: str
    content: bytes
    option: tuple[str, ...] | None = None
    named: bool = True
    readable: bool = True


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


PLAIN = text(lines())
GERMAN = text(lines(";", german, comma, dotted), "\r\n")


def _readable() -> list[Messy]:
    """Files that are read, with at most one option."""
    us = text(lines(number=lambda v: quoted(f"{v:,.2f}"), day=american))
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
        # What only the cells show cannot be named by an error, which would tell about private rows.
        Messy("swiss.csv", text(lines(";", swiss, day=dotted)).encode(), ("--locale", "ch"), named=False),
        Messy("american.csv", us.encode(), ("--locale", "us"), named=False),
        Messy(
            "dollars.csv", text(lines(number=dollars)).encode(), ("--format", "amount=$1,234.50"), named=False
        ),
        Messy(
            "percent.csv",
            text(lines(share="{:.1f}%".format)).encode(),
            ("--format", "share=1.5%"),
            named=False,
        ),
        Messy("british_dates.csv", text(lines(day=slashed)).encode(), ("--dates", "%d/%m/%Y"), named=False),
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
        Messy("page.csv", b"<html>\n<body>Please log in</body>\n</html>\n", readable=False),
        Messy("trailing_separators.csv", text([row + "," for row in rows]).encode(), readable=False),
        Messy("binary.csv", bytes(range(256)) * 40, readable=False),
    ]


FILES: tuple[Messy, ...] = (*_readable(), *_unreadable())


def write_messy(messy: Messy, folder: Path) -> Path:
    """Write the file into a folder."""
    path = folder / messy.name
    path.write_bytes(messy.content)
    return path
