"""PrivMRF: marginals inside the cliques of a triangulated graph, chosen first by dependence, then by error.

Cai, Lei, Wei and Xiao 2021, "Data Synthesis via Differentially Private Markov Random Fields" (VLDB 14, 2190).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.select.allocate import all_cliques
from margrave.select.one_ways import buy_one_ways, released_one_ways
from margrave.select.pace import Pace
from margrave.select.useful import first_marginals, useful_subsets

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model

__all__ = ["PrivMRF"]

Floats = NDArray[np.float64]

NOISE_L1 = math.sqrt(2 / math.pi)
"""Mean of the absolute value of a standard normal."""
MORE = 0.8
"""Marginals chosen by error, for each attribute."""
STEPS = 8
"""Rounds of such choices, at most."""
SAMPLED = 400
"""Candidates drawn for a round, at most."""


@final
@dataclass(frozen=True, slots=True)
class PrivMRF:
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

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when to be done; rounds end early and what is left of rho is spent at once.
        """
        domain, total, pace = curator.domain, curator.remaining, Pace(deadline)
        rng = np.random.default_rng(self.seed)
        buy_one_ways(curator, total * Fraction(self.ones), on_step)
        scores, rows = self._scores(curator, total * Fraction(self.structure))
        # What one of the marginals costs that the rest is planned for.
        left = curator.remaining - total * Fraction(self.errors)
        each = left / (len(domain) + math.prod(_turns(len(domain))))
        most = rows / max(self.theta * curator.sigma(each) * NOISE_L1, 1e-9)
        cliques = self._graph(domain, scores)
        on_step(Step("select", f"a graph of {len(cliques)} maximal cliques", 0, curator.progress))
        first = first_marginals(domain, cliques, scores, most, rng)
        first = self._fitting(curator, fitter, first)
        if first:
            curator.measure(first, each)
        pace.fitting(1.0)
        model = fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=pace.rough)
        pace.fitted()
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
        from margrave.select.triangulation import chordal_cliques, grown

        limits = (float(self.graph_cells), float(self.max_clique_cells))
        graph = grown(scores, domain.sizes, self.price, *limits)
        return [tuple(domain.names[i] for i in c) for c in chordal_cliques(graph, domain.sizes)]

    def _fitting(self, curator: Curator, fitter: Fitter, wanted: Sequence[Clique]) -> list[Clique]:
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
            effort = pace.full if last else pace.rough
            pace.fitting(1.0)
            model = fitter.fit(
                domain, curator.measurements, total=curator.public_rows, warm=model, effort=effort
            )
            pace.fitted()
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
        size = min(SAMPLED, len(names))
        chosen = [names[i] for i in rng.choice(len(names), size, replace=False, p=weights / weights.sum())]
        errors = curator.appraise(chosen, model.project_many(chosen), rho)
        ranked = [chosen[i] for i in np.argsort(-errors, kind="stable").tolist()]
        return self._fitting(curator, fitter, ranked[: 2 * wanted])[:wanted]

    def _buy(self, curator: Curator, batch: Sequence[Clique], later: int, look: Fraction, last: bool) -> None:
        """Measure a round's marginals alike; the last round's, or all there are, with whatever is left."""
        if last:
            bought = list(batch) or list(dict.fromkeys(m.clique for m in curator.measurements))
            curator.measure(bought, curator.remaining / len(bought))
        elif batch:
            share = (curator.remaining - later * look) / (later + 1)
            curator.measure(batch, share / len(batch))


def _turns(columns: int) -> tuple[int, int]:
    """Rounds of step 6, and the marginals bought in each: rounded up, so that together they may be more."""
    turns = max(min(columns // 2, STEPS), 1)
    return turns, math.ceil(MORE * columns / turns)
