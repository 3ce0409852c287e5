"""Keys: whether nearly every row has a value of its own, and which codes texts that do are given.

**Privacy.** Unit and adjacency: the ledger's. One row more or less, or another one in its place, changes the
number of distinct values by one at most, and an owner's at most k rows by k: L2 sensitivity k, which a
Gaussian of that sensitivity covers. Whether there is a look follows from released bins.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.schema.columns import Binned, Categorical, Column, Identifier, Integer
from margrave.schema.columns.identifier import read_beginning, shape_space

if TYPE_CHECKING:
    from margrave.protocols import Source

MIN_DISTINCT_SHARE = 0.9
"""Different values a row from which a column holds keys."""
LEAST_APART = 0.02
"""Share of the keys with another beginning than most from which the patterns of keys have codes. Not
measured."""
MOST_PATTERNS = 64
"""Patterns of keys that have a code of their own; all others share one. Not measured."""


def keep_keys(column: Categorical, shapes: Mapping[str, float]) -> Column:
    """New keys of released shapes. Post-processing.

    Where several beginnings are frequent, such as POL-2021- and POL-2022-, they may say something of the
    row, so that the column is an attribute and each shape a code. Else all that it says is its shapes.

    Args:
        column: What is known by now, without values.
        shapes: Released shapes and their noisy counts.
    """
    total = sum(shapes.values())
    shares = {shape: round(count / total, 4) for shape, count in shapes.items()}
    kept = {shape: share for shape, share in shares.items() if share > 0}
    beginnings = dict.fromkeys(map(read_beginning, kept), 0.0)
    for shape, share in kept.items():
        beginnings[read_beginning(shape)] += share
    ranked = sorted(kept, key=lambda shape: (-kept[shape], shape))
    coded = [shape for shape in ranked[:MOST_PATTERNS] if kept[shape] >= column.rare]
    if len(coded) < 2 or sum(kept.values()) - max(beginnings.values()) < LEAST_APART:
        return Identifier(name=column.name, pattern="shape", shapes=tuple(kept), shares=tuple(kept.values()))
    # Keys of none of these patterns are drawn of the most frequent one that has no code, if there is one.
    others = (ranked[len(coded) :] or ranked)[0]
    # Of two patterns that a text is of, the one with fewer texts is asked first.
    coded.sort(key=lambda shape: (shape_space(shape), shape))
    return dataclasses.replace(column, patterns=tuple(coded), others=others, unique=True)


def may_be_keys(column: Column) -> bool:
    """Whether a column's numbers may turn out to be keys: whole ones of which no bound is known."""
    return isinstance(column, Integer) and not column.unique and column.lower is None and column.upper is None


def find_keys(
    column: Binned,
    source: Source,
    gaussian: Gaussian,
    rho: Fraction,
    max_rows: int,
    doubt: float,
) -> Binned:
    """The column, unique where nearly every row has a number of its own. **Privacy**: see above.

    Args:
        column: Of whole numbers, with bins and cells; others come back as they are.
        source: The private table.
        gaussian: The mechanism.
        rho: What the look costs; nothing is asked where there are not as many numbers in range as rows.
        max_rows: Most rows of an owner.
        doubt: Variance of the number of rows.
    """
    if not isinstance(column, Integer) or column.weights is None:
        return column
    rows = float(np.sum(column.weights))
    if float(np.ptp(column.edge_array)) < MIN_DISTINCT_SHARE * rows:
        return column
    spread = math.sqrt(doubt + column.noise**2)

    def count() -> int:
        return int(source.distinct(column.name, column.read).reveal()[0])

    found = are_distinct(column.name, gaussian, rho, max_rows, (rows, spread), count)
    return dataclasses.replace(column, unique=found)


def are_distinct(
    column: str,
    gaussian: Gaussian,
    rho: Fraction,
    max_rows: int,
    rows: tuple[float, float],
    count: Callable[[], int],
) -> bool:
    """Whether nearly every row has a value of its own; not where noise hides it. **Privacy**: see above.

    Args:
        column: Name of the column.
        gaussian: The mechanism.
        rho: What the look costs.
        max_rows: Most rows of an owner.
        rows: How many rows are spoken of, and the standard deviation of that number.
        count: Counts their different values. **Not private.**
    """
    (found,), sigma = gaussian.with_sensitivity(max_rows**2).ask(
        [f"distinct values of {column}"], rho, lambda: [np.array([count()], dtype=np.int64)]
    )
    doubt = 2.0 * math.hypot(sigma, rows[1])
    # Noise of the number of values and of the rows both blur the share; a wide blur decides nothing.
    least = MIN_DISTINCT_SHARE * rows[0]
    return doubt < least / 2 and float(found[0]) >= least - doubt
