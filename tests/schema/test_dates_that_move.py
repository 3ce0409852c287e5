"""Which of a row's dates move for the numbers that they tell, where they move to, and which stay."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from margrave.schema.columns import Date, Integer, Moment
from margrave.schema.constraints.calendar import draw_within, find_frequent
from margrave.schema.constraints.rules import DatePart, Elapsed
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.schema import Schema

ROWS = 4_000
DAYS = Integer(name="days", lower=0, upper=40, bins=41, missing=False)


def draw_rows(schema: Schema, **codes: np.ndarray) -> dict[str, np.ndarray]:
    """Days and numbers by column of rows with these codes, and even ones in the other columns."""
    rng = np.random.default_rng(0)
    columns = tuple(
        codes.get(one.name, rng.integers(0, one.size, ROWS)).astype(code_dtype(one.size))
        for one in schema.attributes
    )
    table = decode(Encoded(schema.domain, columns), schema, np.random.default_rng(1))
    read = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        read[name] = (column.cast(pa.int32()) if pa.types.is_date(column.type) else column).to_numpy()
    return read


def test_of_three_dates_in_a_row_both_numbers_are_told() -> None:
    dates = [Date(name=name, lower="2020-01-01", upper="2021-12-31", bins=6) for name in ("a", "b", "c")]
    weeks = Integer(name="weeks", lower=20, upper=42, bins=23, missing=False)
    rules = (Elapsed("weeks", "a", "b", unit="weeks"), Elapsed("days", "b", "c"))
    schema = Schema((*dates, weeks, DAYS), rules)
    stays = np.random.default_rng(2).integers(0, 41, ROWS)
    at = np.full(ROWS, 3)
    row = draw_rows(schema, days=stays, a=at - 2, b=at, c=at)
    assert ((row["c"] - row["b"]) == row["days"]).all()
    assert ((row["b"] - row["a"]) // 7 == row["weeks"]).all()
    # No number gave way: the date in the middle moved for one, and the first one for the other.
    assert (row["days"] == stays).mean() > 0.99


def last_seen(share: float) -> Date:
    """Ten years of which the last day, that of the export, is in so many of the rows."""
    start, end = 15_000, 18_650
    fine = (*range(start, end, 50), end, end + 1)
    weights = (*[(1.0 - share) * 1_000 / (len(fine) - 2)] * (len(fine) - 2), share * 1_000)
    return Date(name="last", edges=(start, 16_500, end, end + 1), fine=fine, weights=weights, missing=False)


def test_the_day_of_an_export_stays_and_the_number_follows_it() -> None:
    first = Date(name="first", lower="2010-01-01", upper="2020-12-31", bins=11, missing=False)
    months = Integer(name="months", lower=0, upper=200, bins=20, missing=False)
    year = Integer(name="year", lower=2010, upper=2020, bins=11, missing=False)
    # Another rule speaks of the first date, so that it is the last one that might move.
    rules = (Elapsed("months", "first", "last", unit="months"), DatePart("year", "first", "year"))
    schema = Schema((first, last_seen(0.7), months, year), rules)
    codes = np.where(np.random.default_rng(3).random(ROWS) < 0.7, 2, 1)
    row = draw_rows(schema, last=codes, first=np.zeros(ROWS))
    assert ((row["last"] == 18_650) == (codes == 2)).all()
    assert (np.abs((row["last"] - row["first"]) / 30.44 - row["months"] - 0.5) < 0.6).all()


def test_a_day_stands_out_where_others_are_far_rarer() -> None:
    assert find_frequent(last_seen(0.7)).tolist() == [False, False, True]
    assert find_frequent(last_seen(0.05)).tolist() == [False, False, True]
    assert not find_frequent(last_seen(0.001)).any()
    even = Date(name="d", edges=tuple(range(31)), fine=tuple(range(31)), weights=(1.0,) * 30)
    assert not find_frequent(even).any()


def test_dates_that_move_are_drawn_where_the_rows_are() -> None:
    fine = (0, 5_000, 5_005, 5_010)
    column = Date(
        name="d", edges=(0, 5_010), fine=fine, weights=(0.1, 99.0, 1.0), weekdays=(1.0,) * 6 + (3.0,)
    )
    low, high = np.zeros(ROWS, dtype=np.int64), np.full(ROWS, 5_009, dtype=np.int64)
    made = draw_within(column, low, high, np.random.default_rng(0))
    assert ((made >= 5_000) & (made < 5_005)).mean() > 0.95
    assert (made >= low).all()
    assert (made <= high).all()
    # Within a cell by the days of the week, and between ends that have no cell by these alone.
    cell = draw_within(column, low, high - 10, np.random.default_rng(0))
    assert 0.28 < ((cell + 3) % 7 == 6).mean() < 0.39


def test_dates_that_move_keep_their_rounding() -> None:
    # Ends of stays, of which nearly all are whole minutes: within the minute that a length of stay leaves.
    minute = 60_000_000
    grids = ((15.0 * minute, 0.2), (1.0 * minute, 0.79))
    column = Moment(name="left", edges=(0, 10**6 * minute), grids=grids, missing=False)
    rng = np.random.default_rng(0)
    low = rng.integers(0, 10**6 - 100, ROWS) * minute
    made = draw_within(column, low, low + minute - 1, rng)
    assert (made >= low).all()
    assert (made < low + minute).all()
    assert 0.98 < (made % minute == 0).mean() < 1.0
    wide = draw_within(column, low, low + 60 * minute, rng)
    assert 0.22 < (wide % (15 * minute) == 0).mean() < 0.28
