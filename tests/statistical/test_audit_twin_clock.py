"""The twin audit of times of day and dates as numbers, and of offsets: the votes on them, and rules."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from twin_runs import LookAudit

from margrave.engines.counts import Counts
from margrave.engines.memory import MemorySource
from margrave.measure.discovery import cycles, discover, kinds, numeric
from margrave.measure.discovery.between.calendar import Calendar
from margrave.privacy.unit import Adjacency

COLUMNS = ("planned", "left", "due", "late", "hour", "minute", "day", "named", "seen", "stamp", "last")
TYPES = dict.fromkeys(("planned", "left", "late", "hour", "minute", "day", "stamp"), pa.int64())
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "midnight": {"planned": 2400, "left": 2400, "due": "0000", "hour": 0},
    "no times of day": {"planned": 1373, "left": 1373, "due": "9999", "hour": 25},
    "over midnight": {"planned": 2355, "left": 5, "late": 10, "hour": 23, "minute": 55},
    "other digits": {"left": -517, "due": "517"},
    "no numbers": {"due": "noon", "named": "in March"},
    "no days": {"day": 20240230, "named": "30FEB2024", "stamp": 20240230080000, "last": "30022024"},
    "another one first": {"last": "02292024"},
    "no zero in front": {"last": "1032024"},
    "another number, and another spelling": {"day": 202402, "named": "March 3, 2024"},
    "another time stamp": {"stamp": 202402290800},
    "without end": {"day": 99991231, "named": "31DEC9999"},
    "another offset": {"seen": "2010-07-01T08:00:00-0330"},
    "no such offset, and no offset": {"seen": "2010-01-01T08:00:00+07:07"},
    "a moment of no zone": {"seen": "2010-01-01 08:00"},
    "no value at all": dict.fromkeys(COLUMNS),
    "far numbers": {"planned": 2**62, "left": -(2**62), "late": -(2**62)},
}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule."""
    planned, late = 300 + owner * 61 % 1000, owner * 7 % 40 - 5
    began, left, due = (
        minute // 60 * 100 + minute % 60 for minute in (planned, planned + late, 240 + owner * 97 % 1100)
    )
    told = {"late": late, "hour": planned // 60, "minute": planned % 60}
    day = dt.date(2010, 1, 1) + dt.timedelta(days=owner * 37 % 3000)
    dates = {"day": int(day.strftime("%Y%m%d")), "named": day.strftime("%d%b%Y").upper()}
    dates["last"] = day.strftime("%d%m%Y")
    dates["stamp"] = int(day.strftime("%Y%m%d")) * 10**6 + 80_000 + owner % 60
    dates["seen"] = f"{day}T08:{owner % 60:02d}:00+0{1 + (3 < day.month < 11)}:00"
    return {"planned": began, "left": left, "due": f"{due:04d}", **told, **dates}


AUDIT = LookAudit(COLUMNS, row, ODD, TYPES, owners=400, epsilon=150.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_looks_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert {"times of day of planned", "times of day of left", "format of due"} < set(asked)
    assert {"format of last", "weekdays of last"} < set(asked)
    assert {"dates of day", "format of named", "weekdays of day", "offsets from UTC of seen"} < set(asked)
    assert {"dates of stamp", "hours of stamp"} < set(asked)
    assert {f"days of the month of {name}" for name in ("day", "named", "last")} < set(asked)
    assert [what for what in asked if what.startswith("times told by")]
    assert found == []


def twice(patch: pytest.MonkeyPatch) -> None:
    """A row in two cells of the votes."""
    true = MemorySource.spellings

    def votes(self: Any, column: str, read: str) -> Any:
        cells = true(self, column, read).reveal()
        return Counts(cells + np.roll(cells, 1))

    patch.setattr(MemorySource, "spellings", votes)


def in_two_places_of_a_month(patch: pytest.MonkeyPatch) -> None:
    """A row in two places of its month."""
    true = cycles.sum_month_places
    patch.setattr(cycles, "sum_month_places", lambda counts: true(counts) + np.roll(true(counts), 1))


def month_days_by_the_rows(patch: pytest.MonkeyPatch) -> None:
    """Whether days of the month are looked at follows from the rows themselves."""
    true = cycles.find_cycles

    def find(column: Any, source: Any, *more: Any) -> Any:
        rows = source.places_in_cycle(column.name, column.read, 1, 7).reveal().sum()
        return true(column, source, *more[:-1], more[-1] - {"month_days"} if rows % 2 else more[-1])

    patch.setattr(discover, "find_cycles", find)


def by_the_rows(patch: pytest.MonkeyPatch) -> None:
    """Whether numbers are times of day follows from the rows themselves."""
    true = kinds.ask_for_clock

    def ask(column: Any, source: Any, *more: Any) -> Any:
        votes = source.spellings(column.name, "clock format").reveal()
        return true(column, source, *more) if votes[0] == 0 else None

    patch.setattr(numeric, "ask_for_clock", ask)


def dates_by_the_rows(patch: pytest.MonkeyPatch) -> None:
    """Whether numbers are dates follows from the rows themselves."""
    true = kinds.ask_for_dates

    def ask(column: Any, source: Any, *more: Any) -> Any:
        votes = source.spellings(column.name, "date number").reveal()
        return true(column, source, *more) if votes[0] == 0 else None

    patch.setattr(numeric, "ask_for_dates", ask)


def offsets_by_the_rows(patch: pytest.MonkeyPatch) -> None:
    """Whether offsets are looked at follows from the rows themselves."""
    true = kinds.find_time_spelling

    def find(column: Any, source: Any, *more: Any) -> Any:
        if column.name == "seen" and source.spellings("seen", "offset").reveal().sum() % 2:
            return column
        return true(column, source, *more)

    patch.setattr(numeric, "find_time_spelling", find)


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count asked beside the ledger decides which rules are looked at."""
    true = Calendar.find_candidates

    def find(self: Any, schema: Any) -> Any:
        reads = {
            **dict.fromkeys(("planned", "left", "due"), "time"),
            "day": "date",
            "named": "date",
            "last": "date",
        }
        reads |= {"seen": "moment", "stamp": "moment"}
        return [
            rule for rule in true(self, schema) if self._source.agreements([rule], reads)[0].reveal()[0] % 2
        ]

    patch.setattr(Calendar, "find_candidates", find)


@pytest.mark.parametrize(
    "fault",
    [
        in_two_places_of_a_month,
        month_days_by_the_rows,
        twice,
        by_the_rows,
        dates_by_the_rows,
        offsets_by_the_rows,
        for_nothing,
    ],
)
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    odd = ["a row as all others", "no times of day", "over midnight", "no days", "no value at all"]
    assert AUDIT.run(odd, "add_remove", 0)[1] != []
