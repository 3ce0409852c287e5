"""Purse: an amount that plans share out, and what becomes of the plans when part of it is lost."""

from __future__ import annotations

import math
from fractions import Fraction

from margrave.errors import BudgetError, invalid

__all__ = ["Purse"]

LEAST = Fraction(1, 1 << 16)
"""Below this part of its planned price nothing is sold: noise 256 times the planned one says nothing."""
_GRID = 1 << 64


class Purse:
    """rho, or delta, of one run.

    A strategy plans: "a tenth for this, the rest for those, alike". When a process is killed between a
    spend and the storing of its answer, that spend is lost; it stays spent, and the resumed run has to buy
    the same thing again from what is left. Plans made before the loss would then pass the total. So
    plans keep being made in the amounts of a run that lost nothing, `planned`, and a planned cost x is
    paid with `price(x)` = scale * x, where

        scale = left / planned, rounded down, at every loss (1 before any).

    **Why the total is never passed.** After a loss scale * planned <= left. Buying for a planned x
    takes at most scale * x off `left` and its exact share off `planned`, so the inequality stays; plans
    that share out no more than `planned` cost no more than scale * planned <= left. Should a plan ask for
    more than that, the ledger refuses it: the proof of the guarantee is the ledger's check, not this rule.
    scale follows from the recorded events alone, so a run that is resumed again sees the same numbers.

    Args:
        total: The whole amount.
    """

    __slots__ = ("_scale", "left", "planned", "total")

    def __init__(self, total: Fraction) -> None:
        self.total = self.left = self.planned = total
        self._scale = Fraction(1)

    @property
    def exhausted(self) -> bool:
        """Whether losses have left too little of what is planned to buy anything."""
        return self._scale < LEAST

    def price(self, planned: Fraction, name: str) -> Fraction:
        """What a planned cost really costs.

        Args:
            planned: The cost in the plan.
            name: What to call it in an error.

        Raises:
            BudgetError: Nothing is left.
        """
        if self.exhausted:
            remedy = "What was left was spent just when the run was stopped. Start a new run."
            raise BudgetError(invalid(name, "payable from what the stopped run left", remedy))
        return planned if self._scale == 1 else planned * self._scale

    def spend(self, cost: Fraction) -> None:
        """Take off a real cost."""
        self.left -= cost
        self.planned -= cost if self._scale == 1 else cost / self._scale

    def lose(self, cost: Fraction) -> None:
        """Take off a real cost that bought nothing."""
        self.left -= cost
        if cost and self.planned > 0:
            found = Fraction(math.floor(self.left / self.planned * _GRID), _GRID)
            self._scale = min(self._scale, found)
