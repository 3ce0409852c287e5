"""BookRun and Attempt: one run in a book, where its ledger is kept, and each time that somebody asked.

A run that ends in an error has told its caller which error it was, and errors can follow the rows: an owner
column with gaps, a ragged file, too many distinct values. Epsilon does not cover that. The book therefore
has a line for each attempt, written and synced **before** the table is opened. Its outcome is filled in when
the attempt ends, in the same transaction as the state of its run. An attempt without an outcome is still
going, or its process was killed.
"""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction

from margrave.errors import InputError, MargraveError, invalid
from margrave.privacy.accounting.accountants import event_delta, event_rho
from margrave.privacy.accounting.events import Event, event_from_json, event_to_json
from margrave.privacy.ledger.book_file import BookFile
from margrave.privacy.ledger.book_records import ATTEMPT, change, read_sealed, seal
from margrave.privacy.ledger.history import Answer, History, answer_from_bytes, answer_to_bytes

DONE = "done"
"""Outcome of an attempt whose run ended normally."""
STOPPED = "stopped before its end"
"""Outcome of an attempt whose run was resumed by another process, or given up by the steward."""
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
        return "stopped by its user"
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


_GRID = 1 << 128
"""Spends are written rounded up to multiples of 2^-128: exact fractions whose denominators stay small."""


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
        with file.reading() as db:
            events = [event for event, _ in recorded_events(db, run)]
            answers = {}
            query = "SELECT first, events, body, seal FROM answers WHERE run = ? ORDER BY first"
            for first, count, body, mark in db.execute(query, (run,)):
                sound = mark == seal(run, first, count, zlib.crc32(body))
                if not sound or not 0 <= first < first + count <= len(events):
                    raise ValueError
                answers[first] = (int(count), answer_from_bytes(body))
        self._history = History(tuple(events), answers)

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

    def discard(self, refusal: str) -> None:
        """End in an error; one that recorded nothing gives its reservation back, another can be resumed.

        The reservation and the record of the refusal change in one transaction: a process killed before it
        leaves the run open, in full, and its attempt without an outcome.
        """
        with self._file.begin_write() as db:
            (count,) = db.execute("SELECT count(*) FROM events WHERE run = ?", (self.run,)).fetchone()
            mine = db.execute("SELECT state, token FROM runs WHERE id = ?", (self.run,)).fetchone()
            if not count and mine == ("open", self._token):
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
