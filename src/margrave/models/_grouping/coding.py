"""CodeGrouping: attributes with very many codes, modelled in groups of codes.

A model may work on fewer codes than an attribute has. Codes that are frequent by the released one-way keep
a group of their own, rare ones share groups; inside a group codes are independent of everything else, with
the shares of the one-way. Ordered codes are grouped in runs of neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models._base.pooling import Pooled
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

SINGLE_CODE_SHARE = 0.75
"""Share of the groups that single frequent codes get."""


@dataclass(frozen=True, slots=True)
class CodeGrouping:
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

    def without(self, names: Sequence[str]) -> CodeGrouping:
        """The same with all codes of some attributes."""
        kept = [name for name in self.groups if name not in names]
        return CodeGrouping(self.domain, {n: self.groups[n] for n in kept}, {n: self.shares[n] for n in kept})

    def summed(self, table: Pooled) -> Pooled:
        """A measurement with codes added up to groups, variances with them."""
        values, variance = table.values, table.sigma**2
        for axis, name in enumerate(table.clique):
            if name in self.groups:
                values, variance = (_add_codes(part, self.groups[name], axis) for part in (values, variance))
        return replace(table, values=values, sigma=np.sqrt(variance))

    def spread(self, table: Floats, clique: Clique) -> Floats:
        """A table over groups as one over codes, shape domain.shape(clique)."""
        for axis, name in enumerate(clique):
            if name in self.groups:
                shape = [1] * len(clique)
                shape[axis] = -1
                table = np.take(table, self.groups[name], axis=axis) * self.shares[name].reshape(shape)
        return table

    def draw_codes(self, name: str, codes: Longs, rng: np.random.Generator) -> Longs:
        """A code for each row's group, counts within 1 of their expectation."""
        groups = self.groups[name]
        # Codes sorted by group, and a table with a row a group: the shares of its codes, side by side.
        order = np.argsort(groups, kind="stable")
        firsts = np.searchsorted(groups[order], np.arange(int(groups.max()) + 2))
        widest = int(np.diff(firsts).max())
        table = np.zeros((len(firsts) - 1, widest))
        places = np.arange(len(groups)) - firsts[groups[order]]
        table[groups[order], places] = self.shares[name][order]
        place = draw_column(codes, order_by_group(codes, len(table)), table, rng)
        return np.asarray(order[firsts[codes] + place])

    def state(self) -> dict[str, Floats]:
        """Arrays for `groups_from_state`."""
        kept: dict[str, Floats] = {}
        for name in self.groups:
            place = self.domain.index(name)
            kept[f"groups_{place}"] = self.groups[name].astype(np.float64)
            kept[f"shares_{place}"] = np.asarray(self.shares[name])
        return kept


def group_codes(domain: Domain, tables: Sequence[Pooled], largest: int) -> CodeGrouping | None:
    """How to bring every attribute to at most `largest` codes; None if all are small enough."""
    groups, shares = {}, {}
    for name in domain.names:
        if domain[name] > largest:
            ways = _ways(domain, tables, name)
            groups[name] = _group_codes(ways, domain.ordered[domain.index(name)], largest)
            shares[name] = _share_in_group(ways, groups[name])
    return CodeGrouping(domain, groups, shares) if groups else None


def merge_rare_codes(domain: Domain, ones: Mapping[str, Pooled], sigmas: float) -> CodeGrouping | None:
    """How to merge codes whose noisy one-way count is less than so many standard deviations.

    Codes without an order form one group, ordered ones a group with their neighbours. Attributes that rules
    speak of keep their codes. This is the domain compression of MST and AIM as post-processing: there a
    merged code is measured anew, here its cells are added up.

    Args:
        domain: Names and sizes of the attributes.
        ones: The best one-way table of each attribute that has one.
        sigmas: Standard deviations below which a count is taken for noise.

    Returns:
        None where nothing is merged.
    """
    ruled = set() if domain.rules is None else set(domain.rules.names)
    groups, shares = {}, {}
    for name, table in ones.items():
        low = table.values < sigmas * table.sigma
        own = _runs(low, domain.ordered[domain.index(name)])
        if name not in ruled and own.max() + 1 < len(own):
            groups[name], shares[name] = own, _share_in_group(_simplex(table), own)
    return CodeGrouping(domain, groups, shares) if groups else None


def groups_from_state(domain: Domain, state: Mapping[str, Floats]) -> CodeGrouping | None:
    """What `CodeGrouping.state` saved; None if there was nothing.

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
    return CodeGrouping(domain, groups, shares) if groups else None


def _ways(domain: Domain, tables: Sequence[Pooled], name: str) -> Floats:
    """The attribute's distribution: of its own measurement, else of the first table that has it."""
    for table in sorted(tables, key=lambda t: len(t.clique)):
        if name in table.clique:
            others = tuple(i for i, other in enumerate(table.clique) if other != name)
            values, variance = table.values.sum(axis=others), (table.sigma**2).sum(axis=others)
            return _simplex(Pooled((name,), values, np.sqrt(variance)))
    return np.full(domain[name], 1.0 / domain[name])


def _simplex(table: Pooled) -> Floats:
    """A noisy one-way table as the nearest distribution."""
    total = max(float(table.values.sum()), 1.0)
    return project_simplex(table.values / total, (table.sigma / total) ** 2)


def _share_in_group(ways: Floats, groups: Longs) -> Floats:
    """Each code's share of its group, even where the group holds nothing."""
    held, lone = np.bincount(groups, weights=ways)[groups], np.bincount(groups)[groups]
    return np.where(held > 0, ways / np.maximum(held, 1e-300), 1.0 / lone)


def _runs(low: NDArray[np.bool_], ordered: int) -> Longs:
    """The group of each code: low neighbours among the ordered ones together, and all other low ones."""
    # `new` marks codes that begin a group. A code that is high does; so does an ordered one behind a high
    # one. Low codes without an order all belong to the group that the first of them begins.
    new = ~low
    new[:ordered] |= ~np.concatenate([[False], low[:-1]])[:ordered]
    rest = np.flatnonzero(low[ordered:]) + ordered
    new[rest[:1]] = True
    groups = np.cumsum(new) - 1
    groups[rest] = groups[rest[0]] if len(rest) else 0
    return np.asarray(groups)


def _group_codes(ways: Floats, ordered: int, largest: int) -> Longs:
    """The group of each code: frequent codes alone and the rest together, or runs of ordered neighbours."""
    groups = np.zeros(len(ways), dtype=np.int64)
    # Mostly ordered: runs of equal length, so that a group is a range; codes behind the order share what is
    # left.
    if ordered > largest // 2:
        rest = len(ways) - ordered
        runs = max(largest - rest, 1)
        groups[:ordered] = np.arange(ordered) * runs // ordered
        groups[ordered:] = np.minimum(runs + np.arange(rest), largest - 1)
        return groups
    # Without an order: the most frequent codes alone, the others dealt out in runs of like frequency.
    order = np.argsort(-ways, kind="stable")
    own = int(SINGLE_CODE_SHARE * largest)
    groups[order[:own]] = np.arange(own)
    rest = len(ways) - own
    groups[order[own:]] = own + np.arange(rest) * (largest - own) // rest
    return groups


def _add_codes(values: Floats, groups: Longs, axis: int) -> Floats:
    order = np.argsort(groups, kind="stable")
    firsts = np.searchsorted(groups[order], np.arange(int(groups.max()) + 1))
    return np.asarray(np.add.reduceat(np.take(values, order, axis=axis), firsts, axis=axis))
