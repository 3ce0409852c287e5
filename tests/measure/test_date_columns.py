"""Whole numbers that are dates, and dates that name the month: what is asked, and what is made of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.kinds import ask_for_dates, price_dates
from margrave.schema.columns import Column, Date, Integer, Moment
from margrave.schema.columns.relative import take_own

pytestmark = pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
ROWS = 8_000


def visits(seed: int = 0) -> pd.DataFrame:
    """Admissions on working days and discharges up to eight days later, in several spellings, and others."""
    rng = np.random.default_rng(seed)
    first = pd.Timestamp("2010-01-04") + pd.to_timedelta(
        7 * rng.integers(0, 200, ROWS) + rng.integers(0, 5, ROWS), "D"
    )
    begin = pd.Series(first)
    end = begin + pd.to_timedelta(rng.integers(0, 9, ROWS), "D")
    seen = begin + pd.to_timedelta(rng.integers(8 * 60, 17 * 60, ROWS), "min")
    return pd.DataFrame(
        {
            "begin": begin.dt.strftime("%Y%m%d").astype(int),
            "end": end.dt.strftime("%Y%m%d").astype(float).where(rng.random(ROWS) < 0.9),
            "days": (end - begin).dt.days,
            "number": 20_000_000 + rng.permutation(ROWS),
            "code": rng.integers(150_000, 250_000, ROWS),
            "seen": seen.dt.strftime("%d%b%Y:%H:%M:%S").str.upper(),
            "sas": begin.dt.strftime("%d%b%Y").str.upper(),
            "stamp": seen.dt.strftime("%Y%m%d%H%M").astype(int),
            "row": 201_303_280_000 + rng.permutation(ROWS),
        }
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path: Path = tmp_path_factory.mktemp("visits") / "visits.csv"
    visits().to_csv(path, index=False)
    return Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(path)


def own_of(synthesis: Any, name: str) -> Column:
    return take_own(synthesis.schema[name])


def asked(synthesis: Any) -> set[str]:
    return {event.what for event in synthesis.release.events if event.what.startswith("dates of")}


def test_dates_are_found_in_a_file_and_written_as_they_came(found: Any) -> None:
    assert {f"dates of {name}" for name in ("begin", "end", "number")} <= asked(found)
    assert "dates of days" not in asked(found)
    kinds = {name: type(own_of(found, name)) for name in found.schema.names}
    dates = dict.fromkeys(("begin", "end", "sas"), Date)
    assert {"dates of stamp", "dates of row"} <= asked(found)
    numbers = dict.fromkeys(("days", "number", "code", "row"), Integer)
    assert kinds == {**dates, **numbers, "seen": Moment, "stamp": Moment}
    assert "hours of stamp" in [event.what for event in found.release.events]
    assert own_of(found, "stamp").format == "%Y%m%d%H%M"  # type: ignore[attr-defined]
    assert "weekdays of begin" in [event.what for event in found.release.events]
    formats = {name: own_of(found, name).format for name in ("begin", "end", "sas", "seen")}  # type: ignore[attr-defined]
    assert formats == {"begin": "%Y%m%d", "end": "%Y%m%d.0", "sas": "%d%^b%Y", "seen": "%d%^b%Y:%H"}


def test_dates_go_together_and_keep_their_weekdays(found: Any) -> None:
    made = found.sample_arrow(4_000, rng=np.random.default_rng(0)).to_pandas()
    begin = pd.to_datetime(made["begin"].astype(str), format="%Y%m%d")
    assert (begin.dt.day_of_week < 5).mean() > 0.97
    assert made["end"].dropna().str.fullmatch(r"20[0-9]{6}\.0").all()
    end = pd.to_datetime(made["end"].str.removesuffix(".0"), format="%Y%m%d")
    held = end.notna()
    assert 0.05 < 1 - held.mean() < 0.15
    assert ((end - begin).dt.days[held] == made["days"][held]).mean() > 0.98
    stamp = pd.to_datetime(made["stamp"].astype(str), format="%Y%m%d%H%M")
    assert stamp.dt.hour.between(8, 16).mean() > 0.95
    sas = pd.to_datetime(made["sas"], format="%d%b%Y")
    seen = pd.to_datetime(made["seen"], format="%d%b%Y:%H:%M:%S")
    assert (sas == begin).mean() > 0.9
    assert (seen.dt.normalize() == begin).mean() > 0.9
    assert made["sas"].str.fullmatch("[0-9]{2}[A-Z]{3}20[0-9]{2}").all()


def test_typed_numbers_are_found_as_well() -> None:
    table = visits()[["begin", "end", "number"]]
    synthesis = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(table)
    assert [type(own_of(synthesis, name)) for name in table] == [Date, Date, Integer]
    made = synthesis.sample_arrow(2_000, rng=np.random.default_rng(0)).to_pandas()
    assert made.dtypes.tolist() == [np.int64, np.float64, np.int64]
    assert pd.to_datetime(made["begin"].astype(str), format="%Y%m%d").notna().all()
    assert pd.to_datetime(made["end"].dropna().astype(int).astype(str), format="%Y%m%d").notna().all()


def test_digits_with_the_year_last_are_dates_and_other_digits_are_codes(tmp_path: Path) -> None:
    rng, table = np.random.default_rng(1), visits()
    begin = pd.to_datetime(table["begin"].astype(str), format="%Y%m%d")
    left = begin + pd.to_timedelta(table["days"], "D")
    path = tmp_path / "table.csv"
    pd.DataFrame(
        {
            "begin": begin.dt.strftime("%d%m%Y").where(rng.random(ROWS) < 0.9),
            "left": left.dt.strftime("%m%d%Y"),
            "account": [f"{number:08d}" for number in rng.integers(0, 10**8, ROWS)],
            "branch": [f"{number:04d}" for number in rng.integers(0, 40, ROWS) * 211],
        }
    ).to_csv(path, index=False)
    synthesis = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(path)
    own = {name: own_of(synthesis, name) for name in synthesis.schema.names}
    formats = {name: column.format for name, column in own.items() if isinstance(column, Date)}
    assert formats == {"begin": "%d%m%Y", "left": "%m%d%Y"}
    assert {"format of begin", "format of account"} <= {event.what for event in synthesis.release.events}
    made = synthesis.sample_arrow(2_000, rng=np.random.default_rng(0)).to_pandas()
    first = pd.to_datetime(made["begin"].dropna(), format="%d%m%Y")
    assert 0.05 < made["begin"].isna().mean() < 0.15
    assert pd.to_datetime(made["left"], format="%m%d%Y").dt.year.between(2009, 2015).mean() > 0.97
    assert (first.dt.day_of_week < 5).mean() > 0.95
    assert made["account"].str.fullmatch("[0-9]{8}").all()


def test_digits_in_text_of_typed_storage_are_dates_and_other_digits_are_codes() -> None:
    rng, table = np.random.default_rng(1), visits()
    begin = pd.to_datetime(table["begin"].astype(str), format="%Y%m%d")
    typed = pd.DataFrame(
        {
            "begin": begin.dt.strftime("%Y%m%d"),
            "last": begin.dt.strftime("%d%m%Y"),
            "account": rng.integers(10**7, 10**8, ROWS).astype(str),
            "zip": rng.choice(["10115", "20095", "50667"], ROWS),
            "room": rng.choice(["115", "230", "1345", "1100"], ROWS),
        }
    )
    synthesis = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(typed)
    own = {name: own_of(synthesis, name) for name in synthesis.schema.names}
    formats = {name: column.format for name, column in own.items() if isinstance(column, Date)}
    assert formats == {"begin": "%Y%m%d", "last": "%d%m%Y"}
    looks = {event.what for event in synthesis.release.events}
    assert "format of room" in looks
    assert "format of zip" not in looks
    made = synthesis.sample(2_000, rng=np.random.default_rng(0))
    assert made.dtypes.tolist() == typed.dtypes.tolist()
    assert pd.to_datetime(made["begin"], format="%Y%m%d").dt.year.between(2009, 2015).mean() > 0.98
    assert set(made["room"]) == set(typed["room"])


def test_numbers_of_other_sizes_are_not_asked_about() -> None:
    unit, column = Fraction(1, 100), Integer(name="x", strict=False)

    def price(low: float, high: float, rows: float = 10_000.0) -> Fraction:
        return price_dates(column, (low, high), unit, rows, lambda cost: float(cost) ** -0.5)

    assert price(2.0**24, 2.0**25) > 0
    assert price(2.0**37, 2.0**38) > 0
    assert price(2.0**44, 2.0**45) > 0
    assert price(2.0**36, 2.0**38) == price(2.0**44, 2.0**46) == price(2.0**37, 2.0**45) == 0
    assert price(2.0**23, 2.0**25) == price(2.0**24, 2.0**28) == price(2.0**17, 2.0**18) == 0
    assert price(2.0**24, 2.0**25, rows=50.0) == 0  # noise would hide the answer
    assert price(2.0**24, 2.0**25) <= unit / 2


def test_what_is_not_evident_stays_a_number() -> None:
    class Votes:
        def __init__(self, votes: list[int]) -> None:
            self._votes = np.array(votes)

        def spellings(self, name: str, read: str) -> Any:
            assert (name, read) == ("x", "date number")
            return self

        def reveal(self) -> Any:
            return self._votes

    def look(what: str, exact: Any, cost: Fraction, every_row: bool) -> tuple[Any, float]:
        assert (what, cost, every_row) == ("dates of x", Fraction(1), False)
        return exact().astype(float), 10.0

    column = Integer(name="x", strict=False, missing=True)
    for votes, expected in (
        ([0, 900, 0, 0], "%Y%m%d"),
        ([100, 900, 0, 0], None),
        ([0, 0, 0, 900], "%Y%m%d%H%M%S"),
    ):
        answer = ask_for_dates(column, Votes(votes), look, Fraction(1))  # type: ignore[arg-type]
        assert (answer and answer.format) == expected
        assert answer is None or answer.missing
