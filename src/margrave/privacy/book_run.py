"""BookRun: one run in a book; where its ledger is kept."""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from collections.abc import Sequence
from fractions import Fraction

from margrave.errors import InputError, invalid
from margrave.privacy.accounting import event_delta, event_rho
from margrave.privacy.answers import Answer, answer_from_bytes, answer_to_bytes
from margrave.privacy.attempts import DONE, current_minute, end_attempt
from margrave.privacy.book_file import BookFile
from margrave.privacy.book_records import change, seal
from margrave.privacy.event_json import event_from_json, event_to_json
from margrave.privacy.events import Event
from margrave.privacy.history import History

__all__ = ["BookRun", "recorded_events"]

_GRID = 1 << 128


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
        with self._file.writing() as db:
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
        with self._file.writing(durable=False) as db:
            self._check(db)
            db.execute(
                "INSERT INTO answers (run, first, events, body, seal) VALUES (?, ?, ?, ?, ?)",
                (self.run, first, count, body, seal(self.run, first, count, zlib.crc32(body))),
            )

    def close(self) -> None:
        """End the run: from now on it counts by what it spent, rounded up to a small fraction."""
        with self._file.writing() as db:
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
        with self._file.writing() as db:
            (count,) = db.execute("SELECT count(*) FROM events WHERE run = ?", (self.run,)).fetchone()
            mine = db.execute("SELECT state, token FROM runs WHERE id = ?", (self.run,)).fetchone()
            if not count and mine == ("open", self._token):
                change(db, "runs", self.run, state="refused", ended=current_minute(), token="")
            end_attempt(db, self._attempt, refusal)
        self._file.settle()
        self.release()

    def forget(self) -> None:
        """Delete the stored answers of a run that has ended."""
        with self._file.writing() as db:
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
