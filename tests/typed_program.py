"""A program of a user of margrave, checked by `mypy --strict` with the package: what it is given has types.

It is never run. A public function that returned `Any`, or a name that type checkers cannot see because it is
loaded late, would fail here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from typing_extensions import assert_type

import margrave as mg
from margrave.evaluation.comparison import Comparison
from margrave.run.plan import Plan


def release(path: Path) -> mg.Synthesis:
    """From a file to a release."""
    schema = mg.Schema(
        (
            mg.Integer(name="age", lower=0, upper=110, missing=False),
            mg.Categorical(name="sex", values=("F", "M")),
        ),
        rules=(mg.rules.Ordered("admitted", "discharged"),),
    )
    unit = mg.Unit("patient", max_rows=4)
    synthesizer = mg.Synthesizer("auto", epsilon=1.0, delta=1e-9, unit=unit, schema=schema)
    assert_type(synthesizer.plan(path), Plan)
    synthesis = synthesizer.fit(path)
    assert_type(synthesis, mg.Synthesis)
    return synthesis


def use(synthesis: mg.Synthesis, real: pd.DataFrame, folder: Path) -> None:
    """What a release is used for."""
    assert_type(synthesis.guarantee, mg.Guarantee)
    assert_type(synthesis.guarantee.epsilon, float)
    assert_type(synthesis.release, mg.Release)
    for measured in synthesis.release.measurements:
        assert_type(measured, mg.NoisyMarginal)
    rows = synthesis.sample(1000, given={"sex": "F", "age": mg.Between(18, 64)}, rng=np.random.default_rng(7))
    comparison = mg.evaluate(real, rows)
    assert_type(comparison, Comparison)
    synthesis.save(folder / "r.margrave")
    assert_type(mg.load(folder / "r.margrave"), mg.Synthesis)


def find_errors(path: Path) -> str:
    """One tree of errors, with a remedy in each."""
    try:
        release(path)
    except mg.errors.MargraveError as error:
        return str(error)
    return ""
