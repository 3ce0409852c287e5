"""Months, weeks and fiscal years beside a date, and flags of weekends: rows obey what the date says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave import Synthesizer
from margrave.errors import SchemaError
from margrave.measure.discovery.between.named_parts import may_be_periods, may_tell
from margrave.schema.columns import Categorical, Column, Date, Moment
from margrave.schema.constraints.rules import DatePart
from margrave.schema.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
ROWS = 12_000
PARTS = {
    "month": "month_start",
    "first_of_month": "month_start",
    "month_end": "month_end",
    "week": "week_start",
    "month_stamp": "month_start",
    "fiscal": "fiscal_year_october",
    "tax_year": "fiscal_year_april",
    "is_weekend": "weekend",
}


def tell(days: list[dt.date]) -> dict[str, Any]:
    """What each day says."""
    first = [day.replace(day=1) for day in days]
    last = [(day + dt.timedelta(days=31)).replace(day=1) - dt.timedelta(days=1) for day in first]
    april = [day.year - (day.month < 4) for day in days]
    return {
        "month": [f"{day:%Y-%m}" for day in days],
        "first_of_month": [str(day) for day in first],
        "month_end": last,
        "days_left": [(end - day).days for end, day in zip(last, days, strict=True)],
        "week": [day - dt.timedelta(days=day.weekday()) for day in days],
        "month_stamp": [dt.datetime(day.year, day.month, 1) for day in days],
        "fiscal": [f"FY{day.year + (day.month >= 10)}" for day in days],
        "tax_year": [f"{year}/{(year + 1) % 100:02}" for year in april],
        "is_weekend": [day.isoweekday() > 5 for day in days],
    }


@pytest.fixture(scope="module")
def days() -> list[dt.date]:
    rng = np.random.default_rng(0)
    return [dt.date(2019, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 1461, ROWS)]


def release(columns: dict[str, Any], days: list[dt.date]) -> tuple[dict[str, str], pa.Table]:
    """The parts that were found by column, and rows."""
    synthesizer = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0)
    synthesis = synthesizer.fit(pa.table({"sold": days, **columns}))
    found = {rule.number: rule.part for rule in synthesis.schema.rules if isinstance(rule, DatePart)}
    return found, synthesis.sample(4_000, rng=np.random.default_rng(0))


def test_periods_are_found_and_rows_obey(days: list[dt.date]) -> None:
    found, made = release(tell(days), days)
    assert found == PARTS
    told = tell(made["sold"].to_pylist())
    for name, values in told.items():
        agree = np.mean([a == b for a, b in zip(made[name].to_pylist(), values, strict=True)])
        assert agree > 0.98, name


def test_columns_that_have_nothing_to_do_with_the_date_are_no_find(days: list[dt.date]) -> None:
    rng = np.random.default_rng(1)
    mixed = {name: [values[k] for k in rng.permutation(ROWS)] for name, values in tell(days).items()}
    assert release(mixed, days)[0] == {}


def test_dates_are_asked_about_only_where_names_or_formats_say_so() -> None:
    sold = Date(name="sold")

    def asked(*columns: Column, ruled: tuple[str, ...] = ()) -> bool:
        assert may_tell(columns, ruled) >= may_be_periods(columns, ruled)
        return may_be_periods(columns, ruled)

    assert asked(sold, Date(name="month"))
    assert asked(Moment(name="seen"), Moment(name="weekBegin"))
    assert asked(sold, Date(name="period_of", format="%Y-%m"))
    assert asked(sold, Date(name="bought", format="%m/%Y"))
    assert not asked(sold, Date(name="bought"))
    assert not asked(sold, Categorical(name="month"))
    assert not asked(Date(name="month"), Date(name="born", format="%Y-%m"))
    assert not asked(sold, Date(name="month"), ruled=("month",))


def test_periods_are_said_of_dates_alone() -> None:
    sold, month = Date(name="sold"), Date(name="month")
    rule = DatePart("month", "sold", "month_start")
    assert Schema((sold, month), (rule,)).rules == (rule,)
    assert rule.words == "month is the first day of the month of sold"
    with pytest.raises(SchemaError, match="of dates or moments"):
        Schema((sold, Categorical(name="month", values=("a", "b"))), (rule,))
    with pytest.raises(SchemaError, match="of numbers"):
        Schema((sold, month), (DatePart("month", "sold", "month"),))
    with pytest.raises(SchemaError, match="part of rule"):
        DatePart("month", "sold", "month_start", {"a": 1})
