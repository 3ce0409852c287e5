"""The comparison with the paper's figures: its settings, its verdicts, its page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from margrave.benchmark.datasets import table_entry
from margrave.methods import METHODS

BENCH = Path(__file__).parents[1] / "bench"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_paper004", BENCH / "runs" / "paper004.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PAPER = _load()


def test_the_paper_s_preprocessing_is_that_of_the_tables() -> None:
    for name in PAPER.TABLES:
        entry = table_entry(f"{name}.toml", BENCH / "data", BENCH / "data") if name == "adult-100" else None
        said = (BENCH / "data" / f"{name}.toml").read_text(encoding="utf-8")
        assert "bins = 100" in said
        assert ("rare = 0.002" in said) == ("discovery = 0.1" in said) == (name != "acs-100")
        assert entry is None or (entry.bins, entry.rare, entry.discovery) == (100, 0.002, 0.1)


def test_there_is_a_figure_for_every_method_metric_and_epsilon() -> None:
    figures = PAPER.theirs(PAPER.FIGURES)
    assert figures["Bank", "ml_efficiency_f1", "AIM", 1.0] == 0.71
    assert figures["Bank", "minutes", "AIM", 5.0] == 23.57
    for method, name in PAPER.NAMES.items():
        assert method.removesuffix("+target") in METHODS
        for metric in (*(one.theirs for one in PAPER.METRICS.values()), PAPER.MINUTES):
            for _, dataset in PAPER.TABLES.values():
                for epsilon in PAPER.EPSILONS:
                    assert not name or (dataset, metric, name, epsilon) in figures


@pytest.mark.parametrize(
    ("metric", "values", "figure", "word"),
    [
        ("ml_f1", [0.70], 0.71, "worse"),
        ("ml_f1", [0.706], 0.71, "as good"),
        ("ml_f1", [0.68, 0.72], 0.71, "as good"),
        ("ml_f1", [0.75, 0.76], 0.71, "better"),
        ("fidelity_error", [0.12, 0.121], 0.11, "worse"),
        ("fidelity_error", [0.10, 0.12], 0.11, "as good"),
        ("query_error", [0.0005], 0.002, "better"),
    ],
)
def test_a_verdict_is_about_more_than_the_spread(
    metric: str, values: list[float], figure: float, word: str
) -> None:
    assert PAPER.verdict(values, figure, PAPER.METRICS[metric]) == word


def _cell(method: str, epsilon: float, **more: object) -> dict[str, object]:
    scores = {f"metric_{name}": 0.5 for name in PAPER.METRICS}
    return {"status": "done", "synthesis_cpu_seconds": 6.0, **scores, **more}


def test_tables_hold_what_was_run_and_how_it_failed() -> None:
    figures = PAPER.theirs(PAPER.FIGURES)
    cells = {
        ("bank-100", "aim", 1.0): [_cell("aim", 1.0), _cell("aim", 1.0, metric_ml_f1=0.7)],
        ("bank-100", "real", 0.0): [_cell("real", 0.0, metric_ml_f1=0.75)],
        ("bank-100", "gem", 1.0): [{"status": "time", "metric_ml_f1": None, "synthesis_cpu_seconds": None}],
    }
    lines = PAPER.metric_table(cells, "bank-100", "ml_f1", figures)
    assert "| aim | 1 | 2 | 0.600 [0.500, 0.700] | 0.71 | 0.85 | as good | 0.80 to 0.93, as good |" in lines
    assert "| gem | 1 | 0 | time | | | | |" in lines
    assert "| real rows | | 1 | 0.750 | 0.76 | | | |" in lines
    errors = PAPER.metric_table(cells, "bank-100", "query_error", figures)
    assert any(line.startswith("| aim | 1 | 2 |") and line.endswith("| worse | |") for line in errors)
    assert "| ml_f1 | 1 | aim | aim |" in PAPER.order_table(cells, "bank-100", figures)
    times = PAPER.time_table(cells, "bank-100", figures)
    assert "| aim | 1 | 2 | 0.10 | 10.23 | 0.01 | yes |" in times
    assert not any("privsyn" in line for line in (*lines, *times))


def test_the_page_is_that_of_the_outcomes(tmp_path: Path) -> None:
    """The page in docs is not edited by hand."""
    args = PAPER.argparse.Namespace(out=tmp_path / "page.md")
    PAPER.page(args)
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == PAPER.PAGE.read_text(encoding="utf-8")
