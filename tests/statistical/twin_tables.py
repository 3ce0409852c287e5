"""Pairs of tables that differ in one unit of privacy, and a schema under which they can be counted.

The unit that differs stands last by default, so that all other rows keep their places. Owners that both
tables have hold equal rows, next to each other: whichever of them a cap keeps, the answers are the same, so
that every engine may draw owners' rows by itself.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.columns import Boolean, Categorical, Date, Integer, Real
from margrave.schema.schema import Schema

__all__ = ["KINDS", "declared", "neighbours", "odd_rows", "pair", "private_pair", "table"]

Row = dict[str, Any]
TYPES = {
    "who": pa.string(),
    "city": pa.string(),
    "age": pa.int64(),
    "pay": pa.float64(),
    "day": pa.date32(),
    "sold": pa.bool_(),
    "stamp": pa.string(),
    "hour": pa.string(),
    "code": pa.string(),
    "icd": pa.string(),
    "key": pa.string(),
    "pressure": pa.string(),
    "mail": pa.string(),
    "serial": pa.string(),
    "note": pa.string(),
    "score": pa.string(),
    "gaps": pa.string(),
    "open": pa.string(),
}
OWNERS = 150
LAST = "z-last"
"""The owner that differs."""
PLAIN: Row = {
    "city": "Bern",
    "age": 40,
    "pay": 1000.0,
    "day": datetime.date(2020, 2, 29),
    "sold": True,
    "stamp": "2024-02-29T10:00",
    "hour": "10:00",
    "code": "7",
    "icd": "I10.1",
    "key": "V0000999",
    "pressure": "150/90",
    "mail": "u0000999@a.uk",
    "serial": "K7QX2R9ZB4MA",
    "note": "seen by nobody",
    "score": "3.25",
    "gaps": "5",
    "open": "True",
}
RESPELT: Row = {"score": "3.250", "gaps": "NULL", "open": "TRUE"}
KINDS: dict[str, Row] = {
    "the same row again": {},
    "a new category": {
        "city": "Zug",
        "icd": "Z99.9",
        "key": "W7",
        "pressure": "7/7.",
        "mail": "W7@",
        "serial": "W7-X",
        "note": "NA",
    },
    "another case": {"city": "BERN", "icd": "i10.0", "key": "v0000001"},
    "a blank more": {"city": "Bern ", "icd": "I10.0 ", "key": "V0000001 "},
    "an accent": {"city": "Be\u0301rn"},
    "no value at all": dict.fromkeys(PLAIN),
    "extreme numbers": {"age": 2**62, "pay": 1e300, "day": datetime.date(9999, 12, 31)},
    "extreme numbers below zero": {"age": -(2**62), "pay": -1e300, "day": datetime.date(1, 1, 1)},
    "a very long text": {"city": "x" * 100_000, "icd": "I10" * 30_000, "key": "V1" * 50_000},
    "text that looks like a number": {"city": "1e999", "code": "1e999", "icd": "1", "key": "1"},
    "another spelling": {"stamp": "2024-02-29 10:00:05.25Z", "hour": "10:00:30", "code": "7.5", **RESPELT},
}
"""What the odd row has unlike all others."""


def _base(owner: int) -> Row:
    """The row of an owner, by a fixed rule: dependent columns, none missing."""
    city = ("Bern", "Basel", "Thun")[(owner * owner // 3) % 3]
    return {
        "city": city,
        "age": 20 + (owner * 7) % 50,
        "pay": 1000.0 * (1 + owner % 5) + (250.5 if city == "Thun" else 0.0),
        "day": datetime.date(2020, 1, 1) + datetime.timedelta(days=(owner * 11) % 400),
        "sold": owner % 4 == 0 or city == "Basel",
        "stamp": f"2024-{1 + owner % 12:02d}-{1 + owner % 28:02d}T{owner % 24:02d}:00",
        "hour": f"{owner % 24:02d}:{owner * 15 % 60:02d}",
        "code": str(owner % 40),
        "icd": f"{'EIJ'[owner % 3]}{10 + owner % 7}.{owner % 4}",
        "key": f"V{owner:07d}",
        "pressure": f"{100 + owner % 60}/{50 + owner % 40}",
        "mail": f"u{owner:07d}@a.uk",
        "serial": base64.b32encode(hashlib.sha256(str(owner).encode()).digest())[:12].decode(),
        "score": f"{owner % 9}.{owner % 4 * 25:02d}",
        "gaps": "NA" if owner % 3 else f"{owner % 8}.0",
        "open": str(owner % 50 == 0),
        "note": f"seen by {owner * 7919 % 100_003}",
    }


def _rows(owners: int, k: int) -> list[Row]:
    """Rows of the owners that both tables have; where they are owners, some have more than are kept."""
    found = []
    for owner in range(owners):
        times = 1 + (owner % 3 == 0) * (k + 1) if k else 1
        found += [{"who": f"o{owner}", **_base(owner)}] * times
    return found


def odd_rows(kind: str, k: int = 0, many: bool = False) -> list[Row]:
    """The rows of the unit that differs.

    Args:
        kind: One of KINDS.
        k: Rows that are kept of an owner; 0 where rows are protected.
        many: Whether the owner has rows of all kinds, ten times as many as are kept; else k rows alike.
    """
    odd = {"who": LAST, **PLAIN, **KINDS[kind]}
    if not many:
        return [odd] * max(k, 1)
    kinds = list(KINDS.values())
    return [{"who": LAST, **PLAIN, **kinds[i % len(kinds)]} for i in range(10 * max(k, 1))]


def table(rows: Sequence[Row], columns: Sequence[str], who: bool = False) -> pa.Table:
    """Rows as an Arrow table of some columns, with the owners' column if asked for."""
    names = [*columns, *(["who"] if who else [])]
    return pa.table({name: pa.array([row[name] for row in rows], TYPES[name]) for name in names})


def pair(
    kind: str,
    columns: Sequence[str],
    adjacency: Adjacency = "add_remove",
    k: int = 0,
    *,
    owners: int = OWNERS,
    many: bool = False,
    ahead: bool = False,
) -> tuple[pa.Table, pa.Table]:
    """A table and a neighbour, the odd unit in the second.

    Args:
        kind: What is odd about it, one of KINDS.
        columns: Names of the columns.
        adjacency: Whether the odd unit is one more, or stands in place of another.
        k: Rows kept of an owner; 0 where rows are protected.
        owners: How many units both tables have.
        many: Whether the odd owner has many rows of all kinds.
        ahead: Whether the unit that differs stands before all others, not after them.
    """
    shared, odd = _rows(owners, k), odd_rows(kind, k, many)
    before = [] if adjacency == "add_remove" else [{"who": LAST, **_base(1)}] * max(k, 1)
    rows = (before + shared, odd + shared) if ahead else (shared + before, shared + odd)
    return table(rows[0], columns, k > 0), table(rows[1], columns, k > 0)


def private_pair(
    kind: str, columns: Sequence[str], public: Sequence[str], k: int = 0, *, many: bool = False
) -> tuple[pa.Table, pa.Table]:
    """A table and a neighbour under replace_private: other private columns in the rows of the last unit.

    Args:
        kind: What is odd about them, one of KINDS.
        columns: Names of the columns.
        public: Those that stay as they are.
        k: Rows kept of an owner; 0 where rows are protected.
        many: Whether the owner has rows of all kinds, ten times as many as are kept; else k rows alike.
    """
    odd, shared = odd_rows(kind, k, many), _rows(OWNERS, k)
    first = [{"who": LAST, **_base(place)} for place in range(len(odd))]
    second = [{**row, **{name: new[name] for name in public}} for row, new in zip(odd, first, strict=True)]
    return table(shared + first, columns, k > 0), table(shared + second, columns, k > 0)


def neighbours(adjacency: Adjacency, k: int, public: Sequence[str] = ()) -> Neighbours:
    """The neighbours of these pairs."""
    return Neighbours(Unit("who", k) if k else Unit(), adjacency, tuple(public))


def declared(columns: Sequence[str]) -> Schema:
    """All that there is to declare, in few codes; what does not fit joins another code."""
    kinds = {
        "city": Categorical(
            name="city", values=("Bern", "Basel", "Thun"), other="(other)", missing=True, strict=False
        ),
        "age": Integer(name="age", lower=0, upper=99, bins=5, missing=True, strict=False),
        "pay": Real(name="pay", lower=0, upper=6000, bins=4, missing=True, strict=False),
        "day": Date(name="day", lower="2020-01-01", upper="2021-12-31", bins=4, missing=True, strict=False),
        "sold": Boolean(name="sold", missing=True),
    }
    return Schema(tuple(kinds[name] for name in columns))


def bounded(columns: Sequence[str]) -> Schema:
    """The same, but for the bins of numbers and dates, which are left to discovery."""
    kinds = {
        "age": Integer(name="age", lower=0, upper=99, strict=False),
        "pay": Real(name="pay", lower=0, upper=6000, missing=True, strict=False),
        "day": Date(name="day", lower="2020-01-01", upper="2021-12-31", missing=True, strict=False),
    }
    return declared(columns).replace(kinds[name] for name in columns if name in kinds)
