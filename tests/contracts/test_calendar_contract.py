"""What dates say of numbers: a row counts for one cell, by itself alone, and alike in every engine."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from date_cases import DAYS, ENGINES, MOMENTS
from engine_backends import NOT_HELD, STREAMS, Backends

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.measure.discovery.between.calendar import Calendar
from margrave.schema.calendar import CLOCK_PARTS, DAY_UNITS, PARTS, PERIODS, TICKS, UNITS, Instant
from margrave.schema.columns import Categorical, Date, Integer, Moment, Time
from margrave.schema.constraints.rules import Age, CalendarRule, DatePart, Elapsed, FlagCount, KeyYear
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY, SECOND
from margrave.schema.storage.date_numbers import date_numbers, stamp_numbers
from margrave.schema.storage.months import CALENDAR

pytestmark = pytest.mark.filterwarnings("ignore")

EPOCH = dt.date(1970, 1, 1)
READS = {"day": "date", "late": "date", "moment": "moment", "after": "moment", "zoned": "moment"}
READS["first"] = "moment"
WEEKDAYS = {"Monday": 1, "Tuesday": 2, "mié": 3, "Thursday": 4, "Friday": 5, "FRI": 5, "Saturday": 6}
MONTHS = {f"{year}-{month:02}": 100 * year + month for year in range(2015, 2025) for month in range(1, 13)}
NAMED: list[CalendarRule] = [
    *(DatePart("named", name, "weekday", WEEKDAYS) for name in ("day", "moment", "zoned")),
    DatePart("period", "day", "year_month", MONTHS),
    DatePart("period", "late", "year_month", {"2019-12": 201912, "2019-11": 201911}),
    DatePart("named", "late", "quarter", {"Monday": 1, 'it\'s \\ "odd"': 2}),
    *(DatePart("flag", name, "weekend", {"false": 0, "true": 1}) for name in ("day", "zoned")),
    DatePart("flag", "late", "half", {"true": 1, "2": 2}),
]
RULES: list[CalendarRule] = [
    *NAMED,
    *(DatePart("number", name, part) for name in ("day", "moment", "zoned") for part in PARTS),
    *(DatePart("late", name, part) for name in ("day", "moment", "zoned") for part in PERIODS),
    *(DatePart("after", name, part) for name in ("day", "moment") for part in PERIODS),
    *(DatePart("first", name, part) for name in ("day", "moment", "zoned") for part in PERIODS),
    *(Elapsed("number", "day", "late", unit) for unit in UNITS),
    *(Elapsed("number", "moment", "after", unit) for unit in UNITS),
    *(Elapsed("real", "late", "zoned", unit) for unit in UNITS),
    *(Age("number", name, "2019-12-31", unit) for name in ("day", "zoned") for unit in DAY_UNITS),
    *(Age("real", "moment", "2020-02-29", unit) for unit in DAY_UNITS),
    *(KeyYear("number", name, place, 2) for name in ("day", "after") for place in (0, 2, -2)),
    *(KeyYear("number", "day", place) for place in (0, 1, -4)),
    KeyYear("real", "moment", -2, 2),
]
KEYS: list[CalendarRule] = [
    *(KeyYear("period", name, 0) for name in ("day", "moment", "zoned")),
    *(KeyYear("period", name, -2, 2) for name in ("late", "after")),
]
"""Text that a database counts is not read by its signs; numbers are."""
FLAGS = [
    FlagCount("number", ("flag", "named"), ("true", "Monday")),
    FlagCount("number", ("flag", "named", "period"), ("false", 'it\'s \\ "odd"', "2019-12")),
    FlagCount("real", ("number", "flag"), ("1", "true")),
    FlagCount("number", ("real", "flag", "named"), ("2019", "yes", "")),
]


def make_table(rows: int, seed: int) -> pa.Table:
    """Dates of a year with odd ones among them, and numbers that are often what they say."""
    rng = np.random.default_rng(seed)

    def days() -> list[dt.date | None]:
        near = [EPOCH + dt.timedelta(days=int(d)) for d in rng.integers(18_000, 18_365, rows)]
        return [
            DAYS[int(k)] if k < len(DAYS) else day
            for k, day in zip(rng.integers(0, 40, rows), near, strict=True)
        ]

    def moments() -> list[dt.datetime | None]:
        start = dt.datetime(2019, 12, 30)
        near = [start + dt.timedelta(seconds=int(s)) for s in rng.integers(0, 200_000, rows)]
        return [
            MOMENTS[int(k)] if k < len(MOMENTS) else one
            for k, one in zip(rng.integers(0, 40, rows), near, strict=True)
        ]

    names = [*WEEKDAYS, "monday", "Monday ", "mie", "", "none", 'it\'s \\ "odd"', None]
    periods = [*[f"2019-{month:02}" for month in range(4, 13)], "2019-13", None]
    small = rng.integers(-3, 32, rows)
    number = np.where(rng.random(rows) < 0.3, 2019, small)
    real = np.where(rng.random(rows) < 0.2, small + 0.5, small).astype(float)
    return pa.table(
        {
            "day": pa.array(days(), pa.date32()),
            "late": pa.array(days(), pa.date32()),
            "moment": pa.array(moments(), pa.timestamp("us")),
            "after": pa.array(moments(), pa.timestamp("us")),
            "zoned": pa.array(moments(), pa.timestamp("us", "UTC")),
            "named": pa.array([names[int(k)] for k in rng.integers(0, len(names), rows)], pa.string()),
            "period": pa.array([periods[int(k)] for k in rng.integers(0, len(periods), rows)], pa.string()),
            "flag": pa.array(rng.random(rows) < 0.3, pa.bool_(), mask=rng.random(rows) < 0.05),
            "first": pa.array([dt.datetime(2019, 12, 30), dt.datetime(2019, 12, 31, 1)] * (rows // 2)),
            "number": pa.array(number, pa.int64(), mask=rng.random(rows) < 0.05),
            "real": pa.array(real, pa.float64(), mask=rng.random(rows) < 0.05),
        }
    )


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    found = Backends(tmp_path_factory.mktemp("calendar"))
    yield found
    found.close()


def test_each_row_counts_once_whatever_the_others_are() -> None:
    table = make_table(100, 0)
    whole, alone = open_source(table)[0], [open_source(table.slice(i, 1))[0] for i in range(100)]
    agreed = 0
    for rule in [*RULES, *KEYS, *FLAGS]:
        answers = [source.agreements([rule], READS)[0].reveal() for source in alone]
        assert all(answer.sum() == 1 and answer.min() == 0 for answer in answers)
        found = whole.agreements([rule], READS)[0].reveal()
        np.testing.assert_array_equal(found, np.sum(answers, axis=0), rule.words)
        agreed += int(found[0])
    assert agreed > 50


def test_cells_are_those_of_plain_python() -> None:
    table = make_table(400, 3)
    source = open_source(table)[0]
    for rule in [*NAMED[:1], NAMED[3], *RULES[len(NAMED) : len(NAMED) + len(PARTS)]]:
        found = [0, 0, 0]
        for day, cell in zip(table["day"].to_pylist(), table[rule.number].to_pylist(), strict=True):
            if day is None or cell is None:
                found[2] += 1
                continue
            told = rule.tell_number([Instant.of(np.array([(day - EPOCH).days]), clock=False)])
            found[int(told[0] != (dict(rule.pairs).get(cell) if rule.pairs else cell))] += 1
        assert source.agreements([rule], READS)[0].reveal().tolist() == found, rule.words


def test_dates_beyond_the_calendar_count_as_missing() -> None:
    far = pa.array([3_000_000, -800_000, 0, 2**31 - 1], pa.int32()).cast(pa.date32())
    source = open_source(pa.table({"day": far, "number": [1970, 1970, 1970, 1970]}))[0]
    assert source.agreements([DatePart("number", "day", "year")], READS)[0].reveal().tolist() == [1, 0, 3]
    late = pa.array([2**62, 0, -(2**62)], pa.int64()).cast(pa.timestamp("us"))
    source = open_source(pa.table({"moment": late, "number": [0, 0, 0]}))[0]
    assert source.agreements([DatePart("number", "moment", "hour")], READS)[0].reveal().tolist() == [1, 0, 2]
    assert 3_000_000 * DAY < 2**62


@pytest.mark.parametrize("engine", ENGINES)
def test_answers_are_those_of_memory(backends: Backends, engine: str) -> None:
    table = make_table(400, 1)
    table = table.select([name for name in table.column_names if name not in NOT_HELD.get(engine, ())])
    memory = backends.open("memory-csv" if engine == "stream-csv" else "memory", table)[0]
    other = backends.open(engine, table)[0]
    rules = [*RULES, *FLAGS, *(KEYS if engine in STREAMS else ())]
    answers = [source.agreements(rules, READS) for source in (memory, other)]
    for rule, one, two in zip(rules, *answers, strict=True):
        np.testing.assert_array_equal(one.reveal(), two.reveal(), rule.words)


@pytest.mark.needs_extra("ibis")
@pytest.mark.parametrize("kind", [pa.uint64(), pa.int64(), pa.float64(), pa.bool_()])
def test_no_key_ends_a_look_at_its_digits(backends: Backends, kind: Any) -> None:
    """However large it is, in a database that is asked as if it were far away."""
    bits = 0 if pa.types.is_boolean(kind) else 64 if kind == pa.uint64() else 63
    keys = [202300017, 0, 7, (1 << bits) - 1, None] if bits else [True, False, True, False, None]
    keys = [float(key) if key is not None and pa.types.is_floating(kind) else key for key in keys]
    days = pa.array([19_400] * 5, pa.int32()).cast(pa.date32())
    table = pa.table({"key": pa.array(keys, kind), "day": days})
    rules = [KeyYear("key", "day", 0), KeyYear("key", "day", 2, 2), KeyYear("key", "day", -2, 2)]
    sources = [backends.open(engine, table)[0] for engine in ("ibis-duckdb queries", "memory")]
    answers = [[one.reveal().tolist() for one in source.agreements(rules, READS)] for source in sources]
    assert answers[0] == answers[1]
    assert answers[0][0] == [int(bits > 0), 4 - int(bits > 0), 1]


@pytest.mark.needs_extra("ibis")
def test_text_that_a_database_counts_is_refused(backends: Backends) -> None:
    table = pa.table({"day": ["2024-01-01", "CANARY"], "number": [1, 2]})
    source = backends.open("ibis-duckdb", table)[0]
    for rule in (DatePart("number", "day", "month"), KeyYear("day", "number", 0)):
        with pytest.raises(InputError, match="not text") as error:
            source.agreements([rule], READS | {"number": "date"})
        assert "CANARY" not in str(error.value)


@pytest.mark.needs_extra("ibis")
def test_texts_stand_for_numbers_where_a_database_has_texts(backends: Backends) -> None:
    days = pa.array([dt.date(2024, 1, 1), dt.date(2024, 2, 1)], pa.date32())
    source = backends.open("ibis-duckdb", pa.table({"day": days, "number": [1, 2]}))[0]
    with pytest.raises(InputError, match="of text"):
        source.agreements([DatePart("number", "day", "month", {"1": 1})], READS)


def test_texts_are_read_in_memory() -> None:
    columns: dict[str, Any] = {"day": ["2024-01-31", "x", "2023-12-01"], "number": ["1", "1", "11"]}
    source = open_source(pa.table(columns))[0]
    assert source.agreements([DatePart("number", "day", "month")], READS)[0].reveal().tolist() == [1, 1, 1]


def test_dates_stored_as_floats_are_read_without_a_warning() -> None:
    days = pa.array([18_262.0, None, float("nan"), float("inf"), 1e300], pa.float64())
    source = open_source(pa.table({"day": days, "number": [2020, 2020, 2020, 2020, 2020]}))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = source.agreements([DatePart("number", "day", "year")], READS)[0]
    assert found.reveal().tolist() == [1, 0, 4]


@pytest.mark.needs_extra("ibis")
def test_names_are_asked_for_where_a_database_has_texts(backends: Backends) -> None:
    """Texts are compared with no other column there, but what they stand for is."""
    days = pa.array([dt.date(2024, 1, day) for day in range(1, 8)], pa.date32())
    named = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    source = backends.open("ibis-duckdb", pa.table({"day": days, "named": named}))[0]
    edges, weights = (19_723, 19_730), (7.0,)
    schema = Schema(
        (
            Date(name="day", edges=edges, fine=edges, weights=weights, missing=False),
            Categorical(name="named", values=tuple(named), missing=False),
        )
    )
    (rule,) = Calendar(source, None, 7.0).find_candidates(schema)  # type: ignore[arg-type]
    assert rule.words == "named is the weekday of day"
    assert source.agreements([rule], READS)[0].reveal().tolist() == [7, 0, 0]


CLOCK = [
    Time(name=name, edges=(0, DAY // 3, DAY // 2, DAY), missing=True, format="%-H%M", strict=False)
    for name in ("begin", "end", "typed")
]
CLOCK_RULES: list[CalendarRule] = [
    *(DatePart("number", name, part) for name in ("begin", "typed") for part in CLOCK_PARTS),
    *(Elapsed("number", "begin", "end", unit) for unit in TICKS),
    *(Elapsed("number", "end", "begin", unit) for unit in TICKS),
]


def make_times(rows: int, seed: int) -> pa.Table:
    """Times of day as whole numbers and as floats, with others among them, one typed, and a number."""
    rng = np.random.default_rng(seed)
    minutes = rng.integers(0, 1440, (2, rows))
    begin, end = (own // 60 * 100 + own % 60 for own in minutes)
    number = np.where(rng.random(rows) < 0.5, minutes[1] - minutes[0], begin // 100)
    odd = np.array([2400, 0, 1373, 60, -5, 2401, 99_999, 2359])
    begin[: len(odd)] = odd
    real = end.astype(float)
    real[: len(odd)] = [0.5, 2400.0, 1373.0, 1e300, -0.0, 2359.0, 60.0, 5.0]
    ticks = minutes[0] * 60_000_000
    return pa.table(
        {
            "begin": pa.array(begin, pa.int64(), mask=rng.random(rows) < 0.05),
            "end": pa.array(real, pa.float64(), mask=rng.random(rows) < 0.05),
            "typed": pa.array(ticks, pa.int64()).cast(pa.time64("us")),
            "number": pa.array(number, pa.int64()),
        }
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_times_of_day_as_numbers_are_read_alike(backends: Backends, engine: str) -> None:
    table = make_times(400, 1)
    table = table.drop_columns(["typed"] if "clock" in NOT_HELD.get(engine, ()) else [])
    columns = [column for column in CLOCK if column.name in table.column_names]
    rules = [rule for rule in CLOCK_RULES if set(rule.names) <= set(table.column_names)]
    like = "memory-csv" if engine == "stream-csv" else "memory"
    memory, other = (backends.open(name, table)[0] for name in (like, engine))
    for column in columns:
        votes = [source.spellings(column.name, "clock format").reveal() for source in (memory, other)]
        np.testing.assert_array_equal(*votes)
        assert (votes[0].sum() > 300) == (column.name != "typed")
    read = [source.read_as(columns) for source in (memory, other)]
    reads = dict.fromkeys([column.name for column in columns], "time")
    answers = [source.agreements(rules, reads) for source in read]
    for rule, one, two in zip(rules, *answers, strict=True):
        np.testing.assert_array_equal(one.reveal(), two.reveal(), rule.words)
        assert one.reveal()[0] > 0 or getattr(rule, "unit", "minutes") != "minutes" or rule.dates[0] == "end"
    edges = np.arange(0.0, DAY + 1, DAY / 96)
    for column in columns:
        cells = [source.histogram(column.name, edges, "time", absent=True).reveal() for source in read]
        np.testing.assert_array_equal(*cells)
    schema = Schema((*columns, Integer(name="number", edges=(-2000, 0, 2001), missing=False)))
    pairs = [columns[0].name, columns[1].name]
    tables = [source.bind(schema).count([pairs])[0].reveal() for source in (memory, other)]
    np.testing.assert_array_equal(*tables)


DATED = [
    Date(name="day", edges=(-800, 0, 18_000, 20_000), missing=True, format="%Y%m%d", strict=False),
    Date(name="month", edges=(-800, 0, 18_000, 20_000), missing=True, format="%Y%m", strict=False),
    Date(name="typed", edges=(-800, 0, 18_000, 20_000), missing=True, format="%Y%m%d", strict=False),
]
STAMPED = [
    Moment(name=name, edges=(-DAY, 0, 10_000 * DAY), missing=True, format=written, strict=False)
    for name, written in (("second", "%Y%m%d%H%M%S"), ("minute", "%Y%m%d%H%M"))
]


def make_dates(rows: int, seed: int) -> pa.Table:
    """Days and months as whole numbers and as floats, with others among them, one typed, and a year."""
    rng = np.random.default_rng(seed)
    days = rng.integers(-25_000, 25_000, rows)
    days[:4] = [-719_162, 2_932_896, 11_016, 0]
    number, months = date_numbers(days, "%Y%m%d"), date_numbers(days, "%Y%m").astype(float)
    odd = np.array([0, -20240101, 20230229, 20240230, 20241301, 20240001, 20240100, 99991231, 2**60, 101, 11])
    number[8 : 8 + len(odd)] = odd
    ticks = days * DAY + rng.integers(0, 86_400, rows) * SECOND
    ticks[:4] = [0, -1_000_000, 2_932_896 * DAY + DAY - SECOND, -719_162 * DAY]
    second, minute = (stamp_numbers(ticks, one.format or "") for one in STAMPED)
    second[8:13] = [20130328051160, 20130328236000, 20130230051157, -20130328051157, 2**60]
    minute[8:12] = [201303282460, 201303280560, 201300280511, 20130328051157]
    wrong = np.array([0.0, 202400.0, 202413.0, 202401.5, 1e300, -202401.0, 12.0, 101.0])
    months[8 : 8 + len(wrong)] = wrong
    return pa.table(
        {
            "day": pa.array(number, pa.int64(), mask=rng.random(rows) < 0.05),
            "month": pa.array(months, pa.float64(), mask=rng.random(rows) < 0.05),
            "typed": pa.array(days, pa.int64()).cast(pa.int32()).cast(pa.date32()),
            "second": pa.array(second, pa.int64(), mask=rng.random(rows) < 0.05),
            "minute": pa.array(minute.astype(float), pa.float64(), mask=rng.random(rows) < 0.05),
            "number": pa.array(days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970),
        }
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_dates_as_numbers_are_read_alike(backends: Backends, engine: str) -> None:
    table = make_dates(400, 2)
    like = "memory-csv" if engine == "stream-csv" else "memory"
    memory, other = (backends.open(name, table)[0] for name in (like, engine))
    for column in [*DATED[:2], *STAMPED]:
        votes = [source.spellings(column.name, "date number").reveal() for source in (memory, other)]
        np.testing.assert_array_equal(*votes)
        assert [count > 250 for count in votes[0][1:]] == [
            column.name == name for name in ("day", "minute", "second")
        ]
    read = [source.read_as([*DATED, *STAMPED]) for source in (memory, other)]
    names = ("day", "month", "typed", "second", "minute")
    rules: list[CalendarRule] = [DatePart("number", name, "year") for name in names]
    reads = {name: "date" if name in names[:3] else "moment" for name in names}
    for rule, *answers in zip(rules, *(source.agreements(rules, reads) for source in read), strict=True):
        np.testing.assert_array_equal(*(one.reveal() for one in answers), rule.words)
        assert answers[0].reveal()[0] > 300
    for column in DATED:
        edges = np.arange(-719_163.0, 2_932_898.0, 4000.0)
        cells = [source.histogram(column.name, edges, "date", absent=True).reveal() for source in read]
        np.testing.assert_array_equal(*cells)
        for ticks in (7, CALENDAR):
            places = [source.places_in_cycle(column.name, "date", 1, ticks).reveal() for source in read]
            np.testing.assert_array_equal(*places)
    for column in STAMPED:
        edges = np.arange(-719_163.0, 2_932_898.0, 4000.5) * DAY
        cells = [source.histogram(column.name, edges, "moment", absent=True).reveal() for source in read]
        np.testing.assert_array_equal(*cells)
        places = [source.places_in_cycle(column.name, "moment", DAY // 24, 24).reveal() for source in read]
        np.testing.assert_array_equal(*places)
    schema = Schema((*DATED, *STAMPED, Integer(name="number", edges=(0, 1990, 10_000), missing=False)))
    for pair in (("day", "month"), ("second", "minute")):
        tables = [source.bind(schema).count([pair])[0].reveal() for source in (memory, other)]
        np.testing.assert_array_equal(*tables)
