"""Residual: marginals rebuilt from all noisy tables at once, in closed form, and rows that have them.

`combine_tables` finds the best unbiased marginals from all noisy ones, and `local` the nearest that are
counts:

Mullins, Fuentes, Xiao, Kifer, Musco and Sheldon 2024, "Efficient and Private Marginal Reconstruction with
Local Non-Negativity" (arXiv 2410.01091): GReM-MLE and GReM-LNN.

A marginal is a sum of residuals, one for each set of its attributes, so that no junction tree is needed. The
residual of a table of counts over a set T of its attributes is what it says about them that no smaller set
says: summed over all other attributes, then centred along every attribute of T. Residuals over different sets
are orthogonal, and together they are the table (analysis of variance). In the terms of Xiao, He, Zhang and
Kifer 2023, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions" (arXiv
2305.08175), the residual here is Sub^+ Sub applied along the attributes of T: same information, no choice of
Sub.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.constraints import find_allowed
from margrave.models._base.memory import Room
from margrave.models._base.pooling import Pooled
from margrave.models._sampling.rows import RowEstimator, RowModel
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.targets import Targets, gather_targets
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model

Floats = NDArray[np.float64]


def subsets(clique: Clique) -> Iterator[Clique]:
    """All subsets of a clique, the empty one first, in the clique's order."""
    for size in range(len(clique) + 1):
        yield from combinations(clique, size)


def others(table: Floats, clique: Clique, part: Clique) -> int:
    """Cells of the attributes of a table that are not in a part of its clique."""
    return math.prod(size for size, name in zip(table.shape, clique, strict=True) if name not in part)


def residual(table: Floats, clique: Clique, part: Clique) -> Floats:
    """The residual of a table over part of its attributes, shape [sizes of the part].

    Example:
        >>> residual(np.array([[4.0, 2.0], [1.0, 1.0]]), ("a", "b"), ("a",)).tolist()
        [2.0, -2.0]
    """
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in part))
    # Centring along every attribute leaves what no smaller set says.
    for axis in range(len(part)):
        summed = summed - summed.mean(axis=axis, keepdims=True)
    return np.asarray(summed)


def rebuilt(parts: Mapping[Clique, Floats], clique: Clique, shape: tuple[int, ...]) -> Floats:
    """The table over a clique from its residuals; those that are missing count as 0.

    A residual is spread evenly over the attributes it does not hold.

    Args:
        parts: By set of attributes, in the clique's order.
        clique, shape: Of the table.
    """
    table = np.zeros(shape)
    for part in subsets(clique):
        if part in parts:
            wide = [size if name in part else 1 for size, name in zip(shape, clique, strict=True)]
            # A residual's share of each cell: spread evenly over the attributes that it lacks.
            share = parts[part] / others(table, clique, part)
            table += share.reshape(wide)
    return table


NEGATIVE_TOLERANCE = 1e-4
"""Negative counts that are left, over the rows, at which the ascent ends."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals with their precisions.

    Args:
        values: By set of attributes, in the domain's order.
        precisions: One over the variance that noise has along each direction of a residual.
    """

    values: Mapping[Clique, Floats]
    precisions: Mapping[Clique, float]


def combine_tables(tables: Sequence[Pooled], total: float | None = None) -> Residuals:
    """Generalised least squares over all tables, in closed form (GReM-MLE).

    A table with independent noise of variance s^2 a cell says of the residual over T what it is with noise of
    variance s^2 times the cells of its other attributes along every direction, independently for different
    T; so each residual is the mean of what the tables say, weighted by precision. Where a table's cells
    differ in s^2 their mean is taken.

    Args:
        tables: One a clique.
        total: Rows, where that is known without noise.
    """
    sums: dict[Clique, Floats] = {}
    precisions: dict[Clique, float] = {}
    for table in tables:
        variance = float((table.sigma**2).mean())
        # Summing over the other attributes adds up their cells' noise, and centring projects it: along every
        # direction that is left the variance is s^2 times the cells of the other attributes.
        for part in subsets(table.clique):
            weight = 1.0 / (variance * others(table.values, table.clique, part))
            sums[part] = sums.get(part, 0.0) + weight * residual(table.values, table.clique, part)
            precisions[part] = precisions.get(part, 0.0) + weight
    values = {part: value / precisions[part] for part, value in sums.items()}
    # The residual over no attribute is the number of rows.
    if total is not None and () in values:
        # An exact count has no noise, so nothing may move it.
        values[()], precisions[()] = np.asarray(float(total)), math.inf
    return Residuals(values, precisions)


def local(
    best: Residuals,
    shapes: Mapping[Clique, tuple[int, ...]],
    rounds: int,
    stop: Callable[[], bool] = lambda: False,
) -> dict[Clique, Floats]:
    """The tables nearest to the residuals, by their precisions, in which no count is negative (GReM-LNN).

    Minimises  sum over T of precision * |r_T - best_T|^2 / 2  over all residuals whose tables are nowhere
    negative, by accelerated ascent on the dual: with multipliers m >= 0 a cell the best residuals are
    best_T + (sum over tables of residual_T(m) / cells of their other attributes) / precision. Along the
    directions of T the dual's curvature is  sum over tables of 1 / (precision_T * cells of their other
    attributes), so that the step is known exactly.

    Args:
        best: What is unbiased.
        shapes: The tables wanted, by clique; best has all their residuals. Counts still below 0 in them after
            the last step are cut.
        rounds: Steps at most.
        stop: Asked before each.
    """
    # A negative count matters relative to the rows.
    rows = max(float(best.values.get((), np.zeros(()))), 1.0)
    length = _step(best, shapes)
    now = {clique: np.zeros(shape) for clique, shape in shapes.items()}
    ahead, pace = dict(now), 1.0
    tables = _tables(best, ahead)
    for _ in range(rounds):
        negative = max((float(-np.minimum(table, 0.0).sum()) for table in tables.values()), default=0.0)
        if negative <= NEGATIVE_TOLERANCE * rows or stop():
            break
        # A step along the dual gradient, which is the table itself, and back to multipliers of at least 0.
        after = {c: np.maximum(ahead[c] - length * tables[c], 0.0) for c in shapes}
        # Nesterov's sequence: t' = (1 + sqrt(1 + 4 t^2)) / 2, and a push of (t - 1) / t'.
        faster = 0.5 + math.sqrt(0.25 + pace**2)
        push = (pace - 1.0) / faster
        # Momentum is dropped when it points downhill (O'Donoghue and Candes 2015, gradient scheme).
        if sum(float((tables[c] * (after[c] - now[c])).sum()) for c in shapes) > 0.0:
            push, faster = 0.0, 1.0
        ahead = {c: after[c] + push * (after[c] - now[c]) for c in shapes}
        now, pace = after, faster
        tables = _tables(best, ahead)
    return {clique: np.maximum(table, 0.0) for clique, table in tables.items()}


def _step(best: Residuals, shapes: Mapping[Clique, tuple[int, ...]]) -> float:
    """One over the dual's largest curvature."""
    bent = dict.fromkeys(best.values, 0.0)
    for clique, shape in shapes.items():
        # A multiplier reaches the residual over T spread over the cells it was summed from, and weighs 1 /
        # precision.
        for part in subsets(clique):
            bent[part] += 1.0 / (best.precisions[part] * others(np.empty(shape), clique, part))
    return 1.0 / max(max(bent.values(), default=1.0), 1e-300)


def _tables(best: Residuals, multipliers: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
    """The tables of the residuals that are best under some multipliers."""
    values = dict(best.values)
    for clique, table in multipliers.items():
        if table.any():
            for part in subsets(clique):
                weight = best.precisions[part] * others(table, clique, part)
                values[part] = values[part] + residual(table, clique, part) / weight
    return {clique: rebuilt(values, clique, table.shape) for clique, table in multipliers.items()}


ROUGH_ROUNDS = 30
"""Steps of the dual ascent between the rounds of an adaptive strategy."""


@dataclass(frozen=True, slots=True)
class Residual(RowEstimator):
    """Measured tables put together through their residuals, made counts, and followed by a generator of rows.

    1. *GReM-MLE*: the generalised least-squares estimate of every measured table from all of them, in time
       linear in their cells (`margrave.models.rowwise.residual.combine_tables`).
    2. *GReM-LNN*: the nearest tables, in the metric of the noise, without a negative count (`local`).
    3. Rows that have these tables, by `rows`: a genetic search or GUM.

    There is no junction tree: any number of tables of any shape will do, all pairs of forty columns too.
    What no table holds comes from the generator alone.

    **Privacy.** Sees released marginals only: post-processing.

    Args:
        rounds: Steps of the dual ascent, at most.
        rows: Makes the rows; its limits on rows, cells and memory hold.
        max_memory: Bytes that the program may take with the model and what works on it, the loaded table
            aside.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a", "b"), (2, 2))
        >>> table = NoisyMarginal(("a", "b"), np.array([[500.0, 100.0], [100.0, 300.0]]), 1.0)
        >>> Residual().fit(domain, [table]).project(("a", "b")).round().tolist()
        [[500.0, 100.0], [100.0, 300.0]]
    """

    rounds: int = 300
    rows: Genetic | GUM = field(default_factory=Genetic)
    max_memory: int | None = None
    name: ClassVar[str] = "residual"
    fit_seconds: ClassVar[float] = 2e-2
    options: ClassVar[frozenset[str]] = frozenset({"max_memory"})

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise InputError(invalid("rounds", "at least 0", "Try 300.", got=self.rounds))
        if self.max_memory is not None:
            # The stricter of both limits holds for whoever makes the rows.
            least = min(m for m in (self.max_memory, self.rows.max_memory) if m is not None)
            object.__setattr__(self, "rows", replace(self.rows, max_memory=least))

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> RowModel:
        """Rows with the rebuilt marginals; see the class. `warm` is not used.

        A rough fit takes fewer steps and makes its rows by GUM. After the effort's deadline no step begins.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many cells.
        """
        self.admit(domain, [table.clique for table in tables])
        wanted = self.targets(domain, tables, rows, effort)
        if effort.rough and isinstance(self.rows, Genetic):
            own = self.rows
            quick = GUM(max_rows=own.max_rows, rows=own.rows, max_memory=own.max_memory, seed=own.seed)
            return quick.generate(wanted, effort)
        return self.rows.generate(wanted, effort)

    @property
    def room(self) -> Room:
        """Rows and cells that what makes the rows may have."""
        return self.rows.room

    def targets(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, effort: Effort = FULL
    ) -> Targets:
        """The rebuilt tables, none with a negative count: steps 1 and 2."""
        best = combine_tables(tables, rows)
        largest = _largest(tables)
        shapes = {table.clique: table.values.shape for table in largest}
        steps = min(self.rounds, ROUGH_ROUNDS) if effort.rough else self.rounds
        counts = local(best, shapes, steps, lambda: effort.over)
        values = []
        rooms = find_allowed(domain, [table.clique for table in largest])
        for table, room in zip(largest, rooms, strict=True):
            # Cells that rules rule out hold nothing, and what was there goes to the others in proportion.
            kept = counts[table.clique] * room
            values.append(kept * (rows / kept.sum()) if kept.sum() > 0 else kept)
        return gather_targets(domain, rows, largest, values)


def _largest(tables: Sequence[Pooled]) -> list[Pooled]:
    """The tables that lie in no other."""
    sets = [set(table.clique) for table in tables]
    return [t for t, own in zip(tables, sets, strict=True) if not any(own < other for other in sets)]
