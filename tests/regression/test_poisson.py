"""Poisson regression of a made-up count from a release at epsilon 1; the paper's polynomial fails."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa

import margrave as mg
from margrave.regression import poisson
from margrave.select.fixed import AllKWay

SCRIPT = Path(__file__).parents[2] / "bench" / "runs" / "poisson_visits.py"
SCHEMA = mg.Schema(
    (
        mg.Integer(name="visits", lower=0, upper=9, bins=10, missing=False),
        mg.Integer(name="age", lower=0, upper=5, bins=6, missing=False),
        mg.Integer(name="kids", lower=0, upper=1, bins=2, missing=False),
        mg.Integer(name="work", lower=0, upper=1, bins=2, missing=False),
    )
)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_poisson_visits", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_coefficients_are_those_of_the_rows_within_two_errors_and_the_polynomials_are_not() -> None:
    rng = np.random.default_rng(0)
    age, kids, work = rng.integers(0, 6, 12_000), rng.integers(0, 2, 12_000), rng.integers(0, 2, 12_000)
    visits = np.minimum(rng.poisson(np.exp(-0.6 + 0.25 * age - 0.4 * kids)), 9)
    table = pa.table({"visits": visits, "age": age, "kids": kids, "work": work})
    numbers = np.column_stack([np.ones(12_000), age, kids, work]).astype(float)
    script = load_script()
    truth = script.maximise(numbers, visits.astype(float))
    run = mg.Synthesizer(select=AllKWay(degree=2), model="pgm", epsilon=1.0, delta=1e-6, schema=SCHEMA)
    found = poisson(run.fit(table), "visits", source="both")
    assert found.names == ("(intercept)", "age", "kids", "work")
    assert (np.abs(found.estimates - truth) < 2 * found.standard_errors).all()
    assert found.lower[1] > 0  # so that two errors are not everything
    assert found.upper[2] < 0
    wrong = script.maximise_polynomial(numbers, visits.astype(float))
    assert np.abs(wrong - truth).max() > 10 * found.standard_errors.max()
