"""Column: the base of all column kinds, and the kind that is not known yet.

Columns that are left out of a release.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from margrave.errors import SchemaError, invalid

Scalar = str | int | float | bool

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def split_words(name: str) -> tuple[str, ...]:
    """The words that a column's name is made of, in lower case: "birthDate" and "birth_date" have two."""
    return tuple(word.lower() for word in WORDS.findall(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(ABC):
    """Base of all column kinds.

    Args:
        name: Name of the column.
        missing: Whether values may be missing; None if that is not known.
        strict: Whether a value outside the declaration is an error (declared columns) or is absorbed
            (discovered ones): into `other`, into the nearest bin, or into the likeliest code.
        mark: What a missing value is written as in text files; "" for what the file's other columns have.
    """

    kind: ClassVar[str]
    attribute: ClassVar[bool] = True
    """Whether models see it; free identifiers they do not."""
    derived: ClassVar[frozenset[str]] = frozenset()
    """Fields that follow from the kind's others: a schema.json leaves them out, and says none of them."""
    read: ClassVar[str] = "number"
    """As what its cells are read where they have a number; one of `schema.queries.READS`."""
    name: str
    missing: bool | None = None
    strict: bool = True
    mark: str = ""

    @property
    @abstractmethod
    def known(self) -> bool:
        """Whether rows can be encoded by it: no part is missing that codes need."""

    @property
    def open(self) -> bool:
        """Whether discovery has something to find out."""
        return not self.known

    @property
    @abstractmethod
    def present(self) -> int:
        """Number of codes that are not missing, `other` included.

        Raises:
            SchemaError: The column is not known yet.
        """

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.present + bool(self.missing)

    @property
    def ordered(self) -> int:
        """How many leading codes stand in a natural order; 0 for none."""
        return 0

    @property
    def missing_code(self) -> int | None:
        """The code of a missing value, the last one; None if values cannot be missing."""
        return self.present if self.missing else None

    @property
    def zero_code(self) -> int | None:
        """The code that stands for the number 0 alone; None if there is none."""
        return None

    def absorb_outside(self) -> Column:
        """The column with values outside what it declares counted as `strict` says: never an error."""
        return replace(self, strict=False)

    def check_own(self) -> None:
        """Find what every column has to be what it should.

        Raises:
            SchemaError: The name is no text, or `missing` or `strict` no truth value.
        """
        if not isinstance(self.name, str):
            raise SchemaError(invalid("name of a column", "text", "Try name='age'.", got=self.name))
        for part, value in (("missing", self.missing), ("strict", self.strict)):
            if not isinstance(value, (bool, np.bool_)) and not (part == "missing" and value is None):
                where = f"{part} of column {self.name!r}"
                raise SchemaError(invalid(where, "True or False", "Leave it out if it is open.", got=value))

    def _check_rare(self, rare: object) -> None:
        if not isinstance(rare, (int, float)) or not 0 <= rare < 1:
            raise SchemaError(invalid(f"rare of column {self.name!r}", "in [0, 1)", "Try 0.002.", got=rare))

    def _unknown(self) -> SchemaError:
        return SchemaError(
            invalid(f"column {self.name!r}", "known before it is encoded", "Declare it or discover it.")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodelessColumn(Column):
    """Base of kinds that no model sees: there is nothing to know of such a column, and it has no codes."""

    attribute: ClassVar[bool] = False

    @property
    def known(self) -> bool:
        """Always: there is nothing to know."""
        return True

    @property
    def present(self) -> int:
        """Not defined: the column has no codes.

        Raises:
            SchemaError: Always.
        """
        remedy = f"Columns of the kind {self.kind!r} have no codes."
        raise SchemaError(invalid(f"column {self.name!r}", "an attribute", remedy))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Column):
    """Text of which nothing is known: discovery decides its kind.

    Args:
        textual: Whether text of digits stays text, because the storage has numbers of their own; in a text
            file it becomes numbers.
    """

    kind: ClassVar[str] = "unknown"
    textual: bool = False

    @property
    def known(self) -> bool:
        """Never."""
        return False

    @property
    def present(self) -> int:
        """Not defined.

        Raises:
            SchemaError: Always.
        """
        raise self._unknown()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted(CodelessColumn):
    """A column that is not released: no attribute of any model, and no column of the synthetic table.

    Declare free text so, such as notes: it costs nothing, and its cells are never read. Discovery gives this
    kind to text of which nothing can be told, and says why.

    Args:
        reason: Why it is left out, in a few public words.

    Example:
        >>> Omitted(name="note").attribute
        False
    """

    kind: ClassVar[str] = "omitted"
    reason: str = ""
