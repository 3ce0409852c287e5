"""VerticalRounds and JAM: adaptive rounds in which tables of public columns, or of public rows, compete.

VerticalRounds: Maddock, Gade, Cormode and Bullock 2025, "Leveraging Vertical Public-Private Split for
Improved Synthetic Data Generation", Algorithm 1, vPAM (arXiv 2504.10987). Some columns of the private
rows are public.

JAM: Fuentes, Mullins, McKenna, Miklau and Sheldon 2024, "Joint Selection: Adaptively Incorporating Public
Information for Private Synthetic Data" (arXiv 2403.07797). Other rows, all of whose columns are public.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, tabulate_rows
from margrave.select.strategy import (
    CHOOSE,
    MEASURE,
    NOISE_L1,
    ONE,
    ONE_WAYS,
    PAIR,
    Pace,
    Shares,
    Strategy,
    all_cliques,
    closure,
    find_unmeasured,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model

Floats = NDArray[np.float64]

EXACT = 1.0
"""Standard deviation, in rows, at which a fit takes a table that is known exactly: far below any noise that
is bought, and not so sharp that the fit is about nothing else."""


@final
@dataclass(frozen=True, slots=True)
class VerticalRounds(Strategy):
    """The frame vPAM: each round draws a clique by its error, public or private, and measures it.

    1. With `ones` the one-way marginals of private columns are bought, each at a round's measuring share, but
       those that discovery left behind with no more noise; those of public columns are known.
    2. Each of the rounds has an equal part of what is left. A share `choosing` of it draws a clique of the
       workload by the exponential mechanism on the model's L1 error, from which `discount` takes off the
       error that noise would add to a private one. A clique of public columns is then known exactly and costs
       nothing more: what was meant to measure it is shared out among the rounds that follow. A private one is
       measured.
    3. The model is fitted to all that is known and measured, in the order of the rounds.

    A draw is paid for also when a public clique wins, as in the paper, although a public clique's score says
    nothing of private columns. Where the last rounds draw public cliques, what they would have measured with
    is left unspent.

    **Privacy.** All private answers are the curator's. Under replace_private a score moves by 2 at most, a
    public clique's by 0. Public tables are counted over `given`, which is no private row.

    Args:
        public: Names of the public columns.
        given: The public columns of the rows, as codes.
        rounds: How many.
        degree: Columns a clique of the workload.
        closed: Whether the workload holds all parts of its cliques as well.
        discount: Whether scores of private cliques are less the error that noise adds.
        ones: Whether private one-way marginals are bought first.
        choosing: Share of a round's rho for its draw, between 0 and 1.
        max_cells: Cells of the model at full spend; a clique that would make it larger waits.
        max_clique_cells: Cliques with more cells are left out.

    Raises:
        InputError: An argument is out of range.
    """

    public: tuple[str, ...] = ()
    given: Encoded | None = None
    rounds: int = 100
    degree: int = 3
    closed: bool = False
    discount: bool = False
    ones: bool = False
    choosing: Fraction = Fraction(1, 2)
    max_cells: int = 1 << 22
    max_clique_cells: int = 1_000_000
    name: ClassVar[str] = "vertical_rounds"
    pace: ClassVar[tuple[float, float]] = (3e-2, 0.0)
    learns_by: ClassVar[LearnsFrom] = "public marginals"
    options: ClassVar[frozenset[str]] = frozenset({"public", "given"})

    def __post_init__(self) -> None:
        _check(self.choosing, rounds=self.rounds, degree=self.degree)

    def split_rho(self, counted: bool) -> Shares:
        """One-ways as of one private column, then draws and tables of all rounds."""
        ones = (1 - self.choosing) / (self.rounds + 1) if self.ones else Fraction(0)
        choose = (1 - ones) * self.choosing
        return {ONE_WAYS: ones, CHOOSE: choose, MEASURE: 1 - ones - choose}

    def share_marginal(self, columns: int) -> Shares:
        """What a round measures with, as if a pair were drawn; more where rounds before drew public ones."""
        split = self.split_rho(True)
        found = {PAIR: split[MEASURE] / self.rounds}
        return found | ({ONE: split[ONE_WAYS]} if self.ones else {})

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released and is known.

        deadline: when to be done; the run ends early but complete.

        Raises:
            InputError: The model would be too large; nothing has been spent then.
        """
        domain, pace = curator.domain, Pace(deadline)
        fitter.admit(domain, [])
        workload = self._workload(domain)
        history: list[NoisyMarginal] = list(curator.measurements)
        if all(self._is_known(clique) for clique in workload):
            return fitter.fit(domain, history, total=curator.public_rows, effort=pace.full)
        if self.ones:
            history += self._buy_one_ways(curator, on_step)
        elif not history and curator.public_rows is None:
            history += curator.measure([()], curator.remaining / (self.rounds + 1))
        model = fitter.fit(domain, history, total=curator.public_rows, effort=pace.rough)
        for turn in range(1, self.rounds + 1):
            last = turn == self.rounds or pace.ends
            share = curator.remaining if last else curator.remaining / (self.rounds - turn + 1)
            grown = Fraction(turn, self.rounds)
            allowed = _find_allowed(domain, fitter, history, workload, self.max_cells * float(grown))
            chosen = self._draw(curator, model, allowed, share)
            on_step(Step("select", " x ".join(chosen), turn, curator.progress))
            if not self._is_known(chosen):
                left = curator.remaining if last else share * (1 - self.choosing)
                history += curator.measure([chosen], left)
            elif chosen not in {m.clique for m in history if isinstance(m, KnownMarginal)}:
                history.append(self._count_known(domain, chosen))
            model = pace.fit_round(fitter, curator, history, model, last=last)
            if last:
                break
        return model

    def _is_known(self, clique: Clique) -> bool:
        return self.given is not None and set(clique) <= set(self.public)

    def _workload(self, domain: Domain) -> list[Clique]:
        cliques = all_cliques(domain, self.degree, self.max_clique_cells) or [(n,) for n in domain.names]
        return closure(cliques, domain) if self.closed else cliques

    def _count_known(self, domain: Domain, clique: Clique) -> KnownMarginal:
        assert self.given is not None  # noqa: S101 - no clique is known without rows
        return KnownMarginal(clique, tabulate_rows(self.given, domain, clique), EXACT)

    def _buy_one_ways(self, curator: Curator, on_step: OnStep) -> list[NoisyMarginal]:
        private = [name for name in curator.domain.names if not self._is_known((name,))]
        share = curator.remaining * (1 - self.choosing) / (self.rounds + len(private))
        own = [m for m in curator.measurements if set(m.clique) <= set(private)]
        wanted = find_unmeasured(curator.domain.project(private), own, curator.sigma(share))
        on_step(Step("measure", f"{len(wanted)} one-way marginals", 0, curator.progress))
        return list(curator.measure(wanted, share)) if wanted else []

    def _draw(self, curator: Curator, model: Model, allowed: Sequence[Clique], share: Fraction) -> Clique:
        sigma = curator.sigma(share * (1 - self.choosing))
        expected = model.project_many(allowed)
        penalties = [
            NOISE_L1 * sigma * table.size if self.discount and not self._is_known(clique) else 0.0
            for clique, table in zip(allowed, expected, strict=True)
        ]
        return allowed[curator.choose(allowed, expected, share * self.choosing, penalties=penalties)]


@final
@dataclass(frozen=True, slots=True)
class JAM(Strategy):
    """Joint selection: each round draws a clique to be measured, or to be taken from public rows as it is.

    1. The row count takes a share `count` of rho where it is not public and nothing has told it.
    2. Each of the rounds has an equal part of what is left. A share `choosing` of it draws by the exponential
       mechanism among two copies of every part r of the workload's cliques, E_r the L1 error of the model:

           to be measured  E_r - sqrt(2/pi) sigma cells        public  E_r - ‖M_r(D) - P_r‖_1

       P_r are the public rows' counts, scaled to the model's number of rows. A measured one costs the rest of
       the round; a public one costs nothing more, and its part goes to the rounds that follow.
    3. A graphical model is fitted to both. A public table counts as much as one that was measured in that
       round.

    Differences from the paper: its first round has no E_r; here it is that of a model in which all cells are
    alike. Cliques that are too large for the model are tried again in every round. Without `reference` every
    clique is to be measured.

    **Privacy.** All private answers are the curator's. A public copy's score is a difference of two
    distances, so the draws have twice the sensitivity of one distance: 4 under replace_one, 2 under
    add_remove; see `margrave.measure.mechanisms.choose`.

    Args:
        reference: Public rows as codes, under attributes of the domain; None for none.
        rounds: How many.
        degree: Columns a clique of the workload.
        choosing: Share of a round's rho for its draw, between 0 and 1.
        count: Share of rho for the row count, between 0 and 1.
        max_cells: Cells of the model at full spend.
        max_clique_cells: Cliques with more cells are left out.

    Raises:
        InputError: An argument is out of range.
    """

    reference: Encoded | None = None
    rounds: int = 30
    degree: int = 3
    choosing: Fraction = Fraction(1, 5)
    count: Fraction = Fraction(1, 20)
    max_cells: int = 1 << 22
    max_clique_cells: int = 1_000_000
    name: ClassVar[str] = "jam"
    pace: ClassVar[tuple[float, float]] = (1e-2, 0.0)
    learns_by: ClassVar[LearnsFrom] = "public marginals"
    options: ClassVar[frozenset[str]] = frozenset({"reference"})

    def __post_init__(self) -> None:
        _check(self.choosing, rounds=self.rounds, degree=self.degree)
        _check(self.count)

    def split_rho(self, counted: bool) -> Shares:
        """The row count where nothing has told it, then draws and tables of all rounds."""
        count = Fraction(0) if counted else self.count
        choose = (1 - count) * self.choosing
        return {"count": count, CHOOSE: choose, MEASURE: 1 - count - choose}

    def share_marginal(self, columns: int) -> Shares:
        """What a round measures with, as if a pair were drawn; more where rounds before drew public ones."""
        return {PAIR: self.split_rho(True)[MEASURE] / self.rounds}

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released and is public.

        deadline: when to be done; the run ends early but complete.

        Raises:
            InputError: The model would be too large; nothing has been spent then.
        """
        domain, pace = curator.domain, Pace(deadline)
        fitter.admit(domain, [])
        parts = closure(all_cliques(domain, self.degree, self.max_clique_cells), domain)
        history: list[NoisyMarginal] = list(curator.measurements)
        if curator.public_rows is None and not history:
            history += curator.measure([()], curator.remaining * self.count)
        model = fitter.fit(domain, history, total=curator.public_rows, effort=pace.rough)
        for turn in range(1, self.rounds + 1):
            last = turn == self.rounds or pace.ends
            share = curator.remaining if last else curator.remaining / (self.rounds - turn + 1)
            grown = Fraction(turn, self.rounds)
            allowed = _find_allowed(domain, fitter, history, parts, self.max_cells * float(grown))
            sigma = curator.sigma(share * (1 - self.choosing))
            chosen, taken = self._draw(curator, model, allowed, share, sigma)
            note = " of the public rows" if taken is not None else ""
            on_step(Step("select", " x ".join(chosen) + note, turn, curator.progress))
            if taken is None:
                left = curator.remaining if last else share * (1 - self.choosing)
                history += curator.measure([chosen], left)
            else:
                history.append(KnownMarginal(chosen, taken, sigma))
            model = pace.fit_round(fitter, curator, history, model, last=last)
            if last:
                break
        return model

    def _draw(
        self, curator: Curator, model: Model, allowed: Sequence[Clique], share: Fraction, sigma: float
    ) -> tuple[Clique, Floats | None]:
        """The clique, and its public table where that is the copy that was drawn."""
        expected = model.project_many(allowed)
        public = [] if self.reference is None else self._find_covered(allowed)
        rivals = [self._scale(curator.domain, allowed[place], model.total) for place in public]
        # A public table competes with its measured copy: it costs nothing and has no noise, but it is off
        # by what the public rows are off.
        place = curator.choose(
            [*allowed, *(allowed[place] for place in public)],
            [*expected, *(expected[place] for place in public)],
            share * self.choosing,
            penalties=[*(NOISE_L1 * sigma * table.size for table in expected), *(0.0 for _ in public)],
            rivals=[*(None for _ in allowed), *rivals],
        )
        if place < len(allowed):
            return allowed[place], None
        return allowed[public[place - len(allowed)]], rivals[place - len(allowed)]

    def _find_covered(self, cliques: Sequence[Clique]) -> list[int]:
        """Places of the cliques all of whose columns the public rows have."""
        names = set() if self.reference is None or not self.reference.rows else {*self.reference.domain.names}
        return [place for place, clique in enumerate(cliques) if names.issuperset(clique)]

    def _scale(self, domain: Domain, clique: Clique, rows: float) -> Floats:
        """The public rows' counts of a clique, as of so many rows."""
        assert self.reference is not None  # noqa: S101 - none is covered without rows
        counts = tabulate_rows(self.reference, domain, clique)
        return np.asarray(counts * (rows / counts.sum()))


def _check(choosing: Fraction, **counts: int) -> None:
    check_counts(**counts)
    if not 0 < choosing < 1:
        raise InputError(invalid("choosing", "a share between 0 and 1", "Try the default.", got=choosing))


def _find_allowed(
    domain: Domain, fitter: Fitter, history: Iterable[NoisyMarginal], cliques: Sequence[Clique], limit: float
) -> list[Clique]:
    """Cliques with which the model stays within a number of cells, or that it holds already.

    Where there is none, the one whose model is smallest.
    """
    held = list(dict.fromkeys(m.clique for m in history if m.clique))
    inside = set(closure(held, domain))
    cells = fitter.cells(domain, held, cliques)
    found = [c for c, size in zip(cliques, cells, strict=True) if size <= limit or c in inside]
    return found or [cliques[int(np.argmin(cells))]]
