"""AIM: adaptive and iterative selection of marginals.

McKenna, Mullins, Sheldon and Miklau 2022, "AIM", Algorithms 1 to 4 (arXiv 2201.12677).

`ConditionalAIM` is AIM where some columns are public.

Maddock, Gade, Cormode and Bullock 2025, "Leveraging Vertical Public-Private Split for Improved Synthetic Data
Generation", section "Conditional generation" (arXiv 2504.10987).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, tabulate_rows
from margrave.select.public_rounds import EXACT
from margrave.select.strategy import (
    CHOOSE,
    MEASURE,
    NOISE_L1,
    ONE,
    PAIR,
    Holdings,
    Pace,
    Shares,
    Strategy,
    all_cliques,
    closure,
    count_cells,
    count_clique_cells,
    count_joint_cells,
    find_unmeasured,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

MAX_PUBLIC_CELLS = 1 << 20
"""Cells of an exact pair of public columns at most: ids would make the junction tree too large."""
DRAWS = Fraction(1, 10)
"""Share of a round's rho for its draw."""
ROUNDS_A_COLUMN, CLEARNESS, WIDENED = 0.55, 20.0, 0.07
"""Rounds a column that each e-fold of signal over noise adds to the first, what signal over noise is
multiplied by for that, and columns that each round beyond one a column adds to the largest clique.
Chosen on 17 tables of the nursery's choosing half at epsilon 0.2, 1 and 5, so that no run takes three times
what is told and the median half of it (bench/LOG.md)."""


@final
@dataclass(frozen=True, slots=True)
class AIM(Strategy):
    """Buy, round after round, the marginal that the model explains worst for its price.

    1. Candidates are all subsets of the workload's cliques; the weight of r is sum over workload
       cliques s of c_s |r ∩ s|.
    2. One-way marginals, each at 9/10 of a round's rho = total / (16 d); those that discovery left
       behind with no more noise are not bought again.
    3. A round draws a candidate by the exponential mechanism on weight * (L1 error - sqrt(2/pi) sigma
       cells), measures it and refits from the last model. Only candidates that keep the junction tree
       under max_cells times the share of rho spent so far are allowed, and those it contains already.
    4. When a measurement moves the model by less than its noise would, the rho of a round is
       quadrupled. The last round takes all that remains.

    5. Between rounds the model is fitted roughly (`Effort`), after the last one to full precision. When
       `max_seconds`, or the deadline of the run, is so near that another round and the last fit would not
       fit in, the current round becomes the last, and the last fit returns the best it has found by then.
       Only the time between the curator's answers counts.

    **Privacy.** All private answers are the curator's, and what a round costs is fixed before it. Filter
    and annealing look at released numbers only. The ledger's total is met exactly by the last round,
    however early it comes. With a time limit the number of rounds depends on how long fits of released
    numbers take; time that the curator needs is not counted (`margrave.limits.Limits`).

    Args:
        workload: Cliques to do well on, with weights; all of `degree` attributes by default.
        degree: Attributes a clique of the default workload.
        max_cells: Junction tree cells at full spend (32 MiB of 8-byte cells by default, where the paper has
            80 MB: bench/LOG.md has the error and the time of both).
        max_clique_cells: Candidates with more cells are left out.
        rounds: Rounds the budget is planned for; 16 d by default.
        max_seconds: Of post-processing, for the whole of `run`; no limit by default.
        known: Columns whose marginals are public: cliques of these alone are never bought.
        exact: Public tables that the model is fitted to beside what was measured.
    """

    workload: Mapping[Clique, int] | None = None
    degree: int = 2
    max_cells: int = 1 << 22
    max_clique_cells: int = 1_000_000
    rounds: int | None = None
    max_seconds: float | None = None
    known: tuple[str, ...] = ()
    exact: tuple[KnownMarginal, ...] = ()
    name: ClassVar[str] = "aim"

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns of the workload, where one was given."""
        return frozenset(name for clique in self.workload or () for name in clique)

    def split_rho(self, counted: bool) -> Shares:
        """A tenth for the draws; one-ways get what a round plans to measure with."""
        return {MEASURE: 1 - DRAWS, CHOOSE: DRAWS}

    def share_marginal(self, columns: int) -> Shares:
        """One-ways get what a round plans for one marginal; about two marginals a column follow."""
        measured = self.split_rho(True)[MEASURE]
        return {ONE: measured / self._plan_rounds(columns), PAIR: measured / (2 * columns)}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All cliques of `degree`, and a tree with a clique of typical columns for each column.

        Of graphs with as many edges a node, the largest clique of a triangulation grows with the number of
        nodes.
        """
        columns = len(sizes)
        clique = 2.0 + WIDENED * max(self.expect_rounds(sizes, signal) - columns, 0.0)
        digits = min(clique, columns) * sum(math.log10(max(size, 1)) for size in sizes) / max(columns, 1)
        grown: float = columns * 10.0 ** min(digits, 300.0)
        tree = min(grown, float(self.max_cells), count_joint_cells(sizes))
        return Holdings(count_clique_cells(sizes, self.degree), columns, tree=tree)

    def expect_rounds(self, sizes: Sequence[int], signal: float) -> float:
        """Rounds where all pairs are dependent: AIM goes on while what it buys stands above the noise.

        Arguments are those of `expect_holdings`.
        """
        columns = len(sizes)
        if columns < 2:
            return 1.0
        # Noise of a round that is one of 16 a column, over a table of two columns.
        cells = count_cells(sizes, 2) / math.comb(columns, 2)
        clear = CLEARNESS * signal / (cells * math.sqrt(columns))
        return min(columns * (1.0 + ROUNDS_A_COLUMN * math.log1p(clear)), self._plan_rounds(columns))

    def _plan_rounds(self, columns: int) -> int:
        return self.rounds or 16 * columns

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when to be done; the nearer of it and `max_seconds` counts.
        """
        domain, pace = curator.domain, Pace(self._deadline(curator, deadline))
        weights = self._candidates(domain)
        candidates = list(weights)
        measured = self.split_rho(True)[MEASURE]
        step = curator.total / self._plan_rounds(len(domain))
        self._one_ways(curator, step * measured, on_step)
        model = fitter.fit(domain, self._tables(curator), total=curator.public_rows, effort=pace.rough)
        done, last = 0, False
        while not last:
            # A clock may end the rounds but not the spending: whatever is left goes into the last one, as
            # the plan says.
            early = pace.ends and curator.remaining >= 2 * step
            last = early or curator.remaining < 2 * step
            step = curator.remaining if last else step
            allowed, cells = self._allowed_candidates(curator, fitter, candidates, pace.cells)
            before, chosen = self._round(curator, model, allowed, weights, step, last)
            done += 1
            note = "; time is nearly up, this was the last round" if early else ""
            on_step(Step("select", " x ".join(chosen) + note, done, curator.progress))
            model = pace.fit_round(
                fitter, curator, self._tables(curator), model, last=last, cells=cells[chosen]
            )
            # A table that did not move the model by more than its noise was not worth its price: four times
            # as much buys half the noise.
            moved = float(np.abs(model.project(chosen) - before).sum())
            if moved <= NOISE_L1 * curator.sigma(step * measured) * before.size:
                step = 4 * step
        return model

    def _tables(self, curator: Curator) -> list[NoisyMarginal]:
        return [*curator.measurements, *self.exact]

    def _deadline(self, curator: Curator, given: Deadline | None) -> Deadline | None:
        own = None if self.max_seconds is None else Deadline(self.max_seconds, curator.stopwatch)
        return min((d for d in (own, given) if d is not None), key=lambda d: d.left, default=None)

    def _candidates(self, domain: Domain) -> dict[Clique, int]:
        workload = self.workload or dict.fromkeys(all_cliques(domain, self.degree, self.max_clique_cells), 1)
        workload = workload or {(name,): 1 for name in domain.names}
        weights = workload_weights(domain, workload)
        small = {c: w for c, w in weights.items() if domain.size(c) <= self.max_clique_cells or len(c) == 1}
        return {c: w for c, w in small.items() if w > 0 and not set(c) <= set(self.known)}

    def _one_ways(self, curator: Curator, rho: Fraction, on_step: OnStep) -> None:
        singles = find_unmeasured(curator.domain, curator.measurements, curator.sigma(rho))
        singles = [clique for clique in singles if clique[0] not in self.known]
        on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
        if singles:
            curator.measure(singles, min(rho, curator.remaining / (2 * len(singles))))

    def _allowed_candidates(
        self, curator: Curator, fitter: Fitter, candidates: list[Clique], affordable: float
    ) -> tuple[list[Clique], dict[Clique, float]]:
        """Candidates whose junction tree stays within the limit, or that it holds already; and its cells."""
        measured = list(dict.fromkeys(table.clique for table in self._tables(curator)))
        held = {part for clique in measured for part in closure([clique], curator.domain)}
        limit = min(self.max_cells * _share_spent(curator), affordable)
        cells = fitter.cells(curator.domain, measured, candidates)
        sizes = {clique: float(size) for clique, size in zip(candidates, cells, strict=True)}
        free = [c for c in candidates if len(c) == 1 or c in held]
        kept = set(free) | {c for c in candidates if sizes[c] <= limit}
        return [clique for clique in candidates if clique in kept], sizes

    def _round(
        self,
        curator: Curator,
        model: Model,
        allowed: list[Clique],
        weights: Mapping[Clique, int],
        rho: Fraction,
        last: bool,
    ) -> tuple[NDArray[np.float64], Clique]:
        """Choose and measure; returns the model's table from before, and the clique."""
        split = self.split_rho(True)
        sigma = curator.sigma(rho * split[MEASURE])
        expected = model.project_many(allowed)
        # What a measurement would be off by itself is taken from what it would mend, so that large tables
        # are not chosen for noise alone.
        penalties = [NOISE_L1 * sigma * table.size for table in expected]
        index = curator.choose(
            allowed,
            expected,
            rho * split[CHOOSE],
            weights=[weights[c] for c in allowed],
            penalties=penalties,
        )
        curator.measure([allowed[index]], curator.remaining if last else rho * split[MEASURE])
        return expected[index], allowed[index]


@final
@dataclass(frozen=True, slots=True)
class ConditionalAIM(Strategy):
    """AIM whose workload is all cliques of `degree` columns that hold a private one.

    Candidates, scores, annealing and the last round are AIM's (`margrave.select.aim.AIM`), and one-way
    marginals are bought of private columns only. Cliques of public columns alone are no candidates. Instead
    the model is given the exact pairs of a spanning tree of public columns, that of the most mutual
    information (`span_public`), at no cost: a model that knows nothing of how public columns depend on one
    another counts twice what two of them say of a private one, once its rows are drawn given both. Where no
    column is private nothing is spent.

    **Privacy.** As AIM's: all private answers are the curator's. Its scores have the sensitivity of the
    ledger's adjacency, 2 under replace_private.

    Args:
        public: Names of the public columns.
        given: The public rows as codes; None for none, and then the model sees no public pair.
        degree: Columns a clique of the workload.
        max_cells: Junction tree cells at full spend, as for AIM.
        max_seconds: Of post-processing, for the whole of `run`; no limit by default.
    """

    public: tuple[str, ...] = ()
    given: Encoded | None = None
    degree: int = 3
    max_cells: int = 1 << 22
    max_seconds: float | None = None
    name: ClassVar[str] = "conditional_aim"
    pace: ClassVar[tuple[float, float]] = (3.5e-3, 1.7)
    options: ClassVar[frozenset[str]] = frozenset({"public", "given"})

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise InputError(invalid("degree", "at least 1", "Try 3.", got=self.degree))

    def split_rho(self, counted: bool) -> Shares:
        """As AIM's."""
        return self._aim.split_rho(counted)

    def share_marginal(self, columns: int) -> Shares:
        """As AIM's, of all columns."""
        return self._aim.share_marginal(columns)

    @property
    def _aim(self) -> AIM:
        return AIM(max_cells=self.max_cells, max_seconds=self.max_seconds, known=self.public)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when to be done; the nearer of it and `max_seconds` counts.
        """
        domain = curator.domain
        workload = self.workload(domain)
        if not workload:
            return fitter.fit(domain, curator.measurements, total=curator.public_rows)
        exact = tuple(span_public(domain, self.given))
        aim = replace(self._aim, workload=dict.fromkeys(workload, 1), exact=exact)
        return aim.run(curator, fitter, on_step, deadline)

    def workload(self, domain: Domain) -> list[Clique]:
        """All cliques of `degree` columns with a private one; of all columns, if there are fewer."""
        cliques = all_cliques(domain, self.degree, domain.size())
        return [clique for clique in cliques if not set(clique) <= set(self.public)]


def span_public(domain: Domain, given: Encoded | None) -> list[KnownMarginal]:
    """Exact pairs of public columns along the spanning tree of the most mutual information.

    Pairs of more than MAX_PUBLIC_CELLS cells are left out, which may leave several trees. Of all trees it is
    the one whose model is nearest to the rows (Chow and Liu 1968).

    Args:
        domain: Of all columns.
        given: The public rows as codes; None for none.
    """
    if given is None or not given.rows:
        return []
    names = [name for name in domain.names if name in given.domain]
    pairs = [pair for pair in combinations(names, 2) if domain.size(pair) <= MAX_PUBLIC_CELLS]
    gains = {pair: _find_information(tabulate_rows(given, domain, pair) / given.rows) for pair in pairs}
    # Kruskal: the pair of the most information that joins two parts, until there is one part.
    part, found = {name: name for name in names}, []
    for pair in sorted(gains, key=lambda pair: -gains[pair]):
        old, new = part[pair[1]], part[pair[0]]
        if old != new:
            found.append(KnownMarginal(pair, tabulate_rows(given, domain, pair), EXACT))
            part = {name: new if own == old else own for name, own in part.items()}
    return found


def _find_information(shares: NDArray[np.float64]) -> float:
    """Mutual information of a pair's shares, in nats."""
    product = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    there = shares > 0
    return float((shares[there] * np.log(shares[there] / product[there])).sum())


def workload_weights(domain: Domain, workload: Mapping[Clique, int]) -> dict[Clique, int]:
    """The weight of every subset r of the workload's cliques: sum over s of c_s |r ∩ s|.

    Raises:
        InputError: A weight is negative or not whole, or all are 0.

    Example:
        >>> workload_weights(Domain.of({"a": 2, "b": 2, "c": 2}), {("a", "b"): 1, ("b", "c"): 1})
        {('a',): 1, ('b',): 2, ('c',): 1, ('a', 'b'): 3, ('b', 'c'): 3}
    """
    if any(weight != int(weight) or weight < 0 for weight in workload.values()) or not any(workload.values()):
        raise InputError(invalid("workload", "whole weights, none negative, not all 0", "Check the weights."))
    # |r ∩ s| counts the attributes of r that s holds: the sum goes over attributes, not over pairs r, s.
    held = dict.fromkeys(domain.names, 0)
    for clique, weight in workload.items():
        for name in set(clique):
            held[name] += int(weight)
    return {clique: sum(held[name] for name in clique) for clique in closure(list(workload), domain)}


def _share_spent(curator: Curator) -> float:
    return float(1 - curator.remaining / curator.total)
