"""The main job on Adult, to the accuracy that is promised. Slow: five runs each."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import margrave as mg

RUNS = Path(__file__).parents[2] / "bench" / "runs"
pytestmark = pytest.mark.slow


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", RUNS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("method", "pairs", "triples"), [("aim", 0.0300, 0.0700), ("mst", 0.0440, 0.1100)])
def test_error_on_adult_in_32_bins(method: str, pairs: float, triples: float) -> None:
    bench = _load("adult")
    real, sizes = bench.adult_codes()
    found = []
    for _ in range(5):
        schema = mg.Schema.from_sizes(sizes)
        synthesis = mg.Synthesizer(method, epsilon=1.0, delta=1e-5, schema=schema).fit(real)
        found.append(bench.errors(real, synthesis.sample(), sizes))
    assert np.mean([run["pairs"] for run in found]) <= pairs
    assert np.mean([run["triples"] for run in found]) <= triples


def test_raw_adult_end_to_end_trains_a_classifier() -> None:
    bench = _load("end_to_end")
    runs = [bench.run("aim", 1.0, seed) for seed in range(3)]
    assert {run["epsilon"] for run in runs} == {1.0}
    assert np.mean([run["accuracy"] for run in runs]) >= 0.82
    assert all(30_000 < run["rows"] < 35_000 for run in runs)
