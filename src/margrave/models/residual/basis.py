"""Basis: a marginal as a sum of residuals, one for each set of its attributes.

The residual of a table of counts over a set T of its attributes is what it says about them that no smaller
set
says: summed over all other attributes, then centred along every attribute of T. Residuals over different
sets are orthogonal, and together they are the table (analysis of variance). In the terms of Xiao, He, Zhang
and Kifer 2023, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions"
(arXiv 2305.08175), the residual here is Sub^+ Sub applied along the attributes of T: same information, no
choice of Sub.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.schema.domain import Clique

__all__ = ["others", "rebuilt", "residual", "residuals", "subsets"]

Floats = NDArray[np.float64]


def subsets(clique: Clique) -> Iterator[Clique]:
    """All subsets of a clique, the empty one first, in the clique's order."""
    for size in range(len(clique) + 1):
        yield from combinations(clique, size)


def others(table: Floats, clique: Clique, part: Clique) -> int:
    """Cells of the attributes of a table that are not in a part of its clique."""
    return math.prod(size for size, name in zip(table.shape, clique, strict=True) if name not in part)


def residual(table: Floats, clique: Clique, part: Clique) -> Floats:
    """The residual of a table over part of its attributes, shape [sizes of the part].

    Example:
        >>> residual(np.array([[4.0, 2.0], [1.0, 1.0]]), ("a", "b"), ("a",)).tolist()
        [2.0, -2.0]
    """
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in part))
    for axis in range(len(part)):
        summed = summed - summed.mean(axis=axis, keepdims=True)
    return np.asarray(summed)


def residuals(table: Floats, clique: Clique) -> dict[Clique, Floats]:
    """The residuals of a table over all subsets of its attributes."""
    return {part: residual(table, clique, part) for part in subsets(clique)}


def rebuilt(parts: Mapping[Clique, Floats], clique: Clique, shape: tuple[int, ...]) -> Floats:
    """The table over a clique from its residuals; those that are missing count as 0.

    A residual is spread evenly over the attributes it does not hold.

    Args:
        parts: By set of attributes, in the clique's order.
        clique, shape: Of the table.
    """
    table = np.zeros(shape)
    for part in subsets(clique):
        if part in parts:
            wide = [size if name in part else 1 for size, name in zip(shape, clique, strict=True)]
            share = parts[part] / others(table, clique, part)
            table += share.reshape(wide)
    return table
