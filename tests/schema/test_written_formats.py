"""Formats of numbers and dates in text: what each cell votes for, what is chosen, read and written again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from margrave.errors import SchemaError
from margrave.schema.columns import Date, Duration, Integer, Real
from margrave.schema.encode import encode
from margrave.schema.schema import Schema
from margrave.schema.storage.date_votes import DATE_VOTES, choose_date_format, vote_on_dates
from margrave.schema.storage.numbers import AFFIXES, NUMBER_VOTES, choose_number_format, vote_on_numbers
from margrave.schema.storage.spelling import (
    SPELLINGS,
    rewrite_column,
    spellings,
    write_format,
)
from margrave.schema.storage.text import date_format, number_format

NUMBERS = {
    "$1,234.50": ("$", "", "commas point"),
    "1.234,5 €": ("", " €", "points comma"),
    "1.234.567": ("", "", "points"),
    "1,234,567": ("", "", "commas"),
    "32%": ("", "%", "whole"),
    "12,5": ("", "", "comma"),
    "0,125": ("", "", "comma"),
    "1,250": ("", "", "comma3"),
    "1.250": ("", "", "point3"),
    "-5,5": ("", "", "comma"),
    "(1,250)": ("(", ")", "comma3"),
    "(12)": ("(", ")", "whole"),
    "($1,037.50)": ("($", ")", "commas point"),
    "(5.5%)": ("", "%", "point"),
    "1\u202f234,5": ("", "", "blanks comma"),
    "1'234.5": ("", "", "apostrophes point"),
    "CHF 12": ("CHF ", "", "whole"),
    "72.4 kg": ("", " kg", "point"),
    "180cm": ("", "cm", "whole"),
    "37,2\u00a0°C": ("", " °C", "comma"),
    "-5 °C": ("", " °C", "whole"),
    "1,200 kWh": ("", " kWh", "comma3"),
    "65 m2": ("", " m2", "whole"),
    "24.5kg/m²": ("", "kg/m²", "point"),
    "1.2k": ("", "k", "point"),
    "$1.2M": ("$", "M", "point"),
    "$ 1,200": ("$ ", "", "comma3"),
    "€\u202f76,000": ("€ ", "", "comma3"),
    "Rs. 500": ("Rs. ", "", "whole"),
    "Rs.500": ("Rs.", "", "whole"),
    "500 kr.": ("", " kr.", "whole"),
    "$.50": ("$", "", "point"),
    "16 A": ("", " A", "whole"),
    "1,037.50-": ("", "-", "commas point"),
    "1.037,50-": ("", "-", "points comma"),
    "7.5-": ("", "-", "point"),
}
NO_NUMBERS = (
    "(-1.5)",
    "(1.5-)",
    "(1.5",
    "1.5)",
    "-1.5-",
    "12-",
    "1.5--",
    "1-2",
    "",
    "x",
    "1,23,4",
    "1.23.4",
    "12 34",
    "$",
    "5 apples",
    "12A",
    "0423T",
    "INR00123",
    "kg",
    "12.5 kg kg",
    "kg 12",
    "1 day",
    "1.2.3 kg",
    "12/31/2020",
    "(5 kg",
    "0,12,345",
    "%",
    "€12€",
    "1,2345.6",
)
DATES = {
    "01/31/2020": ("/", "month", 4, "padded", "wide"),
    "31.01.2020": (".", "day", 4, "padded", "wide"),
    "1/2/20": ("/", "either", 2, "bare", "wide"),
    "12/11/2020": ("/", "either", 4, "neither", "wide"),
    "2020/01/31": ("/", "year", 4, "padded", "wide"),
    "31-12-20": ("-", "day", 2, "neither", "wide"),
    "2020-1-5": ("-", "year", 4, "bare", "wide"),
    "01/31/2020 11:05:00 PM": ("/", "month", 4, "padded", "half"),
    "9/30/1990 0:00:00": ("/", "month", 4, "bare", "bare"),
    "31.01.2020 23:05": (".", "day", 4, "padded", "wide"),
    "28MAR2013": ("%d%b%Y", "JAN", "neither", "wide"),
    "08MAR2013:05:11:57": ("%d%b%Y", "JAN", "padded", "colon"),
    "28mar2013": ("%d%b%Y", "jan", "neither", "wide"),
    "08-Mar-13": ("%d-%b-%y", "Jan", "padded", "wide"),
    "8-May-2013": ("%d-%b-%Y", "May", "bare", "wide"),
    "March 8, 2013": ("%b %d, %Y", "January", "bare", "wide"),
    "Sep 28 2013 1:05 PM": ("%b %d %Y", "Jan", "neither", "half"),
    "2013-Mar-28": ("%Y-%b-%d", "Jan", "neither", "wide"),
    "10/Oct/2000:13:55:36": ("%d/%b/%Y", "Jan", "neither", "colon"),
}
NO_DATES = (
    "29.02.2023",
    "01/31/2020 13:05 PM",
    "2024-02-29T24:00",
    "2024-02-29T08:05:60",
    "",
    "13/13/2020",
    "31.02.2020",
    "1-2-20",
    "1.2.20",
    "01/31.2020",
    "001/2/2020",
    "1/2/202",
    "192.168.1.1",
    "31.01.2020:23:05",
    "30FEB2013",
    "28MAX2013",
    "March 2013",
    "28MAR2013:25:00",
    "A28MAR2013",
)


@pytest.mark.parametrize(("text", "vote"), NUMBERS.items())
def test_a_number_votes_for_its_class(text: str, vote: tuple[str, str, str]) -> None:
    (before, behind), core = NUMBER_VOTES[int(vote_on_numbers(pa.array([text]))[0])]
    assert (before, behind, core) == vote


@pytest.mark.parametrize(("text", "vote"), DATES.items())
def test_a_date_votes_for_its_class(text: str, vote: tuple[object, ...]) -> None:
    assert DATE_VOTES[int(vote_on_dates(pa.array([text]))[0])] == vote


def test_other_texts_vote_for_nothing() -> None:
    assert (vote_on_numbers(pa.array(NO_NUMBERS)) == -1).all()
    assert (vote_on_dates(pa.array(NO_DATES)) == -1).all()


def test_a_cell_votes_once_and_parts_add_up() -> None:
    texts = [*NUMBERS, *NO_NUMBERS, *DATES, *NO_DATES, "05/2011", "10.2011", None]
    for read in ("number format", "date format", "month format"):
        whole = spellings(pa.array(texts), read)
        assert whole.shape == (len(SPELLINGS[read]),)
        single = [spellings(pa.array([text], pa.string()), read) for text in texts]
        assert max(int(counts.sum()) for counts in single) == 1
        assert (np.sum(single, axis=0) == whole).all()


def _votes(texts: list[str], read: str = "number format", times: int = 100) -> np.ndarray:
    return spellings(pa.array(texts * times), read).astype(np.float64)


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["$1,234.50", "$12.00", "$999.99"], ("$1,234.5", True)),
        (["1.234,50", "12,75", "1.250"], ("1.234,5", True)),
        (["12,5", "3,25", "1"], ("1234,5", True)),
        (["1,250", "12", "13,000"], ("1,234.5", False)),
        (["1.250", "12", "2.000.000"], ("1.234,5", False)),
        (["1 234,5", "12 000"], ("1 234,5", True)),
        (["12%", "7%"], ("1234.5%", False)),
        (["1,037.50-", "12.75", "999.99", "3"], ("1,234.5-", True)),
        (["1.037,50-", "12,75-", "3"], ("1.234,5-", True)),
        (["12-", "13-"], ("", False)),
        (["(1,037.50)", "12.75", "999.99", "3"], ("(1,234.5)", True)),
        (["($37.50)", "$12.75", "$999.99", "$3"], ("($1234.5)", True)),
        (["(12)", "13"], ("(1234.5)", False)),
        (["(5%)", "7%"], ("1234.5%", False)),
        (["1.5", "2"], ("", True)),
        (["72.4 kg", "80 kg", "7.25kg"], ("1234.5 kg", True)),
        (["72kg", "80 kg", "75kg"], ("1234.5kg", False)),
        (["€ 76,000", "€ 800", "€9"], ("€ 1,234.5", False)),
        (["€ 76,000", "(€ 800)"], ("(€ 1,234.5)", False)),
        (["1.2k", "3.4k"], ("1234.5k", True)),
        (["72 kg", "80"], ("1234.5 kg", False)),
        (["72.4 kg", "80.5 kg", "75.1 kg", "61.0 kg", "160.5 lb"], ("1234.5 kg", True)),
        (["$5.10", "$7.20", "5.30 €"], ("$1234.5", True)),
        (["72 kg", "80 kg", "75 kg", "61 kg", "160 lb"], None),
        (["72.4 kg", "160.1 lb"], None),
        (["1.2k", "950", "3.4k"], None),
        (["123 456", "999 123"], None),
    ],
)
def test_the_format_is_chosen_that_most_numbers_fit(texts: list[str], found: object) -> None:
    assert choose_number_format(_votes(texts), 4.0) == found


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["01/31/2020", "02/03/2020"], "%m/%d/%Y"),
        (["31/01/2020", "02/03/2020"], "%d/%m/%Y"),
        (["02/03/2020"], "%m/%d/%Y"),  # nothing tells: a month before a stroke
        (["02.03.2020"], "%d.%m.%Y"),
        (["1/31/20", "11/2/20"], "%-m/%-d/%y"),
        (["2020/01/31"], "%Y/%m/%d"),
        (["01/31/2020 01:15 PM"], "%m/%d/%Y %p"),
        (["31.01.2020 13:15"], "%d.%m.%Y"),
        (["9/30/1990 0:00:00", "10/1/1990 0:00:00"], "%-m/%-d/%Y %-H"),
        (["9/30/1990 0:00:00", "10/1/1990 14:00:00", "10/1/1990 15:00:00"], "%-m/%-d/%Y %-H"),
        (["28MAR2013", "03JUL2013"], "%d%^b%Y"),
        (["28mar2013", "03jul2013"], "%d%#b%Y"),
        (["28-Mar-13", "3-Jul-13", "28-Mar-13"], "%-d-%b-%y"),
        (["March 28, 2013", "July 3, 2013"], "%B %-d, %Y"),
        (["May 28, 2013", "March 28, 2013"], "%B %d, %Y"),  # May is as well a long name as a short one
        (["May 28, 2013", "Mar 28, 2013"], "%b %d, %Y"),
        (["28MAR2013:05:11:57", "03JUL2013:13:43:51"], "%d%^b%Y:%H"),
        (["Mar 28 2013 5:11AM", "Jul 3 2013 1:43PM"], "%b %-d %Y %p"),
        (["28 Mar 2013", "03 Jul 2013", "31/01/2020"], "%d %b %Y"),
    ],
)
def test_the_format_is_chosen_that_most_dates_fit(texts: list[str], found: str) -> None:
    assert choose_date_format(_votes(texts, "date format"), 4.0) == found


@pytest.mark.parametrize("example", ["(1234.5)", "(1,234.5)", "($1234.5)"])
def test_brackets_are_read_as_a_minus(example: str) -> None:
    texts, known = number_format(example, "format").read(pa.array(["(12.5)", "12.5", "-3", "(-3)", "(3"]))
    assert texts.to_pylist() == ["-12.5", "12.5", "-3", "(-3)", "(3"]
    assert known.to_pylist() == [True, True, True, False, False]


def test_numbers_of_mixed_units_that_are_declared_are_read_in_the_commonest() -> None:
    assert choose_number_format(_votes(["72 kg", "80 kg", "160 lb"]), 4.0, numbers=True) == (
        "1234.5 kg",
        False,
    )
    texts, known = number_format("1234.5 kg", "format").read(pa.array(["72 kg", "80kg", "75", "160 lb"]))
    assert texts.to_pylist() == ["72", "80", "75", "160 lb"]
    assert known.to_pylist() == [True, True, True, False]


def test_every_affix_is_written_and_read_again_and_votes_for_itself() -> None:
    assert len(set(AFFIXES)) == len(AFFIXES)
    for before, behind in AFFIXES:
        form = number_format(f"{before}1,234.5{behind}", "format")
        cells = pa.array([form.write(1234.5), form.write(-1234.5)])
        texts, known = form.read(cells)
        assert known.to_pylist() == [True, True]
        assert texts.to_pylist() == ["1234.5", "-1234.5"]
        voted = [NUMBER_VOTES[place][0] for place in vote_on_numbers(cells)]
        assert (before, behind) in voted


def test_noise_alone_changes_no_format() -> None:
    noise = np.random.default_rng(3).normal(0.0, 10.0, (200, len(NUMBER_VOTES)))
    clear = 40 * _votes(["$1,234.50", "$12.00"])
    assert {choose_number_format(clear + one, 10.0) for one in noise} == {("$1,234.5", True)}


@pytest.mark.parametrize(
    ("values", "read", "written", "spelling", "texts"),
    [
        ([1234.5, -3.0, None], "number", "$1,234.5", "0.00", ["$1,234.50", "-$3.00", None]),
        ([1234.5, 7.25], "number", "1.234,5 €", "0.00", ["1.234,50 €", "7,25 €"]),
        ([76000, -3], "number", "€ 1,234.5", "", ["€ 76,000", "-€ 3"]),
        ([72.4, -5.0], "number", "1234.5 kg/m2", "0.0", ["72.4 kg/m2", "-5.0 kg/m2"]),
        ([1250, 12], "number", "1,234.5", "", ["1,250", "12"]),
        ([32], "number", "1234.5%", "", ["32%"]),
        ([-1037.5, 12.75], "number", "1.234,5-", "0.00", ["1.037,50-", "12,75"]),
        ([-1037.5, 12.75], "number", "(1,234.5)", "0.00", ["(1,037.50)", "12.75"]),
        ([-1037.5, 12.75], "number", "($1,234.5)", "0.00", ["($1,037.50)", "$12.75"]),
        ([18292], "date", "%m/%d/%Y", "", ["01/31/2020"]),
        ([18292], "date", "%-d.%-m.%y", "", ["31.1.20"]),
        (
            [18292 * 86_400_000_000 + 47_700_000_000],
            "moment",
            "%m/%d/%Y %p",
            " 00:00",
            ["01/31/2020 01:15 PM"],
        ),
        ([18292 * 86_400_000_000], "moment", "%d.%m.%Y", " 00:00:00", ["31.01.2020 00:00:00"]),
        ([18292 * 86_400_000_000], "moment", "%-m/%-d/%Y %-H", " 00:00:00", ["1/31/2020 0:00:00"]),
    ],
)
def test_values_are_written_and_read_again(
    values: list[float], read: str, written: str, spelling: str, texts: list[str]
) -> None:
    found = write_format(pa.array(values), read, written, spelling)
    assert found.to_pylist() == texts
    usual = rewrite_column(found, read, written)
    again = write_format(pa.array(values), read, {"number": "1234.5"}.get(read, "%Y-%m-%d"), spelling)
    for one, other in zip(usual.to_pylist(), again.to_pylist(), strict=True):
        assert one == other or float(one) == float(other)


def test_midnight_and_noon_have_twelve_hours() -> None:
    written = date_format("%m/%d/%Y %p", "dates")
    assert written.write("2020-01-31 00:05") == "01/31/2020 12:05 AM"
    assert written.write("2020-01-31 12:05") == "01/31/2020 12:05 PM"
    assert written.write("2020-01-31") == "01/31/2020"


def test_a_declared_format_codes_text_and_goes_through_json() -> None:
    columns = (
        Integer(name="people", lower=0, upper=3999, bins=4, missing=False, format="1,234.5"),
        Date(name="day", lower="2020-01-01", upper="2020-01-31", missing=False, format="%d.%m.%Y"),
    )
    schema = Schema.from_json(Schema(columns).to_json())
    assert schema == Schema(columns)
    table = pa.table({"people": ["1,250", "12", "3,000"], "day": ["01.01.2020", "31.01.2020", "02.01.2020"]})
    codes = encode(table, schema)
    assert codes.column("people").tolist() == [1, 0, 3]
    assert codes.column("day").tolist() == [0, 30, 1]


def test_what_is_no_format_is_refused() -> None:
    with pytest.raises(SchemaError, match="format of column 'a'"):
        Real(name="a", format="a lot")
    with pytest.raises(SchemaError, match="format of column 'a'"):
        Date(name="a", format="%Y")
    with pytest.raises(SchemaError, match="format of column 'a'"):
        Duration(name="a", format="%Y")


def test_few_dates_among_noise_have_no_hour_and_all_that_fit_a_format_speak_for_it() -> None:
    """Of 2,600 dates in noise of 200 a format with an hour was taken in one of ten runs."""
    rng = np.random.default_rng(0)
    fitting = [(".", order, 4, zero, "wide") for order in ("day", "either") for zero in ("padded", "neither")]
    exact = np.array([650.0 * (vote in fitting) for vote in DATE_VOTES])
    found = [choose_date_format(exact + rng.normal(0.0, 200.0, len(exact)), 1_500.0) for _ in range(200)]
    assert found.count("%d.%m.%Y") > 130
    assert sum(one in ("%d.%m.%Y", "%-d.%-m.%Y") for one in found) > 185
