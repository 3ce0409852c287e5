"""GroupedMixture: a mixture over groups of codes, answering in codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.coarse import Coarse
from margrave.models.evidence import checked
from margrave.models.mixture.model import MixtureModel
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype

__all__ = ["GroupedMixture"]

Floats = NDArray[np.float64]


class GroupedMixture:
    """A mixture in which very large attributes are modelled in groups of codes; see `Coarse`.

    Args:
        inner: The mixture over groups.
        coarse: Which codes each group stands for.
    """

    def __init__(self, inner: MixtureModel, coarse: Coarse) -> None:
        self.inner = inner
        self.coarse = coarse

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes, codes and not groups."""
        return self.coarse.domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self.inner.total

    @property
    def converged(self) -> bool:
        """Whether the fit of the mixture ended in balance."""
        return self.inner.converged

    @property
    def information(self) -> float:
        """Price of a nat the fit was made at."""
        return self.inner.information

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        return self.coarse.spread(self.inner.project(clique), clique)

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        tables = self.inner.project_many(cliques)
        return [self.coarse.spread(table, clique) for table, clique in zip(tables, cliques, strict=True)]

    def sample(self, rows: int, rng: np.random.Generator, given: Mapping[str, int] | None = None) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given`; see `MixtureModel.sample`.

        Raises:
            InputError: rows is negative, or a code is outside its attribute.
        """
        evidence = checked(self.domain, given or {})
        groups = self.coarse.groups
        inner = {n: int(groups[n][code]) if n in groups else code for n, code in evidence.items()}
        found = self.inner.sample(rows, rng, inner)
        columns = []
        for name, size in zip(self.domain.names, self.domain.sizes, strict=True):
            codes = found.column(name).astype(np.int64)
            if name in evidence:
                codes = np.full(rows, evidence[name])
            elif name in groups:
                codes = self.coarse.drawn(name, codes, rng)
            columns.append(codes.astype(code_dtype(size)))
        return Encoded(self.domain, tuple(columns))

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Mixture.restore` builds the same model again."""
        return self.inner.state() | self.coarse.state()
