"""Independent: the product of one-way marginals, the simplest model there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline, Effort
from margrave.models._base.constraints import (
    FORBIDDEN_CERTAINTY,
    Evidence,
    zero_forbidden,
)
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import Model
from margrave.models._base.pooling import Pooled, one_ways, pool, smooth_one_ways
from margrave.models._sampling.rounding import draw_column
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.inference import rule_tables
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.models.pgm.model import GraphicalModel
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Independent(Estimator["IndependentModel"]):
    """Fits every attribute by itself: no relation between attributes survives but the rules.

    An attribute's distribution is the inverse-variance mean of all measurements that mention it, summed
    over their other attributes, as its counts probably are (`margrave.smoothing`), projected on the simplex;
    uniform where none does.
    """

    name: ClassVar[str] = "independent"
    small: ClassVar[bool] = True
    instant: ClassVar[bool] = True

    def fit_tables(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        rows: float,
        warm: protocols.Model | None,
        effort: Effort,
    ) -> IndependentModel:
        """The product of the one-way marginals; `warm` and, without rules, `effort` are not used.

        Raises:
            InputError: The tables do not fit the domain, or total is not positive.
        """
        known = one_ways(zero_forbidden(domain, tables, FORBIDDEN_CERTAINTY))
        found = {one.clique[0]: one for one in smooth_one_ways(domain, list(known.values()), rows)}
        ways = [
            project_simplex(found[name].values / rows, found[name].sigma ** 2)
            if name in found
            else np.full(domain[name], 1.0 / domain[name])
            for name in domain.names
        ]
        if not rule_tables(domain):
            return IndependentModel(domain, rows, ways)
        # Rules tie columns together, which a product cannot hold: the graphical model of the one-ways and
        # the rules is the nearest to it that can.
        ruled = PGM().fit(domain, [_noisy(table) for table in found.values()], total=rows, effort=effort)
        return IndependentModel(domain, rows, ways, ruled)

    def restore_model(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        state: Mapping[str, Floats],
    ) -> IndependentModel:
        """The model whose `state` was saved.

        Raises:
            ReleaseError: The state is not that of a model over this domain.
        """
        total, flat = np.asarray(state.get("total", 0.0)), np.asarray(state.get("ways", ()))
        sound = total.shape == () and flat.shape == (sum(domain.sizes),)
        sound = sound and bool(np.isfinite(total) and total > 0)
        sound = sound and bool(np.isfinite(flat).all() and (flat >= 0).all())
        if not sound:
            raise ReleaseError(invalid("state", "one distribution an attribute", "The release is damaged."))
        ways = np.split(flat.astype(np.float64), np.cumsum(domain.sizes)[:-1]) if len(domain) else []
        own = {k[6:]: v for k, v in state.items() if k.startswith("ruled_")}
        if not rule_tables(domain):
            return IndependentModel(domain, float(total), ways)
        tables = one_ways(pool(domain, measurements))
        ruled = PGM().restore(domain, [_noisy(table) for table in tables.values()], own)
        return IndependentModel(domain, float(total), ways, ruled)


class IndependentModel(Model):
    """A product of one-way distributions.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        ways: The distribution of each attribute, each of shape [size].
        ruled: The most even distribution with these one-ways that obeys the rules, where there are any: all
            that is asked is answered by it.
    """

    def __init__(
        self, domain: Domain, total: float, ways: Sequence[Floats], ruled: GraphicalModel | None = None
    ) -> None:
        self._domain = domain
        self._total = total
        self._ways = tuple(ways)
        self._ruled = ruled

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self._total

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        if self._ruled is not None:
            return self._ruled.project(clique)
        table = np.asarray(self._total)
        for name in clique:
            table = table[..., None] * self._ways[self._domain.index(name)]
        return table

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        if self._ruled is not None:
            return self._ruled.project_many(cliques)
        return super().project_many(cliques)

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Rows whose column counts are within 1 of the model's, paired at random but for the rules.

        Args:
            rows: How many, at least 0.
            rng: Source of randomness.
            given: Codes by attribute, one for all rows or one a row; rows keep the order of those.
            deadline: Not used but by the rules: columns are drawn at once.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """
        if self._ruled is not None:
            return Encoded(self._domain, self._ruled.sample(rows, rng, given, deadline).columns)

        return super().sample(rows, rng, given, deadline)

    def one_ways(self) -> dict[str, Floats]:
        """Each attribute's distribution, [codes]."""
        return dict(zip(self._domain.names, self._ways, strict=True))

    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> list[NDArray[Any]]:
        """Rows of independent columns."""
        group, columns = np.zeros(rows, dtype=np.int64), []
        for name, way in zip(self._domain.names, self._ways, strict=True):
            if name in given:
                columns.append(np.array(np.broadcast_to(given[name], rows)))
            else:
                columns.append(draw_column(group, np.arange(rows), way[None, :], rng))
        return columns

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Independent.restore` builds the same model again."""
        ways = {"total": np.asarray(self._total), "ways": np.concatenate([np.zeros(0), *self._ways])}
        if self._ruled is None:
            return ways
        return ways | {f"ruled_{key}": value for key, value in self._ruled.state().items()}


def _noisy(table: Pooled) -> NoisyMarginal:
    from margrave.release import NoisyMarginal

    return NoisyMarginal(table.clique, table.values, table.sigma)
