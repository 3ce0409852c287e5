"""The looks at hours and weekdays: what they find, what they leave, and what they ask for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from margrave import Date, Moment, Schema, Synthesizer
from margrave.engines.opening import open_source
from margrave.errors import NotPrivateWarning
from margrave.measure.discovery.cycles import Density, find_cycles, open_cycles, weigh_ticks
from margrave.schema.calendar import FIRST_WEEKDAY, HOUR
from margrave.schema.draws import whole_numbers
from margrave.schema.storage.clock import DAY

OFFICE = (1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)


def table(rows: int) -> pa.Table:
    """Moments of office hours on working days of four years, and days of which none is a Sunday."""
    rng = np.random.default_rng(0)
    monday = np.datetime64("2020-01-06")
    seen = monday + 7 * rng.integers(0, 208, rows) + rng.integers(0, 5, rows)
    minutes = rng.integers(9 * 60, 17 * 60, rows)
    told = monday + 7 * rng.integers(0, 208, rows) + rng.integers(0, 6, rows)
    return pa.table(
        {"seen": seen.astype("datetime64[m]").astype("datetime64[us]") + minutes.astype("timedelta64[m]"),
         "told": told, "group": rng.integers(0, 3, rows).astype(str)}
    )  # fmt: skip


def fit(rows: pa.Table, schema: Schema | None = None) -> tuple[pa.Table, list[str]]:
    """Drawn rows, and the looks at cycles that were in the ledger, in order."""
    synthesizer = Synthesizer("independent", epsilon=3.0, schema=schema, not_private_test_seed=0)
    synthesis = synthesizer.fit(rows)
    asked = [event.what for event in synthesis.release.events]
    with pytest.warns(NotPrivateWarning):
        drawn = synthesis.sample(rng=0)
    return drawn, [what for what in asked if what.startswith(("hours", "weekdays"))]


def test_office_hours_are_found_and_kept() -> None:
    drawn, asked = fit(table(20_000))
    seen = drawn["seen"].to_pylist()
    assert np.mean([9 <= one.hour < 17 for one in seen]) > 0.97
    assert np.mean([one.weekday() < 5 for one in seen]) > 0.99
    assert np.mean([one.weekday() == 6 for one in drawn["told"].to_pylist()]) < 0.01
    assert asked == ["hours of seen", "weekdays of seen", "weekdays of told"]


def test_what_is_declared_is_not_asked() -> None:
    schema = Schema((Moment(name="seen", weekdays=OFFICE), Date(name="told", weekdays=OFFICE)))
    drawn, asked = fit(table(5_000), schema)
    assert asked == ["hours of seen"]
    assert all(one.weekday() < 5 for one in drawn["told"].to_pylist())


def test_declared_bins_have_no_look() -> None:
    known = Moment(name="m", lower="2024-01-01", upper="2024-02-01", bins=3, missing=False)
    assert open_cycles(known) == frozenset()
    assert open_cycles(Moment(name="m", lower="2024-01-01", upper="2024-02-01")) == {"hours", "weekdays"}
    assert open_cycles(Date(name="d")) == {"weekdays", "month_days"}


@pytest.mark.parametrize(("days", "asked"), [(13, False), (14, True)])
def test_a_range_below_two_weeks_has_no_look_at_weekdays(days: int, asked: bool) -> None:
    column = Date(
        name="d", edges=(19_000, 19_005, 19_000 + days), fine=(19_000, 19_005, 19_000 + days),
        weights=(5.0, 6.0), missing=False,
    )  # fmt: skip
    source, _ = open_source(pa.table({"d": pa.array([19_001, 19_008], pa.int32()).cast(pa.date32())}))
    told = []

    def look(what: str, exact: Callable[[], np.ndarray], rho: Fraction) -> tuple[np.ndarray, float]:
        told.append((what, rho, exact().tolist()))
        return np.full(7, 1.0), 1.0

    find_cycles(column, source, look, Fraction(4), {"weekdays": Fraction(1, 4)}, frozenset({"weekdays"}))
    # Both days are Sundays, the fourth from Thursday 1970-01-01 on.
    assert told == ([("weekdays of d", Fraction(1), [0, 0, 0, 2, 0, 0, 0])] if asked else [])


def test_noise_alone_makes_no_pattern() -> None:
    rng = np.random.default_rng(0)
    even = np.full(24, 1000.0)
    found = [weigh_ticks(even + 100.0 * rng.standard_normal(24), 100.0, even) for _ in range(200)]
    assert np.std(found, axis=1).mean() * 24 < 0.05  # the noise itself is a tenth
    # What the cells said before stays where noise hides more.
    seen = np.repeat([1.0, 3.0], 12)
    told = weigh_ticks(1000.0 * seen / 2 + 400.0 * rng.standard_normal(24), 400.0, seen)
    assert told[12:].sum() > 0.7


def test_hours_that_hold_nothing_come_out_empty() -> None:
    counts = np.array([50.0, 60.0, 0.0, -8.0, 90.0, 40.0, 45.0]) * 1000
    shares = weigh_ticks(counts, 1000.0, np.ones(7))
    assert shares[2] == shares[3] == 0.0
    assert shares == pytest.approx(np.maximum(counts, 0) / np.maximum(counts, 0).sum(), abs=0.01)


def smooth_column(clock: bool, width: int) -> Date | Moment:
    """Cells of equal width that say nothing of weekdays, over some thirty weeks in four bins."""
    tick = DAY if clock else 1
    fine = tuple((18_000 + width * cell) * tick for cell in range(210 // width + 1))
    weights = tuple(1.0 + cell for cell in range(len(fine) - 1))
    places = np.linspace(0, len(fine) - 1, 5).astype(int)
    kind = Moment if clock else Date
    return kind(
        name="x", edges=tuple(fine[place] for place in places), fine=fine, weights=weights, missing=False
    )


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("width", [1, 3, 15])
def test_cells_and_weights_have_the_shares_and_each_bin_its_mass(clock: bool, width: int) -> None:
    column = smooth_column(clock, width)
    days = np.array([3.0, 2.0, 0.5, 0.0, 2.0, 2.0, 2.0]) / 11.5  # Thursday first
    shares = {"weekdays": days}
    if clock:
        shares["hours"] = np.r_[np.zeros(6), np.ones(12), np.full(6, 0.25)] / 13.5
    density = Density.of(column)
    found = density.follow(column, shares)
    assert np.bincount(density.bins, weights=found.weights) == pytest.approx(
        np.bincount(density.bins, weights=column.weights)
    )
    # What is drawn has these shares: cells by weight, and inside a cell by the cycle.
    rng = np.random.default_rng(0)
    mass = np.bincount(density.bins, weights=found.weights)
    drawn = whole_numbers(rng.choice(len(mass), 40_000, p=mass / mass.sum()), found, rng)
    weekday = drawn // (DAY if clock else 1) % 7
    assert np.bincount(weekday, minlength=7) / 40_000 == pytest.approx(days, abs=0.015)
    if clock:
        assert np.bincount(drawn // HOUR % 24, minlength=24) / 40_000 == pytest.approx(
            shares["hours"], abs=0.01
        )
    # Cells that say so already are left as they are.
    again = Density.of(found).follow(dataclasses.replace(found, weekdays=None), {"weekdays": days})
    if width == 1:
        assert again.weekdays == pytest.approx([1.0] * 7, abs=0.02)


def test_declared_weights_are_put_into_the_cells() -> None:
    column = dataclasses.replace(smooth_column(False, 1), weekdays=OFFICE)
    found = Density.of(column).follow(column, {})
    assert found.weekdays == OFFICE
    held = np.array(found.fine[:-1])[np.array(found.weights) > 0]
    assert set(((held + FIRST_WEEKDAY) % 7).tolist()) == set(range(5))


def test_a_bin_on_a_day_without_rows_keeps_its_mass() -> None:
    column = Date(
        name="x", edges=("2024-01-06", "2024-01-08", "2024-01-20"), missing=False,
        fine=("2024-01-06", "2024-01-08", "2024-01-20"), weights=(5.0, 6.0), weekdays=OFFICE,
    )  # fmt: skip
    assert Density.of(column).follow(column, {}).weights == pytest.approx((5.0, 6.0))
