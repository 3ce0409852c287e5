"""Offsets from UTC in texts of moments: how they are written, and in which time zone moments are shown.

A *mark* is how texts end, written as UTC is in it: "Z", "+00:00", "+0000", " UTC". A *zone* is the name of a
time zone, "UTC", or one constant offset as in "+02:00". Where texts have two offsets that are an hour apart,
the later one in summer, their zone is one of a public list that changes its clocks likewise.

A cell votes for one class by its own text: its offset, and whether its month is one of summer in the north,
of winter, or one in which clocks are changed.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.storage.clock_numbers import MINUTE

Whole = NDArray[np.int64]

MARKS = ("", "Z", "+00:00", "+0000", "+00", " +00:00", " +0000", " +00", " UTC")
"""The ends of texts that are told apart."""
OFFSETS = (
    *(60 * hour for hour in range(-12, 15)),
    *(-570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765, 825),
)
"""The offsets that are told apart, in minutes east of UTC: all that clocks have had since 2000."""
SEASONS = ("summer", "winter", "changing")
SEASON_OF_MONTH = np.array([1, 1, 2, 2, 0, 0, 0, 0, 0, 2, 2, 1])
"""The place in SEASONS of each month; in those of changing, clocks are changed in many countries."""
OFFSET_VOTES = tuple(f"{offset} {season}" for offset in OFFSETS for season in SEASONS)
"""The classes of texts with an offset."""
NORTH = {
    -600: "America/Adak",
    -540: "America/Anchorage",
    -480: "America/Los_Angeles",
    -420: "America/Denver",
    -360: "America/Chicago",
    -300: "America/New_York",
    -240: "America/Halifax",
    -210: "America/St_Johns",
    0: "Europe/London",
    60: "Europe/Berlin",
    120: "Europe/Athens",
}
SOUTH = {
    -240: "America/Santiago",
    570: "Australia/Adelaide",
    600: "Australia/Sydney",
    720: "Pacific/Auckland",
}
"""A zone that changes its clocks, by its offset in winter, in the north and in the south."""
OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
TAIL = re.compile(r"(?:Z| UTC| ?[+-][0-9]{2}(?::?[0-9]{2})?)$")
MOST_OTHER = 0.1
"""Most texts of the other offset in summer, and in winter, as a share of both. Not measured."""
DOUBT = 3.0
"""Noise standard deviations by which counts may be off. Not measured."""
CLEAR = 2.0
"""Noise standard deviations of a difference by which one offset has more texts than the other one, in summer,
and in winter. Not measured."""
EVIDENT = 3.0
"""Noise deviations from which on an offset has texts: of 40 without any one passes in 5 % of columns."""
CONTRADICTS = 4.0
"""Noise standard deviations of a single count from which on texts are in no offset of a zone: of 120 counts
without texts, one passes in 0.4 % of columns."""


def find_mark(clock: str) -> str:
    """How the text of a moment ends, one of MARKS.

    Args:
        clock: The text behind its date.
    """
    found = TAIL.search(clock)
    return "" if found is None else re.sub("[0-9]", "0", found[0]).replace("-", "+")


def mark_of(spelling: str) -> str:
    """The mark that a spelling of moments has, one of MARKS."""
    return max((mark for mark in MARKS if spelling.endswith(mark)), key=len)


def vote_on_offsets(texts: Any) -> Whole:
    """The place in OFFSET_VOTES of each text that ends with an offset, -1 for others: shape [texts].

    Args:
        texts: An Arrow array of text without nulls, which begins with a date as ISO 8601 has it.
    """
    pattern = (
        r"^[0-9]{4}-(?P<month>[0-9]{2})-[0-9]{2}[T ].*[0-9] ?"
        r"(?P<sign>[+-])(?P<east>[0-9]{2})(?::?(?P<more>[0-9]{2}))?$"
    )
    parts = pc.extract_regex(texts.cast(pa.large_string()), pattern)
    month, east, more = (_read_part(parts, name) for name in ("month", "east", "more"))
    west = np.asarray(pc.fill_null(pc.equal(parts.field("sign"), "-"), False), dtype=np.bool_)
    minutes = np.where(west, -1, 1) * (east * 60 + more)
    order = np.argsort(OFFSETS)
    place = order[np.clip(np.searchsorted(OFFSETS, minutes, sorter=order), 0, len(OFFSETS) - 1)]
    known = np.asarray(pc.is_valid(parts)) & (np.array(OFFSETS)[place] == minutes)
    known &= (month >= 1) & (month <= 12)
    season = SEASON_OF_MONTH[np.clip(month, 1, 12) - 1]
    return np.where(known, place * len(SEASONS) + season, -1).astype(np.int64)


def _read_part(parts: Any, name: str) -> Whole:
    """One part of matched texts as a number, 0 where there is none."""
    text = pc.fill_null(parts.field(name), "")
    return np.asarray(pc.if_else(pc.equal(text, ""), "0", text).cast(pa.int64()), dtype=np.int64)


def choose_zone(votes: NDArray[np.float64], sigma: float) -> str:
    """The zone in which most texts are; "UTC" for an offset of 0, and where noise may be all of them.

    This is post-processing of released counts.

    Args:
        votes: Noisy counts of OFFSET_VOTES, shape [votes].
        sigma: Standard deviation of their noise.
    """
    counts = votes.reshape(len(OFFSETS), len(SEASONS))
    best = int(np.argmax(counts.sum(axis=1)))
    if counts[best].sum() <= EVIDENT * sigma * len(SEASONS) ** 0.5:
        return "UTC"
    fixed = spell_offset(OFFSETS[best], "+00:00") if OFFSETS[best] else "UTC"
    candidates = [
        (float(counts[low].sum() + counts[high].sum()), zone)
        for zones, summer in ((NORTH, 1), (SOUTH, 0))
        for offset, zone in zones.items()
        for low, high in [(OFFSETS.index(offset), OFFSETS.index(offset + 60))]
        if best in (low, high) and _changes_clocks(counts[low], counts[high], summer, sigma)
    ]
    zone = max(candidates)[1] if candidates else fixed
    return zone if _is_known(zone) else fixed


def share_zones(votes: Mapping[str, tuple[NDArray[np.float64], float]]) -> dict[str, str]:
    """The zones of columns of one table: that of all texts together, where a column's own say no other one.

    This is post-processing of released counts.

    Args:
        votes: By column, noisy counts of OFFSET_VOTES, shape [votes], and the deviation of their noise.
    """
    if not votes:
        return {}
    counts, sigmas = zip(*votes.values(), strict=True)
    together = choose_zone(np.sum(counts, axis=0), math.hypot(*sigmas))
    others = ~_list_usual(together)
    return {
        name: choose_zone(own, sigma) if own[others].max() > CONTRADICTS * sigma else together
        for name, (own, sigma) in votes.items()
    }


def _list_usual(zone: str) -> NDArray[np.bool_]:
    """Which of OFFSET_VOTES texts of a place in a zone have: shape [votes]."""
    usual = np.zeros((len(OFFSETS), len(SEASONS)), dtype=np.bool_)
    for zones, summer in ((NORTH, 1), (SOUTH, 0)):
        for winter, name in zones.items():
            if name == zone:
                low, high = OFFSETS.index(winter), OFFSETS.index(winter + 60)
                usual[[low, high], [1, 0] if summer else [0, 1]] = True
                usual[[low, high], SEASONS.index("changing")] = True
    if not usual.any():
        usual[OFFSETS.index(int(find_offsets(np.zeros(1, dtype=np.int64), zone)[0]))] = True
    return usual.ravel()


def _changes_clocks(low: NDArray[np.float64], high: NDArray[np.float64], northern: int, sigma: float) -> bool:
    """Whether texts of two offsets are those of a place that changes its clocks, in the north or the south.

    low, high: Counts by season of the offset of winter, and of the one of summer.
    """
    warm, cold = (0, 1) if northern else (1, 0)
    doubt = DOUBT * sigma
    # Each season has nearly all of its texts in one offset, and clearly another one than the other season.
    held = all(
        less[season] <= MOST_OTHER * max(float(more[season] + less[season]), 0.0) + doubt
        for more, less, season in ((high, low, warm), (low, high, cold))
    )
    least = CLEAR * sigma * 2**0.5
    return held and bool(high[warm] - low[warm] > least and low[cold] - high[cold] > least)


def _is_known(zone: str) -> bool:
    """Whether the system knows a zone: some have no time zones installed."""
    try:
        find_offsets(np.zeros(1, dtype=np.int64), zone)
    except SchemaError:
        return False
    return True


def find_offsets(ticks: Whole, zone: str | None) -> Whole:
    """The offset of moments in a zone, in minutes east of UTC: shape [moments].

    Args:
        ticks: Microseconds since 1970 of UTC, shape [moments].
        zone: Name of a time zone, or a constant offset; None for UTC.

    Raises:
        SchemaError: The system knows no such zone.
    """
    if zone in (None, "UTC"):
        return np.zeros(len(ticks), dtype=np.int64)
    if found := OFFSET.fullmatch(str(zone)):
        minutes = int(found[2]) * 60 + int(found[3])
        return np.full(len(ticks), -minutes if found[1] == "-" else minutes)
    try:
        known = ZoneInfo(str(zone))
    except (OSError, ValueError, KeyError):
        known = None
    if known is None:
        remedy = "Declare another one, or install the package tzdata."
        raise SchemaError(invalid("zone", "a time zone that this system knows", remedy, got=zone))
    # Clocks are changed at whole quarters of an hour.
    quarters, place = np.unique(np.asarray(ticks, dtype=np.int64) // (15 * MINUTE), return_inverse=True)
    offsets = [_find_offset(quarter, known) for quarter in quarters.tolist()]
    return np.array(offsets, dtype=np.int64)[place.ravel()]


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
FIRST, LAST = -2_208_988_800 // 900, 7_258_118_400 // 900
"""The quarters of an hour between which zones have offsets of their own: the years 1900 to 2199."""


def _find_offset(quarter: int, zone: ZoneInfo) -> int:
    """The minutes of the offset in a quarter of an hour since 1970."""
    moment = EPOCH + datetime.timedelta(minutes=15 * min(max(quarter, FIRST), LAST))
    found = moment.astimezone(zone).utcoffset()
    return 0 if found is None else int(found.total_seconds() // 60)


def spell_offset(minutes: int, mark: str) -> str:
    """An offset as a mark has it; nothing where that has none.

    Args:
        minutes: East of UTC.
        mark: One of MARKS.
    """
    if "+" not in mark:
        return mark
    blank, form = mark.split("+")
    hours, rest = divmod(abs(minutes), 60)
    between = ":" if ":" in form or (rest and len(form) == 2) else ""
    end = f"{between}{rest:02d}" if len(form) > 2 or rest else ""
    return f"{blank}{'-' if minutes < 0 else '+'}{hours:02d}{end}"
