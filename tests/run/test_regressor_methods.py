"""The methods of Regressor: the fit without noise where there is little, one ledger, refusals before it."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.privacy.accounting.accountants import Renyi
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.regression.perturbed import fit_statistics
from margrave.release import NoisyStatistics
from margrave.run.regressor import DPSGD, AdaSSP, NoisyNewton, ObjPert, Regressor
from margrave.run.regressor.methods import Promise
from margrave.schema.features import RowNumbers

SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=20, upper=79, bins=60, missing=False),
        mg.Categorical(name="ward", values=("a", "b", "c"), missing=False),
        mg.Boolean(name="ill", missing=False),
    )
)
PROMISE = Promise(1.0, 1e-5, Neighbours(), Fraction(1))


def _table(rows: int = 8000) -> pa.Table:
    rng = np.random.default_rng(0)
    age, ward = rng.integers(20, 80, rows), rng.integers(0, 3, rows)
    chance = 1 / (1 + np.exp(3 - age / 20 - (ward == 1)))
    return pa.table({"age": age, "ward": np.array(["a", "b", "c"])[ward], "ill": rng.random(rows) < chance})


def _likeliest(table: pa.Table) -> Any:
    """Logistic regression of the rows, unpenalised."""
    ward = np.asarray(table["ward"])
    ones = np.ones(len(ward))
    rows = np.column_stack([ones, np.asarray(table["age"]), ward == "b", ward == "c"]).astype(float)
    theta, labels = np.zeros(4), np.asarray(table["ill"]).astype(float)
    for _ in range(30):
        mean = 1 / (1 + np.exp(-rows @ theta))
        theta += np.linalg.solve((rows.T * (mean * (1 - mean))) @ rows, rows.T @ (labels - mean))
    return theta


LITTLE_NOISE = [NoisyNewton(5), ObjPert(), pytest.param(DPSGD(2000), marks=pytest.mark.slow)]


@pytest.mark.parametrize("method", LITTLE_NOISE)
def test_with_little_noise_it_is_logistic_regression(method: Any) -> None:
    table = _table()
    found = Regressor(method, kind="logistic", target="ill", schema=SCHEMA, epsilon=200.0).fit(table)
    assert found.estimates == pytest.approx(_likeliest(table), abs=0.1)
    assert not found.identified.any()
    assert "no intervals" in str(found)
    assert found.classes.tolist() == [False, True]
    proba = found.predict_proba(table)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert ((proba[:, 1] > 0.5) == found.predict(table)).all()
    assert found.score(table) == np.mean((proba[:, 1] > 0.5) == np.asarray(table["ill"]))
    with pytest.raises(InputError, match="confidence set"):
        found.fit.p_value(np.zeros(4))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", [AdaSSP(), DPSGD(10), NoisyNewton(2), ObjPert()])
def test_all_that_is_spent_is_in_the_ledger(method: Any, adjacency: Adjacency, tmp_path: Path) -> None:
    path, kind = tmp_path / "l.jsonl", method.kinds[-1]
    options = {"schema": SCHEMA, "epsilon": 1.0, "adjacency": adjacency, "ledger": path}
    found = Regressor(method, kind=kind, target="ill", positive="True", **options).fit(_table(500))
    header, events = read_ledger(path)[:2]
    assert found.events == tuple(events)
    counted = isinstance(method, DPSGD) and adjacency == "add_remove"
    assert len(events) == {"adassp": 3, "dp_sgd": 10 + counted, "noisy_newton": 4, "objpert": 2}[method.name]
    assert header.run["model"] == f"{method.name} of ill"
    details = tmp_path / "d.json"
    found.save(details)
    told = json.loads(details.read_text(encoding="utf-8"))
    assert (told["guarantee"]["adjacency"], len(told["ledger"])) == (adjacency, len(events))
    assert [row["name"] for row in told["coefficients"]] == list(found.names)
    found.write(tmp_path / "c.csv")
    assert (tmp_path / "c.csv").read_text(encoding="utf-8").startswith("name,column,level,estimate")


def test_adassp_has_the_published_constants() -> None:
    promise = Promise(0.5, 1e-5, Neighbours(), Fraction(1))
    published = AdaSSP("published").share_rho(promise, Fraction(1))
    scale = math.sqrt(math.log(6 / 1e-5)) / (0.5 / 3)
    assert [1 / math.sqrt(2 * float(rho)) for rho in published] == pytest.approx([scale] * 3)
    released = AdaSSP("released").share_rho(promise, Fraction(1))
    wanted = [
        math.sqrt(math.log(2 / (1e-5 * part))) / (0.5 * part) for part in (1 / 3, 2 / 3 * 0.95, 2 / 3 * 0.05)
    ]
    assert [1 / math.sqrt(2 * float(rho)) for rho in released] == pytest.approx(wanted)
    assert wanted[2] > 9 * scale
    assert sum(AdaSSP().share_rho(promise, Fraction(1, 7))) == Fraction(1, 7)


def test_adassp_has_no_ridge_where_the_smallest_eigenvalue_is_large() -> None:
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (9000, 3))
    numbers = RowNumbers(("a",), (np.ones((4, 1)),), constant=False)
    crossed, labelled = rows.T @ rows, rows.T @ rows @ np.array([1.0, -2.0, 0.5])
    least = float(np.linalg.eigvalsh(crossed)[0])
    for smallest, ridge in ((least, 0.0), (0.0, math.sqrt(3 * math.log(2 * 9 / 0.05)) * 10.0)):
        found = fit_statistics(NoisyStatistics(numbers, smallest, crossed, labelled, (1.0, 10.0, 1.0)), 1e-5)
        wanted = np.linalg.solve(crossed + ridge * np.eye(3), labelled)
        np.testing.assert_allclose(found.estimates, wanted, rtol=1e-9)
    assert found.identified.all()


def test_the_intervals_of_adassp_hold_least_squares() -> None:
    rng = np.random.default_rng(4)
    rows = np.column_stack([np.ones(4000), rng.uniform(-1, 1, (4000, 2))])
    labels = rows @ np.array([0.1, 0.4, -0.3]) + rng.uniform(-0.3, 0.3, 4000)
    truth, crossed = np.linalg.lstsq(rows, labels, rcond=None)[0], rows.T @ rows
    numbers, covered, exact = RowNumbers(("a",), (np.ones((4, 1)),), constant=False), [], []
    for _ in range(1500):
        noise = np.triu(25.0 * rng.standard_normal((3, 3)))
        noise = noise + np.triu(noise, 1).T
        labelled = rows.T @ labels + 9.0 * rng.standard_normal(3)
        noisy = NoisyStatistics(numbers, 900.0, crossed + noise, labelled, (9.0, 25.0, 9.0))
        found = fit_statistics(noisy, 1e-5)
        half = found.half_widths(np.eye(3), 0.95)
        covered.append(np.abs(found.middles - truth) <= half)
        exact.append(found.p_value(truth) > 0.05)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert 0.93 <= np.mean(exact) <= 0.97


def test_predictions_of_a_linear_one_and_its_score() -> None:
    table = _table(3000)
    found = Regressor("adassp", target="age", schema=SCHEMA, epsilon=300.0).fit(table)
    ward = np.asarray(table["ward"])
    ill = np.asarray(table["ill"]).astype(float)
    rows = np.column_stack([np.ones(3000), ward == "b", ward == "c", ill])
    age = np.asarray(table["age"])
    fitted = rows @ np.linalg.lstsq(rows, age, rcond=None)[0]
    np.testing.assert_allclose(found.predict(table), fitted, atol=0.3)
    wanted = 1 - ((age - fitted) ** 2).sum() / ((age - age.mean()) ** 2).sum()
    assert found.score(table) == pytest.approx(wanted, abs=0.01)
    for call in (lambda: found.predict_proba(table), lambda: found.classes):
        with pytest.raises(InputError, match="logistic"):
            call()
    with pytest.raises(InputError, match="columns"):
        found.predict(table.drop_columns(["ward"]))


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("objpert", {"kind": "linear"}, "kind must"),
        ("ssp", {"kind": "logistic"}, "noisy_newton"),
        ("noisy_newton", {"target": "ward"}, "two levels"),
        ("adassp", {"adjacency": "zero_out"}, "adjacency"),
        (DPSGD(rate=0.1), {"adjacency": "replace_one"}, "adjacency"),
        (DPSGD(rate=0.1), {"unit": Unit("age", 2), "features": ["ward"]}, "max_rows"),
        (ObjPert("published"), {"adjacency": "replace_one"}, "variant must"),
        (AdaSSP("released"), {"epsilon": 40.0, "target": "age"}, "variant must"),
    ],
)
def test_what_cannot_be_is_refused_before_a_ledger(
    method: Any, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {"target": "ill", "schema": SCHEMA, "epsilon": 1.0, "ledger": tmp_path / "l.jsonl", **options}
    with pytest.raises(InputError, match=message):
        Regressor(method, **given).fit(_table(50))
    assert not (tmp_path / "l.jsonl").exists()


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaSSP("other"),  # type: ignore[arg-type]
        lambda: ObjPert("other"),  # type: ignore[arg-type]
        lambda: NoisyNewton(0),
        lambda: DPSGD(steps=1.5),  # type: ignore[arg-type]
        lambda: DPSGD(rate=0.0),
        lambda: DPSGD(clip=2.0),
    ],
)
def test_settings_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(InputError, match="must be"):
        make()


def test_published_constants_of_objective_perturbation_fit_into_the_promise() -> None:
    for epsilon in (0.05, 0.5, 2.0):
        promise = Promise(epsilon, 1e-5, Neighbours(), Fraction(1))
        published = ObjPert("published")
        accountant = published.choose_accountant(promise)
        total = accountant.total(epsilon, Fraction(1, 10**5))
        assert published._published_rho(promise, accountant.order) <= total
        assert isinstance(ObjPert().choose_accountant(promise), Renyi)
