"""MST: one-way marginals, a privately chosen spanning tree, and its pairs.

McKenna, Miklau and Sheldon 2021, "Winning the NIST contest", section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique, Domain
from margrave.select.strategy import (
    CHOOSE,
    ONE,
    ONE_WAYS,
    PAIR,
    Holdings,
    Shares,
    Strategy,
    buy_one_ways,
    count_pair_cells,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model


@final
@dataclass(frozen=True, slots=True)
class MST(Strategy):
    """Maximum spanning tree by the exponential mechanism.

    1. A third of rho: one-way marginals (those that discovery measured as well are not bought again, and
       their share goes to step 3).
    2. A third: Kruskal's algorithm with noise. The score of a pair is the L1 distance between its
       counts and the product of the fitted one-ways; r - 1 draws by the exponential mechanism among
       the pairs that join two components, with r the number of components at the start.
    3. The rest: the pairs of the tree, each with the same noise.

    Differences from the reference: codes below three standard deviations keep their cells in what is scored
    and measured. The method `mst` merges them in the fit (`models.compressed`).

    **Privacy.** All private answers are the curator's; the cost of step 2 is r - 1 draws at an equal share.

    Args:
        edges: Pairs that are in the tree from the start, public choices.
        max_cells: Pairs with more cells are left out, where the tree can do without.
    """

    edges: Sequence[Clique] = ()
    max_cells: int = 10_000_000
    name: ClassVar[str] = "mst"

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns of the given edges."""
        return frozenset(name for edge in self.edges for name in edge)

    def split_rho(self, counted: bool) -> Shares:
        """Thirds; one-ways that are known already leave theirs to the pairs."""
        # As in McKenna, Miklau and Sheldon 2021.
        return dict.fromkeys((ONE_WAYS, CHOOSE, "pairs"), Fraction(1, 3))

    def share_marginal(self, columns: int) -> Shares:
        """A pair for each column but one."""
        split = self.split_rho(True)
        return {ONE: split[ONE_WAYS] / columns, PAIR: split["pairs"] / max(columns - 1, 1)}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All pairs as candidates, and at most a pair with the widest column for each other column.

        Seen from the widest column, each other one has one pair with its parent, which is no wider.
        """
        widest = max(sizes, default=0)
        tree = float(widest * (sum(sizes) - widest))
        return Holdings(count_pair_cells(sizes), len(sizes), tree=tree)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when a fit stops and returns the best so far.
        """
        rho, split, domain = curator.remaining, self.split_rho(True), curator.domain
        buy_one_ways(curator, rho * split[ONE_WAYS], on_step)
        effort = Effort(deadline=deadline)
        model = fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=effort)
        tree = self._tree(curator, fitter, model, rho * split[CHOOSE], on_step)
        if tree:
            on_step(Step("measure", f"{len(tree)} pairs", len(tree), curator.progress))
            curator.measure(tree, curator.remaining / len(tree))
            on_step(Step("fit", f"{len(tree)} pairs", len(tree), 1.0))
        elif curator.remaining > 0:
            curator.measure([(name,) for name in domain.names], curator.remaining / len(domain))
        return fitter.fit(domain, curator.measurements, total=curator.public_rows, warm=model, effort=effort)

    def _tree(
        self, curator: Curator, fitter: Fitter, model: Model, rho: Fraction, on_step: OnStep
    ) -> list[Clique]:
        """The edges of the spanning tree; rho is spent on those neither given nor released."""
        domain = curator.domain
        pairs = _pairs(domain, self.max_cells)
        expected = dict(zip(pairs, model.project_many(pairs), strict=True))
        component = {name: index for index, name in enumerate(domain.names)}
        # Pairs that were released before, those of declared dependencies say, need no choice: they are edges.
        released = [measured.clique for measured in curator.measurements if len(measured.clique) == 2]
        tree = list(dict.fromkeys([*released, *map(domain.canonical, self.edges)]))
        for pair in tree:
            _join(component, pair)
        draws, tight = _draws(component, pairs), _tight(component, domain, fitter, tree, pairs)
        for _ in range(draws):
            open_pairs = [p for p in pairs if component[p[0]] != component[p[1]]]
            if tight:
                cells = fitter.cells(domain, tree, open_pairs)
                open_pairs = [p for p, size in zip(open_pairs, cells, strict=True) if np.isfinite(size)]
            if not open_pairs:
                break
            chosen = open_pairs[curator.choose(open_pairs, [expected[p] for p in open_pairs], rho / draws)]
            tree.append(chosen)
            _join(component, chosen)
            on_step(Step("select", " x ".join(chosen), len(tree), curator.progress))
        return tree


def _pairs(domain: Domain, max_cells: int) -> list[Clique]:
    """All pairs that fit."""
    return [pair for pair in combinations(domain.names, 2) if domain.size(pair) <= max_cells]


def _tight(
    component: dict[str, int],
    domain: Domain,
    fitter: Fitter,
    given: Sequence[Clique],
    pairs: Sequence[Clique],
) -> bool:
    """Whether the spanning tree of the most cells would be too large for the fitter."""
    trial, largest = dict(component), list(given)
    for pair in sorted(pairs, key=domain.size, reverse=True):
        if trial[pair[0]] != trial[pair[1]]:
            _join(trial, pair)
            largest.append(pair)
    return not np.isfinite(fitter.cells(domain, largest, [()])[0])


def _draws(component: dict[str, int], pairs: Sequence[Clique]) -> int:
    """How many pairs a spanning forest of the allowed pairs still needs."""
    trial, draws = dict(component), 0
    for pair in pairs:
        if trial[pair[0]] != trial[pair[1]]:
            _join(trial, pair)
            draws += 1
    return draws


def _join(component: dict[str, int], pair: Clique) -> None:
    old, new = component[pair[1]], component[pair[0]]
    for name, label in component.items():
        if label == old:
            component[name] = new
