"""Names with brackets go through every command as they are written, on the terminal and in files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import call, write_csv

NAMES = ["[b]", "income [/EUR]", ":smile:"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("[red]")
    rng = np.random.default_rng(0)
    rows: list[list[object]] = [["xy"[a], "pqr"[b], "uvw"[b]] for a, b in rng.integers(0, (2, 3), (600, 2))]
    write_csv(folder / "t.csv", [list(NAMES), *rows])
    return folder


def test_a_run_says_its_rounds_and_ends(folder: Path) -> None:
    done = call(
        "synthesize", folder / "t.csv", "--epsilon", 5, "--method", "mst", "--out", folder / "out.csv"
    )
    assert done.code == 0, done.err
    assert "income [/EUR]" in done.err
    assert str(folder / "out.csv") in done.out
    head = (folder / "out.csv").read_text(encoding="utf-8").splitlines()[0]
    assert head == ",".join(NAMES)


def test_plan_schema_and_evaluate_name_the_columns(folder: Path) -> None:
    table = folder / "t.csv"
    planned = call("plan", table, "--epsilon", 5, "--method", "mst")
    assert planned.code == 0, planned.err
    described = call("schema", table)
    assert [column["name"] for column in json.loads(described.out)["columns"]] == NAMES
    compared = call("evaluate", table, table, "--json")
    assert compared.code == 0, compared.err
    assert all(name in compared.out for name in NAMES)
    told = call("evaluate", table, table)
    assert told.code == 0, told.err


def test_errors_name_columns_and_paths(folder: Path) -> None:
    options = ("--epsilon", 5, "--out", folder / "no.csv")
    refused = call("synthesize", folder / "t.csv", *options, "--target", "[/EUR]")
    assert refused.code == 2
    assert "income [/EUR]" in refused.err
    gone = call("synthesize", folder / "[/gone].csv", *options)
    assert gone.code == 2
    assert "[/gone].csv" in gone.err
