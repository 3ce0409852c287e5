"""Penalty: one-way marginals pooled from everything that holds them, and how far each table may be missed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.pooled import Pooled, one_ways

__all__ = ["explained", "ridges"]

Floats = NDArray[np.float64]

ONES = 1 / 8
"""Strength of one-way tables over that of the others: one wrong one-way spoils all pairs it is part of."""


def explained(tables: Sequence[Pooled]) -> list[Pooled]:
    """The tables, with every one-way marginal made the best unbiased estimate from all that hold it.

    Attributes without a one-way table get one.

    Args:
        tables: One table a clique, in any order.
    """
    return [*one_ways(tables).values(), *(table for table in tables if len(table.clique) > 1)]


def ridges(tables: Sequence[Pooled], strength: float, rows: float, noise_aware: bool) -> list[Floats]:
    """Weight of each potential's square, in the shapes of the tables: see docs/models.md.

    Args:
        tables: What is fitted.
        strength: How much entropy counts.
        rows: What a proportion is of.
        noise_aware: Whether linear in sigma, and less for one-ways; else the square of sigma.
    """
    if not noise_aware:
        return [strength * (table.sigma / rows) ** 2 for table in tables]
    return [(ONES if len(t.clique) == 1 else 1.0) * strength * t.sigma / rows for t in tables]
