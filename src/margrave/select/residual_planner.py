"""ResidualPlanner: all marginals of k attributes, with the noise that makes them together most accurate.

The design shares rho over marginals so that all of a workload's tables come out with least variance.

ResidualPlanner (Xiao, He, Zhang and Kifer 2023, arXiv 2305.08175) gives every residual its own noise. Here
noise is bought on whole marginals: one with variance s^2 a cell tells of the residual over each part T of
its attributes with precision 1 / (s^2 cells of its other attributes). What is left to choose is each
marginal's share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.select.strategy import (
    ONE,
    PAIR,
    Holdings,
    Shares,
    Strategy,
    all_cliques,
    apportion_rho,
    closure,
    count_clique_cells,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

MIN_RHO_SHARE = 1e-5
"""Smallest share of rho that a marginal is measured with; the others have it."""


@final
@dataclass(frozen=True, slots=True)
class ResidualPlanner(Strategy):
    """Measure the workload and what lies in it, with shares of rho that minimise the workload's variance.

    Xiao, He, Zhang and Kifer 2023, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
    Convex Loss Functions" (arXiv 2305.08175). Their mechanism adds to each residual noise of its own,
    correlated as the residual is. Here whole marginals get independent noise, all of whose residuals are
    then used (`margrave.models.rowwise.residual`), and shares are optimised over all subsets of the
    workload's cliques (`margrave.select.residual_planner`); `planner_bound` says what is lost, a few per
    cent where attributes have more than a few codes, nothing for one-ways. It is optimal for the variance
    of unbiased tables; tables without negative counts and rows gain from that without its being optimal
    for them.

    **Privacy.** All answers are the curator's Gaussian measurements of marginals, each priced at its share,
    so GDP prices them together under both adjacencies and for owners of many rows. (A residual alone would
    cost prod (n - 1) / n of its marginal under add_remove, twice that without its smallest attribute's
    factor under replace_one: that saving is not taken.) The shares follow from the sizes of the domain and
    from earlier releases' noise alone. All of rho is spent.

    Args:
        degree: Attributes of the workload's cliques.
        workload: Cliques with weights instead; a weight counts a clique's mean variance over its cells.
        max_clique_cells: Cliques with more cells are left out.

    Raises:
        InputError: An argument is out of range.
    """

    degree: int = 2
    workload: Mapping[Clique, float] | None = None
    max_clique_cells: int = 1_000_000
    name: ClassVar[str] = "residual_planner"
    pace: ClassVar[tuple[float, float]] = (4e-3, 0.0)
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise InputError(invalid("degree", "at least 1", "Try 2.", got=self.degree))
        if self.workload is not None and not all(weight > 0 for weight in self.workload.values()):
            raise InputError(invalid("workload", "cliques with weights above 0", "Drop the others."))

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns of the workload, where one was given."""
        return frozenset(name for clique in self.workload or () for name in clique)

    def share_marginal(self, columns: int) -> Shares:
        """Nearly all goes to the pairs, which tell the one-ways too."""
        if self.degree == 2 and columns > 1:
            return {PAIR: Fraction(1, math.comb(columns, 2))}
        return {ONE: Fraction(1, columns)}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All cliques of `degree`, each of which is measured."""
        cells = count_clique_cells(sizes, self.degree)
        return Holdings(cells, math.comb(len(sizes), self.degree), cells)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the fit stops and returns the best so far.

        Raises:
            InputError: There is no clique, or the model would be too large.
            SchemaError: A clique of the workload names an unknown attribute.
        """

        domain = curator.domain
        if self.workload is None:
            whole = dict.fromkeys(all_cliques(domain, self.degree, self.max_clique_cells), 1.0)
        else:
            whole = {domain.canonical(clique): float(weight) for clique, weight in self.workload.items()}
        if not whole:
            raise InputError(invalid("workload", "one clique or more", "Raise max_clique_cells."))
        marginals = closure(list(whole), domain)
        fitter.admit(domain, marginals)
        # Every clique counts alike whatever its cells.
        weights = {clique: weight / domain.size(clique) for clique, weight in whole.items()}
        # What earlier releases know of each marginal, in units of what all of rho would buy on one.
        unit = curator.sigma(curator.remaining) ** 2
        known: dict[Clique, float] = {}
        for m in curator.measurements:
            own = domain.canonical(m.clique)
            known[own] = known.get(own, 0.0) + unit / float((m.sigmas**2).mean())
        shares = best_design(domain, weights, marginals, known).shares
        # Shares next to nothing cost a release each and tell next to nothing.
        # What falls below goes to the others when the shares are apportioned.
        kept = {clique: share for clique, share in shares.items() if share >= MIN_RHO_SHARE / len(shares)}
        on_step(Step("measure", f"{len(kept)} marginals", 0, curator.progress))
        for clique, rho in apportion_rho(kept, curator.remaining).items():
            curator.measure([clique], rho)
        on_step(Step("fit", f"{len(kept)} marginals", 1, 1.0))
        effort = Effort(deadline=deadline)
        return fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=effort)


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
        # Earlier releases are marginals whose precision is there already.
        base = _precisions(domain, list(known), parts).T @ np.array(list(known.values()))
    # The multiplicative algorithm needs a start inside: all shares above 0.
    shares = np.full(len(marginals), 1.0 / len(marginals))
    gap, variance = math.inf, math.inf
    for _ in range(STEPS):
        precision = base + design.T @ shares
        variance = float((values / precision).sum())
        # Minus the derivative of the variance by each share. At the optimum it is the same for every marginal
        # that is bought and no larger elsewhere, so that the largest over the mean bounds what can still be
        # won.
        slopes = design @ (values / precision**2)
        mean = float(shares @ slopes)
        gap = (float(slopes.max()) - mean) / variance
        if gap <= CLOSE:
            break
        # A fixed point has equal slopes on all marginals that are bought.
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
                # The variance of a cell times the cells: residuals spread over what they lack.
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
                    # A part is a sum over the codes of the other attributes, and so is its noise.
                    entries.append(1.0 / math.prod(domain[n] for n in clique if n not in part))
    return sparse.csr_array((entries, (rows, columns)), shape=(len(marginals), len(parts)))
