"""The base of what decides which marginals to buy, and what nearly all of them buy first: one-ways.

A `Strategy` declares its needs and its shares. `Pace` says how a strategy's rounds stand with a deadline.
All its times are differences of `Deadline.left`, which stands still while the curator is asked: what a round
is thought to cost is the time of its post-processing alone.

One-ways are bought once. The functions for them say which are still worth buying, what the released ones
say about each attribute and the rows, and how what remains is shared among marginals.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort
from margrave.progress import OnStep, Step
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.privacy.unit import Neighbours
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model
    from margrave.release import NoisyMarginal

ONE_WAYS, MEASURE, CHOOSE, APPRAISE = "one-way marginals", "measure", "choose", "appraise"
"""Stages that several strategies have."""
ONE, PAIR = "one-way marginal", "pair"
"""What a plan foretells the noise of."""
NOISE_L1 = math.sqrt(2 / math.pi)
"""Mean of the absolute value of a standard normal: the L1 error that noise adds to a cell, over sigma."""
Own = TypeVar("Own", bound="Strategy")
Shares = dict[str, Fraction]
"""Shares of rho by stage, or by what is measured."""


MAX_TABLE_CELLS = 1_000_000
"""Tables with more cells are left out by the strategies that look at all pairs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Holdings:
    """How many tables a run of a strategy may hold and asks for, as far as public things tell.

    Args:
        candidates: Cells of all tables that it may measure or compare, side by side.
        tables: How many tables it measures of its own accord, however little noise there is.
        cells: Cells of these tables together; 0 where it measures only few of its candidates.
        tree: Cells of a junction tree of what it buys; 0 where its tables make none.
        row_numbers: Numbers that it holds for each row, beside the table; 0 where it holds no copies of rows.
        hurried: Part of `tables` and `cells` that it still asks for where time is short.
    """

    candidates: float
    tables: float
    cells: float = 0.0
    tree: float = 0.0
    row_numbers: float = 0.0
    hurried: float = 1.0


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
    serves_regressions: ClassVar[bool] = False
    """Whether a run that is told a target buys sums of its columns' numbers beside, see `run.buying`."""
    otherwise: ClassVar[str] = ""
    """How rho is split where released tables decide so, and when that is, for the plan; "" if they do not."""
    pace: ClassVar[tuple[float, float]] = (1e-3, 0.0)
    """Processor seconds of a run a squared column, with a fitter whose `fit_seconds` is 0, at epsilon 1 on as
    many rows as the shipped Adult has, and the power of epsilon times rows that they grow with:
    bench/LEADERBOARD.md, bench/runs/adult.py. `run.costs.TIMES` holds strategies whose times go by more."""

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

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """How many tables, and how large, a run may hold at once: what a plan foretells memory and time by.

        Unless a strategy says otherwise, it may buy any of all pairs. One that holds fewer tables says so, or
        a plan is refused where the memory would do.

        Args:
            sizes: Codes of each attribute, a guess where they are to be discovered.
            signal: Rows times mu, the signal over the noise of a count, both foretold.
        """
        return Holdings(count_pair_cells(sizes), len(sizes))

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
        self._before = self._left

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

    def fit_round(
        self,
        fitter: Fitter,
        curator: Curator,
        history: Sequence[NoisyMarginal],
        model: Model | None = None,
        *,
        last: bool = False,
        cells: float = 1.0,
    ) -> Model:
        """The model of all that is known at the end of a round; how long the fit and the round took is noted.

        Args:
            fitter: Makes it.
            curator: Of the run.
            history: What was released, and what is public.
            model: That of the round before, from which some families start; None for the first.
            last: Whether it is the run's last fit, which is done to full precision.
            cells: Of the model, where its cost follows from them.
        """
        started, effort = self._left, self.full if last else self.rough
        total = curator.public_rows
        found = fitter.fit(curator.domain, history, total=total, warm=model, effort=effort)
        if self._deadline is not None:
            left = self._left
            self._fits.append(started - left)
            self._cells.append(self._fits[-1] / max(cells, 1.0))
            self._rounds.append(self._before - left)
            self._before = left
        return found


def _latest(costs: list[float]) -> float:
    return min(costs[-LATEST:], default=0.0)


GRAIN = 1 << 20
"""About how many parts rho is cut into for shares."""

MAX_QUESTIONS = 2_000
"""Questions from which like shares are asked for together: each writes to the disk, for a millisecond."""
CLASSES = 8
"""Classes of shares for each factor of 2: noise moves by 4 % at most."""
CELLS_POWER = 2.0 / 3.0
"""A marginal's rho grows with this power of its cells, which minimises the sum of cells * sigma."""


def find_unmeasured(domain: Domain, measurements: Sequence[NoisyMarginal], sigma: float) -> list[Clique]:
    """One-way cliques without a measurement of average noise up to `sigma`.

    Discovery leaves one-way marginals behind; buying them again at more noise would be waste.
    """
    covered = {
        m.clique[0] for m in measurements if len(m.clique) == 1 and float((m.sigmas**2).mean()) <= sigma**2
    }
    return [(name,) for name in domain.names if name not in covered]


def count_cells(sizes: Sequence[int], degree: int) -> float:
    """Cells of the tables of all cliques of `degree` columns together; infinite above what a float holds.

    Example:
        >>> count_cells((2, 3, 4), 2)
        26.0
    """
    found = [1.0] + [0.0] * degree
    for size in sizes:
        for k in range(degree, 0, -1):
            found[k] += float(size) * found[k - 1]
    return found[degree]


def count_clique_cells(sizes: Sequence[int], degree: int) -> float:
    """Cells of the tables of `degree` columns that are not too large for the strategies that look at all.

    Of pairs exactly those of at most MAX_TABLE_CELLS; of larger cliques a bound.
    """
    if degree == 2:
        return count_pair_cells(sizes)
    return min(count_cells(sizes, degree), MAX_TABLE_CELLS * float(math.comb(len(sizes), degree)))


def count_pair_cells(sizes: Sequence[int]) -> float:
    """Cells of the tables of all pairs together, those of more than MAX_TABLE_CELLS left out.

    Example:
        >>> count_pair_cells((2, 3, 4))
        26.0
    """
    ordered = np.sort(np.asarray(sizes, dtype=np.float64))
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    # Of each column, the cells of its tables with those before it that are not too large.
    partners = np.searchsorted(ordered, MAX_TABLE_CELLS / ordered, "right")
    return float((ordered * sums[np.minimum(partners, np.arange(len(ordered)))]).sum())


def count_joint_cells(sizes: Sequence[int]) -> float:
    """Cells of the table of all columns; infinite above what a float holds."""
    digits = math.fsum(math.log10(max(size, 1)) for size in sizes)
    return float(math.prod(sizes)) if digits < 300 else math.inf


def all_cliques(domain: Domain, degree: int, max_cells: int) -> list[Clique]:
    """All cliques of `degree` attributes with at most max_cells cells."""
    cliques = combinations(domain.names, min(degree, len(domain)))
    return [clique for clique in cliques if domain.size(clique) <= max_cells]


def closure(cliques: Sequence[Clique], domain: Domain) -> list[Clique]:
    """All non-empty subsets of the cliques, smaller ones first, in the domain's order."""
    subsets = {
        domain.canonical(part)
        for clique in cliques
        for size in range(1, len(clique) + 1)
        for part in combinations(clique, size)
    }
    return sorted(subsets, key=lambda clique: (len(clique), [domain.index(name) for name in clique]))


def apportion_rho(weights: Mapping[Clique, float], rho: Fraction) -> dict[Clique, Fraction]:
    """Exact parts of rho, together all of it, in proportion to the weights; none for a weight of 0."""
    whole = math.fsum(weights.values())
    grains = {c: max(round(GRAIN * weight / whole), 1) for c, weight in weights.items() if weight > 0}
    total = sum(grains.values())
    return {clique: rho * Fraction(grain, total) for clique, grain in grains.items()}


def measure_shares(curator: Curator, shares: Mapping[Clique, Fraction]) -> None:
    """Measure each clique for its share of rho.

    Where there are more than MAX_QUESTIONS, cliques of nearly the same share are measured together, each for
    the mean of their shares in double precision, rounded down, so that all of them cost what they did but for
    a billionth. (Sums of that many exact fractions take minutes.)
    """
    if len(shares) <= MAX_QUESTIONS:
        for clique, share in shares.items():
            curator.measure([clique], share)
        return
    # Shares that differ by little are rounded to one: thousands of questions would take longer than the
    # fit.
    groups: dict[int, list[Clique]] = {}
    for clique, share in shares.items():
        groups.setdefault(round(CLASSES * math.log2(share)), []).append(clique)
    for cliques in groups.values():
        # Rounded down by a billionth, so that the sum over all groups never passes what is left.
        mean = math.fsum(float(shares[clique]) for clique in cliques) / len(cliques)
        curator.measure(cliques, Fraction(mean * (1.0 - 1e-9)))


Floats = NDArray[np.float64]


def buy_one_ways(curator: Curator, rho: Fraction, on_step: OnStep) -> None:
    """Measure the one-ways alike for rho in all; those that discovery left with no more noise are not."""
    share = rho / max(len(curator.domain), 1)
    singles = find_unmeasured(curator.domain, curator.measurements, curator.sigma(share))
    on_step(Step("measure", f"{len(singles)} one-way marginals", 0, curator.progress))
    if singles:
        curator.measure(singles, share)


def share_one_ways(curator: Curator, codes: Mapping[str, float], rho: Fraction) -> dict[Clique, Fraction]:
    """How rho is best shared by one-ways: all that each has had is to grow with codes^CELLS_POWER.

    That is the least sum of codes * sigma. A one-way that has had more than its part already, by discovery
    say, gets nothing. Looks at releases and settings only.

    Args:
        curator: The door.
        codes: How many codes of each attribute hold anything.
        rho: What is to be spent; none is shared if it is not above 0.
    """
    if rho <= 0:
        return {}
    had = worth_of_one_ways(curator)
    weights = {name: count**CELLS_POWER for name, count in codes.items()}
    level = (float(rho) + math.fsum(had.values())) / math.fsum(weights.values())
    return apportion_rho({(name,): max(level * weights[name] - had[name], 0.0) for name in codes}, rho)


def worth_of_one_ways(curator: Curator) -> dict[str, float]:
    """rho that the released one-ways of each attribute are worth together."""
    unit = curator.sigma(Fraction(1)) ** 2
    return {
        name: sum((unit / float((m.sigmas**2).mean()) for m in found), 0.0)
        for name, found in group_one_ways(curator).items()
    }


def group_one_ways(curator: Curator) -> dict[str, list[NoisyMarginal]]:
    """The released one-ways of each attribute, from one pass over all that was released."""
    found: dict[str, list[NoisyMarginal]] = {name: [] for name in curator.domain.names}
    for measured in curator.measurements:
        if len(measured.clique) == 1:
            found[measured.clique[0]].append(measured)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class OneWay:
    """What was released of an attribute's one-way, averaged by precision.

    Args:
        values: Noisy counts, shape [codes].
        variance: Of the noise in each, about.
    """

    values: Floats
    variance: float


def average_one_ways(curator: Curator, known: Collection[str] = ()) -> tuple[dict[str, OneWay], float]:
    """Each attribute's released one-way, and the rows, at least 1.

    Args:
        curator: Of the run.
        known: Public attributes, whose tables are exact; they are left out.
    """
    ways, totals, precisions = {}, [], []
    for name, found in group_one_ways(curator).items():
        if name in known:
            continue
        weights = np.array([1.0 / float((m.sigmas**2).mean()) for m in found])
        tables = np.array([m.values for m in found])
        mean: Floats = (weights[:, None] * tables).sum(axis=0) / weights.sum()
        ways[name] = OneWay(mean, 1.0 / float(weights.sum()))
        totals.append(float(mean.sum()))
        precisions.append(float(weights.sum()) / len(mean))
    rows = curator.public_rows
    if rows is None:
        rows = max(float(np.average(totals, weights=precisions)), 1.0)
    return ways, rows


def released_one_ways(curator: Curator) -> tuple[dict[str, Floats], float]:
    """Each attribute's distribution, and the rows, at least 1, from the one-ways that were released.

    The distribution is the one nearest to the shares: noise in many empty codes, cut at 0, would be mass.
    """
    ways, rows = average_one_ways(curator)
    shares = {
        name: project_simplex(own.values / rows, np.ones(own.values.size)) for name, own in ways.items()
    }
    return shares, rows
