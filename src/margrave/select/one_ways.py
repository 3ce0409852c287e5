"""One-ways: bought once, and what the released ones say about each attribute and the rows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.progress import OnStep, Step
from margrave.select.allocate import unmeasured

if TYPE_CHECKING:
    from margrave.protocols import Curator

__all__ = ["buy_one_ways", "released_one_ways"]

Floats = NDArray[np.float64]


def buy_one_ways(curator: Curator, rho: Fraction, on_step: OnStep) -> None:
    """Measure the one-ways alike for rho in all; those that discovery left with no more noise are not."""
    share = rho / max(len(curator.domain), 1)
    singles = unmeasured(curator.domain, curator.measurements, curator.sigma(share))
    on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
    if singles:
        curator.measure(singles, share)


def released_one_ways(curator: Curator) -> tuple[dict[str, Floats], float]:
    """Each attribute's distribution, and the rows, at least 1, from the one-ways that were released.

    Several one-ways of an attribute are averaged by precision; negative cells are cut.
    """
    ways, totals, precisions = {}, [], []
    for name in curator.domain.names:
        found = [m for m in curator.measurements if m.clique == (name,)]
        weights = np.array([1.0 / float((m.sigmas**2).mean()) for m in found])
        tables = np.array([m.values for m in found])
        mean: Floats = (weights[:, None] * tables).sum(axis=0) / weights.sum()
        totals.append(float(mean.sum()))
        precisions.append(float(weights.sum()) / len(mean))
        cut = np.maximum(mean, 0.0)
        ways[name] = cut / cut.sum() if cut.sum() > 0 else np.full(len(cut), 1.0 / len(cut))
    public = curator.public_rows
    return ways, max(float(np.average(totals, weights=precisions)), 1.0) if public is None else public
