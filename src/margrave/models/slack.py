"""Slack: how far an additive model may stay from each measured pair, by its noise and by what it shows.

Noise alone does not say how much a potential is to be shrunk. Where the pair of a label and an attribute is
nothing but noise, what fits it harms every row; where it tells much, little shrinkage is best. So the size
of the potentials is estimated from the pair itself (empirical Bayes).

For a prior of variance V on a potential theta, Gaussian noise s on the table's cell T and m(theta) what the
model expects, the best theta has T - m = s^2 / (F V) theta, with F = dm / dtheta. An entropy with slack s
has T - m = s theta. The geometric mean of both does well from tables of pure noise to nearly exact ones,
where V, read off as if there were no other attributes, says too little about what one adds to the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIKENESS", "chained", "slack", "summed"]

Floats = NDArray[np.float64]

LEVELS = 2.0 ** np.arange(-12, 7)
"""Variances of potentials that are weighed against each other."""
WEAKEST = 0.3
"""Least slack over the noise: the effect that V is read off may be larger than what is left to be added."""
RARE = 0.05
"""Part of the mean F below which a cell's own counts no more."""
LIKENESS = 0.5
"""Correlation of the potentials of neighbouring codes that stand in order."""


def summed(values: Floats, sigma: Floats, shares: Floats) -> Floats:
    """A noisy pair whose lines sum to how often their codes occur, each cell moved in proportion to sigma^2.

    The lines of codes that do not occur are empty. Arguments as for `slack`.
    """
    missing = (shares - values.sum(axis=1)) / (sigma**2).sum(axis=1)
    moved: Floats = np.where(shares[:, None] > 0.0, values + missing[:, None] * sigma**2, 0.0)
    return moved


def slack(values: Floats, sigma: Floats, shares: Floats, strength: float) -> Floats:
    """What a unit of each potential leaves unexplained of its cell, in proportions, shape of values.

    Args:
        values: A noisy pair in proportions, shape [codes, label's codes], its lines as from `summed`.
        sigma: The noise of its cells in proportions, shape of values.
        shares: How often each code occurs in the rows, shape [codes].
        strength: Slack over the geometric mean of noise and Bayes' shrinkage.
    """
    seen = shares > 0.0
    width = values.shape[1]
    if width < 2 or not seen.any():
        return strength * sigma
    table, noise = values[seen], sigma[seen]
    often = shares[seen][:, None]
    labels = np.maximum(table.sum(axis=0), 0.01)
    alone = often * (labels / labels.sum())
    level = _level(table / alone - 1.0, (noise / alone) ** 2)
    slope = alone * (1.0 - labels / labels.sum())
    mean = float(slope.mean())
    slope = np.maximum(slope, RARE * mean)
    factor = max(strength * np.sqrt(float(np.median(noise)) / (mean * level)), WEAKEST)
    found: Floats = factor * np.sqrt(1.0 / RARE) * sigma
    found[seen] = factor * np.sqrt(mean / slope) * noise
    return found


def chained(ridge: Floats, ordered: int) -> tuple[Floats, Floats]:
    """The slack of an attribute whose first codes stand in order, and what holds neighbours together.

    The inverse covariance of a stationary first-order autoregression whose values have variance 1 and whose
    neighbours have correlation r is tridiagonal: as a sum of squares it has (1 - r) / (1 + r) on each value,
    1 / (1 + r) at both ends, and r / (1 - r^2) on each difference of neighbours (Rue and Held 2005, 1.1.1).

    Args:
        ridge: As from `slack`, shape [codes, label's codes].
        ordered: How many leading codes stand in order; at least 2.

    Returns:
        The weights on squares of potentials, shape of ridge, and those on squares of differences between a
        code and the next, shape [codes - 1, label's codes], 0 where codes have no order.
    """
    single = ridge.copy()
    single[:ordered] *= (1.0 - LIKENESS) / (1.0 + LIKENESS)
    single[[0, ordered - 1]] = ridge[[0, ordered - 1]] / (1.0 + LIKENESS)
    bonds = np.zeros((len(ridge) - 1, ridge.shape[1]))
    between = np.sqrt(ridge[1:ordered] * ridge[: ordered - 1])
    bonds[: ordered - 1] = LIKENESS / (1.0 - LIKENESS**2) * between
    return single, bonds


def _level(effects: Floats, variances: Floats) -> float:
    """The variance of effects that were seen with noise of known variances: the posterior mean of its log.

    The prior is even over LEVELS. A label's effects at one code sum to about 0, hence the missing one.
    """
    spreads = (variances + level for level in LEVELS)
    logs = np.array([-0.5 * (np.log(spread) + effects**2 / spread).sum() for spread in spreads])
    weights = np.exp((logs - logs.max()) * (1.0 - 1.0 / effects.shape[1]))
    return float(np.exp(weights @ np.log(LEVELS) / weights.sum()))
