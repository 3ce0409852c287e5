"""Columns that are left out of a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from margrave.errors import SchemaError, invalid
from margrave.schema.column import Column

__all__ = ["Omitted"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted(Column):
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
    attribute: ClassVar[bool] = False
    reason: str = ""

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
        raise SchemaError(invalid(f"column {self.name!r}", "an attribute", "Omitted columns have no codes."))
