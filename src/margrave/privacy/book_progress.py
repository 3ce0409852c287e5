"""How far a book has come, in a small file beside it, so that a book put back from an older copy is noticed.

A book that is restored from a backup does not know the runs and spends that came after the backup was made.
Going on with it would spend the same budget again. Rows of runs, attempts and events are never deleted, so
their greatest numbers only grow. After each commit they are written to `BOOK.progress`; a book that has
fewer than this file says has been put back, and is refused until it is retired.

*No sound book is ever refused.* The file is written after the commit is on disk, and read before the book
is: what it says was in the book at some earlier time. *What is not noticed:* a copy that brings its own file
along, or a book whose file is gone. A stamp beside a file cannot protect against whoever can write both.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from dataclasses import dataclass
from pathlib import Path

from margrave.privacy.system_files import open_binary

__all__ = ["Progress", "progress_of", "read_progress", "write_progress"]

SUFFIX = ".progress"
"""Appended to the book's name."""
TABLES = ("runs", "attempts", "events")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a book has come.

    Args:
        key: The book's own, so that the file of another book of the same name is not heeded.
        rows: The greatest numbers of a row in `TABLES`.
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
    found = [db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] for table in TABLES]  # noqa: S608
    return Progress(str(key), tuple(int(row or 0) for row in found))


def read_progress(book: Path) -> Progress | None:
    """What the file beside a book says; None where there is none, or a torn one."""
    try:
        key, *rows, check = book.with_name(book.name + SUFFIX).read_text(encoding="ascii").split()
        progress = Progress(key, tuple(int(row) for row in rows))
    except (OSError, ValueError):
        return None
    return progress if len(rows) == len(TABLES) and check == _check(progress) else None


def write_progress(book: Path, progress: Progress) -> None:
    """Write the file beside a book; one that cannot be written protects nothing and stops nothing.

    The text has a fixed length, so that it is overwritten in one piece, and a checksum for a reader that
    comes in between.
    """
    text = f"{_stated(progress)} {_check(progress)}\n"
    with contextlib.suppress(OSError):
        handle = open_binary(book.with_name(book.name + SUFFIX), os.O_WRONLY | os.O_CREAT)
        try:
            os.write(handle, text.encode("ascii"))
        finally:
            os.close(handle)


def _stated(progress: Progress) -> str:
    return " ".join([progress.key, *(f"{row:012d}" for row in progress.rows)])


def _check(progress: Progress) -> str:
    return f"{zlib.crc32(_stated(progress).encode('ascii')):08x}"
