"""The made-up hospital: seeded, of any size, and true to the facts that its docstring states."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from command_line import call
from margrave.datasets import make_hospital
from margrave.errors import InputError

DIGEST = (
    "import hashlib, margrave.datasets as d;"
    "print(hashlib.sha256(str(d.make_hospital(300, seed=4).to_pydict()).encode()).hexdigest())"
)


@pytest.fixture(scope="module")
def visits() -> pa.Table:
    return make_hospital(10_000)


def test_the_table_has_what_makes_real_tables_hard(visits: pa.Table) -> None:
    assert visits.shape == (10_000, 22)
    assert len(visits["patient"].unique()) == 4_000
    assert len(visits["visit"].unique()) == 10_000
    assert len(visits["diagnosis"].unique()) > 500
    assert pc.all(pc.match_substring_regex(visits["zip"], "^0[0-9]{4}$")).as_py()
    assert {name for name in visits.column_names if visits[name].null_count} == {
        *("systolic", "weight", "smoker"),
    }
    charges = visits["charge"].cast("double")
    assert pc.max(charges).as_py() > 8 * pc.mean(charges).as_py()


def test_what_is_said_to_hold_in_every_row_does(visits: pa.Table) -> None:
    rows = visits.to_pylist()
    assert all(row["admitted"] <= row["discharged"] for row in rows)
    assert all(row["born"] <= row["arrived"].date() <= row["admitted"] for row in rows)
    assert all(row["paid"] + row["owed"] == row["charge"] for row in rows)
    assert all(row["paid"] >= 0 and row["owed"] >= 0 for row in rows)
    assert not any(row["sex"] == "M" and row["ward"] == "obstetrics" for row in rows)
    assert all(row["age"] < 18 for row in rows if row["ward"] == "paediatrics")
    assert len({(row["zip"], row["county"]) for row in rows}) == len({row["zip"] for row in rows})


def test_the_seed_decides_everything_in_every_process() -> None:
    here = hashlib.sha256(str(make_hospital(300, seed=4).to_pydict()).encode()).hexdigest()
    there = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here
    assert not make_hospital(300, seed=5).equals(make_hospital(300, seed=4))


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_few_rows_can_be_made(rows: int) -> None:
    assert make_hospital(rows).num_rows == rows


@pytest.mark.parametrize(("rows", "seed"), [(0, 0), (5, -1)])
def test_what_cannot_be_made_is_refused(rows: int, seed: int) -> None:
    with pytest.raises(InputError):
        make_hospital(rows, seed=seed)


def test_the_command_writes_the_same_table(tmp_path: Path) -> None:
    done = call("example", "hospital", "--rows", 300, "--seed", 4, "--out", tmp_path / "a.csv")
    assert (done.code, done.err) == (0, "")
    assert "300 rows" in done.out
    call("example", "hospital", "--rows", 300, "--seed", 4, "--out", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    header, *rows = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert header.split(",") == make_hospital(1).column_names
    assert len(rows) == 300
