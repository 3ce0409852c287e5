"""History and RunJournal: what a run left on disk, and what the ledger asks of the file it is kept in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from margrave.errors import InputError, invalid
from margrave.privacy.answers import Answer
from margrave.privacy.events import Event
from margrave.privacy.unit import Neighbours

__all__ = ["FULLY_SPENT", "LEDGER_VERSION", "History", "LedgerHeader", "Replay", "RunJournal", "check_facts"]

LEDGER_VERSION = 1
FULLY_SPENT = (
    "Do not resume an older copy: it lacks what was spent since it was made. Count the run's whole epsilon "
    "as spent, and start a new run."
)
"""What to do about the ledger of one run that is damaged or was put back from a copy."""


@dataclass(frozen=True, slots=True)
class LedgerHeader:
    """What a run promised, as its ledger says first.

    Args:
        epsilon: Promised for the whole run.
        delta: Promised for the whole run.
        partition_delta: The part of delta kept for partition events.
        neighbours: Whom the promise protects.
        accounting: "zcdp" or "gdp".
        version: Version of the file's format.
        run: Public facts about the run (its arguments, the columns' names), by which a resumed run is
            known to be the same one.
        key: Ties the file of answers to this ledger; empty in files of older versions.
    """

    epsilon: float
    delta: float
    partition_delta: Fraction
    neighbours: Neighbours
    accounting: str
    version: int = LEDGER_VERSION
    run: Mapping[str, str] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """What an earlier process recorded: events in order, and the answers that were stored.

    Args:
        events: Every spend.
        answers: By the index of a call's first event: how many events the call has, and its answer.
    """

    events: tuple[Event, ...] = ()
    answers: Mapping[int, tuple[int, Answer]] = field(default_factory=dict)


class RunJournal(Protocol):
    """Where one run's ledger is kept."""

    @property
    def shared(self) -> bool:
        """Whether it shares caps with other runs on the same data, as in a book."""

    @property
    def history(self) -> History:
        """What was there when it was opened."""

    def append(self, events: Sequence[Event]) -> None:
        """Write the events of one call and wait until they are on disk, all or (as far as read) none."""

    def store(self, first: int, count: int, answer: Answer) -> None:
        """Keep the answer to the call whose events begin at index `first`; kept if the process is killed."""

    def close(self) -> None:
        """The run is over: nothing more is accepted."""

    def release(self) -> None:
        """Stop here, so that another process may resume; nothing more is accepted from this one."""

    def discard(self, refusal: str) -> None:
        """End in an error: take back a run that recorded nothing, else as `release`.

        Args:
            refusal: The error in public words, for journals that keep it.
        """

    def forget(self) -> None:
        """Drop the stored answers: what they led to has been saved elsewhere."""


class Replay:
    """Goes through a history, call by call.

    Args:
        history: What an earlier process left.
    """

    __slots__ = ("_at", "_history")

    def __init__(self, history: History) -> None:
        self._history = history
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether all that was recorded has been gone through."""
        return self._at >= len(self._history.events)

    def lost(self) -> tuple[Event, ...]:
        """The events from here on whose answer was not stored, up to the next that has one."""
        start = self._at
        while not self.done and self._at not in self._history.answers:
            self._at += 1
        return self._history.events[start : self._at]

    def take(self, events: Sequence[Event]) -> Answer:
        """The stored answer to the next call, found to be the very same call.

        Raises:
            InputError: It is not.
        """
        count, answer = self._history.answers[self._at]
        recorded = self._history.events[self._at : self._at + count]
        if tuple(events) != recorded:
            remedy = (
                f"Event {self._at + 1} of this run is not the recorded one; nothing was spent. "
                "Use the same table, schema, arguments and version, or start a new run."
            )
            raise InputError(invalid("resume", "of the run that was recorded", remedy))
        self._at += count
        return answer


def check_facts(recorded: LedgerHeader, asked: LedgerHeader) -> None:
    """Check that a run to be resumed is the one that was recorded, from what is public about both.

    Raises:
        InputError: They differ in a promise or a fact; the message names it.
    """
    promises = ("epsilon", "delta", "partition_delta", "neighbours", "accounting")
    differing = [name for name in promises if getattr(recorded, name) != getattr(asked, name)]
    facts = dict.fromkeys([*recorded.run, *asked.run])
    differing += [name for name in facts if recorded.run.get(name) != asked.run.get(name)]
    if differing:
        remedy = f"It was started with another {differing[0]}; nothing was spent."
        raise InputError(invalid("resume", "asked with the arguments of the stopped run", remedy))
