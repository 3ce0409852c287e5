"""Names of weekdays, months and quarters: no list can be taken for another, and what is missing is added."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from margrave.schema.calendar import FISCAL_YEARS, is_possible
from margrave.schema.date_names import (
    FISCAL,
    MIN_NAMES,
    MOST_NAMES,
    NAME_LISTS,
    SPANS,
    list_fiscal_parts,
    list_named_parts,
    list_period_parts,
    normalize_name,
    read_names,
    turn_seasons,
)


def test_no_names_of_a_column_can_be_read_in_two_ways() -> None:
    for one, two in combinations(NAME_LISTS, 2):
        both = set(one.numbers) & set(two.numbers)
        unlike = [key for key in both if (one.part, one.numbers[key]) != (two.part, two.numbers[key])]
        assert not unlike or len(both) < MIN_NAMES, (one.names[0], two.names[0], both)


def test_each_list_is_whole_and_a_name_stands_for_one_number() -> None:
    for one in NAME_LISTS:
        assert len(one.names) == {"weekday": 7, "month": 12, "season": 4}[one.part]
        spelt = {(normalize_name(name), place) for place, names in enumerate(one.names, 1) for name in names}
        assert dict(spelt) == one.numbers
        assert len(spelt) == len(one.numbers), one.names[0]


@pytest.mark.parametrize("one", NAME_LISTS, ids=lambda one: f"{one.part} {one.names[0][0]}")
def test_full_names_and_abbreviations_are_read_in_every_language(one: object) -> None:
    for place in (0, 1):
        texts = [names[min(place, len(names) - 1)] for names in one.names]  # type: ignore[attr-defined]
        for spell in (str.lower, str.upper, str.capitalize, lambda text: f"{text}."):
            spelt = [spell(text) for text in texts]
            assert read_names(spelt) == (one.part, dict(zip(spelt, range(1, 13), strict=False)))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("texts", "part", "numbers"),
    [
        (("Q1", "Q3", "Q2"), "quarter", {"Q1": 1, "Q3": 3, "Q2": 2, "Q4": 4}),
        (("1Q", "2Q", "4Q"), "quarter", {"1Q": 1, "2Q": 2, "4Q": 4, "3Q": 3}),
        (("T4", "T1", "T2"), "quarter", {"T4": 4, "T1": 1, "T2": 2, "T3": 3}),
        (("Sa", "Fr", "Mo"), "weekday", {"Sa": 6, "Fr": 5, "Mo": 1, "Tu": 2, "We": 3, "Th": 4, "Su": 7}),
        (("H1", "H2"), "half", {"H1": 1, "H2": 2}),
        (("Winter", "Fall", "Spring"), "season", {"Winter": 1, "Fall": 4, "Spring": 2, "Summer": 3}),
        (("weekday", "Week-End"), "weekend", {"weekday": 0, "Week-End": 1}),
        (
            ("LUNEDÌ", "martedi", "Sab", "dom.", "gio", "ven", "mer"),
            "weekday",
            {"LUNEDÌ": 1, "martedi": 2, "Sab": 6, "dom.": 7, "gio": 4, "ven": 5, "mer": 3},
        ),
    ],
)  # fmt: skip
def test_names_that_are_missing_are_spelt_as_the_others(
    texts: tuple[str, ...], part: str, numbers: dict[str, int]
) -> None:
    assert read_names(texts) == (part, numbers)


@pytest.mark.parametrize(
    ("texts", "added"),
    [
        (("jan", "feb", "may"), {"mar", "dec"}),
        (("JAN", "FEB", "OCT"), {"MAR", "DEC"}),
        (("January", "February", "May"), {"March", "December"}),
        (("Jan.", "Feb.", "Oct.", "May"), {"Mar.", "Dec."}),
        (("janv.", "mars", "août", "oct."), {"juil.", "déc."}),
        (("Mai", "März", "Oktober"), {"Dezember"}),
    ],
)
def test_months_come_in_the_case_and_length_of_the_others(texts: tuple[str, ...], added: set[str]) -> None:
    part, numbers = read_names(texts) or ("", {})
    assert part == "month"
    assert added <= set(numbers) - set(texts)
    assert sorted(numbers.values()) == list(range(1, 13))


@pytest.mark.parametrize(
    ("texts", "part", "number", "added"),
    [
        (("2023-Q1", "2023-Q2", "2024-Q1"), "year_quarter", 20231, ("2024-Q4", 20244)),
        (("Q1 2023", "Q2 2023", "Q1 2024"), "year_quarter", 20231, ("Q3 2024", 20243)),
        (("2023Q1", "2023Q2", "2023Q3"), "year_quarter", 20231, ("2023Q4", 20234)),
        (("2023-05", "2023-06", "2024-01"), "year_month", 202305, ("2024-12", 202412)),
        (("05/2023", "06/2023", "01/2024"), "year_month", 202305, ("12/2024", 202412)),
        (("May 2021", "May 2022", "May 2023"), "year_month", 202105, ("December 2022", 202212)),
    ],
)
def test_quarters_and_months_with_a_year(
    texts: tuple[str, ...], part: str, number: int, added: tuple[str, int]
) -> None:
    found, numbers = read_names(texts) or ("", {})
    assert found == part
    assert numbers[texts[0]] == number
    assert numbers[added[0]] == added[1]
    assert all(is_possible(part, one) for one in numbers.values())


@pytest.mark.parametrize(
    "texts",
    [
        (), ("",), ("Mon", "Tue"), ("Q1", "Q2", "Q5"), ("Mon", "Tue", "odd"), ("May", "May.", "MAY"),
        ("1", "2", "3"), ("2021", "2022", "2023"), ("Monday 2021", "Monday 2022", "Monday 2023"),
        ("2021-13", "2021-12", "2021-11"), ("H1",), ("H1", "H2", "H3"), ("winter", "summer"),
        ("weekend",), ("2021 H1", "2021 H2", "2022 H1"),
        ("mon", "lundi", "martes"), ("a 2021", "b 2021", "c 2021"),
    ],
)  # fmt: skip
def test_what_is_no_column_of_names(texts: tuple[str, ...]) -> None:
    assert read_names(texts) is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("is_weekend", ("weekend",)),
        ("Season", ("season", "season_from_21")),
        ("dayOfYear", ("day_of_year",)),
        ("iso_week", ("week",)),
        ("FiscalYear", FISCAL),
        ("academic_year", ("fiscal_year_september",)),
        ("birth_decade", ("decade",)),
        ("weeks", ()),
        ("weakness", ()),
        ("price", ()),
    ],
)
def test_names_of_columns_say_which_parts_they_may_be(name: str, parts: tuple[str, ...]) -> None:
    assert list_named_parts(name) == parts


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (("FY2021", "FY2024", "FY2022"), {"FY2021": 2021, "FY2024": 2024, "FY2022": 2022, "FY2023": 2023}),
        (("FY24", "FY25"), {"FY24": 2024, "FY25": 2025}),
        (("2023/24", "2021/22"), {"2023/24": 2024, "2021/22": 2022, "2022/23": 2023}),
        (("2009-10", "2011-12"), {"2009-10": 2010, "2011-12": 2012, "2010-11": 2011}),
        (("2023/2024", "2024/2025"), {"2023/2024": 2024, "2024/2025": 2025}),
        (("FY 23-24", "FY 25-26"), {"FY 23-24": 2024, "FY 25-26": 2026, "FY 24-25": 2025}),
        (("1999/00", "1998/99"), {"1999/00": 2000, "1998/99": 1999}),
    ],
)
def test_fiscal_years_are_read_by_the_year_in_which_they_end(
    texts: tuple[str, ...], numbers: dict[str, int]
) -> None:
    assert read_names(texts) == ("fiscal_year_july", numbers)


@pytest.mark.parametrize(
    "texts", [("2021", "2022", "2023"), ("2021/23", "2022/24"), ("FY24", "Q1"), ("FY2024",), ("5/6", "6/7")]
)
def test_other_texts_are_no_fiscal_years(texts: tuple[str, ...]) -> None:
    assert read_names(texts) is None


def test_fiscal_years_may_begin_in_several_months() -> None:
    told = list_fiscal_parts({"2023/24": 2024})
    begins = {"fiscal_year_april": 2023}
    assert told == [(part, {"2023/24": begins.get(part, 2024)}) for part in SPANS]
    starts = [FISCAL_YEARS[part][0] for part in (*SPANS, *FISCAL)]
    assert {(two - one) % 12 for one, two in pairwise(starts)} <= {2, 3, 7}
    named = list_fiscal_parts({"FY24": 2024})
    assert named[: len(told)] == [(part, {"FY24": begins.get(part, 2024)}) for part in FISCAL]
    assert named[len(told) :] == [("fiscal_year_april", {"FY24": 2024}), ("year", {"FY24": 2024})]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("invoice_month", ("month_start", "month_end")),
        ("EOM", ("month_start", "month_end")),
        ("weekStart", ("week_start",)),
        ("sold", ()),
        ("months", ()),
    ],
)
def test_names_of_dates_say_which_periods_they_may_end(name: str, parts: tuple[str, ...]) -> None:
    assert list_period_parts(name) == parts


def test_seasons_of_the_south_are_half_a_year_off() -> None:
    assert turn_seasons({"winter": 1, "spring": 2, "summer": 3, "fall": 4}) == {
        "winter": 3,
        "spring": 4,
        "summer": 1,
        "fall": 2,
    }


def test_engines_compare_no_more_names_than_they_can() -> None:
    months = [f"{year}-{month:02}" for year in range(1990, 2024) for month in range(1, 13)]
    assert read_names(months) is None
    few = months[::5][:60]
    assert read_names(few) == ("year_month", {text: int(text.replace("-", "")) for text in few})
    found = read_names(months[:MOST_NAMES])
    assert found is not None
    assert len(found[1]) <= MOST_NAMES
