"""Residual: marginals rebuilt from all noisy tables at once, in closed form, and rows that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models.pooled import Pooled, pool, rows_of
from margrave.models.residual.reconstruct import combined, local
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.model import RowModel, recalled
from margrave.models.rowwise.targets import Targets, gathered, roomy
from margrave.models.ruled import settled
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

__all__ = ["Residual"]

Floats = NDArray[np.float64]

ROUGH_ROUNDS = 30
"""Steps of the dual ascent between the rounds of an adaptive strategy."""


@dataclass(frozen=True, slots=True)
class Residual:
    """Measured tables put together through their residuals, made counts, and followed by a generator of rows.

    1. *GReM-MLE*: the generalised least-squares estimate of every measured table from all of them, in time
       linear in their cells (`margrave.models.residual.reconstruct.combined`).
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

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise InputError(invalid("rounds", "at least 0", "Try 300.", got=self.rounds))
        if self.max_memory is not None:
            least = min(m for m in (self.max_memory, self.rows.max_memory) if m is not None)
            object.__setattr__(self, "rows", replace(self.rows, max_memory=least))

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "residual"

    @property
    def most_cells(self) -> int:
        """Cells that all tables may have together."""
        return self.rows.most_cells

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> RowModel:
        """Rows with the rebuilt marginals; see the class. `warm` is not used.

        A rough fit takes fewer steps and makes its rows by GUM. After the effort's deadline no step begins.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many cells.
        """
        self.admit(domain, [m.clique for m in measurements])
        wanted = self.targets(domain, measurements, total, effort)
        if effort.rough and isinstance(self.rows, Genetic):
            own = self.rows
            quick = GUM(max_rows=own.max_rows, rows=own.rows, max_memory=own.max_memory, seed=own.seed)
            return quick.generate(wanted, effort)
        return self.rows.generate(wanted, effort)

    def targets(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        total: float | None = None,
        effort: Effort = FULL,
    ) -> Targets:
        """The rebuilt tables, none with a negative count: steps 1 and 2."""
        rows, tables = rows_of(measurements, total), pool(domain, measurements)
        domain = settled(domain, tables)
        best = combined(tables, rows)
        largest = _largest(tables)
        shapes = {table.clique: table.values.shape for table in largest}
        steps = min(self.rounds, ROUGH_ROUNDS) if effort.rough else self.rounds
        counts = local(best, shapes, steps, lambda: effort.over)
        values = []
        for table, room in zip(largest, roomy(domain, largest), strict=True):
            kept = counts[table.clique] * room
            values.append(kept * (rows / kept.sum()) if kept.sum() > 0 else kept)
        return gathered(domain, rows, largest, values)

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
        self.rows.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of all tables with each one candidate, infinite where too many: shape [candidates]."""
        return self.rows.cells(domain, cliques, candidates)


def _largest(tables: Sequence[Pooled]) -> list[Pooled]:
    """The tables that lie in no other."""
    sets = [set(table.clique) for table in tables]
    return [t for t, own in zip(tables, sets, strict=True) if not any(own < other for other in sets)]
