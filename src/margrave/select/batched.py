"""Batched: a few rounds, each of which appraises every pair at once and buys a batch of the worst."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.schema.domain import Clique
from margrave.select.strategy import (
    APPRAISE,
    CELLS_POWER,
    ONE,
    ONE_WAYS,
    PAIR,
    Holdings,
    Pace,
    Shares,
    Strategy,
    all_cliques,
    apportion_rho,
    count_joint_cells,
    count_pair_cells,
    find_unmeasured,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, Model


@final
@dataclass(frozen=True, slots=True)
class Batched(Strategy):
    """Buy pairs in batches, by how badly the model fits them for their price.

    1. One-way marginals share `ones` of rho in proportion to cells^(2/3); those that discovery left behind
       with no more noise are not bought again.
    2. A turn first appraises: the L1 error of every pair under the model so far, pairs measured before
       included, with noise of one scale. All turns' appraisals together cost `looks` of what step 1 left.
    3. Pairs are taken in the order of error / cells^(2/3) while the error exceeds worth * sigma * cells, with
       the sigma the pair would get in a batch of those taken so far and itself. Skipped are pairs that would
       take the junction tree over max_cells times the share of the turns begun.
    4. The batch is measured: a turn's rho is what remains over the turns that remain, and a pair's part is
       in proportion to cells^(2/3), sigma to cells^(-1/3), which minimises the sum of sigma * cells over
       the batch. A turn that takes nothing leaves its rho to the later ones; if the last one takes
       nothing, it measures all that was measured before once more, by the same rule. All of rho is spent.
    5. The model is refitted from the last one, roughly (`Effort`) between turns and to full precision at the
       end. With a deadline step 3 takes half of the time that is left at most, and when another turn and the
       last fit would not fit in, the turn becomes the last.

    **Privacy.** All private answers are the curator's, with Gaussian noise, so GDP prices them together. What
    is asked and what it costs follows from earlier releases alone. With a deadline the
    number of turns depends on how long choices and fits of released numbers take; time that the curator
    needs is not counted (`margrave.limits.Limits`).

    The scheme of AIM (arXiv 2201.12677, Algorithms 1 to 4), with many pairs a round and noisy errors in
    place of the exponential mechanism; SWIFT (google/dpsynth) also scores all pairs at once, in one round.

    Args:
        ones: Share of rho for one-way marginals, between 0 and 1.
        looks: Share of the rest for appraisals, between 0 and 1.
        rounds: Turns, at least 1.
        worth: How much of the noise's sigma * cells an error has to exceed, at least 0.
        max_cells: Junction-tree cells in the last turn.
        max_clique_cells: Pairs with more cells are left out.

    Raises:
        InputError: An argument is out of range.
    """

    ones: Fraction = Fraction(3, 10)
    looks: Fraction = Fraction(1, 10)
    rounds: int = 5
    worth: float = 0.5
    max_cells: int = 500_000
    max_clique_cells: int = 1_000_000
    name: ClassVar[str] = "batched"
    gaussian_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for param, share in (("ones", self.ones), ("looks", self.looks)):
            if not 0 < share < 1:
                raise InputError(invalid(param, "a share between 0 and 1", "Try the default.", got=share))
        if self.rounds < 1:
            raise InputError(invalid("rounds", "at least 1", "Try 5.", got=self.rounds))
        if not (math.isfinite(self.worth) and self.worth >= 0):
            raise InputError(invalid("worth", "a finite number of at least 0", "Try 0.5.", got=self.worth))

    def split_rho(self, counted: bool) -> Shares:
        """One-ways, and of the rest a part to appraise by."""
        ones = Fraction(self.ones)
        looks = (1 - ones) * Fraction(self.looks)
        return {ONE_WAYS: ones, APPRAISE: looks, "pairs": 1 - ones - looks}

    def share_marginal(self, columns: int) -> Shares:
        """About two pairs a column."""
        split, pairs = self.split_rho(True), max(math.comb(columns, 2), 1)
        return {ONE: split[ONE_WAYS] / columns, PAIR: split["pairs"] / min(2 * columns, pairs)}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All pairs, and a tree of what is bought up to its limit."""
        tree = min(float(self.max_cells), count_joint_cells(sizes))
        return Holdings(count_pair_cells(sizes), len(sizes), tree=tree)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when to be done; the run ends early but complete, all of rho spent.
        """
        domain, pace = curator.domain, Pace(deadline)
        pairs = all_cliques(domain, 2, self.max_clique_cells) if len(domain) > 1 else []
        self._one_ways(curator, on_step)
        if not pairs:
            _buy(curator, _measured_cliques(curator), curator.remaining)
            return fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=pace.full)
        model = fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=pace.rough)
        look, turn, last = curator.remaining * Fraction(self.looks) / self.rounds, 0, False
        while not last:
            turn += 1
            early = pace.ends and turn < self.rounds
            last = early or turn == self.rounds
            share = curator.remaining / (1 if last else self.rounds - turn + 1)
            errors = curator.appraise(pairs, model.project_many(pairs), look)
            # The model may grow in step with the rounds, so that early choices do not use up its size.
            limit = min(self.max_cells * turn / self.rounds, pace.cells)
            batch, cells = self._batch(
                curator, fitter, dict(zip(pairs, errors, strict=True)), share - look, limit, pace.half()
            )
            # At the end all of rho is spent, if not on new pairs then once more on what was measured.
            bought = batch or (_measured_cliques(curator) if last else [])
            _buy(curator, bought, curator.remaining if last else share - look)
            note = "; time is nearly up, this was the last round" if early else ""
            on_step(Step("select", f"{len(batch)} pairs{note}", turn, curator.progress))
            if bought:
                model = pace.fit_round(fitter, curator, curator.measurements, model, last=last, cells=cells)
        return model

    def _one_ways(self, curator: Curator, on_step: OnStep) -> None:
        everything = [(name,) for name in curator.domain.names]
        shares = _shares(curator, everything, curator.remaining * self.split_rho(True)[ONE_WAYS])
        wanted = {
            single: share
            for single, share in shares.items()
            if single in find_unmeasured(curator.domain, curator.measurements, curator.sigma(share))
        }
        on_step(Step("measure", f"{len(wanted)} one-way marginals", 0, curator.progress))
        for single, share in wanted.items():
            curator.measure([single], share)

    def _batch(
        self,
        curator: Curator,
        fitter: Fitter,
        errors: Mapping[Clique, float],
        rho: Fraction,
        limit: float,
        late: Callable[[], bool],
    ) -> tuple[list[Clique], float]:
        """The pairs that rho should be spent on, no new ones once it is late, and the cells of their tree."""
        domain, known = curator.domain, _measured_cliques(curator)
        held = dict.fromkeys(known)
        fresh: list[Clique] = [pair for pair in errors if pair not in held]
        # One call for all: what does not fit now hardly ever fits beside others.
        tree, *sizes = (float(size) for size in fitter.cells(domain, known, [(), *fresh]))
        shut = {pair for pair, size in zip(fresh, sizes, strict=True) if size > limit}
        sigma, weights, batch = curator.sigma(rho), 0.0, []
        gains = {p: error / domain.size(p) ** CELLS_POWER for p, error in errors.items() if p not in shut}
        for pair in sorted(gains, key=lambda pair: -gains[pair]):
            # A pair of weight w = cells^CELLS_POWER in a batch of total weight W has sigma * sqrt(W / w).
            size = domain.size(pair)
            shared = math.sqrt((weights + size**CELLS_POWER) / size**CELLS_POWER)
            if errors[pair] <= self.worth * sigma * shared * size:
                break
            if pair not in held:
                if late():
                    continue
                cells = float(fitter.cells(domain, list(held), [pair])[0])
                if cells > limit:
                    continue
                held[pair], tree = None, cells
            batch.append(pair)
            weights += size**CELLS_POWER
        return batch, tree


def _measured_cliques(curator: Curator) -> list[Clique]:
    """The distinct cliques measured so far."""
    return list(dict.fromkeys(m.clique for m in curator.measurements))


def _shares(curator: Curator, cliques: Sequence[Clique], rho: Fraction) -> dict[Clique, Fraction]:
    """Each clique's part of rho, in proportion to cells^CELLS_POWER."""
    return apportion_rho({clique: curator.domain.size(clique) ** CELLS_POWER for clique in cliques}, rho)


def _buy(curator: Curator, cliques: Sequence[Clique], rho: Fraction) -> None:
    for clique, share in _shares(curator, cliques, rho).items():
        curator.measure([clique], share)
