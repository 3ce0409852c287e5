"""The twin audit of the looks at numbers, names and other dates that dates tell."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_rules_twice, price_as_one_table

from margrave.measure.discovery.between.calendar import Calendar
from margrave.privacy.unit import Adjacency
from margrave.schema.constraints.rules import DatePart

COLUMNS = ("born", "came", "age", "old", "month", "kind", "weekday", "month_begin", "is_weekend")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "an age that is wrong": {"age": 3, "month": 13, "old": 3},
    "born after the visit": {"born": datetime.date(9999, 12, 31), "age": -8000},
    "no value at all": dict.fromkeys(COLUMNS),
    "one value missing": {"came": None},
    "a far number": {"age": 2**62},
    "another weekday": {"weekday": "Tuesday"},
    "no weekday": {"weekday": "a day off"},
    "another month, and another kind of day": {"month_begin": datetime.date(1, 1, 2), "is_weekend": None},
}
TYPES = {"born": pa.date32(), "came": pa.date32(), "age": pa.int64(), "old": pa.int64(), "month": pa.int64()}
TYPES |= {"month_begin": pa.date32(), "is_weekend": pa.bool_()}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule: ages on the day of a visit and on a fixed one, and date parts."""
    came = datetime.date(2020, 1, 1) + datetime.timedelta(days=owner * 37 % 700)
    born = datetime.date(1940, 1, 1) + datetime.timedelta(days=owner * 9_973 % 25_000)
    age = came.year - born.year - ((came.month, came.day) < (born.month, born.day))
    told = {"age": age, "old": 2022 - born.year, "month": came.month, "weekday": WEEKDAYS[came.weekday()]}
    periods = {"month_begin": came.replace(day=1), "is_weekend": came.weekday() > 4}
    return {"born": born, "came": came, **told, "kind": ("a", "b")[owner % 2], **periods}


AUDIT = LookAudit(COLUMNS, row, ODD, TYPES, epsilon=30.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_look_loses_no_more_than_it_declares(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    (what,) = (what for what in asked if what.startswith("times told by"))
    assert [what for what in asked if what.startswith("periods told by")] == ["periods told by 4 rules"]
    # Which fixed day a number is told to is asked before.
    assert [what for what in asked if what.startswith("days that")]
    # The weekday is asked for with both dates, beside ages and months.
    assert int(what.split()[3]) > 2
    assert found == []


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count asked beside the ledger decides what is looked at."""
    true = Calendar.find_candidates

    def find(self: Any, schema: Any) -> Any:
        reads = dict.fromkeys(("born", "came", "month_begin"), "date")
        return [
            rule for rule in true(self, schema) if self._source.agreements([rule], reads)[0].reveal()[0] % 2
        ]

    patch.setattr(Calendar, "find_candidates", find)


def periods_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count decides whether periods are looked at."""
    true = Calendar.find_periods

    def find(self: Any, schema: Any, rho: Any) -> Any:
        rule = DatePart("month_begin", "came", "month_start")
        agreed = self._source.agreements([rule], dict.fromkeys(rule.names, "date"))[0].reveal()[0]
        return true(self, schema, rho) if agreed % 2 else schema

    patch.setattr(Calendar, "find_periods", find)


@pytest.mark.parametrize("fault", [price_as_one_table, count_rules_twice, for_nothing, periods_for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert AUDIT.run(["a row as all others", "an age that is wrong"], "add_remove", 0)[1] != []
