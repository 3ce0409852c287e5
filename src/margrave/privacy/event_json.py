"""Events as plain JSON objects and back; fractions are written "p/q", so nothing is rounded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from margrave.errors import InputError, UnsupportedEventError, invalid
from margrave.privacy.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PartitionEvent,
    SubsampledGaussianEvent,
)

__all__ = ["event_from_json", "event_to_json", "fraction_of"]

_FRACTION = re.compile(r"(-?[0-9]{1,4000})(?:/([0-9]{1,4000}))?", re.ASCII)
_CLASSES: dict[str, type[Event]] = {
    "exponential": ExponentialEvent,
    "gaussian": GaussianEvent,
    "laplace": LaplaceEvent,
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
            invalid("event", "of a known class", "Use the events of margrave.privacy.events.")
        )
    found: dict[str, object] = {"event": _NAMES[type(event)]}
    for field in fields(event):
        value = getattr(event, field.name)
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
    if set(record) != {"event", *wanted}:
        raise _damaged()
    values: dict[str, Any] = {name: _read(record[name], kind) for name, kind in wanted.items()}
    return cls(**values)


def _read(value: object, kind: str) -> object:
    """A field's value, from JSON."""
    if kind == "Fraction" and isinstance(value, str):
        found = fraction_of(value)
        if found is None:
            raise _damaged()
        return found
    types: dict[str, type] = {"str": str, "int": int, "bool": bool}
    if kind in types and type(value) is types[kind]:
        return value
    raise _damaged()


def fraction_of(text: str) -> Fraction | None:
    """A fraction as it is written here, "12/5" or "12"; None for anything else.

    `Fraction` itself also reads "4e999999999", and would work out all those digits.
    """
    parts = _FRACTION.fullmatch(text)
    if parts is None or int(parts[2] or 1) == 0:
        return None
    return Fraction(int(parts[1]), int(parts[2] or 1))


def _damaged() -> InputError:
    return InputError(invalid("event", "complete, each field of its type", "The record is damaged."))
