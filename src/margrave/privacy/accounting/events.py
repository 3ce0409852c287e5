"""Events: what was spent on private data, as frozen data. Accountants interpret them.

An event describes one randomised answer completely enough to price it under any accounting. Parameters
are exact (`int` and `Fraction`), so that totals are equalities and not comparisons of floats.

Events go to plain JSON objects and back; fractions are written "p/q", so nothing is rounded. An appraisal is
recorded by public words, and what these say to a reader is read off them here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from margrave.errors import InputError, UnsupportedEventError, invalid


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
    the order: one of a ledger kept at this order (`margrave.privacy.accounting.accountants.Renyi`), no cost
    in zCDP.
    """

    steps: int
    rate: Fraction
    l2_squared: int
    sigma_squared: Fraction
    order: int


@dataclass(frozen=True, slots=True)
class ObjectiveEvent(Event):
    """The minimiser of a convex sum over rows, with a ridge and a Gaussian linear term.

    Each row's loss is a function of one number theta'x with a slope of at most 1 and bounded curvature. Up to
    `changed` rows differ between neighbours, `replaced` of them at most in one table; `ratio` is the largest
    curvature of a row's loss over the ridge, l2_squared bounds (changed times the longest x)^2 and
    sigma_squared is the variance of each number of the linear term, in the same steps. Its price is a Renyi
    divergence of that `order`, over the order; proof: `margrave.privacy.accounting.renyi`.
    """

    changed: int
    replaced: int
    ratio: Fraction
    l2_squared: int
    sigma_squared: Fraction
    order: int


_FRACTION = re.compile(r"(-?[0-9]{1,4000})(?:/([0-9]{1,4000}))?", re.ASCII)
_CLASSES: dict[str, type[Event]] = {
    "exponential": ExponentialEvent,
    "gaussian": GaussianEvent,
    "objective": ObjectiveEvent,
    "partition": PartitionEvent,
    "subsampled": SubsampledGaussianEvent,
}
_NAMES = {cls: name for name, cls in _CLASSES.items()}


def event_to_json(event: Event) -> dict[str, object]:
    """An event as an object of JSON values, from which `event_from_json` builds an equal one.

    Raises:
        UnsupportedEventError: The event's class is unknown.

    Example:
        >>> event_to_json(GaussianEvent("age", 1, Fraction(25, 2)))["sigma_squared"]
        '25/2'
    """
    if type(event) not in _NAMES:
        raise UnsupportedEventError(
            invalid("event", "of a known class", "Use the events of margrave.privacy.accounting.events.")
        )
    found: dict[str, object] = {"event": _NAMES[type(event)]}
    # Fields are read from the declaration, so that a new event class needs no code here.
    for field in fields(event):
        value = getattr(event, field.name)
        # Types are compared as the strings that deferred annotations are.
        if field.type == "Fraction":
            value = Fraction(value)
            found[field.name] = f"{value.numerator}/{value.denominator}"
        else:
            found[field.name] = value
    return found


def event_from_json(record: Mapping[str, object]) -> Event:
    """The event that `event_to_json` wrote.

    Raises:
        UnsupportedEventError: It is of a class this version does not know.
        InputError: A field is missing, unknown or of the wrong type.
    """
    cls = _CLASSES.get(str(record.get("event")))
    if cls is None:
        raise UnsupportedEventError(
            invalid("event", "of a known class", "Read it with the version of margrave that wrote it.")
        )
    wanted = {field.name: str(field.type) for field in fields(cls)}
    # A record with a field more or less was written by another version or was damaged.
    if set(record) != {"event", *wanted}:
        raise _damaged_error()
    values: dict[str, Any] = {name: _read(record[name], kind) for name, kind in wanted.items()}
    return cls(**values)


def _read(value: object, kind: str) -> object:
    """A field's value, from JSON."""
    if kind == "Fraction" and isinstance(value, str):
        found = fraction_of(value)
        if found is None:
            raise _damaged_error()
        return found
    types: dict[str, type] = {"str": str, "int": int, "bool": bool}
    # The exact type, as JSON's true would otherwise pass for the number 1.
    if kind in types and type(value) is types[kind]:
        return value
    raise _damaged_error()


def fraction_of(text: str) -> Fraction | None:
    """A fraction as it is written here, "12/5" or "12"; None for anything else.

    `Fraction` itself also reads "4e999999999", and would work out all those digits.
    """
    parts = _FRACTION.fullmatch(text)
    if parts is None or int(parts[2] or 1) == 0:
        return None
    return Fraction(int(parts[1]), int(parts[2] or 1))


def _damaged_error() -> InputError:
    return InputError(invalid("event", "complete, each field of its type", "The record is damaged."))


@dataclass(frozen=True, slots=True)
class Appraisal:
    """Errors of many marginals that were released together.

    Args:
        marginals: How many.
        columns: Columns of each, 0 where they have not the same number.
        sigma: Standard deviation of the noise in each error, in rows.
    """

    marginals: int
    columns: int
    sigma: float

    @property
    def largest(self) -> float:
        """What the noise of the largest of the errors seldom exceeds, in rows."""
        # The expected maximum of n normal variables is at most sqrt(2 ln n) sigma; one sigma more is seldom
        # passed.
        return (math.sqrt(2.0 * math.log(max(self.marginals, 1))) + 1.0) * self.sigma


def describe_appraisal(columns: Sequence[int], digits: int) -> str:
    """The words for an appraisal of marginals with so many columns each, in steps of 2^-digits rows."""
    each = f" of {columns[0]} columns" if len(set(columns)) == 1 else ""
    return f"errors of {len(columns)} marginals{each}, in steps of 2^-{digits} rows"


def read_appraisal(event: Event) -> Appraisal | None:
    """What an event says of an appraisal; None if it is another."""
    found = re.fullmatch(
        r"errors of (\d+) marginals(?: of (\d+) columns)?, in steps of 2\^-(\d+) rows", event.what
    )
    if found is None or not isinstance(event, GaussianEvent):
        return None
    sigma = math.sqrt(float(event.sigma_squared)) / 2.0 ** int(found[3])
    return Appraisal(int(found[1]), int(found[2] or 0), sigma)
