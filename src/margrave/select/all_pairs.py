"""AllPairs: every pair, first alike, then more of those that turned out to be dependent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique
from margrave.select.allocate import all_cliques, apportioned
from margrave.select.one_ways import buy_one_ways

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

__all__ = ["AllPairs"]


@final
@dataclass(frozen=True, slots=True)
class AllPairs:
    """Measure every pair once alike and once by what the first look says it is worth.

    1. One-way marginals share `ones` of rho; those that discovery left behind with no more noise are not
       bought again.
    2. All pairs share `look` of the rest alike, and a rough model is fitted.
    3. The remainder goes to pairs so that the whole of what each gets is in proportion to the root of
       (its dependence + half the mean dependence), the dependence being the total variation between the
       model's pair, or the first look's where that says more, and the product of its one-ways; no pair
       gets less than the first look.
    4. The model is fitted to everything.

    **Privacy.** All answers are the curator's Gaussian measurements, so GDP prices them together; how much
    each costs is decided by earlier releases alone. All of rho is spent.

    Args:
        ones: Share of rho for one-way marginals.
        look: Share of what remains for the first look; 1 measures all pairs alike.
        target: An attribute whose pairs get `emphasis` times what they would get by step 3.
        emphasis: See target; at least 1.
        max_clique_cells: Pairs with more cells are left out.

    Raises:
        InputError: An argument is out of range.
    """

    ones: Fraction = Fraction(1, 20)
    look: Fraction = Fraction(1, 2)
    target: str | None = None
    emphasis: float = 2.0
    max_clique_cells: int = 1_000_000
    name: ClassVar[str] = "all_pairs"
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for param, share in (("ones", self.ones), ("look", self.look)):
            if not 0 < share <= 1 or (param == "ones" and share == 1):
                raise InputError(invalid(param, "a share above 0 and at most 1", "Try the default."))
        if not (np.isfinite(self.emphasis) and self.emphasis >= 1):
            raise InputError(invalid("emphasis", "at least 1", "Try 2.", got=self.emphasis))

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the last fit stops and returns the best so far; all of rho is spent all the same.
        """
        domain = curator.domain
        if self.target is not None:
            domain.index(self.target)
        pairs = all_cliques(domain, 2, self.max_clique_cells) if len(domain) > 1 else []
        fitter.admit(domain, pairs)
        self._one_ways(curator, len(pairs), on_step)
        if pairs:
            on_step(Step("measure", f"{len(pairs)} pairs alike", 1, curator.progress))
            curator.measure(pairs, curator.remaining * Fraction(self.look) / len(pairs))
            if self.look < 1:
                rough = Effort(rough=True, deadline=deadline)
                worth = self._worth(curator, fitter, pairs, rough)
                on_step(Step("measure", f"{len(pairs)} pairs by their dependence", 2, curator.progress))
                for clique, share in self._shares(worth, curator.remaining).items():
                    curator.measure([clique], share)
        on_step(Step("fit", f"{len(pairs)} pairs", 3, curator.progress))
        effort = Effort(deadline=deadline)
        return fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=effort)

    def _one_ways(self, curator: Curator, pairs: int, on_step: OnStep) -> None:
        if pairs:
            buy_one_ways(curator, curator.remaining * Fraction(self.ones), on_step)
            return
        # Nothing else to spend on: all of rho goes to one-ways, known ones included.
        singles = [(name,) for name in curator.domain.names]
        on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
        if singles:
            curator.measure(singles, curator.remaining / len(singles))

    def _worth(
        self, curator: Curator, fitter: Fitter, pairs: list[Clique], rough: Effort
    ) -> dict[Clique, float]:
        """The root of each pair's dependence, damped, with the target's emphasis.

        The dependence is that under a rough model and what the first look says beyond it.
        """
        model = fitter.fit(curator.domain, curator.measurements, total=curator.public_rows, effort=rough)
        ways = {name: model.project((name,)) / model.total for name in model.domain.names}
        looks = {measured.clique: measured for measured in curator.measurements}
        apart = [
            0.5 * float(np.abs(looks[a, b].beyond(table) / model.total - np.outer(ways[a], ways[b])).sum())
            for (a, b), table in zip(pairs, model.project_many(pairs), strict=True)
        ]
        damped = np.sqrt(np.asarray(apart) + 0.5 * max(float(np.mean(apart)), 1e-6))
        return {
            clique: float(value) * (self.emphasis if self.target in clique else 1.0)
            for clique, value in zip(pairs, damped, strict=True)
        }

    def _shares(self, worth: Mapping[Clique, float], left: Fraction) -> dict[Clique, Fraction]:
        """What each pair still gets of `left`, so that both looks together are in proportion to worth."""
        whole = sum(worth.values())
        looked = float(self.look) / len(worth)
        wanted = {clique: max(value / whole - looked, 0.0) for clique, value in worth.items()}
        return apportioned(wanted if any(wanted.values()) else worth, left)
