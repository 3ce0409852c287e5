"""Book: a ledger that outlives the process: all runs on the data sets of one steward, under caps."""

from __future__ import annotations

import dataclasses
import json
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from margrave.errors import BudgetError, InputError, invalid
from margrave.privacy.accounting.composition import Charge, find_standing, fits, steps
from margrave.privacy.accounting.events import Event
from margrave.privacy.ledger.book_file import BookFile, create
from margrave.privacy.ledger.book_run import (
    INTERRUPTED,
    Account,
    Attempt,
    BookedRun,
    BookRun,
    Cap,
    attempts_in,
    begin_attempt,
    caps_in,
    change,
    current_minute,
    end_attempt,
    end_attempts_of,
    link_attempt,
    recorded_events,
    runs_in,
)
from margrave.privacy.ledger.history import LedgerHeader, check_facts
from margrave.privacy.ledger.journal import header_to_json
from margrave.privacy.unit import Adjacency, Neighbours, Unit

ROWS = Neighbours()
CAPPED: tuple[Adjacency, ...] = ("add_remove", "replace_one")
"""The adjacencies that a cap can be for. A run under another one counts towards no cap: see `steps`."""


class Book:
    """A durable record of all runs on some data sets, with caps that no run may pass.

    **Privacy.** Opening a run reserves its whole promise in the same transaction that checks the caps:
    writers follow each other, so two runs at once cannot both take what only one of them may. What all runs
    together promise, and why a cap holds, is proved in `margrave.privacy.accounting.composition`. A crash
    gives nothing back. A run that ends in an error has told its caller which; epsilon does not cover that, so
    every attempt is on record from before its table is opened. The book holds public things only: names the
    steward and the analysts give, promises, refusals in margrave's own words, events, released answers; never
    a value or a count of a private table.

    Args:
        path: An existing book; `Book.create` makes one.
        restored: Whether to open a book that was put back from an older copy, to retire it.

    Raises:
        InputError: It is missing, damaged, no book, of a newer version, or was put back from an older copy.
    """

    __slots__ = ("_file",)

    def __init__(self, path: str | Path, *, restored: bool = False) -> None:
        self._file = BookFile(Path(path), restored=restored)

    @staticmethod
    def create(path: str | Path) -> Book:
        """Make a new, empty book, readable by its owner alone.

        Raises:
            InputError: The file exists or cannot be made.
        """
        create(Path(path))
        return Book(path)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._file.path

    def cap(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        neighbours: Neighbours = ROWS,
        analyst: str = "",
    ) -> Cap:
        """Set what may be spent on a data set, or by one analyst on it; the last one set counts.

        Lowering a cap refuses new runs and takes nothing back. Raising it weakens the promise given before:
        all caps ever set stay in the record.

        Raises:
            InputError: An argument is out of range, or runs were made that say nothing about such
                neighbours.
        """
        from margrave.privacy.ledger.ledger import check_budget

        check_budget(epsilon, delta)
        _check_name("dataset", dataset)
        _check_name("analyst", analyst, empty=True)
        if neighbours.adjacency not in CAPPED:
            remedy = "Runs under another one count towards no cap: cap and run under 'replace_one'."
            raise InputError(
                invalid("adjacency", f"one of {list(CAPPED)} for a cap", remedy, got=neighbours.adjacency)
            )
        made = Cap(dataset, analyst, _bare(neighbours), float(epsilon), float(delta), current_minute())
        with self._file.begin_write() as db:
            # Runs that are there already have to count towards the cap; where one cannot, the cap is
            # refused.
            for booked in runs_in(db, dataset, analyst):
                _steps(booked.header.neighbours, made)
            row = db.execute(
                "INSERT INTO caps (dataset, analyst, owner, adjacency, epsilon, delta, made)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (dataset, analyst, neighbours.unit.owner, neighbours.adjacency, *_row(made)),
            ).lastrowid
            change(db, "caps", int(row or 0))
        return made

    def begin_attempt(self, dataset: str, analyst: str) -> int:
        """Record, before the private table is opened, that somebody asks about it.

        Returns:
            The attempt's number, for `open_run` or `resume_run`, or `end_attempt` where it comes to neither.

        Raises:
            InputError: The data set has no cap, or the book is retired.
        """
        _check_name("dataset", dataset)
        _check_name("analyst", analyst, empty=True)
        with self._file.begin_write() as db:
            _check_in_use(db)
            _caps_for(db, dataset, analyst)
            return begin_attempt(db, dataset, analyst)

    def end_attempt(self, attempt: int, outcome: str) -> None:
        """Record how an attempt ended, unless its run has done so."""
        with self._file.begin_write() as db:
            end_attempt(db, attempt, outcome)

    def open_run(
        self, dataset: str, analyst: str, header: LedgerHeader, rho: Fraction, attempt: int | None = None
    ) -> BookRun:
        """Reserve a run's whole promise and open it.

        Args:
            dataset: A data set with a cap.
            analyst: Who asks; may be empty.
            header: What the run promises.
            rho: What its ledger may spend.
            attempt: The attempt that it belongs to; None begins one.

        Raises:
            InputError: The book is retired, or the data set has no cap, or one whose neighbours the run says
                nothing about.
            BudgetError: It would pass a cap; nothing is reserved.
        """
        _check_name("dataset", dataset)
        _check_name("analyst", analyst, empty=True)
        if header.accounting not in ("zcdp", "gdp"):
            remedy = "A training on samples of rows has no price in rho: use a file of its own."
            raise InputError(invalid("ledger", "no book for this method", remedy))
        charge = Charge(Fraction(header.epsilon), Fraction(header.delta), rho, header.partition_delta)
        token = secrets.token_hex(16)
        # Room under the caps is checked and taken in one transaction: of two runs that begin at once only
        # one gets the last of it.
        with self._file.begin_write() as db:
            _check_in_use(db)
            for cap in _caps_for(db, dataset, analyst):
                _check_room(cap, runs_in(db, dataset, cap.analyst), charge, header.neighbours)
            run = db.execute(
                "INSERT INTO runs (dataset, analyst, header, rho, state, token, opened)"
                " VALUES (?, ?, ?, ?, 'open', ?, ?)",
                (dataset, analyst, json.dumps(header_to_json(header)), str(rho), token, current_minute()),
            ).lastrowid
            change(db, "runs", int(run or 0))
            attempt = begin_attempt(db, dataset, analyst) if attempt is None else attempt
            link_attempt(db, attempt, int(run or 0))
        self._file.settle()
        return BookRun(self._file, int(run or 0), token, attempt)

    def list_stopped(self, dataset: str, analyst: str, header: LedgerHeader) -> list[int]:
        """The numbers of an analyst's runs on a data set that a header describes and that were killed, or are
        going on.

        Runs that ended in an error are left out, as an error may follow the rows.
        """
        with self._file.begin_read() as db:
            runs = runs_in(db, dataset)
            attempts = {one.run: one.outcome for one in attempts_in(db, dataset)}
        found = []
        for booked in runs:
            held = booked.state == "open" and attempts.get(booked.run) in (None, INTERRUPTED)
            if held and booked.analyst == analyst:
                with suppress(InputError):
                    check_facts(booked.header, header)
                    found.append(booked.run)
        return found

    def resume_run(
        self,
        dataset: str,
        analyst: str,
        header: LedgerHeader,
        rho: Fraction,
        run: int | None = None,
        attempt: int | None = None,
    ) -> BookRun:
        """Take over a run that was stopped; the process that had it can spend nothing more.

        A closed run can be taken up too, to read its answers again; it spends nothing.

        Args:
            dataset: The data set.
            analyst: Who asks; may be empty.
            header: What the run promises and its public facts: must be those that were recorded.
            rho: What its ledger may spend.
            run: Its number; needed only where several stopped runs are alike.
            attempt: The attempt that takes it up; None begins one.

        Raises:
            InputError: There is no such run, or more than one.
        """
        token = secrets.token_hex(16)
        with self._file.begin_write() as db:
            found = [booked for booked in runs_in(db, dataset, analyst) if run in (None, booked.run)]
            chosen = _the_one([b for b in found if b.analyst == analyst], header)
            if chosen.rho != rho:
                raise InputError(invalid("resume", "done by the version that began it", "Start a new run."))
            if chosen.state == "open":
                db.execute("UPDATE runs SET token = ? WHERE id = ?", (token, chosen.run))
                end_attempts_of(db, chosen.run)
            attempt = begin_attempt(db, dataset, analyst) if attempt is None else attempt
            link_attempt(db, attempt, chosen.run)
        return BookRun(self._file, chosen.run, token, attempt)

    def give_up(self, run: int) -> None:
        """Mark an open run as crashed: all it reserved stays spent, and it cannot be resumed.

        Raises:
            InputError: There is no such open run.
        """
        with self._file.begin_write() as db:
            if db.execute("SELECT state FROM runs WHERE id = ?", (run,)).fetchone() != ("open",):
                raise InputError(invalid("run", "an open run of this book", "See its runs.", got=run))
            _give_up(db, run)

    def retire(self) -> None:
        """Close the book for good: all that its caps allow counts as spent, and no run can spend any more.

        For a book that was restored from an older copy: it does not know what was spent after the copy was
        made, so nothing may be granted on the strength of it. It can still be read.
        """
        with self._file.begin_write() as db:
            if not _is_retired(db):
                db.execute("INSERT INTO retired (made) VALUES (?)", (current_minute(),))
            for (run,) in db.execute("SELECT id FROM runs WHERE state = 'open'").fetchall():
                _give_up(db, run)
        self._file.settle()

    @property
    def retired(self) -> bool:
        """Whether it is closed for good."""
        with self._file.begin_read() as db:
            return _is_retired(db)

    def attempts(self, dataset: str | None = None) -> list[Attempt]:
        """Every time somebody asked, refusals and killed processes included, oldest first."""
        with self._file.begin_read() as db:
            return attempts_in(db, dataset)

    def caps(self, dataset: str | None = None) -> list[Cap]:
        """The caps that count."""
        with self._file.begin_read() as db:
            return caps_in(db, dataset)

    def runs(self, dataset: str | None = None) -> list[BookedRun]:
        """All runs, oldest first."""
        with self._file.begin_read() as db:
            return runs_in(db, dataset)

    def accounts(self, dataset: str | None = None) -> list[Account]:
        """How every cap stands."""
        with self._file.begin_read() as db:
            retired = _is_retired(db)
            return [
                dataclasses.replace(
                    _account(cap, runs_in(db, cap.dataset, cap.analyst)),
                    refused=sum(one.refused for one in attempts_in(db, cap.dataset, cap.analyst)),
                    retired=retired,
                )
                for cap in caps_in(db, dataset)
            ]

    def events(self, run: int) -> list[tuple[Event, str]]:
        """The events of a run and when they were recorded."""
        with self._file.begin_read() as db:
            return recorded_events(db, run)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __repr__(self) -> str:
        return f"Book({str(self.path)!r})"


def _check_room(cap: Cap, runs: Sequence[BookedRun], charge: Charge, neighbours: Neighbours) -> None:
    """Raise unless a cap allows one more charge."""
    held = _charges(cap, runs)
    if not fits([*held, charge.over(_steps(neighbours, cap))], cap.epsilon, cap.delta):
        left = _account(cap, runs).left
        whose = f"analyst {cap.analyst!r} on data set" if cap.analyst else "data set"
        remedy = f"The cap is ({cap.epsilon:g}, {cap.delta:g}): ask for less, or for a smaller delta."
        allowed = f"within what the cap of {whose} {cap.dataset!r} leaves, about {left:.4g}"
        raise BudgetError(invalid("epsilon", allowed, remedy, got=float(charge.epsilon)))


def _charges(cap: Cap, runs: Sequence[BookedRun], wanted: Callable[[BookedRun], bool] = bool) -> list[Charge]:
    found = []
    for booked in runs:
        if booked.charge is not None and wanted(booked):
            found.append(booked.charge.over(_steps(booked.header.neighbours, cap)))
    return found


def _account(cap: Cap, runs: Sequence[BookedRun]) -> Account:
    spent = _charges(cap, runs, lambda booked: booked.state == "closed")
    return Account(
        cap,
        find_standing(spent, cap.epsilon, cap.delta),
        find_standing(_charges(cap, runs), cap.epsilon, cap.delta),
    )


def _steps(run: Neighbours, cap: Cap) -> int:
    count = steps(run, cap.neighbours)
    if count is None:
        who = cap.neighbours.unit.owner
        protects = "rows" if who is None else f"owners in {who!r}"
        remedy = f"Its cap protects {protects} under {cap.neighbours.adjacency}; a run must imply that."
        raise InputError(invalid("unit and adjacency", f"those of data set {cap.dataset!r}", remedy))
    return count


def _the_one(runs: Sequence[BookedRun], header: LedgerHeader) -> BookedRun:
    """The stopped run that a header describes; else the last closed one."""
    alike = []
    problem = InputError(
        invalid("resume", "of a run in this book", "There is none of this data set and analyst.")
    )
    # The last reason why a run is not the one is told, if none of them is.
    for booked in runs:
        try:
            check_facts(booked.header, header)
        except InputError as error:
            problem = error
        else:
            alike.append(booked)
    stopped = [booked for booked in alike if booked.state == "open"]
    if len(stopped) > 1:
        numbers = ", ".join(str(booked.run) for booked in stopped)
        raise InputError(invalid("resume", "of one run", f"Name it; these are alike: {numbers}."))
    found = stopped or [booked for booked in alike if booked.state == "closed" and booked.events][-1:]
    if not found:
        raise problem
    return found[0]


def _row(cap: Cap) -> tuple[float, float, str]:
    return cap.epsilon, cap.delta, cap.made


def _bare(neighbours: Neighbours) -> Neighbours:
    """The neighbours without max_rows, which does not say who is protected."""
    return dataclasses.replace(neighbours, unit=Unit(neighbours.unit.owner))


def _check_name(param: str, name: str, *, empty: bool = False) -> None:
    if not isinstance(name, str) or not name.isprintable() or len(name) > 200 or not (name or empty):
        raise InputError(invalid(param, "a printable name of at most 200 letters", "Give it one.", got=name))


def _caps_for(db: sqlite3.Connection, dataset: str, analyst: str) -> list[Cap]:
    """The caps that a run of this analyst has to keep.

    Raises:
        InputError: The data set has none for all analysts.
    """
    caps = [cap for cap in caps_in(db, dataset) if cap.analyst in ("", analyst)]
    if not any(not cap.analyst for cap in caps):
        remedy = "Set one: margrave ledger cap FILE --dataset NAME --epsilon E --delta D."
        raise InputError(invalid("dataset", "one with a cap", remedy, got=dataset))
    return caps


def _give_up(db: sqlite3.Connection, run: int) -> None:
    change(db, "runs", run, state="crashed", ended=current_minute(), token="")
    end_attempts_of(db, run)


def _is_retired(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM retired").fetchone() != (0,))


def _check_in_use(db: sqlite3.Connection) -> None:
    if _is_retired(db):
        remedy = "All that its caps allow counts as spent: its steward closed it for good."
        raise InputError(invalid("ledger", "a book that is not retired", remedy))
