"""What those who come from elsewhere expect: parameters as in scikit-learn, metadata of SDV."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sklearn import base

import margrave as mg
from command_line import call
from margrave.errors import InputError, SchemaError

TABLE = pa.table({"a": [0, 1, 1, 0] * 50, "b": [1, 1, 0, 0] * 50})
SCHEMA = mg.Schema.from_sizes({"a": 2, "b": 2})
METADATA: dict[str, Any] = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "guest",
    "columns": {
        "guest": {"sdtype": "id", "regex_format": "G-[0-9]{5}"},
        "guest_email": {"sdtype": "email", "pii": True},
        "room": {"sdtype": "categorical", "order": ["BASIC", "DELUXE", "SUITE"]},
        "city": {"sdtype": "city"},
        "nights": {"sdtype": "numerical", "computer_representation": "Int64"},
        "rate": {"sdtype": "numerical", "computer_representation": "Float"},
        "rewards": {"sdtype": "boolean"},
        "checkin": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
        "seen": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
        "breakfast": {"sdtype": "datetime", "datetime_format": "%H:%M"},
        "note": {"sdtype": "unknown", "pii": False},
        "secret": {"sdtype": "unknown", "pii": True},
    },
}


def test_parameters_are_the_arguments_and_come_back_as_they_were() -> None:
    unit = mg.Unit("person", 2)
    synthesizer = mg.Synthesizer("mst", epsilon=1, unit=unit, missing=("?", ""))
    params = synthesizer.get_params()
    assert list(params) == list(inspect.signature(mg.Synthesizer).parameters)
    assert params["unit"] is unit
    assert (params["method"], params["epsilon"], params["delta"]) == ("mst", 1, 1e-9)
    again = mg.Synthesizer(**params)
    assert all(again.get_params()[name] is value for name, value in params.items())


def test_parameters_can_be_set_and_a_wrong_one_changes_nothing() -> None:
    synthesizer = mg.Synthesizer("mst", epsilon=1.0, schema=SCHEMA)
    assert synthesizer.set_params(epsilon=2.0, method="independent") is synthesizer
    assert (synthesizer.epsilon, synthesizer.fitter.name) == (2.0, "independent")
    before = synthesizer.get_params()
    for wrong in ({"epsilon": -1.0}, {"epsilons": 1.0}, {"method": "none"}):
        with pytest.raises(InputError):
            synthesizer.set_params(**wrong)
        assert synthesizer.get_params() == before
    assert synthesizer.fit(TABLE).guarantee.epsilon == 2.0


def test_clones_have_the_arguments_and_not_the_run(tmp_path: Path) -> None:
    book = mg.Book.create(tmp_path / "s.book")
    book.cap("people", 5.0, 1e-6)
    schema = SCHEMA.absorb_outside()
    first = mg.Synthesizer("independent", epsilon=1.0, schema=schema, ledger=book, dataset="people")
    first.fit(TABLE)
    for clone in (base.clone(first), first.clone()):
        assert clone is not first
        assert clone.get_params() == first.get_params()
        assert clone._ledger is None
    base.clone(first).fit(TABLE)
    assert len(book.runs()) == 2


def test_metadata_of_sdv_says_the_kinds() -> None:
    schema = mg.Schema.from_sdv(METADATA)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "guest": "identifier", "guest_email": "identifier", "room": "ordinal", "city": "categorical",
        "nights": "integer", "rate": "real", "rewards": "boolean", "checkin": "date", "seen": "moment",
        "breakfast": "time", "note": "unknown", "secret": "identifier",
    }  # fmt: skip
    assert schema["guest"] == mg.Identifier(name="guest", pattern="text", prefix="G-", digits=5)
    assert schema["room"] == mg.Ordinal(name="room", values=("BASIC", "DELUXE", "SUITE"))
    assert [column.known for column in schema.columns].count(True) == 3


def test_metadata_of_several_tables_and_what_is_none(tmp_path: Path) -> None:
    several = {"tables": {"guests": METADATA, "hotels": METADATA}, "METADATA_SPEC_VERSION": "V1"}
    assert mg.Schema.from_sdv(several, table="hotels") == mg.Schema.from_sdv(METADATA)
    assert mg.Schema.from_sdv({"tables": {"guests": METADATA}}) == mg.Schema.from_sdv(METADATA)
    for table in (None, "rooms"):
        with pytest.raises(InputError, match="guests"):
            mg.Schema.from_sdv(several, table=table)
    for wrong in ({}, {"columns": {}}, {"columns": {"a": 1}}, {"columns": {"a": {}}}, {"tables": {}}):
        with pytest.raises(SchemaError, match="SDV"):
            mg.Schema.from_sdv(wrong)
    with pytest.raises(InputError):
        mg.Schema.from_sdv(tmp_path / "none.json")
    (tmp_path / "torn.json").write_text("{", encoding="utf-8")
    with pytest.raises(SchemaError, match="JSON"):
        mg.Schema.from_sdv(tmp_path / "torn.json")


def test_the_schema_command_reads_metadata_of_sdv(tmp_path: Path) -> None:
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps(METADATA), encoding="utf-8")
    done = call("schema", "--from-sdv", path, "--owner", "guest", "--out", tmp_path / "schema.json")
    assert done.code == 0
    assert done.err.startswith("note: the file's dates need --format checkin=%d %b %Y\n")
    assert "proposal: 'note' may be free text" in done.err
    written = mg.Schema.load(tmp_path / "schema.json")
    assert written == mg.Schema.from_sdv(METADATA).without("guest")
    for words in ((), (path, "--from-sdv", path)):
        refused = call("schema", *words)
        assert (refused.code, "--from-sdv" in refused.err) == (2, True)
