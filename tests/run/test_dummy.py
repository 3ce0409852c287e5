"""Dummy rows: made from a schema alone, under its rules, with its kinds."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pytest

import margrave as mg
from command_line import call
from margrave.errors import InputError, SchemaError

SCHEMA = mg.Schema(
    (
        mg.Identifier(name="visit", pattern="text", prefix="V", digits=4),
        mg.Categorical(name="sex", values=("F", "M"), missing=False),
        mg.Categorical(name="ward"),
        mg.Integer(name="age", lower=0, upper=110, missing=False),
        mg.Integer(name="children", lower=2),
        mg.Date(name="admitted"),
        mg.Date(name="discharged"),
        mg.Unknown(name="remark"),
    ),
    rules=(
        mg.rules.Forbidden(("sex", "ward"), [("M", "obstetrics")]),
        mg.rules.Ordered("admitted", "discharged"),
    ),
)


def test_rows_hold_what_is_declared_and_obey_the_rules() -> None:
    rows = mg.make_dummy(SCHEMA, 500, rng=1).to_pylist()
    assert len(rows) == 500
    assert list(rows[0]) == list(SCHEMA.names)
    assert rows[0]["visit"] == "V0001"
    assert {row["sex"] for row in rows} == {"F", "M"}
    assert {row["ward"] for row in rows} == {"obstetrics", "value 1", "value 2", "value 3", None}
    assert not [row for row in rows if (row["sex"], row["ward"]) == ("M", "obstetrics")]
    ages = [row["age"] for row in rows]
    assert 0 <= min(ages) < 15
    assert 95 < max(ages) <= 110
    assert {row["children"] for row in rows if row["children"] is not None} <= set(range(2, 103))
    both = [(row["admitted"], row["discharged"]) for row in rows if row["admitted"] and row["discharged"]]
    assert len(both) > 400
    assert all(first <= last for first, last in both)


def test_the_same_seed_gives_the_same_rows_and_none_is_a_table() -> None:
    assert mg.make_dummy(SCHEMA, 20, rng=3).equals(mg.make_dummy(SCHEMA, 20, rng=3))
    assert mg.make_dummy(SCHEMA, 0).num_rows == 0
    keys = mg.make_dummy(mg.Schema((mg.Identifier(name="id"),)), 3)
    assert keys.to_pydict() == {"id": [1, 2, 3]}
    assert pa.types.is_date(mg.make_dummy(SCHEMA, 1).schema.field("admitted").type)


def test_what_cannot_be_made_up_is_refused() -> None:
    with pytest.raises(InputError, match="rows"):
        mg.make_dummy(SCHEMA, -1)
    far = mg.Schema(
        (mg.Categorical(name="by", values=("a",), missing=False), mg.Integer(name="n", missing=False)),
        rules=(mg.rules.Within("n", "by", {"a": (1000, 2000)}),),
    )
    with pytest.raises(SchemaError, match="rules"):
        mg.make_dummy(far, 5)


def test_on_the_command_line(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "schema.json")
    out = tmp_path / "dummy.csv"
    done = call(
        "dummy", tmp_path / "schema.json", "--rows", 50, "--out", out, "--seed", 1, "--separator", ";"
    )
    assert (done.code, done.err) == (0, "")
    assert "50 made-up rows, 8 columns, from the schema alone" in done.out
    assert "ward, children, admitted, discharged, remark" in done.out
    with out.open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file, delimiter=";"))) == 50
    again = call("dummy", tmp_path / "schema.json", "--out", out)
    assert (again.code, "--force" in again.err) == (2, True)
    made = call("dummy", tmp_path / "schema.json", "--rows", 5, "--out", tmp_path / "d.parquet", "--quiet")
    assert (made.code, made.out) == (0, "")


def test_a_schema_to_fill_in_is_enough(tmp_path: Path) -> None:
    """The file that `margrave schema` writes declares nothing but names and kinds."""
    call("example", "hospital", "--rows", 20, "--out", tmp_path / "visits.csv")
    call("schema", tmp_path / "visits.csv", "--owner", "patient", "--out", tmp_path / "schema.json")
    done = call("dummy", tmp_path / "schema.json", "--rows", 10, "--out", tmp_path / "dummy.csv")
    assert done.code == 0, done.err
    assert "filled in with placeholders, since not declared: visit, sex" in done.out
    with (tmp_path / "dummy.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    names = [entry["name"] for entry in json.loads((tmp_path / "schema.json").read_text())["columns"]]
    assert (header, len(rows)) == (names, 10)


def test_what_is_declared_but_for_missing_values_is_no_placeholder(tmp_path: Path) -> None:
    age = mg.Integer(name="age", lower=0, upper=110)
    mg.Schema([age, mg.Integer(name="size"), mg.Boolean(name="ill", missing=False)]).save(
        tmp_path / "schema.json"
    )
    done = call("dummy", tmp_path / "schema.json", "--rows", 10, "--out", tmp_path / "dummy.csv")
    assert "since not declared: size\n" in done.out
    assert "with empty cells, since nothing declares whether values are missing: age\n" in done.out
