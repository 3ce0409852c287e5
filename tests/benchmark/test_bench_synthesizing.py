"""Rows of each kind of entry, scored as a cell scores them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_cases import HIDDEN, write_script, write_table

from margrave.benchmark.cell import made_rows, run_cell
from margrave.benchmark.grid import Grid, read_grid
from margrave.benchmark.methods import method_entry
from margrave.benchmark.prepared import OTHER, Prepared, prepare
from margrave.errors import InputError
from margrave.run.synthesizer import Synthesizer


def prepared(folder: Path, **more: object) -> Prepared:
    write_table(folder / "people.csv", 600)
    (folder / "t.json").write_text(json.dumps({"file": "people.csv"} | more), encoding="utf-8")
    return prepare(read_grid(None, grid_words(folder)).tables[0], 0.25, 0)


def grid_words(folder: Path, *methods: str) -> dict[str, Any]:
    words = {"methods": list(methods or ["real"]), "data": [str(folder / "t.json")], "epsilon": [2.0]}
    return words | {"repeats": 1, "metrics": ["average_tv", "fidelity_error", "logistic_f1"]}


def made(word: str, table: Prepared, folder: Path, epsilon: float = 2.0) -> Any:
    return made_rows(
        method_entry(word, Path()), table, (epsilon, 1e-5), np.random.default_rng(0), folder
    ).rows


def cell(grid: Grid, folder: Path) -> dict[str, Any]:
    (one,) = grid.cells()
    request = {"table": one.table.to_json(), "method": one.method.to_json(), "epsilon": one.epsilon}
    told = json.loads(json.dumps({**request, "repeat": 0, "python": None, **grid.settings()}))
    return run_cell(told, folder)


def test_references_are_what_they_are_called(tmp_path: Path) -> None:
    table = prepared(tmp_path)
    real = table.train_rows
    assert made("real", table, tmp_path) is real
    shuffled, bootstrap = (made(word, table, tmp_path) for word in ("shuffled", "bootstrap"))
    assert np.array_equal(shuffled.count([("age",)])[0], real.count([("age",)])[0])
    pairs = [side.count([("age", "label")])[0] for side in (real, shuffled, bootstrap)]
    far, near = (np.abs(pairs[0] - other).sum() for other in pairs[1:])
    assert 0 < near < far
    assert bootstrap.size == shuffled.size == real.size == 450


@pytest.mark.parametrize("domain", ["public", "discovered"])
def test_margrave_learns_with_and_without_a_domain(domain: str, tmp_path: Path) -> None:
    table = prepared(tmp_path, domain=domain, target="label")
    rows = made("mst", table, tmp_path, epsilon=50.0)
    real = table.train_rows
    assert rows.size == real.size
    assert rows.domain == real.domain
    gap = np.abs(rows.count([("age", "label")])[0] - real.count([("age", "label")])[0]).sum()
    apart = np.abs(
        made("shuffled", table, tmp_path).count([("age", "label")])[0] - real.count([("age", "label")])[0]
    ).sum()
    assert gap < apart
    assert table.scoring["name"].labels[-2:] == (OTHER, "missing")


def test_rare_bins_of_a_public_domain_are_merged_by_the_share_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = prepared(tmp_path, bins=40, rare=0.05, discovery=0.1)
    assert table.public is not None
    assert table.public["age"].size == table.scoring["age"].size - 1 == 40
    asked: list[Synthesizer] = []
    fit = Synthesizer.fit
    monkeypatch.setattr(Synthesizer, "fit", lambda self, data: asked.append(self) or fit(self, data))
    rows = made("independent", table, tmp_path, epsilon=20.0)
    (one,) = asked
    ledger = one._ledger
    assert ledger is not None
    assert one.schema is not None
    assert one.discovery_share(one.schema) == pytest.approx(0.1)
    assert ledger.events[0].what == "detail of age"
    # What is merged spreads out again: rows are scored by all bins.
    assert rows.size == 450
    assert (rows.count([("age",)])[0] > 0).sum() > 30


def test_a_script_gets_the_table_and_what_is_public(tmp_path: Path) -> None:
    table = prepared(tmp_path, target="label")
    check = "assert (epsilon, delta, target, rows) == (2.0, 1e-5, 'label', 450) and schema.names == "
    check += "tuple(table.column_names); table = table.slice(0, 5)"
    assert made(write_script(tmp_path, "mine", check), table, tmp_path).size == 5
    (tmp_path / "none.py").write_text("x = 1", encoding="utf-8")
    with pytest.raises(InputError, match="with a function synthesize"):
        made(str(tmp_path / "none.py"), table, tmp_path)


def test_columns_that_the_table_has_not_are_an_error_and_no_score(tmp_path: Path) -> None:
    prepared(tmp_path)
    body = f"table = table.rename_columns([{HIDDEN!r}, *table.column_names[1:]])"
    found = cell(read_grid(None, grid_words(tmp_path, write_script(tmp_path, "other", body))), tmp_path)
    assert found["status"] == "error"
    assert "columns of synthetic rows must be among" in found["reason"]
    assert HIDDEN not in found["reason"]


def test_a_cell_scores_against_what_was_held_out(tmp_path: Path) -> None:
    prepared(tmp_path, target="label")
    found = cell(read_grid(None, grid_words(tmp_path, "real")), tmp_path)
    assert found["status"] == "done"
    assert found["scores"]["average_tv"] == 0.0
    assert found["scores"]["fidelity_error"] > 0.0
    assert found["scores"]["logistic_f1"] > 0.7
    assert found["rows"] == {"train": 480, "held_out": 120}
    assert (tmp_path / "stage").read_text() == "score"


def test_a_cell_without_a_target_has_scores_that_are_not_defined(tmp_path: Path) -> None:
    prepared(tmp_path)
    found = cell(read_grid(None, grid_words(tmp_path, "real")), tmp_path)
    assert found["scores"]["logistic_f1"] is None
    assert "logistic_f1" in found["notes"]
    found = cell(read_grid(None, grid_words(tmp_path, "auto+target")), tmp_path)
    assert found["status"] == "error"
    assert "one with a target" in found["reason"]


def test_an_error_of_a_method_is_told_by_its_kind_and_place_alone(tmp_path: Path) -> None:
    prepared(tmp_path)
    for body in (f"raise OSError({HIDDEN!r})", f"table = table.drop_columns([{HIDDEN!r}])"):
        found = cell(read_grid(None, grid_words(tmp_path, write_script(tmp_path, "bad", body))), tmp_path)
        assert found["status"] == "error"
        assert HIDDEN not in found["reason"]
    assert found["reason"].startswith("KeyError at ")
