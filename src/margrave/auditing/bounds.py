"""What right guesses about many runs prove about epsilon: lower bounds with a stated confidence.

`Audit` says in words what was proved, beside the claim that was put to the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainccinv, betaincinv, ndtr, ndtri
from scipy.stats import binom

from margrave.privacy.accounting.conversions import gdp_delta, zcdp_delta
from margrave.privacy.unit import Neighbours

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


WHAT_IT_SHOWS = (
    "can show: that a guarantee is broken, by code, a bug or a wrong unit, with the stated confidence"
)
WHAT_IT_CANNOT_SHOW = (
    "cannot show: that a guarantee holds. It tries one canary in one table with the statistics named; "
    "the proof is in the accounting"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """What the audited runs promise.

    Args:
        epsilon, delta: As declared.
        neighbours: The unit protected and the adjacency.
        rho: What the accountant allowed, where the runs say it; see `margrave.release.Guarantee`.
        accounting: "gdp", "zcdp", "rdp-" and an order, or empty where the runs do not say.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    rho: float = 0.0
    accounting: str = ""

    def __str__(self) -> str:
        accounted = f" ({self.accounting}, rho = {self.rho:.4g})" if self.accounting else ""
        promise = f"epsilon = {self.epsilon:g}, delta = {self.delta:g}"
        return f"{promise} for {self.neighbours.unit}, {self.neighbours.change}{accounted}"


@dataclass(frozen=True, slots=True)
class Audit:
    """A lower bound on epsilon from runs with and without a canary. **Not private** if the table is not.

    The statements `epsilon`, `mu` and `violated` hold together with the stated confidence: two tests were
    chosen on the first half of the runs, and each is judged on the second half with half of the error.

    Args:
        what: What was audited.
        claim: What it promises.
        runs: In all, with and without the canary.
        confidence: In (0, 1).
        tests: The statistic and threshold for epsilon, and those for mu, in words.
        rates: Of both tests, on runs that they were not chosen on.
    """

    what: str
    claim: Claim
    runs: int
    confidence: float
    tests: tuple[str, str]
    rates: tuple[Rates, Rates]

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon at the claimed delta, whatever the mechanism."""
        return self.rates[0].epsilon(self.claim.delta)

    @property
    def mu(self) -> float:
        """The lower bound on mu, if the runs are Gaussian differentially private at all."""
        return self.rates[1].mu

    @property
    def epsilon_if_gaussian(self) -> float:
        """The epsilon that `mu` comes to at the claimed delta: a bound only under Gaussian privacy."""
        return epsilon_of_mu(self.mu, self.claim.delta)

    @property
    def most(self) -> float:
        """The greatest epsilon that so many runs could have proved, had every guess been right."""
        first = self.rates[0]
        ideal = Rates(0, first.without, first.present, first.present, first.confidence)
        return max(ideal.epsilon(self.claim.delta), 0.0)

    @property
    def violated(self) -> bool:
        """Whether the runs contradict the claim: its epsilon, or the sharper curve of its accounting."""
        if self.epsilon > self.claim.epsilon:
            return True
        if self.claim.accounting not in ("gdp", "zcdp"):
            return False  # a Renyi ledger's rho is one of a single order, and no curve
        gaussian = self.claim.accounting == "gdp"
        curve = gdp_curve(math.sqrt(2 * self.claim.rho)) if gaussian else zcdp_curve(self.claim.rho)
        return any(rates.violates(curve) for rates in self.rates)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of all that the words say."""
        return {
            "what": self.what,
            "claim": {
                "epsilon": self.claim.epsilon,
                "delta": self.claim.delta,
                "owner": self.claim.neighbours.unit.owner,
                "max_rows": self.claim.neighbours.unit.max_rows,
                "adjacency": self.claim.neighbours.adjacency,
            },
            "runs": self.runs,
            "confidence": self.confidence,
            "epsilon_at_least": self.epsilon,
            "mu_at_least": self.mu,
            "provable_at_most": self.most,
            "violated": self.violated,
            "tests": [
                {"test": name, "false": r.false, "without": r.without, "true": r.true, "present": r.present}
                for name, r in zip(self.tests, self.rates, strict=True)
            ],
        }

    def __str__(self) -> str:
        first, second = self.rates
        verdict = "VIOLATED: the runs contradict the claim" if self.violated else "no violation found"
        sure = f"with {self.confidence:.2%} confidence"
        return "\n".join(
            [
                f"audit of {self.what}: {verdict}",
                f"claim: {self.claim}",
                f"epsilon >= {self.epsilon:.3g} at the claimed delta, {sure}",
                f"({self.runs} runs could have proved {self.most:.3g} at most)",
                f"mu >= {self.mu:.3g} if Gaussian, which is epsilon >= {self.epsilon_if_gaussian:.3g}",
                _describe_rates(self.tests[0], first),
                *([_describe_rates(self.tests[1], second)] if second != first else []),
                WHAT_IT_SHOWS,
                WHAT_IT_CANNOT_SHOW,
            ]
        )

    def __repr__(self) -> str:
        return str(self)


def _describe_rates(name: str, rates: Rates) -> str:
    return (
        f"test by {name}: says the canary is in for {rates.true} of {rates.present} runs with it and "
        f"{rates.false} of {rates.without} without"
    )
