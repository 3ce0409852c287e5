"""The twin audit of lines between columns: the look at slopes, at constants, and the exact ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_for_nothing, count_twice, price_as_one_table

from margrave.privacy.unit import Adjacency

COLUMNS = ("level", "entered", "kind")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "a year that is not its level's": {"entered": 1e300},
    "a level that nobody has": {"level": -1e9},
    "no value at all": dict.fromkeys(COLUMNS),
    "a level missing": {"level": None},
    "infinite": {"level": float("inf"), "entered": float("-inf")},
    "no number": {"level": float("nan")},
}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule."""
    level = float(1 + owner * 29 % 97)
    return {"level": level, "entered": 2025.0 - 2.0 * level, "kind": ("a", "b")[owner % 2]}


AUDIT = LookAudit(COLUMNS, row, ODD, dict.fromkeys(("level", "entered"), pa.float64()), epsilon=30.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_looks_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert [what for what in asked if what.startswith("lines through")]
    assert [what for what in asked if what.startswith("constants of")]
    assert [what for what in asked if what.startswith("relation of") and "a line of" in what]
    assert found == []


def twice(patch: pytest.MonkeyPatch) -> None:
    """A row in two cells of the table of a line."""
    count_twice(patch, lambda *asked: asked[2].is_line)


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count, asked beside the ledger."""
    count_for_nothing(patch, "constants")


@pytest.mark.parametrize("fault", [price_as_one_table, twice, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    kinds = ["a row as all others", "a year that is not its level's"]
    assert AUDIT.run(kinds, "add_remove", 0)[1] != []
