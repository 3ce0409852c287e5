"""What tables that are not below 0 say beyond a model, and sums over rows by codes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from exact_releases import Released, TableModel, comparison_of, counts_of, noisy_release
from numpy.typing import NDArray

import margrave as mg
from margrave.regression import likelihood, linear
from margrave.regression.design import KeptTables, centre
from margrave.regression.encoding import encode_feature
from margrave.regression.likelihood import ModelRows, _invert
from margrave.release import NoisyMarginal
from margrave.schema.encoded import Encoded
from margrave.tables.estimates import PooledTables
from margrave.tables.numbers import scores_of

Floats = NDArray[np.float64]
CODES, ROWS = 12, 4000
SCHEMA = mg.Schema(
    (
        mg.Categorical(name="school", values=tuple(range(CODES)), missing=False),
        mg.Categorical(name="ward", values=("a", "b"), missing=False),
        mg.Integer(name="years", lower=0, upper=CODES - 1, bins=CODES, missing=False),
    )
)


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Years follow from school."""
    school = rng.choice(CODES, ROWS, p=np.arange(1, CODES + 1) / (CODES * (CODES + 1) / 2))
    return {"school": school, "ward": rng.integers(0, 2, ROWS), "years": (5 * school + 3) % CODES}


def release_of(rng: np.random.Generator, attenuated: float, cliques: Any, sigma: float) -> Released:
    """Noisy tables, and a model of which a part is independent columns."""
    counts = counts_of(SCHEMA, draw(rng))
    ways = [counts.sum(axis=tuple(axis for axis in range(3) if axis != own)) / ROWS for own in range(3)]
    product = ROWS * ways[0][:, None, None] * ways[1][None, :, None] * ways[2][None, None, :]
    own = np.rint((1 - attenuated) * counts + attenuated * product)
    return noisy_release(
        SCHEMA, counts, dict.fromkeys(cliques, sigma), rng, model=TableModel(SCHEMA.domain, own)
    )


def measure_error(release: Released, source: Any) -> float:
    """Mean squared error of the predicted years by school, which are known exactly."""
    found = linear(release, "years", features=["school"], source=source, reference={"school": "11"})
    years = np.append(found.estimates[1:], 0.0) + found["(intercept)"]
    return float(np.mean((years - (5 * np.arange(CODES) + 3) % CODES) ** 2))


PAIRS = list(combinations(SCHEMA.names, 2))


@pytest.mark.parametrize("cliques", [PAIRS, [("school", "years"), ("school",), ("ward",), ("years",)]])
def test_an_attenuated_dependence_is_mended_by_the_nearest_table(cliques: Any) -> None:
    rng, errors = np.random.default_rng(0), []
    for _ in range(6):
        release = release_of(rng, 0.4, cliques, 12.0)
        errors.append([measure_error(release, source) for source in ("model", "both")])
    own, moved = np.median(errors, axis=0)
    assert moved < 0.35 * own


def test_a_model_that_is_right_is_left_alone() -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        release = release_of(rng, 0.0, PAIRS, 60.0)
        found = linear(release, "years", features=["school", "ward"])
        sharp = comparison_of(found.fit, release).sharpen()
        assert not sharp.beyond.any()
        assert not sharp.moved.any()
        assert (sharp.variances[1:] > 0.0).all()


def test_a_level_without_rows_in_the_model_gets_no_large_coefficient() -> None:
    """School 0 has 3 rows of the table, and next to none in a model whose tables do not agree about it."""
    rng = np.random.default_rng(2)
    counts = counts_of(SCHEMA, draw(rng))
    counts[0] = 0.0
    counts[0, 0, 3] = 3.0
    own = counts.copy()
    own[0, 0, 3], own[0, 1, 9] = 1.0, 0.0
    model = TableModel(SCHEMA.domain, own)
    honest = model.project_many

    def project_many(cliques: Any) -> list[Floats]:
        found = honest(cliques)
        for clique, table in zip(cliques, found, strict=True):
            if set(clique) == {"school", "years"}:  # the rest of the model knows nothing of these
                (table if clique[0] == "school" else table.T)[0, 9] += 20.0
        return found

    model.project_many = project_many  # type: ignore[method-assign]
    cliques = dict.fromkeys(PAIRS, 12.0) | {(name,): 6.0 for name in SCHEMA.names}
    release = noisy_release(SCHEMA, counts, cliques, rng, model=model)
    plain, moved = (
        linear(release, "years", source=source, reference={"school": "11"}) for source in ("model", "both")
    )
    assert abs(plain["school=0"]) > 2 * CODES
    assert abs(moved["school=0"]) < 0.4 * abs(plain["school=0"])


def rows_of(kinds: dict[str, str], rng: np.random.Generator) -> tuple[ModelRows, Floats]:
    """Rows by codes, and their numbers, with the constant first."""
    table = draw(rng)
    model = TableModel(SCHEMA.domain, counts_of(SCHEMA, table))
    encodings = [
        encode_feature(SCHEMA, name, how, model.project((name,)), None) for name, how in kinds.items()
    ]
    labels = scores_of(SCHEMA["years"])
    assert labels is not None
    design = centre(model, "years", labels, encodings, True)
    encoded = Encoded(SCHEMA.domain, tuple(np.asarray(table[name]) for name in SCHEMA.names))
    rows = ModelRows(design, *design.codes(encoded), 1.5)
    parts = [m[:, c].T for m, c in zip(design.matrices, rows.codes, strict=True)]
    return rows, np.hstack([np.ones((ROWS, 1)), *parts])


@pytest.mark.parametrize("joined", [1, 256])
@pytest.mark.parametrize(
    "kinds", [{"school": "levels", "ward": "levels"}, {"school": "ranks", "ward": "ranks"}]
)
def test_sums_over_rows_by_codes_are_those_of_their_numbers(
    kinds: dict[str, str], joined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likelihood, "MAX_JOINED", joined)
    rng = np.random.default_rng(3)
    rows, numbers = rows_of(kinds, rng)
    theta, weights = rng.normal(size=numbers.shape[1]), rng.normal(size=ROWS)
    assert rows.predict(theta) == pytest.approx(numbers @ theta)
    assert rows.sum_weighted(weights) == pytest.approx(1.5 * numbers.T @ weights)
    assert rows.cross(weights) == pytest.approx(1.5 * (numbers.T * weights) @ numbers, abs=1e-8)
    means = [rng.normal(size=matrix.shape[1]) for matrix in rows.design.matrices]
    of_codes = [mean[codes] for mean, codes in zip(means, rows.codes, strict=True)]
    lengths = [len(matrix) for matrix in rows.design.matrices]
    beside = np.hstack(
        [np.repeat(each[:, None], n, axis=1) for each, n in zip(of_codes, lengths, strict=True)]
    )
    found = rows.sum_codes(means)
    assert found[0] == pytest.approx(1.5 * ROWS * rows.design.middle)
    assert found[1:] == pytest.approx(1.5 * (numbers[:, 1:] * beside).sum(axis=0))


def test_a_column_that_is_0_in_all_rows_leaves_the_others_their_coefficients() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 50))
    empty = rng.choice(50, 5, replace=False)
    numbers[:, empty] = 0.0
    others = np.setdiff1d(np.arange(50), empty)
    wanted = np.zeros((50, 50))
    wanted[np.ix_(others, others)] = np.linalg.inv(numbers[:, others].T @ numbers[:, others])
    assert _invert(numbers.T @ numbers, np.arange(50)) == pytest.approx(wanted, abs=1e-12)


def test_a_regression_asks_a_model_for_each_table_once() -> None:
    model = TableModel(SCHEMA.domain, counts_of(SCHEMA, draw(np.random.default_rng(5))))
    kept = KeptTables(model)
    pair = kept.project(("school", "ward"))
    assert kept.project_many([("ward",), ("school", "ward")])[1] is pair
    assert pair == pytest.approx(model.project(("school", "ward")))
    assert kept.total == model.total


def test_looks_at_the_same_columns_are_pooled_whichever_way_round() -> None:
    rng = np.random.default_rng(4)
    domain, exact = SCHEMA.domain, rng.normal(100.0, 10.0, (CODES, 2))
    one = NoisyMarginal(("school", "ward"), exact + rng.normal(0, 2, exact.shape), 2.0)
    two = NoisyMarginal(("ward", "school"), (exact + rng.normal(0, 1, exact.shape)).T, 1.0)
    tables = PooledTables(domain, [one, two])
    assert len(tables.measurements) == 1
    assert tables.table(("school", "ward")) == pytest.approx(0.2 * one.values + 0.8 * two.values.T)
    assert tables.variances(("ward",)) == pytest.approx(np.full(2, CODES * 0.8))
    assert tables.table(("ward",)) == pytest.approx(
        0.2 * one.values.sum(axis=0) + 0.8 * two.values.sum(axis=1)
    )
