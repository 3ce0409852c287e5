"""Years among the digits of keys: found where they are a date's, obeyed by rows, not found by chance."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.between.calendar import choose_rules
from margrave.measure.discovery.between.key_years import list_key_years
from margrave.schema.columns import Categorical, Column, Identifier, Integer
from margrave.schema.constraints.rules import KeyYear

ROWS = 6_000
YEARS = {"opened": np.arange(2018, 2024).repeat(100)}


def write_keys(days: list[dt.date], numbers: list[int]) -> dict[str, list[str]]:
    """Keys as stewards write them: a year in front, of two digits, or behind a number."""
    pairs = list(zip(days, numbers, strict=True))
    return {
        "case_no": [f"{day.year}-{number:05d}" for day, number in pairs],
        "contract": [f"V{day.year % 100}/{number:05d}" for day, number in pairs],
        "permit": [f"BA-{number:05d}/{day.year}" for day, number in pairs],
        "student_no": [f"{day.year}{number:05d}" for day, number in pairs],
    }


def release(columns: dict[str, list[str]], days: list[dt.date], path: Path) -> tuple[set[str], pa.Table]:
    """The keys that were found to have the year of the date, and rows."""
    kind = ["civil" if number % 3 else "family" for number in range(ROWS)]
    csv.write_csv(pa.table({"opened": days, "kind": kind, **columns}), path)
    synthesis = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0).fit(path)
    found = {rule.number for rule in synthesis.schema.rules if isinstance(rule, KeyYear)}
    return found, synthesis.sample_arrow(3_000, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def days() -> list[dt.date]:
    rng = np.random.default_rng(0)
    return [dt.date(2018, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 2191, ROWS)]


@pytest.fixture(scope="module")
def numbers() -> list[int]:
    return np.random.default_rng(1).permutation(90_000)[:ROWS].tolist()


def test_years_in_keys_are_found_and_rows_obey(
    days: list[dt.date], numbers: list[int], tmp_path: Path
) -> None:
    keys = write_keys(days, numbers)
    found, made = release(keys, days, tmp_path / "cases.csv")
    assert found == set(keys)
    opened = [dt.date.fromisoformat(str(day)) for day in made["opened"].to_pylist()]
    told = write_keys(opened, [0] * len(opened))
    places = {"case_no": slice(4), "contract": slice(3), "permit": slice(-4, None), "student_no": slice(4)}
    for name, cut in places.items():
        drawn = [str(key) for key in made[name].to_pylist()]
        assert [key[cut] for key in drawn] == [key[cut] for key in told[name]], name
        assert len(set(drawn)) == len(drawn)


def test_years_of_nothing_are_no_find(days: list[dt.date], numbers: list[int], tmp_path: Path) -> None:
    mixed = [days[place] for place in np.random.default_rng(2).permutation(ROWS)]
    assert release(write_keys(mixed, numbers), days, tmp_path / "mixed.csv")[0] == set()


def shapes(*found: str) -> Identifier:
    return Identifier(name="key", pattern="shape", shapes=found)


@pytest.mark.parametrize(
    ("column", "place"),
    [
        (shapes("INV-202[0-9]-[0-9]{4}"), (4, 4)),
        (shapes("CL2019[0-9]{5}", "CL2020[0-9]{5}"), (2, 4)),
        (shapes("2019[0-9]{2}-[0-9]{4}", "202[0-9]{3}-[0-9]{4}"), (0, 4)),
        (shapes("L19[0-9]{5}", "L2[0-9]{6}"), (1, 2)),
        (shapes("V19/[0-9]{4}", "V2[0-9]/[0-9]{4}"), (1, 2)),
        (shapes("BA-0[0-9]{3}/[0-9]{4}", "BA-[1-9][0-9]{3}/[0-9]{4}"), (8, 4)),
        (shapes("[0-9]{3}/20[0-9]{2}", "[0-9]{4}/20[0-9]{2}", "[0-9]{5}/20[0-9]{2}"), (-4, 4)),
        (Categorical(name="key", values=(), patterns=("20-[0-9]{4}", "21-[0-9]{4}")), (0, 2)),
        # A number alone, years before any of the date's, digits of which nothing is known, a text, a number.
        (shapes("[1-9][0-9]{7}"), None),
        (shapes("1998-[0-9]{5}"), None),
        (shapes("S-[0-9]{2}-[0-9]{4}"), None),
        (Categorical(name="key", values=("2019", "2020")), None),
        (Integer(name="key", unique=True), None),
        # Pressures repeat, and are no keys.
        (Categorical(name="key", values=(), patterns=("1[0-9]{2}/[0-9]{2}",)), None),
    ],
)
def test_shapes_say_where_a_year_may_stand(column: Column, place: tuple[int, int] | None) -> None:
    found = [(rule.place, rule.digits) for rule in list_key_years([column], YEARS)]
    assert found == ([place] if place else [])


def test_dates_of_a_century_say_nothing() -> None:
    born = {"born": np.arange(1900, 2024)}
    assert list_key_years([shapes("V19/[0-9]{4}")], born) == []


def test_the_date_whose_year_most_keys_have_is_taken() -> None:
    rules = [KeyYear("key", date, 0) for date in ("applied", "issued")]
    noisy = np.array([[900.0, 100.0, 0.0], [1000.0, 0.0, 0.0]])
    (found,) = choose_rules(rules, noisy, 40.0, lambda rule: (rule.dates[0] > "b",), {})
    assert found.dates == ("issued",)
    # What noise leaves open is the one that comes first.
    (found,) = choose_rules(rules, noisy, 80.0, lambda rule: (rule.dates[0] > "b",), {})
    assert found.dates == ("applied",)


def test_a_year_that_nearly_all_rows_have_proves_nothing() -> None:
    noisy = np.array([[950.0, 50.0, 0.0]])
    rules = [KeyYear("key", "opened", 0)]
    assert choose_rules(rules, noisy, 5.0, lambda rule: (0.0,), {"key": 0.95}) == []
    assert len(choose_rules(rules, noisy, 5.0, lambda rule: (0.0,), {"key": 0.3})) == 1
