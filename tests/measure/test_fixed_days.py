"""Ages on the day of an export: what is asked of which days, what it shows, and what rows then say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave import Unit
from margrave.measure.discovery.between.fixed_days import (
    LENGTHS,
    MOST_ASKED,
    MOST_NUMBERS,
    FixedDay,
    choose_days,
    find_fixed_days,
)
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.run.synthesizer import DISCOVERY
from margrave.schema.calendar import DAY_UNITS, Instant, count_units
from margrave.schema.constraints.rules import Age

DAY = np.datetime64("2024-06-30")


def told(days: np.ndarray, unit: str, day: np.datetime64 = DAY) -> np.ndarray:
    """The whole units from days to a fixed one."""
    until = Instant.of(np.array([day.astype(int)]), clock=False)
    return np.asarray(
        count_units(Instant.of(days.astype(np.int64), clock=False), until, unit, np.floor_divide)
    )


def people(rows: int, seed: int = 0) -> pa.Table:
    """Dates of birth and of joining, what they are in years, months and days on a day, and a score."""
    rng = np.random.default_rng(seed)
    born = DAY.astype(int) - rng.integers(18 * 365, 95 * 365, rows)
    joined = DAY.astype(int) - rng.integers(0, 2_500, rows)
    return pa.table(
        {
            "born": born.astype("datetime64[D]"),
            "joined": joined.astype("datetime64[D]"),
            "age": told(born, "years"),
            "months": told(joined, "months"),
            "days": told(joined, "days"),
            "score": rng.integers(18, 95, rows),
        }
    )


def fit(table: pa.Table, epsilon: float = 3.0, seed: int = 0, **options: object) -> mg.Synthesis:
    synthesizer = mg.Synthesizer("independent", epsilon=epsilon, not_private_test_seed=seed, **options)  # type: ignore[arg-type]
    return synthesizer.fit(table)


def test_the_day_of_an_export_is_found_and_rows_agree() -> None:
    for seed in (0, 2):
        synthesis = fit(people(20_000), seed=seed)
        found = {rule.number: rule for rule in synthesis.schema.rules if isinstance(rule, Age)}
        assert (found["age"].date, found["age"].unit) == ("born", "years")
        assert (found["months"].date, found["months"].unit) == ("joined", "months")
        # The last of a half year, or a day off: the first of the next one is as round.
        days = {found[name].day for name in ("age", "months")}
        assert days <= {"2024-06-29", "2024-06-30", "2024-07-01"}
        assert all(rule.found is not None and rule.found[0] > 0.85 for rule in found.values())
        made = synthesis.sample_arrow(5_000, rng=np.random.default_rng(0))
        for name, date, unit in (("age", "born", "years"), ("months", "joined", "months")):
            days = made[date].to_numpy().astype("datetime64[D]").astype(int)
            assert (told(days, unit) == made[name].to_numpy()).mean() > 0.96


def test_numbers_and_dates_that_have_nothing_to_do_with_each_other_are_left_alone() -> None:
    table = people(20_000)
    rng = np.random.default_rng(1)
    for name in ("age", "months", "days"):
        mixed = table[name].take(pa.array(rng.permutation(20_000)))
        table = table.set_column(table.column_names.index(name), name, mixed)
    synthesis = fit(table)
    # Their quantiles fit, so that it is asked; but no day stands out.
    assert [event for event in synthesis.release.events if event.what.startswith("days that")]
    assert not [rule for rule in synthesis.schema.rules if isinstance(rule, Age)]


def test_the_look_is_one_release_within_its_share_and_owners_pay_for_all_rows() -> None:
    table = people(20_000).append_column("who", pa.array(np.arange(20_000) // 3))
    for unit, squared in ((Unit(), 1), (Unit("who", 3), 9)):
        synthesis = fit(table, 3.0, unit=unit)
        (event,) = (one for one in synthesis.release.events if one.what.startswith("days that"))
        assert isinstance(event, GaussianEvent)
        assert event.l2_squared % squared == 0
        assert 10 <= event.l2_squared / squared <= MOST_ASKED * MOST_NUMBERS
        assert 0 < float(event_rho(event)) <= synthesis.guarantee.rho * float(DISCOVERY) / 80


def test_nothing_is_asked_where_noise_would_hide_it() -> None:
    events = fit(people(300), 0.2).release.events
    assert not [event for event in events if event.what.startswith("days that")]


def asked(unit: str, middle: int, step: int, count: int) -> FixedDay:
    days = middle + step * (np.arange(count) - count // 2)
    return FixedDay("n", "d", unit, days.astype(np.int64), 0.0)


def agreeing(one: FixedDay, day: int, rows: float = 1_000.0) -> np.ndarray:
    return rows * np.maximum(1.0 - np.abs(one.days - day) / LENGTHS[one.unit], 0.0)


@pytest.mark.parametrize(("unit", "step"), [("years", 91), ("months", 8), ("weeks", 2), ("days", 1)])
@pytest.mark.parametrize("off", [0, 3, -17])
def test_counts_together_tell_the_day(unit: str, step: int, off: int) -> None:
    one = asked(unit, 19_800, step, 41)
    rules = choose_days(one, agreeing(one, 19_800 + off), 1.0)
    wanted = (np.datetime64("1970-01-01") + 19_800 + off).astype(str)
    assert [rule.day for rule in rules] == [wanted]
    assert rules[0].unit == unit


def test_of_days_as_likely_a_round_one_comes_first() -> None:
    # 2024-12-29, with noise that leaves the end of the year open.
    one = asked("years", 20_086, 91, 9)
    rules = choose_days(one, agreeing(one, 20_086), 20.0)
    assert [rule.day for rule in rules] == ["2024-12-31", "2024-12-29"]
    assert [rule.day for rule in choose_days(one, agreeing(one, 20_086), 0.5)] == ["2024-12-29"]
    assert choose_days(one, np.zeros(9), 20.0) == []
    assert choose_days(one, agreeing(one, 20_086, 60.0), 20.0) == []


def test_quantiles_say_which_units_and_days_are_open() -> None:
    rng = np.random.default_rng(0)
    days = DAY.astype(int) - rng.integers(0, 20_000, 2_000)
    for unit in DAY_UNITS:
        numbers = told(days, unit)[rng.permutation(2_000)].astype(float)
        (found,) = find_fixed_days([("n", numbers)], [("late", days + 9e4 * rng.random(2_000)), ("d", days)])
        assert (found.number, found.date, found.unit) == ("n", "d", unit)
        assert found.days[0] <= DAY.astype(int) <= found.days[-1]
        assert len(found.days) <= MOST_ASKED
    # Where late dates have large numbers, no day is left open.
    assert find_fixed_days([("n", np.arange(2_000.0))], [("d", np.arange(2_000.0))]) != []
    assert find_fixed_days([("n", rng.normal(40, 1, 2_000).round())], [("d", days.astype(float))]) == []
    assert find_fixed_days([("n", np.full(2_000, 7.0))], [("d", days.astype(float))]) == []
