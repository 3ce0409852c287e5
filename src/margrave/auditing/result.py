"""Audit: what many runs proved about epsilon, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from margrave.auditing.bounds import Rates, epsilon_of_mu, gdp_curve, zcdp_curve
from margrave.privacy.unit import Neighbours

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
