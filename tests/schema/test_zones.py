"""Offsets from UTC in texts of moments: how they are read, voted on, chosen and written."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import SchemaError
from margrave.schema.storage import clock, zones
from margrave.schema.storage.spelling import SPELLINGS, respelt, spellings

UTC = dt.timezone.utc


def texts(*values: str) -> pa.Array:
    return pa.array(values, pa.large_string())


def votes_of(zone: str, days: range = range(730)) -> np.ndarray:
    """Votes of moments every eight hours, as a place with this zone writes them."""
    moments = [dt.datetime(2013, 1, 1, tzinfo=UTC) + dt.timedelta(hours=8 * n) for n in range(3 * days.stop)]
    shown = [one.astimezone(ZoneInfo(zone)).isoformat() for one in moments[3 * days.start :]]
    return spellings(texts(*shown), "offset").astype(np.float64)


@given(
    st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1)),
    st.sampled_from(zones.OFFSETS),
    st.sampled_from([one for one in SPELLINGS["moment"] if "+" in one]),
)
def test_a_moment_comes_back_in_its_offset(moment: dt.datetime, minutes: int, spelling: str) -> None:
    if spelling.count("0") < 13:
        moment = moment.replace(microsecond=0)
    if ":00:00" not in spelling.removesuffix("+00:00"):
        moment = moment.replace(second=0, microsecond=0)
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    ticks = np.array([(moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)])
    zone = zones.spell_offset(minutes, "+00:00")
    (text,) = respelt(ticks, "moment", spelling, zone)
    values, known = clock.moments(texts(text))
    assert known[0]
    assert abs(values[0] - ticks[0]) < (60_000_000 if spelling.count("0") < 10 else 1_000_000)
    found = spellings(texts(text), "offset")
    assert found.sum() == 1
    vote = zones.OFFSET_VOTES[int(found.argmax())].split()
    assert int(vote[0]) == minutes
    local = moment + dt.timedelta(minutes=minutes)
    summer, winter = local.month in range(5, 10), local.month in (12, 1, 2)
    changing = not winter and not summer and local.month in (3, 4, 10, 11)
    assert {"summer": summer, "winter": winter, "changing": changing}[vote[1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-03-28T05:11:57+02:00", "2013-03-28T03:11:57"),
        ("2013-03-28 05:11:57-0500", "2013-03-28T10:11:57"),
        ("2013-03-28 05:11:57+02", "2013-03-28T03:11:57"),
        ("2013-03-28 05:11:57 -0330", "2013-03-28T08:41:57"),
        ("2013-03-28 05:11:57 UTC", "2013-03-28T05:11:57"),
        ("2013-03-28T23:59:59.5Z", "2013-03-28T23:59:59.500000"),
    ],
)
def test_offsets_are_read(text: str, expected: str) -> None:
    values, known = clock.moments(texts(text))
    assert known[0]
    assert clock.moment_text(int(values[0])) == expected
    assert spellings(texts(text), "moment").sum() == 1


def test_what_is_no_offset_is_no_vote() -> None:
    odd = ("2013-03-28T05:11:57Z", "2013-03-28", "2013-03-28T05:11:57", "2013-03-28T05:11+07:07", "x+01:00")
    odd += ("2013-13-28T05:11+01:00", "2013-00-28T05:11+01:00", "", "0099-03-28T05:11+99:99")
    assert spellings(texts(*odd), "offset").sum() == 0
    assert spellings(pa.array([3, 4]), "offset").sum() == 0


def test_a_cell_votes_once_and_for_itself() -> None:
    shown = ["2013-03-28T05:11:57+02:00", "2013-06-28 05:11-0500", "2013-01-01 00:00+02", "x", "2013-06-01"]
    whole = spellings(texts(*shown), "offset")
    single = [spellings(texts(one), "offset") for one in shown]
    assert max(one.sum() for one in single) == 1
    np.testing.assert_array_equal(whole, np.sum(single, axis=0))


@pytest.mark.parametrize("zone", [*zones.NORTH.values(), *zones.SOUTH.values()])
def test_two_offsets_by_season_are_a_place(zone: str) -> None:
    assert zones.choose_zone(votes_of(zone), 20.0) == zone


@pytest.mark.parametrize("zone", ["Europe/Paris", "Europe/Dublin", "America/Toronto", "Australia/Hobart"])
def test_a_place_like_another_is_taken_for_it(zone: str) -> None:
    found = zones.choose_zone(votes_of(zone), 20.0)
    assert found in zones.NORTH.values() or found in zones.SOUTH.values()
    np.testing.assert_array_equal(votes_of(found), votes_of(zone))


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("Asia/Tokyo", "+09:00"), ("UTC", "UTC"), ("Asia/Kolkata", "+05:30"), ("America/Bogota", "-05:00")],
)
def test_one_offset_is_constant(zone: str, expected: str) -> None:
    assert zones.choose_zone(votes_of(zone), 20.0) == expected


def test_offsets_of_several_places_are_no_seasons() -> None:
    # Berlin and Athens: an hour apart at all times of the year.
    mixed = votes_of("Europe/Berlin") + 2 * votes_of("Europe/Athens")
    assert zones.choose_zone(mixed, 20.0) in ("+02:00", "+03:00")
    # Two constant offsets, and a few slips.
    assert zones.choose_zone(votes_of("Asia/Tokyo") + votes_of("Asia/Shanghai") * 0.4, 20.0) == "+09:00"
    # Half a year of summer alone says nothing of winter.
    assert zones.choose_zone(votes_of("Europe/Berlin", range(490, 600)), 5.0) == "+02:00"
    assert zones.choose_zone(votes_of("Europe/Berlin", range(365, 480)), 5.0) == "+01:00"
    assert zones.choose_zone(votes_of("Europe/Berlin") * 0.01, 60.0) == "UTC"  # hidden by noise


def test_columns_of_a_table_share_a_zone_unless_one_says_another() -> None:
    rng = np.random.default_rng(0)
    berlin, tokyo = votes_of("Europe/Berlin"), votes_of("Asia/Tokyo")
    alone, shared = 0, 0
    for _ in range(50):
        noisy = {
            name: (own + rng.normal(0, 150, len(own)), 150.0) for name, own in (("a", berlin), ("b", berlin))
        }
        alone += sum(zones.choose_zone(*held) == "Europe/Berlin" for held in noisy.values()) == 2
        found = zones.share_zones(noisy)
        shared += found == {"a": "Europe/Berlin", "b": "Europe/Berlin"}
        assert found["a"] == found["b"]
    assert shared > alone + 5
    held = {"a": (berlin, 20.0), "b": (berlin, 20.0), "c": (tokyo, 20.0), "d": (votes_of("Etc/GMT-2"), 20.0)}
    assert zones.share_zones(held) == dict(
        zip("abcd", ["Europe/Berlin"] * 2 + ["+09:00", "+02:00"], strict=True)
    )
    assert zones.share_zones({}) == {}


def test_an_unknown_zone_is_an_error_of_the_schema() -> None:
    with pytest.raises(SchemaError, match="time zone"):
        zones.find_offsets(np.zeros(1, dtype=np.int64), "Europe/Atlantis")


@pytest.mark.parametrize(
    ("minutes", "mark", "expected"),
    [
        (330, "+00:00", "+05:30"),
        (-570, "+0000", "-0930"),
        (-300, "+00", "-05"),
        (330, "+00", "+05:30"),
        (60, " +0000", " +0100"),
        (0, "Z", "Z"),
        (0, " UTC", " UTC"),
        (0, "", ""),
    ],
)
def test_offsets_are_spelt(minutes: int, mark: str, expected: str) -> None:
    assert zones.spell_offset(minutes, mark) == expected
    assert zones.find_mark(f"08:05:09{expected}") == ("+00:00" if (minutes, mark) == (330, "+00") else mark)
    assert zones.mark_of(f"T00:00:00.000{mark}") == mark


def test_moments_far_away_have_an_offset() -> None:
    ticks = np.array([-(1 << 62), 0, 1 << 62])
    assert zones.find_offsets(ticks, "Europe/Berlin").tolist()[1:] == [60, 60]
