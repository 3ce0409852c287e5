"""Arrow tables that every engine has to read alike, with the schemas they are counted under."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from engine_cases import INF, NAN, ODD

from margrave.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Date,
    Duration,
    Integer,
    Moment,
    Ordinal,
    Real,
    Time,
)

__all__ = ["TABLES", "many_rows", "schema_of"]

LONG = "long " * 20_000
SPELT = [
    *("1", "1.0", "01", "+1", "1e0", "-0", "0.5", ".5", "1e999", "nan", "inf", "NaN", "0x10", "1_000"),
    *("true", "TRUE", "False", "2024-02-29", "2023-02-30", "2024-02-29T08:05", "2024-02-29 08:05:09.25Z"),
    *("08:05", "24:00", " 7", "", "it's", None, "9007199254740993", "１"),
]
MONEY = [Decimal(text) for text in ("0", "1", "0.25", "19.99", "-0.03", "0.07", "0.30")]
DAYS = [0, -1, 1, 19_000, -30_000, 11_016, None, 0]
MICROS = [0, -1, 1, 1_700_000_000_123_456, -1_700_000_000_123_457, 951_782_400_000_000, None, 999_999]


def _seconds(values: list[int | None], unit: int) -> list[int | None]:
    return [None if value is None else value // unit for value in values]


TABLES: dict[str, pa.Table] = {
    "odd text": pa.table(
        {
            'a "quoted" name': pa.array([*ODD, *ODD[::2], None, LONG, ""]),
            "it's; --": pa.array(range(len(ODD) + 8), pa.int16()),
            "order by": pa.array([True, None, False] + [True] * (len(ODD) + 5)),
        }
    ),
    "numbers": pa.table(
        {
            "big": pa.array([2**63 - 1, -(2**63), 2**53 + 1, 2**53, -5, 0, None, 7]),
            "small": pa.array([1, -128, 127, 0, None, 5, 10, 20], pa.int8()),
            "real": pa.array([0.1, -0.0, NAN, INF, -INF, 1e300, 5e-324, None]),
            "grid": pa.array([0.25, 1000.0, 0.07, 2.0**60, 123456.78, -2.5, 4.0, 1e15 + 0.5]),
            "single": pa.array([0.1, 1.5, NAN, 3.0, None, 1e30, -2.0, 16_777_217.0], pa.float32()),
            "tenths": pa.array([0.3, 79.6, -1e-40, INF, 1e-7, 8_388_607.5, 97_474_816.0, None], pa.float32()),
            "money": pa.array([None, *MONEY], pa.decimal128(12, 2)),
        }
    ),
    "times": pa.table(
        {
            "day": pa.array(DAYS, pa.int32()).cast(pa.date32()),
            "s": pa.array(_seconds(MICROS, 1_000_000), pa.timestamp("s")),
            "ms": pa.array(_seconds(MICROS, 1_000), pa.timestamp("ms")),
            "us": pa.array(MICROS, pa.timestamp("us")),
            "ns": pa.array([None if v is None else v * 1_000 - 1 for v in MICROS], pa.timestamp("ns")),
            "zoned": pa.array(MICROS, pa.timestamp("us", "Europe/Berlin")),
            "clock": pa.array([0, 1, 86_399_999_999, 29_100_000_000, None, 5, 6, 7], pa.time64("us")),
            "length": pa.array(MICROS, pa.duration("us")),
        }
    ),
    "spelt": pa.table({"t": pa.array(SPELT), "n": pa.array([i % 3 for i in range(len(SPELT))])}),
    "empty": pa.table(
        {
            "t": pa.array([], pa.string()),
            "n": pa.array([], pa.int64()),
            "r": pa.array([], pa.float64()),
            "d": pa.array([], pa.date32()),
        }
    ),
}


def many_rows(rows: int = 700_000) -> pa.Table:
    """More than two batches, with owners of 1 to many rows."""
    rng = np.random.default_rng(5)
    owners = np.minimum(rng.zipf(1.6, rows), 5_000)
    return pa.table(
        {
            "who": pa.array([f"o{k}" for k in owners]),
            "n": rng.integers(-50, 50, rows),
            "r": rng.normal(size=rows),
            "t": pa.array(np.array(["a", "b'", "ç", None], dtype=object)[rng.integers(0, 4, rows)]),
        }
    )


def _column(name: str, kind: Any) -> Column:
    more: dict[str, Any] = {"name": name, "missing": True, "strict": False}
    if pa.types.is_boolean(kind):
        return Boolean(name=name, missing=True)
    if pa.types.is_string(kind):
        return Categorical(values=(*ODD[:6], "1", "true", "a", "b'", ""), other="(other)", **more)
    if pa.types.is_date(kind):
        return Date(lower="1900-01-01", upper="2030-12-31", bins=40, **more)
    if pa.types.is_timestamp(kind):
        return Moment(lower="1960-01-01", upper="2030-12-31", bins=30, **more)
    if pa.types.is_time(kind):
        return Time(lower=0, upper=86_399_999_999, bins=24, **more)
    if pa.types.is_duration(kind):
        return Duration(lower=-(10**15), upper=10**15, bins=10, **more)
    if pa.types.is_integer(kind):
        return Integer(lower=-10, upper=2**40, bins=9, **more)
    return Real(edges=(-5.0, -0.5, 0.0, 0.1, 0.3, 1.0, 1e6, 1e300), **more)


def schema_of(table: pa.Table) -> list[list[Column]]:
    """Ways to declare the table: by its storage, and text and numbers as what else they may be read."""
    plain = [_column(field.name, field.type) for field in table.schema]
    other: list[Column] = []
    for field in table.schema:
        more: dict[str, Any] = {"name": field.name, "missing": False, "strict": False}
        if pa.types.is_string(field.type):
            other.append(Integer(lower=0, upper=9, **more))
        elif pa.types.is_date(field.type) or pa.types.is_timestamp(field.type):
            other.append(Date(lower="1969-12-31", upper="1970-01-02", **more))
        elif pa.types.is_floating(field.type) or pa.types.is_boolean(field.type):
            other.append(Integer(lower=-3, upper=8, **more))
        elif pa.types.is_integer(field.type):
            other.append(Ordinal(values=(0, 1, 2, 3.5, "5"), other="rest", **more))
        elif pa.types.is_decimal(field.type):
            other.append(Categorical(values=(0, 0.3, 25), other="rest", **more))
        else:
            other.append(_column(field.name, field.type))
    return [plain, other]
