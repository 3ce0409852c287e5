"""What a book holds, read from its tables: caps, runs and attempts; and one run, where its ledger is kept.

A run that ends in an error has told its caller which error it was, and errors can follow the rows: an owner
column with gaps, a ragged file, too many distinct values. Epsilon does not cover that. The book therefore
has a line for each attempt, written and synced **before** the table is opened. Its outcome is filled in when
the attempt ends, in the same transaction as the state of its run. An attempt without an outcome is still
going, or its process was killed.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

from margrave.errors import InputError, MargraveError, invalid
from margrave.privacy.accounting.accountants import event_delta, event_rho
from margrave.privacy.accounting.composition import Charge, Standing
from margrave.privacy.accounting.conversions import zcdp_epsilon
from margrave.privacy.accounting.events import Event, event_from_json, event_to_json
from margrave.privacy.ledger.book_file import BookFile
from margrave.privacy.ledger.history import (
    DAY,
    Answer,
    History,
    LedgerHeader,
    answer_from_bytes,
    answer_to_bytes,
)
from margrave.privacy.ledger.journal import header_from_json
from margrave.privacy.unit import Neighbours, Unit

USUAL_DELTA = 1e-9
"""The delta of a run for which `Account.left` says what would fit: the default of `Synthesizer`."""
_GRID = 1 << 128
"""Spends are written rounded up to multiples of 2^-128: exact fractions whose denominators stay small."""
ROUNDING = Fraction(1, _GRID)
"""What a run may have spent beyond its reserve by rounding up."""
CAP = "id, dataset, analyst, owner, adjacency, epsilon, delta, made"
RUN = "id, dataset, analyst, header, rho, state, spent, searched, opened, ended"
ATTEMPT = "id, dataset, analyst, run, began, ended, outcome"
FIELDS = {"caps": CAP, "runs": RUN, "attempts": ATTEMPT}
"""Fields of the tables whose rows are sealed one by one."""
STATES = ("open", "closed", "crashed", "refused")


@dataclass(frozen=True, slots=True)
class Cap:
    """What all runs on a data set, or all of one analyst's, may spend together.

    Args:
        dataset: The name the steward gave.
        analyst: Whose runs; empty for all.
        neighbours: Whom the cap protects; its max_rows does not matter.
        epsilon: For all runs together.
        delta: For all runs together; at least twice what one run promises, see `composition`.
        made: When it was set, to the minute.
    """

    dataset: str
    analyst: str
    neighbours: Neighbours
    epsilon: float
    delta: float
    made: str


@dataclass(frozen=True, slots=True)
class BookedRun:
    """One run in the book.

    Args:
        run: Its number.
        dataset: What it is about.
        analyst: Who asked, as they said; may be empty.
        header: What it promises.
        rho: What it reserved, exact.
        state: "open" (going, killed, or ended in an error once its table was opened), "closed" (ended
            normally), "refused" (ended in an error before that) or "crashed" (given up by the steward).
        opened: When, to the minute.
        ended: When; None while open.
        events: How many spends it recorded.
        spent: rho of its events once it is closed, rounded up a little; else what it reserved.
        searched: The same of the deltas of its searches for values.
    """

    run: int
    dataset: str
    analyst: str
    header: LedgerHeader
    rho: Fraction
    state: str
    opened: str
    ended: str | None
    events: int
    spent: Fraction
    searched: Fraction

    @property
    def charge(self) -> Charge | None:
        """What it counts; None if it has ended, normally or not, and recorded nothing."""
        if self.state != "open" and not self.events:
            return None
        return Charge(Fraction(self.header.epsilon), Fraction(self.header.delta), self.spent, self.searched)


@dataclass(frozen=True, slots=True)
class Account:
    """How a cap stands.

    Args:
        cap: The cap.
        spent: By closed runs.
        reserved: By all runs, open and crashed ones in full: what counts.
        refused: How many attempts ended in an error; each told its caller which.
        retired: Whether the book is closed for good, so that all of the cap counts as spent.
    """

    cap: Cap
    spent: Standing
    reserved: Standing
    refused: int = 0
    retired: bool = False

    @property
    def left(self) -> float:
        """About the epsilon of one more run that fits, if it promises a delta of 1e-9."""
        if self.retired:
            return 0.0
        rho = float(self.reserved.rho_left)
        by_rho = zcdp_epsilon(rho, USUAL_DELTA) if rho > 0 else 0.0
        room = self.reserved.total.delta + Fraction(USUAL_DELTA) <= Fraction(self.cap.delta) / 2
        return max(by_rho, float(self.reserved.epsilon_left) if room else 0.0)


def caps_in(db: sqlite3.Connection, dataset: str | None) -> list[Cap]:
    """The last cap set for each data set, analyst and neighbours."""
    found: dict[tuple[str, str, Neighbours], Cap] = {}
    for _, name, analyst, owner, adjacency, epsilon, delta, made in read_sealed(db, "caps", CAP):
        if dataset in (None, name):
            who = Neighbours(Unit(owner), adjacency)
            if not (0 < epsilon < math.inf and 0 < delta < 1):
                raise ValueError
            found[name, analyst, who] = Cap(name, analyst, who, float(epsilon), float(delta), str(made))
    return sorted(found.values(), key=lambda cap: (cap.dataset, cap.analyst))


def runs_in(db: sqlite3.Connection, dataset: str | None = None, analyst: str = "") -> list[BookedRun]:
    """The runs on a data set (None for all), of one analyst (empty for all)."""
    counts = dict(db.execute("SELECT run, count(*) FROM events GROUP BY run").fetchall())
    found = []
    for run, name, who, said, total, state, spent, searched, opened, ended in read_sealed(db, "runs", RUN):
        if state not in STATES:
            raise ValueError
        if dataset in (None, name) and analyst in ("", who):
            header, rho = header_from_json(json.loads(said)), Fraction(total)
            kept = (rho, header.partition_delta)
            # An open run counts with all that it may still spend: it was promised when it began.
            used = (Fraction(spent), Fraction(searched)) if state == "closed" else kept
            if not all(0 <= used[i] <= kept[i] + ROUNDING for i in (0, 1)) or not 0 < header.delta < 1:
                raise ValueError
            count = counts.get(run, 0)
            found.append(BookedRun(run, name, who, header, rho, state, opened, ended, count, *used))
    return found


def seal(*fields: object) -> str:
    """A checksum of a row's fields: chance does not change one unseen."""
    return hashlib.sha256(json.dumps(fields).encode("ascii")).hexdigest()[:16]


def change(db: sqlite3.Connection, table: str, row: int, **fields: object) -> None:
    """Change fields of a run, a cap or an attempt, or none, and seal it; a sealed row is checked before.

    Raises:
        ValueError: The row was damaged.
    """
    names = FIELDS[table]
    query = f"SELECT {names}, seal FROM {table} WHERE id = ?"  # noqa: S608  (names of ours)
    *before, mark = db.execute(query, (row,)).fetchone()
    if mark is not None and mark != seal(*before):
        raise ValueError
    for name, value in fields.items():
        db.execute(f"UPDATE {table} SET {name} = ? WHERE id = ?", (value, row))  # noqa: S608
    *after, _ = db.execute(query, (row,)).fetchone()
    db.execute(f"UPDATE {table} SET seal = ? WHERE id = ?", (seal(*after), row))  # noqa: S608


def read_sealed(db: sqlite3.Connection, table: str, names: str) -> list[tuple[Any, ...]]:
    """All rows of a table, none missing or changed by chance.

    Raises:
        ValueError: One is.
    """
    query = f"SELECT {names}, seal FROM {table} ORDER BY id"  # noqa: S608  (names of ours)
    found = []
    for number, (*row, mark) in enumerate(db.execute(query).fetchall(), start=1):
        if row[0] != number or mark != seal(*row):
            raise ValueError
        found.append(tuple(row))
    return found


DONE = "done"
"""Outcome of an attempt whose run ended normally."""
STOPPED = "stopped before its end"
"""Outcome of an attempt whose run was resumed by another process, or given up by the steward."""
INTERRUPTED = "stopped by its user"
"""Outcome of an attempt that a signal ended."""
MAX_REFUSAL_LETTERS = 300
"""Letters of a refusal that are kept."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time that somebody asked.

    Args:
        number: Its number in the book.
        dataset: What it was about.
        analyst: Who asked, as they said; may be empty.
        run: The run it opened or resumed; None if it ended before that.
        began: When, to the minute.
        ended: When; None while it has no outcome.
        outcome: "done", or how it was refused, in public words; None while it is going or was killed.
    """

    number: int
    dataset: str
    analyst: str
    run: int | None
    began: str
    ended: str | None
    outcome: str | None

    @property
    def refused(self) -> bool:
        """Whether it ended otherwise than normally."""
        return self.outcome not in (None, DONE)


def describe_refusal(error: BaseException) -> str:
    """An error in words that may stand in a book: margrave's own messages, which hold no value of a table.

    Of any other error only the class is named, since its message may quote the rows.
    """
    if isinstance(error, MargraveError):
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return "".join(letter for letter in text if letter.isprintable())[:MAX_REFUSAL_LETTERS]
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OSError):
        return "a file could not be read or written"
    return f"unexpected {type(error).__name__}"


def current_minute() -> str:
    """The time in UTC, to the minute: finer stamps would tell how long the private table was worked on."""
    return datetime.now(timezone.utc).isoformat(timespec="minutes")


def begin_attempt(db: sqlite3.Connection, dataset: str, analyst: str) -> int:
    """Record that somebody asks; returns the attempt's number."""
    number = db.execute(
        "INSERT INTO attempts (dataset, analyst, began) VALUES (?, ?, ?)",
        (dataset, analyst, current_minute()),
    ).lastrowid
    change(db, "attempts", int(number or 0))
    return int(number or 0)


def link_attempt(db: sqlite3.Connection, number: int, run: int) -> None:
    """Record which run an attempt has opened or resumed."""
    change(db, "attempts", number, run=run)


def end_attempt(db: sqlite3.Connection, number: int, outcome: str) -> None:
    """Record how an attempt ended, unless that has been done."""
    if db.execute("SELECT outcome FROM attempts WHERE id = ?", (number,)).fetchone() == (None,):
        change(db, "attempts", number, outcome=outcome, ended=current_minute())


def end_attempts_of(db: sqlite3.Connection, run: int) -> None:
    """Record that the attempts of a run which have no outcome can spend nothing more."""
    query = "SELECT id FROM attempts WHERE run = ? AND outcome IS NULL"
    for (number,) in db.execute(query, (run,)).fetchall():
        end_attempt(db, number, STOPPED)


def attempts_in(db: sqlite3.Connection, dataset: str | None = None, analyst: str = "") -> list[Attempt]:
    """The attempts on a data set (None for all), of one analyst (empty for all), oldest first."""
    found = [Attempt(*row) for row in read_sealed(db, "attempts", ATTEMPT)]
    return [one for one in found if dataset in (None, one.dataset) and analyst in ("", one.analyst)]


class BookRun:
    """One run in a book; a `RunJournal`.

    Every write checks the token the run was opened or resumed with: once another process has resumed
    the run, or the steward has given it up, this one can write nothing more, so the two cannot both spend.

    Args:
        file: The book's file.
        run: The run's number.
        token: What it was opened with.
        attempt: The number of the attempt that opened or resumed it.
    """

    __slots__ = ("_attempt", "_file", "_history", "_token", "run")

    def __init__(self, file: BookFile, run: int, token: str, attempt: int) -> None:
        self._file, self.run, self._token, self._attempt = file, run, token, attempt
        with file.begin_read() as db:
            events = [event for event, _ in recorded_events(db, run)]
            answers = {}
            query = "SELECT first, events, body, seal FROM answers WHERE run = ? ORDER BY first"
            for first, count, body, mark in db.execute(query, (run,)):
                sound = mark == seal(run, first, count, zlib.crc32(body))
                if not sound or not 0 <= first < first + count <= len(events):
                    raise ValueError
                answers[first] = (int(count), answer_from_bytes(body))
            (said,) = db.execute("SELECT header FROM runs WHERE id = ?", (run,)).fetchone()
        day = header_from_json(json.loads(said)).run.get(DAY, "")
        self._history = History(tuple(events), answers, day)

    @property
    def shared(self) -> bool:
        """Whether it shares caps with other runs: always."""
        return True

    @property
    def history(self) -> History:
        """What was there when it was opened."""
        return self._history

    def append(self, events: Sequence[Event]) -> None:
        """Write the events of one call, all or none, and wait until they are on disk.

        Raises:
            InputError: The run is no longer this process's, or the file cannot be written.
        """
        now = current_minute()
        with self._file.begin_write() as db:
            self._check(db)
            (first,) = db.execute("SELECT count(*) FROM events WHERE run = ?", (self.run,)).fetchone()
            texts = enumerate((json.dumps(event_to_json(event)) for event in events), start=first)
            rows = [(self.run, place, text, now) for place, text in texts]
            db.executemany(
                "INSERT INTO events (run, seq, event, made, seal) VALUES (?, ?, ?, ?, ?)",
                [(*row, seal(*row)) for row in rows],
            )

    def store(self, first: int, count: int, answer: Answer) -> None:
        """Keep an answer; a killed process loses none, a power failure those since the last event.

        Raises:
            InputError: The run is no longer this process's, or the file cannot be written.
        """
        body = answer_to_bytes(answer)
        with self._file.begin_write(durable=False) as db:
            self._check(db)
            db.execute(
                "INSERT INTO answers (run, first, events, body, seal) VALUES (?, ?, ?, ?, ?)",
                (self.run, first, count, body, seal(self.run, first, count, zlib.crc32(body))),
            )

    def close(self) -> None:
        """End the run: from now on it counts by what it spent, rounded up to a small fraction."""
        with self._file.begin_write() as db:
            events = [event for event, _ in recorded_events(db, self.run)]
            spent = _up(sum((event_rho(event) for event in events), Fraction(0)))
            searched = _up(sum((event_delta(event) for event in events), Fraction(0)))
            mine = db.execute("SELECT state, token FROM runs WHERE id = ?", (self.run,)).fetchone()
            if mine == ("open", self._token):
                sums = {"spent": str(spent), "searched": str(searched)}
                change(db, "runs", self.run, state="closed", ended=current_minute(), token="", **sums)
            end_attempt(db, self._attempt, DONE)
        self._file.settle()

    def release(self) -> None:
        """Stop here; the run stays open, and all it reserved stays reserved."""
        self._token = "released"  # noqa: S105  (no password: a word that no run's token is)

    def discard(self, refusal: str, opened: bool) -> None:
        """End in an error; one that recorded nothing, and has opened no table, gives its reservation back.

        **Privacy.** Once the table may have been opened, the error may follow its rows. Whether a later run
        of somebody else fits under the cap must not: so the run stays open, and counts in full, until it is
        resumed and ends or the steward gives it up.
        The reservation and the record of the refusal change in one transaction: a process killed before it
        leaves the run open, in full, and its attempt without an outcome.
        """
        with self._file.begin_write() as db:
            (count,) = db.execute("SELECT count(*) FROM events WHERE run = ?", (self.run,)).fetchone()
            mine = db.execute("SELECT state, token FROM runs WHERE id = ?", (self.run,)).fetchone()
            if not opened and not count and mine == ("open", self._token):
                change(db, "runs", self.run, state="refused", ended=current_minute(), token="")
            end_attempt(db, self._attempt, refusal)
        self._file.settle()
        self.release()

    def forget(self) -> None:
        """Delete the stored answers of a run that has ended."""
        with self._file.begin_write() as db:
            db.execute("DELETE FROM answers WHERE run = ?", (self.run,))

    def _check(self, db: sqlite3.Connection) -> None:
        found = db.execute("SELECT token FROM runs WHERE id = ?", (self.run,)).fetchone()
        if found != (self._token,):
            remedy = "It was ended, or resumed by another process: nothing more can be spent here."
            raise InputError(invalid("run", "still open and this process's own", remedy))


def _up(amount: Fraction) -> Fraction:
    return Fraction(math.ceil(amount * _GRID), _GRID)


def recorded_events(db: sqlite3.Connection, run: int) -> list[tuple[Event, str]]:
    """The events of a run, in order, and when each was recorded."""
    query = "SELECT seq, event, made, seal FROM events WHERE run = ? ORDER BY seq"
    found = []
    for number, (place, event, made, mark) in enumerate(db.execute(query, (run,)).fetchall()):
        if place != number or mark != seal(run, place, event, made):
            raise ValueError  # one is missing or changed: the book is damaged
        found.append((event_from_json(json.loads(event)), str(made)))
    return found
