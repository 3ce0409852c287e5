"""Exact counts of encoded rows, one row after the other: slow and plainly right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from margrave.engines.counts import Counts
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype


class Rows:
    """An engine that counts row by row."""

    def __init__(self, rows: Encoded) -> None:
        self.rows = rows

    @property
    def domain(self) -> Domain:
        return self.rows.domain

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        tables = []
        for clique in cliques:
            table = np.zeros(self.domain.shape(clique), dtype=np.int64)
            np.add.at(table, tuple(self.rows.column(name).astype(np.int64) for name in clique), 1)
            tables.append(Counts(table))
        return tables


def encoded(domain: Domain, table: np.ndarray) -> Encoded:
    columns = [table[:, place].astype(code_dtype(size)) for place, size in enumerate(domain.sizes)]
    return Encoded(domain, tuple(columns))


def dependent(rows: int, seed: int, noise: float = 0.2) -> Encoded:
    """Five columns, each mostly decided by a hidden one."""
    rng = np.random.default_rng(seed)
    domain = Domain(("a", "b", "c", "d", "e"), (2, 3, 4, 5, 2))
    hidden = rng.integers(0, 60, rows)
    columns = []
    for size in domain.sizes:
        lost = rng.random(rows) < noise
        columns.append(np.where(lost, rng.integers(0, size, rows), hidden * size // 60))
    return encoded(domain, np.column_stack(columns))
