"""find_keys: whether nearly every row of a column of whole numbers has a number of its own.

**Privacy.** Unit and adjacency: the ledger's. One row more or less, or another one in its place, changes the
number of distinct values by one at most, and an owner's at most k rows by k: L2 sensitivity k, which a
Gaussian of that sensitivity covers. Whether there is a look follows from released bins.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.schema.columns import Binned, Column, Integer

if TYPE_CHECKING:
    from margrave.protocols import Source

MIN_DISTINCT_SHARE = 0.9
"""Different values a row from which a column holds keys."""


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
