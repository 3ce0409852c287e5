"""Coarse: attributes with very many codes, modelled in groups of codes.

A model may work on fewer codes than an attribute has. Codes that are frequent by the released one-way keep
a group of their own, rare ones share groups; inside a group codes are independent of everything else, with
the shares of the one-way. Ordered codes are grouped in runs of neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models.independent import simplex
from margrave.models.pooled import Pooled
from margrave.models.rounding import draw_column, grouped
from margrave.schema.domain import Clique, Domain

__all__ = ["Coarse", "coarsen", "recalled"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

OWN = 0.75
"""Share of the groups that single frequent codes get."""


@dataclass(frozen=True, slots=True)
class Coarse:
    """Which group each code of the large attributes is in, and its share of it.

    Args:
        domain: The attributes with all their codes.
        groups: For each large attribute, the group of each code, shape [size].
        shares: For each large attribute, each code's share of its group, shape [size].
    """

    domain: Domain
    groups: Mapping[str, Longs]
    shares: Mapping[str, Floats]

    @property
    def inner(self) -> Domain:
        """The domain with groups in place of the large attributes' codes, and the rules on the others."""
        sizes = [
            int(self.groups[n].max()) + 1 if n in self.groups else self.domain[n] for n in self.domain.names
        ]
        ordered = [min(size, own) for size, own in zip(sizes, self.domain.ordered, strict=True)]
        rules = None if self.domain.rules is None else self.domain.rules.without(self.groups)
        return Domain(self.domain.names, tuple(sizes), tuple(ordered), rules)

    def without(self, names: Sequence[str]) -> Coarse:
        """The same with all codes of some attributes."""
        kept = [name for name in self.groups if name not in names]
        return Coarse(self.domain, {n: self.groups[n] for n in kept}, {n: self.shares[n] for n in kept})

    def summed(self, table: Pooled) -> Pooled:
        """A measurement with codes added up to groups, variances with them."""
        values, variance = table.values, table.sigma**2
        for axis, name in enumerate(table.clique):
            if name in self.groups:
                values, variance = (_added(part, self.groups[name], axis) for part in (values, variance))
        return Pooled(table.clique, values, np.sqrt(variance))

    def spread(self, table: Floats, clique: Clique) -> Floats:
        """A table over groups as one over codes, shape domain.shape(clique)."""
        for axis, name in enumerate(clique):
            if name in self.groups:
                shape = [1] * len(clique)
                shape[axis] = -1
                table = np.take(table, self.groups[name], axis=axis) * self.shares[name].reshape(shape)
        return table

    def drawn(self, name: str, codes: Longs, rng: np.random.Generator) -> Longs:
        """A code for each row's group, counts within 1 of their expectation."""
        groups = self.groups[name]
        order = np.argsort(groups, kind="stable")
        firsts = np.searchsorted(groups[order], np.arange(int(groups.max()) + 2))
        widest = int(np.diff(firsts).max())
        table = np.zeros((len(firsts) - 1, widest))
        places = np.arange(len(groups)) - firsts[groups[order]]
        table[groups[order], places] = self.shares[name][order]
        place = draw_column(codes, grouped(codes, len(table)), table, rng)
        return np.asarray(order[firsts[codes] + place])

    def state(self) -> dict[str, Floats]:
        """Arrays for `recalled`."""
        kept: dict[str, Floats] = {}
        for name in self.groups:
            place = self.domain.index(name)
            kept[f"groups_{place}"] = self.groups[name].astype(np.float64)
            kept[f"shares_{place}"] = np.asarray(self.shares[name])
        return kept


def coarsen(domain: Domain, tables: Sequence[Pooled], largest: int) -> Coarse | None:
    """How to bring every attribute to at most `largest` codes; None if all are small enough."""
    groups, shares = {}, {}
    for name in domain.names:
        if domain[name] > largest:
            ways = _ways(domain, tables, name)
            groups[name] = _grouped(ways, domain.ordered[domain.index(name)], largest)
            held = np.bincount(groups[name], weights=ways)
            lone = np.bincount(groups[name])
            shares[name] = np.where(
                held[groups[name]] > 0, ways / np.maximum(held[groups[name]], 1e-300), 1 / lone[groups[name]]
            )
    return Coarse(domain, groups, shares) if groups else None


def recalled(domain: Domain, state: Mapping[str, Floats]) -> Coarse | None:
    """What `Coarse.state` saved; None if there was nothing.

    Raises:
        ReleaseError: The arrays do not fit the domain.
    """
    groups, shares = {}, {}
    for place, name in enumerate(domain.names):
        if f"groups_{place}" in state:
            found, share = np.asarray(state[f"groups_{place}"]), np.asarray(state.get(f"shares_{place}", ()))
            sound = found.shape == share.shape == (domain[name],)
            if not (sound and np.isfinite(found).all() and np.isfinite(share).all() and share.min() >= 0):
                raise ReleaseError(
                    invalid("state", "groups of the domain's codes", "The release is damaged.")
                )
            groups[name], shares[name] = found.astype(np.int64), share.astype(np.float64)
            if groups[name].min() < 0 or not np.allclose(np.bincount(groups[name], weights=share), 1.0):
                raise ReleaseError(invalid("state", "shares that sum to 1", "The release is damaged."))
    return Coarse(domain, groups, shares) if groups else None


def _ways(domain: Domain, tables: Sequence[Pooled], name: str) -> Floats:
    """The attribute's distribution: of its own measurement, else of the first table that has it."""
    for table in sorted(tables, key=lambda t: len(t.clique)):
        if name in table.clique:
            others = tuple(i for i, other in enumerate(table.clique) if other != name)
            values, variance = table.values.sum(axis=others), (table.sigma**2).sum(axis=others)
            total = max(float(values.sum()), 1.0)
            return simplex(values / total, variance / total**2)
    return np.full(domain[name], 1.0 / domain[name])


def _grouped(ways: Floats, ordered: int, largest: int) -> Longs:
    """The group of each code: frequent codes alone and the rest together, or runs of ordered neighbours."""
    groups = np.zeros(len(ways), dtype=np.int64)
    if ordered > largest // 2:
        rest = len(ways) - ordered
        runs = max(largest - rest, 1)
        groups[:ordered] = np.arange(ordered) * runs // ordered
        groups[ordered:] = np.minimum(runs + np.arange(rest), largest - 1)
        return groups
    order = np.argsort(-ways, kind="stable")
    own = int(OWN * largest)
    groups[order[:own]] = np.arange(own)
    rest = len(ways) - own
    groups[order[own:]] = own + np.arange(rest) * (largest - own) // rest
    return groups


def _added(values: Floats, groups: Longs, axis: int) -> Floats:
    order = np.argsort(groups, kind="stable")
    firsts = np.searchsorted(groups[order], np.arange(int(groups.max()) + 1))
    return np.asarray(np.add.reduceat(np.take(values, order, axis=axis), firsts, axis=axis))
