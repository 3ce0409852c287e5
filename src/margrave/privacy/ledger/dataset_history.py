"""DatasetHistory: what a book says of a data set's earlier runs, for the report of a new one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from margrave.privacy.ledger.book import Book
    from margrave.privacy.ledger.book_records import BookedRun
    from margrave.privacy.unit import Neighbours


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One run on the data set that counts.

    Args:
        run: Its number in the book.
        date: The day it was opened, as 2026-12-31.
        epsilon: What it promised.
        delta: What it promised.
        unit: Whom it protects, in words.
        state: "closed", "open" (going, or stopped and not given up) or "crashed" (given up, counted in full).
    """

    run: int
    date: str
    epsilon: float
    delta: float
    unit: str
    state: str


@dataclass(frozen=True, slots=True)
class DatasetHistory:
    """The earlier runs on a data set, and what all of them promise together with this one.

    Args:
        earlier: Oldest first; this run is not among them.
        epsilon: What all runs together promise, with `delta`; infinite where no account holds.
        delta: Of the cap.
        cap: The epsilon that all runs together may not pass.
    """

    earlier: tuple[EarlierRun, ...]
    epsilon: float
    delta: float
    cap: float

    def to_json(self) -> dict[str, Any]:
        """As JSON; an infinite epsilon is null."""
        runs = [{name: getattr(run, name) for name in EarlierRun.__slots__} for run in self.earlier]
        epsilon = self.epsilon if math.isfinite(self.epsilon) else None
        return {"earlier": runs, "epsilon": epsilon, "delta": self.delta, "cap": self.cap}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> DatasetHistory:
        """The history that `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: The document is something else.
        """
        runs = tuple(
            EarlierRun(
                int(run["run"]),
                str(run["date"]),
                float(run["epsilon"]),
                float(run["delta"]),
                str(run["unit"]),
                str(run["state"]),
            )
            for run in document["earlier"]
        )
        epsilon = math.inf if document["epsilon"] is None else float(document["epsilon"])
        return DatasetHistory(runs, epsilon, float(document["delta"]), float(document["cap"]))


def read_history(book: Book, dataset: str, attempt: int, neighbours: Neighbours) -> DatasetHistory | None:
    """The history of a data set at the end of a run.

    Args:
        book: The book.
        dataset: The name its steward gave.
        attempt: The number of the run's own attempt; its run is no earlier one.
        neighbours: Whom the run protects: the cap for these is told where there are several.

    Returns:
        None where no cap for all analysts is set.

    Raises:
        InputError: The book cannot be read.
    """
    own = next((one.run for one in book.attempts(dataset) if one.number == attempt), None)
    accounts = [account for account in book.accounts(dataset) if not account.cap.analyst]
    if not accounts:
        return None
    whom = (neighbours.unit.owner, neighbours.adjacency)
    accounts.sort(key=lambda one: (one.cap.neighbours.unit.owner, one.cap.neighbours.adjacency) != whom)
    cap, together = accounts[0].cap, accounts[0].reserved.together
    return DatasetHistory(_earlier(book.runs(dataset), own), together, cap.delta, cap.epsilon)


def _earlier(runs: Sequence[BookedRun], own: int | None) -> tuple[EarlierRun, ...]:
    return tuple(
        EarlierRun(
            booked.run,
            booked.opened[:10],
            booked.header.epsilon,
            booked.header.delta,
            str(booked.header.neighbours.unit),
            booked.state,
        )
        for booked in runs
        if booked.run != own and booked.charge is not None
    )
