"""Strategies for models that learn from rows: what they ask of the door, and for how much.

`MeanEmbedding` buys sums of features, as DP-MERF does. `Slices` spends all of rho on one noisy copy of every
row, from which the tables of all pairs follow, and `SliceTraining` does the same for generators that are
trained against the copies. `Training` buys noisy gradients on samples of the rows, `Votes` noisy votes of
teachers that each see a part of the rows, both after one-ways.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Deadline, Effort, machine_memory
from margrave.progress import OnStep, Step
from margrave.release import NoisyMarginal, NoisySlices, project_simplex
from margrave.schema.domain import Clique, Domain
from margrave.schema.features import RowNumbers, fourier, numbers
from margrave.select.strategy import (
    ONE,
    ONE_WAYS,
    PAIR,
    Holdings,
    Shares,
    Strategy,
    all_cliques,
    buy_one_ways,
    count_pair_cells,
    released_one_ways,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from margrave.privacy.unit import Neighbours
    from margrave.protocols import (
        Curator,
        Fitter,
        LearnsFrom,
        Model,
        MomentsFitter,
        SlicesFitter,
        TaughtFitter,
        TrainedFitter,
    )
    from margrave.release import NoisyMoments

WEIGHTS = Fraction(1, 10)
"""Share of rho for the labels' weights, or for the number of rows where there is no label."""


@final
@dataclass(frozen=True, slots=True)
class MeanEmbedding(Strategy):
    """The mean embedding of DP-MERF (Harder, Adamczewski and Park 2021), label by label.

    A tenth of rho measures the weights of the labels. The rest buys the embedding, of which both parts have
    one norm, as in the paper: random Fourier features of the attributes whose codes stand in order, half;
    and one-hot codes of all others, by label, which are the pairs of each with the label, half. Where one of
    the parts is empty the other gets all. Noise is Gaussian throughout, so GDP accounting applies.

    **Privacy.** All answers are the curator's, with Gaussian noise, so GDP prices them together: marginals
    (`Gaussian`) and sums of bounded features (`margrave.measure.mechanisms.moments` has the sensitivity, in
    whole numbers). A row's features have one norm whatever its label, so that labels cost nothing extra. With
    d attributes that are not numbers a row moves their pairs by root d under add_remove and root (2 d) under
    replace_one, and the Fourier sums by 1 and 2 where a row has norm 1. Frequencies are public: they follow
    from `seed` and the domain. All of rho is spent.

    Args:
        target: The label, an attribute; None for one embedding of all rows.
        frequencies: Fourier features, each a cosine and a sine: half of the paper's F.
        width: Of the Gaussian kernel on numbers that run from 0 to 1, or None; see `schema.embedding`. It is
            never read off the rows.
        seed: Of the frequencies, which are public.
        max_cells: Codes of an attribute are measured without the label where the pair has more cells.

    Raises:
        InputError: An argument is out of range.
    """

    target: str | None = None
    frequencies: int = 1000
    width: float | None = None
    seed: int = 0
    max_cells: int = 1_000_000
    name: ClassVar[str] = "mean_embedding"
    needs_rows: ClassVar[bool] = True
    gaussian_only: ClassVar[bool] = True
    learns_by: ClassVar[LearnsFrom] = "moments"
    options: ClassVar[frozenset[str]] = frozenset({"target"})

    def __post_init__(self) -> None:
        check_counts(frequencies=self.frequencies, max_cells=self.max_cells)
        if self.width is not None and not (math.isfinite(self.width) and self.width > 0):
            raise InputError(invalid("width", "a finite number above 0", "Leave it out.", got=self.width))

    def split_rho(self, counted: bool) -> Shares:
        """With numbers and with listed columns; where there are none of one kind, the other gets all."""
        half = (1 - WEIGHTS) / 2
        return {"weights": WEIGHTS, "features": half, "pairs with the label": half}

    def share_marginal(self, columns: int) -> Shares:
        """Half of the columns listed."""
        pairs = self.split_rho(True)["pairs with the label"]
        return {ONE if self.target is None else PAIR: pairs / max(columns // 2, 1)}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """One-ways, or the pairs of a label of at most the widest attribute's codes."""
        held = sum(sizes) * (1 if self.target is None else max(sizes, default=1))
        return Holdings(float(held), len(sizes))

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to all that was released.

        deadline: when the fit stops and returns the best so far.

        Raises:
            InputError: The fitter takes no moments, or the target is no attribute.
        """
        self.check_fitter(fitter)
        domain, rho = curator.domain, curator.remaining
        if self.target is not None and self.target not in domain:
            raise InputError(invalid("target", f"one of {list(domain.names)}", "Check it.", got=self.target))
        listed, ordered = self._list_marginals(domain), numbers(domain, self.target)
        first: list[Clique] = [()] if self.target is None else [(self.target,)]
        if self.target is None and (curator.public_rows is not None or not ordered):
            first = []  # the number of rows is public, or every other table tells it
        fitter.admit(domain, [*first, *listed])
        on_step(Step("measure", "weights of the labels", 0, curator.progress))
        curator.measure(first, rho * self.split_rho(True)["weights"] if ordered or listed else rho)
        found = self._bought(curator, listed, bool(ordered), on_step)
        on_step(Step("fit", "a generator", 0, 1.0))
        return cast("MomentsFitter", fitter).fit_moments(
            domain,
            curator.measurements,
            found,
            total=curator.public_rows,
            effort=Effort(deadline=deadline),
        )

    def _list_marginals(self, domain: Domain) -> list[Clique]:
        """The marginals that the one-hot part of the embedding is made of."""
        others = set(domain.names) - {self.target, *numbers(domain, self.target)}
        pairs = [(name,) if self.target is None else (self.target, name) for name in domain.names]
        return [
            pair if domain.size(pair) <= self.max_cells else pair[-1:] for pair in pairs if pair[-1] in others
        ]

    def _bought(
        self, curator: Curator, listed: list[Clique], ordered: bool, on_step: OnStep
    ) -> NoisyMoments | None:
        """Both parts of the embedding, for all of rho; the moments of numbers, if there are any."""
        found, rho = None, curator.remaining
        if ordered:
            on_step(Step("measure", f"{self.frequencies} Fourier features", 0, curator.progress))
            rng = np.random.default_rng(self.seed)
            features = fourier(curator.domain, self.target, self.frequencies, self.width, rng)
            found = curator.moments(features, rho / 2 if listed else rho)
        if listed:
            on_step(Step("measure", f"{len(listed)} marginals", 0, curator.progress))
            curator.measure(listed, curator.remaining / len(listed))
        return found


MAX_CODES = 20_000
"""Codes of all attributes together: second moments have the square of it, 3.2 GB of float64."""
COPY_BYTES = 40
"""Memory for each number of a noisy copy at the door: exact, noise and sum, of 8 bytes, and what holds two of
them at once."""


class _NoisyCopies(Strategy):
    """What strategies share that buy one noisy copy of every row."""

    __slots__ = ()
    needs_rows: ClassVar[bool] = True
    gaussian_only: ClassVar[bool] = True
    adjacencies: ClassVar[frozenset[str] | None] = frozenset({"replace_one", "zero_out"})

    def split_rho(self, counted: bool) -> Shares:
        """All of it for the noisy copies."""
        return {"noisy copies of all rows": Fraction(1)}

    def share_marginal(self, columns: int) -> Shares:
        """None: no marginal is bought, all of them follow from the noisy copies."""
        return {}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """All pairs, which follow from the copies, and a number for each code of each row."""
        return Holdings(count_pair_cells(sizes), len(sizes), row_numbers=float(sum(sizes)))

    def bound_copies(self, sizes: Sequence[int], neighbours: Neighbours) -> int | None:
        """The square of the largest change of the noisy copies: what the door finds for indicators of codes.

        A row that is emptied loses one indicator of each attribute. One that is replaced may change two of
        each attribute that has two codes.
        """
        if neighbours.adjacency == "replace_one":
            return max(2 * sum(size > 1 for size in sizes), 1)
        return len(sizes)

    def check_neighbours(self, neighbours: Neighbours) -> None:
        """Check, before anything is spent, that single rows of a public number are protected.

        Raises:
            InputError: They are not.
        """
        Strategy.check_neighbours(self, neighbours)
        if neighbours.unit.owner is not None:
            remedy = "Keep one row of each owner first, and leave the owner's column out."
            raise InputError(invalid("owner", "left out where every row is released with noise", remedy))

    def _buy_copies(self, curator: Curator, fitter: Fitter, on_step: OnStep) -> NoisySlices:
        """The copies, once it is checked that the fitter will take what follows from them."""
        domain = curator.domain
        if sum(domain.sizes) > MAX_CODES:
            remedy = "Leave out columns with very many values, or use another method."
            raise InputError(invalid("table", f"of at most {MAX_CODES} codes in all for slices", remedy))
        # The number of rows is public here, so that a refusal by it tells nothing.
        limit, needed = machine_memory(), COPY_BYTES * (curator.public_rows or 1.0) * sum(domain.sizes)
        if limit is not None and needed > limit:
            constraint = f"one whose noisy copies fit into this machine's memory, not {needed / 1e9:.2g} GB"
            raise InputError(invalid("table", constraint, "Release fewer rows, columns or bins."))
        fitter.admit(domain, all_cliques(domain, min(2, len(domain)), MAX_CODES**2))
        on_step(Step("measure", "noisy copies of all rows", 0, curator.progress))
        return curator.slices(RowNumbers.indicate_codes(domain), curator.remaining)


@final
@dataclass(frozen=True, slots=True)
class Slices(_NoisyCopies):
    """The slicing mechanism (Greenewald, Yu, Wang and Xu 2024) on indicators of codes, and its second
    moments.

    Every row becomes a vector of indicators and is released with Gaussian noise. The mean over rows of
    products of two numbers of it is an unbiased estimate of a cell of a pair's table, with a known variance
    (`NoisySlices.tables`), and any model that is fitted to pairs can be fitted to these. The paper trains a
    generator against projections instead: `SliceTraining`.

    The noise of one row is as large as its signal, so a cell of n rows is known to about c / mu^2 in units of
    root n with c attributes, where counting it centrally has noise that does not grow with n. It is there to
    compare with, and for features that no table of counts can hold.

    **Privacy.** One answer of the curator's (`margrave.measure.mechanisms.slices` has the proof), Gaussian,
    so GDP accounting applies. All of rho is spent. The adjacency has to keep the number of rows: "zero_out"
    or "replace_one".
    """

    name: ClassVar[str] = "slices"
    pace: ClassVar[tuple[float, float]] = (2e-3, 0.0)

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to the tables of all pairs.

        deadline: when the fit stops and returns the best so far.

        Raises:
            InputError: The attributes have too many codes, the copies would not fit into memory, or the
                adjacency or the unit is not one that slices protect.
        """
        self._buy_copies(curator, fitter, on_step)
        on_step(Step("fit", "tables of all pairs", 0, 1.0))
        effort = Effort(deadline=deadline)
        total = curator.public_rows
        tables = weigh_copies(curator.measurements, total or 1.0)
        if "dependent_noise" in fitter.options:
            # One noisy row enters all tables.
            fitter = fitter.with_options(dependent_noise=True)
        return fitter.fit(curator.domain, tables, total=total, effort=effort)


@final
@dataclass(frozen=True, slots=True)
class SliceTraining(_NoisyCopies):
    """The slicing mechanism on indicators of codes, for a generator that is trained against the copies.

    What is bought and what it costs are those of `Slices`; the fitter has to learn from noisy copies. The
    training looks at released numbers alone, so it may be repeated with other losses, networks and seeds.

    **Privacy.** As for `Slices`.
    """

    name: ClassVar[str] = "slice_training"
    pace: ClassVar[tuple[float, float]] = (2e-3, 0.0)
    learns_by: ClassVar[LearnsFrom] = "slices"

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model of the trained generator.

        deadline: when the training stops.

        Raises:
            InputError: The fitter does not learn from noisy copies, the attributes have too many codes, the
                copies would not fit into memory, the table has fewer than two rows, or the adjacency or the
                unit is not one that slices protect.
        """
        self.check_fitter(fitter)
        if (curator.public_rows or 0.0) < 2.0:  # it tells nothing: see `_buy_copies`
            remedy = "Release more rows, or use 'slicing'."
            raise InputError(invalid("table", "of at least 2 rows to train against their copies", remedy))
        copies = self._buy_copies(curator, fitter, on_step)
        on_step(Step("fit", "a generator", 0, 1.0))
        return cast("SlicesFitter", fitter).fit_slices(
            curator.domain, curator.measurements, copies, effort=Effort(deadline=deadline)
        )


ONE_WAY_SHARE = 0.5
"""Of its noise, what a single attribute's table is said to have beside tables of pairs: where these disagree
with a model, it gives way in them rather than in the single attributes, which are known far better. On six
tables of the choosing half, mu 1.133 and 1.579, columns and pairs agree better by .0010 and .0012 with a half
than with all of it, by .0011 and .0009 with a quarter (bench/LOG.md)."""


def weigh_copies(measurements: Sequence[NoisyMarginal], total: float) -> list[NoisyMarginal]:
    """Tables from noisy copies as a model takes them, which counts the noise of all cells as independent.

    A table of one attribute becomes the nearest one with no negative count, n_a, at ONE_WAY_SHARE of its
    noise. A table of a pair that sums to the noisy tables of its attributes keeps what it has beside their
    product, and is given the product of the nearest ones in place of theirs:

        n_a n_b / n + (table - product of the noisy two).

    The noise of that difference sums to 0 along both attributes. It has the variance that the table says in
    each of the m m' cells, and (m - 1)(m' - 1) degrees of freedom. Independent noise of

        m m' / ((m - 1)(m' - 1))

    times that variance looks the same there, and that is what the table is given: with what it says itself, a
    model would take noise for dependence, the more so the fewer codes there are (4 times the variance for two
    attributes of two codes).

    Args:
        measurements: Noisy tables, of every single attribute that is in a pair among them.
        total: The number of rows.

    Returns:
        Tables with the standard deviations to weigh them by, in the order given.
    """
    single = {table.clique[0]: table.values for table in measurements if len(table.clique) == 1}
    nearest = {
        name: total * project_simplex(values / total, np.ones(values.shape))
        for name, values in single.items()
    }
    found = []
    for table in measurements:
        if len(table.clique) == 1:
            name = table.clique[0]
            found.append(NoisyMarginal((name,), nearest[name], ONE_WAY_SHARE * table.sigmas))
            continue
        first, second = table.clique
        beside = table.values - np.multiply.outer(single[first], single[second]) / total
        values = np.multiply.outer(nearest[first], nearest[second]) / total + beside
        # An attribute of one code leaves no freedom, and no difference to weigh.
        freedom = max((values.shape[0] - 1) * (values.shape[1] - 1), 1)
        found.append(NoisyMarginal(table.clique, values, table.sigmas * math.sqrt(values.size / freedom)))
    return found


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

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """One-ways alone; what is learned from rows is no table."""
        return Holdings(float(sum(sizes)), len(sizes))

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
"""Most teachers where their number is not given. Not measured."""
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
