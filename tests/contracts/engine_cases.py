"""Tables of the engine contract as columns of Python values, and their counts by hand."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Integer,
    Listed,
    Ordinal,
    Real,
)
from margrave.schema.schema import Schema
from margrave.schema.storage.text import TextFormat

COMMAS = TextFormat(separator=",")
"""Said, because the header of a table of one column does not show it."""

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
