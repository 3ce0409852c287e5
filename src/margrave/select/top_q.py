"""TopQ: round after round, the q marginals that the model fits worst, each drawn by the exponential
mechanism.

Hardt, Ligett and McSherry 2012 (MWEM, arXiv 1012.4763), with q = 1; Aydore et al. 2021, "Differentially
Private Query Release Through Adaptive Projection" (RAP, arXiv 2103.06641), algorithm 2, with q above 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.select.strategy import (
    CHOOSE,
    MEASURE,
    PAIR,
    Holdings,
    Pace,
    Shares,
    Strategy,
    all_cliques,
    count_clique_cells,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

PART = Fraction(3, 4)
"""Part of the workload that is drawn in all rounds together where q is not given."""
ROUNDS_AN_ATTRIBUTE = 5
"""Rounds for each attribute where their number is not given: what Chen et al. 2025, Table 10, give GEM."""


TARGET = "pairs of the target"


@final
@dataclass(frozen=True, slots=True)
class TopQ(Strategy):
    """Adaptive rounds over a workload: draw q marginals by their error, measure them, fit again.

    1. The row count takes a share `count` of rho where it is not public and nothing has told it.
    2. Each round has an equal part of the rest. A share `choosing` of it draws q different marginals of the
       workload, one after another, by the exponential mechanism on the L1 error of the model; the remainder
       measures them, alike. Those measured in earlier rounds may be drawn only with `again`, or when no
       other is left; what is measured twice is pooled by the fitter.
    3. The last round measures with all that is left.
    With a target, a share `told` of what is left after step 1 first measures its pairs with all other
    attributes, alike. RAP++ asks its thresholds by the codes of the target, too.

    With q = 1 this is MWEM on whole marginals: all cells of a marginal are measured for the price of one.

    **Privacy.** All private answers are the curator's. The top q are drawn one at a time without replacement,
    each an exponential mechanism of its own at an equal part of the round's rho and in the ledger as such:
    q draws of epsilon_0 cost q epsilon_0^2 / 8 in zCDP. Adding Gumbel noise of scale 2 S / epsilon_0 once and
    taking the q largest has the same distribution as this peeling (Durfee and Rogers 2019, lemma 4.2), so the
    one-shot mechanism costs the same: a scale of S root(q / (2 rho)), S = 1 under add_remove and 2 under
    replace_one for the L1 error in rows. Measurements of earlier rounds are never noised anew.

    Args:
        rounds: How many; None for five an attribute, or fewer where those would draw more than three quarters
            of the workload.
        q: Marginals drawn in a round; None for as many as make three quarters of the workload in all rounds.
        degree: Attributes of a marginal of the workload.
        workload: Marginals to choose among instead.
        choosing: Share of a round's rho for its draws, between 0 and 1.
        count: Share of rho for the row count, between 0 and 1.
        again: Whether marginals may be drawn in several rounds, as in MWEM; RAP and GEM ask for each once.
        max_clique_cells: Marginals with more cells are left out.
        target: An attribute that the rows are meant to predict, or None.
        told: Share of rho for the target's pairs, between 0 and 1.

    Raises:
        InputError: An argument is out of range.
    """

    rounds: int | None = 10
    q: int | None = None
    degree: int = 2
    workload: Sequence[Clique] | None = None
    choosing: Fraction = Fraction(1, 10)
    count: Fraction = Fraction(1, 20)
    again: bool = False
    max_clique_cells: int = 1_000_000
    target: str | None = None
    told: Fraction = Fraction(1, 2)
    name: ClassVar[str] = "top_q"
    pace: ClassVar[tuple[float, float]] = (2e-3, 0.0)
    options: ClassVar[frozenset[str]] = frozenset({"target"})

    def __post_init__(self) -> None:
        check_counts(rounds=self.rounds, q=self.q, degree=self.degree)
        for param, share in (("choosing", self.choosing), ("count", self.count), ("told", self.told)):
            if not 0 < share < 1:
                raise InputError(invalid(param, "a share between 0 and 1", "Try the default.", got=share))

    @property
    def named_columns(self) -> frozenset[str]:
        """The target and the columns of the workload, where they were given."""
        target = [] if self.target is None else [self.target]
        return frozenset([*target, *(name for clique in self.workload or () for name in clique)])

    def split_rho(self, counted: bool) -> Shares:
        """The row count where nothing has told it, the target's pairs, and draws and tables of all rounds."""
        count = Fraction(0) if counted else Fraction(self.count)
        told = Fraction(0) if self.target is None else (1 - count) * Fraction(self.told)
        choose = (1 - count - told) * Fraction(self.choosing)
        return {"count": count, TARGET: told, CHOOSE: choose, MEASURE: 1 - count - told - choose}

    def share_marginal(self, columns: int) -> Shares:
        """As many pairs as all rounds draw, where something has told the row count."""
        if self.degree != 2:
            return {}
        fresh = max(math.comb(columns, 2), 1)
        if self.target is not None and not self.again:
            fresh = max(fresh - (columns - 1), 1)
        drawn = self.turns(columns, fresh) * self.count_drawn(columns, fresh)
        return {PAIR: self.split_rho(True)[MEASURE] / drawn}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All cliques of `degree` as candidates."""
        return Holdings(count_clique_cells(sizes, self.degree), len(sizes))

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when to be done; the run ends early but complete, all of rho spent.

        Raises:
            InputError: The workload is empty, no marginal of it fits the fitter, or the target is no
                attribute.
        """
        domain, pace = curator.domain, Pace(deadline)
        workload, told = self._workload(curator, fitter), self._target_pairs(domain, fitter)
        if curator.public_rows is None and not curator.measurements:
            curator.measure([()], curator.remaining * Fraction(self.count))
        if told:
            on_step(Step("measure", f"{len(told)} pairs of the target", 0, curator.progress))
            curator.measure(told, curator.remaining * Fraction(self.told) / len(told))
        model = fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=pace.rough)
        fresh = len([c for c in workload if self.again or c not in told]) or len(workload)
        turns, each = self.turns(len(domain), fresh), self.count_drawn(len(domain), fresh)
        for turn in range(1, turns + 1):
            last = turn == turns or pace.ends
            share = curator.remaining / (turns - turn + 1)
            chosen = self._choose_marginals(
                curator, fitter, model, workload, each, share * Fraction(self.choosing)
            )
            left = curator.remaining if last else share * (1 - Fraction(self.choosing))
            curator.measure(chosen, left / len(chosen))
            on_step(Step("select", ", ".join(" x ".join(c) for c in chosen), turn, curator.progress))
            model = pace.fit_round(fitter, curator, curator.measurements, model, last=last)
            if last:
                break
        return model

    def turns(self, attributes: int, marginals: int) -> int:
        """How many rounds there are over so many attributes and marginals."""
        most = math.ceil(PART * marginals / (self.q or 1))
        return self.rounds or max(min(ROUNDS_AN_ATTRIBUTE * attributes, most), 1)

    def count_drawn(self, attributes: int, marginals: int) -> int:
        """How many of so many marginals are drawn in a round."""
        each = math.ceil(PART * marginals / self.turns(attributes, marginals))
        return min(self.q or each, marginals)

    def _workload(self, curator: Curator, fitter: Fitter) -> list[Clique]:
        """The marginals to choose among, those left out that the fitter could not hold by themselves."""
        domain = curator.domain
        if self.workload is None:
            found = all_cliques(domain, self.degree, self.max_clique_cells)
            found = found or [(name,) for name in domain.names]
        else:
            found = list(dict.fromkeys(domain.canonical(clique) for clique in self.workload))
        # A marginal that the model cannot hold would be chosen again in every round, since nothing mends
        # it.
        sizes = fitter.cells(domain, [], found)
        found = [clique for clique, size in zip(found, sizes, strict=True) if size < float("inf")]
        if not found:
            raise InputError(invalid("workload", "of marginals that fit the model", "Name smaller ones."))
        return found

    def _target_pairs(self, domain: Domain, fitter: Fitter) -> list[Clique]:
        """The target's pairs, those left out that the fitter could not hold with the ones before."""
        if self.target is None:
            return []
        if self.target not in domain:
            raise InputError(invalid("target", f"one of {list(domain.names)}", "Check it.", got=self.target))
        found: list[Clique] = []
        for name in domain.names:
            pair = domain.canonical((self.target, name)) if name != self.target else ()
            if not pair or domain.size(pair) > self.max_clique_cells:
                continue
            # Together with those taken before, since it is the model of all of them that has to fit.
            if fitter.cells(domain, found, [pair])[0] < float("inf"):
                found.append(pair)
        return found

    def _choose_marginals(
        self,
        curator: Curator,
        fitter: Fitter,
        model: Model,
        workload: Sequence[Clique],
        wanted: int,
        rho: Fraction,
    ) -> list[Clique]:
        """So many different marginals, or as many as fit together; spends rho on drawing them."""
        held = [m.clique for m in curator.measurements]
        expected = dict(zip(workload, model.project_many(workload), strict=True))
        chosen: list[Clique] = []
        for _ in range(wanted):
            left = [clique for clique in workload if clique not in chosen]
            sizes = fitter.cells(curator.domain, [*held, *chosen], left)
            left = [clique for clique, size in zip(left, sizes, strict=True) if size < float("inf")]
            if not self.again:
                left = [clique for clique in left if clique not in held] or left
            if not left:
                break
            chosen.append(left[curator.choose(left, [expected[c] for c in left], rho / wanted)])
        # What was measured before always fits, so that something is left whenever everything else is not.
        return chosen
