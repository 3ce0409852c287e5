"""Rows: one table as metrics read it, its codes, its raw numbers and its counts. **Not private**.

`batches` takes many cliques a few at a time, so that their tables fit in memory. What scores are to be held
against is made here too: `split` holds out rows, and reference rows are scored in the place of the synthetic
ones: a bootstrap, which these could hardly beat, and a shuffle, which they should beat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.evaluation.distance import shares
from margrave.schema.columns import Binned, Column, Whole
from margrave.schema.domain import Clique, Domain
from margrave.schema.encode import encode, in_usual_form
from margrave.schema.encoded import Codes, Encoded, code_dtype
from margrave.schema.queries import readings
from margrave.schema.schema import Schema
from margrave.schema.storage.spelling import SPELLINGS, spellings

if TYPE_CHECKING:
    from margrave.protocols import Engine


Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rows:
    """One table as metrics read it. **Not private** where the rows are real: its repr shows names only.

    Args:
        encoded: The rows as codes.
        numbers: The raw numbers of the numeric columns, by name, NaN where missing, each of shape [rows].
        engine: Counts the rows; counted here without one, with the same answers.
        exact: Whether the numbers are those stored, and not middles of bins.
        spelt: How the texts of numbers, moments and times are written, by column, where they are texts: cells
            by the spellings of `schema.storage.spelling.SPELLINGS`. Taken or permuted rows keep those of the
            table.

    Raises:
        InputError: The numbers are of another length than the codes.
    """

    encoded: Encoded
    numbers: Mapping[str, Numbers] = field(default_factory=dict)
    engine: Engine | None = None
    exact: bool = True
    spelt: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(values.shape != (self.encoded.rows,) for values in self.numbers.values()):
            raise InputError(invalid("numbers", "one a row", "Read codes and numbers off one table."))

    @classmethod
    def of(cls, table: Any, schema: Schema, engine: Engine | None = None) -> Rows:
        """A pyarrow.Table encoded under a schema, with its raw numbers. **Not private**.

        Args:
            table: The schema's columns, stored as `margrave.schema.storage.forms.keep_column` leaves them.
            schema: All of its columns known.
            engine: Counts the same rows.

        Raises:
            InputError: The table does not fit the schema; the error holds no value.
        """
        binned = [column for column in schema.attributes if isinstance(column, Binned)]
        held = {column.name: in_usual_form(table.column(column.name), column) for column in binned}
        numbers = {column.name: _raw(held[column.name], column) for column in binned}
        spelt = {
            column.name: counts
            for column in binned
            if column.read in SPELLINGS
            and (counts := spellings(held[column.name], column.read, column.name)).any()
        }
        return cls(encode(table, schema), numbers, engine, spelt=spelt)

    @classmethod
    def coded(cls, encoded: Encoded, schema: Schema, engine: Engine | None = None) -> Rows:
        """Rows of which only the codes are known: the middle of a bin stands for its numbers.

        Raises:
            InputError: The codes are not of the schema's domain.
        """
        if encoded.domain != schema.domain:
            raise InputError(invalid("encoded", "under the schema's domain", "Encode with this schema."))
        numbers = {
            column.name: _middles(column)[encoded.column(column.name)]
            for column in schema.attributes
            if isinstance(column, Binned)
        }
        return cls(encoded, numbers, engine, exact=False)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self.encoded.domain

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.encoded.rows

    def count(self, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
        """Rows in each cell of each clique's table. **Not private**."""
        if self.engine is not None:
            return [counts.reveal() for counts in self.engine.count(cliques)]
        return [self._table(clique) for clique in cliques]

    def _table(self, clique: Clique) -> NDArray[np.int64]:
        shape = self.domain.shape(clique)
        cell = np.zeros(self.size, dtype=np.int64)
        for name, size in zip(clique, shape, strict=True):
            cell = cell * size + self.encoded.column(name)
        return np.bincount(cell, minlength=math.prod(shape)).reshape(shape)

    def take(self, places: NDArray[np.int64]) -> Rows:
        """Some of the rows, in the order given; counted here."""
        codes = tuple(column[places] for column in self.encoded.columns)
        numbers = {name: values[places] for name, values in self.numbers.items()}
        return Rows(Encoded(self.domain, codes), numbers, exact=self.exact, spelt=self.spelt)

    def permute_columns(self, places: Mapping[str, NDArray[np.int64]]) -> Rows:
        """The table with each column in an order of its own."""
        codes = tuple(self.encoded.column(name)[places[name]] for name in self.domain.names)
        numbers = {name: values[places[name]] for name, values in self.numbers.items()}
        return Rows(Encoded(self.domain, codes), numbers, exact=self.exact, spelt=self.spelt)

    def __repr__(self) -> str:
        return f"Rows({list(self.domain.names)})"


def _raw(array: Any, column: Binned) -> Numbers:
    values, known = readings(array, column.read, column.name)
    return np.where(known, values.astype(np.float64), np.nan)


def _middles(column: Column) -> Numbers:
    """The number that stands for each code, NaN for missing: shape [codes]."""
    assert isinstance(column, Binned)  # noqa: S101 - asked of numeric columns only
    edges = column.edge_array
    last = 1.0 if isinstance(column, Whole) else 0.0
    middles = (edges[:-1] + edges[1:] - last) / 2
    return np.append(middles, np.full(column.size - column.present, np.nan))


BATCH_CELLS = 1 << 22
"""Cells of the tables that are counted together."""


def batches(domain: Domain, cliques: Sequence[Clique]) -> Iterator[list[Clique]]:
    """The cliques in their order, in runs of at most BATCH_CELLS cells or of one clique."""
    batch: list[Clique] = []
    cells = 0
    for clique in cliques:
        size = domain.size(clique)
        if batch and cells + size > BATCH_CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(clique)
        cells += size
    if batch:
        yield batch


def split(rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to make synthetic ones from and rows to hold out, at random. **Not private**.

    Args:
        rows: Real rows, two or more.
        share: Share to hold out, in (0, 1); at least one row goes to each side.
        rng: Draws the rows.

    Returns:
        The rows to learn from, and those held out, each in the order they had.

    Raises:
        InputError: The share is not inside (0, 1), or there are fewer than two rows.
    """
    if not 0 < share < 1:
        raise InputError(invalid("share", "between 0 and 1, both excluded", "Try 0.2.", got=share))
    if rows.size < 2:
        raise InputError(invalid("rows", "of two rows or more", "There is nothing to split."))
    held = min(max(round(rows.size * share), 1), rows.size - 1)
    order = rng.permutation(rows.size)
    return rows.take(np.sort(order[held:])), rows.take(np.sort(order[:held]))


def bootstrap_rows(rows: Rows, rng: np.random.Generator) -> Rows:
    """As many rows, drawn with replacement: what is left is sampling error. **Not private**."""
    return rows.take(rng.integers(0, rows.size, rows.size))


def shuffled_rows(rows: Rows, rng: np.random.Generator) -> Rows:
    """The table with each column shuffled by itself: all association is gone. **Not private**."""
    return rows.permute_columns({name: rng.permutation(rows.size) for name in rows.domain.names})


def references(real: Rows, rng: np.random.Generator) -> dict[str, Rows]:
    """Tables to score in the synthetic one's place, by the names that `compare` gives them. **Not private**.

    A good synthetic table scores near "bootstrap" and better than "shuffled"; see `REFERENCES`.
    """
    return {"bootstrap": bootstrap_rows(real, rng), "shuffled": shuffled_rows(real, rng)}


REFERENCES = {
    "bootstrap": (
        "As many rows as the real table, drawn from it with replacement: what is left is "
        "sampling error. Each table of counts is drawn by itself."
    ),
    "shuffled": (
        "The real table with each column shuffled by itself: every column is exact and all "
        "association is gone."
    ),
}

MOST_ROWS = 2_000_000
"""Tables with more rows are not shuffled row by row; see `Shuffled`."""


def bootstrap(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The table of counts of a bootstrap sample of the rows, as shares. **Not private**.

    The counts of n rows drawn with replacement are multinomial with the table's shares.
    """
    drawn = rng.multinomial(int(counts.sum()), shares(counts).ravel())
    return shares(drawn.reshape(counts.shape))


class Shuffled:
    """The real table with every column shuffled independently. **Not private**.

    Only one-way counts are needed: they say which values to shuffle. Above MOST_ROWS rows the tables are
    those of the limit, products of one-way shares.

    Args:
        domain: Names and sizes of the attributes.
        counts: One-way counts of each attribute, shape [size].
        rng: Draws the permutations.
    """

    def __init__(
        self, domain: Domain, counts: Mapping[str, NDArray[np.int64]], rng: np.random.Generator
    ) -> None:
        self._domain = domain
        self._shares = {name: shares(table) for name, table in counts.items()}
        self._codes: dict[str, Codes] = {}
        if all(int(table.sum()) <= MOST_ROWS for table in counts.values()):
            for name, table in counts.items():
                values = np.arange(table.size, dtype=code_dtype(table.size))
                self._codes[name] = rng.permutation(np.repeat(values, table))

    def share(self, clique: Clique) -> NDArray[np.float64]:
        """The shares of a clique's cells in the shuffled table, shape domain.shape(clique)."""
        shape = self._domain.shape(clique)
        if not self._codes:
            product = np.ones(())
            for name in clique:
                product = np.multiply.outer(product, self._shares[name])
            return product
        cell = np.zeros(self._codes[clique[0]].shape[0], dtype=np.int64)
        for name, size in zip(clique, shape, strict=True):
            cell = cell * size + self._codes[name]
        return shares(np.bincount(cell, minlength=math.prod(shape)).reshape(shape))
