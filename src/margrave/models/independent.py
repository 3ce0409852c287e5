"""Independent: the product of one-way marginals, the simplest model there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models.evidence import checked
from margrave.models.pooled import one_ways, pool, rows_of
from margrave.models.rounding import draw_column
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

__all__ = ["Independent", "IndependentModel", "simplex"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Independent:
    """Fits every attribute by itself: no relation between attributes survives.

    An attribute's distribution is the inverse-variance mean of all measurements that mention it, summed
    over their other attributes, projected on the simplex; uniform where none does.
    """

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "independent"

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> IndependentModel:
        """The product of the one-way marginals; `warm` and `effort` are not needed and not used.

        Raises:
            InputError: The tables do not fit the domain, or total is not positive.
        """
        rows = rows_of(measurements, total)
        found = one_ways(pool(domain, measurements))
        ways = [
            simplex(found[name].values / rows, found[name].sigma ** 2)
            if name in found
            else np.full(domain[name], 1.0 / domain[name])
            for name in domain.names
        ]
        return IndependentModel(domain, rows, ways)

    def restore(
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
        if not (sound and np.isfinite(total) and total > 0 and np.isfinite(flat).all() and (flat >= 0).all()):
            raise ReleaseError(invalid("state", "one distribution an attribute", "The release is damaged."))
        ways = np.split(flat.astype(np.float64), np.cumsum(domain.sizes)[:-1]) if len(domain) else []
        return IndependentModel(domain, float(total), ways)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Any cliques will do: only their one-way marginals are used."""

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """The cells of all one-ways, whatever is measured, shape [candidates]."""
        return np.full(len(candidates), float(sum(domain.sizes)))


class IndependentModel:
    """A product of one-way distributions.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        ways: The distribution of each attribute, each of shape [size].
    """

    def __init__(self, domain: Domain, total: float, ways: Sequence[Floats]) -> None:
        self._domain = domain
        self._total = total
        self._ways = tuple(ways)

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
        table = np.asarray(self._total)
        for name in clique:
            table = table[..., None] * self._ways[self._domain.index(name)]
        return table

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        return [self.project(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator, given: Mapping[str, int] | None = None) -> Encoded:
        """Rows whose column counts are within 1 of the model's, paired at random; `given` is constant.

        Raises:
            InputError: rows is negative, or a code is outside its attribute.
        """
        if rows < 0:
            raise InputError(invalid("rows", "at least 0", "Ask for a number of rows.", got=rows))
        columns = []
        evidence = checked(self._domain, given or {})
        group = np.zeros(rows, dtype=np.int64)
        for name, way in zip(self._domain.names, self._ways, strict=True):
            code = evidence.get(name)
            codes = (
                draw_column(group, np.arange(rows), way[None, :], rng)
                if code is None
                else np.full(rows, code)
            )
            columns.append(codes.astype(code_dtype(len(way))))
        return Encoded(self._domain, tuple(columns))

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Independent.restore` builds the same model again."""
        return {"total": np.asarray(self._total), "ways": np.concatenate([np.zeros(0), *self._ways])}


def simplex(values: Floats, variances: Floats) -> Floats:
    """The distribution nearest to noisy probabilities, in squares weighted by 1 / variance, shape [codes].

    It is max(values - t * variances, 0) with t such that it sums to 1.

    Example:
        >>> simplex(np.array([0.9, 0.3, -0.4]), np.ones(3)).round(3).tolist()
        [0.8, 0.2, 0.0]
    """
    ratio = values / variances
    order = np.argsort(-ratio, kind="stable")
    level = (np.cumsum(values[order]) - 1.0) / np.cumsum(variances[order])
    kept = int(np.flatnonzero(ratio[order] > level)[-1])
    found = np.maximum(values - level[kept] * variances, 0.0)
    return np.asarray(found / found.sum())
