"""The declared grid: from options and files, its cells, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench_cases import write_script, write_table

from margrave.benchmark.grid import DEFAULT_METRICS, Grid, read_grid
from margrave.benchmark.methods import REFERENCES, method_entry
from margrave.errors import InputError
from margrave.evaluation.metrics.registry import METRICS
from margrave.methods import METHODS

HERE = Path()


def grid(**more: Any) -> Grid:
    given = {"methods": ["aim", "real", "shuffled"], "data": ["parity"], "epsilon": [0.2, 1.0], "repeats": 2}
    return read_grid(None, given | more)


def test_cells_are_the_product_with_references_once() -> None:
    keys = [cell.key for cell in grid().cells()]
    assert keys == [
        "parity__real__reference__0",
        "parity__shuffled__reference__0",
        "parity__shuffled__reference__1",
        "parity__aim__eps0.2__0",
        "parity__aim__eps0.2__1",
        "parity__aim__eps1.0__0",
        "parity__aim__eps1.0__1",
    ]


def test_cheap_metrics_exist_and_groups_are_spelt_out() -> None:
    assert set(DEFAULT_METRICS) <= set(METRICS)
    assert grid().metrics == DEFAULT_METRICS
    assert grid(metrics=["cheap", "ml_f1", "average_tv"]).metrics == (*DEFAULT_METRICS, "ml_f1")
    assert set(grid(metrics=["all"]).metrics) == set(METRICS)


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_file_says_it_all_and_options_come_first(tmp_path: Path, suffix: str) -> None:
    write_table(tmp_path / "people.csv")
    write_script(tmp_path, "mine", "pass")
    said = {"methods": ["mst", "mine.py"], "data": ["people.csv"], "epsilon": [1], "max_memory": "2GB"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in said.items()]
    path = tmp_path / f"grid{suffix}"
    path.write_text(json.dumps(said) if suffix == ".json" else "\n".join(lines), encoding="utf-8")
    found = read_grid(path, {"epsilon": [3.0], "repeats": None})
    assert [method.name for method in found.methods] == ["mst", "mine"]
    assert found.tables[0].file == str((tmp_path / "people.csv").resolve())
    assert found.epsilons == (3.0,)
    assert found.limits.max_memory == 2_000_000_000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"methods": ["ami"]}, "methods must be one of"),
        ({"data": ["parities"]}, "data must be one of"),
        ({"methods": ["aim", "aim"]}, "methods must be named once each"),
        ({"epsilon": [0.0]}, "epsilon must be finite numbers above 0"),
        ({"epsilon": []}, "epsilon must be given"),
        ({"metrics": ["tvd"]}, "metrics must be among"),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"delta": 1.0}, "delta must be between 0 and 1"),
        ({"max_memory": "much"}, "max_memory must be a size"),
    ],
)
def test_what_cannot_be_run_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        grid(**more)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('methods = ["aim"]\nrepeat = 3', "made of known entries, got \\['repeat'\\]"),
        ('methods = "aim"', "methods of the grid g.toml must be a list"),
        ("methods = [", "spec must be valid TOML"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "g.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_grid(path, {"data": ["parity"], "epsilon": [1.0]})


def test_every_method_and_reference_is_an_entry() -> None:
    for name in (*METHODS, *REFERENCES):
        entry = method_entry(name, HERE)
        assert entry.name == name
        assert entry.summary
        assert type(entry).from_json(json.loads(json.dumps(entry.to_json()))) == entry
    assert method_entry("auto+target", HERE).settings["target"]


def test_the_fingerprint_of_a_script_is_its_text(tmp_path: Path) -> None:
    first = method_entry(write_script(tmp_path, "mine", "pass"), HERE).digest
    assert method_entry(write_script(tmp_path, "mine", "pass"), HERE).digest == first
    assert method_entry(write_script(tmp_path, "mine", "rows += 1"), HERE).digest != first


def test_the_summary_of_a_script_is_the_first_line_of_its_docstring(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    for text, said in (('"""Rows of mine.\n\nMore."""\n', "Rows of mine."), ("x = 1\n", ""), ("x =\n", "")):
        path.write_text(text, encoding="utf-8")
        assert method_entry(str(path), HERE).summary == said


def test_a_peer_names_its_adapter(tmp_path: Path) -> None:
    spec = tmp_path / "theirs.toml"
    spec.write_text('kind = "peer"\nadapter = "run.py"', encoding="utf-8")
    with pytest.raises(InputError, match=r"adapter of the method file theirs\.toml must be a file"):
        method_entry(str(spec), HERE)
    (tmp_path / "run.py").write_text("pass", encoding="utf-8")
    assert method_entry(str(spec), HERE).script == (tmp_path / "run.py").resolve()
    spec.write_text('name = "aim"\nmethod = "mst"', encoding="utf-8")
    with pytest.raises(InputError, match="one that is not taken"):
        method_entry(str(spec), HERE)
    spec.write_text('name = "../aim"\nmethod = "mst"', encoding="utf-8")
    with pytest.raises(InputError, match="short plain name"):
        method_entry(str(spec), HERE)
