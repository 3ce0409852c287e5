"""The command `margrave regress`."""

from __future__ import annotations

import csv
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import margrave as mg
from command_line import call
from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee, NoisyMarginal
from margrave.run.regressor import Regressor
from margrave.run.regressor.result import PerturbedRegression
from margrave.tables.files import Tables

SCHEMA = mg.Schema(
    (
        mg.Integer(name="pay", lower=0, upper=9, bins=5, missing=False),
        mg.Categorical(name="a=b", values=("x", "y=z"), missing=False),
        mg.Boolean(name="ill", missing=False),
    )
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    tables = []
    for pair in combinations(SCHEMA.names, 2):
        shape = SCHEMA.domain.shape(pair)
        tables.append(NoisyMarginal(pair, 4000 / np.prod(shape) + rng.normal(0, 2, shape), 2.0))
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    path = tmp_path_factory.mktemp("regress") / "r.margrave"
    mg.fit_tables(Tables(SCHEMA, tuple(tables), promise), model="independent").save(path)
    return path


def test_coefficients_are_printed_and_written(release: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.csv"
    done = call("regress", release, "--target", "pay", "--reference", "a=b=y=z", "--out", out)
    assert done.code == 0
    assert "linear regression of pay" in done.out
    assert "nothing was spent" in done.out
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows][:2] == ["(intercept)", "a=b=x"]
    assert float(rows[1]["lower"]) < float(rows[1]["middle"]) < float(rows[1]["upper"])
    quiet = call(
        "regress", release, "--target", "ill", "--kind", "logistic", "--out", out, "--quiet", "--force"
    )
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    bare = call("regress", release, "--target", "pay", "--no-intercept", "--encoding", "a=b=ranks")
    assert "(intercept)" not in bare.out
    assert "a=b " in bare.out
    assert "a=b enters by ranks, from -1 for its first code to 1 for its last" in bare.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "city"), "target must be among"),
        (("--target", "pay", "--encoding", "city=ranks"), "--encoding must be"),
        (("--target", "pay", "--reference", "a=b"), "--reference must be"),
        (("--target", "pay", "--quiet"), "--out must be"),
        (("--target", "pay", "--level", 2), "level must be"),
        (("--target", "pay", "--out", "c.docx"), "out must be"),
    ],
)
def test_bad_input_ends_with_two_and_writes_nothing(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = call("regress", release, *words)
    assert refused.code == 2
    assert message in refused.err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_kept(release: Path, tmp_path: Path) -> None:
    taken = tmp_path / "c.csv"
    taken.write_text("kept", encoding="utf-8")
    refused = call("regress", release, "--target", "pay", "--out", taken)
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert taken.read_text(encoding="utf-8") == "kept"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private table and what is declared of it."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(1)
    rows = [f"{rng.integers(0, 10)},{'xy'[rng.integers(0, 2)]}" for _ in range(300)]
    table, schema = folder / "people.csv", folder / "schema.json"
    table.write_text("\n".join(["pay,a=b", *rows]) + "\n", encoding="utf-8")
    kinds = (
        mg.Integer(name="pay", lower=0, upper=9, bins=5, missing=False),
        mg.Categorical(name="a=b", values=("x", "y"), missing=False),
    )
    mg.Schema(kinds).save(schema)
    return table, schema


def test_a_table_is_regressed_where_it_is_said_that_this_spends(
    people: tuple[Path, Path], tmp_path: Path
) -> None:
    table, schema = people
    out, details = tmp_path / "c.csv", tmp_path / "c.json"
    words = ["--spend", "noisy_newton", "--target", "a=b", "--epsilon", 2, "--schema", schema, "--out", out]
    page = tmp_path / "c.html"
    done = call("regress", table, *words, "--details", details, "--report", page)
    assert done.code == 0, done.err
    assert "logistic regression of a=b (y) by noisy_newton" in done.out
    with out.open(encoding="utf-8", newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == ["(intercept)", "pay"]
    told = json.loads(details.read_text(encoding="utf-8"))
    assert told["guarantee"]["epsilon"] == 2.0
    assert len(told["ledger"]) == 6
    shown = page.read_text(encoding="utf-8")
    assert shown.count("<section") == 4
    assert "There are no intervals" in shown
    assert "noisy_newton" in shown
    assert f"{told['coefficients'][1]['estimate']:.5g}" in shown
    assert "One row is protected, not one person." in shown
    assert (tmp_path / "c.csv.ledger.jsonl").exists()
    # A regression cannot be resumed, so nothing is kept for that.
    assert not list(tmp_path.glob("*.answers"))
    again = call("regress", table, *words)
    assert again.code == 2
    assert "--force" in again.err


@pytest.mark.parametrize("failing", ["out", "report"])
@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_what_was_paid_for_is_printed_where_it_cannot_be_written(
    people: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    quiet: tuple[str, ...],
) -> None:
    """A folder that is gone by then: a regression cannot be resumed, and another one would spend again."""
    table, schema = people
    folder = tmp_path / "gone"
    folder.mkdir()
    places = {"out": tmp_path / "c.csv", "report": tmp_path / "c.html"}
    places[failing] = folder / places[failing].name
    fit, made = Regressor.fit, []

    def fit_and_lose_the_folder(*args: Any, **options: Any) -> Any:
        made.append(fit(*args, **options))
        folder.rmdir()
        return made[-1]

    monkeypatch.setattr(Regressor, "fit", fit_and_lose_the_folder)
    ledger = tmp_path / "l.jsonl"
    done = call(
        "regress", table, "--spend", "ssp", "--target", "pay", "--epsilon", 2, "--schema", schema,
        "--out", places["out"], "--report", places["report"], "--ledger", ledger, *quiet,
    )  # fmt: skip
    assert done.code == 2
    assert f"margrave: --{failing} must be a file that can be written" in done.err
    assert "paid for" in done.err
    shown = list(csv.DictReader(done.out.splitlines()))
    assert [row["name"] for row in shown] == ["(intercept)", "a=b=y"]
    assert [float(row["estimate"]) for row in shown] == made[0].estimates.tolist()
    # Nothing is dropped before all is written.
    assert ledger.with_name("l.jsonl.answers").exists()


def test_what_was_paid_for_is_printed_whatever_fails(
    people: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(PerturbedRegression, "write", fail)
    words = ["--spend", "ssp", "--target", "pay", "--epsilon", 2, "--schema", people[1]]
    done = call("regress", people[0], *words, "--out", tmp_path / "c.csv")
    assert (done.code, "unexpected ZeroDivisionError" in done.err) == (1, True)
    assert "(intercept)" in done.out


@pytest.mark.parametrize(
    ("given", "words", "message"),
    [
        ("release", ("--spend", "ssp", "--epsilon", 1, "--out", "c.csv"), "leave --spend out"),
        ("table", (), "add --spend ssp"),
        ("table", ("--epsilon", 1), "left out without --spend"),
        ("release", ("--report", "c.html"), "left out without --spend"),
        ("table", ("--spend", "ssp", "--out", "c.csv"), "--epsilon and --out"),
        ("table", ("--spend", "ssp", "--epsilon", 1), "--epsilon and --out"),
        ("table", ("--spend", "ssp", "--epsilon", 1, "--out", "c.csv", "--source", "model"), "--source"),
        ("table", ("--spend", "ssp", "--epsilon", 1, "--out", "c.csv", "--kind", "logistic"), "kind must"),
        (
            "table",
            ("--spend", "ssp", "--epsilon", 1, "--out", "c.csv", "--encoding", "z=ranks"),
            "--encoding",
        ),
    ],
)
def test_releases_and_tables_are_not_confused(
    release: Path,
    people: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    words: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = release if given == "release" else people[0]
    refused = call("regress", path, "--target", "pay", *words)
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert not list(tmp_path.iterdir())
