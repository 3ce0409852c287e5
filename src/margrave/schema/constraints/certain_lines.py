"""Lines of a noisy pair that hold one code each: whether one attribute fixes another, as far as noise shows.

In a measured pair of `by` and `name` with noise of standard deviation s, a cell is visible above VISIBLE s.
`name` is fixed by `by` where the largest cells of the lines that have a visible one hold LEAST_FIXED of these
lines' rows or more, these lines LEAST_SEEN of all rows, and no code of `name` more than MOST_ALIKE of them: a
nearly constant attribute is fixed by anything, and drawing it so would lose its rest. It is fixed in every
row, as far as one can see, where what these cells lack of all rows is within EXACT standard deviations of
noise.

**Privacy.** Looks at released tables, and at counts that are released or public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
EXACT = 2.0
"""Standard deviations within which of all rows the largest cells are taken to hold all."""
HIDDEN = -1
"""Stands for the code of a line that has no visible cell."""


@dataclass(frozen=True, slots=True)
class FixedCodes:
    """What the lines of a measured pair hold, each nearly one code.

    Args:
        codes: The code of each line, HIDDEN where no cell is visible, shape [lines].
        held: The share of the visible lines' rows that are in their largest cells.
        deviation: The standard deviation of that share, from the noise.
        minority: The share of the visible lines' rows that are in lines of other codes than the commonest.
    """

    codes: NDArray[np.int64]
    held: float
    deviation: float
    minority: float

    @property
    def exact(self) -> bool:
        """Whether noise explains what is missing."""
        return self.held + EXACT * self.deviation >= 1.0


def find_fixed_codes(values: Floats, sigma: Floats, counts: Floats) -> FixedCodes | None:
    """What lines fix, or None where they are not certain.

    Args:
        values: A measured pair in rows, a line a code of what may fix, shape [lines, codes].
        sigma: The standard deviation of each cell's noise, shape of values.
        counts: How many rows each line has, shape [lines]: exact if public, else estimated.
    """
    lines = np.arange(len(values))
    top = values.argmax(axis=1)
    largest = values[lines, top]
    seen = (largest > VISIBLE * sigma[lines, top]) & (counts > 0)
    rows = float(counts[seen].sum())
    if rows <= 0 or rows < LEAST_SEEN * float(counts.sum()):
        return None
    held = float(largest[seen].sum()) / rows
    alike = np.bincount(top[seen], counts[seen], minlength=values.shape[1])
    if held < LEAST_FIXED or float(alike.max()) > MOST_ALIKE * rows:
        return None
    noise = math.sqrt(float((sigma[lines, top][seen] ** 2).sum()))
    return FixedCodes(np.where(seen, top, HIDDEN), held, noise / rows, 1.0 - float(alike.max()) / rows)
