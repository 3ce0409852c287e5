"""AllKWay: measure every marginal of k attributes once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep
from margrave.select.allocate import all_cliques
from margrave.select.fixed import measure_all

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

__all__ = ["AllKWay"]


@final
@dataclass(frozen=True, slots=True)
class AllKWay:
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
