"""Votes: one-ways, and noisy votes of teachers that each see a part of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.select._steps.one_ways import buy_one_ways, released_one_ways
from margrave.select.strategy import ONE, ONE_WAYS, Shares, Strategy

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model, TaughtFitter

ROWS_A_TEACHER = 50
"""Rows that a teacher has about, where their number is not given."""
MOST_TEACHERS = 100
ROUNDS_A_REPORT = 20
"""Rounds from one word on progress to the next."""


@final
@dataclass(frozen=True, slots=True)
class Votes(Strategy):
    """PATE (Papernot et al. 2017) for a generator that learns from votes: what PATE-GAN asks of the door.

    A share of rho measures the one-ways, those that discovery has released left out: the weights of the
    labels, and the scales and shares that a generator needs of each column. The rest buys the votes. All
    noise is Gaussian, so GDP accounting applies.

    The number of teachers follows from the number of rows that the one-ways tell, which is released. No clock
    decides how many rounds there are; there is no time limit.

    **Privacy.** Marginals (`Gaussian`) and votes (`margrave.measure.mechanisms.votes` has the proof). All of
    rho is spent. Any unit and adjacency.

    Args:
        target: The label, an attribute that is drawn first; None for none.
        teachers: Parts of the rows; None for one for every 50 rows, 2 to 100.
        rounds: In each of which teachers learn and vote.
        ones: Share of rho for one-ways.

    Raises:
        InputError: An argument is out of range.
    """

    target: str | None = None
    teachers: int | None = None
    rounds: int = 60
    ones: Fraction = Fraction(1, 5)
    name: ClassVar[str] = "votes"
    needs_rows: ClassVar[bool] = True
    gaussian_only: ClassVar[bool] = True
    learns_by: ClassVar[LearnsFrom] = "votes"
    keeps_deadline: ClassVar[bool] = False
    options: ClassVar[frozenset[str]] = frozenset({"target"})

    def __post_init__(self) -> None:
        check_counts(teachers=self.teachers, rounds=self.rounds)
        if not 0 < self.ones < 1:
            raise InputError(invalid("ones", "between 0 and 1", "Try Fraction(1, 5).", got=self.ones))

    def split_rho(self, counted: bool) -> Shares:
        """One-ways and votes."""
        return {ONE_WAYS: Fraction(self.ones), "votes": 1 - Fraction(self.ones)}

    def share_marginal(self, columns: int) -> Shares:
        """All one-ways alike; no pair is bought."""
        return {ONE: self.split_rho(True)[ONE_WAYS] / columns}

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model that learned from votes.

        deadline: must be None, see above.

        Raises:
            InputError: There is a deadline, the fitter does not learn from votes, or the target is no
                attribute.
        """
        if deadline is not None:
            raise InputError(invalid("deadline", "left out of votes", "Set Votes(rounds=...)."))
        self.check_fitter(fitter)
        taught, domain = cast("TaughtFitter", fitter), curator.domain
        if self.target is not None and self.target not in domain:
            raise InputError(invalid("target", f"one of {list(domain.names)}", "Check it.", got=self.target))
        taught.prepare()
        even = {name: np.ones(domain[name]) for name in domain.names}
        taught.ensemble(domain, self.target, even, 1)  # raises where it would be too large
        buy_one_ways(curator, curator.remaining * self.split_rho(True)[ONE_WAYS], on_step)
        ways, total = released_one_ways(curator)
        teachers = self.teachers or min(max(round(total / ROWS_A_TEACHER), 2), MOST_TEACHERS)
        ensemble = taught.ensemble(domain, self.target, ways, teachers)

        def tell(number: int) -> None:
            if number % ROUNDS_A_REPORT == 0:
                what = f"{self.rounds} rounds of votes of {teachers} teachers"
                on_step(Step("train", what, number, curator.progress))

        weights = taught.alone(
            lambda: curator.votes(
                ensemble, curator.remaining, teachers=teachers, rounds=self.rounds, on_round=tell
            )
        )
        on_step(Step("fit", "rows drawn by the network", 0, 1.0))
        return taught.finished(ensemble, weights, curator.measurements, total)
