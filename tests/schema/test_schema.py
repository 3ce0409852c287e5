from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError, SchemaError
from margrave.files import read_spec
from margrave.schema.columns import Boolean, Categorical, Integer, Ordinal, Real, Unknown
from margrave.schema.constraints.rules import Ordered
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema

EVERYTHING = Schema(
    (
        Unknown(name="u"),
        Categorical(name="c é", values=("a", "b"), other="(other)", missing=True, strict=False),
        Categorical(name="mixed", values=(1, 0.5, "x"), missing=False),
        Ordinal(name="o", values=("lo", "hi"), missing=False),
        Boolean(name="b"),
        Integer(name="i", lower=0, upper=99),
        Integer(name="e", edges=(0, 5, 9), fine=(0, 1, 5, 9), weights=(3.0, 0.0, 1.5), missing=True),
        Real(name="r", lower=0.1, upper=0.7, bins=7, missing=False),
    )
)


def test_a_schema_is_a_row_of_columns_that_knows_their_names() -> None:
    assert [column.name for column in EVERYTHING] == list(EVERYTHING.names)
    assert len(EVERYTHING) == 8
    assert "mixed" in EVERYTHING
    assert "absent" not in EVERYTHING


def test_json_round_trip(tmp_path: Path) -> None:
    EVERYTHING.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == EVERYTHING
    assert Schema.from_json(json.loads(json.dumps(EVERYTHING.to_json()))) == EVERYTHING


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"columns": []},
        {"columns": ["a"]},
        {"columns": [{"kind": "integer"}]},
        {"columns": [{"name": "a", "kind": "number"}]},
        {"columns": [{"name": "a", "kind": "integer", "minimum": 3}]},
        {"columns": [{"name": "a", "kind": "integer", "lower": "x", "upper": 3}]},
        {"columns": [{"name": "a", "kind": "integer", "edges": ["x", "y"]}]},
        {"columns": [{"name": "a", "kind": "categorical", "values": 5}]},
        {"columns": [{"name": "a", "kind": "boolean"}, {"name": "a", "kind": "boolean"}]},
        {"columns": [{"name": "a", "kind": "boolean"}], "margrave_schema": 999},
    ],
)
def test_documents_that_are_no_schema(document: Any) -> None:
    with pytest.raises(SchemaError):
        Schema.from_json(document)


def test_files_that_are_no_schema(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="readable file"):
        Schema.load(tmp_path / "none.json")
    for no_path in ({"age": "integer"}, [Boolean(name="a")]):
        with pytest.raises(InputError, match="schema must be a Schema or the path"):
            mg.Synthesizer(epsilon=1.0, schema=no_path).plan(pa.table({"a": [True]}))  # type: ignore[arg-type]
    (tmp_path / "broken.json").write_bytes(b"{\xff")
    with pytest.raises(SchemaError, match="valid JSON"):
        Schema.load(tmp_path / "broken.json")
    (tmp_path / "comma.json").write_text('{"columns": [\n  {"name": "a",}]}')
    with pytest.raises(SchemaError, match="line 2 column"):
        Schema.load(tmp_path / "comma.json")


def test_a_byte_order_mark_of_an_editor_is_read_over(tmp_path: Path) -> None:
    text = json.dumps({"columns": [{"name": "a", "kind": "boolean"}]})
    (tmp_path / "schema.json").write_text(text, encoding="utf-8-sig")
    assert Schema.load(tmp_path / "schema.json").names == ("a",)
    assert read_spec(tmp_path / "schema.json", "spec") == json.loads(text)
    (tmp_path / "spec.toml").write_text("rows = 3", encoding="utf-8-sig")
    assert read_spec(tmp_path / "spec.toml", "spec") == {"rows": 3}


def test_domain_and_replace() -> None:
    schema = Schema.from_sizes({"a": 3, "b": 2})
    assert schema.domain == Domain(("a", "b"), (3, 2))
    wider = schema.replace([Boolean(name="b", missing=True)])
    assert wider.domain.sizes == (3, 3)
    assert schema.known
    assert not EVERYTHING.known
    with pytest.raises(SchemaError, match="Check the spelling"):
        schema["c"]
    with pytest.raises(SchemaError):
        EVERYTHING.domain


def test_a_column_is_left_out_where_no_rule_needs_it() -> None:
    schema = Schema((Integer(name="a"), Integer(name="b"), Integer(name="p")), (Ordered("a", "b"),))
    assert schema.without("p") == Schema((Integer(name="a"), Integer(name="b")), schema.rules)
    assert schema.without("other") is schema
    assert schema.without(None) is schema
    assert Schema((Integer(name="p"),)).without("p") is None
    with pytest.raises(SchemaError, match="columns that are released"):
        schema.without("a")
