"""The numbers of codes follow what a release knows of the cells inside bins."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import SchemaError
from margrave.models.independent import Independent
from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.schema.columns import Categorical, Integer, Ordinal, Real
from margrave.tables.numbers import (
    BEYOND,
    LINE_DOUBT,
    MODEL_DOUBT,
    doubts_of,
    ranges_of,
    scores_of,
    value_inside,
    variances_of,
    weigh_covariances,
)
from margrave.tables.quantities import estimate_mean, estimate_quantile

SEEN = Integer(
    name="n",
    edges=(0, 10, 100, 120),
    fine=(0, 4, 10, 20, 100, 110, 120),
    weights=(1.0, 3.0, 9.0, 1.0, 0.0, 0.0),
    missing=True,
)


def spread_evenly() -> list[np.ndarray[Any, Any]]:
    """All whole numbers of each bin, a row each but for the weight of the cell they are in."""
    found = []
    for low, high in ((0, 10), (10, 100), (100, 120)):
        values, weights = [], []
        for start, end, weight in zip(SEEN.fine[:-1], SEEN.fine[1:], SEEN.weights, strict=True):
            if low <= start < high:
                numbers = np.arange(start, end)
                values.append(numbers)
                weights.append(np.full(len(numbers), (weight if high < 120 else 1.0) / len(numbers)))
        found.append(np.stack([np.concatenate(values), np.concatenate(weights)]))
    return found


def test_a_bin_counts_as_the_mean_of_its_cells_by_what_they_weigh() -> None:
    scores, variances = scores_of(SEEN), variances_of(SEEN)
    for code, (values, weights) in enumerate(spread_evenly()):
        mean = float(values @ weights / weights.sum())
        assert scores[code] == pytest.approx(mean)
        assert variances[code] == pytest.approx(float((values - mean) ** 2 @ weights / weights.sum()))
    assert scores[1] < 20  # its middle is 54.5
    assert math.isnan(scores[3])
    assert variances[3] == 0.0


def test_bins_without_cells_count_as_their_middles() -> None:
    for column, middles, variance in (
        (Integer(name="n", edges=(0, 10, 11), missing=False), [4.5, 10.0], [99 / 12, 0.0]),
        (Real(name="n", edges=(0.0, 10.0, 12.0), missing=False), [5.0, 11.0], [100 / 12, 4 / 12]),
    ):
        assert scores_of(column).tolist() == middles
        np.testing.assert_allclose(variances_of(column), variance)
    listed = Ordinal(name="n", values=(1, 2, 5), missing=False)
    assert scores_of(listed).tolist() == [1.0, 2.0, 5.0]
    assert variances_of(listed).tolist() == [0.0, 0.0, 0.0]
    assert scores_of(Categorical(name="n", values=("a",), missing=False)) is None
    large = Integer(name="n", edges=(10**15, 10**15 + 4), missing=False)
    assert scores_of(large).tolist() == [10**15 + 1.5]
    assert variances_of(large).tolist() == [15 / 12]


CELLS = Real(
    name="x",
    missing=False,
    edges=(0.0, 4.0, 6.0, 12.0),
    fine=(0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0),
    weights=(30.0, 9.0, 40.0, 50.0, 20.0, 12.0),
)


def test_what_goes_with_a_number_in_a_straight_line_is_found_inside_bins() -> None:
    counts = np.array([100.0, 70.0, 30.0])
    weights = weigh_covariances(CELLS, counts)
    numbers = scores_of(CELLS)
    assert weights.sum() == pytest.approx(0.0, abs=1e-9)
    assert weights @ (3.0 - 2.0 * numbers) == pytest.approx(-2.0 * counts @ variances_of(CELLS))
    # A bin without rows has no mean: the line goes on from its neighbours.
    some = weigh_covariances(CELLS, np.array([100.0, 0.0, 30.0]))
    assert some[1] == 0.0
    assert some @ numbers == pytest.approx(np.array([100.0, 0.0, 30.0]) @ variances_of(CELLS))


def test_bins_that_were_declared_have_nothing_inside() -> None:
    declared = Real(name="x", missing=False, edges=(0.0, 4.0, 12.0))
    assert not weigh_covariances(declared, np.array([5.0, 7.0])).any()
    assert not weigh_covariances(CELLS, np.array([5.0, 0.0, 0.0])).any()  # one mean makes no line
    assert not weigh_covariances(Categorical(name="c", values=("a", "b")), np.array([1.0, 2.0, 0.0])).any()


def test_a_difference_of_groups_has_what_lies_inside_bins() -> None:
    """Two groups whose numbers differ inside every bin, as the rows of a straight line do."""
    rng = np.random.default_rng(0)
    group = rng.random(200_000) < 0.5
    x = rng.normal(50.0, 10.0, 200_000) + 5.0 * group
    edges, fine = np.arange(0.0, 121.0, 20.0), np.arange(0.0, 121.0, 1.0)
    counts = np.stack([np.histogram(x[group == side], edges)[0] for side in (False, True)])
    numbers = Real(
        name="x", missing=False, edges=tuple(edges), fine=tuple(fine), weights=tuple(np.histogram(x, fine)[0])
    )
    schema = mg.Schema((Categorical(name="g", values=("a", "b"), missing=False), numbers))
    groups = Categorical(name="g", values=("a", "b"), missing=False)
    measured = (NoisyMarginal(("g", "x"), counts.astype(float), 1.0),)
    schema = mg.Schema((groups, numbers))
    model = Independent().fit(schema.domain, measured)
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    release = Release(schema, measured, promise, (), "tables", "independent", model.state(), model.total)
    truth = x[group].mean() - x[~group].mean()
    apart = estimate_mean(release, "x", "g", of="table").difference("b", "a")
    found = apart.value
    means = counts @ scores_of(numbers) / counts.sum(axis=1)
    assert found == pytest.approx(truth, rel=0.01)
    assert means[1] - means[0] < 0.9 * truth  # what is seen without it
    # What is put back is off by a share of itself, since lines need not be straight.
    assert apart.standard_error == pytest.approx(LINE_DOUBT * (found - (means[1] - means[0])), rel=0.05)


def test_numbers_on_a_grid_count_as_its_multiples() -> None:
    """As rows do: whole dollars of a column of any numbers lie at the beginnings of cells, not inside."""
    cells = {"edges": (0.0, 1.0, 4.0), "fine": (0.0, 1.0, 2.0, 4.0), "weights": (8.0, 3.0, 6.0)}
    plain = Real(name="x", missing=False, **cells)
    whole = dataclasses.replace(plain, grids=((1.0, 1.0),))
    np.testing.assert_allclose(scores_of(plain), [0.5, (3 * 1.5 + 6 * 3.0) / 9])
    np.testing.assert_allclose(scores_of(whole), [0.0, (3 * 1.0 + 6 * 2.5) / 9])
    np.testing.assert_allclose(
        variances_of(whole), [0.0, (3 * 1.0 + 3 * 4.0 + 3 * 9.0) / 9 - (7 / 3 - 1 / 3) ** 2]
    )
    np.testing.assert_array_equal(ranges_of(whole), [[0.0, 1.0], [0.0, 3.0]])
    assert value_inside(whole, 0, 0.7) == 0.0
    assert value_inside(whole, 1, 0.999) <= 3.0


def test_numbers_of_several_grids_count_by_their_shares() -> None:
    """Half of the rows on multiples of 10, a quarter on multiples of 2, the rest anywhere."""
    column = Real(name="x", missing=False, edges=(7.0, 13.0), grids=((10.0, 0.5), (2.0, 0.25)))
    rng = np.random.default_rng(0)
    drawn = np.concatenate(
        [np.full(20_000, 10.0), rng.choice([8.0, 10.0, 12.0], 10_000), rng.uniform(7.0, 13.0, 10_000)]
    )
    assert scores_of(column)[0] == pytest.approx(10.0)
    assert variances_of(column)[0] == pytest.approx(drawn.var(), rel=0.05)
    np.testing.assert_array_equal(ranges_of(column), [[7.0], [13.0]])
    between = Real(name="x", missing=False, edges=(11.0, 13.0), grids=((10.0, 1.0),))
    assert scores_of(between)[0] == 12.0  # a bin between two multiples counts as without a grid


def test_whole_numbers_on_multiples_of_five() -> None:
    column = Integer(name="x", missing=False, edges=(0, 10, 23), grids=((5.0, 1.0),))
    np.testing.assert_allclose(scores_of(column), [2.5, 15.0])
    np.testing.assert_allclose(variances_of(column), [6.25, 50.0 / 3.0])
    np.testing.assert_array_equal(ranges_of(column), [[0.0, 10.0], [5.0, 20.0]])


def test_a_declared_column_of_any_numbers_has_the_mean_of_whole_ones() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(30_000) < 0.9, 0.0, np.round(rng.gamma(1.0, 6.0, 30_000)))
    schema = mg.Schema((Real(name="x", lower=0.0, upper=100.0, missing=False),))
    release = mg.Synthesizer("independent", epsilon=3.0, schema=schema).fit(pa.table({"x": x}))
    assert release.mean("x").value == pytest.approx(x.mean(), rel=0.1)


def test_noise_in_weights_is_noise_in_the_numbers_of_bins() -> None:
    assert doubts_of(SEEN).tolist() == [0.0] * 4
    noisy = dataclasses.replace(SEEN, noise=2.0)
    means = scores_of(noisy)
    # Of the first bin 0 to 3 and 4 to 9, with weights 1 and 3: counts of variance 2 and 4.
    expected = MODEL_DOUBT * (2.0 * (1.5 - means[0]) ** 2 + 4.0 * (6.5 - means[0]) ** 2) / 4.0**2
    assert doubts_of(noisy)[0] == pytest.approx(expected)
    assert doubts_of(noisy)[3] == 0.0
    assert doubts_of(Ordinal(name="n", values=(1, 2, 5), missing=False)).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(SchemaError, match="noise of column 'n' must be finite"):
        dataclasses.replace(SEEN, noise=math.nan)


def test_a_few_rows_may_lie_beyond_a_range_that_was_found() -> None:
    declared = dataclasses.replace(SEEN, noise=2.0)
    found = dataclasses.replace(declared, strict=False)
    means, beyond = scores_of(found), doubts_of(found) - doubts_of(declared)
    # A row lies from 0 on downwards, and from 120 on; cells of a bin that weigh nothing count by width.
    rows = 2.0 * BEYOND
    assert beyond[0] == pytest.approx((rows * max(means[0], 4.0) / 4.0) ** 2)
    assert beyond[1] == 0.0
    assert beyond[2] == pytest.approx((rows * (120.0 - means[2]) / 20.0) ** 2)
    # A cell with less than so many rows is not where they are seen to be: the one before it is.
    thin = Integer(name="n", edges=(0, 9), fine=(0, 2, 5, 9), weights=(50.0, 20.0, 0.5), missing=False)
    seen = dataclasses.replace(thin, noise=4.0)
    beyond = doubts_of(dataclasses.replace(seen, strict=False)) - doubts_of(seen)
    mean, rows = scores_of(seen)[0], 4.0 * BEYOND
    assert beyond[0] == pytest.approx(((rows * max(mean, 2.0)) ** 2 + (rows * (5.0 - mean)) ** 2) / 70.5**2)
    # One number alone has the next one beside it, on either side.
    single = Integer(
        name="n", edges=(5, 6), fine=(5, 6), weights=(50.0,), missing=False, noise=4.0, strict=False
    )
    assert doubts_of(single)[0] == pytest.approx(2.0 * (4.0 * BEYOND / 50.0) ** 2)


def test_what_noise_makes_of_bins_is_in_means_and_common_to_groups() -> None:
    column = Integer(
        name="n", edges=(0, 100), fine=(0, 50, 100), weights=(30.0, 10.0), missing=False, noise=4.0
    )
    release = release_of(column, [10_000.0], 1e-6)
    groups = estimate_mean(release, "n", by="g", of="table")
    error = math.sqrt(doubts_of(column)[0])
    for label in "ab":
        assert groups[label].value == pytest.approx(scores_of(column)[0])
        assert groups[label].standard_error == pytest.approx(error, rel=1e-3)
    assert groups.difference("a", "b").standard_error == pytest.approx(0.0, abs=1e-3)


def test_a_part_of_a_bin_s_rows_lies_below_the_number_inside() -> None:
    assert [value_inside(SEEN, 0, part) for part in (0.0, 0.25, 1.0)] == [0.0, 3.0, 9.0]
    assert value_inside(SEEN, 0, 0.5) == pytest.approx(4 + 5 / 3)
    assert value_inside(SEEN, 1, 0.9) == pytest.approx(19.0)
    assert value_inside(SEEN, 1, 0.95) == pytest.approx(20 + 79 / 2)
    assert value_inside(SEEN, 2, 0.5) == pytest.approx(109.5)  # of cells that weigh nothing
    assert value_inside(Ordinal(name="n", values=(1, 2, 5), missing=False), 2, 0.5) == 5.0
    least, greatest = ranges_of(SEEN)
    assert least[:3].tolist() == [0.0, 10.0, 100.0]
    assert greatest[:3].tolist() == [9.0, 99.0, 119.0]


def release_of(column: Integer, counts: list[float], sigma: float) -> Release:
    schema = mg.Schema((column, Categorical(name="g", values=("a", "b"), missing=False)))
    both = np.stack([np.asarray(counts), np.asarray(counts) / 100])
    tables = (NoisyMarginal(("g", "n"), both, sigma),)
    model = Independent().fit(schema.domain, tables)
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    return Release(schema, tables, promise, (), "tables", "independent", model.state(), model.total)


@pytest.mark.parametrize("strict", [True, False])
def test_extreme_quantiles_have_no_end_where_rows_may_lie_beyond(strict: bool) -> None:
    column = Integer(name="n", edges=(0, 10, 100, 120), missing=False, strict=strict)
    release = release_of(column, [5_000.0, 4_000.0, 1_000.0], 1e-6)
    lower, upper = estimate_quantile(release, "n", 0.999, of="table").interval
    assert (lower, upper) == (100.0, 119.0 if strict else math.inf)
    assert estimate_quantile(release, "n", 0.99, of="table").interval == (100.0, 119.0)
    assert estimate_quantile(release, "n", 0.5, of="table").interval[0] == 0.0
    low = estimate_quantile(release, "n", 0.001, of="table")
    assert low.interval == (0.0 if strict else -math.inf, 9.0)
    assert math.isfinite(low.value)
    # Four of a thousand rows may all be of a group that has one in a hundred.
    groups = estimate_quantile(release, "n", 0.9, by="g", of="table")
    assert groups["a"].interval[1] == 119.0
    assert groups["b"].interval[1] == (119.0 if strict else math.inf)
    assert math.isinf(groups.difference("b", "a").interval[1]) != strict


def test_sampling_counts_what_lies_inside_bins() -> None:
    wide = Integer(name="n", edges=(0, 120), missing=False)
    estimate = estimate_mean(release_of(wide, [10_000.0], 1e-6), "n")
    assert estimate.value == 59.5
    assert estimate.standard_error == pytest.approx(math.sqrt((120**2 - 1) / 12 / 10_100), rel=1e-3)


def test_the_mean_of_a_skewed_column_is_near_that_of_its_rows() -> None:
    """Middles of bins had twice the mean of this column and more."""
    amounts = np.round(np.random.default_rng(0).lognormal(3.0, 1.5, 20_000), 2)
    run = mg.Synthesizer("independent", epsilon=3.0, not_private_test_seed=1)
    synthesis = run.fit(pa.table({"pay": amounts}))
    assert synthesis.mean("pay").value == pytest.approx(amounts.mean(), rel=0.1)
    assert synthesis.quantile("pay", 0.9).value == pytest.approx(np.quantile(amounts, 0.9), rel=0.1)
