"""TextFormat: what it accepts, how cells are read and written, and that both agree."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import InputError
from margrave.schema.storage.spelling import read_cells, write_cells
from margrave.schema.storage.text import LOCALES, TextFormat, date_format, number_format


def read(text: TextFormat, name: str, *cells: str | None) -> list[str | None]:
    found: list[str | None] = read_cells(pa.array(cells, pa.large_string()), name, text).to_pylist()
    return found


def written(text: TextFormat, **columns: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = write_cells(pa.table(columns), text).to_pydict()
    return found


@pytest.mark.parametrize(
    ("text", "cells", "usual"),
    [
        (TextFormat(decimal=","), ["1,5", "-3,", "1.234,5", "1.234", "12", "x"], "1.5 -3. 1234.5 1234 12 x"),
        (
            TextFormat(decimal=","),
            ["1,23,4", "12.34", "1.2345", "01591", "1e5"],
            "1,23,4 12.34 1.2345 01591 1e5",
        ),
        (TextFormat(thousands=","), ["1,234.5", "1,23", "12,345", ",5", "1234"], "1234.5 1,23 12345 ,5 1234"),
        (TextFormat.for_locale("fr"), ["1\u202f234,5", "1\u00a0234", "1 234"], "1234.5 1234 1234"),
        (TextFormat.for_locale("ch"), ["1'234.5", "1\u2019234"], "1234.5 1234"),
        (
            TextFormat(columns={"c": "$1,234.50"}),
            ["$1,234.50", "-$5", "$-5", "($5.1)", "5"],
            "1234.50 -5 -5 -5.1 5",
        ),
        (TextFormat(columns={"c": "$1,234.50"}), ["$", "(5", "--5", "$1,2", "5 %"], "$ (5 --5 $1,2 5 %"),
        (TextFormat(columns={"c": "1.234,5 €"}), ["7,25 €", "7,25€", "€ 7"], "7.25 7.25 € 7"),
        (TextFormat(columns={"c": "32%"}), ["32%", "3.5 %", "40", "%"], "32 3.5 40 %"),
        (TextFormat(dates="%d.%m.%Y"), ["31.12.2024", "1.2.2024", "1.2.24"], "2024-12-31 2024-02-01 1.2.24"),
        (
            TextFormat(dates="%m/%d/%y"),
            ["3/14/24", "03/14/70", "2024-03-14"],
            "2024-03-14 1970-03-14 2024-03-14",
        ),
        (TextFormat(columns={"c": "text"}, decimal=","), ["1,5", "1.234"], "1,5 1.234"),
    ],
)
def test_cells_are_read_in_their_usual_form(text: TextFormat, cells: list[str], usual: str) -> None:
    # Blanks stand in cells, too: what is left alone has as many.
    assert " ".join(str(cell) for cell in read(text, "c", *cells)) == usual


def test_times_of_day_stand_behind_dates() -> None:
    text = TextFormat(dates="%m/%d/%Y")
    assert read(text, "c", "3/4/2024 08:15", "3/4/2024 2:30 PM", "3/4/2024 12:05:09 am", "3/4/2024x") == [
        *("2024-03-04 08:15", "2024-03-04 14:30", "2024-03-04 00:05:09", "3/4/2024x"),
    ]


def test_nothing_is_touched_without_a_format() -> None:
    cells = pa.array(["1,5", None, "31.12.2024", "$5"], pa.large_string())
    assert read_cells(cells, "c", TextFormat()) is cells
    assert read(TextFormat(decimal=","), "c", None, "1,5") == [None, "1.5"]


def test_columns_are_written_in_the_format_of_the_file() -> None:
    text = TextFormat.for_locale("de", columns={"charge": "$1,234.50", "code": "text"})
    found = written(
        text,
        charge=[1234.5, -0.001, None],
        weight=[72.25, 3.0, 1e20],
        visits=[1234, 5, None],
        born=[datetime.date(2024, 3, 4), None, datetime.date(1901, 12, 31)],
        listed=["1.5", "2024-03-04", "Bath"],
        code=["1.5", "2024-03-04", None],
        sure=[True, False, None],
    )
    assert found == {
        "charge": ["$1,234.50", "$0.00", None],
        "weight": ["72,25", "3", "1e+20"],
        "visits": [1234, 5, None],
        "born": ["04.03.2024", None, "31.12.1901"],
        "listed": ["1,5", "04.03.2024", "Bath"],
        "code": ["1.5", "2024-03-04", None],
        "sure": [True, False, None],
    }


@given(
    st.sampled_from(
        ["$1,234.50", "1.234,50 €", "1'234.50", "1 234,50", "EUR 1_234.50", "1234,50", "1.234,50-"]
    ),
    st.integers(-(10**12), 10**12),
)
def test_what_a_number_format_writes_it_reads(example: str, cents: int) -> None:
    form = number_format(example, "format")
    usual, sound = form.read(pa.array([form.write(cents / 100)]))
    assert sound.to_pylist() == [True]
    assert float(usual[0].as_py()) == cents / 100


@given(
    st.sampled_from(["%d.%m.%Y", "%m/%d/%Y", "%-m/%-d/%Y", "%Y%m%d", "%d%^b%Y", "%B %-d, %Y", "%-d %b %Y"]),
    st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
)
def test_what_a_date_format_writes_it_reads(pattern: str, day: datetime.date) -> None:
    form = date_format(pattern, "dates")
    iso = f"{day.year:04d}-{day.month:02d}-{day.day:02d}"
    texts, sound = form.read(pa.array([form.write(iso), form.write(f"{iso}T08:15:00")]))
    assert sound.to_pylist() == [True, True]
    assert texts.to_pylist() == [iso, f"{iso} 08:15:00"]


def test_english_names_of_months_are_read_however_they_are_written() -> None:
    cells = ["05-JAN-24", "5-january-24", "31-Sept.-69", "05-Jxn-24", "05-01-24", "5-Mayo-24"]
    texts, sound = date_format("%d-%b-%y", "dates").read(pa.array(cells))
    assert sound.to_pylist() == [True, True, True, False, False, False]
    assert texts.to_pylist() == ["2024-01-05", "2024-01-05", "1969-09-31", *cells[3:]]


def test_digits_alone_are_dates_where_their_column_says_so() -> None:
    text = TextFormat(columns={"born": "%Y%m%d"})
    cells = pa.array(["20240105", "2024105", "1.5", None])
    assert read_cells(cells, "born", text).to_pylist() == ["2024-01-05", "2024105", "1.5", None]
    assert read_cells(cells, "other", text).to_pylist() == ["20240105", "2024105", "1.5", None]
    with pytest.raises(InputError, match="--format NAME=%Y%m%d"):
        TextFormat(dates="%Y%m%d")
    assert TextFormat(dates="%d%b%Y").date("born") is not None


@pytest.mark.parametrize(
    "example", ["1,234", "abc", "", "1.2.3,4,5", "((5))", "(5-)", "(5", "-5", "5--", "5+", "12,34,567"]
)
def test_an_example_that_says_nothing_or_two_things_is_refused(example: str) -> None:
    with pytest.raises(InputError, match="format of column 'c'"):
        TextFormat(columns={"c": example})


@pytest.mark.parametrize(
    "parts",
    [
        {"separator": ";;"},
        {"separator": "a"},
        {"separator": " "},
        {"separator": '"'},
        {"separator": ";", "quote": ";"},
        {"encoding": "klingon"},
        {"encoding": "base64"},
        {"decimal": ";"},
        {"decimal": ".", "thousands": "."},
        {"names": ("a", "b")},
        {"names": ("a", "a"), "header": False},
        {"dates": "%d.%m"},
        {"dates": "%d.%m.%Y %H"},
        {"dates": "31.12.2024"},
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        TextFormat(**parts)


def test_names_for_what_is_hard_to_type() -> None:
    text = TextFormat(separator="tab", quote="none", thousands="space", encoding="ANSI")
    assert (text.separator, text.quote, text.thousands, text.encoding) == ("\t", "", " ", "cp1252")


@pytest.mark.parametrize("locale", LOCALES)
def test_a_format_survives_json(locale: str) -> None:
    text = TextFormat.for_locale(
        locale, header=False, names=("a", "b"), columns={"a": "32%"}, encoding="utf-16"
    )
    assert TextFormat.from_json(json.loads(json.dumps(text.to_json()))) == text
    assert TextFormat().to_json() == {}


@pytest.mark.parametrize("document", [[], {"colour": "red"}, {"separator": 5}, {"columns": 3}, {"names": 1}])
def test_what_is_no_format_is_refused(document: Any) -> None:
    with pytest.raises(InputError):
        TextFormat.from_json(document)
