"""PMW: private multiplicative weights over the cells of small domains, or of parts that nothing ties
together.

Hardt, Ligett and McSherry 2012, "A Simple and Practical Algorithm for Differentially Private Data Release"
(MWEM, arXiv 1012.4763), the update of figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Effort
from margrave.models._base.estimator import Estimator
from margrave.models._base.memory import PROGRAM, check_memory
from margrave.models._base.pooling import Pooled, pool
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.inference import rule_tables
from margrave.models.pgm.model import GraphicalModel
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]

A_PART_CELL = 160
"""Bytes at most of a cell of a part: its weight, logarithm, average, and the junction tree it ends in."""
LEAST_LOG = -690.0
"""Logarithm of the smallest share a cell can have."""
ROUGH_PASSES = 40
"""Passes between the rounds of an adaptive strategy, at most."""


@dataclass(frozen=True, slots=True)
class PMW(Estimator["GraphicalModel"]):
    """Weights on every cell, multiplied up where a measured table says more and down where it says less.

    Attributes that measured tables tie together, directly or through others, form a part; a part's weights
    are one table over all of its cells, so parts have to be small. Starting from uniform weights A, each
    measured table y over r multiplies them by

        A(x) <- A(x) exp(rate * (y(x_r) / N - A_r(x_r)) / max A_r) / Z

    one table after another, again and again; the answer is the average of the second half of the passes. All
    cells of a marginal are disjoint queries, so that one step is that of MWEM for all of them; its step of
    1/2 is made rate over the largest cell, at which the relative entropy to any distribution with that
    marginal still falls. Measurements of one clique are pooled by precision first; different cliques count
    alike, as in MWEM.

    Parts take in the attributes of rules of up to 131,072 cells, whose forbidden cells start and stay at
    nothing.

    Differences from the reference: the average is over half of the iterates, never the iterate with the least
    error on the private table, which the public code releases as its "noisy best"; weights are kept as
    logarithms.

    **Privacy.** Sees released marginals only: post-processing.

    Args:
        passes: Passes over all tables.
        rate: Step, above 0 and at most 1.
        max_cells: Cells of all parts together.
        max_memory: Bytes that the program may take with the model; lowers max_cells to what fits.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a", "b"), (2, 2))
        >>> model = PMW().fit(domain, [NoisyMarginal(("a",), np.array([30.0, 10.0]), 0.1)])
        >>> model.project(("b", "a")).round(1).tolist()
        [[15.0, 5.0], [15.0, 5.0]]
    """

    passes: int = 200
    rate: float = 1.0
    max_cells: int = 1 << 20
    max_memory: int | None = None
    name: ClassVar[str] = "pmw"
    fit_seconds: ClassVar[float] = 2e-3
    options: ClassVar[frozenset[str]] = frozenset({"max_memory"})

    def __post_init__(self) -> None:
        check_counts(passes=self.passes, max_cells=self.max_cells)
        if not 0 < self.rate <= 1:
            raise InputError(invalid("rate", "above 0 and at most 1", "Try 1.", got=self.rate))
        check_memory(self.max_memory)

    @property
    def most_cells(self) -> int:
        """Cells of all parts together under both limits."""
        if self.max_memory is None:
            return self.max_cells
        return min(self.max_cells, (self.max_memory - PROGRAM) // A_PART_CELL)

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> GraphicalModel:
        """The weights after all passes; see the class. `warm` is not used.

        A rough fit makes fewer passes. After the effort's deadline no pass begins.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or a part has too many cells.
        """
        parts = _parts(domain, [table.clique for table in tables])
        self._check(domain, parts)
        passes = min(self.passes, ROUGH_PASSES) if effort.rough else self.passes
        logs = []
        for part in parts:
            # A table's attributes all lie in one part, so the first of them tells which.
            own = [table for table in tables if table.clique[0] in part]
            logs.append(self._part(domain, part, own, rows, passes, effort))
        return _model(domain, parts, logs, rows)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> GraphicalModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of weights over this domain.
        """
        parts = _parts(domain, [domain.canonical(m.clique) for m in measurements])
        return _explicit().restore_model(domain, _stand_ins(domain, parts), state)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the parts are small enough, before anything is measured.

        Raises:
            InputError: They have more cells than max_cells or max_memory allow.
        """
        self._check(domain, _parts(domain, [domain.canonical(clique) for clique in cliques]))

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of all parts with each one candidate, infinite where too many: shape [candidates]."""
        known = [domain.canonical(clique) for clique in cliques]
        found = []
        for candidate in candidates:
            parts = _parts(domain, [*known, domain.canonical(candidate)])
            found.append(float(max(sum(domain.size(part) for part in parts), 1)))
        sizes = np.array(found)
        return np.where(sizes > self.most_cells, np.inf, sizes)

    def _check(self, domain: Domain, parts: Sequence[Clique]) -> None:
        cells = sum(domain.size(part) for part in parts)
        if cells > self.most_cells:
            remedy = "Measure fewer marginals or columns, use fewer bins, or another model."
            raise InputError(invalid("cells of the domain", f"at most {self.most_cells}", remedy, got=cells))
        _explicit().admit(domain, parts)

    def _part(
        self,
        domain: Domain,
        part: Clique,
        tables: Sequence[Pooled],
        rows: float,
        passes: int,
        effort: Effort,
    ) -> Floats:
        """Logarithms of one part's weights, shape [sizes of the part]."""
        weights = _allow_cells(domain, part)
        mean, averaged = np.zeros(weights.shape), 0
        for turn in range(passes):
            if effort.over:
                break
            for table in tables:
                weights = update_weights(weights, part, table.clique, table.values / rows, self.rate)
            # The average of the second half, as in MWEM, which averages iterates to lower the error.
            if 2 * turn >= passes:
                mean, averaged = mean + weights, averaged + 1
        shares = mean / averaged if averaged else weights
        return np.maximum(np.log(np.maximum(shares, 1e-300)), LEAST_LOG)


def update_weights(weights: Floats, part: Clique, clique: Clique, shares: Floats, rate: float) -> Floats:
    """One multiplicative update towards a table's shares; figure 1 of the paper for all its cells at once.

    Args:
        weights: Shares of all cells of a part, summing to 1.
        part: Its attributes.
        clique: The table's, in the same order.
        shares: Noisy shares, shape [sizes of the clique].
        rate: Step over the table's largest cell.
    """
    gone = tuple(axis for axis, name in enumerate(part) if name not in clique)
    now = weights.sum(axis=gone)
    # Divided by the largest cell: a step of MWEM's size relative to what is there; see the class.
    step = rate * (shares - now) / float(now.max())
    wide = [size if name in clique else 1 for size, name in zip(weights.shape, part, strict=True)]
    raised = np.log(np.maximum(weights, 1e-300)) + step.reshape(wide)
    # Normalised in logarithms, so that cells of tiny share keep their relative weights.
    found = np.exp(raised - raised.max())
    return np.asarray(found / found.sum())


def group_attributes(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """The attributes of any clique, in groups that no clique leaves, each in the domain's order.

    Example:
        >>> domain = Domain(("a", "b", "c", "d", "e"), (2, 2, 2, 2, 2))
        >>> group_attributes(domain, [("a", "c"), ("c", "d"), ("b",)])
        [('a', 'c', 'd'), ('b',)]
    """
    groups: list[set[str]] = []
    for clique in cliques:
        own = set(clique)
        for group in [g for g in groups if g & own]:
            own |= group
            groups.remove(group)
        if own:
            groups.append(own)
    return sorted((domain.canonical(g) for g in groups), key=lambda part: domain.index(part[0]))


def _parts(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """As `group_attributes`, with the attributes of rules that the junction tree would hold."""
    return group_attributes(domain, [*cliques, *(clique for clique, _ in rule_tables(domain))])


def _allow_cells(domain: Domain, part: Clique) -> Floats:
    """Equal weights on the cells of a part that rules allow, nothing on the others."""
    weights = np.ones(domain.shape(part))
    for clique, allowed in rule_tables(domain):
        if set(clique) <= set(part):
            wide = [size if name in clique else 1 for size, name in zip(weights.shape, part, strict=True)]
            weights *= allowed.reshape(wide)
    return weights / max(float(weights.sum()), 1.0)


def _explicit() -> PGM:
    """What holds a table over a whole part: a junction tree with one clique a part."""
    # By least squares no one-way tables are pooled beside the parts, so theta holds the parts alone.
    return PGM(penalty="squares")


def _model(
    domain: Domain,
    parts: Sequence[Clique],
    logs: Sequence[Floats],
    rows: float,
) -> GraphicalModel:
    """The product of the parts, everything else uniform."""
    ordered = pool(domain, _stand_ins(domain, parts))
    flat = {part: table.ravel() for part, table in zip(parts, logs, strict=True)}
    # Restored through PGM, whose order of cliques is that of the pooled tables.
    theta = np.concatenate([np.zeros(0), *(flat[table.clique] for table in ordered)])
    state = {"theta": theta, "fit": np.array([rows, 0.0, 0.0, 0.0, 1.0])}
    return _explicit().restore_model(domain, _stand_ins(domain, parts), state)


def _stand_ins(domain: Domain, parts: Sequence[Clique]) -> list[NoisyMarginal]:
    """Tables that say which cliques the junction tree has, and nothing else."""
    from margrave.release import NoisyMarginal

    return [NoisyMarginal(part, np.zeros(domain.shape(part)), 1.0) for part in parts]
