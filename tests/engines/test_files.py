from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.engines.files import read_file
from margrave.engines.memory import open_source
from margrave.engines.opening import open_head
from margrave.engines.streaming.engine import text_batches
from margrave.errors import InputError
from margrave.run.synthesizer import Synthesizer
from margrave.schema.storage.text import TextFormat


def read(content: str | bytes, folder: Path, name: str = "t.csv", missing: tuple[str, ...] = ("",)) -> Any:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return read_file(path, missing)[0].to_pydict()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,x\n", {"a": ["1"], "b": ["x"]}),
        ("a,b\r\n1,x\r\n\r\n", {"a": ["1"], "b": ["x"]}),
        ("a,b\r1,x", {"a": ["1"], "b": ["x"]}),
        ("\ufeffa,b\n1,x\n", {"a": ["1"], "b": ["x"]}),
        ('\ufeff"a","b"\n1,x\n', {"a": ["1"], "b": ["x"]}),
        ("a, b\n 1 ,\tx y \n", {"a": ["1"], "b": ["x y"]}),
        ('a,b\n"1, 2","x ""y""\nz" \n', {"a": ["1, 2"], "b": ['x "y"\nz']}),
        ('a,b\n"5"" pipe","6"""""\n', {"a": ['5" pipe'], "b": ['6""']}),
        ('"a\nb",c\n1,2\n', {"a\nb": ["1"], "c": ["2"]}),
        ("select,order by\nnull,NA\n", {"select": ["null"], "order by": ["NA"]}),
        ("a,b\n,\n\n1,\n", {"a": [None, "1"], "b": [None, None]}),
        ('a,b\n1,x\n\n"",y\n', {"a": ["1", None], "b": ["x", "y"]}),
        ("a,b", {"a": [], "b": []}),
        ("a,b\n", {"a": [], "b": []}),
        ("a,b\n#1,\\n\n", {"a": ["#1"], "b": ["\\n"]}),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "T.CSV", "t.csv.gz"])
def test_dialect(content: str, expected: dict[str, list[str]], name: str, tmp_path: Path) -> None:
    assert read(content, tmp_path, name) == expected


@pytest.mark.parametrize("rows", [0, 200])
@pytest.mark.parametrize("last", ['ann,6"', 'ann,a 6" pipe', 'ann,6""'])
def test_no_line_takes_those_behind_it_with_it(last: str, rows: int, tmp_path: Path) -> None:
    # With the line 'bob,"x' in front of them all rows would be a part of one cell, which the last one closes.
    content = "who,what\n" + "cem,y\n" * rows + last + "\n"
    with pytest.raises(InputError, match="every quote is closed"):
        read(content, tmp_path)
    source = open_source(str(tmp_path / "t.csv"), text=TextFormat(quote="none"))[0]
    assert source.rows().reveal().tolist() == [rows + 1]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("cell", ["a\rb", "a\r\rb", "\r".join("a" * 1000)])
def test_a_return_within_a_cell_makes_no_rows_of_one(cell: str, end: str, tmp_path: Path) -> None:
    # `DataFrame.to_csv` writes such a cell without quotes under Python before 3.13.
    path = tmp_path / "t.csv"
    usual, content = f"code{end}" + f"b{end}" * 9, f"code{end}" + f"b{end}" * 9 + cell + end
    text = TextFormat(separator=",")
    path.write_bytes(usual.encode())
    assert open_source(str(path), text=text)[0].rows().reveal().tolist() == [9]
    assert {text_batches(path, text, ("",), piece=piece)[0].rows for piece in range(1, 12)} == {9}
    path.write_bytes(content.encode())
    with pytest.raises(InputError, match="whose rows all end alike"):
        open_source(str(path), text=text)
    for piece in range(1, 12):
        with pytest.raises(InputError, match="whose rows all end alike"):
            text_batches(path, text, ("",), piece=piece)
    path.write_bytes(content.replace(cell, f'"{cell}"').encode())
    assert open_source(str(path), text=text)[0].rows().reveal().tolist() == [10]


@pytest.mark.parametrize("end", ["\r", "\r\r\n"])
def test_rows_of_one_column_may_end_otherwise(end: str, tmp_path: Path) -> None:
    path, text = tmp_path / "t.csv", TextFormat(separator=",")
    path.write_bytes(f"code{end}a{end}b{end}".encode())
    assert open_source(str(path), text=text)[0].rows().reveal().tolist() == [2]
    for piece in range(1, 12):
        assert text_batches(path, text, ("",), piece=piece)[0].rows == 2


def test_names_over_several_lines_are_those_of_the_header_alone(tmp_path: Path) -> None:
    with_a_row = 'who,"what\nann,5"\nbob,6\n'
    with pytest.raises(InputError, match="a first line in which every quote is closed") as error:
        read(with_a_row, tmp_path)
    assert "ann" not in str(error.value)
    (tmp_path / "t.csv").write_text(with_a_row)
    with pytest.raises(InputError, match="a first line in which every quote is closed"):
        open_head(str(tmp_path / "t.csv"))
    said = TextFormat(header=True)
    assert open_head(str(tmp_path / "t.csv"), text=said)[1].dtypes.keys() == {"who", "what\nann,5"}


def test_tabs(tmp_path: Path) -> None:
    assert read("a\tb\n1,5\t x \n", tmp_path, "t.tsv") == {"a": ["1,5"], "b": ["x"]}
    assert read("a\tb\n1,5\t x \n", tmp_path, "t.tsv.gz") == {"a": ["1,5"], "b": ["x"]}


def test_texts_that_mean_missing(tmp_path: Path) -> None:
    content = "a,b\n?,x\n, NA \n"
    assert read(content, tmp_path) == {"a": ["?", None], "b": ["x", "NA"]}
    assert read(content, tmp_path, missing=("?", "NA")) == {"a": [None, ""], "b": ["x", None]}
    assert read(content, tmp_path, missing=()) == {"a": ["?", ""], "b": ["x", "NA"]}


def test_names_with_patterns_are_files_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "t1.csv").write_text("a,b\nother,\n")
    for name in ("t[1].csv", "t*.csv", "t?.csv", "select '.csv", "käse.csv"):
        assert read("a,b\nx,y\n", tmp_path, name) == {"a": ["x"], "b": ["y"]}


def test_a_cell_longer_than_a_block(tmp_path: Path) -> None:
    long = "x\n" * 5_000_000
    assert read(f'a,b\n1,"{long}y"\n2,z\n', tmp_path) == {"a": ["1", "2"], "b": [long + "y", "z"]}


CELL = st.text(alphabet=st.sampled_from('ab1,"\n é东'), max_size=6).map(lambda text: text.strip(" "))


@given(rows=st.lists(st.tuples(CELL, CELL), max_size=6), ending=st.sampled_from(["\n", "\r\n"]))
def test_what_the_standard_library_writes(
    rows: list[tuple[str, str]], ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=ending).writerows([("a", "b"), *rows])
    table = read(text.getvalue(), tmp_path_factory.getbasetemp(), missing=())
    assert list(zip(table["a"], table["b"], strict=True)) == rows


@given(body=st.text(alphabet=st.sampled_from('a", \n\r'), max_size=14))
def test_no_row_is_lost(body: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is read is what a strict reader reads, cell by cell, or it is refused."""
    try:
        table = read("h,g\n" + body, tmp_path_factory.getbasetemp(), missing=())
    except InputError:
        return
    reader = csv.reader(io.StringIO(body, newline=""))
    expected = [tuple(cell.strip(" ") for cell in row) for row in reader if row]
    assert list(zip(table["h"], table["g"], strict=True)) == expected


def test_typed_files(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int16()), "b": ["x", None]})
    folder = tmp_path / "year=2024"  # not a column
    folder.mkdir()
    pq.write_table(table, folder / "t.parquet")
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile(str(folder / "t.feather"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for name in ("t.parquet", "t.arrow", "t.feather"):
        source, frame = open_source(folder / name)
        assert frame.dtypes == {"a": "int16", "b": "string"}
        assert source.kinds("b").reveal().tolist()[:7] == [1, 0, 0, 0, 0, 0, 1]


def _write_bad_arrow(path: Path, stream: bool) -> Path:
    """An Arrow file of which the column "note" is no UTF-8."""
    raw = pa.array([b"x", b"\xff"], pa.binary())
    note = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    table = pa.table({"note": note, "n": [1, 2], "last": ["a", "b"]})
    make: Any = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def _write_bad_parquet(path: Path) -> Path:
    """A Parquet file of which the column "note" cannot be read."""
    pq.write_table(pa.table({"note": ["x", "y"], "n": [1, 2], "last": ["a", "b"]}), path)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[column.dictionary_page_offset : column.data_page_offset + 20] = b"\xff" * (
        column.data_page_offset + 20 - column.dictionary_page_offset
    )
    path.write_bytes(content)
    return path


BAD_COLUMNS: dict[str, Callable[[Path], Path]] = {
    "an Arrow file": lambda folder: _write_bad_arrow(folder / "t.arrow", False),
    "an Arrow stream": lambda folder: _write_bad_arrow(folder / "t.arrow", True),
    "a Parquet file": lambda folder: _write_bad_parquet(folder / "t.parquet"),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_columns_that_are_dropped_are_not_read(name: str, tmp_path: Path) -> None:
    """What they hold decides nothing, however large the file is."""
    path = BAD_COLUMNS[name](tmp_path)
    for kept in (["n"], ["last", "n"], ["last"]):
        table = read_file(path, choose=lambda names, kept=kept: kept)[0]
        assert table.column_names == kept
        assert all(table[name].to_pylist() == {"n": [1, 2], "last": ["a", "b"]}[name] for name in kept)
    for engine in ("memory", "stream"):
        run = Synthesizer("independent", epsilon=5.0, drop=["note"], engine=engine)
        assert run.fit(path).sample(3, rng=0).column_names == ["n", "last"]
    with pytest.raises(InputError, match="a readable"):
        open_source(path)


def test_an_unknown_choice_is_refused_by_its_own_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="'c'"):
        Synthesizer("independent", epsilon=5.0, drop=["c"]).fit(tmp_path / "t.parquet")


def test_a_name_with_a_point_picks_itself_alone(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1}], "a.b": [2], "c": [3]})
    pq.write_table(table, tmp_path / "t.parquet")
    read = read_file(tmp_path / "t.parquet", choose=lambda names: ["c", "a.b"])[0]
    assert read.to_pydict() == {"c": [3], "a.b": [2]}
