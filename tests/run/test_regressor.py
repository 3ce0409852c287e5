"""Regressor: least squares where there is no noise, honest intervals where there is, one event for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.privacy.ledger.journal import read_ledger
from margrave.regression.perturbed import NoisyProducts, fit_sums, residual_noise
from margrave.release import NoisySums
from margrave.run import planning
from margrave.run.regressor import Regressor
from margrave.schema.features import RowNumbers

SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=20, upper=79, bins=6, missing=False),
        mg.Categorical(name="ward", values=("a", "b", "c"), missing=False),
        mg.Integer(name="pay", lower=0, upper=8, bins=9, missing=False),
    )
)


def _table(rows: int = 4000) -> pa.Table:
    rng = np.random.default_rng(0)
    age, ward = rng.integers(20, 80, rows), rng.integers(0, 3, rows)
    pay = np.clip(np.round(1 + age / 16 + (ward == 1) + rng.normal(0, 1, rows)), 0, 8).astype(int)
    return pa.table({"age": age, "ward": np.array(["a", "b", "c"])[ward], "pay": pay})


def _truth(table: pa.Table, intercept: bool) -> Any:
    """Least squares of pay on the middles of ages and the wards b and c."""
    age = np.asarray(table["age"]) // 10 * 10 + 4.5
    age = np.round(age * 2) / 2
    ward = np.asarray(table["ward"])
    parts = [np.ones(len(age))] if intercept else []
    parts += [age, (ward == "b").astype(float), (ward == "c").astype(float)]
    return np.linalg.lstsq(np.column_stack(parts), np.asarray(table["pay"], dtype=float), rcond=None)[0]


@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_it_is_least_squares(intercept: bool) -> None:
    table = _table()
    found = Regressor(target="pay", schema=SCHEMA, intercept=intercept, epsilon=1e7).fit(table)
    names = ("age", "ward=b", "ward=c")
    assert found.names == (("(intercept)", *names) if intercept else names)
    assert found.estimates == pytest.approx(_truth(table, intercept), abs=0.05)
    assert found.middles == pytest.approx(_truth(table, intercept), abs=0.05)
    assert found.identified.all()
    assert found["age"] == found.estimates[found.names.index("age")]
    assert "privacy noise alone" in str(found)


def test_one_event_pays_for_everything(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    found = Regressor(target="pay", schema=SCHEMA, epsilon=1.0, ledger=path).fit(_table())
    (event,) = read_ledger(path)[1]
    assert "products of 5 numbers of age x ward x pay" in event.what
    assert found.guarantee.epsilon == 1.0


def test_columns_that_are_not_declared_are_discovered() -> None:
    found = Regressor(target="pay", features=["age"], epsilon=100.0, delta=1e-6).fit(_table())
    assert found.names[:2] == ("(intercept)", "age")
    assert found["age"] == pytest.approx(1 / 16, abs=0.01)


def _sums(values: Any, sigma: float, rng: np.random.Generator) -> NoisySums:
    noise = np.triu(sigma * rng.standard_normal(values.shape), 1)
    noise = noise + noise.T + np.diag(1.5 * sigma * rng.standard_normal(len(values)))
    numbers = RowNumbers(("a",), (np.ones((len(values), 1)),), constant=False)
    return NoisySums(numbers, values + noise, sigma, 1.5 * sigma)


def test_the_covariance_and_the_intervals_are_those_of_simulated_noise() -> None:
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(3000), rng.uniform(-1, 1, (3000, 3)), rng.uniform(-1, 1, 3000)])
    rows[:, -1] = (rows[:, 1] - rows[:, 2]) / 4 + rows[:, -1] / 2
    exact = rows.T @ rows
    truth = np.linalg.solve(exact[:-1, :-1], exact[:-1, -1])
    residuals, covered, exactly = [], [], []
    for _ in range(3000):
        sums = _sums(exact, 30.0, rng)
        fit = fit_sums(sums)
        residuals.append(sums.values[:-1, -1] - sums.values[:-1, :-1] @ truth)
        covered.append(np.abs(fit.middles - truth) <= fit.half_widths(np.eye(4), 0.95))
        exactly.append(fit.p_value(truth) >= 0.05)
        assert fit.identified.all()
    wanted = residual_noise(NoisyProducts.of_sums(sums), truth)
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    assert np.abs((np.cov(np.asarray(residuals).T) - wanted) / scale).max() < 0.1
    assert 0.93 <= np.mean(covered) <= 0.97
    assert 0.93 <= np.mean(exactly) <= 0.97


def _levelled(rng: np.random.Generator) -> tuple[RowNumbers, Any]:
    """A constant, four levels of a column beside a reference, a number and a label; 2,000 rows of them."""
    numbers = RowNumbers(("ward", "age", "pay"), (np.eye(5)[1:], np.linspace(-1, 1, 9)[None], np.eye(2)[1:]))
    ward, age = rng.integers(0, 5, 2000), rng.integers(0, 9, 2000)
    pay = (rng.random(2000) < 0.2 + 0.1 * ward + 0.02 * age).astype(int)
    parts = [np.ones((2000, 1))]
    codes = (ward, age, pay)
    parts += [matrix.T[column] for matrix, column in zip(numbers.numbers, codes, strict=True)]
    return numbers, np.hstack(parts)


def test_products_of_levels_of_one_column_have_no_noise() -> None:
    rng = np.random.default_rng(3)
    numbers, rows = _levelled(rng)
    exact = rows.T @ rows
    truth = np.linalg.solve(exact[:-1, :-1], exact[:-1, -1])
    residuals, covered, exactly = [], [], []
    for _ in range(3000):
        noise = np.triu(4.0 * rng.standard_normal(exact.shape), 1)
        noise = noise + noise.T + np.diag(6.0 * rng.standard_normal(len(exact)))
        fit = fit_sums(NoisySums(numbers, exact + noise, 4.0, 6.0))
        assert fit.products is not None
        residuals.append(fit.products.labelled - fit.products.crossed @ truth)
        covered.append(np.abs(fit.middles - truth) <= fit.half_widths(np.eye(6), 0.95))
        exactly.append(fit.p_value(truth) >= 0.05)
    levels = fit.products.crossed[1:5, 1:5]
    assert (levels[~np.eye(4, dtype=bool)] == 0.0).all()
    assert (levels[np.eye(4, dtype=bool)] != 0.0).all()
    assert (fit.products.crossed[0] != 0.0).all()
    wanted = residual_noise(fit.products, truth)
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    assert np.abs((np.cov(np.asarray(residuals).T) - wanted) / scale).max() < 0.1
    assert 0.93 <= np.mean(covered) <= 0.97
    assert 0.93 <= np.mean(exactly) <= 0.97


def test_split_noise_chooses_better_than_one_ridge_for_all() -> None:
    rng = np.random.default_rng(4)
    ratios = []
    for size, sigma in ((0.02, 60.0), (1.0, 15.0)):  # coefficients that are nearly nothing, and clear ones
        rows = rng.uniform(-1, 1, (4000, 21))
        rows[:, -1] = rows[:, :5] @ np.full(5, size / 2.0) + rng.uniform(-0.5, 0.5, 4000)
        exact = rows.T @ rows
        crossed = exact[:-1, :-1]
        truth = np.linalg.solve(crossed, exact[:-1, -1])
        for _ in range(40):
            sums = _sums(exact, sigma, rng)
            values, vectors = np.linalg.eigh(sums.values[:-1, :-1])
            steady = np.maximum(values, 0.0) + sigma * 20**0.5
            plain = (vectors / steady) @ vectors.T @ sums.values[:-1, -1] - truth
            found = fit_sums(sums).estimates - truth
            ratios.append(np.log((found @ crossed @ found) / (plain @ crossed @ plain)))
    assert np.exp(np.mean(ratios[:40])) < 0.8
    assert np.exp(np.mean(ratios[40:])) < 0.9


def test_two_levels_are_as_far_apart_as_numbers_where_there_is_an_intercept() -> None:
    schema = mg.Schema(
        (
            mg.Boolean(name="ill", missing=False),
            mg.Integer(name="pay", lower=0, upper=8, bins=9, missing=False),
        )
    )
    for intercept, least in ((True, -1.0), (False, 0.0)):
        regressor = Regressor(target="pay", schema=schema, intercept=intercept, epsilon=1.0)
        scaling = regressor.encode(schema)
        assert scaling.numbers.numbers[0].ravel().tolist() == [least, 1.0]
        ill = np.arange(1000) % 3 == 0
        table = pa.table({"ill": ill, "pay": np.where(ill, 5, 2)})
        exact = Regressor(target="pay", schema=schema, intercept=intercept, epsilon=1e7).fit(table)
        wanted = [2.0, 3.0] if intercept else [5.0]
        assert exact.estimates == pytest.approx(wanted, abs=0.05)
        assert exact.middles == pytest.approx(wanted, abs=0.05)


def test_what_noise_hides_has_no_interval() -> None:
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (2000, 3))
    rows[:, 1] = rows[:, 0]
    fit = fit_sums(_sums(rows.T @ rows, 40.0, rng))
    assert not fit.identified.any()
    assert np.abs(fit.estimates).max() < 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ols"}, "method must be"),
        ({"level": 95}, "level must be"),
        ({"target": "ward"}, "a column of numbers"),
        ({"features": ["pay"]}, "distinct columns other than"),
        ({"features": "age"}, "distinct columns other than"),
        ({"encodings": {"ward": "scores"}}, "it has no numbers"),
        ({"target": "city"}, "city"),
    ],
)
def test_bad_input_is_refused_before_a_ledger_is_opened(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {"target": "pay", "schema": SCHEMA, "epsilon": 1.0, "ledger": tmp_path / "l.jsonl", **options}
    with pytest.raises(InputError, match=message):
        Regressor(**given).fit(_table(50))
    assert not (tmp_path / "l.jsonl").exists()


def test_a_target_that_may_be_missing_is_refused(tmp_path: Path) -> None:
    schema = mg.Schema(
        (*SCHEMA.columns[:2], mg.Integer(name="pay", lower=0, upper=8, bins=9, missing=True)),
    )
    with pytest.raises(InputError, match="every code has a number"):
        Regressor(target="pay", schema=schema, epsilon=1.0, ledger=tmp_path / "l.jsonl").fit(_table(50))
    assert not (tmp_path / "l.jsonl").exists()


def test_public_columns_are_refused() -> None:
    with pytest.raises(InputError, match="public must be left out of a regression"):
        Regressor(target="pay", schema=SCHEMA, epsilon=1.0, public=["age"], adjacency="replace_private")


def test_a_row_outside_its_declaration_and_too_little_memory_are_refused_before_a_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    given: dict[str, Any] = {"target": "pay", "epsilon": 1.0, "ledger": path}
    narrow = mg.Schema((mg.Integer(name="age", lower=20, upper=50, bins=6, missing=False),))
    with pytest.raises(InputError, match="within"):
        Regressor(schema=narrow, **given).fit(_table(200))
    monkeypatch.setattr(planning, "machine_memory", lambda: 1)
    monkeypatch.setattr(planning, "MIN_MEMORY", 1)
    with pytest.raises(InputError, match="max_memory"):
        Regressor(schema=SCHEMA, **given).fit(_table(200))
    assert not path.exists()


def test_a_run_says_that_it_is_a_regression_and_is_resumed_as_no_other(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Regressor(target="pay", schema=SCHEMA, epsilon=1.0, ledger=path).fit(_table(200))
    run = read_ledger(path)[0].run
    assert (run["strategy"], run["model"]) == ("regression", "ssp of pay")
    with pytest.raises(InputError, match="another"):
        mg.Synthesizer("independent", schema=SCHEMA, epsilon=1.0, ledger=path).fit(_table(200), resume=True)
