"""Rows under rules about names of parts of dates: texts say what dates do."""

from __future__ import annotations

import calendar
import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import SchemaError
from margrave.schema.columns import Boolean, Categorical, Date, Integer, Ordinal, Relative
from margrave.schema.columns.base import Column
from margrave.schema.constraints.rules import DatePart, Determines, Forbidden, Ordered
from margrave.schema.describe import describe_rule
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.schema import Schema

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WEEKDAYS = {name: place for place, name in enumerate(DAYS, 1)}
QUARTERS = {f"Q{place}": place for place in range(1, 5)}
SOLD = Date(name="sold", lower="2018-01-01", upper="2021-12-31", bins=8, missing=True)
WEEKDAY = Categorical(name="weekday", values=DAYS, missing=True)
QUARTER = Ordinal(name="quarter", values=tuple(QUARTERS), missing=False)
BY_DAY = DatePart("weekday", "sold", "weekday", WEEKDAYS)
BY_QUARTER = DatePart("quarter", "sold", "quarter", QUARTERS)


def rows_of(schema: Schema, rows: int = 5_000, seed: int = 0) -> Encoded:
    """Rows whose codes are drawn evenly, column by column."""
    rng = np.random.default_rng(seed)
    codes = [
        rng.integers(0, column.size, rows).astype(code_dtype(column.size)) for column in schema.attributes
    ]
    return Encoded(schema.domain, tuple(codes))


def drawn(schema: Schema, encoded: Encoded, **more: Any) -> dict[str, np.ndarray]:
    """Columns by name: days with NaN, and texts with None."""
    table = decode(encoded, schema, np.random.default_rng(1), **more)
    found = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pa.types.is_date(column.type):
            found[name] = column.cast(pa.int32()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        else:
            found[name] = np.array(column.to_pylist(), dtype=object)
    return found


def told(days: np.ndarray) -> dict[str, np.ndarray]:
    """What dates say, None where they are missing."""
    there = ~np.isnan(days)
    whole = np.where(there, days, 0).astype(int)
    months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(int) % 12
    parts = {
        "weekday": np.array(DAYS, dtype=object)[(whole + 3) % 7],
        "quarter": np.array(list(QUARTERS), dtype=object)[months // 3],
    }
    return {name: np.where(there, texts, None) for name, texts in parts.items()}


def test_texts_and_dates_agree_in_every_row_and_dates_stay_in_their_bins() -> None:
    schema = Schema((SOLD, WEEKDAY, QUARTER), (BY_DAY, BY_QUARTER))
    encoded = rows_of(schema)
    table = drawn(schema, encoded)
    texts = told(table["sold"])
    dated = ~np.isnan(table["sold"])
    named = np.array([text is not None for text in table["weekday"]])
    assert (texts["weekday"] == table["weekday"])[dated & named].all()
    assert (texts["quarter"] == table["quarter"])[dated].all()
    # What is missing stays missing, and without a date a text stays what it was.
    assert (named == (encoded.column("weekday") < 7)).all()
    assert (dated == (encoded.column("sold") < 8)).all()
    before = np.array([*DAYS, None], dtype=object)[encoded.column("weekday")]
    assert (table["weekday"] == before)[~dated].all()
    place = np.searchsorted(SOLD.edge_array, table["sold"][dated], side="right") - 1
    assert (place == encoded.column("sold")[dated]).all()
    # Half a year has all weekdays, and two of the quarters: a weekday stays also where the quarter cannot.
    assert (table["weekday"] == before)[dated & named].all()
    kept = table["quarter"] == np.array(list(QUARTERS), dtype=object)[encoded.column("quarter")]
    assert 0.4 < kept[dated].mean() < 0.6


def test_the_text_follows_a_date_that_is_relative_to_another() -> None:
    paid_by = Date(name="paid", lower="2018-01-01", upper="2022-12-31", missing=False)
    part = Integer(name="paid", lower=0, upper=19, missing=False, bins=20)
    paid = Relative(name="paid", base="sold", base_read="date", own=paid_by, part=part, missing=False)
    sold = dataclasses.replace(SOLD, missing=False)
    schema = Schema((sold, paid, WEEKDAY), (dataclasses.replace(BY_DAY, date="paid"),))
    encoded = rows_of(schema)
    table = drawn(schema, encoded)
    named = encoded.column("weekday") < 7
    assert (told(table["paid"])["weekday"] == table["weekday"])[named].all()
    assert (table["paid"] - table["sold"] == encoded.column("paid")).all()


def test_given_texts_and_given_dates_stay() -> None:
    schema = Schema((SOLD, WEEKDAY, QUARTER), (BY_DAY, BY_QUARTER))
    encoded = rows_of(schema)
    before = np.array(list(QUARTERS), dtype=object)[encoded.column("quarter")]
    table = drawn(schema, encoded, given=("quarter",))
    assert (table["quarter"] == before).all()
    there = ~np.isnan(table["sold"])
    assert (told(table["sold"])["quarter"] == before)[there].all()
    days = np.full(encoded.rows, 18_000.0)  # 2019-04-14, a Sunday
    table = drawn(schema, encoded, known={"sold": days}, given=("sold",))
    there = encoded.column("sold") < 8
    assert (table["sold"] == 18_000.0)[there].all()
    assert set(table["weekday"][there]) == {"Sun", None}
    assert set(table["quarter"][there]) == {"Q2"}


def test_given_values_of_a_release_stay() -> None:
    rng = np.random.default_rng(0)
    sold = np.datetime64("2020-01-01") + rng.integers(0, 700, 2_000)
    table = pa.table({"sold": sold, "weekday": np.array(DAYS)[(sold.astype(int) + 3) % 7]})
    schema = Schema((Date(name="sold"), Categorical(name="weekday", values=DAYS)), (BY_DAY,))
    synthesis = mg.Synthesizer("independent", epsilon=1.0, schema=schema, not_private_test_seed=0).fit(table)
    assert not [event for event in synthesis.release.events if event.what.startswith("times")]
    day = "2021-06-01"  # a Tuesday
    for given in ({"weekday": "Fri"}, {"sold": day}, {"sold": day, "weekday": "Sun"}):
        made = synthesis.sample_arrow(300, given=given, rng=np.random.default_rng(0))
        texts = told(made["sold"].cast(pa.int32()).cast(pa.float64()).to_numpy())["weekday"]
        for name, value in given.items():
            assert {str(one) for one in made[name].to_pylist()} == {value}
        assert (texts == np.array(made["weekday"].to_pylist(), dtype=object)).all() == (len(given) == 1)


def test_a_text_that_is_no_name_becomes_one_and_a_name_without_a_code_leaves_the_text() -> None:
    weekday = Categorical(name="weekday", values=("Mon", "mon", "Tue", "odd"), other="(other)", missing=False)
    rule = DatePart("weekday", "sold", "weekday", {"mon": 1, "Mon": 1, "Tue": 2, "Wed": 3})
    sold = dataclasses.replace(SOLD, missing=False)
    schema = Schema((sold, weekday), (rule,))
    encoded = rows_of(schema)
    table = drawn(schema, encoded)
    day, codes = told(table["sold"])["weekday"], encoded.column("weekday")
    for code, text in enumerate(("Mon", "mon", "Tue")):
        assert set(table["weekday"][codes == code]) == {text}
        assert set(day[codes == code]) == {text.capitalize()}
    # A date that says what the column does not list stays where nothing else was asked of it.
    for code, text in ((3, "odd"), (4, "(other)")):
        rows = codes == code
        assert set(table["weekday"][rows & (day == "Mon")]) == {"mon"}  # the first that the rule names
        assert set(table["weekday"][rows & (day == "Tue")]) == {"Tue"}
        assert set(table["weekday"][rows & (day == "Wed")]) == {text}


def test_texts_that_others_follow_from_stay_and_parts_of_the_same_date_change_together() -> None:
    month = Categorical(name="month", values=tuple(calendar.month_name[1:]), missing=False)
    numbers = {name: place for place, name in enumerate(month.values or (), 1)}
    follows = Determines(
        "quarter", "month", {name: f"Q{(place + 2) // 3}" for name, place in numbers.items()}
    )
    by_month = DatePart("month", "sold", "month", numbers)
    schema = Schema(
        (dataclasses.replace(SOLD, missing=False), month, QUARTER), (follows, by_month, BY_QUARTER)
    )
    encoded = rows_of(schema)
    even = Encoded(
        schema.domain,
        (encoded.columns[0], encoded.columns[1], (encoded.columns[1] // 3).astype(np.uint8)),
    )
    table = drawn(schema, even)
    assert (told(table["sold"])["quarter"] == table["quarter"]).all()
    assert [dict(follows.pairs)[text] for text in table["month"]] == table["quarter"].tolist()
    # With a quarter that says nothing of the date the month stays, for no row breaks a rule about codes, and
    # the date leaves its bin.
    table = drawn(Schema(schema.columns, (follows, by_month)), even)
    assert (table["month"] == np.array(month.values, dtype=object)[even.column("month")]).all()
    assert (told(table["sold"])["quarter"] == table["quarter"]).all()
    place = np.searchsorted(SOLD.edge_array, table["sold"], side="right") - 1
    assert 0.4 < (place == even.column("sold")).mean() < 0.6
    # With a rule about the date's codes it does not.
    ends = Ordered("sold", "late")
    late = Date(name="late", lower="2018-01-01", upper="2021-12-31", bins=1, missing=False)
    columns = (*schema.columns, late)
    codes = Encoded(Schema(columns, (ends,)).domain, (*even.columns, np.zeros(even.rows, np.uint8)))
    table = drawn(Schema(columns, (follows, by_month, ends)), codes)
    assert (table["sold"] <= table["late"]).all()


def test_rows_that_break_such_a_rule_are_counted() -> None:
    days = pa.array([18_428, 18_429, 18_430], pa.int32()).cast(pa.date32())  # from Monday, 2020-06-15, on
    real = pa.table({"sold": days, "weekday": ["Mon", "Tue", None]})
    made = pa.table({"sold": days, "weekday": ["Mon", "Mon", "odd"]})
    schema = Schema((SOLD, Categorical(name="weekday")), (BY_DAY,))
    found = mg.evaluate(real, made, schema=schema, metrics=["rules"])
    words = "1. weekday is the weekday of sold: synthetic rows"
    (score,) = (score for score in found.scores if words in score.parts)
    assert score.parts[words] == 2.0
    assert score.parts[words.replace("synthetic", "real")] == 0.0


def test_rules_about_texts_are_kept_in_json_and_told_in_words() -> None:
    rules = (BY_DAY, DatePart("quarter", "sold", "year_quarter", [["Q1", 20201]], share=(0.98, 0.01)))
    schema = Schema((SOLD, WEEKDAY, QUARTER), rules)
    assert Schema.from_json(schema.to_json()).rules == rules
    assert BY_DAY.to_json()["texts"][0] == ["Mon", 1]
    assert "texts" not in DatePart("n", "sold", "year").to_json()
    assert describe_rule(BY_DAY) == "weekday is the weekday of sold"
    assert describe_rule(rules[1]).startswith("quarter is the year and quarter of sold in 98.0%")
    assert schema.domain == Schema((SOLD, WEEKDAY, QUARTER)).domain


@pytest.mark.parametrize(
    ("part", "texts", "said"),
    [
        ("weekday", {}, "a text and a number"),
        ("weekday", {"Mon": 0}, "a weekday can be"),
        ("weekday_from_0", {"Sun": 7}, "a weekday_from_0 can be"),
        ("quarter", {"Q5": 5}, "a quarter can be"),
        ("year_quarter", {"2020-Q5": 20205}, "can be"),
        ("year_month", {"2020-13": 202013}, "can be"),
        ("month", {"Jan": "1"}, "a text and a number"),
        ("month", {"Jan": True}, "a text and a number"),
        ("month", {1: 1}, "a text and a number"),
        ("month", ["Jan", "Feb"], "a text and a number"),
        ("month", [("Jan", 1), ("Jan", 2)], "distinct"),
    ],
)
def test_texts_that_make_no_sense_are_refused(part: str, texts: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        DatePart("name", "sold", part, texts)


@pytest.mark.parametrize(
    ("column", "rule", "said"),
    [
        (Integer(name="weekday", lower=1, upper=7, missing=False), BY_DAY, "listed texts"),
        (Boolean(name="weekday", missing=False), BY_DAY, "some that the column lists"),
        (WEEKDAY, dataclasses.replace(BY_DAY, texts=None), "say by `texts`"),
        (Categorical(name="weekday", values=("a", "b"), missing=False), BY_DAY, "some that the column lists"),
        (WEEKDAY, DatePart("weekday", "sold", "hour", {"Mon": 1}), "moments"),
    ],
)
def test_columns_that_do_not_fit_are_refused(column: Column, rule: DatePart, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Schema((SOLD, column), (rule,))


def test_columns_whose_texts_are_to_be_discovered_are_not() -> None:
    assert Schema((SOLD, Categorical(name="weekday")), (BY_DAY,)).rules == (BY_DAY,)
    with pytest.raises(SchemaError, match="distinct names"):
        Forbidden(("sold", "sold"), [("a", "b")])
