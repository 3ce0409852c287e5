"""Auto: a mixture of products or a graphical model, whichever explains the other half of the noise better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.constraints import settled
from margrave.models._base.delegating import Carried
from margrave.models._base.estimator import Estimator
from margrave.models._base.pooling import one_ways, perplexity, pool, rows_of
from margrave.models.mixture.fitter import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.release import NoisyMarginal
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.models._base.pooling import Pooled
    from margrave.models.mixture.descent import Setting
    from margrave.models.mixture.trials import Candidate, Choice, Trials
    from margrave.models.pgm.model import GraphicalModel

__all__ = ["Auto", "Trees", "keep_measurements", "rank_pairs"]


Floats = NDArray[np.float64]

MOST_CELLS, PILOT_CELLS = 500_000, 100_000
"""Cells that the junction tree of a graphical model may have, a second or two of a fit; and that of one that
is fitted only to choose. With 100,000 the models of bench/LOG.md are 4 % worse, with 2,000,000 1 % better in
four times the time."""
WORTH, PAIRS = 1.0, 4
"""How much of its noise a pair's dependence must exceed to be taken into the tree, and how many pairs for
each attribute are asked."""


@dataclass(frozen=True, slots=True)
class Auto(Estimator["protocols.Model"]):
    """Fits a mixture, or a graphical model of the pairs that depend most, whichever explains more.

    A mixture of a few hundred products explains any number of pairs, but only so well: where some attributes
    nearly follow from each other by many codes, or noise is small, a graphical model follows them closer. So
    pairs are added to a junction tree by how dependent they are while it stays below MOST_CELLS. The mixture
    that small fits have chosen and the graphical model are fitted to one half of split noise and judged on
    the other (`margrave.models._base.pooling`), and the better one is fitted to everything. This costs no
    privacy.

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
    name: ClassVar[str] = "auto"
    options: ClassVar[frozenset[str]] = frozenset({"target", "max_memory"})

    def __post_init__(self) -> None:
        self._mixture, self._trees(MOST_CELLS)  # their arguments are checked as they are made

    @property
    def most_codes(self) -> int:
        """Codes that all attributes may have together, as `Mixture.most_codes`."""
        return self._mixture.most_codes

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Codes that are modelled, large attributes in groups, and how many it takes at most."""
        return self._mixture.count_codes(sizes)

    @property
    def _mixture(self) -> Mixture:
        return Mixture(target=self.target, max_memory=self.max_memory, device=self.device, seed=self.seed)

    def _trees(self, cells: int) -> PGM:
        return PGM(max_cells=cells, max_memory=self.max_memory)

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: protocols.Model | None = None,
        effort: Effort = FULL,
    ) -> protocols.Model:
        """The model that explains the measurements; see the class. `warm` is not used.

        A rough fit is a small mixture. After the effort's deadline nothing more is tried.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many codes.
            SchemaError: The domain has no attribute `target`.
        """
        mixture, choice = self._mixture, None
        mixture.admit(domain, [])
        if not effort.rough and max(domain.sizes) <= mixture.largest:
            tables, rows = pool(domain, measurements, inferred=True), rows_of(measurements, total)
            choice = mixture.choose(settled(domain, tables), tables, rows, effort)
            ranked = rank_pairs(domain, tables, rows, choice.dependence)
            if ranked and self._prefers_tree(ranked, choice):
                pairs = self.choose_tree(domain, ranked, MOST_CELLS)
                trees = self._trees(MOST_CELLS)
                return Trees(
                    trees.fit(domain, keep_measurements(measurements, pairs), total=rows, effort=effort),
                    pairs,
                )
        return mixture.fit_at(choice.setting if choice else None, domain, measurements, total, effort)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> protocols.Model:
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
        return Trees(PGM().restore(domain, keep_measurements(measurements, kept), state), kept)

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

    def choose_tree(self, domain: Domain, ranked: Sequence[Clique], cells: int) -> list[Clique]:
        """The first pairs, those left out that would make the junction tree too large."""
        trees, chosen = self._trees(cells), list[Clique]()
        for pair in ranked:
            if np.isfinite(trees.cells(domain, chosen, [pair])[0]):
                chosen.append(pair)
        return chosen

    def _prefers_tree(self, ranked: Sequence[Clique], choice: Choice) -> bool:
        """Whether a graphical model of these pairs is better on split noise than the mixture.

        A small one is held against the small mixture first, and if it is better, the whole against the whole.
        """
        trials, pilot, setting = choice.trials, choice.pilot, choice.setting
        if trials is None or pilot is None or trials.is_late():
            return False
        small = self._fit_half(trials, ranked, PILOT_CELLS, setting)
        if not trials.prefers(small, pilot) or trials.is_late():
            return False
        tree = self._fit_half(trials, ranked, MOST_CELLS, setting)
        return trials.prefers(tree, trials.fit(self._mixture, setting))

    def _fit_half(
        self, trials: Trials, ranked: Sequence[Clique], cells: int, setting: Setting
    ) -> Candidate[GraphicalModel]:
        """The graphical model of the first of these pairs, fitted to the one half."""
        half = [table.measurement for table in trials.half]
        pairs = self.choose_tree(trials.domain, ranked, cells)
        model = self._trees(cells).fit(
            trials.domain, keep_measurements(half, pairs), total=trials.rows, effort=trials.effort
        )
        return trials.enter(model, setting)


class Trees(Carried["GraphicalModel"]):
    """A graphical model of some of the pairs that were measured; it remembers which.

    Args:
        inner: The model.
        kept: Its pairs.
    """

    def __init__(self, inner: GraphicalModel, kept: Sequence[Clique]) -> None:
        super().__init__(inner)
        self.kept = tuple(kept)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Auto.restore` builds the same model again."""
        places = [[self.domain.index(name) for name in pair] for pair in self.kept]
        return super().state() | {"trees": np.asarray(places, dtype=np.float64)}


def rank_pairs(
    domain: Domain, tables: Sequence[Pooled], rows: float, dependence: Floats | None
) -> list[Clique]:
    """Measured pairs whose dependence exceeds WORTH times their noise, as total variations, strongest first.

    None where a table of three attributes or more was measured: a graphical model would take it whole.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was measured.
        rows: Rows that it stands for.
        dependence: Of each pair of attributes, total variation from independence, if it is known.
    """
    if dependence is None or any(len(table.clique) > 2 for table in tables):
        return []
    codes = {name: perplexity(table.values) for name, table in one_ways(tables).items()}
    found: dict[Clique, float] = {}
    for table in tables:
        if len(table.clique) == 2 and not table.inferred:
            a, b = table.clique
            strength = float(dependence[domain.index(a), domain.index(b)])
            # The total variation of noise alone: E|z| / 2 a cell.
            noise = codes[a] * codes[b] * float(table.sigma.mean()) / rows / math.sqrt(2.0 * math.pi)
            if strength > WORTH * noise:
                found[table.clique] = strength
    return sorted(found, key=lambda pair: -found[pair])[: PAIRS * len(domain)]


def keep_measurements(measurements: Sequence[NoisyMarginal], pairs: Sequence[Clique]) -> list[NoisyMarginal]:
    """The measurements of single attributes and of some pairs, whichever way round."""
    known = {frozenset(pair) for pair in pairs}
    return [m for m in measurements if len(m.clique) == 1 or frozenset(m.clique) in known]
