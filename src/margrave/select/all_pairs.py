"""AllPairs: every pair, or only the dependent ones where noise would hide the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort, price_question
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique
from margrave.select._screening.pairs import (
    appraisal_noise,
    buy_dependent_pairs,
    choose_pairs,
    draw_pairs,
    estimate_dependence,
    find_affordable,
    foretell_error,
    hides_pairs,
    measure_rank_products,
    measure_rare_tables,
    summarise_one_ways,
)
from margrave.select._screening.triples import estimate_pairs, find_triples, plan_query
from margrave.select.strategy import (
    ONE,
    ONE_WAYS,
    PAIR,
    Holdings,
    Shares,
    Strategy,
    all_cliques,
    apportion_rho,
    buy_one_ways,
    count_pair_cells,
    measure_shares,
    released_one_ways,
    share_one_ways,
    worth_of_one_ways,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model
    from margrave.release import InferredMarginal, NoisyMarginal


PARTS, MAX_FORETOLD = 8, 20_000
"""How finely it is weighed what one-ways get of what is left, and by how many pairs at most."""


@final
@dataclass(frozen=True, slots=True)
class AllPairs(Strategy):
    """Measure every pair by how dependent it is, or only dependent ones where noise would hide most.

    1. One-way marginals share `ones` of rho; those that discovery left behind with no more noise are not
       bought again. Pairs of more than `max_clique_cells` get `wide` of rho, if that leaves noise below
       `hidden` in them.
    2. With what step 1 released, the noise is foretold that all pairs would have if they shared the rest
       alike: the total variation that noise alone adds to a pair, on average
       (`margrave.select._screening.pairs`). Up to `hidden` all are bought (6 to 8).
    3. Above it one-way marginals are measured again, so that they have `screened_ones` of rho in all: rows of
       a model that holds little dependence are mostly as far off as these; those of more codes get more
       (`share_one_ways`). Then pairs are screened (4 and 5). Where the noise of appraisals would be above
       `blind`, one-ways have `drawn_ones` of rho in all instead, and pairs are drawn for `screen` of it by
       the exponential mechanism: as many as may depend by more than their noise would be, at most one for
       each attribute (`find_affordable`, `draw_pairs`). They share what remains alike; one-ways get it if
       there are none.
    4. The L1 distances of all pairs from the product of their one-ways are appraised, for `screen` of rho,
       and their rank products measured for `products` of it, up to `max_products` where noise on them is
       large, if it leaves anything of them, and for half of `products` those of rare codes
       (`measure_rank_products`), and for `products` again the tables of those that stand out
       (`measure_rare_tables`). With the distances it is foretold how far off pairs will be if one-ways get
       0, 1/8, ... or 7/8 of what is left besides, and the best of these is what they get (`foretell_error`).
    5. Pairs are taken, and share what remains, so that the sum of what they are foretold to be off by is
       least (`choose_pairs`). A target's pairs are taken in any case.
    6. All pairs share `look` of the rest alike, and a rough model is fitted.
    7. Triples are appraised for dependence that none of their pairs shows, where the noise would leave any to
       be seen, for at most `triples` of rho; those in which it is found are measured
       (`margrave.select._screening.pairs`).
    8. The remainder goes to pairs so that the whole of what each gets is in proportion to the root of
       (its dependence + half the mean dependence) h h'. The dependence is the total variation between the
       model's pair, or the first look's where that says more, and the product of its one-ways; h and h' are
       their perplexities, the codes that they are spread over. No pair gets less than the first look. Where
       time is limited and two looks would take more than half of what is left, by the public price of
       questions, step 6 gets all of rho, and 7 and 8 are left out.
    9. The model is fitted to everything.

    **Privacy.** All answers are the curator's: measurements and appraisals with Gaussian noise, and draws by
    the exponential mechanism, which GDP prices too (`margrave.privacy.accounting.accountants.GDP`). Which of
    them are asked for and how much each costs is decided by earlier releases and public settings alone. All
    of rho is spent.

    Args:
        ones: Share of rho for one-way marginals.
        look: Share of what remains for the first look; 1 measures all pairs alike.
        target: An attribute whose pairs are all taken in step 5, and get `emphasis` times what they would get
            by step 8, where h h' is the mean of all pairs at least.
        emphasis: See target; at least 1.
        max_clique_cells: Pairs with more cells are wide, see `wide`, or left out.
        hidden: Total variation of noise in a pair, all being bought alike, from which on pairs are screened,
            above 0; infinity never screens.
        screened_ones: Share of rho for one-way marginals where noise is large, at least `ones`.
        screen: Share of rho for appraisals where pairs are screened, or for draws.
        products: Share of rho for rank products where pairs are screened, 0 for none; half of it again for
            those of rare codes, and as much for tables of these.
        max_products: The same where noise on them is large.
        worth: How much of its noise counts when pairs are chosen, above 0; with more of it fewer are bought.
        blind: Standard deviation of an appraised total variation from which on pairs are drawn instead, since
            the choice would be one of noise, above 0.
        drawn_ones: Share of rho for one-way marginals where pairs are drawn, at least `screened_ones`.
        triples: Share of rho that the appraisal of triples may cost, 0 for none.
        wide: Share of rho for pairs of more than max_clique_cells, whose noise would be below `hidden`; 0 for
            none.
        max_wide_cells: Cells that all such pairs have together, at most.

    Raises:
        InputError: An argument is out of range.
    """

    ones: Fraction = Fraction(1, 20)
    look: Fraction = Fraction(1, 2)
    target: str | None = None
    emphasis: float = 2.0
    max_clique_cells: int = 1_000_000
    hidden: float = 0.05
    screened_ones: Fraction = Fraction(1, 4)
    screen: Fraction = Fraction(1, 10)
    products: Fraction = Fraction(1, 20)
    max_products: Fraction = Fraction(1, 8)
    worth: float = 0.6
    blind: float = 0.1
    drawn_ones: Fraction = Fraction(1, 2)
    triples: Fraction = Fraction(3, 100)
    wide: Fraction = Fraction(1, 4)
    max_wide_cells: int = 1 << 25
    name: ClassVar[str] = "all_pairs"
    gaussian_only: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset({"target"})
    serves_regressions: ClassVar[bool] = True
    otherwise: ClassVar[str] = (
        "pairs share so where noise is small; where it would hide most of them, one-ways get a quarter to a "
        "half in all, a look at dependence a tenth, and some of the pairs the rest"
    )

    def __post_init__(self) -> None:
        for param, share in (("ones", self.ones), ("look", self.look)):
            if not 0 < share <= 1 or (param == "ones" and share == 1):
                raise InputError(invalid(param, "a share above 0 and at most 1", "Try the default."))
        if not (np.isfinite(self.emphasis) and self.emphasis >= 1):
            raise InputError(invalid("emphasis", "at least 1", "Try 2.", got=self.emphasis))
        for param, bound in (("hidden", self.hidden), ("worth", self.worth), ("blind", self.blind)):
            if not bound > 0:
                raise InputError(invalid(param, "above 0", "Try the default.", got=bound))
        for param, share in (
            ("triples", self.triples),
            ("wide", self.wide),
            ("products", self.products),
            ("max_products", self.max_products),
        ):
            if not 0 <= share < 1:
                raise InputError(invalid(param, "a share of at least 0 and below 1", "Try the default."))
        ones = max(self.screened_ones, self.drawn_ones)
        if not (self.screen > 0 and min(self.screened_ones, self.drawn_ones) > 0 and self.screen + ones < 1):
            together = "above 0, and below 1 together with `screened_ones` or `drawn_ones`"
            raise InputError(invalid("screen", together, "Try the defaults."))

    def split_rho(self, counted: bool) -> Shares:
        """As where noise is small and no triples are found.

        Whether pairs are screened instead, and what is spent on triples, is known once one-ways are released.
        """
        ones = Fraction(self.ones)
        look = (1 - ones) * Fraction(self.look)
        return {ONE_WAYS: ones, "pairs alike": look, "pairs by dependence": 1 - ones - look}

    def share_marginal(self, columns: int) -> Shares:
        """All pairs alike."""
        ones = self.split_rho(True)[ONE_WAYS]
        return {ONE: ones / columns, PAIR: (1 - ones) / max(math.comb(columns, 2), 1)}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All pairs, which are measured twice, or once where time is short."""
        cells = count_pair_cells(sizes)
        return Holdings(cells, 2 * math.comb(len(sizes), 2), 2.0 * cells, hurried=0.5)

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
        self._wide_pairs(curator, fitter, pairs, on_step)
        inferred: list[InferredMarginal] = []
        if pairs and self._hides_pairs(curator, pairs):
            self._refine_one_ways(curator, self.screened_ones, on_step)
            if self._can_screen(curator, pairs):
                inferred = self._screen_pairs(curator, pairs, on_step)
            else:
                self._draw_pairs(curator, pairs, on_step)
        elif pairs:
            self._all(curator, fitter, pairs, deadline, on_step)
        on_step(Step("fit", f"{len(pairs)} pairs", 3, curator.progress))
        effort = Effort(deadline=deadline)
        # Inferred tables lean on the one-ways, whose own row count they are made of.
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

    def _wide_pairs(self, curator: Curator, fitter: Fitter, pairs: Sequence[Clique], on_step: OnStep) -> None:
        """Measure the pairs of more than `max_clique_cells` that noise leaves something of.

        They share `wide` of rho alike; the one of most noise is left out until none has more than `hidden`.
        Looks at releases and settings only before it measures.
        """
        if not self.wide or not pairs:
            return
        # The two largest attributes make the largest pair: if that fits, none is wide.
        largest = sorted(curator.domain.sizes)[-2:]
        if largest[0] * largest[1] <= self.max_clique_cells:
            return
        some = all_cliques(curator.domain, 2, self.max_wide_cells)
        wide = [pair for pair in some if curator.domain.size(pair) > self.max_clique_cells]
        if not wide:
            return
        ways = summarise_one_ways(curator)
        # A model may refuse a pair that is small enough to be counted.
        fits = np.isfinite(fitter.cells(curator.domain, pairs, wide))
        wide = [pair for pair, one in zip(wide, fits, strict=True) if one]
        # The pairs with the least noise for their size come first; the others go, until what is left can be
        # seen through its noise.
        wide.sort(key=lambda pair: ways.noise(pair, 1.0))
        rho = curator.total * Fraction(self.wide)
        while wide and (
            ways.noise(wide[-1], curator.sigma(rho / len(wide))) > self.hidden
            or sum(curator.domain.size(pair) for pair in wide) > self.max_wide_cells
        ):
            wide.pop()
        if wide:
            on_step(Step("measure", f"{len(wide)} wide pairs", 1, curator.progress))
            curator.measure(wide, rho / len(wide))

    def _hides_pairs(self, curator: Curator, pairs: list[Clique]) -> bool:
        """Whether noise would hide most pairs if all were bought alike. Looks at releases and settings."""
        return hides_pairs(curator, pairs, summarise_one_ways(curator), self.hidden)

    def _refine_one_ways(self, curator: Curator, share: Fraction, on_step: OnStep) -> None:
        """Measure one-ways until so much of all rho is spent, those of more codes more precisely."""
        # What has been spent so far counts towards the share.
        rho = curator.remaining - curator.total * (1 - Fraction(share))
        if rho > 0:
            self._measure_one_ways(curator, rho, on_step)

    def _measure_one_ways(self, curator: Curator, rho: Fraction, on_step: OnStep) -> None:
        """Measure one-ways for rho more, those of more codes more precisely."""
        shares = share_one_ways(curator, summarise_one_ways(curator).held, rho)
        on_step(Step("measure", f"{len(shares)} one-way marginals", 0, curator.progress))
        measure_shares(curator, shares)

    def _weigh_one_ways(self, curator: Curator, dependence: Mapping[Clique, float], on_step: OnStep) -> None:
        """Measure one-ways for so much of what is left that pairs are foretold to be nearest.

        What is decided looks at releases and settings only. Of very many pairs some stand for all.

        Args:
            curator: The door.
            dependence: Of each pair, total variation from independence.
            on_step: Told what is measured.
        """
        # Foretelling the error of every pair would take longer than measuring them on wide tables, so every
        # so many stand for all.
        stride = math.ceil(len(dependence) / MAX_FORETOLD)
        some = dict(islice(dependence.items(), 0, None, stride))
        ways, had, best = summarise_one_ways(curator), worth_of_one_ways(curator), (math.inf, Fraction(0))
        # What one-ways get is lacking to pairs: each split is foretold from released numbers, and the best
        # is taken.
        for part in range(PARTS):
            rho = curator.remaining * Fraction(part, PARTS)
            more = share_one_ways(curator, ways.held, rho)
            off = {
                # One-ways would be as sharp as what they have and what they get together.
                n: ways.off[n] * math.sqrt(own / (own + float(more.get((n,), 0))))
                for n, own in had.items()
            }
            # A part of the pairs gets a part of rho, so that each is foretold with the noise that it would
            # have.
            sigma = curator.sigma((curator.remaining - rho) / stride)
            weights = choose_pairs(some, ways, sigma, self.worth, self.target)
            best = min(best, (foretell_error(some, weights, ways, off, sigma), rho))
        if best[1]:
            self._measure_one_ways(curator, best[1], on_step)

    def _can_screen(self, curator: Curator, pairs: list[Clique]) -> bool:
        """Whether appraisals would say more than their own noise. Looks at releases and settings."""
        rows = summarise_one_ways(curator).rows
        return appraisal_noise(curator, len(pairs), rows, self._price(curator)) <= self.blind

    def _draw_pairs(self, curator: Curator, pairs: list[Clique], on_step: OnStep) -> None:
        """Spend all of rho on one-ways and on a few pairs that are drawn by how dependent they are."""
        price, kept = self._price(curator), 1 - Fraction(self.drawn_ones)
        # What pairs would have after the draws and the one-ways are paid for.
        sigma = curator.sigma(min(curator.total * kept, curator.remaining) - price)
        able, count = find_affordable(pairs, summarise_one_ways(curator), sigma)
        if not count:
            self._measure_one_ways(curator, curator.remaining, on_step)
            return
        self._refine_one_ways(curator, self.drawn_ones, on_step)
        on_step(Step("select", f"{count} of {len(able)} pairs", 1, curator.progress))
        # So many pairs share what is left, and their noise grows with the root.
        ways, sigma = summarise_one_ways(curator), sigma * math.sqrt(count)
        drawn = draw_pairs(curator, able, count, ways, sigma, price, self.target)
        on_step(Step("measure", f"{count} pairs", 2, curator.progress))
        curator.measure(drawn, curator.remaining / count)

    def _price(self, curator: Curator) -> Fraction:
        """What the appraisal of all pairs may cost, in rho."""
        # Never more than half of what is left, or too little would remain to buy with.
        return min(curator.total * Fraction(self.screen), curator.remaining / 2)

    def _screen_pairs(self, curator: Curator, pairs: list[Clique], on_step: OnStep) -> list[InferredMarginal]:
        """Spend all of rho on appraisals and the pairs that are worth buying.

        Returns what the appraisals say of the other pairs, see `independent_tables`.
        """
        on_step(Step("select", f"{len(pairs)} pairs appraised", 1, curator.progress))
        ways = summarise_one_ways(curator)
        dependence = estimate_dependence(curator, pairs, ways, self._price(curator))
        found = {pair: one.distance for pair, one in dependence.items()}
        products = {}
        if self.products:
            # Never more than a quarter of what is left, or too little would remain to buy with.
            rho, most = (
                min(curator.total * Fraction(share), curator.remaining / 4)
                for share in (self.products, self.max_products)
            )
            products = measure_rank_products(curator, pairs, ways, rho, most)
            measure_rare_tables(curator, products, ways, rho)
        self._weigh_one_ways(curator, found, on_step)
        ways, sigma = summarise_one_ways(curator), curator.sigma(curator.remaining)
        weights = choose_pairs(found, ways, sigma, self.worth, self.target)
        return buy_dependent_pairs(curator, weights, dependence, ways, on_step, products)

    def _all(
        self,
        curator: Curator,
        fitter: Fitter,
        pairs: list[Clique],
        deadline: Deadline | None,
        on_step: OnStep,
    ) -> None:
        """Spend all of rho on all pairs: alike, then by what the first look says of their dependence.

        Where two looks would take more than half of the time that is left, by the public price of their
        questions, the first one gets all of rho and is the only one.
        """
        on_step(Step("measure", f"{len(pairs)} pairs alike", 1, curator.progress))
        price = price_question(len(pairs), sum(curator.domain.size(pair) for pair in pairs))
        # Without time for a second round of questions everything goes into the first.
        look = 1 if deadline is not None and 2 * price > deadline.left / 2 else Fraction(self.look)
        curator.measure(pairs, curator.remaining * look / len(pairs))
        if look < 1:
            rough = Effort(rough=True, deadline=deadline)
            model = fitter.fit(curator.domain, curator.measurements, total=curator.public_rows, effort=rough)
            looks = {measured.clique: measured for measured in curator.measurements}
            self._measure_triples(curator, model, [looks[pair] for pair in pairs], on_step)
            codes = summarise_one_ways(curator).codes
            worth = self._worth(model, [looks[pair] for pair in pairs], codes)
            on_step(Step("measure", f"{len(pairs)} pairs by their dependence", 2, curator.progress))
            measure_shares(curator, self._shares(worth, curator.remaining))

    def _measure_triples(
        self, curator: Curator, model: Model, measured: Sequence[NoisyMarginal], on_step: OnStep
    ) -> None:
        """Look for dependence of three attributes that their pairs do not show, and measure what is found.

        See `margrave.select._screening.pairs`.
        """
        if len(curator.domain) < 3 or not self.triples:
            return
        pairs, ways = {table.clique for table in measured}, summarise_one_ways(curator)
        largest = min(curator.total * Fraction(self.triples), curator.remaining / 4)
        query = plan_query(curator, pairs, ways, largest, self.target)
        if query is None:
            return
        on_step(Step("select", f"{len(query.triples)} triples appraised", 2, curator.progress))
        found = find_triples(curator, query, estimate_pairs(model, measured))
        whole = sum(found.values())
        # A first look of nearly all of rho leaves little for the second.
        scale = min(Fraction(1), curator.remaining / (2 * whole)) if whole else Fraction(1)
        for triple, rho in found.items():
            curator.measure([triple], rho * scale)

    def _worth(
        self, model: Model, measured: Sequence[NoisyMarginal], codes: Mapping[str, float]
    ) -> dict[Clique, float]:
        """The root of each pair's dependence, damped, times its effective cells, with the target's emphasis.

        The dependence is that under a rough model and what the first look says beyond it. Noise is of a
        table's cells, so that the same precision leaves large tables further off. Cells count by their root
        here: bench/LOG.md has other powers.

        Args:
            model: The rough model.
            measured: What the first look says, a table a pair.
            codes: The perplexity of each attribute's one-way.
        """
        pairs = [table.clique for table in measured]
        ways = {name: model.project((name,)) / model.total for name in model.domain.names}
        apart = []
        for (a, b), table, own in zip(pairs, measured, model.project_many(pairs), strict=True):
            # What the first look says beyond the rough model's own table.
            shares = table.beyond(own) / model.total
            independent = np.outer(ways[a], ways[b])
            apart.append(0.5 * float(np.abs(shares - independent).sum()))
        # Half of the mean keeps pairs alive that the first look took for independent: it may have been
        # noise.
        damped = np.asarray(apart) + 0.5 * max(float(np.mean(apart)), 1e-6)
        cells = np.array([codes[a] * codes[b] for a, b in pairs])
        # That a target has few codes is no reason to know less of what goes with it.
        own = np.array([self.target in pair for pair in pairs])
        cells[own] = np.maximum(cells[own], cells.mean())
        worth = np.sqrt(damped * cells) * np.where(own, self.emphasis, 1.0)
        return dict(zip(pairs, worth.tolist(), strict=True))

    def _shares(self, worth: Mapping[Clique, float], left: Fraction) -> dict[Clique, Fraction]:
        """What each pair still gets of `left`, so that both looks together are in proportion to worth."""
        whole = sum(worth.values())
        # What a pair got by the first look counts towards its whole.
        looked = float(self.look) / len(worth)
        wanted = {clique: max(value / whole - looked, 0.0) for clique, value in worth.items()}
        return apportion_rho(wanted if any(wanted.values()) else worth, left)
