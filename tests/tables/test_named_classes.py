"""Labels that name ranges of numbers, and tables that are held against them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical, Integer, Real
from margrave.schema.constraints.rules import Within
from margrave.schema.schema import Schema
from margrave.tables.classes import add_classes
from margrave.tables.named_classes import read_range, read_ranges

ROWS = 3_000
DECADES = ("10s", "20s", "30s", "40s", "50s", "60s", "70s", "80s")


@pytest.mark.parametrize(
    ("label", "ends"),
    [
        ("25-34", (25, 35)),
        ("25 – 34 years", (25, 35)),
        ("Aged 5 to 9", (5, 10)),
        ("50s", (50, 60)),
        ("65+", (65, math.inf)),
        ("65 and over", (65, math.inf)),
        ("> 64", (65, math.inf)),
        (">=65", (65, math.inf)),
        ("<18", (-math.inf, 18)),
        ("up to 17", (-math.inf, 18)),
        ("(18, 25]", (19, 26)),
        ("[18,25)", (18, 25)),
        ("(65.0, inf]", (66, math.inf)),
        ("$10,000 to $19,999", (10_000, 20_000)),
        ("30k-50k", (30_000, 50_001)),
        ("1 000 - 4 999", (1_000, 5_000)),
        ("-5 to 5", (-5, 6)),
        ("3", (3, 4)),
    ],
)
def test_what_labels_name(label: str, ends: tuple[float, float]) -> None:
    assert read_range(label) == ends


@pytest.mark.parametrize("label", ["", "unknown", "A1", "12-A", "3-4-5", "34-25", "type 2", "(other)", "N/A"])
def test_labels_that_name_none(label: str) -> None:
    assert read_range(label) is None


def test_numbers_between_whole_ones_are_in_the_class_below() -> None:
    labels = ["<18.5", "18.5-24.9", "25-29.9", "30+"]
    assert read_ranges(labels, 0.0) == [(-math.inf, 18.5), (18.5, 25.0), (25.0, 30.0), (30.0, math.inf)]
    assert read_ranges(["0-10", "10-20", "20-30"]) == [(0, 10), (10, 20), (20, 31)]


def test_ranges_that_overlap_are_few_or_are_single_numbers_are_none() -> None:
    assert read_ranges(["0-20", "10-30", "30-40"]) is None
    assert read_ranges(["0-20", "20-30", "n/a"]) is None
    assert read_ranges(["1", "2", "3"]) is None
    assert read_ranges(["1", "2", "3+", "n/a"]) == [(1, 2), (2, 3), (3, math.inf), None]


def number(name: str, least: int, bins: int = 8) -> Integer:
    """A whole number of 80 values in bins of ten."""
    edges = tuple(range(least, least + 81, 80 // bins))
    fine = tuple(range(least, least + 81))
    return Integer(name=name, edges=edges, fine=fine, weights=(1.0,) * 80, missing=False)


def measure(
    column: Integer | Real, by: Categorical, values: Any, labels: Any, sigma: float, seed: int = 0
) -> list[NoisyMarginal]:
    rng = np.random.default_rng(seed)
    bins = np.searchsorted(column.edge_array, values, side="right") - 1
    codes = np.array([(by.values or ()).index(one) for one in labels])
    table = np.zeros((column.size, by.size))
    np.add.at(table, (np.clip(bins, 0, column.present - 1), codes), 1.0)
    return [NoisyMarginal((column.name, by.name), table + rng.normal(0.0, sigma, table.shape), sigma)]


def find(column: Integer | Real, by: Categorical, tables: list[NoisyMarginal]) -> list[Within]:
    return [one for one in add_classes(Schema((column, by)), tables).rules if isinstance(one, Within)]


def decades(ages: Any) -> list[str]:
    return [DECADES[min(max(int(age) // 10 - 1, 0), 7)] for age in ages]


BY = Categorical(name="group", values=DECADES[::-1], missing=False)


@pytest.mark.parametrize("sigma", [3.0, 30.0])
def test_labels_tell_ranges_where_noise_hides_every_cell(sigma: float) -> None:
    ages = np.random.default_rng(1).integers(10, 90, ROWS)
    column = number("age", 10)
    for seed in range(4):
        (rule,) = find(column, BY, measure(column, BY, ages, decades(ages), sigma, seed))
        ends = {value: (low, high) for value, low, high in rule.entries}
        assert ends["50s"] == (50, 59)
        assert ends["10s"] == (None, 19)
        assert ends["80s"] == (80, None)
        assert rule.share is not None
        assert rule.share[0] > 0.8


def test_a_year_of_birth_tells_the_age_group_of_a_year() -> None:
    born = np.random.default_rng(1).integers(1_935, 2_010, ROWS)
    column = number("born", 1_930)
    for year in (2_020, 2_023):
        (rule,) = find(column, BY, measure(column, BY, born, decades(year - born), 5.0))
        ends = {value: (low, high) for value, low, high in rule.entries}
        assert ends["50s"] == (year - 59, year - 50)


@pytest.mark.parametrize("sigma", [3.0, 30.0])
def test_groups_of_something_near_or_apart_are_left_alone(sigma: float) -> None:
    rng = np.random.default_rng(1)
    ages, column = rng.integers(10, 90, ROWS), number("age", 10)
    near, apart = ages + rng.normal(0.0, 12.0, ROWS), rng.integers(10, 90, ROWS)
    for other in (near, apart):
        for seed in range(4):
            assert find(column, BY, measure(column, BY, ages, decades(other), sigma, seed)) == []


def test_labels_that_name_other_numbers_are_left_alone() -> None:
    ages = np.random.default_rng(1).integers(10, 90, ROWS)
    column = number("weeks", 500)
    values = 500 + np.random.default_rng(2).integers(0, 80, ROWS)
    assert find(column, BY, measure(column, BY, values, decades(ages), 5.0)) == []


def test_labels_that_name_none_stay_free_beside_the_others() -> None:
    rng = np.random.default_rng(1)
    ages, column = rng.integers(10, 90, ROWS), number("age", 10)
    by = Categorical(name="group", values=(*DECADES, "unknown"), missing=False)
    few = [
        label if keep else "unknown"
        for label, keep in zip(decades(ages), rng.random(ROWS) > 0.05, strict=True)
    ]
    (rule,) = find(column, by, measure(column, by, ages, few, 5.0))
    assert {value for value, _, _ in rule.entries} == {*DECADES}
    many = [
        label if keep else "unknown"
        for label, keep in zip(decades(ages), rng.random(ROWS) > 0.3, strict=True)
    ]
    assert all(
        "unknown" in {value for value, _, _ in one.entries}
        for one in find(column, by, measure(column, by, ages, many, 5.0))
    )


def test_classes_of_numbers_with_decimals_end_below_the_next_one() -> None:
    fine = tuple(np.linspace(15.0, 40.0, 101))
    column = Real(
        name="bmi", edges=tuple(np.linspace(15.0, 40.0, 11)), fine=fine, weights=(1.0,) * 100, missing=False
    )
    by = Categorical(name="class", values=("30+", "25-29.9", "18.5-24.9", "<18.5"), missing=False)
    values = np.random.default_rng(1).uniform(15.0, 40.0, ROWS)
    labels = np.array(["<18.5", "18.5-24.9", "25-29.9", "30+"])[
        np.searchsorted([18.5, 25.0, 30.0], values, side="right")
    ]
    (rule,) = find(column, by, measure(column, by, values, labels, 10.0))
    ends = {value: (low, high) for value, low, high in rule.entries}
    assert ends["25-29.9"] == (25.0, np.nextafter(30.0, -math.inf))
    assert ends["<18.5"] == (None, np.nextafter(18.5, -math.inf))
