"""Lines of a noisy pair that hold one code each: whether one attribute fixes another, as far as noise shows.

In a measured pair of `by` and `name` with noise of standard deviation s, a cell is visible above VISIBLE s.
`name` is fixed by `by` where the largest cells of the lines that have a visible one hold LEAST_FIXED of these
lines' rows or more, these lines LEAST_SEEN of all rows, and no code of `name` more than MOST_ALIKE of them: a
nearly constant attribute is fixed by anything, and drawing it so would lose its rest.

**Privacy.** Looks at released tables, and at counts that are released or public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

VISIBLE = 3.0
"""Standard deviations of noise above which a cell is visible."""
LEAST_FIXED = 0.95
"""Share of the rows of visible lines that their largest cells hold at least."""
LEAST_SEEN = 0.5
"""Share of all rows that are in visible lines at least."""
MOST_ALIKE = 0.9
"""Share of the rows of visible lines that one code of the fixed attribute holds at most."""
HIDDEN = -1
"""Stands for the code of a line that has no visible cell."""


def find_fixed_codes(values: Floats, sigma: Floats, counts: Floats) -> NDArray[np.int64] | None:
    """The code that each line fixes, HIDDEN in lines without a visible cell, shape [lines].

    Args:
        values: A measured pair in rows, a line a code of what may fix, shape [lines, codes].
        sigma: The standard deviation of each cell's noise, shape of values.
        counts: How many rows each line has, shape [lines]: exact if public, else estimated.

    Returns:
        None where the lines are not certain.
    """
    lines = np.arange(len(values))
    top = values.argmax(axis=1)
    largest = values[lines, top]
    seen = (largest > VISIBLE * sigma[lines, top]) & (counts > 0)
    rows = float(counts[seen].sum())
    alike = np.bincount(top[seen], counts[seen], minlength=values.shape[1])
    certain = (
        rows > 0
        and rows >= LEAST_SEEN * float(counts.sum())
        and float(largest[seen].sum()) >= LEAST_FIXED * rows
        and float(alike.max()) <= MOST_ALIKE * rows
    )
    return np.where(seen, top, HIDDEN) if certain else None
