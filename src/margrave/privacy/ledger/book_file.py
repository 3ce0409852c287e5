"""The book's file: SQLite, its tables, and how it is opened, written and found damaged.

*Why a write-ahead log.* A commit is one append to the log and, with synchronous=FULL, one sync: a spend is on
disk when `begin_write` returns, at the price of a line in a file. A rollback journal syncs three or four
times. A process killed while it writes leaves a log whose last frames fail their checksum; the next one to
open the file ignores them. Log and index lie beside the file (`-wal`, `-shm`) while it is in use and after a
kill, so `settle` moves what a run reserves into the file itself at once: even a copy of the file alone then
counts every run, if not every event. The log needs shared memory: keep a book on a local disk, not on a
network one.

Only answers skip the sync (`durable=False`): a kill loses none, a power failure those after the last sync;
the log is then cut at a commit.

A copy of a book is a record, not a budget.

*Copies.* How far a book has come stands in a small file beside it, so that a book put back from an older copy
is noticed. A book that is restored from a backup does not know the runs and spends that came after the backup
was made. Going on with it would spend the same budget again. Rows of runs, attempts and events are never
deleted, so their greatest numbers only grow. After each commit they are written to `BOOK.progress`; a book
that has fewer than this file says has been put back, and is refused until it is retired.

*No sound book is ever refused.* The file is written after the commit is on disk, and read before the book
is: what it says was in the book at some earlier time. *What is not noticed:* a copy that brings its own file
along, or a book whose file is gone. A stamp beside a file cannot protect against whoever can write both.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from margrave.errors import InputError, MargraveError, invalid
from margrave.privacy.ledger.system_files import open_binary

SUFFIX = ".progress"
"""Appended to the book's name."""
COUNTED_TABLES = ("runs", "attempts", "events")
"""Tables whose rows are never deleted, so that their greatest numbers tell how far a book has come."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a book has come.

    Args:
        key: The book's own, so that the file of another book of the same name is not heeded.
        rows: The greatest number of a row in each of COUNTED_TABLES, 0 for an empty one.
    """

    key: str
    rows: tuple[int, ...]

    def behind(self, other: Progress | None) -> bool:
        """Whether it is an older state of the same book."""
        if other is None or other.key != self.key:
            return False
        return any(mine < theirs for mine, theirs in zip(self.rows, other.rows, strict=True))


def progress_of(db: sqlite3.Connection) -> Progress:
    """How far an open book has come."""
    (key,) = db.execute("SELECT key FROM identity").fetchone()
    found = [db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] for table in COUNTED_TABLES]  # noqa: S608
    return Progress(str(key), tuple(int(row or 0) for row in found))


def read_progress(book: Path) -> Progress | None:
    """What the file beside a book says; None where there is none, or a torn one."""
    try:
        key, *rows, check = book.with_name(book.name + SUFFIX).read_text(encoding="ascii").split()
        progress = Progress(key, tuple(int(row) for row in rows))
    except (OSError, ValueError):
        return None
    return progress if len(rows) == len(COUNTED_TABLES) and check == _check(progress) else None


def write_progress(book: Path, progress: Progress) -> None:
    """Write the file beside a book; one that cannot be written protects nothing and stops nothing.

    The text has a fixed length, so that it is overwritten in one piece, and a checksum for a reader that
    comes in between.
    """
    text = f"{_write_progress(progress)} {_check(progress)}\n"
    with contextlib.suppress(OSError):
        handle = open_binary(book.with_name(book.name + SUFFIX), os.O_WRONLY | os.O_CREAT)
        try:
            os.write(handle, text.encode("ascii"))
        finally:
            os.close(handle)


def _write_progress(progress: Progress) -> str:
    return " ".join([progress.key, *(f"{row:012d}" for row in progress.rows)])


def _check(progress: Progress) -> str:
    return f"{zlib.crc32(_write_progress(progress).encode('ascii')):08x}"


SUFFIXES = (".book", ".db", ".sqlite", ".sqlite3")
"""Names that end like this mean a book; all others a ledger of JSON lines."""
VERSION = 2
"""Version of the format of books, kept as SQLite's user_version."""
APPLICATION = 0x4D524756
"""Says that an SQLite file is a book: the letters MRGV, kept as SQLite's application_id."""
OLDER_COPY = (
    "Nothing may be spent on the strength of an older copy, which lacks what was spent since it was made: "
    "retire the copy (margrave ledger retire FILE), and count all its caps as spent."
)
"""What to do about a book that is damaged or was put back."""
WAIT = 60.0
"""Seconds to wait for other writers."""

ATTEMPTS = (
    """CREATE TABLE attempts (
        id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL, analyst TEXT NOT NULL,
        run INTEGER REFERENCES runs (id), began TEXT NOT NULL, ended TEXT, outcome TEXT, seal TEXT)""",
    "CREATE TABLE retired (id INTEGER PRIMARY KEY, made TEXT NOT NULL)",
    "CREATE TABLE identity (key TEXT NOT NULL)",
)
"""Tables that books of version 1 lack."""
TABLES = (
    """CREATE TABLE caps (
        id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, analyst TEXT NOT NULL, owner TEXT,
        adjacency TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, made TEXT NOT NULL,
        seal TEXT)""",
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL, analyst TEXT NOT NULL,
        header TEXT NOT NULL, rho TEXT NOT NULL, state TEXT NOT NULL, token TEXT NOT NULL,
        spent TEXT, searched TEXT, opened TEXT NOT NULL, ended TEXT, seal TEXT)""",
    """CREATE TABLE events (
        run INTEGER NOT NULL REFERENCES runs (id), seq INTEGER NOT NULL, event TEXT NOT NULL,
        made TEXT NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (run, seq))""",
    """CREATE TABLE answers (
        run INTEGER NOT NULL REFERENCES runs (id), first INTEGER NOT NULL, events INTEGER NOT NULL,
        body BLOB NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (run, first))""",
    *ATTEMPTS,
)


def create(path: Path) -> None:
    """Make a new book, readable and writable by its owner alone.

    Raises:
        InputError: The file exists or cannot be made.
    """
    # The system makes the file only if there is none: of two programs that try at once, one fails.
    try:
        os.close(open_binary(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))
    except FileExistsError:
        remedy = "Choose another path; a book is never overwritten."
        raise InputError(invalid("ledger", "a file that does not exist yet", remedy)) from None
    except OSError as error:
        raise _unwritable(error.strerror) from error
    connection = _open_connection(path)
    try:
        with _clear():
            # Written ahead: readers go on while a run writes, and a program that is killed leaves a whole
            # book.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                connection.execute(table)
            connection.execute("INSERT INTO identity VALUES (?)", (secrets.token_hex(16),))
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
    finally:
        connection.close()


class BookFile:
    """An open book: transactions on it.

    Args:
        path: An existing book.
        restored: Whether it may be one that was put back from an older copy, to be retired.

    Raises:
        InputError: It is missing, damaged, no book, of a newer version, put back from an older copy, or it
            cannot be written.
    """

    __slots__ = ("__weakref__", "_close", "_connection", "_pid", "path")

    def __init__(self, path: Path, *, restored: bool = False) -> None:
        self.path = path.absolute()
        if not self.path.is_file():
            remedy = "Make one: margrave ledger init FILE."
            raise InputError(invalid("ledger", "an existing book", remedy, got=str(path)))
        self._connection, self._pid = _open_connection(self.path), os.getpid()
        # Closed with the object, and only by the process that opened it: a fork that closed its copy could
        # take the log away from its parent.
        self._close = weakref.finalize(self, _close_connection, self._connection, self._pid)
        try:
            self._check()
            if not restored:
                self._check_newest()
        except InputError:
            self._close()
            raise

    def _check(self) -> None:
        with _clear():
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION:
                remedy = "Make one: margrave ledger init FILE."
                raise InputError(invalid("ledger", "a book of margrave", remedy, got=str(self.path)))
            if version > VERSION:
                raise InputError(invalid("ledger", "of a known version", "Update margrave.", got=version))
            # A page that cannot be read would hide runs, and hidden runs would be spent again.
            if self._connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise _damaged_error()
        if version < VERSION:
            self._upgrade()

    def _upgrade(self) -> None:
        """Add the tables that a book of version 1 lacks, unless another process has just done so."""
        with self.begin_write() as db:
            if db.execute("PRAGMA user_version").fetchone() == (VERSION,):
                return
            for table in ATTEMPTS:
                db.execute(table)
            db.execute("INSERT INTO identity VALUES (?)", (secrets.token_hex(16),))
            db.execute(f"PRAGMA user_version = {VERSION}")

    def _check_newest(self) -> None:
        """Refuse a book that was put back from an older copy, unless it has been retired."""
        stated = read_progress(self.path)  # before the book itself is read: it can only have gone on since
        with self.begin_read() as db:
            behind = progress_of(db).behind(stated)
            if behind and db.execute("SELECT count(*) FROM retired").fetchone() == (0,):
                raise InputError(invalid("ledger", "the newest state of its book", OLDER_COPY))

    @contextmanager
    def begin_write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that holds off all other writers; on disk when the block has ended.

        Nothing is written if the block raises.

        Args:
            durable: Whether it has to outlast a power failure, and not only the process.

        Raises:
            InputError: The file is damaged, in use for too long, or cannot be written.
        """
        self._check_process()
        with _clear():
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
                if durable:
                    write_progress(self.path, progress_of(self._connection))
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def begin_read(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the file.

        Raises:
            InputError: The file is damaged or cannot be read.
        """
        self._check_process()
        with _clear():
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("ROLLBACK")

    def settle(self) -> None:
        """Move all that is in the log into the file itself, as far as no one else is reading."""
        self._check_process()
        with _clear():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file; the last one to do so removes the log."""
        self._close()

    def _check_process(self) -> None:
        """Refuse to go on in a fork of the process that opened the file.

        Locks of a file are not inherited. When the parent closed its connection it would be the last one
        that the system knows of and would remove the log, while the fork wrote to a log that has no name any
        more: what it spent would be in no book.
        """
        if os.getpid() != self._pid:
            remedy = "Open it anew in each process: Book(path)."
            raise InputError(invalid("ledger", "a book that is used in the process that opened it", remedy))


def _close_connection(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection, unless this is a fork: closing its copy could take the log away from the parent."""
    if os.getpid() == pid:
        connection.close()


def _open_connection(path: Path) -> sqlite3.Connection:
    with _clear():
        found = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            timeout=WAIT,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        # fullfsync: on macOS a plain sync leaves data in the drive's cache.
        for setting in (
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "fullfsync = ON",
        ):
            found.execute(f"PRAGMA {setting}")
        return found


@contextmanager
def _clear() -> Iterator[None]:
    """Turns what SQLite says into one of margrave's errors."""
    try:
        yield
        return
    except sqlite3.Error as error:
        found = _translate_error(error)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, MargraveError):
            raise
        found = _damaged_error()
    raise found


def _translate_error(error: sqlite3.Error) -> InputError:
    said = str(error)
    if "locked" in said or "busy" in said:
        return InputError(invalid("ledger", "free within a minute", "Another process holds it: try again."))
    if isinstance(error, sqlite3.OperationalError) and "no such" not in said and "decode" not in said:
        return _unwritable(said)
    return _damaged_error()


def _unwritable(said: str | None) -> InputError:
    return InputError(invalid("ledger", "a file that can be written", f"The system says: {said}."))


def _damaged_error() -> InputError:
    return InputError(invalid("ledger", "an intact book", OLDER_COPY))
