"""Rules in the objective: what a mixture says about tied attributes when its components obey the rules.

Component k's distribution over the allowed cells x of a tie is T_k(x) = v(x) prod_i Q_ki(x_i) / Z_k, with v
the share of the values in a cell's bins that obey: its one-ways are no longer Q_ki. The objective looks at
those of T_k, at the tie's own measured pairs under sum_k w_k T_k, and asks the price of a nat for the tie as
a whole, information * sum_k w_k sum_x T_k(x) log(T_k(x) / sum_l w_l T_l(x)): an attribute that follows from
another is paid for once. With g(x) the derivative by T_k(x) over w_k, that by log Q_ki(c) over w_k and over
T_k's share of code c is E_k[g | x_i = c] - E_k[g].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import summing
from margrave.models.mixture.rules_tables import TiedTables

__all__ = ["LEAST", "TiedPart"]

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

LEAST = 1e-30
"""Least share of a cell that a logarithm is taken of, and of a code that a derivative is divided by."""


class TiedPart:
    """The part of an objective that one tie has.

    Args:
        tables: The tie and what was measured of it.
        components: Number of components.
        information: Price of a nat of dependence.
    """

    def __init__(self, tables: TiedTables, components: int, information: float) -> None:
        self.tables = tables
        self.information = float(np.float32(information))
        self._cells = np.empty((tables.places.shape[1], components), np.float32)
        self._logs = self._norms = np.empty(0, np.float32)
        self._mean = np.empty(0)

    def spread(self, shares: Singles, logs: Singles) -> None:
        """Put the one-ways of T in place of Q in `shares`; the codes of other attributes stay."""
        tables, kind = self.tables, shares.dtype.type
        self._cells = self._cells.astype(kind, copy=False)
        own = np.maximum(logs[tables.rows], kind(tables.tie.lowest))
        self._logs = np.where(tables.measured[:, None], own, kind(0.0))
        own = np.exp(self._logs)
        self._norms = _products(self._cells, own, tables.tie.room.astype(kind), tables.places)
        ones = np.zeros_like(own)
        _summed(self._cells, ones, kind(1.0) / self._norms, tables.places)
        shares[tables.rows] = ones

    def pulled(self, gradient: Singles, shares: Singles, weights: Singles, by_weight: Floats) -> float:
        """Turn derivatives by the one-ways of T, in `gradient`, into natural ones by log Q.

        Adds what the tie's pairs and its information have to `by_weight`; returns their value.
        """
        rows, kind, price = self.tables.rows, gradient.dtype.type, self.information
        self._mean = (self._cells @ weights).astype(np.float64)
        value, alone = self._missed()
        known = np.log(self.tables.tie.room) - np.log(np.maximum(self._mean, LEAST))
        cells, ones = (alone + price * known).astype(kind), shares[rows]
        below = gradient[rows] + kind(price) * self._logs
        summed, paid = np.zeros_like(below), cells @ self._cells
        _returned(self._cells, below, cells, summed, self.tables.places)
        mean = paid + (below * ones).sum(axis=0)
        present = (ones > kind(LEAST)) & self.tables.measured[:, None]
        gradient[rows] = np.where(present, summed / np.where(present, ones, kind(1.0)) - mean, kind(0.0))
        nats = price * ((ones * self._logs).sum(axis=0) - np.log(self._norms))
        by_weight += paid + nats
        return value + price * float(known @ self._mean) + float(weights @ nats)

    def _missed(self) -> tuple[float, Floats]:
        """The squared residuals of the tie's pairs, and the derivative by each cell's share, [cells]."""
        value, alone = 0.0, np.zeros_like(self._mean)
        for pair in self.tables.pairs:
            miss = np.bincount(pair.keys, weights=self._mean, minlength=len(pair.values)) - pair.values
            pull = pair.weights * miss
            value += float(pull @ miss)
            alone += 2.0 * pull[pair.keys]
        return value, alone


@summing
def _products(cells: Singles, shares: Singles, room: Singles, places: Longs) -> Singles:
    """Fills in T without its norm; returns the norm, shape [components]."""
    count = cells.shape[1]
    norms = np.zeros(count, cells.dtype)
    for c in range(cells.shape[0]):
        line, first = cells[c], shares[places[0, c]]
        for k in range(count):
            line[k] = room[c] * first[k]
        for i in range(1, places.shape[0]):
            other = shares[places[i, c]]
            for k in range(count):
                line[k] *= other[k]
        for k in range(count):
            norms[k] += line[k]
    return norms


@summing
def _summed(cells: Singles, ones: Singles, over: Singles, places: Longs) -> None:
    """Normalise T, in place, and add up its one-ways."""
    count = cells.shape[1]
    for c in range(cells.shape[0]):
        line = cells[c]
        for k in range(count):
            line[k] *= over[k]
        for i in range(places.shape[0]):
            own = ones[places[i, c]]
            for k in range(count):
                own[k] += line[k]


@summing
def _returned(cells: Singles, below: Singles, alone: Singles, summed: Singles, places: Longs) -> None:
    """Adds T times the derivative by T, which is a sum over a cell's codes and its own, to each code."""
    count = cells.shape[1]
    pull = np.empty(count, cells.dtype)
    for c in range(cells.shape[0]):
        line = cells[c]
        pull[:] = alone[c]
        for i in range(places.shape[0]):
            own = below[places[i, c]]
            for k in range(count):
                pull[k] += own[k]
        for k in range(count):
            pull[k] *= line[k]
        for i in range(places.shape[0]):
            own = summed[places[i, c]]
            for k in range(count):
                own[k] += pull[k]
