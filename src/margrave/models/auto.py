"""Auto: a mixture of products or a graphical model, whichever explains the other half of the noise better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models.carried import Carried
from margrave.models.mixture.fitter import DOUBT, Mixture
from margrave.models.pgm.fitter import PGM
from margrave.models.pooled import pool, rows_of
from margrave.models.ruled import settled
from margrave.models.splitting import halves, pick
from margrave.release import NoisyMarginal
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.models.mixture.runs import Seen
    from margrave.models.pgm.model import GraphicalModel
    from margrave.models.pooled import Pooled
    from margrave.protocols import Model

__all__ = ["Auto", "Trees"]

Floats = NDArray[np.float64]

MOST_CELLS = 4_000_000
"""Cells that the junction tree of a graphical model may have to be tried: some ten seconds of a fit."""
SMALL = 300_000
"""Cells of a junction tree up to which even its trial is fitted to the end."""
COVERED = 0.95
"""Part of all dependence that its cliques have to hold. Where little fits, the mixture has always won."""


@dataclass(frozen=True, slots=True)
class Auto:
    """Fits a mixture, or a graphical model where a small junction tree holds nearly all dependence.

    A mixture of a few hundred products explains any number of pairs, but only so well. A table of few
    attributes and many rows asks for more: there the junction tree of its dependent pairs is small. So where
    there is little noise (rows mu at least `mixture.runs.CLEAR`) pairs are added to a tree by how dependent
    they are while it stays below MOST_CELLS. If they hold COVERED of all dependence, both models are fitted
    to one half of split noise and judged on the other (`margrave.models.splitting`), and the graphical model
    is taken unless the mixture is better beyond doubt. This costs no privacy.

    Args:
        target: An attribute that rows are meant to predict, for the mixture's labels.
        max_memory: Bytes that the program may take with the model and what works on it.
        device: Where fits run, as for `Mixture` and `PGM`.
        seed: Of starts and split noise.

    Raises:
        InputError: An argument is out of range, or there is no such device.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a", "b"), (2, 2))
        >>> table = NoisyMarginal(("a", "b"), np.array([[500.0, 100.0], [100.0, 300.0]]), 1.0)
        >>> model = Auto().fit(domain, [table])
        >>> bool(np.abs(model.project(("a", "b")) - table.values).max() < 20)
        True
    """

    target: str | None = None
    max_memory: int | None = None
    device: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._mixture, self._trees  # noqa: B018 - their arguments are checked as they are made

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "auto"

    @property
    def _mixture(self) -> Mixture:
        return Mixture(target=self.target, max_memory=self.max_memory, device=self.device, seed=self.seed)

    @property
    def _trees(self) -> PGM:
        return PGM(max_cells=MOST_CELLS, max_memory=self.max_memory)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> Model:
        """The model that explains the measurements; see the class. `warm` is not used.

        A rough fit is a small mixture. After the effort's deadline nothing more is tried.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many codes.
            SchemaError: The domain has no attribute `target`.
        """
        mixture, seen = self._mixture, None
        mixture.admit(domain, [])
        if not effort.rough and max(domain.sizes) <= mixture.largest:
            tables, rows = pool(domain, measurements, inferred=True), rows_of(measurements, total)
            seen = mixture.look(settled(domain, tables), tables, rows, effort)
            kept = self.kept(domain, tables, seen.dependence) if seen.clear else []
            if kept and self._preferred(domain, tables, kept, rows, seen, effort):
                those = _those(measurements, kept)
                return Trees(self._trees.fit(domain, those, total=rows, effort=effort), kept)
        return mixture.after(seen, domain, measurements, total, effort)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> Model:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model over this domain.
        """
        if "trees" not in state:
            return self._mixture.restore(domain, measurements, state)
        places = np.asarray(state["trees"], dtype=np.float64)
        if places.ndim != 2 or places.shape[1] != 2 or not set(places.ravel()) <= set(range(len(domain))):
            raise ReleaseError(invalid("state", "of pairs of the domain", "The release is damaged."))
        kept = [(domain.names[int(a)], domain.names[int(b)]) for a, b in places]
        return Trees(PGM().restore(domain, _those(measurements, kept), state), kept)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the mixture fits, before anything is measured; the graphical model need not.

        Raises:
            InputError: The attributes have more codes together than a mixture takes.
            SchemaError: The domain has no attribute `target`.
        """
        self._mixture.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of the mixture's table, whatever is measured, shape [candidates]."""
        return self._mixture.cells(domain, cliques, candidates)

    def kept(self, domain: Domain, tables: Sequence[Pooled], dependence: Floats | None) -> list[Clique]:
        """The pairs of a small junction tree that hold nearly all dependence, or none."""
        pairs = [table.clique for table in tables if len(table.clique) == 2]
        whole = any(len(table.clique) > 2 for table in tables)
        if dependence is None or not pairs or whole:
            return []
        worth = {(a, b): float(dependence[domain.index(a), domain.index(b)]) for a, b in pairs}
        kept: list[Clique] = []
        left = (1.0 - COVERED) * sum(worth.values())
        for pair in sorted(pairs, key=lambda pair: -worth[pair]):
            if np.isfinite(self._trees.cells(domain, kept, [pair])[0]):
                kept.append(pair)
                continue
            left -= worth[pair]
            if left < 0.0:
                return []
        return kept

    def _preferred(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        kept: Sequence[Clique],
        rows: float,
        seen: Seen,
        effort: Effort,
    ) -> bool:
        """Whether the graphical model is as good as the mixture on split noise, or not worse beyond doubt."""
        if effort.over:
            return False
        fitted, judged = halves(tables, np.random.default_rng(self.seed))
        half = [table.measurement for table in fitted]
        mixture = replace(self._mixture, restarts=1)
        # A rough fit of millions of rows is far off; a small tree is fitted in no time.
        large = bool(self._trees.cells(domain, kept, [()])[0] > SMALL)
        tried = replace(effort, rough=large)
        models: list[Model] = [
            self._trees.fit(domain, _those(half, kept), total=rows, effort=tried),
            mixture.after(seen, domain, half, rows, effort),
        ]
        cliques = [table.clique for table in judged]
        return not pick([model.project_many(cliques) for model in models], judged, rows, 0, DOUBT)


class Trees(Carried["GraphicalModel"]):
    """A graphical model of some of the pairs that were measured; it remembers which.

    Args:
        inner: The model.
        kept: Its pairs.
    """

    def __init__(self, inner: GraphicalModel, kept: Sequence[Clique]) -> None:
        super().__init__(inner)
        self.kept = tuple(kept)

    @property
    def converged(self) -> bool:
        """Whether the fit met its tolerance."""
        return self.inner.converged

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Auto.restore` builds the same model again."""
        places = [[self.domain.index(name) for name in pair] for pair in self.kept]
        return super().state() | {"trees": np.asarray(places, dtype=np.float64)}


def _those(measurements: Sequence[NoisyMarginal], pairs: Sequence[Clique]) -> list[NoisyMarginal]:
    """The measurements of single attributes and of some pairs, whichever way round."""
    known = {frozenset(pair) for pair in pairs}
    return [m for m in measurements if len(m.clique) == 1 or frozenset(m.clique) in known]
