"""Training and Votes: one-ways, and a network that learns from the rows at the door.

`Training` buys noisy gradients on samples of the rows, `Votes` noisy votes of teachers that each see a part
of the rows.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.select._steps.one_ways import buy_one_ways, released_one_ways
from margrave.select.strategy import ONE, ONE_WAYS, Shares, Strategy

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model, TaughtFitter, TrainedFitter


Floats = NDArray[np.float64]
STEPS_A_REPORT = 100
"""Steps from one word on progress to the next."""


class _AtTheDoor(Strategy):
    """What training by gradients and learning from votes share: one-ways first, then all else at the door."""

    __slots__ = ()
    needs_rows: ClassVar[bool] = True
    keeps_deadline: ClassVar[bool] = False
    options: ClassVar[frozenset[str]] = frozenset({"target"})
    bought: ClassVar[str]
    """What the rest of rho buys."""

    @property
    @abstractmethod
    def target(self) -> str | None:
        """The label, an attribute that is drawn first; None for none."""

    @property
    @abstractmethod
    def ones(self) -> Fraction:
        """Share of rho for one-ways."""

    def split_rho(self, counted: bool) -> Shares:
        """One-ways, and what is learned from rows."""
        return {ONE_WAYS: Fraction(self.ones), self.bought: 1 - Fraction(self.ones)}

    def share_marginal(self, columns: int) -> Shares:
        """All one-ways alike; no pair is bought."""
        return {ONE: self.split_rho(True)[ONE_WAYS] / columns}

    def _check_run(self, curator: Curator, fitter: Fitter, deadline: Deadline | None) -> dict[str, Floats]:
        """Check what a run is given, before anything is spent.

        Returns:
            One-ways that say nothing, with which the fitter can tell whether its networks are too large.

        Raises:
            InputError: There is a deadline, the fitter learns otherwise, or the target is no attribute.
        """
        if deadline is not None:
            remedy = "No clock decides how long it takes; set the strategy's own number of steps or rounds."
            raise InputError(invalid("deadline", f"left out of {self.name}", remedy))
        self.check_fitter(fitter)
        domain = curator.domain
        if self.target is not None and self.target not in domain:
            raise InputError(invalid("target", f"one of {list(domain.names)}", "Check it.", got=self.target))
        fitter.prepare()
        return {name: np.ones(domain[name]) for name in domain.names}

    def _buy_one_ways(self, curator: Curator, on_step: OnStep) -> tuple[dict[str, Floats], float]:
        """The one-ways, of those that are measured and those that had been, and the rows that they tell."""
        buy_one_ways(curator, curator.remaining * self.split_rho(True)[ONE_WAYS], on_step)
        return released_one_ways(curator)


@final
@dataclass(frozen=True, slots=True)
class Training(_AtTheDoor):
    """DP-SGD (Abadi et al. 2016) for a generator that learns from rows: what TabDDPM asks of the door.

    A share of rho measures the one-ways, those that discovery has released left out: the weights of the
    labels, and the scales and shares that a generator needs of each column. The rest buys `steps` noisy
    gradients.

    No clock decides how many steps are taken: how long a step takes depends on the size of its sample, so an
    early end would tell something about the rows that is not paid for. There is no time limit; `steps` is
    public.

    The steps are priced by Renyi divergence at one order, which is chosen from these arguments before the
    run. It protects rows, or owners of one row, under add_remove; all else is refused before anything is
    spent.

    Args:
        target: The label, an attribute that is drawn first; None for none.
        steps: Gradients.
        rate: Probability of each row to be in a gradient, a multiple of 2^-32.
        largest: Rows expected in a gradient, at most: the rate is halved until that holds.
        clip: The largest norm of a row's gradient.
        ones: Share of rho for one-ways.

    Raises:
        InputError: An argument is out of range.
    """

    target: str | None = None
    steps: int = 100
    rate: Fraction = Fraction(1, 32)
    largest: int = 1 << 12
    clip: float = 1.0
    ones: Fraction = Fraction(1, 5)
    name: ClassVar[str] = "training"
    learns_by: ClassVar[LearnsFrom] = "gradients"
    bought: ClassVar[str] = "gradients"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.largest < 1:
            raise InputError(invalid("steps and largest", "at least 1", "Try the defaults."))
        if not 0 < self.rate <= 1 or (Fraction(self.rate) * 2**32).denominator != 1:
            remedy = "Try Fraction(1, 32)."
            raise InputError(invalid("rate", "in (0, 1], a multiple of 2^-32", remedy, got=self.rate))
        if not 0 < self.ones < 1:
            raise InputError(invalid("ones", "between 0 and 1", "Try Fraction(1, 5).", got=self.ones))
        if not 0 < self.clip < 2.0**40:
            raise InputError(invalid("clip", "above 0 and below 2^40", "Try 1.0.", got=self.clip))

    @property
    def training(self) -> tuple[int, Fraction, Fraction]:
        """Steps, rate and share of rho, by which the order of the accounting is chosen."""
        return self.steps, Fraction(self.rate), self.split_rho(True)["gradients"]

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model that was trained.

        deadline: must be None, see above.

        Raises:
            InputError: There is a deadline, the fitter is not trained by gradients, or the target is no
                attribute.
        """
        even, domain = self._check_run(curator, fitter, deadline), curator.domain
        trainable = cast("TrainedFitter", fitter)
        trainable.learner(domain, self.target, even, 1.0)  # raises where it would be too large
        ways, total = self._buy_one_ways(curator, on_step)
        rate = Fraction(self.rate)
        while rate * round(total) > self.largest and rate * 2**31 >= 1:
            rate = Fraction(int(rate * 2**31), 2**32)
        learner = trainable.learner(domain, self.target, ways, float(rate) * total)

        def tell(step: int) -> None:
            if step % STEPS_A_REPORT == 0:
                on_step(Step("train", f"{self.steps} steps on samples of the rows", step, curator.progress))

        weights = trainable.alone(
            lambda: curator.train(
                learner, curator.remaining, steps=self.steps, rate=rate, clip=self.clip, on_gradient=tell
            )
        )
        on_step(Step("fit", "rows drawn by the network", 0, 1.0))
        return trainable.finished(learner, weights, curator.measurements, total)


ROWS_A_TEACHER = 50
"""Rows that a teacher has about, where their number is not given."""
MOST_TEACHERS = 100
ROUNDS_A_REPORT = 20
"""Rounds from one word on progress to the next."""


@final
@dataclass(frozen=True, slots=True)
class Votes(_AtTheDoor):
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
    gaussian_only: ClassVar[bool] = True
    learns_by: ClassVar[LearnsFrom] = "votes"
    bought: ClassVar[str] = "votes"

    def __post_init__(self) -> None:
        check_counts(teachers=self.teachers, rounds=self.rounds)
        if not 0 < self.ones < 1:
            raise InputError(invalid("ones", "between 0 and 1", "Try Fraction(1, 5).", got=self.ones))

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model that learned from votes.

        deadline: must be None, see above.

        Raises:
            InputError: There is a deadline, the fitter does not learn from votes, or the target is no
                attribute.
        """
        even, domain = self._check_run(curator, fitter, deadline), curator.domain
        taught = cast("TaughtFitter", fitter)
        taught.ensemble(domain, self.target, even, 1)  # raises where it would be too large
        ways, total = self._buy_one_ways(curator, on_step)
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
