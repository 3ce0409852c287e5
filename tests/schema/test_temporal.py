"""Columns of dates and times: declared, saved, encoded and decoded into the type that went in."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Categorical, Date, Duration, Integer, Moment, Temporal, Time
from margrave.schema.encode import decode, encode_column
from margrave.schema.frame import stored_column
from margrave.schema.schema import Schema
from margrave.schema.storage.arrow import decode_column

RNG = np.random.default_rng(3)
START = dt.datetime(2024, 1, 30, 22, 15)
DATE = Date(name="d", lower="2024-01-01", upper=dt.date(2024, 3, 31), bins=7, missing=True)
MOMENT = Moment(name="m", lower="2024-01-01", upper=dt.datetime(2024, 4, 1), bins=7, missing=True)
ZONED = Moment(name="z", lower="2024-01-01T00:00Z", upper="2024-04-01", zone="Asia/Tokyo", missing=True)
TIME = Time(name="t", edges=("00:00", "08:30", "24:00:00"), missing=True)
DURATION = Duration(name="u", lower=dt.timedelta(hours=-1), upper=dt.timedelta(days=3), missing=True)
SCHEMA = Schema((DATE, MOMENT, ZONED, TIME, DURATION))


def table() -> pa.Table:
    moments = [START + dt.timedelta(hours=5 * step) for step in range(12)] + [None]
    utc = dt.timezone.utc
    return pa.table(
        {
            "d": pa.array([m and m.date() for m in moments]),
            "m": pa.array(moments, pa.timestamp("ms")),
            "z": pa.array([m and m.replace(tzinfo=utc) for m in moments], pa.timestamp("us", "Asia/Tokyo")),
            "t": pa.array([m and m.time() for m in moments], pa.time64("us")),
            "u": pa.array([m and m - START for m in moments], pa.duration("us")),
        }
    )


def test_a_schema_of_dates_is_saved_as_text_and_read_again() -> None:
    text = json.dumps(SCHEMA.to_json())
    assert "2024-01-01" in text
    assert "08:30:00" in text
    assert Schema.from_json(json.loads(text)) == SCHEMA
    assert DATE.labels[0] == "2024-01-01 to 2024-01-13"
    assert TIME.labels == ("00:00:00 to 08:30:00", "08:30:00 to 24:00:00", "missing")
    assert ZONED.labels[0].startswith("2024-01-01T00:00:00Z to ")


@pytest.mark.parametrize(
    "declared",
    [
        lambda: Date(name="d", lower="2024-02-30", upper="2024-03-01"),
        lambda: Date(name="d", lower="2024-03-02", upper="2024-03-01"),
        lambda: Moment(name="m", lower="yesterday", upper="2024-03-01"),
        lambda: Time(name="t", lower=[1], upper="23:00"),
        lambda: Duration(name="u", lower="1 day", upper=3),
        lambda: Time(name="t", spelling="noon"),
        lambda: Moment(name="m", spelling="00:00"),
    ],
)
def test_what_is_no_date_is_refused(declared: Any) -> None:
    with pytest.raises(SchemaError):
        declared()


@pytest.mark.parametrize("library", ["arrow", "pandas", "polars"])
def test_types_come_back(library: str) -> None:
    data: Any = table()
    schema = SCHEMA
    if library == "pandas":
        data = pd.DataFrame({name: data[name].to_pandas() for name in data.column_names})
    if library == "polars":
        data = pl.DataFrame(data)
    source, frame = open_source(data)
    encoded = source.bind(schema).encoded
    again = decode(encoded, schema, RNG, frame)
    if library == "arrow":
        assert again.schema.types == data.schema.types
    elif library == "pandas":
        assert again.dtypes.to_dict() == data.dtypes.to_dict()
    else:
        assert again.schema == data.schema
    back = open_source(again)[0].bind(schema).encoded
    for name in schema.names:
        np.testing.assert_array_equal(back.column(name), encoded.column(name), name)


def test_text_is_read_and_spelt_as_declared() -> None:
    texts = pa.array(["2024-01-05T10:00Z", "2024-02-05", None], pa.string())
    moment = Moment(
        name="m", lower="2024-01-01", upper="2024-03-01", bins=60, missing=True, spelling=" 00:00+00:00"
    )
    codes = encode_column(texts, moment)
    assert codes.tolist() == [4, 35, 60]
    spelt = decode_column(codes, moment, RNG, pa.string()).to_pylist()
    assert spelt[0].startswith("2024-01-05 ")
    assert spelt[0].endswith("+00:00")
    assert len(spelt[0]) == len("2024-01-05 10:00+00:00")
    assert spelt[2] is None
    with pytest.raises(InputError, match="made of moments"):
        encode_column(pa.array(["soon"]), moment)
    day = decode_column(
        np.array([0]), Date(name="d", lower="2024-01-05", upper="2024-01-05"), RNG, pa.string()
    )
    assert day.to_pylist() == ["2024-01-05"]


def test_a_column_may_be_declared_as_the_other_kind_of_date() -> None:
    stamps = pa.array([START, None], pa.timestamp("ns"))
    codes = encode_column(stamps, DATE)
    assert codes.tolist() == [2, 7]
    assert decode_column(codes, DATE, RNG, pa.timestamp("ns")).to_pylist()[0].hour == 0
    days = pa.array([START.date(), None])
    assert encode_column(days, MOMENT).tolist() == [2, 7]
    assert isinstance(decode_column(np.array([2]), MOMENT, RNG, pa.date32()).to_pylist()[0], dt.date)


def test_values_of_a_narrow_type_stay_inside_it() -> None:
    wide = Moment(name="m", lower="0001-01-01", upper="9999-12-31", bins=3, missing=False)
    drawn = decode_column(np.arange(3), wide, RNG, pa.timestamp("ns"))
    assert drawn.null_count == 0
    late = Date(name="d", lower="9999-12-30", upper="9999-12-31", missing=False)
    assert decode_column(np.array([0]), late, RNG).to_pylist() == [dt.date(9999, 12, 30)]


def test_dates_listed_one_by_one() -> None:
    listed = Categorical(name="d", values=("2024-01-30", "2024-01-31"), other="(other)", missing=True)
    codes = encode_column(table()["d"], listed)
    assert codes.tolist() == [0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3]
    assert decode_column(np.array([0, 2, 3]), listed, RNG, pa.date32()).to_pylist() == [
        dt.date(2024, 1, 30),
        None,
        None,
    ]


def test_numbers_declared_on_dates_are_days() -> None:
    days = Integer(name="d", lower=0, upper=20_000, bins=1, missing=False)
    column = pa.array([dt.date(1970, 1, 2)])
    assert encode_column(column, days).tolist() == [0]
    assert decode_column(np.array([0]), days, RNG, pa.date32()).type == pa.date32()


@pytest.mark.parametrize(
    ("kind", "expected", "step"),
    [
        (pa.date32(), "date", None),
        (pa.timestamp("s", "UTC"), "moment", 1e6),
        (pa.timestamp("us"), "moment", None),
        (pa.time32("ms"), "time", 1e3),
        (pa.duration("ns"), "duration", None),
        (pa.decimal128(10, 2), "real", 0.01),
        (pa.decimal128(10, 0), "integer", None),
        (pa.decimal128(38, 30), "real", None),
    ],
)
def test_storage_says_the_kind_and_the_resolution(kind: Any, expected: str, step: float | None) -> None:
    column = stored_column("x", kind)
    assert column.kind == expected
    grids = getattr(column, "grids", ())
    assert grids == (() if step is None else ((step, 1.0),))
    assert not isinstance(column, Temporal) or not column.known
