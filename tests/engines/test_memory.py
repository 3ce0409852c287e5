from __future__ import annotations

import decimal
import itertools
import math
import threading
from enum import Enum
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from margrave.engines.counting import BLOCK
from margrave.engines.memory import MemoryEngine, open_source
from margrave.errors import InputError, SchemaError
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.schema import Schema
from source_values import list_values


def engine(sizes: tuple[int, ...], rows: int, seed: int = 0) -> MemoryEngine:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, rows).astype(code_dtype(size)) for size in sizes]
    return MemoryEngine(Encoded(Domain(tuple("abcdefgh"[: len(sizes)]), sizes), tuple(columns)))


@pytest.mark.parametrize("rows", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17])
def test_counts_across_blocks(rows: int) -> None:
    exact = engine((2, 300, 70_000, 5, 3), rows)
    cliques = [(), ("a",), ("c",), ("b", "a"), ("a", "c"), ("d", "e", "a"), ("e", "a", "d", "b"), ("a", "b")]
    for clique, counts in zip(cliques, exact.count(cliques), strict=True):
        shape = exact.domain.shape(clique)
        codes = [exact.encoded.column(name) for name in clique]
        flat = np.ravel_multi_index(codes, shape) if clique else np.zeros(rows, dtype=np.int64)
        expected = np.bincount(flat, minlength=math.prod(shape)).reshape(shape)
        np.testing.assert_array_equal(counts.reveal(), expected)
        assert counts.reveal().dtype == np.int64


def test_no_question_no_answer() -> None:
    assert engine((2,), 5).count([]) == []


def test_tables_are_capped() -> None:
    with pytest.raises(InputError, match="of at most 134217728 cells"):
        engine((300, 70_000, 70_000), 10).count([("a", "b", "c")])
    exact = engine((2, 300, 70_000), 10)
    small = MemoryEngine(exact.encoded, max_cells=599)
    small.count([("b",)])
    with pytest.raises(InputError, match=r"clique \('a', 'b'\) must be of at most 599 cells, got 600"):
        small.count([("b",), ("a", "b")])


def test_codes_outside_the_domain_are_refused() -> None:
    domain = Domain(("a",), (2,))
    for column in (np.array([0, 2], dtype=np.uint8), np.array([0, -1], dtype=np.int8)):
        with pytest.raises(SchemaError, match="codes of column 'a'"):
            MemoryEngine(Encoded(domain, (column,)))  # type: ignore[arg-type]


def test_counts_from_many_threads() -> None:
    exact = engine((4, 5, 6), 50_000)
    pairs = list(itertools.combinations("abc", 2))
    expected = [counts.reveal() for counts in exact.count(pairs)]
    found: list[bool] = []

    def work() -> None:
        answers = [counts.reveal() for counts in exact.count(pairs)]
        found.append(all(np.array_equal(a, b) for a, b in zip(answers, expected, strict=True)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_kept_rows_are_a_uniform_choice() -> None:
    rows = 6
    source, _ = open_source(pa.table({"who": ["x"] * rows + ["y"], "row": list(range(rows + 1))}))
    draws = 3000
    seen = np.zeros(rows + 1)
    for _ in range(draws):
        kept = [int(text) for text in list_values(source.bound_owners("who", 2), "row")[0]]
        assert len(kept) == 3
        seen[kept] += 1
    assert seen[rows] == draws
    spread = math.sqrt(draws * (1 / 3) * (2 / 3))
    assert np.abs(seen[:rows] - draws / 3).max() < 5.5 * spread


def test_bounded_keeps_texts_of_kept_rows_only() -> None:
    source, _ = open_source(pd.DataFrame({"who": [1.0, 1.0, -0.0, 0.0], "t": ["a", "b", "c", "d"]}))
    kept = source.bound_owners("who", 1)
    texts, counts = list_values(kept, "t")
    assert len(texts) == 2
    assert counts == [1, 1, 0]


def test_bounded_takes_a_million_rows() -> None:
    owners = np.random.default_rng(0).integers(0, 300_000, 1_000_000)
    source, _ = open_source(pa.table({"who": owners, "v": np.zeros(len(owners), dtype=np.int8)}))
    kept = int(source.bound_owners("who", 2).kinds("v").reveal().sum())
    assert kept == int(np.minimum(np.bincount(owners), 2).sum())


def test_pandas_columns_of_every_kind() -> None:
    frame = pd.DataFrame(
        {
            "mixed": ["a", 1, 1.5, True, None, math.nan, pd.NA, pd.NaT],
            "category": pd.Categorical(["b", "a", None, "b"] * 2, categories=["unused", "b", "a"]),
            "numbers": pd.Categorical([3, 1, 3, 1] * 2),
            "nullable": pd.array([1, None] * 4, dtype="Int16"),
            "real": pd.array([1.5, None] * 4, dtype="Float32"),
            "arrow": pd.array([1, None] * 4, dtype=pd.ArrowDtype(pa.int8())),
            "string": pd.array(["x", None] * 4, dtype="string"),
            "empty": [None] * 8,
            "sparse": pd.arrays.SparseArray([0, 0, 1, 0] * 2),
        },
        index=range(10, 18),
    )
    source, described = open_source(frame)
    kinds = {column.name: column.kind for column in source.columns}
    assert kinds == {
        **dict.fromkeys(("mixed", "category", "numbers", "string", "empty"), "unknown"),
        **dict.fromkeys(("nullable", "arrow", "sparse"), "integer"),
        "real": "real",
    }
    assert list_values(source, "mixed")[0] == ("1", "1.5", "True", "a")
    assert list_values(source, "category")[0] == ("a", "b")
    assert list_values(source, "numbers")[0] == ("1", "3")
    assert source.kinds("empty").reveal()[:3].tolist() == [8, 0, 0]
    assert source.kinds("real").reveal()[:3].tolist() == [4, 0, 4]
    assert "unused" not in str(described)
    assert described.dtypes["numbers"] == "category[int64]"


class Color(str, Enum):
    """Texts that have a spelling of their own besides."""

    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize("dtype", ["object", "category"])
@pytest.mark.parametrize(
    "more", [[], [5], [None], [math.nan, 1.5], [decimal.Decimal("NaN")], [np.float32("nan")]]
)
def test_one_object_respells_no_other(more: list[Any], dtype: str) -> None:
    """What an object's text is hangs on that object alone."""
    plain = pd.Series([Color.RED, Color.BLUE, "green", np.str_("white")], dtype=object)
    frame = pd.DataFrame({"c": pd.concat([plain, pd.Series(more, dtype=object)]).astype(dtype)})
    source, _ = open_source(frame)
    assert {"red", "blue", "green", "white"} <= set(list_values(source, "c")[0])
    assert not any("Color" in text for text in list_values(source, "c")[0])


def test_polars_columns_of_every_kind() -> None:
    frame = pl.DataFrame(
        [
            pl.Series("category", ["b", "a", None], pl.Categorical),
            pl.Series("enum", ["b", "a", None], pl.Enum(["unused", "a", "b"])),
            pl.Series("wide", [1, 2, None], pl.Int128),
            pl.Series("decimal", ["1.50", "2.00", None]).cast(pl.Decimal(6, 2)),
            pl.Series("nothing", [None] * 3, pl.Null),
            pl.Series("small", [1, 2, None], pl.UInt8),
        ]
    )
    source, described = open_source(frame)
    kinds = [column.kind for column in source.columns]
    assert kinds == ["unknown", "unknown", "real", "real", "unknown", "integer"]
    assert list_values(source, "enum")[0] == ("a", "b")
    assert source.kinds("wide").reveal()[:3].tolist() == [1, 2, 0]
    assert source.kinds("decimal").reveal()[:3].tolist() == [1, 1, 1]
    assert described.dtypes["decimal"] == "Decimal(6, 2)"
    assert "unused" not in str(described)


def test_other_ways_to_hold_a_table() -> None:
    batch = pa.record_batch({"a": [1, 2]})
    for data in (batch, nw.from_native(pl.DataFrame({"a": [1, 2]})), nw.from_native(pa.table({"a": [1, 2]}))):
        source, _ = open_source(data)
        assert source.kinds("a").reveal()[:3].tolist() == [0, 2, 0]


def test_encoded_table_from_sizes() -> None:
    table = pa.table({"a": [0, 1, 1], "b": [2, 0, 2]})
    exact = open_source(table)[0].bind(Schema.from_sizes({"a": 2, "b": 3}))
    assert exact.count([("a", "b")])[0].reveal().tolist() == [[0, 0, 1], [1, 0, 1]]


def test_only_some_columns() -> None:
    source, _ = open_source(pa.table({"a": [1], "b": ["x"], "c": [True]}))
    assert [column.name for column in source.only(["c", "a"]).columns] == ["c", "a"]
    with pytest.raises(InputError, match="columns must be among"):
        source.only(["a", "z"])


def test_columns_named_by_whole_numbers_are_named_by_their_text() -> None:
    frame = pd.DataFrame({4: [1, 2], np.int64(5): ["a", "b"], "x": [0.5, 1.0]})
    source, found = open_source(frame)
    assert [column.name for column in source.columns] == ["4", "5", "x"] == list(found.dtypes)
    chosen, _ = open_source(frame, choose=lambda names: [name for name in names if name != "4"])
    assert [column.name for column in chosen.columns] == ["5", "x"]
    assert list(frame.columns) == [4, 5, "x"]  # the caller's frame is left as it is
    with pytest.raises(InputError, match="distinct"):
        open_source(pd.DataFrame([[1, 2]], columns=[4, "4"]))


@pytest.mark.parametrize(
    "owners",
    [
        pl.Series("id", [2**60, 2**60 + 1], dtype=pl.Int128),
        pl.Series("id", [2**60, 2**60 + 1], dtype=pl.UInt128),
        pl.Series("id", ["1.00", "1.01"]).cast(pl.Decimal(30, 2)),
        pa.array([3 * 86_400_000 + 5, 3 * 86_400_000 + 9], pa.int64()).cast(pa.date64(), safe=False),
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([10**13, 10**13 + 1], pa.timestamp("s")),
        pa.array([2**60, 2**60 + 1], pa.duration("ms")),
        pa.array([1, 2], pa.time64("ns")),
    ],
)
def test_owners_that_are_not_all_told_apart_are_refused_by_their_type(owners: object) -> None:
    """Two owners that are taken for one share a cap: what is kept of one then depends on the other's rows."""
    x = [1, 2]
    table = (
        pl.DataFrame({"id": owners, "x": x})
        if isinstance(owners, pl.Series)
        else pa.table([owners, x], ["id", "x"])
    )
    source, _ = open_source(table)
    with pytest.raises(InputError, match="stored as text, whole numbers, dates or microseconds"):
        source.sizes("id", 4).reveal()


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.duration("us"), pa.time32("ms"), pa.date32()])
def test_owners_of_other_times_are_all_told_apart(kind: pa.DataType) -> None:
    source, _ = open_source(pa.table([pa.array([1, 2], kind), [1, 2]], ["id", "x"]))
    assert source.sizes("id", 1).reveal().tolist() == [2, 0]
