"""Attempts: every time somebody asked about a data set of a book, from before its table is opened to the end.

A run that ends in an error has told its caller which error it was, and errors can follow the rows: an owner
column with gaps, a ragged file, too many distinct values. Epsilon does not cover that. The book therefore
has a line for each attempt, written and synced **before** the table is opened. Its outcome is filled in when
the attempt ends, in the same transaction as the state of its run. An attempt without an outcome is still
going, or its process was killed.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timezone

from margrave.errors import MargraveError
from margrave.privacy.book_records import ATTEMPT, change, read_sealed

__all__ = [
    "DONE",
    "STOPPED",
    "Attempt",
    "attempts_in",
    "begin_attempt",
    "current_minute",
    "describe_refusal",
    "end_attempt",
    "end_attempts_of",
    "link_attempt",
]

DONE = "done"
"""Outcome of an attempt whose run ended normally."""
STOPPED = "stopped before its end"
"""Outcome of an attempt whose run was resumed by another process, or given up by the steward."""
LONGEST = 300
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
        return "".join(letter for letter in text if letter.isprintable())[:LONGEST]
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
