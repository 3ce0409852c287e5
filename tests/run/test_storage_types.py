"""Every storage type goes from raw table to rows of that type, whatever its values and however few."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from command_line import call
from margrave import load
from margrave.archive import save_release
from margrave.files import write_table
from margrave.privacy.unit import Unit
from margrave.run.synthesizer import Synthesizer
from margrave.schema.storage.arrow import NAMED
from margrave.schema.storage.clock import is_temporal
from margrave.schema.storage.forms import is_text_type

UTC = dt.timezone.utc
TYPES: dict[str, tuple[Any, list[Any]]] = {
    "date32": (pa.date32(), [dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "date64": (pa.date64(), [dt.date(2020, 1, 1)]),
    "seconds": (
        pa.timestamp("s"),
        [dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)],
    ),
    "nanoseconds": (pa.timestamp("ns", "UTC"), [dt.datetime(1700, 1, 1, tzinfo=UTC)]),
    "zoned": (pa.timestamp("ms", "America/New_York"), [dt.datetime(2020, 1, 1, tzinfo=UTC)]),
    "time32": (pa.time32("s"), [dt.time(23, 59, 59)]),
    "time64": (pa.time64("ns"), [dt.time(0, 0, 0, 1), dt.time(23, 59, 59, 999_999)]),
    "duration": (pa.duration("s"), [dt.timedelta(-5), dt.timedelta(10**6)]),
    "short duration": (pa.duration("ns"), [dt.timedelta(-5), dt.timedelta(microseconds=1)]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1.5"), Decimal("-99999999999999999999.5")]),
    "whole decimal": (pa.decimal128(12, 0), [Decimal(5), Decimal(10**11)]),
    "wide decimal": (pa.decimal256(60, 3), [Decimal("1.125")]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "uint64": (pa.uint64(), [2**64 - 1, 0]),
    "float32": (pa.float32(), [0.1, 3.4e38, -1e-40]),
    "float16": (pa.float16(), [np.float16(0.1), np.float16(6e4)]),
    "bool": (pa.bool_(), [True]),
    "null": (pa.null(), [None]),
    "text": (pa.large_string(), ["2020-01-01T00:00:00.5Z", "x", "10:00"]),
    "views of text": (pa.string_view(), ["x", "a text that is too long to stand in a view itself"]),
    "views in a dictionary": (pa.dictionary(pa.uint32(), pa.string_view()), ["x", "y"]),
    "dates in a dictionary": (pa.dictionary(pa.int8(), pa.date32()), [dt.date(2020, 1, 1)]),
}


@pytest.mark.parametrize("rows", [0, pytest.param(1, marks=pytest.mark.slow), 900])
@pytest.mark.parametrize("name", TYPES)
def test_the_type_comes_back(name: str, rows: int, tmp_path: Path) -> None:
    kind, values = TYPES[name]
    cells = [None if row % 3 == 1 else values[row % len(values)] for row in range(rows)]
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array(cells, inner)
    if inner is not kind:
        coded = column.dictionary_encode()
        column = pa.DictionaryArray.from_arrays(coded.indices.cast(kind.index_type), coded.dictionary)
    table = pa.table({"x": column})
    made = Synthesizer("independent", epsilon=4.0).fit(table).sample(30, rng=0)
    # The width of a dictionary's indices follows the rows, and is not kept.
    kept = kind if inner is kind else pa.dictionary(pa.int32(), inner)
    assert made.schema.types == [kept]
    write_table(made, tmp_path / "made.csv")
    # Polars has neither of these; and its types hang on its columns, however many rows there are.
    if rows and name not in ("wide decimal", "dates in a dictionary"):
        frame = pl.DataFrame(table)
        assert Synthesizer("independent", epsilon=4.0).fit(frame).sample(30, rng=0).schema == frame.schema


@pytest.mark.parametrize("name", NAMED)
def test_rows_are_drawn_for_every_type_that_is_known(name: str, tmp_path: Path) -> None:
    kind = NAMED[name]
    cells = ["x", "y"] if is_text_type(kind) else [0, 1]
    ticks = pa.array(cells, pa.int32() if "32" in name else pa.int64()) if is_temporal(kind) else None
    column = pa.array([None, None], kind) if name == "null" else ticks or pa.array(cells)
    table = pa.table({"x": column.take(pa.array([0, 1] * 200)).cast(kind), "n": list(range(400))})
    release = Synthesizer("independent", epsilon=4.0).fit(table)
    rows = release.sample(rng=0)
    assert rows.schema.field("x").type == kind
    for suffix in (".csv", ".parquet", ".arrow"):
        write_table(rows, tmp_path / f"rows{suffix}")
    back = Synthesizer("independent", epsilon=4.0).fit(tmp_path / "rows.arrow")
    assert back.sample(7, rng=0).schema.types == rows.schema.types


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_polars_writes_is_read_and_written(stream: bool, engine: str, tmp_path: Path) -> None:
    """Its text is views of text by default."""
    words = ["aa", "bb", None, "a text that is too long to stand in a view itself"]
    frame = pl.DataFrame(
        {
            "who": [f"P{row // 2:03}" for row in range(400)],
            "word": words * 100,
            "kind": pl.Series(["x", "y"] * 200, dtype=pl.Categorical),
            "count": ["1", "22"] * 200,
            "n": range(400),
        }
    )
    path = tmp_path / "t.arrow"
    (frame.write_ipc_stream if stream else frame.write_ipc)(path)
    run = Synthesizer("independent", epsilon=20.0, engine=engine)
    made = run.fit(path)
    rows = made.sample(rng=0)
    views = pa.dictionary(pa.int32(), pa.string_view())
    assert [rows.schema.field(name).type for name in ("word", "kind")] == [pa.string_view(), views]
    assert set(words) <= set(pl.DataFrame(rows)["word"])
    owned = Synthesizer("independent", epsilon=20.0, engine=engine, unit=Unit("who", 1)).fit(path)
    assert {"x", "y"} <= set(owned.sample(rng=0)["kind"].to_pylist())
    for name in ("rows.csv", "rows.tsv", "rows.parquet", "rows.arrow"):
        done = call(
            "synthesize", path, "-e", 20, "--method", "independent", "--engine", engine, "-o", tmp_path / name
        )
        assert done.code == 0, done.err
    assert set(words) <= set(pl.read_csv(tmp_path / "rows.csv", infer_schema=False)["word"])
    assert {"x", "y"} <= set(pl.read_parquet(tmp_path / "rows.parquet")["kind"])


def test_public_columns_may_be_views(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(["a", "b"] * 100).cast(pa.string_view()), "n": list(range(200))})
    made = Synthesizer("independent", epsilon=4.0, public=("x",), adjacency="replace_private").fit(table)
    for rows in (200, 50, 500):
        assert set(made.sample(rows, rng=0)["x"].to_pylist()) == {"a", "b"}


def test_dictionaries_of_views_in_pandas() -> None:
    coded = pa.array(["a", "b"] * 100).cast(pa.string_view()).dictionary_encode()
    frame = pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(pa.chunked_array([coded])), "n": range(200)})
    assert set(Synthesizer("independent", epsilon=4.0).fit(frame).sample(rng=0)["x"]) >= {"a", "b"}


def _arrow(folder: Path, categories: list[str]) -> Any:
    return pa.Table.from_pandas(_frame(categories))


def _parquet(folder: Path, categories: list[str]) -> Any:
    _frame(categories).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def _arrow_in_pandas(folder: Path, categories: list[str]) -> Any:
    return _arrow(folder, categories).to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)


def _frame(categories: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Categorical(categories), "y": range(len(categories))})


@pytest.mark.parametrize("sizes", [(126, 127, 128), (32_766, 32_768)])
@pytest.mark.parametrize("make", [_arrow, _parquet, _arrow_in_pandas])
def test_the_number_of_categories_is_in_no_type(make: Any, sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Writers choose the width of a dictionary's indices by the number of categories, which is private."""
    found, stored = [], set()
    for size in sizes:
        categories = [f"v{place:05d}" for place in range(size)]
        stored.add(_arrow(tmp_path, categories).schema.field("x").type)
        run = Synthesizer("independent", epsilon=4.0, columns=["x"])
        run.fit(make(tmp_path, categories)).save(tmp_path / "t.margrave")
        made = load(tmp_path / "t.margrave")
        rows = made.sample(3, rng=0)
        types = rows.dtypes["x"] if isinstance(rows, pd.DataFrame) else rows.schema
        found.append((made.release.dtypes, types))
    assert len(stored) > 1  # what the rows decide
    assert all(one == found[0] for one in found)
    assert "indices=int32" in found[0][0]["x"]


def test_a_release_with_narrow_indices_is_still_read(tmp_path: Path) -> None:
    made = Synthesizer("independent", epsilon=4.0).fit(_arrow(tmp_path, ["a", "b"] * 50))
    old = {**made.release.dtypes, "x": "dictionary<values=string, indices=int8, ordered=0>"}
    save_release(dataclasses.replace(made.release, dtypes=old), tmp_path / "old.margrave")
    rows = load(tmp_path / "old.margrave").sample(5, rng=0)
    assert rows.schema.field("x").type == pa.dictionary(pa.int8(), pa.string())


def test_types_that_may_follow_the_rows_are_warned_of(tmp_path: Path) -> None:
    """Two files that differ in one row give pandas frames of other types, which margrave cannot see."""
    for name, last in (("one", "7\n"), ("two", "\n")):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "3,a\n" * 40 + last.replace("\n", ",a\n"), "utf-8")
    frames = [pd.read_csv(tmp_path / f"{name}.csv") for name in ("one", "two")]
    assert frames[0]["x"].dtype != frames[1]["x"].dtype
    run = Synthesizer("independent", epsilon=4.0)
    for frame in (*frames, pl.DataFrame(frames[0])):
        assert "made by read_csv has types that follow its rows" in run.plan(frame).public
    plans = [run.plan(tmp_path / f"{name}.csv") for name in ("one", "two")]  # the way that is advised
    assert plans[0] == plans[1]
    assert "read_csv" not in str(plans[0])
    run.fit(frames[0]).report(tmp_path / "r.html")
    assert "read_csv has types that follow its rows" in (tmp_path / "r.html").read_text(encoding="utf-8")
    run.fit(tmp_path / "one.csv").report(tmp_path / "r.html")
    assert "read_csv" not in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["float32", "Float32", "float32[pyarrow]"])
def test_numbers_of_single_precision_keep_their_decimals(kind: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kg": pd.Series(np.round(rng.normal(75, 12, 4000), 1)).astype(kind)})
    made = Synthesizer("independent", epsilon=8.0).fit(frame).sample(500, rng=0)
    assert made["kg"].dtype == frame["kg"].dtype
    tenths = made["kg"].to_numpy(dtype=np.float32)
    # A tenth of single precision is the nearest of that precision, and nothing else.
    assert (tenths == np.round(tenths.astype(np.float64), 1).astype(np.float32)).mean() > 0.95


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
def test_sparse_columns_of_pandas_come_back_sparse_and_their_types_name_no_value() -> None:
    rng = np.random.default_rng(0)
    held = {
        "flag": pd.arrays.SparseArray(rng.random(800) < 0.1),
        "count": pd.arrays.SparseArray(rng.integers(0, 3, 800), fill_value=2),
        "rate": pd.arrays.SparseArray(rng.integers(0, 3, 800) / 2, fill_value=0.5),
        "word": pd.arrays.SparseArray(
            np.where(rng.random(800) < 0.2, "ill", "well").astype(object), fill_value="ill"
        ),
    }
    synthesis = Synthesizer("independent", epsilon=3.0, not_private_test_seed=1).fit(pd.DataFrame(held))
    rows = synthesis.sample(300)
    assert [rows[name].dtype.subtype.kind for name in held] == ["b", "i", "f", "O"]
    assert rows["count"].mean() == pytest.approx(1, abs=0.3)
    assert set(rows["word"].dropna()) <= {"ill", "well"}
    assert not any(
        "ill" in text or "2" in text.replace("64", "") for text in synthesis.release.dtypes.values()
    )
