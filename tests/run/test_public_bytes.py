"""What a release holds of public columns follows from their values, not from the memory they lay in."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import margrave as mg
from margrave.run.public import unpack_table
from margrave.schema.storage.forms import PIECE, copy_values

ROWS, KEPT = 400, 201

NUMBERS = [pa.int8(), pa.int16(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()]
TIMES = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time64("us"),
    pa.timestamp("us"),
    pa.timestamp("ms", "UTC"),
    pa.duration("ms"),
]
OTHERS = [pa.bool_(), pa.string(), pa.large_string(), pa.string_view(), pa.decimal128(24, 2), pa.binary(4)]


def packed(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def with_memory(kind: Any, hidden: int, gone: int, absent: bool) -> Any:
    """An array of a type, with a number under each value that is missing and in rows that a slice drops.

    Args:
        kind: Of the array.
        hidden: What is, or was, under missing values and outside of the slice.
        gone: Where the slice begins.
        absent: Whether some values are missing.
    """
    numbers = np.arange(ROWS) % 2
    missing = (np.arange(ROWS) % 5 == 0) & absent
    outside = (np.arange(ROWS) < gone) | (np.arange(ROWS) >= gone + KEPT)
    numbers[missing | outside] = hidden
    if pa.types.is_boolean(kind):
        values = pa.array(numbers.astype(bool))
    elif kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(4)):
        values = pa.array([f"abc{n}" for n in numbers]).cast(pa.binary() if kind == pa.binary(4) else kind)
        values = pa.array(values.to_pylist(), kind)
    elif pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        values = pa.array(numbers).cast(kind)
    elif pa.types.is_date64(kind):
        values = pa.array(numbers * 86_400_000).cast(kind)
    else:
        width = kind.bit_width
        values = pa.array(numbers.astype(f"int{width}")).cast(pa.int64() if width == 64 else pa.int32())
        values = values.cast(kind)
    bits = pa.array(~missing).buffers()[1]
    buffers = [bits if absent else None, *values.buffers()[1:]]
    return pa.Array.from_buffers(kind, ROWS, buffers).slice(gone, KEPT)


@pytest.mark.parametrize("kind", [*NUMBERS, *TIMES, *OTHERS], ids=str)
@pytest.mark.parametrize("absent", [False, True], ids=["whole", "with missing values"])
@pytest.mark.parametrize("gone", [0, 3, 8])
def test_copied_values_are_all_that_a_copy_holds(kind: Any, absent: bool, gone: int) -> None:
    one, other = (with_memory(kind, hidden, gone, absent) for hidden in (0, 1))
    assert one.equals(other)
    tables = [pa.table({"x": array}) for array in (one, other)]
    copies = [copy_values(table) for table in tables]
    assert all(copy.equals(table) for copy, table in zip(copies, tables, strict=True))
    assert packed(copies[0]) == packed(copies[1])


def test_the_pieces_of_a_copy_follow_from_the_number_of_rows() -> None:
    values = pa.array(np.arange(PIECE + 10))
    tables = [
        pa.table({"x": pa.chunked_array([values[:cut], values[cut:]])}) for cut in (1, 70, PIECE, PIECE + 9)
    ]
    assert len({packed(copy_values(table)) for table in tables}) == 1
    assert copy_values(tables[0]).equals(tables[0])
    assert copy_values(tables[0].slice(0, 0)).equals(tables[0].slice(0, 0))


def test_a_release_does_not_hold_what_a_mask_has_made_missing() -> None:
    """`published` is `income` where it may be: two tables that differ in one private income alone."""
    found = []
    for secret in (31_337, 77_777):
        income = pd.Series(np.arange(ROWS) + 20_000, dtype="Int64")
        income[7] = secret
        published = income.where(np.arange(ROWS) % 5 != 2)  # row 7 did not consent
        frame = pd.DataFrame({"published": published, "income": income})
        promise = {"epsilon": 0.1, "adjacency": "replace_private", "public": ["published"]}
        synthesis = mg.Synthesizer("independent", **promise).fit(frame)
        found.append(synthesis.release.public)
        assert int(secret).to_bytes(8, "little") not in found[-1]
        drawn = pa.Table.from_pandas(synthesis.sample(), preserve_index=False)
        assert secret not in np.frombuffer(drawn.column("published").chunk(0).buffers()[1], np.int64)
    assert found[0] == found[1]


def test_rows_of_a_release_that_holds_more_are_clean() -> None:
    """As releases of earlier versions do."""
    income = pd.Series(np.arange(ROWS) + 20_000, dtype="Int64")
    table = pa.table({"x": pa.array(np.arange(ROWS) + 20_000, mask=np.arange(ROWS) % 5 == 2)})
    promise = {"epsilon": 0.1, "adjacency": "replace_private", "public": ["x"]}
    frame = pd.DataFrame({"x": table.column("x").to_pandas().astype("Int64"), "income": income})
    release = mg.Synthesizer("independent", **promise).fit(frame).release
    old = unpack_table(dataclasses.replace(release, public=packed(table)))
    assert (20_002).to_bytes(8, "little") in packed(table)
    assert (20_002).to_bytes(8, "little") not in packed(old)
    assert old.equals(table)
