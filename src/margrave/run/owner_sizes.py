"""owner_sizes: how many rows owners have, and what a cap on them would keep; it costs a little epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, hide_sizes, invalid
from margrave.measure.mechanisms.owner_sizes import owner_sizes as ask
from margrave.measure.mechanisms.owner_sizes import size_starts
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.ledger.ledger import Ledger, check_budget
from margrave.privacy.ledger.location import LedgerLocation
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.release import Guarantee
from margrave.run.options import check_usual_reading, complete_format
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    from margrave.privacy.ledger.book import Book
    from margrave.protocols import Source

Floats = NDArray[np.float64]

MIN_TAIL_DEVIATIONS = 2.0
"""Standard deviations of its noise above which a tail of owners is taken for real."""


@dataclass(frozen=True, slots=True)
class OwnerSizes:
    """A noisy histogram of owners by their number of rows.

    Args:
        starts: The least number of rows of each cell; the last cell has no upper end.
        counts: Noisy numbers of owners in each, shape of starts.
        sigma: Standard deviation of the noise in each, in owners.
        guarantee: What it was released under.
    """

    starts: tuple[int, ...]
    counts: Floats
    sigma: float
    guarantee: Guarantee

    @property
    def most(self) -> int:
        """The largest number of rows that is told apart from more."""
        return self.starts[-1] - 1

    def denoised(self) -> Floats:
        """Owners in each cell, shape of counts: none below 0, and none where the tail is lost in the noise.

        The tail begins behind the last cell from which on the counts together exceed twice their noise.
        """
        tails = np.cumsum(self.counts[::-1])[::-1]
        noise = self.sigma * np.sqrt(np.arange(len(self.counts), 0, -1))
        sure = np.flatnonzero(tails > MIN_TAIL_DEVIATIONS * noise)
        last = int(sure[-1]) if len(sure) else 0
        kept = np.where(np.arange(len(self.counts)) <= last, np.maximum(self.counts, 0.0), 0.0)
        return np.asarray(kept)

    def kept(self) -> Floats:
        """Estimated share of rows that a cap of 1, 2, ..., `most` rows an owner keeps, shape [most].

        From the denoised counts, an owner of a cell standing for its middle, one beyond `most` for most + 1
        rows. Shares rise with the cap and lie between 0 and 1. Where the noise hides a tail of owners with
        many rows, they are too high.
        """
        ends = (*(start - 1 for start in self.starts[1:]), self.starts[-1])
        middles = (np.asarray(self.starts) + np.asarray(ends)) / 2
        owners = self.denoised()
        rows = float((middles * owners).sum())
        caps = np.arange(1, self.most + 1)
        if rows <= 0:
            return np.ones(self.most)
        kept = np.minimum(middles[None, :], caps[:, None])
        return np.asarray((kept * owners).sum(axis=1) / rows)

    def suggested(self, keep: float = 0.95) -> int:
        """The least cap whose estimated share of kept rows reaches `keep`; `most` if none does.

        The noise of everything that is measured later grows in proportion to the cap.

        Raises:
            InputError: keep is not above 0 and at most 1.
        """
        if not 0.0 < keep <= 1.0:
            raise InputError(invalid("keep", "above 0 and at most 1", "Try keep=0.95.", got=keep))
        enough = np.flatnonzero(self.kept() >= keep)
        return int(enough[0]) + 1 if len(enough) else self.most

    def __str__(self) -> str:
        best, kept = self.suggested(), self.kept()
        shown = sorted({*(1 << k for k in range(self.most.bit_length())), best, self.most})
        owners, noise = float(self.counts.sum()), 2 * self.sigma * math.sqrt(len(self.counts))
        lines = [
            f"owners: about {max(round(owners), 0):,} (give or take {math.ceil(noise):,})",
            "max rows  rows kept, about",
            *(f"{cap:>8}  {kept[cap - 1]:>8.1%}" for cap in shown),
            f"suggested: --max-rows {best} (keeps 95 % of the rows; noise grows in proportion to it)",
            f"guarantee: {self.guarantee}",
        ]
        return "\n".join(lines)


@hide_sizes
def owner_sizes(
    data: Any,
    owner: str,
    *,
    epsilon: float,
    delta: float = 1e-9,
    adjacency: Adjacency = "add_remove",
    most: int = 64,
    missing: Sequence[str] = ("",),
    text: TextFormat | None = None,
    ledger: str | Path | Book | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
) -> OwnerSizes:
    """How many rows owners have, with noise: to choose `Unit(owner, max_rows)`.

    **Privacy.** (epsilon, delta)-differentially private for one owner with all their rows. It is a release
    of its own: its epsilon adds to that of what is released afterwards. Proof:
    `margrave.measure.mechanisms.owner_sizes`.

    Args:
        data: As for `Synthesizer.fit`.
        owner: Name of the column that says whose row it is.
        epsilon, delta: A tenth of the epsilon that the release will get is plenty.
        adjacency: "add_remove" or "replace_one".
        most: Owners with more rows are not told apart.
        missing, text, ledger, dataset, analyst: As for `Synthesizer`.

    Raises:
        InputError: The table or an argument cannot be used.
        BudgetError: A cap in the book leaves no room.
        MemoryError: The machine has too little; the error names no size.
    """
    check_budget(epsilon, delta)
    neighbours = Neighbours(Unit(owner), adjacency)
    location, text = LedgerLocation(ledger, dataset, analyst), complete_format(text, None, owner)
    check_usual_reading(text, location)
    with location.attempt() as attempt:
        keep = location.keep({"question": f"rows of owners, 1 to {most} and more"}, attempt=attempt)
        # The run is there before the table is opened, so that the book's list of runs is the same whether or
        # not an error that follows the rows ends it.
        with Ledger(epsilon=epsilon, delta=delta, neighbours=neighbours, accountant=GDP(), keep=keep) as book:
            found = ask(_open_owner(data, owner, missing, text), most, book)
            promise = Guarantee.of(book)
    return OwnerSizes(size_starts(most), found.values, float(found.sigma), promise)


def _open_owner(data: Any, owner: str, missing: Sequence[str], text: TextFormat) -> Source:
    from margrave.engines.opening import open_source

    source, _ = open_source(data, missing=missing, text=text, owner=owner)
    names = [column.name for column in source.columns]
    if owner not in names:
        raise InputError(invalid("owner", f"one of {names}", "Check the spelling.", got=owner))
    return source
