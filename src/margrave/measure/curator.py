"""Curator: the door. Whatever leaves the private table leaves through one of its verbs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Stopwatch, price_question
from margrave.measure.binding import bind_source, check_totals
from margrave.measure.discovery.discover import Discovery
from margrave.measure.mechanisms.appraise import appraise
from margrave.measure.mechanisms.choose import choose
from margrave.measure.mechanisms.correlate import check_scores, correlate
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.gradients import Course, train
from margrave.measure.mechanisms.moments import moments
from margrave.measure.mechanisms.perturb import Objective, perturb
from margrave.measure.mechanisms.slices import slices
from margrave.measure.mechanisms.slopes import Slope, slopes
from margrave.measure.mechanisms.statistics import statistics
from margrave.measure.mechanisms.sums import needed_cliques, sums
from margrave.measure.mechanisms.verb import Verb, read_exact
from margrave.measure.mechanisms.votes import Ballot, votes
from margrave.measure.public import PublicPart
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.progress import OnStep, silent
from margrave.release import (
    NoisyMarginal,
    NoisyMoments,
    NoisySlices,
    NoisySlope,
    NoisyStatistics,
    NoisySums,
)
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded
from margrave.schema.features import Embedding, RowNumbers
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine, Ensemble, Learner, RowEngine, Source

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

CACHED_CELLS = 1 << 26
"""Exact counts of candidates are kept between rounds up to this many cells (256 MiB below 2^32 rows)."""

CELLS_A_RUN = 1 << 18
"""Cells that are counted at a time where tables are wanted one after the other (2 MiB)."""


def stop_clock(
    verb: Callable[Concatenate[Curator, Arguments], Answer],
) -> Callable[Concatenate[Curator, Arguments], Answer]:
    """The verb, run while the curator's stopwatch stands still, and refused where the curator is closed.

    It wraps the verb from outside, so that the stopwatch goes on only after everything that the verb held
    has been freed: giving a large private array back to the system takes time as well.
    """

    @functools.wraps(verb)
    def run(curator: Curator, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        curator._check_open()
        with curator.stopwatch.pause():
            return verb(curator, *args, **kwargs)

    return run


class Curator:
    """One private table, one ledger, and the verbs that may answer about it.

    **Privacy.** The unit, the adjacency and the total are the ledger's. An owner's rows beyond the cap
    are dropped at random before anything is counted. Each verb states its own sensitivity and cost and goes
    through `Ledger.ask`, which refuses what would pass the total and has the record on disk before noise
    is drawn. Verbs compose adaptively: the ledger's accountant adds their costs. In a resumed run the verbs
    give the stored answers again, as long as there are any, and then go on: what they ask for depends on
    answers and public things only, as ever. Where owners' rows are cut, each process draws its own; the
    sensitivities hold for any draw, made for each owner apart. After a failure of a verb from outside the
    package (`answer`) it refuses everything.

    *Time.* How long the table takes to answer follows its rows. Whatever may touch them is wrapped in
    `stop_clock`, and `stopwatch` is what deadlines are read from: how long a verb takes decides nothing. A
    question about marginals counts for a price that follows from the number and size of its tables alone.

    Args:
        source: The private table.
        ledger: Where spends are recorded; its neighbours set every sensitivity.
        noise: Source of random bits, the ledger's by default; anything else is for tests of margrave itself.

    Raises:
        InputError: The noise comes from a seed and the ledger does not say so.
    """

    def __init__(self, source: Source, ledger: Ledger, noise: BitSource | None = None) -> None:
        unit = ledger.neighbours.unit
        self._stopwatch = Stopwatch()
        self._ledger = ledger
        self._noise = ledger.choose_noise(noise)
        self._source = source if unit.owner is None else self._bound_owners(source, unit.owner, unit.max_rows)
        self._gaussian = Gaussian(ledger, self._noise)
        self._engine: Engine | None = None
        self._row_count = 0
        self._measurements: list[NoisyMarginal] = []
        self._cache: dict[Clique, NDArray[np.integer]] = {}
        self._total = ledger.planned
        self._reserve = Fraction(0)
        self._closed = False

    def _bound_owners(self, source: Source, owner: str, max_rows: int) -> Source:
        """The table with each owner's rows cut; the seed of a run that is not private settles which stay."""
        if self._ledger.test_seed is None:
            return source.bound_owners(owner, max_rows)
        return source.bound_owners(owner, max_rows, key=self._noise.words(4).tobytes())

    @property
    def stopwatch(self) -> Stopwatch:
        """Counts the time that passes outside the verbs, which is that of post-processing."""
        return self._stopwatch

    @stop_clock
    def discover(
        self,
        declared: Schema | None = None,
        rho: Fraction = Fraction(0),
        on_step: OnStep = silent,
        attributes: Collection[str] = (),
        most_bins: int | None = None,
    ) -> Schema:
        """Complete a partly declared schema and open the table under it; see `Discovery` for the cost.

        Args:
            declared: What the user says is public; columns it does not name are discovered.
            rho: What discovery may spend; nothing is spent when the schema is complete.
            on_step: Told about each step.
            attributes: Columns that the run needs as attributes: none of them is left out or made anew.
            most_bins: Most bins of a column that is discovered, from public things alone.

        Returns:
            The known schema.

        Raises:
            InputError: The run is in a book and a column is strict: its refusal of a row would be free.
        """
        # In a book a refusal would be one more answer about the rows, and nobody would have paid for it.
        if self._ledger.shared and declared is not None and declared.strict_columns:
            remedy = "Use declared.absorb_outside(): whether a row breaks a declaration is private."
            raise InputError(invalid("declared", "without strict columns in a book", remedy))
        discovery = Discovery(self._source, self._gaussian, self._ledger, on_step, attributes, most_bins)
        schema, found = discovery.run(declared, rho)
        self._engine, self._row_count = bind_source(self._source, schema)
        self._cache.clear()
        self._measurements += found
        self._total = self._ledger.planned
        return schema

    @property
    def _open(self) -> Engine:
        if self._engine is None:
            raise InputError(invalid("curator", "opened first", "Call discover(schema) before measuring."))
        return self._engine

    @property
    @stop_clock
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._open.domain

    @property
    def remaining(self) -> Fraction:
        """rho that is still to be shared out, exact: what is unspent, unless a stop has cost some of it."""
        return max(self._ledger.planned - self._reserve, Fraction(0))

    @property
    def total(self) -> Fraction:
        """rho that was left when the table was opened, exact, less what went into sums of products."""
        return self._total

    @contextmanager
    def set_aside(self, rho: Fraction) -> Iterator[None]:
        """Plan with a part of the budget: inside, `remaining` and `total` leave rho out.

        **Privacy.** It spends nothing and allows nothing: `Ledger.ask` refuses what passes the whole budget.

        Args:
            rho: What whoever asks inside is to leave, exact, 0 or more; then `total` is what is left now.
        """
        before = self._total, self._reserve
        self._reserve = rho
        self._total = self.remaining
        try:
            yield
        finally:
            self._total, self._reserve = before

    @property
    def progress(self) -> float:
        """Share of the whole run's rho shared out so far, discovery included."""
        return float(1 - self._ledger.planned / self._ledger.total)

    @property
    def measurements(self) -> tuple[NoisyMarginal, ...]:
        """All marginals released so far, those of discovery included.

        Raises:
            InputError: A verb from outside the package has failed.
        """
        self._check_open()
        return tuple(self._measurements)

    @property
    @stop_clock
    def public_rows(self) -> float | None:
        """The number of rows where the adjacency makes it public, else None; 1 for an empty table.

        **Privacy.** Under replace_one with single rows all neighbouring tables have the same number of
        rows, so telling it costs nothing. In every other case this is None.
        """
        if not self._ledger.neighbours.rows_are_public:
            return None
        return max(float(self._counts([()])[0].sum()), 1.0)

    @stop_clock
    def read_public(self) -> PublicPart | None:
        """The columns that the ledger's promise leaves public, exactly; None where there are none.

        **Privacy.** Free: neighbouring tables have the same public columns; see `margrave.measure.public`.

        Raises:
            InputError: The table is not held in memory.
        """
        public = set(self._ledger.neighbours.public)
        if not public:
            return None
        names = [column.name for column in self._source.columns if column.name in public]
        return PublicPart(self._source.only(names))

    def sigma(self, rho: Fraction) -> float:
        """Standard deviation of the noise that rho buys on one marginal, in rows."""
        return self._gaussian.sigma(rho)

    @stop_clock
    def measure(self, cliques: Sequence[Clique], rho: Fraction) -> list[NoisyMarginal]:
        """Release each clique's marginal with Gaussian noise; each costs rho. See `Gaussian`.

        Args:
            cliques: Cliques of the domain; the same clique may be measured again.
            rho: What each of them may cost, above 0.

        Returns:
            One noisy marginal a clique, in order.
        """
        cliques = self._check_cliques(cliques)
        names = [_name(clique) for clique in cliques]
        tables, sigma = self._gaussian.ask(names, rho, lambda: self._counts(cliques))
        if [table.shape for table in tables] != [self.domain.shape(clique) for clique in cliques]:
            raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
        self._charge(cliques)
        noisy = [NoisyMarginal(c, t, sigma) for c, t in zip(cliques, tables, strict=True)]
        self._measurements += noisy
        return noisy

    @stop_clock
    def choose(
        self,
        cliques: Sequence[Clique],
        expected: Sequence[NDArray[np.float64]],
        rho: Fraction,
        *,
        weights: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
        rivals: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> int:
        """Draw a candidate by the exponential mechanism on weight * (L1(counts, expected) - penalty).

        See `margrave.measure.mechanisms.choose` for the proof; costs rho (rounded down to an exact
        parameter).

        Args:
            cliques: Candidates.
            expected: A table each, in rows.
            rho: What the choice may cost, above 0.
            weights, penalties: A number each; 1 and 0 by default.
            rivals: A public table each, whose own L1 error is taken off the score, or None.

        Returns:
            The index of the candidate that was drawn.
        """
        cliques = self._check_cliques(cliques, expected)
        if rivals is not None and len(rivals) == len(cliques):
            pairs = [(c, table) for c, table in zip(cliques, rivals, strict=True) if table is not None]
            self._check_cliques([clique for clique, _ in pairs], [table for _, table in pairs])
        sensitivity = self._ledger.neighbours.marginal_l1
        chosen = choose(
            lambda: self._recall_counts(cliques),
            expected,
            rho,
            weights,
            penalties,
            sensitivity,
            self._ledger,
            self._noise,
            rivals,
        )
        self._charge(cliques)
        return chosen

    @stop_clock
    def appraise(
        self, cliques: Sequence[Clique], expected: Sequence[NDArray[np.float64]], rho: Fraction
    ) -> NDArray[np.float64]:
        """L1 errors ‖counts - expected‖ of many candidates, with Gaussian noise; rho for all together.

        See `margrave.measure.mechanisms.appraise` for the proof.

        Args:
            cliques: Candidates.
            expected: A table each, in rows.
            rho: What all answers together may cost, above 0.

        Returns:
            In rows, shape [candidates].
        """
        cliques = self._check_cliques(cliques, expected)
        errors = appraise(lambda: self._count_in_runs(cliques), expected, rho, self._ledger, self._noise)
        self._charge(cliques)
        return errors

    @stop_clock
    def correlate(
        self, pairs: Sequence[Clique], scores: Mapping[str, NDArray[np.int64]], rho: Fraction
    ) -> tuple[NDArray[np.float64], float]:
        """Release sums over rows of products of two attributes' scores, with Gaussian noise; rho for all.

        See `margrave.measure.mechanisms.correlate` for the proof.

        Args:
            pairs: Pairs of attributes.
            scores: From -SCORE_STEPS to SCORE_STEPS for each code of each of them, public.
            rho: What all answers together may cost, above 0.

        Returns:
            In rows, of scores from -1 to 1, shape [pairs], and the standard deviation of their noise.
        """
        pairs = self._check_cliques(pairs)
        check_scores(self.domain, pairs, scores)
        count = functools.partial(self._count_in_runs, pairs)
        found = correlate(count, pairs, scores, rho, self._ledger, self._noise)
        self._charge(pairs)
        return found

    @stop_clock
    def answer(self, verb: Verb, rho: Fraction) -> tuple[NDArray[np.float64], float]:
        """Release what a verb from outside the package asks, with Gaussian noise; costs rho.

        See `margrave.measure.mechanisms.verb` for what the verb has to prove.

        Args:
            verb: The question, with its sensitivity.
            rho: What the answer may cost, above 0.

        Returns:
            The noisy answer, of the verb's shape, and the standard deviation of its noise.

        Raises:
            InputError: The sensitivity is not a whole number above 0; or the verb failed, or its answer is
                not what was stated: then rho is spent, and the curator refuses everything from there on.
            BudgetError: rho does not fit.
        """
        words, shape = verb.words, tuple(verb.shape)
        cliques, l2_squared = self._check_cliques(verb.cliques), verb.l2_squared(self._ledger.neighbours)
        if not isinstance(l2_squared, int) or l2_squared < 1:
            remedy = "Scale the answer to whole numbers."
            raise InputError(invalid("l2_squared", "a whole number above 0", remedy, got=l2_squared))
        gaussian = self._gaussian.with_sensitivity(l2_squared)

        def make(tables: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
            self._closed = True  # however the verb ends, unless it answers
            exact = read_exact(verb, shape, tables)
            self._closed = False
            return [exact]

        (found,), sigma = gaussian.ask([words], rho, lambda: self._counts(cliques), make)
        if found.shape != shape:
            raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
        self._charge(cliques)
        return found, sigma

    @stop_clock
    def moments(self, embedding: Embedding, rho: Fraction) -> NoisyMoments:
        """Release sums over rows of Fourier features, by label, with Gaussian noise; rho for all together.

        See `margrave.measure.mechanisms.moments` for the proof.

        Args:
            embedding: The features, over attributes of the domain.
            rho: What the answer may cost, above 0.

        Raises:
            InputError: The engine counts where the table is and cannot look at single rows.
        """
        shape, rows = embedding.shape(self.domain), self._rows()
        return moments(lambda: rows, embedding, rho, shape, self._ledger, self._noise)

    @stop_clock
    def sums(self, numbers: RowNumbers, rho: Fraction) -> NoisySums:
        """Release sums over rows of all products of two numbers of a row, with Gaussian noise; rho for all.

        See `margrave.measure.mechanisms.sums` for the proof. It needs tables of two attributes alone, so any
        engine answers it.

        Args:
            numbers: Of the codes of attributes of the domain, public.
            rho: What the answer may cost, above 0.
        """
        numbers.check(self.domain)
        before = self._ledger.planned
        found = sums(self._counts, numbers, rho, self._ledger, self._noise)
        self._total -= before - self._ledger.planned  # a run asks before its strategy begins
        self._charge(needed_cliques(numbers))
        return found

    @stop_clock
    def statistics(self, numbers: RowNumbers, rhos: tuple[Fraction, Fraction, Fraction]) -> NoisyStatistics:
        """Release X'X, X'y and the smallest eigenvalue of X'X apart, with Gaussian noise; a rho for each.

        See `margrave.measure.mechanisms.statistics` for the arguments, the errors and the proof.
        """
        numbers.check(self.domain)
        found = statistics(self._counts, numbers, rhos, self._ledger, self._noise)
        self._charge(needed_cliques(numbers))
        return found

    @stop_clock
    def slopes(self, slope: Slope, rho: Fraction, curvature_rho: Fraction = Fraction(0)) -> NoisySlope:
        """Release the gradient of a regression at public coefficients, and its curvature if that has a rho.

        See `margrave.measure.mechanisms.slopes` for the arguments, the errors and the proof.
        """
        slope.numbers.check(self.domain)
        rows = self._rows()
        return slopes(lambda: rows, slope, rho, curvature_rho, self._ledger, self._noise)

    @stop_clock
    def perturb(self, objective: Objective, rho: Fraction) -> tuple[NDArray[np.float64], float, float]:
        """Release a logistic regression by objective perturbation; rho for all of it.

        See `margrave.measure.mechanisms.perturb` for what is returned, the errors and the proof.
        """
        objective.numbers.check(self.domain)
        rows = self._rows()
        return perturb(lambda: rows, objective, rho, self._ledger, self._noise)

    @stop_clock
    def slices(self, numbers: RowNumbers, rho: Fraction, longest: float | None = None) -> NoisySlices:
        """Release a noisy copy of every row's vector, in random order; rho for all together.

        See `margrave.measure.mechanisms.slices` for the proof. Where the numbers are indicators of codes, the
        tables that follow (`NoisySlices.tables`) are kept among the measurements.

        Args:
            numbers: Of the codes of attributes of the domain, public.
            rho: What the answer may cost, above 0.
            longest: Length to which longer vectors are shortened; None for what the numbers allow.

        Raises:
            InputError: The unit or the adjacency is not one that slices can protect, or the engine counts
                where the table is and cannot look at single rows.
        """
        numbers.check(self.domain)
        rows = self._rows()
        found = slices(lambda: rows, numbers, rho, self._ledger, self._noise, longest)
        if len(found.values) != self._row_count:  # public under the adjacencies that slices protect
            raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
        self._measurements += found.tables() if found.indicators else []
        return found

    @stop_clock
    def train(
        self,
        learner: Learner,
        rho: Fraction,
        *,
        steps: int,
        rate: Fraction,
        clip: float = 1.0,
        on_gradient: Callable[[int], None] = lambda step: None,
    ) -> tuple[NDArray[np.float64], ...]:
        """What a learner becomes by noisy gradients of samples of the rows; rho for all together.

        See `margrave.measure.mechanisms.gradients` for the arguments, the errors and the proof.
        """
        course, rows = Course(steps, rate, clip, on_gradient), self._rows()
        return train(lambda: rows, learner, rho, course, self._ledger, self._noise)

    @stop_clock
    def votes(
        self,
        ensemble: Ensemble,
        rho: Fraction,
        *,
        teachers: int,
        rounds: int,
        on_round: Callable[[int], None] = lambda number: None,
    ) -> tuple[NDArray[np.float64], ...]:
        """What an ensemble's public side becomes by noisy votes of its teachers; rho for all together.

        See `margrave.measure.mechanisms.votes` for the arguments, the errors and the proof.
        """
        ballot, rows = Ballot(teachers, rounds, on_round), self._rows()
        return votes(lambda: rows, ensemble, rho, ballot, self._ledger, self._noise)

    def _check_open(self) -> None:
        """Refuse to go on after a failure of a verb from outside the package.

        That it failed is a fact about the rows. Nothing more is told, so that a run tells one at most.

        Raises:
            InputError: One has failed.
        """
        if self._closed:
            remedy = "What was asked stays spent. Mend `exact` of the verb, then start a new run."
            raise InputError(invalid("curator", "one of whose verbs none has failed", remedy))

    def _charge(self, cliques: Sequence[Clique]) -> None:
        """Count a question's public price on the stopwatch, which stands still while it is answered."""
        cells = sum(self.domain.size(clique) for clique in cliques)
        self._stopwatch.add(price_question(len(cliques), cells))

    def _rows(self) -> Encoded:
        """The rows as codes. **Not private.**"""
        if not self._source.holds_rows:
            remedy = "Pass a frame, an Arrow table or a file; or use a method that asks for marginals only."
            raise InputError(invalid("table", "in memory or a file for this verb", remedy))
        return cast("RowEngine", self._open).encoded

    def _check_cliques(
        self, cliques: Sequence[Clique], expected: Sequence[NDArray[np.float64]] | None = None
    ) -> list[Clique]:
        """The cliques, found to be in the domain and of their tables' shapes before anything is recorded."""
        domain = self.domain
        shapes = [domain.shape(clique) for clique in cliques]
        for clique in cliques:
            if len(set(clique)) < len(clique):
                domain.project(clique)  # which says what is wrong
        if expected is not None and [np.shape(table) for table in expected] != shapes:
            # A larger table would be broadcast, and each row counted in many cells.
            raise InputError(invalid("expected", "one table a clique, of its shape", "Check the model."))
        return [tuple(clique) for clique in cliques]

    def _counts(self, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
        """Exact tables. **Not private.**"""
        return [table.astype(np.int64, copy=False) for table in self._recall_counts(cliques)]

    def _recall_counts(self, cliques: Sequence[Clique]) -> list[NDArray[np.integer]]:
        """Exact tables, kept between rounds while they fit, in types that may be short. **Not private.**"""
        missing = [clique for clique in dict.fromkeys(cliques) if clique not in self._cache]
        fresh: dict[Clique, NDArray[np.int64]] = {}
        if missing:
            counted = self._open.count(missing)
            fresh = {c: counts.reveal() for c, counts in zip(missing, counted, strict=True)}
            check_totals(fresh.values(), self._row_count)
        if fresh and sum(t.size for held in (self._cache, fresh) for t in held.values()) <= CACHED_CELLS:
            # No count is above the number of rows: two bytes or four do for most tables.
            short = np.min_scalar_type(self._row_count)
            self._cache.update((c, t.astype(short)) for c, t in fresh.items())
        return [fresh[c] if c in fresh else self._cache[c] for c in cliques]

    def _count_in_runs(self, cliques: Sequence[Clique]) -> Iterator[NDArray[np.integer]]:
        """Exact tables one by one, few of them held at a time where the rows are. **Not private.**"""
        run: list[Clique] = []
        cells = 0
        for clique in cliques:
            run.append(clique)
            cells += self.domain.size(clique)
            # Elsewhere every question may read the whole table.
            if self._source.holds_rows and cells >= CELLS_A_RUN:
                yield from self._recall_counts(run)
                run, cells = [], 0
        yield from self._recall_counts(run)

    def __repr__(self) -> str:
        return "Curator()"


def _name(clique: Clique) -> str:
    return "marginal " + " x ".join(clique) if clique else "row count"
