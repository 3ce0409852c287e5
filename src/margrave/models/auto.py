"""Auto: a mixture of products or a graphical model, whichever explains the other half of the noise better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.constraints import resolve_dependencies
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import mu, pool, rows_of, smooth_one_ways
from margrave.models._determined import KEY as DETERMINED_KEY
from margrave.models._determined import DeterminedModel, restore_determined
from margrave.models._structural import find_changes
from margrave.models.mixture.fitter import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.release import NoisyMarginal
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.models._base.pooling import Pooled
    from margrave.models.mixture.policy import Choice
    from margrave.models.pgm.model import GraphicalModel

Floats = NDArray[np.float64]

MOST_CELLS = 500_000
"""Cells that the junction tree of a graphical model may have, a second or two of a fit. Over 18 releases of
the choosing tables models of 100,000 cells are 1 % worse, of 2,000,000 1 % better in twice the time."""
ROUNDS = 4
"""Forests that a graphical model is grown by. Over the same releases 3 are 1 % worse and 6 as good."""
POWER = 2.0 / 3.0
"""A pair is worth the error it would mend over this power of its cells. With 1/3, 1/2 or 1 a model is 0.4 to
0.6 % worse."""

ROUGH_SIGNAL = 6e4
"""Rows times mu up to which a graphical model that loses as a rough fit is not fitted to the end, which takes
most of its time: over 32 releases of up to 55,000 that moved the difference by less than a standard error,
and no verdict. Where noise is smaller, a rough fit is further off than the noise."""

HOPELESS_ROUND, HOPELESS = 2, 20.0
"""Rounds after which a graphical model that is worse than the mixture by so many standard errors is not grown
any more. Of the same releases the largest loss after two rounds that was made good later is 7."""


@dataclass(frozen=True, slots=True)
class Auto(Estimator["protocols.Model"]):
    """Fits a mixture, or a graphical model of the pairs that depend most, whichever explains more.

    A mixture of a few hundred products explains any number of pairs, but only so well: where some attributes
    nearly follow from each other by many codes, or noise is small, a graphical model follows them closer. It
    is grown while its junction tree stays below MOST_CELLS; see `grow_tree`. The mixture that small fits have
    chosen and the graphical model are fitted to one half of split noise and judged on the other
    (`margrave.models._base.pooling`), and the better one is fitted to everything. This costs no privacy.

    Where some pairs were neither measured nor appraised, as other strategies leave them, nothing can judge
    what a mixture says of them. The graphical model of all that was measured is taken there, if its tree
    stays below MOST_CELLS.

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
    fit_seconds: ClassVar[float] = 4e-3
    options: ClassVar[frozenset[str]] = frozenset({"target", "max_memory"})

    def __post_init__(self) -> None:
        _ = self._mixture, self._trees  # their arguments are checked as they are made

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

    @property
    def _trees(self) -> PGM:
        return PGM(max_cells=MOST_CELLS, max_memory=self.max_memory)

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
        self._mixture.admit(domain, [])
        if effort.rough:
            return self._mixture.fit(domain, measurements, total=total, effort=effort)
        tables = pool(domain, measurements, inferred=True)
        model = self._fit_best(domain, measurements, tables, rows_of(measurements, total), effort)
        determined = [] if effort.over else find_changes(model, tables, {})
        return DeterminedModel(model, determined) if determined else model

    def _fit_best(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        tables: Sequence[Pooled],
        rows: float,
        effort: Effort,
    ) -> protocols.Model:
        """The mixture or the graphical model, whichever explains more."""
        mixture, choice = self._mixture, None
        if max(domain.sizes) <= mixture.largest:
            pairs = find_unjudged_model(domain, tables)
            # Where other pairs were neither measured nor appraised, split noise cannot say which model is
            # better: the pairs that were bought make a graphical model.
            if pairs and np.isfinite(self._trees.cells(domain, pairs[1:], pairs[:1])[0]):
                smooth = [one.measurement for one in smooth_one_ways(domain, tables, rows)]
                kept = keep_measurements(smooth, pairs)
                return Trees(self._trees.fit(domain, kept, total=rows, effort=effort), pairs)
            choice = mixture.choose(resolve_dependencies(domain, tables), tables, rows, effort)
            ranked = rank_pairs(domain, tables, choice.dependence)
            if ranked and self._prefers_tree(ranked, choice):
                return self.grow_tree(domain, measurements, ranked, rows, effort)
        return mixture.fit_at(choice, domain, measurements, rows, effort, tables)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> protocols.Model:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model over this domain.
        """
        if DETERMINED_KEY in state:
            determined, inner = restore_determined(domain, state)
            return DeterminedModel(self.restore(domain, measurements, inner), determined)
        if "trees" not in state:
            return self._mixture.restore(domain, measurements, state)
        places = np.asarray(state["trees"], dtype=np.float64)
        pairs = places.ndim == 2 and places.shape[1] == 2
        if not (pairs and set(places.ravel()) <= set(range(len(domain)))):
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

    def grow_tree(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        pairs: Sequence[Clique],
        rows: float,
        effort: Effort = FULL,
    ) -> Trees:
        """The graphical model of those pairs that mend most of what it gets wrong.

        In each of ROUNDS rounds a model is fitted roughly to the pairs that were taken before. The error of
        another pair is the total variation between the model's table and what its measurement says beyond it
        (`NoisyMarginal.beyond`), 0 where noise explains all of that. Pairs are taken by their error over
        cells^POWER while the tree stays below MOST_CELLS, without a cycle in one round: the last pair of a
        cycle may follow from the others, which the next round tells. Post-processing of the measurements.

        Args:
            domain: Names and sizes of the attributes.
            measurements: What was measured.
            pairs: Those that may be taken, all of them measured.
            rows: Rows to stand for.
            effort: After its deadline no other round begins.
        """
        grown = self._grow_roughly(domain, measurements, pairs, rows, effort)
        return self._fit_tree(domain, measurements, grown, rows, effort)

    def _fit_tree(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        grown: Trees,
        rows: float,
        effort: Effort,
    ) -> Trees:
        """The graphical model of the same pairs, fitted to the end."""
        kept = keep_measurements(measurements, grown.kept)
        model = self._trees.fit(domain, kept, total=rows, warm=grown.inner, effort=effort)
        return Trees(model, grown.kept)

    def _grow_roughly(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        pairs: Sequence[Clique],
        rows: float,
        effort: Effort,
        is_hopeless: Callable[[GraphicalModel], bool] = lambda model: False,
    ) -> Trees:
        """The last round's model of `grow_tree`, or the second one's if that is hopeless."""
        trees, chosen, wanted = self._trees, list[Clique](), set(pairs)
        tables = [table for table in pool(domain, measurements) if table.clique in wanted]
        rough = replace(effort, rough=True)
        model = trees.fit(domain, keep_measurements(measurements, []), total=rows, effort=rough)
        # Each round asks what the model so far gets wrong, so that a pair that follows from others already
        # is not taken in.
        for turn in range(ROUNDS):
            if effort.over or (turn == HOPELESS_ROUND and is_hopeless(model)):
                break
            errors = {
                table.clique: error / domain.size(table.clique) ** POWER
                for table, error in _measure_errors(model, tables)
                if error > 0.0 and table.clique not in chosen
            }
            forest = self._find_forest(domain, chosen, sorted(errors, key=lambda pair: -errors[pair]))
            if not forest:
                break
            chosen += forest
            kept = keep_measurements(measurements, chosen)
            model = trees.fit(domain, kept, total=rows, warm=model, effort=rough)
        return Trees(model, chosen)

    def _find_forest(
        self, domain: Domain, chosen: Sequence[Clique], ranked: Sequence[Clique]
    ) -> list[Clique]:
        """The first pairs without a cycle among them whose tree with the chosen ones is not too large."""
        root = {name: name for name in domain.names}
        forest: list[Clique] = []
        for a, b in ranked:
            if root[a] == root[b]:
                continue
            if np.isfinite(self._trees.cells(domain, [*chosen, *forest], [(a, b)])[0]):
                forest.append((a, b))
                # Names of one tree share a root, by which a pair that would close a cycle is told.
                joined = root[b]
                root = {name: root[a] if own == joined else own for name, own in root.items()}
        return forest

    def _prefers_tree(self, ranked: Sequence[Clique], choice: Choice) -> bool:
        """Whether a graphical model grown from these pairs is better on split noise than the mixture.

        It is held against the small mixture first, and if it is better, against the whole. One without any
        pair is never taken.
        """
        trials, pilot, setting = choice.trials, choice.pilot, choice.setting
        if trials is None or pilot is None or trials.is_late():
            return False
        # Both are fitted to one half of the noise and judged by the other, so the one with more freedom has
        # no advantage.
        half = [table.measurement for table in trials.half]
        rough = trials.rows * mu(trials.tables) <= ROUGH_SIGNAL

        def is_hopeless(model: GraphicalModel) -> bool:
            if not rough:
                return False
            loss, spread = trials.compare(trials.enter(model, setting), pilot)
            return loss > HOPELESS * spread

        grown = self._grow_roughly(trials.domain, half, ranked, trials.rows, trials.effort, is_hopeless)
        if not grown.kept or trials.is_late():
            return False
        if rough and not trials.prefers(trials.enter(grown, setting), pilot):
            return False
        tree = trials.enter(self._fit_tree(trials.domain, half, grown, trials.rows, trials.effort), setting)
        if not trials.prefers(tree, pilot) or trials.is_late():
            return False
        return trials.prefers(tree, trials.fit(self._mixture, setting))


class Trees(DelegatingModel["GraphicalModel"]):
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
        return super().state() | {"trees": np.asarray(places, dtype=np.float64).reshape(-1, 2)}


def rank_pairs(domain: Domain, tables: Sequence[Pooled], dependence: Floats | None) -> list[Clique]:
    """The measured pairs that a graphical model may be grown from, the most dependent first.

    As many as ROUNDS forests can take. None where a table of three attributes or more was measured: a
    graphical model would take it whole.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was measured.
        dependence: Of each pair of attributes, total variation from independence, if it is known.
    """
    if dependence is None or any(len(table.clique) > 2 for table in tables):
        return []
    pairs = [table.clique for table in tables if len(table.clique) == 2 and not table.inferred]
    found: dict[Clique, float] = {
        (a, b): float(dependence[domain.index(a), domain.index(b)]) for a, b in pairs
    }
    return sorted(found, key=lambda pair: -found[pair])[: ROUNDS * len(domain)]


def find_unjudged_model(domain: Domain, tables: Sequence[Pooled]) -> list[Clique]:
    """The measured pairs, where other pairs were neither measured nor appraised; none otherwise.

    None either where a table of three attributes or more was measured, which says something of all its pairs.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was measured and inferred.
    """
    known = [table.clique for table in tables if len(table.clique) > 1]
    if any(len(clique) > 2 for clique in known) or 2 * len(known) == len(domain) * (len(domain) - 1):
        return []
    return [table.clique for table in tables if len(table.clique) == 2 and not table.inferred]


def keep_measurements(measurements: Sequence[NoisyMarginal], pairs: Sequence[Clique]) -> list[NoisyMarginal]:
    """The measurements of single attributes and of some pairs, whichever way round."""
    known = {frozenset(pair) for pair in pairs}
    return [m for m in measurements if len(m.clique) == 1 or frozenset(m.clique) in known]


def _measure_errors(model: protocols.Model, tables: Sequence[Pooled]) -> list[tuple[Pooled, float]]:
    """Each table with the total variation, in rows, that it shows between itself and the model."""
    expected = model.project_many([table.clique for table in tables])
    return [
        (table, 0.5 * float(np.abs(table.measurement.beyond(own) - own).sum()))
        for table, own in zip(tables, expected, strict=True)
    ]
