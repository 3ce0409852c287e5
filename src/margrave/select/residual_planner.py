"""ResidualPlanner: all marginals of k attributes, with the noise that makes them together most accurate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique
from margrave.select.allocate import all_cliques, apportioned, closure

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

__all__ = ["ResidualPlanner"]

LEAST = 1e-5
"""Smallest share of rho that a marginal is measured with; the others have it."""


@final
@dataclass(frozen=True, slots=True)
class ResidualPlanner:
    """Measure the workload and what lies in it, with shares of rho that minimise the workload's variance.

    Xiao, He, Zhang and Kifer 2023, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
    Convex Loss Functions" (arXiv 2305.08175). Their mechanism adds to each residual noise of its own,
    correlated as the residual is. Here whole marginals get independent noise, all of whose residuals are
    then used (`margrave.models.residual`), and shares are optimised over all subsets of the workload's
    cliques (`margrave.select.design`); `design.planner_bound` says what is lost, a few per cent where
    attributes have more than a few codes, nothing for one-ways. It is optimal for the variance of unbiased
    tables; tables without negative counts and rows gain from that without its being optimal for them.

    **Privacy.** All answers are the curator's Gaussian measurements of marginals, each priced at its share,
    so GDP prices them together under both adjacencies and for owners of many rows. (A residual alone would
    cost prod (n - 1) / n of its marginal under add_remove, twice that without its smallest attribute's
    factor under
    replace_one: that saving is not taken.) The shares follow from the sizes of the domain and from earlier
    releases' noise alone. All of rho is spent.

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
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise InputError(invalid("degree", "at least 1", "Try 2.", got=self.degree))
        if self.workload is not None and not all(weight > 0 for weight in self.workload.values()):
            raise InputError(invalid("workload", "cliques with weights above 0", "Drop the others."))

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the fit stops and returns the best so far.

        Raises:
            InputError: There is no clique, or the model would be too large.
            SchemaError: A clique of the workload names an unknown attribute.
        """
        from margrave.select.design import best_design

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
        unit = curator.sigma(curator.remaining) ** 2
        known: dict[Clique, float] = {}
        for m in curator.measurements:
            own = domain.canonical(m.clique)
            known[own] = known.get(own, 0.0) + unit / float((m.sigmas**2).mean())
        shares = best_design(domain, weights, marginals, known).shares
        kept = {clique: share for clique, share in shares.items() if share >= LEAST / len(shares)}
        on_step(Step("measure", f"{len(kept)} marginals", 0, curator.progress))
        for clique, rho in apportioned(kept, curator.remaining).items():
            curator.measure([clique], rho)
        on_step(Step("fit", f"{len(kept)} marginals", 1, 1.0))
        effort = Effort(deadline=deadline)
        return fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=effort)
