"""The price of noisy projections of rows: exact curves, the published bounds, and tight frames.

A table X of n rows and d features is projected on m' = slices x width directions, the columns of U [d, m'],
and U and X U + V are released, where V has independent N(0, sigma^2) entries: the slicing mechanism of
Greenewald, Yu, Wang and Xu (NeurIPS 2024, arXiv 2410.19941). Two neighbouring tables differ in one row by a
vector v of length at most `distance`; n is public.

**Given U** this is the Gaussian mechanism with sensitivity ||U'v||, since U does not depend on the table.

- *Random directions*, U_ij ~ N(0, 1/d): ||U'v||^2 is ||v||^2 / d times a chi-square variable t of m' degrees
of
  freedom, so delta(epsilon) is the mean over t of the Gaussian curve at mu = kappa sqrt(t), with
  kappa = distance / (sigma sqrt(d)); see `random_delta`. The Gaussian curve grows with mu, so the largest v
  is the worst.
- *A tight frame*, U U' = (m'/d) I: ||U'v||^2 = (m'/d) ||v||^2 whatever v is, so the mechanism is mu-GDP with
  mu = sqrt(m'/d) distance / sigma; see `frame_mu`. It needs no randomness and composes as GDP does.

The paper's own accounting bounds the Renyi divergence of the joint law of U and X U + V, whose m' columns are
independent Gaussians (its Lemma 2); of order a > 1 with z = a (a - 1) kappa^2 < 1 that divergence is exactly
-m' ln(1 - z) / (2 (a - 1)), and its Theorem 1 follows by -ln(1 - z) <= z / (1 - z). Both are turned into
epsilon by adding ln(1/delta) / (a - 1). So for every order, and in the minimum, random_epsilon <=
logarithmic_epsilon <= theorem_epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.optimize
import scipy.special

from margrave.errors import InputError, invalid

PARTS = 20_000
"""Parts that the range of a chi-square variable's root is cut into. Each part counts by its upper end, so the
result is an upper bound, less than a thousandth above the integral (tests/privacy/test_projections.py).
"""
TAIL = 1e-15
"""Probability of the two ends that are left out of the range; it is added as if all were lost there."""


def frame_mu(sigma: float, directions: int, dimension: int, distance: float = 1.0) -> float:
    """The mu for which noisy projections on a tight frame are mu-GDP: sqrt(m'/d) distance / sigma.

    Args:
        sigma: Standard deviation of the noise in each projection.
        directions: m', at least `dimension`: fewer columns are no tight frame.
        dimension: d, the number of features of a row.
        distance: The largest distance between two rows that neighbouring tables hold in one place.

    Raises:
        InputError: A number is out of range.
    """
    _check(sigma, directions, dimension, distance)
    if directions < dimension:
        remedy = "Use random directions, or more of them."
        raise InputError(invalid("directions", "at least the number of features", remedy, got=directions))
    return math.sqrt(directions / dimension) * distance / sigma


def random_delta(
    epsilon: float, sigma: float, directions: int, dimension: int, distance: float = 1.0
) -> float:
    """The delta at epsilon of noisy projections on random Gaussian directions, rounded up by less than 1e-3
    of it.

    The mean over t ~ chi-square of `directions` degrees of freedom of Phi(mu/2 - epsilon/mu) - exp(epsilon)
    Phi(-mu/2 - epsilon/mu) with mu = kappa sqrt(t); it is the smallest delta, since U is part of what is
    released.

    Args:
        epsilon: At least 0.
        sigma: Standard deviation of the noise in each projection.
        directions: m', the number of directions.
        dimension: d, the number of features of a row.
        distance: The largest distance between two rows that neighbouring tables hold in one place.

    Raises:
        InputError: A number is out of range.
    """
    _check(sigma, directions, dimension, distance)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InputError(invalid("epsilon", "a finite number of at least 0", "Try 1.0.", got=epsilon))
    kappa = distance / (sigma * math.sqrt(dimension))
    half = directions / 2.0
    # The range of t that holds all of its probability but TAIL, half of which is left out at either end.
    low = 2.0 * float(scipy.special.gammaincinv(half, TAIL / 2))
    high = 2.0 * float(scipy.special.gammainccinv(half, TAIL / 2))
    roots = np.linspace(math.sqrt(low), math.sqrt(high), PARTS + 1)
    # The probability of each part, as a difference of the distribution function at its ends.
    masses = np.diff(scipy.special.gammainc(half, roots**2 / 2.0))
    # The upper end of each part, at which the Gaussian curve is largest.
    mu = kappa * roots[1:]
    upper = scipy.special.log_ndtr(mu / 2.0 - epsilon / mu)
    lower = epsilon + scipy.special.log_ndtr(-mu / 2.0 - epsilon / mu)
    # Phi(u) - e^epsilon Phi(l) as Phi(u) (1 - e^(difference of logs)), which does not cancel.
    curve = np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0.0))
    # The lower end counts at the curve's value above it, which is no smaller than its own.
    found = float((masses * curve).sum()) + TAIL * (1.0 + float(curve[0]))
    # The relative term covers the rounding of twenty thousand sums.
    return min(found * (1.0 + 1e-9), 1.0)


def random_epsilon(
    sigma: float, directions: int, dimension: int, delta: float, distance: float = 1.0
) -> float:
    """The smallest epsilon whose `random_delta` is at most delta, within 1e-9 above it.

    Raises:
        InputError: A number is out of range.
    """
    _check_delta(delta)

    def excess(epsilon: float) -> float:
        return math.log(random_delta(epsilon, sigma, directions, dimension, distance)) - math.log(delta)

    # delta falls as epsilon grows: doubled until it is small enough, then solved for in the bracket.
    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2.0
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-9)) + 1e-9


def logarithmic_epsilon(
    sigma: float, directions: int, dimension: int, delta: float, distance: float = 1.0
) -> float:
    """The best epsilon from the exact Renyi divergences, before Theorem 1 bounds their logarithm.

    The minimum over a of -m' ln(1 - z) / (2 (a - 1)) + ln(1/delta) / (a - 1), z = a (a - 1) kappa^2 < 1.
    """
    return _least(sigma, directions, dimension, delta, distance, lambda z: -math.log1p(-z))


def theorem_epsilon(
    sigma: float, directions: int, dimension: int, delta: float, distance: float = 1.0
) -> float:
    """The epsilon of Theorem 1 of the paper, at the order that makes it least.

    m' a / (2 sigma^2 (d - gamma)) + ln(1/delta) / (a - 1) with gamma = a (a - 1) / sigma^2, for rows at
    distance 1; the order of its Remark 2 is that of a bound twice as large, so orders are searched here.
    """
    return _least(sigma, directions, dimension, delta, distance, lambda z: z / (1.0 - z))


def _least(
    sigma: float,
    directions: int,
    dimension: int,
    delta: float,
    distance: float,
    growth: Callable[[float], float],
) -> float:
    """The minimum over orders a of (m' growth(z) / 2 + ln(1/delta)) / (a - 1), z = a (a - 1) kappa^2 below
    1.
    """
    _check(sigma, directions, dimension, distance)
    _check_delta(delta)
    squared = distance**2 / (sigma**2 * dimension)
    greatest = 0.5 * (math.sqrt(1.0 + 4.0 / squared) - 1.0)  # a - 1 where z is 1

    def price(part: float) -> float:
        beyond = greatest * part
        # Rounding may bring z to 1, where the logarithm is infinite.
        z = min(beyond * (beyond + 1.0) * squared, 1.0 - 1e-15)
        return (0.5 * directions * growth(z) - math.log(delta)) / beyond

    # In the logarithm of a - 1 the price falls to one minimum and rises after it.
    found = scipy.optimize.minimize_scalar(
        lambda log_part: price(math.exp(log_part)),
        bounds=(-40.0, -1e-12),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(found.fun)


def _check(sigma: float, directions: int, dimension: int, distance: float) -> None:
    for name, value in (("sigma", sigma), ("distance", distance)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(invalid(name, "a finite number above 0", "Try 1.0.", got=value))
    for name, count in (("directions", directions), ("dimension", dimension)):
        if count < 1:
            raise InputError(invalid(name, "at least 1", "Try 100.", got=count))


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InputError(invalid("delta", "above 0 and below 1", "Try 1e-5.", got=delta))
