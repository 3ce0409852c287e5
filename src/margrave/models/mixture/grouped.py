"""GroupedMixture: a mixture over groups of codes, answering in codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.coarse import Coarse
from margrave.models.evidence import Evidence
from margrave.models.mixture.model import MixtureModel
from margrave.models.mixture.rules_ties import raked, ties
from margrave.models.ruled import sampled
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

__all__ = ["GroupedMixture", "ungrouped"]

Floats = NDArray[np.float64]

MOST = 1 << 22
"""Codes times components of a large attribute that gets all its codes back, at most."""


def ungrouped(model: MixtureModel, coarse: Coarse, labels: bool) -> MixtureModel | GroupedMixture:
    """The model over groups of codes, with all codes of large attributes that rules speak of.

    A rule about codes says little about groups of them; inside components codes are independent given their
    group, so that a component's distribution over codes is known. Labels are given up for that, unless
    `labels`.
    """
    rules, count = coarse.domain.rules, len(model.weights)
    names = () if rules is None else rules.names
    wide = [name for name in coarse.groups if name in names and coarse.domain[name] * count <= MOST]
    if not wide or labels:
        return GroupedMixture(model, coarse)
    left = coarse.without(wide)
    parts = {name: model.fitted_block(name) for name in model.domain.names}
    for name in wide:
        parts[name] = model.block(name)[coarse.groups[name]] * coarse.shares[name][:, None]
    domain = left.inner if left.groups else coarse.domain
    for tie in ties(domain):
        if not set(wide).isdisjoint(tie.names):  # the fit knew less of these rules, or nothing
            own = [parts[name] if name in wide else model.block(name) for name in tie.names]
            parts |= dict(zip(tie.names, raked(tie, own, model.weights), strict=True))
    rest = model.total, model.weights, np.concatenate(list(parts.values())), model.information, model.descent
    found = MixtureModel(domain, *rest)
    return GroupedMixture(found, left) if left.groups else found


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

    def sample(
        self, rows: int, rng: np.random.Generator, given: Mapping[str, int | Codes] | None = None
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules; see `MixtureModel.sample`.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """

        def drawn(count: int, codes: Evidence) -> list[NDArray[np.int64]]:
            return self._drawn(count, codes, rng)

        def ways() -> dict[str, Floats]:
            return {name: self.project((name,)) for name in self.domain.names}

        return sampled(self.domain, rows, given, rng, drawn, ways)

    def _drawn(self, rows: int, given: Evidence, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        groups = self.coarse.groups
        inner: dict[str, Any] = {n: groups[n][codes] if n in groups else codes for n, codes in given.items()}
        found = self.inner.sample(rows, rng, inner)
        columns = []
        for name in self.domain.names:
            codes = found.column(name).astype(np.int64)
            if name in given:
                codes = np.array(np.broadcast_to(given[name], rows), dtype=np.int64)
            elif name in groups:
                codes = self.coarse.drawn(name, codes, rng)
            columns.append(codes)
        return columns

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Mixture.restore` builds the same model again."""
        return self.inner.state() | self.coarse.state()
