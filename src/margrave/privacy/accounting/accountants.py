"""Accountants: what an event costs in rho, and how much rho an (epsilon, delta) allows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, final

from margrave.errors import InputError, UnsupportedEventError, invalid
from margrave.privacy.accounting.conversions import (
    gdp_mu,
    zcdp_rho,
)
from margrave.privacy.accounting.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    ObjectiveEvent,
    PartitionEvent,
    SubsampledGaussianEvent,
)
from margrave.privacy.accounting.renyi import objective_divergence, renyi_allowed, sampled_divergence


def event_rho(event: Event) -> Fraction:
    """The price of one event in rho, exact: its zCDP cost; a partition event's delta comes on top.

    Gaussian and partition: l2_squared / (2 sigma_squared) (Bun and Steinke 2016, Proposition 1.6; Canonne,
    Kamath and Steinke 2020, Theorem 4). Exponential: epsilon^2 / 8 (bounded range; Cesar and Rogers 2021).
    That of a subsampled Gaussian and of a perturbed objective is no zCDP cost but the Renyi divergence of the
    event's order over that order, rounded up: only `Renyi` takes them.

    Raises:
        UnsupportedEventError: The event's class is not one of these exactly: no bound is known.
        InputError: A parameter is out of range or not exact.
    """
    # A subclass might mean something else by the same fields, so only the classes themselves have a price.
    kind = type(event)
    if isinstance(event, GaussianEvent | PartitionEvent) and kind in (GaussianEvent, PartitionEvent):
        squared = _exact("l2_squared", event.l2_squared, least=0)
        return squared / (2 * _exact("sigma_squared", event.sigma_squared))
    if isinstance(event, ExponentialEvent) and kind is ExponentialEvent:
        _exact("sensitivity", event.sensitivity)
        return _exact("epsilon", event.epsilon, least=0) ** 2 / 8
    if isinstance(event, SubsampledGaussianEvent) and kind is SubsampledGaussianEvent:
        ratio = _exact("l2_squared", event.l2_squared, least=0) / _exact("sigma_squared", event.sigma_squared)
        steps, rate = _exact("steps", event.steps), _exact("rate", event.rate)
        return steps * sampled_divergence(event.order, rate, ratio) / event.order
    if isinstance(event, ObjectiveEvent) and kind is ObjectiveEvent:
        squared = _exact("l2_squared", event.l2_squared, least=0)
        ratio = _exact("ratio", event.ratio)
        shift = squared / _exact("sigma_squared", event.sigma_squared)
        rows = (event.changed, event.replaced)
        return objective_divergence(event.order, rows, ratio, shift) / event.order
    raise UnsupportedEventError(
        invalid(
            "event", "of a class whose cost is known", "Use the events of margrave.privacy.accounting.events."
        )
    )


def event_delta(event: Event) -> Fraction:
    """The delta an event spends besides its rho, exact: that of a partition event, else 0.

    Raises:
        UnsupportedEventError: The event's class is unknown.
        InputError: A parameter is out of range or not exact.
    """
    # Pricing it first checks that the class is known and that its parameters are in range.
    event_rho(event)
    if isinstance(event, PartitionEvent):
        return _exact("delta", event.delta, least=0)
    return Fraction(0)


CHOICE_GDP = Fraction(355, 113) / 16
"""A little more than pi / 16: what a draw by the exponential mechanism of epsilon 1 costs under `GDP`."""


class Accountant(ABC):
    """Prices events in rho and says how much rho an (epsilon, delta) allows."""

    choice_price: ClassVar[Fraction] = Fraction(1, 8)
    """rho that a draw by the exponential mechanism of epsilon 1 costs; it grows with epsilon^2."""

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
            UnsupportedEventError: The event's class is unknown, or it samples rows or perturbs an objective.
        """
        if isinstance(event, SubsampledGaussianEvent | ObjectiveEvent):
            raise _sampling_error()
        return event_rho(event)


@final
class Renyi(Accountant):
    """Renyi differential privacy at one order a, fixed beforehand: prices sampling of rows and objectives
    too.

    Costs are Renyi divergences of order a divided by a, in which every rho-zCDP event costs rho, as a run
    with nothing but such events would have it, a subsampled Gaussian what `sampled_divergence` says and a
    perturbed objective what `objective_divergence` says.

    **Privacy.** At a fixed order Renyi divergences add up under adaptive composition, also where each
    step's noise is chosen from earlier answers: given the past, E_P[exp((a-1) L_i) | past] <= exp((a-1) R_i),
    so exp((a-1)(L_1 + ... + L_i - R_1 - ... - R_i)) is a supermartingale, and sum R_i <= R at all times gives
    D_a(P || Q) <= R for the whole run, in whatever order events come. That implies (epsilon, delta)-DP for
    delta = exp((a-1)(R - epsilon) + a ln(1 - 1/a)) / (a-1) (Canonne, Kamath and Steinke 2020, Proposition
    12), which `total` solves for R / a. zCDP events have R_i <= a rho_i. The order is chosen from public
    numbers before the run and is part of the name that is recorded. Partition deltas add as under `ZCDP`.

    Args:
        order: a, a whole number of at least 2.
    """

    def __init__(self, order: int) -> None:
        if isinstance(order, bool) or not isinstance(order, int) or order < 2:
            raise InputError(invalid("order", "a whole number of at least 2", "Try 20.", got=order))
        self.order = order

    @property
    def name(self) -> str:
        """The name it is saved under."""
        return f"rdp-{self.order}"

    def total(self, epsilon: float, delta: Fraction) -> Fraction:
        """R / a for the largest R that (epsilon, delta) allows at this order, rounded down; 0 if none."""
        return Fraction(max(renyi_allowed(self.order, epsilon, _below(delta)), 0.0)) / self.order

    def cost(self, event: Event) -> Fraction:
        """The Renyi divergence of an event at the order, over the order, exact or rounded up.

        Raises:
            UnsupportedEventError: The event's class is unknown, or it is priced at another order.
        """
        if isinstance(event, SubsampledGaussianEvent | ObjectiveEvent) and event.order != self.order:
            raise _sampling_error()
        return event_rho(event)


@final
class GDP(Accountant):
    """Gaussian differential privacy: prices rounded Gaussian noise more tightly than zCDP, choices less so.

    **Privacy.** Rounding is post-processing of the continuous Gaussian, which is mu-GDP with mu^2 =
    l2_squared / sigma_squared = 2 rho (Dong, Roth and Su 2022, Theorem 2.7). Adaptive composition adds
    mu^2 (Corollary 3.3), hence rho = mu^2 / 2 too. The discrete Gaussian is *not* mu-GDP, so events must
    say `rounded`. Partition deltas add as under `ZCDP`, by the same proof.

    A draw by the exponential mechanism is mu-GDP with mu = epsilon root(2 pi) / 4, so it costs pi epsilon^2 /
    16, a factor of pi / 2 above its price in zCDP. For neighbours D and D' the ratio of an outcome's
    probabilities lies in [e^(t - epsilon), e^t] for some t (bounded range), so the two laws come by
    post-processing from those of one coin that has these two ratios (a likelihood ratio between two bounds
    is below one at the bounds in the convex order; Blackwell 1953). It lands on one side with
    probabilities p and q, and logit q - logit p = t - (t - epsilon) = epsilon. The trade-off of the coin has
    one corner, (q', p') with q' = 1 - q, p' = p, and Gaussians of distance mu, whose trade-off is convex, are
    easier to tell apart if they are so at that corner: if z(q) - z(p) <= mu, z the inverse of the normal
    distribution function. That follows from z'(u) u (1 - u) <= root(2 pi) / 4, which is that
    h(u) = I(u) - 4 u (1 - u) / root(2 pi) >= 0 for I(u) = phi(z(u)). It is so: h is 0 at 0 and 1, and h =
    h' = 0 at 1/2; as I'' = -1 / I, h is convex where I is above root(2 pi) / 8, an interval around 1/2, on
    which it is thus not negative, and concave on either side of it, where it is not negative at both ends.
    """

    choice_price: ClassVar[Fraction] = CHOICE_GDP

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
            UnsupportedEventError: The event is neither a choice nor rounded Gaussian noise.
        """
        rho = event_rho(event)
        if isinstance(event, ExponentialEvent):
            # The zCDP price is epsilon^2 / 8, so eight times it is the epsilon^2 that CHOICE_GDP is per unit
            # of.
            return rho * 8 * CHOICE_GDP
        if not isinstance(event, GaussianEvent | PartitionEvent) or event.rounded is not True:
            raise UnsupportedEventError(
                invalid(
                    "event", "a choice or rounded Gaussian noise under GDP", "Use zCDP accounting instead."
                )
            )
        return rho


def _sampling_error() -> UnsupportedEventError:
    constraint = "one with a cost in zCDP, or at the order of a Renyi ledger"
    return UnsupportedEventError(invalid("event", constraint, "Keep the ledger with `Renyi(order)`."))


def _below(delta: Fraction) -> float:
    """The largest float at most delta."""
    near = float(delta)
    # The nearest float may be the next one above, so it is stepped down where it is.
    return math.nextafter(near, -math.inf) if Fraction(near) > delta else near


def _exact(name: str, value: object, *, least: int | None = None) -> Fraction:
    """The value as a fraction, once checked: above 0, or at least `least`."""
    # A bool is an int to Python, and True would pass as a price of 1.
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        exact = Fraction(value)
        if exact > 0 or (least is not None and exact >= least):
            return exact
    bound = "above 0" if least is None else f"at least {least}"
    raise InputError(invalid(name, f"an int or Fraction {bound}", "Correct the event.", got=value))
