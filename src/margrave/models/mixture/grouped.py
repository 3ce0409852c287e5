"""GroupedMixture: a mixture over groups of codes, answering in codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from margrave.models.coarse import Coarse
from margrave.models.grouped import GroupedModel
from margrave.models.mixture.model import MixtureModel
from margrave.models.mixture.rules_ties import raked, ties
from margrave.models.pooled import Pooled
from margrave.models.wide_pairs import estimate_wide_pairs

__all__ = ["GroupedMixture", "ungrouped"]

MOST = 1 << 22
"""Codes times components of a large attribute that gets all its codes back, at most."""


def ungrouped(
    model: MixtureModel, coarse: Coarse, labels: bool, tables: Sequence[Pooled] = ()
) -> MixtureModel | GroupedMixture:
    """The model over groups of codes, with all codes of large attributes that rules speak of.

    Pairs of attributes that stay in groups are kept code by code where `tables` hold them.

    A rule about codes says little about groups of them; inside components codes are independent given their
    group, so that a component's distribution over codes is known. Labels are given up for that, unless
    `labels`.
    """
    rules, count = coarse.domain.rules, len(model.weights)
    names = () if rules is None else rules.names
    wide = [name for name in coarse.groups if name in names and coarse.domain[name] * count <= MOST]
    if not wide or labels:
        return GroupedMixture(model, coarse, estimate_wide_pairs(model, coarse, tables))
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
    if not left.groups:
        return found
    return GroupedMixture(found, left, estimate_wide_pairs(found, left, tables))


class GroupedMixture(GroupedModel[MixtureModel]):
    """A mixture in which very large attributes are modelled in groups of codes; see `Coarse`."""

    @property
    def information(self) -> float:
        """Price of a nat the fit was made at."""
        return self.inner.information
