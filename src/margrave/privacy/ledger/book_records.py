"""What a book holds: caps, runs, and how they stand; read from its tables."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from margrave.privacy.accounting.composition import Charge, Standing
from margrave.privacy.accounting.conversions import zcdp_epsilon
from margrave.privacy.ledger.history import LedgerHeader
from margrave.privacy.ledger.journal import header_from_json
from margrave.privacy.unit import Neighbours, Unit

USUAL_DELTA = 1e-9
"""The delta of a run for which `Account.left` says what would fit: the default of `Synthesizer`."""
ROUNDING = Fraction(1, 1 << 128)
"""What a run may have spent beyond its reserve by rounding up: one step of the grid of `book_run`."""
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
        state: "open" (going, killed, or ended in an error after a spend), "closed" (ended normally),
            "refused" (ended in an error before any spend) or "crashed" (given up by the steward).
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
