"""What a fitted model may take of memory: figures that its limit and the plan share.

`Room` says how many rows and cells a generator of rows may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.domain import Clique, Domain

PROGRAM, CELL_BYTES = 320_000_000, 100
"""Bytes of the program with its libraries, and at most of one cell of a junction tree: its belief, index
maps, the optimiser's history, and the tables on the way to all pairs and to rows. bench/runs/aim_load.py
checks them."""

A_SQUARE, A_CODE = 84, 24
"""Bytes at most of each pair of codes in a mixture, and of each code in each component: measurements, the
two halves that candidates are fitted to and judged by, model and gradients, the optimiser's memory, and the
tables on the way to rows."""

MIN_MEMORY = 400_000_000
"""The least max_memory that leaves room for a model."""


def check_memory(max_memory: int | None) -> None:
    """Check that a limit on memory leaves room for a model.

    Raises:
        InputError: It is below MIN_MEMORY.
    """
    if max_memory is not None and max_memory < MIN_MEMORY:
        least = f"at least {MIN_MEMORY // 10**6} MB"
        raise InputError(invalid("max_memory", least, "Give more.", got=max_memory))


A_TABLE_CELL, A_ROW = 64, 40
"""Bytes at most of a cell of all tables together, measured and consistent, and of a row beside its codes."""
MIN_DEFAULT_ROWS = 10_000
"""Rows by default where a model stands for fewer: a table of few rows cannot hold fractions of one."""


@dataclass(frozen=True, slots=True)
class Room:
    """Limits that generators of rows share.

    Args:
        rows: Rows of the table; None for the rows it stands for, between MIN_DEFAULT_ROWS and max_rows.
        max_rows: Rows of the table, at most.
        max_cells: Cells of all tables together, at most.
        max_memory: Bytes of the program with the model: half of what is left is for cells, half for rows.

    Raises:
        InputError: A limit is out of range.
    """

    rows: int | None
    max_rows: int
    max_cells: int
    max_memory: int | None

    def __post_init__(self) -> None:
        for param, value in (
            ("rows", self.rows),
            ("max_rows", self.max_rows),
            ("max_cells", self.max_cells),
        ):
            if value is not None and value < 1:
                raise InputError(invalid(param, "at least 1", "Try the default.", got=value))
        check_memory(self.max_memory)

    @property
    def most_cells(self) -> int:
        """Cells that all tables may have together under both limits."""
        if self.max_memory is None:
            return self.max_cells
        # Half of what is left beside the program is for cells and half for rows.
        return min(self.max_cells, (self.max_memory - PROGRAM) // (2 * A_TABLE_CELL))

    def rows_for(self, total: float, attributes: int, most: int | None = None) -> int:
        """Rows of a table that stands for `total` rows; at most `most` where that is given."""
        wanted = max(round(total), MIN_DEFAULT_ROWS) if self.rows is None else self.rows
        limits = [self.max_rows] if most is None else [self.max_rows, most]
        if self.max_memory is not None:
            limits.append((self.max_memory - PROGRAM) // (2 * (A_ROW + 8 * attributes)))
        return max(min(wanted, *limits), 1)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the tables fit.

        Raises:
            InputError: They have more cells than allowed.
        """
        cells = tables_cells(domain, cliques)
        if cells > self.most_cells:
            remedy = "Measure fewer marginals, use fewer bins, or raise max_cells or max_memory."
            raise InputError(invalid("cells of all tables", f"at most {self.most_cells}", remedy, got=cells))

    def cells(
        self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]
    ) -> NDArray[np.float64]:
        """Cells of all distinct tables with each one candidate, infinite where too many: [candidates]."""
        known, base = {domain.canonical(clique) for clique in cliques}, tables_cells(domain, cliques)
        extra = [0 if domain.canonical(c) in known else domain.size(domain.canonical(c)) for c in candidates]
        found = np.array([float(max(base + more, 1)) for more in extra])
        return np.where(found > self.most_cells, np.inf, found)


def tables_cells(domain: Domain, cliques: Sequence[Clique]) -> int:
    """Cells of all distinct cliques together."""
    return sum(domain.size(clique) for clique in {domain.canonical(clique) for clique in cliques} if clique)
