"""Seasons, halves, weekends and weeks: found where names say so, obeyed by rows, and not found by chance."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.between.named_parts import list_dated, list_names, may_tell
from margrave.schema.columns import Boolean, Categorical, Date, Integer
from margrave.schema.constraints.rules import DatePart

ROWS = 12_000
SEASONS = ("winter", "spring", "summer", "autumn")
PARTS = {
    "season": "season",
    "season_south": "season",
    "half": "half",
    "is_weekend": "weekend",
    "weekend": "weekend",
    "day_type": "weekend",
    "week": "week",
}


def tell(days: list[dt.date]) -> dict[str, list[object]]:
    """What each day says."""
    season = [day.month % 12 // 3 for day in days]
    late = [day.isoweekday() > 5 for day in days]
    return {
        "season": [SEASONS[place] for place in season],
        "season_south": [SEASONS[(place + 2) % 4] for place in season],
        "half": [f"H{1 + (day.month > 6)}" for day in days],
        "is_weekend": [int(one) for one in late],
        "weekend": [str(one) for one in late],
        "day_type": ["weekend" if one else "weekday" for one in late],
        "week": [day.isocalendar().week for day in days],
    }


@pytest.fixture(scope="module")
def days() -> list[dt.date]:
    rng = np.random.default_rng(0)
    return [dt.date(2019, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 1461, ROWS)]


def release(
    columns: dict[str, list[object]], days: list[dt.date], path: Path
) -> tuple[dict[str, str], pa.Table]:
    """The parts that were found by column, and rows."""
    csv.write_csv(pa.table({"sold": days, **columns}), path)
    synthesis = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0).fit(path)
    found = {rule.number: rule.part for rule in synthesis.schema.rules if isinstance(rule, DatePart)}
    return found, synthesis.sample_arrow(4_000, rng=np.random.default_rng(0))


def test_parts_that_names_say_are_found_and_rows_obey(days: list[dt.date], tmp_path: Path) -> None:
    found, made = release(tell(days), days, tmp_path / "sold.csv")
    assert found == PARTS
    told = tell([dt.date.fromisoformat(str(day)) for day in made["sold"].to_pylist()])
    for name, values in told.items():
        agree = np.mean([str(a) == str(b) for a, b in zip(made[name].to_pylist(), values, strict=True)])
        assert agree > 0.98, name


def test_columns_that_have_nothing_to_do_with_the_date_are_no_find(
    days: list[dt.date], tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    mixed = {name: [values[k] for k in rng.permutation(ROWS)] for name, values in tell(days).items()}
    assert release(mixed, days, tmp_path / "mixed.csv")[0] == {}


def test_numbers_are_asked_about_only_where_their_name_says_so(days: list[dt.date], tmp_path: Path) -> None:
    told = tell(days)
    found, _ = release({"group": told["is_weekend"], "number": told["week"]}, days, tmp_path / "plain.csv")
    assert found == {}


def test_flags_tell_weekends_by_name() -> None:
    texts = {"False": 0, "True": 1}
    assert list_names(Boolean(name="weekend", spelling="True")) == ("weekend", texts)
    assert list_names(Boolean(name="smoker", spelling="True")) is None
    assert list_names(Boolean(name="weekend")) == ("weekend", {"false": 0, "true": 1})
    flag = Categorical(name="onWeekend", values=("ja", "Nein"))
    assert list_names(flag) == ("weekend", {"ja": 1, "Nein": 0})
    assert list_names(Categorical(name="weekend", values=("yes", "y"))) is None
    assert list_names(Categorical(name="smoker", values=("yes", "no"))) is None
    for name, spelling, able in (("weekend", None, True), ("weekend", "", True), ("smoker", None, False)):
        columns = (Date(name="sold"), Boolean(name=name, spelling=spelling))
        assert may_tell(columns, ()) == able


def test_columns_that_tell_dates_by_name_are_not_coded_by_others() -> None:
    numbers = (Integer(name="week"), Integer(name="price"), Integer(name="dayOfYear"))
    assert list_dated((Date(name="sold"), *numbers)) == {"week", "dayOfYear"}
    assert list_dated(numbers) == frozenset()
