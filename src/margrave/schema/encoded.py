"""Encoded: a table as integer codes, one compact column an attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.domain import Clique, Domain

Codes = NDArray[np.unsignedinteger[Any]]


def code_dtype(size: int) -> np.dtype[Any]:
    """The narrowest of uint8, uint16 and uint32 that holds codes 0 to size - 1."""
    if size <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16 if size <= 1 << 16 else np.uint32)


@dataclass(frozen=True, slots=True, repr=False)
class Encoded:
    """Rows as integer codes, stored by column.

    Args:
        domain: Names and sizes of the attributes.
        columns: One array of shape [rows] an attribute, in the domain's order, of dtype uint8, uint16 or
            uint32, with values below the attribute's size.

    Private when it was made from private rows: its repr shows names only.

    Raises:
        SchemaError: The columns are not as many as the attributes or differ in length.
    """

    domain: Domain
    columns: tuple[Codes, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if len(self.columns) != len(self.domain):
            raise SchemaError(invalid("columns", "one array an attribute", "Encode with the same schema."))
        if len({column.shape for column in self.columns}) > 1:
            raise SchemaError(invalid("columns", "of equal length", "Encode the columns of one table."))

    @property
    def rows(self) -> int:
        """Number of rows. Not private only if the rows are synthetic."""
        return int(self.columns[0].shape[0]) if self.columns else 0

    def column(self, name: str) -> Codes:
        """The codes of one attribute, shape [rows]."""
        return self.columns[self.domain.index(name)]

    def __repr__(self) -> str:
        return f"Encoded({list(self.domain.names)})"


def tabulate_rows(rows: Encoded, domain: Domain, clique: Clique) -> NDArray[np.float64]:
    """How many rows are in each cell of a clique's table, shape domain.shape(clique). **Not private**.

    Args:
        rows: Public rows, rows that a model drew, or what an evaluation is given.
        domain: Sizes of the attributes.
        clique: Which of them.
    """
    cells = np.zeros(rows.rows, dtype=np.int64)
    for name in clique:
        cells = cells * domain[name] + rows.column(name)
    return np.bincount(cells, minlength=domain.size(clique)).reshape(domain.shape(clique)).astype(np.float64)
