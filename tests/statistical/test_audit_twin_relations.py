"""The twin audit of relations between columns: both looks, where there are relations to be found."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_twice, price_as_one_table

from margrave.measure.discovery.between.relations import Relations
from margrave.privacy.unit import Adjacency

COLUMNS = ("came", "left", "charge", "paid", "kind")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "a stay that ends before it begins": {"left": datetime.date(1, 1, 1)},
    "more paid than charged": {"paid": 1e300},
    "nothing charged": {"charge": 0.0, "paid": 5.0},
    "no value at all": dict.fromkeys(COLUMNS),
    "one value missing": {"came": None},
    "infinite": {"charge": float("inf"), "paid": float("-inf")},
}


TYPES = {"came": pa.date32(), "left": pa.date32(), "charge": pa.float64(), "paid": pa.float64()}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule: a stay of a few days and a payment of a part of a charge."""
    came = datetime.date(2020, 1, 1) + datetime.timedelta(days=owner * 37 % 700)
    charge = float(50 * (1 + owner * 29 % 997))
    return {
        "came": came,
        "left": came + datetime.timedelta(days=owner * 11 % 4),
        "charge": charge,
        "paid": charge * (0.5 + (owner * 7 % 5) / 10),
        "kind": ("a", "b")[owner % 2],
    }


AUDIT = LookAudit(COLUMNS, row, ODD, TYPES, epsilon=30.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_both_looks_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert [what for what in asked if what.startswith("comparisons of 2 pairs")]
    assert len([what for what in asked if what.startswith("relation of")]) == 2
    assert found == []


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """Edges that follow from an exact count."""
    true = Relations._choose_links

    def choose(self: Any, schema: Any, pairs: Any, *more: Any) -> Any:
        pair = pairs[0]
        self._count_differences(pair.column, (pair.base,), pair.comparison, pair.edges)
        return true(self, schema, pairs, *more)

    patch.setattr(Relations, "_choose_links", choose)


@pytest.mark.parametrize("fault", [price_as_one_table, count_twice, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    kinds = ["a row as all others", "more paid than charged"]
    assert AUDIT.run(kinds, "add_remove", 0)[1] != []
