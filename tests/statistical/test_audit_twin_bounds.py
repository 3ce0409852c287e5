"""Looks between declared bounds: neighbouring tables move each by no more than it pays for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from twin_runs import COLUMNS, audited, fitting
from twin_tables import KINDS, bounded, pair

from margrave.measure.discovery.numeric import NumericDiscovery
from margrave.privacy.unit import Adjacency

pytestmark = pytest.mark.slow


def _findings(kind: str, adjacency: Adjacency, k: int, **more: Any) -> tuple[set[str], set[str]]:
    """What was looked at, and the kinds of findings of one pair of runs."""
    first, second = (
        fitting(table, "independent", COLUMNS, adjacency, k, whole=False, schema=bounded(COLUMNS), **more)
        for table in pair(kind, COLUMNS, adjacency, k)
    )
    tape, found = audited(first, second)
    assert tape.error is None
    looked = {event.what for question in tape.questions for event in question.events}
    return looked, {finding.split(":")[0] for finding in found}


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("k", [0, 3])
def test_no_odd_row_moves_a_look_by_more_than_it_pays_for(adjacency: Adjacency, k: int) -> None:
    for kind in KINDS:
        looked, found = _findings(kind, adjacency, k)
        assert found == set(), kind
        assert {"spread of age", "bounds of pay", "spread of day", "detail of age"} <= looked


def test_cells_that_follow_from_the_rows_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NumericDiscovery._between

    def peeking(self: NumericDiscovery, edges: Any) -> Any:
        rows = float(honest(self, edges).sum())
        return honest(self, np.linspace(0.0, rows, len(edges)))

    monkeypatch.setattr(NumericDiscovery, "_between", peeking)
    assert any(_findings(kind, "add_remove", 0)[1] for kind in KINDS)


def test_rows_that_count_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NumericDiscovery._between
    monkeypatch.setattr(NumericDiscovery, "_between", lambda self, edges: 2 * honest(self, edges))
    assert "sensitivity" in set().union(*(_findings(kind, "add_remove", 0)[1] for kind in KINDS))
