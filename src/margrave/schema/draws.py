"""Numbers drawn inside the bins of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Integer

__all__ = ["real_numbers", "whole_numbers"]

Bins = NDArray[np.int64]
Reals = NDArray[np.float64]


def whole_numbers(bins: Bins, column: Integer, rng: np.random.Generator) -> NDArray[np.int64]:
    """A whole number in each row's bin, shape [rows]."""
    low, high = _cells(bins, column, rng)
    drawn: NDArray[np.int64] = rng.integers(low.astype(np.int64), high.astype(np.int64), dtype=np.int64)
    return drawn


def real_numbers(bins: Bins, column: Binned, rng: np.random.Generator, dtype: Any = np.float64) -> Any:
    """A number in each row's bin, shape [rows], rounded to dtype.

    Rounding never carries a number out of its bin, unless dtype has no number in it at all.
    """
    low, high = _cells(bins, column, rng)
    part = rng.random(len(bins))
    top = float(np.finfo(dtype).max)
    values = np.clip(low * (1.0 - part) + high * part, -top, top).astype(dtype)
    edges = column.edge_array
    near = np.clip(edges, -top, top).astype(dtype)
    infinity = dtype(np.inf)
    with np.errstate(over="ignore"):
        floor = np.minimum(np.where(near < edges, np.nextafter(near, infinity), near), dtype(top))
        below = np.maximum(np.nextafter(near, -infinity), dtype(-top))
    ceiling = np.where(near >= edges, below, near)
    ceiling[-1] = near[-1] if near[-1] <= edges[-1] else below[-1]
    return np.clip(values, floor[bins], np.maximum(ceiling[bins + 1], floor[bins]))


def _cells(bins: Bins, column: Binned, rng: np.random.Generator) -> tuple[Any, Any]:
    """Lower and upper end of the fine cell drawn for each row's bin, both of shape [rows]."""
    edges = np.asarray(column.edges)
    if column.fine is None or column.weights is None:
        return edges[bins], edges[bins + 1]
    fine = np.asarray(column.fine)
    first = np.searchsorted(fine, edges)
    owner = np.repeat(np.arange(column.present), np.diff(first))
    share = _shares(np.asarray(column.weights), np.diff(fine.astype(np.float64)), owner)
    running = np.append(0.0, np.cumsum(share))
    ends = running[1:] - running[first[owner]] + owner
    drawn = np.searchsorted(ends, bins + rng.random(len(bins)), side="right")
    weighted = np.where(share > 0, np.arange(len(share)), -1)
    last = np.maximum.reduceat(weighted, first[:-1])  # rounding must not draw an empty cell behind it
    cell = np.clip(drawn, first[bins], last[bins])
    return fine[cell], fine[cell + 1]


def _shares(weights: Reals, widths: Reals, owner: NDArray[np.int64]) -> Reals:
    """Each cell's share of its bin: by weight, or by width in a bin without weight."""
    mass = np.bincount(owner, weights=weights)
    weights = np.where(mass[owner] > 0, weights, widths)
    shares: Reals = weights / np.bincount(owner, weights=weights)[owner]
    return shares
