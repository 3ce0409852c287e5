"""choose: scores that move by their sensitivity at most, whatever type the model's tables have."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import margrave.measure.mechanisms.choose as door
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import ExponentialEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from seeded_noise import SeededSource


def _scores(
    rows: int, kind: Any, rival: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[NDArray[np.float64], float]:
    """The scores of two candidates whose model is far off, and their sensitivity; counts are of one byte."""
    seen: list[NDArray[np.float64]] = []

    def watch(scores: NDArray[np.float64], *_: Any) -> int:
        seen.append(scores.copy())
        return 0

    monkeypatch.setattr(door, "exponential", watch)
    ledger = Ledger(epsilon=1.0, delta=1e-9, neighbours=Neighbours(), accountant=ZCDP())
    counts = [np.array([rows, 0], dtype=np.uint8)] * 2
    top = 2.0**15 if kind is np.float16 else 2.0**30
    far = [np.array([top, 3], dtype=kind), np.array([top + 1 / 3, 7], dtype=kind)]
    rivals = [np.array([1 / 3, top], dtype=kind), None] if rival else None
    rho = Fraction(1, 100)
    door.choose(lambda: counts, far, rho, None, None, 1, ledger, SeededSource(1), rivals)
    (event,) = ledger.events
    assert isinstance(event, ExponentialEvent)
    return seen[0], float(event.sensitivity)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rival", [False, True])
def test_one_row_moves_no_score_by_more_than_is_priced(
    kind: Any, rival: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in range(90, 100):
        (one, priced), (two, _) = (_scores(n, kind, rival, monkeypatch) for n in (rows, rows + 1))
        assert 0 < np.abs(one - two).max() <= priced


def test_a_choice_is_priced_by_the_score_that_moves_most(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Fraction] = []

    def watch(scores: NDArray[np.float64], epsilon: Fraction, sensitivity: Fraction, _: Any) -> int:
        drawn.append(sensitivity)
        return 0

    monkeypatch.setattr(door, "exponential", watch)
    ledger = Ledger(epsilon=1.0, delta=1e-9, neighbours=Neighbours(), accountant=ZCDP())
    tables, rival = [np.zeros(2)] * 3, np.ones(2)
    for rivals in (None, [None, None, rival], [None, rival, None]):
        counts = [np.zeros(2, dtype=np.int64)] * 3
        door.choose(
            lambda counts=counts: counts,
            tables,
            Fraction(1, 1000),
            [1, 7, 4],
            None,
            3,
            ledger,
            SeededSource(1),
            rivals,
        )
    assert drawn == [7 * 3, 2 * 4 * 3, 2 * 7 * 3]
    assert [event.sensitivity for event in ledger.events] == drawn
