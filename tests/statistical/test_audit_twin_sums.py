"""The twin audit of sums of columns: the look at all of them, and the close one of a total of its parts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_for_nothing, count_twice, price_as_one_table

from margrave.privacy.unit import Adjacency

COLUMNS = ("net", "tax", "total", "kind")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "a total that is not its parts": {"total": 1e300},
    "a part above the total": {"net": 1e9, "total": -5.0},
    "no value at all": dict.fromkeys(COLUMNS),
    "a part missing": {"tax": None},
    "infinite": {"net": float("inf"), "tax": float("-inf")},
}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule."""
    net, tax = float(40 + owner * 29 % 997), float(5 + owner * 13 % 211)
    return {"net": net, "tax": tax, "total": net + tax, "kind": ("a", "b")[owner % 2]}


AUDIT = LookAudit(COLUMNS, row, ODD, dict.fromkeys(("net", "tax", "total"), pa.float64()), epsilon=30.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_looks_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert [what for what in asked if "columns with sums or products of others" in what]
    assert "relation of total to net + tax" in asked
    assert found == []


def twice(patch: pytest.MonkeyPatch) -> None:
    """A row in two cells of the table of a sum."""
    count_twice(patch, lambda *asked: bool(asked[4]))


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count, asked beside the ledger."""
    count_for_nothing(patch, "sums")


@pytest.mark.parametrize("fault", [price_as_one_table, twice, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    kinds = ["a row as all others", "a total that is not its parts"]
    assert AUDIT.run(kinds, "add_remove", 0)[1] != []
