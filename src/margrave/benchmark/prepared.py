"""A table split and ready: what methods learn from, what is held out, what is public. **Not private.**"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from margrave.benchmark.datasets import TableEntry, load_table
from margrave.benchmark.domain import read_schema, scoring_schema
from margrave.errors import InputError, invalid
from margrave.evaluation.rows import Rows
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from margrave.schema.frame import Frame

__all__ = ["Prepared", "prepare", "stream"]


@dataclass(frozen=True, slots=True, repr=False)
class Prepared:
    """A table split in two. **Not private.**

    Args:
        entry: What it is.
        train: The rows to learn from, with the owner column where there is one.
        train_rows: The same as metrics read them, without the owner column.
        held_rows: The rows held out, as metrics read them.
        public: What methods are told: the schema of the whole table, or None where it is to be discovered.
        scoring: What metrics cut all rows by: the same for every method.
        frame: Storage types of the columns.
    """

    entry: TableEntry
    train: pa.Table
    train_rows: Rows
    held_rows: Rows
    public: Schema | None
    scoring: Schema
    frame: Frame

    @property
    def target(self) -> str | None:
        """The column to predict."""
        return self.entry.target or None

    def rows_of(self, table: pa.Table) -> Rows:
        """Synthetic rows as metrics read them, columns in the real table's order.

        A column that a method left out, such as free text, is missing in every row.
        """
        import pyarrow as pa

        from margrave.engines.frames import read_table

        made = read_table(table)[0]
        for name in self.scoring.names:
            if name not in made.column_names:
                made = made.append_column(name, pa.nulls(made.num_rows, self.train.schema.field(name).type))
        return Rows.of(made.select(self.scoring.names), self.scoring)


def stream(seed: int, *words: object) -> np.random.Generator:
    """The stream of random numbers of some words: the same wherever and whenever it is asked for."""
    return np.random.default_rng([seed, *(crc32(str(word).encode()) for word in words)])


def prepare(entry: TableEntry, share: float, seed: int) -> Prepared:
    """Load a table and split it: one split a table and seed, so that all methods see the same rows.

    Args:
        entry: The table.
        share: Share of the rows, or of the owners, to hold out, in (0, 1).
        seed: Of the split.

    Raises:
        InputError: The table cannot be used.
    """
    from margrave.engines.frames import read_table

    raw, frame = read_table(load_table(entry))
    names = [name for name in raw.column_names if name != entry.owner]
    public = read_schema(raw.select(names), entry.bins, entry.cut)
    scoring = scoring_schema(public)
    held = _held(raw, entry, share, stream(seed, "split", entry.name))
    train, test = raw.take(np.flatnonzero(~held)), raw.take(np.flatnonzero(held))
    sides = [Rows.of(side.select(names), scoring) for side in (train, test)]
    told = public if entry.domain == "public" else None
    return Prepared(entry, train, sides[0], sides[1], told, scoring, frame)


def _held(raw: Any, entry: TableEntry, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which rows are held out: some of them at random, or all rows of some owners."""
    unit = np.arange(raw.num_rows)
    if entry.owner:
        owners = raw.column(entry.owner).combine_chunks()
        unit = np.asarray(owners.dictionary_encode().indices if _plain(owners) else owners.indices)
    units = int(unit.max(initial=-1)) + 1
    if units < 2:
        raise InputError(
            invalid(f"rows of {entry.name}", "of two owners or more", "There is nothing to split.")
        )
    count = min(max(round(units * share), 1), units - 1)
    chosen = np.zeros(units, dtype=np.bool_)
    chosen[rng.permutation(units)[:count]] = True
    return np.asarray(chosen[unit])


def _plain(array: Any) -> bool:
    return not hasattr(array, "indices")
