"""Public columns of every storage type come back, as the table that went in and as an Arrow table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.run import public
from margrave.run.public import attach_columns, check_types
from margrave.schema.frame import Frame

UTC = dt.timezone.utc
DAY, NOON = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)
TEXT = ["b", None, "a"]
PANDAS: dict[str, tuple[Any, Sequence[Any]]] = {
    "str": ("str", TEXT),
    "string[python]": ("string[python]", TEXT),
    "string[pyarrow]": ("string[pyarrow]", TEXT),
    "object": (object, TEXT),
    "category of str": (pd.CategoricalDtype(pd.Index(["a", "b"], dtype="str")), TEXT),
    "category of objects": (pd.CategoricalDtype(pd.Index(["a", "b"], dtype=object)), TEXT),
    "category of int64": (pd.CategoricalDtype([1, 2]), [2, None, 1]),
    "category of float64": (pd.CategoricalDtype([0.5, 2.0]), [2.0, None, 0.5]),
    "category of bool": (pd.CategoricalDtype([False, True]), [True, None, False]),
    "category of moments": (
        pd.CategoricalDtype(pd.DatetimeIndex([NOON], dtype="datetime64[us]")),
        [NOON, None],
    ),
    "int8": ("int8", [1, -2]),
    "uint64": ("uint64", [2**64 - 1, 0]),
    "Int64": ("Int64", [1, None]),
    "UInt8": ("UInt8", [1, None]),
    "float16": ("float16", [0.5, np.nan]),
    "float32": ("float32", [0.1, np.nan]),
    "Float64": ("Float64", [0.1, None]),
    "bool": ("bool", [True, False]),
    "boolean": ("boolean", [True, None]),
    "datetime64[s]": ("datetime64[s]", [NOON, None]),
    "datetime64[ns]": ("datetime64[ns]", [NOON, None]),
    "zoned": ("datetime64[us, Europe/Berlin]", [NOON, None]),
    "timedelta64[s]": ("timedelta64[s]", [dt.timedelta(hours=-5), None]),
    "sparse": (pd.SparseDtype("float64", np.nan), [0.5, np.nan]),
    **{
        f"arrow {kind}": (pd.ArrowDtype(kind), values)
        for kind, values in (
            (pa.string(), TEXT),
            (pa.int64(), [1, None]),
            (pa.bool_(), [True, None]),
            (pa.date32(), [DAY, None]),
            (pa.timestamp("ms", "UTC"), [NOON.replace(tzinfo=UTC), None]),
            (pa.decimal128(6, 2), [Decimal("1.25"), None]),
            (pa.dictionary(pa.int32(), pa.string()), TEXT),
            (pa.dictionary(pa.int32(), pa.int64()), [2, None, 1]),
        )
    },
}
POLARS: dict[str, tuple[Any, Sequence[Any]]] = {
    "String": (pl.String, TEXT),
    "Categorical": (pl.Categorical, TEXT),
    "Enum": (pl.Enum(["b", "a"]), TEXT),
    "Int8": (pl.Int8, [1, None]),
    "UInt64": (pl.UInt64, [2**64 - 1, None]),
    "Int128": (pl.Int128, [2**53, None, -(2**100)]),
    "Float32": (pl.Float32, [0.1, None]),
    "Boolean": (pl.Boolean, [True, None]),
    "Null": (pl.Null, [None]),
    "Date": (pl.Date, [DAY, None]),
    "Time": (pl.Time, [dt.time(23, 59, 59), None]),
    "Datetime(ns)": (pl.Datetime("ns"), [NOON, None]),
    "zoned": (pl.Datetime("us", "Europe/Berlin"), [NOON.replace(tzinfo=UTC), None]),
    "Duration": (pl.Duration("ms"), [dt.timedelta(hours=-5), None]),
    "Decimal": (pl.Decimal(10, 2), [Decimal("1.25"), None]),
}
ARROW: dict[str, tuple[Any, Sequence[Any]]] = {
    str(kind): (kind, values)
    for kind, values in (
        (pa.null(), [None]),
        (pa.string(), TEXT),
        (pa.large_string(), TEXT),
        (pa.string_view(), TEXT),
        (pa.int8(), [1, None]),
        (pa.uint64(), [2**64 - 1, None]),
        (pa.float16(), [np.float16(0.5), None]),
        (pa.float32(), [0.1, None]),
        (pa.bool_(), [True, None]),
        (pa.date32(), [DAY, None]),
        (pa.date64(), [DAY, None]),
        (pa.time32("s"), [dt.time(23, 59, 59), None]),
        (pa.time64("ns"), [dt.time(23, 59, 59), None]),
        (pa.timestamp("s"), [NOON, None]),
        (pa.timestamp("ns", "UTC"), [NOON.replace(tzinfo=UTC), None]),
        (pa.duration("ns"), [dt.timedelta(hours=-5), None]),
        (pa.decimal128(38, 2), [Decimal("1.25"), None]),
        (pa.decimal256(60, 0), [Decimal(7), None]),
        (pa.dictionary(pa.int32(), pa.string()), TEXT),
        (pa.dictionary(pa.int32(), pa.string_view()), TEXT),
        (pa.dictionary(pa.int32(), pa.int64()), [2, None, 1]),
        (pa.dictionary(pa.int32(), pa.bool_()), [True, None]),
        (pa.dictionary(pa.int32(), pa.date32()), [DAY, None]),
        (pa.dictionary(pa.int32(), pa.timestamp("s", "UTC")), [NOON.replace(tzinfo=UTC), None]),
        (pa.dictionary(pa.int32(), pa.duration("us")), [dt.timedelta(hours=-5), None]),
    )
}
ROWS = 12


def _cells(values: Sequence[Any]) -> list[Any]:
    return [values[row % len(values)] for row in range(ROWS)]


def _arrow_array(kind: Any, values: Sequence[Any]) -> Any:
    if not pa.types.is_dictionary(kind):
        return pa.array(_cells(values), kind)
    coded = pa.array(_cells(values), kind.value_type if kind.value_type != pa.string_view() else pa.string())
    coded = coded.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(kind.value_type))


def _fit(table: Any) -> mg.Synthesis:
    """A release of which x is private and all else public; nothing is discovered, and little is fitted."""
    run = mg.Synthesizer(
        "independent",
        epsilon=1.0,
        adjacency="replace_private",
        public=[name for name in _names(table) if name != "x"],
        schema=mg.Schema.from_sizes({"x": 2}),
    )
    return run.fit(table)


def _names(table: Any) -> list[str]:
    return list(table.column_names if isinstance(table, pa.Table) else table.columns)


def _check_again(synthesis: mg.Synthesis, folder: Path) -> pa.Table:
    """What a release gives as an Arrow table, which it gives again once it was saved, in fewer rows too."""
    rows = synthesis.sample_arrow(rng=0)
    synthesis.save(folder / "r.margrave")
    assert mg.load(folder / "r.margrave").sample_arrow(rng=0).equals(rows)
    assert synthesis.sample_arrow(3, rng=0).schema == rows.schema
    return rows


def _columns(types: Mapping[str, tuple[Any, Sequence[Any]]], make: Any) -> dict[str, Any]:
    return {**{name: make(*told) for name, told in types.items()}, "x": [0, 1] * (ROWS // 2)}


def test_types_of_pandas_come_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(_columns(PANDAS, lambda dtype, values: pd.Series(_cells(values), dtype=dtype)))
    synthesis = _fit(frame)
    rows = synthesis.sample(rng=0)
    pd.testing.assert_frame_equal(rows.drop(columns="x"), frame.drop(columns="x"))
    assert rows["object"].tolist() == _cells(TEXT)
    plain = _check_again(synthesis, tmp_path)
    assert plain.column_names == list(frame.columns)
    kinds = dict(zip(plain.column_names, plain.schema.types, strict=True))
    assert kinds["category of int64"] == pa.int64()
    assert kinds["int8"] == pa.int8()
    assert kinds["str"] == kinds["category of str"] == pa.large_string()
    assert kinds["arrow date32[day]"] == pa.date32()
    for name in ("category of int64", "category of moments", "Int64", "boolean", "str", "arrow date32[day]"):
        assert plain.column(name).to_pylist() == _cells(PANDAS[name][1])


def test_types_of_polars_come_back(tmp_path: Path) -> None:
    frame = pl.DataFrame(_columns(POLARS, lambda dtype, values: pl.Series(_cells(values), dtype=dtype)))
    synthesis = _fit(frame)
    rows = synthesis.sample(rng=0)
    assert rows.drop("x").equals(frame.drop("x"))
    assert rows.schema == frame.schema
    plain = _check_again(synthesis, tmp_path)
    assert plain.column("Categorical").to_pylist() == _cells(TEXT)
    assert plain.schema.field("Decimal").type == pa.decimal128(10, 2)
    assert plain.column("Duration").to_pylist() == _cells(POLARS["Duration"][1])


def test_types_of_arrow_come_back(tmp_path: Path) -> None:
    table = pa.table(_columns(ARROW, _arrow_array))
    synthesis = _fit(table)
    rows = synthesis.sample(rng=0)
    assert rows.schema.types == table.schema.types
    for name in ARROW:
        assert rows.column(name).to_pylist() == table.column(name).to_pylist(), name
    assert _check_again(synthesis, tmp_path).equals(rows)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.dictionary(pa.int32(), pa.string_view())])
def test_a_private_column_of_string_views_is_drawn(kind: Any) -> None:
    table = pa.table({"x": _arrow_array(kind, ["a", "b"])})
    schema = mg.Schema((mg.Categorical(name="x", values=("a", "b"), missing=False),))
    rows = mg.Synthesizer("independent", epsilon=1.0, schema=schema).fit(table).sample(20, rng=0)
    assert rows.schema.types == [kind]
    assert set(rows.column("x").to_pylist()) <= {"a", "b"}


@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), pa.timestamp("ns"), pa.int64()])
def test_values_at_the_ends_of_a_type_are_handed_out(kind: Any) -> None:
    """Storage forms round decimals and cut nanoseconds: what is kept of an end may lie beyond it."""
    most = 10**38 - 1 if pa.types.is_decimal(kind) else 2**63 - 1
    ends = pa.array([most, -most]) if kind == pa.int64() else None
    if pa.types.is_timestamp(kind):
        ends = pa.array([most, -most]).cast(kind)
    table = pa.table({"p": pa.array([Decimal(most), Decimal(-most)], kind) if ends is None else ends})
    synthesis = _fit(table.append_column("x", pa.array([0, 1])))
    assert synthesis.sample(rng=0).column("p").type == kind


def test_a_type_that_cannot_be_handed_out_is_refused_before_a_ledger_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise pa.ArrowNotImplementedError("no such cast")

    monkeypatch.setattr(public, "restore_column", fail)
    run = mg.Synthesizer(
        epsilon=1.0, public=["p"], adjacency="replace_private", ledger=tmp_path / "ledger.jsonl"
    )
    for act in (run.fit, run.plan):
        with pytest.raises(InputError, match="public must be of columns whose storage type") as found:
            act(pa.table({"p": ["a"] * 9, "x": [0] * 9}))
        assert found.value.__context__ is None
    assert not list(tmp_path.iterdir())


def test_an_unknown_type_of_an_extension_is_refused() -> None:
    with pytest.raises(InputError, match="'p'"):
        check_types(Frame("pandas", {"p": "category[no such type]"}), ["p"])


def test_a_given_table_of_other_types_takes_those_of_the_release() -> None:
    given = pa.table({"p": pa.array([1, None])})
    rows = pd.DataFrame({"x": [0, 1]})
    made = attach_columns(rows, given, "pandas", {"p": "int64", "x": "int64"})
    assert str(made["p"].dtype) == "Int64"
