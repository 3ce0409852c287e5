"""PrivatePairs: every pair with a private column, or only dependent ones where noise would hide the rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.constraints.certain_lines import find_fixed_codes
from margrave.schema.domain import Clique, Domain
from margrave.select._screening.pairs import (
    Dependence,
    OneWays,
    appraisal_noise,
    buy_dependent_pairs,
    estimate_dependence,
    hides_pairs,
    summarise_one_ways,
)
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
    share_one_ways,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model
    from margrave.release import InferredMarginal, NoisyMarginal
    from margrave.schema.encoded import Encoded

COPY = 0.8
"""How much of the most that it can be a pair's appraised dependence is at least if it may be a copy."""
LEAST_BOUND = 0.2
"""Total variation from the product of the one-ways that a copy has at least if it is looked for."""


@final
@dataclass(frozen=True, slots=True)
class PrivatePairs(Strategy):
    """Measure the pairs that hold a private column, for a model that is drawn given the public ones.

    With p public and q private columns these are p q + q (q - 1) / 2 of all pairs: the fewer private columns,
    the less noise in each. Marginals of public columns are known and are not asked for.

    1. One-way marginals of private columns share `ones` of rho, but those that discovery left behind with no
       more noise.
    2. It is foretold by how much noise alone would move a pair, if all shared the rest alike, as a total
       variation on average (`margrave.select._screening.pairs`). Up to `hidden` all are bought (3 and 4).
       Above it, where appraisals are surer than `blind`, pairs are screened (5 and 6), as `AllPairs` does.
    3. All pairs with a private column share `look` of the rest alike, and a rough model is fitted.
    4. The remainder goes to pairs so that the whole of what each gets is in proportion to the root of (its
       dependence + half the mean dependence): the total variation between the model's pair, or the first
       look's where that says more, and the product of its one-ways. No pair gets less than the first look.
    5. One-way marginals of private columns are measured again, so that they have `screened_ones` of rho in
       all. Then all pairs are appraised for `screen` of rho: how far each is from the product of its
       one-ways, of which the public ones are exact. Pairs that may be copies are bought first, and of an
       attribute that another one fixes as noise shows (`margrave.schema.constraints.certain_lines`) no other
       pair is looked at again; those of the other count for both.
    6. Pairs are taken from the most dependent on while their dependence exceeds `worth` times the noise that
       they would get, and share what remains in proportion to the root of their dependence. Of the others
       the fitter is told what the appraisal says.
    7. The model is fitted to everything.

    **Privacy.** All answers are the curator's: measurements and an appraisal, all with Gaussian noise. What
    is asked for in steps 2 to 6 is decided by what was released before and by public rows. All of rho is
    spent, unless no column is private: then nothing is.

    Args:
        public: Names of the public columns.
        given: The public rows as codes; None for none, and then pairs are not screened.
        ones: Share of rho for one-way marginals.
        look: Share of what remains for the first look.
        max_clique_cells: Pairs with more cells are left out.
        target: A column whose pairs get `emphasis` times what they would get by step 4 or 6.
        emphasis: See target; at least 1. As in `AllPairs`.
        hidden: Total variation of noise in a pair from which on pairs are screened, above 0; infinity never
            screens. On four tables of the choosing half screening is ahead in all twelve cases from .020 on
            and behind in all eight from .004 to .017 (bench/LOG.md).
        screened_ones: Share of rho for one-way marginals where pairs are screened.
        screen: Share of rho for the appraisal.
        worth: How much of its noise a pair's dependence must exceed to be bought, above 0. This and the
            shares are those of `AllPairs`; 1/10 for `screened_ones` and .2 and .1 for `worth` were behind on
            the tables of the choosing half (bench/LOG.md).
        blind: Standard deviation of an appraised total variation above which pairs are not screened.

    Raises:
        InputError: A share or the emphasis is out of range.
    """

    public: tuple[str, ...] = ()
    given: Encoded | None = None
    ones: Fraction = Fraction(1, 20)
    look: Fraction = Fraction(1, 2)
    max_clique_cells: int = 1_000_000
    target: str | None = None
    emphasis: float = 2.0
    hidden: float = 0.02
    screened_ones: Fraction = Fraction(1, 4)
    screen: Fraction = Fraction(1, 10)
    worth: float = 0.35
    blind: float = 0.1
    name: ClassVar[str] = "private_pairs"
    gaussian_only: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset({"public", "given", "target"})

    def __post_init__(self) -> None:
        shares = {"ones": self.ones, "look": self.look}
        shares |= {"screened_ones": self.screened_ones, "screen": self.screen}
        for param, share in shares.items():
            if not 0 < share < 1:
                raise InputError(invalid(param, "a share above 0 and below 1", "Try the default.", got=share))
        for param, bound in (("hidden", self.hidden), ("worth", self.worth), ("blind", self.blind)):
            if not bound > 0:
                raise InputError(invalid(param, "above 0", "Try the default.", got=bound))
        if self.screened_ones + self.screen >= 1:
            together = "below 1 together with `screened_ones`"
            raise InputError(invalid("screen", together, "Try the defaults.", got=self.screen))
        if not (np.isfinite(self.emphasis) and self.emphasis >= 1):
            raise InputError(invalid("emphasis", "at least 1", "Try 2.", got=self.emphasis))

    def split_rho(self, counted: bool) -> Shares:
        """As where a private column has a pair and pairs are not screened.

        Whether they are is known once one-ways are released.
        """
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
        inferred: list[InferredMarginal] = []
        given = self.given
        if pairs and given is not None and self._must_screen(curator, pairs, given):
            inferred = self._screen_pairs(curator, pairs, given, on_step)
        elif pairs:
            self._buy_pairs(curator, fitter, pairs, deadline, on_step)
        on_step(Step("fit", f"{len(pairs)} pairs with a private column", 3, curator.progress))
        effort = Effort(deadline=deadline)
        tables = [*curator.measurements, *inferred]
        return fitter.fit(domain, tables, total=curator.public_rows, effort=effort)

    def _must_screen(self, curator: Curator, pairs: Sequence[Clique], given: Encoded) -> bool:
        """Whether noise would hide most pairs and an appraisal would show them.

        Looks at releases, public rows and settings.
        """
        if not given.rows or curator.public_rows is None:
            return False
        ways = summarise_one_ways(curator, given)
        hides = hides_pairs(curator, pairs, ways, self.hidden)
        # Discovery may have left less than screening takes.
        price = curator.total * self.screen
        able = curator.remaining > price + curator.total * self.screened_ones
        return hides and able and appraisal_noise(curator, len(pairs), ways.rows, price) <= self.blind

    def _screen_pairs(
        self, curator: Curator, pairs: Sequence[Clique], given: Encoded, on_step: OnStep
    ) -> list[InferredMarginal]:
        """Spend all of rho on private one-ways, an appraisal, and the pairs that are worth buying.

        Returns what the appraisal says of the other pairs, see `independent_tables`.
        """
        # What private one-ways have had so far counts towards their share.
        more = curator.remaining - curator.total * (1 - self.screened_ones)
        held = summarise_one_ways(curator, given).held
        singles = share_one_ways(curator, {n: c for n, c in held.items() if n not in given.domain}, more)
        if singles:
            on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
            measure_shares(curator, singles)
        on_step(Step("select", f"{len(pairs)} pairs appraised", 1, curator.progress))
        ways = summarise_one_ways(curator, given)
        dependence = estimate_dependence(curator, pairs, ways, curator.total * self.screen)
        dependence, followers = self._buy_copies(curator, dependence, ways, given, on_step)
        if not dependence:
            return []
        found, sigma = {p: one.distance for p, one in dependence.items()}, curator.sigma(curator.remaining)
        settings = self.worth, self.target, self.emphasis
        weights = weigh_dependent_pairs(found, ways, sigma, *settings, followers)
        return buy_dependent_pairs(curator, weights, dependence, ways, on_step)

    def _buy_copies(
        self,
        curator: Curator,
        dependence: Mapping[Clique, Dependence],
        ways: OneWays,
        given: Encoded,
        on_step: OnStep,
    ) -> tuple[dict[Clique, Dependence], dict[str, int]]:
        """Buy the pairs that may be copies.

        Returns:
            The pairs that are still worth a thought: of a private attribute that another one fixes no other
            pair is, as those of the other say as much. And how many attributes follow from each one so.
        """
        found = {pair: one.distance for pair, one in dependence.items()}
        sigma = curator.sigma(curator.remaining)
        weights = weigh_dependent_pairs(found, ways, sigma, self.worth, self.target, self.emphasis)
        copies = {
            pair: weights[pair]
            for pair, apart in sorted(found.items(), key=lambda entry: -entry[1])
            if pair in weights and apart >= COPY * ways.bound(pair) >= COPY * LEAST_BOUND
        }
        # A code that is drawn anew might break a rule (`margrave.models._determined`).
        if not copies or curator.domain.rules is not None:
            return dict(dependence), {}
        on_step(Step("measure", f"{len(copies)} pairs of near copies", 2, curator.progress))
        share = math.fsum(copies.values()) / math.fsum(weights.values())
        rho = curator.remaining * Fraction(share).limit_denominator(1000)
        measure_shares(curator, apportion_rho(copies, rho))
        fixed = _find_fixed(curator, list(copies), ways, given)
        rest = {
            pair: one
            for pair, one in dependence.items()
            if pair not in copies and fixed.keys().isdisjoint(pair)
        }
        return rest, Counter(fixed.values())

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


def weigh_dependent_pairs(
    found: Mapping[Clique, float],
    ways: OneWays,
    sigma: float,
    worth: float,
    target: str | None = None,
    emphasis: float = 1.0,
    followers: Mapping[str, int] | None = None,
) -> dict[Clique, float]:
    """The pairs worth buying, and their weights, of which each is to get its part of all precision.

    `choose_pairs`, which takes account of cells, is better where nothing is public, and here worse where
    columns are copies of each other (bench/LOG.md).

    A pair's weight w is the root of its dependence R, as often as it counts, so in a purchase of total weight
    W its noise is sigma sqrt(W / w) a cell. Pairs are taken while R exceeds `worth` times the total variation
    of that noise, which is in proportion to cells / sqrt(w), so in the order of R sqrt(w) / cells. At least
    one is taken.

    Args:
        found: Dependence of each pair.
        ways: What is known of the one-ways.
        sigma: Noise of a cell, in rows, if one pair got everything.
        worth: How much of the noise a dependence must exceed.
        target: An attribute whose pairs are taken in any case, as if as dependent as half the mean at least.
        emphasis: What the weights of the target's pairs are multiplied by.
        followers: How many attributes follow from each one, whose own pairs are not bought: pairs of what
            they follow from count once more for each of them.
    """
    known = followers or {}

    def weigh(pair: Clique, apart: float) -> float:
        return math.sqrt(apart) * math.prod(1 + known.get(name, 0) for name in pair)

    # The target's pairs are bought in any case; a floor keeps their shares from vanishing where noise hid
    # them.
    least = 0.5 * max(float(np.mean(list(found.values()))), 1e-6)
    weights = {pair: emphasis * weigh(pair, max(found[pair], least)) for pair in found if target in pair}
    whole = math.fsum(weights.values())
    rest = {pair: weigh(pair, max(apart, 1e-12)) for pair, apart in found.items() if pair not in weights}
    alone = {pair: ways.noise(pair, sigma) for pair in rest}
    for pair in sorted(rest, key=lambda pair: -found[pair] * math.sqrt(rest[pair]) / alone[pair]):
        weight = rest[pair]
        # Each pair bought makes the noise of all larger, so buying ends where the next one would gain less
        # than its own noise.
        if weights and found[pair] <= worth * alone[pair] * math.sqrt((whole + weight) / weight):
            break
        weights[pair] = weight
        whole += weight
    return weights


def _find_fixed(curator: Curator, pairs: Sequence[Clique], ways: OneWays, given: Encoded) -> dict[str, str]:
    """The private attributes that another one is seen to fix in some measured pairs, and what fixes each.

    None that fixes another, so that what is drawn given one alone follows from one whose pairs are bought.
    """
    bought = {table.clique: table for table in curator.measurements}
    fixed: dict[str, str] = {}
    for one, two in pairs:
        table = bought[one, two]
        for by, name, values, sigma in (
            (one, two, table.values, table.sigmas),
            (two, one, table.values.T, table.sigmas.T),
        ):
            able = not (name in given.domain or name in fixed or name in fixed.values() or by in fixed)
            found = find_fixed_codes(values, sigma, ways.rows * ways.shares[by]) if able else None
            # What is fixed but for a part of the rows, as noise this small shows, has more to be bought.
            if found is not None and found.exact:
                fixed[name] = by
    return fixed


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
