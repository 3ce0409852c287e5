"""Curator: the door with its verbs. Whatever leaves the private table leaves through one of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.door import Door, stop_clock
from margrave.measure.mechanisms.appraise import appraise
from margrave.measure.mechanisms.choose import choose
from margrave.measure.mechanisms.correlate import check_scores, correlate
from margrave.measure.mechanisms.gradients import Course, train
from margrave.measure.mechanisms.moments import moments
from margrave.measure.mechanisms.regression.perturb import Objective, perturb
from margrave.measure.mechanisms.regression.slopes import Slope, slopes
from margrave.measure.mechanisms.regression.statistics import statistics
from margrave.measure.mechanisms.regression.sums import needed_cliques, sums
from margrave.measure.mechanisms.slices import slices
from margrave.measure.mechanisms.verb import Verb, read_exact
from margrave.measure.mechanisms.votes import Ballot, votes
from margrave.release import (
    NoisyMarginal,
    NoisyMoments,
    NoisySlices,
    NoisySlope,
    NoisyStatistics,
    NoisySums,
)
from margrave.schema.domain import Clique
from margrave.schema.features import Embedding, RowNumbers

if TYPE_CHECKING:
    from margrave.protocols import Ensemble, Learner


class Curator(Door):
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

        See `margrave.measure.mechanisms.regression.sums` for the proof. It needs tables of two attributes
        alone, so any engine answers it.

        Args:
            numbers: Of the codes of attributes of the domain, public.
            rho: What the answer may cost, above 0.
        """
        numbers.check(self.domain)
        found = sums(self._count_in_runs, numbers, rho, self._ledger, self._noise)
        self._charge(needed_cliques(numbers))
        return found

    @stop_clock
    def statistics(self, numbers: RowNumbers, rhos: tuple[Fraction, Fraction, Fraction]) -> NoisyStatistics:
        """Release X'X, X'y and the smallest eigenvalue of X'X apart, with Gaussian noise; a rho for each.

        See `margrave.measure.mechanisms.regression.statistics` for the arguments, the errors and the proof.
        """
        numbers.check(self.domain)
        found = statistics(self._counts, numbers, rhos, self._ledger, self._noise)
        self._charge(needed_cliques(numbers))
        return found

    @stop_clock
    def slopes(self, slope: Slope, rho: Fraction, curvature_rho: Fraction = Fraction(0)) -> NoisySlope:
        """Release the gradient of a regression at public coefficients, and its curvature if that has a rho.

        See `margrave.measure.mechanisms.regression.slopes` for the arguments, the errors and the proof.
        """
        slope.numbers.check(self.domain)
        rows = self._rows()
        return slopes(lambda: rows, slope, rho, curvature_rho, self._ledger, self._noise)

    @stop_clock
    def perturb(self, objective: Objective, rho: Fraction) -> tuple[NDArray[np.float64], float, float]:
        """Release a logistic regression by objective perturbation; rho for all of it.

        See `margrave.measure.mechanisms.regression.perturb` for what is returned, the errors and the proof.
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

    def __repr__(self) -> str:
        return "Curator()"


def _name(clique: Clique) -> str:
    return "marginal " + " x ".join(clique) if clique else "row count"
