"""LedgerLocation: where a run's ledger is kept: nowhere, in a file of its own, or in a book."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from margrave.errors import InputError, MargraveError, PlanWarning, invalid
from margrave.privacy.ledger.book_file import SUFFIXES
from margrave.privacy.ledger.history import DatasetHistory, LedgerHeader, RunJournal, read_history
from margrave.privacy.ledger.journal import Journal

if TYPE_CHECKING:
    from margrave.privacy.ledger.book import Book
    from margrave.privacy.ledger.ledger import Keep
    from margrave.privacy.unit import Neighbours


@dataclass(frozen=True, slots=True)
class BookAttempt:
    """An attempt that is going on: its book, and its number there."""

    book: Book
    number: int


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """Where a run's ledger is kept.

    Args:
        ledger: A `Book`; the path of a book (ending in .book, .db, .sqlite or .sqlite3) that exists; the path
            of a file of JSON lines for this run alone; or None, which keeps it in memory.
        dataset: The name of the data set in the book, which the steward gave; for books, and needed there.
        analyst: Who asks, for books.

    Raises:
        InputError: The names do not go with the ledger.
    """

    ledger: str | Path | Book | None = None
    dataset: str | None = None
    analyst: str | None = None

    def __post_init__(self) -> None:
        if self.in_book and self.dataset is None:
            remedy = "Name the data set as its steward did."
            raise InputError(invalid("dataset", "given with a book", remedy))
        if not self.in_book and not (self.dataset is self.analyst is None):
            remedy = f"A book's name ends in one of {', '.join(SUFFIXES)}."
            raise InputError(invalid("dataset and analyst", "left out without a book", remedy))

    @property
    def in_book(self) -> bool:
        """Whether it is a book."""
        if isinstance(self.ledger, str | Path):
            return Path(self.ledger).suffix.lower() in SUFFIXES
        return self.ledger is not None

    @contextmanager
    def attempt(self) -> Iterator[BookAttempt | None]:
        """What a run does with a private table, from before it is opened; a book records how it ends.

        Whatever error ends the block stays as it is: where its record cannot be written, the attempt stays
        without an outcome, which the book shows as well.

        Yields:
            The attempt, for `keep`; None without a book.

        Raises:
            InputError: The book cannot be used, or the data set has no cap in it.
        """
        if not self.in_book:
            yield None
            return
        from margrave.privacy.ledger.book_run import describe_refusal

        book = self._book()
        number = book.begin_attempt(self.dataset or "", self.analyst or "")
        try:
            yield BookAttempt(book, number)
        except BaseException as error:
            with suppress(MargraveError):
                book.end_attempt(number, describe_refusal(error))
            raise

    def keep(
        self, run: Mapping[str, str], resume: bool | int = False, attempt: BookAttempt | None = None
    ) -> Keep | None:
        """What opens the run's journal; None where none is kept.

        Args:
            run: Public facts about the run, by which it is known again.
            resume: Whether to go on with a run that was stopped; its number, where a book has several
                alike.
            attempt: What it is a part of, in a book; None begins an attempt with the run.

        Raises:
            InputError: There is nothing to resume from.
        """
        if resume is not False and self.ledger is None:
            remedy = "Only a run whose ledger was kept can go on."
            raise InputError(invalid("ledger", "given to resume a run", remedy))
        if self.ledger is None:
            return None

        def open_journal(header: LedgerHeader, rho: Fraction) -> RunJournal:
            return self._open(replace(header, run=dict(run)), rho, resume, attempt)

        return open_journal

    def describe_dataset(self, attempt: BookAttempt | None, neighbours: Neighbours) -> DatasetHistory | None:
        """What the book says of the data set once the run of an attempt has ended.

        Returns:
            None without a book, and where it cannot be read any more: the release is paid for and not lost.
        """
        if attempt is None:
            return None
        with suppress(MargraveError):
            return read_history(attempt.book, self.dataset or "", attempt.number, neighbours)
        return None

    def _book(self) -> Book:
        from margrave.privacy.ledger.book import Book

        return self.ledger if isinstance(self.ledger, Book) else Book(Path(str(self.ledger)))

    def _open(
        self, header: LedgerHeader, rho: Fraction, resume: bool | int, attempt: BookAttempt | None
    ) -> RunJournal:
        place = self.ledger
        if isinstance(place, str | Path) and not self.in_book:
            return Journal(Path(place), header, resume=resume is not False)
        book, begun = (self._book(), None) if attempt is None else (attempt.book, attempt.number)
        dataset, analyst = self.dataset or "", self.analyst or ""
        if resume is False:
            if stopped := book.list_stopped(dataset, analyst, header):
                warnings.warn(_say_stopped(stopped), PlanWarning, stacklevel=2)
            return book.open_run(dataset, analyst, header, rho, begun)
        number = None if resume is True else int(resume)
        return book.resume_run(dataset, analyst, header, rho, number, begun)


def _say_stopped(runs: Sequence[int]) -> str:
    numbers = ", ".join(map(str, runs))
    return (
        f"run {numbers} of the book was begun with the same arguments and has not ended: all that it "
        "promised counts. If it was stopped, resume goes on with it and pays for nothing twice. What begins "
        "now is a new run, which spends anew."
    )
