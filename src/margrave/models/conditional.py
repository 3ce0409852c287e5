"""ConditionalPGM: a graphical model that knows public one-way marginals and is drawn given public rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.delegating import DelegatingModel
from margrave.models._base.estimator import Estimator
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.model import GraphicalModel
from margrave.release import NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import Model

__all__ = ["ConditionalModel", "ConditionalPGM"]


Floats = NDArray[np.float64]


class ConditionalModel(DelegatingModel[GraphicalModel]):
    """A graphical model with the public one-way marginals that it was fitted to.

    Args:
        inner: The graphical model.
        known: The marginals.
    """

    def __init__(self, inner: GraphicalModel, known: Sequence[NoisyMarginal]) -> None:
        super().__init__(inner)
        self.known = tuple(known)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `ConditionalPGM.restore` builds the same model again."""
        places = [self.domain.index(table.clique[0]) for table in self.known]
        counts = np.concatenate([np.zeros(0), *(table.values for table in self.known)])
        return self.inner.state() | {"public": np.asarray(places, dtype=np.float64), "public_counts": counts}


@dataclass(frozen=True, slots=True)
class ConditionalPGM(Estimator[ConditionalModel]):
    """Private-PGM where some columns of the rows are public (Maddock et al. 2025, Conditional AIM).

    The model is that of all columns, fitted to what was measured and to the exact one-way marginals of the
    public columns, which count as measured with a standard deviation of one row: far below any noise that is
    bought, and not so sharp that the fit is about nothing else. Its rows are drawn given the public ones.

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
        return ConditionalModel(
            self._inner.fit(domain, tables, total=total, warm=before, effort=effort), known
        )

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> ConditionalModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model over this domain.
        """
        places = [int(place) for place in np.asarray(state.get("public", ()), dtype=np.float64)]
        counts = np.asarray(state.get("public_counts", ()), dtype=np.float64)
        if any(not 0 <= place < len(domain) for place in places):
            raise ReleaseError(invalid("state", "of attributes of the domain", "The release is damaged."))
        names = [domain.names[place] for place in places]
        if counts.shape != (sum(domain.shape(names)),):
            raise ReleaseError(invalid("state", "of one count a public code", "The release is damaged."))
        parts = np.split(counts, np.cumsum(domain.shape(names))[:-1]) if names else []
        known = [NoisyMarginal((name,), part, 1.0) for name, part in zip(names, parts, strict=True)]
        return ConditionalModel(self._inner.restore(domain, [*measurements, *known], state), known)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Refuse cliques whose model would be too large; see `PGM.admit`."""
        self._inner.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells the model would hold with cliques plus each one candidate; see `PGM.cells`."""
        return self._inner.cells(domain, cliques, candidates)


def _count_one_ways(domain: Domain, given: Encoded | None) -> list[NoisyMarginal]:
    """The one-way marginals of public rows, for a fit; none where there are no rows."""
    if given is None or not len(given.domain) or not given.rows:
        return []
    names = [name for name in domain.names if name in given.domain]
    return [
        NoisyMarginal((n,), np.bincount(given.column(n), minlength=domain[n]).astype(np.float64), 1.0)
        for n in names
    ]
