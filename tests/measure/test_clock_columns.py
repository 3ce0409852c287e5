"""Whole numbers that are times of day: what is asked, what is found, and what is made of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from margrave import Schema, Synthesizer
from margrave.measure.discovery.kinds import CLOCK_WEIGHT, ask_for_clock, price_clock, settle_digits
from margrave.schema.columns import Categorical, Column, Date, Integer, Real, Time
from margrave.schema.columns.relative import take_own
from margrave.schema.constraints.rules import Ordered
from margrave.schema.storage.clock_numbers import CLOCK_VOTES, read_clock

pytestmark = pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
ROWS = 12_000


def hhmm(minute: Any) -> Any:
    minute = np.asarray(minute) % 1440
    return minute // 60 * 100 + minute % 60


def trips(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Planned and real departures, some after midnight, the delay, the parts of one, and the passengers."""
    rng = np.random.default_rng(seed)
    planned = rng.integers(60, 288, rows) * 5
    delay = np.where(rng.random(rows) < 0.6, rng.integers(-8, 4, rows), rng.exponential(40, rows).astype(int))
    return pd.DataFrame(
        {
            "planned": hhmm(planned),
            "left": hhmm(planned + delay),
            "delay": delay,
            "hour": planned // 60,
            "minute": planned % 60,
            "people": np.clip(rng.normal(60, 25, rows), 1, 200).astype(int),
        }
    )


def others(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 101, rows),
            "price": rng.integers(2, 48, rows) * 50,
            "hundreds": rng.integers(1, 24, rows) * 100,
            "year": rng.integers(1930, 2024, rows),
            "pounds": np.clip(rng.normal(175, 40, rows), 80, 400).astype(int),
            "ticket": rng.integers(1, 2401, rows),
            "room": rng.integers(1, 21, rows) * 100 + rng.integers(1, 41, rows),
            "day": rng.integers(1, 13, rows) * 100 + rng.integers(1, 31, rows),
            "energy": np.clip(rng.normal(1900, 350, rows), 600, 2400).astype(int),
            "area": np.clip(rng.normal(1500, 400, rows), 300, 2400).astype(int),
            "far": rng.integers(-2400, 9000, rows),
        }
    )


def fit(table: Any, epsilon: float = 3.0, schema: Schema | None = None, **options: Any) -> Any:
    made = Synthesizer("independent", epsilon=epsilon, schema=schema, not_private_test_seed=0, **options)
    return made.fit(table)


def own_of(synthesis: Any, name: str) -> Column:
    return take_own(synthesis.schema[name])


def asked(synthesis: Any) -> list[str]:
    return [event.what for event in synthesis.release.events if event.what.startswith("times of day of")]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("trips") / "trips.csv"
    trips().to_csv(path, index=False)
    return fit(path)


def test_times_are_found_in_a_file_and_written_as_they_came(found: Any) -> None:
    assert asked(found) == ["times of day of planned", "times of day of left"]
    for name in ("planned", "left"):
        column = own_of(found, name)
        assert isinstance(column, Time)
        assert (column.format, column.strict) == ("%-H%M", False)
    made = found.sample_arrow(4_000, rng=np.random.default_rng(0)).to_pandas()
    for name in ("planned", "left"):
        assert made[name].dtype == np.int64
        assert read_clock(made[name].to_numpy())[1].all()
    assert (made["planned"] % 5 == 0).mean() > 0.95


def test_parts_and_delays_are_told_over_midnight_too(found: Any) -> None:
    words = {rule.words for rule in found.schema.rules}
    told = {"delay is the minutes from planned to left", "hour is the hour of planned"}
    assert words == {*told, "minute is the minute of planned"}
    made = found.sample_arrow(4_000, rng=np.random.default_rng(0)).to_pandas()
    ends = [read_clock(made[name].to_numpy())[0] // 60_000_000 for name in ("planned", "left")]
    between = (ends[1] - ends[0] + 720) % 1440 - 720
    assert (between == made["delay"]).mean() > 0.98
    assert (made["planned"] // 100 == made["hour"]).all()
    assert (made["planned"] % 100 == made["minute"]).all()
    assert (ends[1] < ends[0] - 720).any()


def test_other_numbers_stay_numbers() -> None:
    for epsilon in (1.0, 10.0):
        synthesis = fit(others(), epsilon)
        assert {f"times of day of {name}" for name in ("ticket", "room", "energy")} < set(asked(synthesis))
        assert {type(own_of(synthesis, name)) for name in others()} == {Integer}


def test_what_cannot_be_times_is_not_asked_about() -> None:
    names = {what.removeprefix("times of day of ") for what in asked(fit(others(), 10.0))}
    assert names.isdisjoint({"age", "pounds", "year", "far"})


@pytest.mark.parametrize("kind", ["int16", "float64", "Int64", "string"])
def test_all_storage_that_may_hold_them_is_asked(kind: str) -> None:
    table = trips()[["left", "people"]]
    table["left"] = table["left"].astype(kind)
    synthesis = fit(table)
    # Text of digits stays text where the storage has numbers of its own.
    assert isinstance(own_of(synthesis, "left"), Time) == (kind != "string")
    made = synthesis.sample(2_000, rng=np.random.default_rng(0))
    assert str(made["left"].dtype) == kind
    if kind != "string":
        assert read_clock(made["left"].to_numpy(dtype=float, na_value=np.nan))[1].all()


def test_zeros_in_front_and_points_are_kept(tmp_path: Path) -> None:
    table = trips()
    wide = table["left"].map("{:04d}".format)
    path = tmp_path / "t.csv"
    code = np.random.default_rng(2).integers(0, 10_000, ROWS)
    pd.DataFrame(
        {
            "wide": wide,
            "point": table["planned"].map("{}.0".format),
            "code": pd.Series(code).map("{:04d}".format),
        }
    ).to_csv(path, index=False)
    synthesis = fit(path)
    assert own_of(synthesis, "wide").format == "%H%M"  # type: ignore[attr-defined]
    assert own_of(synthesis, "point").format == "%-H%M.0"  # type: ignore[attr-defined]
    assert not isinstance(own_of(synthesis, "code"), Time)
    made = synthesis.sample_arrow(500, rng=np.random.default_rng(0))
    assert {len(text) for text in made["wide"].to_pylist()} == {4}
    assert all(text.endswith(".0") for text in made["point"].to_pylist())


def test_declared_and_ruled_columns_keep_their_kinds(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    trips()[["planned", "left", "people"]].to_csv(path, index=False)
    for table in (path, trips()):
        synthesis = fit(table, schema=Schema((Integer(name="planned"),)))
        assert asked(synthesis) == ["times of day of left"]
        ruled = fit(
            table,
            schema=Schema((Integer(name="planned"), Integer(name="left")), (Ordered("planned", "left"),)),
        )
        assert asked(ruled) == []


def test_declared_codes_with_zeros_in_front_stay_codes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table = trips()[["planned", "people"]]
    table = table.assign(planned=table["planned"].map("{:04d}".format))
    table.to_csv(path, index=False)
    schema = Schema((Categorical(name="planned", values=tuple(sorted(set(table["planned"])))),))
    synthesis = fit(path, schema=schema)
    assert isinstance(own_of(synthesis, "planned"), Categorical)
    assert "format of planned" not in [event.what for event in synthesis.release.events]


def test_a_declared_format_is_read_without_a_look(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table = trips()[["left", "people"]]
    table.to_csv(path, index=False)
    schema = Schema((Time(name="left", format="%-H%M", strict=False),))
    for data in (path, table):
        synthesis = fit(data, schema=schema)
        assert asked(synthesis) == []
        made = np.asarray(synthesis.sample_arrow(2_000, rng=np.random.default_rng(0))["left"])
        assert read_clock(made)[1].all()
        assert abs(np.median(made) - table["left"].median()) < 60


def price(ends: tuple[float, float], rows: float = 1e4, column: Any = None) -> float:
    """What the look costs, in units of a look of weight 1, where noise has a deviation of 100."""
    whole = Integer(name="n") if column is None else column
    return float(price_clock(whole, ends, Fraction(8), rows, lambda rho: 100.0) / 8)


def test_the_range_decides_whether_it_is_asked() -> None:
    for ends in ((0, 2048), (0, 4096), (512, 1024)):
        assert price(ends) == CLOCK_WEIGHT
    for ends in ((0, 512), (-8, 2048), (1990, 2025), (0, 8192)):
        assert price(ends) == 0
    assert price((0, 2048), column=Real(name="n")) == 0
    # Its name, which is public, says that a number is none.
    assert price((0, 2048), column=Integer(name="incident_code")) == 0


def test_no_less_noise_is_bought_than_is_needed_and_none_where_noise_would_hide_it() -> None:
    assert price((0, 2048), 3_900.0) == 0
    assert price((0, 2048), 4_100.0) == CLOCK_WEIGHT
    assert price((0, 2048), 20_000.0) == CLOCK_WEIGHT / 4
    assert price((0, 2048), 1e9) == CLOCK_WEIGHT / 4096


class _Source:
    """A table of one column, by its votes."""

    def __init__(self, votes: list[int]) -> None:
        self.votes = votes

    def spellings(self, column: str, read: str) -> Any:
        assert (column, read) == ("n", "clock format")
        return self

    def reveal(self) -> Any:
        return np.array(self.votes)


def test_the_look_is_one_table_of_votes() -> None:
    costs = []

    def look(what: str, exact: Any, rho: Any, every_row: bool) -> tuple[Any, float]:
        assert (what, every_row) == ("times of day of n", False)
        costs.append(rho)
        return exact().astype(float), 0.0

    votes = [0, *[100] * (len(CLOCK_VOTES) - 1)]
    column = Integer(name="n", mark="NA", missing=True, bins=8)
    found = ask_for_clock(column, _Source(votes), look, Fraction(3))  # type: ignore[arg-type]
    assert found == Time(name="n", mark="NA", missing=True, bins=8, format="%-H%M", strict=False)
    assert ask_for_clock(column, _Source([900, *votes[1:]]), look, Fraction(3)) is None  # type: ignore[arg-type]
    assert costs == [Fraction(3)] * 2


def test_digits_of_two_kinds_are_neither_times_nor_dates() -> None:
    times, codes = [0.0, 10.0, 0.0, 40.0, 150.0, 220.0, 580.0], Categorical(name="n", strict=False)
    found = Time(name="n", format="%H%M", strict=False)
    assert settle_digits(codes, np.array([*times, 0.0, 0.0, 0.0, 0.0]), 1.0, True) == found
    assert settle_digits(codes, np.array([*times, 0.0, 0.0, 0.0, 0.0]), 1.0, False) is codes
    assert settle_digits(codes, np.array([*times, 60.0, 0.0, 40.0, 0.0]), 1.0, True) is codes
    for votes, written in (([600.0, 0.0, 400.0, 0.0], "%d%m%Y"), ([0.0, 0.0, 0.0, 1000.0], "%Y%m%d")):
        day = Date(name="n", format=written, strict=False)
        assert settle_digits(codes, np.array([0.0] * 7 + votes), 1.0, False) == day
