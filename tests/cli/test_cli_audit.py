"""`margrave audit`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest

import margrave.auditing.canary as canary
from command_line import call
from margrave.schema.columns import Categorical, Integer
from margrave.schema.schema import Schema

SCHEMA = Schema(
    (
        Integer(name="age", lower=0, upper=99, bins=10, missing=True),
        Categorical(name="town", values=("north", "south", "west"), missing=False),
    )
)


def test_an_audit_of_made_up_rows_is_printed() -> None:
    done = call("audit", "--method", "independent", "--epsilon", 1, "--runs", 16)
    assert done.code == 0
    assert done.out.startswith("audit of independent: no violation found\n")
    assert "epsilon >= 0 at the claimed delta, with 95.00% confidence" in done.out
    assert done.err == ""


def test_a_broken_claim_ends_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "runner", lambda *parts: lambda table: table)
    done = call("audit", "--epsilon", 1, "--runs", 200, "--json")
    assert done.code == 1
    assert json.loads(done.out)["violated"] is True


def test_many_canaries_in_one_run() -> None:
    done = call("audit", "--method", "independent", "-e", 1, "--canaries", 50, "--adjacency", "replace_one")
    assert done.code == 0
    assert "with 50 canaries in 1 run(s)" in done.out


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    table, schema = tmp_path / "people.csv", tmp_path / "schema.json"
    csv.write_csv(pa.table({"town": ["north", "south"] * 20, "age": [31, None] * 20}), table)
    SCHEMA.save(schema)
    asked = ("audit", "--method", "independent", "-e", 1, "--runs", 8, "--table", table, "--schema")
    done = call(*asked, schema, "--max-rows", 2)
    assert (done.code, done.err) == (0, "")
    assert "with at most 2 row(s)" in done.out
    assert call(*asked[:-1]).code == 2
    assert call(*asked, tmp_path / "absent.json").code == 2
    Schema.from_sizes({"a": 2}).save(schema)
    done = call(*asked, schema)
    assert (done.code, done.err) == (
        2,
        "margrave: schema must be made of the table's columns, got ['a']. Remove the others.\n",
    )


def test_wrong_numbers_are_refused() -> None:
    for option, value in (("--runs", 3), ("--confidence", 2), ("--max-rows", 0), ("--epsilon", -1)):
        done = call("audit", "--method", "mst", "--epsilon", 1, option, value)
        assert done.code == 2, option
        assert option.strip("-").replace("-", "_") in done.err
