"""Looks at details in parts: cells with many rows are split, and what both looks say is put together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.between.relations import nats_within
from margrave.measure.discovery.numeric import REFINING, SHARES
from margrave.measure.discovery.refine import combine_looks, cut_faint_ends, split_cells
from margrave.measure.discovery.values import Histogram
from margrave.privacy.accounting.accountants import event_rho
from margrave.schema.columns import Relative


def test_cells_of_many_rows_are_split_and_others_stay() -> None:
    edges = np.array([0.0, 10.0, 20.0, 21.0])
    finer = split_cells(edges, np.array([5.0, 100.0, 100.0]), 20.0, 0.1)
    assert finer.tolist() == [0, 10, 12, 14, 16, 18, *[pytest.approx(20 + part / 10) for part in range(11)]]
    assert split_cells(edges, np.array([5.0, 60.0, 100.0]), 20.0, 1.0).tolist() == [0, *range(10, 22)]
    assert split_cells(edges, np.array([19.0, 19.0, 500.0]), 20.0, 1.0).tolist() == edges.tolist()
    steps = np.array([0.0, 8.0, 20.0, 24.0])
    assert split_cells(steps, np.array([0.0, 60.0, 0.0]), 20.0, 4.0).tolist() == [0, 8, 12, 16, 20, 24]


def test_counts_of_two_looks_are_unbiased_and_as_precise_as_is_said() -> None:
    rng = np.random.default_rng(0)
    edges, finer = np.array([0.0, 4.0, 5.0]), np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    truth = np.array([3.0, 50.0, 0.0, 7.0, 20.0])
    coarse = np.array([truth[:4].sum(), truth[4]])
    variances, sigma = np.array([4.0, 9.0]), 3.0
    found = []
    for _ in range(20_000):
        values = coarse + rng.normal(0.0, np.sqrt(variances))
        counts, spread = combine_looks(
            edges, values, variances, finer, truth + rng.normal(0.0, sigma, 5), sigma
        )
        found.append(counts)
    counts = np.array(found)
    assert np.abs(counts.mean(axis=0) - truth).max() < 0.1
    assert counts.var(axis=0) == pytest.approx(spread, rel=0.05)
    assert spread[4] == pytest.approx(1 / (1 / 9 + 1 / 9))  # a cell that was not split: inverse variances
    # The sum of the parts is the mean by inverse variance of what was known and of what they add up to.
    assert counts[:, :4].sum(axis=1).var() == pytest.approx(1 / (1 / 4 + 1 / 36), rel=0.05)


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_numbers_far_from_zero_and_close_together_are_told_apart() -> None:
    """A decimal year and a date of one year among fifteen other columns, at epsilon 1."""
    rng = np.random.default_rng(0)
    day = rng.integers(0, 400, 12_000)
    table = pd.DataFrame({f"x{place}": rng.integers(0, 9, 12_000) for place in range(15)})
    table["year"] = 2016.5 + day / 366
    table["day"] = pd.Timestamp("2016-07-01") + pd.to_timedelta(day, "D")
    run = Synthesizer("independent", epsilon=1.0, delta=1e-9, not_private_test_seed=0)
    synthesis = run.fit(table)
    made = synthesis.sample(12_000, rng=0)
    for name in ("year", "day"):
        real, drawn = (
            np.sort(one[name].to_numpy().astype(np.float64)) for one in (table, pd.DataFrame(made))
        )
        span = real[-1] - real[0]
        assert np.abs(real - drawn).mean() < 0.05 * span, name
    looks = [event for event in synthesis.release.events if event.what == "detail of year"]
    assert len(looks) == len(REFINING) + 1
    shares = [event_rho(event) for event in looks]
    last = 1 - sum(REFINING, Fraction(0))
    assert float(shares[2] / shares[0]) == pytest.approx(float(last / REFINING[0]), rel=1e-3)
    assert SHARES["detail"] > SHARES["bounds"]


def test_entropy_within_bins_is_that_of_the_cells() -> None:
    fine, weights = np.array([0.0, 1.0, 2.0, 4.0]), np.array([5.0, 5.0, 10.0])
    assert nats_within(np.array([0.0, 4.0]), fine, weights) == pytest.approx(np.log(4))
    assert nats_within(np.array([0.0, 1.0, 2.0, 4.0]), fine, weights) == pytest.approx(np.log(2) / 2)
    assert nats_within(np.array([0.0, 1.0, 2.0, 4.0]), fine, np.array([1.0, 1.0, 0.0])) == 0.0


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_few_values_keep_their_own_codes_beside_a_column_that_they_move_with() -> None:
    """Months in arrears move together; differences would draw most of their values anew."""
    rng = np.random.default_rng(0)
    values, shares = np.array([-2, -1, 0, 2]), [0.15, 0.25, 0.5, 0.1]
    months = [rng.choice(values, 20_000, p=shares)]
    for _ in range(5):
        stays = rng.random(20_000) < 0.7
        months.append(np.where(stays, months[-1], rng.choice(values, 20_000, p=shares)))
    table = pd.DataFrame({f"m{place}": held for place, held in enumerate(months)})
    for place in range(18):
        table[f"x{place}"] = rng.integers(0, 4, 20_000)
    release = Synthesizer("independent", epsilon=1.0, not_private_test_seed=1).fit(table).release
    for place in range(6):
        column = release.schema[f"m{place}"]
        if isinstance(column, Relative):  # only where differences say as much
            part = column.part
            assert nats_within(part.edge_array, np.asarray(part.fine), np.asarray(part.weights)) < 0.05
    copies = pd.DataFrame({"a": months[0], "b": months[0], "c": table["x0"]})
    equal = Synthesizer("independent", epsilon=1.0, not_private_test_seed=1).fit(copies).release
    assert sum(isinstance(column, Relative) for column in equal.schema.columns) == 1  # a copy is one


def test_parts_of_a_cell_have_no_edge_that_was_not_asked_for() -> None:
    """A cell that is cut in two had a third one, as wide as one number, with noise of its own."""
    edges = split_cells(np.array([0.0, 100.0, 200.0]), np.array([20.0, 1.0]), 10.0, 0.01)
    assert edges.tolist() == [0.0, 50.0, 100.0, 200.0]
    assert split_cells(np.array([0.0, 101.0]), np.array([20.0]), 10.0, 1.0).tolist() == [0.0, 51.0, 101.0]


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
def test_no_number_comes_out_often_that_no_row_has_often() -> None:
    rng = np.random.default_rng(1)
    pay = np.where(rng.random(30_000) < 0.4, 0.0, np.exp(rng.normal(5.0, 3.0, 30_000)))
    table = pd.DataFrame(
        {
            "pay": np.round(pay, 2),
            "people": np.exp(rng.normal(13, 1, 30_000)).astype(np.int64),
        }
    )
    run = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=1)
    drawn = run.fit(table).sample(30_000, rng=0)
    for name in ("pay", "people"):
        counts = drawn[name].value_counts()
        assert counts[counts.index > 100].max() < 8  # 57 to 124 rows had such numbers


def _whole(first: int, noisy: list[float]) -> Histogram:
    """Cells of a whole number each, with noise of ten rows."""
    counts, none = np.array(noisy), np.zeros(len(noisy), dtype=np.bool_)
    edges = np.arange(first, first + len(noisy) + 1.0)
    return Histogram(edges, counts, np.full(len(noisy), 100.0), np.maximum(counts, 0.1), none, none)


@pytest.mark.parametrize(
    ("first", "noisy", "left"),
    [
        (-1, [14.0, 900.0, 800.0, 12.0, -8.0, 15.0], [0, 1]),
        (-1, [14.0, 900.0, 40.0, 12.0, -8.0, 15.0], [0, 1]),  # a flag that is rare stays
        (0, [3.0, 500.0, 510.0, 490.0, 9.0], [1, 2, 3]),
        (0, [500.0, 400.0, 90.0, 40.0, 25.0, 15.0], [0, 1, 2, 3, 4, 5]),  # evident together
        (0, [900.0, 500.0, 35.0, -15.0, -20.0], [0, 1, 2, 3, 4]),  # the first of them alone
        (0, [40.0, 45.0, 30.0, 5.0], [0, 1, 2, 3]),  # no number of many rows
    ],
)
def test_behind_a_number_of_many_rows_none_is_made_up(
    first: int, noisy: list[float], left: list[int]
) -> None:
    found = cut_faint_ends(_whole(first, noisy), 1.0)
    assert (found.edges[:-1][found.weights > 0]).astype(int).tolist() == left


def test_cells_of_several_numbers_are_not_cut_off() -> None:
    found = _whole(0, [900.0, 800.0, 12.0])
    wide = Histogram(
        np.array([0.0, 1.0, 2.0, 1000.0]),
        *(found.noisy, found.variances, found.weights),
        found.alone,
        found.atoms,
    )
    assert (cut_faint_ends(wide, 1.0).weights > 0).all()
    assert (cut_faint_ends(found, 0.0).weights > 0).all()


@pytest.mark.filterwarnings("ignore:NOT PRIVATE")
def test_numbers_that_noise_hides_are_missing_and_flags_have_two_values() -> None:
    rng = np.random.default_rng(0)
    few = np.where(rng.random(3_000) < 0.005, rng.integers(90, 432, 3_000).astype(float), np.nan)
    table = pd.DataFrame({f"flag{place}": rng.integers(0, 2, 3_000) for place in range(8)} | {"speed": few})
    run = Synthesizer("independent", epsilon=1.0, delta=1e-9, not_private_test_seed=0)
    made = run.fit(table).sample(3_000, rng=0)
    assert made["speed"].isna().all()
    assert all(set(made[f"flag{place}"]) == {0, 1} for place in range(8))


def test_many_cells_of_noise_behind_a_constant_are_cut_off_as_few_are() -> None:
    """With a bound for one chance they stayed in one of four columns of zeros, and some rows were 54."""
    rng = np.random.default_rng(0)
    cut = []
    for _ in range(300):
        noisy = np.append(16_000.0, rng.normal(0.0, 18.0, 85))
        found = _whole(0, noisy)
        found = Histogram(
            found.edges, noisy, np.full(86, 324.0), np.maximum(noisy, 0.1), found.alone, found.atoms
        )
        cut.append(bool((cut_faint_ends(found, 1.0).weights[2:] == 0).all()))
    assert np.mean(cut) > 0.9


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
def test_numbers_that_noise_hides_are_missing_where_most_rows_have_none() -> None:
    """Their range went into the millions: in five of six seeds a tenth of the rows, 160, are hidden here."""
    rng = np.random.default_rng(0)
    dose = np.where(rng.random(1_600) < 0.9, np.nan, rng.lognormal(3.0, 1.0, 1_600).round(1))
    table = pd.DataFrame({"dose": dose} | {f"x{k}": rng.integers(0, 4, 1_600) for k in range(60)})
    found = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(table)
    made = pd.to_numeric(found.sample_arrow(1_600, rng=np.random.default_rng(0))["dose"].to_pandas())
    assert made.isna().all() or made.max() < 20 * np.nanmax(dose)
