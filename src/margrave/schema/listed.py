"""Columns whose values are enumerated."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from margrave.errors import SchemaError, invalid
from margrave.schema.column import Column, Scalar

__all__ = ["Boolean", "Categorical", "Listed", "Ordinal", "other_label"]


def _is_scalar(value: object) -> bool:
    number = isinstance(value, (int, float, np.integer, np.floating)) and math.isfinite(value)
    return isinstance(value, str) or bool(number)


def other_label(values: Collection[Scalar]) -> str:
    """A label for all values that are not listed: "(other)", in more brackets where that is one of them."""
    label = "(other)"
    while label in values:
        label = f"({label})"
    return label


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Column):
    """A column whose values are enumerated.

    Args:
        values: The values, codes 0, 1, ...; None if they are not known.
        other: Label of the code for values not listed; None if there is no such code.
        rare: When values are discovered: least share of the rows, in [0, 1), of a value of its own; rarer
            ones join `other`. 0.002 is a common choice for methods that slow down with many values.
    """

    values: tuple[Scalar, ...] | None = None
    other: str | None = None
    rare: float = 0.0

    def __post_init__(self) -> None:
        given: object = self.values
        self._check_rare(self.rare)
        if self.values is None:
            return
        values = tuple(value.item() if isinstance(value, np.generic) else value for value in self.values)
        if isinstance(given, str) or not all(_is_scalar(value) for value in values):
            raise SchemaError(
                invalid(
                    f"values of column {self.name!r}",
                    "a list of texts, finite numbers or truth values",
                    "Say missing=True for missing values.",
                )
            )
        object.__setattr__(self, "values", values)
        if len(set(values)) != len(values) or self.other in values:
            raise SchemaError(invalid(f"values of column {self.name!r}", "distinct", "List each once."))
        if not values and self.other is None and not self.missing:
            raise SchemaError(
                invalid(f"values of column {self.name!r}", "at least one", "List the values it may take.")
            )

    @property
    def known(self) -> bool:
        """Whether values and missingness are known."""
        return self.values is not None and self.missing is not None

    @property
    def other_code(self) -> int | None:
        """The code of a value that is not listed; None if there is no such code."""
        return None if self.values is None or self.other is None else len(self.values)

    @property
    def present(self) -> int:
        """Number of values, plus one if there is an `other`."""
        if self.values is None:
            raise self._unknown()
        return len(self.values) + (self.other is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each code, for reading."""
        shown = [str(value) for value in self.values or ()]
        return (
            *shown,
            *([self.other] if self.other is not None else []),
            *(["missing"] if self.missing else []),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Listed):
    """Values without an order."""

    kind: ClassVar[str] = "categorical"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal(Listed):
    """Values listed from least to greatest."""

    kind: ClassVar[str] = "ordinal"

    @property
    def ordered(self) -> int:
        """The listed values, as they are given."""
        return len(self.values or ())


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Listed):
    """False and True; the values are public by nature."""

    kind: ClassVar[str] = "boolean"
    values: tuple[Scalar, ...] | None = (False, True)
