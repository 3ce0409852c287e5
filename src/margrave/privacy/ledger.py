"""Ledger: every spend, priced and written down before any noise is drawn."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import NoReturn

from margrave.errors import BudgetError, InputError, invalid
from margrave.privacy.accounting import Accountant, event_delta
from margrave.privacy.event_json import event_from_json, event_to_json
from margrave.privacy.events import Event
from margrave.privacy.journal import Journal, LedgerHeader, read_ledger
from margrave.privacy.unit import Neighbours

__all__ = [
    "Ledger",
    "LedgerHeader",
    "check_budget",
    "event_from_json",
    "event_to_json",
    "read_ledger",
    "split",
]


def check_budget(epsilon: float, delta: float) -> None:
    """Check that an (epsilon, delta) can be promised.

    Raises:
        InputError: epsilon is not a finite number above 0, or delta not a number between 0 and 1.
    """
    if not _is_number(epsilon) or epsilon <= 0:
        raise InputError(invalid("epsilon", "a finite number above 0", "Try epsilon=1.0.", got=epsilon))
    if not _is_number(delta) or not 0 < delta < 1:
        remedy = "Choose it well below one over the number of people: try delta=1e-9."
        raise InputError(invalid("delta", "a number above 0 and below 1", remedy, got=delta))


def split(total: Fraction, shares: Sequence[int | Fraction]) -> list[Fraction]:
    """Parts of a total in the ratio of the shares, summing to it exactly.

    Raises:
        InputError: There is no share, one is negative or not exact, or all are 0.

    Example:
        >>> split(Fraction(1, 3), [1, 2])
        [Fraction(1, 9), Fraction(2, 9)]
    """
    exact = all(isinstance(share, int | Fraction) and not isinstance(share, bool) for share in shares)
    if not exact or any(share < 0 for share in shares) or sum(shares) <= 0:
        raise InputError(invalid("shares", "exact, not negative and not all 0", "Try [1, 1].", got=shares))
    whole = Fraction(sum(shares))
    return [Fraction(total) * share / whole for share in shares]


class Ledger:
    """What a run may spend and has spent.

    **Privacy.** A spend that `record` accepts never takes the sum of rho past `total`, nor the sum of
    partition deltas past `partition_delta`; whoever draws noise only after `record` has returned is
    therefore (epsilon, delta)-DP: see `Accountant` for the proof. With a path, the event is on disk
    before `record` returns, so the file never says less than was done. Anything that fails, fails before.

    Args:
        epsilon: Promised for the whole run, above 0.
        delta: Promised for the whole run, between 0 and 1.
        neighbours: Whom the promise protects, and under which adjacency.
        accountant: `ZCDP()`, or `GDP()` where all noise is rounded Gaussian.
        partition_delta: The part of delta kept for partition events.
        path: A new file to keep the ledger in.

    Raises:
        InputError: A parameter is out of range, or the file exists or cannot be written.
    """

    __slots__ = (
        "_accountant", "_delta", "_epsilon", "_events", "_journal", "_lock",
        "_neighbours", "_partition_delta", "_pid", "_remaining", "_remaining_delta", "_total",
    )  # fmt: skip

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        neighbours: Neighbours,
        accountant: Accountant,
        partition_delta: Fraction = Fraction(0),
        path: str | Path | None = None,
    ) -> None:
        check_budget(epsilon, delta)
        rest = Fraction(float(delta)) - Fraction(partition_delta)
        if not 0 < rest <= Fraction(float(delta)):
            remedy = "Keep most of delta for the noise."
            raise InputError(invalid("partition_delta", "at least 0 and below delta", remedy))
        self._epsilon, self._delta = float(epsilon), float(delta)
        self._neighbours, self._accountant = neighbours, accountant
        self._total = self._remaining = accountant.total(self._epsilon, rest)
        self._partition_delta = self._remaining_delta = Fraction(partition_delta)
        self._events: list[Event] = []
        self._lock, self._pid = threading.Lock(), os.getpid()
        header = LedgerHeader(self._epsilon, self._delta, self._partition_delta, neighbours, accountant.name)
        self._journal = None if path is None else Journal(Path(path), header)

    @property
    def epsilon(self) -> float:
        """Promised for the whole run."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """Promised for the whole run, partition deltas included."""
        return self._delta

    @property
    def neighbours(self) -> Neighbours:
        """Whom the promise protects, and under which adjacency."""
        return self._neighbours

    @property
    def accountant(self) -> Accountant:
        """What prices the events."""
        return self._accountant

    @property
    def total(self) -> Fraction:
        """rho allowed for the whole run, exact."""
        return self._total

    @property
    def spent(self) -> Fraction:
        """rho spent so far, exact."""
        return self._total - self._remaining

    @property
    def remaining(self) -> Fraction:
        """rho still unspent, exact."""
        return self._remaining

    @property
    def partition_delta(self) -> Fraction:
        """The part of delta kept for partition events, exact."""
        return self._partition_delta

    @property
    def remaining_delta(self) -> Fraction:
        """The part of partition_delta still unspent, exact."""
        return self._remaining_delta

    @property
    def events(self) -> tuple[Event, ...]:
        """Every spend, in order."""
        return tuple(self._events)

    def record(self, event: Event) -> None:
        """Spend an event. Draw its noise only once this has returned.

        Raises:
            BudgetError: It would pass what is left; nothing is recorded.
            UnsupportedEventError: Its cost is not known to the accountant; nothing is recorded.
            InputError: A parameter is out of range, or the file cannot be written; in the second case
                the ledger accepts nothing more.
        """
        if os.getpid() != self._pid:
            raise BudgetError(invalid("ledger", "used in the process that made it", "Start a new run."))
        cost, delta = self._accountant.cost(event), event_delta(event)
        with self._lock:
            if cost > self._remaining:
                raise BudgetError(
                    invalid("rho", f"at most the {float(self._remaining):.6g} that is left", "Spend less.")
                )
            if delta > self._remaining_delta:
                raise BudgetError(
                    invalid("delta", "at most what is kept for partitions", "Raise partition_delta.")
                )
            if self._journal is not None:
                self._journal.append(event)
            self._remaining -= cost
            self._remaining_delta -= delta
            self._events.append(event)

    def __repr__(self) -> str:
        return (
            f"Ledger(epsilon={self._epsilon!r}, delta={self._delta!r}, accounting={self._accountant.name!r}, "
            f"events={len(self._events)}, remaining={float(self._remaining):.6g})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Ledger cannot be copied or pickled: its budget could then be spent twice")


def _is_number(value: object) -> bool:
    """Whether it is a finite real number, and not a truth value."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
