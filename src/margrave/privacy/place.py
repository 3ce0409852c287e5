"""Place: where a run's ledger is kept: nowhere, in a file of its own, or in a book."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from margrave.errors import InputError, invalid
from margrave.privacy.book_file import SUFFIXES
from margrave.privacy.history import LedgerHeader, RunJournal
from margrave.privacy.journal import Journal

if TYPE_CHECKING:
    from margrave.privacy.book import Book
    from margrave.privacy.ledger import Keep

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
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

    def keep(self, run: Mapping[str, str], resume: bool | int = False) -> Keep | None:
        """What opens the run's journal; None where none is kept.

        Args:
            run: Public facts about the run, by which it is known again.
            resume: Whether to go on with a run that was stopped; its number, where a book has several
                alike.

        Raises:
            InputError: There is nothing to resume from.
        """
        if resume is not False and self.ledger is None:
            remedy = "Only a run whose ledger was kept can go on."
            raise InputError(invalid("ledger", "given to resume a run", remedy))
        if self.ledger is None:
            return None

        def opened(header: LedgerHeader, rho: Fraction) -> RunJournal:
            return self._open(replace(header, run=dict(run)), rho, resume)

        return opened

    def _open(self, header: LedgerHeader, rho: Fraction, resume: bool | int) -> RunJournal:
        from margrave.privacy.book import Book

        place = self.ledger
        if isinstance(place, str | Path) and not self.in_book:
            return Journal(Path(place), header, resume=resume is not False)
        book = place if isinstance(place, Book) else Book(Path(str(place)))
        dataset, analyst = self.dataset or "", self.analyst or ""
        if resume is False:
            return book.open_run(dataset, analyst, header, rho)
        number = None if resume is True else int(resume)
        return book.resume_run(dataset, analyst, header, rho, number)
