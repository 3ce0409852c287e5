"""The twin audits of products with a factor and of quotients: the look at all, and the close one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_for_nothing, count_twice, price_as_one_table

from margrave.privacy.unit import Adjacency

COLUMNS = ("invoice", "rebate", "due", "kind")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "an amount that is no product": {"due": 1e300},
    "a rebate above the whole": {"rebate": 1e9},
    "a part that is next to 0": {"rebate": 5e-324, "invoice": 1e-310},
    "no value at all": dict.fromkeys(COLUMNS),
    "a part missing": {"rebate": None},
    "infinite": {"invoice": float("inf"), "rebate": float("-inf")},
    "no number": {"due": float("nan")},
}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule."""
    invoice, rebate = float(40 + owner * 29 % 997), float((0, 5, 15, 40)[owner * 13 % 4])
    due = invoice * (100.0 - rebate) / 100.0
    return {"invoice": invoice, "rebate": rebate, "due": due, "kind": ("a", "b")[owner % 2]}


TYPES = dict.fromkeys(("invoice", "rebate", "due"), pa.float64())
AUDIT = LookAudit(COLUMNS, row, ODD, TYPES, epsilon=30.0)
PARTED = ("paid", "hours", "hourly", "kind")
DIVIDED: dict[str, Row] = {
    "a row as all others": {},
    "an amount that is no quotient": {"hourly": 1e300},
    "divided by 0": {"hours": 0.0},
    "nothing divided by 0": {"hours": 0.0, "paid": 0.0, "hourly": None},
    "divided by next to 0": {"hours": 5e-324},
    "divided by as little as counts": {"hours": 2.0**-125, "paid": 1e300},
    "divided by less than 0": {"hours": -3.0},
    "no value at all": dict.fromkeys(PARTED),
    "a divisor missing": {"hours": None},
    "infinite": {"hours": float("inf"), "paid": float("-inf")},
    "no number": {"hours": float("nan")},
}


def divide(owner: int) -> Row:
    """The row of an owner whose pay is divided by the hours, by a fixed rule."""
    hours = float(3 + owner * 17 % 23)
    paid = float(round(hours * (20 + owner * 7 % 11)) + owner % 3)
    return {"paid": paid, "hours": hours, "hourly": paid / hours, "kind": ("a", "b")[owner % 2]}


QUOTIENTS = LookAudit(PARTED, divide, DIVIDED, dict.fromkeys(PARTED[:3], pa.float64()), epsilon=60.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_looks_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert [what for what in asked if "columns with sums or products of others" in what]
    assert [what for what in asked if what.startswith("relation of due to") and "invoice * rebate" in what]
    assert found == []


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_looks_at_quotients_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    asked, found = QUOTIENTS.run(list(DIVIDED), adjacency, k)
    assert [what for what in asked if "columns with sums or products of others" in what]
    assert [what for what in asked if what.startswith("relation of hourly to") and "paid / hours" in what]
    assert found == []


def twice(patch: pytest.MonkeyPatch) -> None:
    """A row in two cells of the table of a product."""
    count_twice(patch, lambda *asked: asked[2].joint == "product")


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count, asked beside the ledger."""
    count_for_nothing(patch, "products")


@pytest.mark.parametrize("fault", [price_as_one_table, twice, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    kinds = ["a row as all others", "an amount that is no product"]
    assert AUDIT.run(kinds, "add_remove", 0)[1] != []
    assert QUOTIENTS.run(["a row as all others", "divided by 0"], "add_remove", 0)[1] != []
