"""NoisyMarginal, NoisyMoments, Guarantee, Release: all that may leave the private side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.html_card import html_card
from margrave.privacy.accounting.conversions import bound_belief, bound_power
from margrave.privacy.accounting.events import Event
from margrave.privacy.ledger.history import DatasetHistory
from margrave.privacy.unit import Neighbours
from margrave.schema.constraints.rules import Rule, find_open_dependencies
from margrave.schema.domain import Clique, Domain
from margrave.schema.features import Embedding, RowNumbers
from margrave.schema.schema import Schema
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    from margrave.privacy.ledger.ledger import Ledger

MIN_RESIDUAL_DEVIATIONS = 3.0
"""Standard deviations of noise that a residual has to exceed to be taken for more than noise."""


LEAST_VARIANCE = 1e-12
"""Variance in rows that a cell is given at least: an attribute of one code has no noise of its own."""


@dataclass(frozen=True, slots=True)
class NoisyMarginal:
    """One released table of noisy counts.

    Args:
        clique: Attribute names, in the order of the axes.
        values: Noisy counts in rows, shape [size of each attribute].
        sigma: Standard deviation of the noise in rows: one number, or one a cell (shape of values) where
            cells are sums of different numbers of measured cells.

    Raises:
        ReleaseError: values do not have one axis an attribute, or sigma is not positive and finite.
    """

    clique: Clique
    values: NDArray[np.float64]
    sigma: float | NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        sigma = np.asarray(self.sigma, dtype=np.float64)
        if values.ndim != len(self.clique):
            raise ReleaseError(invalid("values", "of one axis an attribute", "Reshape to the clique."))
        if sigma.ndim and sigma.shape != values.shape:
            raise ReleaseError(invalid("sigma", "one number or one a cell", "Give it the shape of values."))
        if not (np.isfinite(sigma).all() and (sigma > 0).all()):
            raise ReleaseError(invalid("sigma", "finite and above 0", "Exact tables are not releases."))
        object.__setattr__(self, "clique", tuple(self.clique))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "sigma", float(sigma) if sigma.ndim == 0 else sigma)

    @property
    def sigmas(self) -> NDArray[np.float64]:
        """The standard deviation of each cell's noise, in rows, shape of values."""
        return np.broadcast_to(np.asarray(self.sigma, dtype=np.float64), self.values.shape)

    def beyond(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is expected, and as much of what this table says beyond it as noise does not explain.

        The residual is shrunk as a whole (James and Stein 1961, positive part), by the part of its square
        that is noise; a cell counts by its square over what is expected there and a thousandth of all rows. A
        residual within MIN_RESIDUAL_DEVIATIONS standard deviations of noise alone is left out.

        Args:
            expected: Counts in rows, by a model say; shape of values.

        Returns:
            Counts in rows, shape of values; some may be below 0.
        """
        weights = 1.0 / (np.maximum(expected, 0.0) + max(float(expected.sum()), 1.0) / 1000.0)
        residual, variances = self.values - expected, self.sigmas**2
        found, noise = float((weights * residual**2).sum()), float((weights * variances).sum())
        spread = float(np.sqrt(2.0 * ((weights * variances) ** 2).sum()))
        if found <= noise + MIN_RESIDUAL_DEVIATIONS * spread:
            return expected
        return np.asarray(expected + (1.0 - noise / found) * residual)


SCORE_STEPS = 16
"""Rank scores at the door are whole numbers of so many steps of 1."""


@dataclass(frozen=True, slots=True, eq=False)
class RankProduct:
    """Whether two attributes rise together: the mean over rows of the product of their rank scores.

    Args:
        scores: Of the codes of each attribute, from -1 to 1, in the order of the clique.
        value: The noisy mean of the products, over all rows.
        sigma: Standard deviation of its noise, above 0.
    """

    scores: tuple[NDArray[np.float64], NDArray[np.float64]]
    value: float
    sigma: float


@dataclass(frozen=True, slots=True)
class InferredMarginal(NoisyMarginal):
    """A table that nobody measured: what releases about other things say of it.

    Its `values` are what is expected, in rows, and its `sigma` is how uncertain that is. It is handed to a
    fit beside what was measured, but it holds no noise of its own and is never part of a release.

    Args:
        distance: Total variation of the pair from the product of its one-ways as it was appraised, which
            noise may have taken below 0.
        uncertainty: Standard deviation of that noise; infinity where nothing is known of the distance.
        product: Its rank product, if that was measured. It is known beside the table where somebody has
            measured that too.
    """

    distance: float = 0.0
    uncertainty: float = math.inf
    product: RankProduct | None = None


@dataclass(frozen=True, slots=True)
class KnownMarginal(NoisyMarginal):
    """A table of public rows, which nobody paid for.

    It is handed to a fit beside what was measured and is no part of a release: a model that is to be saved
    keeps it. Its `sigma` is how sharply a fit is to take it.
    """


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMoments:
    """Released sums over rows of Fourier features, see `Embedding`.

    Args:
        embedding: The features.
        values: Noisy sums in rows, cosines and then sines: shape [codes of the label or 1, 2 frequencies].
        sigma: Standard deviation of the noise in each, in rows.
    """

    embedding: Embedding
    values: NDArray[np.float64]
    sigma: float


@dataclass(frozen=True, slots=True)
class NoisySums:
    """Released sums over rows of all products of two numbers of a row, see `RowNumbers`.

    Args:
        numbers: Of the codes, as they were summed.
        values: Z'Z plus symmetric noise, in rows: shape [p, p].
        sigma: Standard deviation of the noise of an entry off the diagonal, in rows.
        diagonal_sigma: Of one on it.
    """

    numbers: RowNumbers
    values: NDArray[np.float64]
    sigma: float
    diagonal_sigma: float


@dataclass(frozen=True, slots=True, eq=False)
class NoisyStatistics:
    """X'X, X'y and the smallest eigenvalue of X'X, released apart; y is the last of a row's numbers.

    Args:
        numbers: Of the codes, as they were summed.
        smallest: The eigenvalue with noise, in rows.
        crossed: X'X plus symmetric noise, in rows: shape [p, p].
        labelled: X'y plus noise, in rows: shape [p].
        sigmas: Standard deviations of the noise of the eigenvalue, of an entry of X'X and of one of X'y.
    """

    numbers: RowNumbers
    smallest: float
    crossed: NDArray[np.float64]
    labelled: NDArray[np.float64]
    sigmas: tuple[float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class NoisySlope:
    """The gradient of a regression's log likelihood at some coefficients, and its curvature, with noise.

    Args:
        gradient: Shape [p].
        curvature: Shape [p, p], symmetric; zeros where it was not asked for.
        sigma: Standard deviation of the noise of a number of the gradient.
        curvature_sigma: Of an entry of the curvature off the diagonal; 0 where it was not asked for.
    """

    gradient: NDArray[np.float64]
    curvature: NDArray[np.float64]
    sigma: float
    curvature_sigma: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class NoisySlices:
    """A noisy copy of every row's vector: what the slicing mechanism releases, on a tight frame.

    Noisy projections on any directions are post-processing of it, and so are second moments.

    Args:
        numbers: What a row's vector is.
        values: The vectors with noise, in random order: shape [rows, numbers of a row].
        sigma: Standard deviation of the noise in each number.
        shortened: Noisy number of rows whose vector was shortened; None where no row is shortened.
        shortened_sigma: Standard deviation of the noise in that number.
    """

    numbers: RowNumbers
    values: NDArray[np.float64]
    sigma: float
    shortened: float | None = None
    shortened_sigma: float | None = None

    @property
    def indicators(self) -> bool:
        """Whether a row's vector holds one indicator for each code of each attribute."""
        return (
            self.shortened is None
            and not self.numbers.constant
            and all(np.array_equal(matrix, np.eye(len(matrix))) for matrix in self.numbers.numbers)
        )

    def second_moments(self) -> NDArray[np.float64]:
        """An unbiased estimate of the mean over rows of x x', shape [width, width].

        The mean of y y' less sigma^2 on the diagonal, y = x + noise.
        """
        found = self.values.T @ self.values / max(len(self.values), 1)
        found[np.diag_indices_from(found)] -= self.sigma**2
        return np.asarray(found)

    def tables(self) -> list[NoisyMarginal]:
        """The table of every attribute and of every pair of attributes, in rows, from indicators of codes.

        A row has one code of each attribute, so what noise adds to the sum of an attribute's indicators is
        known to be noise: it is taken off evenly, which leaves v = sigma^2 (m - 1) / m of the variance of m
        codes. The sum of y_a over n rows is then the number of rows with code a and noise of variance n v.
        For codes a and b of two attributes the sum of y_a y_b is unbiased too, and as the two attributes'
        noise is independent its variance is

            n_a v' + n_b v + n v v',

        n_a and n_b the numbers of rows with the codes. They are not known; the tables of single attributes,
        cut to between 0 and n, stand in for them. Noise of different tables is dependent, since one noisy row
        enters all; a pair's table sums exactly to those of its two attributes, whose noise is far smaller
        than that of a sum of cells with independent noise would be. That is why they are given as well.

        Raises:
            ReleaseError: The numbers are not indicators of codes.
        """
        if not self.indicators:
            raise ReleaseError(invalid("numbers", "indicators of codes", "Use `second_moments`."))
        count, names = len(self.values), self.numbers.names
        blocks, spreads, start = [], [], 0
        for matrix in self.numbers.numbers:
            block = self.values[:, start : start + len(matrix)]
            # Noise leaves a row's indicators with another sum than 1; taking that off evenly is the nearest
            # vector with the right one, and it has less noise.
            blocks.append(block - ((block.sum(axis=1) - 1.0) / len(matrix))[:, None])
            spreads.append(self.sigma**2 * (1.0 - 1.0 / len(matrix)))
            start += len(matrix)
        sums = [block.sum(axis=0) for block in blocks]
        found = [
            NoisyMarginal((name,), ones, math.sqrt(max(count * spread, LEAST_VARIANCE)))
            for name, ones, spread in zip(names, sums, spreads, strict=True)
        ]
        ones = [np.clip(table, 0.0, count) for table in sums]
        for i, j in combinations(range(len(names)), 2):
            # The variance of a product of two noisy indicators, summed over rows: each one's noise where
            # the other is 1, and noise times noise in every row.
            variances = ones[i][:, None] * spreads[j] + ones[j][None, :] * spreads[i]
            variances = np.maximum(variances + count * spreads[i] * spreads[j], LEAST_VARIANCE)
            clique = (names[i], names[j])
            found.append(NoisyMarginal(clique, blocks[i].T @ blocks[j], np.sqrt(variances)))
        return found


def mid_ranks(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mid-rank of each of some ordered codes under their noisy shares, of which negative ones count as 0.

    A code's mid-rank is the share of the rows below it and half of its own, from 0 to 1.
    """
    held = np.maximum(shares, 0.0)
    held = held / max(float(held.sum()), 1e-300)
    return np.asarray(np.cumsum(held) - 0.5 * held)


def project_simplex(values: NDArray[np.float64], variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution nearest to noisy probabilities, in squares weighted by 1 / variance, shape [codes].

    It is max(values - t * variances, 0) with t such that it sums to 1.

    Example:
        >>> project_simplex(np.array([0.9, 0.3, -0.4]), np.ones(3)).round(3).tolist()
        [0.8, 0.2, 0.0]
    """
    ratio = values / variances
    order = np.argsort(-ratio, kind="stable")
    level = (np.cumsum(values[order]) - 1.0) / np.cumsum(variances[order])
    kept = int(np.flatnonzero(ratio[order] > level)[-1])
    found = np.maximum(values - level[kept] * variances, 0.0)
    return np.asarray(found / found.sum())


@dataclass(frozen=True, slots=True)
class KnownNoise:
    """Noise that a seed settled, so that it hides nothing.

    Args:
        seed: What it was drawn from.
        epsilon, delta: What a private run with as much noise would promise.
    """

    seed: int
    epsilon: float
    delta: float


FALSE_ALARM, PRIOR = 0.05, 0.1
"""Share of wrong accusations that an attacker may make, and how likely they held a fact before, where what
an attack finds is told."""


def _percent(share: float) -> str:
    """A share as a percentage, rounded up to a tenth, for a bound is not to be told too small."""
    return f"{min(math.ceil(1000.0 * share - 1e-9) / 10.0, 100.0):g} %"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What was promised, to whom.

    The release is (epsilon, delta)-differentially private for tables that differ in one `unit`, under
    the stated adjacency. Where the noise is known nothing is promised: epsilon is infinite and delta is 1.

    Args:
        epsilon: As declared for the whole run, discovery included.
        delta: As declared for the whole run.
        rho: What the accountant allowed in total: zCDP's rho, mu^2 / 2 under GDP, or under "rdp-a" the
            Renyi divergence of order a over a.
        neighbours: The unit protected and the adjacency.
        accounting: "zcdp", "gdp", or "rdp-" and an order.
        known_noise: What the noise was, in a run with a seed; None in every private run.

    Raises:
        ReleaseError: epsilon is finite although the noise is known, or infinite although it is not.
    """

    epsilon: float
    delta: float
    rho: float
    neighbours: Neighbours
    accounting: str
    known_noise: KnownNoise | None = None

    def __post_init__(self) -> None:
        if (self.known_noise is None) != math.isfinite(self.epsilon):
            constraint = "finite, or infinite with noise that is known"
            raise ReleaseError(invalid("epsilon", constraint, "Known noise promises nothing."))

    @classmethod
    def of(cls, ledger: Ledger) -> Guarantee:
        """What a release under a ledger promises: nothing, if the ledger's noise comes from a seed."""
        epsilon, delta, known = ledger.epsilon, ledger.delta, None
        if ledger.test_seed is not None:
            known = KnownNoise(ledger.test_seed, epsilon, delta)
            epsilon, delta = math.inf, 1.0
        rho, neighbours = float(ledger.total), ledger.neighbours
        return cls(epsilon, delta, rho, neighbours, ledger.accountant.name, known)

    @property
    def warning(self) -> str:
        """What has to stand before anything else that is said of the release; empty where it is private."""
        if self.known_noise is None:
            return ""
        return (
            f"NOT PRIVATE: a test run. Its noise was drawn from the seed {self.known_noise.seed}, and "
            "whoever knows or guesses the seed can subtract it. No epsilon is promised."
        )

    @property
    def noise_epsilon(self) -> float:
        """The epsilon that the noise was sized for: `epsilon`, or where nothing is promised that of the run
        that it stands in for."""
        return self.epsilon if self.known_noise is None else self.known_noise.epsilon

    @property
    def accountant(self) -> str:
        """How the spends were added up, in words."""
        if self.accounting == "gdp":
            return "accounting by Gaussian mechanisms (GDP)"
        if self.accounting == "zcdp":
            return "accounting by zero-concentrated differential privacy (zCDP)"
        return f"accounting by Rényi divergence of order {self.accounting.removeprefix('rdp-')}"

    def __str__(self) -> str:
        if self.warning:
            return self.warning
        return (
            f"differential privacy with epsilon = {self.epsilon:g} and delta = {self.delta:g} for "
            f"{self.neighbours.unit}, {self.neighbours.change}; {self.accountant}"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_card("Guarantee", self.facts)

    def bound_power(self, false_alarm: float) -> float:
        """The largest share of those in the table whom an attack of a false alarm rate finds.

        By the accountant's own curve, or by epsilon and delta where that says less (Kairouz, Oh and Viswanath
        2015, Theorem 2.1); 1 where nothing is promised.

        Args:
            false_alarm: Above 0 and below 1.
        """
        if self.known_noise is not None:
            return 1.0
        grown = math.exp(min(self.epsilon, 700.0))
        by_region = min(grown * false_alarm + self.delta, 1.0 - (1.0 - self.delta - false_alarm) / grown)
        return min(bound_power(self.accounting, self.rho, false_alarm, self.delta), by_region, 1.0)

    def describe_odds(self, prior: float = PRIOR, false_alarm: float = FALSE_ALARM) -> str:
        """What an attack of a false alarm rate finds at most, and how sure it may be, in one sentence.

        Args:
            prior: How likely the attacker held the fact before.
            false_alarm: Share of wrong alarms where the fact is not true.
        """
        if self.known_noise is not None:
            return ""
        power = self.bound_power(false_alarm)
        belief = bound_belief(prior, power, false_alarm)
        return (
            f"an attack with false alarms in {100 * false_alarm:g} % of the cases finds at most "
            f"{_percent(power)} of those whom it is after, and where {100 * prior:g} % were suspected "
            f"rightly beforehand at most {_percent(belief)} of its alarms are right"
        )

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The promise as names and values, in words for readers."""
        if self.warning:
            return (("NOT PRIVATE", self.warning.removeprefix("NOT PRIVATE: ")),)
        who = self.neighbours
        return (
            ("epsilon", f"{self.epsilon:g}"),
            ("delta", f"{self.delta:g}"),
            ("protects", f"{who.unit}, {who.change}"),
            ("accounting", f"{self.accountant.removeprefix('accounting ')}, rho = {self.rho:.6g}"),
        )


def check_marked_name(path: str | Path, param: str = "out") -> None:
    """Refuse a file of numbers or rows of a test run whose name does not say what it is.

    A text file of rows has no place for a remark, and its rows look like those of a private release.

    Raises:
        InputError: The name has not "not-private" in it.
    """
    name = Path(path).name
    if "notprivate" not in "".join(letter for letter in name.lower() if letter.isalpha()):
        constraint = 'a name with "not-private" in it, where the noise comes from a seed'
        raise InputError(invalid(param, constraint, f"Try not-private-{name}.", got=str(path)))


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a release comes from: facts that the data holder gives, or that do not depend on the rows.

    There is no checksum of the private table among them: it is an exact function of the rows, with which
    whoever guesses the table could make sure of the guess.

    Args:
        dataset: The data set, as its steward calls it.
        operator: Who made the release.
        source: The name of the file that was read, without its folder; or the kind of table.
        date: The day on which the run began, as 2026-12-31, in universal time.
        schema: SHA-256 of the declared schema: of the file where there is one, else of its JSON. Empty where
            nothing was declared.
        history: Earlier runs on the data set, where the ledger is a book.

    Raises:
        ReleaseError: A text is longer than 200 characters or does not print.
    """

    dataset: str = ""
    operator: str = ""
    source: str = ""
    date: str = ""
    schema: str = ""
    history: DatasetHistory | None = None

    def __post_init__(self) -> None:
        for name in ("dataset", "operator", "source", "date", "schema"):
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > 200 or not text.isprintable():
                raise ReleaseError(invalid(name, "a printable text of up to 200 characters", "Shorten it."))


@dataclass(frozen=True, slots=True)
class Release:
    """Everything that left the private side in one run, and the model fitted to it.

    Args:
        schema: The known schema: declared by the user or discovered privately.
        measurements: All noisy marginals, in the order they were released.
        guarantee: The promise they were released under.
        events: Every spend, in order.
        strategy: Name of the selection strategy.
        fitter: Name of the model family.
        state: The fitted model's arrays, for `Fitter.restore`.
        total: The (noisy or public) number of rows the model stands for.
        frame: "pandas", "polars" or "arrow": the kind of table that went in.
        dtypes: The storage type of each column that went in, as text, by name.
        notes: Public remarks on the run, such as its version.
        text: How the text file that went in was written, and how rows are written to one.
        declared: Names of the columns of which nothing had to be discovered; None in files of older versions.
        provenance: Where it comes from.
        rules_left_out: Declared rules that no row could obey under what was discovered: rows may break them.
        public: The public columns as they are, in the format of an Arrow IPC stream; empty where there are
            none.
        sums: Sums of products of a row's numbers that were measured beside the tables; None without any.
    """

    schema: Schema
    measurements: tuple[NoisyMarginal, ...]
    guarantee: Guarantee
    events: tuple[Event, ...]
    strategy: str
    fitter: str
    state: Mapping[str, NDArray[np.float64]]
    total: float
    frame: str = "arrow"
    dtypes: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    text: TextFormat = field(default_factory=TextFormat)
    declared: tuple[str, ...] | None = None
    provenance: Provenance = Provenance()
    rules_left_out: tuple[Rule, ...] = ()
    public: bytes = b""
    sums: NoisySums | None = None

    @property
    def method(self) -> str:
        """The named method and its two parts; the parts alone where the run put them together itself."""
        parts = f"{self.strategy} with {self.fitter}"
        name = self.notes.get("method", parts)
        return parts if name == parts else f"{name}: {parts}"

    @property
    def rules_not_read(self) -> tuple[Rule, ...]:
        """Dependencies declared without a table whose columns stand together in no measurement.

        There is nothing to read them off, so rows may break them. A run buys such a pair unless its table
        would be too large for the model; a model of tables that somebody else made may lack it, too.
        """
        held = [set(measured.clique) for measured in self.measurements]
        rules = find_open_dependencies(self.schema.rules, self.guarantee.neighbours.public)
        return tuple(rule for rule in rules if not any(clique.issuperset(rule.names) for clique in held))

    @property
    def declared_columns(self) -> tuple[str, ...]:
        """Names of the columns that were wholly declared; where that was not recorded, of the strict ones."""
        if self.declared is not None:
            return self.declared
        return tuple(column.name for column in self.schema.columns if column.strict)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the encoded attributes."""
        return self.schema.domain
