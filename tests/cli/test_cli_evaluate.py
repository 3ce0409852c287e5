"""`margrave evaluate` as somebody uses it who has two files and knows nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import call, write_csv


def _table(path: Path, seed: int, noise: float, rows: int = 300) -> Path:
    rng = np.random.default_rng(seed)
    size = rng.choice(["large", "small"], rows)
    other = np.where(rng.random(rows) < noise, rng.choice(["large", "small"], rows), size)
    number = np.where(other == "large", 50, 10) + rng.integers(0, 9, rows)
    return write_csv(path, [["size", "kind", "number"], *zip(size, other, number, strict=True)])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    return (
        _table(tmp_path / "real.csv", 0, 0.2),
        _table(tmp_path / "one.csv", 1, 0.2),
        _table(tmp_path / "two.csv", 2, 1.0),
    )


def test_two_files_are_all_it_takes(files: tuple[Path, ...], tmp_path: Path) -> None:
    real, one, _ = files
    done = call("evaluate", real, one)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("NOT PRIVATE")
    assert lines[1].split() == ["score", "one", "bootstrap", "shuffled", "better"]
    assert any(line.startswith("one: ") and "real table" in line for line in lines)
    assert any("How columns depend on each other is kept" in line for line in lines)
    assert not (tmp_path / "page.html").exists()


def test_several_tables_make_one_page(files: tuple[Path, ...], tmp_path: Path) -> None:
    real, one, two = files
    page = tmp_path / "page.html"
    done = call("evaluate", real, one, two, "--report", page, "--target", "size")
    assert (done.code, done.err) == (0, "")
    text = page.read_text(encoding="utf-8")
    assert "<h1>one, two against real</h1>" in text
    assert text.index("NOT PRIVATE") < text.index("At a glance")
    for words in ("Real against real", "Shuffled columns", "Precision against recall", "t-SNE of"):
        assert words in text


def test_json_names_each_table(files: tuple[Path, ...]) -> None:
    real, one, two = files
    done = call("evaluate", real, one, two, "--json", "--metrics", "k_marginal")
    document = json.loads(done.out)
    assert list(document["tables"]) == ["one", "two"]
    scores = {score["name"]: score for score in document["tables"]["two"]["scores"]}
    assert scores["k_marginal"]["value"] < document["references"]["bootstrap"]["k_marginal"]


def test_files_of_one_name_are_told_apart(files: tuple[Path, ...], tmp_path: Path) -> None:
    real, one, _ = files
    (tmp_path / "other").mkdir()
    other = _table(tmp_path / "other" / "one.csv", 3, 0.5)
    few = ("--metrics", "k_marginal", "--json")
    named = json.loads(call("evaluate", real, one, other, *few).out)["tables"]
    assert list(named) == [str(one), str(other)]
    same = json.loads(call("evaluate", real, one, one, *few).out)["tables"]
    assert list(same) == [f"{one} (1)", f"{one} (2)"]
    taken = one.rename(tmp_path / "shuffled.csv")
    assert list(json.loads(call("evaluate", real, taken, *few).out)["tables"]) == ["shuffled.csv"]


def test_rules_of_the_schema_are_counted(files: tuple[Path, ...], tmp_path: Path) -> None:
    real, one, _ = files
    values = ["large", "small"]
    columns = [
        {"name": n, "kind": "categorical", "values": values, "missing": False} for n in ("size", "kind")
    ]
    columns.append({"name": "number", "kind": "integer", "lower": 0, "upper": 99, "missing": False})
    rules = [{"kind": "forbidden", "columns": ["size", "kind"], "combinations": [["large", "small"]]}]
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"margrave_schema": 2, "columns": columns, "rules": rules}))
    done = call("evaluate", real, one, "--schema", schema)
    assert done.code == 0, done.err
    assert "of its rows break a declared rule" in done.out


def test_mistakes_are_answered_with_what_to_do(files: tuple[Path, ...], tmp_path: Path) -> None:
    real, one, _ = files
    more = write_csv(tmp_path / "more.csv", [["size", "kind", "extra"], ["large", "small", "1"]])
    none = write_csv(tmp_path / "none.csv", [["a", "b"], ["1", "2"]])
    empty = write_csv(tmp_path / "empty.csv", [["size", "kind", "number"]])
    for args, words in (
        ((real, more), "Is the first table the real one?"),
        ((none, none, real), "columns of table real.csv must be among"),
        ((real, one, "--target", "siez"), "target must be one of"),
        ((real, one, "--metrics", "beauty"), "metrics must be among"),
        ((real, tmp_path / "absent.csv"), "absent.csv"),
        ((real, empty), "synthetic must be a table with rows"),
        ((real, one, "--report", one), "report must be another file than synthetic one"),
        ((real,), "Missing argument"),
    ):
        done = call("evaluate", *args)
        assert done.code == 2, (args, done)
        assert words in done.err, (words, done.err)
