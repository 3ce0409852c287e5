"""What scores of a synthetic table are to be held against. **Not private**.

`split` holds out rows. Reference tables are scored in the synthetic one's place: a bootstrap, which it could
hardly beat, and a shuffle, which it should beat.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.evaluation.distance import shares
from margrave.evaluation.rows import Rows
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, code_dtype


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
