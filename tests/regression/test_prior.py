"""A logistic regression of which pairs are missing: a prior as wide as the noise of X'y asks for."""

from __future__ import annotations

import numpy as np
import pytest
from exact_releases import Released, counts_of, noisy_release
from numpy.typing import NDArray

import margrave as mg
from margrave.regression import logistic

ROWS = 4000
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=3, bins=4, missing=False),
        mg.Categorical(name="ward", values=("a", "b"), missing=False),
        mg.Categorical(name="ill", values=("no", "yes"), missing=False),
    )
)
WITH_TARGET = [("age", "ill"), ("ward", "ill"), ("age",), ("ward",), ("ill",)]
COMPLETE = [*WITH_TARGET, ("age", "ward")]


def release_of(cliques: dict[tuple[str, ...], float], effect: float = 1.5) -> Released:
    """A target that age and, by its effect, the ward explain, the exact model, and noisy tables of some
    columns."""
    rng = np.random.default_rng(3)
    age, ward = rng.integers(0, 4, ROWS), rng.integers(0, 2, ROWS)
    ill = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-(2.0 * age - 4.0 + effect * ward)))
    counts = counts_of(SCHEMA, {"age": age, "ward": ward, "ill": ill.astype(int)})
    return noisy_release(SCHEMA, counts, cliques, rng)


def slopes(release: Released, source: str = "both", likelihood: str = "exact") -> NDArray[np.float64]:
    """The coefficients without that of the constant, whose prior is flat."""
    found = logistic(release, "ill", source=source, likelihood=likelihood, reference={"ward": "a"})  # type: ignore[arg-type]
    return found.estimates[1:]


def test_without_noise_the_prior_says_nothing() -> None:
    release = release_of(dict.fromkeys(WITH_TARGET, 0.1))
    np.testing.assert_allclose(slopes(release), slopes(release, "model"), rtol=1e-3)


def test_noise_draws_coefficients_to_those_of_the_polynomial() -> None:
    centre = slopes(release_of(dict.fromkeys(WITH_TARGET, 1.0)), "model", "quadratic")
    apart = [
        float(np.linalg.norm(slopes(release_of(dict.fromkeys(WITH_TARGET, sigma))) - centre))
        for sigma in (0.1, 300.0, 1000.0, 10_000.0)
    ]
    assert apart[0] > 0.2
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 0.1 * apart[0]


def test_a_table_of_much_noise_holds_back_its_own_feature_alone() -> None:
    release = release_of(dict.fromkeys(WITH_TARGET, 0.1) | {("ward", "ill"): 10_000.0}, effect=0.0)
    plain, centre = slopes(release, "model"), slopes(release, "model", "quadratic")
    assert abs(centre[0] - plain[0]) > 0.05
    assert slopes(release)[0] == pytest.approx(plain[0], abs=0.01)


@pytest.mark.parametrize(("cliques", "source"), [(COMPLETE, "both"), (WITH_TARGET, "model")])
def test_there_is_no_prior_where_all_pairs_were_measured_nor_in_the_model(
    cliques: list[tuple[str, ...]], source: str
) -> None:
    little, much = (release_of(dict.fromkeys(cliques, sigma)) for sigma in (0.1, 10_000.0))
    np.testing.assert_allclose(slopes(much, source), slopes(little, "model"), rtol=0.02)
