"""Genetic: rows changed code by code, by mutation and crossing, towards the released marginals.

Liu, Tang, Vietri and Wu 2023, "Generating Private Synthetic Data with Genetic Algorithms" (arXiv 2306.03257).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models.rounding import fresh_state
from margrave.models.rowwise.genetic_kernels import OPERATORS, Tables, counted, search
from margrave.models.rowwise.gum import finished
from margrave.models.rowwise.model import RowModel, recalled
from margrave.models.rowwise.room import Room
from margrave.models.rowwise.starting import STARTS
from margrave.models.rowwise.targets import Targets, targets
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

__all__ = ["Genetic", "Search"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Rows = NDArray[Any]

FLOOR = 0.05
"""Share of proposals that all operators have alike; the others go to them in proportion to their success."""
BURSTS, MEMORY = 10, 0.7
"""Bursts of proposals in a round, and how long success is remembered, in bursts."""
COPIES = 50
"""Passes in which whole rows are copied after rules have replaced some."""
ROUGH, ROUGH_ROWS = 10.0, 10_000
"""How much sooner a fit between the rounds of an adaptive strategy ends, and its rows at most."""


@dataclass(frozen=True, slots=True)
class Genetic:
    """A table of rows searched for by edits of single codes: needs no gradient and no structure.

    The fitness is  sum over tables of precision * sum over cells of (count - target)^2, on consistent targets
    (`margrave.models.rowwise.targets`). An edit changes one cell of each table that holds its attribute to
    another, so that the fitness moves by a sum over those tables alone. Five operators propose edits:

    - mutation: a code at random;
    - crossing: the code of another row;
    - swap: two rows exchange a code, which keeps all one-ways;
    - step: a neighbouring code of an ordered attribute (a mutation elsewhere);
    - best: of all codes of an attribute the one that fits best, at the price of judging them all.

    Every proposal is judged against the table as it is and taken if it is fitter. Operators are proposed in
    proportion to the edits taken of late for each code judged, and at least FLOOR / 5 of the time each. The
    search ends when a round of as many proposals as the table has codes lowers the fitness by less than
    `tolerance` of it.

    Differences from the paper: the best of 100 edits of one table a generation, with an archive of elites
    that differ in few cells, has given way to taking every fitter edit at once, which makes the same moves
    in a hundredth of the evaluations; rows start linked by the tables and not uniform (`start`); tables
    weigh by precision.

    Rows that break rules are replaced by rows that obey, and whole rows are then copied towards the targets.

    **Privacy.** Sees released marginals only: post-processing.

    Args:
        tolerance: Relative fall of the fitness in a round at which the search ends, above 0.
        rounds: Rounds at most.
        start: "linked", "scattered" or "uniform".
        rows: Rows of the table; None for the rows it stands for, between 10,000 and max_rows.
        max_rows: Rows of the table, at most.
        max_cells: Cells of all tables together, at most.
        max_memory: Bytes that the program may take with the model and what works on it, the loaded table
            aside; lowers max_rows and max_cells to what fits.
        seed: Of the search.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a", "b"), (2, 2))
        >>> table = NoisyMarginal(("a", "b"), np.array([[500.0, 100.0], [100.0, 300.0]]), 1.0)
        >>> Genetic().fit(domain, [table]).project(("a", "b")).round().tolist()
        [[500.0, 100.0], [100.0, 300.0]]
    """

    tolerance: float = 0.05
    rounds: int = 200
    start: str = "linked"
    rows: int | None = None
    max_rows: int = 1 << 18
    max_cells: int = 1 << 25
    max_memory: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InputError(invalid("rounds", "at least 1", "Try 200.", got=self.rounds))
        if not (np.isfinite(self.tolerance) and self.tolerance > 0):
            raise InputError(invalid("tolerance", "a finite number above 0", "Try 0.05.", got=self.tolerance))
        if self.start not in STARTS:
            raise InputError(invalid("start", f"one of {sorted(STARTS)}", "Try linked.", got=self.start))
        self.room  # noqa: B018 - checks the limits

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "genetic"

    @property
    def room(self) -> Room:
        """Rows and cells it may have."""
        return Room(self.rows, self.max_rows, self.max_cells, self.max_memory)

    @property
    def most_cells(self) -> int:
        """Cells that all tables may have together."""
        return self.room.most_cells

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> RowModel:
        """Rows near to the measured marginals; see the class. `warm` is not used.

        A rough fit has fewer rows and ends sooner. After the effort's deadline no round begins.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many cells.
        """
        self.admit(domain, [m.clique for m in measurements])
        return self.generate(targets(domain, measurements, total), effort)

    def generate(self, wanted: Targets, effort: Effort = FULL) -> RowModel:
        """Rows that meet targets, however those came about."""
        rng = np.random.default_rng(self.seed)
        rows = self.room.rows_for(wanted.total, len(wanted.names), ROUGH_ROWS if effort.rough else None)
        columns = STARTS[self.start](wanted, rows, rng)
        if wanted.names:
            columns = self._searched(wanted, columns, rng, effort)
        return finished(wanted, columns, COPIES, rng, effort)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> RowModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of rows over this domain.
        """
        return recalled(domain, measurements, state)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the tables fit, before anything is measured.

        Raises:
            InputError: They have more cells than max_cells or max_memory allow.
        """
        self.room.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of all tables with each one candidate, infinite where too many: shape [candidates]."""
        return self.room.cells(domain, cliques, candidates)

    def _searched(self, wanted: Targets, columns: Rows, rng: np.random.Generator, effort: Effort) -> Rows:
        found = Search(wanted, columns)
        state, before = fresh_state(rng), found.fitness
        for _ in range(self.rounds):
            if effort.over:
                break
            fell = found.round(columns.size, state)
            if fell <= self.tolerance * (ROUGH if effort.rough else 1.0) * before:
                break
            before -= fell
        return found.columns


class Search:
    """A table of rows with the counts that edits keep up to date.

    Args:
        wanted: Targets.
        columns: Codes to start from, shape [names, rows].
    """

    def __init__(self, wanted: Targets, columns: Rows) -> None:
        self._rows = np.ascontiguousarray(columns.T)
        self._tables = _flat(wanted, columns.shape[1])
        self._goals = -self._tables.over
        counted(self._rows, self._tables)
        self._success = np.ones(OPERATORS)

    @property
    def columns(self) -> Rows:
        """The rows as they are, shape [names, rows]."""
        return np.ascontiguousarray(self._rows.T)

    @property
    def counts(self) -> Longs:
        """Rows in each cell of all tables, one table after another."""
        return np.asarray(np.rint(self._tables.over + self._goals).astype(np.int64))

    @property
    def odds(self) -> Floats:
        """How likely each operator is proposed; at least FLOOR / OPERATORS."""
        shares = self._success / self._success.sum()
        return np.asarray((1.0 - FLOOR) * shares + FLOOR / OPERATORS)

    @property
    def fitness(self) -> float:
        """The weighted squares, in rows of the table."""
        parts = np.split(self._tables.over**2, self._tables.offsets[1:])
        return float(np.dot(self._tables.weights, [float(part.sum()) for part in parts]))

    def round(self, proposals: int, state: NDArray[np.uint64]) -> float:
        """Propose edits, in bursts after which the odds are set anew; by how much the fitness fell."""
        fell = 0.0
        for _ in range(BURSTS):
            tally = np.zeros((2, OPERATORS), np.int64)
            fell += search(self._rows, self._tables, self.odds, max(proposals // BURSTS, 1), tally, state)
            rates = (tally[1] + 1.0) / (tally[0] + OPERATORS)
            self._success = MEMORY * self._success + (1.0 - MEMORY) * rates
        return fell


def _flat(wanted: Targets, rows: int) -> Tables:
    """The targets for a number of rows as flat arrays, nothing counted yet."""
    domain, names, cliques = wanted.domain, wanted.names, wanted.cliques
    shapes = [domain.shape(clique) for clique in cliques]
    strides = [[math.prod(shape[k + 1 :]) for k in range(len(shape))] for shape in shapes]
    held = [[t for t, clique in enumerate(cliques) if name in clique] for name in names]
    steps = [strides[t][cliques[t].index(name)] for name, own in zip(names, held, strict=True) for t in own]
    goals = np.concatenate([np.zeros(0), *(table.ravel() for table in wanted.tables)])
    weights = np.array(wanted.precisions)
    return Tables(
        sizes=_longs(domain.shape(names)),
        ordered=_longs([domain.ordered[domain.index(name)] for name in names]),
        parts=_longs(np.cumsum([0, *(len(clique) for clique in cliques)])),
        places=_longs([names.index(name) for clique in cliques for name in clique]),
        strides=_longs([step for own in strides for step in own]),
        offsets=_longs(np.cumsum([0, *(math.prod(shape) for shape in shapes)])[: len(cliques)]),
        ties=_longs(np.cumsum([0, *(len(own) for own in held)])),
        tied=_longs([t for own in held for t in own]),
        steps=_longs(steps),
        over=-goals * (rows / wanted.total),
        weights=weights / weights.max() if len(weights) else weights,
    )


def _longs(values: Any) -> Longs:
    return np.array(values, dtype=np.int64)
