"""Columns whose values are enumerated."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from margrave.errors import SchemaError, invalid
from margrave.schema.columns.base import Column, Scalar
from margrave.schema.columns.identifier import Identifier, shape_parts
from margrave.schema.columns.repeats import Repeats, check_repeats

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
"""Stands behind a beginning in labels."""
FALSITIES = {"true": "false", "True": "False", "TRUE": "FALSE"}
"""Spellings of true, and of the false that goes with each."""
TRUE = "true"
"""How true is written where nothing says otherwise."""


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
        self._check_shapes()
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
        if not values and not self.grouped and self.other is None and not self.missing:
            raise SchemaError(
                invalid(f"values of column {self.name!r}", "at least one", "List the values it may take.")
            )

    def _check_shapes(self) -> None:
        """Refuse here what would otherwise fail when rows are drawn, once the budget is spent."""
        for shape in (*self.rests, *self.patterns, self.other_shape):
            try:
                if isinstance(shape, str) and shape:
                    shape_parts(shape)
            except SchemaError as error:
                raise SchemaError(f"column {self.name!r}: {error} (got {shape!r})") from None

    @property
    def stems(self) -> tuple[str, ...]:
        """Beginnings of texts that share a code, in the order of their codes behind the values."""
        return ()

    @property
    def rests(self) -> tuple[str, ...]:
        """For each stem the shape of what decoding writes behind it; "" where the stem stands alone."""
        return ("",) * len(self.stems)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Shapes of whole texts that share a code, in the order of their codes behind the stems."""
        return ()

    @property
    def grouped(self) -> int:
        """Number of codes that stand for many texts each: those of beginnings and patterns."""
        return len(self.stems) + len(self.patterns)

    @property
    def other_shape(self) -> str:
        """The shape of texts that decoding draws for the code `other`; "" writes its label."""
        return ""

    @property
    def known(self) -> bool:
        """Whether values and missingness are known."""
        return self.values is not None and self.missing is not None

    @property
    def other_code(self) -> int | None:
        """The code of a value that is not listed; None if there is no such code."""
        return None if self.values is None or self.other is None else len(self.values) + self.grouped

    @property
    def present(self) -> int:
        """Number of values, beginnings and patterns, plus one if there is an `other`."""
        if self.values is None:
            raise self._unknown()
        return len(self.values) + self.grouped + (self.other is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each code, for reading."""
        shown = [str(value) for value in self.values or ()]
        return (
            *shown,
            *(f"{stem}{ELLIPSIS}" for stem in self.stems),
            *self.patterns,
            *([self.other] if self.other is not None else []),
            *(["missing"] if self.missing else []),
        )

    def absorb_outside(self) -> Column:
        """The column with a code "(other)" for values that are not listed, if it is strict and has none."""
        if self.values is None or not self.strict:
            return replace(self, strict=False)
        other = other_label(self.values) if self.other is None else self.other
        return replace(self, strict=False, other=other)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Listed):
    """A column of values without an order: sex, ward, country, a code.

    Say what is public about the column; what is left out is discovered, within the epsilon of the run, and
    then values that are too rare for their noise become "(other)".

    Args:
        name: Name of the column.
        values: The values that may occur, as texts, numbers or truth values; left out, they are discovered.
        missing: True if values may be missing, False if none ever is; left out, it is discovered.
        other: Label of all values that are not listed; left out, a value that is not listed ends the run with
            an error, unless `strict` is False.
        strict: Whether a value that is not listed and has no `other` is an error (the default).
        rare: Where values are discovered: the least share of the rows that a value of its own has to have.
        prefixes: Beginnings of texts that have a code of their own for all texts that begin so and are not
            listed, as in "I21" for I21.3 and I21.9; the longest that fits is taken.
        endings: For each of them what decoding writes behind it: the shape
        (`margrave.schema.columns.identifier`) of the
            rest, as in "[0-9]{2}", of which it draws one; or "" for the beginning alone.
        patterns: Shapes of whole texts that have a code of their own for all texts of that shape which are
            not listed and have none of the prefixes, as in "1[0-9]{2}/[0-9]{2}" for 120/80; the first that
            fits is taken, and decoding draws one of its texts.
        others: The shape of texts that decoding draws for the code `other`; "" writes its label.
        unique: Whether decoding draws no text of a pattern twice, as for keys whose beginning says something
            of the row; longer texts are drawn where a pattern has too few.
        repeats: In how many rows each of the texts is that decoding draws, see
            `margrave.schema.columns.repeats`; left out, each row has one of its own, which may be another's
            by chance.

    Raises:
        SchemaError: The parts do not fit together.

    Example:
        >>> Categorical(name="sex", values=("F", "M"), missing=True).labels
        ('F', 'M', 'missing')
        >>> Categorical(name="zip").known  # values and missing values are discovered
        False
        >>> codes = Categorical(name="zip", values=("01591",), prefixes=("015",), endings=("[0-9]{2}",))
        >>> codes.labels
        ('01591', '015…')
    """

    kind: ClassVar[str] = "categorical"
    prefixes: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    others: str = ""
    unique: bool = False
    repeats: Repeats = ()

    def __post_init__(self) -> None:
        Listed.__post_init__(self)
        texts = all(isinstance(part, str) for part in (*self.prefixes, *self.endings))
        if not texts or "" in self.prefixes or len(set(self.prefixes)) != len(self.prefixes):
            remedy = "Write each beginning once."
            raise SchemaError(invalid(f"prefixes of column {self.name!r}", "distinct texts", remedy))
        if len(self.endings) != len(self.prefixes):
            remedy = 'Write "" where a beginning stands alone.'
            raise SchemaError(invalid(f"endings of column {self.name!r}", "one for each prefix", remedy))
        written = all(isinstance(shape, str) and shape for shape in self.patterns)
        if not written or len(set(self.patterns)) != len(self.patterns):
            remedy = "Write each pattern once."
            raise SchemaError(invalid(f"patterns of column {self.name!r}", "distinct texts", remedy))
        if type(self.unique) is not bool or (self.unique and not self.patterns):
            remedy = "Leave it out, or name the patterns of the keys."
            raise SchemaError(invalid(f"unique of column {self.name!r}", "given with patterns only", remedy))
        object.__setattr__(self, "repeats", check_repeats(self.name, self.repeats))

    @property
    def stems(self) -> tuple[str, ...]:
        """The prefixes."""
        return self.prefixes

    @property
    def rests(self) -> tuple[str, ...]:
        """The endings."""
        return self.endings

    @property
    def other_shape(self) -> str:
        """That of `others`."""
        return self.others


def has_new_keys(column: Column) -> bool:
    """Whether decoding makes new keys for all of a column's texts, whether a model sees it or not."""
    return isinstance(column, Identifier) or (isinstance(column, Categorical) and column.unique)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal(Listed):
    """A column of values with an order: grades, degrees of severity, answers from "never" to "always".

    Models use the order: neighbouring values are taken to be alike as far as noise leaves it open.

    Args:
        name: Name of the column.
        values: The values that may occur, from the least to the greatest.
        missing: True if values may be missing, False if none ever is; left out, it is discovered.
        other: Label of all values that are not listed; left out, a value that is not listed ends the run with
            an error, unless `strict` is False.
        strict: Whether a value that is not listed and has no `other` is an error (the default).
        rare: Where values are discovered: the least share of the rows that a value of its own has to have.

    Raises:
        SchemaError: The parts do not fit together.

    Example:
        >>> severity = Ordinal(name="severity", values=("minor", "moderate", "major"), missing=False)
        >>> severity.ordered
        3
    """

    kind: ClassVar[str] = "ordinal"

    @property
    def ordered(self) -> int:
        """The listed values, as they are given."""
        return len(self.values or ())


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Listed):
    """A column of truth values; that these are False and True is public by nature.

    Args:
        name: Name of the column.
        missing: True if values may be missing, False if none ever is; left out, it is discovered.
        values, other, rare: As they are for all listed columns; left out.
        strict: Whether another value is an error (the default) or counts as False.
        spelling: How true is written where the column is text, one of `margrave.schema.profile.TRUTHS`; false
            is written likewise. Left out, text is written as most of its cells are, which discovery asks for,
            and other storage has no spelling; None is what discovery makes of it till then.

    Example:
        >>> Boolean(name="smoker", missing=False).labels
        ('False', 'True')
    """

    kind: ClassVar[str] = "boolean"
    values: tuple[Scalar, ...] | None = (False, True)
    spelling: str | None = ""

    def __post_init__(self) -> None:
        Listed.__post_init__(self)
        if self.spelling and self.spelling not in FALSITIES:
            constraint = f"one of {list(FALSITIES)}"
            where = f"spelling of column {self.name!r}"
            raise SchemaError(invalid(where, constraint, "Pick one.", got=self.spelling))

    def spell(self, value: Scalar) -> str:
        """A truth value as the column's text has it; another value as it is."""
        if not isinstance(value, bool):
            return str(value)
        spelling = self.spelling or TRUE
        return spelling if value else FALSITIES[spelling]

    @property
    def open(self) -> bool:
        """Whether missing values or the spelling are to be discovered."""
        return not self.known or self.spelling is None

    def absorb_outside(self) -> Column:
        """The column with another value counted as False: there is no third truth value."""
        return replace(self, strict=False)
