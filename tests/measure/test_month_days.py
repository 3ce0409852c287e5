"""The look at days of the month: what stands out and is kept, what is not followed, and what is not asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave import Date, Moment, Schema, Synthesis, Synthesizer
from margrave.engines.opening import open_source
from margrave.measure.discovery.cycles import Density, find_cycles, open_cycles, weigh_month_days
from margrave.schema.columns import Relative
from margrave.schema.draws import whole_numbers
from margrave.schema.storage.months import CALENDAR, MONTH_PLACES, find_month_places

pytestmark = pytest.mark.filterwarnings("ignore")

FIRSTS = (1.0, *[0.0] * 30)


def table(share: float, written: str | None = None) -> pa.Table:
    """6,000 contracts: a share begin on the first of a month and all others on any day of 15 years."""
    rng = np.random.default_rng(0)
    days = np.datetime64("2005-01-03") + rng.integers(0, 5479, 6000)
    days = np.where(rng.random(6000) < share, days.astype("datetime64[M]").astype("datetime64[D]"), days)
    begun: Any = days.astype("datetime64[D]")
    if written:
        begun = [day.strftime(written) for day in begun.tolist()]
        begun = [int(day) for day in begun] if written == "%Y%m%d" else begun
    return pa.table({"begun": begun, "group": rng.integers(0, 3, 6000).astype(str)})


def fit(rows: pa.Table, seed: int, schema: Schema | None = None) -> Synthesis:
    return Synthesizer("independent", epsilon=3.0, schema=schema, not_private_test_seed=seed).fit(rows)


def share_first(rows: pa.Table) -> float:
    """The share of first days of months among dates, as text, numbers or dates."""
    return float(np.mean([str(day).replace("-", "").endswith("01") for day in rows["begun"].to_pylist()]))


@pytest.mark.parametrize("written", [None, "%Y-%m-%d", "%Y%m%d"])
def test_first_days_are_found_and_kept_in_all_releases(written: str | None) -> None:
    rows = table(0.6, written)
    for seed in range(3 if written else 12):
        synthesis = fit(rows, seed)
        assert "days of the month of begun" in [event.what for event in synthesis.release.events]
        column = synthesis.release.schema["begun"]
        assert isinstance(column, Date)
        assert column.month_days is not None
        assert column.month_days[0] > 20 * max(column.month_days[1:])
        assert share_first(synthesis.sample(rng=0)) == pytest.approx(share_first(rows), abs=0.12)


def test_nothing_is_followed_where_no_day_stands_out() -> None:
    rows = table(0.0)
    for seed in range(12):
        column = fit(rows, seed).release.schema["begun"]
        assert isinstance(column, Date)
        assert column.month_days is None
        assert column.weekdays is not None


def test_last_days_of_months_are_drawn_whichever_they_are() -> None:
    rng = np.random.default_rng(0)
    months = np.datetime64("2012-01") + rng.integers(0, 120, 6000)
    ends = (months + 1).astype("datetime64[D]") - 1
    drawn = fit(pa.table({"begun": ends, "group": rng.integers(0, 3, 6000).astype(str)}), 0).sample(rng=0)
    days = np.array(drawn["begun"].to_pylist(), dtype="datetime64[D]")
    last = (days + 1).astype("datetime64[M]") != days.astype("datetime64[M]")
    assert last.mean() > 0.97
    assert len({str(day)[-2:] for day in days[last]}) == 4  # the 28th, 29th, 30th and 31st


def test_what_is_declared_is_not_asked_and_drawn() -> None:
    synthesis = fit(table(0.6), 0, Schema((Date(name="begun", month_days=FIRSTS),)))
    assert not [event.what for event in synthesis.release.events if event.what.startswith("days")]
    assert share_first(synthesis.sample(rng=0)) > 0.99
    assert open_cycles(Date(name="d", month_days=FIRSTS)) == {"weekdays"}
    assert open_cycles(Date(name="d", format="%Y-%m")) == frozenset()
    assert open_cycles(Moment(name="m")) == {"hours", "weekdays"}


@pytest.mark.parametrize(("days", "asked"), [(182, False), (183, True)])
def test_a_range_below_half_a_year_has_no_look(days: int, asked: bool) -> None:
    ends = (19_000, 19_100, 19_000 + days)
    column = Date(name="d", edges=ends, fine=ends, weights=(5.0, 6.0), missing=False)
    dates = pa.array(["2022-02-01", "2022-02-28", "2022-03-28", "2022-03-31", None]).cast(pa.date32())
    source, _ = open_source(pa.table({"d": dates}))
    told = []

    def look(what: str, exact: Callable[[], np.ndarray], rho: Fraction) -> tuple[np.ndarray, float]:
        told.append((what, rho, exact().tolist()))
        return np.full(MONTH_PLACES, 1.0), 1.0

    weights, looks = {"month_days": Fraction(1, 4)}, frozenset({"month_days"})
    find_cycles(column, source, look, Fraction(4), weights, looks)
    counts = [1, *[0] * 26, 1, 0, 0, 2]  # two last days
    assert told == ([("days of the month of d", Fraction(1), counts)] if asked else [])


def test_noise_alone_makes_nothing_stand_out() -> None:
    rng = np.random.default_rng(0)
    even = np.full(MONTH_PLACES, 200.0)
    found = [weigh_month_days(even + 50.0 * rng.standard_normal(31), 50.0, even) for _ in range(500)]
    assert sum(one is not None for one in found) <= 5
    # A slight difference is none to follow however sure it is.
    slight = even * np.where(np.arange(31) == 3, 1.2, 1.0)
    assert weigh_month_days(1000 * slight, 1.0, 1000 * even) is None


def test_what_stands_out_has_its_count_and_the_others_share_the_rest() -> None:
    rng = np.random.default_rng(0)
    usual = np.arange(31, 62.0)
    counts = 4.0 * usual
    counts[[0, 14]] = 3000.0, 1200.0
    counts[28:] = 0.0
    seen = usual * counts.sum() / usual.sum()
    found = weigh_month_days(counts + 10.0 * rng.standard_normal(31), 10.0, seen)
    assert found is not None
    assert found[[0, 14]] == pytest.approx(np.array([3000.0, 1200.0]) / counts.sum(), rel=0.03)
    assert found[28:].tolist() == [0.0] * 3
    rest = [place for place in range(1, 28) if place != 14]
    assert found[rest] / usual[rest] == pytest.approx(np.full(26, 4.0 / counts.sum()), rel=0.05)
    # What noise hides as a whole is nothing.
    alone = np.where(np.arange(31) == 0, 6000.0, 0.0) + 80.0 * rng.standard_normal(31)
    found = weigh_month_days(alone, 80.0, usual * 6000 / usual.sum())
    assert found is not None
    assert found.tolist() == list(FIRSTS)


@pytest.mark.parametrize("width", [1, 5, 40])
def test_cells_and_weights_have_the_shares_and_each_bin_its_mass(width: int) -> None:
    fine = tuple(18_000 + width * cell for cell in range(4000 // width + 1))
    places = np.linspace(0, len(fine) - 1, 5).astype(int)
    column = Date(
        name="x", edges=tuple(fine[place] for place in places), fine=fine, missing=False,
        weights=tuple(1.0 + cell for cell in range(len(fine) - 1)),
    )  # fmt: skip
    months = np.full(31, 0.3 / 29)
    months[[0, 30]] = 0.5, 0.2
    weekdays = np.array([3.0, 2.0, 0.5, 0.0, 2.0, 2.0, 2.0]) / 11.5  # Thursday first
    density = Density.of(column, monthly=True)
    found = density.follow(column, {"weekdays": weekdays, "month_days": months})
    mass = np.bincount(density.bins, weights=found.weights)
    assert mass == pytest.approx(np.bincount(density.bins, weights=column.weights))
    rng = np.random.default_rng(0)
    drawn = whole_numbers(rng.choice(4, 40_000, p=mass / mass.sum()), found, rng)
    shares = np.bincount(find_month_places()[drawn % CALENDAR], minlength=31) / 40_000
    assert shares == pytest.approx(months, abs=0.015)
    assert np.bincount(drawn % 7, minlength=7) / 40_000 == pytest.approx(weekdays, abs=0.015)
    # Cells that say so already are left as they are.
    if width == 1:
        seen = density.by(np.ones(7), np.ones(31)).sum(axis=(0, 1))
        assert weigh_month_days(seen, 1.0, seen) is None
        again = Density.of(dataclasses.replace(found, weekdays=None, month_days=None), monthly=True)
        usual = again.mass.sum(axis=(0, 1))
        assert weigh_month_days(usual.sum() * months, 0.001 * usual.sum(), usual) is None


def test_a_date_with_days_of_the_month_is_the_base_of_the_dates_near_it() -> None:
    rng = np.random.default_rng(3)
    months = np.datetime64("2006-01") + rng.integers(0, 170, 6000)
    begun = months.astype("datetime64[D]") + np.where(rng.random(6000) < 0.8, 0, rng.integers(0, 28, 6000))
    ends = (months + rng.integers(6, 60, 6000) + 1).astype("datetime64[D]") - 1
    signed = begun - rng.gamma(2, 15, 6000).astype(int)
    rows = pa.table({"signed": signed, "begun": begun, "ends": ends})
    for seed in range(3):
        synthesis = fit(rows, seed)
        relations = {
            one.name: one.base for one in synthesis.release.schema.columns if isinstance(one, Relative)
        }
        assert "begun" not in relations
        assert relations["signed"] == "begun"
        drawn = synthesis.sample(rng=0)
        assert share_first(drawn) == pytest.approx(share_first(rows), abs=0.1)
        last = np.array(drawn["ends"].to_pylist(), dtype="datetime64[D]") + 1
        assert np.mean(last == last.astype("datetime64[M]")) > 0.9
