"""Ledger: every spend, priced and written down before any noise is drawn.

An amount of rho is shared out by plans; what becomes of the plans when part of it is lost is worked out here
too.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from numbers import Real
from pathlib import Path
from typing import NoReturn, TypeVar

from margrave.errors import BudgetError, InputError, invalid
from margrave.privacy.accounting.accountants import Accountant, event_delta
from margrave.privacy.accounting.events import Event, GaussianEvent
from margrave.privacy.ledger.history import FULLY_SPENT, Answer, History, LedgerHeader, Replay, RunJournal
from margrave.privacy.ledger.journal import Journal
from margrave.privacy.noise.source import BitSource, RepeatableSource, SecureSource
from margrave.privacy.unit import Neighbours

MIN_PRICE_SHARE = Fraction(1, 1 << 16)
"""Below this part of its planned price nothing is sold: noise 256 times the planned one says nothing."""
_GRID = 1 << 64
"""The factor on later costs is rounded down to a multiple of 2^-64: an exact fraction whose denominator
stays small."""


class Budget:
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
        return self._scale < MIN_PRICE_SHARE

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


T = TypeVar("T")
Keep = Callable[[LedgerHeader, Fraction], RunJournal]
"""Opens the journal of a run, from what it promises and the rho that this allows."""


class Ledger:
    """What a run may spend and has spent.

    **Privacy.** A spend that `ask` accepts never takes the sum of rho past `total`, nor the sum of
    partition deltas past `partition_delta`; whoever draws noise only in the `answer` that `ask` then calls
    is therefore (epsilon, delta)-DP: see `Accountant` for the proof. With a path, the events are on disk
    before `answer` is called, so the file never says less than was done. Where that fails, nothing is drawn.

    *Resuming.* A journal may bring the history of a process that was killed. All of its events count as
    spent, whether or not their answers were stored, and the sums above go on from there: events of all
    processes together stay within the total. A stored answer was released already; giving it again is
    post-processing and costs nothing. What of rho the run may still plan with, after answers were lost, is
    told by `planned` and `price`: see `Budget`.

    *Noise.* The ledger owns the bits that noise is drawn from, so that one place decides where they come from
    and what may be promised. With `test_seed` they come from a seed: then nothing is promised, which
    `Guarantee.of` reads here, and no file or book takes the run for an ordinary spend.

    Args:
        epsilon: Promised for the whole run, above 0.
        delta: Promised for the whole run, between 0 and 1.
        neighbours: Whom the promise protects, and under which adjacency.
        accountant: `ZCDP()`, or `GDP()` where all noise is rounded Gaussian.
        partition_delta: The part of delta kept for partition events.
        path: A new file to keep the ledger in.
        keep: Opens the journal instead of path: a run of a `Book`, or a run to be resumed.
        test_seed: Draws all noise from this seed. **Not private**: epsilon and delta then say how much noise
            is drawn, and nothing of what is known afterwards.

    Raises:
        InputError: A parameter is out of range, or the file exists or cannot be written; or there is a seed,
            and the ledger is to be kept.
        BudgetError: The journal belongs to a book whose cap leaves no room for the run.
    """

    __slots__ = (
        "_accountant", "_day", "_delta", "_deltas", "_epsilon", "_events", "_journal", "_lock",
        "_neighbours", "_noise", "_pid", "_replay", "_rho",
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
        keep: Keep | None = None,
        test_seed: int | None = None,
    ) -> None:
        check_budget(epsilon, delta)
        self._noise: BitSource = SecureSource() if test_seed is None else RepeatableSource(test_seed)
        if test_seed is not None and (path is not None or keep is not None):
            remedy = "A run with a seed is not private: it is no spend that a ledger or book may record."
            raise InputError(invalid("not_private_test_seed", "left out with a ledger", remedy))
        # What partitions may take of delta is set aside; the noise is scaled to the rest.
        rest = Fraction(float(delta)) - Fraction(partition_delta)
        if not 0 < rest <= Fraction(float(delta)):
            remedy = "Keep most of delta for the noise."
            raise InputError(invalid("partition_delta", "at least 0 and below delta", remedy))
        self._epsilon, self._delta = float(epsilon), float(delta)
        self._neighbours, self._accountant = neighbours, accountant
        self._rho = Budget(accountant.total(self._epsilon, rest))
        self._deltas = Budget(Fraction(partition_delta))
        self._lock, self._pid = threading.RLock(), os.getpid()
        header = LedgerHeader(self._epsilon, self._delta, self._deltas.total, neighbours, accountant.name)
        if keep is None and path is not None:
            keep = _new_file(Path(path))
        self._journal = None if keep is None else keep(header, self._rho.total)
        try:
            self._take_up(History() if self._journal is None else self._journal.history)
        except BaseException:
            self.release()
            raise

    def _take_up(self, history: History) -> None:
        """Begin with what an earlier process recorded."""
        costs = [(self._accountant.cost(event), event_delta(event)) for event in history.events]
        fits = sum(c for c, _ in costs) <= self.total and sum(d for _, d in costs) <= self.partition_delta
        if not fits:
            raise InputError(invalid("ledger", "within its own promise", FULLY_SPENT))
        self._day = datetime.datetime.now(datetime.timezone.utc).date()
        with contextlib.suppress(ValueError):  # empty, or of a ledger that was edited
            self._day = datetime.date.fromisoformat(history.day)
        self._events = list(history.events)
        self._replay = Replay(history)
        self._lose(self._replay.lost())

    @property
    def epsilon(self) -> float:
        """Promised for the whole run."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """Promised for the whole run, partition deltas included."""
        return self._delta

    @property
    def day(self) -> datetime.date:
        """The day on which the run began: what is asked for may follow from it, also after a resume."""
        return self._day

    @property
    def neighbours(self) -> Neighbours:
        """Whom the promise protects, and under which adjacency."""
        return self._neighbours

    def choose_noise(self, other: BitSource | None = None) -> BitSource:
        """The bits that all noise of the run is drawn from.

        Args:
            other: A source to take instead, for tests of margrave itself.

        Raises:
            InputError: The other is one with a seed, of which this ledger would know nothing.
        """
        if isinstance(other, RepeatableSource):
            remedy = "Give the seed to the ledger, which then promises nothing."
            raise InputError(invalid("noise", "that of the ledger where it comes from a seed", remedy))
        return self._noise if other is None else other

    @property
    def test_seed(self) -> int | None:
        """The seed that settles these bits, in a run that promises nothing; None in every private run."""
        return self._noise.seed if isinstance(self._noise, RepeatableSource) else None

    @property
    def accountant(self) -> Accountant:
        """What prices the events."""
        return self._accountant

    @property
    def total(self) -> Fraction:
        """rho allowed for the whole run, exact."""
        return self._rho.total

    @property
    def spent(self) -> Fraction:
        """rho spent so far, exact; what a stopped process spent in vain included."""
        return self._rho.total - self._rho.left

    @property
    def remaining(self) -> Fraction:
        """rho still unspent, exact."""
        return self._rho.left

    @property
    def planned(self) -> Fraction:
        """rho that plans may still share out, exact: `remaining`, as if nothing had been spent in vain."""
        return self._rho.planned

    @property
    def partition_delta(self) -> Fraction:
        """The part of delta kept for partition events, exact."""
        return self._deltas.total

    @property
    def remaining_delta(self) -> Fraction:
        """The part of partition_delta still unspent, exact."""
        return self._deltas.left

    @property
    def planned_delta(self) -> Fraction:
        """What plans may still share out of partition_delta; as `planned`."""
        return self._deltas.planned

    @property
    def exhausted(self) -> bool:
        """Whether a stopped process has spent in vain all that was left, so that nothing can be bought."""
        return self._rho.exhausted or self._deltas.exhausted

    @property
    def shared(self) -> bool:
        """Whether the run shares caps with other runs on the same data, as in a book."""
        return self._journal is not None and self._journal.shared

    @property
    def events(self) -> tuple[Event, ...]:
        """Every spend, in order, those of a stopped process included."""
        return tuple(self._events)

    def price(self, rho: Fraction) -> Fraction:
        """What a planned cost of rho really costs: as much, or less after something was spent in vain.

        Raises:
            BudgetError: A stopped process has spent all that was left.
        """
        return self._rho.price(rho, "rho")

    def price_delta(self, delta: Fraction) -> Fraction:
        """The same of a planned share of partition_delta."""
        return self._deltas.price(delta, "delta")

    def ask(self, events: Sequence[Event], exact: Callable[[], T], answer: Callable[[T], Answer]) -> Answer:
        """One call at the door: count, spend, draw, store, in this order; or the stored answer.

        **Privacy.** The events are recorded, all in one write, before `answer` draws any noise. What
        `exact` returns is private and goes nowhere else. It runs before the record, so that a count that
        fails costs nothing: whatever may fail by what the rows hold, foreign code above all, belongs into
        `answer`, where it is paid for. A stored answer is given again without a look at
        the rows and without a spend, and only if the call is the recorded one.

        Args:
            events: What the call costs; one or more.
            exact: Counts the private rows, and does nothing else.
            answer: Draws the noise and returns all that is released.

        Raises:
            BudgetError: It would pass what is left; nothing is counted or recorded.
            InputError: A resumed run asks for something else than was recorded, or the journal fails.
        """
        with self._lock:
            price = self._check(events)
            # A resumed run is handed what it was told before: drawing again would be a second release.
            if not self._replay.done:
                found = self._replay.take(events)
                self._spend(price)
                self._lose(self._replay.lost())
                return found
        # A table that cannot be counted costs nothing, so counting comes first. Then the spend is on disk,
        # and only then is noise drawn: a program that is killed in between has paid for nothing, and never
        # the other way round.
        truth = exact()
        first = self._record(events)
        found = answer(truth)
        if self._journal is not None:
            self._journal.store(first, len(events), found)
        return found

    def close(self) -> None:
        """End a run that is complete; its ledger accepts nothing more.

        Raises:
            InputError: A resumed run has asked for less than was recorded.
        """
        if not self._replay.done:
            self.release()
            remedy = "Use the same table, schema, arguments and version."
            raise InputError(invalid("resume", "of the run that was recorded", remedy))
        if self._journal is not None:
            self._journal.close()

    def release(self) -> None:
        """Stop before the end: what was spent stays spent, and the run can be resumed."""
        if self._journal is not None:
            self._journal.release()

    def discard(self, error: BaseException | None = None, *, opened: bool = False) -> None:
        """End a run in an error.

        One that has recorded nothing gives its file back, and its reservation unless the table may have been
        opened; another stays spent and can be resumed. A book keeps a record of the refusal in either case.

        Args:
            error: Why; None if nobody wants the run any more.
            opened: Whether the table may have been opened, so that the error may follow its rows.
        """
        from margrave.privacy.ledger.book_run import describe_refusal

        if self._journal is not None:
            self._journal.discard("given back" if error is None else describe_refusal(error), opened)

    def forget(self) -> None:
        """Drop the stored answers: the release has been saved."""
        if self._journal is not None:
            self._journal.forget()

    def _record(self, events: Sequence[Event]) -> int:
        """Spend events, all or none; returns the index of the first."""
        with self._lock:
            price = self._check(events)
            if self._journal is not None:
                self._journal.append(events)
            first = len(self._events)
            self._spend(price)
            self._events += events
            return first

    def _check(self, events: Sequence[Event]) -> tuple[Fraction, Fraction]:
        """What the events cost in rho and in delta; raises unless they can be paid for."""
        if os.getpid() != self._pid:
            raise BudgetError(invalid("ledger", "used in the process that made it", "Start a new run."))
        cost, delta = self._cost(events)
        if cost > self._rho.left:
            left = f"at most the {float(self._rho.left):.6g} that is left"
            raise BudgetError(invalid("rho", left, "Spend less."))
        if delta > self._deltas.left:
            remedy = "Raise partition_delta."
            raise BudgetError(invalid("delta", "at most what is kept for partitions", remedy))
        return cost, delta

    def _cost(self, events: Sequence[Event]) -> tuple[Fraction, Fraction]:
        rho = delta = Fraction(0)
        for event, count in _alike(events):
            rho += count * self._accountant.cost(event)
            delta += count * event_delta(event)
        return rho, delta

    def _spend(self, price: tuple[Fraction, Fraction]) -> None:
        """Spend what `_check` found under the same lock."""
        cost, delta = price
        self._rho.spend(cost)
        self._deltas.spend(delta)

    def _lose(self, events: Sequence[Event]) -> None:
        cost, delta = self._cost(events)
        self._rho.lose(cost)
        self._deltas.lose(delta)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard(error, opened=True)

    def __repr__(self) -> str:
        return (
            f"Ledger(epsilon={self._epsilon!r}, delta={self._delta!r}, accounting={self._accountant.name!r}, "
            f"events={len(self._events)}, remaining={float(self.remaining):.6g})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Ledger cannot be copied or pickled: its budget could then be spent twice")


def _new_file(path: Path) -> Keep:
    return lambda header, _: Journal(path, header)


def _is_number(value: object) -> bool:
    """Whether it is a finite real number, and not a truth value."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _alike(events: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """The first of each run of Gaussian events that differ in their names alone, and how many it has.

    Each event of such a run costs the same, exactly; other events come one by one. A question about a million
    tables is then priced at once, where a million sums of exact fractions take minutes.
    """
    for _, run in groupby(enumerate(events), lambda place: _parameters(*place)):
        (_, first), *others = run
        yield first, 1 + len(others)


def _parameters(place: int, event: Event) -> tuple[object, ...]:
    """All that the cost of an event follows from; its place where that is not known to be so.

    With the types, since an accountant refuses numbers that are not exact, however equal.
    """
    if type(event) is not GaussianEvent:
        return (place,)
    held = event.l2_squared, event.sigma_squared, event.rounded
    return (*held, *map(type, held))
