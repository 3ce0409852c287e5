"""votes: teachers that each learn from a part of the rows answer public questions, with noisy counts of
votes.

Every row is given to one of T teachers, drawn anew for this call. In each of R rounds an `Ensemble` lets
every teacher learn from rows of its part and then answer Q questions with yes or no. Released is, for each
question, how many teachers said yes, plus Gaussian noise; the public side moves on from that, and asks the
next questions. Only the final public state leaves this file. (Private aggregation of teacher ensembles:
Papernot et al. 2017, with Gaussian noise on counts as in Papernot et al. 2018, algorithm 1.)

**Privacy.** Unit and adjacency: the ledger's, owners capped at k rows (1 where rows are protected); any
adjacency. *Parts.* The teacher of a row is drawn by 64 fresh bits of the secure source, alike for all rows
and independently of all else, so it does not matter which rows get which bits. Take two neighbouring tables,
and give the rows that they share the same teachers, the same numbers and the same noise; and each row that
one has in the place of another the same teacher as that other. (Both tables then have the law that they
should have.) At most k rows come, go or are exchanged, so the parts of at most m = min(k, T) teachers
differ: under add_remove and zero_out a row is missing from its part (an erased row is in no part), under
replace_one and replace_private a row of it is another.
*One teacher.* What a teacher is, and how it votes, hangs on its own part, its own random numbers and the
public state alone, as `Ensemble.taught` is called for each teacher by itself, with what is its own. The rows
that it is shown in a round are drawn with replacement from its part, always as many: an ensemble never sees
how large a part is. A teacher without a row votes no. So a teacher whose part is the same votes the same,
and the count of yes for one question moves by at most m, whatever the questions: by exactly m where the
teachers that differ agree.
*Cost.* Given the public state the counts of a round, Q whole numbers, move by at most m sqrt(Q) in L2; with
noise of variance sigma^2 the R rounds compose adaptively to rho = R Q m^2 / (2 sigma^2) ("zcdp", discrete
Gaussian), or to mu^2 = R Q m^2 / sigma^2 ("gdp", the continuous one rounded): as one answer of squared
sensitivity R Q m^2, which is what is recorded, before the first bit is drawn. It depends on no vote: bounds
that use how far teachers agree (moments of PATE) would make epsilon, and the time to stop, private
themselves.
*Gaussian or Laplace.* The difference of yes and no moves by 2 m; Laplace noise of scale b on both costs
2 / b^2 in rho and has a variance of 4 b^2 in the difference, Gaussian noise of sigma on one costs 1 / (2
sigma^2) and has 4 sigma^2: at one rho the variance is a quarter.
*What decides nothing.* Rounds, questions and teachers are fixed before the first look; no clock and no count
can end the call earlier. A call that is killed has been paid for and left nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.measure.mechanisms.gaussian import Gaussian, check_drawable
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.privacy.unit import Neighbours
from margrave.schema.encoded import Encoded, code_dtype

if TYPE_CHECKING:
    from margrave.protocols import Ensemble

MOST_TEACHERS = 1 << 20
"""Most teachers, a bound on memory: each is kept, whatever its part. Not measured."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """How often teachers are asked.

    Args:
        teachers: T, parts of the rows.
        rounds: R, in each of which teachers learn and vote.
        on_round: Told the number of each round before it begins, for the operator; it changes nothing.

    Raises:
        InputError: An argument is out of range.
    """

    teachers: int
    rounds: int
    on_round: Callable[[int], None]

    def __post_init__(self) -> None:
        check_counts(teachers=self.teachers, rounds=self.rounds)
        if self.teachers > MOST_TEACHERS:
            most = f"at most {MOST_TEACHERS}"
            raise InputError(invalid("teachers", most, "Each needs rows of its own.", got=self.teachers))


def votes(
    rows: Callable[[], Encoded],
    ensemble: Ensemble,
    rho: Fraction,
    ballot: Ballot,
    ledger: Ledger,
    noise: BitSource,
) -> tuple[NDArray[np.float64], ...]:
    """What an ensemble's public side has become after some rounds of votes: the arrays of its `finished`.

    **Privacy.** Costs rho for all rounds together; proof at the head of this file.

    Args:
        rows: Gives the private rows; not called when a resumed run has the answer already.
        ensemble: The teachers, and who asks them.
        rho: What all votes may cost, above 0.
        ballot: How often they are asked.
        ledger: Where the spend is recorded; its neighbours set the sensitivity.
        noise: Source of random bits.

    Raises:
        InputError: rho is not above 0, or the ensemble asks nothing.
        BudgetError: rho does not fit.
    """
    check_counts(questions=ensemble.questions, shown=ensemble.shown)
    # Of all questions of all rounds together: votes of later rounds hang on released answers of earlier
    # ones, which composition allows.
    squared = ballot.rounds * ensemble.questions * bound_votes(ballot.teachers, ledger.neighbours) ** 2
    gaussian = Gaussian(ledger, noise, squared)
    variance = check_drawable(gaussian.sigma_squared(rho))
    sigma = gaussian.deviation(variance)
    asked = f"{ballot.rounds} x {ensemble.questions} questions"
    event = GaussianEvent(
        f"votes of {ballot.teachers} teachers on {asked}", squared, variance, gaussian.rounded
    )

    def answer(private: Encoded) -> Answer:
        kind = code_dtype(max(private.domain.sizes, default=1))
        codes = np.stack([column.astype(kind) for column in private.columns], axis=1)
        # Who teaches whom is drawn before any teacher learns, and does not change: a row has one teacher in
        # all rounds.
        parts = assign_teachers(codes, ballot.teachers, noise)
        members = [ensemble.hire(place) for place in range(ballot.teachers)]
        state = ensemble.start()
        for number in range(ballot.rounds):
            ballot.on_round(number)
            exact = count_votes(ensemble, state, members, parts, noise)
            state = ensemble.moved(state, gaussian.noisy(exact, variance), sigma)
        return Answer(ensemble.finished(state))

    found = ledger.ask([event], rows, answer).arrays
    if [array.shape for array in found] != [array.shape for array in ensemble.finished(ensemble.start())]:
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    return found


def bound_votes(teachers: int, neighbours: Neighbours) -> int:
    """By how much the votes for yes on one question can differ between neighbours, under any adjacency."""
    return min(neighbours.unit.max_rows, teachers)


def assign_teachers(codes: NDArray[Any], teachers: int, noise: BitSource) -> list[NDArray[Any]]:
    """The rows of each teacher, drawn for each row by itself. **Not private.**

    Args:
        codes: Of the rows, [rows, attributes].
        teachers: How many there are.
        noise: Source of random bits.
    """
    # The high half of 64 bits times T, of which the high half again is a teacher's number.
    places = (noise.words(len(codes)) >> np.uint64(32)) * np.uint64(teachers) >> np.uint64(32)
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(1, teachers, dtype=np.uint64))
    return np.split(codes[order], ends)


def count_votes(
    ensemble: Ensemble, state: Any, members: list[Any], parts: list[NDArray[Any]], noise: BitSource
) -> NDArray[np.int64]:
    """How many teachers say yes to each question of a round, after learning, shape [questions]. **Not
    private.**

    Args:
        ensemble: Who they are.
        state: The public state.
        members: What each teacher has become, changed in place.
        parts: The rows of each.
        noise: Source of random bits; each teacher takes as many, whatever its part.
    """
    found = np.zeros(ensemble.questions, dtype=np.int64)
    for place, part in enumerate(parts):
        # Each teacher's words are drawn even if it has no rows, so that nobody else's depend on its part.
        words = noise.words(ensemble.shown + ensemble.uniforms)
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        if not len(part):
            continue
        # Rows are drawn with replacement; the minimum guards against rounding at the upper end.
        drawn = np.minimum((uniform[: ensemble.shown] * len(part)).astype(np.int64), len(part) - 1)
        own = uniform[ensemble.shown :]
        members[place], said = ensemble.taught(state, members[place], part[drawn].astype(np.int64), own)
        yes = np.asarray(said) > 0.0  # what is no number says no
        if yes.shape != found.shape:
            remedy = "Return one number a question, above 0 for yes."
            raise InputError(invalid("ensemble", "one whose teachers answer every question once", remedy))
        found += yes
    return found
