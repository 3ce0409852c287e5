"""Regressions from releases: exact where tables are exact, honest about noise, clear about what cannot be."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from exact_releases import Released, TableModel, counts_of, noisy_release
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

import margrave as mg
from margrave.errors import InputError
from margrave.regression import Coefficients, linear, logistic, poisson
from margrave.regression.design import SMALLEST_SPREAD, centre
from margrave.regression.encoding import encode_feature
from margrave.regression.families import QUADRATIC
from margrave.schema.encoded import Encoded
from margrave.tables.numbers import scores_of

Floats = NDArray[np.float64]
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=20, upper=79, bins=6, missing=False),
        mg.Categorical(name="ward", values=("a", "b", "c"), missing=False),
        mg.Real(name="pay", lower=0, upper=10, bins=5, missing=False),
        mg.Boolean(name="ill", missing=False),
        mg.Integer(name="visits", lower=0, upper=5, bins=6, missing=False),
    )
)
PAIRS = list(combinations(SCHEMA.names, 2))


def columns(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    age = rng.integers(0, 6, rows)
    ward = (rng.random(rows) * 3 * np.where(age > 2, 0.8, 1.0)).astype(int)
    pay = np.clip((age * 0.5 + (ward == 1) + rng.normal(0, 1, rows)).round(), 0, 4).astype(int)
    ill = (rng.random(rows) < 1 / (1 + np.exp(1.5 - 0.4 * age - 0.5 * (ward == 2)))).astype(int)
    visits = np.clip(rng.poisson(np.exp(-0.6 + 0.2 * age)), 0, 5)
    return {"age": age, "ward": ward, "pay": pay, "ill": ill, "visits": visits}


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return columns(3000, np.random.default_rng(0))


@pytest.fixture(scope="module")
def exact(table: dict[str, Any]) -> Released:
    """All pairs, with next to no noise."""
    rng = np.random.default_rng(1)
    return noisy_release(SCHEMA, counts_of(SCHEMA, table), dict.fromkeys(PAIRS, 1e-7), rng)


def numbers_of(table: dict[str, Any], intercept: bool, how: str = "") -> Floats:
    """Age by scores, and ward by its levels b and c; or all by another encoding."""
    age, ward = table["age"], table["ward"]
    middles = scores_of(SCHEMA["age"])
    assert middles is not None
    parts = [np.ones(len(age))] if intercept else []
    if how == "ranks":
        parts += [2 * age / 5 - 1, ward - 1.0]
    elif how == "levels":
        parts += [(age == code).astype(float) for code in range(1, 6)]
        parts += [(ward == 1).astype(float), (ward == 2).astype(float)]
    else:
        parts += [middles[age], (ward == 1).astype(float), (ward == 2).astype(float)]
    return np.column_stack(parts)


def newton(numbers: Floats, label: Floats, mean: Any, slope: Any) -> Floats:
    """Maximum likelihood by iterated weighted least squares."""
    theta = np.zeros(numbers.shape[1])
    for _ in range(60):
        s = numbers @ theta
        theta = theta + np.linalg.solve((numbers.T * slope(s)) @ numbers, numbers.T @ (label - mean(s)))
    return theta


def sigmoid(s: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-s)))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("how", ["", "ranks", "levels"])
def test_exact_tables_give_least_squares(
    exact: Released, table: dict[str, Any], intercept: bool, how: str
) -> None:
    reference = {"ward": "a"} | ({"age": "20 to 29"} if how == "levels" else {})
    found = linear(
        exact,
        "pay",
        features=["age", "ward"],
        intercept=intercept,
        encodings={"age": how, "ward": how} if how else None,
        reference=None if how == "ranks" else reference,
        source="model",
    )
    pay = table["pay"] * 2.0 + 1.0
    expected = np.linalg.lstsq(numbers_of(table, intercept, how), pay, rcond=None)[0]
    assert np.allclose(found.estimates, expected, atol=1e-10)
    assert np.allclose(found.middles, expected, atol=1e-6)
    assert found.identified.all()
    assert found.notes == ()
    assert list(found) == list(found.names)
    assert found.names[-1] in found
    assert "absent" not in found
    assert (found.names[0] == "(intercept)") == intercept


def test_the_likelihood_on_true_rows_is_logistic_and_poisson_regression(
    exact: Released, table: dict[str, Any]
) -> None:
    numbers = numbers_of(table, True)
    options: Any = {"features": ["age", "ward"], "reference": {"ward": "a"}}
    for source in ("model", "measured", "both"):
        ill = logistic(exact, "ill", source=source, **options)
        expected = newton(numbers, table["ill"], sigmoid, lambda s: sigmoid(s) * (1 - sigmoid(s)))
        assert np.allclose(ill.estimates, expected, atol=1e-8 if source == "model" else 1e-6)
        assert ill.meaning == "True"
        visits = poisson(exact, "visits", source=source, **options)
        expected = newton(numbers / [1, 10, 1, 1], table["visits"], np.exp, np.exp) / [1, 10, 1, 1]
        assert np.allclose(visits.estimates, expected, atol=1e-7 if source == "model" else 1e-6)


def test_intervals_without_noise_are_those_of_least_squares_with_robust_errors(
    exact: Released, table: dict[str, Any]
) -> None:
    found = linear(exact, "pay", features=["age", "ward"], reference={"ward": "a"})
    numbers = numbers_of(table, True)
    off = table["pay"] * 2.0 + 1.0 - numbers @ found.estimates
    inverse = np.linalg.inv(numbers.T @ numbers)
    errors = np.sqrt(np.diag(inverse @ ((numbers.T * off**2) @ numbers) @ inverse))
    assert np.allclose(found.standard_errors, errors, rtol=1e-5)
    assert np.allclose(found.upper - found.lower, 2 * 1.959964 * errors, rtol=1e-5)
    assert linear(exact, "pay", features=["age"], of="table").standard_errors.max() < 1e-6


def test_the_quadratic_likelihood_is_least_squares_times_a_constant(exact: Released) -> None:
    coefficients = chebyshev.cheb2poly(
        chebyshev.chebinterpolate(lambda t: -np.log1p(np.exp(-6 * t)), 2)
    ) / np.array([1, 6, 36])
    assert coefficients == pytest.approx([-np.log(2), 0.5, -QUADRATIC], abs=1e-12)
    assert pytest.approx(3.5332, abs=5e-5) == 0.5 / (2 * QUADRATIC)
    options: Any = {"features": ["age", "ward"], "intercept": False, "encodings": "ranks", "source": "model"}
    found = logistic(exact, "ill", likelihood="quadratic", **options)
    true = linear(exact, "ill", positive="True", **options).estimates
    false = linear(exact, "ill", positive="False", **options).estimates
    least = true - false  # of the labels 1 and -1
    assert np.allclose(found.estimates, least * 0.5 / (2 * QUADRATIC), atol=1e-8)


def test_the_polynomial_of_degree_four_has_no_maximum(table: dict[str, Any]) -> None:
    """Its last coefficient is above 0: far out it grows without end, and on its interval it is no better."""
    found = chebyshev.cheb2poly(chebyshev.chebinterpolate(lambda t: -np.log1p(np.exp(-6 * t)), 4))
    found = found / 6.0 ** np.arange(5)
    assert found == pytest.approx([-np.log(2), 0.5, -0.101934, 0.0, 0.00109], abs=1e-5)
    numbers, ill = numbers_of(table, True, "ranks"), table["ill"]
    signed = numbers * (2 * ill - 1)[:, None]

    def polynomial(theta: Floats) -> float:
        return float(np.polynomial.polynomial.polyval(signed @ theta, found).sum())

    def likelihood(theta: Floats) -> float:
        return float(-np.logaddexp(0.0, -signed @ theta).sum())

    best = newton(numbers, ill, sigmoid, lambda s: sigmoid(s) * (1 - sigmoid(s)))
    away = [polynomial(-scale * best) for scale in (20.0, 40.0, 80.0)]
    assert away[2] > away[1] > away[0] > polynomial(best)  # although -best says the opposite of the rows
    assert likelihood(-20.0 * best) < likelihood(best)
    assert away[2] > 0.0 > likelihood(best)  # no log likelihood of a binary target is above 0


@pytest.mark.parametrize(("share", "kept"), [(1e-13, False), (1e-11, True), (0.0, False)])
def test_a_level_with_next_to_no_share_of_the_model_is_left_out(share: float, kept: bool) -> None:
    """A spread of 1e-6 is a share of 1e-12: below, a level counts as empty; above, it is scaled to 1."""
    counts = np.full(SCHEMA.domain.sizes, 1.0)
    counts[:, 2] = share * counts[:, :2].sum() / counts[:, 2].size
    model = TableModel(SCHEMA.domain, counts)
    pay = scores_of(SCHEMA["pay"])
    assert pay is not None
    wards = encode_feature(SCHEMA, "ward", None, model.project(("ward",)), "a")
    design = centre(model, "pay", np.asarray(pay), [wards], True)
    assert wards.levels == ("b", "c")
    b, c = design.matrices[0]
    assert np.ptp(b) > 1.9
    assert bool(c.any()) == kept
    assert not kept or np.ptp(c) == pytest.approx(share**-0.5, rel=1e-3)
    assert np.isfinite(design.to_raw).all()
    assert pytest.approx(1e-12) == SMALLEST_SPREAD**2


def hard_table(rows: int, rng: np.random.Generator) -> tuple[mg.Schema, dict[str, Any]]:
    """Twins of a column, a constant one, a level of three rows, and missing codes."""
    schema = mg.Schema(
        (
            mg.Integer(name="dose", lower=0, upper=4, bins=5, missing=True),
            mg.Integer(name="twin", lower=0, upper=4, bins=5, missing=False),
            mg.Integer(name="same", lower=0, upper=1, bins=2, missing=False),
            mg.Integer(name="only", lower=7, upper=7, bins=1, missing=False),
            mg.Categorical(name="rare", values=("x", "y", "z"), missing=False),
            mg.Categorical(name="score", values=(10, 20), missing=False),
        )
    )
    twin = rng.integers(0, 5, rows)
    rare = (rng.random(rows) < 0.4).astype(int)
    rare[:3] = 2
    dose = np.where(rng.random(rows) < 0.1, 5, twin)
    score = (rng.random(rows) < 0.2 + 0.1 * twin).astype(int)
    zero = np.zeros(rows, dtype=int)
    return schema, {"dose": dose, "twin": twin, "same": zero, "only": zero, "rare": rare, "score": score}


def test_what_is_not_identified_is_said_and_the_rest_stands() -> None:
    rng = np.random.default_rng(2)
    schema, table = hard_table(4000, rng)
    pairs = dict.fromkeys(combinations(schema.names, 2), 10.0)
    release = noisy_release(schema, counts_of(schema, table), pairs, rng)
    found = linear(release, "score", features=["twin", "same", "only", "rare"])
    known = dict(zip(found.names, found.identified, strict=True))
    assert known == {
        "(intercept)": True, "twin": True, "same": False, "only": False, "rare=y": True, "rare=z": True,
    }  # fmt: skip
    assert np.isinf(found.standard_errors[~found.identified]).all()
    assert "same, only" in found.notes[0]
    errors = dict(zip(found.names, found.standard_errors, strict=True))
    assert errors["rare=z"] > 10.0 > 1.0 > errors["rare=y"]  # three rows under noise of ten: the whole range
    assert found["twin"] == pytest.approx(1.0, abs=0.2)  # ten points times 0.1 a unit
    both = linear(release, "score", features=["twin", "dose", "rare"])
    assert np.isfinite(both.estimates).all()
    assert "dose=missing" in both.names
    odds = logistic(release, "score", features=["twin"])
    assert odds.meaning == "20"
    assert odds.lower[1] > 0


def test_a_coefficient_that_noise_hides_is_named() -> None:
    """Three rows of a level under noise of 40: its interval is about as long as any coefficient can be."""
    rng = np.random.default_rng(1)
    schema, table = hard_table(4000, rng)
    counts = counts_of(schema, table)
    pairs = dict.fromkeys(combinations(schema.names, 2), 40.0)
    release = noisy_release(schema, counts, pairs, rng)
    found = linear(release, "score", features=["twin", "rare"], reference={"rare": "x"})
    (note,) = [note for note in found.notes if "hidden by noise" in note]
    assert "rare=z;" in note
    assert "twin" not in note
    assert "rare=y" not in note
    length = dict(zip(found.names, found.upper - found.lower, strict=True))
    assert length["rare=z"] > 80.0 > length["rare=y"]  # eight times the range of the target


@pytest.mark.slow
def test_intervals_hold_a_rare_level_that_the_model_has_wrong() -> None:
    """150 releases: the model has a third to three times of its three rows, and their labels mixed."""
    rng, held = np.random.default_rng(0), []
    for _ in range(150):
        schema, table = hard_table(4000, rng)
        counts = counts_of(schema, table)
        wrong = np.maximum(counts * rng.lognormal(0.0, 0.1, counts.shape), 0.0)
        rare = wrong[:, :, :, :, 2, :].sum(axis=-1, keepdims=True)
        wrong[:, :, :, :, 2, :] = rare * 0.5 * rng.lognormal()
        wrong = np.rint(wrong)
        if not wrong[:, :, :, :, 2, :].any():
            continue
        pairs = dict.fromkeys(combinations(schema.names, 2), 10.0)
        release = noisy_release(schema, counts, pairs, rng, model=TableModel(schema.domain, wrong))
        found = linear(release, "score", features=["twin", "rare"], of="table", reference={"rare": "x"})
        numbers = [np.ones(4000), table["twin"], table["rare"] == 1, table["rare"] == 2]
        score = 10.0 + 10.0 * table["score"]
        truth = np.linalg.lstsq(np.column_stack(numbers).astype(float), score, rcond=None)[0]
        held.append((found.lower <= truth) & (truth <= found.upper))
    assert len(held) > 60
    assert (np.mean(held, axis=0) >= 0.88).all()


def test_a_level_that_the_model_hardly_has_does_not_explode() -> None:
    """Eighty rows of which the model has a few: X'y of the tables over X'X of the model would be far off."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        schema, table = hard_table(4000, rng)
        table["rare"][:80] = 2
        table["score"][:80] = 1
        counts = counts_of(schema, table)
        wrong = counts.copy()
        wrong[:, :, :, :, 2, :] = np.rint(
            counts[:, :, :, :, 2, :] * 0.05 + rng.random((*counts.shape[:4], 2)) * 0.53
        )
        pairs = dict.fromkeys(combinations(schema.names, 2), 25.0)
        release = noisy_release(schema, counts, pairs, rng, model=TableModel(schema.domain, wrong))
        found = linear(release, "score", features=["twin", "rare"], reference={"rare": "x"})
        assert abs(found["rare=z"]) < 20.0  # scores are 10 and 20


def test_the_noise_of_far_codes_does_not_shrink_the_coefficient_of_a_number() -> None:
    """Of 64 codes few rows have one above 2: X'X in noisy tables is noise alone."""
    rng = np.random.default_rng(0)
    columns = ("claims", "claimed")
    schema = mg.Schema(
        tuple(
            mg.Integer(name=name, lower=0, upper=size - 1, bins=size, missing=False)
            for name, size in zip(columns, (64, 2), strict=True)
        )
    )
    claims = np.minimum(rng.poisson(0.1, 3000), 2)
    claims[0] = 40
    counts = counts_of(schema, {"claims": claims, "claimed": (claims > 0).astype(int)})
    # No table of both: what both columns say together is the model's alone.
    release = noisy_release(schema, counts, {(name,): 40.0 for name in columns}, rng)
    found = [linear(release, "claimed", source=source) for source in ("both", "model")]
    assert np.isnan(found[0].standard_errors).all()
    assert found[0]["claims"] == pytest.approx(found[1]["claims"], rel=1e-9)


def test_duplicate_columns_are_not_identified_apart() -> None:
    rng = np.random.default_rng(3)
    schema, table = hard_table(4000, rng)
    table |= {"dose": table["twin"]}
    release = noisy_release(
        schema, counts_of(schema, table), dict.fromkeys(combinations(schema.names, 2), 5.0), rng
    )
    found = linear(release, "score", features=["twin", "dose"], encodings={"dose": "ranks"})
    known = dict(zip(found.names, found.identified, strict=True))
    assert not known["twin"]
    assert not known["dose"]


def test_missing_pairs_are_named_and_leave_no_standard_errors(table: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    some = {pair: 1.0 for pair in PAIRS if set(pair) != {"ward", "pay"}}
    release = noisy_release(SCHEMA, counts_of(SCHEMA, table), some, rng)
    found = linear(release, "pay", features=["age", "ward"])
    assert np.isnan(found.standard_errors).all()
    assert "ward x pay" in found.notes[0]
    assert np.isfinite(found.estimates).all()
    with pytest.raises(InputError, match="ward x pay are not"):
        linear(release, "pay", features=["age", "ward"], source="measured")
    with pytest.raises(InputError, match="measured all pairs"):
        found.p_value(found.estimates)


def test_rows_without_a_target_are_left_out() -> None:
    rng = np.random.default_rng(5)
    schema, table = hard_table(3000, rng)
    release = noisy_release(
        schema, counts_of(schema, table), dict.fromkeys(combinations(schema.names, 2), 1e-6), rng
    )
    found = linear(release, "dose", features=["twin"], source="model")
    assert np.allclose(found.estimates, [0.0, 1.0], atol=1e-8)
    assert "without a target" in found.notes[0]
    with pytest.raises(InputError, match="without missing values"):
        linear(release, "dose", features=["twin"], source="measured")


def test_a_public_row_count_is_used_as_it_is(table: dict[str, Any]) -> None:
    errors = {}
    for adjacency in ("add_remove", "replace_one"):
        release = noisy_release(
            SCHEMA,
            counts_of(SCHEMA, table),
            dict.fromkeys(PAIRS, 20.0),
            np.random.default_rng(6),
            adjacency=adjacency,
        )
        errors[adjacency] = linear(release, "pay", features=["age"], of="table").standard_errors
    assert errors["replace_one"][0] <= errors["add_remove"][0]


@pytest.mark.slow
def test_the_covariance_of_noise_is_that_of_simulated_noise(table: dict[str, Any]) -> None:
    """Tables that overlap: pairs, a pair twice, and a table of three columns that holds three pairs."""
    cliques = {("age", "ward", "pay"): 2.0, ("pay", "age"): 5.0, ("ward",): 3.0, ("pay", "ward"): 4.0}
    counts = counts_of(SCHEMA, table)
    gamma, draws, wanted = np.array([0.5, 1.0, -1.0, 0.7]), [], None
    for seed in range(3000):
        release = noisy_release(SCHEMA, counts, cliques, np.random.default_rng(seed))
        if wanted is None:
            found = linear(release, "pay", features=["age", "ward"])
            sums = found.fit.sums
            wanted = sums.residual(gamma)[1]
        else:
            tables = type(sums._tables)(SCHEMA.domain, release.release.measurements)
            draws.append(type(sums)(sums._design, tables, None).residual(gamma)[0])
    assert wanted is not None
    spread = np.cov(np.asarray(draws).T)
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    assert np.abs((spread - wanted) / scale).max() < 0.1


def test_a_quadratic_form_agrees_with_the_residuals(table: dict[str, Any]) -> None:
    rng = np.random.default_rng(8)
    counts = counts_of(SCHEMA, table)
    for adjacency in ("add_remove", "replace_one"):
        release = noisy_release(SCHEMA, counts, dict.fromkeys(PAIRS, 5.0), rng, adjacency=adjacency)
        sums = linear(release, "pay", features=["age", "ward"]).fit.sums
        along = np.array([0.3, -1.0, 0.5, 2.0])
        zero, one = sums.residual(0.0 * along), sums.residual(along)
        (value, _), (error, _) = sums.quadratic(np.column_stack([along, 2.0 * along]))
        assert value == pytest.approx(float(along @ (zero[0] - one[0])))
        even = (one[1] + sums.residual(-along)[1]) / 2.0 - zero[1]  # what labels share with the rest cancels
        assert error**2 == pytest.approx(float(along @ even @ along))


def test_results_repeat_and_are_written(exact: Released, tmp_path: Any) -> None:
    first, second = (linear(exact, "pay") for _ in range(2))
    assert isinstance(first, Coefficients)
    assert first.estimates.tolist() == second.estimates.tolist()
    first.write(tmp_path / "c.csv")
    lines = (tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].replace('"', "") == "name,column,level,estimate,middle,std_error,lower,upper,identified"
    assert len(lines) == 1 + len(first.names)
    assert "linear regression of pay" in str(first)
    assert "sampling and privacy noise" in str(first)
    assert first["age"] == first.estimates[first.names.index("age")]


@pytest.mark.parametrize(
    ("kind", "target", "options", "message"),
    [
        (linear, "nothing", {}, "target must be among"),
        (linear, "ward", {}, "a column of numbers"),
        (linear, "pay", {"features": ["pay"]}, "distinct columns other than"),
        (linear, "pay", {"features": ["age", "city"]}, "features must be among"),
        (linear, "pay", {"features": "age"}, "distinct columns"),
        (linear, "pay", {"encodings": {"city": "levels"}}, "encodings must be"),
        (linear, "pay", {"encodings": {"age": "splines"}}, "encoding of 'age'"),
        (linear, "pay", {"encodings": {"ward": "scores"}}, "it has no numbers"),
        (linear, "pay", {"reference": {"ward": "d"}}, "reference of 'ward'"),
        (linear, "pay", {"reference": {"city": "d"}}, "reference must be"),
        (linear, "pay", {"source": "rows"}, "source must be"),
        (linear, "pay", {"of": "sample"}, "of must be"),
        (linear, "pay", {"level": 95}, "level must be"),
        (linear, "pay", {"features": [], "intercept": False}, "one or more without an intercept"),
        (logistic, "ward", {}, "a column of two levels"),
        (logistic, "ward", {"positive": "d"}, "a level of 'ward'"),
        (logistic, "ill", {"likelihood": "cubic"}, "likelihood must be"),
        (poisson, "ward", {}, "a column of numbers"),
    ],
)
def test_bad_input_is_refused(exact: Released, kind: Any, target: str, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(exact, target, **options)


def test_a_target_below_zero_is_no_count() -> None:
    schema = mg.Schema(
        (
            mg.Integer(name="net", lower=-2, upper=2, bins=5, missing=False),
            mg.Boolean(name="b", missing=False),
        )
    )
    counts = np.full((5, 2), 10.0)
    release = noisy_release(schema, counts, {("net", "b"): 1.0}, np.random.default_rng(0))
    with pytest.raises(InputError, match="none below 0"):
        poisson(release, "net")
    assert isinstance(release.model, TableModel)


class FewDrawn(TableModel):
    """A model whose rows have one of the last ward, whatever its tables say."""

    def sample(self, rows: int, rng: np.random.Generator, given: Any = None, deadline: Any = None) -> Encoded:
        drawn = super().sample(rows, rng, given, deadline)
        ward = drawn.column("ward").copy()
        ward[np.flatnonzero(ward == 2)[1:]] = 0
        return Encoded(self.domain, (ward, *(drawn.column(name) for name in self.domain.names[1:])))


@pytest.mark.parametrize("positive", ["True", "False"])
def test_a_level_of_one_drawn_row_keeps_a_coefficient_within_reason(positive: str) -> None:
    schema = mg.Schema(
        (
            mg.Categorical(name="ward", values=("a", "b", "rare"), missing=False),
            mg.Boolean(name="ill", missing=False),
        )
    )
    counts = np.array([[900.0, 600.0], [700.0, 800.0], [1.0, 5.0]])
    model = FewDrawn(schema.domain, counts)
    release = noisy_release(schema, counts, {("ward", "ill"): 2.0}, np.random.default_rng(0), model=model)
    found = logistic(release, "ill", positive=positive, source="model", reference={"ward": "a"})
    sign = 1.0 if positive == "True" else -1.0
    assert abs(found["ward=rare"] - sign * np.log(5.0 * 900 / 600)) < 4.0
    assert found["ward=b"] == pytest.approx(sign * np.log(800 / 700 * 900 / 600), abs=0.02)
    assert (found.standard_errors[:2] < 1.0).all()


@pytest.mark.filterwarnings("error")
def test_a_target_that_never_differs_has_no_slopes() -> None:
    schema = mg.Schema(
        (
            mg.Categorical(name="ward", values=("a", "b"), missing=False),
            mg.Integer(name="flat", lower=0, upper=4, bins=5, missing=False),
        )
    )
    counts = np.zeros((2, 5))
    counts[:, 2] = 700.0, 500.0
    release = noisy_release(schema, counts, {("ward", "flat"): 5.0}, np.random.default_rng(0))
    found = linear(release, "flat")
    assert found.estimates == pytest.approx([2.0, 0.0], abs=1e-9)


def release_with_a_level_of_one_row(sigma: float, rng: np.random.Generator) -> Released:
    """All pairs of the hard table, and a model that has one row of its level of three."""
    schema, table = hard_table(4000, rng)
    counts = counts_of(schema, table)
    model = counts.copy()
    model[:, :, :, :, 2, :] = 0
    model[1, 1, 0, 0, 2, 0] = 1
    pairs = dict.fromkeys(combinations(schema.names, 2), sigma)
    return noisy_release(schema, counts, pairs, rng, model=TableModel(schema.domain, model))


def test_a_level_of_one_row_in_the_model_leaves_the_other_coefficients_certain() -> None:
    """Its own step is noise, of thousands, and is shrunk to nothing before it counts for the others."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(5):
        release = release_with_a_level_of_one_row(50.0, rng)
        found = linear(release, "score", features=["twin", "rare"], reference={"rare": "x"})
        errors.append(dict(zip(found.names, found.standard_errors, strict=True)))
    assert max(error["twin"] for error in errors) < 0.4  # .85 where bounded, 20 where whole
    assert 35.0 < min(error["rare=z"] for error in errors) < 40.0  # four ranges of the target


def test_only_least_squares_shrinks_its_step() -> None:
    """Measured estimates are the whole step, around which intervals of other regressions stand."""
    release = release_with_a_level_of_one_row(20.0, np.random.default_rng(2))
    features = ["twin", "rare"]
    model_own = linear(release, "score", features=features, source="model")
    plain = linear(release, "score", features=features, source="measured")
    place = plain.names.index("rare=z")
    whole, moved = (part[place] - model_own.estimates[place] for part in (plain.estimates, plain.middles))
    assert abs(moved) < 0.1 * abs(whole)
    odds = logistic(release, "score", features=features, source="measured")
    assert np.allclose(odds.estimates, odds.middles)
