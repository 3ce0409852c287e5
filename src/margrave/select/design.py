"""Design: how to share rho over marginals so that all of a workload's tables come out with least variance.

ResidualPlanner (Xiao, He, Zhang and Kifer 2023, arXiv 2305.08175) gives every residual its own noise. Here
noise is bought on whole marginals: one with variance s^2 a cell tells of the residual over each part T of
its attributes with precision 1 / (s^2 cells of its other attributes). What is left to choose is each
marginal's share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from margrave.schema.domain import Clique, Domain

__all__ = ["Design", "best_design", "planner_bound"]

Floats = NDArray[np.float64]

STEPS, CLOSE = 2000, 1e-4
"""Steps of the multiplicative algorithm, at most, and how near to optimal it stops."""


@dataclass(frozen=True, slots=True)
class Design:
    """Shares of rho and what they achieve.

    Args:
        shares: Of each marginal, together 1.
        variance: The weighted sum of the workload's variances, for noise of variance 1 bought by all of rho.
        gap: Relative distance to the best variance, at most.
    """

    shares: Mapping[Clique, float]
    variance: float
    gap: float


def best_design(
    domain: Domain,
    workload: Mapping[Clique, float],
    marginals: Sequence[Clique],
    known: Mapping[Clique, float] | None = None,
) -> Design:
    """The shares that minimise  sum over workload cliques of weight * sum of their cells' variances.

    With w_T the precision of the residual over T, a cell of marginal g has the variance
    sum over T in g of  prod over T of (n - 1) / n * prod over the others of 1 / n^2 / w_T,  and
    w_T = sum over measured m that hold T of  share_m / cells of m's others. That is convex in the shares. The
    multiplicative algorithm share <- share * root of its derivative, which never gets worse (Yu 2010), runs
    until the derivatives agree that nothing can be won: max of them over their mean is the bound on the gap.

    Args:
        domain: Sizes of the attributes.
        workload: Cliques, in the domain's order, with their weights.
        marginals: What may be measured; together they hold all of the workload.
        known: Precision of marginals released before, in units of one over the variance that all of rho buys.
    """
    parts = _parts(workload)
    values = _values(domain, workload, parts)
    design = _precisions(domain, marginals, parts)
    base = np.zeros(len(parts))
    if known:
        base = _precisions(domain, list(known), parts).T @ np.array(list(known.values()))
    shares = np.full(len(marginals), 1.0 / len(marginals))
    gap, variance = math.inf, math.inf
    for _ in range(STEPS):
        precision = base + design.T @ shares
        variance = float((values / precision).sum())
        slopes = design @ (values / precision**2)
        mean = float(shares @ slopes)
        gap = (float(slopes.max()) - mean) / variance
        if gap <= CLOSE:
            break
        shares = shares * np.sqrt(slopes)
        shares = shares / shares.sum()
    return Design(dict(zip(marginals, shares.tolist(), strict=True)), variance, gap)


def planner_bound(domain: Domain, workload: Mapping[Clique, float]) -> float:
    """The variance that ResidualPlanner's own noise reaches under add_remove, in the unit of
    `Design.variance`.

    (sum over T of root(v_T p_T))^2 with p_T = prod over T of (n - 1) / n, the optimum in closed form. It is a
    lower bound on what whole marginals reach.
    """
    parts = _parts(workload)
    price = np.array([math.prod((domain[n] - 1) / domain[n] for n in part) for part in parts])
    return float(np.sqrt(_values(domain, workload, parts) * price).sum() ** 2)


def _parts(workload: Mapping[Clique, float]) -> list[Clique]:
    """All sets of attributes inside a clique of the workload, the empty one too."""
    found = {part: None for c in workload for k in range(len(c) + 1) for part in combinations(c, k)}
    return sorted(found, key=lambda part: (len(part), part))


def _values(domain: Domain, workload: Mapping[Clique, float], parts: Sequence[Clique]) -> Floats:
    """What a residual's variance adds to the workload's, shape [parts]."""
    place = {part: i for i, part in enumerate(parts)}
    found = np.zeros(len(parts))
    for clique, weight in workload.items():
        for k in range(len(clique) + 1):
            for part in combinations(clique, k):
                inside = math.prod((domain[n] - 1) / domain[n] for n in part)
                outside = math.prod(domain[n] for n in clique if n not in part)
                found[place[part]] += weight * domain.size(clique) * inside / outside**2
    return found


def _precisions(domain: Domain, marginals: Sequence[Clique], parts: Sequence[Clique]) -> sparse.csr_array:
    """The precision that each marginal, measured with variance 1, gives each residual: [marginals, parts]."""
    place = {part: i for i, part in enumerate(parts)}
    rows, columns, entries = [], [], []
    for row, clique in enumerate(marginals):
        for k in range(len(clique) + 1):
            for part in combinations(clique, k):
                if part in place:
                    rows.append(row)
                    columns.append(place[part])
                    entries.append(1.0 / math.prod(domain[n] for n in clique if n not in part))
    return sparse.csr_array((entries, (rows, columns)), shape=(len(marginals), len(parts)))
