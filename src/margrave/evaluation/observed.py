"""Schemas read off the tables themselves, for comparing them. **Not private.**

`observed_schema` reads two tables, and `widen_schema` adds what a third one holds besides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import (
    Binned,
    Boolean,
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
from margrave.schema.profile import PROFILE, TRUTHS
from margrave.schema.schema import Schema
from margrave.schema.storage.spelling import choose_date_format, choose_number_format

if TYPE_CHECKING:
    from margrave.protocols import Source

BINS = 20
"""Bins that a column of numbers is compared in."""
CELLS = 4096
"""Equal cells of the range, from which the edges of the bins are taken."""
MIN_KEY_VALUES = 1000
"""Values from which a text column in which most rows have one of their own tells rows apart."""
KINDS: dict[type[Column], tuple[str, ...]] = {
    Real: ("whole", "pointed", "number", "written number"),
    Date: ("date", "written date"),
    Moment: ("date", "moment", "written date", "written moment"),
    Time: ("time",),
    Boolean: TRUTHS,
}
"""Classes of cells that a text column of each kind holds."""


def observed_schema(
    real: Source, synthetic: Source | Sequence[Source], declared: Schema | None = None
) -> Schema:
    """The columns of two or more tables with the values and ranges they hold, under which all encode.

    **Not private**: it reads all tables exactly. Numbers are cut into at most 20 bins of like mass of the
    real table; a column that is fully declared is taken as declared, but absorbs values outside.

    Args:
        real: The real table.
        synthetic: The other one, or several, with the same columns.
        declared: What is already known.
    """
    known = {column.name: column for column in declared.columns} if declared else {}
    others = list(synthetic) if isinstance(synthetic, Sequence) else [synthetic]
    columns = []
    for stored in real.columns:
        column = known.get(stored.name, stored)
        columns.append(column if column.known else _observe_column(stored, real, others))
    return Schema(tuple(dataclasses.replace(column, strict=False) for column in columns))


def find_identifying(
    schema: Schema, real: Source, declared: Schema | None = None, *, keep: str | None = None
) -> list[str]:
    """Names of undeclared text columns in which most real rows have a value of their own. **Not private**.

    Counting them compares nothing, and makes tables as large as the rows. One column at least is left.

    Args:
        schema: As `observed_schema` reads it off the tables.
        real: The real table.
        declared: What was known before.
        keep: A column that is never among them.
    """
    known = {column.name for column in declared.columns if column.known} if declared else set()
    found = []
    for column in schema.attributes:
        if (
            isinstance(column, Categorical)
            and column.name not in known | {keep}
            and column.size > MIN_KEY_VALUES
        ):
            rows = int(real.kinds(column.name).reveal()[1:].sum())
            # Most values are of one row each: a name, an address, a number of a file.
            if 2 * len(real.values(column.name)[0]) > rows:
                found.append(column.name)
    return found if len(found) < len(schema.attributes) else found[1:]


def _observe_column(column: Column, real: Source, others: Sequence[Source]) -> Column:
    kinds = np.sum([source.kinds(column.name).reveal() for source in (real, *others)], axis=0)
    missing = bool(kinds[0] > 0)
    if not isinstance(column, (Binned, Listed)):
        column = _kind(column, kinds)
        column = _with_format(column, kinds, (real, *others))
        if not isinstance(column, Categorical):
            missing = missing or bool(kinds[PROFILE.index("mark")] > 0)
    if isinstance(column, Listed) and column.values is not None:
        return dataclasses.replace(column, missing=missing)
    if isinstance(column, Binned):
        decided = isinstance(column, Temporal) or column.format
        kind = type(column) if decided else Real if kinds[2] > 0 else Integer
        if column.format:
            real, *others = (source.read_as([column]) for source in (real, *others))
        edges = _edges(real, others, column, kind is not Real)
        return kind(name=column.name, edges=edges, missing=missing, format=column.format)
    texts = {text for source in (real, *others) for text in source.values(column.name)[0]}
    return Categorical(name=column.name, values=tuple(sorted(texts)), missing=missing)


def _kind(column: Column, kinds: NDArray[np.int64]) -> Column:
    """The kind that all present cells of a text column have."""
    textual = isinstance(column, Unknown) and column.textual
    marks = kinds[PROFILE.index("mark")]
    present = kinds.sum() - kinds[0] - marks
    for kind, held in KINDS.items():
        if textual and kind is Real and not kinds[PROFILE.index("written number")]:
            continue
        if present == kinds[[PROFILE.index(name) for name in held]].sum() and (present or not marks):
            return kind(name=column.name)
    return Categorical(name=column.name)


def _with_format(column: Column, kinds: NDArray[np.int64], sources: Sequence[Source]) -> Column:
    """A text column with the format that most of its numbers or dates fit."""
    written = [kinds[PROFILE.index(f"written {read}")] > 0 for read in ("number", "date", "moment")]
    if not isinstance(column, Binned) or not any(written):
        return column
    read = "date format" if isinstance(column, Temporal) else "number format"
    votes = np.sum([source.spellings(column.name, read).reveal() for source in sources], axis=0)
    if isinstance(column, Temporal):
        return dataclasses.replace(column, format=choose_date_format(votes, 0.0))
    found = choose_number_format(votes, 0.0)
    if found is None:
        return Categorical(name=column.name)
    written_as, decimals = found
    return (Real if decimals else Integer)(name=column.name, format=written_as)


def _edges(real: Source, others: Sequence[Source], column: Binned, whole: bool) -> tuple[float, ...]:
    """Bin edges of like mass between the extremes, to a 4096th of the range."""
    # A source answers histograms on given edges only, so the range is found on a grid of powers of two
    # first, and then cut finely.
    reach = 2.0 ** np.arange(-40, 64)
    grid = np.concatenate([-reach[::-1], [0.0], reach])
    name, read = column.name, column.read
    counts = np.sum([source.histogram(name, grid, read).reveal() for source in (real, *others)], axis=0)
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


def widen_schema(schema: Schema, other: Source, declared: Schema | None = None) -> Schema:
    """The schema with codes for the values and missing cells that only `other` has.

    **Not private**: it reads the table exactly. Without it a category of held-out rows that neither other
    table holds would be taken for one that they do. Bins stay as they are: the end ones take what is
    beyond. What is declared stays as declared.

    Args:
        schema: Made by `observed_schema` of the other two tables.
        other: The third table, with the same columns.
        declared: What was known of the columns before any was read.
    """
    known = {column.name for column in declared.columns if column.known} if declared else set()
    columns = (
        column if column.name in known or not column.attribute else _wider(column, other)
        for column in schema.columns
    )
    return dataclasses.replace(schema, columns=tuple(columns))


def _wider(column: Column, other: Source) -> Column:
    missing = bool(column.missing) or bool(other.kinds(column.name).reveal()[0] > 0)
    if not isinstance(column, Categorical) or column.values is None or column.other is not None:
        return dataclasses.replace(column, missing=missing)
    listed = {str(value) for value in column.values}
    more = [text for text in other.values(column.name)[0] if text not in listed]
    return dataclasses.replace(column, values=(*column.values, *sorted(more)), missing=missing)
