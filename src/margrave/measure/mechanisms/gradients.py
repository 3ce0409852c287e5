"""train: gradient descent on Poisson samples of the rows, every row's gradient clipped, with Gaussian noise.

In each of T steps every row is taken with probability q. A `Learner` says, for the weights of that moment,
what gradient each row has, as factors: with every weight matrix go, for each of K draws of a row, a left
vector and a right one, and the row's gradient is the sum over the draws of their outer products. (Layers of
a network give just that, and rows by weights is never held.) Released is the sum over the rows taken, each
clipped to norm c, plus noise; the learner moves on from that. Only the final state leaves this file.

**Privacy.** Unit and adjacency: one row that comes or goes; all else is refused before anything is spent.
*One row.* Left vectors are rounded to steps of 2^-14 c, right ones to steps of 2^-8, both cut to at most
2^4 c and 2^6. The row's gradient is then a matrix of whole numbers, G = sum_k l_k r_k^T; its squared norm
is the sum over all pairs of draws of (l_k . l_k')(r_k . r_k'), and it is looked at in whole numbers,
*after* the left vectors were scaled down and rounded again. A row whose G is longer than S = 2^22 counts as
0. So |G| <= S for every row and every learner, whatever numbers it returns; other shapes than one gradient
a row are refused.
*No number overflows.* Let the learner have weight matrices j with out_j rows, in_j columns and K_j draws.
`_check_exact` refuses all but out_j <= 2^17, in_j <= 2^25 and sum_j K_j^2 <= 2^13. (1) In whole steps a left
number is at most 2^18 and a right one 2^14. A scalar product of two left vectors is at most out_j 2^36 <=
2^53, one of two right vectors at most in_j 2^28 <= 2^53, and so are their partial sums: exact in float64,
in any order. (2) A row is kept only if every one of its products of two such scalar products is below 2^50
in float64; then both factors and their product are exact as int64 too, and the squared norm, a sum of at
most 2^13 products, stays below 2^13 2^50 = 2^63 with all its partial sums: it cannot wrap round to a small
number. In rows that are not kept the products may wrap, and nothing is done with them. (3) The scale is
looked for with terms of at most 2^40, of which 2^13 sum to 2^53 at most. (4) K_j <= 90, so a number of
the sum over a block of 512 rows has at most 512 K_j < 2^16 products of at most 2^18 2^14 = 2^32, and their
partial sums are below 2^48. (5) A number of G is at most |G| <= S = 2^22. The sum over n rows is at most
2^22 n, below 2^62 for every table of fewer than 2^40 rows. Its noise has a variance of at most 2^60; to
reach 2^62 it would have to be 2^32 standard deviations, for which the sampler would have to draw more than
2^62 random bits.
*Sampling.* A row is taken when 32 fresh bits of the secure source, as a number, are below q 2^32, a whole
number. So samples are exactly Poisson, each step anew, and their size is not released.
*What a row adds hangs on itself alone*: on its codes, the weights, and its uniform numbers, which come from
the secure source, so that it does not matter who gets which (`privacy.accounting.renyi`). All
arithmetic here is elementwise or on whole numbers of at most 2^53 in float64, where sums have no order: no
row is rounded differently beside others. The same is asked of the learner, which must be a function of the
rows one by one: this file cannot see whether it is (`models.diffusion.denoiser` says why it is, for the one
there is). *Cost.* T sums of integer vectors of squared sensitivity S^2, each with the continuous Gaussian of
variance sigma^2 rounded to integers: `SubsampledGaussianEvent`, priced by `Renyi`. What the learner makes of
the noisy sums is post-processing. The event is recorded before the first bit is drawn. The number of steps is
fixed before the first, and no clock can change it: how long a step takes depends on the size of its sample.
The final state is the one answer that is stored: a training that is killed has been paid for and left
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import check_drawable
from margrave.privacy.accounting.accountants import Renyi
from margrave.privacy.accounting.events import SubsampledGaussianEvent
from margrave.privacy.accounting.renyi import check_sampled, least_variance
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource, rounded_gaussian
from margrave.schema.encoded import Encoded, code_dtype

if TYPE_CHECKING:
    from margrave.protocols import Learner

LEFT, RIGHT = 14, 8
"""Binary digits of the steps of left and right factors."""
MOST_LEFT, MOST_RIGHT = float(1 << 18), float(1 << 14)
"""Factors are cut to so many steps."""
NORM = 1 << LEFT + RIGHT
"""S: the norm c, in steps of both."""
CLIP_MARGIN = 1 - 2.0**-6
"""Rows are scaled to this part of S, so that rounding takes few of them past it."""
GRAM = 2.0**-30
"""Products of scalar products are rounded to steps of 2^30 where a scale is looked for: S^2 is 2^44."""
WIDEST_LEFT, WIDEST_RIGHT = 1 << 17, 1 << 25
"""Longest left and right vectors, for exact scalar products."""
MOST_PAIRS = 1 << 13
"""Most pairs of draws of a row, over all weight matrices: so many products below 2^50 stay below 2^63."""
ROWS = 512
"""Rows whose factors are held at once."""
DRAWS_PER_UNIT = 1 << 32
"""A row is in a sample if its 32 random bits are below the rate times this: rates are whole multiples of
2^-32."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a training goes.

    Args:
        steps: Gradients. All are taken: an end that came earlier would tell how long they took.
        rate: Probability of each row to be in one, above 0 and at most 1, a multiple of 2^-32.
        clip: c, above 0: the largest norm of a row's gradient, in the learner's unit.
        on_gradient: Told the number of each step before it is taken, for the operator; it changes nothing.

    Raises:
        InputError: An argument is out of range.
    """

    steps: int
    rate: Fraction
    clip: float
    on_gradient: Callable[[int], None]

    def __post_init__(self) -> None:
        sound = self.steps >= 1 and 0 < self.rate <= 1 and 0 < self.clip < 2.0**40
        if not sound or (self.rate * DRAWS_PER_UNIT).denominator != 1:
            remedy = "Try 100 steps, rate=Fraction(1, 32), clip=1.0."
            raise InputError(invalid("steps, rate and clip", "above 0, rate a multiple of 2^-32", remedy))


def train(
    rows: Callable[[], Encoded],
    learner: Learner,
    rho: Fraction,
    course: Course,
    ledger: Ledger,
    noise: BitSource,
) -> tuple[NDArray[np.float64], ...]:
    """What a learner has become after some steps of noisy gradient descent: the arrays of its `finished`.

    **Privacy.** Costs rho for all steps together; proof at the head of this file.

    Args:
        rows: Gives the private rows; not called when a resumed run has the answer already.
        learner: What learns.
        rho: What the training may cost, above 0, in the ledger's rho at its order.
        course: How it goes.
        ledger: Where the spend is recorded, kept by `Renyi`.
        noise: Source of random bits.

    Raises:
        InputError: rho is not above 0, or the ledger's neighbours or accountant are others.
        BudgetError: rho does not fit.
    """
    check_sampled(ledger.neighbours)
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give the training a share."))
    event = _event(learner, course, ledger, ledger.price(rho))
    found = ledger.ask(
        [event],
        rows,
        lambda private: Answer(_train_learner(private, learner, course, event.sigma_squared, noise)),
    ).arrays
    # An answer from an earlier run is used as it is, so it has to fit this learner.
    # A learner's start has the shapes of its end, so a stored answer is checked without training.
    if [array.shape for array in found] != [array.shape for array in learner.finished(learner.start())]:
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    return found


def _event(learner: Learner, course: Course, ledger: Ledger, price: Fraction) -> SubsampledGaussianEvent:
    """What is recorded: the training with the least noise that a price pays for."""
    accountant = ledger.accountant
    if not isinstance(accountant, Renyi):
        remedy = "Let the `Synthesizer` make the ledger, or make it with `Renyi(order)`."
        raise InputError(invalid("accountant", "one that prices samples of rows", remedy))
    sizes = " and ".join(f"{out} x {into}" for out, into in learner.shapes)
    what = f"{course.steps} clipped gradients of weights {sizes}, each of a sample of the rows"

    def event(variance: Fraction) -> SubsampledGaussianEvent:
        return SubsampledGaussianEvent(what, course.steps, course.rate, NORM**2, variance, accountant.order)

    least = least_variance(price, NORM**2, lambda variance: accountant.cost(event(variance)))
    return event(check_drawable(least))


def _train_learner(
    private: Encoded, learner: Learner, course: Course, variance: Fraction, noise: BitSource
) -> tuple[NDArray[np.float64], ...]:
    """The learner's arrays after its steps; called inside `Ledger.ask`, once the event is recorded."""
    # The narrowest type that holds all codes, since every step copies the rows that it takes.
    kind = code_dtype(max(private.domain.sizes, default=1))
    codes = np.stack([column.astype(kind) for column in private.columns], axis=1)
    state, weights = learner.start(), sum(out * into for out, into in learner.shapes)
    ends = np.cumsum([out * into for out, into in learner.shapes])[:-1]
    # The state moves by noisy sums alone. Rows meet the learner inside `sum_gradients` only, which clips
    # what each of them adds.
    for step in range(course.steps):
        course.on_gradient(step)
        taken = codes[sample_places(len(codes), course.rate, noise)].astype(np.int64)
        exact = sum_gradients(learner, state, taken, course.clip, noise)
        noisy = (exact + rounded_gaussian(variance, weights, noise)) / float(NORM)
        parts = zip(np.split(noisy, ends), learner.shapes, strict=True)
        state = learner.moved(state, [part.reshape(shape) for part, shape in parts])
    return learner.finished(state)


def sample_places(rows: int, rate: Fraction, noise: BitSource) -> NDArray[np.int64]:
    """Places of the rows taken, each with probability `rate` by itself. **Not private.**"""
    # Two coins a word: each row has 32 bits of its own.
    draws = noise.words((rows + 1) // 2).view(np.uint32)[:rows]
    # 32 random bits fall below rate times 2^32 with exactly the probability `rate`.
    return np.flatnonzero(draws.astype(np.uint64) < np.uint64(int(rate * DRAWS_PER_UNIT)))


def sum_gradients(
    learner: Learner, state: Any, codes: NDArray[np.int64], clip: float, noise: BitSource
) -> NDArray[np.int64]:
    """The sum of the rows' clipped gradients in whole steps, shape [weights]. **Not private.**"""
    found = np.zeros(sum(out * into for out, into in learner.shapes), dtype=np.int64)
    for first in range(0, len(codes), ROWS):
        block = codes[first : first + ROWS]
        words = noise.words(len(block) * learner.uniforms)
        # 53 bits in the middle of their interval, so that neither 0 nor 1 occurs.
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        factors = learner.factors(state, block, uniform.reshape(len(block), learner.uniforms))
        _check_shapes(factors, learner.shapes, len(block))
        parts = []
        for left, right in clip_factors([(left * (1 / clip), right) for left, right in factors]):
            # Exact: see (4) at the head of this file.
            product = left.flatten(0, 1).T @ right.flatten(0, 1)
            parts.append(product.cpu().numpy().ravel())
        found += np.concatenate(parts).astype(np.int64)
    return found


def clip_factors(factors: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Factors in whole steps, of rows whose gradient has norm S at most; proof at the head of this file.

    Args:
        factors: For each weight matrix left and right factors, float64 tensors [rows, draws, out] and [rows,
            draws, in], in units in which the norm may be 1.

    Raises:
        InputError: They are too many or too long for exact arithmetic.
    """
    _check_exact(factors)
    rights = [(right * 2.0**RIGHT).round().clamp(-MOST_RIGHT, MOST_RIGHT) for _, right in factors]
    lefts = [(left * 2.0**LEFT).round().clamp(-MOST_LEFT, MOST_LEFT) for left, _ in factors]
    # What is no number counts as 0, after the cut, so that no learner can make a row's norm undefined.
    rights = [right.nan_to_num(0.0) for right in rights]
    lefts = [left.nan_to_num(0.0) for left in lefts]
    grams = [_gram(right) for right in rights]
    coarse: Any = 0.0
    # Whole numbers of at most 2^40, up to MOST_PAIRS of them: their sums are exact, and so the same beside
    # any other rows.
    for left, gram in zip(lefts, grams, strict=True):
        terms = (_gram(left) * gram * GRAM).round().clamp(-(2.0**40), 2.0**40)
        coarse = coarse + terms.sum(dim=(1, 2))
    # Never above 1: short rows keep their gradients.
    scale = (CLIP_MARGIN * NORM / (coarse / GRAM).clamp(min=1.0).sqrt()).clamp(max=1.0)
    lefts = [(left * scale[:, None, None]).round() for left in lefts]
    # Rounding may have made a row longer than S again, so the norm is looked at afterwards, in whole numbers.
    kept = _within(lefts, grams)
    return [(left * kept, right) for left, right in zip(lefts, rights, strict=True)]


def _within(lefts: list[Any], grams: list[Any]) -> Any:
    """1 for rows whose squared norm, in whole numbers, is at most S^2, and 0 for others: [rows, 1, 1]."""
    exact: Any = 0
    small: Any = True
    for left, gram in zip(lefts, grams, strict=True):
        own = _gram(left)
        small = small & ((own * gram).abs().amax(dim=(1, 2)) < 2.0**50)  # so that no sum can overflow
        exact = exact + (own.long() * gram.long()).sum(dim=(1, 2))  # below 2^63 where it counts: see (2)
    return (small & (exact >= 0) & (exact <= NORM**2)).double()[:, None, None]


def _check_shapes(factors: list[tuple[Any, Any]], shapes: Sequence[tuple[int, int]], rows: int) -> None:
    """Check that a learner gave each row's gradient, and nothing more: the proof counts rows.

    Raises:
        InputError: It gave other shapes, or other numbers than float64.
    """
    sound = len(factors) == len(shapes)
    for (left, right), (out, into) in zip(factors, shapes, strict=False):
        draws = left.shape[1] if left.ndim == 3 else 0
        sound &= tuple(left.shape) == (rows, draws, out) and tuple(right.shape) == (rows, draws, into)
        sound &= str(left.dtype) == str(right.dtype) == "torch.float64"
    if not sound:
        remedy = "See `margrave.protocols.Learner`."
        raise InputError(invalid("learner", "one whose factors are float64, rows by draws by width", remedy))


def _check_exact(factors: list[tuple[Any, Any]]) -> None:
    """Check that factors are few and short enough for the proof at the head of this file.

    Their shapes are public: a learner gives every row as many draws, whatever the row holds.

    Raises:
        InputError: They are not.
    """
    lefts, rights = max(left.shape[-1] for left, _ in factors), max(right.shape[-1] for _, right in factors)
    pairs = sum(left.shape[1] ** 2 for left, _ in factors)
    if lefts > WIDEST_LEFT or rights > WIDEST_RIGHT or pairs > MOST_PAIRS:
        most = f"of at most {MOST_PAIRS} pairs of draws, and of layers of {WIDEST_LEFT} outputs at most"
        raise InputError(invalid("learner", most, "Use fewer draws or narrower layers."))


def _gram(factor: Any) -> Any:
    """Scalar products of a row's draws with each other, exact: [rows, draws, draws]."""
    return factor @ factor.transpose(1, 2)
