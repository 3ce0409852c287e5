"""Fixed: measure the marginals the user names, once, with one scale of noise.

`AllKWay` measures every marginal of k attributes once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique
from margrave.select.strategy import (
    MEASURE,
    ONE,
    ONE_WAYS,
    PAIR,
    Holdings,
    Shares,
    Strategy,
    all_cliques,
    count_clique_cells,
    find_unmeasured,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

ONE_WAY_SHARE = Fraction(1, 10)
"""Share of rho for one-ways, where they are bought besides."""


@final
@dataclass(frozen=True, slots=True)
class Fixed(Strategy):
    """Measure a list of cliques.

    A tenth of rho goes to the one-way marginals of attributes that discovery has not measured, unless
    `one_ways` is off; the rest is split evenly over the cliques. Noise is Gaussian throughout, so GDP
    accounting applies.

    **Privacy.** All answers are the curator's Gaussian measurements (`Gaussian` has the proof), so GDP prices
    them together. The cliques are the user's, a public choice. All of rho is spent.

    Args:
        cliques: The cliques to measure.
        one_ways: Whether to measure one-way marginals too.
    """

    cliques: Sequence[Clique]
    one_ways: bool = True
    name: ClassVar[str] = "fixed"
    gaussian_only: ClassVar[bool] = True

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns of the cliques."""
        return frozenset(name for clique in self.cliques for name in clique)

    def split_rho(self, counted: bool) -> Shares:
        """A tenth for one-ways where they are measured too."""
        return _split_rho(self.one_ways)

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """The cliques, each as if of the widest attributes, and one-ways where they are measured."""
        widest = sorted(sizes, reverse=True)
        cells = math.fsum(math.prod(widest[: len(clique)]) for clique in self.cliques)
        cells += sum(sizes) if self.one_ways else 0
        return Holdings(cells, len(self.cliques) + (len(sizes) if self.one_ways else 0), cells)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the fit stops and returns the best so far.

        Raises:
            InputError: There is no clique.
            SchemaError: A clique names an unknown attribute.
        """
        cliques = list(dict.fromkeys(curator.domain.canonical(clique) for clique in self.cliques))
        if not cliques:
            raise InputError(invalid("cliques", "one or more", "Name the marginals to measure."))
        return measure_all(curator, fitter, cliques, self.one_ways, on_step, deadline)


def _split_rho(one_ways: bool) -> Shares:
    return {ONE_WAYS: ONE_WAY_SHARE, MEASURE: 1 - ONE_WAY_SHARE} if one_ways else {MEASURE: Fraction(1)}


def measure_all(
    curator: Curator,
    fitter: Fitter,
    cliques: Sequence[Clique],
    one_ways: bool,
    on_step: OnStep,
    deadline: Deadline | None = None,
) -> Model:
    """Measure some one-ways and the cliques, each group with one scale of noise, and fit once."""
    fitter.admit(curator.domain, cliques)
    rho = curator.remaining
    share = rho * _split_rho(True)[ONE_WAYS] / max(len(curator.domain), 1)
    singles = {clique for clique in cliques if len(clique) == 1}
    wanted = find_unmeasured(curator.domain, curator.measurements, curator.sigma(share)) if one_ways else []
    # One-ways that were asked for are bought with the rest, at the same noise; only those that nobody asked
    # for and that discovery did not tell well enough are extra.
    extra = [clique for clique in wanted if clique not in singles]
    if extra:
        on_step(Step("measure", f"{len(extra)} one-way marginals", 0, curator.progress))
        curator.measure(extra, share)
    on_step(Step("measure", f"{len(cliques)} marginals", 0, curator.progress))
    curator.measure(cliques, curator.remaining / len(cliques))
    on_step(Step("fit", f"{len(cliques)} marginals", 0, 1.0))
    effort = Effort(deadline=deadline)
    return fitter.fit(curator.domain, curator.measurements, total=curator.public_rows, effort=effort)


@final
@dataclass(frozen=True, slots=True)
class AllKWay(Strategy):
    """Measure all cliques of `degree` attributes with one scale of Gaussian noise.

    With the graphical model the junction tree of all pairs is the whole domain, which only small
    domains can hold: the fitter then says so. The independent model takes it at any size.

    **Privacy.** All answers are the curator's Gaussian measurements (`Gaussian` has the proof), so GDP prices
    them together. Which marginals are measured, and for how much, follows from the domain and from the noise
    of earlier releases alone. All of rho is spent.

    Args:
        degree: Attributes a clique, at least 1.
        max_cells: Cliques with more cells are left out.
    """

    degree: int = 2
    max_cells: int = 1_000_000
    name: ClassVar[str] = "all_kway"
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise InputError(invalid("degree", "at least 1", "Try degree=2.", got=self.degree))

    def split_rho(self, counted: bool) -> Shares:
        """A tenth for one-ways where they are not all there is."""
        return _split_rho(self.degree > 1)

    def share_marginal(self, columns: int) -> Shares:
        """All cliques alike."""
        if self.degree == 1:
            return {ONE: Fraction(1, columns)}
        split = self.split_rho(True)
        pairs = {PAIR: split[MEASURE] / max(math.comb(columns, 2), 1)} if self.degree == 2 else {}
        return {ONE: split[ONE_WAYS] / columns} | pairs

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All cliques of `degree`, each of which is measured."""
        cells = count_clique_cells(sizes, self.degree)
        return Holdings(cells, math.comb(len(sizes), self.degree), cells)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when a fit stops and returns the best so far.
        """
        cliques = all_cliques(curator.domain, self.degree, self.max_cells)
        if not cliques:
            raise InputError(invalid("max_cells", "large enough for one clique", "Raise it."))
        return measure_all(curator, fitter, cliques, self.degree > 1, on_step, deadline)
