"""AllPairs: every pair, or only the dependent ones where noise would hide the rest."""

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
from margrave.select.allocate import all_cliques, apportioned, measure_shares
from margrave.select.one_ways import buy_one_ways, released_one_ways
from margrave.select.screening import (
    appraisal_noise,
    choose_pairs,
    estimate_dependence,
    independent_tables,
    summarise_one_ways,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model
    from margrave.release import InferredMarginal

__all__ = ["AllPairs"]


@final
@dataclass(frozen=True, slots=True)
class AllPairs:
    """Measure every pair by how dependent it is, or only dependent ones where noise would hide most.

    1. One-way marginals share `ones` of rho; those that discovery left behind with no more noise are not
       bought again.
    2. With what step 1 released, the noise is foretold that all pairs would have if they shared the rest
       alike: the total variation that noise alone adds to a pair, on average (`margrave.select.screening`).
       Above `hidden` pairs are screened (3 to 5), else all are bought (6 and 7); all are bought as well where
       the noise of appraisals would be above `blind`.
    3. One-way marginals are measured again, so that they have `screened_ones` of rho in all: rows of a model
       that holds little dependence are mostly as far off as these.
    4. The L1 distances of all pairs from the product of their one-ways are appraised, for `screen` of rho.
    5. Pairs are taken from the most dependent on while their dependence exceeds `worth` times the noise that
       they would get, and share what remains in proportion to the root of their dependence
       (`choose_pairs`). A target's pairs are taken in any case.
    6. All pairs share `look` of the rest alike, and a rough model is fitted.
    7. The remainder goes to pairs so that the whole of what each gets is in proportion to the root of
       (its dependence + half the mean dependence), the dependence being the total variation between the
       model's pair, or the first look's where that says more, and the product of its one-ways; no pair
       gets less than the first look.
    8. The model is fitted to everything.

    **Privacy.** All answers are the curator's, measurements and appraisals with Gaussian noise, so GDP prices
    them together; which of them are asked for and how much each costs is decided by earlier releases and
    public settings alone. All of rho is spent.

    Args:
        ones: Share of rho for one-way marginals.
        look: Share of what remains for the first look; 1 measures all pairs alike.
        target: An attribute whose pairs get `emphasis` times what they would get by step 5 or 7.
        emphasis: See target; at least 1.
        max_clique_cells: Pairs with more cells are left out.
        hidden: Total variation of noise in a pair, all being bought alike, from which on pairs are screened,
            above 0; infinity never screens.
        screened_ones: Share of rho for one-way marginals where pairs are screened, at least `ones`.
        screen: Share of rho for appraisals where pairs are screened.
        worth: How much of its noise a pair's dependence must exceed to be bought, above 0.
        blind: Standard deviation of an appraised total variation from which on pairs are not screened, since
            the choice would be one of noise, above 0.

    Raises:
        InputError: An argument is out of range.
    """

    ones: Fraction = Fraction(1, 20)
    look: Fraction = Fraction(1, 2)
    target: str | None = None
    emphasis: float = 2.0
    max_clique_cells: int = 1_000_000
    hidden: float = 0.05
    screened_ones: Fraction = Fraction(3, 20)
    screen: Fraction = Fraction(1, 10)
    worth: float = 0.5
    blind: float = 0.1
    name: ClassVar[str] = "all_pairs"
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for param, share in (("ones", self.ones), ("look", self.look)):
            if not 0 < share <= 1 or (param == "ones" and share == 1):
                raise InputError(invalid(param, "a share above 0 and at most 1", "Try the default."))
        if not (np.isfinite(self.emphasis) and self.emphasis >= 1):
            raise InputError(invalid("emphasis", "at least 1", "Try 2.", got=self.emphasis))
        for param, bound in (("hidden", self.hidden), ("worth", self.worth), ("blind", self.blind)):
            if not bound > 0:
                raise InputError(invalid(param, "above 0", "Try the default.", got=bound))
        if not (self.screen > 0 and self.screened_ones > 0 and self.screen + self.screened_ones < 1):
            together = "above 0, and below 1 together with `screened_ones`"
            raise InputError(invalid("screen", together, "Try the defaults."))

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
        inferred: list[InferredMarginal] = []
        if pairs and self._should_screen(curator, pairs):
            inferred = self._screened(curator, pairs, on_step)
        elif pairs:
            self._all(curator, fitter, pairs, deadline, on_step)
        on_step(Step("fit", f"{len(pairs)} pairs", 3, curator.progress))
        effort = Effort(deadline=deadline)
        total = released_one_ways(curator)[1] if inferred else curator.public_rows
        return fitter.fit(domain, [*curator.measurements, *inferred], total=total, effort=effort)

    def _one_ways(self, curator: Curator, pairs: int, on_step: OnStep) -> None:
        if pairs:
            buy_one_ways(curator, curator.remaining * Fraction(self.ones), on_step)
            return
        # Nothing else to spend on: all of rho goes to one-ways, known ones included.
        singles = [(name,) for name in curator.domain.names]
        on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
        if singles:
            curator.measure(singles, curator.remaining / len(singles))

    def _should_screen(self, curator: Curator, pairs: list[Clique]) -> bool:
        """Whether noise would hide most pairs if all were bought alike, but not what appraisals say of them.

        Looks at releases and settings only.
        """
        ways, sigma = summarise_one_ways(curator), curator.sigma(curator.remaining / len(pairs))
        if float(np.mean([ways.noise(pair, sigma) for pair in pairs])) <= self.hidden:
            return False
        return appraisal_noise(curator, len(pairs), ways.rows, self._price(curator)) <= self.blind

    def _price(self, curator: Curator) -> Fraction:
        """What the appraisal of all pairs may cost, in rho."""
        return min(curator.total * Fraction(self.screen), curator.remaining / 2)

    def _screened(self, curator: Curator, pairs: list[Clique], on_step: OnStep) -> list[InferredMarginal]:
        """Spend all of rho on one-ways, appraisals and the pairs that are worth buying.

        Returns what the appraisals say of the other pairs, see `independent_tables`.
        """
        missing = curator.remaining - curator.total * (1 - Fraction(self.screened_ones))
        if missing > 0:
            buy_one_ways(curator, missing, on_step)
        on_step(Step("select", f"{len(pairs)} pairs appraised", 1, curator.progress))
        ways = summarise_one_ways(curator)
        dependence = estimate_dependence(curator, pairs, ways, self._price(curator))
        sigma = curator.sigma(curator.remaining)
        weights = choose_pairs(dependence, ways, sigma, self.worth, self.target, self.emphasis)
        on_step(Step("measure", f"{len(weights)} pairs by their dependence", 2, curator.progress))
        measure_shares(curator, apportioned(weights, curator.remaining))
        return independent_tables(curator, [pair for pair in pairs if pair not in weights], dependence, ways)

    def _all(
        self,
        curator: Curator,
        fitter: Fitter,
        pairs: list[Clique],
        deadline: Deadline | None,
        on_step: OnStep,
    ) -> None:
        """Spend all of rho on all pairs: alike, then by what the first look says of their dependence."""
        on_step(Step("measure", f"{len(pairs)} pairs alike", 1, curator.progress))
        curator.measure(pairs, curator.remaining * Fraction(self.look) / len(pairs))
        if self.look < 1:
            rough = Effort(rough=True, deadline=deadline)
            worth = self._worth(curator, fitter, pairs, rough)
            on_step(Step("measure", f"{len(pairs)} pairs by their dependence", 2, curator.progress))
            measure_shares(curator, self._shares(worth, curator.remaining))

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
