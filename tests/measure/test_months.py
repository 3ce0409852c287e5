"""Dates without a day: found and declared, read as first days, drawn so and written as they came."""

from __future__ import annotations

import datetime
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from margrave import Synthesizer, TextFormat
from margrave.engines.memory import open_source
from margrave.errors import InputError, SchemaError
from margrave.evaluation.rows import observed_schema
from margrave.files import write_table
from margrave.measure.curator import Curator
from margrave.measure.discovery.kinds import settle_months
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.run.options import declare_written
from margrave.schema.columns import Categorical, Column, Date, Integer, Moment, Real, Relative
from margrave.schema.constraints.rules import Ordered
from margrave.schema.draws import whole_numbers
from margrave.schema.profile import PROFILE, profile
from margrave.schema.schema import Schema
from margrave.schema.storage.months import (
    MONTH_VOTES,
    are_months,
    draw_first_days,
    move_to_first_days,
    names_months,
    vote_on_months,
)
from margrave.schema.storage.text import date_format
from seeded_noise import SeededSource

ROWS = 4000
RNG = np.random.default_rng(3)
MONTHS = [datetime.date(int(n) // 12, int(n) % 12 + 1, 1) for n in RNG.integers(1980 * 12, 2005 * 12, ROWS)]
NAMES = {"a": "%Y-%m", "b": "%m/%Y", "c": "%Y/%m", "d": "%m.%Y", "e": "%m-%Y"}
CODES = {
    "order": [f"{a}-{b:02d}" for a, b in RNG.integers((2008, 1), (2014, 60), (ROWS, 2)).tolist()],
    "place": [f"{b:02d}-{a}" for a, b in RNG.integers((2008, 1), (2014, 60), (ROWS, 2)).tolist()],
    "mixed": [str(day) if n % 3 else f"{day:%Y-%m}" for n, day in enumerate(MONTHS)],
    "both": [f"{day:%Y-%m}" if n % 3 else f"{day:%m/%Y}" for n, day in enumerate(MONTHS)],
}


def day_number(year: int, month: int, day: int = 1) -> int:
    return (datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days


def write(path: Path, cells: dict[str, list[str]]) -> Path:
    pa_csv.write_csv(pa.table(cells), path)
    return path


def discovered(data: Any, declared: Schema | None = None) -> Schema:
    source, _ = open_source(data)
    ledger = Ledger(
        epsilon=20.0,
        delta=1e-6,
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 4_000_000),
    )
    return Curator(source, ledger, SeededSource(1)).discover(declared, ledger.total / 2)


def own(column: Column) -> Column:
    return column.own if isinstance(column, Relative) else column


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    cells = {name: [day.strftime(written) for day in MONTHS] for name, written in NAMES.items()}
    cells["n"] = [f"{number:.4f}" for number in RNG.uniform(9, 13, ROWS)]
    return discovered(write(tmp_path_factory.mktemp("months") / "t.csv", {**cells, **CODES}))


def test_a_month_votes_for_its_format_and_other_texts_for_none() -> None:
    texts = ["2011-05", "05/2011", "2011/12", "05.2011", "10.2011", "12-2011"]
    votes = [MONTH_VOTES[place] for place in vote_on_months(pa.array(texts))]
    assert votes == ["%Y-%m", "%m/%Y", "%Y/%m", "%m.%Y", "%m.%Y", "%m-%Y"]
    assert are_months(pa.array(texts)).tolist() == [True, True, True, True, False, True]
    others = [
        "2011-37",
        "13-2011",
        "2011-5",
        "1799-01",
        "2200-01",
        "2011-00",
        "5/2011",
        "2011.05",
        "2011-05-1",
        "",
    ]
    assert (vote_on_months(pa.array(others)) == -1).all()


def test_a_month_is_in_one_class_of_the_profile() -> None:
    texts = pa.array(["2011-05", "05.2011", "10.2011", "2011-05-01", "2011-37"])
    held = {name: int(n) for name, n in zip(PROFILE, profile(texts), strict=True) if n}
    assert held == {"written month": 2, "number": 1, "date": 1, "text": 1}


@pytest.mark.parametrize("name", NAMES)
def test_months_are_found(found: Schema, name: str) -> None:
    column = own(found[name])
    assert isinstance(column, Date)
    assert (column.format, column.missing, column.weekdays) == (NAMES[name], False, None)


def test_codes_and_days_beside_months_stay_codes_and_numbers_stay_numbers(found: Schema) -> None:
    assert {type(found[name]) for name in CODES} == {Categorical}
    assert isinstance(found["n"], Real)


def test_months_in_two_formats_and_numbers_beside_them_are_codes() -> None:
    counts, votes = np.zeros(len(PROFILE)), np.zeros(len(MONTH_VOTES))
    counts[[PROFILE.index("written month"), PROFILE.index("number")]] = 700.0, 300.0
    for at, expected in (("%m.%Y", "date"), ("%Y-%m", "categorical")):
        votes[:] = 0.0
        votes[MONTH_VOTES.index(at)] = 1000.0 if at == "%m.%Y" else 700.0
        settled = settle_months(Date(name="x"), votes, 10.0, counts, False)
        assert settled.kind == expected
        assert settle_months(Date(name="x"), votes, 10.0, counts, True).kind == "date"


def test_months_come_back_as_they_were_written_in_their_shares(tmp_path: Path) -> None:
    """Half of the births in March, and no month that is not drawn as often as its bin says."""
    march = [day.replace(month=3) if n % 2 else day for n, day in enumerate(MONTHS)]
    cells = {"born": [day.strftime("%m/%Y") for day in march], "sex": ["F", "M"] * (ROWS // 2)}
    path = write(tmp_path / "t.csv", cells)
    fitted = Synthesizer("independent", epsilon=20, delta=1e-6, not_private_test_seed=1).fit(path)
    out = tmp_path / "out.csv"
    write_table(fitted.sample_arrow(ROWS, rng=1), out, text=fitted.release.text)
    texts = pa_csv.read_csv(out, convert_options=pa_csv.ConvertOptions(column_types={"born": pa.string()}))[
        "born"
    ].to_pylist()
    drawn = [datetime.datetime.strptime(text, "%m/%Y") for text in texts]
    assert all(text == day.strftime("%m/%Y") for text, day in zip(texts, drawn, strict=True))
    share = Counter(day.month for day in drawn)[3] / ROWS
    assert share == pytest.approx(0.5 + 0.5 / 12, abs=0.05)
    assert np.median([day.year for day in drawn]) == pytest.approx(1992, abs=1)


@pytest.mark.parametrize("width", [20, 45, 400])
def test_months_of_even_bins_are_drawn_alike(width: int) -> None:
    start, rows = day_number(2001, 1, 20), 60_000
    column = Date(
        name="born",
        edges=tuple(start + width * n for n in range(13)),
        missing=False,
        format="%Y-%m",
    )
    bins = np.repeat(np.arange(12), rows // 12)
    days = whole_numbers(bins, column, np.random.default_rng(2))
    dates = [datetime.date(1970, 1, 1) + datetime.timedelta(int(day)) for day in days]
    assert {date.day for date in dates} == {1}
    edges = np.asarray(column.edges)
    first = {day_number(year, month) for year in range(2000, 2020) for month in range(1, 13)}
    for place in range(12):
        low, high = edges[place], edges[place + 1]
        inside = sorted(day for day in first if low <= day < high)
        held = Counter(days[bins == place].tolist())
        if inside:
            assert sorted(held) == inside
            mean = rows / 12 / len(inside)
            assert all(abs(count - mean) < 5 * mean**0.5 for count in held.values())
        else:  # the nearest one, whatever bin it is in
            middle = (low + high) // 2
            assert sorted(held) == [min(first, key=lambda day: (abs(day - middle), day))]


def test_a_cell_without_a_first_day_takes_the_nearest_in_its_bin() -> None:
    low, high = np.array([day_number(2001, 1, 3)]), np.array([day_number(2001, 1, 8)])
    bins = np.array([day_number(2001, 1, 2)]), np.array([day_number(2001, 3, 9)])
    day = draw_first_days((low, high), bins, np.array([0.5]))
    assert day.tolist() == [day_number(2001, 2)]  # the first of January is nearer, and outside


def test_other_days_are_moved_to_the_first_day_of_their_month() -> None:
    days = [
        day_number(2001, 1, 14),
        day_number(2001, 1, 20),
        day_number(1960, 12, 31),
        day_number(2001, 4, 16),
    ]
    moved = [day_number(2001, 1), day_number(2001, 1), day_number(1960, 12), day_number(2001, 4)]
    assert move_to_first_days(np.array(days)).tolist() == moved


def test_ages_are_whole_years_from_the_first_of_the_month(tmp_path: Path) -> None:
    visits = [datetime.date(2020, 1, 1) + datetime.timedelta(int(n)) for n in RNG.integers(0, 700, ROWS)]
    pairs = list(zip(MONTHS, visits, strict=True))
    cells = {
        "born": [f"{day:%Y-%m}" for day in MONTHS],
        "visit": [str(day) for day in visits],
        "age": [str(visit.year - born.year - (visit.month < born.month)) for born, visit in pairs],
    }
    fitted = Synthesizer("independent", epsilon=20, delta=1e-6, not_private_test_seed=2).fit(
        write(tmp_path / "t.csv", cells)
    )
    rows = fitted.sample_arrow(ROWS, rng=1).to_pylist()
    told = [
        row["visit"].year - int(row["born"][:4]) - (row["visit"].month < int(row["born"][5:]))
        == int(row["age"])
        for row in rows
    ]
    assert np.mean(told) > 0.9


def test_a_declared_order_of_a_month_and_a_day_holds(tmp_path: Path) -> None:
    """Days that a rule has moved come back as the first of their month; as the nearest they may pass it."""
    seen = [
        day + datetime.timedelta(int(n)) for day, n in zip(MONTHS, RNG.integers(0, 40, ROWS), strict=True)
    ]
    cells = {"born": [f"{day:%Y-%m}" for day in MONTHS], "seen": [str(day) for day in seen]}
    schema = Schema((Date(name="born", format="%Y-%m"), Date(name="seen")), (Ordered("born", "seen"),))
    path = write(tmp_path / "t.csv", cells)
    fitted = Synthesizer("auto", epsilon=3, delta=1e-6, schema=schema, not_private_test_seed=0).fit(path)
    rows = fitted.sample_arrow(ROWS, rng=0).to_pylist()
    assert all(f"{row['born']}-01" <= str(row["seen"]) for row in rows)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "kind", ["memory", "file", "stream", pytest.param("backend", marks=pytest.mark.needs_extra("ibis"))]
)
@pytest.mark.parametrize("declared", [True, False])
def test_all_engines_count_months_alike(kind: str, declared: bool, tmp_path: Path) -> None:
    cells = {"born": [f"{day:%m.%Y}" for day in MONTHS], "sex": ["F", "M"] * (ROWS // 2)}
    table: Any = pa.table(cells)
    options: dict[str, Any] = {}
    data = table
    if kind in ("file", "stream"):
        data = write(tmp_path / "t.csv", cells)
        options = {"engine": "stream"} if kind == "stream" else {}
    if kind == "backend":
        ibis = pytest.importorskip("ibis")
        data = ibis.duckdb.connect().create_table("t", table)
    schema = Schema((Date(name="born", format="%m.%Y", lower="1980-01-01", upper="2004-12-31"),))
    whole, other = (
        Synthesizer(
            "independent",
            epsilon=5.0,
            delta=1e-6,
            schema=schema if declared else None,
            not_private_test_seed=3,
            **more,
        ).fit(given)
        for given, more in ((table, {}), (data, options))
    )
    assert own(other.schema["born"]) == own(whole.schema["born"])
    assert own(other.schema["born"]).format == "%m.%Y"  # type: ignore[attr-defined]
    # A backend reads the values of `sex` in another order, so that their noise is another.
    one, two = (
        [m.values for m in fitted.release.measurements if m.clique == ("born",)] for fitted in (whole, other)
    )
    assert len(one) == len(two) > 0
    assert all((a == b).all() for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("written", ["%m/%Y", "%b %Y", "%Y%m", "%-m/%y"])
def test_a_declared_format_is_the_columns_own(written: str, tmp_path: Path) -> None:
    def spell(day: datetime.date) -> str:
        return date_format(written, "format").write(str(day))

    cells = {"born": [spell(day) for day in MONTHS], "sex": ["F", "M"] * (ROWS // 2)}
    path = write(tmp_path / "t.csv", cells)
    text = TextFormat(columns={"born": written})
    fitted = Synthesizer("independent", epsilon=5, delta=1e-6, text=text, not_private_test_seed=0).fit(path)
    column = own(fitted.schema["born"])
    assert isinstance(column, Date)
    assert (column.format, column.missing) == (written, False)
    drawn = [str(cell) for cell in fitted.sample_arrow(500, rng=1)["born"].to_pylist()]
    assert len(set(drawn) & set(cells["born"])) > 0.8 * len(set(drawn))
    assert "profile of born" not in [event.what for event in fitted.release.events]


def test_a_format_of_months_is_for_dates_and_for_single_columns() -> None:
    text, schema = declare_written(TextFormat(columns={"a": "%Y-%m", "b": "%d.%m.%Y"}), None)
    assert text.columns == {"a": "text", "b": "%d.%m.%Y"}
    assert schema == Schema((Date(name="a", format="%Y-%m"),))
    known = Schema((Date(name="a", lower="1950-01-01"), Integer(name="n")))
    assert declare_written(TextFormat(), known)[1] is known
    bounded = declare_written(TextFormat(columns={"a": "%Y-%m"}), known)[1]
    assert bounded is not None
    assert bounded["a"] == Date(name="a", lower="1950-01-01", format="%Y-%m")
    with pytest.raises(InputError, match="dates alone"):
        declare_written(TextFormat(columns={"n": "%Y-%m"}), known)
    with pytest.raises(InputError, match="--format"):
        TextFormat(dates="%Y-%m")
    with pytest.raises(SchemaError, match="months without a day are dates"):
        Moment(name="x", format="%Y-%m")
    for wrong in ("%Y-%m %p", "%Y", "%m"):
        with pytest.raises(InputError, match="date format"):
            date_format(wrong, "format")


@pytest.mark.parametrize(
    ("written", "months"),
    [("%Y-%m", True), ("%B %y", True), ("%d.%m.%Y", False), ("%Y", False), ("32%", False), ("", False)],
)
def test_which_formats_name_no_day(written: str, months: bool) -> None:
    assert names_months(written) is months


def test_a_comparison_reads_months_off_the_tables() -> None:
    table = pa.table({name: [day.strftime(written) for day in MONTHS] for name, written in NAMES.items()})
    source, _ = open_source(table.append_column("both", [CODES["both"]]))
    schema = observed_schema(source, source)
    assert {name: getattr(schema[name], "format", "") for name in NAMES} == NAMES
    assert isinstance(schema["both"], Categorical)
