"""correlate: whether many pairs of attributes rise together, a number a pair, with Gaussian noise.

The answer for a pair (a, b) is the sum over rows of s_a(row) s_b(row), where s is a public score of each
code, a whole number from -S to S, S = SCORE_STEPS (`margrave.release.RankProduct`). It is read off the pair's
exact table, so that any engine answers it.

**Privacy.** Unit and adjacency: the ledger's, owners capped at k rows. Scores depend on earlier releases and
public things only.
*Sensitivity.* A row adds a product of two scores, at most S^2 in absolute value, to each of the m answers.
Under add_remove the at most k rows of an owner come or go, so an answer moves by at most k S^2; under
replace_one at most k rows leave and at most k others enter, so by at most 2 k S^2. (k = 1 where rows are
protected.) That is l1 S^2, l1 = `Neighbours.marginal_l1`. One unit can move all answers by so much: their
vector moves by at most sqrt(m) l1 S^2 in L2, and does where all scores are S or -S.
*Cost.* The answers are integers. They get noise of variance m (l1 S^2)^2 / (2 rho), rounded up, and cost at
most rho in zCDP and mu = sqrt(2 rho) in GDP (`margrave.measure.mechanisms.gaussian`). The event is recorded
before any noise is drawn. Dividing by S^2 afterwards is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.release import SCORE_STEPS
from margrave.schema.domain import Clique, Domain

Longs = NDArray[np.int64]


def check_scores(domain: Domain, pairs: Sequence[Clique], scores: Mapping[str, Longs]) -> None:
    """Find that each attribute of the pairs has a score for each of its codes: the sensitivity rests on it.

    Raises:
        InputError: There is no pair, a clique is not one, or scores are not whole numbers
            from -SCORE_STEPS to SCORE_STEPS, one a code.
    """
    if not pairs:
        raise InputError(invalid("pairs", "one or more", "Do not ask about nothing."))
    if any(len(pair) != 2 for pair in pairs):
        raise InputError(invalid("pairs", "of two attributes each", "Ask about others by `measure`."))
    for name in sorted({name for pair in pairs for name in pair}):
        own = np.asarray(scores.get(name, ()))
        whole = own.shape == (domain[name],) and own.dtype.kind == "i"
        # Both ends by themselves: the absolute value of the least whole number of a type is negative.
        if not (whole and own.min() >= -SCORE_STEPS and own.max() <= SCORE_STEPS):
            constraint = f"whole numbers from -{SCORE_STEPS} to {SCORE_STEPS}, one for each code of {name!r}"
            raise InputError(invalid("scores", constraint, "Round them before."))


def correlate(
    counts: Callable[[], Iterable[NDArray[np.integer]]],
    pairs: Sequence[Clique],
    scores: Mapping[str, Longs],
    rho: Fraction,
    ledger: Ledger,
    noise: BitSource,
) -> tuple[NDArray[np.float64], float]:
    """Noisy sums over rows of the products of two attributes' scores.

    **Privacy.** Costs rho for all of them together; proof at the head of this file.

    Args:
        counts: Gives the exact tables of the pairs, each of which is looked at once; not called when a
            resumed run has the answer already.
        pairs: What is asked about, found to be sound by `check_scores`.
        scores: From -SCORE_STEPS to SCORE_STEPS for each code of each attribute, shape [codes].
        rho: What all answers together may cost, above 0.
        ledger: Where the spend is recorded.
        noise: Source of random bits.

    Returns:
        One sum a pair, in rows and of scores from -1 to 1, shape [pairs], and the standard deviation of
            their noise.

    Raises:
        InputError: rho is not above 0.
        BudgetError: rho does not fit.
    """
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give the correlations a share."))
    steps = SCORE_STEPS**2
    gaussian = Gaussian(ledger, noise, len(pairs) * (ledger.neighbours.marginal_l1 * steps) ** 2)

    def exact() -> list[Longs]:
        # The counts are read by `Gaussian.ask` only, and not at all where a resumed run has the answer.
        tables = zip(pairs, counts(), strict=True)
        sums = [scores[a] @ table.astype(np.int64) @ scores[b] for (a, b), table in tables]
        return [np.array(sums, dtype=np.int64)]

    (found,), sigma = gaussian.ask([f"rank products of {len(pairs)} pairs"], rho, exact)
    return found / steps, sigma / steps
