"""How often keys come back: in how many rows each, and rows shared out to new ones likewise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid

Repeats = tuple[tuple[int, float], ...]
"""Pairs of a number of rows, increasing from 1, and the share of keys with at least so many, falling from 1;
straight lines between them. No key has more rows than the last. Empty where nothing is known."""

MOST_ROWS = 1 << 31
"""Rows that a key may have at most."""


def check_repeats(name: str, repeats: Repeats) -> Repeats:
    """The pairs as tuples of numbers.

    Raises:
        SchemaError: They are no shares of keys by their rows.
    """
    try:
        found = tuple((int(rows), float(share)) for rows, share in repeats)
    except (TypeError, ValueError):
        found = ((0, 0.0),)
    if not found:
        return ()
    rows, shares = np.array([one for one, _ in found]), np.array([share for _, share in found])
    apart = found[0] == (1, 1.0) and bool((np.diff(rows) > 0).all()) and rows[-1] <= MOST_ROWS
    if not (apart and bool((np.diff(shares) <= 0).all()) and shares[-1] >= 0):
        remedy = "Write them as in [[1, 1.0], [2, 0.6], [5, 0.0]], or leave them out."
        raise SchemaError(
            invalid(f"repeats of column {name!r}", "rows from 1 on, and falling shares from 1", remedy)
        )
    return found


def rows_per_key(repeats: Repeats) -> float:
    """The mean number of rows of a key; 1 where nothing is known."""
    if not repeats:
        return 1.0
    rows, shares = (np.array(part, dtype=np.float64) for part in zip(*repeats, strict=True))
    # The shares of keys with at least 1, 2, 3, ... rows add up to the mean: those of each line are a series.
    lines = np.diff(rows) * (shares[:-1] + shares[1:]) / 2 + (shares[:-1] - shares[1:]) / 2
    return float(lines.sum() + shares[-1])


def share_rows(rows: int, repeats: Repeats, rng: np.random.Generator) -> NDArray[np.int64]:
    """A number of the key that each row has, in no order: shape [rows].

    As many keys as the mean number of rows asks for, each with a number of rows by the shares; the last one
    has what is left. A row has a key of its own where nothing is known.

    Args:
        rows: How many.
        repeats: How many rows keys have.
        rng: Draws them.
    """
    if not repeats or not rows:
        return np.arange(rows)
    steps, shares = (np.array(part, dtype=np.float64) for part in zip(*repeats, strict=True))
    found, left = list[NDArray[np.int64]](), rows
    while left > 0:
        keys = max(round(left / rows_per_key(repeats)), 1)
        # One draw in each of as many equal parts of all keys, so that few keys have the shares as well.
        parts = (np.arange(keys) + 1.0 - rng.random(keys)) / keys
        held = np.floor(np.interp(-parts, -shares, steps)).astype(np.int64)
        found.append(rng.permutation(np.maximum(held, 1)))
        left -= int(found[-1].sum())
    sizes = np.concatenate(found)
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes)[:rows])
