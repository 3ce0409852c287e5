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

__all__ = ["SHARE", "halves", "pick", "scores"]

Floats = NDArray[np.float64]

SHARE = 1.0 / 3.0
"""g^2: A keeps three quarters of the precision, B a quarter."""
FLOOR = 1e-4
"""Added to a cell's share before its inverse weighs the cell's squared error."""
SURE = 2.0
"""Standard errors by which a candidate must beat the default to be preferred."""


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


def scores(
    expected: Sequence[Sequence[Floats]], judged: Sequence[Pooled], rows: float, default: int
) -> tuple[Floats, Floats]:
    """Estimated errors of candidates less that of the default, and their standard errors.

    The error of a model M is sum over cells of v (M - truth)^2, estimated by v ((M - B)^2 - variance), in
    proportions, with v = 1 / (mean of the candidates + FLOOR): near to what total variation asks, since
    cells err about as the root of what they hold. In a difference the squares of B cancel, so that its
    standard error, 2 sqrt(sum v^2 (M - M')^2 variance), is known. An inferred pair is held to be the product
    of its one-ways, so a model's error in it is how far it is from the product of its own.

    Args:
        expected: For each candidate, its model's tables in rows, one for each judged table.
        judged: The half of the measurements that was not fitted.
        rows: What a proportion is of.
        default: Which candidate the others are compared with.

    Returns:
        Differences and standard errors, each of shape [candidates]; both 0 for the default.
    """
    gain, spread = np.zeros(len(expected)), np.zeros(len(expected))
    for place, table in enumerate(judged):
        shares = [tables[place] / rows for tables in expected]
        weight = 1.0 / (np.maximum(sum(shares) / len(shares), 0.0) + FLOOR)
        seen, variance = table.values / rows, (table.sigma / rows) ** 2
        if table.inferred:
            off = [share - np.multiply.outer(share.sum(axis=1), share.sum(axis=0)) for share in shares]
            worse = np.array([float((weight * step**2).sum()) for step in off])
            gain += worse - worse[default]
            continue
        base = shares[default]
        for index, share in enumerate(shares):
            step = share - base
            gain[index] += float((weight * step * (share + base - 2.0 * seen)).sum())
            spread[index] += float((weight**2 * step**2 * variance).sum())
    return gain, 2.0 * np.sqrt(spread)


def pick(
    expected: Sequence[Sequence[Floats]],
    judged: Sequence[Pooled],
    rows: float,
    default: int,
    sure: float = SURE,
) -> int:
    """The candidate whose estimated error is least; the default unless another is better beyond doubt.

    sure: standard errors that mean beyond doubt. See `scores` for the other arguments.
    """
    gain, spread = scores(expected, judged, rows, default)
    clear = np.where(gain + sure * spread < 0.0, gain, np.inf)
    clear[default] = 0.0
    return int(np.argmin(clear))
