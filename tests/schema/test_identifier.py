"""Identifiers: no attribute of any model, never read, made anew."""

from __future__ import annotations

import json
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from margrave.engines.memory import MemorySource, open_source
from margrave.errors import SchemaError
from margrave.schema.columns import Identifier, Integer
from margrave.schema.columns.identifier import draw_distinct, keys
from margrave.schema.encode import decode
from margrave.schema.schema import Schema

RNG = np.random.default_rng(1)
AGE = Integer(name="age", lower=0, upper=9, missing=False)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Identifier(name="id"), [1, 2, 3]),
        (Identifier(name="id", start=100), [100, 101, 102]),
        (Identifier(name="id", pattern="text", prefix="P-", digits=3), ["P-001", "P-002", "P-003"]),
        (Identifier(name="id", pattern="text"), ["1", "2", "3"]),
    ],
)
def test_keys_follow_the_pattern(column: Identifier, expected: list[object]) -> None:
    assert keys(column, 3, RNG).to_pylist() == expected


def test_random_keys_are_uuids_and_repeat_with_the_generator() -> None:
    column = Identifier(name="id", pattern="uuid")
    first, again = (keys(column, 50, np.random.default_rng(7)).to_pylist() for _ in range(2))
    assert first == again
    assert len(set(first)) == 50
    assert all(uuid.UUID(key).version == 4 for key in first)


@pytest.mark.parametrize("rows", [5_000, 9_000, 9_010])
def test_dense_keys_keep_their_width_as_far_as_there_are_some(rows: int) -> None:
    column = Identifier(name="id", pattern="shape", shapes=("E[1-9][0-9]{3}",))
    found = keys(column, rows, np.random.default_rng(1)).to_pylist()
    assert len(set(found)) == rows
    assert sum(len(key) > 5 for key in found) == max(rows - 9_000, 0)
    assert abs(np.mean([key < "E5500" for key in found]) - 0.5) < 0.05


def test_dense_keys_leave_out_those_that_are_taken() -> None:
    taken = {f"E{number}" for number in range(1_000, 1_100)}
    found = draw_distinct(["E[1-9][0-9]{3}"], np.zeros(8_900, np.int64), np.random.default_rng(1), taken)
    assert len({*found} - taken) == 8_900
    assert {len(key) for key in found} == {5}


def test_a_type_that_cannot_hold_the_pattern_gets_numbers() -> None:
    column = Identifier(name="id", pattern="text", prefix="P")
    assert keys(column, 2, RNG, pa.int32()).to_pylist() == [1, 2]
    assert keys(Identifier(name="id"), 2, RNG, pa.string()).to_pylist() == ["1", "2"]


def test_models_never_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema((Identifier(name="id", pattern="text", prefix="P"), AGE))
    assert schema.domain.names == ("age",)
    assert schema.attributes == (AGE,)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    frame = pd.DataFrame({"id": ["a", "a", "b"], "age": [1, 2, 3]})
    for data, library in ((frame, pd.DataFrame), (pl.from_pandas(frame), pl.DataFrame)):
        source, described = open_source(data)
        monkeypatch.setattr(MemorySource, "_array", lambda *args: pytest.fail("a column was read"))
        encoded = source.bind(schema).encoded
        monkeypatch.undo()
        assert encoded.domain.names == ("age",)
        table = decode(encoded, schema, RNG, described)
        assert isinstance(table, library)
        assert list(table.columns) == ["id", "age"]
        assert list(table["id"]) == ["P1", "P2", "P3"]
        assert list(table["age"]) == [1, 2, 3]


def test_what_cannot_be_is_refused() -> None:
    for wrong in ({"pattern": "name"}, {"start": 1.5}, {"digits": -1}, {"prefix": 3}):
        with pytest.raises(SchemaError):
            Identifier(name="id", **wrong)
    with pytest.raises(SchemaError, match="more than identifiers"):
        Schema((Identifier(name="id"),)).domain
    with pytest.raises(SchemaError, match="have no codes"):
        Identifier(name="id").present
