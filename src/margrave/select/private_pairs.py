"""PrivatePairs: every pair with a private column, dependent ones at less noise; public ones are free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.select.strategy import (
    ONE,
    ONE_WAYS,
    PAIR,
    Shares,
    Strategy,
    all_cliques,
    apportion_rho,
    find_unmeasured,
    measure_shares,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model
    from margrave.release import NoisyMarginal


@final
@dataclass(frozen=True, slots=True)
class PrivatePairs(Strategy):
    """Measure the pairs that hold a private column, twice, for a model that is drawn given the public ones.

    With p public and q private columns these are p q + q (q - 1) / 2 of all pairs: the fewer private columns,
    the less noise in each. Marginals of public columns are known and are not asked for.

    1. One-way marginals of private columns share `ones` of rho, but those that discovery left behind with no
       more noise.
    2. All pairs with a private column share `look` of the rest alike, and a rough model is fitted.
    3. The remainder goes to pairs so that the whole of what each gets is in proportion to the root of (its
       dependence + half the mean dependence): the total variation between the model's pair, or the first
       look's where that says more, and the product of its one-ways. No pair gets less than the first look.
    4. The model is fitted to everything.

    **Privacy.** All answers are the curator's, measurements with Gaussian noise alone. What is asked for in
    step 3 is decided by released tables and public columns. All of rho is spent, unless no column is private:
    then nothing is.

    Args:
        public: Names of the public columns.
        ones: Share of rho for one-way marginals.
        look: Share of what remains for the first look.
        max_clique_cells: Pairs with more cells are left out.
        target: A column whose pairs get `emphasis` times what they would get by step 3.
        emphasis: See target; at least 1. As in `AllPairs`.

    Raises:
        InputError: A share or the emphasis is out of range.
    """

    public: tuple[str, ...] = ()
    ones: Fraction = Fraction(1, 20)
    look: Fraction = Fraction(1, 2)
    max_clique_cells: int = 1_000_000
    target: str | None = None
    emphasis: float = 2.0
    name: ClassVar[str] = "private_pairs"
    gaussian_only: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset({"public", "target"})

    def __post_init__(self) -> None:
        for param, share in (("ones", self.ones), ("look", self.look)):
            if not 0 < share < 1:
                raise InputError(invalid(param, "a share above 0 and below 1", "Try the default.", got=share))
        if not (np.isfinite(self.emphasis) and self.emphasis >= 1):
            raise InputError(invalid("emphasis", "at least 1", "Try 2.", got=self.emphasis))

    def split_rho(self, counted: bool) -> Shares:
        """One-ways, all pairs alike, and the rest by dependence; as where a private column has a pair."""
        looked = (1 - self.ones) * self.look
        return {ONE_WAYS: self.ones, "pairs alike": looked, "pairs by dependence": 1 - self.ones - looked}

    def share_marginal(self, columns: int) -> Shares:
        """Those of the private columns; a pair gets as much as the average one."""
        private = max(columns - len(self.public), 1)
        pairs = private * (columns - private) + private * (private - 1) // 2
        if not pairs:
            return {ONE: Fraction(1, private)}
        return {ONE: self.ones / private, PAIR: (1 - self.ones) / pairs}

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the last fit stops and returns the best so far; all of rho is spent all the same.
        """
        domain = curator.domain
        private = [name for name in domain.names if name not in self.public]
        if self.target is not None:
            domain.index(self.target)
        pairs = self._pairs(domain)
        fitter.admit(domain, pairs)
        if private:
            self._buy_one_ways(curator, private, bool(pairs), on_step)
        if pairs:
            self._buy_pairs(curator, fitter, pairs, deadline, on_step)
        on_step(Step("fit", f"{len(pairs)} pairs with a private column", 3, curator.progress))
        effort = Effort(deadline=deadline)
        return fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=effort)

    def _pairs(self, domain: Domain) -> list[Clique]:
        known = set(self.public)
        pairs = all_cliques(domain, 2, self.max_clique_cells) if len(domain) > 1 else []
        return [pair for pair in pairs if not known.issuperset(pair)]

    def _buy_one_ways(self, curator: Curator, private: Sequence[str], pairs: bool, on_step: OnStep) -> None:
        if not pairs:  # nothing else to spend on
            on_step(Step("measure", f"{len(private)} one-way marginals", 0, curator.progress))
            curator.measure([(name,) for name in private], curator.remaining / len(private))
            return
        share = curator.remaining * self.split_rho(True)[ONE_WAYS] / len(private)
        domain = curator.domain.project(private)
        own = [m for m in curator.measurements if set(m.clique) <= set(private)]
        singles = find_unmeasured(domain, own, curator.sigma(share))
        on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
        if singles:
            curator.measure(singles, share)

    def _buy_pairs(
        self,
        curator: Curator,
        fitter: Fitter,
        pairs: Sequence[Clique],
        deadline: Deadline | None,
        on_step: OnStep,
    ) -> None:
        on_step(Step("measure", f"{len(pairs)} pairs alike", 1, curator.progress))
        first = curator.measure(pairs, curator.remaining * self.look / len(pairs))
        rough = Effort(rough=True, deadline=deadline)
        model = fitter.fit(curator.domain, curator.measurements, total=curator.public_rows, effort=rough)
        on_step(Step("measure", f"{len(pairs)} pairs by their dependence", 2, curator.progress))
        worth = {
            pair: value * (self.emphasis if self.target in pair else 1.0)
            for pair, value in _estimate_worth(model, first).items()
        }
        measure_shares(curator, self._shares(worth, curator.remaining))

    def _shares(self, worth: Mapping[Clique, float], left: Fraction) -> dict[Clique, Fraction]:
        """What each pair still gets of `left`, so that both looks together are in proportion to worth."""
        whole, looked = sum(worth.values()), float(self.look) / len(worth)
        wanted = {clique: max(value / whole - looked, 0.0) for clique, value in worth.items()}
        return apportion_rho(wanted if any(wanted.values()) else worth, left)


def _estimate_worth(model: Model, measured: Sequence[NoisyMarginal]) -> dict[Clique, float]:
    """The root of each pair's dependence, damped; under a rough model and what its table says beyond it."""
    pairs = [table.clique for table in measured]
    names = {name for pair in pairs for name in pair}
    ways = {name: model.project((name,)) / model.total for name in names}
    apart = [
        0.5 * float(np.abs(table.beyond(own) / model.total - np.outer(ways[a], ways[b])).sum())
        for (a, b), table, own in zip(pairs, measured, model.project_many(pairs), strict=True)
    ]
    damped = np.sqrt(np.asarray(apart) + 0.5 * max(float(np.mean(apart)), 1e-6))
    return dict(zip(pairs, damped.tolist(), strict=True))
