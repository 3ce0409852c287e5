"""Informed: fits another family to measured tables and, as far as they help, to public rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.estimator import DelegatingEstimator
from margrave.models._base.model import DelegatingModel, pack_inner, unpack_inner
from margrave.models._base.pooling import Pooled, halves, pool, prefer, rows_of
from margrave.models._base.public_rows import pack_tables, unpack_tables
from margrave.models.registry import resolve
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, tabulate_rows

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.protocols import Fitter

Floats = NDArray[np.float64]

NAME = "informed_inner"
"""The array that holds the inner estimator's name."""
SAMPLINGS = tuple(4.0**power for power in range(8))
"""Factors of the sampling variance that are tried for a table: by how much public rows vary more."""
BIASES = (0.0, 0.01, 0.04, 0.16, 0.64)
"""Squared relative biases of a cell that are tried for a table."""
WEAKER = (1.0, 8.0)
"""Factors of the prior's variances that split noise decides among, besides no prior at all."""


class InformedModel(DelegatingModel["protocols.Model"]):
    """Another family's model, with the tables of public rows that it was fitted beside.

    Args:
        inner: The model.
        name: The name of the estimator that made it.
        prior: The tables, each cell with the standard deviation that it was given; none where public rows
            did not help.
    """

    def __init__(self, inner: protocols.Model, name: str, prior: Sequence[KnownMarginal]) -> None:
        super().__init__(inner)
        self.name, self.prior = name, tuple(prior)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `Informed.restore` builds the same model again."""
        name = np.frombuffer(self.name.encode(), dtype=np.uint8)
        return pack_inner(self.inner) | pack_tables(self.domain, self.prior) | {NAME: name}


@dataclass(frozen=True, slots=True)
class Informed(DelegatingEstimator["InformedModel"]):
    """Another family, fitted to measured tables that public rows of another year or place have sharpened.

    With n the rows and m public rows, P = (n / m) * (public counts) of a measured table y with noise of
    variance s^2 counts as measured too, cell by cell with variance

        v = f ((n / m) k (P + (n / m) k / 2) + b P^2)

    k = 1 and b = 0 are the sampling noise of public rows of the same distribution; larger k and b are what
    another year or place may differ by. k and b are those of a grid under which y is likeliest, table by
    table, y - P normal with variance s^2 + v. f is 1, 8, or there is no prior: split noise decides
    (`margrave.models._base.pooling`). Fits with a prior to one half are taken where the other half prefers
    them to a fit without by a standard error. The cells of the two are averaged by their precisions, and the
    table is handed on with the mean precision in all of its cells, since families set their prices by it.

    Rough fits, which only decide what is asked next, do without public rows.

    **Privacy.** Sees released tables and public rows only: post-processing.

    Args:
        reference: Public rows as codes, under attributes of the domain; None for none.
        fitter: The family that is fitted.
        max_memory: Bytes that the fitter may take; its own limit when None.
        seed: Of split noise.

    Raises:
        InputError: The fitter does not learn from marginals, or has no limit of memory.

    Example:
        >>> import numpy as np
        >>> from margrave.models.independent import Independent
        >>> from margrave.schema.domain import Domain
        >>> rows = Encoded(Domain(("a",), (4,)), (np.repeat(np.arange(4, dtype=np.uint8), [9, 5, 3, 1]),))
        >>> table = NoisyMarginal(("a",), np.array([990.0, 700.0, 260.0, 30.0]), 60.0)
        >>> model = Informed(rows, Independent()).fit(Domain(("a",), (4,)), [table], total=2000)
        >>> model.domain.names
        ('a',)
    """

    reference: Encoded | None = None
    fitter: Fitter = field(default_factory=lambda: resolve("auto"))
    max_memory: int | None = None
    seed: int = 0
    name: ClassVar[str] = "informed"
    fit_seconds: ClassVar[float] = 1e-2
    options: ClassVar[frozenset[str]] = frozenset({"max_memory", "reference"})

    def __post_init__(self) -> None:
        if "marginals" not in self.fitter.learns_from:
            remedy = "Leave public_table out, or take another method."
            raise InputError(invalid("model", "one that learns from marginals", remedy, got=self.fitter.name))
        self._check_memory()

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: protocols.Model | None = None,
        effort: Effort = FULL,
    ) -> InformedModel:
        """The model that explains the measurements, with public rows as far as they help; see the class.

        Raises:
            InputError: The tables do not fit the domain, or whatever the fitter says.
        """
        before = warm.inner if isinstance(warm, InformedModel) else None
        prior: list[KnownMarginal] = []
        if not effort.rough:
            tables, rows = pool(domain, measurements), rows_of(measurements, total)
            factor = self._choose_factor(domain, tables, rows, effort)
            prior = [] if factor is None else self._find_prior(domain, tables, rows, factor)
        known = join_prior(domain, measurements, prior)
        inner = self._inner.fit(domain, known, total=total, warm=before, effort=effort)
        return InformedModel(inner, self.fitter.name, prior)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> InformedModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model of these measurements.
        """
        prior = unpack_tables(domain, state)
        own = unpack_inner(state)
        # The name comes from a file: only names of the registry are looked up, nothing is imported by it.
        try:
            name = bytes(np.asarray(state[NAME], dtype=np.uint8)).decode()
            inner = self._inner if name == self.fitter.name else resolve(name)
        except (KeyError, TypeError, ValueError, InputError):
            remedy = "Pass the estimator: load(path, estimator=Informed(fitter=...))."
            raise ReleaseError(invalid("state", "of a model over a known estimator", remedy)) from None
        known = join_prior(domain, measurements, prior)
        return InformedModel(inner.restore(domain, known, own), name, prior)

    def _choose_factor(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, effort: Effort
    ) -> float | None:
        """The factor of the prior's variances that split noise prefers; None where it prefers no prior."""
        covered = [table for table in tables if self._covers(table.clique)]
        if not covered or effort.over:
            return None
        half, judged = halves(tables, np.random.default_rng(self.seed))
        cliques = [table.clique for table in judged]
        rough = Effort(rough=True, deadline=effort.deadline)

        def expect(factor: float | None) -> list[Floats]:
            prior = [] if factor is None else self._find_prior(domain, half, rows, factor)
            known = join_prior(domain, [table.measurement for table in half], prior)
            return self._inner.fit(domain, known, total=rows, effort=rough).project_many(cliques)

        best, chosen = expect(None), None
        for factor in WEAKER:
            if rough.over:
                break
            rival = expect(factor)
            if prefer(rival, best, judged, rows):
                best, chosen = rival, factor
        return chosen

    def _covers(self, clique: Clique) -> bool:
        return (
            self.reference is not None
            and bool(self.reference.rows)
            and {*clique} <= {*self.reference.domain.names}
        )

    def _find_prior(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, factor: float
    ) -> list[KnownMarginal]:
        """The public rows' table beside each measured one, with variances under which that is likeliest."""
        found = []
        for table in tables:
            if table.inferred or not self._covers(table.clique) or self.reference is None:
                continue
            scale = rows / self.reference.rows
            public = scale * tabulate_rows(self.reference, domain, table.clique)
            variances = factor * find_variances(table, public, scale)
            found.append(KnownMarginal(table.clique, public, np.sqrt(variances)))
        return found


def find_variances(table: Pooled, public: Floats, scale: float) -> Floats:
    """The variances of a public table's cells under which a measured one is likeliest, in rows squared.

    Args:
        table: What was measured.
        public: The public rows' counts times `scale`, shape of the table's values.
        scale: Rows for each public row.
    """
    noise, squares = table.sigma**2, (table.values - public) ** 2
    best, found = np.inf, np.asarray(public)
    for sampling, bias in itertools.product(SAMPLINGS, BIASES):
        step = scale * sampling
        # Two sources of error: public rows are a sample, and they may be of another distribution, by a
        # share of each cell.
        variances = step * (public + 0.5 * step) + bias * public**2
        whole = noise + variances
        surprise = float((np.log(whole) + squares / whole).sum())
        if surprise < best:
            best, found = surprise, variances
    return found


def join_prior(
    domain: Domain, measurements: Sequence[NoisyMarginal], prior: Sequence[KnownMarginal]
) -> list[NoisyMarginal]:
    """What is handed to a fit: measured tables, those with a prior pooled with it at one precision.

    Args:
        domain: Names and sizes of the attributes.
        measurements: What was released.
        prior: Tables of public rows, at most one a clique.
    """
    if not prior:
        return list(measurements)
    known = {table.clique for table in prior}
    found = [m for m in measurements if domain.canonical(m.clique) not in known or not m.clique]
    own = [m for m in measurements if m.clique and domain.canonical(m.clique) in known]
    for table in pool(domain, [*own, *prior]):
        found.append(NoisyMarginal(table.clique, table.values, float((table.sigma**2).mean() ** 0.5)))
    return found
