"""Cells of the closer look at a column's difference from its base, or its quotient by it.

They are made from public things and released numbers only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.ranges import refined_edges
from margrave.schema.columns.relative import Comparison
from margrave.schema.storage.clock import DAY, SECOND

Array = NDArray[np.float64]

OCTAVES = 10
"""Powers of two on either side of 1 that quotients have cells for."""
PARTS = 64
"""Equal cells between 0 and 1 of the finest look at quotients."""
CLOCK = (1.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds that the cells within a day may have."""
TERMS = (7, 14, 28, 30, 31, 60, 90, 91, 92, 180, 181, 182, 183, 184, 364, 365, 366, 729, 730, 731, 1095, 1096)
"""Days that two dates are often apart, each a cell alone: weeks, months, half years and years."""
YEAR_DAYS = (364, 365, 366)
"""Those of one year."""
TERMS_DETAIL = 0.1
"""Share of the finest cells from which on these are looked at, and not those of one year alone: more cells
hold more noise. Not measured."""


def relation_edges(
    comparison: Comparison, column: tuple[float, float], base: tuple[float, float], sign: int, detail: float
) -> Array:
    """Edges of the cells of a difference or quotient; 0, or 1, begins a cell.

    Args:
        comparison: Of a column with its base.
        column: Least and greatest value of the column, in the comparison's unit.
        base: The same of its base.
        sign: 1 or -1 where next to no row lies below or above the base: that side gets one cell.
        detail: Share of the finest cells to have, above 0 and at most 1.
    """
    if comparison.how == "quotient":
        return _quotient_edges(sign, detail)
    low, high = min(column[0] - base[1], -2.0), max(column[1] - base[0], 2.0)
    if comparison.whole and comparison.read not in ("number", "date"):
        edges = _clock_edges(low, high, detail)
    else:
        edges = refined_edges(low, high, comparison.whole, None, detail)
    if comparison.read == "date":
        terms = np.array(TERMS if detail >= TERMS_DETAIL else YEAR_DAYS, dtype=np.float64)
        edges = np.union1d(edges, [side for one in (-terms, terms) for side in (one, one + 1.0)])
        edges = edges[(edges >= low) & (edges <= high)]
    if sign > 0:
        return np.concatenate([[low], edges[edges >= 0.0]])
    if sign < 0:
        above = 1.0 if comparison.whole else float(np.nextafter(0.0, 1.0))
        return np.concatenate([edges[edges <= 0.0], [above, high]])
    return edges


def _quotient_edges(sign: int, detail: float) -> Array:
    """Equal cells between 0 and 1, octaves beyond them, and 0 and 1 alone."""
    parts = max(round(PARTS * detail), 8)
    steps = max(round(8 * detail), 1)
    octave, part = np.divmod(np.arange(OCTAVES * steps), steps)
    growing = np.ldexp(1.0 + part / steps, octave)
    small = np.ldexp(1.0, -np.arange(4, OCTAVES))
    alone = [0.0, np.nextafter(0.0, 1.0), 1.0, np.nextafter(1.0, 2.0)]
    most = float(2**OCTAVES)
    inner = np.unique(np.concatenate([np.linspace(0.0, 1.0, parts + 1), small, alone]))
    if sign < 0:
        return np.concatenate([[-most], inner, [most]])
    if sign > 0:
        return np.unique(np.concatenate([[-most, 0.0], growing, alone[2:], [most]]))
    return np.unique(np.concatenate([[-most], inner, growing, [most]]))


def _clock_edges(low: float, high: float, detail: float) -> Array:
    """Microseconds: cells of the clock within two days, days within a month, and growing ones beyond."""
    cells = max(288.0 * detail, 12.0)
    second = next((unit for unit in CLOCK if 86_400.0 / unit <= cells), CLOCK[-1])
    within = np.arange(0.0, 2 * 86_400.0 + 1.0, second) * SECOND
    small = np.ldexp(1.0, np.arange(int(np.log2(second)) + 1)) * SECOND
    days = np.arange(1.0, 33.0) * float(DAY)
    beyond = np.floor(np.ldexp(1.0, np.arange(5 * 4, 22 * 4) // 4) * (1 + np.arange(68) % 4 / 4)) * float(DAY)
    positive = np.concatenate([small, within, days, beyond])
    edges = np.unique(np.concatenate([positive, -positive, [0.0, 1.0]]))
    inside = edges[(edges > low) & (edges < high)]
    return np.concatenate([[low], inside, [high]])
