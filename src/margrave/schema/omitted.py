"""Columns that are left out of a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from margrave.schema.column import CodelessColumn

__all__ = ["Omitted"]


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
