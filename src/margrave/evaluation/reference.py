"""Reference tables: what a synthetic table could hardly beat, and what it should beat. **Not private**."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import shares
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, code_dtype

__all__ = ["REFERENCES", "Shuffled", "bootstrap"]

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
