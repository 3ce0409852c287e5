"""appraise: how badly a model fits each of many candidate marginals, all at once, with Gaussian noise.

The score of candidate r is s_r = ‖M_r(D) - E_r‖_1, in rows; all m scores get independent noise of one scale.

**Privacy.** Unit and adjacency: the ledger's, owners capped at k rows. E_r depends on earlier releases only.
*Sensitivity.* For neighbours D and D', the triangle inequality gives |s_r(D) - s_r(D')| <=
‖M_r(D) - M_r(D')‖_1 <= l1. Under add_remove an owner's rows come or go; each of the at most k is in one
cell of M_r, so l1 = k. Under replace_one at most k rows leave cells and at most k others enter some, so
l1 = 2 k. (k = 1 where rows are protected.) One unit can move all m scores by that much, all candidates
being marginals of the same rows, so the vector of scores moves by at most sqrt(m) l1 in L2, and there are
tables where it does.
*Floating point.* Scores are not integers. E_r is first rounded to multiples of a public step 2^-f, so that
2^f s_r = sum over cells |2^f M_r - round(2^f E_r)| is an integer; it is computed in int64 from integers,
with f so small that no sum overflows for tables of up to 2^33 rows. These integers, of squared L2
sensitivity m (2^f l1)^2, are what the event prices and what gets noise. f follows from rho, m, l1 and E_r:
public.
*Cost.* Noise of variance m (2^f l1)^2 / (2 rho), rounded up, costs at most rho in zCDP as the discrete
Gaussian ("zcdp"), and mu = sqrt(2 rho) in GDP as the continuous Gaussian rounded ("gdp"): integer +
round(X) = round(integer + X), a function of the continuous mechanism's answer (`Gaussian`). Dividing by 2^f
afterwards is post-processing. The event is recorded before any noise is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.choose import MAX_DIGITS, ROWS
from margrave.measure.mechanisms.gaussian import LARGEST_NOISE, Gaussian
from margrave.privacy.accounting.events import describe_appraisal
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource

LARGEST_SUM = 61
"""Binary digits that a score may have, in steps."""


def appraise(
    counts: Callable[[], Iterable[NDArray[np.integer]]],
    expected: Sequence[NDArray[np.float64]],
    rho: Fraction,
    ledger: Ledger,
    noise: BitSource,
) -> NDArray[np.float64]:
    """Noisy L1 distances between exact marginals and expected ones, in rows.

    **Privacy.** Costs rho for all of them together; proof at the head of this file.

    Args:
        counts: Gives the exact tables, each of which is looked at once; not called when a resumed run has
            the answer already.
        expected: The model's tables, in rows.
        rho: What all answers together may cost, above 0.
        ledger: Where the spend is recorded.
        noise: Source of random bits.

    Returns:
        One distance a candidate, shape [candidates]; noise can take it below 0.

    Raises:
        InputError: No candidate, rho is not above 0, or expected counts are too large or not finite.
        BudgetError: rho does not fit.
    """
    if not expected:
        raise InputError(invalid("candidates", "one or more", "Do not ask about nothing."))
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give every appraisal a share."))
    l1 = ledger.neighbours.marginal_l1
    # Distances are in whole steps of 2^-digits rows. The grid follows from the noise and from expected
    # tables, so it says nothing about the rows.
    digits = _digits(expected, len(expected) * l1**2 / (2 * ledger.price(rho)))
    gaussian = Gaussian(ledger, noise, len(expected) * (l1 << digits) ** 2)
    what = describe_appraisal([np.ndim(table) for table in expected], digits)

    def exact() -> list[NDArray[np.int64]]:
        # The counts are read by `Gaussian.ask` only, and not at all where a resumed run has the answer.
        pairs = zip(counts(), expected, strict=True)
        return [np.array([_steps(table, model, digits) for table, model in pairs], dtype=np.int64)]

    (found,), _ = gaussian.ask([what], rho, exact)
    return found / 2.0**digits


def _digits(expected: Sequence[NDArray[np.float64]], variance: Fraction) -> int:
    """f: binary digits after the point that sums and noise leave room for, from public numbers alone.

    Raises:
        InputError: The expected counts are too large for exact sums or not finite, or the noise too large.
    """
    # Rounding moves a cell by half a step at most, so a table's sum grows by at most half its cells.
    sums = [float(np.abs(table).sum(dtype=np.float64)) + table.size for table in expected]
    largest = ROWS + float(np.max(sums))
    if not largest < 2.0**52:
        raise InputError(invalid("expected", "finite and below 2^52 in all", "Check the model."))
    # Steps as fine as int64 sums and the sampler's variance leave room for.
    whole = LARGEST_SUM - math.ceil(math.log2(largest))
    drawn = (LARGEST_NOISE - math.ceil(variance).bit_length()) // 2
    if drawn < 0:
        raise InputError(invalid("rho", "enough for a variance below 2^58", "Ask about fewer marginals."))
    return min(MAX_DIGITS, whole, drawn)


def _steps(table: NDArray[np.integer], model: NDArray[np.float64], digits: int) -> int:
    """The L1 distance in steps of 2^-digits, exact. **Not private.**"""
    # Scaling by a power of two is exact, and what lies above 2^53 is whole already.
    rounded = np.rint(np.ldexp(np.asarray(model, dtype=np.float64), digits)).astype(np.int64)
    return int(np.abs((table.astype(np.int64) << digits) - rounded).sum())
