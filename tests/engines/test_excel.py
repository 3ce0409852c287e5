"""Excel files: all columns text, in the usual form, by sheet; and what is refused."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from command_line import call, files
from margrave.engines.opening import open_head, open_source
from margrave.errors import InputError, MissingExtraError
from margrave.schema.columns import Unknown
from margrave.schema.storage.text import TextFormat

HEAD = ["city", "amount", "day", "at", "time", "sure", "note"]
DAY = datetime.datetime(2024, 3, 4)
ROWS: list[list[Any]] = [
    ["Köln", 12.5, DAY, datetime.datetime(2024, 3, 4, 8, 15), datetime.time(8, 15), True, " x "],
    ["Bath", 3, DAY.date(), None, None, False, None],
    [None] * 7,
    ["01591", 1e20, None, None, None, None, "$1,234.50"],
]


def write_book(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def read(path: Path | str, text: TextFormat | None = None) -> dict[str, list[str | None]]:
    source: Any = open_source(path, text=text or TextFormat(), missing=("", "Bath"))[0]
    assert all(isinstance(column, Unknown) for column in source.columns)
    found: dict[str, list[str | None]] = source._table.to_pydict()
    return found


def test_a_sheet_is_read_as_text_in_the_usual_form(tmp_path: Path) -> None:
    path = write_book(tmp_path / "t.xlsx", {"first": [HEAD, *ROWS], "other": [["a", "b"], ["1,5", 2]]})
    assert read(path) == {
        "city": ["Köln", None, "01591"],
        "amount": ["12.5", "3", "1e+20"],
        "day": ["2024-03-04", "2024-03-04", None],
        "at": ["2024-03-04 08:15:00", None, None],
        "time": ["08:15:00", None, None],
        "sure": ["true", "false", None],
        "note": ["x", None, "$1,234.50"],
    }
    assert read(f"{path}::other") == {"a": ["1,5"], "b": ["2"]}
    assert read(f"{path}::other", TextFormat(decimal=",")) == {"a": ["1.5"], "b": ["2"]}
    money = TextFormat(columns={"note": "$1,234.50"})
    assert read(path, money)["note"] == ["x", None, "1234.50"]


def test_a_sheet_without_a_header(tmp_path: Path) -> None:
    path = write_book(tmp_path / "t.xlsx", {"s": [["x", 1], ["y", 2]]})
    named = TextFormat(header=False, names=("a", "b"))
    assert read(path, named) == {"a": ["x", "y"], "b": ["1", "2"]}
    with pytest.raises(InputError, match="--no-header"):
        read(path)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "names the columns"),
        ([["a", None, "b"], ["CANARY", 1, 2]], "names every column"),
        ([["a", "a"], ["CANARY", 1]], "distinct names"),
        ([["a", "b"], [1, 2, "CANARY"]], "beside its named columns"),
    ],
)
def test_a_sheet_that_is_no_table_is_refused(rows: list[list[Any]], words: str, tmp_path: Path) -> None:
    path = write_book(tmp_path / "t.xlsx", {"s": rows})
    with pytest.raises(InputError, match=words) as error:
        open_source(path)
    assert "CANARY" not in str(error.value)


def test_broken_and_unknown(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"CANARY")
    with pytest.raises(InputError, match=r"a readable \.xlsx file"):
        open_source(tmp_path / "t.xlsx")
    path = write_book(tmp_path / "s.xlsx", {"s": [HEAD, *ROWS]})
    with pytest.raises(InputError, match=r"sheet must be one of \['s'\]"):
        open_source(f"{path}::other")


def test_without_the_extra_the_command_that_installs_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'margrave\[excel\]'"):
        open_source(tmp_path / "t.xlsx")
    done = call("synthesize", tmp_path / "t.xlsx", "-e", 1, "-o", tmp_path / "out.csv")
    assert (done.code, files(tmp_path)) == (1, {"t.xlsx"})


def test_the_main_job_takes_a_sheet(tmp_path: Path) -> None:
    rows = [[f"p{i}", i % 7, DAY + datetime.timedelta(days=i % 30)] for i in range(300)]
    path = write_book(tmp_path / "t.xlsx", {"s": [["person", "visits", "day"], *rows]})
    out = tmp_path / "out.csv"
    done = call(
        "synthesize", f"{path}::s", "-e", 5, "--owner", "person", "--method", "independent", "-o", out
    )
    assert done.code == 0, done.err
    assert out.read_text(encoding="utf-8").splitlines()[0] == "visits,day"


def test_a_first_column_without_a_name_has_row_numbers(tmp_path: Path) -> None:
    """As `DataFrame.to_excel` writes them, and as text files are read."""
    path = write_book(tmp_path / "t.xlsx", {"s": [[None, "a"], [0, "x"], [1, "y"]]})
    assert read(path) == {"Unnamed: 0": ["0", "1"], "a": ["x", "y"]}
    assert open_head(path)[0].columns == open_source(path)[0].columns
