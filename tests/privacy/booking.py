"""A book with a cap, runs in it, and spends: what the tests of books start from."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from margrave.privacy.accounting.accountants import ZCDP, Accountant
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.ledger.location import LedgerLocation
from margrave.privacy.unit import Neighbours

__all__ = ["ROWS", "book", "opened", "spend"]

ROWS = Neighbours()


def book(path: Path, epsilon: float = 1.0, delta: float = 4e-9) -> Book:
    made = Book.create(path / "b.book")
    made.cap("people", epsilon, delta, ROWS)
    return made


def opened(
    book: Book,
    epsilon: float = 0.25,
    delta: float = 1e-9,
    *,
    dataset: str = "people",
    analyst: str | None = None,
    neighbours: Neighbours = ROWS,
    accountant: Accountant | None = None,
    partition: Fraction = Fraction(0),
    resume: bool | int = False,
) -> Ledger:
    return Ledger(
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        accountant=accountant or ZCDP(),
        partition_delta=partition,
        keep=LedgerLocation(book, dataset, analyst).keep({"strategy": "test"}, resume),
    )


def spend(ledger: Ledger, part: Fraction) -> None:
    event = GaussianEvent("x", 1, 1 / (2 * ledger.total * part))
    ledger.ask([event], lambda: 3.0, lambda truth: Answer((np.array([truth]),)))
