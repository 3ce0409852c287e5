"""Every storage type goes from raw table to rows of that type, whatever its values and however few."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from margrave.files import write_table
from margrave.run.synthesizer import Synthesizer

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
    "dates in a dictionary": (pa.dictionary(pa.int8(), pa.date32()), [dt.date(2020, 1, 1)]),
}


@pytest.mark.parametrize("rows", [0, 1, 900])
@pytest.mark.parametrize("name", TYPES)
def test_the_type_comes_back(name: str, rows: int, tmp_path: Path) -> None:
    kind, values = TYPES[name]
    cells = [None if row % 3 == 1 else values[row % len(values)] for row in range(rows)]
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array(cells, inner)
    if inner is not kind:
        column = column.dictionary_encode().cast(kind)
    table = pa.table({"x": column})
    made = Synthesizer("independent", epsilon=4.0).fit(table).sample(30, rng=0)
    assert made.schema.types == [kind]
    write_table(made, tmp_path / "made.csv")
    if name not in ("wide decimal", "dates in a dictionary"):  # polars has neither
        frame = pl.DataFrame(table)
        assert Synthesizer("independent", epsilon=4.0).fit(frame).sample(30, rng=0).schema == frame.schema


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
