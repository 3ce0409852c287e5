"""Splitting: two independent sets of measurements out of one, to choose between models without paying.

A measurement y = truth + sigma z is public. Fresh noise z' makes A = y + g sigma z' and B = y - sigma z' / g,
whose noises have covariance sigma^2 - sigma^2 = 0: for Gaussian noise they are independent, A with variance
sigma^2 (1 + g^2), B with sigma^2 (1 + 1 / g^2). What is fitted on A is judged on B without bias, as on a
second release that was never bought. The discrete Gaussian is Gaussian enough for this wherever sigma is a
few rows. This is data thinning (Neufeld, Dharamshi, Gao and Witten 2024) of a released table.

**Privacy.** Post-processing: z' is drawn from a generator of the caller and looks at releases only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.pooled import Pooled

__all__ = ["SHARE", "compare", "halves"]

Floats = NDArray[np.float64]

SHARE = 1.0 / 3.0
"""g^2: A keeps three quarters of the precision, B a quarter."""
FLOOR = 1e-3
"""Added to a cell's share before its inverse weighs the cell's squared error; of 0, 1e-4, 1e-3 and 1e-2 this
chose best on the tables of bench/LOG.md."""
SURE = 2.0
"""Standard deviations of an appraised dependence by which a model's may exceed it at no charge."""


def halves(
    tables: Sequence[Pooled], rng: np.random.Generator, share: float = SHARE
) -> tuple[list[Pooled], list[Pooled]]:
    """Measurements to fit on and measurements to judge by, with independent noise.

    Inferred tables hold no noise and stay as they are in both.

    Args:
        tables: One table a clique, as from `pool`.
        rng: Source of the fresh noise.
        share: g^2, above 0: variances grow by 1 + g^2 and by 1 + 1 / g^2.
    """
    fitted, judged = [], []
    for table in tables:
        if table.inferred:
            fitted.append(table)
            judged.append(table)
            continue
        noise = table.sigma * rng.standard_normal(table.values.shape)
        root = math.sqrt(share)
        fitted.append(Pooled(table.clique, table.values + root * noise, table.sigma * math.sqrt(1 + share)))
        judged.append(
            Pooled(table.clique, table.values - noise / root, table.sigma * math.sqrt(1 + 1 / share))
        )
    return fitted, judged


def compare(
    rival: Sequence[Floats], default: Sequence[Floats], judged: Sequence[Pooled], rows: float
) -> tuple[float, float]:
    """Estimated error of one model less that of another, and the estimate's standard error.

    The error of a model M, in proportions, is a sum over all measured tables of

        sum over cells of v (M - truth)^2   and, in a pair,   sum over cells of v (L M - L truth)^2

    with v = 1 / (mean of the two models + FLOOR), near to what total variation asks, since cells err about as
    the root of what they hold. L takes out of a pair what its one-ways say, (I - q 1') M (I - 1 p') for the
    mean one-ways q and p of the two models, so that dependence counts twice: once in the table, and once for
    itself. In the difference of two models the squares of B cancel: it is linear in B, hence unbiased, and
    its standard error is known.

    Of a pair that nobody measured only the appraised total variation R from independence is known. A model
    errs there at least by as much as its own dependence exceeds R, by the triangle inequality, so no less
    than 4 (excess)^2 in squares over shares; the excess counts beyond SURE standard deviations of R.

    Args:
        rival: One model's tables in rows, one for each judged table.
        default: The other's.
        judged: The half of the measurements that was not fitted, and what was inferred.
        rows: What a proportion is of.

    Returns:
        The difference, below 0 where the rival is better, and its standard error.
    """
    gain, variance = 0.0, 0.0
    for table, one, other in zip(judged, rival, default, strict=True):
        one, other = one / rows, other / rows
        if table.inferred:
            allowed = table.distance + SURE * table.uncertainty
            gain += 4.0 * (_excess(one, allowed) ** 2 - _excess(other, allowed) ** 2)
            continue
        mean = np.maximum(0.5 * (one + other), 0.0)
        weight = 1.0 / (mean + FLOOR)
        # v (M^2 - M'^2 - 2 (M - M') B) is v (M - M') (M + M' - 2 B); the same for L M.
        step, off = one - other, one + other - 2.0 * table.values / rows
        pull = weight * step
        gain += float((pull * off).sum())
        if one.ndim == 2:
            q, p = mean.sum(axis=1) / mean.sum(), mean.sum(axis=0) / mean.sum()
            inner = weight * _interaction(step, q, p)
            gain += float((inner * _interaction(off, q, p)).sum())
            pull = pull + _adjoint(inner, q, p)
        variance += float(((2.0 * pull * table.sigma / rows) ** 2).sum())
    return gain, math.sqrt(variance)


def _interaction(table: Floats, q: Floats, p: Floats) -> Floats:
    """(I - q 1') T (I - 1 p'): what is left of a pair's table, [codes, codes], beyond its one-ways."""
    centred = table - np.multiply.outer(q, table.sum(axis=0))
    return np.asarray(centred - np.multiply.outer(centred.sum(axis=1), p))


def _adjoint(table: Floats, q: Floats, p: Floats) -> Floats:
    """(I - 1 q') T (I - p 1'): the transpose of `_interaction` as a linear map."""
    centred = table - (q @ table)[None, :]
    return np.asarray(centred - (centred @ p)[:, None])


def _excess(table: Floats, allowed: float) -> float:
    """By how much a pair's total variation from the product of its one-ways exceeds what is allowed."""
    if not math.isfinite(allowed):
        return 0.0
    product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0))
    return max(0.5 * float(np.abs(table - product).sum()) - allowed, 0.0)
