"""Keys among whose digits is a year: what the rule reads, what it refuses, and keys that are drawn by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.errors import SchemaError
from margrave.schema.columns import Categorical, Date, Identifier, Integer
from margrave.schema.columns.identifier import draw_distinct, lengthen_shape
from margrave.schema.columns.key_years import list_key_shapes, write_year_numbers, write_years
from margrave.schema.constraints.rules import KeyYear, rule_from_json
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema

ROWS = 900
DAY_OF_2021, DAY_OF_2024 = 18_628, 20_088  # days since 1970-01-01: January 1 of 2021 and of 2025
OPENED = Date(name="opened", edges=(DAY_OF_2021, 19_358, DAY_OF_2024), missing=True)
PATTERNS = ("2021-[0-9]{4}", "2022-[0-9]{4}")
KEYS = Categorical(
    name="key", values=("none",), missing=True, other="(other)", patterns=PATTERNS, others="", unique=True
)


def draw(key: Any, codes: Any, rule: KeyYear, rows: int = ROWS) -> pa.Table:
    """Rows of a key and a date, every tenth of which is missing."""
    schema = Schema((key, OPENED), (rule,))
    dates = np.arange(rows) % 2
    dates[::10] = 2
    columns = tuple(own for own in (codes, dates) if own is not None)
    encoded = Encoded(schema.domain, tuple(one.astype(np.uint8) for one in columns))
    frame = Frame("arrow", {"key": "string", "opened": "date32[day]"})
    return decode(encoded, schema, np.random.default_rng(0), frame)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (KeyYear("key", "opened", 0), [2023, -1, -1, -1]),
        (KeyYear("key", "opened", -2, 2), [17, -1, 24, -1]),
        (KeyYear("key", "opened", 1, 2), [2, 19, 24, -1]),
    ],
)
def test_digits_are_read_at_their_place(rule: KeyYear, told: list[int]) -> None:
    assert rule.read_texts(["2023-00417", "V19/x1", "x24", "٢٠٢٣"]).tolist() == told


def test_two_digits_are_those_of_the_year() -> None:
    years = pa.array(["V05/1", "V99/1"])
    table = Schema((Categorical(name="key"), OPENED), (KeyYear("key", "opened", 1, 2),))
    (rule,) = table.rules
    assert isinstance(rule, KeyYear)
    assert rule.read_texts(years.to_pylist()).tolist() == [5, 99]
    assert rule_from_json(rule.to_json()) == rule
    assert Schema.from_json(table.to_json()) == table


@pytest.mark.parametrize(("place", "digits"), [(0, 3), (-3, 4), (-1, 2), (0.0, 4), (True, 2), (0, None)])
def test_digits_that_are_no_year_are_refused(place: Any, digits: Any) -> None:
    with pytest.raises(SchemaError, match="key_year"):
        KeyYear("key", "opened", place, digits)


@pytest.mark.parametrize(
    "column",
    [
        Categorical(name="key", values=("a", "b"), missing=False),
        Identifier(name="key", pattern="uuid"),
        Date(name="key"),
        Integer(name="key"),
    ],
)
def test_columns_without_shapes_are_refused(column: Any) -> None:
    with pytest.raises(SchemaError, match="of keys of shapes or patterns, or"):
        Schema((column, OPENED), (KeyYear("key", "opened", 0),))


def test_keys_say_the_year_of_the_date() -> None:
    codes = np.arange(ROWS) % 3  # the frequent text, and two patterns
    made = draw(KEYS, codes, KeyYear("key", "opened", 0))
    for key, day, code in zip(made["key"].to_pylist(), made["opened"].to_pylist(), codes, strict=True):
        year = PATTERNS[code - 1][:4] if day is None else str(day.year)
        assert key == "none" if code == 0 else key[:5] == f"{year}-", (key, day, code)
    drawn = [key for key in made["key"].to_pylist() if key != "none"]
    assert len(set(drawn)) == len(drawn)
    assert {len(key) for key in drawn} == {9}


def test_missing_keys_and_others_stay() -> None:
    codes = np.arange(ROWS) % 5
    made = draw(KEYS, codes, KeyYear("key", "opened", 0))["key"].to_pylist()
    assert set(made[3::5]) == {"(other)"}
    assert set(made[4::5]) == {None}
    assert set(made[0::5]) == {"none"}


def test_identifiers_get_the_year_though_models_do_not_see_them() -> None:
    key = Identifier(name="key", pattern="shape", shapes=("B-[0-9]{2}/[0-9]{4}", "C[0-9]{3}/[0-9]{4}"))
    made = draw(key, None, KeyYear("key", "opened", -4))
    keys, days = made["key"].to_pylist(), made["opened"].to_pylist()
    assert all(key[-4:] == str(day.year) for key, day in zip(keys, days, strict=True) if day is not None)
    assert len(set(keys)) == ROWS
    # Two digits are too few for half of the rows: one more stands in front of the year, not behind it.
    assert {len(key.split("/")[1]) for key in keys} == {4}


def test_whole_numbers_get_the_year_and_none_comes_twice() -> None:
    edges = (202_100_000, 202_101_000, 202_200_000, 202_201_000)
    key = Integer(name="key", edges=edges, fine=edges, weights=(1.0, 0.0, 1.0), unique=True, missing=True)
    assert list_key_shapes(key) == (("202100[0-9][0-9][0-9]", 0.5), ("202200[0-9][0-9][0-9]", 0.5))
    codes = np.where(np.arange(ROWS) % 9 == 0, 3, np.arange(ROWS) // 2 % 2 * 2)
    schema = Schema((key, OPENED), (KeyYear("key", "opened", 0),))
    dates = np.where(np.arange(ROWS) % 10 == 0, 2, np.arange(ROWS) % 2)
    encoded = Encoded(schema.domain, (codes.astype(np.uint8), dates.astype(np.uint8)))
    made = decode(encoded, schema, np.random.default_rng(0))
    keys, days = made["key"].to_pylist(), made["opened"].to_pylist()
    assert [key is None for key in keys] == (codes == 3).tolist()
    assert all(str(key)[:4] == str(day.year) for key, day in zip(keys, days, strict=True) if key and day)
    assert len(set(keys)) == sum(key is not None for key in keys) + 1


def test_digits_at_any_place_of_numbers_are_written() -> None:
    numbers = np.array([1_719, 117_192, 5, 1_930_417])
    told = np.array([21, 22, 23, 5])
    assert write_year_numbers(numbers, told, -2, 2).tolist() == [1_721, 117_122, 5, 1_930_405]
    # A year that begins with a zero is no beginning of a number.
    assert write_year_numbers(numbers, told, 0, 2).tolist() == [2_119, 227_192, 5, 1_930_417]


def test_keys_that_come_back_do_so_within_a_year() -> None:
    column = Categorical(
        name="key", values=(), missing=False, patterns=PATTERNS, repeats=((1, 1.0), (9, 0.0))
    )
    made = draw(column, np.zeros(ROWS, np.int64), KeyYear("key", "opened", 0))
    pairs = {
        (key, None if day is None else day.year)
        for key, day in zip(made["key"].to_pylist(), made["opened"].to_pylist(), strict=True)
    }
    assert ROWS / 9 < len({key for key, _ in pairs}) < ROWS / 2
    assert all(key[:4] == str(year) for key, year in pairs if year)


def test_texts_that_are_given_stay() -> None:
    schema = Schema((KEYS, OPENED), (KeyYear("key", "opened", 0),))
    codes = (np.full(50, 1, np.uint8), np.full(50, 1, np.uint8))
    made = decode(Encoded(schema.domain, codes), schema, np.random.default_rng(0), given=["key"])
    assert all(key.startswith("2021-") for key in made["key"].to_pylist())


def test_a_shape_without_digits_at_the_place_stays() -> None:
    column = Categorical(name="key", values=(), missing=False, patterns=("AB[0-9]{2}", "2021[0-9]{2}"))
    wider, codes = write_years(
        column, np.array([0, 1, 1]), np.array([2023, 2023, -1]), 0, 4, np.random.default_rng(0)
    )
    assert [wider.labels[code] for code in codes] == ["AB[0-9]{2}", "2023[0-9]{2}", "2021[0-9]{2}"]
    assert list_key_shapes(Date(name="d")) == ()


@pytest.mark.parametrize(
    ("shape", "longer"),
    [
        ("V0[0-9]{3}", "V0[0-9]{4}"),
        ("[A-Z]{2}", "[A-Z]{2}[0-9]"),
        (r"u[0-9]{2}@example\.com", r"u[0-9]{3}@example\.com"),
        ("AB", "AB[0-9]"),
    ],
)
def test_more_keys_than_a_shape_has_get_a_digit_where_signs_are_drawn(shape: str, longer: str) -> None:
    assert lengthen_shape(shape) == longer


def test_dense_keys_keep_what_stands_behind_their_number() -> None:
    found = draw_distinct(["[0-9]/24"], np.zeros(50, np.int64), np.random.default_rng(0))
    assert len(set(found)) == 50
    assert all(key.endswith("/24") for key in found)
