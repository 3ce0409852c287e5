"""Features: rows as matrices that models of scikit-learn and its like can learn from. **Not private**."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.rows import Rows
from margrave.schema.columns import Binned
from margrave.schema.schema import Schema

__all__ = ["MOST_LEVELS", "Features"]

MOST_LEVELS = 200
"""Columns of more codes are one number instead of one column a code."""

Matrix = NDArray[np.float64]


@final
class Features:
    """Turns rows into matrices, scaled by the rows it was made from. **Not private** if those are real.

    Numeric columns are taken raw, all other by code. A missing value is a code of its own there and NaN
    here in `plain`; in `dense` it is the mean, next to a column that says so.

    Args:
        rows: The rows that means and deviations are taken of.
        schema: Their columns.
        without: Columns that are no features, as a rule the one to predict.
    """

    def __init__(self, rows: Rows, schema: Schema, without: tuple[str, ...] = ()) -> None:
        self._names = tuple(name for name in schema.domain.names if name not in without)
        self._sizes = {name: schema.domain[name] for name in self._names}
        self._numeric = {
            name for name in self._names if isinstance(schema[name], Binned) and name in rows.numbers
        }
        self._scales: dict[str, tuple[float, float]] = {}
        for name in self._names:
            if name in self._numeric or self._sizes[name] > MOST_LEVELS:
                values = self._values(rows, name)
                known = values[~np.isnan(values)]
                mean, spread = (float(known.mean()), float(known.std())) if known.size else (0.0, 0.0)
                self._scales[name] = (mean, spread or 1.0)

    @property
    def categorical(self) -> list[bool]:
        """Which columns of `plain` are codes without an order that trees can split as such."""
        return [name not in self._scales for name in self._names]

    @property
    def dense_names(self) -> tuple[str, ...]:
        """A name for each column of `dense`."""
        names: list[str] = []
        for name in self._names:
            if name in self._scales:
                names += [name, f"{name} missing"] if name in self._numeric else [name]
            else:
                names += [f"{name} = {code}" for code in range(self._sizes[name])]
        return tuple(names)

    def plain(self, rows: Rows) -> Matrix:
        """One column an attribute, for trees: shape [rows, attributes]."""
        return np.column_stack([self._values(rows, name) for name in self._names])

    def dense(self, rows: Rows) -> Matrix:
        """Standardised numbers and one column a code: shape [rows, features]."""
        blocks: list[Matrix] = []
        for name in self._names:
            if name not in self._scales:
                blocks.append(np.eye(self._sizes[name])[rows.encoded.column(name)])
                continue
            mean, spread = self._scales[name]
            values = self._values(rows, name)
            missing = np.isnan(values)
            # Rows to be scored may lie far outside the range learned from; a linear model would run away.
            scaled = np.clip(np.where(missing, 0.0, (values - mean) / spread), -20, 20)
            blocks.append(np.column_stack([scaled, missing] if name in self._numeric else [scaled]))
        return np.concatenate(blocks, axis=1)

    def _values(self, rows: Rows, name: str) -> Matrix:
        if name in self._numeric:
            return rows.numbers[name]
        return rows.encoded.column(name).astype(np.float64)
