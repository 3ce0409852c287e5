"""What runs left on disk: the history of one run, and of all runs on a data set.

`History` and `RunJournal` are what the ledger asks of the file that it is kept in. An `Answer` is what one
call at the door released, with its bytes, so that a killed run can be resumed. An answer has left the door:
it is public, and keeping it costs nothing. What is still private (the noisy counts of values that did not
pass a threshold, say) is no part of it and must not be put here.

`DatasetHistory` is what a book says of a data set's earlier runs, for the report of a new one.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.accounting.composition import Charge, find_standing, steps
from margrave.privacy.accounting.events import Event
from margrave.privacy.unit import Neighbours

if TYPE_CHECKING:
    from margrave.privacy.ledger.book import Book
    from margrave.privacy.ledger.book_run import BookedRun, Cap


_STORED = ("|i1", "<i2", "<i4", "<i8", "<f8")
_WHOLE = 2.0**53
"""The largest number up to which float64 has every whole number."""
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What one call released.

    Args:
        arrays: Tables of numbers, float64, of any shapes.
        texts: Names of values, where the call releases such.
    """

    arrays: tuple[NDArray[np.float64], ...]
    texts: tuple[str, ...] = ()


def answer_to_bytes(answer: Answer) -> bytes:
    """An answer as bytes, from which `answer_from_bytes` builds an equal one.

    Whole numbers, which noisy counts are, take the smallest integers that hold them.
    """
    arrays = [_narrow(np.asarray(array, dtype=np.float64)) for array in answer.arrays]
    shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
    head = json.dumps({"arrays": shapes, "texts": list(answer.texts)}).encode("ascii")
    return b"".join([_LENGTH.pack(len(head)), head, *(array.tobytes() for array in arrays)])


def answer_from_bytes(data: bytes) -> Answer:
    """The answer that `answer_to_bytes` wrote.

    Raises:
        InputError: The bytes are damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        head = json.loads(data[_LENGTH.size : _LENGTH.size + length].decode("ascii"))
        texts = head["texts"]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        return Answer(_arrays(data, _LENGTH.size + length, head["arrays"]), tuple(texts))
    except (struct.error, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        remedy = "Count the whole epsilon of its run as spent, and start a new run."
        damaged = InputError(invalid("ledger", "one with intact answers", remedy))
    raise damaged


def _arrays(data: bytes, start: int, shapes: Sequence[Any]) -> tuple[NDArray[np.float64], ...]:
    """The arrays of these dtypes and shapes, which fill the bytes to their end."""
    arrays = []
    for kind, shape in shapes:
        if kind not in _STORED or any(type(size) is not int or size < 0 for size in shape):
            raise ValueError
        cells = math.prod(shape)
        found = np.frombuffer(data, dtype=kind, count=cells, offset=start) if cells else np.zeros(0)
        arrays.append(found.astype(np.float64).reshape(shape))
        start += cells * np.dtype(kind).itemsize
    if start != len(data):
        raise ValueError
    return tuple(arrays)


def _narrow(array: NDArray[np.float64]) -> NDArray[Any]:
    """The array in the smallest stored dtype that holds it exactly."""
    largest = float(np.abs(array).max(initial=0.0))
    if not largest <= _WHOLE or not bool((np.rint(array) == array).all()):
        return array.astype("<f8")
    size = next(size for size in (1, 2, 4, 8) if largest < 2.0 ** (8 * size - 1))
    return array.astype(f"<i{size}")


LEDGER_VERSION = 1
"""Version of the format of ledgers."""
FULLY_SPENT = (
    "Do not resume an older copy: it lacks what was spent since it was made. Count the run's whole epsilon "
    "as spent, and start a new run."
)
"""What to do about the ledger of one run that is damaged or was put back from a copy."""


DAY = "day of the start"
"""The public fact that is not compared where a run is resumed: it is then that of the stopped run."""


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
        day: On which the run began, as 2026-12-31; empty where that is not known.
    """

    events: tuple[Event, ...] = ()
    answers: Mapping[int, tuple[int, Answer]] = field(default_factory=dict)
    day: str = ""


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

    def discard(self, refusal: str, opened: bool) -> None:
        """End in an error: take back a run that recorded nothing, else as `release`.

        Args:
            refusal: The error in public words, for journals that keep it.
            opened: Whether the table may have been opened by then, so that the error may follow its rows.
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
    facts = [name for name in dict.fromkeys([*recorded.run, *asked.run]) if name != DAY]
    differing += [name for name in facts if recorded.run.get(name) != asked.run.get(name)]
    if differing:
        remedy = f"It was started with another {differing[0]}; nothing was spent."
        raise InputError(invalid("resume", "asked with the arguments of the stopped run", remedy))


ADMITTED = "admitted"
"""What a release says of every earlier run, however it ended: that the caps let it in."""
_SLACK = Fraction(1, 1 << 128)
"""What a run may have spent beyond its reserve, since spends are written rounded up."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One run on the data set that was let in.

    Args:
        run: Its number in the book.
        date: The day it was opened, as 2026-12-31.
        epsilon: What it promised.
        delta: What it promised.
        unit: Whom it protects, in words.
        state: `ADMITTED`. How a run ended can follow the rows, and epsilon does not pay for telling it.
            Releases of older versions told it: "closed", "open" or "crashed".
    """

    run: int
    date: str
    epsilon: float
    delta: float
    unit: str
    state: str


@dataclass(frozen=True, slots=True)
class DatasetHistory:
    """The earlier runs on a data set, and what all of them promise together with this one.

    Args:
        earlier: Oldest first, those that ended in an error included; this run is not among them.
        epsilon: What all runs together promise, with `delta`, where each counts in full; infinite where no
            account holds. What they did spend is less.
        delta: Of the cap.
        cap: The epsilon that all runs together may not pass.
    """

    earlier: tuple[EarlierRun, ...]
    epsilon: float
    delta: float
    cap: float

    def to_json(self) -> dict[str, Any]:
        """As JSON; an infinite epsilon is null."""
        runs = [asdict(run) for run in self.earlier]
        epsilon = self.epsilon if math.isfinite(self.epsilon) else None
        return {"earlier": runs, "epsilon": epsilon, "delta": self.delta, "cap": self.cap}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> DatasetHistory:
        """The history that `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: The document is something else.
        """
        runs = tuple(
            EarlierRun(
                int(run["run"]),
                str(run["date"]),
                float(run["epsilon"]),
                float(run["delta"]),
                str(run["unit"]),
                str(run["state"]),
            )
            for run in document["earlier"]
        )
        epsilon = math.inf if document["epsilon"] is None else float(document["epsilon"])
        return DatasetHistory(runs, epsilon, float(document["delta"]), float(document["cap"]))


def read_history(book: Book, dataset: str, attempt: int, neighbours: Neighbours) -> DatasetHistory | None:
    """The history of a data set at the end of a run, which is published with the release.

    **Privacy.** An error that follows the rows ends a run before it spends anything, and one that ends well
    may spend less than it was let in for. So neither the list nor the total may say how a run ended: every
    run that was let in is listed and counts by all it reserved, which was settled before its table was
    opened. Nor may it be told by who is let in later: a run that ends in an error once its table may have
    been opened keeps its reservation, until the steward gives it up (`BookRun.discard`).

    Args:
        book: The book.
        dataset: The name its steward gave.
        attempt: The number of the run's own attempt; its run is no earlier one.
        neighbours: Whom the run protects: the cap for these is told where there are several.

    Returns:
        None where no cap for all analysts is set.

    Raises:
        InputError: The book cannot be read.
    """
    own = next((one.run for one in book.attempts(dataset) if one.number == attempt), None)
    caps = [cap for cap in book.caps(dataset) if not cap.analyst]
    if not caps:
        return None
    whom = (neighbours.unit.owner, neighbours.adjacency)
    caps.sort(key=lambda one: (one.neighbours.unit.owner, one.neighbours.adjacency) != whom)
    runs = book.runs(dataset)
    return DatasetHistory(_earlier(runs, own), _total(runs, caps[0]), caps[0].delta, caps[0].epsilon)


def _total(runs: Sequence[BookedRun], cap: Cap) -> float:
    """An epsilon that all runs promise with the cap's delta, each by what it reserved."""
    charges = []
    for booked in runs:
        count, header = steps(booked.header.neighbours, cap.neighbours), booked.header
        if count is None:
            return math.inf
        reserved = (booked.rho + _SLACK, header.partition_delta + _SLACK)
        charges.append(Charge(Fraction(header.epsilon), Fraction(header.delta), *reserved).over(count))
    return find_standing(charges, cap.epsilon, cap.delta).together


def _earlier(runs: Sequence[BookedRun], own: int | None) -> tuple[EarlierRun, ...]:
    return tuple(
        EarlierRun(
            booked.run,
            booked.opened[:10],
            booked.header.epsilon,
            booked.header.delta,
            str(booked.header.neighbours.unit),
            ADMITTED,
        )
        for booked in runs
        if booked.run != own
    )
