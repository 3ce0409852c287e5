"""Scores that see dependence, against tables computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import poisson, spearmanr

from margrave.evaluation.metrics.dependence import MEASURES, count_exceeding, measure_pairs
from margrave.evaluation.metrics.orders import find_orders, rank_correlations
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.schema.columns import Column, Date, Moment, Ordinal, Real
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

BOTH = ["dependence_kept", "dependence_invented"]


def coded(table: list[list[int]], schema: Schema) -> Rows:
    """Rows with the counts of a two-way table."""
    cells = np.array(table)
    places = np.repeat(np.arange(cells.size), cells.ravel())
    codes = np.unravel_index(places, cells.shape)
    return Rows(Encoded(schema.domain, tuple(code.astype(np.uint8) for code in codes)))


def measures(real: list[list[int]], synthetic: list[list[int]]) -> dict[str, float]:
    sides = []
    for table in (real, synthetic):
        places = np.repeat(np.arange(np.size(table)), np.ravel(table))
        sides.append(np.stack(np.unravel_index(places, np.shape(table))).astype(np.int32))
    found = measure_pairs(*sides, np.array(np.shape(real)), np.array([[0, 1]]))[0]
    return dict(zip(MEASURES, found.tolist(), strict=True))


def scores(real: list[list[int]], synthetic: list[list[int]]) -> list[float]:
    schema = Schema.from_sizes({"a": len(real), "b": len(real[0])})
    task = Task(coded(real, schema), coded(synthetic, schema), schema)
    return [score.value for score in score_metrics(task, BOTH)]


def test_measures_of_a_pair_are_those_computed_by_hand() -> None:
    # Real cells lie .15 away from independence, synthetic ones .05 with the same sign.
    found = measures([[40, 10], [10, 40]], [[60, 40], [40, 60]])
    assert found["real"] == pytest.approx(4 * 0.15 / 2)
    assert found["synthetic"] == pytest.approx(4 * 0.05 / 2)
    assert found["kept"] == pytest.approx(0.1)
    assert found["bound"] == found["synthetic_bound"] == pytest.approx(0.5)
    deviation = poisson(25).expect(lambda x: abs(x - 25))
    assert found["noise"] == pytest.approx(4 * deviation * 0.5 / 2 / 100, rel=1e-6)
    variance = 4 * (25 - deviation**2) * 0.25 * 4
    assert found["deviation"] == pytest.approx(np.sqrt(variance) / 2 / 100, rel=1e-6)
    wide = measures([[30, 0, 0], [0, 20, 50]], [[30, 0, 0], [0, 20, 50]])
    assert wide["real"] == pytest.approx(wide["bound"]) == pytest.approx(0.42)


def test_a_share_of_the_dependence_is_kept() -> None:
    real, half = [[800, 200], [200, 800]], [[650, 350], [350, 650]]
    noise = measures(real, real)["noise"]
    kept, invented = scores(real, half)
    assert kept == pytest.approx(0.15 / (0.3 - noise))
    assert invented == 0
    assert scores(real, real) == [1.0, 0.0]
    assert scores(real, [[500, 500], [500, 500]]) == [0.0, 0.0]


def test_what_is_invented_does_not_count_as_kept() -> None:
    real, more = [[600, 400], [400, 600]], [[900, 100], [100, 900]]
    noise = measures(more, more)["noise"]
    kept, invented = scores(real, more)
    assert kept == 1.0
    assert invented == pytest.approx((0.4 - 0.1 - noise) / 0.5)
    turned = [[400, 600], [600, 400]]
    assert scores(real, turned) == [0.0, pytest.approx((0.1 - noise) / 0.5)]
    # Dependence in other cells than the real one's is not the real one, however much there is.
    other = [[500, 0, 0], [0, 250, 250], [0, 250, 250]]
    place = [[250, 250, 0], [250, 250, 0], [0, 0, 500]]
    assert scores(other, place)[0] < 0.35


def test_pairs_of_rare_flags_weigh_as_much_as_even_ones() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 2, "c": 2, "d": 2})
    rng = np.random.default_rng(0)
    even, rare = rng.random(20_000) < 0.5, rng.random(20_000) < 0.01
    lost = rng.permutation(rare)
    real, synthetic = (
        Rows(Encoded(schema.domain, tuple(column.astype(np.uint8) for column in (even, even, rare, last))))
        for last in (rare, lost)
    )
    score = score_metrics(Task(real, synthetic, schema), ["dependence_kept"])[0]
    assert score.scope == "2 dependent pairs of 6"
    assert score.value == pytest.approx(0.5, abs=0.02)
    assert score.parts["a x b"] == 1
    assert abs(score.parts["c x d"]) < 0.05


@pytest.mark.parametrize(
    ("rows", "sizes", "power"),
    [(1_000, (2, 2), 0.0), (10_000, (2, 10), 1.0), (10_000, (30, 20), 1.0), (500, (7, 5), 0.5)],
)
def test_independent_columns_show_the_noise_that_is_taken_off(
    rows: int, sizes: tuple[int, int], power: float
) -> None:
    rng = np.random.default_rng(1)
    weights = [np.arange(1, size + 1) ** -power for size in sizes]
    far = []
    for _ in range(150):
        codes = np.stack([rng.choice(w.size, rows, p=w / w.sum()) for w in weights]).astype(np.int32)
        found = measure_pairs(codes, codes, np.array(sizes), np.array([[0, 1]]))[0]
        far.append((found[0] - found[1]) / found[2])
    assert abs(np.mean(far)) < 0.25
    assert 0.8 < np.std(far) < 1.2


def test_independent_columns_have_nothing_to_keep() -> None:
    schema = Schema.from_sizes({"a": 3, "b": 4})
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(0, size, 900).astype(np.uint8) for size in (3, 4))
    rows = Rows(Encoded(schema.domain, codes))
    kept, invented = score_metrics(Task(rows, rows, schema), BOTH)
    assert np.isnan(kept.value)
    assert "beyond sampling noise" in kept.note
    assert invented.value == 0


def test_no_pair_of_many_independent_columns_counts_as_dependent() -> None:
    rng = np.random.default_rng(0)
    schema = Schema.from_sizes({f"c{place}": 2 + place % 5 for place in range(60)})
    codes = tuple(rng.integers(0, size, 2_000).astype(np.uint8) for size in schema.domain.sizes)
    rows = Rows(Encoded(schema.domain, codes))
    score = score_metrics(Task(rows, rows, schema), ["dependence_kept"])[0]
    assert score.scope == "0 dependent pairs of 1770"


def numeric(columns: dict[str, NDArray[Any]], kinds: dict[str, Column] | None = None) -> tuple[Rows, Schema]:
    """Rows of raw numbers; their codes mean nothing here."""
    made = kinds or {name: Real(name=name, lower=0.0, upper=1.0, bins=2, missing=True) for name in columns}
    schema = Schema(tuple(made.values()))
    size = len(next(iter(columns.values())))
    codes = tuple(np.zeros(size, np.uint8) for _ in columns)
    numbers = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    return Rows(Encoded(schema.domain, codes), numbers), schema


def test_rank_correlations_are_spearmans(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
    table[:, 3] = np.round(table[:, 3])
    found, both = rank_correlations(list(table.T))
    np.testing.assert_allclose(found, spearmanr(table)[0], atol=1e-12)
    assert (both == 300).all()
    monkeypatch.setattr("margrave.evaluation.metrics.orders.BLOCK", 7)
    np.testing.assert_allclose(rank_correlations(list(table.T))[0], found, atol=1e-12)


def test_rank_correlations_with_gaps_are_of_the_rows_that_have_both() -> None:
    gap = np.nan
    x = np.array([1.0, 2, 3, gap, 4])
    y = np.array([gap, 20.0, 10, 5, 30])
    found, both = rank_correlations([x, y, np.ones(5)])
    # Of x the ranks 2, 3, 4 and of y the ranks 3, 2, 4 are left.
    assert found[0, 1] == pytest.approx(np.corrcoef([2, 3, 4], [3, 2, 4])[0, 1])
    assert both[0, 1] == 3
    assert np.isnan(found[0, 2])


def test_the_slope_is_that_of_synthetic_on_real_coefficients() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2_000, 1))
    sides = [hidden + scale * rng.normal(size=(2_000, 5)) for scale in (0.6, 1.5)]
    rows = [numeric({f"c{k}": side[:, k] for k in range(5)}) for side in sides]
    score = score_metrics(Task(rows[0][0], rows[1][0], rows[0][1]), ["rank_slope"])[0]
    real, synthetic = (spearmanr(side)[0][np.triu_indices(5, 1)] for side in sides)
    assert score.value == pytest.approx(real @ synthetic / (real @ real))
    assert score.parts["slope with an intercept"] == pytest.approx(np.polyfit(real, synthetic, 1)[0])
    assert score.scope == "10 pairs of columns in order"
    constant = numeric({f"c{k}": np.zeros(9) for k in range(5)})[0]
    assert score_metrics(Task(rows[0][0], constant, rows[0][1]), ["rank_slope"])[0].value == 0
    noise = numeric({f"c{k}": rng.normal(size=2_000) for k in range(5)})[0]
    nothing = score_metrics(Task(noise, rows[0][0], rows[0][1]), ["rank_slope"])[0]
    assert np.isnan(nothing.value)
    assert "sampling noise" in nothing.note


def test_ordered_codes_are_ranked_and_their_missing_code_is_not() -> None:
    values = ("low", "middle", "high")
    schema = Schema(tuple(Ordinal(name=name, values=values, missing=True) for name in "ab"))
    first = np.array([0, 1, 2, 3, 1, 0] * 20, np.uint8)
    second = np.array([0, 1, 2, 0, 1, 3] * 20, np.uint8)
    real = Rows(Encoded(schema.domain, (first, second)))
    turned = Rows(Encoded(schema.domain, (first, np.where(second < 3, 2 - second, 3).astype(np.uint8))))
    # In the rows that have both codes they are the same, so the coefficients are 1 and about -1.
    assert score_metrics(Task(real, real, schema), ["rank_slope"])[0].value == 1
    assert score_metrics(Task(real, turned, schema), ["rank_slope"])[0].value < -0.8


def test_an_order_is_found_and_its_breaks_are_counted() -> None:
    rng = np.random.default_rng(0)
    start, loose = np.floor(rng.uniform(0, 1_000, 400)), rng.uniform(0, 1_000, 400)
    real = {
        "start": start,
        "end": start + rng.integers(0, 50, 400),
        "later": start + 10_000,  # follows from the ranges
        "loose": loose,
        "small": np.minimum(loose, rng.uniform(0, 5, 400)),  # independent columns would break it once
    }
    synthetic = {name: values[:10].copy() for name, values in real.items()}
    synthetic["end"][:3] = synthetic["start"][:3] - 1
    synthetic["end"][3] = np.nan
    (first, schema), (second, _) = numeric(real), numeric(synthetic)
    task = Task(first, second, schema)
    assert [(lower.name, upper.name) for lower, upper in find_orders(task)] == [("start", "end")]
    score = score_metrics(task, ["order_broken"])[0]
    assert score.value == pytest.approx(0.3)
    assert score.parts == {"start <= end": pytest.approx(0.3)}
    itself = score_metrics(Task(first, first, schema), ["order_broken"])[0]
    assert itself.value == 0


def test_days_of_moments_are_held_against_dates() -> None:
    day = 86_400_000_000
    dates = np.arange(100.0)
    kinds: dict[str, Column] = {
        "day": Date(name="day", lower=0, upper=200, bins=2, missing=True),
        "moment": Moment(name="moment", lower=0, upper=200 * day, bins=2, missing=True),
    }
    moments = dates * day + 5e9
    (real, schema), (synthetic, _) = (
        numeric({"day": dates, "moment": m}, kinds) for m in (moments, moments + day)
    )
    score = score_metrics(Task(real, synthetic, schema), ["order_broken"])[0]
    assert score.parts == {"day <= moment (day)": 0.0, "moment (day) <= day": 1.0}
    assert score.value == 1


def test_the_chance_to_exceed_is_counted_over_all_pairs_of_rows() -> None:
    lower, upper = np.array([1.0, 2, 2, 5]), np.array([0.0, 2, 3])
    pairs = [(a > b) for a in lower for b in upper]
    assert count_exceeding(lower, upper) == pytest.approx(np.mean(pairs))
