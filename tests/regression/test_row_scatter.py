"""What the table's rows scatter around the model's: nothing where tables of pairs tell all, added by rows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from exact_releases import Released, counts_of, noisy_release
from numpy.typing import NDArray

import margrave as mg
from margrave.regression import linear, logistic
from margrave.regression.inference import row_scatter
from margrave.regression.likelihood import score_at

SCHEMA = mg.Schema(
    (
        mg.Integer(name="a", lower=0, upper=9, bins=10, missing=False),
        mg.Integer(name="b", lower=0, upper=9, bins=10, missing=False),
        mg.Boolean(name="ill", missing=False),
    )
)


@pytest.fixture(scope="module")
def release() -> Released:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 10, (2, 5000))
    ill = (rng.random(5000) < 1 / (1 + np.exp(-(1.2 * (a - 4.5) + 0.9 * (b - 4.5))))).astype(int)
    counts = counts_of(SCHEMA, {"a": a, "b": b, "ill": ill})
    return noisy_release(SCHEMA, counts, dict.fromkeys(combinations(SCHEMA.names, 2), 1.0), rng)


def scatter_of(found: Any, population: bool) -> tuple[NDArray[np.float64], Any]:
    fit = found.fit
    theta = np.linalg.solve(fit.design.to_raw, found.estimates)
    line = score_at(theta, fit.design, fit.rows, fit.family)
    return row_scatter(theta, line, fit.rows, fit.family, population), (theta, line, fit)


def test_nothing_scatters_where_one_feature_or_a_line_tells_all(release: Released) -> None:
    one, _ = scatter_of(logistic(release, "ill", features=["a"]), False)
    np.testing.assert_allclose(one, 0.0, atol=1e-6)
    straight, _ = scatter_of(linear(release, "a", features=["b", "ill"]), False)
    assert not straight.any()


def test_what_no_feature_tells_alone_scatters_row_by_row(release: Released) -> None:
    both, (theta, line, fit) = scatter_of(logistic(release, "ill", features=["a", "b"]), False)
    rows = fit.rows
    predicted = rows.predict(theta)
    left = fit.family.mean(predicted) - line.beta * predicted
    # The best additive part, by least squares on indicators of all codes.
    indicators = np.hstack([np.eye(10)[codes] for codes in rows.codes])
    left -= indicators @ np.linalg.lstsq(indicators, left, rcond=None)[0]
    np.testing.assert_allclose(both, rows.cross(left**2), rtol=0.02)
    assert np.diag(both).min() > 0.0


def test_for_the_population_the_scores_of_rows_are_added(release: Released) -> None:
    found = logistic(release, "ill", features=["a", "b"])
    table, (theta, _, fit) = scatter_of(found, False)
    everyone, _ = scatter_of(found, True)
    off = fit.rows.labels + fit.design.middle - fit.family.mean(fit.rows.predict(theta))
    np.testing.assert_allclose(everyone - table, fit.rows.cross(off**2), rtol=1e-6, atol=1e-6)
    # So intervals of the table are shorter than those of the population.
    held = logistic(release, "ill", features=["a", "b"], of="table")
    assert (held.standard_errors < found.standard_errors).all()
