"""Rows that no cell tells of, and how far they may move a mean: one side of its interval, and the other.

Nearly all that is wrong with the mean of a column of which nothing is declared is rows far out. A cell of a
long thin tail drowns in noise, so that discovery expects less of it than it holds; a range ends where rows
are no longer evident. But the bins are counted, too, with what lies beyond them, and their counts are near
the truth: what they hold more than their cells tell is the rows that were lost.

So let u be the end of the last cell from which on rows are evident: as many are expected from there on as one
standard deviation of the noise in a cell. Of the last bins that hold as many rows by their counts, which
begin at e, let t rows be told by the cells up to u. Then N lie beyond u: what is counted beyond t, and one
standard deviation of its noise. A law of the tail (Pickands 1975, as in `measure.discovery.tails`) of shape k
with t + N rows beyond e and N beyond u has a mean excess beyond u of

    (u - e) k / ((1 - k) (1 - (N / (t + N))^k)).

It grows without end as t comes near 0: where no cell tells where the rows of the last bins are, they may be
anywhere, and so may the mean. N times the distance of all that from the number that stands for such rows is
what they may add to the sum, and as it is all on one side, the interval is longer on that side alone.

The lower end is the upper one of the same numbers with the other sign. Most columns have no numbers below 0:
where no rows are evident there, none are supposed there (`measure.discovery.reach`). Nor are any beyond what
is declared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Column
from margrave.schema.columns.binned import SpeltNumber
from margrave.tables.numbers import expected_of, scores_of

Floats = NDArray[np.float64]

SHAPE = 0.5
"""Of the law of the tail: one standard deviation above the mean of what discovery expects of shapes (.2 and
.3, `measure.discovery.tails`). Shapes beside it: bench/LOG.md, 2026-11-29."""
AT = 2.0
"""Standard errors at which the sum is as far off as is said above."""


@dataclass(frozen=True, slots=True)
class FarRows:
    """Rows beyond the evident ones at one end of a column.

    Args:
        codes: Whether the rows of a code are among those counted in the last bins, shape [codes].
        error: Of the sum of the column's numbers over all rows, as a standard error: in the column's unit.
            Infinite where the rows may be anywhere.
        limit: The number beyond which none of them is supposed.
    """

    codes: NDArray[np.bool_]
    error: float
    limit: float

    def errors(self, effects: Floats, rows: Floats, counts: Floats) -> Floats:
        """What they make of the mean of each group, shape [groups]: of them it has as large a part as of the
        rows of the last bins. Below 0 where its sum falls as the column's numbers rise.

        Args:
            effects: By how much the sum of each group follows the number of a code: shape [groups, codes];
                the rows of the group, where that is the column's own sum.
            rows: Of each code, none below 0 and 0 where a code has no number: shape [codes].
            counts: Rows of each group, shape [groups].
        """
        here, parts = float(rows @ self.codes), effects @ self.codes
        some = (counts > 0.0) & (here > 0.0) & (parts != 0.0)
        found = np.zeros(len(counts))
        found[some] = self.error * (parts[some] / here) / counts[some]
        return found


@dataclass(frozen=True, slots=True)
class _End:
    """The upper end of a column, or the lower one of its numbers with the other sign.

    Args:
        starts, ends: Of each cell, rising, shape [cells].
        expected: Rows of each, shape [cells].
        edges: Of the bins, shape [bins + 1].
        numbers: That stand for the bins, shape [bins].
        counts, variances: Noisy counts of the bins and their variances, shape [bins].
        limit: Beyond which no row is supposed; infinite for none.
    """

    starts: Floats
    ends: Floats
    expected: Floats
    edges: Floats
    numbers: Floats
    counts: Floats
    variances: Floats
    limit: float

    def turn(self, limit: float) -> _End:
        """The other end of the column."""
        cells = -self.ends[::-1], -self.starts[::-1], self.expected[::-1], -self.edges[::-1]
        return _End(*cells, -self.numbers[::-1], self.counts[::-1], self.variances[::-1], limit)

    def find_error(self, noise: float) -> tuple[int, float]:
        """The first of the last bins, and the error of `FarRows`; see the head of this module.

        Args:
            noise: Standard deviation of the noise in a cell, above 0.
        """
        last = _last_from(self.expected, noise)
        first = _last_from(self.counts, noise)
        evident, begin = float(self.ends[last]), float(self.edges[first])
        told = float(self.expected[: last + 1][self.starts[: last + 1] >= begin].sum())
        counted, spread = float(self.counts[first:].sum()), math.sqrt(float(self.variances[first:].sum()))
        far = max(counted - told, 0.0) + spread
        # Rows beyond the last evident cell count with the number of its bin, or with one farther out.
        place = max(int(np.searchsorted(self.edges, self.starts[last], side="right")) - 1, 0)
        number = float(self.numbers[place])
        reached = evident + _mean_excess(evident - begin, told, far)
        return first, far * max(min(reached, max(self.limit, number)) - number, 0.0) / AT


def find_far(column: Column, counts: Floats, variances: Floats) -> tuple[FarRows, FarRows] | None:
    """The rows beyond the lower and the upper end; None where there are none (`is_open`).

    Args:
        column: Of the codes.
        counts: Noisy counts of its codes over all rows, shape [codes].
        variances: Of their noise, shape [codes].
    """
    numbers = scores_of(column)
    if not isinstance(column, SpeltNumber) or numbers is None or not is_open(column):
        return None
    bins, edges = column.present, column.edge_array
    low, high = column.reach or (float(edges[0]), float(edges[-1]))
    limits = [_limit(-low, -float(edges[0]), column.unbounded[0])]
    limits.append(_limit(high, float(edges[-1]), column.unbounded[1]))
    upper = _End(*expected_of(column), edges, numbers[:bins], counts[:bins], variances[:bins], limits[1])
    last, above = upper.find_error(column.noise)
    first, below = upper.turn(limits[0]).find_error(column.noise)
    codes = np.arange(column.size)
    return (
        FarRows(codes < bins - first, below, -limits[0]),
        FarRows((codes >= last) & (codes < bins), above, limits[1]),
    )


def is_open(column: Column) -> bool:
    """Whether rows of a column may lie beyond an end that noise told of, and nobody declared."""
    return isinstance(column, SpeltNumber) and column.noise > 0.0 and any(column.unbounded)


def _limit(evident: float, edge: float, unbounded: bool) -> float:
    """Beyond which no row is supposed at an upper end: its edge where that is declared, 0 where no rows above
    0 are evident."""
    if not unbounded:
        return edge
    return math.inf if evident > 0.0 else 0.0


def _last_from(rows: Floats, least: float) -> int:
    """The last place from which on there are so many rows; 0 if there are nowhere."""
    from_here = np.cumsum(rows[::-1])[::-1]
    found = np.flatnonzero(from_here >= least)
    return int(found[-1]) if len(found) else 0


def _mean_excess(distance: float, told: float, far: float) -> float:
    """Mean distance of the rows beyond the last evident cell from its end; infinite where no cell tells.

    Args:
        distance: From where the last bins begin to the end of that cell.
        told: Rows that cells tell of in between.
        far: Rows beyond.
    """
    fallen = 1.0 - (far / (told + far)) ** SHAPE if told > 0.0 else 0.0
    if distance <= 0.0 or fallen <= 0.0:
        return math.inf
    return distance * SHAPE / ((1.0 - SHAPE) * fallen)
