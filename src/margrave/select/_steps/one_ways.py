"""One-ways: bought once, and what the released ones say about each attribute and the rows.

It also says which one-way marginals are still worth buying, which all strategies ask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.progress import OnStep, Step
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Curator
    from margrave.release import NoisyMarginal

GRAIN = 1 << 20
"""About how many parts rho is cut into for shares."""

MAX_QUESTIONS = 2_000
"""Questions from which like shares are asked for together: each writes to the disk, for a millisecond."""
CLASSES = 8
"""Classes of shares for each factor of 2: noise moves by 4 % at most."""
CELLS_POWER = 2.0 / 3.0
"""A marginal's rho grows with this power of its cells, which minimises the sum of cells * sigma."""


def find_unmeasured(domain: Domain, measurements: Sequence[NoisyMarginal], sigma: float) -> list[Clique]:
    """One-way cliques without a measurement of average noise up to `sigma`.

    Discovery leaves one-way marginals behind; buying them again at more noise would be waste.
    """
    covered = {
        m.clique[0] for m in measurements if len(m.clique) == 1 and float((m.sigmas**2).mean()) <= sigma**2
    }
    return [(name,) for name in domain.names if name not in covered]


def all_cliques(domain: Domain, degree: int, max_cells: int) -> list[Clique]:
    """All cliques of `degree` attributes with at most max_cells cells."""
    cliques = combinations(domain.names, min(degree, len(domain)))
    return [clique for clique in cliques if domain.size(clique) <= max_cells]


def closure(cliques: Sequence[Clique], domain: Domain) -> list[Clique]:
    """All non-empty subsets of the cliques, smaller ones first, in the domain's order."""
    subsets = {
        domain.canonical(part)
        for clique in cliques
        for size in range(1, len(clique) + 1)
        for part in combinations(clique, size)
    }
    return sorted(subsets, key=lambda clique: (len(clique), [domain.index(name) for name in clique]))


def apportion_rho(weights: Mapping[Clique, float], rho: Fraction) -> dict[Clique, Fraction]:
    """Exact parts of rho, together all of it, in proportion to the weights; none for a weight of 0."""
    whole = math.fsum(weights.values())
    grains = {c: max(round(GRAIN * weight / whole), 1) for c, weight in weights.items() if weight > 0}
    total = sum(grains.values())
    return {clique: rho * Fraction(grain, total) for clique, grain in grains.items()}


def measure_shares(curator: Curator, shares: Mapping[Clique, Fraction]) -> None:
    """Measure each clique for its share of rho.

    Where there are more than MAX_QUESTIONS, cliques of nearly the same share are measured together, each for
    the mean of their shares in double precision, rounded down, so that all of them cost what they did but for
    a billionth. (Sums of that many exact fractions take minutes.)
    """
    if len(shares) <= MAX_QUESTIONS:
        for clique, share in shares.items():
            curator.measure([clique], share)
        return
    # Shares that differ by little are rounded to one: thousands of questions would take longer than the
    # fit.
    groups: dict[int, list[Clique]] = {}
    for clique, share in shares.items():
        groups.setdefault(round(CLASSES * math.log2(share)), []).append(clique)
    for cliques in groups.values():
        # Rounded down by a billionth, so that the sum over all groups never passes what is left.
        mean = math.fsum(float(shares[clique]) for clique in cliques) / len(cliques)
        curator.measure(cliques, Fraction(mean * (1.0 - 1e-9)))


Floats = NDArray[np.float64]


def buy_one_ways(curator: Curator, rho: Fraction, on_step: OnStep) -> None:
    """Measure the one-ways alike for rho in all; those that discovery left with no more noise are not."""
    share = rho / max(len(curator.domain), 1)
    singles = find_unmeasured(curator.domain, curator.measurements, curator.sigma(share))
    on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
    if singles:
        curator.measure(singles, share)


def share_one_ways(curator: Curator, codes: Mapping[str, float], rho: Fraction) -> dict[Clique, Fraction]:
    """How rho is best shared by one-ways: all that each has had is to grow with codes^CELLS_POWER.

    That is the least sum of codes * sigma. A one-way that has had more than its part already, by discovery
    say, gets nothing. Looks at releases and settings only.

    Args:
        curator: The door.
        codes: How many codes of each attribute hold anything.
        rho: What is to be spent; none is shared if it is not above 0.
    """
    if rho <= 0:
        return {}
    had = worth_of_one_ways(curator)
    weights = {name: count**CELLS_POWER for name, count in codes.items()}
    level = (float(rho) + math.fsum(had.values())) / math.fsum(weights.values())
    return apportion_rho({(name,): max(level * weights[name] - had[name], 0.0) for name in codes}, rho)


def worth_of_one_ways(curator: Curator) -> dict[str, float]:
    """rho that the released one-ways of each attribute are worth together."""
    unit = curator.sigma(Fraction(1)) ** 2
    return {
        name: sum((unit / float((m.sigmas**2).mean()) for m in found), 0.0)
        for name, found in group_one_ways(curator).items()
    }


def group_one_ways(curator: Curator) -> dict[str, list[NoisyMarginal]]:
    """The released one-ways of each attribute, from one pass over all that was released."""
    found: dict[str, list[NoisyMarginal]] = {name: [] for name in curator.domain.names}
    for measured in curator.measurements:
        if len(measured.clique) == 1:
            found[measured.clique[0]].append(measured)
    return found


def released_one_ways(curator: Curator) -> tuple[dict[str, Floats], float]:
    """Each attribute's distribution, and the rows, at least 1, from the one-ways that were released.

    Several measurements of one attribute are averaged by precision. The distribution is the one nearest to
    the shares: noise in many empty codes, cut at 0, would be mass.
    """
    means, totals, precisions = {}, [], []
    for name, found in group_one_ways(curator).items():
        weights = np.array([1.0 / float((m.sigmas**2).mean()) for m in found])
        tables = np.array([m.values for m in found])
        mean: Floats = (weights[:, None] * tables).sum(axis=0) / weights.sum()
        means[name] = mean
        totals.append(float(mean.sum()))
        precisions.append(float(weights.sum()) / len(mean))
    rows = curator.public_rows
    if rows is None:
        rows = max(float(np.average(totals, weights=precisions)), 1.0)
    return {name: project_simplex(mean / rows, np.ones(len(mean))) for name, mean in means.items()}, rows
