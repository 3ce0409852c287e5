"""observed: a schema read off the tables themselves, for comparing them. **Not private.**"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import (
    Binned,
    Categorical,
    Column,
    Date,
    Integer,
    Listed,
    Moment,
    Real,
    Temporal,
    Time,
    Unknown,
)
from margrave.schema.profile import PROFILE
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Source

__all__ = ["observed_schema"]

BINS = 20
CELLS = 4096
KINDS: dict[type[Column], tuple[str, ...]] = {
    Real: ("whole", "number"),
    Date: ("date",),
    Moment: ("date", "moment"),
    Time: ("time",),
}
"""Classes of cells that a text column of each kind holds."""


def observed_schema(real: Source, synthetic: Source, declared: Schema | None = None) -> Schema:
    """The columns of two tables with the values and ranges they hold, under which both encode.

    **Not private**: it reads both tables exactly. Numbers are cut into at most 20 bins of like mass of the
    real table; a column that is fully declared is taken as declared, but absorbs values outside.

    Args:
        real: The real table.
        synthetic: The other one, with the same columns.
        declared: What is already known.
    """
    known = {column.name: column for column in declared.columns} if declared else {}
    columns = []
    for stored in real.columns:
        column = known.get(stored.name, stored)
        columns.append(column if column.known else _observed(stored, real, synthetic))
    return Schema(tuple(dataclasses.replace(column, strict=False) for column in columns))


def _observed(column: Column, real: Source, synthetic: Source) -> Column:
    kinds = real.kinds(column.name).reveal()
    both = kinds + synthetic.kinds(column.name).reveal()
    missing = bool(both[0] > 0)
    if not isinstance(column, (Binned, Listed)):
        column = _kind(column, both)
    if isinstance(column, Listed) and column.values is not None:
        return dataclasses.replace(column, missing=missing)
    if isinstance(column, Binned):
        kind = type(column) if isinstance(column, Temporal) else Real if both[2] > 0 else Integer
        edges = _edges(real, synthetic, column, kind is not Real)
        return kind(name=column.name, edges=edges, missing=missing)
    texts = {*real.values(column.name)[0], *synthetic.values(column.name)[0]}
    return Categorical(name=column.name, values=tuple(sorted(texts)), missing=missing)


def _kind(column: Column, kinds: NDArray[np.int64]) -> Column:
    """The kind that all present cells of a text column have."""
    textual = isinstance(column, Unknown) and column.textual
    for kind, held in KINDS.items():
        if textual and kind is Real:
            continue
        if kinds[[PROFILE.index(name) for name in held]].sum() == kinds[1:].sum():
            return kind(name=column.name)
    return Categorical(name=column.name)


def _edges(real: Source, synthetic: Source, column: Binned, whole: bool) -> tuple[float, ...]:
    """Bin edges of like mass between the extremes, to a 4096th of the range."""
    reach = 2.0 ** np.arange(-40, 64)
    grid = np.concatenate([-reach[::-1], [0.0], reach])
    name, read = column.name, column.read
    counts = real.histogram(name, grid, read).reveal() + synthetic.histogram(name, grid, read).reveal()
    held = np.flatnonzero(counts)
    if not len(held):
        return (0.0, 1.0)
    low, high = float(grid[held[0]]), float(grid[held[-1] + 1])
    fine = np.linspace(low, high, CELLS + 1)
    if whole:
        fine = np.unique(np.floor(fine))
    fine = np.append(fine, fine[-1] + 1) if len(fine) < 2 else fine
    cells = real.histogram(name, fine, read).reveal()
    return _quantiles(fine, cells)


def _quantiles(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, ...]:
    target = max(counts.sum() / BINS, 1.0)
    kept, mass = [float(edges[0])], 0.0
    for edge, count in zip(edges[1:-1], counts[:-1], strict=True):
        mass += float(count)
        if mass >= target:
            kept.append(float(edge))
            mass = 0.0
    return (*kept, float(edges[-1]))
