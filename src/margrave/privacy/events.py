"""Events: what was spent on private data, as frozen data. Accountants interpret them.

An event describes one randomised answer completely enough to price it under any accounting. Parameters
are exact (`int` and `Fraction`), so that totals are equalities and not comparisons of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = [
    "Event",
    "ExponentialEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "PartitionEvent",
    "SubsampledGaussianEvent",
]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all spends.

    Args:
        what: The thing released, in public words: a clique, a column, a number of candidates.
    """

    what: str


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Gaussian noise of variance sigma_squared on integers whose squared L2 sensitivity is l2_squared.

    rho = l2_squared / (2 sigma_squared) in zCDP, for the discrete Gaussian (Canonne, Kamath and Steinke
    2020, Theorem 4 with Proposition 5's composition) as for the rounded continuous one (post-processing).
    mu^2 = l2_squared / sigma_squared in GDP holds for the rounded continuous Gaussian only: `rounded`.
    """

    l2_squared: int
    sigma_squared: Fraction
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Discrete Laplace noise of scale `scale` on integers of L1 sensitivity l1: epsilon = l1 / scale."""

    l1: int
    scale: Fraction


@dataclass(frozen=True, slots=True)
class ExponentialEvent(Event):
    """One draw with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    epsilon-DP and epsilon^2/8-zCDP (bounded range; Cesar and Rogers 2021). `candidates` is how many
    there were; `sensitivity` is that of the scores.
    """

    epsilon: Fraction
    sensitivity: Fraction
    candidates: int


@dataclass(frozen=True, slots=True)
class PartitionEvent(Event):
    """Names of values whose Gaussian-noised count passed a threshold, with those counts.

    Costs rho = l2_squared / (2 sigma_squared), plus `delta`: a bound on the probability that a value
    which only one of two neighbouring tables holds passes the threshold.
    """

    l2_squared: int
    sigma_squared: Fraction
    threshold: int
    delta: Fraction
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class SubsampledGaussianEvent(Event):
    """Up to `steps` answers, each a sum over a fresh Poisson sample of the rows, with Gaussian noise.

    Each step takes every row with probability `rate`, by itself; rows are vectors of integers of squared L2
    norm l2_squared at most, and the noise is the continuous Gaussian of variance sigma_squared, rounded.
    Neighbours differ by one row that comes or goes. Its price is the Renyi divergence of that `order`, over
    the order: one of a ledger kept at this order (`margrave.privacy.accounting.Renyi`), no cost in zCDP.
    """

    steps: int
    rate: Fraction
    l2_squared: int
    sigma_squared: Fraction
    order: int
