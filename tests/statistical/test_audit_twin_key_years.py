"""The twin audit of the look at years among the digits of keys."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_rules_twice, price_as_one_table

from margrave.measure.discovery.between import calendar
from margrave.privacy.unit import Adjacency
from margrave.schema.constraints.rules import KeyYear

COLUMNS = ("opened", "closed", "case_no")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "another year in the key": {"case_no": "2020-99999"},
    "a key that is none": {"case_no": "20"},
    "digits of another alphabet": {"case_no": "\N{ARABIC-INDIC DIGIT TWO}" * 9},
    "no value at all": dict.fromkeys(COLUMNS),
    "no date": {"opened": None},
    "a date far away": {"opened": datetime.date(9999, 12, 31)},
}
TYPES = {"opened": pa.date32(), "closed": pa.date32()}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule: a case of one of three years, and its day of opening."""
    opened = datetime.date(2019, 1, 1) + datetime.timedelta(days=owner * 37 % 1_090)
    closed = opened + datetime.timedelta(days=owner * 17 % 90)
    return {"opened": opened, "closed": closed, "case_no": f"{opened.year}-{owner * 7_919 % 100_000:05d}"}


AUDIT = LookAudit(COLUMNS, row, ODD, TYPES, epsilon=60.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_look_loses_no_more_than_it_declares(
    adjacency: Adjacency, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: list[KeyYear] = []
    true = calendar.list_key_years

    def watch(*asked: Any) -> list[KeyYear]:
        rules.extend(found := true(*asked))
        return found

    monkeypatch.setattr(calendar, "list_key_years", watch)
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    # The key is asked about with both dates, in one look.
    assert {(rule.date, rule.place, rule.digits) for rule in rules} == {("opened", 0, 4), ("closed", 0, 4)}
    assert [what for what in asked if what.startswith("times told by")]
    assert found == []


def by_others(patch: pytest.MonkeyPatch) -> None:
    """What one key's digits are hangs on the keys of other rows: on how many there are."""
    true = KeyYear.read_texts

    def read(self: Any, texts: Any) -> Any:
        listed = list(texts)
        return true(self, listed) + len(listed) % 2

    patch.setattr(KeyYear, "read_texts", read)


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count decides whether keys are asked about."""
    true = calendar.Calendar.find_candidates

    def find(self: Any, schema: Any) -> Any:
        rule = KeyYear("case_no", "opened", 0)
        agreed = self._source.agreements([rule], {"opened": "date"})[0].reveal()[0]
        return [one for one in true(self, schema) if agreed % 2 or not isinstance(one, KeyYear)]

    patch.setattr(calendar.Calendar, "find_candidates", find)


@pytest.mark.parametrize("fault", [price_as_one_table, count_rules_twice, by_others, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert AUDIT.run(["a row as all others", "another year in the key"], "add_remove", 0)[1] != []
