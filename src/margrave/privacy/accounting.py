"""Accountants: what an event costs in rho, and how much rho an (epsilon, delta) allows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import final

from margrave.errors import InputError, UnsupportedEventError, invalid
from margrave.privacy.conversion import (
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from margrave.privacy.events import Event, ExponentialEvent, GaussianEvent, LaplaceEvent, PartitionEvent

__all__ = [
    "GDP",
    "ZCDP",
    "Accountant",
    "event_delta",
    "event_rho",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]


def event_rho(event: Event) -> Fraction:
    """The zCDP cost of one event, exact; a partition event's delta comes on top.

    Gaussian and partition: l2_squared / (2 sigma_squared) (Bun and Steinke 2016, Proposition 1.6; Canonne,
    Kamath and Steinke 2020, Theorem 4). Exponential: epsilon^2 / 8 (bounded range; Cesar and Rogers 2021).
    Laplace: epsilon^2 / 2 with epsilon = l1 / scale (Bun and Steinke 2016, Proposition 1.4).

    Raises:
        UnsupportedEventError: The event's class is not one of these exactly: no bound is known.
        InputError: A parameter is out of range or not exact.
    """
    kind = type(event)
    if isinstance(event, GaussianEvent | PartitionEvent) and kind in (GaussianEvent, PartitionEvent):
        squared = _exact("l2_squared", event.l2_squared, least=0)
        return squared / (2 * _exact("sigma_squared", event.sigma_squared))
    if isinstance(event, ExponentialEvent) and kind is ExponentialEvent:
        _exact("sensitivity", event.sensitivity)
        return _exact("epsilon", event.epsilon, least=0) ** 2 / 8
    if isinstance(event, LaplaceEvent) and kind is LaplaceEvent:
        return (_exact("l1", event.l1, least=0) / _exact("scale", event.scale)) ** 2 / 2
    raise UnsupportedEventError(
        invalid("event", "of a class whose cost is known", "Use the events of margrave.privacy.events.")
    )


def event_delta(event: Event) -> Fraction:
    """The delta an event spends besides its rho, exact: that of a partition event, else 0.

    Raises:
        UnsupportedEventError: The event's class is unknown.
        InputError: A parameter is out of range or not exact.
    """
    event_rho(event)
    if isinstance(event, PartitionEvent):
        return _exact("delta", event.delta, least=0)
    return Fraction(0)


class Accountant(ABC):
    """Prices events in rho and says how much rho an (epsilon, delta) allows."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is saved under."""

    @abstractmethod
    def total(self, epsilon: float, delta: Fraction) -> Fraction:
        """The rho that (epsilon, delta) allows: nearly the largest, never above it."""

    @abstractmethod
    def cost(self, event: Event) -> Fraction:
        """The rho an event costs, exact; costs of adaptively chosen events add up."""


@final
class ZCDP(Accountant):
    """Zero-concentrated differential privacy: prices every known event.

    **Privacy.** Adaptive composition adds rho (Bun and Steinke 2016, Lemma 2.3); events of summed cost rho
    are (epsilon, delta)-DP whenever rho is at most `total(epsilon, delta)`. A partition event is within
    its delta, in total variation, of a rho-zCDP answer on either side; replacing all of them so changes
    the probability of any outcome of the whole run by at most the sum of their deltas, once. Hence a run is
    (epsilon, delta_gauss + sum of partition deltas)-DP. The proof in full: docs/privacy/accounting.md.
    """

    @property
    def name(self) -> str:
        """The name it is saved under."""
        return "zcdp"

    def total(self, epsilon: float, delta: Fraction) -> Fraction:
        """The rho that (epsilon, delta) allows: nearly the largest, never above it."""
        return Fraction(zcdp_rho(epsilon, _below(delta)))

    def cost(self, event: Event) -> Fraction:
        """The rho an event costs, exact.

        Raises:
            UnsupportedEventError: The event's class is unknown.
        """
        return event_rho(event)


@final
class GDP(Accountant):
    """Gaussian differential privacy: prices rounded Gaussian noise alone, and more tightly than zCDP.

    **Privacy.** Rounding is post-processing of the continuous Gaussian, which is mu-GDP with mu^2 =
    l2_squared / sigma_squared = 2 rho (Dong, Roth and Su 2022, Theorem 2.7). Adaptive composition adds
    mu^2 (Corollary 3.3), hence rho = mu^2 / 2 too. The discrete Gaussian is *not* mu-GDP, so events must
    say `rounded`. Partition deltas add as under `ZCDP`, by the same proof.
    """

    @property
    def name(self) -> str:
        """The name it is saved under."""
        return "gdp"

    def total(self, epsilon: float, delta: Fraction) -> Fraction:
        """mu^2 / 2 for the mu that (epsilon, delta) allows: nearly the largest, never above it."""
        return Fraction(gdp_mu(epsilon, _below(delta))) ** 2 / 2

    def cost(self, event: Event) -> Fraction:
        """mu^2 / 2 of an event, exact.

        Raises:
            UnsupportedEventError: The event is not Gaussian noise, or not rounded.
        """
        rho = event_rho(event)
        if not isinstance(event, GaussianEvent | PartitionEvent) or event.rounded is not True:
            raise UnsupportedEventError(
                invalid("event", "rounded Gaussian noise under GDP", "Use zCDP accounting instead.")
            )
        return rho


def _below(delta: Fraction) -> float:
    """The largest float at most delta."""
    near = float(delta)
    return math.nextafter(near, -math.inf) if Fraction(near) > delta else near


def _exact(name: str, value: object, *, least: int | None = None) -> Fraction:
    """The value as a fraction, once checked: above 0, or at least `least`."""
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        exact = Fraction(value)
        if exact > 0 or (least is not None and exact >= least):
            return exact
    bound = "above 0" if least is None else f"at least {least}"
    raise InputError(invalid(name, f"an int or Fraction {bound}", "Correct the event.", got=value))
