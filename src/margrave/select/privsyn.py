"""PrivSyn: the pairs whose dependence outweighs the noise of measuring them, merged where they form cliques.

Zhang, Wang, Li, Honorio, Backes, He, Chen and Zhang 2021, "PrivSyn: Differentially Private Data Synthesis"
(USENIX Security), sections 4.1 to 4.3: InDif, DenseMarg, combining marginals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.select.strategy import (
    APPRAISE,
    CELLS_POWER,
    NOISE_L1,
    ONE,
    ONE_WAYS,
    PAIR,
    Shares,
    Strategy,
    all_cliques,
    apportion_rho,
    buy_one_ways,
    released_one_ways,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

MOST_CLIQUES = 20_000
"""Cliques of pairs looked at for combining, at most."""


@final
@dataclass(frozen=True, slots=True)
class PrivSyn(Strategy):
    """DenseMarg: choose pairs to minimise the noise of those chosen and the dependence of those left out.

    1. A share `ones` of rho: one-way marginals, those that discovery left behind with no more noise not
       again.
    2. A share `scores`: InDif of every pair, the L1 distance between its counts and the product of the
       one-ways, with Gaussian noise of one scale.
    3. DenseMarg: from no pair, add the pair that lowers the most  sum over chosen pairs of their noise's L1
       + sum over the others of InDif, until none does. With rho split in proportion to cells^(2/3), which
       is the best split, the noise in all is sqrt(2 / pi) sigma (sum of cells^(2/3))^(3/2), sigma being
       what all of the rest of rho would buy for one.
    4. Chosen pairs that form cliques of three and more are measured as one, larger cliques first, where they
       have fewer than `gamma` cells and share two attributes at most with those taken before.
    5. The rest of rho: the marginals that result, split in proportion to cells^(2/3). Where there are none
       the one-ways are measured again.

    **Privacy.** All private answers are the curator's, all of them with Gaussian noise, so GDP prices them
    together. *InDif.* The paper compares n_ij with n_i n_j / n, all exact. A row that comes or goes moves
    n_ij by 1 and the product by n / (n + 1) + (2 n + 1) / (n + 1) < 3 in L1, so the score by less than 4; a
    row that is replaced moves n_ij by 2 and the product by at most (2 n + 2 n + 4) / n, so the score by at
    most 6 + 4 / n. (Tests hold tables that come near both.) Here one-ways are bought first and the product
    is of the *released* ones, a public table E. Then |‖n_ij - E‖_1 - ‖n'_ij - E‖_1| <= ‖n_ij - n'_ij‖_1,
    which is 1 under add_remove and 2 under replace_one (`Curator.appraise` has the proof, also for owners
    of many rows): a quarter and a third of the noise at the same price. What it costs is that errors of the
    one-ways count as dependence.

    Differences from the paper: the order of steps 1 and 2 and the sensitivity, as said; one-ways are made
    distributions before they are multiplied; attributes in no chosen pair keep their one-way. Pairs that
    would take the model over `max_cells` cells are not chosen, so that any generator may follow.

    Args:
        ones: Share of rho for one-way marginals, between 0 and 1.
        scores: Share of rho for InDif, between 0 and 1; together with `ones` below 1.
        gamma: Cells of a combined marginal, fewer than this; 5,000 in the paper.
        max_cells: Cells the fitter's model may have.
        max_clique_cells: Pairs with more cells are left out.

    Raises:
        InputError: An argument is out of range.
    """

    ones: Fraction = Fraction(1, 10)
    scores: Fraction = Fraction(1, 10)
    gamma: int = 5_000
    max_cells: int = 1 << 22
    max_clique_cells: int = 1_000_000
    name: ClassVar[str] = "privsyn"
    pace: ClassVar[tuple[float, float]] = (2e-3, 0.0)
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.ones > 0 and self.scores > 0 and self.ones + self.scores < 1):
            asked = "shares above 0 that leave something"
            raise InputError(invalid("ones and scores", asked, "Try a tenth each."))

    def split_rho(self, counted: bool) -> Shares:
        """One-ways, the appraisal of all pairs, and the rest."""
        ones, scores = Fraction(self.ones), Fraction(self.scores)
        return {ONE_WAYS: ones, APPRAISE: scores, "pairs and merged pairs": 1 - ones - scores}

    def share_marginal(self, columns: int) -> Shares:
        """About two pairs a column."""
        split, pairs = self.split_rho(True), max(math.comb(columns, 2), 1)
        return {
            ONE: split[ONE_WAYS] / columns,
            PAIR: split["pairs and merged pairs"] / min(2 * columns, pairs),
        }

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the fit stops and returns the best so far.
        """
        domain, rho = curator.domain, curator.remaining
        pairs = all_cliques(domain, 2, self.max_clique_cells) if len(domain) > 1 else []
        split = self.split_rho(True)
        buy_one_ways(curator, rho * split[ONE_WAYS], on_step)
        cliques: list[Clique] = []
        if pairs:
            errors = self._indif(curator, pairs, rho * split[APPRAISE])
            cliques = self._choose_pairs(curator, fitter, dict(zip(pairs, errors.tolist(), strict=True)))
        on_step(Step("select", f"{len(cliques)} marginals of pairs and more", 1, curator.progress))
        bought = cliques or [(name,) for name in domain.names]
        weights = {clique: domain.size(clique) ** CELLS_POWER for clique in bought}
        for clique, share in apportion_rho(weights, curator.remaining).items():
            curator.measure([clique], share)
        on_step(Step("fit", f"{len(bought)} marginals", 2, curator.progress))
        effort = Effort(deadline=deadline)
        return fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=effort)

    def _indif(self, curator: Curator, pairs: Sequence[Clique], rho: Fraction) -> NDArray[np.float64]:
        """Noisy L1 distances of pairs to the product of the released one-ways, shape [pairs]."""
        ways, total = released_one_ways(curator)
        expected = [total * np.outer(ways[a], ways[b]) for a, b in pairs]
        return curator.appraise(pairs, expected, rho)

    def _choose_pairs(self, curator: Curator, fitter: Fitter, errors: Mapping[Clique, float]) -> list[Clique]:
        domain = curator.domain
        known = [(name,) for name in domain.names]
        sigma = curator.sigma(curator.remaining)

        def fits(cliques: Sequence[Clique], more: Clique) -> bool:
            return float(fitter.cells(domain, [*known, *cliques], [more])[0]) <= self.max_cells

        chosen = dense(domain, errors, sigma, fits)
        cliques = combine_pairs(domain, chosen, self.gamma)
        # Merged cliques may tie more attributes together than their pairs did; then the pairs are kept as
        # they are.
        if cliques and not fits(cliques, cliques[0]):
            cliques = chosen
        return cliques


def dense(
    domain: Domain,
    errors: Mapping[Clique, float],
    sigma: float,
    fits: Callable[[Sequence[Clique], Clique], bool] = lambda chosen, more: True,
) -> list[Clique]:
    """DenseMarg's pairs, in the order they are chosen (the paper's Algorithm 1).

    Args:
        domain: Sizes of the attributes.
        errors: InDif of each pair, in rows.
        sigma: Standard deviation that all of rho buys for one marginal, in rows.
        fits: Whether a pair may be added to those chosen.

    Example:
        >>> domain = Domain.of({"a": 2, "b": 2, "c": 2})
        >>> dense(domain, {("a", "b"): 90.0, ("a", "c"): 40.0, ("b", "c"): 3.0}, 5.0)
        [('a', 'b'), ('a', 'c')]
    """
    weights = {pair: domain.size(pair) ** CELLS_POWER for pair in errors}
    chosen: list[Clique] = []
    whole, left = 0.0, list(errors)
    while left:
        powers = np.array([weights[pair] for pair in left])
        noise = NOISE_L1 * sigma * ((whole + powers) ** 1.5 - whole**1.5)
        change = noise - np.array([errors[pair] for pair in left])
        best = int(np.argmin(change))
        if change[best] >= 0.0:
            break
        pair = left.pop(best)
        if fits(chosen, pair):
            chosen.append(pair)
            whole += weights[pair]
    return chosen


def combine_pairs(domain: Domain, pairs: Sequence[Clique], gamma: int) -> list[Clique]:
    """Cliques of pairs merged into one, and the pairs that are left (the paper's Algorithm 2).

    Args:
        domain: Sizes of the attributes.
        pairs: The chosen pairs.
        gamma: A merged clique has fewer cells.

    Example:
        >>> domain = Domain.of({"a": 2, "b": 2, "c": 2, "d": 2})
        >>> combine_pairs(domain, [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], 100)
        [('a', 'b', 'c'), ('c', 'd')]
    """
    taken: list[Clique] = []
    held: set[str] = set()
    for clique in sorted(_cliques(domain, pairs, gamma), key=lambda c: -len(c)):
        if len(held & set(clique)) <= 2:
            taken.append(clique)
            held |= set(clique)
    return taken + [pair for pair in pairs if not any(set(pair) <= set(clique) for clique in taken)]


def _cliques(domain: Domain, pairs: Sequence[Clique], gamma: int) -> list[Clique]:
    """Cliques of three and more attributes in the graph of the pairs, of fewer than gamma cells."""
    around: dict[str, set[str]] = {name: set() for name in domain.names}
    for a, b in pairs:
        around[a].add(b)
        around[b].add(a)
    found: list[Clique] = []
    growing: list[Clique] = [domain.canonical(pair) for pair in pairs]
    while growing and len(found) < MOST_CLIQUES:
        larger: list[Clique] = []
        for clique in growing:
            last = domain.index(clique[-1])
            # Only attributes behind the last one, so that every clique is grown once.
            for name in domain.names[last + 1 :]:
                wider = (*clique, name)
                if domain.size(wider) < gamma and all(name in around[other] for other in clique):
                    larger.append(wider)
        found += larger
        growing = larger
    return found[:MOST_CLIQUES]
