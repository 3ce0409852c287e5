"""The strict spelling of dates, moments and times, held against Python's own calendar."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.schema.profile import PROFILE, classes, profile
from margrave.schema.storage import clock
from margrave.schema.storage.spelling import SPELLINGS, choose_time_spelling, respelt, spellings

EPOCH = datetime.datetime(1970, 1, 1)
MICRO = datetime.timedelta(microseconds=1)


def texts(*values: str) -> pa.Array:
    return pa.array(values, pa.large_string())


def kind(text: str) -> str:
    return PROFILE[int(classes(texts(text))[0])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, "date") for text in ("2024-02-29", "0001-01-01", "9999-12-31", "2000-02-29")],
        *[(text, "text") for text in ("2023-02-29", "1900-02-29", "2023-02-30", "0000-01-01", "2023-13-01")],
        *[(text, "text") for text in ("2023-00-10", "20230-01-01", "-2023-01-01", "2023-01-01 ")],
        *[(text, "written date") for text in ("2023-1-1", "31.01.2020", "1/31/20")],
        *[(text, "written moment") for text in ("2024-02-29 8:05", "01/31/2020 11:05 PM")],
        *[(text, "written number") for text in ("1,234.50", "12,5", "32%", "$5")],
        *[(text, "whole") for text in ("20230101", "12", "-3", "0", "-0")],
        *[(text, "pointed") for text in ("1e3", "12.0", "0.", "1E2", "100.00")],
        *[(text, "padded") for text in ("01591", "00", "-07", "+41791234567")],
        *[(text, "whole") for text in ("+7", "10")],
        *[(text, "mark") for text in ("NA", "nan", "-", "None", "?")],
        *[(text, text.replace("false", "true").replace("False", "True")) for text in ("false", "False")],
        *[(text, text) for text in ("true", "True", "TRUE")],
        *[(text, "moment") for text in ("2024-02-29T08:05", "2024-02-29 08:05:09", "2024-02-29T08:05:09.5Z")],
        *[(text, "moment") for text in ("2024-02-29 08:05+01:00", "2024-02-29T08:05:09.123456789-23:59")],
        *[
            (text, "moment")
            for text in ("2024-02-29T08:05+0100", "2024-02-29 08:05 -05", "2024-02-29 08:05 UTC")
        ],
        *[(text, "text") for text in ("2024-02-29T24:00", "2024-02-29T08:60", "2024-02-29T08:05:60")],
        *[(text, "text") for text in ("2024-02-30T08:05", "2024-02-29t08:05", "2024-02-29T08:05+010")],
        *[(text, "text") for text in ("2024-02-29T08:05+24:00", "2024-02-29T08:05:09.1234567890")],
        *[(text, "text") for text in ("2024-02-29 8:05Z", "2024-02-29T8:05+01:00")],
        *[(text, "time") for text in ("08:05", "23:59:59.999999999", "00:00:00", "8:05", "0:48:15")],
        *[(text, "text") for text in ("24:00", "08:05Z", "08:05:09.", "٠٨:٠٥", "tRUE")],
        *[(text, "text") for text in ("36:15:00", "0:75:00", "8:5", ":05", "008:05", "45:10")],
        *[(text, "missing") for text in ("1e999", "", " ", "\u00a0")],
        *[(text, "number") for text in ("0.5", "9007199254740994", ".5")],
    ],
)
def test_each_text_is_in_one_class(text: str, expected: str) -> None:
    assert kind(text) == expected


@given(st.dates())
def test_dates_count_days(day: datetime.date) -> None:
    days, known = clock.dates(texts(day.isoformat()))
    assert known[0]
    assert days[0] == (day - EPOCH.date()).days
    assert clock.date_text(int(days[0])) == day.isoformat()


@given(st.datetimes(), st.sampled_from("T "), st.sampled_from(("", "Z", "+05:30", "-23:59")))
def test_moments_count_microseconds_of_utc(moment: datetime.datetime, blank: str, zone: str) -> None:
    text = moment.isoformat(blank) + zone
    found, known = clock.moments(texts(text))
    shift = datetime.timedelta(0)
    if len(zone) > 1:
        sign = -1 if zone[0] == "-" else 1
        shift = sign * datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
    assert known[0]
    assert found[0] == (moment - EPOCH) // MICRO - shift // MICRO
    assert clock.moments(texts(clock.moment_text(int((moment - EPOCH) // MICRO))))[0][0] == (
        (moment - EPOCH) // MICRO
    )


@given(st.times())
def test_times_count_from_midnight(time: datetime.time) -> None:
    found, known = clock.times(texts(time.isoformat()))
    assert known[0]
    day = datetime.datetime.combine(EPOCH, time)
    assert found[0] == (day - EPOCH) // MICRO
    assert clock.times(texts(clock.time_text(int(found[0]))))[0][0] == found[0]


@given(st.text(alphabet="0123456789-:T Z+.e", max_size=30))
def test_a_text_that_is_read_is_spelt_as_the_rules_say(text: str) -> None:
    known = {
        "date": bool(clock.dates(texts(text))[1][0]),
        "moment": bool(clock.moments(texts(text))[1][0]),
        "time": bool(clock.times(texts(text))[1][0]),
    }
    assert sum(known.values()) <= 1
    for name, found in known.items():
        assert (kind(text) == name) == found


def test_a_profile_adds_up_by_parts() -> None:
    whole = texts("2024-01-01", "x", "3", "3.5", "2024-01-01T10:00", "10:00", "1e999")
    column = pa.concat_arrays([whole, pa.array([None], pa.large_string())])
    assert profile(column)[:7].tolist() == [2, 1, 1, 1, 1, 1, 1]
    parts = [profile(column.slice(start, 3)) for start in (0, 3, 6)]
    assert sum(parts).tolist() == profile(column).tolist()
    stamped = pa.array([EPOCH, None], pa.timestamp("us"))
    assert profile(stamped).tolist() == [1, 1] + [0] * (len(PROFILE) - 2)


def test_hours_have_one_digit_where_evidently_some_have() -> None:
    def votes(**counts: float) -> np.ndarray:
        return np.array([counts.get(f"t{spelling.replace(':', '')}", 0.0) for spelling in SPELLINGS["time"]])

    assert choose_time_spelling(votes(t0000=900.0), 50.0) == "00:00"
    assert choose_time_spelling(votes(t000000=600.0, t00000=300.0), 50.0) == "0:00:00"
    assert choose_time_spelling(votes(t000000=960.0, t00000=40.0), 50.0) == "00:00:00"  # noise, or slips
    assert choose_time_spelling(votes(t0000=100.0, t000000=900.0, t000=60.0), 50.0) == "00:00:00"


@pytest.mark.parametrize("read", ["moment", "time"])
def test_a_spelling_comes_back(read: str) -> None:
    nine = np.array([9 * 3_600_000_000 + 1_500_000])
    for place, spelling in enumerate(SPELLINGS[read]):
        (text,) = respelt(nine, read, spelling)
        counts = spellings(texts(text), read)
        assert counts.sum() == 1
        assert counts[place] == 1
        assert len(text) == len(spelling) + (10 if read == "moment" else 0)
        (late,) = respelt(nine + 3 * 3_600_000_000, read, spelling)
        assert late.replace("12:", "9:" if spelling[1] == ":" else "09:") == text
    assert spellings(texts("2024-01-01", "x", "1"), read).sum() == 0
    assert spellings(pa.array([EPOCH]), "moment").sum() == 0
