"""Which rows of each owner a backend keeps, whatever the rows of other owners are. Not private.

Write a row's content for the storage forms of its columns, all that any later answer depends on. Rows
with the same owner and the same content are numbered 0, 1, ... by the backend, in any order. Each row
draws SHA-256 of (key, owner, content), where the key is 256 secret random bits of this call, or if its
number is not 0 of that digest and the number; each owner keeps the rows with the least draws.

**Proof that the draw is made for each owner apart.** Fix the key. Rows with the same owner and content
cannot be told apart by any answer, so whichever of them gets which number, the same contents have the
same draws: the contents that an owner keeps are a function of the key and of that owner's own contents.
Other owners' rows, the order of the rows, and how the backend splits them into partitions have no part in
it. So for every key, the kept tables of two neighbours differ in the rows of one owner, at most max_rows
in each, and the sensitivities hold for every key, hence for a random one. Where a backend may write two
floats as one text, rows are numbered in the order of the floats themselves, which again are the owner's
own. The proof takes different contents to have different digests: for any table of up to 2^64 rows,
SHA-256 taken as a random function breaks that with a chance below 2^-128.

A hash is used for its spread only: that the rows of an owner are equally likely to be kept is what makes
the release useful, not what makes it private. A backend that computes a part of its answer again draws
the same rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import ibis

from margrave.engines.expressions import Stored, text_bytes

__all__ = ["draw_rows"]


SPELLS_FLOATS = frozenset({"databricks", "duckdb", "pyspark"})
"""Backends that write different float64 as different texts; PostgreSQL may be set to round them."""


def draw_rows(
    table: Any, owner: Stored, columns: Mapping[str, Stored], max_rows: int, key: bytes | None = None
) -> Any:
    """The table with at most max_rows rows of each owner, drawn at random, and without the owner column.

    See the head of this file for the draw and the proof that it is made for each owner apart.

    Args:
        table: An ibis.Table.
        owner: The storage form of the owner column, no value missing.
        columns: The storage forms of the columns to keep, by name.
        max_rows: At least 1.
        key: The 256 bits; from the system where it is None, as in every private run.
    """
    backend = table.get_backend().name
    digits = secrets.token_hex(32) if key is None else key.hex()
    written = [ibis.literal(digits), *(_text(column, backend) for column in (owner, *columns.values()))]
    floats = {f"f{i}": c.value for i, c in enumerate(columns.values()) if c.form == "float"}
    floats = {} if backend in SPELLS_FLOATS else floats
    kept = {f"c{i}": table[name] for i, name in enumerate(columns)}
    rows = table.select(o=owner.value, d=_digest(_joined(written), backend), **floats, **kept)
    number = ibis.row_number().over(
        group_by=[rows.o, rows.d], order_by=[rows.d, *(rows[name] for name in floats)]
    )
    rows = rows.mutate(j=number.cast("int64"))
    again = _digest(_joined([_hexadecimal(rows.d, backend), rows.j.cast("string")]), backend)
    rows = rows.mutate(u=ibis.ifelse(rows.j == 0, rows.d, again))
    rank = ibis.row_number().over(group_by=rows.o, order_by=[rows.u, rows.d, rows.j])
    rows = rows.mutate(r=rank).filter(lambda t: t.r < max_rows)
    return rows.select(**{name: rows[f"c{i}"] for i, name in enumerate(columns)})


def _text(column: Stored, backend: str) -> Any:
    """A value as text without commas, null as "null"."""
    value = column.value
    text = _hexadecimal(value, backend) if column.form == "text" else value.cast("string")
    return ibis.coalesce(text, ibis.literal("null"))


def _joined(texts: Sequence[Any]) -> Any:
    """Texts with commas between them, as a shallow tree: some backends limit how deep expressions are."""
    if len(texts) == 1:
        return texts[0]
    middle = len(texts) // 2
    return _joined(texts[:middle]) + ibis.literal(",") + _joined(texts[middle:])


def _of_bytes(value):  # type: ignore[no-untyped-def]  # ibis reads the names of its arguments
    """Stands for a function of the backend."""


def _of_bytes_with(value, more):  # type: ignore[no-untyped-def]
    """Stands for a function of the backend."""


def _function(name: str, gives: str, *more: str) -> Any:
    stands = _of_bytes_with if more else _of_bytes
    return ibis.udf.scalar.builtin(stands, name=name, signature=(("binary", *more), gives))


HEXADECIMAL: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "bigquery": (_function("to_hex", "string"), ()),
    "duckdb": (_function("hex", "string"), ()),
    "postgres": (_function("encode", "string", "string"), ("hex",)),
    "snowflake": (_function("hex_encode", "string"), ()),
    "trino": (_function("to_hex", "string"), ()),
}
"""The function of a backend that writes bytes in hexadecimal digits, "hex" if it is not here."""

SHA256: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "databricks": (_function("sha2", "string", "int32"), (256,)),
    "duckdb": (_function("sha256", "string"), ()),
    "pyspark": (_function("sha2", "string", "int32"), (256,)),
    "snowflake": (_function("sha2_binary", "binary", "int32"), (256,)),
}
"""The function of a backend that gives SHA-256 of bytes, "sha256" with bytes as its answer if not here."""


def _hexadecimal(value: Any, backend: str) -> Any:
    function, more = HEXADECIMAL.get(backend, (_function("hex", "string"), ()))
    return function(value, *more)


def _digest(text: Any, backend: str) -> Any:
    """SHA-256 of a text's bytes, as bytes."""
    function, more = SHA256.get(backend, (_function("sha256", "binary"), ()))
    found = function(text_bytes(text, backend), *more)
    return found if found.type().is_binary() else text_bytes(found, backend)
