"""Training: one-ways, and a network trained by noisy gradients on samples of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.progress import OnStep, Step
from margrave.select._steps.one_ways import buy_one_ways, released_one_ways
from margrave.select.strategy import ONE, ONE_WAYS, Shares, Strategy

if TYPE_CHECKING:
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model, TrainedFitter

STEPS_A_REPORT = 100
"""Steps from one word on progress to the next."""


@final
@dataclass(frozen=True, slots=True)
class Training(Strategy):
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
    needs_rows: ClassVar[bool] = True
    learns_by: ClassVar[LearnsFrom] = "gradients"
    keeps_deadline: ClassVar[bool] = False
    options: ClassVar[frozenset[str]] = frozenset({"target"})

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

    def split_rho(self, counted: bool) -> Shares:
        """One-ways and gradients."""
        return {ONE_WAYS: Fraction(self.ones), "gradients": 1 - Fraction(self.ones)}

    def share_marginal(self, columns: int) -> Shares:
        """All one-ways alike; no pair is bought."""
        return {ONE: self.split_rho(True)[ONE_WAYS] / columns}

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model that was trained.

        deadline: must be None, see above.

        Raises:
            InputError: There is a deadline, the fitter is not trained by gradients, or the target is no
                attribute.
        """
        if deadline is not None:
            raise InputError(invalid("deadline", "left out of a training", "Set Training(steps=...)."))
        self.check_fitter(fitter)
        trainable, domain = cast("TrainedFitter", fitter), curator.domain
        if self.target is not None and self.target not in domain:
            raise InputError(invalid("target", f"one of {list(domain.names)}", "Check it.", got=self.target))
        trainable.prepare()
        even = {name: np.ones(domain[name]) for name in domain.names}
        trainable.learner(domain, self.target, even, 1.0)  # raises where it would be too large
        buy_one_ways(curator, curator.remaining * self.split_rho(True)[ONE_WAYS], on_step)
        ways, total = released_one_ways(curator)
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
