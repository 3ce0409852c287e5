"""Nesting: which attributes of a mixture share atoms, by how much they depend on each other."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from margrave.schema.domain import Domain

__all__ = ["dependence", "dependences", "nested"]

Floats = NDArray[np.float64]

TIED = 0.3
"""Mean dependence between two groups from which on they become one."""
MOST = 6
"""Most attributes in one nest."""
FEWEST = 3
"""An attribute of fewer codes is not nested: a component's own conditionals say all about it that matters."""


def dependences(domain: Domain, pairs: Floats) -> Floats:
    """Total variation of each pair of attributes from independence, shape [attributes, attributes].

    Args:
        domain: Names and sizes of the attributes.
        pairs: All pair tables in proportions, the attributes' codes side by side, shape [codes, codes].
    """
    starts = np.concatenate([[0], np.cumsum(domain.sizes)])
    found = np.zeros((len(domain), len(domain)))
    for i in range(len(domain)):
        for j in range(i):
            table = pairs[starts[i] : starts[i + 1], starts[j] : starts[j + 1]]
            found[i, j] = found[j, i] = dependence(table)
    return found


def dependence(table: Floats) -> float:
    """Total variation of a pair table, in proportions, from the product of its one-ways."""
    product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
    return 0.5 * float(np.abs(table - product).sum())


def nested(domain: Domain, tied: Floats, barred: Collection[str]) -> list[tuple[int, ...]]:
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
    while len(groups) > 1:
        means = [
            (float(tied[np.ix_(groups[a], groups[b])].mean()), a, b)
            for b in range(len(groups))
            for a in range(b)
            if len(groups[a]) + len(groups[b]) <= MOST
        ]
        if not means or max(means)[0] < TIED:
            break
        _, a, b = max(means)
        groups[a] += groups.pop(b)
    return [tuple(sorted(group)) for group in groups if len(group) > 1]
