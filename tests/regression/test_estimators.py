"""The estimators: scikit-learn's conventions, and the figures of the functions."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from exact_releases import Released, counts_of, noisy_release
from sklearn import base, metrics
from sklearn.exceptions import NotFittedError

import margrave as mg
from margrave.errors import InputError
from margrave.regression import LinearRegression, LogisticRegression, PoissonRegression, linear, logistic
from margrave.regression.encoding import encode_rows
from margrave.schema.columns import Relative
from margrave.schema.encode import encode

SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=20, upper=79, bins=6, missing=False),
        mg.Categorical(name="ward", values=("a", "b"), missing=False),
        mg.Boolean(name="ill", missing=False),
        mg.Integer(name="visits", lower=0, upper=5, bins=6, missing=False),
    )
)
ROWS = pa.table({"age": [25, 71, 300], "ward": ["a", "b", "a"], "extra": [1, 2, 3]})


@pytest.fixture(scope="module")
def release() -> Released:
    rng = np.random.default_rng(0)
    age, ward = rng.integers(0, 6, 2000), rng.integers(0, 2, 2000)
    ill = (rng.random(2000) < 0.2 + 0.1 * age).astype(int)
    visits = np.minimum(rng.poisson(0.5 + 0.4 * ward), 5)
    counts = counts_of(SCHEMA, {"age": age, "ward": ward, "ill": ill, "visits": visits})
    return noisy_release(SCHEMA, counts, dict.fromkeys(combinations(SCHEMA.names, 2), 1.0), rng)


def test_parameters_and_clones(release: Released) -> None:
    first = LinearRegression("visits", features=["age"], source="model")
    clone = base.clone(first.fit(release))
    assert clone.get_params() == first.get_params()
    with pytest.raises(InputError, match="fitted"):
        _ = clone.coef_
    assert clone.set_params(source="both") is clone
    assert clone.fit(release).coefficients_.estimates.shape == (2,)
    with pytest.raises(InputError, match="params"):
        clone.set_params(sources="both")
    assert repr(clone) == "LinearRegression('visits')"


def test_linear_predictions_follow_the_coefficients(release: Released) -> None:
    fitted = LinearRegression().fit(release, target="visits")
    found = linear(release, "visits")
    assert fitted.coef_.tolist() == found.estimates[1:].tolist()
    assert fitted.intercept_ == found.estimates[0]
    assert fitted.feature_names_in_.tolist() == ["age", "ward", "ill"]
    rows = ROWS.append_column("ill", pa.array([True, False, True]))
    ward = next(level for level in ("a", "b") if f"ward={level}" in found.names)
    ill = next(level for level in ("False", "True") if f"ill={level}" in found.names)
    middles = [24.5, 74.5, 74.5]  # beyond the bounds is the nearest bin
    expected = [
        found["(intercept)"] + found["age"] * middle + found[f"ward={ward}"] * (a == ward)
        + found[f"ill={ill}"] * (str(i) == ill)
        for middle, a, i in zip(middles, ["a", "b", "a"], [True, False, True], strict=True)
    ]  # fmt: skip
    assert np.allclose(fitted.predict(rows), expected)
    assert np.allclose(fitted.predict(rows.to_pandas()), expected)
    assert np.allclose(fitted.predict(rows.to_pydict()), expected)


def test_logistic_classes_and_probabilities(release: Released) -> None:
    fitted = LogisticRegression("ill", features=["age", "ward"]).fit(release)
    chances = fitted.predict_proba(ROWS)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert chances[1, 1] > chances[0, 1]
    assert fitted.classes_.tolist() == [False, True]
    assert fitted.predict(ROWS).tolist() == [fitted.classes_[int(c > 0.5)] for c in chances[:, 1]]
    assert fitted.coef_.shape == (1, 2)
    assert fitted.intercept_.shape == (1,)
    other = LogisticRegression("visits", features=["ward"], positive="0").fit(release)
    assert other.classes_.tolist() == ["not 0", "0"]


def test_poisson_and_encoded_rows_and_no_intercept(release: Released) -> None:
    fitted = PoissonRegression("visits", features=["ward"]).fit(release)
    means = fitted.predict(pd.DataFrame({"ward": ["a", "b"]}))
    assert means[1] / means[0] == pytest.approx(0.9 / 0.5, rel=0.2)
    bare = LinearRegression("visits", features=["age"], intercept=False).fit(release)
    assert bare.intercept_ == 0.0
    rows = pa.table({"age": [25], "ward": ["a"], "ill": [True], "visits": [0]})
    assert bare.predict(encode(rows, SCHEMA)).tolist() == [bare.coef_[0] * 24.5]
    only = LinearRegression("visits", features=[]).fit(release)
    assert only.predict(rows).tolist() == [only.intercept_]


def test_bad_input_is_refused(release: Released) -> None:
    with pytest.raises(InputError, match="y must be left out"):
        LinearRegression("visits").fit(release, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="target must be"):
        LinearRegression().fit(release)
    fitted: Any = LinearRegression("visits").fit(release)
    with pytest.raises(InputError, match="'ill'"):
        fitted.predict(ROWS)
    with pytest.raises(InputError, match="a table with the features' columns"):
        fitted.predict([1, 2, 3])


def test_a_release_file_will_do(tmp_path: Path) -> None:
    rows = pa.table({"a": [0, 1, 1, 0] * 100, "b": [1, 1, 0, 0] * 100})
    synthesis = mg.Synthesizer("independent", epsilon=1.0, schema=mg.Schema.from_sizes({"a": 2, "b": 2})).fit(
        rows
    )
    synthesis.save(tmp_path / "r.margrave")
    one, two = (linear(given, "a") for given in (synthesis, tmp_path / "r.margrave"))
    assert one.estimates.tolist() == two.estimates.tolist()
    assert "b x a" in one.notes[0]


def test_scikit_learn_knows_them_as_estimators(release: Released) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.utils.validation import check_is_fitted

    line, classes = LinearRegression("visits", features=["age", "ward"]), LogisticRegression("ill")
    assert (base.is_regressor(line), base.is_classifier(line)) == (True, False)
    assert (base.is_regressor(classes), base.is_classifier(classes)) == (False, True)
    with pytest.raises(NotFittedError):
        check_is_fitted(line)
    check_is_fitted(line.fit(release))
    frame = ROWS.to_pandas()
    np.testing.assert_array_equal(make_pipeline(line).predict(frame), line.predict(frame))


def test_scores_are_those_of_scikit_learn(release: Released) -> None:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "age": rng.integers(20, 80, 200),
            "ward": rng.choice(["a", "b"], 200),
            "ill": rng.random(200) < 0.4,
            "visits": rng.integers(0, 6, 200),
        }
    )
    line, classes, counts = LinearRegression("visits"), LogisticRegression("ill"), PoissonRegression("visits")
    for model in (line, classes, counts):
        model.fit(release)
    assert line.score(rows) == pytest.approx(metrics.r2_score(rows.visits, line.predict(rows)))
    assert classes.score(rows) == metrics.accuracy_score(rows.ill, classes.predict(rows))
    assert counts.score(rows) == pytest.approx(
        metrics.d2_tweedie_score(rows.visits, counts.predict(rows), power=1)
    )
    for model, truth in ((line, rows.visits), (classes, rows.ill), (counts, rows.visits)):
        assert model.score(rows.drop(columns=truth.name), truth) == pytest.approx(model.score(rows))
    with pytest.raises(InputError, match="rows must be one or more"):
        line.score(rows[:0])


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["yes", "no"], ["no", "yes"]),
        ([True, False], [False, True]),
        ([1, 0], [0, 1]),
        (["true", "false"], ["false", "true"]),
    ],
)
def test_classes_are_the_values_that_rows_have(cells: list[Any], first: list[Any]) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 2, 4000)
    ill = [cells[0] if one else cells[1] for one in rng.random(4000) < 0.2 + 0.6 * age]
    rows = pd.DataFrame({"age": age, "ill": ill})
    release = mg.Synthesizer("auto", epsilon=20.0, not_private_test_seed=1).fit(rows)
    positive = cells[0]
    model = LogisticRegression("ill", features=["age"], positive=positive).fit(release)
    assert model.classes_.tolist() == first
    assert metrics.accuracy_score(rows.ill, model.predict(rows)) == model.score(rows) > 0.7
    assert release.share("ill", positive).value == pytest.approx(
        np.mean([cell == positive for cell in ill]), abs=0.02
    )


@pytest.mark.parametrize("rows", [pd.DataFrame({"a": [1]}), {"a": [1]}, None, 3])
def test_rows_in_place_of_a_release_are_refused(rows: Any) -> None:
    with pytest.raises(InputError, match="release must be a Synthesis or the path of a release file"):
        LinearRegression("a").fit(rows)


def test_dates_of_numpy_in_a_mapping_are_read_as_in_an_array() -> None:
    schema = mg.Schema((mg.Date(name="day", lower="2020-01-01", upper="2020-12-30", bins=4, missing=False),))
    days = [np.datetime64("2020-02-02"), np.datetime64("2020-12-12")]
    assert encode_rows({"day": days}, schema, ["day"])["day"].tolist() == [0, 3]
    with pytest.raises(InputError, match="rows must be a table"):
        encode_rows({"day": [object()]}, schema, ["day"])


def test_columns_that_are_coded_by_others_are_told_from_columns_of_numbers() -> None:
    rng = np.random.default_rng(0)
    charge = np.round(np.exp(rng.normal(7, 1, 6000)))
    rows = pd.DataFrame(
        {
            "charge": charge.astype(int),
            "paid": np.round(charge * rng.uniform(0.5, 0.9, 6000)).astype(int),
            "ward": rng.choice(["a", "b"], 6000),
        }
    )
    release = mg.Synthesizer("auto", epsilon=5.0, delta=1e-9, not_private_test_seed=1).fit(rows)
    (coded,) = (c for c in release.schema.columns if isinstance(c, Relative))
    found = linear(release, coded.base)
    assert coded.name not in found.columns
    assert f"left out: {coded.name}, whose codes say how they go with {coded.base}" in found.notes
    assert coded.name in linear(release, coded.base, features=[coded.name]).columns
    other = logistic(release, "ward", positive="a")
    assert {coded.name, coded.base} <= set(other.columns)
    assert not any("left out" in note for note in other.notes)
    with pytest.raises(InputError, match=f"codes of '{coded.name}' say how it goes with {coded.base}"):
        linear(release, coded.name)
    low, high = release.quantile(coded.name, of="table").interval
    assert low <= np.quantile(rows[coded.name], 0.5) <= high
    with pytest.raises(InputError, match="Leave `by` out"):
        release.quantile(coded.name, 0.5, "ward")
    low, high = release.mean(coded.name, of="table").interval
    assert low <= rows[coded.name].mean() <= high
    assert high - low < 0.2 * rows[coded.name].mean()
