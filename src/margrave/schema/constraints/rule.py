"""Rule: the base of all rules, and the values that they are written with."""

from __future__ import annotations

import dataclasses
import datetime
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from margrave.errors import SchemaError, invalid
from margrave.schema.columns import Scalar

Value = Scalar | None
"""A listed value; None means missing."""
BOUNDS = (str, int, float, datetime.date, datetime.time)
Bound = Any
"""A number, or for dates and moments whatever their bounds may be written as; None for no bound."""
OPTIONAL = ("share", "texts")
"""Fields that a JSON object has only where they say something."""


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """Base of all rules."""

    kind: ClassVar[str]

    @property
    def about_codes(self) -> bool:
        """Whether models keep to it, so that its columns keep codes of their own."""
        return True

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns it speaks of."""

    @property
    def names_missing(self) -> bool:
        """Whether it says something of missing values."""
        return False

    @property
    def words(self) -> str:
        """What it is about, for reading: its kind and its columns."""
        return f"{self.kind} ({', '.join(self.names)})"

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the rule's kind and fields; what is `OPTIONAL` is left out where it is None."""
        fields = {field.name: _list_values(getattr(self, field.name)) for field in dataclasses.fields(self)}
        left_out = [name for name in OPTIONAL if name in fields and fields[name] is None]
        return {"kind": self.kind, **{name: value for name, value in fields.items() if name not in left_out}}

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error; None where it was declared."""
        return None

    def _distinct(self) -> None:
        names = self.names
        if len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
            raise SchemaError(invalid(f"columns of rule {self.kind!r}", "distinct names", "Check them."))


def take_scalars(values: Iterable[Any]) -> tuple[Any, ...]:
    """Values of Python, as schema.json can hold them."""
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def check_values(values: Iterable[Any]) -> None:
    """Refuse what schema.json cannot hold as a value.

    Raises:
        SchemaError: Something is no text, number or truth value, nor None.
    """
    if not all(value is None or isinstance(value, str | int | float) for value in values):
        raise SchemaError(invalid("values of rules", "texts, numbers, truth values or null", "Check them."))


def _list_values(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_list_values(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
