"""GUM: rows that are moved, table by table, until they have the released marginals.

Zhang, Wang, Li, Honorio, Backes, He, Chen and Zhang 2021, "PrivSyn: Differentially Private Data Synthesis",
section 5 (consistency, then the gradually update method).

The compiled loop comes first: one table's counts are brought nearer to its target by moving whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.compiled import compile_kernel
from margrave.models._sampling.rows import RowModel, ruled_rows
from margrave.models._sampling.streams import fresh_state, shuffle, uniform
from margrave.models.rowwise.targets import STARTS, TargetEstimator, Targets

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Rows = NDArray[Any]
State = NDArray[np.uint64]

HALVINGS = 50
"""Bisections for the share of rows that leave cells with too many."""


@compile_kernel
def distance(columns: Rows, attributes: Longs, sizes: Longs, target: Floats) -> float:
    """The L1 distance between a table of the rows and its target, in rows."""
    counts = np.zeros(len(target), dtype=np.int64)
    for row in range(columns.shape[1]):
        counts[_cell(columns, attributes, sizes, row)] += 1
    return float(np.abs(counts - target).sum())


@compile_kernel
def update(
    columns: Rows,
    attributes: Longs,
    sizes: Longs,
    target: Floats,
    alpha: float,
    copied: float,
    fresh: bool,
    state: State,
) -> float:
    """Move rows from cells with too many to cells with too few; return the L1 distance before, in rows.

    Args:
        columns: Codes, shape [names, rows], changed.
        attributes: The table's attributes, places in `columns`.
        sizes: Codes of each of them.
        target: Counts wanted in each cell, summing to the rows, shape [cells].
        alpha: What a cell may gain at most, over what it has or, where that is nothing, over its target.
        copied: Share of gains that are copies of whole rows; of the others only these attributes change.
        fresh: Whether cells that are empty may gain rows.
        state: Of the random numbers.
    """
    rows, cells = columns.shape[1], len(target)
    keys, firsts = np.empty(rows, dtype=np.int64), np.zeros(cells + 1, dtype=np.int64)
    # Count the rows of each cell, one place further on, so that cumulated sums become starting points.
    for row in range(rows):
        keys[row] = _cell(columns, attributes, sizes, row)
        firsts[keys[row] + 1] += 1
    # What each cell is to gain and lose follows from the counts before they become starting points.
    gains, losses, away = _wanted_changes(firsts[1:], target, alpha, fresh)
    for cell in range(cells):
        firsts[cell + 1] += firsts[cell]
    if gains.sum() <= 0.0:
        return away
    # Rows in order of their cells: a counting sort.
    order, ends = np.empty(rows, dtype=np.int64), firsts[:-1].copy()
    for row in range(rows):
        order[ends[keys[row]]] = row
        ends[keys[row]] += 1
    victims = _victims(order, firsts, _whole(losses, state), state)
    shuffle(victims, len(victims), state)
    _place(columns, attributes, sizes, victims, _whole(gains, state), order, firsts, copied, state)
    return away


@compile_kernel
def _place(
    columns: Rows,
    attributes: Longs,
    sizes: Longs,
    victims: Longs,
    added: Longs,
    order: Longs,
    firsts: Longs,
    copied: float,
    state: State,
) -> None:
    """Put victims into cells, empty ones first."""
    taken = 0
    # Empty cells have no row to copy, so they take the first victims.
    for empty in (True, False):
        for cell in range(len(added)):
            if added[cell] == 0 or (firsts[cell] == firsts[cell + 1]) != empty:
                continue
            # Rounding can leave one victim too few.
            more = min(added[cell], len(victims) - taken)
            copies = 0 if empty else min(int(more * copied + uniform(state)), more)
            moving = victims[taken : taken + more]
            _fill(columns, attributes, sizes, cell, moving, order, firsts, copies, state)
            taken += more


@compile_kernel
def _cell(columns: Rows, attributes: Longs, sizes: Longs, row: int) -> int:
    cell = 0
    for k in range(len(attributes)):
        cell = cell * sizes[k] + int(columns[attributes[k], row])
    return int(cell)


@compile_kernel
def _wanted_changes(counts: Longs, target: Floats, alpha: float, fresh: bool) -> tuple[Floats, Floats, float]:
    """Rows each cell is to gain and to lose, equal in all, and the L1 distance to the target.

    A cell within a row of its target is left alone: to move its rows would cost other tables more than it
    helps.
    """
    gains, losses, away = np.zeros(len(target)), np.zeros(len(target)), 0.0
    for cell in range(len(target)):
        gap = target[cell] - counts[cell]
        away += abs(gap)
        if gap >= 1.0 and counts[cell] > 0:
            # A cell that has rows may grow by alpha times what it has; an empty one by alpha times its gap.
            gains[cell] = min(np.floor(gap), alpha * counts[cell])
        elif gap >= 1.0 and fresh:
            gains[cell] = alpha * np.floor(gap)
        elif gap <= -1.0:
            losses[cell] = np.floor(-gap)
    wanted, there, low, high = gains.sum(), losses.sum(), 0.0, 1.0
    # Fewer rows can leave than are wanted: all gains shrink alike.
    if wanted >= there:
        return gains * (there / max(wanted, 1.0)), losses, away
    # More can leave than are wanted: the share beta of each cell that leaves, by bisection.
    for _ in range(HALVINGS):
        beta, lost = 0.5 * (low + high), 0.0
        for cell in range(len(target)):
            lost += min(losses[cell], beta * counts[cell])
        if lost < wanted:
            low = beta
        else:
            high = beta
    for cell in range(len(target)):
        losses[cell] = min(losses[cell], high * counts[cell])
    return gains, losses, away


@compile_kernel
def _whole(amounts: Floats, state: State) -> Longs:
    """Whole numbers within 1 of the amounts, each expected to be its amount; sums are kept to within 1."""
    found, reached, given = np.zeros(len(amounts), dtype=np.int64), uniform(state), 0
    for cell in range(len(amounts)):
        # The running sum starts at a uniform number, so that each cell's whole part is right on average.
        reached += amounts[cell]
        found[cell] = int(reached) - given
        given += found[cell]
    return found


@compile_kernel
def _victims(order: Longs, firsts: Longs, leaving: Longs, state: State) -> Longs:
    """Rows drawn from each cell without replacement, as many as leave it."""
    found, count = np.empty(leaving.sum(), dtype=np.int64), 0
    for cell in range(len(leaving)):
        first, last = firsts[cell], firsts[cell + 1]
        for k in range(min(leaving[cell], last - first)):
            # The first steps of a shuffle: rows of the cell, drawn without replacement.
            other = first + k + int(uniform(state) * (last - first - k))
            order[first + k], order[other] = order[other], order[first + k]
            found[count] = order[first + k]
            count += 1
    return found[:count]


@compile_kernel
def _fill(
    columns: Rows,
    attributes: Longs,
    sizes: Longs,
    cell: int,
    victims: Longs,
    order: Longs,
    firsts: Longs,
    copies: int,
    state: State,
) -> None:
    """Put victims into a cell: the first of them as copies of rows there, the others with its codes."""
    there = firsts[cell + 1] - firsts[cell]
    for k in range(copies):
        source = order[firsts[cell] + int(uniform(state) * there)]
        for name in range(columns.shape[0]):
            columns[name, victims[k]] = columns[name, source]
    # The others take the codes of the cell, from its number in the table.
    rest = cell
    for axis in range(len(attributes) - 1, -1, -1):
        code = rest % sizes[axis]
        rest //= sizes[axis]
        for k in range(copies, len(victims)):
            columns[attributes[axis], victims[k]] = code


DECAY, ROUNDS_A_DECAY = 0.84, 20
"""alpha is DECAY^floor(t / ROUNDS_A_DECAY) in iteration t: the schedule of PrivSyn's code."""
ROUGH_ITERATIONS, ROUGH_ROWS = 12, 20_000
"""What a fit between the rounds of an adaptive strategy has at most."""


@dataclass(frozen=True, slots=True)
class GUM(TargetEstimator):
    """A table of rows with the measured marginals, found by moving rows from full cells to empty ones.

    1. *Consistency* (`margrave.models.rowwise.targets`): all tables sum to the rows and agree on what they
       share, weighted by precision; negative counts are cut; both are repeated.
    2. *Start*: rows drawn attribute by attribute, each given what a table ties it to.
    3. *Updates*, `iterations` times: tables in the order of their last L1 error; each draws rows at random
       from its cells with too many and puts them into its cells with too few, which grow by a share alpha
       of what they have at most, alpha falling from 1. Empty cells get rows by changing the table's
       attributes only; of the others' gains half, and in every other iteration all, are copies of whole
       rows of the cell.

    Differences from the public code: rows do not start "scattered", with the one-ways and paired at random;
    cells within a row of their target are left alone; gains and losses are rounded at random to whole rows,
    which never stalls where rounding to the nearest does; negative counts are cut by the nearest table that
    has none (norm-sub), which is not biased against rare cells as zeroing the smallest is; tables that lie
    in others are left to them once all agree; and a table's place in the order is by its error when it was
    last updated.

    Rows that break rules are replaced by rows that obey, after which whole rows are copied only. Attributes
    in no table are uniform and independent of all else.

    **Privacy.** Sees released marginals only: post-processing.

    Args:
        iterations: Passes over all tables.
        start: Rows to begin with: "linked" by the tables, "scattered" with the one-ways, or "uniform".
        rows: Rows of the table; None for the rows it stands for, between 10,000 and max_rows.
        max_rows: Rows of the table, at most.
        max_cells: Cells of all tables together, at most.
        max_memory: Bytes that the program may take with the model and what works on it, the loaded table
            aside; lowers max_rows and max_cells to what fits.
        seed: Of the moves.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a", "b"), (2, 2))
        >>> table = NoisyMarginal(("a", "b"), np.array([[500.0, 100.0], [100.0, 300.0]]), 1.0)
        >>> GUM().fit(domain, [table]).project(("a", "b")).round().tolist()
        [[500.0, 100.0], [100.0, 300.0]]
    """

    iterations: int = 50
    start: str = "linked"
    rows: int | None = None
    max_rows: int = 1 << 20
    max_cells: int = 1 << 25
    max_memory: int | None = None
    seed: int = 0
    name: ClassVar[str] = "gum"
    fit_seconds: ClassVar[float] = 4e-3
    options: ClassVar[frozenset[str]] = frozenset({"max_memory"})

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InputError(invalid("iterations", "at least 1", "Try 50.", got=self.iterations))
        if self.start not in STARTS:
            raise InputError(invalid("start", f"one of {sorted(STARTS)}", "Try linked.", got=self.start))
        self.room  # noqa: B018 - checks the limits

    def generate(self, wanted: Targets, effort: Effort = FULL) -> RowModel:
        """Rows that meet targets, however those came about: steps 2 and 3.

        A rough fit has fewer rows and iterations. After the effort's deadline no iteration begins.
        """
        rng = np.random.default_rng(self.seed)
        rows = self.room.rows_for(wanted.total, len(wanted.names), ROUGH_ROWS if effort.rough else None)
        columns = STARTS[self.start](wanted, rows, rng)
        iterations = min(self.iterations, ROUGH_ITERATIONS) if effort.rough else self.iterations
        move_rows(wanted, columns, iterations, rng, effort)
        return finish_rows(wanted, columns, iterations, rng, effort)


def finish_rows(
    wanted: Targets, columns: Rows, iterations: int, rng: np.random.Generator, effort: Effort
) -> RowModel:
    """The model of some rows; those that break rules are replaced first, and whole rows copied after that."""
    model = RowModel(wanted.domain, wanted.total, wanted.names, columns)
    if wanted.domain.rules is None:
        return model
    columns = ruled_rows(model, rng)
    move_rows(wanted, columns, iterations, rng, effort, whole=True)
    return RowModel(wanted.domain, wanted.total, wanted.names, columns)


def move_rows(
    wanted: Targets,
    columns: Rows,
    iterations: int,
    rng: np.random.Generator,
    effort: Effort = FULL,
    whole: bool = False,
) -> Floats:
    """GUM's updates on rows, in place; returns the L1 error of each table after them, in rows of `columns`.

    Args:
        wanted: Consistent tables.
        columns: Codes, shape [names, rows].
        iterations: Passes over all tables.
        rng: Source of randomness.
        effort: After its deadline no pass begins.
        whole: Only copy whole rows, so that no combination comes up that was not there.
    """
    places = [np.array([wanted.names.index(n) for n in clique], np.int64) for clique in wanted.cliques]
    sizes = [np.array(wanted.domain.shape(clique), np.int64) for clique in wanted.cliques]
    # Targets are scaled to the number of rows that are moved.
    rows = columns.shape[1]
    goals = [table.ravel() * (rows / max(float(table.sum()), 1e-300)) for table in wanted.tables]
    parts, state = list(zip(places, sizes, goals, strict=True)), fresh_state(rng)
    errors = np.array([distance(columns, *part) for part in parts])
    for t in range(iterations):
        if effort.over:
            break
        # Every other pass copies whole rows only, which keeps what no table speaks of.
        alpha, copied = DECAY ** (t // ROUNDS_A_DECAY), 1.0 if whole or t % 2 else 0.5
        # The worst table first: rows that are moved for it are then moved as little as possible by the
        # others.
        for k in np.argsort(-errors, kind="stable").tolist():
            attributes, shape, goal = parts[k]
            errors[k] = update(columns, attributes, shape, goal, alpha, copied, not whole, state)
    return np.array([distance(columns, *part) for part in parts])
