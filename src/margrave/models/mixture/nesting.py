"""Nesting: which attributes of a mixture share atoms, by how much they depend on each other."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave.models.pooled import Pooled

__all__ = ["dependence", "dependences", "group_attributes"]

Floats = NDArray[np.float64]

TIED, MOST = 0.2, 8
"""Mean dependence between two groups from which on they become one, and most attributes in one nest."""
FEWEST = 4
"""An attribute of fewer codes is not nested: it is better drawn as a label, and nothing in a nest is one."""


def dependences(domain: Domain, pairs: Floats, tables: Sequence[Pooled] = (), rows: float = 1.0) -> Floats:
    """Total variation of each pair of attributes from independence, shape [attributes, attributes].

    A small mixture misses what is too dear for it, two attributes above all that follow from each other by
    more codes than it has components for. So what measured pairs say beyond it counts as well, as far as
    noise does not explain it.

    Args:
        domain: Names and sizes of the attributes.
        pairs: A model's pair tables in proportions, the attributes' codes side by side, shape [codes, codes].
        tables: What was measured.
        rows: Rows that the tables stand for.
    """
    starts = np.concatenate([[0], np.cumsum(domain.sizes)])
    measured = {table.clique: table for table in tables if not table.inferred}
    found = np.zeros((len(domain), len(domain)))
    for i, j in itertools.combinations(range(len(domain)), 2):
        table = pairs[starts[i] : starts[i + 1], starts[j] : starts[j + 1]]
        seen = measured.get((domain.names[i], domain.names[j]))
        if seen is not None:
            table = NoisyMarginal(seen.clique, seen.values / rows, seen.sigma / rows).beyond(table)
        found[i, j] = found[j, i] = dependence(table)
    return found


def dependence(table: Floats) -> float:
    """Total variation of a pair table, in proportions, from the product of its one-ways."""
    product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
    return 0.5 * float(np.abs(table - product).sum())


def group_attributes(
    domain: Domain, tied: Floats, barred: Collection[str] = ()
) -> tuple[tuple[int, ...], ...]:
    """Groups of attributes that depend strongly on each other: average linkage, as positions.

    Args:
        domain: Names and sizes of the attributes.
        tied: As from `dependences`.
        barred: Attributes that stay alone.
    """
    ruled = set() if domain.rules is None else set(domain.rules.names)
    groups = [
        [i]
        for i, name in enumerate(domain.names)
        if name not in ruled and name not in barred and domain.sizes[i] >= FEWEST
    ]
    single = [group[0] for group in groups]
    means = np.asarray(tied[np.ix_(single, single)], dtype=np.float64)
    while len(groups) > 1:
        sizes = np.array([len(group) for group in groups])
        open_pairs = np.triu(np.add.outer(sizes, sizes) <= MOST, 1)
        held = np.where(open_pairs, means, -np.inf)
        a, b = np.unravel_index(int(np.argmax(held)), held.shape)
        if not held[a, b] >= TIED:
            break
        # The mean over a union is that of its parts by their sizes.
        joined = (sizes[a] * means[a] + sizes[b] * means[b]) / (sizes[a] + sizes[b])
        means[a], means[:, a] = joined, joined
        means = np.delete(np.delete(means, b, axis=0), b, axis=1)
        groups[a] += groups.pop(int(b))
    return tuple(tuple(sorted(group)) for group in groups if len(group) > 1)
