"""Splits and reference tables: what scores of a synthetic table are to be held against. **Not private**."""

from __future__ import annotations

import numpy as np

from margrave.errors import InputError, invalid
from margrave.evaluation.rows import Rows

__all__ = ["bootstrap_rows", "references", "shuffled_rows", "split"]


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
    return rows.permuted({name: rng.permutation(rows.size) for name in rows.domain.names})


def references(real: Rows, rng: np.random.Generator) -> dict[str, Rows]:
    """Tables to score in the synthetic one's place, by the names that `compare` gives them. **Not private**.

    A good synthetic table scores near "bootstrap" and better than "shuffled"; see `reference.REFERENCES`.
    """
    return {"bootstrap": bootstrap_rows(real, rng), "shuffled": shuffled_rows(real, rng)}
