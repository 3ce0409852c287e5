"""ConditionalPGM: a graphical model that knows tables of public rows and may be drawn given public rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.limits import FULL, Effort
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import DelegatingModel
from margrave.models._base.public_rows import pack_tables, unpack_tables
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.model import GraphicalModel
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom, Model

Floats = NDArray[np.float64]


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
