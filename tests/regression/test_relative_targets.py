"""Regressions of columns that are coded by others, and on them: exact without noise, covered, or refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from exact_releases import Released, counts_of, noisy_release

import margrave as mg
from margrave.errors import InputError
from margrave.regression import LinearRegression, linear, logistic, poisson
from margrave.schema.columns import Categorical, Real, Relative
from margrave.tables.numbers import scores_of

OWN = Real(name="y", lower=-500.0, upper=500.0, bins=4, missing=False)
NET = Real(name="net", lower=0.0, upper=80.0, bins=4, missing=False)
FEE = Real(name="fee", lower=0.0, upper=9.0, bins=3, missing=False)
SEX = Categorical(name="sex", values=("F", "M"), missing=False)
EXACT = Real(name="y", edges=(0.0, float(np.nextafter(0.0, 1.0))), missing=False)
APART = Real(name="y", edges=(-6.0, -2.0, 0.0, 8.0), missing=False)
ROWS = 3000
PAIRS = [("sex", "net"), ("sex", "fee"), ("sex", "y"), ("net", "fee"), ("net", "y"), ("fee", "y")]


def relative(part: Real = EXACT, **changed: Any) -> Relative:
    """The column y, by default equal to net."""
    options: dict[str, Any] = {"base": "net", "own": OWN, "missing": False, "part": part}
    return Relative(name="y", **(options | changed))


TARGETS = {
    "line": relative(factor=-0.5, offset=3.0),
    "sum": relative(others=("fee",)),
    "difference": relative(APART),
    "rest": relative(APART, others=("fee",), powers=(1, -1)),
}


def draw_codes(target: Relative, seed: int) -> dict[str, Any]:
    """Codes of sex, net, fee and y, which go together: shape [rows] each."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, ROWS)
    net = np.clip(rng.integers(0, 3, ROWS) + sex * rng.integers(0, 2, ROWS), 0, 3)
    fee = np.clip(rng.integers(0, 2, ROWS) + (net > 1), 0, 2)
    y = np.clip(rng.integers(0, 2, ROWS) + (fee > 0), 0, target.size - 1)
    return {"sex": sex, "net": net, "fee": fee, "y": y}


def add_up(target: Relative, codes: dict[str, Any]) -> Any:
    """The numbers of the target: shape [rows]."""
    net, fee = (np.asarray(scores_of(column))[codes[column.name]] for column in (NET, FEE))
    part = np.asarray(scores_of(target.part))[codes["y"]]
    fee = {(): fee, (1, -1): -fee}[target.powers] if target.others else 0.0
    return target.offset + target.factor * (net + fee) + part


def solve(design: list[Any], numbers: Any) -> Any:
    """Least squares with a constant."""
    return np.linalg.lstsq(np.column_stack([np.ones(ROWS), *design]), numbers, rcond=None)[0]


def release_of(target: Relative, codes: dict[str, Any], sigma: float = 1e-7, seed: int = 0) -> Released:
    schema = mg.Schema((SEX, NET, FEE, target))
    rng = np.random.default_rng(seed)
    return noisy_release(schema, counts_of(schema, codes), dict.fromkeys(PAIRS, sigma), rng)


@pytest.mark.parametrize("how", TARGETS)
@pytest.mark.parametrize("source", ["both", "model", "measured"])
def test_coefficients_are_those_of_the_numbers_that_the_codes_add_up_to(how: str, source: Any) -> None:
    target = TARGETS[how]
    codes = draw_codes(target, 1)
    release, numbers = release_of(target, codes), add_up(target, codes)
    found = linear(release, "y", features=["sex"], reference={"sex": "F"}, of="table", source=source)
    assert found.target == "y"
    assert found.estimates == pytest.approx(solve([codes["sex"]], numbers), abs=1e-5)
    assert (found.upper - found.lower).max() < 1e-3
    wide = linear(release, "y", features=["sex"], reference={"sex": "F"}, source=source)
    left = numbers - np.column_stack([np.ones(ROWS), codes["sex"]]) @ found.estimates
    spread = np.column_stack([np.ones(ROWS), codes["sex"]])
    inverse = np.linalg.inv(spread.T @ spread)
    sandwich = inverse @ (spread * left[:, None] ** 2).T @ spread @ inverse
    assert wide.standard_errors == pytest.approx(np.sqrt(np.diag(sandwich)), rel=1e-3)


@pytest.mark.parametrize("sigma", [1e-7, 5.0])
def test_a_column_that_a_target_is_made_of_explains_it_without_noise(sigma: float) -> None:
    target = TARGETS["sum"]
    codes = draw_codes(target, 2)
    found = linear(release_of(target, codes, sigma), "y", features=["net", "fee", "sex"], of="table")
    assert found.middles[1:] == pytest.approx([1.0, 1.0, 0.0], abs=1e-5)
    assert found.standard_errors == pytest.approx(0.0, abs=1e-4)
    one = linear(release_of(target, codes), "y", features=["net", "sex"], reference={"sex": "F"}, of="table")
    net = np.asarray(scores_of(NET))[codes["net"]]
    assert one.estimates == pytest.approx(solve([net, codes["sex"]], add_up(target, codes)), abs=1e-4)


def test_the_estimator_tells_the_target_of_rows() -> None:
    target = TARGETS["line"]
    codes = draw_codes(target, 3)
    model = LinearRegression("y", features=["sex", "fee"]).fit(release_of(target, codes))
    net, fee = (np.asarray(scores_of(column))[codes[column.name]] for column in (NET, FEE))
    rows = {"sex": np.array(["F", "M"])[codes["sex"]], "net": net, "fee": fee}
    numbers = add_up(target, codes)
    left = numbers - model.predict(rows)
    assert model.score(rows) == pytest.approx(1.0 - left @ left / ((numbers - numbers.mean()) ** 2).sum())


def test_rows_that_break_a_found_relation_make_intervals_longer() -> None:
    codes, errors = draw_codes(TARGETS["line"], 4), []
    for share in (None, (0.9, 0.02), (0.8, 0.04)):
        target = dataclasses.replace(TARGETS["line"], share=share)
        found = linear(release_of(target, codes), "y", features=["sex"], reference={"sex": "F"}, of="table")
        errors.append(found.standard_errors)
    # Of .12 of the rows half a deviation of the target, over that of an indicator of half of them.
    spread = add_up(TARGETS["line"], codes).std()
    assert errors[0].max() < 1e-4
    assert errors[1][1] == pytest.approx(0.12 / 2.0 * spread / codes["sex"].std() * 0.5**0.5, rel=1e-3)
    assert errors[2][1] == pytest.approx(2.0 * errors[1][1], rel=1e-3)


def test_a_table_that_is_missing_is_named() -> None:
    target = TARGETS["sum"]
    codes = draw_codes(target, 5)
    schema = mg.Schema((SEX, NET, FEE, target))
    few = dict.fromkeys([("sex", "net"), ("net", "fee"), ("y",)], 1.0)
    release = noisy_release(schema, counts_of(schema, codes), few, np.random.default_rng(0))
    found = linear(release, "y", features=["sex"])
    assert np.isnan(found.standard_errors).all()
    assert any("no noisy table holds sex x fee" in note for note in found.notes)
    assert np.isfinite(found.estimates).all()


def test_what_is_no_sum_is_refused() -> None:
    quotient = relative(Real(name="y", edges=(0.2, 0.6, 1.0), missing=False), how="quotient")
    product = relative(others=("fee",), joint="product")
    for target in (quotient, product):
        with pytest.raises(InputError, match="target must be a sum, difference or line of others"):
            linear(release_of(target, draw_codes(target, 6)), "y", features=["sex"])
    gone = relative(own=dataclasses.replace(OWN, missing=True), missing=True)
    with pytest.raises(InputError, match="never missing, nor what it is coded by; codes of 'y'"):
        linear(release_of(gone, draw_codes(gone, 6)), "y", features=["sex"])
    line = TARGETS["line"]
    with pytest.raises(InputError, match="codes of 'y' say how it goes with 'net'"):
        poisson(release_of(line, draw_codes(line, 6)), "y", features=["sex"])


@pytest.mark.slow
@pytest.mark.parametrize("how", TARGETS)
def test_intervals_hold_the_truth_as_often_as_they_say(how: str) -> None:
    """Bins and relations are known: noise in counts is all that is wrong."""
    target = TARGETS[how]
    codes = draw_codes(target, 7)
    net = np.asarray(scores_of(NET))[codes["net"]]
    for features, design in ((["sex"], [codes["sex"]]), (["sex", "net"], [codes["sex"], net])):
        truth, held, values = solve(design, add_up(target, codes)), [], []
        for turn in range(300):
            release = release_of(target, codes, 12.0, turn)
            found = linear(release, "y", features=features, reference={"sex": "F"}, of="table")
            slack = 1e-6 * (1.0 + np.abs(truth))
            held.append((found.lower - slack <= truth) & (truth <= found.upper + slack))
            values.append(found.p_value(truth))
        assert 0.91 < np.mean(held) <= 1.0, (features, np.mean(held, axis=0))
        assert np.mean(np.asarray(values) > 0.05) > 0.91, features


def test_true_coefficients_of_a_line_of_a_feature_are_not_refuted_by_rounding() -> None:
    """The target has no noise of its own there: what is left of the residual is rounding."""
    target = TARGETS["line"]
    codes = draw_codes(target, 7)
    truth = solve([codes["sex"], np.asarray(scores_of(NET))[codes["net"]]], add_up(target, codes))
    release = release_of(target, codes, 12.0)
    found = linear(release, "y", features=["sex", "net"], reference={"sex": "F"}, of="table")
    assert found.p_value(truth) == 1.0
    for place in range(3):
        wrong = truth + 1e-3 * (np.arange(3) == place)
        assert found.p_value(wrong) < 0.01


def test_a_line_is_a_number_as_a_feature_where_its_base_is_none() -> None:
    line = TARGETS["line"]
    codes = draw_codes(line, 8)
    release, fee = release_of(line, codes), np.asarray(scores_of(FEE))[codes["fee"]]
    found = linear(release, "fee", features=["y", "sex"], reference={"sex": "F"}, of="table")
    assert found.names == ("(intercept)", "y", "sex=M")
    assert found.columns == ("", "y", "sex")
    assert found.estimates == pytest.approx(solve([add_up(line, codes), codes["sex"]], fee), abs=1e-5)
    ill = logistic(release, "sex", features=["y"])
    base = logistic(release, "sex", features=["net"])
    assert ill["y"] == pytest.approx(base["net"] / -0.5, rel=1e-3)
    assert ill.standard_errors[1] == pytest.approx(base.standard_errors[1] / 0.5, rel=1e-2)
    # Beside its base it says nothing, which is said; by default it is not missed.
    both = linear(release, "fee", features=["y", "net"])
    assert both.names == ("(intercept)", "net")
    assert any(note.startswith("y adds nothing here: y is 3 - net / 2") for note in both.notes)
    assert not linear(release, "fee").notes
    # Rows that break the line count, as far as the target goes with it.
    strayed = dataclasses.replace(line, share=(0.9, 0.02))
    doubted = linear(release_of(strayed, codes), "fee", features=["y"], of="table")
    numbers = add_up(line, codes)
    assert doubted.standard_errors[1] == pytest.approx(
        0.12 / 2.0 * 0.5**0.5 * fee.std() / numbers.std(), rel=1e-3
    )


def test_what_is_lost_in_bins_is_lost_on_both_sides() -> None:
    """A tax of .19 times the net goes up by .19 with the net, whatever noise makes of the bins."""
    net = Real(
        name="net",
        missing=False,
        edges=(0.0, 2.0, 4.0, 8.0, 20.0),
        fine=(0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0),
        weights=(30.0, 9.0, 40.0, 50.0, 20.0, 12.0, 3.0),
        noise=5.0,
    )
    tax = relative(factor=0.19)
    codes = draw_codes(tax, 9)
    schema = mg.Schema((SEX, net, FEE, tax))
    pairs = dict.fromkeys(PAIRS, 3.0)
    release = noisy_release(schema, counts_of(schema, codes), pairs, np.random.default_rng(0))
    found = linear(release, "y", features=["net", "fee", "sex"], of="table")
    assert found.middles == pytest.approx([0.0, 0.19, 0.0, 0.0], abs=1e-6)
    assert found.standard_errors == pytest.approx(0.0, abs=1e-6)
    less = linear(release, "y", features=["fee", "sex"], of="table")
    assert (less.standard_errors > 1e-3).all()
