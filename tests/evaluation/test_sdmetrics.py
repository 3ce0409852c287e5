"""SDMetrics as the oracle: its values for one pair of tables are kept, and asked again where it is installed.

`python tests/evaluation/test_sdmetrics.py`, with SDMetrics, writes the values that are kept.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from people import SCHEMA, people, rows_of

from margrave.evaluation.review import score_metrics
from margrave.evaluation.task import Task

KEPT = Path(__file__).with_name("sdmetrics_values.json")
NUMERIC, LISTED = ("age", "pay", "tax"), ("job", "town", "rich")
NAMES = ("ks_complement", "tv_complement", "contingency_similarity", "correlation_similarity")


def _tables() -> tuple[Any, Any]:
    """A real table and a synthetic one that has a job the real one lacks; "rest" stands for one job only."""
    real = people(400, 0, 0.2)
    jobs = ["cook" if job == "diver" else job for job in real.column("job").to_pylist()]
    real = real.set_column(real.column_names.index("job"), "job", [jobs])
    return real, people(300, 1, 0.6)


def _ours() -> dict[str, dict[str, float]]:
    real, synthetic = (rows_of(table) for table in _tables())
    return {score.name: dict(score.parts) for score in score_metrics(Task(real, synthetic, SCHEMA), NAMES)}


def _theirs() -> dict[str, dict[str, float]]:
    from sdmetrics.column_pairs import ContingencySimilarity, CorrelationSimilarity
    from sdmetrics.single_column import KSComplement, TVComplement

    real, synthetic = (table.to_pandas() for table in _tables())

    def one(metric: Any, names: tuple[str, ...]) -> dict[str, float]:
        return {name: float(metric.compute(real[name], synthetic[name])) for name in names}

    def two(metric: Any, names: tuple[str, ...]) -> dict[str, float]:
        return {
            " x ".join(pair): float(metric.compute(real[list(pair)], synthetic[list(pair)]))
            for pair in combinations(names, 2)
        }

    return {
        "ks_complement": one(KSComplement, NUMERIC),
        "tv_complement": one(TVComplement, LISTED),
        "contingency_similarity": two(ContingencySimilarity, LISTED),
        "correlation_similarity": two(CorrelationSimilarity, NUMERIC),
    }


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_that_sdmetrics_gave(name: str) -> None:
    ours, kept = _ours()[name], json.loads(KEPT.read_text())[name]
    assert ours.keys() == kept.keys()
    assert ours == pytest.approx(kept, abs=1e-9)


def test_the_score_is_the_mean_of_its_parts() -> None:
    real, synthetic = (rows_of(table) for table in _tables())
    for score in score_metrics(Task(real, synthetic, SCHEMA), NAMES):
        assert score.value == pytest.approx(np.mean(list(score.parts.values())), abs=1e-12)


@pytest.mark.oracle("sdmetrics")
@pytest.mark.filterwarnings("ignore")
def test_scores_are_those_that_sdmetrics_gives_here() -> None:
    ours, theirs = _ours(), _theirs()
    for name in NAMES:
        assert ours[name] == pytest.approx(theirs[name], abs=1e-9)


if __name__ == "__main__":
    KEPT.write_text(json.dumps(_theirs(), indent=2) + "\n")
