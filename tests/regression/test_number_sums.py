"""Number sums: sums of products measured beside the tables, in regressions."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from exact_releases import Released, counts_of, noisy_release

import margrave as mg
from margrave.regression import linear, logistic
from margrave.regression.coefficients import Coefficients
from margrave.regression.number_sums import (
    CUT,
    NumberSums,
    Product,
    SummedTables,
    centre_numbers,
    find_numbers,
    pool_nearer,
)
from margrave.regression.sums import MeasuredSums, TableSum
from margrave.release import NoisyMarginal, NoisySums
from margrave.tables.estimates import PooledTables

SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=5, bins=6, missing=False),
        mg.Categorical(name="ward", values=("a", "b", "c"), missing=False),
        mg.Boolean(name="sex", missing=False),
        mg.Integer(name="pay", lower=0, upper=7, bins=8, missing=False),
    )
)
PAIRS = list(combinations(("age", "ward", "sex", "pay"), 2))
NUMBERS = ("age", "sex", "pay")
ONES = [("age",), ("ward",), ("sex",), ("pay",)]


def draw(rng: np.random.Generator, rows: int = 3000) -> dict[str, Any]:
    age, ward, sex = rng.integers(0, 6, rows), rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    pay = np.clip(np.round(0.8 * age + (ward == 1) + rng.normal(0, 1, rows)), 0, 7).astype(int)
    return {"age": age, "ward": ward, "sex": sex, "pay": pay}


def add_sums(released: Released, codes: dict[str, Any], sigma: float, rng: np.random.Generator) -> Released:
    """The release with exact sums of its rows, or with symmetric noise of this standard deviation."""
    numbers = centre_numbers(find_numbers(released.release.schema, "pay"), released.model)
    rows = np.hstack([m.T[codes[name]] for name, m in zip(numbers.names, numbers.numbers, strict=True)])
    noise = sigma * np.triu(rng.standard_normal((numbers.size, numbers.size)), 1)
    values = rows.T @ rows + noise + noise.T
    sums = NoisySums(numbers, values, max(sigma, 1e-9), max(1.5 * sigma, 1e-9))
    return Released(dataclasses.replace(released.release, sums=sums), released.model)


def fit_rows(codes: dict[str, Any], features: tuple[str, ...] = ("age", "ward", "sex")) -> Any:
    """Least squares of pay, ward compared with a: [intercept, age, b, c, sex]."""
    columns = {"age": [codes["age"]], "ward": [codes["ward"] == 1, codes["ward"] == 2], "sex": [codes["sex"]]}
    numbers = [np.ones(len(codes["age"])), *(part for name in features for part in columns[name])]
    return np.linalg.lstsq(np.column_stack(numbers).astype(float), codes["pay"].astype(float), rcond=None)[0]


def regress(released: Released, **more: Any) -> Coefficients:
    options: dict[str, Any] = {"of": "table", "reference": {"ward": "a", "sex": "False"}}
    return linear(released, "pay", **({"features": ["age", "ward", "sex"]} | options | more))


def numbers_only(released: Released, **more: Any) -> Coefficients:
    return linear(released, "pay", features=["age", "sex"], of="table", reference={"sex": "False"}, **more)


def test_columns_of_one_number_take_part_and_the_target_is_last() -> None:
    found = find_numbers(SCHEMA, "age")
    assert list(found) == ["sex", "pay", "age"]
    assert found["age"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    missing = mg.Schema((mg.Integer(name="x", lower=3, upper=9, bins=7, missing=True), *SCHEMA.columns))
    assert list(find_numbers(missing, "age")) == ["x", "sex", "pay", "age"]
    assert find_numbers(missing, "x") == {}  # which rows have a target no sum says
    assert find_numbers(SCHEMA, "ward") == {}
    assert find_numbers(SCHEMA, "city") == {}
    levels = mg.Schema((SCHEMA["ward"], SCHEMA["pay"]))
    assert find_numbers(levels, "pay") == {}


def test_numbers_are_centred_cut_and_scaled() -> None:
    schema = mg.Schema(
        tuple(mg.Integer(name=name, lower=0, upper=99, bins=100, missing=False) for name in ("tail", "pay"))
    )
    counts = np.zeros((100, 100))
    counts[0, :50], counts[99, 0] = 100.0, 5.0
    model: Any = noisy_release(schema, counts, {}, np.random.default_rng(0)).model
    made = centre_numbers(find_numbers(schema, "pay"), model)
    assert not made.constant
    tail, pay = (matrix[0] for matrix in made.numbers)
    assert np.abs(tail).max() == np.abs(pay).max() == 1.0  # one feature is not scaled down
    ways = counts.sum(axis=1) / counts.sum()
    numbers = np.arange(100.0) - ways @ np.arange(100.0)
    spread = np.sqrt(ways @ numbers**2)
    assert (tail[numbers > CUT * spread] == 1.0).all()
    inner = np.abs(numbers) <= CUT * spread
    assert tail[inner] == pytest.approx(numbers[inner] / (CUT * spread))
    wide: Any = noisy_release(
        SCHEMA, counts_of(SCHEMA, draw(np.random.default_rng(0))), {}, np.random.default_rng(0)
    )
    sizes = [
        np.abs(matrix).max() for matrix in centre_numbers(find_numbers(SCHEMA, "pay"), wide.model).numbers
    ]
    assert sizes == pytest.approx([2.0**-0.25, 2.0**-0.25, 1.0])


def test_exact_sums_mend_a_wrong_model() -> None:
    """A model of other rows, and no table of a pair: the measured sums alone tell the truth."""
    rng = np.random.default_rng(0)
    codes, other = draw(rng), draw(rng)
    for name in ("age", "sex", "pay"):
        other[name] = rng.permutation(codes[name])
    wrong = noisy_release(SCHEMA, counts_of(SCHEMA, other), dict.fromkeys(ONES, 1.0), rng)
    blind = numbers_only(wrong)
    assert np.isnan(blind.standard_errors).all()
    truth = fit_rows(codes, ("age", "sex"))
    assert abs(blind["age"] - truth[1]) > 0.5
    found = numbers_only(add_sums(wrong, codes, 0.0, rng))
    assert found.estimates[1:] == pytest.approx(truth[1:], abs=0.1)
    assert np.isnan(found.standard_errors).all()  # no table of a pair
    levels = regress(add_sums(wrong, codes, 0.0, rng))
    assert abs(levels["age"] - truth[1]) < 0.15


def test_two_features_that_go_together_count_once() -> None:
    """What sums say of X'X of a pair without a table is as good as what they say of X'y."""
    rng = np.random.default_rng(5)
    codes = draw(rng)
    codes["sex"] = (codes["age"] + rng.integers(0, 2, 3000) > 3).astype(int)
    pay = 0.8 * codes["age"] + codes["sex"] + rng.normal(0, 1, 3000)
    codes["pay"] = np.clip(np.round(pay), 0, 7).astype(int)
    other = codes | {name: rng.permutation(codes[name]) for name in ("age", "sex")}
    wrong = noisy_release(SCHEMA, counts_of(SCHEMA, other), dict.fromkeys(ONES, 1.0), rng)
    found, truth = numbers_only(add_sums(wrong, codes, 0.0, rng)), fit_rows(codes, ("age", "sex"))
    assert found.estimates[1:] == pytest.approx(truth[1:], abs=0.05)


def test_noise_of_many_pairs_is_not_followed() -> None:
    """Ten numbers that lean on one hidden number, and a model in which only the target ties them together:
    sums with much noise are still worth more than none, in the mean of ten draws."""
    rng, names = np.random.default_rng(0), tuple(f"x{k}" for k in range(10))
    hidden, own = rng.normal(0, 1, 4000), rng.normal(0, 1, (10, 4000))
    codes = {name: (hidden + 0.7 * part > 0.0).astype(int) for name, part in zip(names, own, strict=True)}
    codes["pay"] = np.clip(np.round(0.7 * hidden + rng.normal(0, 1, 4000) + 1.5), 0, 3).astype(int)
    pay = mg.Integer(name="pay", lower=0, upper=3, bins=4, missing=False)
    schema = mg.Schema((*(mg.Boolean(name=name, missing=False) for name in names), pay))
    other = {"pay": codes["pay"]} | {name: codes[name].copy() for name in names}
    for name in names:
        for code in range(4):
            inside = np.flatnonzero(codes["pay"] == code)
            other[name][inside] = rng.permutation(codes[name][inside])
    told = dict.fromkeys([*((name,) for name in (*names, "pay")), *((name, "pay") for name in names)], 1.0)
    without = noisy_release(schema, counts_of(schema, other), told, rng)
    rows = np.column_stack([np.ones(4000), *(codes[name] for name in names)]).astype(float)
    best = rows @ np.linalg.lstsq(rows, codes["pay"].astype(float), rcond=None)[0]

    def err(released: Released) -> float:
        found = linear(released, "pay", reference=dict.fromkeys(names, "False"))
        return float(np.mean((rows @ found.estimates - best) ** 2))

    assert np.mean([err(add_sums(without, codes, 300.0, rng)) for _ in range(10)]) < 0.5 * err(without)


def test_other_encodings_and_columns_fall_back_to_tables() -> None:
    rng = np.random.default_rng(1)
    codes = draw(rng)
    released = noisy_release(SCHEMA, counts_of(SCHEMA, codes), dict.fromkeys([*ONES, *PAIRS], 2.0), rng)
    full = add_sums(released, codes, 1.0, rng)

    def told(found: Coefficients, release: Released = full) -> set[Any]:
        sums = NumberSums.find(found.fit.design, release.release.sums, release.model)
        return set() if sums is None else set(sums.products)

    every = {("age", "sex"), ("age", "pay"), ("sex", "pay")}
    assert told(regress(full)) == every
    assert told(regress(full, encodings={"age": "ranks"})) == every  # evenly spaced: alike
    assert told(regress(full, encodings={"age": "levels"})) == {("sex", "pay")}
    assert told(linear(full, "age", of="table")) == {("sex", "age"), ("pay", "age"), ("sex", "pay")}
    assert told(linear(full, "ward", positive="b")) == set()
    binary = logistic(full, "sex", of="table")
    assert told(binary) == {("age", "sex"), ("pay", "sex"), ("age", "pay")}
    assert np.isfinite(binary.standard_errors).all()
    assert not isinstance(regress(released).fit.sums, SummedTables)


def test_sums_make_intervals_shorter() -> None:
    rng = np.random.default_rng(2)
    codes = draw(rng)
    tables = noisy_release(SCHEMA, counts_of(SCHEMA, codes), dict.fromkeys([*ONES, *PAIRS], 20.0), rng)
    both = add_sums(tables, codes, 20.0, rng)
    assert (numbers_only(both).standard_errors < 0.8 * numbers_only(tables).standard_errors).all()
    one, other = regress(both).standard_errors, regress(tables).standard_errors
    assert (one[[1, 4]] < other[[1, 4]]).all()


def test_what_tables_say_of_a_sum_goes_with_a_residual_as_cell_by_cell() -> None:
    """Residual and sums are linear in the cells, so each cell moved by 1 gives its part of a covariance."""
    rng = np.random.default_rng(3)
    cliques = {**dict.fromkeys([*ONES, *PAIRS], 5.0), ("age", "sex", "pay"): 3.0}
    released = noisy_release(SCHEMA, counts_of(SCHEMA, draw(rng)), cliques, rng)
    fit = linear(released, "pay", features=["age", "ward", "sex"], of="table").fit
    gamma = rng.standard_normal(fit.design.size)
    numbers = {name: rng.standard_normal(SCHEMA.domain[name]) for name in NUMBERS}
    asked = [
        TableSum(1, 3, numbers["age"], numbers["sex"]),
        TableSum(1, 4, numbers["age"], numbers["pay"]),
        TableSum(3, 4, numbers["sex"], numbers["pay"]),
    ]

    def look(measurements: Any) -> np.ndarray:
        sums = MeasuredSums(fit.design, PooledTables(released.release.domain, measurements), None)
        return np.concatenate([sums.residual(gamma)[0], sums.tell(asked)[0]])

    measured = released.release.measurements
    before, whole = look(measured), np.zeros((fit.design.size + 3, fit.design.size + 3))
    for place, table in enumerate(measured):
        for cell in np.ndindex(table.values.shape):
            values = table.values.copy()
            values[cell] += 1.0
            moved = NoisyMarginal(table.clique, values, table.sigma)
            slope = look([*measured[:place], moved, *measured[place + 1 :]]) - before
            whole += float(table.sigmas[cell]) ** 2 * np.outer(slope, slope)
    sums = MeasuredSums(fit.design, PooledTables(released.release.domain, measured), None)
    cross, (_, spread) = sums.relate(asked, gamma), sums.tell(asked)
    size = fit.design.size
    assert cross == pytest.approx(whole[:size, size:], rel=1e-6, abs=1e-6 * float(np.abs(cross).max()))
    assert spread == pytest.approx(whole[size:, size:], rel=1e-6)
    assert sums.residual(gamma)[1] == pytest.approx(whole[:size, :size], rel=1e-5, abs=1e-5)


def test_a_sum_is_pooled_with_what_leaves_less_noise() -> None:
    empty = np.zeros(0)
    sum_of_one = Product(("a", "b"), (1, -1), TableSum(1, 2, empty, empty), 0.0, 6.0, 4.0)
    assert pool_nearer((0.0, 0.0), (0.0, 0.0), sum_of_one) == (6.0, 4.0)
    assert pool_nearer((1.0, 3.0), (2.0, 4.0), sum_of_one) == (4.0, 2.0)
    value, noise = pool_nearer((1.0, 1.0), (2.0, 4.0), sum_of_one)
    assert (value, noise) == pytest.approx((2.0, 0.8))


@pytest.mark.parametrize(
    ("sigma", "releases"),
    [(10.0, 60), *(pytest.param(sigma, 400, marks=pytest.mark.slow) for sigma in (3.0, 30.0))],
)
def test_intervals_hold_the_truth_as_often_as_they_say(sigma: float, releases: int) -> None:
    """With cut numbers; noise half as large as is said would be seen: the last line."""
    rng = np.random.default_rng(3)
    held, exact, bold = [], [], []
    for _ in range(releases):
        codes = draw(rng)
        cliques = dict.fromkeys([*ONES, *PAIRS], 2 * sigma)
        released = noisy_release(SCHEMA, counts_of(SCHEMA, codes), cliques, rng)
        released = add_sums(released, codes, sigma, rng)
        found, truth = numbers_only(released), fit_rows(codes, ("age", "sex"))
        assert isinstance(found.fit.sums, SummedTables)
        held += ((found.lower <= truth) & (truth <= found.upper)).tolist()
        half = (found.upper - found.lower) / 4
        bold += (np.abs(found.middles - truth) <= half).tolist()
        exact.append(found.p_value(truth) >= 0.05)
    slack = 0.0 if releases == 400 else 0.04
    assert 0.93 - slack < np.mean(held) < 0.975 + slack
    assert 0.92 - slack < np.mean(exact) < 0.98 + slack
    assert np.mean(bold) < 0.8
