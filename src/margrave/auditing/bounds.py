"""What right guesses about many runs prove about epsilon: lower bounds with a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betainccinv, betaincinv, ndtr, ndtri
from scipy.stats import binom

from margrave.privacy.accounting.conversions import gdp_delta, zcdp_delta

Curve = Callable[[float], float]
MAX_EPSILON = 50.0
"""No bound on epsilon is looked for above this."""


def lowest_rate(hits: int, runs: int, wrong: float) -> float:
    """The least rate that is compatible with so many hits (Clopper and Pearson 1934), one-sided.

    Args:
        hits: Of so many runs.
        runs: One or more.
        wrong: The chance that the bound lies above the truth, in (0, 1).
    """
    return float(betaincinv(hits, runs - hits + 1, wrong)) if hits else 0.0


def highest_rate(hits: int, runs: int, wrong: float) -> float:
    """The greatest rate that is compatible with so many hits; see `lowest_rate`."""
    return float(betainccinv(hits + 1, runs - hits, wrong)) if hits < runs else 1.0


@dataclass(frozen=True, slots=True)
class Rates:
    """How often a test said "the canary is in" in runs without it and in runs with it, and what that proves.

    The test must have been fixed before these runs were seen.

    Args:
        false: Runs without the canary in which the test said it is in.
        without: Runs without the canary.
        true: Runs with it in which the test said so.
        present: Runs with the canary.
        confidence: That both rates are bounded rightly, half of the rest for each.
    """

    false: int
    without: int
    true: int
    present: int
    confidence: float

    @property
    def highest_false(self) -> float:
        """The greatest false positive rate that the runs allow."""
        return highest_rate(self.false, self.without, (1 - self.confidence) / 2)

    @property
    def lowest_true(self) -> float:
        """The least true positive rate that the runs allow."""
        return lowest_rate(self.true, self.present, (1 - self.confidence) / 2)

    def epsilon(self, delta: float) -> float:
        """The least epsilon for this delta that the rates allow.

        Of (epsilon, delta)-DP follow TPR <= e^epsilon FPR + delta and 1 - FPR <= e^epsilon (1 - TPR) + delta
        (Kairouz, Oh and Viswanath 2015); both are asked of the same two bounds.
        """
        false, true = self.highest_false, self.lowest_true
        return max(_log_ratio(true - delta, false), _log_ratio(1 - false - delta, 1 - true), 0.0)

    @property
    def mu(self) -> float:
        """The least mu of Gaussian differential privacy that the rates allow (Dong, Roth and Su 2022)."""
        false, true = self.highest_false, self.lowest_true
        if false >= 1 or true <= 0:
            return 0.0
        return max(float(ndtri(true) - ndtri(false)), 0.0)

    def violates(self, curve: Curve) -> bool:
        """Whether the rates are beyond a curve of the greatest true positive rate by the false one."""
        return self.lowest_true > curve(self.highest_false) or (
            1 - self.highest_false > curve(1 - self.lowest_true)
        )


def _log_ratio(over: float, under: float) -> float:
    if over <= 0:
        return -math.inf
    return math.log(over / under) if under > 0 else math.inf


def gdp_curve(mu: float) -> Curve:
    """The greatest true positive rate that mu-GDP allows, by the false positive rate."""
    return lambda false: float(ndtr(ndtri(false) + mu)) if 0 < false < 1 else float(false >= 1)


def zcdp_curve(rho: float) -> Curve:
    """A true positive rate that no rho-zCDP mechanism passes, by the false positive rate.

    The least of e^epsilon FPR + delta(epsilon) over a grid of epsilon; every point of it is a valid bound.
    """
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, MAX_EPSILON, 60)])
    points = [(math.exp(epsilon), zcdp_delta(rho, float(epsilon))) for epsilon in epsilons]
    return lambda false: min(1.0, *(factor * false + delta for factor, delta in points))


def epsilon_of_guesses(right: int, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    """The least epsilon that so many right guesses about independent canaries allow.

    Of an (epsilon, delta)-DP mechanism follows P[right >= v] <= beta + 2 m delta alpha, where m is the number
    of canaries, W is Binomial(guesses, e^epsilon / (1 + e^epsilon)), beta = P[W >= v] and alpha =
    max over i of P[v - i <= W < v] / i (Steinke, Nasr and Jagielski 2023, arXiv 2305.08846). The bound is the
    least epsilon for which that chance is not below 1 - confidence.

    Args:
        right: Guesses that were right.
        guesses: Made in all; fixed before the answers were seen.
        canaries: Coins that were flipped, guessed or not.
        delta: In [0, 1).
        confidence: In (0, 1).

    Example:
        >>> round(epsilon_of_guesses(100, 100, 100, 0.0, 0.95), 3)
        3.491
    """
    if _bound_chance(0.0, right, guesses, canaries, delta) >= 1 - confidence:
        return 0.0
    low, high = 0.0, MAX_EPSILON
    for _ in range(60):
        middle = (low + high) / 2
        if _bound_chance(middle, right, guesses, canaries, delta) < 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def _bound_chance(epsilon: float, right: int, guesses: int, canaries: int, delta: float) -> float:
    """A bound on the chance of so many right guesses under (epsilon, delta)-DP."""
    share = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, share))
    if delta == 0 or right == 0:
        return tail
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, share))
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(tail + 2 * canaries * delta * alpha, 1.0)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon below which a mu-GDP mechanism is not (epsilon, delta)-DP, rounded down."""
    if delta <= 0:
        return math.inf if mu > 0 else 0.0
    low, high = 0.0, MAX_EPSILON
    if gdp_delta(mu, low) <= delta:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if gdp_delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return low
