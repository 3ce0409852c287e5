"""A table split and ready: what methods learn from, what is held out, what is public. **Not private.**

`read_schema` says what of a table is public, what methods have to find and what scores are by. It reads the
rows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from margrave.benchmark.datasets import TableEntry, load_table
from margrave.errors import InputError, invalid
from margrave.evaluation.rows import Rows
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Date,
    Duration,
    Integer,
    Moment,
    Ordinal,
    Real,
    Time,
)
from margrave.schema.schema import Schema
from margrave.schema.storage import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from margrave.schema.frame import Frame

MOST_TEXTS = 256
"""A text column with more values keeps the commonest of them, and one code for all others."""
OTHER = "(other)"
TEMPORAL: dict[str, type[Date] | type[Moment] | type[Time] | type[Duration]] = {
    "date": Date,
    "moment": Moment,
    "time": Time,
    "duration": Duration,
}


def read_schema(table: pa.Table, bins: int, cut: str = "equal") -> Schema:
    """The columns of a table with the values and ranges it holds. **Not private.**

    The rule of the papers: a column of numbers or times with more than `bins` distinct values goes to as
    many bins of equal width over [least, greatest]; one with fewer lists them in order; text lists what
    it holds.

    Args:
        table: In the storage forms, see `margrave.engines.frames.read_table`.
        bins: As above.
        cut: "equal" for bins of equal width, "quantile" for bins of like many rows.
    """
    columns = [_prepare_column(name, table.column(name), bins, cut) for name in table.column_names]
    return Schema(tuple(columns))


def merging_schema(schema: Schema, rare: float) -> Schema:
    """The same columns with rare bins of numbers and times left to discovery to merge; see `Binned`."""
    return schema.replace(
        [dataclasses.replace(column, rare=rare) for column in schema.columns if isinstance(column, Binned)]
    )


def scoring_schema(schema: Schema) -> Schema:
    """The same columns with a place for what they do not list: any method's rows encode under it."""
    columns: list[Column] = []
    for column in schema.columns:
        wider = dataclasses.replace(column, missing=True, strict=False)
        if isinstance(wider, (Categorical, Ordinal)) and wider.other is None:
            wider = dataclasses.replace(wider, other=OTHER)
        columns.append(wider)
    return Schema(tuple(columns))


def _prepare_column(name: str, array: Any, bins: int, cut: str) -> Column:
    kind, missing = array.type, bool(array.null_count > 0)
    if pa.types.is_boolean(kind):
        return Boolean(name=name, missing=missing, strict=False)
    if clock.is_temporal(kind):
        values = _list_distinct(clock.ticks(_join_chunks(array)))
        low, high = (min(values), max(values)) if values else (0, 1)
        made = TEMPORAL[clock.temporal_kind(kind)]
        return made(name=name, lower=low, upper=high, bins=bins, missing=missing, strict=False)
    if pa.types.is_dictionary(kind):
        return _list_values(name, array, missing)
    # Numbers of few values are listed, as bins would join values or stay empty.
    values = _list_distinct(array)
    if 0 < len(values) <= bins:
        return Ordinal(name=name, values=tuple(values), missing=missing, strict=False)
    number = Integer if pa.types.is_integer(kind) else Real
    if values and cut == "quantile":
        edges = _find_quantiles(array, bins, number is Integer)
        return number(name=name, edges=edges, missing=missing, strict=False)
    low, high = (values[0], values[-1]) if values else (0, 1)
    return number(name=name, lower=low, upper=high, bins=bins, missing=missing, strict=False)


def _join_chunks(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _list_distinct(array: Any) -> Sequence[Any]:
    return sorted(pc.unique(pc.drop_null(array)).to_pylist())


def _find_quantiles(array: Any, bins: int, whole: bool) -> tuple[float, ...]:
    """Edges between which like many rows lie; fewer than asked for where many rows hold one value."""
    values = np.asarray(pc.drop_null(array).to_numpy(), dtype=np.float64)
    cuts = np.quantile(values, np.linspace(0, 1, bins + 1))
    if whole:
        cuts = np.append(np.floor(cuts[:-1]), np.floor(cuts[-1]) + 1)
    return tuple(np.unique(cuts).tolist())


def _list_values(name: str, array: Any, missing: bool) -> Column:
    counted = pc.value_counts(pc.drop_null(array.cast(pa.string()))).to_pylist()
    ranked = sorted(counted, key=lambda entry: (-entry["counts"], entry["values"]))
    kept = sorted(entry["values"] for entry in ranked[:MOST_TEXTS])
    other = OTHER if len(ranked) > MOST_TEXTS or not kept else None
    return Categorical(name=name, values=tuple(kept), other=other, missing=missing, strict=False)


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

        Raises:
            InputError: It has a column that the table has not.
        """
        import pyarrow as pa

        from margrave.engines.frames import read_table

        made = read_table(table)[0]
        known = self.train.column_names
        if not set(made.column_names) <= set(known):
            remedy = "Return the columns that were handed over."
            raise InputError(invalid("columns of synthetic rows", f"among {known}", remedy))
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
    held = _choose_held_out(raw, entry, share, stream(seed, "split", entry.name))
    train, test = raw.take(np.flatnonzero(~held)), raw.take(np.flatnonzero(held))
    sides = [Rows.of(side.select(names), scoring) for side in (train, test)]
    told = public if entry.domain == "public" else None
    return Prepared(entry, train, sides[0], sides[1], told, scoring, frame)


def _choose_held_out(
    raw: Any, entry: TableEntry, share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Which rows are held out: some of them at random, or all rows of some owners."""
    unit = np.arange(raw.num_rows)
    if entry.owner:
        owners = raw.column(entry.owner).combine_chunks()
        unit = np.asarray(
            owners.indices if isinstance(owners, pa.DictionaryArray) else owners.dictionary_encode().indices
        )
    # Rows of one owner stay together: held out in part they would tell about the rest.
    units = int(unit.max(initial=-1)) + 1
    if units < 2:
        raise InputError(
            invalid(f"rows of {entry.name}", "of two owners or more", "There is nothing to split.")
        )
    count = min(max(round(units * share), 1), units - 1)
    chosen = np.zeros(units, dtype=np.bool_)
    chosen[rng.permutation(units)[:count]] = True
    return np.asarray(chosen[unit])
