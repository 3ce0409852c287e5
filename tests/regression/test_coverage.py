"""Intervals of regressions hold the truth as often as they say: many releases of a small table."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"


def load_script() -> ModuleType:
    path = BENCH / "runs" / "regression_coverage.py"
    spec = importlib.util.spec_from_file_location("bench_regression_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_true_coefficients_of_the_script_are_those_of_its_equations() -> None:
    script = load_script()
    cells = script.population()
    odds = script.true_coefficients(cells, "logistic")
    assert odds == pytest.approx([-2.0, 0.5, 0.0, 0.9, 0.0], abs=1e-8)
    assert script.true_coefficients(cells, "linear")[4] == pytest.approx(0.0, abs=0.02)
    theta = script.true_coefficients(cells, "poisson")
    age, ward, sex, pay, _ = (part.ravel() for part in np.indices(cells.shape))
    numbers = np.column_stack([np.ones(age.size), age, ward == 1, ward == 2, sex]).astype(float)
    assert numbers.T @ (cells.ravel() * (pay - np.exp(numbers @ theta))) == pytest.approx(
        np.zeros(5), abs=1e-8
    )


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_intervals_and_exact_sets_hold_the_truth(epsilon: float) -> None:
    """400 releases: five coefficients each, so a share of .95 has a standard error of about .007."""
    tallies = load_script().measure_coverage(400, 4000, epsilon, np.random.default_rng(5))
    for key, tally in tallies.items():
        assert 0.93 <= np.mean(tally.covered) <= 0.97, key
        assert 0.92 <= np.mean(tally.exact) <= 0.98, key
        assert tally.lost <= 100, key


@pytest.mark.slow
def test_a_null_coefficient_is_significant_in_one_release_of_twenty() -> None:
    """1,600 releases, so a share of .05 has a standard error of .0054: 400 have .06 by chance too often."""
    script = load_script()
    tallies = script.measure_coverage(1600, 4000, 1.0, np.random.default_rng(5), ["logistic"])
    assert 0.03 <= np.mean(tallies["logistic", "population"].significant) <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_intervals_of_counts_means_shares_and_quantiles_hold_the_truth(epsilon: float) -> None:
    """400 releases; those of quantiles are made of whole bins and hold more."""
    script = load_script()
    tallies = script.measure_coverage(400, 4000, epsilon, np.random.default_rng(6), ["quantities"])
    assert len(tallies) == 17
    for key, tally in tallies.items():
        assert np.mean(tally.covered) >= 0.93, key
        if "median" not in key[0] and "decile" not in key[0]:
            assert np.mean(tally.covered) <= 0.98, key
