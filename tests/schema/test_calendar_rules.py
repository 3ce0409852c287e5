"""Rows under rules about the calendar: numbers say what dates do, and most of both stay in their bins."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import SchemaError
from margrave.schema.calendar import Instant, find_range
from margrave.schema.columns import Categorical, Date, Integer, Moment, Real, Relative
from margrave.schema.columns.base import Column
from margrave.schema.constraints.rules import Age, DatePart, Elapsed, Ordered, Rule, rule_from_json
from margrave.schema.describe import describe_rule
from margrave.schema.encode import decode, encode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY

BORN = Date(name="born", lower="1920-01-01", upper="2019-12-31", bins=20, missing=True)
SEEN = Date(name="seen", lower="2020-01-01", upper="2021-12-31", bins=8, missing=False)
AGE = Integer(name="age", lower=0, upper=105, bins=21, missing=True)
AGE_RULE = Elapsed("age", since="born", until="seen", unit="years")


WORDS = "1. age is the years from born to seen: synthetic rows"
"""What `evaluate` calls the count of synthetic rows that break the rule."""


def encoded_of(schema: Schema, rows: int, seed: int = 0) -> Encoded:
    """Rows whose codes are drawn evenly, column by column."""
    rng = np.random.default_rng(seed)
    codes = [
        rng.integers(0, column.size, rows).astype(code_dtype(column.size)) for column in schema.attributes
    ]
    return Encoded(schema.domain, tuple(codes))


def drawn(schema: Schema, encoded: Encoded, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Numbers by column, NaN where missing: days, microseconds or as they are."""
    table = decode(encoded, schema, np.random.default_rng(1), known=known or {})
    found = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pa.types.is_temporal(column.type):
            column = (
                column.cast(pa.date32()).cast(pa.int32())
                if pa.types.is_date(column.type)
                else column.cast(pa.timestamp("us")).cast(pa.int64())
            )
        found[name] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def ages(table: dict[str, Any]) -> np.ndarray:
    """Whole years from birth, NaN where that is missing."""
    there = ~np.isnan(table["born"])
    ends = [
        Instant.of(np.where(there, table[name], 0).astype(np.int64), clock=False) for name in ("born", "seen")
    ]
    return np.where(there, AGE_RULE.tell_number(ends), np.nan)


def in_own_bin(column: Any, numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    there = codes < column.present
    place = np.searchsorted(column.edge_array, numbers, side="right") - 1
    return (place == codes) | ~there


def test_an_age_and_a_date_of_birth_agree_in_every_row() -> None:
    schema = Schema((BORN, SEEN, AGE), (AGE_RULE,))
    encoded = encoded_of(schema, 20_000)
    table = drawn(schema, encoded)
    both = ~np.isnan(table["born"]) & ~np.isnan(table["age"])
    assert 0.8 < both.mean() < 0.95  # missing values stay missing
    assert (ages(table) == table["age"])[both].all()
    # Codes were drawn apart from each other: the age stays where it was, and the date of birth moves.
    assert in_own_bin(AGE, table["age"], encoded.column("age").astype(int))[both].mean() > 0.95
    moved = ~in_own_bin(BORN, table["born"], encoded.column("born").astype(int))
    assert 0.5 < moved[both].mean() < 0.98
    assert not moved[~both].any()
    assert in_own_bin(SEEN, table["seen"], encoded.column("seen").astype(int)).all()


def test_an_age_and_a_month_of_birth_agree_in_every_row() -> None:
    """A birth is the first day of a month, and so is one that had to move."""
    born = dataclasses.replace(BORN, format="%Y-%m")
    schema = Schema((born, SEEN, AGE), rules=(AGE_RULE,))
    table = decode(
        encoded_of(schema, 4_000), schema, np.random.default_rng(1), Frame("arrow", {"born": "large_string"})
    )
    texts = table.column("born").to_pylist()
    assert all(text is None or len(text) == 7 for text in texts)
    seen = [(day.year, day.month) for day in table.column("seen").to_pylist()]
    pairs = zip(texts, seen, table.column("age").to_pylist(), strict=True)
    held = [(text, at, age) for text, at, age in pairs if text is not None and age is not None]
    assert len(held) > 3_000
    # On any day of a month the first of it is over.
    told = [at[0] - int(text[:4]) - (at[1] < int(text[5:])) for text, at, _ in held]
    assert told == [age for _, _, age in held]


def test_a_date_stays_in_its_bin_where_that_has_one() -> None:
    schema = Schema((BORN, SEEN, AGE), (AGE_RULE,))
    born, seen = np.arange(10, 20), np.zeros(10, dtype=int)
    years = 2020 - (1920 + 5 * born + 2)  # the middle of each bin of five years
    codes = {"born": born, "seen": seen, "age": np.searchsorted(AGE.edge_array, years, side="right") - 1}
    arrays = tuple(codes[name].astype(np.uint8) for name in ("born", "seen", "age"))
    encoded = Encoded(schema.domain, arrays)
    table = drawn(schema, encoded)
    assert (ages(table) == table["age"]).all()
    assert in_own_bin(BORN, table["born"], born).all()


def test_a_date_that_others_hang_on_stays_and_the_number_follows() -> None:
    own = Date(name="left", lower="2020-01-01", upper="2022-12-31", missing=False)
    part = Integer(name="left", lower=0, upper=19, missing=False, bins=20)
    left = Relative(name="left", base="seen", base_read="date", own=own, part=part, missing=False)
    stay = Integer(name="stay", lower=0, upper=30, bins=31, missing=False)
    told = Integer(name="told", lower=0, upper=30, bins=31, missing=False)
    rules = (Elapsed("stay", "seen", "left"), Elapsed("told", "seen", "left"))
    schema = Schema((SEEN, left, stay, told), rules)
    encoded = encoded_of(schema, 5_000)
    table = drawn(schema, encoded)
    # Two rules speak of both dates, so neither may move.
    between = table["left"] - table["seen"]
    assert (between == encoded.column("left")).all()
    assert (between == table["stay"]).all()
    assert (between == table["told"]).all()
    # With one rule it is the relative date that moves, as far as its bins go.
    schema = Schema((SEEN, left, stay), rules[:1])
    encoded = encoded_of(schema, 5_000)
    table = drawn(schema, encoded)
    between = table["left"] - table["seen"]
    assert (between == table["stay"]).all()
    assert (table["stay"] == encoded.column("stay"))[encoded.column("stay") < 20].all()
    assert in_own_bin(SEEN, table["seen"], encoded.column("seen").astype(int)).all()


def test_given_values_stay() -> None:
    schema = Schema((BORN, SEEN, AGE), (AGE_RULE,))
    encoded = encoded_of(schema, 2_000)
    given = {"age": np.where(np.arange(2_000) % 2, 40.0, np.nan)}
    table = drawn(schema, encoded, given)
    asked = (np.arange(2_000) % 2 == 1) & (encoded.column("age") < AGE.present)
    assert (table["age"][asked] == 40.0).all()
    there = asked & ~np.isnan(table["born"])
    assert (ages(table)[there] == 40.0).all()
    days = {"born": np.full(2_000, 7_300.0)}  # 1989-12-27
    table = drawn(schema, encoded, days)
    there = ~np.isnan(table["age"]) & ~np.isnan(table["born"])
    assert (table["born"][there] == 7_300.0).all()
    assert (ages(table)[there] == table["age"][there]).all()


SOLD = Date(
    name="sold", lower="2018-01-01", upper="2021-12-31", bins=8, missing=False,
    weekdays=(1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0),
)  # fmt: skip
YEAR = Integer(name="year", lower=2018, upper=2021, bins=4, missing=False)
MONTH = Integer(name="month", lower=1, upper=12, bins=12, missing=True)
WEEKDAY = Integer(name="weekday", lower=1, upper=7, bins=7, missing=False)


def parts_of(days: np.ndarray) -> dict[str, np.ndarray]:
    dates = days.astype("datetime64[D]")
    return {
        "year": dates.astype("datetime64[Y]").astype(int) + 1970,
        "month": dates.astype("datetime64[M]").astype(int) % 12 + 1,
        "weekday": (days.astype(int) + 3) % 7 + 1,
    }


def test_parts_of_a_date_agree_and_the_date_follows_them_inside_its_bin() -> None:
    rules = tuple(DatePart(name, "sold", name) for name in ("year", "month", "weekday"))
    schema = Schema((SOLD, YEAR, MONTH, WEEKDAY), rules)
    encoded = encoded_of(schema, 20_000)
    table = drawn(schema, encoded)
    there = ~np.isnan(table["month"])
    for name, told in parts_of(table["sold"]).items():
        rows = there if name == "month" else slice(None)
        assert (told == table[name])[rows].all()
    assert in_own_bin(SOLD, table["sold"], encoded.column("sold").astype(int)).all()
    # Where year and month fit the half year of the bin, every weekday can be had, even one without weight.
    half = encoded.column("sold").astype(int)
    fits = (encoded.column("year") == half // 2) & (encoded.column("month") // 6 == half % 2)
    assert fits.sum() > 1000
    kept = table["weekday"] == encoded.column("weekday") + 1
    assert kept[fits].mean() > 0.97  # bins of equal width end some days before or after June
    # Where the month is missing any of the year will do.
    fits = (encoded.column("year") == half // 2) & (encoded.column("month") == 12)
    assert kept[fits].all()


def test_the_hour_of_a_moment() -> None:
    moment = Moment(
        name="at", lower="2020-01-01", upper="2020-12-31", bins=4, missing=False,
        grids=((60_000_000.0, 1.0),),
    )  # fmt: skip
    hour = Integer(name="hour", lower=0, upper=23, bins=24, missing=False)
    day = Integer(name="weekday", lower=1, upper=7, bins=7, missing=False)
    schema = Schema(
        (moment, hour, day), (DatePart("hour", "at", "hour"), DatePart("weekday", "at", "weekday"))
    )
    encoded = encoded_of(schema, 5_000)
    table = drawn(schema, encoded)
    ticks = table["at"].astype(np.int64)
    assert (ticks % DAY // (DAY // 24) == encoded.column("hour")).all()
    assert (parts_of(ticks // DAY)["weekday"] - 1 == encoded.column("weekday")).all()
    assert (ticks % 60_000_000 == 0).all()  # whole minutes stay whole
    assert len(np.unique(ticks // 60_000_000 % 60)) == 60


def test_dates_are_drawn_by_the_weight_of_the_days_that_agree() -> None:
    column = Date(
        name="sold", edges=(18_262, 18_262 + 84), fine=tuple(range(18_262, 18_262 + 85, 28)),
        weights=(6.0, 0.0, 2.0), missing=False,
    )  # fmt: skip
    schema = Schema((column, WEEKDAY), (DatePart("weekday", "sold", "weekday"),))
    rows = 8_000
    encoded = Encoded(schema.domain, (np.zeros(rows, np.uint8), np.full(rows, 2, np.uint8)))
    table = drawn(schema, encoded)
    assert (table["weekday"] == 3).all()
    cells = np.bincount(((table["sold"] - 18_262) // 28).astype(int), minlength=3) / rows
    assert cells == pytest.approx([0.75, 0.0, 0.25], abs=0.03)


def test_numbers_that_other_rules_speak_of_stay() -> None:
    most = Integer(name="most", lower=0, upper=105, bins=21, missing=False)
    age = dataclasses.replace(AGE, missing=False)
    schema = Schema((BORN, SEEN, age, most), (AGE_RULE, Ordered("age", "most")))
    encoded = encoded_of(schema, 3_000)
    allowed = encoded.column("age") < encoded.column("most")
    rows = Encoded(schema.domain, tuple(codes[allowed] for codes in encoded.columns))
    table = drawn(schema, rows)
    assert (table["age"] <= table["most"]).all()
    assert in_own_bin(age, table["age"], rows.column("age").astype(int)).all()
    there = ~np.isnan(table["born"])
    assert (ages(table) == table["age"])[there].mean() > 0.95


def test_models_know_nothing_of_such_rules() -> None:
    assert Schema((BORN, SEEN, AGE), (AGE_RULE,)).domain == Schema((BORN, SEEN, AGE)).domain
    assert Schema((BORN, SEEN, AGE), (AGE_RULE,)).code_rules is None


def rules_of(found: mg.Comparison) -> list[mg.Score]:
    """The score of the rule."""
    return [score for score in found.scores if WORDS in score.parts]


def test_a_declared_rule_holds_in_a_release() -> None:
    rng = np.random.default_rng(0)
    born = np.datetime64("1930-01-01") + rng.integers(0, 30_000, 4_000)
    seen = np.datetime64("2020-01-01") + rng.integers(0, 700, 4_000)
    age = np.array([(s - b).astype(int) for s, b in zip(seen, born, strict=True)]) / 365.2425
    table = pa.table({"born": born, "seen": seen, "age": age.astype(int), "sex": rng.integers(0, 2, 4_000)})
    schema = Schema((Date(name="born"), Date(name="seen"), Integer(name="age")), (AGE_RULE,))
    synthesis = mg.Synthesizer("independent", epsilon=1.0, schema=schema, not_private_test_seed=0).fit(table)
    assert [event for event in synthesis.release.events if event.what.startswith("times")] == []
    made = synthesis.sample_arrow(2_000, rng=np.random.default_rng(0))
    (score,) = rules_of(mg.evaluate(table, made, schema=schema, metrics=["rules"]))
    assert score.value <= 0.001  # what dates say may be outside the range of the ages


def test_rows_that_break_such_a_rule_are_counted() -> None:
    day = np.datetime64("2020-06-15")
    real = pa.table({"born": np.array([day - 3700, day - 20]), "seen": np.array([day, day]), "age": [10, 0]})
    made = pa.table({"born": np.array([day - 3700, day - 20]), "seen": np.array([day, day]), "age": [9, 0]})
    schema = Schema((BORN, SEEN, AGE), (AGE_RULE,))
    (score,) = rules_of(mg.evaluate(real, made, schema=schema, metrics=["rules"]))
    assert score.value == 0.5
    assert score.parts[WORDS] == 1.0


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda: Elapsed("age", "born", "born"), "distinct names"),
        (lambda: Elapsed("age", "born", "seen", "fortnights"), "unit"),
        (lambda: DatePart("age", "born", "century"), "part"),
        (lambda: Age("age", "born", "2024-02-30"), "a date"),
        (lambda: Age("age", "born", 2024), "a date"),
        (lambda: Age("age", "born", "2024-02-29", "hours"), "unit"),
        (lambda: Age("born", "born", "2024-02-29"), "distinct names"),
    ],
)
def test_what_makes_no_sense_is_refused(rule: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        rule()


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ((BORN, SEEN, AGE), Elapsed("born", "seen", "age")),
        ((BORN, SEEN, AGE), DatePart("age", "born", "hour")),
        ((BORN, SEEN, AGE), DatePart("seen", "born", "year")),
        ((BORN, SEEN, AGE), Age("seen", "born", "2024-02-29")),
        ((BORN, SEEN, AGE), Age("born", "age", "2024-02-29")),
        ((BORN, AGE, Real(name="seen", lower=0, upper=1, missing=False)), AGE_RULE),
        ((BORN, SEEN, Categorical(name="age", values=("1", "2"), missing=False)), AGE_RULE),
    ],
)
def test_rules_about_other_kinds_are_refused(columns: tuple[Column, ...], rule: Rule) -> None:
    with pytest.raises(SchemaError, match=r"numbers|dates|moments"):
        Schema(columns, (rule,))


def test_rules_are_kept_in_json_and_told_in_words() -> None:
    old = Age("age", "seen", "2025-06-30", "months")
    rules = (AGE_RULE, DatePart("year", "seen", "year", share=(0.98, 0.01)), old)
    schema = Schema((BORN, SEEN, AGE, YEAR), rules)
    assert Schema.from_json(schema.to_json()).rules == rules
    assert rule_from_json({"kind": "elapsed", "number": "a", "since": "b", "until": "c"}).unit == "days"
    assert describe_rule(rules[0]) == "age is the years from born to seen"
    assert describe_rule(old) == "age is the months from seen to 2025-06-30"
    assert rule_from_json({"kind": "age", "number": "a", "date": "b", "day": "2025-06-30"}).unit == "years"
    assert describe_rule(rules[1]) == (
        "year is the year of seen in 98.0% (± 1.0%) of the rows, found and not promised"
    )


def test_an_age_on_a_fixed_day_agrees_and_the_date_follows_where_it_can() -> None:
    schema = Schema((BORN, AGE), (Age("age", "born", "2024-06-30"),))
    encoded = encoded_of(schema, 20_000)
    table = drawn(schema, encoded)
    both = ~np.isnan(table["born"]) & ~np.isnan(table["age"])
    fixed = {"born": table["born"], "seen": np.full(20_000, np.datetime64("2024-06-30").astype(float))}
    assert (ages(fixed) == table["age"])[both].all()
    # Codes were drawn apart from each other: the date keeps its bin, and the number is what it says.
    assert in_own_bin(BORN, table["born"], encoded.column("born").astype(int)).all()


def test_a_date_follows_an_age_that_other_columns_are_coded_by() -> None:
    limit = Integer(name="limit", lower=0, upper=220, bins=4, missing=False)
    part = Integer(name="limit", lower=0, upper=9, bins=2, missing=False)
    coded = Relative(name="limit", base="age", base_read="number", own=limit, part=part, missing=False)
    schema = Schema((BORN, AGE, coded), (Age("age", "born", "2024-06-30"),))
    encoded = encoded_of(schema, 5_000)
    table = drawn(schema, encoded)
    both = ~np.isnan(table["born"]) & ~np.isnan(table["age"])
    fixed = {"born": table["born"], "seen": np.full(5_000, np.datetime64("2024-06-30").astype(float))}
    assert (ages(fixed) == table["age"])[both].mean() > 0.5
    assert in_own_bin(AGE, table["age"], encoded.column("age").astype(int))[both].all()


def test_codes_are_those_of_the_table() -> None:
    schema = Schema((BORN, SEEN, AGE), (AGE_RULE,))
    day = np.datetime64("2020-06-15")
    table = pa.table({"born": np.array([day - 3700]), "seen": np.array([day]), "age": [50]})
    assert encode(table, schema).column("age").tolist() == [10]  # rows that break the rule count as they are


def chain() -> Schema:
    """A stay whose end follows from a treatment, and a bill and a call that follow from the end."""
    plain: dict[str, Any] = {"lower": "2020-01-01", "upper": "2022-12-31", "missing": False}
    columns: list[Column] = [SEEN]
    for name, base, most in (("treated", "seen", 3), ("left", "treated", 30), ("billed", "left", 9)):
        part = Integer(name=name, lower=0, upper=most, bins=most + 1, missing=False)
        own = Date(name=name, **plain)
        columns.append(Relative(name=name, base=base, base_read="date", own=own, part=part, missing=False))
    part = Integer(name="called", lower=0, upper=DAY - 1, bins=4, missing=False)
    own_moment = Moment(name="called", lower="2020-01-01", upper="2022-12-31", missing=False)
    columns.append(
        Relative(name="called", base="left", base_read="date", own=own_moment, part=part, missing=False)
    )
    columns.append(Integer(name="stay", lower=0, upper=30, bins=31, missing=False))
    return Schema(tuple(columns), (Elapsed("stay", "seen", "left"),))


def test_what_hangs_on_a_date_moves_along_and_what_that_hangs_on_stays() -> None:
    schema = chain()
    encoded = encoded_of(schema, 5_000)
    table = drawn(schema, encoded)
    between = table["left"] - table["seen"]
    assert (between == table["stay"])[between <= 30].all()  # no stay is longer than its column's range
    assert (between == table["stay"]).mean() > 0.99
    assert (table["treated"] - table["seen"] == encoded.column("treated")).all()
    assert (table["left"] >= table["treated"]).all()
    assert (table["billed"] - table["left"] == encoded.column("billed")).all()
    assert (table["called"] // DAY == table["left"]).all()
    assert in_own_bin(SEEN, table["seen"], encoded.column("seen").astype(int)).all()
    # A stay shorter than the way to the treatment gives way; all others stay as they were drawn.
    fits = encoded.column("stay") >= encoded.column("treated")
    assert (table["stay"] == encoded.column("stay"))[fits].all()
    assert 0.9 < fits.mean() < 1.0


def test_a_date_that_the_other_one_hangs_on_does_not_move() -> None:
    own = Date(name="seen", lower="2020-01-01", upper="2022-12-31", missing=False)
    part = Integer(name="seen", lower=0, upper=9, bins=10, missing=False)
    seen = Relative(name="seen", base="born", base_read="date", own=own, part=part, missing=False)
    born = dataclasses.replace(BORN, missing=False)
    days = Integer(name="days", lower=0, upper=20, bins=21, missing=False)
    rules = (Elapsed("days", "born", "seen"), Ordered("days", "most"))
    most = Integer(name="most", lower=0, upper=20, bins=21, missing=False)
    schema = Schema((born, seen, days, most), rules)
    encoded = encoded_of(schema, 3_000)
    allowed = encoded.column("days") <= encoded.column("most")
    rows = Encoded(schema.domain, tuple(codes[allowed] for codes in encoded.columns))
    table = drawn(schema, rows)
    # Another rule speaks of the number, so that the end moves as far as its bins allow, and no further.
    fits = rows.column("days") < 10
    assert (table["seen"] - table["born"] == table["days"])[fits].all()
    assert in_own_bin(born, table["born"], rows.column("born").astype(int)).all()
    assert (table["days"] == rows.column("days")).all()


def test_a_date_stays_in_its_bin_wherever_that_has_one_that_fits() -> None:
    schema = Schema((BORN, SEEN, AGE), (AGE_RULE,))
    encoded = encoded_of(schema, 20_000)
    table = drawn(schema, encoded)
    born = encoded.column("born").astype(int)
    both = (born < BORN.present) & ~np.isnan(table["age"])
    age, seen = table["age"][both].astype(np.int64), Instant.of(table["seen"][both], clock=False)
    low, high = find_range(seen, age, "years", ahead=False)
    edges = BORN.edge_array[born[both]], BORN.edge_array[born[both] + 1] - 1
    fits = np.maximum(low, edges[0]) <= np.minimum(high, edges[1])
    straddles = fits & ((low < edges[0]) | (high > edges[1]))
    assert straddles.sum() > 100
    stays = (table["born"][both] >= edges[0]) & (table["born"][both] <= edges[1])
    assert stays[fits].all()


def test_no_number_leaves_the_range_of_its_column() -> None:
    young = dataclasses.replace(AGE, lower=0, upper=20, bins=21, edges=None, missing=False)
    born = dataclasses.replace(BORN, missing=False)
    # Another rule holds both dates where they are.
    schema = Schema((born, SEEN, young), (Ordered("born", "seen"), AGE_RULE))
    encoded = encoded_of(schema, 5_000)
    table = drawn(schema, encoded)
    told = ages(table)
    assert (told > 20).mean() > 0.5
    assert table["age"].max() <= 20
    assert (table["age"] == told)[told <= 20].all()


def test_dates_that_say_a_month_keep_to_the_weekdays_of_their_column() -> None:
    schema = Schema((SOLD, MONTH), (DatePart("month", "sold", "month"),))
    table = drawn(schema, encoded_of(schema, 10_000))
    # A bin may end with a weekend that is all it has of a month.
    assert (parts_of(table["sold"])["weekday"] <= 5).mean() > 0.98
