"""The look at numbers that dates tell: what it asks, what it finds, and what it leaves alone."""

from __future__ import annotations

import calendar

import numpy as np
import pyarrow as pa
import pytest

from margrave import Schema, Synthesizer, Unit
from margrave.engines.opening import open_source
from margrave.measure.discovery.between.calendar import Calendar, _Dates, _list_gaps, choose_rules
from margrave.measure.discovery.between.named_parts import may_tell
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.run.synthesizer import DISCOVERY
from margrave.schema.columns import Boolean, Categorical, Date, Integer, Moment, Ordinal, Real, Relative
from margrave.schema.constraints.rules import CalendarRule, DatePart, Determines, Elapsed, Ordered, Within
from margrave.schema.schema import apply_rules
from margrave.schema.storage.clock import DAY
from margrave.schema.storage.clock_numbers import MINUTE

AGE = Elapsed("age", "born", "seen", "years")


def visits(rows: int, seed: int = 0) -> pa.Table:
    """A date of birth, a visit and its end, and what is said of them: ages, stays, months, hours, a score."""
    rng = np.random.default_rng(seed)
    born = np.datetime64("1930-01-01") + rng.integers(0, 29_000, rows)
    seen = np.datetime64("2019-01-01") + rng.integers(0, 1_400, rows)
    minutes = rng.integers(0, 24 * 60, rows)
    stay = rng.poisson(4.0, rows)
    months = [d.astype("datetime64[M]").astype(int) for d in (born, seen)]
    days = [
        (d - m.astype("datetime64[M]").astype("datetime64[D]")).astype(int)
        for d, m in zip((born, seen), months, strict=True)
    ]
    age = (months[1] - months[0] - (days[1] < days[0])) // 12
    return pa.table(
        {
            "born": born,
            "seen": seen,
            "rung": seen.astype("datetime64[m]").astype("datetime64[us]") + minutes.astype("timedelta64[m]"),
            "left": seen + stay,
            "age": age,
            "stay": stay,
            "month": months[1] % 12 + 1,
            "hour": minutes // 60,
            "score": rng.integers(0, 12, rows),
        }
    )


def fit(table: pa.Table, epsilon: float = 3.0, schema: Schema | None = None, **options: object) -> Schema:
    synthesizer = Synthesizer(
        "independent", epsilon=epsilon, schema=schema, not_private_test_seed=0, **options
    )  # type: ignore[arg-type]
    return synthesizer.fit(table).schema


def test_ages_stays_months_and_hours_are_found() -> None:
    schema = fit(visits(20_000))
    found = {rule.number: rule for rule in schema.rules if isinstance(rule, Elapsed | DatePart)}
    assert found.keys() == {"age", "stay", "month", "hour"}
    assert (found["age"].since, found["age"].until, found["age"].unit) == ("born", "seen", "years")
    assert (found["stay"].since, found["stay"].until, found["stay"].unit) == ("seen", "left", "days")
    assert (found["month"].part, found["hour"].part) == ("month", "hour")
    assert found["hour"].date == "rung"
    for rule in found.values():
        share, error = rule.share
        assert 0.9 < share <= 1.0
        assert 0.0 < error < 0.1


def test_rows_of_the_release_obey_what_was_found() -> None:
    synthesis = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(visits(20_000))
    made = synthesis.sample_arrow(5_000, rng=np.random.default_rng(0))
    seen, left, born = (made[name].to_numpy().astype("datetime64[D]") for name in ("seen", "left", "born"))
    assert ((left - seen).astype(int) == made["stay"].to_numpy()).mean() > 0.99
    assert (seen.astype("datetime64[M]").astype(int) % 12 + 1 == made["month"].to_numpy()).mean() > 0.99
    years = (seen - born).astype(int) / 365.2425
    assert (np.abs(years - made["age"].to_numpy() - 0.5) < 0.51).mean() > 0.99


WEEKDAYS = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
MONTHS = np.array([name.upper() for name in calendar.month_name[1:]])


def sales(rows: int, seed: int = 0) -> pa.Table:
    """A date, and in words its weekday, its month, its quarter and the quarter with the year; no number."""
    rng = np.random.default_rng(seed)
    sold = np.datetime64("2020-01-01") + rng.integers(0, 1_400, rows)
    months = sold.astype("datetime64[M]").astype(int)
    quarters = [f"Q{quarter}" for quarter in months % 12 // 3 + 1]
    years = 1970 + months // 12
    return pa.table(
        {
            "sold": sold,
            "weekday": WEEKDAYS[(sold.astype(int) + 3) % 7],
            "month": MONTHS[months % 12],
            "quarter": quarters,
            "period": [f"{year}-{quarter}" for year, quarter in zip(years, quarters, strict=True)],
            "shift": rng.choice(["early", "late", "night"], rows),
        }
    )


def share_of_names(made: pa.Table) -> list[float]:
    """The share of rows in which each of the texts of `sales` is what the date says."""
    sold = made["sold"].to_numpy().astype("datetime64[D]")
    months = sold.astype("datetime64[M]").astype(int)
    quarters = np.array([f"Q{quarter}" for quarter in months % 12 // 3 + 1])
    told = {
        "weekday": WEEKDAYS[(sold.astype(int) + 3) % 7],
        "month": MONTHS[months % 12],
        "quarter": quarters,
        "period": np.array([f"{y}-{q}" for y, q in zip(1970 + months // 12, quarters, strict=True)]),
    }
    return [float((np.array(made[name].to_pylist()) == texts).mean()) for name, texts in told.items()]


def test_names_of_weekdays_months_and_quarters_are_found_and_all_rows_obey() -> None:
    synthesis = Synthesizer("independent", epsilon=2.0, not_private_test_seed=0).fit(sales(20_000))
    found = {rule.number: rule for rule in synthesis.schema.rules if isinstance(rule, DatePart)}
    parts = {"weekday": "weekday", "month": "month", "quarter": "quarter", "period": "year_quarter"}
    assert {name: rule.part for name, rule in found.items()} == parts
    assert dict(found["month"].pairs) == {name: place for place, name in enumerate(MONTHS.tolist(), 1)}
    assert all(rule.share is not None for rule in found.values())
    made = synthesis.sample_arrow(5_000, rng=np.random.default_rng(0))
    assert share_of_names(made) == [1.0] * 4
    # No more was asked than four texts and one date leave open.
    (event,) = (event for event in synthesis.release.events if event.what.startswith("times"))
    assert event.what == "times told by 4 rules"


def test_names_that_have_nothing_to_do_with_the_date_are_not_found() -> None:
    table, rng = sales(20_000), np.random.default_rng(1)
    for name in ("weekday", "month", "quarter", "period"):
        mixed = table[name].take(pa.array(rng.permutation(20_000)))
        table = table.set_column(table.column_names.index(name), name, mixed)
    assert not [rule for rule in fit(table).rules if isinstance(rule, DatePart)]


def test_texts_that_declared_rules_speak_of_and_public_ones_are_left_alone() -> None:
    table = sales(20_000)
    schema = Schema(
        (Categorical(name="month"), Categorical(name="quarter")), (Determines("quarter", "month"),)
    )
    found = {rule.number for rule in fit(table, schema=schema).rules if isinstance(rule, DatePart)}
    assert found == {"weekday", "period"}
    source = open_source(table)[0]
    known = Schema(fit(table).columns)
    fixed = Calendar(source, None, 20_000.0, ("weekday", "month"))  # type: ignore[arg-type]
    assert {rule.number for rule in fixed.find_candidates(known)} == {"quarter", "period"}


def test_nothing_is_found_where_nothing_is() -> None:
    rng = np.random.default_rng(1)
    table = visits(20_000)
    for name in ("age", "stay", "month", "hour"):
        table = table.set_column(
            table.column_names.index(name), name, table[name].take(pa.array(rng.permutation(20_000)))
        )
    assert not [rule for rule in fit(table).rules if isinstance(rule, Elapsed | DatePart)]


def test_the_look_is_one_release_within_its_share() -> None:
    synthesis = Synthesizer("independent", epsilon=1.0, delta=1e-6, not_private_test_seed=0).fit(
        visits(20_000)
    )
    (event,) = (event for event in synthesis.release.events if event.what.startswith("times told by"))
    asked = int(event.what.split()[3])
    assert asked > 4  # some that do not hold were asked as well
    assert isinstance(event, GaussianEvent)
    assert event.l2_squared == asked
    assert 0 < float(event_rho(event)) <= synthesis.guarantee.rho * float(DISCOVERY) / 40


@pytest.mark.parametrize("rows", [30, 300])
def test_nothing_is_asked_where_noise_would_hide_it(rows: int) -> None:
    synthesis = Synthesizer("independent", epsilon=0.1, not_private_test_seed=0).fit(visits(rows))
    assert not [event for event in synthesis.release.events if event.what.startswith("times")]


def test_owners_rows_are_paid_for() -> None:
    table = visits(20_000).append_column("who", pa.array(np.arange(20_000) // 3))
    options = {"unit": Unit("who", 3)}
    synthesis = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0, **options).fit(table)
    (event,) = (event for event in synthesis.release.events if event.what.startswith("times"))
    asked = int(event.what.split()[3])
    assert isinstance(event, GaussianEvent)
    assert event.l2_squared == 9 * asked


KNOWN = {"missing": False, "bins": 4}


@pytest.mark.parametrize(
    ("columns", "able"),
    [
        ((Date(name="d"), Integer(name="n")), True),
        ((Date(name="d"), Real(name="n")), True),
        ((Date(name="d"), Categorical(name="n")), True),
        ((Date(name="d"), Ordinal(name="n", values=("Mon", "Tue", "Wed"))), True),
        ((Date(name="d"), Categorical(name="n", values=("a", "b", "c"))), False),
        ((Date(name="d"), Categorical(name="n", values=("Mon", "Tue", "c"))), False),
        ((Date(name="d"), Boolean(name="n")), False),
        ((Integer(name="d"), Categorical(name="n")), False),
        ((Integer(name="d"), Integer(name="n")), False),
        ((Date(name="d"), Moment(name="n")), False),
    ],
)
def test_kinds_say_whether_there_is_anything_to_look_for(columns: tuple[object, ...], able: bool) -> None:
    assert may_tell(columns, ()) == able  # type: ignore[arg-type]
    assert not may_tell(columns, ("n", "d"))  # type: ignore[arg-type]


def test_a_number_that_rules_speak_of_is_left_alone() -> None:
    schema = Schema(
        (Integer(name="age"), Integer(name="score"), Date(name="seen"), Date(name="born"), Date(name="left")),
        (Ordered("score", "age"),),
    )
    found = {rule.number for rule in fit(visits(20_000), schema=schema).rules if isinstance(rule, Elapsed)}
    assert found == {"stay"}
    declared = Schema((Date(name="seen"), Date(name="born"), Integer(name="age")), (AGE,))
    rules = [rule for rule in fit(visits(20_000), schema=declared).rules if rule.names[-1] == "age"]
    assert rules == [AGE]


def test_public_columns_are_left_alone() -> None:
    table = visits(20_000)
    options = {"adjacency": "replace_private", "public": ["born"]}
    synthesis = Synthesizer("auto", epsilon=3.0, not_private_test_seed=0, **options).fit(table)  # type: ignore[arg-type]
    spoken = {name for rule in synthesis.schema.rules for name in rule.names}
    assert "stay" in spoken
    assert "born" not in spoken


RULES = [
    Elapsed("stay", "rung", "left"),
    Elapsed("stay", "seen", "left"),
    Elapsed("stay", "born", "left", "years"),
]


def place(rule: CalendarRule) -> tuple[float, ...]:
    """Moments last."""
    return (float("rung" in rule.dates),)


def pick(*agreed: float, differ: float = 0.0, sigma: float = 10.0, commonest: float = 0.0) -> list[str]:
    noisy = np.array([[float(one), 1000.0 - one + differ, 0.0] for one in agreed])
    found = choose_rules(RULES[: len(agreed)], noisy, sigma, place, {"stay": commonest})
    return [rule.words for rule in found]


def test_of_rules_as_good_dates_come_first() -> None:
    assert pick(1000, 980) == ["stay is the days from seen to left"]
    assert pick(1000, 960) == ["stay is the days from rung to left"]
    assert pick(985, 10, 1000) == ["stay is the years from born to left"]


def test_a_rule_has_to_hold_in_nearly_all_rows_and_beyond_the_noise() -> None:
    assert pick(905) != []
    assert pick(880) == []
    assert pick(1000, sigma=150.0) != []
    assert pick(1000, sigma=200.0) == []
    # What is told of the share is between 0 and 1, whatever noise does.
    noisy = np.array([[1100.0, -80.0, 0.0]])
    (found,) = choose_rules(RULES[:1], noisy, 30.0, place, {})
    assert found.found == (1.0, 0.0294)


def test_a_number_that_is_mostly_the_same_needs_more_than_dates_that_say_that_value_throughout() -> None:
    assert pick(940, commonest=0.94) == []
    assert pick(970, commonest=0.94, sigma=20.0) == []
    assert pick(985, commonest=0.94) != []
    assert pick(940, commonest=0.8) != []


def fires(rows: int) -> pa.Table:
    """Calls, and arrivals and ends in minutes and hours after them; few are hurt."""
    rng = np.random.default_rng(0)
    call = 1_700_000_000 + rng.integers(0, 365 * 86_400, rows)
    sent = call + rng.gamma(2.0, 25.0, rows).astype(np.int64) + 3
    came = sent + rng.gamma(4.0, 75.0, rows).astype(np.int64) + 40
    left = came + rng.gamma(1.3, 1500.0, rows).astype(np.int64) + 60
    times = {"call": call, "sent": sent, "came": came, "left": left}
    moments = {name: (own * 1_000_000).astype("datetime64[us]") for name, own in times.items()}
    hurt = rng.choice(4, rows, p=[0.94, 0.045, 0.01, 0.005])
    return pa.table({**moments, "hour": call // 3600 % 24, "response": came - call, "hurt": hurt})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_times_between_dates_that_one_codes_are_asked_and_years_between_them_are_not(seed: int) -> None:
    synthesis = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=seed)
    rules = [one for one in synthesis.fit(fires(10_000)).schema.rules if isinstance(one, CalendarRule)]
    told = {rule.number: rule for rule in rules}
    assert set(told) == {"hour", "response"}
    response = told["response"]
    assert isinstance(response, Elapsed)
    assert (response.since, response.until, response.unit) == ("call", "came", "seconds")


def test_times_between_two_dates_add_up_along_the_columns_that_code_one_another() -> None:
    own = {"edges": (19_000, 19_400, 19_800), "weights": (500.0, 500.0), "missing": False}
    columns = [Date(name="a", **own)]
    for name, base, days in (("b", "a", 10), ("c", "b", 20), ("d", "a", 50)):
        part = Integer(name=name, edges=(days, days + 1), weights=(1000.0,), missing=False)
        columns.append(
            Relative(
                name=name, base=base, base_read="date", own=Date(name=name, **own), part=part, missing=False
            )
        )
    schema = Schema(tuple(columns))
    dates = [_Dates.of(column, np.random.default_rng(0)) for column in schema.columns]
    gaps = _list_gaps(schema, [one for one in dates if one is not None])
    days = {(since, until): set(told.tolist()) for since, until, unit, told in gaps if unit == "days"}
    ahead = {("a", "b"): 10, ("b", "c"): 20, ("a", "c"): 30, ("a", "d"): 50, ("b", "d"): 40, ("c", "d"): 20}
    assert {pair: days[pair] for pair in ahead} == {pair: {told} for pair, told in ahead.items()}


def test_a_rule_whose_column_turns_out_to_be_of_another_kind_is_left_out() -> None:
    columns = (
        Date(name="born", lower="1930-01-01", upper="2000-01-01", **KNOWN),
        Date(name="seen", lower="2019-01-01", upper="2020-01-01", **KNOWN),
        Categorical(name="age", values=("old", "young"), missing=False),
    )
    assert apply_rules(columns, (AGE,), ["age"]).rules == ()
    within = Within("born", "age", {"old": (None, "1970-01-01")})
    assert apply_rules(columns, (AGE, within), ["age"]).rules == (within,)


def test_candidates_come_nearest_first_and_fit_the_storage() -> None:
    table = visits(4_000)
    schema = fit(table)
    source = open_source(table)[0]
    plain = Schema(schema.columns)
    found = Calendar(source, None, 4_000.0).find_candidates(plain)  # type: ignore[arg-type]
    words = [rule.words for rule in found]
    assert "age is the years from born to seen" in words
    assert "age is the days from born to seen" not in words
    assert "stay is the days from seen to left" in words
    assert not [
        rule for rule in found if isinstance(rule, DatePart) and rule.part == "hour" and rule.date != "rung"
    ]
    none = Calendar(source, None, 4_000.0, ("born", "seen", "rung", "left"))  # type: ignore[arg-type]
    assert none.find_candidates(plain) == []


def list_times(schema: Schema, table: pa.Table) -> set[tuple[str, str, str]]:
    """Which times a stay may be, by released bins alone."""
    calendar = Calendar(open_source(table)[0], None, 4_000.0)  # type: ignore[arg-type]
    found = [rule for rule in calendar.find_candidates(schema) if isinstance(rule, Elapsed)]
    return {(rule.since, rule.until, rule.unit) for rule in found if rule.number == "stay"}


def test_no_time_is_asked_for_backwards_or_in_units_shorter_than_both() -> None:
    """Of time stamps at midnight, whose days noise spreads over years."""
    days = {"edges": (0, 365 * DAY, 3_650 * DAY), "fine": (0, 365 * DAY, 3_650 * DAY), "weights": (1.0, 1.0)}
    stay = Integer(name="stay", edges=(0, 5, 30), fine=(0, 5, 30), weights=(1.0, 1.0), missing=False)
    dates = [Moment(name=name, grids=((DAY, 1.0),), missing=False, **days) for name in ("first", "last")]
    table = pa.table({"first": [0], "last": [0], "stay": [0]})
    table = table.set_column(0, "first", table["first"].cast(pa.timestamp("us")))
    table = table.set_column(1, "last", table["last"].cast(pa.timestamp("us")))
    asked = list_times(Schema((*dates, stay)), table)
    assert ("first", "last", "days") in asked
    assert ("last", "first", "days") in asked
    assert not {"hours", "minutes", "seconds"} & {unit for _, _, unit in asked}
    ordered = list_times(Schema((*dates, stay), (Ordered("first", "last", share=(1.0, 0.01)),)), table)
    assert ("first", "last", "days") in ordered
    assert not [one for one in ordered if one[0] == "last"]
    # Of moments of any minute hours and minutes may be told as well; of a few that are off nothing follows.
    loose = [dates[0], Moment(name="last", grids=((MINUTE, 1.0),), missing=False, **days)]
    assert {"hours", "minutes"} <= {unit for _, _, unit in list_times(Schema((*loose, stay)), table)}
    nearly = [Moment(name=one.name, grids=((DAY, 0.95), (1e6, 0.05)), missing=False, **days) for one in dates]
    assert list_times(Schema((*nearly, stay)), table) == asked


def test_what_is_released_of_a_difference_says_which_times_there_are() -> None:
    """A discharge that is coded by the admission: its stays are known, and no other time is like them."""
    first = Date(name="first", edges=(0, 3_650), fine=(0, 3_650), weights=(1.0,), missing=False)
    own = Date(name="last", edges=(0, 3_650), fine=(0, 3_650), weights=(1.0,), missing=False)
    part = Integer(
        name="last", edges=(0, 5, 30), fine=tuple(range(31)), weights=(1.0,) * 5 + (0.1,) * 25, missing=False
    )
    last = Relative(name="last", base="first", own=own, part=part, base_read="date", missing=False)
    table = pa.table({"first": [0], "last": [0], "stay": [0]})
    table = table.set_column(0, "first", table["first"].cast(pa.int32()).cast(pa.date32()))
    table = table.set_column(1, "last", table["last"].cast(pa.int32()).cast(pa.date32()))
    stay = Integer(name="stay", edges=(0, 5, 30), fine=tuple(range(31)), weights=part.weights, missing=False)
    assert list_times(Schema((first, last, stay)), table) == {("first", "last", "days")}
    other = Integer(name="stay", edges=(90, 95), fine=tuple(range(90, 96)), weights=(1.0,) * 5, missing=False)
    assert list_times(Schema((first, last, other)), table) == set()


def test_no_less_noise_is_bought_than_is_needed() -> None:
    synthesis = Synthesizer("independent", epsilon=20.0, not_private_test_seed=0).fit(visits(20_000))
    (event,) = (event for event in synthesis.release.events if event.what.startswith("times told by"))
    assert float(event_rho(event)) < synthesis.guarantee.rho * float(DISCOVERY) / 400
