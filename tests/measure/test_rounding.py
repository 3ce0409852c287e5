"""Grids from noisy counts: kept where they are evident, left out where values are of no grid."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.measure.discovery.values import all_on, common_step, released_grids, steps_of
from margrave.schema.columns import Date, Duration, Integer, Moment, Real, Time

RNG = np.random.default_rng(0)
WIDE = np.array([0.0, 1e7])


def counted(column: Integer | Real, values: np.ndarray) -> np.ndarray:
    import pyarrow as pa

    from margrave.schema.queries import grids

    return grids(pa.array(values), steps_of(column)).astype(float)


def test_steps_are_multiples_of_each_other() -> None:
    for column in (Integer(name="x"), Real(name="x"), Moment(name="x"), Time(name="x"), Duration(name="x")):
        steps = steps_of(column)
        for coarse, fine in itertools.pairwise(steps):
            assert round(coarse / fine) == pytest.approx(coarse / fine)
            assert coarse > fine
    assert steps_of(Date(name="d")) == ()
    assert min(steps_of(Real(name="x", grids=((0.01, 1.0),)))) == 0.05
    assert min(steps_of(Moment(name="x", grids=((1e6, 1.0),)))) == 60e6


def test_numbers_of_no_grid_get_none() -> None:
    column = Integer(name="x")
    noisy = counted(column, RNG.integers(1, 10**7, 50_000)) + RNG.normal(0, 50, 13)
    assert (
        released_grids(column, steps_of(column), noisy, 50.0, WIDE, np.array([50_000.0]), np.array([2500.0]))
        == ()
    )
    real = Real(name="x")
    noisy = counted(real, RNG.random(50_000)) + RNG.normal(0, 50, 23)
    assert (
        released_grids(real, steps_of(real), noisy, 50.0, WIDE, np.array([50_000.0]), np.array([2500.0]))
        == ()
    )


def test_shares_are_those_of_the_mixture() -> None:
    column = Integer(name="x")
    values = RNG.integers(1, 10**7, 60_000)
    values[:20_000] = values[:20_000] // 1000 * 1000
    values[20_000:30_000] = values[20_000:30_000] // 5 * 5
    noisy = counted(column, values) + RNG.normal(0, 50, 13)
    found = dict(
        released_grids(column, steps_of(column), noisy, 50.0, WIDE, np.array([60_000.0]), np.array([2500.0]))
    )
    assert set(found) == {1000.0, 5.0}
    assert found[1000.0] == pytest.approx(1 / 3, abs=0.02)
    assert found[5.0] == pytest.approx(1 / 6, abs=0.02)


def test_values_alone_in_a_cell_say_nothing_of_the_rest() -> None:
    """Nine rows in ten are 0, a multiple of everything; the rest is of no grid."""
    column = Integer(name="x")
    values = np.where(RNG.random(50_000) < 0.9, 0, RNG.integers(1, 10**5, 50_000))
    zeros = float((values == 0).sum())
    edges, weights = np.array([0.0, 1.0, 1e5]), np.array([zeros, 50_000 - zeros])
    assert (
        released_grids(
            column,
            steps_of(column),
            counted(column, values),
            20.0,
            edges,
            weights,
            np.full(len(weights), 400.0),
        )
        == ()
    )


def test_the_storage_s_own_step_takes_the_rest() -> None:
    column = Real(name="x", grids=((0.01, 1.0),))
    values = np.round(RNG.random(20_000) * 100, 2)
    values[:10_000] = np.round(values[:10_000])
    found = released_grids(
        column, steps_of(column), counted(column, values), 20.0, WIDE, np.array([20_000.0]), np.array([400.0])
    )
    assert [step for step, _ in found] == [1.0, 0.01]
    assert found[0][1] == pytest.approx(0.5, abs=0.02)
    assert sum(share for _, share in found) == pytest.approx(1.0)


def test_a_frequent_value_in_a_cell_of_one_step_is_no_grid() -> None:
    """A fee of at least 150.00: one row in five has that, and no other is a multiple of 50."""
    column, steps = Real(name="fee"), (50.0, 10.0, 1.0, 0.1, 0.01)
    edges = np.array([0.0, 150.0, 150.01, 1_000.0])
    noisy, weights = np.array([2_000.0, 10.0, 80.0, 700.0, 7_210.0]), np.array([0.0, 2_000.0, 8_000.0])
    noisy = np.append(noisy, 0.0)
    looks = column, steps, noisy, 20.0, edges, weights, np.full(3, 400.0)
    assert released_grids(*looks)[0][0] == 50.0
    assert [step for step, share in released_grids(*looks, 0.01) if step >= 1 and share > 0.02] == []


def test_noise_alone_is_no_grid() -> None:
    for seed in range(30):
        noisy = np.random.default_rng(seed).normal(0, 100, 13)
        column = Integer(name="x")
        assert (
            released_grids(column, steps_of(column), noisy, 100.0, WIDE, np.array([0.0]), np.array([1e4]))
            == ()
        )


def test_steps_beyond_the_numbers_are_not_asked_for() -> None:
    assert steps_of(Integer(name="x"), 99.0) == (50.0, 10.0, 5.0)
    assert steps_of(Integer(name="x"), 100.0)[0] == 100.0
    assert steps_of(Integer(name="x"), 1.0) == ()
    assert steps_of(Real(name="x"), 0.2) == (0.1, 0.05, 0.01, 0.005, 0.001, 1e-4, 1e-5, 1e-6)


def test_few_rows_keep_a_grid_that_most_are_on() -> None:
    """Hours of a thousand people, six in ten on multiples of 10, noise of a tenth of the people."""
    column = Integer(name="x")
    steps, kept = steps_of(column, 80.0), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        noisy = np.array([60.0, 560.0, 230.0, 150.0]) + rng.normal(0, 100, 4)
        edges, weights = np.array([0.0, 16.0, 32.0, 48.0, 80.0]), np.array([100.0, 100.0, 600.0, 200.0])
        found = released_grids(column, steps, noisy, 100.0, edges, weights, np.full(len(weights), 1600.0))
        kept += sum(share for step, share in found) > 0.5
    assert kept >= 50


def test_what_is_on_a_step_too_coarse_to_be_evident_counts_for_the_finer_one() -> None:
    column = Integer(name="x")
    steps, shares = steps_of(column, 20_000.0), []
    assert steps[:3] == (10_000.0, 5_000.0, 1_000.0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noisy = np.zeros(len(steps) + 1)
        noisy[[0, 1, 2, -1]] = 300.0, 300.0, 500.0, 300.0  # the first two are below four deviations
        found = released_grids(
            column,
            steps,
            noisy + rng.normal(0, 100, len(noisy)),
            100.0,
            WIDE,
            np.array([1400.0]),
            np.array([1600.0]),
        )
        shares.append(sum(share for step, share in found if step >= 1000))
    assert sum(share > 0.3 for share in shares) >= 17
    assert np.median(shares) == pytest.approx(1100 / 1400, abs=0.15)


@pytest.mark.parametrize(
    ("values", "zeros", "step"),
    [
        (RNG.choice([0.5, 2.5, 6.0, 9.0, 13.0, 16.5, 23.0], 5_000), 0, 0.5),
        (RNG.choice([25.0, 50.0, 95.0, 100.0], 5_000), 0, 5.0),
        (RNG.normal(170.0, 10.0, 5_000).round(1), 0, 0.1),
        (RNG.normal(170.0, 10.0, 5_000), 0, 0.0),
        (np.where(RNG.random(5_000) < 0.7, RNG.integers(1, 99, 5_000), RNG.random(5_000)), 0, 0.0),
        (np.where(np.arange(5_000) < 4_500, 0.0, RNG.random(5_000)), 4_500, 0.0),
    ],
    ids=["halves", "fives", "tenths", "no grid", "seven in ten", "zeros"],
)
def test_the_step_of_all_values_is_found(values: np.ndarray, zeros: float, step: float) -> None:
    column = Real(name="x")
    steps = steps_of(column, 1000.0)
    exact = counted(column, values)[-len(steps) - 1 :]
    exact[0] = len(values) - exact[1:].sum()
    assert common_step(steps, exact, 1.0, zeros) == step
    found = [common_step(steps, exact + RNG.normal(0.0, 90.0, len(exact)), 90.0, zeros) for _ in range(50)]
    assert found.count(step) >= 40


def test_where_noise_hides_all_there_is_no_common_step() -> None:
    steps = steps_of(Real(name="x"), 1000.0)
    found = [common_step(steps, RNG.normal(0.0, 100.0, len(steps) + 1), 100.0, 0.0) for _ in range(200)]
    assert found.count(0.0) == 200


def test_grids_finer_than_the_common_step_are_left_out() -> None:
    assert all_on(((5.0, 0.25), (1.0, 0.5), (0.1, 0.2)), 0.5) == ((5.0, 0.25), (1.0, 0.5), (0.5, 0.25))


def test_steps_below_a_thousandth_hide_no_coarser_one_of_a_short_table() -> None:
    """Two thousand whole numbers, of which noise in three more cells would hide that they are whole."""
    full = steps_of(Real(name="x"), 100.0)
    few = tuple(step for step in full if step >= 0.001)
    rng, sigma, told = np.random.default_rng(0), 80.0, []
    for steps in (full, few):
        counts = np.zeros(len(steps) + 1)
        counts[[steps.index(100.0), steps.index(10.0), steps.index(1.0)]] = 20.0, 180.0, 1_800.0
        drawn = counts + rng.normal(0.0, sigma, (3_000, len(counts)))
        told.append(np.mean([common_step(steps, noisy, sigma, 0.0) == 1.0 for noisy in drawn]))
    assert told[0] > 0.5
    assert told[0] > told[1] - 0.05
