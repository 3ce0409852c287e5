"""What every source and engine promises, whatever kind of table it was opened from."""

from __future__ import annotations

import csv
import itertools
import math
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from margrave.engines.memory import open_source
from margrave.schema.columns import Binned, Boolean, Categorical, Column, Integer, Listed, Ordinal, Real
from margrave.schema.decode import decode
from margrave.schema.schema import Schema

SOURCES = ("pandas", "polars", "arrow", "csv", "parquet")

Columns = dict[str, tuple[str, list[Any]]]
"""Storage kind ("text", "int", "float" or "bool") and values of each column."""

ARROW = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
PANDAS = {"text": "object", "int": "Int64", "float": "float64", "bool": "boolean"}
POLARS = {"text": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}


def make(source: str, columns: Columns, folder: Path) -> Any:
    """The table as one kind of source; a file is named by its path."""
    if source == "pandas":
        return pd.DataFrame({name: pd.Series(v, dtype=PANDAS[kind]) for name, (kind, v) in columns.items()})
    if source == "polars":
        return pl.DataFrame([pl.Series(name, v, POLARS[kind]) for name, (kind, v) in columns.items()])
    if source == "csv":
        path = folder / "table.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(v for _, v in columns.values()), strict=True))
        return path
    table = pa.table({name: pa.array(v, ARROW[kind]) for name, (kind, v) in columns.items()})
    if source == "arrow":
        return table
    pq.write_table(table, folder / "table.parquet")
    return folder / "table.parquet"


def brute_codes(values: list[Any], column: Column) -> list[int]:
    """The code of each value, one by one."""
    listed = column.values or () if isinstance(column, Listed) else ()
    places = {value: code for code, value in enumerate(listed)}
    return [_code(value, column, places) for value in values]


def _code(value: Any, column: Column, places: dict[Any, int]) -> int:
    nothing = column.missing_code
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        assert nothing is not None
        return nothing
    if isinstance(column, Boolean):
        return int(value)
    if isinstance(column, Listed):
        code = places.get(value, column.other_code)
        assert code is not None
        return code
    assert isinstance(column, Binned)
    assert column.edges is not None
    number = math.floor(value) if isinstance(column, Integer) else value
    for code in range(column.present - 1):
        if number < column.edges[code + 1]:
            return code
    return column.present - 1


def brute_counts(columns: Columns, schema: Schema, clique: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """The clique's table, counted one row at a time."""
    codes = [brute_codes(columns[name][1], schema[name]) for name in clique]
    rows = len(next(iter(columns.values()))[1])
    table = np.zeros(schema.domain.shape(clique), dtype=np.int64)
    for cell, count in Counter(zip(*codes, strict=True) if codes else [()] * rows).items():
        table[cell] = count
    return table


INF, NAN = float("inf"), float("nan")
ODD = [
    'say "hi"',
    "a, b",
    "two\nlines",
    "Zürich 東京 🏰",
    "it's",
    "'; DROP TABLE t; --",
    "NULL",
    "nan",
    "\\N",
]


def text(name: str, values: list[str], **more: Any) -> Column:
    return Categorical(name=name, values=tuple(values), **{"missing": False, **more})


CASES: dict[str, tuple[dict[str, tuple[str, list[Any]]], list[Column]]] = {
    "odd text": (
        {"t": ("text", [*ODD, *ODD[::2], None]), "n": ("int", list(range(len(ODD) + 6)))},
        [
            text("t", ODD[:-2], other="(other)", missing=True),
            Integer(name="n", lower=0, upper=14, missing=False),
        ],
    ),
    "numbers": (
        {
            "i": ("int", [0, 1, None, -5, 7, 7, 2**31, 3]),
            "r": ("float", [0.0, -0.0, NAN, INF, -INF, 1e-300, 0.1, None]),
            "b": ("bool", [True, None, False, False, True, True, None, True]),
            "o": ("text", ["lo", "hi", "mid", None, "lo", "lo", "hi", "mid"]),
        },
        [
            Integer(name="i", edges=(-5, 0, 1, 4, 2**31 + 1), missing=True),
            Real(name="r", edges=(-1.0, 0.0, 0.05, 0.1, 0.2), missing=True, strict=False),
            Boolean(name="b", missing=True),
            Ordinal(name="o", values=("lo", "mid", "hi"), missing=True),
        ],
    ),
    "outside": (
        {
            "i": ("int", [-100, 0, 5, 10, 100]),
            "r": ("float", [-0.5, 0.0, 0.99, 1.0, 1.5]),
            "t": ("text", ["a", "b", "c", "d", "e"]),
            "w": ("float", [2.5, 2.0, -2.5, 0.5, 9.0]),
        },
        [
            Integer(name="i", lower=0, upper=10, bins=4, missing=False, strict=False),
            Real(name="r", lower=0, upper=1, bins=4, missing=False, strict=False),
            text("t", ["b", "d"], other="rest", strict=False),
            Integer(name="w", edges=(-3, -2, 0, 2, 3), missing=False, strict=False),
        ],
    ),
    "empty": (
        {"a": ("text", []), "b": ("float", [])},
        [text("a", ["x"]), Real(name="b", lower=0, upper=1, bins=2, missing=True)],
    ),
    "one row": ({"a": ("text", ["x"]), "b": ("int", [3])}, [text("a", ["x", "y"]), text("b", [3, 4])]),  # type: ignore[list-item]
    "one column": ({"a": ("text", ["x", "y", "x"])}, [text("a", ["y", "x"])]),
    "constant": ({"a": ("int", [7] * 50), "b": ("text", ["k"] * 50)}, [text("a", [7]), text("b", ["k"])]),  # type: ignore[list-item]
    "all missing": (
        {"a": ("text", [None] * 4), "b": ("float", [None] * 4), "c": ("int", [1, 2, 1, 2])},
        [
            text("a", [], missing=True),
            Real(name="b", lower=0, upper=1, bins=1, missing=True),
            Integer(name="c", lower=1, upper=2, missing=False),
        ],
    ),
    "ten thousand categories": (
        {"a": ("text", [f"v{i * 7919 % 10_000}" for i in range(20_000)]), "b": ("int", [0, 1] * 10_000)},
        [text("a", [f"v{i}" for i in range(9_900)], other="(other)"), text("b", [0, 1])],  # type: ignore[list-item]
    ),
    "keywords": (
        {
            "select": ("text", ["a", "b", "a"]),
            "from": ("int", [1, 2, 2]),
            "order by": ("float", [0.5, 1.5, 0.5]),
            'x"; --': ("text", ["p", "p", "q"]),
            "group, by": ("bool", [True, False, True]),
        },
        [
            text("select", ["a", "b"]),
            Integer(name="from", lower=1, upper=2, missing=False),
            Real(name="order by", lower=0, upper=2, bins=2, missing=False),
            text('x"; --', ["p", "q"]),
            Boolean(name="group, by", missing=False),
        ],
    ),
}

every_source = pytest.mark.parametrize("source", SOURCES)
every_case = pytest.mark.parametrize("case", list(CASES))


@every_source
@every_case
def test_counts_equal_brute_force(source: str, case: str, tmp_path: Path) -> None:
    columns, declared = CASES[case]
    schema = Schema(tuple(declared))
    engine = open_source(make(source, columns, tmp_path))[0].bind(schema)
    cliques = [c for order in range(4) for c in itertools.permutations(schema.names, order)]
    cliques = [c for c in cliques if schema.domain.size(c) <= 1_000_000]
    assert engine.domain == schema.domain
    for clique, counts in zip(cliques, engine.count(cliques), strict=True):
        np.testing.assert_array_equal(counts.reveal(), brute_counts(columns, schema, clique), str(clique))


@every_source
@every_case
def test_round_trip(source: str, case: str, tmp_path: Path) -> None:
    columns, declared = CASES[case]
    schema = Schema(tuple(declared))
    data = make(source, columns, tmp_path)
    private, frame = open_source(data)
    encoded = private.bind(schema).encoded
    table = decode(encoded, schema, np.random.default_rng(1), frame)
    if source == "pandas":
        assert isinstance(table, pd.DataFrame)
        assert table.dtypes.to_dict() == data.dtypes.to_dict()
    elif source == "polars":
        assert isinstance(table, pl.DataFrame)
        assert table.schema == data.schema
    else:
        assert isinstance(table, pa.Table)
    if source in ("arrow", "parquet"):
        assert [str(kind) for kind in table.schema.types] == list(frame.dtypes.values())
    again, _ = open_source(table)
    assert [column.name for column in again.columns] == list(columns)
    assert len(table) == encoded.rows
    for column, codes in zip(schema.columns, again.bind(schema).encoded.columns, strict=True):
        expected = brute_codes(columns[column.name][1], column)
        assert codes.tolist() == expected, column.name


@every_source
def test_values_survive(source: str, tmp_path: Path) -> None:
    columns = {"t": ("text", ODD), "n": ("int", list(range(len(ODD))))}
    schema = Schema((text("t", sorted(ODD)), Integer(name="n", lower=0, upper=20, bins=99, missing=False)))
    private, frame = open_source(make(source, columns, tmp_path))
    table = decode(private.bind(schema).encoded, schema, np.random.default_rng(0), frame)
    assert list(table["t"].to_pylist() if isinstance(table, pa.Table) else table["t"]) == ODD
    assert list(table["n"].to_pylist() if isinstance(table, pa.Table) else table["n"]) == list(
        range(len(ODD))
    )


@every_source
def test_source_answers(source: str, tmp_path: Path) -> None:
    columns = {
        "t": ("text", ["b", "a", "b", None, "12", "1_0"]),
        "r": ("float", [1.0, 2.5, NAN, INF, 2.0**60, -3.0]),
        "b": ("bool", [True, True, None, False, True, True]),
    }
    private, _ = open_source(make(source, columns, tmp_path))
    assert private.kinds("t").reveal().tolist() == [1, 1, 0, 4]
    texts, counts = private.values("t")
    assert dict(zip(texts, counts.reveal().tolist(), strict=True)) == {"b": 2, "a": 1, "12": 1, "1_0": 1}
    nan_is_text = source == "csv"
    assert private.kinds("r").reveal().tolist() == ([0, 2, 2, 2] if nan_is_text else [2, 2, 2, 0])
    assert private.histogram("r", np.array([0.0, 1.0, 2.5])).reveal().tolist() == [1, 3]
    names, counts = private.values("b")
    found = {name.lower(): n for name, n in zip(names, counts.reveal().tolist(), strict=True)}
    assert found == {"true": 4, "false": 1}


@every_source
def test_bounded_keeps_at_most(source: str, tmp_path: Path) -> None:
    owners = [i % 7 for i in range(100)] + [99]
    columns = {"who": ("int", owners), "row": ("int", list(range(101)))}
    private, _ = open_source(make(source, columns, tmp_path))
    kept = private.bounded("who", 3)
    assert [column.name for column in kept.columns] == ["row"]
    rows = [int(value) for value in kept.values("row")[0]]
    held = [owners[row] for row in rows]
    assert {owner: held.count(owner) for owner in set(held)} == {**dict.fromkeys(range(7), 3), 99: 1}


@every_source
def test_nothing_private_shows(source: str, tmp_path: Path) -> None:
    columns = {"t": ("text", ["CANARY", "x"]), "n": ("int", [987654321, 1])}
    schema = Schema((text("t", ["CANARY", "x"]), Integer(name="n", lower=0, upper=10**9, missing=False)))
    private, frame = open_source(make(source, columns, tmp_path))
    engine = private.bind(schema)
    for thing in (private, engine, engine.encoded, engine.count([("t",)])[0], frame, private.columns):
        shown = f"{thing!r} {thing!s}"
        assert "CANARY" not in shown
        assert "987654321" not in shown
    for thing in (private, engine, engine.count([("t",)])[0]):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)


@every_source
def test_storage_decides_kinds(source: str, tmp_path: Path) -> None:
    columns = {"t": ("text", ["1"]), "i": ("int", [1]), "r": ("float", [1.0]), "b": ("bool", [True])}
    private, frame = open_source(make(source, columns, tmp_path))
    kinds = [column.kind for column in private.columns]
    assert kinds == (["unknown"] * 4 if source == "csv" else ["categorical", "integer", "real", "boolean"])
    assert all(column.missing is None for column in private.columns)
    assert not any(column.known for column in private.columns if not isinstance(column, (Boolean, Binned)))
    assert list(frame.dtypes) == list(columns)
