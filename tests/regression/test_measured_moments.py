"""Moments: sums of products measured beside the tables, in the ledger, in files, and in regressions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from exact_releases import Released, counts_of, noisy_release

import margrave as mg
from margrave.errors import InputError
from margrave.models.mixture import Mixture
from margrave.privacy.ledger.journal import read_ledger
from margrave.regression import linear, logistic
from margrave.regression.coefficients import Coefficients
from margrave.regression.moments import PooledSums, move_towards, number_columns
from margrave.release import NoisySums
from stopping import Killed, killing, repeatable, same, total_of

__all__ = ["repeatable"]
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=5, bins=6, missing=False),
        mg.Categorical(name="ward", values=("a", "b", "c"), missing=False),
        mg.Boolean(name="sex", missing=False),
        mg.Integer(name="pay", lower=0, upper=7, bins=8, missing=False),
    )
)
PAIRS = [("age", "ward"), ("age", "sex"), ("age", "pay"), ("ward", "sex"), ("ward", "pay"), ("sex", "pay")]


def draw(rng: np.random.Generator, rows: int = 3000) -> dict[str, Any]:
    age, ward, sex = rng.integers(0, 6, rows), rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    pay = np.clip(np.round(0.8 * age + (ward == 1) + rng.normal(0, 1, rows)), 0, 7).astype(int)
    return {"age": age, "ward": ward, "sex": sex, "pay": pay}


def add_sums(released: Released, codes: dict[str, Any], sigma: float, rng: np.random.Generator) -> Released:
    """The release with exact sums of its rows, or with symmetric noise of this standard deviation."""
    numbers = number_columns(SCHEMA, "pay")
    parts = [m.T[codes[name]] for name, m in zip(numbers.names, numbers.numbers, strict=True)]
    rows = np.hstack([np.ones((len(codes["age"]), 1)), *parts])
    noise = np.triu(rng.standard_normal((numbers.size, numbers.size)), 1)
    noise = sigma * (noise + noise.T + 1.5 * np.diag(rng.standard_normal(numbers.size)))
    sums = NoisySums(numbers, rows.T @ rows + noise, max(sigma, 1e-9), max(1.5 * sigma, 1e-9))
    return Released(dataclasses.replace(released.release, sums=sums), released.model)


def fit_rows(codes: dict[str, Any]) -> Any:
    """Least squares of pay, ward compared with a: [intercept, age, b, c, sex]."""
    ward = codes["ward"]
    numbers = np.column_stack([np.ones(len(ward)), codes["age"], ward == 1, ward == 2, codes["sex"]])
    return np.linalg.lstsq(numbers.astype(float), codes["pay"].astype(float), rcond=None)[0]


def regress(released: Released, **more: Any) -> Coefficients:
    options: dict[str, Any] = {"of": "table", "reference": {"ward": "a", "sex": "False"}}
    return linear(released, "pay", features=["age", "ward", "sex"], **(options | more))


def test_numbers_are_within_one_and_the_target_is_last() -> None:
    numbers = number_columns(SCHEMA, "age")
    assert numbers.names == ("ward", "sex", "pay", "age")
    assert [len(matrix) for matrix in numbers.numbers] == [2, 1, 1, 1]
    assert sorted(numbers.numbers[1][0]) == [-1.0, 1.0]
    missing = mg.Schema((mg.Integer(name="x", lower=3, upper=9, bins=7, missing=True), *SCHEMA.columns))
    assert [len(matrix) for matrix in number_columns(missing, "x").numbers] == [1, 2, 1, 1, 2]
    with pytest.raises(InputError, match="target must be one of"):
        number_columns(SCHEMA, "city")


def test_exact_moments_mend_a_wrong_model() -> None:
    """A model of other rows, and no table of a pair: the measured sums alone tell the truth."""
    rng = np.random.default_rng(0)
    codes, other = draw(rng), draw(rng)
    other["age"] = rng.permutation(other["age"])
    wrong = noisy_release(SCHEMA, counts_of(SCHEMA, other), {("age",): 1.0}, rng)
    blind = regress(wrong)
    assert np.isnan(blind.standard_errors).all()
    found = regress(add_sums(wrong, codes, 0.0, rng), source="both")
    truth = fit_rows(codes)
    assert abs(blind["age"] - truth[1]) > 0.5
    assert isinstance(found.fit.sums, PooledSums)
    assert found.fit.sums.missing_pairs == ()
    assert found.p_value(truth) > 0.99
    assert found.estimates == pytest.approx(truth, abs=0.1)  # one step from a model that is far off
    assert abs(found["age"] - truth[1]) < 0.05


@pytest.mark.parametrize("rare", [1e-9, 1e-5, 1e-3])
def test_a_level_that_the_model_hardly_has_hides_nothing(rare: float) -> None:
    """Two numbers that go together, which the model does not know: X'X is that of the sums."""
    rng = np.random.default_rng(5)
    codes = draw(rng)
    codes["sex"] = (codes["age"] + rng.integers(0, 2, 3000) > 3).astype(int)
    pay = 0.8 * codes["age"] + codes["sex"] + rng.normal(0, 1, 3000)
    codes["pay"] = np.clip(np.round(pay), 0, 7).astype(int)
    counts = counts_of(SCHEMA, codes | {"age": rng.permutation(codes["age"])})
    counts[:, 0] += counts[:, 2]
    counts[:, 2] = rare
    tables = noisy_release(SCHEMA, counts, {("age",): 1.0}, rng)
    found = regress(add_sums(tables, codes, 0.0, rng), source="both")
    assert found.estimates[[1, 4]] == pytest.approx(fit_rows(codes)[[1, 4]], abs=0.05)


@pytest.mark.parametrize(("error", "least", "most"), [(0.0, 0.0, 0.25), (0.3, 0.0, 0.3), (3.0, 0.9, 1.15)])
def test_a_change_is_shrunk_by_the_part_of_it_that_is_noise(error: float, least: float, most: float) -> None:
    """Twelve coefficients that a model has wrong by `error`, in standard deviations of their noise.

    What is left of the mean squared error, over that of the noise: variances found one by one leave .33
    where the model is right and .38 at .3; where it is wrong throughout little is to be lost by shrinking.
    """
    rng, features = np.random.default_rng(5), 12
    matrices = [np.ones((1, 2))] * features
    design: Any = SimpleNamespace(free=np.arange(1, features + 1), ranges=np.ones(features + 1))
    design.matrices, design.size = matrices, features + 1
    hessian, noise = 100.0 * np.eye(features + 1), 100.0 * np.eye(features + 1)
    left, unit = [], 0.1  # a standard deviation of the noise is .1 in a coefficient
    for _ in range(200):
        truth = np.append(0.0, error * unit * rng.standard_normal(features))
        residual = hessian @ truth + 10.0 * np.append(0.0, rng.standard_normal(features))
        change = move_towards((residual, noise), hessian, 10.0, design)
        left.append(float(((change - truth) ** 2).mean()) / unit**2)
    assert least <= np.mean(left) * (features + 1) / features <= most


def test_other_encodings_and_columns_fall_back_to_tables() -> None:
    rng = np.random.default_rng(1)
    codes = draw(rng)
    released = noisy_release(SCHEMA, counts_of(SCHEMA, codes), dict.fromkeys(PAIRS, 2.0), rng)
    full = add_sums(released, codes, 1.0, rng)
    assert isinstance(regress(full).fit.sums, PooledSums)
    assert isinstance(regress(full, encodings={"age": "ranks"}).fit.sums, PooledSums)  # evenly spaced: alike
    assert not isinstance(regress(full, encodings={"age": "levels"}).fit.sums, PooledSums)
    turned = linear(full, "age", of="table")  # another target: its sums were measured as well
    assert isinstance(turned.fit.sums, PooledSums)
    binary = logistic(full, "sex", of="table")
    assert isinstance(binary.fit.sums, PooledSums)
    assert np.isfinite(binary.standard_errors).all()


def test_moments_make_intervals_shorter() -> None:
    rng = np.random.default_rng(2)
    codes = draw(rng)
    tables = noisy_release(SCHEMA, counts_of(SCHEMA, codes), dict.fromkeys(PAIRS, 20.0), rng)
    both = add_sums(tables, codes, 20.0, rng)
    assert (regress(both).standard_errors < regress(tables).standard_errors).all()


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("sigma", [3.0, 30.0])
def test_intervals_hold_the_truth_as_often_as_they_say(sigma: float, pairs: bool) -> None:
    """With noisy tables and without; noise half as large as is said would be seen (the last line)."""
    rng = np.random.default_rng(3)
    held, exact, bold = [], [], []
    for _ in range(400):
        codes = draw(rng)
        cliques = dict.fromkeys(PAIRS, 2 * sigma) if pairs else {("age",): sigma}
        released = noisy_release(SCHEMA, counts_of(SCHEMA, codes), cliques, rng)
        released = add_sums(released, codes, sigma, rng)
        found, truth = regress(released), fit_rows(codes)
        held += ((found.lower <= truth) & (truth <= found.upper)).tolist()
        half = (found.upper - found.lower) / 4
        bold += (np.abs(found.unbiased - truth) <= half).tolist()
        exact.append(found.p_value(truth) >= 0.05)
    assert 0.93 < np.mean(held) < 0.975
    assert 0.92 < np.mean(exact) < 0.98
    assert np.mean(bold) < 0.8


def _table() -> pa.Table:
    codes = draw(np.random.default_rng(4), 1500)
    ward = np.array(["a", "b", "c"])[codes["ward"]]
    return pa.table({**codes, "ward": ward, "sex": codes["sex"].astype(bool)})


def _run(ledger: Path | None = None, **more: Any) -> mg.Synthesizer:
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "schema": SCHEMA, "target": "pay"}
    small = Mixture(components=8, steps=20)
    return mg.Synthesizer("auto", **(options | {"model": small, "moments": 0.5, "ledger": ledger} | more))


def test_a_run_buys_them_within_its_budget_and_keeps_them_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    synthesis = _run(path).fit(_table())
    events = read_ledger(path)[1]
    assert events == synthesis.release.events
    assert [event.what.startswith("products of") for event in events].count(True) == 1
    assert 0.999 * synthesis.guarantee.rho < float(total_of(events)) <= synthesis.guarantee.rho * (1 + 1e-12)
    synthesis.save(tmp_path / "a.margrave")
    kept, made = mg.load(tmp_path / "a.margrave"), linear(synthesis, "pay", of="table")
    assert kept.release.sums is not None
    found = linear(kept, "pay", of="table")
    assert np.array_equal(found.estimates, made.estimates)
    assert np.array_equal(found.standard_errors, made.standard_errors)
    assert _run(moments=False).fit(_table()).release.sums is None
    shares = _run().plan(_table()).shares
    assert shares["moments"] > 0
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("when", ["before", "lost", "stored"])
@pytest.mark.parametrize("step", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("repeatable")
def test_a_killed_run_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, when: str, step: int) -> None:
    whole, path = _run(tmp_path / "whole.jsonl").fit(_table()), tmp_path / "run.jsonl"
    with pytest.raises(Killed), killing(monkeypatch, step, when):
        _run(path).fit(_table())
    found = _run(path).fit(_table(), resume=True)
    assert float(total_of(found.release.events)) <= found.guarantee.rho * (1 + 1e-12)
    assert found.release.sums is not None
    assert whole.release.sums is not None
    if when != "lost":
        same(whole, found)
        assert np.array_equal(found.release.sums.values, whole.release.sums.values)


@pytest.mark.parametrize(
    ("more", "message"),
    [({"target": None}, "moments must be with a target"), ({"adjacency": "zero_out"}, "adjacency")],
)
def test_what_cannot_be_bought_is_refused_before_anything_is_spent(more: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _run(**more)
