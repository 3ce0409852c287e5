"""Where the rows of a noisy histogram are: ranges leave out few of them, whatever the noise."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from margrave import Synthesizer
from margrave.errors import SchemaError
from margrave.measure.discovery import occupancy
from margrave.measure.discovery.occupancy import (
    DEVIATIONS_OUTSIDE,
    LEAST_NEAR_GROUPS,
    average_counts,
    expected_counts,
    keep_near,
    share_outside,
    spread_counts,
    trimmed_range,
    weigh_cells,
)
from margrave.measure.discovery.ranges import number_edges, number_prior
from margrave.measure.discovery.reach import fade_cells, find_reach
from margrave.schema.columns import Integer, Real, Relative
from margrave.schema.columns.binned import MAX_SHARE_OUTSIDE, fade_factors
from margrave.schema.schema import Schema
from margrave.tables.numbers import doubts_of, scores_of

SIGMA = 40.0
PLACES = np.arange(200)
SHAPES = {
    "normal": 20_000 * np.exp(-0.5 * ((PLACES - 80) / 25) ** 2) / 62.7,
    "exponential": 20_000 * np.exp(-PLACES / 15) / 15,
    "few values": np.where(PLACES % 29 == 7, 900.0, 0.0),
    "two levels": np.where(PLACES < 40, 300.0, 30.0),
}


def _even(cells: int, rows: float) -> np.ndarray:
    return np.full(cells, rows / cells)


def test_without_noise_counts_stay_as_they_are() -> None:
    truth = np.array([0.0, 300.0, 900.0, 100.0, 0.0, 0.0, 70.0, 20.0])
    counts, held = expected_counts(truth, 0.1, _even(8, truth.sum()), leave=0.2)
    assert counts == pytest.approx(truth, abs=0.2)
    assert ((held > 0.5) == (truth > 0)).all()


def test_years_that_are_evident_together_are_in_the_range() -> None:
    # Eighty cells of half a deviation each: none is evident, all together are 4.5 deviations of their sum.
    truth = np.zeros(600)
    truth[300:380] = 50.0
    outside = []
    for seed in range(20):
        noisy = truth + np.random.default_rng(seed).normal(0.0, 100.0, 600)
        assert (noisy[300:380] < 4.5 * 100.0).all()
        counts, _ = expected_counts(noisy, 100.0, _even(600, 4000.0), leave=0.02)
        first, last = trimmed_range(counts, MAX_SHARE_OUTSIDE)
        outside.append(1.0 - truth[first:last].sum() / truth.sum())
    assert np.mean(outside) < 0.02


@pytest.mark.parametrize("sigma", [10.0, 60.0, 300.0, 3000.0])
@pytest.mark.parametrize("kind", ["uniform", "normal", "lognormal", "both"])
def test_few_rows_are_outside_the_octaves_found(kind: str, sigma: float) -> None:
    edges = number_edges(False)
    outside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = {
            "uniform": rng.uniform(0.0, 100.0, 3000),
            "normal": rng.normal(170.0, 10.0, 3000),
            "lognormal": rng.lognormal(8.0, 1.0, 3000),
            "both": rng.normal(0.0, 30.0, 3000),
        }[kind]
        noisy = np.histogram(values, edges)[0] + rng.normal(0.0, sigma, len(edges) - 1)
        counts, _ = expected_counts(noisy, sigma, 3000 * number_prior(edges), leave=0.2, floor=0.0)
        first, last = trimmed_range(counts, MAX_SHARE_OUTSIDE)
        inside = (values >= min(edges[first], edges[last] / 4)) & (values < edges[last])
        outside.append(1.0 - float(inside.mean()))
    assert np.mean(outside) <= 0.03


def test_where_noise_hides_all_what_was_expected_comes_back() -> None:
    edges = number_edges(True)
    prior = 500 * number_prior(edges)
    counts, held = expected_counts(np.zeros(len(prior)), 1e6, prior, leave=0.2, floor=0.0)
    first, last = trimmed_range(counts, MAX_SHARE_OUTSIDE)
    assert edges[first] < -1000
    assert 1e5 < edges[last] < 1e12
    assert (held < 0.9).all()
    assert np.corrcoef(counts, prior)[0, 1] > 0.9


def test_a_heavy_single_value_stays_in_its_cell() -> None:
    truth = np.full(256, 2.0)
    truth[100] = 700.0
    for seed in range(20):
        noisy = truth + np.random.default_rng(seed).normal(0.0, 60.0, 256)
        weights = weigh_cells(noisy, 60.0, _even(256, truth.sum()))
        assert 450 < weights[100] < 950
        assert weights.sum() < 2.5 * truth.sum()


def test_noise_far_from_the_numbers_gets_little_weight() -> None:
    edges = number_edges(True)
    far = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        truth = np.histogram(rng.integers(18, 80, 3000), edges)[0]
        noisy = truth + rng.normal(0.0, 60.0, len(truth))
        weights = weigh_cells(noisy, 60.0, 3000 * number_prior(edges))
        far.append(weights[edges[:-1] >= 512].sum() / weights.sum())
    assert np.mean(far) < 0.01


def test_expected_counts_are_nearer_than_the_noisy_ones() -> None:
    rng = np.random.default_rng(4)
    truth = 2000 * np.exp(-0.5 * ((np.arange(256) - 90) / 12) ** 2)
    noisy = truth + rng.normal(0.0, 60.0, 256)
    weights = weigh_cells(noisy, 60.0, _even(256, truth.sum()))
    assert np.abs(weights - truth).sum() < 0.6 * np.abs(noisy - truth).sum()


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60),
    st.floats(1e-3, 1e6),
    st.floats(1.0, 1e9),
)
@settings(max_examples=200, deadline=None)
def test_counts_and_chances_are_sound_whatever_the_noise(
    noisy: list[float], sigma: float, rows: float
) -> None:
    counts, held = expected_counts(np.array(noisy), sigma, _even(len(noisy), rows), leave=0.1)
    assert np.isfinite(counts).all()
    assert (counts >= 0).all()
    assert ((held >= -1e-9) & (held <= 1 + 1e-9)).all()
    first, last = trimmed_range(counts, MAX_SHARE_OUTSIDE)
    assert 0 <= first < last <= len(noisy)
    assert counts[first:last].sum() >= (1 - 0.0041) * counts.sum()


def test_counts_are_spread_over_finer_cells() -> None:
    finer = spread_counts(np.array([0.0, 4.0, 8.0]), np.array([40.0, 80.0]), np.array([0.0, 2.0, 4.0, 5.0]))
    assert finer.tolist() == [20.0, 20.0, 80.0]
    assert trimmed_range(np.zeros(5), MAX_SHARE_OUTSIDE) == (0, 5)


def _noisy(shape: np.ndarray, seed: int) -> np.ndarray:
    return shape + np.random.default_rng(seed).normal(0.0, SIGMA, len(shape))


@pytest.mark.parametrize(
    ("shape", "most"), [("normal", 0.7), ("exponential", 1.02), ("few values", 0.5), ("two levels", 0.9)]
)
def test_the_average_is_nearer_than_the_chain_alone(shape: str, most: float) -> None:
    truth = SHAPES[shape]
    prior = np.full(len(truth), truth.mean())
    leave = min(occupancy.LEAVES / len(truth), occupancy.MOST_LEAVES)
    far = np.zeros(2)
    for seed in range(8):
        noisy = _noisy(truth, seed)
        for place, counts in enumerate(
            (average_counts(noisy, SIGMA, prior)[0], expected_counts(noisy, SIGMA, prior, leave=leave)[0])
        ):
            assert (counts >= 0).all()
            far[place] += np.abs(counts - truth).sum()
    assert far[0] <= most * far[1]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_evidence_of_groups_is_a_density_of_the_same_counts(size: int) -> None:
    """Where the model is certain, its evidence is the density of the noise alone."""
    prior = np.full(32, 1e-6)  # nothing is expected: every cell is empty
    rng = np.random.default_rng(0)
    sigma = rng.uniform(2.0, 5.0, 32)
    noisy = rng.normal(0.0, sigma)
    density = -0.5 * (noisy / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    grouped, alone = (
        occupancy._grouped_counts(noisy, sigma, prior, size)[2],
        occupancy._alone_counts(noisy, sigma, prior)[2],
    )
    assert grouped.sum() == pytest.approx(density.sum(), abs=0.1)
    assert alone.sum() == pytest.approx(density.sum(), abs=0.1)
    # Of groups the parts are those of the cells together.
    assert grouped.reshape(-1, size).sum(axis=1) == pytest.approx(
        density.reshape(-1, size).sum(axis=1), abs=0.05
    )


def test_less_is_left_out_where_noise_is_small_beside_the_rows() -> None:
    counts = np.full(100, 3_000.0)
    assert share_outside(counts, 500.0) == MAX_SHARE_OUTSIDE
    assert share_outside(counts, 5.0) == pytest.approx(2 * DEVIATIONS_OUTSIDE * 5.0 / 300_000)
    each = np.append(np.full(50, 3.0), np.full(50, 4.0))
    assert share_outside(counts, each) == pytest.approx(2 * DEVIATIONS_OUTSIDE * 12.5**0.5 / 300_000)
    assert share_outside(np.zeros(5), 1.0) == MAX_SHARE_OUTSIDE


def test_what_holds_of_many_cells_does_not_decide_on_the_few_where_rows_end() -> None:
    """Thousands of cells hold as many rows each, so that merging many is right, and it is wrong of the last
    forty, which share a group with wide ones that hold none."""
    truth = np.append(np.full(10_000, 30.0), np.zeros(8))
    prior = np.append(np.full(10_000, 30.0), np.full(8, 1_000.0))
    for seed in range(3):
        noisy = truth + np.random.default_rng(seed).normal(0.0, 5.0, len(truth))
        weights = weigh_cells(noisy, 5.0, prior)
        assert weights[9_900:10_000].sum() == pytest.approx(3_000.0, rel=0.05)
        assert weights[10_000:].sum() < 30.0
        # Where nothing changes the merged cells still tell of each other.
        assert np.abs(weights[1_000:9_000] - 30.0).mean() < 1.0


def test_models_take_turns_along_the_cells() -> None:
    told = np.zeros((2, 80))
    told[0, :40], told[1, 40:] = 2.0, 2.0
    chances = occupancy._choose_models(told)
    assert chances.shape == (2, 80)
    assert chances.sum(axis=0) == pytest.approx(np.ones(80))
    assert chances[0, :40].min() > 0.99
    assert chances[1, 40:].min() > 0.99
    # Faint words about single stretches do not outweigh what all others say together.
    told = np.tile([[0.2], [0.0]], 400)
    told[:, 200:208] = [[0.0], [0.2]]
    assert occupancy._choose_models(told)[0].min() > 0.5


def test_a_narrow_cell_is_merged_with_none() -> None:
    prior = np.array([5.0, 5.0, 5.0, 1e-9, 5.0, 5.0, 5.0, 5.0])
    assert occupancy._group_cells(prior, 2).tolist() == [0, 0, 1, 2, 3, 3, 4, 4]


def test_few_values_of_a_column_come_back_exactly() -> None:
    rng = np.random.default_rng(0)
    values = [0.5, 2.5, 6.0, 9.0, 13.0, 16.5, 23.0]
    shares = np.array([0.06, 0.31, 0.19, 0.1, 0.1, 0.13, 0.11])
    table = pa.table({f"x{place}": rng.choice(values, 5_000, p=shares) for place in range(5)})
    made = Synthesizer("independent", epsilon=1.0, delta=1e-9).fit(table).sample_arrow(5_000, rng=0)
    for name in table.column_names:
        drawn = np.asarray(made[name])
        found = np.array([(drawn == value).mean() for value in values])
        assert found.sum() > 0.9
        assert np.abs(found - shares).max() < 0.05


def test_a_step_that_some_values_are_not_on_leaves_these_in_range() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.random(20_000) < 0.8, rng.integers(0, 40, 20_000) / 2, rng.uniform(0, 20, 20_000))
    made = Synthesizer("independent", epsilon=2.0, delta=1e-9).fit(pa.table({"x": values}))
    column = made.release.schema["x"]
    assert isinstance(column, Real)
    drawn = np.asarray(made.sample_arrow(20_000, rng=0)["x"])
    assert (drawn * 2 != np.rint(drawn * 2)).mean() == pytest.approx(0.2, abs=0.05)


def test_between_near_bounds_no_rows_are_cut_off() -> None:
    """Of a hundred numbers the first fifteen hold three rows in a thousand, half of which were lost."""
    rng = np.random.default_rng(0)
    exact = 50_000 * np.diff(norm.cdf(np.arange(-1.0, 101.0), 45.0, 11.0))[:100]
    prior, middles = np.full(100, 500.0), np.arange(100.0)
    first, whole, rest = [], [], []
    for _ in range(20):
        noisy = exact + rng.normal(0.0, 4.0, 100)
        plain, near = weigh_cells(noisy, 4.0, prior), weigh_cells(noisy, 4.0, prior, near=True)
        counts, held = average_counts(noisy, 4.0, prior, LEAST_NEAR_GROUPS)
        np.testing.assert_allclose(near, held * counts)
        first.append(int(np.flatnonzero(plain)[0]))
        whole.append(near[:25] @ (25.0 - middles[:25]))
        rest.append(plain[:25] @ (25.0 - middles[:25]))
    truth = exact[:25] @ (25.0 - middles[:25])
    assert min(first) > 0
    # What is cut off elsewhere follows the noise, and so is less than when this was half of it.
    assert abs(np.mean(whole) / truth - 1.0) < 0.06
    assert abs(np.mean(whole) / truth - 1.0) < 0.75 * abs(np.mean(rest) / truth - 1.0)


def test_a_column_between_near_bounds_is_weighed_so() -> None:
    rows = pa.table({"x": np.clip(np.random.default_rng(0).normal(45.0, 11.0, 50_000), 0, 99).astype(int)})
    found = {}
    for upper in (99, 999):  # near, and not
        schema = Schema((Integer(name="x", lower=0, upper=upper, missing=False),))
        column = Synthesizer("independent", epsilon=3.0, schema=schema).fit(rows).schema["x"]
        found[upper] = np.asarray(column.weights)
    assert (found[99] > 0.0).all()
    assert not (found[999] > 0.0).all()


def test_rows_that_are_evident_far_out_are_in_range_however_small_their_share() -> None:
    """One row in a thousand, which is three hundred where noise is about ten."""
    rng = np.random.default_rng(3)
    values = np.append(rng.uniform(1.0, 100.0, 299_700), rng.uniform(9_000.0, 16_000.0, 300))
    made = Synthesizer("independent", epsilon=3.0, delta=1e-6).fit(pa.table({"x": values.round(2)}))
    drawn = np.asarray(made.sample_arrow(300_000, rng=0)["x"])
    assert 150 < (drawn > 8_000.0).sum() < 450
    assert drawn.max() < 20_000.0


def test_what_few_cells_differ_by_counts_as_far_as_noise_does_not_explain_it() -> None:
    rng = np.random.default_rng(3)
    even, ends = np.full(16, 600.0), np.array([0.0] * 8 + [1200.0] * 8)
    misses: dict[str, list[float]] = {"even": [], "ends": [], "noisy": []}
    for _ in range(50):
        noise = rng.normal(0.0, 130.0, 16)
        found = keep_near(even + noise, 130.0, even, 0.2)
        misses["even"].append(float(np.abs(found - even).mean()))
        misses["noisy"].append(float(np.abs(noise).mean()))
        misses["ends"].append(float(np.abs(keep_near(ends + noise, 130.0, even, 0.2) - ends).mean()))
    assert np.mean(misses["even"]) < 0.4 * np.mean(misses["noisy"])
    assert np.mean(misses["ends"]) < 1.1 * np.mean(misses["noisy"])
    assert keep_near(np.full(16, 5.0), 130.0, np.full(16, 5.0), 0.2) == pytest.approx(np.full(16, 5.0))


def test_few_days_between_declared_bounds_are_merged_by_more_than_two() -> None:
    """Of 38 days with ten rows each and noise of 60, 16 groups would have two days each."""
    rng, truth = np.random.default_rng(4), np.full(38, 100.0)
    near, far = [], []
    for _ in range(40):
        noisy = truth + rng.normal(0.0, 60.0, 38)
        near.append(float(np.abs(weigh_cells(noisy, 60.0, truth, near=True) - truth).mean()))
        far.append(float(np.abs(average_counts(noisy, 60.0, truth)[0] - truth).mean()))
    assert np.mean(near) < 0.8 * np.mean(far)


def test_weights_beyond_the_reach_add_alike_to_a_mean() -> None:
    edges = np.array([-64.0, -8.0, -1.0, 0.0, 4.0, 8.0, 64.0, 1024.0])
    weights = np.array([10.0, 10.0, 500.0, 4000.0, 300.0, 20.0, 10.0])
    assert find_reach(weights, 100.0, edges) == (-1.0, 8.0)
    assert find_reach(weights, 400.0, edges) == (-1.0, 4.0)  # 330 rows from 4 on, 520 below 0
    assert find_reach(weights, 1e6, edges) == (-64.0, 1024.0)  # then nothing says where rows are
    assert fade_factors(edges, (-1.0, 8.0)) == pytest.approx([1 / 64, 1 / 8, 1, 1, 1, 1 / 8, 1 / 128])
    assert fade_factors(edges, (0.0, 4.0)) == pytest.approx([1, 1, 1, 1, 1 / 2, 1 / 16, 1 / 256])
    assert fade_factors(edges, ()).tolist() == [1.0] * 7


def test_one_octave_of_noise_does_not_ruin_a_mean() -> None:
    """Counts of one to seven, and noise of a twentieth of the rows: far cells have a few rows each."""
    edges = np.concatenate([np.arange(-2.0, 9.0), 2.0 ** np.arange(4, 15)])
    rng, truth = np.random.default_rng(5), np.zeros(len(edges) - 1)
    truth[2:9] = [4000, 2600, 1400, 800, 400, 200, 80]
    prior = np.full(len(truth), 10_000 / len(truth))
    middle, faded, plain = (edges[:-1] + edges[1:]) / 2, list[float](), list[float]()
    for _ in range(60):
        weights = weigh_cells(truth + 400.0 * rng.standard_normal(len(truth)), 400.0, prior)
        plain.append(float(weights @ middle / weights.sum()))
        weights = weights * fade_factors(edges, find_reach(weights, 400.0, edges))
        faded.append(float(weights @ middle / weights.sum()))
    assert np.percentile(faded, 80) < 0.5 * np.percentile(plain, 80)


def test_what_fades_is_as_doubtful_as_before() -> None:
    """A mean is nearer, and its interval no surer: rows may be where weights say few are."""
    edges, weights = (0.0, 4.0, 8.0, 1024.0), (9000.0, 900.0, 50.0)
    plain = Real(name="x", edges=(0.0, 4.0, 1024.0), fine=edges, weights=weights, noise=200.0, strict=False)
    reach = (0.0, 8.0)
    less = tuple((np.array(weights) * fade_factors(np.array(edges), reach)).tolist())
    faded = dataclasses.replace(plain, weights=less, reach=reach, missing=False)
    plain = dataclasses.replace(plain, missing=False)
    assert scores_of(faded)[1] < 0.5 * scores_of(plain)[1]
    assert doubts_of(faded)[1] > 0.9 * doubts_of(plain)[1]
    assert Schema.from_json(Schema((faded,)).to_json())["x"] == faded
    with pytest.raises(SchemaError, match="reach of column 'x' must be two numbers or none"):
        dataclasses.replace(plain, reach=(1.0,))


def test_flags_have_no_other_numbers_and_amounts_none_below_zero() -> None:
    edges = np.array([-64.0, -8.0, 0.0, 1.0, 2.0, 4.0, 64.0, 1024.0])
    flags = np.array([3.0, 5.0, 4000.0, 900.0, 20.0, 5.0, 5.0])
    reach = find_reach(flags, 100.0, edges)
    assert reach == (0.0, 2.0)
    assert fade_cells(flags, edges, reach, 100.0, True).tolist() == [0.0, 0.0, 4000.0, 900.0, 0.0, 0.0, 0.0]
    # Other numbers may lie between 1 and 2, and what is less than evident fades.
    plain = fade_cells(flags, edges, reach, 100.0, False)
    assert plain.tolist() == [0.0, 0.0, 4000.0, 900.0, 10.0, 5.0 / 32, 5.0 / 512]
    # Rows that are evident together stay, and so does everything where noise tells nothing.
    assert fade_cells(flags, edges, (-8.0, 4.0), 100.0, True)[[1, 4]].tolist() == [5.0, 20.0]
    assert (fade_cells(flags, edges, reach, 1_000.0, True) > 0).all()


def test_flags_come_back_as_flags() -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {f"f{place}": (rng.random(4_000) < 0.02 + 0.02 * place).astype(int) for place in range(25)}
    )
    synthesis = Synthesizer("independent", epsilon=1.0, not_private_test_seed=0).fit(table)
    rows = synthesis.sample_arrow(rng=0)
    values = [set(rows[name].unique().to_pylist()) for name in rows.column_names]
    assert np.mean([found <= {0, 1} for found in values]) > 0.8
    assert not any(isinstance(column, Relative) for column in synthesis.schema.columns)
    assert min(min(found) for found in values) == 0
