"""Runs of the named methods for the twin audit, in sizes for small tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import twin_tables
from torch_fitters import NEEDS_TORCH, TINY, TRAINED
from twin_losses import findings
from twins import Run, Tape, record, replay

from margrave import Synthesizer
from margrave.engines.counts import Counts
from margrave.engines.memory import MemorySource
from margrave.measure.discovery.between.relations import Relations
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.methods import METHODS
from margrave.models.networks.merf import Merf
from margrave.privacy.unit import Adjacency
from margrave.schema.columns import relative
from margrave.select.aim import AIM
from margrave.select.from_rows import MeanEmbedding, Training, Votes
from margrave.select.public_rounds import JAM, VerticalRounds
from margrave.select.top_q import TopQ

__all__ = [
    "COLUMNS",
    "FEW",
    "NAMES",
    "SLICED",
    "LookAudit",
    "audited",
    "columns_of",
    "count_for_nothing",
    "count_twice",
    "fitting",
    "price_as_one_table",
    "refused",
]

COLUMNS = ("city", "age", "pay", "day", "sold")
FEW = ("city", "age")
"""For models of all cells at once where nothing is declared."""
SLICED = ("slice_fdiv", "slice_wass", "slicing")
"""Methods that release every row with noise, whose number is public."""
QUICK = TINY | TRAINED | {"merf": lambda: Merf(network=TINY["network"](), features=16)}
NAMES = [pytest.param(name, marks=NEEDS_TORCH if METHODS[name].fitter in QUICK else ()) for name in METHODS]
"""All named methods; those that need PyTorch are skipped without it."""


def columns_of(method: str, whole: bool) -> tuple[str, ...]:
    """The columns that a method is run on: all of them, unless its model would have too many cells."""
    return COLUMNS if whole or method not in ("mwem", "vpmw") else FEW


def refused(method: str, adjacency: Adjacency, k: int) -> bool:
    """Whether the method protects no such neighbours, and says so before it looks at any row."""
    if method in SLICED:
        return adjacency == "add_remove" or k > 0
    return method in ("dpsgd_gan", "tabddpm") and (adjacency != "add_remove" or k > 1)


def _parts(method: str) -> dict[str, Any]:
    """Fewer rounds and rough models: what is asked at the door has the same forms."""
    strategy, fitter = METHODS[method].strategy(), METHODS[method].fitter
    parts: dict[str, Any] = {}
    if isinstance(strategy, AIM | TopQ):
        parts["select"] = dataclasses.replace(strategy, rounds=6 if method.startswith("aim") else 3)
    if isinstance(strategy, JAM | VerticalRounds):
        parts["select"] = dataclasses.replace(strategy, rounds=3, degree=2)
    if isinstance(strategy, MeanEmbedding):
        parts["select"] = dataclasses.replace(strategy, frequencies=20)
    if isinstance(strategy, Training):
        parts["select"] = dataclasses.replace(strategy, steps=12, rate=Fraction(1, 4))
    if isinstance(strategy, Votes):
        parts["select"] = dataclasses.replace(strategy, rounds=4)
    if fitter in QUICK:
        parts["model"] = QUICK[fitter]()
    return parts


def fitting(
    data: Any, method: str, columns: Iterable[str], adjacency: Adjacency, k: int, *, whole: bool, **more: Any
) -> Run:
    """A run of a method.

    Args:
        data: What `Synthesizer.fit` takes, or a table that was opened beforehand (`Opened`).
        method: Its name.
        columns: Of the table, the owners' column left out.
        adjacency: As for `Synthesizer`.
        k: Rows kept of an owner; 0 where rows are protected.
        whole: Whether all columns are declared; else nothing is.
        more: Other arguments of `Synthesizer`.
    """
    options: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-6, **_parts(method), **more}
    if whole and "schema" not in options:
        options["schema"] = twin_tables.declared(tuple(columns))
    unit = twin_tables.neighbours(adjacency, k, more.get("public", ())).unit

    def run(on_step: Any) -> Any:
        synthesizer = Synthesizer(method, unit=unit, adjacency=adjacency, on_step=on_step, **options)
        return synthesizer.fit(data)

    return run


def audited(first: Run, *others: Run, rows: int | None = None, seed: int = 0) -> tuple[Tape, list[str]]:
    """A recorded run, and what its replays on neighbouring tables show that no event pays for."""
    tape = record(first, seed)
    found = [finding for other in others for finding in findings(tape, replay(other, tape, seed), rows)]
    return tape, found


@dataclass(frozen=True)
class LookAudit:
    """The audit of one look of discovery, where there is something to be found.

    Args:
        columns: Of the tables, the owners' column left out.
        row: The row of an owner by a fixed rule; each owner has one.
        odd: What the last owner's rows have in place of that, by what is odd about them.
        types: Of the columns that are not text.
        owners: How many others there are.
        epsilon: Of each run, large enough for the look to find what is there.
    """

    columns: tuple[str, ...]
    row: Callable[[int], dict[str, Any]]
    odd: Mapping[str, dict[str, Any]]
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    owners: int = 600
    epsilon: float = 40.0

    def pair(self, kind: str, adjacency: Adjacency, k: int) -> tuple[pa.Table, pa.Table]:
        """Two tables, and in the second the rows of one owner more, or in place of another's."""
        last = "z-last"
        shared = [{"who": f"o{owner}", **self.row(owner)} for owner in range(self.owners)]
        odd = [{"who": last, **self.row(0), **self.odd[kind]}] * max(k, 1)
        other = [] if adjacency == "add_remove" else [{"who": last, **self.row(1)}] * max(k, 1)
        names = [*self.columns, *(["who"] if k else [])]
        first, second = (
            pa.table({n: pa.array([row[n] for row in rows], self.types.get(n, pa.string())) for n in names})
            for rows in (shared + other, shared + odd)
        )
        return first, second

    def run(self, kinds: Sequence[str], adjacency: Adjacency, k: int) -> tuple[list[str], list[str]]:
        """What the run asked for, and the findings."""
        pairs = [self.pair(kind, adjacency, k) for kind in kinds]

        def fit(data: Any) -> Run:
            return fitting(data, "independent", self.columns, adjacency, k, whole=False, epsilon=self.epsilon)

        rows = self.owners + max(k, 1)
        tape, found = audited(fit(pairs[0][0]), *(fit(second) for _, second in pairs), rows=rows)
        assert tape.error is None
        return [event.what for question in tape.questions for event in question.events], found


def price_as_one_table(patch: pytest.MonkeyPatch) -> None:
    """A fault: all tables of a look for the price of one."""
    patch.setattr(Gaussian, "joint", lambda self, tables: self)


def count_rules_twice(patch: pytest.MonkeyPatch) -> None:
    """A fault: a row in two cells of the table of a rule about dates."""
    true = MemorySource.agreements
    patch.setattr(
        MemorySource,
        "agreements",
        lambda self, *asked: [Counts(counts.reveal() * 2) for counts in true(self, *asked)],
    )


def count_twice(patch: pytest.MonkeyPatch, counts: Callable[..., bool] = lambda *asked: True) -> None:
    """A fault: a row in two cells of a table of differences.

    Args:
        patch: Undoes it.
        counts: Whether a table with such arguments of `count_relation` has the fault.
    """
    true = relative.count_relation

    def count(*args: Any) -> Any:
        found = true(*args)
        return found + np.roll(found, 1) if counts(*args) else found

    patch.setattr("margrave.engines.memory.count_relation", count)


def count_for_nothing(patch: pytest.MonkeyPatch, word: str) -> None:
    """A fault: an exact count of a look of several tables whose name has a word, asked beside the ledger."""
    true = Relations._compare_all

    def compare(self: Any, what: str, asked: Any, rho: Any) -> Any:
        if word in what:
            self._count_differences(*asked[0])
        return true(self, what, asked, rho)

    patch.setattr(Relations, "_compare_all", compare)
