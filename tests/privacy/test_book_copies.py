"""A book that is put back from an older copy spends nothing more; a sound one is never taken for one."""

from __future__ import annotations

import os
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from booking import ROWS, book, opened, spend

from margrave.errors import InputError, MargraveError
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.book_file import Progress, read_progress, write_progress


def put_back(path: Path, copy: bytes) -> None:
    """What somebody does who copies a backup over a book."""
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)
    path.write_bytes(copy)


def halfway(folder: Path) -> tuple[Book, bytes]:
    """A book whose one run has spent a half, and its bytes then."""
    kept = book(folder)
    ledger = opened(kept, 0.9)
    spend(ledger, Fraction(1, 2))
    ledger.release()
    kept.close()
    return kept, kept.path.read_bytes()


def test_what_was_spent_since_the_copy_is_not_spent_again(tmp_path: Path) -> None:
    kept, copy = halfway(tmp_path)
    again = opened(Book(kept.path), 0.9, resume=True)
    spend(again, Fraction(1, 2))
    spend(again, Fraction(1, 2))
    again.close()
    kept.close()
    put_back(kept.path, copy)
    with pytest.raises(InputError, match=r"newest state of its book.*margrave ledger retire"):
        Book(kept.path)


@pytest.mark.parametrize("what", ["run", "attempt"])
def test_runs_and_attempts_since_the_copy_are_missed_too(tmp_path: Path, what: str) -> None:
    kept, copy = halfway(tmp_path)
    later = Book(kept.path)
    if what == "run":
        opened(later, 0.05)
    else:
        later.begin_attempt("people", "")
    later.close()
    put_back(kept.path, copy)
    with pytest.raises(InputError, match="newest state"):
        Book(kept.path)


def test_a_retired_book_is_read_and_never_spends_again(tmp_path: Path) -> None:
    kept, copy = halfway(tmp_path)
    later = Book(kept.path)
    opened(later, 0.01).close()
    later.close()
    put_back(kept.path, copy)
    Book(kept.path, restored=True).retire()
    again = Book(kept.path)
    assert again.retired
    assert [run.state for run in again.runs()] == ["crashed"]
    assert [(account.left, account.retired) for account in again.accounts()] == [(0.0, True)]
    with pytest.raises(InputError, match="There is none"):
        opened(again, 0.9, resume=True)
    with pytest.raises(InputError, match="not retired"):
        again.begin_attempt("people", "")
    again.cap("people", 99.0, 1e-6, ROWS)
    with pytest.raises(InputError, match="not retired"):
        opened(again, 0.01)
    again.retire()
    assert again.retired


def test_a_process_that_is_going_is_shut_out_of_a_retired_book(tmp_path: Path) -> None:
    kept = book(tmp_path)
    going = opened(kept, 0.5)
    Book(kept.path, restored=True).retire()
    with pytest.raises(InputError, match="still open and this process's own"):
        spend(going, Fraction(1, 2))
    assert kept.events(1) == []


def test_a_sound_book_opens_whatever_lies_beside_it(tmp_path: Path) -> None:
    kept, _ = halfway(tmp_path)
    stamp = kept.path.with_name(kept.path.name + ".progress")
    stated = read_progress(kept.path)
    assert stated is not None
    assert stated.rows == (1, 1, 1)
    assert stamp.stat().st_mode & 0o777 == 0o600
    whole = stamp.read_bytes()
    for content in (b"", b"x", b"\xff\n", whole[:20], whole.replace(b"1 ", b"2 ")):
        stamp.write_bytes(content)
        assert Book(kept.path).runs()
    write_progress(kept.path, Progress("0" * 32, (99, 99, 99)))  # of another book that had this name
    assert Book(kept.path).runs()
    stamp.unlink()
    opened(Book(kept.path), 0.9, resume=True)
    assert read_progress(kept.path) == Progress(stated.key, (1, 2, 1))
    stamp.unlink()
    stamp.mkdir()  # it cannot be written: nothing is stopped
    opened(Book(kept.path), 0.05)


def test_nobody_who_opens_a_busy_book_is_refused(tmp_path: Path) -> None:
    kept, stop, problems = book(tmp_path, 50.0), threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            try:
                Book(kept.path).close()
            except MargraveError as error:
                problems.append(str(error))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        ledger = opened(Book(kept.path), 0.1)
        spend(ledger, Fraction(1))
        ledger.close()
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert os.path.exists(f"{kept.path}.progress")
