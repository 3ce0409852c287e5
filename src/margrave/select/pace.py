"""Pace: how a strategy's rounds stand with a deadline.

All times here are differences of `Deadline.left`, which stands still while the curator is asked. So what a
round is thought to cost is the time of its post-processing alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from margrave.limits import Deadline, Effort

__all__ = ["Pace"]


FINAL = 12.0
"""About how many rough fits the last one costs, which is done to full precision."""
LATEST = 3
"""Rounds that tell what the next one costs."""
ROUNDS_LEFT = 8.0
"""A tree may grow until this many final fits of its size would take all the time left."""


class Pace:
    """How a run stands with its deadline; without one it never ends early and never holds back.

    The cost of what is still to be done is judged by the cheapest of the last LATEST rounds, since a first
    use of a kernel or another program's burst makes single ones slow.

    Args:
        deadline: When the run should be over.
    """

    def __init__(self, deadline: Deadline | None) -> None:
        self.rough = Effort(rough=True, deadline=deadline)
        self.full = Effort(deadline=deadline)
        self._deadline = deadline
        self._rounds: list[float] = []
        self._fits: list[float] = []
        self._cells: list[float] = []
        self._size = 1.0
        self._before = self._started = self._left

    @property
    def _left(self) -> float:
        return math.inf if self._deadline is None else self._deadline.left

    @property
    def ends(self) -> bool:
        """Whether another round and the last fit would not fit in."""
        return self._left < 2.0 * _latest(self._rounds) + FINAL * _latest(self._fits)

    @property
    def cells(self) -> float:
        """Cells of the largest tree that may be grown to."""
        cost = ROUNDS_LEFT * FINAL * _latest(self._cells)
        return self._left / cost if cost > 0.0 and self._left < math.inf else math.inf

    def half(self) -> Callable[[], bool]:
        """Asks whether half of what is left now is over; it never is without a deadline."""
        end = 0.5 * self._left
        return lambda: self._left < end

    def fitting(self, cells: float) -> None:
        """Note that a fit of so many cells begins."""
        self._size, self._started = max(cells, 1.0), self._left

    def fitted(self) -> None:
        """Note that it is over, and the round with it."""
        if self._deadline is not None:
            left = self._left
            self._fits.append(self._started - left)
            self._cells.append(self._fits[-1] / self._size)
            self._rounds.append(self._before - left)
            self._before = left


def _latest(costs: list[float]) -> float:
    return min(costs[-LATEST:], default=0.0)
