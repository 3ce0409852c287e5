"""What every kind of columns does: codes and values, schema.json, frames, values outside, a release, a CSV.

A new kind is asked the same as soon as it is in `COLUMN_KINDS`; it adds its line to `EXAMPLES`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import margrave as mg
from margrave.measure.discovery.kinds import votes_on_numbers
from margrave.measure.discovery.values import steps_of
from margrave.schema.columns import Binned, Column, Listed
from margrave.schema.columns.binned import SpeltNumber
from margrave.schema.encode import decode, encode, encode_column
from margrave.schema.encoded import Encoded
from margrave.schema.frame import Frame
from margrave.schema.schema import COLUMN_KINDS, Schema

DAY, NOON = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)
EXAMPLES: dict[str, tuple[Column, list[Any], list[int]]] = {
    "boolean": (mg.Boolean(name="a", missing=True), [True, False, None], [1, 0, 2]),
    "categorical": (
        mg.Categorical(
            name="a", values=("x",), prefixes=("y",), endings=("[0-9]",), patterns=("z[0-9]",), missing=True
        ),
        ["x", "y1", "z2", None],
        [0, 1, 2, 3],
    ),
    "date": (mg.Date(name="a", lower="2024-01-01", upper="2024-12-31", missing=True), [DAY, None], [5, 32]),
    "duration": (
        mg.Duration(name="a", lower=dt.timedelta(0), upper=dt.timedelta(hours=1), missing=True),
        [dt.timedelta(minutes=5), None],
        [2, 32],
    ),
    "integer": (mg.Integer(name="a", lower=0, upper=9, missing=True), [3, 9, None], [3, 9, 10]),
    "moment": (
        mg.Moment(name="a", lower="2024-01-01T00:00", upper="2024-12-31T23:59", missing=True),
        [NOON, None],
        [5, 32],
    ),
    "ordinal": (mg.Ordinal(name="a", values=("low", "high"), missing=True), ["high", "low", None], [1, 0, 2]),
    "real": (mg.Real(name="a", lower=0.0, upper=1.0, missing=True), [0.25, 0.75, None], [8, 24, 32]),
    "time": (
        mg.Time(name="a", lower="08:00", upper="18:00", missing=True),
        [dt.time(12, 30), None],
        [14, 32],
    ),
}
"""By the name of a kind a known column of it that may be missing, cells that fit it, and their codes by
hand."""
WITHOUT = {
    "identifier": "has no codes",
    "omitted": "has no codes",
    "relative": "is coded together with another column: tests/schema/test_relative.py",
    "unknown": "is what discovery replaces",
}
"""Kinds that cannot be asked so, and why."""
KIND = pytest.mark.parametrize("kind", sorted(EXAMPLES))


def _table(kind: str, times: int = 1) -> tuple[pa.Table, Schema]:
    column, cells, _ = EXAMPLES[kind]
    return pa.table({"a": pa.array(cells * times)}), Schema((column,))


def test_every_kind_has_an_example_or_a_reason() -> None:
    lacking = set(COLUMN_KINDS) - set(EXAMPLES) - set(WITHOUT)
    assert not lacking, f"add a line to EXAMPLES in {__file__} for {sorted(lacking)}"
    assert not set(EXAMPLES) & set(WITHOUT)
    assert set(EXAMPLES) | set(WITHOUT) <= set(COLUMN_KINDS)


@KIND
def test_cells_have_codes_and_a_missing_one_the_last(kind: str) -> None:
    table, schema = _table(kind)
    codes = encode(table, schema).column("a")
    assert codes.tolist() == EXAMPLES[kind][2]
    assert codes[-1] == schema["a"].missing_code == schema["a"].size - 1
    assert (codes[:-1] < schema["a"].present).all()


@KIND
@pytest.mark.parametrize("frame", ["arrow", "pandas", "polars"])
def test_all_codes_come_back_as_themselves(kind: str, frame: str) -> None:
    """Decoded for a frame of each sort and encoded again, each code is what it was."""
    if frame != "arrow":
        pytest.importorskip(frame)
    _, schema = _table(kind)
    codes = np.repeat(np.arange(schema["a"].size), 20).astype(np.int32)
    table = decode(Encoded(schema.domain, (codes,)), schema, np.random.default_rng(0), Frame(frame))
    if frame == "pandas":
        table = pa.Table.from_pandas(table, preserve_index=False)
    elif frame == "polars":
        table = table.to_arrow()
    assert encode(table, schema).column("a").tolist() == codes.tolist()


STORED = {"integer": ("int16", "double", "decimal128(9, 2)", "string"), "real": ("double", "float", "string")}
"""Storage types beside the kind's own that a column may be kept in, by kind."""


@pytest.mark.parametrize(("kind", "dtype"), [(kind, dtype) for kind in STORED for dtype in STORED[kind]])
def test_all_codes_come_back_from_every_storage(kind: str, dtype: str) -> None:
    _, schema = _table(kind)
    codes = np.repeat(np.arange(schema["a"].size), 50).astype(np.int32)
    frame = Frame(dtypes={"a": dtype})
    table = decode(Encoded(schema.domain, (codes,)), schema, np.random.default_rng(0), frame)
    assert str(table.schema.field("a").type) == dtype
    assert encode(table, schema).column("a").tolist() == codes.tolist()


@KIND
def test_a_beginning_is_never_written_as_its_label(kind: str) -> None:
    """What decoding writes is what cells hold: no sign of a label's own."""
    _, schema = _table(kind)
    column = schema["a"]
    if not isinstance(column, Listed):
        return
    codes = np.arange(column.size).astype(np.int32)
    written = (
        decode(Encoded(schema.domain, (codes,)), schema, np.random.default_rng(0)).column("a").to_pylist()
    )
    assert not any("\N{HORIZONTAL ELLIPSIS}" in str(cell) for cell in written)


@KIND
def test_schema_json_brings_it_back(kind: str, tmp_path: Path) -> None:
    _, schema = _table(kind)
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema


@KIND
def test_what_lies_outside_is_absorbed_and_never_an_error(kind: str) -> None:
    """A value that is not listed has the code of `other`; truth values have none, and count as False."""
    column = EXAMPLES[kind][0].absorb_outside()
    assert not column.strict
    if isinstance(column, Binned):
        far = pa.array(["9999-12-31"] if kind in ("date", "moment") else ["1e9"])
        assert 0 <= int(encode_column(far, column)[0]) < column.size
    elif isinstance(column, Listed):
        code = int(encode_column(pa.array(["seen by nobody"]), column)[0])
        assert code == (0 if kind == "boolean" else column.other_code)


@pytest.mark.parametrize(
    ("kind", "lower", "upper"),
    [
        ("date", "2024-02-20", "2024-03-05"),
        ("date", "1924-02-20", "2024-03-05"),
        ("duration", dt.timedelta(0), dt.timedelta(hours=1)),
        ("integer", 3, 1000),
        ("moment", "2024-02-29 11:00", "2024-02-29 13:30"),
        ("moment", "2001-02-20 11:00", "2024-02-29 13:30"),
        ("real", 0.25, 1e6),
        ("time", "12:10", "12:50"),
    ],
)
def test_ranges_found_under_much_noise_lie_within_declared_bounds(kind: str, lower: Any, upper: Any) -> None:
    """Before, times were looked for over the whole day, and moments over whole days."""
    example, cells, _ = EXAMPLES[kind]
    declared = type(example)(name="a", lower=lower, upper=upper, missing=True)
    assert isinstance(declared, Binned)
    rows = pa.table({"a": pa.array(cells[-2:] * 30)})
    for _ in range(4):
        made = mg.Synthesizer("independent", epsilon=0.3, schema=Schema((declared,))).fit(rows)
        found = made.schema["a"]
        assert isinstance(found, Binned)
        assert declared.lower <= found.lower <= found.upper <= declared.upper
        assert encode(made.sample_arrow(200, rng=0), Schema((declared,))).rows == 200  # strict


@KIND
def test_a_release_and_its_rows_pass_through_files(kind: str, tmp_path: Path) -> None:
    """From a CSV to a release, its file, and a CSV whose cells the same schema accepts."""
    table, schema = _table(kind, times=40)
    table = table.append_column("b", pa.array(["left", "right"] * (table.num_rows // 2)))
    schema = Schema((*schema.columns, mg.Categorical(name="b", values=("left", "right"), missing=False)))
    csv.write_csv(table, tmp_path / "in.csv")
    made = mg.Synthesizer("independent", epsilon=5.0, schema=schema)
    first = made.fit(tmp_path / "in.csv")
    first.save(tmp_path / "r.margrave")
    again = mg.load(tmp_path / "r.margrave")
    assert again.schema == first.schema
    rows = again.sample(50, rng=0)
    assert rows.equals(first.sample(50, rng=0))
    csv.write_csv(rows, tmp_path / "out.csv")
    assert made.fit(tmp_path / "out.csv").release.total > 0  # strict: a foreign cell would be refused


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Dose(SpeltNumber):
    """Numbers of a kind from elsewhere, which decides as little as it may."""

    kind: ClassVar[str] = "dose"

    def _equal_width(self) -> tuple[float, ...]:
        assert self.lower is not None
        assert self.upper is not None
        return tuple(np.linspace(self.lower, self.upper, (self.bins or 32) + 1).tolist())

    def _number(self, value: float) -> float:
        return float(value)


def test_numbers_of_ones_own_are_spelt_and_looked_at_as_others_are() -> None:
    """As a `Real` is: with its decimals, and with the greatest declared number in a cell of its own."""
    made = []
    for kind in (Dose, mg.Real):
        column = kind(name="a", lower=0.0, upper=2.0, bins=4, missing=False, spelling="0.0")
        table = decode(
            Encoded(Schema((column,)).domain, (np.zeros(3, np.int32),)),
            Schema((column,)),
            np.random.default_rng(0),
        )
        ending = dataclasses.replace(column, edges=(0.0, 2.0, math.nextafter(2.0, 3.0)))
        open_one = kind(name="a")
        made.append(
            (table.schema.field("a").metadata, ending.upper, steps_of(open_one), votes_on_numbers(open_one))
        )
    assert made[0] == made[1]
    assert made[0] == ({b"spelling": b"0.0"}, 2.0, made[1][2], True)
