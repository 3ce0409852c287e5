from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import MissingExtraError, SchemaError
from margrave.schema.columns import Boolean, Categorical, Column, Integer, Ordinal, Real
from margrave.schema.encode import decode, encode_column
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema
from margrave.schema.storage.arrow import NAMED, arrow_type, decode_column
from margrave.schema.storage.clock import is_temporal

RNG = np.random.default_rng(5)


def one(column: Column, codes: list[int], kind: str = "arrow", dtype: str | None = None) -> Any:
    """A table of one column, decoded."""
    schema = Schema((column,))
    array = np.array(codes, dtype=code_dtype(column.size))
    frame = Frame(kind, {} if dtype is None else {column.name: dtype})
    return decode(Encoded(schema.domain, (array,)), schema, RNG, frame)


INT = Integer(name="x", lower=5, upper=7, missing=True)
REAL = Real(name="x", lower=0.25, upper=9.75, bins=3, missing=True)
BOOL = Boolean(name="x", missing=True)
TEXT = Categorical(name="x", values=("1", "b"), other="(other)", missing=True)
FULL_INT, FULL_BOOL = Integer(name="x", lower=5, upper=7, missing=False), Boolean(name="x", missing=False)


@pytest.mark.parametrize(
    ("column", "dtype", "expected"),
    [
        *[(FULL_INT, t, t) for t in ("int8", "int64", "uint16", "float32", "Int32", "UInt8", "Float64")],
        *[(INT, t, t.replace("int", "Int")) for t in ("int8", "int64", "Int16")],
        *[(INT, "uint16", "UInt16"), (INT, "float32", "float32"), (REAL, "float16", "float16")],
        *[(REAL, "float64", "float64"), (REAL, "Float32", "Float32"), (REAL, "int64", "Int64")],
        *[(FULL_BOOL, "bool", "bool"), (BOOL, "bool", "boolean"), (BOOL, "boolean", "boolean")],
        *[(TEXT, "object", "object"), (TEXT, "str", "str" if int(pd.__version__[0]) > 2 else "object")],
        (TEXT, "string[python]", "string"),
        (TEXT, "int64", "Int64"),
    ],
)
def test_pandas_types(column: Column, dtype: str, expected: str) -> None:
    table = one(column, list(range(column.size)), "pandas", dtype)
    assert str(table["x"].dtype) == expected
    assert table["x"].isna().sum() == (
        0 if not column.missing else 3 if dtype == "int64" and column is TEXT else 1
    )


def test_pandas_arrow_and_category_types() -> None:
    table = one(INT, [0, 3], "pandas", "arrow[int16]")
    assert table["x"].dtype == pd.ArrowDtype(pa.int16())
    table = one(TEXT, [3, 1, 2, 0], "pandas", "category[str]")
    assert table["x"].cat.categories.tolist() == ["1", "b", "(other)"]
    assert table["x"].isna().tolist() == [True, False, False, False]
    numbers = Categorical(name="x", values=("3", "1"), missing=False)
    assert one(numbers, [1, 0], "pandas", "category[int64]")["x"].tolist() == [1, 3]
    order = Ordinal(name="x", values=("lo", "hi"), missing=False)
    assert one(order, [1, 0], "pandas", "category[object]")["x"].cat.ordered
    assert set(one(FULL_INT, [0, 2], "pandas", "category[int64]")["x"]) == {5, 7}


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        *[(INT, t) for t in ("Int8", "Int16", "Int64", "UInt8", "UInt64", "Int128", "Float32", "Float64")],
        *[(REAL, t) for t in ("Float32", "Float64", "Int32", "Decimal(10, 2)", "String")],
        *[(BOOL, t) for t in ("Boolean", "String", "Int8", "Null")],
        *[(TEXT, t) for t in ("String", "Categorical", "Enum", "Null")],
    ],
)
def test_polars_types(column: Column, dtype: str) -> None:
    from margrave.schema.storage.polars import dtype_text

    table = one(column, list(range(column.size)), "polars", dtype)
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["x"]
    assert dtype_text(table["x"].dtype) == dtype
    assert table["x"].null_count() == (column.size if dtype == "Null" else 1)


ARROW_TYPES = [
    *(*NAMED.values(), pa.decimal128(12, 3), pa.decimal256(40, 0), pa.dictionary(pa.int8(), pa.string())),
    *(pa.dictionary(pa.int32(), pa.int64(), ordered=True), pa.dictionary(pa.int32(), pa.string_view())),
]
DECODED = [(column, kind) for column in (INT, REAL, BOOL, TEXT) for kind in ARROW_TYPES]


# Dates and times are whole numbers of their unit.
@pytest.mark.parametrize(
    ("column", "kind"),
    [(column, kind) for column, kind in DECODED if column is not REAL or not is_temporal(kind)],
)
def test_arrow_types(column: Column, kind: Any) -> None:
    assert arrow_type(str(kind)) == kind
    table = one(column, list(range(column.size)), "arrow", str(kind))
    assert table.schema.field("x").type == kind
    assert table["x"].to_pylist()[-1] is None
    table.validate(full=True)


def test_types_that_columns_suggest() -> None:
    natural = {column: one(column, [0]).schema.field("x").type for column in (INT, REAL, BOOL, TEXT)}
    assert list(natural.values()) == [pa.int64(), pa.float64(), pa.bool_(), pa.large_string()]
    assert one(Categorical(name="x", values=(3, 5), missing=False), [1]).to_pydict() == {"x": [5]}
    assert one(Categorical(name="x", values=(3, 0.5), missing=False), [1]).to_pydict() == {"x": [0.5]}
    assert one(TEXT, [2, 3, 0]).to_pydict() == {"x": ["(other)", None, "1"]}


def test_storage_limits_hold() -> None:
    wide = Integer(name="x", edges=(-(10**6), 0, 10**6), missing=False)
    for dtype in ("int8", "uint8", "uint64"):
        drawn = one(wide, [0, 1] * 50, "arrow", dtype)["x"].to_pylist()
        assert min(drawn) >= (-128 if dtype == "int8" else 0)
        assert max(drawn) <= {"int8": 127, "uint8": 255, "uint64": 10**6}[dtype]
    tall = Real(name="x", edges=(-1e300, 1e300), missing=False)
    for dtype in ("float", "halffloat", "decimal128(5, 2)", "int64"):
        assert all(
            np.isfinite(float(value)) for value in one(tall, [0] * 50, "arrow", dtype)["x"].to_pylist()
        )
    # Of few digits, a number beside a bound may be rounded beyond it; 1.1 as a decimal is the bound itself.
    for bounds in ((0.6, 359.9), (1.1, 2.3), (-2.3, 0.999)):
        tight = Real(name="x", edges=bounds, missing=False)
        for dtype in ("halffloat", "decimal128(9, 0)", "decimal128(9, 1)", "decimal128(9, 2)"):
            table = one(tight, [0] * 2000, "arrow", dtype)
            assert (encode_column(table["x"], tight) == 0).all()
            drawn = np.array([float(value) for value in table["x"].to_pylist()])
            near = 0.01 * (bounds[1] - bounds[0]) + {"halffloat": 0.3, "decimal128(9, 0)": 1.0}.get(
                dtype, 0.1
            )
            assert drawn.min() <= bounds[0] + near
            assert drawn.max() >= bounds[1] - near
    named = Categorical(name="x", values=("300", "7", "x", "1e400"), missing=False)
    assert one(named, [0, 1, 2, 3], "arrow", "int8").to_pydict() == {"x": [None, 7, None, None]}


def test_columns_come_back_in_the_order_of_the_frame() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 2, "c": 2})
    encoded = Encoded(schema.domain, tuple(np.array([i % 2], dtype=np.uint8) for i in range(3)))
    table = decode(encoded, schema, RNG, Frame("arrow", {"c": "int64", "gone": "int8", "a": "int8"}))
    assert table.column_names == ["c", "a", "b"]
    assert table.to_pylist() == [{"c": 0, "a": 0, "b": 1}]


def test_fine_cells_are_drawn_by_weight() -> None:
    column = Integer(
        name="x",
        edges=(0, 10, 20, 30),
        fine=(0, 1, 5, 10, 12, 20, 30),
        weights=(6.0, 0.0, 2.0, 0.0, 0.0, 1.0),
        missing=False,
    )
    rows = 40_000
    codes = np.repeat(np.arange(3, dtype=np.uint8), rows)
    drawn = np.asarray(decode_column(codes, column, np.random.default_rng(0)))
    first, second, third = drawn.reshape(3, rows)
    assert abs((first == 0).mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / rows)
    assert set(first) == {0, 5, 6, 7, 8, 9}
    for part, low in ((second, 10), (third, 20)):  # a bin without weight is drawn evenly
        frequency = np.bincount(part - low, minlength=10) / rows
        assert np.abs(frequency - 0.1).max() < 5 * np.sqrt(0.09 / rows)


def test_reals_are_uniform_inside_a_cell() -> None:
    column = Real(name="x", edges=(0.0, 2.0), fine=(0.0, 0.5, 2.0), weights=(1.0, 1.0), missing=False)
    drawn = np.asarray(decode_column(np.zeros(40_000, dtype=np.uint8), column, np.random.default_rng(0)))
    low = drawn[drawn < 0.5]
    assert abs(len(low) - 20_000) < 500
    assert np.abs(np.quantile(low, [0.25, 0.5, 0.75]) - [0.125, 0.25, 0.375]).max() < 0.01


@given(
    edges=st.lists(st.floats(-1e9, 1e9, width=64), min_size=2, max_size=9, unique=True).map(sorted),
    whole=st.booleans(),
    single=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_decoded_values_encode_to_the_same_codes(
    edges: list[float], whole: bool, single: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    if whole:
        edges = sorted({round(edge) for edge in edges} | {2 * 10**9})
        column: Column = Integer(name="x", edges=tuple(edges), missing=True)
    else:
        if single:
            gap = np.diff(np.float32(edges))
            if not (gap > 4 * np.spacing(np.float32(max(map(abs, edges))))).all():
                return
        column = Real(name="x", edges=tuple(edges), missing=True)
    codes = rng.integers(0, column.size, 200).astype(code_dtype(column.size))
    kind = pa.float32() if single and not whole else None
    values = decode_column(codes, column, rng, kind)
    np.testing.assert_array_equal(encode_column(values, column), codes)


def test_another_domain_is_refused() -> None:
    schema = Schema.from_sizes({"a": 2})
    with pytest.raises(SchemaError, match="under the schema's domain"):
        decode(Encoded(schema.domain, (np.zeros(1, dtype=np.uint8),)), Schema.from_sizes({"a": 3}), RNG)


def test_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'margrave\[polars\]'"):
        one(INT, [0], "polars", "Int64")


def test_odd_descriptions_are_refused() -> None:
    with pytest.raises(SchemaError, match="kind must be one of"):
        Frame("spark")
    with pytest.raises(SchemaError, match="dtype must be"):
        one(INT, [0], "arrow", "list<int64>")
