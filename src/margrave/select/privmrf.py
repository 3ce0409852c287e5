"""PrivMRF: marginals inside the cliques of a triangulated graph, chosen first by dependence, then by error.

Cai, Lei, Wei and Xiao 2021, "Data Synthesis via Differentially Private Markov Random Fields" (VLDB 14, 2190).

The chordal graph of attributes is grown edge by edge for what its edges are worth; the candidates are small
marginals inside its cliques.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.select.strategy import (
    APPRAISE,
    NOISE_L1,
    ONE,
    ONE_WAYS,
    PAIR,
    Holdings,
    Pace,
    Shares,
    Strategy,
    all_cliques,
    buy_one_ways,
    count_joint_cells,
    count_pair_cells,
    released_one_ways,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def grown(
    worth: Floats, sizes: Sequence[int], price: float, max_cells: float, max_clique_cells: float
) -> Bytes:
    """The chordal graph of greedily largest  worth of its edges - price * cells of its maximal cliques.

    Starts with no edge. A step tries every absent edge with the edges that triangulation adds to it, and
    takes the best if that raises the score and no limit is passed; ends when none does.

    Args:
        worth: What each edge is worth, symmetric, shape [attributes, attributes].
        sizes: Codes of each attribute.
        price: Of a cell.
        max_cells: Cells of all maximal cliques together.
        max_clique_cells: Cells of each maximal clique.

    Returns:
        The adjacency, shape [attributes, attributes].
    """
    numbers = np.asarray(sizes, dtype=np.float64)
    graph = np.zeros(worth.shape, dtype=np.uint8)
    score = -price * float(numbers.sum())
    while True:
        found, a, b = _best(graph, worth, numbers, price, max_cells, max_clique_cells)
        if a < 0 or not found > score:
            return graph
        score = found
        graph[a, b] = graph[b, a] = 1
        _triangulate(graph, numbers)


def chordal_cliques(graph: Bytes, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The maximal cliques of a chordal graph, each ascending, in ascending order."""
    filled, numbers = graph.copy(), np.asarray(sizes, dtype=np.float64)
    order = _triangulate(filled, numbers)[0]
    place = {int(v): i for i, v in enumerate(order)}
    cliques = []
    for v in place:
        neighbours = [int(u) for u in np.flatnonzero(filled[v])]
        # What comes later in a perfect elimination order makes a clique with the attribute.
        cliques.append({v, *(u for u in neighbours if place[u] > place[v])})
    maximal = [c for c in cliques if not any(c < other for other in cliques)]
    return sorted(tuple(sorted(c)) for c in maximal)


@njit(cache=True, nogil=True)
def _best(graph, worth, sizes, price, max_cells, max_clique_cells):  # type: ignore[no-untyped-def]
    """The best score of the graph with one more edge, and the edge; -1 where none is allowed."""
    count = len(sizes)
    best, first, second = -np.inf, -1, -1
    for a in range(count):
        for b in range(a + 1, count):
            if graph[a, b] or sizes[a] * sizes[b] > max_clique_cells:
                continue
            # The graph with this edge and what its triangulation adds.
            trial = graph.copy()
            trial[a, b] = 1
            trial[b, a] = 1
            _, cells, largest = _triangulate(trial, sizes)
            if cells > max_cells or largest > max_clique_cells:
                continue
            score = -price * cells
            # Worth of all edges present, those of the triangulation included, less the price of the cells.
            for u in range(count):
                for v in range(u):
                    if trial[u, v]:
                        score += worth[u, v]
            if score > best:
                best, first, second = score, a, b
    return best, first, second


@njit(cache=True, nogil=True)
def _triangulate(graph, sizes):  # type: ignore[no-untyped-def]
    """Add the edges that eliminating the attribute of fewest new cells, one after another, asks for.

    Returns the order, the cells of all maximal cliques together and of the largest. A chordal graph has an
    attribute whose neighbours are all tied, so that those are eliminated first and nothing is added to it.
    """
    count = len(sizes)
    alive = np.ones(count, dtype=np.uint8)
    order = np.empty(count, dtype=np.int64)
    cells, largest = 0.0, 0.0
    gone = np.zeros((count, count), dtype=np.uint8)
    for step in range(count):
        # The attribute whose elimination adds the fewest edges; of equals the one with the smallest clique.
        best, fewest, least = -1, 1 << 60, np.inf
        for v in range(count):
            if alive[v]:
                missing, weight = _fill_in(graph, alive, sizes, v)
                if missing < fewest or (missing == fewest and weight < least):
                    best, fewest, least = v, missing, weight
        order[step] = best
        alive[best] = 0
        _tie(graph, alive, gone, best)
        # A clique inside an earlier one is not maximal and costs nothing.
        if not _within(gone, order, step):
            cells += least
            largest = max(largest, least)
    return order, cells, largest


@njit(cache=True, nogil=True)
def _fill_in(graph, alive, sizes, v):  # type: ignore[no-untyped-def]
    """Edges that eliminating an attribute would add, and the cells of its clique."""
    missing, weight = 0, sizes[v]
    for u in range(len(sizes)):
        if alive[u] and graph[v, u]:
            weight *= sizes[u]
            for w in range(u):
                if alive[w] and graph[v, w] and not graph[u, w]:
                    missing += 1
    return missing, weight


@njit(cache=True, nogil=True)
def _tie(graph, alive, gone, v):  # type: ignore[no-untyped-def]
    """Tie all living neighbours of an attribute to one another and note its clique."""
    gone[v, v] = 1
    for u in range(len(alive)):
        if alive[u] and graph[v, u]:
            gone[v, u] = 1
            for w in range(u):
                if alive[w] and graph[v, w]:
                    graph[u, w] = 1
                    graph[w, u] = 1


@njit(cache=True, nogil=True)
def _within(gone, order, step):  # type: ignore[no-untyped-def]
    """Whether the clique of the last eliminated attribute lies in that of an earlier one."""
    last = order[step]
    for i in range(step):
        inside = True
        for u in range(gone.shape[0]):
            if gone[last, u] and not gone[order[i], u]:
                inside = False
                break
        if inside:
            return True
    return False


MAX_SUBSETS = 20_000
"""Subsets of one clique that are looked at, at most, smaller ones first."""
PARENTS = 5
"""Parents of an attribute in a clique's network, at most."""


def useful_subsets(
    domain: Domain, cliques: Sequence[Clique], most: float, degree: int
) -> dict[Clique, float]:
    """Subsets of two and more attributes of the cliques with at most `most` cells, and how likely each is
    drawn.

    A subset weighs |clique|^2 over the number of subsets of its clique, added up over the cliques it lies in.

    Args:
        domain: Sizes of the attributes.
        cliques: Maximal cliques.
        most: Cells of a subset.
        degree: Attributes of a subset, at most.
    """
    weights: dict[Clique, float] = {}
    for clique in cliques:
        found = [subset for subset in _subsets(domain, clique, most, degree) if len(subset) > 1]
        for subset in found:
            weights[subset] = weights.get(subset, 0.0) + len(clique) ** 2 / len(found)
    return weights


def first_marginals(
    domain: Domain, cliques: Sequence[Clique], scores: Floats, most: float, rng: np.random.Generator
) -> list[Clique]:
    """At most as many marginals as attributes: the best network marginal of each attribute, then any useful
    ones.

    Args:
        domain: Sizes of the attributes.
        cliques: Maximal cliques of the graph.
        scores: Dependence of each pair, shape [attributes, attributes].
        most: Cells of a marginal.
        rng: Of the first attribute of each network and of what fills up.
    """
    # Every maximal clique proposes a network of its own; an attribute takes the best marginal of all of them.
    best: dict[str, tuple[float, Clique]] = {}
    for clique in cliques:
        for name, (score, marginal) in _network(domain, clique, scores, most, rng).items():
            if name not in best or score > best[name][0]:
                best[name] = (score, marginal)
    chosen = list(dict.fromkeys(marginal for _, marginal in best.values()))
    rest = [s for s in useful_subsets(domain, cliques, most, 3) if s not in chosen]
    missing = min(max(len(domain) - len(chosen), 0), len(rest))
    return chosen + [rest[i] for i in rng.choice(len(rest), missing, replace=False)] if missing else chosen


def correlation(domain: Domain, scores: Floats, name: str, parents: Clique) -> float:
    """CFS: how well parents go with an attribute and how little with one another.

    sum_i R(a, p_i) / sqrt(|P| + sum_(i < j) R(p_i, p_j)), the root at least 1; Hall 1999.
    """
    own = domain.index(name)
    places = [domain.index(parent) for parent in parents]
    among = sum(float(scores[i, j]) for i, j in combinations(places, 2))
    with_the_attribute = float(scores[own, places].sum())
    return with_the_attribute / math.sqrt(max(len(places) + among, 1.0))


def _network(
    domain: Domain, clique: Clique, scores: Floats, most: float, rng: np.random.Generator
) -> dict[str, tuple[float, Clique]]:
    """The score and the marginal of each attribute of a clique with its parents, but for the first."""
    ordered = [clique[int(rng.integers(len(clique)))]]
    found: dict[str, tuple[float, Clique]] = {}
    while len(ordered) < len(clique):
        best: tuple[float, str, Clique] | None = None
        for name in clique:
            if name in ordered:
                continue
            parents = _parents(domain, name, ordered, scores, most)
            score = correlation(domain, scores, name, parents) if parents else -math.inf
            if best is None or score > best[0]:
                best = (score, name, parents)
        if best is None:
            break
        score, name, parents = best
        ordered.append(name)
        if parents:
            found[name] = (score, domain.canonical((name, *parents)))
    return found


def _parents(domain: Domain, name: str, ordered: Sequence[str], scores: Floats, most: float) -> Clique:
    """A maximal useful set of parents, taken one after another for the largest CFS score."""
    parents: Clique = ()
    while len(parents) < PARENTS:
        room = [p for p in ordered if p not in parents and domain.size((name, *parents, p)) <= most]
        if not room:
            break
        parents += (max(room, key=lambda p: correlation(domain, scores, name, (*parents, p))),)
    return parents


def _subsets(domain: Domain, clique: Clique, most: float, degree: int) -> list[Clique]:
    """Subsets with at most `most` cells and `degree` attributes, smaller ones first."""
    growing: list[Clique] = [(name,) for name in domain.canonical(clique) if domain[name] <= most]
    names = domain.canonical(clique)
    found: list[Clique] = []
    while growing and len(found) < MAX_SUBSETS and len(growing[0]) <= degree:
        found += growing
        growing = [
            (*subset, name)
            for subset in growing
            for name in names[names.index(subset[-1]) + 1 :]
            if domain.size(subset) * domain[name] <= most
        ]
    return found[:MAX_SUBSETS]


MARGINALS_AN_ATTRIBUTE = 0.8
"""Marginals chosen by error, for each attribute."""
STEPS = 8
"""Rounds of such choices, at most."""
MAX_CANDIDATES = 400
"""Candidates drawn for a round, at most."""


@final
@dataclass(frozen=True, slots=True)
class PrivMRF(Strategy):
    """Grow a chordal graph over dependent attributes, then measure marginals inside its cliques.

    1. A share `ones` of rho: one-way marginals.
    2. A share `structure`: R of every pair, the total variation between its counts and the product of the
       one-ways, noisy.
    3. The graph: edge by edge, always the one that raises most  the sum of R over all edges, those that
       triangulation adds included, - price * cells of the maximal cliques, inside the limits on cells.
    4. A marginal is *useful* if the noise leaves its average count theta times as large as itself:
       cells <= rows / (theta sigma sqrt(2 / pi)).
    5. First marginals: in every maximal clique a greedy network in which each attribute gets useful parents
       by their correlation (CFS); the best marginal of each attribute, filled up to d with other useful
       subsets.
    6. Rounds, min(d / 2, 8) of them: up to 400 useful subsets of maximal cliques are drawn, a share
       `errors` of rho over the rounds tells the L1 error of the model on each, noisy, and the worst are
       measured, 0.8 d over all rounds, rounded up in each. No marginal has more noise than step 4 reckons
       with; those of the last round take what is left.

    **Privacy.** All private answers are the curator's with Gaussian noise, so GDP prices them together. The
    pair scores are distances to a product of *released* one-ways, half of ‖n_ij - E‖_1 over the released
    rows: the counts' distance has sensitivity 1 under add_remove and 2 under replace_one
    (`Curator.appraise`), where the paper's TVD with exact one-ways and an exact divisor has 2 / n and 3 / n
    + 2 / n^2. The row count comes from the one-ways, and is in the ledger with them; no number of the exact
    table decides how many rows are drawn, which marginals are useful or when to stop. Candidates are drawn
    from `seed`, which is public.

    Differences from the paper's code: the one-ways, which are all bought first; edges stop at the first step
    that gains nothing; fewest-fill elimination; the CFS score has the right pairs of parents in its
    denominator; the model is fitted by the fitter's own rule for stopping.

    Args:
        ones: Share of rho for one-ways.
        structure: Share for the pair scores.
        errors: Share for the errors of candidates.
        theta: How far counts have to exceed the noise.
        price: What a cell costs in units of R.
        max_cells: Cells of the fitter's model; pairs of more than a quarter of that are not looked at.
        graph_cells: Cells of all maximal cliques together; their tables are never held.
        max_clique_cells: Cells of one maximal clique.
        degree: Attributes of a candidate, at most.
        seed: Of the draws of candidates.

    Raises:
        InputError: An argument is out of range.
    """

    ones: Fraction = Fraction(1, 10)
    structure: Fraction = Fraction(1, 10)
    errors: Fraction = Fraction(1, 10)
    theta: float = 6.0
    price: float = 1e-8
    max_cells: int = 1 << 22
    graph_cells: int = 50_000_000
    max_clique_cells: int = 10_000_000
    degree: int = 6
    seed: int = 0
    name: ClassVar[str] = "privmrf"
    pace: ClassVar[tuple[float, float]] = (5e-3, 0.7)
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shares = (self.ones, self.structure, self.errors)
        if not (min(shares) > 0 and sum(shares) < 1):
            asked = "shares above 0 that leave something"
            raise InputError(invalid("ones, structure and errors", asked, "Try a tenth each."))
        for param, value in (("theta", self.theta), ("price", self.price)):
            if not (math.isfinite(value) and value >= 0):
                raise InputError(
                    invalid(param, "a finite number of at least 0", "Try the default.", got=value)
                )
        if self.degree < 2:
            raise InputError(invalid("degree", "at least 2", "Try 6.", got=self.degree))

    def split_rho(self, counted: bool) -> Shares:
        """One-ways, the two appraisals together, and the rest."""
        ones, looks = Fraction(self.ones), Fraction(self.structure) + Fraction(self.errors)
        return {ONE_WAYS: ones, APPRAISE: looks, "marginals of the graph": 1 - ones - looks}

    def share_marginal(self, columns: int) -> Shares:
        """A marginal an attribute at first, and 0.8 by their error."""
        split = self.split_rho(True)
        marginals = Fraction(9, 5) * columns
        return {ONE: split[ONE_WAYS] / columns, PAIR: split["marginals of the graph"] / marginals}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All pairs, and the tree of its graph up to its limit."""
        tree = min(float(self.max_cells), count_joint_cells(sizes))
        return Holdings(count_pair_cells(sizes), len(sizes), tree=tree)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when to be done; rounds end early and what is left of rho is spent at once.
        """
        domain, total, pace = curator.domain, curator.remaining, Pace(deadline)
        rng = np.random.default_rng(self.seed)
        buy_one_ways(curator, total * self.split_rho(True)[ONE_WAYS], on_step)
        scores, rows = self._scores(curator, total * Fraction(self.structure))
        # What one of the marginals costs that the rest is planned for.
        left = curator.remaining - total * Fraction(self.errors)
        # Step 4: the noise of one marginal decides how large a useful one may be.
        each = left / (len(domain) + math.prod(_turns(len(domain))))
        most = rows / max(self.theta * curator.sigma(each) * NOISE_L1, 1e-9)
        cliques = self._graph(domain, scores)
        on_step(Step("select", f"a graph of {len(cliques)} maximal cliques", 0, curator.progress))
        first = first_marginals(domain, cliques, scores, most, rng)
        first = self._cliques_that_fit(curator, fitter, first)
        if first:
            curator.measure(first, each)
        model = pace.fit_round(fitter, curator, curator.measurements)
        return self._rounds(
            curator, fitter, model, useful_subsets(domain, cliques, most, self.degree), on_step, pace
        )

    def _scores(self, curator: Curator, rho: Fraction) -> tuple[Floats, float]:
        """Noisy total variation of each pair from independence, shape [attributes, attributes]; and the
        rows."""
        domain = curator.domain
        ways, rows = released_one_ways(curator)
        found = np.zeros((len(domain), len(domain)))
        pairs = all_cliques(domain, 2, self.max_cells // 4) if len(domain) > 1 else []
        if pairs:
            expected = [rows * np.outer(ways[a], ways[b]) for a, b in pairs]
            for (a, b), error in zip(pairs, curator.appraise(pairs, expected, rho), strict=True):
                i, j = domain.index(a), domain.index(b)
                found[i, j] = found[j, i] = error / (2 * rows)
        return found, rows

    def _graph(self, domain: Domain, scores: Floats) -> list[Clique]:
        """The maximal cliques of the graph."""

        limits = (float(self.graph_cells), float(self.max_clique_cells))
        graph = grown(scores, domain.sizes, self.price, *limits)
        return [tuple(domain.names[i] for i in c) for c in chordal_cliques(graph, domain.sizes)]

    def _cliques_that_fit(self, curator: Curator, fitter: Fitter, wanted: Sequence[Clique]) -> list[Clique]:
        """Those of some cliques with which the fitter's model stays inside max_cells."""
        held: list[Clique] = [(name,) for name in curator.domain.names]
        held += [m.clique for m in curator.measurements]
        kept: list[Clique] = []
        for clique in wanted:
            if float(fitter.cells(curator.domain, held, [clique])[0]) <= self.max_cells:
                held.append(clique)
                kept.append(clique)
        return kept

    def _rounds(
        self,
        curator: Curator,
        fitter: Fitter,
        model: Model,
        candidates: dict[Clique, float],
        on_step: OnStep,
        pace: Pace,
    ) -> Model:
        """Step 6: buy what the model fits worst, a few at a time, and spend all that is left."""
        domain, rng = curator.domain, np.random.default_rng(self.seed + 1)
        measured = {m.clique for m in curator.measurements}
        open_ = {clique: weight for clique, weight in candidates.items() if clique not in measured}
        turns, wanted = _turns(len(domain))
        look = curator.total * Fraction(self.errors) / turns
        last = False
        for turn in range(1, turns + 1):
            last = turn == turns or pace.ends
            batch = self._worst(curator, fitter, model, open_, wanted, look, rng)
            for clique in batch:
                del open_[clique]
            self._buy(curator, batch, turns - turn, look, last)
            on_step(Step("select", f"{len(batch)} marginals", turn, curator.progress))
            model = pace.fit_round(fitter, curator, curator.measurements, model, last=last)
            if last:
                break
        return model

    def _worst(
        self,
        curator: Curator,
        fitter: Fitter,
        model: Model,
        open_: dict[Clique, float],
        wanted: int,
        rho: Fraction,
        rng: np.random.Generator,
    ) -> list[Clique]:
        """The cliques that the model fits worst, of a sample of the candidates."""
        if not open_:
            return []
        names, weights = list(open_), np.array(list(open_.values()))
        size = min(MAX_CANDIDATES, len(names))
        places = rng.choice(len(names), size, replace=False, p=weights / weights.sum())
        chosen = [names[i] for i in places]
        errors = curator.appraise(chosen, model.project_many(chosen), rho)
        ranked = [chosen[i] for i in np.argsort(-errors, kind="stable").tolist()]
        # Twice as many as are wanted, as some of the worst may not fit into the model.
        return self._cliques_that_fit(curator, fitter, ranked[: 2 * wanted])[:wanted]

    def _buy(self, curator: Curator, batch: Sequence[Clique], later: int, look: Fraction, last: bool) -> None:
        """Measure a round's marginals alike; the last round's, or all there are, with whatever is left."""
        if last:
            bought = list(batch) or list(dict.fromkeys(m.clique for m in curator.measurements))
            curator.measure(bought, curator.remaining / len(bought))
        elif batch:
            # What later rounds need for their looks is set aside; the rest is dealt out evenly over them.
            share = (curator.remaining - later * look) / (later + 1)
            curator.measure(batch, share / len(batch))


def _turns(columns: int) -> tuple[int, int]:
    """Rounds of step 6, and the marginals bought in each: rounded up, so that together they may be more."""
    turns = max(min(columns // 2, STEPS), 1)
    return turns, math.ceil(MARGINALS_AN_ATTRIBUTE * columns / turns)
