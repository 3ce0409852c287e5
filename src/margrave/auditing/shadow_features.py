"""ShadowFeatures: a synthetic table as a few hundred numbers that a classifier can learn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

__all__ = ["ShadowFeatures"]

QUERIES = 100
WIDEST = 4
Numbers = NDArray[np.float64]


@final
class ShadowFeatures:
    """The features of Stadler, Oprisanu and Troncoso 2022, and the targeted queries of TAPAS, side by side.

    - naive: the mean, median and variance of each column's codes, how many codes occur, the most and the
      least frequent;
    - histograms: the share of each code of each column;
    - correlations: Pearson's, of the codes of each pair of columns, 0 where one is constant;
    - queries: the share of rows that agree with the target in some of its columns, drawn once.

    Args:
        schema: Of the rows.
        target: The codes of the record under attack, by column.
        rng: Draws the columns of the queries.
    """

    def __init__(self, schema: Schema, target: Mapping[str, int], rng: np.random.Generator) -> None:
        self._names, self._sizes = schema.domain.names, schema.domain.sizes
        self._target = np.array([target[name] for name in self._names])
        widest = min(WIDEST, len(self._names))
        self._queries = [
            rng.choice(len(self._names), rng.integers(1, widest + 1), replace=False) for _ in range(QUERIES)
        ]

    def of(self, rows: Encoded) -> Numbers:
        """The features of one table, shape [features]; all 0 of a table without rows."""
        codes = np.column_stack([rows.column(name).astype(np.float64) for name in self._names])
        counts = [
            np.bincount(rows.column(name), minlength=size)
            for name, size in zip(self._names, self._sizes, strict=True)
        ]
        if rows.rows == 0:
            codes = np.zeros((1, len(self._names)))
        naive = [codes.mean(axis=0), np.median(codes, axis=0), codes.var(axis=0)]
        naive += [np.array([(c > 0).sum(), c.argmax(), c.argmin()], dtype=np.float64) for c in counts]
        histograms = [count / max(rows.rows, 1) for count in counts]
        found = np.concatenate([*naive, *histograms, self._correlations(codes), self._asked(codes)])
        return found if rows.rows else np.zeros_like(found)

    def _correlations(self, codes: Numbers) -> Numbers:
        centred = codes - codes.mean(axis=0)
        lengths = np.sqrt((centred**2).sum(axis=0))
        lengths[lengths == 0] = np.inf
        found: Numbers = (centred / lengths).T @ (centred / lengths)
        return found[np.triu_indices(len(self._names), 1)]

    def _asked(self, codes: Numbers) -> Numbers:
        same = codes == self._target
        return np.array([same[:, places].all(axis=1).mean() for places in self._queries])
