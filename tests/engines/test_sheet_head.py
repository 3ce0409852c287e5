"""The head of an Excel file hangs on its first row alone; what is broken below ends the opening."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import margrave as mg
from command_line import call
from margrave.engines.opening import open_head, open_source
from margrave.errors import InputError
from margrave.schema.storage.text import TextFormat
from raw_sheets import ODD_CELLS, SHEET, make_shared_cell, write_odd_sheet, write_parts


def names_of(path: Path | str, **options: Any) -> list[str]:
    return [column.name for column in open_head(path, **options)[0].columns]


@pytest.mark.parametrize("name", ODD_CELLS)
def test_no_cell_below_the_first_row_decides(name: str, tmp_path: Path) -> None:
    sound = write_odd_sheet(tmp_path / "sound.xlsx", name, False)
    assert names_of(sound) == [column.name for column in open_source(sound)[0].columns] == ["a", "b"]
    odd = write_odd_sheet(tmp_path / "odd.xlsx", name, True)
    assert names_of(odd) == names_of(f"{odd}::s0") == names_of(f"{odd}::s1") == ["a", "b"]
    given = TextFormat(header=False, names=("u", "v"))
    assert names_of(odd, text=given) == ["u", "v"]
    with pytest.raises(InputError, match=r"a readable \.xlsx file"):
        open_source(odd)


def test_plan_and_schema_read_no_row(tmp_path: Path) -> None:
    odd = write_odd_sheet(tmp_path / "odd.xlsx", "a control character", True)
    assert "independent" in str(mg.Synthesizer("independent", epsilon=1.0).plan(odd))
    assert call("plan", odd, "-e", 1).code == 0
    done = call("schema", odd, "-o", tmp_path / "schema.json")
    assert done.code == 0, done.err
    assert mg.Schema.load(tmp_path / "schema.json").names == ("a", "b")


def test_another_sheet_does_not_decide(tmp_path: Path) -> None:
    sheet, texts = make_shared_cell(b"y")
    path = write_parts(tmp_path / "t.xlsx", [sheet, sheet.replace(b"<v>1</v>", b"\x0b")], texts)
    assert names_of(path) == ["a", "b"]


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (b"<si><t>a &amp; b</t></si><si><t>b</t></si>", ["a & b", "b"]),
        (b"<si><r><t>a</t></r><r><t> c</t></r></si><si><t xml:space='preserve'>b</t></si>", ["a c", "b"]),
        (b"<!-- <si> --><si><t><![CDATA[<si>]]></t></si><si><t>b</t></si>", ["<si>", "b"]),
        (b"<si><t>a</t><rPh sb='0' eb='1'><t>A</t></rPh></si><si><t>_x005F_b</t></si>", ["a", "_b"]),
        (b"<si><t>a</t></si><si/>", ["a"]),
    ],
)
@pytest.mark.parametrize("form", ["plain", "a prefix", "utf-16", "latin-1"])
def test_names_are_those_of_the_opened_table(
    texts: bytes, names: list[str], form: str, tmp_path: Path
) -> None:
    head = SHEET.replace(b"<worksheet", b"<sst")
    content = b'<?xml version="1.0"?>' + head + texts + b"</sst>"
    if form == "a prefix":
        for tag in (b"sst", b"si", b"r", b"t", b"rPh"):
            for mark in (b"<", b"</"):
                for end in (b">", b" ", b"/>"):
                    content = content.replace(mark + tag + end, mark + b"x:" + tag + end)
        content = content.replace(b"xmlns=", b"xmlns:x=").replace(b"<![CDATA[<x:si>", b"<![CDATA[<si>")
    if form == "utf-16":
        content = content.decode().encode("utf-16")
    if form == "latin-1":
        declared = content.replace(b'"1.0"', b'"1.0" encoding="ISO-8859-1"')
        content, names = declared.replace(b">b<", b">\xe4<"), ["ä" if name == "b" else name for name in names]
    row = b'<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row>'
    body = b"<row><c><v>1</v></c>" + (b"<c><v>2</v></c>" if len(names) > 1 else b"") + b"</row>"
    sheet = SHEET + b"<sheetData>" + row + body + b"</sheetData></worksheet>"
    path = write_parts(tmp_path / "t.xlsx", [sheet], content)
    assert names_of(path) == [column.name for column in open_source(path)[0].columns] == names


def test_what_a_sheet_says_of_its_size_is_not_believed(tmp_path: Path) -> None:
    sheet, texts = make_shared_cell(b"y")
    small = sheet.replace(b"<sheetData>", b'<dimension ref="A1"/><sheetData>')
    path = write_parts(tmp_path / "t.xlsx", [small], texts)
    source: Any = open_source(path)[0]
    assert names_of(path) == [column.name for column in source.columns] == ["a", "b"]
    assert source._table.num_rows == 301


def test_a_first_row_that_is_not_there_has_no_names(tmp_path: Path) -> None:
    for cells in (
        b'<row r="2"><c r="A2"><v>1</v></c></row>',
        b'<row r="2"><c r="A2"><v>1x</v></c></row>',
        b"",
    ):
        sheet = SHEET + b"<sheetData>" + cells + b"</sheetData></worksheet>"
        path = write_parts(tmp_path / "t.xlsx", [sheet], None)
        with pytest.raises(InputError, match="whose first row names the columns"):
            open_head(path)
    with pytest.raises(InputError, match=r"sheet must be one of \['s0'\]"):
        open_head(f"{path}::s1")
    nowhere = SHEET + b'<sheetData><row><c t="s"><v>-1</v></c></row></sheetData></worksheet>'
    path = write_parts(tmp_path / "t.xlsx", [nowhere], make_shared_cell(b"y")[1])
    with pytest.raises(InputError, match=r"a readable \.xlsx file"):
        open_head(path)
