"""Exact distributions of the samplers, and the chi-squared test that holds draws against them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special
import scipy.stats
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Distribution = Callable[[Ints], NDArray[np.float64]]
"""P(draw <= k) for each k."""


def discrete_gaussian_cdf(sigma: float) -> Distribution:
    """By summing weights; above sigma 50 the rounded Gaussian's, from which it differs by exp(-49,000)."""
    if sigma > 50:
        return rounded_gaussian_cdf(sigma)
    reach = int(40 * sigma) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    sums = np.cumsum(weights) / weights.sum()
    return lambda k: sums[np.clip(k + reach, 0, 2 * reach)]


def rounded_gaussian_cdf(sigma: float) -> Distribution:
    return lambda k: scipy.special.ndtr((k + 0.5) / sigma)


def chi_squared(draws: Ints, cdf: Distribution, spread: float, cells: int = 60) -> float:
    """The p-value of Pearson's test over at most `cells` intervals within 5 spreads, and two tails."""
    edges = np.unique(np.rint(np.linspace(-5 * spread - 2, 5 * spread + 2, cells)).astype(np.int64))
    chances = np.diff(cdf(edges), prepend=0.0, append=1.0)
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(chances)).astype(np.float64)
    return pooled(observed, chances * len(draws))


def pooled(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """The p-value of Pearson's test once cells that expect fewer than 10 are put together."""
    rare = expected < 10
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 10:
        assert observed[-1] < 10 + 12 * np.sqrt(10)
        observed, expected = observed[:-1], expected[:-1]
    if len(expected) < 2:
        return 1.0
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(scipy.stats.chi2.sf(statistic, len(expected) - 1))


def two_samples(first: Ints, second: Ints, cells: int = 40) -> float:
    """The p-value of Pearson's test that two samples come from one distribution."""
    both = np.concatenate([first, second])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, cells)).astype(np.int64))
    tables = [np.bincount(np.searchsorted(edges, s), minlength=len(edges) + 1) for s in (first, second)]
    table = np.stack(tables)
    table = table[:, table.sum(axis=0) >= 20]
    return float(scipy.stats.chi2_contingency(table).pvalue)
