"""Without a header the first row of a file is as private as any other: it tells the number of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest

from margrave.engines.opening import open_head, open_source
from margrave.engines.text import HEAD_BYTES, SIGNATURES
from margrave.errors import InputError
from margrave.schema.storage.text import TextFormat

BINARY = {b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\xff\xfe\0\0", b"\0\0\xfe\xff"}
"""Signatures with control signs."""
CELLS = {
    "many semicolons": b"a;b;c;d",
    "many tabs": b"a\tb\tc",
    "many bars": b"a|b|c",
    "a hint": b"sep=;",
    "null": b"a\0b",
    "a replacement": "a\ufffdb".encode(),
    "long": b"a" * (HEAD_BYTES + 5),
    "long in quotes": b'"' + b"a," * HEAD_BYTES + b'"',
    "a number": b"1",
    "nothing": b"",
}
# Those that are no UTF-8, or hold a quote, are broken in any row, and a line end would begin another row.
for signature in SIGNATURES:
    shown = signature.decode(errors="replace")
    if signature not in BINARY and shown.isprintable() and not {"\ufffd", '"'} & set(shown):
        CELLS[f"as {shown}"] = signature + b"x"


def read(path: Path, content: bytes, text: TextFormat, engine: str = "memory") -> tuple[Any, ...]:
    """Everything but the rows: names, kinds, format, and those of the head alone."""
    path.write_bytes(content)
    (source, frame), (head, same) = open_source(path, text=text, engine=engine), open_head(path, text=text)
    assert [column.name for column in head.columns] == [column.name for column in source.columns]
    assert same == frame
    return source.columns, frame, source.rows().reveal().tolist()


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("cell", CELLS)
def test_the_first_row_decides_nothing(cell: str, engine: str, tmp_path: Path) -> None:
    rest = b"bob,ok\n" * 50
    for names in ((), ("who", "how")):
        text = TextFormat(header=False, names=names)
        usual = read(tmp_path / "t.csv", b"ann,ok\n" + rest, text, engine)
        assert read(tmp_path / "t.csv", CELLS[cell] + b",ok\n" + rest, text, engine) == usual
        assert read(tmp_path / "t.csv", rest + CELLS[cell] + b",ok\n", text, engine) == usual


@pytest.mark.parametrize("first", ["3;2", "1,5;2,5", ";", "1,5,6,7;2"])
def test_a_decimal_comma_says_what_parts_the_cells(first: str, tmp_path: Path) -> None:
    text = TextFormat(header=False, decimal=",")
    columns, frame, rows = read(tmp_path / "t.csv", f"{first}\n".encode() + b"1,5;2,5\n" * 50, text)
    assert ([column.name for column in columns], frame.text.separator, rows) == (["c1", "c2"], ";", [51])
    assert read(tmp_path / "t.tsv", b"3;2\t1\n1,5\t2\n", text)[1].text.separator == "\t"


@pytest.mark.parametrize(
    "first", [b"\xef\xbb\xbfann", b"\xff\xfeann", b"\xfe\xffann", b"\x1f\x8bann", b"7z\xbc\xaf", b"\x89HDF"]
)
def test_in_a_declared_encoding_a_cell_is_no_mark(first: bytes, tmp_path: Path) -> None:
    text, rest = TextFormat(header=False, encoding="latin-1"), b"bob,ok\n" * 50
    usual = read(tmp_path / "t.csv", b"ann,ok\n" + rest, text)
    assert read(tmp_path / "t.csv", first + b",ok\n" + rest, text) == usual


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_before_the_first_row_is_read(encoding: str, tmp_path: Path) -> None:
    for declared in (None, encoding):
        path, text = tmp_path / "t.csv", TextFormat(header=False, encoding=declared)
        path.write_bytes("ann,é\nbob,x\n".encode(encoding))
        source: Any = open_source(path, text=text)[0]
        assert source._table.to_pydict() == {"c1": ["ann", "bob"], "c2": ["é", "x"]}


def test_a_broken_first_row_is_refused_as_any_other_is(tmp_path: Path) -> None:
    rest, path = b"bob,ok\n" * 50, tmp_path / "t.csv"
    for broken in (b'"x"y,ok\n', b"j\xe9,ok\n"):
        for names in ((), ("who", "how")):
            errors = []
            for content in (broken + rest, rest + broken):
                path.write_bytes(content)
                with pytest.raises(InputError) as caught:
                    open_source(path, text=TextFormat(header=False, names=names))
                errors.append(str(caught.value))
            assert errors[0] == errors[1]


def test_names_hold_where_there_is_no_row(tmp_path: Path) -> None:
    text = TextFormat(header=False, names=("who", "how"))
    assert read(tmp_path / "t.csv", b"", text)[2] == [0]
    assert read(tmp_path / "t.csv", b"\n\nann,ok\n", text)[2] == [1]
    with pytest.raises(InputError, match="names must be 3, one a column"):
        read(tmp_path / "t.csv", b"1,2,3\n", text)


@pytest.mark.parametrize("signature", sorted(BINARY))
def test_what_no_text_begins_with_is_refused(signature: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(signature + b",ok\n")
    with pytest.raises(InputError, match="it begins as"):
        open_source(tmp_path / "t.csv", text=TextFormat(header=False))


def write_sheet(path: Path, rows: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_a_sheet_has_the_columns_that_are_named(tmp_path: Path) -> None:
    text, found = TextFormat(header=False, names=("who", "much", "note")), []
    for last in ("x", None):
        path = write_sheet(tmp_path / "t.xlsx", [["a", 1, last], *[["b", 2, None]] * 5])
        sources = [opened(path, text=text)[0] for opened in (open_source, open_head)]
        found.append([[column.name for column in source.columns] for source in sources])
    assert found[0] == found[1] == [["who", "much", "note"]] * 2
    assert open_source(write_sheet(tmp_path / "t.xlsx", []), text=text)[0].rows().reveal().tolist() == [0]
    for opened in (open_source, open_head):
        with pytest.raises(InputError, match="names must be given for an Excel file without a header"):
            opened(path, text=TextFormat(header=False))


def test_the_head_of_a_sheet_without_names_in_it_has_no_row(tmp_path: Path) -> None:
    text = TextFormat(header=False, names=("who", "much"))
    wide = write_sheet(tmp_path / "t.xlsx", [["a", 1, "beside"], ["b", 2]])
    assert len(open_head(wide, text=text)[0].columns) == 2
    with pytest.raises(InputError, match="nothing beside its named columns"):
        open_source(wide, text=text)
