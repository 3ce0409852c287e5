"""Small tables of columns of all storage types, with something for each look, and odd cells for them."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["BUNDLES", "draw_tables"]

Row = dict[str, Any]
Value = Callable[[int], Any]
"""The value that the row of a number has, by a fixed rule."""
S, I64, F64 = pa.string(), pa.int64(), pa.float64()
TOP = (1 << 63) - 1
FIRST = dt.date(2010, 1, 1)


def _day(row: int) -> dt.date:
    return FIRST + dt.timedelta(days=(row * 37 + row * row) % 4000)


def _minute(row: int) -> int:
    return (300 + row * 61) % 1440


def _net(row: int) -> float:
    return float(40 + row * 29 % 997)


def _tax(row: int) -> float:
    return float(5 + row * 13 % 211)


def _clock(minute: int) -> int:
    return minute // 60 * 100 + minute % 60


def _spell(pattern: str) -> Value:
    return lambda row: _day(row).strftime(pattern)


def _stamp(row: int) -> int:
    return 1_600_000_000 + row * 3600 * 7


BUNDLES: dict[str, dict[str, tuple[Any, Value]]] = {
    "what dates tell": {
        "born": (pa.date32(), lambda i: (_day(i) - dt.date(1970, 1, 1)).days),
        "later": (pa.date32(), lambda i: (_day(i) - dt.date(1970, 1, 1)).days + i * 13 % 40),
        "stay": (I64, lambda i: i * 13 % 40),
        "year": (I64, lambda i: _day(i).year),
        "month": (pa.int16(), lambda i: _day(i).month),
        "age": (I64, lambda i: 2026 - _day(i).year),
        "weekday": (S, _spell("%A")),
        "quarter": (S, lambda i: f"Q{(_day(i).month + 2) // 3}"),
    },
    "dates in text": {
        "iso": (S, _spell("%Y-%m-%d")),
        "us": (S, _spell("%m/%d/%Y")),
        "german": (S, _spell("%d.%m.%Y")),
        "months": (S, _spell("%m.%Y")),
        "named": (S, lambda i: _day(i).strftime("%d%b%Y").upper()),
        "digits": (I64, lambda i: int(_day(i).strftime("%Y%m%d"))),
        "moment": (S, lambda i: f"{_day(i).isoformat()}T{i % 24:02d}:{i % 60:02d}"),
        "half": (S, lambda i: f"{_day(i).strftime('%m/%d/%Y')} {1 + i % 12:02d}:05:00 {'AP'[i % 2]}M"),
    },
    "times": {
        "left": (I64, lambda i: _clock(_minute(i))),
        "came": (I64, lambda i: _clock((_minute(i) + i % 50) % 1440)),
        "delay": (I64, lambda i: i % 50),
        "hour": (I64, lambda i: _minute(i) // 60),
        "due": (S, lambda i: f"{_clock(_minute(i)):04d}"),
        "clock": (S, lambda i: f"{_minute(i) // 60:02d}:{_minute(i) % 60:02d}"),
        "short": (pa.time32("s"), lambda i: _minute(i) * 60),
        "long": (pa.time64("ns"), lambda i: _minute(i) * 60_000_000_000),
        "took": (pa.duration("us"), lambda i: _minute(i) * 60_000_000),
    },
    "moments": {
        "seconds": (pa.timestamp("s"), _stamp),
        "zoned": (pa.timestamp("us", "UTC"), lambda i: _stamp(i) * 1_000_000),
        "ended": (pa.timestamp("us"), lambda i: (_stamp(i) + i % 90 * 60) * 1_000_000),
        "nanos": (pa.timestamp("ns"), lambda i: _stamp(i) * 1_000_000_000),
        "minutes": (I64, lambda i: i % 90),
        "wide": (pa.date64(), lambda i: (14_600 + i * 3 % 900) * 86_400_000),
    },
    "numbers": {
        "net": (F64, _net),
        "tax": (F64, _tax),
        "total": (F64, lambda i: _net(i) + _tax(i)),
        "line": (F64, lambda i: 2025.0 - 2.0 * _net(i)),
        "count": (pa.uint64(), lambda i: 1 + i % 7),
        "price": (pa.float32(), lambda i: (1 + i % 90) / 4),
        "amount": (F64, lambda i: (1 + i % 7) * (1 + i % 90) / 4),
        "money": (pa.decimal128(30, 2), lambda i: Decimal(40 + i * 29 % 997) / 4),
        "zeros": (F64, lambda i: 0.0 if i % 3 else 1000.0 * (i % 9)),
    },
    "written numbers": {
        "paid": (S, lambda i: f"${100 + i * 37 % 4000 + i % 100 / 100:,.2f}"),
        "people": (S, lambda i: f"{500 + i * 61 % 3000:,}"),
        "comma": (S, lambda i: f"{i * 61 % 3000 / 100:.2f}".replace(".", ",")),
        "result": (S, lambda i: "<0.5 mg/l" if i % 5 < 2 else f"{i % 90 / 10 + 0.5:.1f} mg/l"),
        "gaps": (S, lambda i: "NA" if i % 3 else f"{i % 8}.0"),
        "open": (S, lambda i: str(i % 50 == 0)),
    },
    "keys": {
        "id": (I64, lambda i: 1000 + i),
        "parent": (I64, lambda i: 5000 + i // 3),
        "key": (S, lambda i: f"V{i // 2:07d}"),
        "code": (S, lambda i: f"{'EIJ'[i % 3]}{10 + i % 7}.{i % 4}"),
        "mail": (S, lambda i: f"u{i:07d}@a.uk"),
        "pressure": (S, lambda i: f"{100 + i % 60}/{50 + i % 40}"),
        "country": (S, lambda i: ("France", "Germany", "Spain", "Peru")[i * i % 4]),
        "kind": (pa.dictionary(pa.int32(), S), lambda i: "abc"[i % 3]),
        "note": (pa.large_string(), lambda i: f"seen by {i * 7919 % 100_003}"),
        "sold": (pa.bool_(), lambda i: i % 3 == 0),
    },
}
"""Columns that may say something of each other: the storage type of each, and the value of a row."""

ODD_TEXTS = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "1e999",
        "1e-400",
        "NA",
        "NULL",
        "?",
        "-",
        "0",
        "-0.0",
        "007",
        "+5",
        "1.0",
        "1e3",
    ),
    *(
        "9007199254740993",
        "99999999999999999999999",
        "-9223372036854775808",
        "<5",
        ">= 7",
        "<0.5 mg/l",
        "1.2.3",
    ),
    *("1,234.50", "1.234,50", "$5", "5 %", "($5)", "5-", "72 kg", "\u212a5", "1\u00a0234,5", "½", "\uff11"),
    *(
        "0000-00-00",
        "0001-01-01",
        "9999-12-31",
        "10000-01-01",
        "2024-02-30",
        "12/31/1980",
        "31.12.1980",
        "1/1/1",
    ),
    *("2024-02-29T23:59:60", "2024-01-01 00:00:00.123456789Z", "2024-01-01T00:00:00+14:00", "2262-04-12"),
    *(
        "23:59:60",
        "24:00",
        "2400",
        "9999",
        "1373",
        "05/2011",
        "13.2011",
        "31FEB2024",
        "05\u017fEP2024",
        "2024-W05",
    ),
    *(
        "28MAR2013:25:61:61",
        "3/3/24 13:00 PM",
        "March 3, 2024",
        "Monday",
        "Sep",
        "True",
        "FALSE",
        "yes",
        "été",
    ),
    *(
        "e\u0301te\u0301",
        "\U0001f600",
        "\ufeffx",
        "\u202e",
        "a\x00b",
        "a\nb",
        'q"',
        "(other)",
        "0:x",
        "V0000001",
    ),
    *("x" * 5000, "A" * 40, "a@b", "1d", "0x10", "1_000"),
)
ODD_WHOLE = (0, 1, -1, 1 << 53, (1 << 53) + 1, 1 << 62, -(1 << 62), TOP, -TOP - 1)
ODD_NUMBERS = (*ODD_WHOLE, 20240230, 99991231, 2400, 2359, 1373, -517, 10**12)
ODD_REALS = (
    *(0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e308, -1e308, 0.1 + 0.2, 1e-40, 2.0**53, 1e15 + 0.3),
    *(0.5, -7.0),
)
ODD_DECIMALS = tuple(map(Decimal, ("0", "-0.01", "9999999999999999999999999999.99", str((1 << 53) + 1))))
ODD_TICKS = (
    *ODD_WHOLE,
    86_399,
    86_400,
    86_400 * 10**9,
    -719_162,
    -719_163,
    2_932_896,
    2_932_897,
    253402300800,
)


def _odd_values(kind: Any) -> tuple[Any, ...]:
    """Odd cells that a storage type can hold."""
    if pa.types.is_boolean(kind):
        return (True, False, None)
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return (*ODD_TEXTS, None)
    if pa.types.is_decimal(kind):
        return (*ODD_DECIMALS, None)
    if pa.types.is_floating(kind):
        return (*(value for value in ODD_REALS if kind == F64 or not 1e38 < abs(value) < math.inf), None)
    numbers = ODD_NUMBERS if pa.types.is_integer(kind) else ODD_TICKS
    low, high = (
        (0, (1 << 64) - 1) if kind == pa.uint64() else (-1 << kind.bit_width - 1, 1 << kind.bit_width - 1)
    )
    return (*(value for value in numbers if low <= value < high), None)


def _array(values: Sequence[Any], kind: Any) -> Any:
    """Dates and times are made of their numbers, however odd, as files may hold them."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else I64).view(kind)
    return pa.array(values, kind)


def draw_tables(seed: int, rows: int = 120, others: int = 12, k: int = 1) -> list[pa.Table]:
    """A table of some columns that may say something of each other, and others with a unit more.

    Args:
        seed: Of all that is drawn: the columns, whether many cells of the table are odd, and the units.
        rows: Of the table.
        others: How many others.
        k: Rows of a unit.
    """
    rng = random.Random(seed)
    columns: dict[str, tuple[Any, Value]] = {}
    for bundle in rng.sample(sorted(BUNDLES), rng.choice((1, 1, 2))):
        names = sorted(BUNDLES[bundle])
        columns |= {name: BUNDLES[bundle][name] for name in rng.sample(names, rng.randint(2, 4))}
    odd = {name: _odd_values(kind) for name, (kind, _) in columns.items()}

    def row(number: int, share: float) -> Row:
        made = {name: value(number) for name, (_, value) in columns.items()}
        return {name: rng.choice(odd[name]) if rng.random() < share else made[name] for name in made}

    messy = rng.choice((0.0, 0.0, 0.02, 0.2))
    shared = [row(number, messy) for number in range(rows)]
    units = [[row(rng.randrange(2000), rng.choice((0.0, 0.3, 0.9))) for _ in range(k)] for _ in range(others)]
    units = [[one[0]] * k if rng.random() < 0.5 else one for one in units]

    def table(more: Sequence[Row]) -> pa.Table:
        held = [*shared, *more]
        return pa.table(
            {name: _array([one[name] for one in held], kind) for name, (kind, _) in columns.items()}
        )

    return [table(()), *map(table, units)]
