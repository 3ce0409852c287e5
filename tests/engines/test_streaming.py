from __future__ import annotations

import gzip
import itertools
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margrave.engines.files import DEFAULT_TEXT_FORMAT, read_file
from margrave.engines.memory import open_source as in_memory
from margrave.engines.opening import open_here, open_source
from margrave.engines.streaming import engine as streaming
from margrave.engines.streaming import tallies
from margrave.engines.streaming import tallies as owners
from margrave.engines.streaming.batches import DuckBatches, ParquetBatches
from margrave.engines.streaming.engine import Scratch, StreamSource, nameless, text_batches
from margrave.engines.streaming.tallies import kept_rows, owner_sizes
from margrave.errors import InputError
from margrave.schema.columns import Categorical, Date, Integer, Real
from margrave.schema.encoded import code_dtype
from margrave.schema.schema import Schema
from margrave.schema.storage.text import TextFormat
from source_values import list_values

TABLE = pa.table({"n": list(range(100)), "t": [f"v{k % 7}" for k in range(100)]})
SCHEMA = Schema(
    (
        Integer(name="n", lower=0, upper=99, bins=10, missing=False),
        Categorical(name="t", values=tuple(f"v{k}" for k in range(7)), missing=False),
    )
)


def written(folder: Path, table: pa.Table = TABLE, name: str = "t.parquet") -> Path:
    pq.write_table(table, folder / name, row_group_size=17)
    return folder / name


def test_codes_beyond_the_limit_lie_in_files_without_a_name(tmp_path: Path) -> None:
    path = written(tmp_path)
    engines = [StreamSource(ParquetBatches([path]), held=held).bind(SCHEMA) for held in (0, 150, 1 << 20)]
    assert isinstance(engines[0].encoded.columns[0], np.memmap)
    assert not isinstance(engines[2].encoded.columns[0], np.memmap)
    tables = [[c.reveal().tolist() for c in engine.count([("n", "t"), ("t",)])] for engine in engines]
    assert tables[0] == tables[1] == tables[2]
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_a_nameless_file_is_in_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with nameless() as file:
        file.write(b"private")
        file.flush()
        assert os.listdir(tmp_path) == []
        assert os.fstat(file.fileno()).st_mode & 0o077 == 0
    array = Scratch(0).array(1000, code_dtype(300))
    array[5] = 299
    assert array.sum() == 299
    assert os.listdir(tmp_path) == []


def test_codes_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = StreamSource(ParquetBatches([written(tmp_path)]))
    source.bind(SCHEMA)
    monkeypatch.setattr(ParquetBatches, "read", None)
    source.only(["t", "n"]).bind(Schema(SCHEMA.columns[::-1])).count([("t",)])


TEXTS = st.text(st.sampled_from("ab\", \t\r\n'é東;"), max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12), st.integers(1, 40), st.sampled_from(["\n", "\r\n"]))
def test_text_in_pieces_is_the_text(rows: list[tuple[str, str]], piece: int, end: str) -> None:
    cells = [["a", 'b "q"\n'], *rows]
    lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
    text = (end.join(lines) + end).encode()
    with nameless() as file:
        file.write(text)
        file.flush()
        path = Path(f"/proc/self/fd/{file.fileno()}")
        batches = text_batches(path, DEFAULT_TEXT_FORMAT, ("",), piece=piece)[0]
        found = [row for table in batches.read(batches.schema.names) for row in table.to_pylist()]
    expected = [tuple(cell.strip(" \t") or None for cell in row) for row in rows]
    assert [tuple(row.values()) for row in found] == expected
    assert batches.schema.names == ["a", 'b "q"\n']


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'a,b\n1,2\n"CANARY,3\n4,5\n', "every quote is closed"),
        (b"a,b\n1,2\n1,CANARY,3\n", "the header's 2 cells"),
        (b"a,b\n1,CANARY\xff\n", "in UTF-8"),
        (b"1,2\n3,CANARY\n", "not by numbers"),
        (b"a,a\n3,CANARY\n", "distinct names"),
        (b"", "names every column"),
    ],
)
def test_broken_text_is_refused(tmp_path: Path, text: bytes, words: str, piece: int) -> None:
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(InputError, match=words) as error:
        text_batches(tmp_path / "t.csv", DEFAULT_TEXT_FORMAT, ("",), piece=piece)
    assert "CANARY" not in str(error.value)
    assert error.value.__context__ is None


def test_packed_text(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "t.tsv.gz", "wb") as file:
        file.write(b"\xef\xbb\xbfa\tb\n1\tx\n?\ty\n")
    source, frame = open_source(tmp_path / "t.tsv.gz", missing=("?",), engine="stream")
    assert frame.dtypes == {"a": "text", "b": "text"}
    assert source.kinds("a").reveal()[:3].tolist() == [1, 1, 0]
    assert [column.kind for column in source.columns] == ["unknown", "unknown"]


def owner_batches(names: list[str], length: int = 7) -> owners.Batches:
    def read():  # type: ignore[no-untyped-def]
        for first in range(0, len(names), length):
            distinct, codes = np.unique(np.array(names[first : first + length]), return_inverse=True)
            yield codes.astype(np.int32), pa.array(distinct.tolist(), pa.large_string())

    return read


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abcdefghij"), max_size=60), st.integers(1, 4), st.sampled_from([1, 3, 100]))
def test_owners_in_parts_are_the_owners(names: list[str], most: int, held: int) -> None:
    bits = kept_rows(owner_batches(names), len(names), most, held)
    kept = np.unpackbits(bits, bitorder="little")[: len(names)]
    held_rows = {name: int(sum(k for n, k in zip(names, kept, strict=True) if n == name)) for name in names}
    assert held_rows == {name: min(names.count(name), most) for name in names}
    assert owners.ones(bits) == sum(held_rows.values())
    sizes = owner_sizes(owner_batches(names), most, held)
    rows = [names.count(name) for name in set(names)]
    assert sizes.tolist() == [rows.count(k) for k in range(1, most + 1)] + [sum(r > most for r in rows)]


def test_kept_rows_of_an_owner_are_a_uniform_choice() -> None:
    names, draws = ["x", "y", "x", "x", "z", "x", "x", "x"], 600
    seen = np.zeros(8)
    for _ in range(draws):
        seen += np.unpackbits(kept_rows(owner_batches(names, 3), 8, 2, 2), bitorder="little")
    assert seen[1] == seen[4] == draws
    mine = seen[[0, 2, 3, 5, 6, 7]]
    assert mine.sum() == 2 * draws
    assert np.abs(mine - draws / 3).max() < 5.5 * np.sqrt(draws * (1 / 3) * (2 / 3))


def test_values_are_listed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = StreamSource(ParquetBatches([written(tmp_path)]))
    whole = list_values(source, "n")
    assert len(whole[0]) == 100
    assert len(list(source.value_parts("n"))) == 1
    monkeypatch.setattr(streaming, "MOST_VALUES", 9)
    again = list_values(source, "n")
    assert again == whole
    parts = [(texts, counts.reveal()) for texts, counts in source.value_parts("n")]
    assert len(parts) > 10
    assert max(len(texts) for texts, _ in parts) <= 9
    assert [int(counts[-1]) for _, counts in parts[1:]] == [0] * (len(parts) - 1)
    assert tallies.MOST_VALUES > 10**6


@pytest.mark.parametrize("ways", [2, 3, 8, 100])
def test_parts_of_a_part_make_it_up(ways: int) -> None:
    names = pa.array([f"name {k}" for k in range(1000)])
    whole = tallies.Part(2, 1)
    held = np.sum([part.has(names) for part in whole.split(ways)], axis=0)
    np.testing.assert_array_equal(held, whole.has(names))
    assert 0 < held.sum() < 1000


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    source, _ = open_source(written(tmp_path), engine="stream")
    source.kinds("n")
    written(tmp_path, TABLE.slice(0, 50))
    with pytest.raises(InputError, match="left alone"):
        source.kinds("n")


def test_folders_and_patterns(tmp_path: Path) -> None:
    for k in range(3):
        written(tmp_path, TABLE.slice(k * 30, 30), f"part-{k}.parquet")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    assert open_source(tmp_path)[0].kinds("n").reveal().sum() == 90
    assert open_source(tmp_path / "part-[01].parquet")[0].kinds("n").reveal().sum() == 60
    for year, rows in ((2023, 3), (2024, 4)):
        (tmp_path / f"year={year}").mkdir()
        written(tmp_path / f"year={year}", TABLE.slice(0, rows))
    for pattern in ("year=*", "year=*/*.parquet", "**/t.parquet", "year=*/**"):
        assert open_source(tmp_path / pattern)[0].kinds("n").reveal().sum() == 7, pattern
    written(tmp_path, TABLE.rename_columns(["n", "u"]), "other.parquet")
    for where, words in ((tmp_path, "same columns"), (tmp_path / "none-*.parquet", "Parquet files")):
        with pytest.raises(InputError, match=words):
            open_source(where)


def test_databases_name_their_table(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE one AS SELECT range AS n FROM range(10)")
    assert open_source(tmp_path / "d.duckdb")[0].kinds("n").reveal()[1] == 10
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute('CREATE TABLE "it\'s ""2""" AS SELECT range AS "n" FROM range(600000)')
    with pytest.raises(InputError, match="table must be one of"):
        open_source(tmp_path / "d.duckdb")
    source, _ = open_source(f'{tmp_path / "d.duckdb"}::it\'s "2"')
    assert source.kinds("n").reveal()[1] == 600_000
    batches = DuckBatches(tmp_path / "d.duckdb", 'it\'s "2"')
    rows = np.concatenate([table["n"].to_numpy() for table in batches.read(["n"])])
    np.testing.assert_array_equal(rows, np.arange(600_000))
    with (
        duckdb.connect(str(tmp_path / "open.duckdb")),
        pytest.raises(InputError, match="Close other connections"),
    ):
        open_source(tmp_path / "open.duckdb")
    (tmp_path / "x.duckdb").write_bytes(b"CANARY")
    with pytest.raises(InputError, match="readable DuckDB") as error:
        open_source(tmp_path / "x.duckdb")
    assert "CANARY" not in str(error.value)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.csv"])
def test_small_files_go_to_memory_and_large_ones_are_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    if name == "t.parquet":
        written(tmp_path)
    elif name == "t.arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, TABLE.schema) as writer:
            writer.write_table(TABLE)
    else:
        path.write_text(
            "n,t\n" + "".join(f"{n},{t}\n" for n, t in zip(*TABLE.to_pydict().values(), strict=True))
        )
    small = open_source(path)[0]
    monkeypatch.setattr("margrave.engines.opening.MIN_STREAMED_BYTES", 10)
    large, frame = open_source(path)
    assert (type(small).__name__, type(large).__name__) == ("MemorySource", "StreamSource")
    assert frame == in_memory(path)[1]
    pairs = list(itertools.permutations(["n", "t"], 2))
    for one, other in zip(small.bind(SCHEMA).count(pairs), large.bind(SCHEMA).count(pairs), strict=True):
        np.testing.assert_array_equal(one.reveal(), other.reveal())
    assert open_here(path).only(["t"]).bind(Schema(SCHEMA.columns[1:])).encoded.rows == 100


def test_engines_are_named(tmp_path: Path) -> None:
    path = written(tmp_path)
    for data, engine, words in (
        (path, "spark", "one of"),
        (TABLE, "stream", "a table in memory"),
        (tmp_path, "memory", "more than one file"),
        (tmp_path / "none.parquet", "stream", "Check the path"),
    ):
        with pytest.raises(InputError, match=words):
            open_source(data, engine=engine)


@pytest.mark.parametrize("piece", [1, 7, 64])
@pytest.mark.parametrize(
    "text",
    [
        TextFormat(encoding="utf-16", separator=";", decimal=","),
        TextFormat(encoding="cp1252", separator="|", quote="none", names=("a", "b", "c"), header=False),
        TextFormat(separator="tab", quote="'", header=False, columns={"c2": "1.234,5 €"}),
    ],
    ids=["utf-16", "no quotes", "no header"],
)
def test_a_declared_format_is_read_in_pieces_as_in_one(tmp_path: Path, text: TextFormat, piece: int) -> None:
    separator, rows = (
        str(text.separator),
        [('"é', f"{i},5", "'x\ny'" if text.quote == "'" else "x") for i in range(9)],
    )
    rows = [(city if text.quote != '"' else "é", number, more) for city, number, more in rows]
    head = [("a", "b", "c")] if text.headed else []
    content = "\r\n".join(separator.join(row) for row in [*head, *rows])
    (tmp_path / "t.csv").write_bytes(content.encode(text.encoding or "utf-8"))
    whole, resolved = read_file(tmp_path / "t.csv", ("",), text)
    assert len(whole) == 9
    batches, same = text_batches(tmp_path / "t.csv", text, ("",), piece=piece)
    assert same == resolved
    names = whole.column_names
    found = pa.concat_tables(batches.read(names))
    assert found.to_pydict() == whole.to_pydict()
    assert whole.column(names[0]).to_pylist() == [row[0] for row in rows]
    number = "{}.5" if text.decimal == "," or text.columns else "{},5"
    assert whole.column(names[1]).to_pylist() == [number.format(i) for i in range(9)]


def test_texts_are_read_in_a_format_batch_by_batch(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("paid,day\n" + "".join(f'"$1,{n:03d}.50",{1 + n % 28:02d}.02.2024\n' for n in range(500)))
    columns = (
        Real(name="paid", format="$1,234.5", lower=1000, upper=1500, bins=2, missing=False),
        Date(name="day", format="%d.%m.%Y", lower="2024-02-01", upper="2024-02-28", missing=False),
    )
    (streamed, _), (held, _) = (open_source(path, engine=engine) for engine in ("stream", "memory"))
    edges = np.array([1000.0, 1100.0, 2000.0])
    for source in (streamed, held):
        read = source.read_as(columns)
        assert read.histogram("paid", edges).reveal().tolist() == [100, 400]
        assert read.only(["paid"]).histogram("paid", edges).reveal().tolist() == [100, 400]
    tables = [
        source.bind(Schema(columns)).count([("paid", "day")])[0].reveal() for source in (streamed, held)
    ]
    assert (tables[0] == tables[1]).all()
    assert tables[0].sum() == 500
