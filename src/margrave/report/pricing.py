"""What each event of a ledger cost, in words and exact numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from margrave.errors import UnsupportedEventError, invalid
from margrave.privacy.accounting import event_delta, event_rho
from margrave.privacy.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PartitionEvent,
    SubsampledGaussianEvent,
)
from margrave.report.numerals import equals, root, significant

__all__ = ["Spend", "priced"]


@dataclass(frozen=True, slots=True)
class Spend:
    """One line of the ledger.

    Args:
        number: Position in the ledger, from 1.
        what: The thing released, in public words.
        mechanism: The randomised algorithm.
        sensitivity: The largest change of the exact answer between neighbours, with its norm.
        noise: The scale of the noise.
        rho: The cost in zCDP, mu^2 / 2 under GDP, or a Renyi divergence over its order.
        delta: What the event adds to delta by itself; 0 for most.
        cumulative: rho of this and all earlier events.
    """

    number: int
    what: str
    mechanism: str
    sensitivity: str
    noise: str
    rho: Fraction
    delta: Fraction
    cumulative: Fraction

    @property
    def terms(self) -> tuple[str, str, str, Fraction]:
        """All but what was released: equal for events of one run."""
        return (self.mechanism, self.sensitivity, self.noise, self.rho)


def priced(events: tuple[Event, ...]) -> tuple[Spend, ...]:
    """The ledger's lines, in order.

    Raises:
        UnsupportedEventError: An event whose cost is not known.
    """
    spends: list[Spend] = []
    total = Fraction(0)
    for number, event in enumerate(events, start=1):
        rho = event_rho(event)
        total += rho
        spends.append(Spend(number, event.what, *_terms(event), rho, event_delta(event), total))
    return tuple(spends)


def _terms(event: Event) -> tuple[str, str, str]:
    """Mechanism, sensitivity and noise, in words."""
    if isinstance(event, PartitionEvent):
        noise = ", ".join(
            (
                equals("σ", _sigma(event.sigma_squared)),
                f"threshold\u00a0{event.threshold}",
                equals("δ", significant(event.delta)),
            )
        )
        return f"{_gaussian(event.rounded)} with a threshold", f"{root(event.l2_squared)}\u00a0(L2)", noise
    if isinstance(event, GaussianEvent):
        return (
            _gaussian(event.rounded),
            f"{root(event.l2_squared)}\u00a0(L2)",
            equals("σ", _sigma(event.sigma_squared)),
        )
    if isinstance(event, LaplaceEvent):
        noise = (
            f"scale {significant(event.scale)}, {equals('ε', significant(Fraction(event.l1) / event.scale))}"
        )
        return "Discrete Laplace", f"{event.l1}\u00a0(L1)", noise
    if isinstance(event, ExponentialEvent):
        noise = equals("ε", significant(event.epsilon))
        return "Exponential", f"{event.sensitivity}\u00a0(score)", noise
    if isinstance(event, SubsampledGaussianEvent):
        terms = (
            equals("σ", _sigma(event.sigma_squared)),
            f"{event.steps}\u00a0steps",
            equals("q", significant(event.rate)),
        )
        return "Subsampled Gaussian", f"{root(event.l2_squared)}\u00a0(L2)", ", ".join(terms)
    raise UnsupportedEventError(
        invalid("events", "of a kind whose cost is known", "Upgrade margrave.", got=type(event).__name__)
    )


def _gaussian(rounded: bool) -> str:
    return "Rounded Gaussian" if rounded else "Discrete Gaussian"


def _sigma(variance: Fraction) -> str:
    return significant(float(variance) ** 0.5)
