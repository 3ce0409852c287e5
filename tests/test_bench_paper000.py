"""The comparison with the PrivPGD paper: its figures, its settings, its protected query, its page."""

from __future__ import annotations

import argparse
import importlib
import json
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from margrave.benchmark.datasets import table_entry
from margrave.benchmark.methods import method_entry
from margrave.benchmark.prepared import prepare
from margrave.benchmark.results import Findings, write_results
from margrave.files import read_spec

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH / "runs"))
    return importlib.import_module("paper000")


def outcome(table: str, method: str, error: float, metrics: list[str]) -> dict[str, object]:
    known = method == "real"
    return {
        "key": f"{table}__{method}",
        "data": table,
        "method": method,
        "kind": "reference" if known else "margrave",
        "epsilon": None if known else 2.5,
        "repeat": 0,
        "status": "done",
        "scores": dict.fromkeys(metrics, error),
    }


def test_the_papers_figures_are_read_and_garbled_ones_are_not_there(paper: ModuleType) -> None:
    found = paper.theirs(paper.HOME / "figures.csv")
    assert len(found.tables) == 9
    ratio = found.ratio("Emp", "AIM", 2.5, "covariance_error", "PrivPGD")
    assert ratio == pytest.approx(math.log2(0.04 / 0.02))
    assert found.ratio("Emp", "Private-GSD", 2.5, "covariance_error", "PrivPGD") < 0
    assert found.ratio("Emp", "RAP", 2.5, "covariance_error", "PrivPGD") is None
    assert found.ratio("Inc", "AIM", 2.5, "average_sw1", "PrivPGD") is None
    assert found.error("Emp", "real", None, "downstream_error") == 0.19


def test_every_method_is_under_the_papers_adjacency_and_every_table_has_a_target(paper: ModuleType) -> None:
    for name, word in paper.METHODS.items():
        entry = method_entry(word, paper.HOME)
        assert entry.name == name
        if entry.kind == "margrave":
            assert entry.settings["options"] == {"adjacency": "replace_one"}
    assert 'adjacency="replace_one"' in (paper.HOME / "PrivPGD.py").read_text(encoding="utf-8")
    for name, word in paper.TABLES.items():
        if word == "adult":
            assert table_entry(word, BENCH).bins == 32
        else:
            spec = read_spec(BENCH / "data" / word, "data")
            assert spec["target"]
            assert spec.get("bins", 32) == 32
            assert Path(word).stem == name


def test_places_are_counted_and_a_table_without_privpgd_is_left_out(paper: ModuleType) -> None:
    metrics = list(paper.METRICS.values())
    cells = [outcome("a", "PrivPGD", 2.0, metrics), outcome("a", "AIM", 1.0, metrics)]
    cells += [outcome("a", "RAP", 3.0, metrics), outcome("b", "AIM", 1.0, metrics)]
    cells += [outcome("b", "RAP", 2.0, metrics), outcome("b", "GEM", 3.0, metrics)]
    counted = paper.ranks(Findings(cells), ["PrivPGD", "AIM", "RAP", "GEM"])
    assert set(counted.values()) == {(0, 1, 1)}


def test_runs_are_counted_by_cell_and_failures_apart(paper: ModuleType) -> None:
    metrics = list(paper.METRICS.values())
    cells = [outcome("a", name, 1.0, metrics) for name in ("PrivPGD", "AIM", "real")]
    cells += [outcome("b", "AIM", 1.0, metrics), outcome("b", "AIM", 2.0, metrics) | {"repeat": 1}]
    cells += [outcome("b", "PrivPGD", 1.0, metrics) | {"status": "time"}]
    said = paper.coverage(Findings(cells))
    assert "for 3 of 4 combinations of a table and a method: 2 with 1 run, 1 with 2 runs;" in said
    assert said.endswith("runs that failed: 1.")


def test_the_page_has_ratios_scores_and_pictures(
    paper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = list(paper.METRICS.values())
    cells = [outcome("acs_employment", "PrivPGD", 0.01, metrics)]
    cells += [
        outcome("acs_employment", "AIM", 0.04, metrics),
        outcome("acs_employment", "real", 0.1, metrics),
    ]
    write_results(cells, tmp_path / "results.parquet")
    (tmp_path / "benchmark.json").write_text(json.dumps({"data": {}}))
    lines = [
        {"table": "adult", "strength": s, "protected": 0.1 + s, **dict.fromkeys(paper.fits.ERRORS, 0.2)}
        for s in (0.0, 0.1, 1.0)
    ]
    (tmp_path / "protect.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(paper, "OUT", tmp_path)
    paper.page(argparse.Namespace(out=tmp_path / "page.md"))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| acs_employment | +2.00 |" in text
    assert "| *paper: Emp* | +1.00 |" in text
    assert "| adult | 1 | 1.10 | 0.200 |" in text
    for name in ("ratios", "ratios-paper", "protection"):
        assert f"pictures/page/{name}.svg" in text
        assert (tmp_path / "pictures" / "page" / f"{name}.svg").read_text().startswith("<svg")


def test_the_protected_answer_is_estimated_near_the_truth(paper: ModuleType) -> None:
    fits = paper.fits
    prepared = prepare(table_entry("parity", BENCH), 0.2, 0)
    query = fits.drawn_query(prepared, 3)
    assert sum(weight**2 for weight in query.direction.values()) == pytest.approx(1.0)
    assert set(query.direction) == set(fits.known(prepared).domain.names)
    parts = fits.smooth(query.heights(fits._coded(prepared, prepared.train)))
    # Noise of epsilon 0.5 on 64 cells of 16,000 rows, and half a cell of rounding at most.
    assert abs(fits.estimated(prepared, query) - float(np.mean(parts))) < 0.02


@pytest.mark.needs_extra("torch")
def test_the_curve_misses_the_protected_query_and_says_so(
    paper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper.fits, "ERRORS", ("average_tv",))
    said = argparse.Namespace(tables=["parity"], root=None, strengths=[1.0], particles=500, epochs=20, seed=0)
    out = tmp_path / "protect.jsonl"
    out.write_text("".join(json.dumps({"table": name}) + "\n" for name in ("adult", "parity")))
    paper.fits.protect(said, {"parity": "parity"}, out)
    kept, first, second = paper.fits.read_lines(out)
    assert kept == {"table": "adult"}
    assert (first["strength"], second["strength"]) == (0.0, 1.0)
    assert second["protected"] > first["protected"] + 0.02
