"""Rows that no cell tells of make the interval of a mean longer on their side, and only there."""

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
from margrave.schema.columns import Categorical, Integer, Real
from margrave.tables.far import AT, SHAPE, find_far, is_open
from margrave.tables.numbers import doubts_of, scores_of, weight_doubts_of
from margrave.tables.quantities import estimate_mean

NOISE = 10.0
THIN = Integer(
    name="n",
    edges=(0, 1, 40),
    fine=(0, 1, 5, 10, 20, 40),
    weights=(900.0, 80.0, 20.0, 5.0, 1.0),
    missing=False,
    noise=NOISE,
    reach=(0.0, 40.0),
    unbounded=(True, True),
    strict=False,
)
"""Mostly zeros: of 150 other rows the cells tell of 106, and from 5 on no more are evident."""
COUNTS = np.array([900.0, 150.0])
VARIANCES = np.array([4.0, 9.0])


def release_of(column: Integer | Real, counts: Any, sigma: float) -> Release:
    """Counts of groups by code, shape [2, codes]."""
    schema = mg.Schema((column, Categorical(name="g", values=("a", "b"), missing=False)))
    tables = (NoisyMarginal(("g", column.name), np.asarray(counts, dtype=float), sigma),)
    model = Independent().fit(schema.domain, tables)
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    return Release(schema, tables, promise, (), "tables", "independent", model.state(), model.total)


def test_rows_of_the_last_bin_that_no_cell_tells_of_lie_beyond_the_evident_ones() -> None:
    """The formula at the head of the module, by hand."""
    found = find_far(THIN, COUNTS, VARIANCES)
    assert found is not None
    # From 5 on 26 rows are expected, from 10 on 6: the evident ones end at 10, and 100 of the bin's are told.
    told, far = 100.0, 50.0 + 3.0
    excess = (10.0 - 1.0) * SHAPE / (1.0 - SHAPE) / (1.0 - (far / (told + far)) ** SHAPE)
    number = scores_of(THIN)[1]
    assert found[1].error == pytest.approx(far * (10.0 + excess - number) / AT)
    assert found[1].codes.tolist() == [False, True]
    assert found[1].limit == math.inf


def test_more_rows_beyond_are_farther_out_and_anywhere_where_no_cell_tells_of_any() -> None:
    errors = []
    for rows in (106.0, 150.0, 500.0, 50_000.0):
        found = find_far(THIN, np.array([900.0, rows]), VARIANCES)
        assert found is not None
        errors.append(found[1].error)
    assert errors == sorted(errors)
    assert errors[-1] / 50_000.0 > 10.0 * errors[1] / 150.0  # more than in proportion to the rows
    unseen = dataclasses.replace(THIN, weights=(900.0, 4.0, 1.0, 1.0, 0.5))
    found = find_far(unseen, COUNTS, VARIANCES)
    assert found is not None
    assert found[1].error == math.inf
    mean = estimate_mean(release_of(unseen, [[900.0, 150.0], [0.0, 0.0]], 1.0), "n", of="table")
    assert mean.interval[1] == mean.standard_error == math.inf
    assert 0.0 <= mean.interval[0] < mean.value < 39.0


def test_where_counts_say_what_cells_say_next_to_nothing_is_beyond() -> None:
    seen = dataclasses.replace(THIN, weights=(900.0, 80.0, 30.0, 20.0, 15.0), noise=1.0)
    found = find_far(seen, np.array([900.0, 145.0]), np.array([0.04, 0.09]))
    assert found is not None
    # A few tenths of a row, that is, which the noise of the count leaves.
    assert found[1].error < 0.5 * 60.0
    assert found[0].error < 1.0


def test_no_rows_are_supposed_below_zero_where_none_are_evident() -> None:
    found = find_far(THIN, COUNTS, VARIANCES)
    assert found is not None
    assert found[0].limit == 0.0
    assert found[0].error == 0.0  # zeros are the least there is
    high = dataclasses.replace(
        THIN, edges=(20, 30, 40), fine=(20, 30, 40), weights=(100.0, 60.0), reach=(20.0, 40.0)
    )
    found = find_far(high, np.array([130.0, 60.0]), VARIANCES)
    assert found is not None
    assert 0.0 < found[0].error <= (30.0 + math.sqrt(13.0)) * scores_of(high)[0] / AT
    below = dataclasses.replace(high, edges=(-20, 30, 40), fine=(-20, 30, 40), reach=(-20.0, 40.0))
    found = find_far(below, np.array([130.0, 60.0]), VARIANCES)
    assert found is not None
    assert found[0].limit == -math.inf


def test_the_lower_end_is_the_upper_one_of_the_numbers_with_the_other_sign() -> None:
    parts = {"edges": (-2.0, 1.0, 40.0), "fine": (-2.0, 1.0, 5.0, 10.0, 20.0, 40.0), "reach": (-2.0, 40.0)}
    ends: dict[str, Any] = {"missing": False, "noise": NOISE, "unbounded": (True, True), "strict": False}
    column = Real(name="n", weights=(900.0, 80.0, 20.0, 5.0, 1.0), **parts, **ends)
    turned = {name: tuple(-edge for edge in edges[::-1]) for name, edges in parts.items()}
    negated = Real(name="n", weights=(1.0, 5.0, 20.0, 80.0, 900.0), **turned, **ends)
    upper = find_far(column, COUNTS, VARIANCES)
    lower = find_far(negated, COUNTS[::-1], VARIANCES[::-1])
    assert upper is not None
    assert lower is not None
    for one, other in zip(upper, lower[::-1], strict=True):
        assert one.error == pytest.approx(other.error)
        assert one.error > 0.0
        assert one.codes.tolist() == other.codes[::-1].tolist()
        assert one.limit == -other.limit


def test_an_interval_is_longer_on_the_side_of_the_far_rows_alone() -> None:
    counts = [[600.0, 100.0], [300.0, 50.0]]
    release = release_of(THIN, counts, 3.0)
    near = release_of(dataclasses.replace(THIN, unbounded=(False, False)), counts, 3.0)
    now, before = estimate_mean(release, "n", of="table"), estimate_mean(near, "n", of="table")
    assert now.value == before.value
    assert now.interval[1] - now.value > 1.5 * (before.interval[1] - before.value)
    assert now.value - now.interval[0] < before.value - before.interval[0]
    narrow = estimate_mean(release, "n", of="table", level=0.5)
    assert now.interval[0] < narrow.interval[0] < now.value < narrow.interval[1] < now.interval[1]
    # The standard error is between those of both sides.
    sides = sorted(abs(limit - now.value) / 1.96 for limit in now.interval)
    assert sides[0] < now.standard_error < sides[1]


def test_declared_ends_and_regressions_know_of_no_far_rows() -> None:
    for column in (
        dataclasses.replace(THIN, unbounded=(False, False)),
        dataclasses.replace(THIN, noise=0.0),
        Categorical(name="c", values=("a", "b")),
    ):
        assert not is_open(column)
        assert find_far(column, COUNTS, VARIANCES) is None
    # A declared end is where rows end, though the other one is open.
    found = find_far(dataclasses.replace(THIN, unbounded=(True, False)), COUNTS, VARIANCES)
    assert found is not None
    assert found[1].limit == 40.0
    assert found[1].error <= 53.0 * 40.0 / AT
    declared = doubts_of(dataclasses.replace(THIN, unbounded=(False, False)))
    assert doubts_of(THIN).tolist() == declared.tolist()
    assert (weight_doubts_of(THIN) <= declared / 2.0).all()
    with pytest.raises(SchemaError, match="unbounded of column 'n' must be two of true and false"):
        dataclasses.replace(THIN, unbounded=(True,))


def test_groups_share_far_rows_as_they_share_the_last_bins() -> None:
    release = release_of(THIN, [[600.0, 120.0], [300.0, 30.0]], 0.01)
    groups, whole = estimate_mean(release, "n", by="g", of="table"), estimate_mean(release, "n", of="table")
    longer = {label: groups[label].interval[1] - groups[label].value for label in "ab"}
    # Of each 720 and 330 rows; four fifths and one fifth of those far out.
    assert longer["a"] / longer["b"] == pytest.approx((0.8 / 720.0) / (0.2 / 330.0), rel=0.05)
    assert longer["b"] < whole.interval[1] - whole.value < longer["a"]
    unseen = dataclasses.replace(THIN, weights=(900.0, 4.0, 1.0, 1.0, 0.5))
    groups = estimate_mean(release_of(unseen, [[600.0, 120.0], [300.0, 30.0]], 0.01), "n", by="g", of="table")
    assert groups["a"].interval[1] == math.inf
    assert math.isfinite(groups.difference("a", "b").standard_error)


def test_what_has_faded_to_nothing_is_no_error() -> None:
    """Rows that are evident at 0 alone: the reach ends a float behind it, and weights beyond it vanish."""
    column = Real(
        name="n",
        edges=(0.0, 5e-324, 4.0),
        fine=(0.0, 5e-324, 4.0),
        weights=(500.0, 0.0),
        missing=False,
        noise=NOISE,
        reach=(0.0, 5e-324),
        unbounded=(True, True),
        strict=False,
    )
    assert np.isfinite(doubts_of(column)).all()
    mean = estimate_mean(release_of(column, [[500.0, 80.0], [0.0, 0.0]], 1.0), "n", of="table")
    assert mean.interval[0] >= 0.0
    assert mean.interval[1] == math.inf


def test_a_schema_file_keeps_which_ends_are_open() -> None:
    schema = mg.Schema((THIN,))
    assert mg.Schema.from_json(schema.to_json()) == schema
    assert "unbounded" not in mg.Schema((dataclasses.replace(THIN, unbounded=(False, False)),)).to_json()


def test_means_of_long_thin_tails_are_held() -> None:
    """Mostly zeros and a log-normal tail that noise hides: most means lay above their intervals."""
    rng = np.random.default_rng(5)
    held, before = [], []
    for seed in range(2):
        columns = {
            f"c{j}": np.where(rng.random(2_000) < 0.9, 0.0, np.round(np.exp(rng.normal(3.0, 1.5, 2_000))))
            for j in range(8)
        }
        table = pa.table({name: pa.array(x.astype(np.int64)) for name, x in columns.items()})
        made = mg.Synthesizer("independent", epsilon=2.0, delta=1e-9, not_private_test_seed=seed).fit(table)
        release = made.release
        closed = [dataclasses.replace(one, unbounded=(False, False)) for one in release.schema.columns]
        was = dataclasses.replace(release, schema=release.schema.replace(closed))
        for name, x in columns.items():
            assert release.schema[name].unbounded == (True, True)
            for found, one in ((held, release), (before, was)):
                lower, upper = estimate_mean(one, name, of="table").interval
                found.append(lower <= x.mean() <= upper)
    assert np.mean(held) >= 0.9
    assert np.mean(before) <= 0.6


def test_declared_bounds_are_closed_and_one_declared_bound_is() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.exponential(50.0, 2_000), "y": rng.exponential(50.0, 2_000)})
    schema = mg.Schema((Real(name="x", lower=0.0, upper=1_000.0), Real(name="y", lower=0.0)))
    made = mg.Synthesizer("independent", epsilon=2.0, schema=schema, not_private_test_seed=1).fit(table)
    columns = [made.release.schema[name] for name in "xy"]
    assert [column.unbounded for column in columns if isinstance(column, Real)] == [
        (False, False),
        (False, True),
    ]
