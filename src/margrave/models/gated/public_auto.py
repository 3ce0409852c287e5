"""PublicAuto: a gated mixture, or auto's model drawn given the public rows, whichever explains more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.limits import FULL, Effort
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled, compare, halves, pool
from margrave.models._base.public_rows import pack_tables, tabulate_rows, unpack_tables
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.refinements import choose_refinements, learn_refinements
from margrave.models.gated.calibrated import PREFIX, calibrate, restore_calibrated
from margrave.models.registry import resolve
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.protocols import Fitter

Floats = NDArray[np.float64]

SURE = 1.0
"""Standard errors by which auto's model has to be better than the gated mixture."""
MAX_KNOWN_CELLS = 1 << 20
"""Cells of all pairs of public attributes up to which auto's model is tried: a release keeps them with it."""
MAX_PUBLIC_SHARE = 0.6
"""Share of the attributes below which auto's model is tried. With half of gaps-a public it is a fifth closer
than the gated mixture (bench/LOG.md); with more public it would take as long again, and was not tried."""
REFINED = 8
"""Codes that all refined attributes may have together: as in the mixture of products."""
KEY = "public_degrees"
"""An array that the state of a `ConditionedModel` has and that of a gated mixture has not."""


class ConditionedModel(DelegatingModel["protocols.Model"]):
    """Auto's model of all attributes, to be drawn given public ones, with the public tables it was fitted to.

    Args:
        inner: The model.
        known: The tables of public rows, which no release holds.
    """

    def __init__(self, inner: protocols.Model, known: Sequence[KnownMarginal]) -> None:
        super().__init__(inner)
        self.known = tuple(known)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `PublicAuto.restore` builds the same model again."""
        return self.inner.state() | pack_tables(self.domain, self.known)


@dataclass(frozen=True, slots=True)
class PublicAuto(Estimator["protocols.Model"]):
    """Fits a gated mixture, or auto's model of all attributes drawn given the public rows.

    The gated mixture is fitted over the public rows themselves, and is ahead where many are public.
    Where few are, most pairs are those of private attributes, for which auto's model has more components and
    latent blocks, or is a graphical model. A mixture is calibrated to the public rows
    (`margrave.models.gated.calibrated`), so that rows drawn given them keep its tables. Both are fitted to
    one half of split noise (`margrave.models._base.pooling`), rows of both are drawn given the public rows,
    and auto's model is taken where the other half prefers the tables of its rows by a standard error; what is
    judged are pairs, and twice what they say beyond their one-ways. Auto's model sees the tables of public
    attributes and of their pairs, too, each cell with the precision of the average measured pair.

    Rough fits, fits without public rows, and those where MAX_PUBLIC_SHARE of the attributes are public or the
    public tables have more than MAX_KNOWN_CELLS cells are the gated mixture.

    **Privacy.** Sees released tables and public rows only: post-processing.

    Args:
        given: The public rows as codes, under the domain's attributes of the same names; None for none.
        target: An attribute that rows are meant to predict; if it is private, drawn last, given all others.
        max_memory: Bytes that the program may take with the fit.
        seed: Of split noise, and of the rows that are drawn to judge.

    Example:
        >>> import numpy as np
        >>> from margrave.schema.domain import Domain
        >>> domain, ages = Domain(("age", "ill"), (2, 2)), np.repeat(np.arange(2, dtype=np.uint8), 500)
        >>> rows = Encoded(Domain(("age",), (2,)), (ages,))
        >>> table = NoisyMarginal(("age", "ill"), np.array([[450.0, 50.0], [300.0, 200.0]]), 1.0)
        >>> model = PublicAuto(given=rows).fit(domain, [table])
        >>> bool(np.abs(model.project(("age", "ill")) - table.values).max() < 20)
        True
    """

    given: Encoded | None = None
    target: str | None = None
    max_memory: int | None = None
    seed: int = 0
    name: ClassVar[str] = "public_auto"
    options: ClassVar[frozenset[str]] = frozenset({"given", "target", "max_memory"})

    @property
    def _gated(self) -> Fitter:
        gated = resolve("gated").with_options(given=self.given, target=self.target)
        return gated if self.max_memory is None else gated.with_options(max_memory=self.max_memory)

    @property
    def _auto(self) -> Fitter:
        auto = resolve("auto")
        return auto if self.max_memory is None else auto.with_options(max_memory=self.max_memory)

    def _fit_auto(
        self,
        domain: Domain,
        tables: Sequence[NoisyMarginal],
        known: Sequence[KnownMarginal],
        rows: Encoded,
        effort: Effort,
    ) -> protocols.Model:
        """Auto's model of all attributes, a mixture calibrated to the public rows."""
        fitted = self._auto.fit(domain, [*tables, *known], total=float(rows.rows), effort=effort)
        if not isinstance(fitted, MixtureModel) or effort.over:
            return ConditionedModel(fitted, known)
        model = calibrate(fitted, rows, known, self.seed)
        target = self.target if self.target not in rows.domain else None
        pooled = pool(domain, tables)
        codes = REFINED if fitted.refinements is not None else 0
        names = choose_refinements(model, pooled, codes, target, rows.domain.names)
        return model.with_refinements(learn_refinements(model, names, pooled, self.seed)) if names else model

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

        Raises:
            InputError: The tables do not fit the domain, or total is not positive.
        """
        if self.given is not None and not effort.rough and not effort.over:
            known = self._count_public(domain, pool(domain, measurements))
            if known and self._prefers_auto(domain, measurements, known, effort):
                return self._fit_auto(domain, measurements, known, self.given, effort)
        return self._gated.fit(domain, measurements, total=total, effort=effort)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> protocols.Model:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model over this domain.
        """
        if KEY not in state:
            return self._gated.restore(domain, measurements, state)
        known = unpack_tables(domain, state)
        fitted = self._auto.restore(domain, [*measurements, *known], state)
        if PREFIX + "gate" in state and isinstance(fitted, MixtureModel):
            return restore_calibrated(fitted, known, state)
        return ConditionedModel(fitted, known)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Any cliques will do: auto's model is not tried where it would be too large."""

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Numbers of the gated mixture, whatever is measured, shape [candidates]."""
        return np.asarray(self._gated.cells(domain, cliques, candidates))

    def _count_public(self, domain: Domain, tables: Sequence[Pooled]) -> list[KnownMarginal]:
        """Tables of the public attributes and of their pairs; none where auto's model is not to be tried."""
        rows = self.given
        pairs = [table for table in tables if len(table.clique) == 2]
        if rows is None or not rows.rows or not pairs:
            return []
        names = [name for name in domain.names if name in rows.domain]
        codes, most = self._auto.count_codes(domain.sizes)
        cliques = [clique for degree in (1, 2) for clique in combinations(names, degree)]
        if (
            not 0 < len(names) < MAX_PUBLIC_SHARE * len(domain)
            or codes > most
            or sum(domain.size(clique) for clique in cliques) > MAX_KNOWN_CELLS
        ):
            return []
        sigma = float(np.mean([np.mean(table.sigma**-2.0) for table in pairs])) ** -0.5
        return [KnownMarginal(clique, tabulate_rows(rows, domain, clique), sigma) for clique in cliques]

    def _prefers_auto(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        known: Sequence[KnownMarginal],
        effort: Effort,
    ) -> bool:
        """Whether rows of auto's model, drawn given the public ones, are better on split noise."""
        rows = self.given
        if rows is None:
            return False
        private = set(domain.names) - set(rows.domain.names)
        tables = [table for table in pool(domain, measurements) if private.intersection(table.clique)]
        half, judged = halves(tables, np.random.default_rng(self.seed))
        noisy = [table.measurement for table in half]
        total = float(rows.rows)
        given = {name: rows.column(name) for name in rows.domain.names}
        counted = []
        for model in (
            self._gated.fit(domain, noisy, total=total, effort=effort),
            self._fit_auto(domain, noisy, known, rows, effort),
        ):
            drawn = model.sample(rows.rows, np.random.default_rng(self.seed), given)
            counted.append([tabulate_rows(drawn, domain, table.clique) for table in judged])
        if _is_late(effort):
            return False
        gain, spread = compare(counted[1], counted[0], judged, total)
        return gain + SURE * spread < 0.0


def _is_late(effort: Effort) -> bool:
    """Whether nothing more is to be tried; asked anew each time."""
    return effort.over
