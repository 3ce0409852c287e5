"""Times of day that are written as numbers, as 517 for 05:17: read, voted on, written, and in rules."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import InputError, SchemaError
from margrave.run.options import declare_written
from margrave.schema.calendar import CLOCK_PARTS, MINUTE, PARTS, TICKS, Instant, count_units, find_range
from margrave.schema.columns import Date, Duration, Integer, Moment, Relative, Time
from margrave.schema.constraints.rules import DatePart, Elapsed
from margrave.schema.encode import decode, encode
from margrave.schema.encoded import Encoded
from margrave.schema.frame import Frame
from margrave.schema.queries import readings
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY
from margrave.schema.storage.clock_numbers import (
    CLOCK_VOTES,
    choose_clock_format,
    clock_numbers,
    holds_numbers,
    is_clock_format,
    read_clock,
    spell_clock,
    vote_on_clock,
)
from margrave.schema.storage.spelling import rewrite_column, spellings
from margrave.schema.storage.text import TextFormat

TIMES = {
    0: "00:00",
    5: "00:05",
    59: "00:59",
    100: "01:00",
    517: "05:17",
    1340: "13:40",
    2359: "23:59",
    2400: "00:00",
}
NO_TIMES = [60, 99, 160, 1373, 2360, 2401, 10_000, -1, -517, 0.5, 517.5, np.nan, np.inf, 1e300]
minutes = st.integers(0, 1439)


def ticks_of(text: str) -> int:
    hour, minute = map(int, text.split(":"))
    return (hour * 60 + minute) * MINUTE


def test_numbers_that_are_times_are_read_and_no_others() -> None:
    ticks, sound = read_clock(np.array([*TIMES, *NO_TIMES]))
    assert sound.tolist() == [True] * len(TIMES) + [False] * len(NO_TIMES)
    assert ticks.tolist() == [*map(ticks_of, TIMES.values()), *[0] * len(NO_TIMES)]


@given(minutes)
def test_what_is_written_is_read_back(minute: int) -> None:
    ticks = np.array([minute * MINUTE])
    for written in ("%-H%M", "%H%M", "%-H%M.0", "%H%M 24"):
        (text,) = spell_clock(ticks, written)
        assert read_clock(np.array([float(text)]))[0].tolist() == ticks.tolist()
    assert clock_numbers(ticks + MINUTE - 1, "%-H%M").tolist() == clock_numbers(ticks, "%-H%M").tolist()


def test_formats_are_written_as_they_say() -> None:
    ticks = np.array([0, 5, 317, 820]) * MINUTE
    assert spell_clock(ticks, "%-H%M") == ["0", "5", "517", "1340"]
    assert spell_clock(ticks, "%H%M") == ["0000", "0005", "0517", "1340"]
    assert spell_clock(ticks, "%-H%M.0 24") == ["2400.0", "5.0", "517.0", "1340.0"]
    assert [one for one in ("%-H%M", "%H%M", "%-H%M 24", "%-H%M.0") if holds_numbers(one)] == [
        "%-H%M",
        "%-H%M 24",
    ]
    assert not any(map(is_clock_format, ("", None, "%H:%M", "%H%M%S", "%d%m", "%-H%M 12")))


def votes_of(values: Any) -> np.ndarray[Any, Any]:
    places = vote_on_clock(np.asarray(values))
    return np.bincount(places[places >= 0], minlength=len(CLOCK_VOTES)).astype(float)


def test_a_number_votes_for_one_class() -> None:
    numbers = [1373, 2400, 0, 59, 130, 145, 150, 1259, 1229, 60, 0.5, np.nan, 2_000_000, -3]
    named = [CLOCK_VOTES[place] if place >= 0 else "" for place in vote_on_clock(np.array(numbers)).tolist()]
    want = [
        "none",
        "2400",
        "zero",
        "first hour",
        "30 or 40",
        "last quarter",
        "other",
        "last quarter",
        "other",
    ]
    assert named == [*want, "none", "", "", "none", "none"]


RNG = np.random.default_rng(0)


def hhmm(minute: Any) -> Any:
    return minute // 60 * 100 + minute % 60


@pytest.mark.parametrize("step", [1, 5, 10, 15, 20, 30])
def test_times_in_steps_are_found(step: int) -> None:
    votes = votes_of(hhmm(RNG.integers(300 // step, 1380 // step, 5000) * step))
    for noise in (0.0, 50.0):
        noisy = votes + noise * RNG.standard_normal(len(votes))
        assert choose_clock_format(noisy, noise, False, False) == "%-H%M"
    assert choose_clock_format(votes, 0.0, True, False) == "%H%M"
    assert choose_clock_format(votes, 0.0, False, True) == "%-H%M.0"


OTHERS = {
    "any": RNG.integers(0, 2400, 5000),
    "steps of 50": RNG.integers(2, 48, 5000) * 50,
    "hundreds": RNG.integers(1, 24, 5000) * 100,
    "rooms": RNG.integers(1, 21, 5000) * 100 + RNG.integers(1, 41, 5000),
    "months and days": RNG.integers(1, 13, 5000) * 100 + RNG.integers(1, 31, 5000),
    "ends in 45": RNG.integers(1, 24, 5000) * 100 + 45,
    "ends in 30": RNG.integers(1, 24, 5000) * 100 + 30,
    "ages": RNG.integers(0, 60, 5000),
    "weights": RNG.normal(175, 40, 5000).round(),
    "years": RNG.integers(2001, 2024, 5000),
    "larger": RNG.integers(0, 6000, 5000) // 100 * 100 + RNG.integers(0, 60, 5000),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_numbers_are_none(name: str) -> None:
    assert choose_clock_format(votes_of(OTHERS[name]), 0.0, False, False) == ""


def test_nothing_is_said_where_noise_hides_it_and_slips_are_allowed() -> None:
    votes = votes_of(hhmm(RNG.integers(0, 1440, 5000)))
    assert choose_clock_format(votes, 126.0, False, False) == ""
    slips = votes + 20.0 * (np.arange(len(votes)) == CLOCK_VOTES.index("none"))
    assert choose_clock_format(slips, 0.0, False, False) == "%-H%M"
    assert choose_clock_format(votes + 60.0 * (np.arange(len(votes)) == 0), 0.0, False, False) == ""
    assert choose_clock_format(np.zeros(len(votes)), 0.0, False, False) == ""


def test_midnight_is_written_as_most_of_it_is() -> None:
    numbers = np.append(hhmm(RNG.integers(1, 1440, 5000)), np.full(300, 2400))
    assert choose_clock_format(votes_of(numbers), 5.0, False, False) == "%-H%M 24"
    assert choose_clock_format(votes_of(np.append(numbers, np.zeros(400))), 5.0, False, False) == "%-H%M"


STORED = {
    "numbers": pa.array([517, 5, 2400, 1373, None], pa.int16()),
    "floats": pa.array([517.0, 5.0, 2400.0, 1373.0, None]),
    "text": pa.array(["517", "0005", "2400.0", "1373", None]),
}


@pytest.mark.parametrize("name", STORED)
def test_storage_of_all_sorts_is_read_and_votes(name: str) -> None:
    array = STORED[name]
    values, known = readings(rewrite_column(array, "time", "%-H%M"), "time")
    assert known.tolist() == [True, True, True, False, False]
    assert values[:3].tolist() == [317 * MINUTE, 5 * MINUTE, 0]
    found = dict(zip(CLOCK_VOTES, spellings(array, "clock format").tolist(), strict=True))
    assert found == {**dict.fromkeys(CLOCK_VOTES, 0), "none": 1, "2400": 1, "first hour": 1, "other": 1}


def test_stored_times_and_other_text_stay_and_do_not_vote() -> None:
    typed = pa.array([datetime.time(5, 17)], pa.time64("us"))
    assert rewrite_column(typed, "time", "%-H%M").equals(typed)
    assert spellings(typed, "clock format").sum() == 0
    text = pa.array(["05:17", "NA", "noon", ""])
    assert rewrite_column(text, "time", "%H%M").to_pylist() == ["05:17", "NA", "noon", ""]
    assert spellings(text, "clock format").sum() == 0


def column_of(written: str, **parts: Any) -> Time:
    return Time(name="t", edges=(0, DAY // 2, DAY), missing=True, format=written, **parts)


@pytest.mark.parametrize("kind", [pa.int16(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(19, 0)])
def test_numbers_come_back_as_numbers(kind: Any) -> None:
    schema = Schema((column_of("%-H%M", strict=False),))
    table = pa.table({"t": pa.array([517, 5, 2359, 1373, None]).cast(kind)})
    encoded = encode(table, schema)
    assert encoded.columns[0].tolist() == [0, 0, 1, 2, 2]
    rows = Encoded(schema.domain, (np.repeat([0, 1, 2], 500).astype(np.uint8),))
    made = decode(rows, schema, np.random.default_rng(0), Frame("arrow", {"t": str(kind)}))["t"]
    assert made.type == kind
    held = made.drop_null().cast(pa.float64()).to_numpy()
    assert len(held) == 1000
    assert read_clock(held)[1].all()
    assert len(np.unique(held)) > 400


def test_text_and_numbers_come_out_of_files_as_they_went_in() -> None:
    rows = np.repeat([0, 1], 300).astype(np.uint8)
    for written, kind in (("%-H%M", pa.int64()), ("%H%M", pa.large_string()), ("%-H%M.0", pa.large_string())):
        schema = Schema((column_of(written),))
        made = decode(Encoded(schema.domain, (rows,)), schema, np.random.default_rng(0))["t"]
        assert made.type == kind
        if written == "%H%M":
            assert {len(text) for text in made.to_pylist()} == {4}


def test_a_strict_column_takes_times_alone_and_all_are_minutes() -> None:
    column = column_of("%-H%M")
    assert column.step == MINUTE
    with pytest.raises(InputError, match="'t'"):
        encode(pa.table({"t": ["1373"]}), Schema((column,)))
    assert Schema.from_json(Schema((column,)).to_json())["t"] == column
    for kind, written in ((Time, "%H:%M"), (Duration, "%-H%M"), (Date, "%-H%M"), (Integer, "%-H%M")):
        with pytest.raises(SchemaError):
            kind(name="t", format=written)


def test_a_format_of_a_text_file_declares_the_column() -> None:
    text, schema = declare_written(TextFormat(columns={"t": "%-H%M", "d": "%d.%m.%Y"}), None)
    assert text.columns == {"t": "text", "d": "%d.%m.%Y"}
    assert schema == Schema((Time(name="t", format="%-H%M"),))
    with pytest.raises(InputError, match="times of day alone"):
        declare_written(TextFormat(columns={"t": "%-H%M"}), Schema((Integer(name="t"),)))


def times(*minutes: int) -> Instant:
    return Instant.of(np.array(minutes) * MINUTE, clock=True, daily=True)


def test_the_time_between_two_goes_the_shorter_way_over_midnight() -> None:
    since, until = times(23 * 60 + 50, 20, 600, 0, 720), times(20, 23 * 60 + 50, 630, 720, 0)
    assert count_units(since, until, "minutes", np.floor_divide).tolist() == [30, -30, 30, -720, -720]
    assert count_units(since, until, "hours", np.floor_divide).tolist() == [0, -1, 0, -12, -12]


@given(minutes, st.integers(-719, 718), st.sampled_from(["hours", "minutes", "seconds"]), st.booleans())
def test_ranges_say_the_number_within_one_day(minute: int, number: int, unit: str, ahead: bool) -> None:
    number = number // 60 if unit == "hours" else number
    at = times(minute)
    low, high = find_range(at, np.array([number]), unit, ahead)
    assert 0 <= low[0] <= high[0] < DAY
    for one in (low, (low + high) // 2, high):
        other = Instant.of(one, clock=True, daily=True)
        pair = (at, other) if ahead else (other, at)
        assert count_units(*pair, unit, np.floor_divide).tolist() == [number]


NUMBER = Integer(name="n", edges=(-720, 720), missing=False)


def test_rules_about_times_of_day_are_of_hours_and_minutes_alone() -> None:
    time, other = column_of("%-H%M"), Time(name="u", edges=(0, DAY), missing=False)
    moment = Moment(name="m", edges=(0, DAY), missing=False)
    for part in PARTS:
        rule = DatePart("n", "t", part)
        if part in CLOCK_PARTS:
            assert Schema((time, NUMBER), (rule,)).rules == (rule,)
        else:
            with pytest.raises(SchemaError, match="times of day"):
                Schema((time, NUMBER), (rule,))
    for unit in ("days", *TICKS):
        rule = Elapsed("n", "t", "u", unit)
        if unit in TICKS:
            assert Schema((time, other, NUMBER), (rule,)).rules == (rule,)
        else:
            with pytest.raises(SchemaError, match="hours, minutes or seconds"):
                Schema((time, other, NUMBER), (rule,))
    with pytest.raises(SchemaError, match="times of day"):
        Schema((time, moment, NUMBER), (Elapsed("n", "t", "m", "minutes"),))
    with pytest.raises(SchemaError, match="moments or times of day"):
        Schema((Date(name="d", edges=(0, 9), missing=False), NUMBER), (DatePart("n", "d", "minute"),))


def test_drawn_rows_obey_rules_over_midnight_too() -> None:
    late = column_of("%-H%M")
    other = Time(name="u", edges=(0, DAY // 2, DAY), missing=False, format="%-H%M")
    delay = Integer(name="n", edges=(-60, 0, 120, 240), missing=False)
    hour, minute = (Integer(name=name, edges=(0, end), missing=False) for name, end in (("h", 24), ("m", 60)))
    rules = (Elapsed("n", "t", "u", "minutes"), DatePart("h", "t", "hour"), DatePart("m", "t", "minute"))
    schema = Schema((late, other, delay, hour, minute), rules)
    rng = np.random.default_rng(0)
    codes = [
        rng.integers(0, 2, 3000),
        rng.integers(0, 2, 3000),
        rng.integers(0, 3, 3000),
        *np.zeros((2, 3000)),
    ]
    made = decode(Encoded(schema.domain, tuple(np.asarray(c).astype(np.uint8) for c in codes)), schema, rng)
    t, u, n, h, m = (made[name].to_numpy() for name in schema.names)
    between = (u // 100 * 60 + u % 100 - t // 100 * 60 - t % 100 + 720) % 1440 - 720
    assert (between == n).all()
    assert (u < t).any()
    assert ((t // 100 == h) & (t % 100 == m)).all()
    assert ((n >= -60) & (n < 240)).all()


@pytest.mark.parametrize(("lower", "wraps"), [(-720, True), (0, False)])
def test_differences_that_go_either_way_lead_over_midnight(lower: int, wraps: bool) -> None:
    begin = Time(name="t", edges=(DAY - 60 * MINUTE, DAY), missing=False, format="%-H%M")
    own = Time(name="u", edges=(0, DAY), missing=False, format="%-H%M")
    part = Duration(name="u", edges=(lower * MINUTE, 120 * MINUTE, 121 * MINUTE), missing=False)
    end = Relative(name="u", base="t", base_read="time", own=own, part=part, missing=False)
    schema = Schema((begin, end))
    codes = np.zeros(2000, dtype=np.uint8), np.ones(2000, dtype=np.uint8)
    made = decode(Encoded(schema.domain, codes), schema, np.random.default_rng(0))
    t, u = (read_clock(made[name].to_numpy())[0] // MINUTE for name in ("t", "u"))
    # An order that all rows keep is kept: then what would be behind midnight is the last minute before.
    assert (u == ((t + 120) % 1440 if wraps else 1439)).all()
