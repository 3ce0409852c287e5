"""The twin audit of formats: the looks at how numbers, dates and censored results of text are written."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest
from twin_runs import LookAudit

from margrave.engines.memory import MemorySource
from margrave.measure.discovery import discover
from margrave.measure.discovery.discover import Discovery
from margrave.privacy.unit import Adjacency

COLUMNS = ("paid", "born", "people", "month", "crp")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "another format": {
        "paid": "1.234,50 €",
        "born": "31.01.1980",
        "people": "1.200.000,5",
        "month": "05/1980",
        "crp": "1,5",
    },
    "a unit that nobody else has": {"paid": "72.4 kg", "people": "CHF 3"},
    "day and month told apart by nobody else": {"born": "12/31/1980"},
    "no number and no date": {
        "paid": "unpaid",
        "born": "unknown",
        "people": "many",
        "month": "1980-37",
        "crp": "lost",
    },
    "a censored result that nobody else has": {"crp": "<7.3 mg/l", "paid": "<5", "born": "trace"},
    "the commonest censored result": {"crp": "<0.5 mg/l"},
    "no value at all": dict.fromkeys(COLUMNS),
    "a number far off": {"paid": "$999,999,999,999.99", "people": "9,999,999,999"},
    "a month with a day, and one far off": {"month": "1980-05-31", "born": "1801-01"},
}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule."""
    day = datetime.date(1980, 1 + owner % 12, 1 + owner * 7 % 12)
    paid, people = 100 + owner * 37 % 4000 + owner % 100 / 100, 500 + owner * 61 % 3000
    dates = {"born": day.strftime("%m/%d/%Y"), "month": day.strftime("%Y-%m")}
    crp = "<0.5 mg/l" if owner % 5 < 2 else f"{owner % 90 / 10 + 0.5:.1f} mg/l"
    return {"paid": f"${paid:,.2f}", "people": f"{people:,}", "crp": crp, **dates}


AUDIT = LookAudit(COLUMNS, row, ODD, owners=400)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_look_loses_no_more_than_it_declares(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert {f"format of {name}" for name in COLUMNS[:-1]} < set(asked)
    assert "censored results of crp" in asked
    assert {f"bounds of {name}" for name in COLUMNS} < set(asked)
    assert found == []


def count_twice(patch: pytest.MonkeyPatch, read: str) -> None:
    """A row in two cells of the votes of a reading."""
    true = MemorySource.spellings

    def votes(self: Any, column: str, asked: str) -> Any:
        counts = true(self, column, asked)
        if asked.endswith(read):
            cells = counts.reveal()
            return type(counts)(cells + np.roll(cells, 1))
        return counts

    patch.setattr(MemorySource, "spellings", votes)


def twice(patch: pytest.MonkeyPatch) -> None:
    """A row in two cells of the votes on formats."""
    count_twice(patch, "format")


def censored_twice(patch: pytest.MonkeyPatch) -> None:
    """A row in two cells of the look at censored results."""
    count_twice(patch, "censored")


def shares_of_the_rows(patch: pytest.MonkeyPatch) -> None:
    """The shares of censored results are those of the rows themselves."""
    true = discover.as_written

    def exact(column: Any, source: Any, *args: Any) -> Any:
        source.spellings(column.name, "censored").reveal()
        return true(column, source, *args)

    patch.setattr(discover, "as_written", exact)


def by_the_rows(patch: pytest.MonkeyPatch) -> None:
    """The texts are read in a format that follows the rows themselves."""
    true = Discovery._with_format

    def read_rows(self: Any, *args: Any) -> Any:
        self._source.spellings(args[0].name, "date format").reveal()
        return true(self, *args)

    patch.setattr(Discovery, "_with_format", read_rows)


@pytest.mark.parametrize("fault", [twice, by_the_rows, censored_twice, shares_of_the_rows])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    odd = ["a row as all others", "another format", "the commonest censored result"]
    assert AUDIT.run(odd, "add_remove", 0)[1] != []
