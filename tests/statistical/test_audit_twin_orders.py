"""The twin audit of the look at orders of dates that the first look leaves open."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_twice

from margrave.measure.discovery.between.relations import Relations
from margrave.privacy.unit import Adjacency

COLUMNS = ("came", "sent", "kind")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "sent before it came": {"sent": datetime.date(1, 1, 1)},
    "sent at last": {"sent": datetime.date(9999, 12, 31)},
    "never sent": {"sent": None},
    "no value at all": dict.fromkeys(COLUMNS),
    "never came": {"came": None, "sent": datetime.date(2021, 5, 5)},
}
TYPES = {"came": pa.date32(), "sent": pa.date32()}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule: one in eight is sent back within two years."""
    came = datetime.date(2020, 1, 1) + datetime.timedelta(days=owner * 37 % 700)
    sent = came + datetime.timedelta(days=owner * 11 % 701)
    return {"came": came, "sent": None if owner % 8 else sent, "kind": ("a", "b")[owner % 2]}


AUDIT = LookAudit(COLUMNS, row, ODD, TYPES, epsilon=12.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_look_loses_no_more_than_it_declares(adjacency: Adjacency, k: int) -> None:
    audit = AUDIT if k < 2 else dataclasses.replace(AUDIT, epsilon=24.0)
    asked, found = audit.run(list(ODD), adjacency, k)
    assert [what for what in asked if what.startswith("orders of 1 pairs")]
    assert found == []


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count decides whether an order is asked about."""
    true = Relations._ask_orders

    def ask(self: Any, undecided: Any, *more: Any) -> Any:
        kept = [
            pair
            for pair in undecided
            if self._count_differences(pair.column, (pair.base,), pair.comparison, pair.edges)[0] % 2 == 0
        ]
        return true(self, kept, *more)

    patch.setattr(Relations, "_ask_orders", ask)


@pytest.mark.parametrize("fault", [count_twice, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert AUDIT.run(["a row as all others", "sent before it came"], "add_remove", 0)[1] != []
