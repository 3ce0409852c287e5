"""Genetic: rows changed code by code, by mutation and crossing, towards the released marginals.

Liu, Tang, Vietri and Wu 2023, "Generating Private Synthetic Data with Genetic Algorithms" (arXiv 2306.03257).

The compiled loop comes first: single codes are changed while that brings the rows nearer to the tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.compiled import compile_kernel
from margrave.models._sampling.rows import RowModel
from margrave.models._sampling.streams import fresh_state, uniform
from margrave.models.rowwise.gum import finish_rows
from margrave.models.rowwise.targets import STARTS, TargetEstimator, Targets

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Rows = NDArray[Any]
State = NDArray[np.uint64]

MUTATE, CROSS, SWAP, STEP, BEST = 0, 1, 2, 3, 4
OPERATORS = 5
"""A code at random, another row's code, two rows' codes exchanged, a neighbour among ordered codes, and the
code that fits best of all."""
MIN_GAIN = 1e-9
"""Gains below this are rounding."""


class Tables(NamedTuple):
    """All tables as flat arrays.

    Args:
        sizes, ordered: Codes of each attribute, and how many of them stand in order.
        parts: Where each table's attributes begin in `places`, and the end of the last, shape [tables + 1].
        places, strides: Attributes of each table, and what a step of each moves the cell by.
        offsets: Where each table's cells begin in `over`.
        ties: Where each attribute's tables begin in `tied`, and the end of the last, shape [names + 1].
        tied, steps: The tables of each attribute, and the attribute's stride in each.
        over: By how much each cell has more than it should: a count less a goal, exact to a billionth.
        weights: Of each table's squares.
    """

    sizes: Longs
    ordered: Longs
    parts: Longs
    places: Longs
    strides: Longs
    offsets: Longs
    ties: Longs
    tied: Longs
    steps: Longs
    over: Floats
    weights: Floats


@compile_kernel
def count_rows(rows: Rows, tables: Tables) -> None:
    """Add rows of shape [rows, names] to all tables."""
    for row in range(rows.shape[0]):
        for table in range(len(tables.offsets)):
            tables.over[_cell(rows, row, table, tables)] += 1.0


@compile_kernel
def search(rows: Rows, tables: Tables, odds: Floats, proposals: int, tally: Longs, state: State) -> float:
    """Propose edits, take each that lowers the weighted squares; return how much they fell.

    Args:
        rows: Codes, shape [rows, names], changed.
        tables: With the counts of the rows, kept up to date.
        odds: Probability of each operator.
        proposals: How many.
        tally: Of each operator, codes judged and edits taken, added to: shape [2, operators].
        state: Of the random numbers.
    """
    fell = 0.0
    number, names = rows.shape
    change = np.empty(tables.sizes.max())
    for _ in range(proposals):
        # Pick an operator by its probability, then a row, a column and a second row.
        point, operator = uniform(state), 0
        while operator < OPERATORS - 1 and point >= odds[operator]:
            point -= odds[operator]
            operator += 1
        row, name = int(uniform(state) * number), int(uniform(state) * names)
        other = int(uniform(state) * number)
        # `tally` counts codes judged: the probabilities follow what each judgement gains.
        tally[0, operator] += 1
        if operator == SWAP:
            tally[0, operator] += 1
            gain = _swap_if_better(rows, row, other, name, tables)
        elif operator == BEST:
            tally[0, operator] += tables.sizes[name] - 1
            gain = _change_if_better(rows, row, name, _fittest(rows, row, name, tables, change), tables)
        else:
            code = _propose_code(rows, operator, row, other, name, tables, state)
            gain = _change_if_better(rows, row, name, code, tables)
        if gain > 0.0:
            tally[1, operator] += 1
            fell += gain
    return fell


@compile_kernel
def _propose_code(
    rows: Rows, operator: int, row: int, other: int, name: int, tables: Tables, state: State
) -> int:
    """The code an operator would give a row."""
    old = int(rows[row, name])
    if operator == CROSS:
        return int(rows[other, name])
    if operator == STEP and old < tables.ordered[name]:
        near = old + (1 if uniform(state) < 0.5 else -1)
        return near if 0 <= near < tables.ordered[name] else old
    # A code at random may be the old one, which is judged as no change.
    return int(uniform(state) * tables.sizes[name])


@compile_kernel
def _fittest(rows: Rows, row: int, name: int, tables: Tables, change: Floats) -> int:
    """The code of an attribute that leaves the least squares; change: room for one number a code."""
    own, size = int(rows[row, name]), tables.sizes[name]
    change[:size] = 0.0
    for k in range(tables.ties[name], tables.ties[name + 1]):
        step = tables.steps[k]
        cell = _cell(rows, row, tables.tied[k], tables)
        weight, start, here = tables.weights[tables.tied[k]], cell - own * step, tables.over[cell]
        for code in range(size):
            # The change of a square, (over + 1)^2 - over^2 less what leaving the own cell saves, up to the
            # same factor for all codes.
            change[code] += weight * (tables.over[start + code * step] - here + 1.0)
    # The own code needs no move and changes nothing.
    change[own] = 0.0
    return int(np.argmin(change[:size]))


@compile_kernel
def _change_if_better(rows: Rows, row: int, name: int, code: int, tables: Tables) -> float:
    """Give a row a code if that helps; return by how much the squares fell, 0 if it was not done."""
    if code == int(rows[row, name]):
        return 0.0
    gain = -_change(rows, row, name, code, tables)
    if gain <= MIN_GAIN:
        return 0.0
    _make(rows, row, name, code, tables)
    return gain


@compile_kernel
def _swap_if_better(rows: Rows, row: int, other: int, name: int, tables: Tables) -> float:
    """As `_change_if_better`, for two rows that exchange their codes."""
    one, two = int(rows[row, name]), int(rows[other, name])
    if one == two:
        return 0.0
    gain = -_change(rows, row, name, two, tables)
    # The second half is judged after the first: both may touch the same cells.
    _make(rows, row, name, two, tables)
    gain -= _change(rows, other, name, one, tables)
    if gain <= MIN_GAIN:
        _make(rows, row, name, one, tables)
        return 0.0
    _make(rows, other, name, one, tables)
    return gain


@compile_kernel
def _cell(rows: Rows, row: int, table: int, tables: Tables) -> int:
    cell = tables.offsets[table]
    for k in range(tables.parts[table], tables.parts[table + 1]):
        cell += int(rows[row, tables.places[k]]) * tables.strides[k]
    return int(cell)


@compile_kernel
def _change(rows: Rows, row: int, name: int, code: int, tables: Tables) -> float:
    """By how much the weighted squares would change with one code."""
    move, change = code - int(rows[row, name]), 0.0
    for k in range(tables.ties[name], tables.ties[name + 1]):
        cell = _cell(rows, row, tables.tied[k], tables)
        to = cell + move * tables.steps[k]
        # (n - 1 - t)^2 - (n - t)^2 + (m + 1 - u)^2 - (m - u)^2
        change += tables.weights[tables.tied[k]] * (tables.over[to] - tables.over[cell] + 1.0)
    # Squares change by twice the difference of excesses plus one, each weighed by its table.
    return 2.0 * change


@compile_kernel
def _make(rows: Rows, row: int, name: int, code: int, tables: Tables) -> None:
    """Give a row a code and count it."""
    move = code - int(rows[row, name])
    for k in range(tables.ties[name], tables.ties[name + 1]):
        cell = _cell(rows, row, tables.tied[k], tables)
        tables.over[cell] -= 1.0
        tables.over[cell + move * tables.steps[k]] += 1.0
    rows[row, name] = code


FLOOR = 0.05
"""Share of proposals that all operators have alike; the others go to them in proportion to their success."""
BURSTS, MEMORY = 10, 0.7
"""Bursts of proposals in a round, and how long success is remembered, in bursts."""
COPIES = 50
"""Passes in which whole rows are copied after rules have replaced some."""
ROUGH, ROUGH_ROWS = 10.0, 10_000
"""How much sooner a fit between the rounds of an adaptive strategy ends, and its rows at most."""


@dataclass(frozen=True, slots=True)
class Genetic(TargetEstimator):
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
    name: ClassVar[str] = "genetic"
    fit_seconds: ClassVar[float] = 2e-2
    options: ClassVar[frozenset[str]] = frozenset({"max_memory"})

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InputError(invalid("rounds", "at least 1", "Try 200.", got=self.rounds))
        if not (np.isfinite(self.tolerance) and self.tolerance > 0):
            raise InputError(invalid("tolerance", "a finite number above 0", "Try 0.05.", got=self.tolerance))
        if self.start not in STARTS:
            raise InputError(invalid("start", f"one of {sorted(STARTS)}", "Try linked.", got=self.start))
        self.room  # noqa: B018 - checks the limits

    def generate(self, wanted: Targets, effort: Effort = FULL) -> RowModel:
        """Rows that meet targets, however those came about.

        A rough fit has fewer rows and ends sooner. After the effort's deadline no round begins.
        """
        rng = np.random.default_rng(self.seed)
        rows = self.room.rows_for(wanted.total, len(wanted.names), ROUGH_ROWS if effort.rough else None)
        columns = STARTS[self.start](wanted, rows, rng)
        if wanted.names:
            columns = self._search_rows(wanted, columns, rng, effort)
        return finish_rows(wanted, columns, COPIES, rng, effort)

    def _search_rows(self, wanted: Targets, columns: Rows, rng: np.random.Generator, effort: Effort) -> Rows:
        found = Search(wanted, columns)
        state, before = fresh_state(rng), found.fitness
        for _ in range(self.rounds):
            if effort.over:
                break
            fell = found.round(columns.size, state)
            # Rounds gain less and less; a rough fit ends when they gain little.
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
        # Goals in the units of rows; `over` begins at minus the goals and counting adds the rows.
        self._goals = -self._tables.over
        count_rows(self._rows, self._tables)
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
        # Table by table, as each has a weight of its own.
        parts = np.split(self._tables.over**2, self._tables.offsets[1:])
        return float(np.dot(self._tables.weights, [float(part.sum()) for part in parts]))

    def round(self, proposals: int, state: NDArray[np.uint64]) -> float:
        """Propose edits, in bursts after which the odds are set anew; by how much the fitness fell."""
        fell = 0.0
        for _ in range(BURSTS):
            tally = np.zeros((2, OPERATORS), np.int64)
            fell += search(self._rows, self._tables, self.odds, max(proposals // BURSTS, 1), tally, state)
            # One success and OPERATORS judgements in advance, so that no rate is 0 or undefined.
            rates = (tally[1] + 1.0) / (tally[0] + OPERATORS)
            self._success = MEMORY * self._success + (1.0 - MEMORY) * rates
        return fell


def _flat(wanted: Targets, rows: int) -> Tables:
    """The targets for a number of rows as flat arrays, nothing counted yet."""
    # A compiled kernel takes no lists of lists: all are laid end to end, with where each begins.
    domain, names, cliques = wanted.domain, wanted.names, wanted.cliques
    shapes = [domain.shape(clique) for clique in cliques]
    strides = [[math.prod(shape[k + 1 :]) for k in range(len(shape))] for shape in shapes]
    held = [[t for t, clique in enumerate(cliques) if name in clique] for name in names]
    # What a step in an attribute's code moves in each of its tables.
    steps = []
    for name, own in zip(names, held, strict=True):
        steps += [strides[t][cliques[t].index(name)] for t in own]
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
        # Relative to the sharpest table, so that MIN_GAIN means the same everywhere.
        weights=weights / weights.max() if len(weights) else weights,
    )


def _longs(values: Any) -> Longs:
    return np.array(values, dtype=np.int64)
