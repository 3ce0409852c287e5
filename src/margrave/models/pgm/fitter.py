"""PGM: fits a log-linear model on a junction tree to noisy marginals.

The penalty says how far each table may be missed; one-way marginals are pooled first from everything that
holds them.

`ConditionalPGM` also knows tables of public rows, and its model may be drawn given public rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.constraints import FORBIDDEN_CERTAINTY, zero_forbidden
from margrave.models._base.estimator import Estimator
from margrave.models._base.memory import CELL_BYTES, PROGRAM, check_memory
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled, one_ways, pool
from margrave.models._base.public_rows import pack_tables, unpack_tables
from margrave.models._torch.device import open_device
from margrave.models.pgm.estimate import Solution, approach
from margrave.models.pgm.inference import Held, Inference, forbid_cells, rule_tables
from margrave.models.pgm.model import GraphicalModel
from margrave.models.pgm.tensor import A_TENSOR_CELL, TensorInference
from margrave.models.pgm.tree import Layout, candidate_cells, rank_attributes, too_large, tree_cells
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.models.pgm.inference import Calibration
    from margrave.protocols import LearnsFrom, Model


Floats = NDArray[np.float64]

ONES = 1 / 8
"""Strength of one-way tables over that of the others: one wrong one-way spoils all pairs it is part of."""


def pool_one_ways(tables: Sequence[Pooled]) -> list[Pooled]:
    """The tables, with every one-way marginal made the best unbiased estimate from all that hold it.

    Attributes without a one-way table get one.

    Args:
        tables: One table a clique, in any order.
    """
    return [*one_ways(tables).values(), *(table for table in tables if len(table.clique) > 1)]


def ridges(tables: Sequence[Pooled], strength: float, rows: float, noise_aware: bool) -> list[Floats]:
    """Weight of each potential's square, in the shapes of the tables: see docs/models.md.

    Args:
        tables: What is fitted.
        strength: How much entropy counts.
        rows: What a proportion is of.
        noise_aware: Whether linear in sigma, and less for one-ways; else the square of sigma.
    """
    if not noise_aware:
        return [strength * (table.sigma / rows) ** 2 for table in tables]
    return [(ONES if len(t.clique) == 1 else 1.0) * strength * t.sigma / rows for t in tables]


PENALTIES = ("noise_aware", "squares")
"""How a potential is held back: by sigma / N, with one-ways pooled first (see docs/models.md), or by
(sigma / N)^2, which is exactly least squares weighted by 1 / sigma^2 with the entropy added."""

ROUGH_TOLERANCE_FACTOR = 10.0
"""How much looser the tolerance is between the rounds of an adaptive strategy: bench/LEADERBOARD.md."""


@dataclass(frozen=True, slots=True)
class PGM(Estimator["GraphicalModel"]):
    """Fits p(x) = exp(sum_r theta_r(x_r) - log Z), one table of potentials a measured clique.

    Minimises log Z(theta) - <theta, y / N> + sum(c * theta^2) / 2 with c = strength * sigma / N
    ("noise_aware", an eighth of it for one-ways, which are first pooled from all tables that hold them) or
    c = strength * (sigma / N)^2 ("squares"). Attributes that were not measured come out uniform.

    **Privacy.** Sees released marginals only: post-processing.

    Args:
        strength: How much entropy counts against the measurements, above 0.
        max_iterations: Most steps of the optimiser.
        tolerance: Largest L1 norm of the gradient over one measured table at which the fit has converged,
            in probability.
        penalty: "noise_aware" or "squares".
        max_cells: Most cells all tables of the junction tree may have together, at most 2^31 - 1.
        max_memory: Bytes that the program may take with the model and what works on it, the loaded table
            aside; lowers max_cells to what fits, at CELL_BYTES bytes a cell and PROGRAM for the rest.
        device: Where inference runs: "cpu" (None) for the compiled kernels; "cuda" or "cuda:1", with PyTorch,
            whose memory then limits max_cells too; "torch-cpu" for the same code on the processor.
            Rows and marginals are drawn from the model on the processor in every case.

    Raises:
        InputError: An argument is out of range, or there is no such device.
        MissingExtraError: The device needs PyTorch, which is not installed.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a", "b"), (2, 3))
        >>> model = PGM().fit(domain, [NoisyMarginal(("a",), np.array([30.0, 10.0]), 0.01)])
        >>> model.project(("b", "a")).round(1).tolist()
        [[10.0, 3.3], [10.0, 3.3], [10.0, 3.3]]
    """

    strength: float = 0.1
    max_iterations: int = 1000
    tolerance: float = 1e-3
    penalty: str = "noise_aware"
    max_cells: int = 1 << 28
    max_memory: int | None = None
    device: str | None = None
    name: ClassVar[str] = "pgm"
    options: ClassVar[frozenset[str]] = frozenset({"max_memory"})

    def __post_init__(self) -> None:
        for param, value in (("strength", self.strength), ("tolerance", self.tolerance)):
            if not (np.isfinite(value) and value > 0):
                raise InputError(invalid(param, "a finite number above 0", "Try the default.", got=value))
        if self.max_iterations < 0:
            raise InputError(invalid("max_iterations", "at least 0", "Try 1000.", got=self.max_iterations))
        if self.penalty not in PENALTIES:
            raise InputError(invalid("penalty", f"one of {PENALTIES}", "Try noise_aware.", got=self.penalty))
        if not 1 <= self.max_cells < 1 << 31:
            raise InputError(invalid("max_cells", "from 1 to 2^31 - 1", "Try 2**28.", got=self.max_cells))
        check_memory(self.max_memory)
        device = open_device(self.device)
        if device is not None and not device.double:
            remedy = "Leave it out for the processor."
            raise InputError(invalid("device", "one with double precision", remedy, got=self.device))

    @property
    def most_cells(self) -> int:
        """Cells a junction tree may have under both limits."""
        device = open_device(self.device)
        most = self.max_cells
        if self.max_memory is not None:
            most = min(most, (self.max_memory - PROGRAM) // CELL_BYTES)
        if device is not None and device.memory is not None:
            most = min(most, device.memory // A_TENSOR_CELL)
        return most

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> GraphicalModel:
        """The model that explains the measurements; see the class.

        Args:
            domain: Names and sizes of the attributes.
            tables: One table a clique.
            rows: To stand for.
            warm: An earlier fit over the same domain; its potentials are the starting point.
            effort: A rough fit stops at ROUGH_TOLERANCE_FACTOR times the tolerance; after the deadline the
            best so far is
                returned. `model.converged` says whether the tolerance asked for was met.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or the tree is too large.
        """
        aware, names = self.penalty == "noise_aware", rank_attributes(domain)
        measured = zero_forbidden(domain, tables, FORBIDDEN_CERTAINTY)
        pooled = _sort_pooled(domain, measured) if aware else measured
        inference = self._open(domain, pooled)
        # Engine order has the axes by size, so every table is turned before it becomes part of one long
        # array.
        target = _flat(names, [table.values / rows for table in pooled], pooled)
        ridge = _flat(names, ridges(pooled, self.strength, rows, aware), pooled)
        theta = _flat(names, _warm(domain, pooled, warm), pooled)
        tolerance = self.tolerance * (ROUGH_TOLERANCE_FACTOR if effort.rough else 1.0)
        solution = approach(inference, target, ridge, theta, self.max_iterations, tolerance, effort.deadline)
        return self._close(domain, pooled, inference, solution, rows)

    def restore_model(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        state: Mapping[str, NDArray[np.float64]],
    ) -> GraphicalModel:
        """The model whose `state` was saved: one inference, no optimisation.

        Raises:
            ReleaseError: The state is not that of a model of these measurements.
        """
        measured = pool(domain, measurements)
        # A fit by least squares, or one from before one-ways were pooled, holds what was released only.
        plain = np.size(state.get("theta", 0)) == sum(table.values.size for table in measured)
        # Which of the two it was shows in the number of potentials alone, so old releases load as well.
        pooled = measured if plain else _sort_pooled(domain, measured)
        inference = self._open(domain, pooled)
        sizes = [domain.size(table.clique) for table in pooled]
        theta = _array(state, "theta", sum(sizes))
        total, gap, iterations, evaluations, converged = _array(state, "fit", 5)
        if total <= 0:
            raise ReleaseError(invalid("state", "of a positive total", "The release is damaged."))
        pieces = np.split(theta, np.cumsum(sizes)[:-1]) if sizes else []
        tables = [piece.reshape(table.values.shape) for piece, table in zip(pieces, pooled, strict=True)]
        flat = _flat(rank_attributes(domain), tables, pooled)
        solution = Solution(flat, gap, int(iterations), int(evaluations), bool(converged))
        return self._close(domain, pooled, inference, solution, total)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the junction tree of these cliques fits, before they are measured.

        Raises:
            InputError: It has more than most_cells cells.
        """
        # Rules' cliques are part of the tree whether or not anything is measured on them.
        needed = tree_cells(domain, [*cliques, *_rule_cliques(domain)])
        if needed > self.most_cells:
            raise too_large(needed, self.most_cells)

    def cells(
        self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]
    ) -> NDArray[np.float64]:
        """Junction-tree cells with cliques plus each one candidate, infinite above the limit.

        Shape [candidates].
        """
        found = candidate_cells(domain, [*cliques, *_rule_cliques(domain)], candidates)
        return np.where(found > self.most_cells, np.inf, found)

    def _open(self, domain: Domain, pooled: Sequence[Pooled]) -> Calibration:
        place, rules = {name: i for i, name in enumerate(rank_attributes(domain))}, rule_tables(domain)
        cliques = [*(table.clique for table in pooled), *(clique for clique, _ in rules)]
        # Attributes of one code do not matter to the engine: their axes are left out.
        measured = [tuple(sorted(place[n] for n in clique if domain[n] > 1)) for clique in cliques]
        sizes = domain.shape(rank_attributes(domain))
        layout = Layout(sizes, measured, self.most_cells)
        device = open_device(self.device)
        # Rules' tables come last, so that `Held` can append their fixed potentials.
        inference: Calibration = Inference(layout) if device is None else TensorInference(layout, device)
        return Held(inference, forbid_cells(domain, rules)) if rules else inference

    def _close(
        self, domain: Domain, pooled: list[Pooled], inference: Calibration, solution: Solution, total: float
    ) -> GraphicalModel:
        inference.run(solution.theta)
        if isinstance(inference, Held):
            # The model holds its rules' potentials like any others, so that conditioning on codes takes them
            # along.
            theta = np.concatenate([solution.theta, inference.fixed])
            inference, solution = inference.inner, replace(solution, theta=theta)
        cliques = tuple(table.clique for table in pooled)
        return GraphicalModel(domain, total, cliques, inference, solution)


def _rule_cliques(domain: Domain) -> list[Clique]:
    """The cliques of the rules that the tree takes in."""
    return [clique for clique, _ in rule_tables(domain)]


def _sort_pooled(domain: Domain, measured: Sequence[Pooled]) -> list[Pooled]:
    """The tables with pooled one-ways, in the order of `pool`."""
    return sorted(
        pool_one_ways(measured),
        key=lambda table: (len(table.clique), [domain.index(n) for n in table.clique]),
    )


def _flat(
    names: tuple[str, ...], tables: Sequence[NDArray[np.float64]], pooled: Sequence[Pooled]
) -> NDArray[np.float64]:
    """Tables with the domain's axes as one array with the engine's axes."""
    parts = [np.zeros(0)]
    for table, measured in zip(tables, pooled, strict=True):
        axes = sorted(range(len(measured.clique)), key=lambda i: names.index(measured.clique[i]))
        parts.append(table.transpose(axes).ravel())
    return np.concatenate(parts)


def _warm(domain: Domain, pooled: Sequence[Pooled], warm: Model | None) -> list[NDArray[np.float64]]:
    """Starting potentials with the domain's axes: an earlier model's where it has the clique, else 0."""
    known = warm.potentials() if isinstance(warm, GraphicalModel) and warm.domain == domain else {}
    return [known.get(table.clique, np.zeros(table.values.shape)) for table in pooled]


def _array(state: Mapping[str, NDArray[np.float64]], key: str, length: int) -> NDArray[np.float64]:
    """One finite array of the state, checked against its length."""
    found = np.asarray(state[key], dtype=np.float64) if key in state else None
    if found is None or found.shape != (length,) or not np.isfinite(found).all():
        raise ReleaseError(
            invalid("state", f"of {length} finite numbers in {key!r}", "The release is damaged.")
        )
    return found


class ConditionalModel(DelegatingModel[GraphicalModel]):
    """A graphical model with the tables of public rows that it was fitted to.

    Args:
        inner: The graphical model.
        known: The tables.
    """

    def __init__(self, inner: GraphicalModel, known: Sequence[NoisyMarginal]) -> None:
        super().__init__(inner)
        self.known = tuple(known)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `ConditionalPGM.restore` builds the same model again."""
        return self.inner.state() | pack_tables(self.domain, self.known)


@dataclass(frozen=True, slots=True)
class ConditionalPGM(Estimator[ConditionalModel]):
    """Private-PGM where some columns of the rows are public (Maddock et al. 2025, Conditional AIM).

    The model is that of all columns, fitted to what was measured and to the exact one-way marginals of the
    public columns, which count as measured with a standard deviation of one row: far below any noise that is
    bought, and not so sharp that the fit is about nothing else. Its rows are drawn given the public ones.
    Tables of public rows among the measurements (`KnownMarginal`) are kept with the model, since no release
    holds them.

    Args:
        given: The public rows as codes; None for none, which makes it Private-PGM.
        pgm: How the model is fitted.
        max_memory: Bytes that the program may take with the model.
    """

    given: Encoded | None = None
    pgm: PGM = field(default_factory=PGM)
    max_memory: int | None = None
    name: ClassVar[str] = "conditional_pgm"
    options: ClassVar[frozenset[str]] = frozenset({"given", "max_memory"})
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"marginals", "public marginals"})

    @property
    def _inner(self) -> PGM:
        return self.pgm if self.max_memory is None else replace(self.pgm, max_memory=self.max_memory)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> ConditionalModel:
        """The graphical model of the measurements and of the public one-way marginals; see `PGM.fit`.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or the model is too large.
        """
        known = _count_one_ways(domain, self.given)
        # The number of rows is public where the rows themselves are.
        if known and self.given is not None:
            total = float(self.given.rows)
        before = warm.inner if isinstance(warm, ConditionalModel) else None
        tables = [*measurements, *known]
        kept = [*(m for m in measurements if isinstance(m, KnownMarginal)), *known]
        return ConditionalModel(
            self._inner.fit(domain, tables, total=total, warm=before, effort=effort), kept
        )

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> ConditionalModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model over this domain.
        """
        known = unpack_tables(domain, state)
        return ConditionalModel(self._inner.restore(domain, [*measurements, *known], state), known)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Refuse cliques whose model would be too large; see `PGM.admit`."""
        self._inner.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells the model would hold with cliques plus each one candidate; see `PGM.cells`."""
        return self._inner.cells(domain, cliques, candidates)


def _count_one_ways(domain: Domain, given: Encoded | None) -> list[KnownMarginal]:
    """The one-way marginals of public rows, for a fit; none where there are no rows."""
    if given is None or not len(given.domain) or not given.rows:
        return []
    names = [name for name in domain.names if name in given.domain]
    return [
        KnownMarginal((n,), np.bincount(given.column(n), minlength=domain[n]).astype(np.float64), 1.0)
        for n in names
    ]
