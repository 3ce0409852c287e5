"""Dates that are written as numbers, in text and in typed storage."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Date, Moment
from margrave.schema.encode import encode_column
from margrave.schema.storage.arrow import decode_column
from margrave.schema.storage.date_numbers import (
    DATE_NUMBER_VOTES,
    choose_date_number_format,
    choose_digit_date_format,
    date_numbers,
    is_date_number_format,
    is_stamp_format,
    read_date_numbers,
    read_stamp_numbers,
    spell_stamps,
    stamp_numbers,
    vote_on_date_numbers,
    vote_on_digit_dates,
)
from margrave.schema.storage.spelling import SPELLINGS, spellings
from margrave.schema.storage.text import date_format

NUMBERS = [
    20240229,
    18000101,
    22000101,
    21991231,
    99991231,
    202402,
    199912,
    0,
    20240230,
    20230229,
    202413,
    17991231,
    5,
]
NUMBERS += [
    *(201303280511, 20130328051157, 99991231235959, 219912312359),
    *(20130328051160, 20130328246000, 201302300000, 2013032805115, 179912312359, 2013032805115700),
]
VOTES = {"none": 15, "%Y%m%d": 4, "%Y%m%d%H%M": 2, "%Y%m%d%H%M%S": 2}


@pytest.mark.parametrize("written", ["%Y%m%d", "%Y%m", "%Y%m%d.0", "%Y%m.0"])
def test_days_come_back_as_the_numbers_they_were(written: str) -> None:
    assert is_date_number_format(written)
    days = np.arange(-80_000, 80_000, 17)
    numbers = date_numbers(days, written)
    read, sound = read_date_numbers(numbers, written)
    assert sound.all()
    first = days.astype("datetime64[D]").astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    assert np.array_equal(read, first if written.startswith("%Y%m.") or written == "%Y%m" else days)
    assert str(numbers[0]) == dt.date(1750, 12, 20).strftime(written.removesuffix(".0"))


@pytest.mark.parametrize("written", ["%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m%d%H%M%S.0"])
def test_time_stamps_come_back_as_the_numbers_they_were(written: str) -> None:
    assert is_stamp_format(written)
    step = 1 if "%S" in written else 60
    ticks = np.arange(-80_000, 80_000, 17) * 86_417 * step * 1_000_000
    ticks = ticks[np.abs(ticks) < 5e15]
    numbers = stamp_numbers(ticks, written)
    read, sound = read_stamp_numbers(numbers, written)
    assert sound.all()
    assert np.array_equal(read, ticks)
    first = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(ticks[0]))
    assert spell_stamps(ticks[:1], written) == [first.strftime(written)]
    assert numbers[0] == int(first.strftime(written.removesuffix(".0")))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.timestamp("us")])
def test_declared_time_stamps_are_read_and_written_in_every_storage(kind: Any) -> None:
    day = 86_400_000_000
    column = Moment(
        name="s", edges=(0, 15_792 * day, 15_793 * day), missing=True, format="%Y%m%d%H%M", strict=False
    )
    assert column.step == 60_000_000
    cells: list[Any] = [201303280511, 201001012359, None, 201303282460]
    if pa.types.is_timestamp(kind):
        cells = [dt.datetime(2013, 3, 28, 5, 11), dt.datetime(2010, 1, 1, 23, 59), None, None]
    values = pa.array(cells) if pa.types.is_timestamp(kind) else pa.array(cells, pa.int64()).cast(kind)
    codes = encode_column(values, column)
    assert codes.tolist() == [1, 0, 2, 2]
    made = decode_column(np.array([1, 2]), column, np.random.default_rng(0), kind)
    assert made.type in (kind, pa.large_string())
    assert made.to_pylist()[1] is None
    shown = str(int(made[0].as_py()) if pa.types.is_floating(kind) else made[0].as_py())
    assert shown.startswith("2013-03-28" if pa.types.is_timestamp(kind) else "20130328")


def test_other_formats_are_none() -> None:
    assert not any(map(is_stamp_format, (None, "", "%Y%m%d", "%Y%m%d%H", "%Y-%m-%d %H:%M")))
    assert not any(map(is_date_number_format, (None, "", "%Y-%m-%d", "%d%m%Y", "%Y%m%d %p")))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
def test_cells_vote_by_their_number(kind: Any) -> None:
    array = pa.array(NUMBERS, pa.int64()).cast(kind)
    array = pa.concat_arrays([array, pa.array([None], kind)])
    assert dict(zip(DATE_NUMBER_VOTES, spellings(array, "date number").tolist(), strict=True)) == VOTES


DIGITS = {
    "01032024": "either first",
    "31122024": "day first",
    "12312024": "month first",
    "31129999": "day first",  # no end
    "31042024": "none",  # no day
    "01031799": "none",  # too early
    "20240229": "year first",
    "20240230": "none",
    "22000101": "none",  # too late
    "010320245": "none",
    "+1032024": "none",
    "0517": "other",
}


def test_eight_digits_vote_on_what_stands_first() -> None:
    known = SPELLINGS["digit format"]
    for text, named in DIGITS.items():
        votes = spellings(pa.array([text, None]), "digit format")
        assert votes.sum() == 1, text
        assert known[int(votes.argmax())] == named, text


def test_a_date_of_digits_has_one_place_for_its_year() -> None:
    days = [dt.date(1800, 1, 1) + dt.timedelta(days=n) for n in range(0, 146_000, 7)]
    first = np.array([int(day.strftime("%Y%m%d")) for day in days])
    last = pa.array([day.strftime(form) for day in days for form in ("%d%m%Y", "%m%d%Y")])
    assert (vote_on_digit_dates(pa.array(first.astype(str))) == 3).all()
    assert set(vote_on_digit_dates(last).tolist()) == {0, 1, 2}
    assert not vote_on_date_numbers(np.asarray(last).astype(np.int64)).any()


@pytest.mark.parametrize(
    ("votes", "others", "found"),
    [
        ([3000, 10, 2000, 0], 0, "%d%m%Y"),
        ([-40, 3000, 2000, 0], 0, "%m%d%Y"),
        ([30, 10, -20, 5000], 0, "%Y%m%d"),
        ([3000, 0, 2000, 0], 200, "%d%m%Y"),  # as much as noise explains
        ([3000, 0, 2000, 0], 400, ""),
        ([3000, 0, 2000, 1000], 0, ""),  # of both kinds
        ([20, 10, 5, 0], 5000, ""),  # codes
        ([150, 0, 100, 0], 0, ""),  # noise would hide others
        ([120, -20, 100, 0], 230, ""),  # more others, within the noise
    ],
)
def test_digits_are_dates_where_nearly_all_are(votes: list[float], others: float, found: str) -> None:
    counts = np.array([others, 0, 0, 0, 0, 0, 0], dtype=float)
    assert choose_digit_date_format(np.array(votes, dtype=float), counts, 30.0) == found


def test_fractions_text_and_dates_do_not_vote() -> None:
    assert spellings(pa.array([20240101.5, float("nan"), 1e300]), "date number").sum() == 1
    assert spellings(pa.array(["2024-01-01", "noon", "1.5"]), "date number").sum() == 0
    assert spellings(pa.array([dt.date(2024, 1, 1)]), "date number").sum() == 0


@pytest.mark.parametrize(
    ("votes", "found"),
    [
        ([10, 5000], "%Y%m%d"),
        ([-80, 5000], "%Y%m%d"),
        ([400, 5000], ""),  # more others than noise explains
        ([5000, 180], ""),  # numbers in a row, of which one in 27 is a day
        ([-20, -5], ""),
        ([10, 5, -40, 5000], "%Y%m%d%H%M%S"),
        ([10, 5, 4000, -20], "%Y%m%d%H%M"),
        ([10, 5, 4000, 900], ""),  # of both kinds
        ([400, 0, 5000, 0], ""),
    ],
)
def test_a_format_is_that_of_nearly_all_numbers(votes: list[float], found: str) -> None:
    counts = np.array([*votes, 0.0, 0.0], dtype=float)[: len(DATE_NUMBER_VOTES)]
    assert choose_date_number_format(counts, 30.0, False) == found
    assert choose_date_number_format(counts, 30.0, True) == found + ".0" * bool(found)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.string()])
def test_a_declared_format_is_read_and_written_in_every_storage(kind: Any) -> None:
    column = Date(
        name="d", edges=(19_000, 19_782, 19_783, 20_000), missing=True, format="%Y%m%d", strict=False
    )
    values = pa.array([20240229, 20240228, None, 20240230], pa.int64()).cast(kind)
    codes = encode_column(values, column)
    assert codes.tolist() == [1, 0, 3, 3]
    made = decode_column(np.array([1, 3]), column, np.random.default_rng(0), kind)
    assert made.type in (kind, pa.large_string())
    assert made.cast(pa.string()).to_pylist()[0].removesuffix(".0") == "20240229"
    assert made.to_pylist()[1] is None


def test_a_text_file_has_numbers_of_them_and_texts_where_there_is_a_point() -> None:
    column = Date(name="d", edges=(19_782, 19_783), missing=False, format="%Y%m%d")
    rng = np.random.default_rng(0)
    assert decode_column(np.array([0]), column, rng).to_pylist() == [20240229]
    pointed = Date(name="d", edges=(19_782, 19_783), missing=False, format="%Y%m%d.0")
    assert decode_column(np.array([0]), pointed, rng).to_pylist() == ["20240229.0"]
    texts, known = date_format("%Y%m%d.0", "format").read(pa.array(["20240229.0", "20240229", "2024022.0"]))
    assert texts.to_pylist() == ["2024-02-29", "2024-02-29", "2024022.0"]
    assert known.to_pylist() == [True, True, False]


@pytest.mark.parametrize("written", ["%d.%m.%Y.0", "%Y%m%d.00"])
def test_a_point_stands_behind_digits_alone(written: str) -> None:
    with pytest.raises(InputError, match="a date format"):
        date_format(written, "format")


def test_moments_have_no_format_of_months() -> None:
    with pytest.raises(SchemaError, match="format of column 'a'"):
        Moment(name="a", format="%Y%m")
