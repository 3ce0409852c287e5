"""The twin audit of dependencies: the look at all pairs of columns, and the close one at a single pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from twin_runs import LookAudit

from margrave.measure.discovery.between.dependencies import Dependencies
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.unit import Adjacency

COLUMNS = ("county", "state", "degree", "years")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "a county in another state": {"state": "s1"},
    "a county that nobody else has": {"county": "nowhere", "state": "s0"},
    "no value at all": dict.fromkeys(COLUMNS),
    "a number far off": {"years": 10**12},
}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule."""
    county, degree = owner * 7 % 4, owner * 11 % 5
    return {"county": f"k{county}", "state": f"s{county // 2}", "degree": f"d{degree}", "years": 9 + degree}


AUDIT = LookAudit(COLUMNS, row, ODD, {"years": pa.int64()})


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_looks_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert [what for what in asked if what.startswith("dependencies among")]
    assert "dependency of state on county" in asked
    assert found == []


def too_little(patch: pytest.MonkeyPatch) -> None:
    """All pairs for less than the price of one."""
    patch.setattr(Gaussian, "joint", lambda self, tables: self)


def twice(patch: pytest.MonkeyPatch) -> None:
    """A row in two cells of the table of a pair."""
    true = Dependencies._count
    patch.setattr(
        Dependencies, "_count", lambda *args: [counts + np.roll(counts, 1) for counts in true(*args)]
    )


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count of the pairs, asked beside the ledger."""
    true = Dependencies._screen

    def screen(self: Any, pairs: Any, rho: Any) -> Any:
        columns = {one.column.name: one.column for both in pairs for one in both}
        self._count(columns, [tuple(columns)[:2]])
        return true(self, pairs, rho)

    patch.setattr(Dependencies, "_screen", screen)


@pytest.mark.parametrize("fault", [too_little, twice, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    kinds = ["a row as all others", "a county in another state"]
    assert AUDIT.run(kinds, "add_remove", 0)[1] != []
