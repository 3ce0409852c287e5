"""Strategy: the base of what decides which marginals to buy. Needs and shares are declared.

`Pace` says how a strategy's rounds stand with a deadline. All its times are differences of `Deadline.left`,
which stands still while the curator is asked: what a round is thought to cost is the time of its post-
processing alone.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort

if TYPE_CHECKING:
    from margrave.privacy.unit import Neighbours
    from margrave.progress import OnStep
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model

ONE_WAYS, MEASURE, CHOOSE, APPRAISE = "one-way marginals", "measure", "choose", "appraise"
"""Stages that several strategies have."""
ONE, PAIR = "one-way marginal", "pair"
"""What a plan foretells the noise of."""
NOISE_L1 = math.sqrt(2 / math.pi)
"""Mean of the absolute value of a standard normal: the L1 error that noise adds to a cell, over sigma."""
Own = TypeVar("Own", bound="Strategy")
Shares = dict[str, Fraction]
"""Shares of rho by stage, or by what is measured."""


class Strategy(ABC):
    """Decides which marginals to buy. It sees a curator, never data.

    A strategy defines `name` and `run`, and states in `split_rho` how it shares out its rho: `run` spends by
    that statement and a plan shows it, so that they cannot disagree. It is a frozen dataclass of its
    settings: what a run adds to them (`options`) is set in a copy.
    """

    __slots__ = ()

    name: ClassVar[str]
    """The name it is saved under."""
    gaussian_only: ClassVar[bool] = False
    """Whether nearly all it asks has Gaussian noise: GDP prices that better than zCDP, but choices worse."""
    learns_by: ClassVar[LearnsFrom] = "marginals"
    """What the fitter has to learn from: marginals, moments of the rows, gradients of the rows, noisy
    copies of them, or votes of teachers."""
    needs_rows: ClassVar[bool] = False
    """Whether it asks for more than marginals, so that the engine has to hold the rows."""
    adjacencies: ClassVar[frozenset[str] | None] = None
    """The adjacencies under which all that it asks can be answered; None for any."""
    keeps_deadline: ClassVar[bool] = True
    """Whether a time limit can end it early but complete."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Options of a run that it takes, each a field of this name: "target"."""

    @abstractmethod
    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when to be done, on the curator's stopwatch; a strategy ends early but complete, all of rho
            spent. No other clock may decide what it asks.
        """

    def split_rho(self, counted: bool) -> Shares:
        """The share of rho of each stage; they sum to 1.

        Args:
            counted: Whether something tells the number of rows before the strategy runs: discovery, or the
                adjacency.
        """
        return {MEASURE: Fraction(1)}

    def share_marginal(self, columns: int) -> Shares:
        """The share of rho that one typical one-way marginal (`ONE`) and one typical pair (`PAIR`) get.

        Which marginals an adaptive strategy buys is not known before it runs: a typical number stands in.

        Args:
            columns: How many there are, at least 1.
        """
        return {ONE: Fraction(1, columns)}

    def bound_copies(self, sizes: Sequence[int], neighbours: Neighbours) -> int | None:
        """The square of the largest change of the noisy copies of all rows; None where it buys no copies.

        Args:
            sizes: Codes of each attribute.
            neighbours: Whose change is bounded.
        """
        return None

    @property
    def training(self) -> tuple[int, Fraction, Fraction] | None:
        """Steps, rate and share of rho of a training by gradients of samples; None without one."""
        return None

    @property
    def max_seconds(self) -> float | None:
        """Seconds of post-processing that it allows itself; None for no limit of its own."""
        return None

    @property
    def target(self) -> str | None:
        """An attribute that rows are meant to predict; a field of strategies that take one."""
        return None

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns that it was told of by name: the target, and cliques where a strategy takes some."""
        return frozenset() if self.target is None else frozenset({self.target})

    def check_fitter(self, fitter: Fitter) -> None:
        """Check, before anything is spent, that the fitter learns from what this strategy buys.

        Raises:
            InputError: It does not.
        """
        if self.learns_by not in fitter.learns_from:
            able, remedy = REMEDIES[self.learns_by]
            raise InputError(invalid("model", f"one that {able}", remedy, got=fitter.name))

    def check_neighbours(self, neighbours: Neighbours) -> None:
        """Check, before anything is spent, that what it asks can be answered under an adjacency.

        Raises:
            InputError: It cannot.
        """
        if self.adjacencies is not None and neighbours.adjacency not in self.adjacencies:
            able = " or ".join(repr(name) for name in sorted(self.adjacencies))
            remedy = f"Choose one of them, or another method than {self.name!r}."
            raise InputError(invalid("adjacency", able, remedy, got=neighbours.adjacency))

    def with_options(self: Own, **options: Any) -> Own:
        """A copy with some of its `options` set."""
        asked: Any = self
        changed: Own = dataclasses.replace(asked, **options)
        return changed


REMEDIES: dict[LearnsFrom, tuple[str, str]] = {
    "marginals": (
        "learns from marginals",
        "Use select=Training() for 'diffusion', SliceTraining() for 'slice_fdiv' and 'slice_wass'.",
    ),
    "moments": ("takes Fourier features", "Use model='merf'."),
    "gradients": ("is trained by gradients", "Use model='diffusion'."),
    "slices": ("learns from noisy copies of rows", "Use model='slice_fdiv' or 'slice_wass'."),
    "votes": ("learns from votes of teachers", "Use model='voted_gan'."),
    "public marginals": ("keeps tables of public rows", "Use model='conditional_pgm'."),
}
"""What a fitter has to do for a strategy, and which one does."""


FINAL = 12.0
"""About how many rough fits the last one costs, which is done to full precision."""
LATEST = 3
"""Rounds that tell what the next one costs."""
ROUNDS_LEFT = 8.0
"""A tree may grow until this many final fits of its size would take all the time left."""


class Pace:
    """How a run stands with its deadline; without one it never ends early and never holds back.

    The cost of what is still to be done is judged by the cheapest of the last LATEST rounds, since a first
    use of a kernel or another program's burst makes single ones slow.

    Args:
        deadline: When the run should be over.
    """

    def __init__(self, deadline: Deadline | None) -> None:
        self.rough = Effort(rough=True, deadline=deadline)
        self.full = Effort(deadline=deadline)
        self._deadline = deadline
        self._rounds: list[float] = []
        self._fits: list[float] = []
        self._cells: list[float] = []
        self._size = 1.0
        self._before = self._started = self._left

    @property
    def _left(self) -> float:
        return math.inf if self._deadline is None else self._deadline.left

    @property
    def ends(self) -> bool:
        """Whether another round and the last fit would not fit in."""
        return self._left < 2.0 * _latest(self._rounds) + FINAL * _latest(self._fits)

    @property
    def cells(self) -> float:
        """Cells of the largest tree that may be grown to."""
        cost = ROUNDS_LEFT * FINAL * _latest(self._cells)
        return self._left / cost if cost > 0.0 and self._left < math.inf else math.inf

    def half(self) -> Callable[[], bool]:
        """Asks whether half of what is left now is over; it never is without a deadline."""
        end = 0.5 * self._left
        return lambda: self._left < end

    def fitting(self, cells: float) -> None:
        """Note that a fit of so many cells begins."""
        self._size, self._started = max(cells, 1.0), self._left

    def fitted(self) -> None:
        """Note that it is over, and the round with it."""
        if self._deadline is not None:
            left = self._left
            self._fits.append(self._started - left)
            self._cells.append(self._fits[-1] / self._size)
            self._rounds.append(self._before - left)
            self._before = left


def _latest(costs: list[float]) -> float:
    return min(costs[-LATEST:], default=0.0)
