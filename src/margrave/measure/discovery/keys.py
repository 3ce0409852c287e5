"""Keys: in how many rows each value is, whether nearly every row has one of its own, and which codes texts
that do are given.

**Privacy.** Unit and adjacency: the ledger's. The look asks how many different values are in at least 1, 2,
3, ... rows (the cumulative count-of-counts histogram of Kuo, Chiu, Kifer, Hay and Machanavajjhala 2018, arXiv
1804.00370), for numbers of rows that are fixed before it. A row holds one value at most, which follows from
that row and released lists alone. Put a row in whose value is in n rows: one value more is in at least n + 1,
and no other number changes. So k rows that are put in, one after another, add a vector of whole numbers
without negative ones that sum to k at most, whose length is k at most. Where k rows are exchanged for k
others, the answers are that of the rows that stay plus two such vectors; the inner product of these is not
below 0, so the squared length of their difference is at most k^2 + k^2. Where a row is erased, it is taken
out. Numbers of rows that are left out only shorten the vector. So the squared L2 sensitivity is that of a
marginal under each adjacency. Whether there is a look, and for which numbers of rows, follows from released
bins and counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.schema.columns import Binned, Categorical, Column, Identifier, Integer
from margrave.schema.columns.identifier import read_beginning, shape_space
from margrave.schema.columns.repeats import Repeats

if TYPE_CHECKING:
    from margrave.protocols import Source

Reals = NDArray[np.float64]

MIN_DISTINCT_SHARE = 0.9
"""Different values a row from which a column holds keys."""
SURE_SHARE = 0.5
"""Different values a row of which there have to be more for certain. Not measured."""
CROWD, MIN_CROWD = 4.0, 0.02
"""Standard deviations of the noise, and share of the rows, by which a cell holds more rows than numbers for
these to be evidently the same in several rows: amounts that are mostly different and often 0 are no keys. Not
measured."""
MIN_NUMBERS = 0.1
"""Whole numbers in range a row from which they may be keys that come back: where there are fewer, draws take
nearly all of them anyhow. Not measured."""
LEAST_APART = 0.02
"""Share of the keys with another beginning than most from which the patterns of keys have codes. Not
measured."""
MOST_PATTERNS = 64
"""Patterns of keys that have a code of their own; all others share one. Not measured."""
FAR, LEAST_UNLIKE = 2.0, 0.1
"""Standard deviations of the noise, and beyond them the share of all values, by which the number of values in
so many rows has to differ from that of even draws, for values to be drawn as often as they come back. Not
measured."""
EVIDENT = 2.0
"""Standard deviations of the noise from which a number of keys is taken for more than none. Not measured."""


def keep_keys(column: Categorical, shapes: Mapping[str, float]) -> Column:
    """New keys of released shapes. Post-processing.

    Where several beginnings are frequent, such as POL-2021- and POL-2022-, they may say something of the
    row, so that the column is an attribute and each shape a code. So it is where some rows have no key, which
    may go with other columns. Else all that it says is its shapes.

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
    alike = len(coded) < 2 or sum(kept.values()) - max(beginnings.values()) < LEAST_APART
    if alike and not column.missing:
        return Identifier(name=column.name, pattern="shape", shapes=tuple(kept), shares=tuple(kept.values()))
    coded = coded or ranked[:1]
    # Keys of none of these patterns are drawn of the most frequent one that has no code, if there is one.
    others = (ranked[len(coded) :] or ranked)[0]
    # Of two patterns that a text is of, the one with fewer texts is asked first.
    coded.sort(key=lambda shape: (shape_space(shape), shape))
    return dataclasses.replace(column, patterns=tuple(coded), others=others, unique=True)


def may_be_keys(column: Column) -> bool:
    """Whether a column's numbers may turn out to be keys: whole ones of which no bound is known."""
    return isinstance(column, Integer) and not column.unique and column.lower is None and column.upper is None


def find_keys(column: Binned, source: Source, gaussian: Gaussian, rho: Fraction, doubt: float) -> Binned:
    """The column, unique where nearly every row has a number of its own, and with how often numbers come back
    where that is not what draws by its cells would do. **Privacy**: see above.

    Args:
        column: Of whole numbers, with bins and cells; others come back as they are.
        source: The private table.
        gaussian: The mechanism.
        rho: What the look costs; nothing is asked where there are fewer numbers in range than rows, but where
            numbers may be keys that come back: most rows are in cells of several numbers, which are not far
            fewer than rows (MIN_NUMBERS) and on no grid, as amounts are.
        doubt: Variance of the number of rows.
    """
    if not isinstance(column, Integer) or column.weights is None:
        return column
    weights = np.maximum(np.asarray(column.weights, dtype=np.float64), 0.0)
    rows, widths = float(weights.sum()), _cell_widths(column)
    numbers, many = float(np.ptp(column.edge_array)), float(weights[widths > 1].sum()) > rows / 2
    shared = many and not column.grids and numbers >= MIN_NUMBERS * rows
    if not shared and numbers < MIN_DISTINCT_SHARE * rows:
        return column
    spread, steps = math.sqrt(doubt + column.noise**2), list_steps(rows)

    def count() -> NDArray[np.int64]:
        return source.repeats(column.name, steps, column.read).reveal()

    found = count_keys(column.name, gaussian, rho, steps, count)
    crowd = float((weights - widths).max())
    if found.are_distinct(rows, spread) and crowd < max(CROWD * column.noise, MIN_CROWD * rows):
        return dataclasses.replace(column, unique=True)
    if not shared:
        return column
    alone = widths <= 1
    repeats = found.fit_repeats((widths[~alone], weights[~alone]), spread, weights[alone].tolist())
    return dataclasses.replace(column, repeats=repeats)


def _cell_widths(column: Integer) -> Reals:
    """How many numbers each cell of a column has: shape [cells]."""
    cells = column.edges if column.fine is None else column.fine
    return np.diff(np.asarray(cells, dtype=np.float64))


@dataclasses.dataclass(frozen=True, slots=True)
class KeyCounts:
    """A released look at how many different values are in at least so many rows. Post-processing.

    Args:
        steps: The numbers of rows, increasing from 1.
        noisy: For each the noisy number of values, shape [steps].
        sigma: Standard deviation of their noise.
    """

    steps: tuple[int, ...]
    noisy: Reals
    sigma: float

    def are_distinct(self, rows: float, spread: float) -> bool:
        """Whether nearly every row has a value of its own; not where noise hides it.

        Args:
            rows: How many rows are spoken of; `spread`, the standard deviation of that number.
        """
        doubt = EVIDENT * math.hypot(self.sigma, spread)
        # Noise of the number of values and of the rows both blur the share; a wide blur decides nothing. A
        # column that is taken for keys by mistake loses all that it says.
        least = MIN_DISTINCT_SHARE * rows
        return doubt < least / 2 and float(self.noisy[0]) >= max(least - doubt, SURE_SHARE * rows + doubt)

    def fit_repeats(self, drawn: tuple[Reals, Reals], spread: float, listed: Sequence[float] = ()) -> Repeats:
        """In how many rows keys are; nothing where noise hides whether each is in one alone, or where even
        draws have values come back as often: so do those of what is measured, often where rows are dense.

        The numbers fall, and no more than rows / n values are in at least n rows. Numbers that are within the
        noise are not used: the rows that those before leave are those of keys with more, whose number falls
        along a straight line.

        Args:
            drawn: How many different values there are to draw from for each of some codes or cells, and the
                rows of each: both of shape [cells].
            spread: Standard deviation of the number of rows.
            listed: Rows of values that were counted, and are none of the keys.
        """
        # Loaded here, as a table without keys needs none of it.
        from scipy.optimize import isotonic_regression

        (values, held), steps = drawn, np.array(self.steps, dtype=np.float64)
        rows = float(held.sum())
        counts = self.noisy - (np.array(listed)[None, :] >= steps[:, None]).sum(axis=1)
        # Values that are in at least n rows where rows are drawn evenly from those of each cell.
        even = gammainc(steps[:, None], held / values) @ values
        if float((np.abs(counts - even) - FAR * self.sigma).max()) < LEAST_UNLIKE * float(even[0]):
            return ()
        keys = np.minimum(isotonic_regression(counts, increasing=False).x, max(rows, 0.0) / steps)
        # Where noise hides them all, they are about as many as it lets pass, far fewer than rows.
        keys[0] = max(float(keys[0]), self.sigma)
        if rows - keys[0] <= EVIDENT * math.hypot(self.sigma, spread):
            return ()
        used = max(int((keys >= EVIDENT * self.sigma).sum()), 1)
        # Rows in front of each step, by straight lines between the steps.
        lines = np.diff(steps) * (keys[:-1] + keys[1:]) / 2 + (keys[:-1] - keys[1:]) / 2
        left = rows - np.append(0.0, np.cumsum(lines))
        # The first has keys of one row each at least, so that one is found.
        last = max(place for place in range(used) if left[place] >= keys[place])
        end = int(steps[last]) + max(round(2.0 * float(left[last] / keys[last]) - 1.0), 1)
        shares = [round(float(share), 4) for share in keys[: last + 1] / keys[0]]
        return (*zip(self.steps, shares, strict=False), (end, 0.0))


def share_texts(column: Categorical, counts: Reals, rest: float) -> tuple[Reals, Reals]:
    """How many texts there are to draw from for each code that stands for many, and the rows of each.

    Args:
        column: With its values, beginnings and patterns.
        counts: Released counts of these, in the order of their codes, perhaps of others behind them.
        rest: Rows of none of the values; those of no other code are of `others`, where that is a shape.
    """
    shapes = [*column.endings, *column.patterns]
    first = len(column.values or ())
    held = np.maximum(counts[first : first + len(shapes)], 0.0)
    if column.others:
        shapes.append(column.others)
        held = np.append(held, max(rest - float(held.sum()), 0.0))
    # A beginning without a shape stands alone.
    return np.array([float(shape_space(shape)) if shape else 1.0 for shape in shapes]), held


def list_steps(rows: float) -> tuple[int, ...]:
    """The numbers of rows that are asked for where there are so many in all: four for each power of two.

    Example:
        >>> list_steps(20)
        (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20)
    """
    found, step = [1], 1
    while found[-1] + step <= rows:
        found.append(found[-1] + step)
        step = max(1 << (found[-1].bit_length() - 3), 1) if found[-1] >= 4 else 1
    return tuple(found)


def count_keys(
    column: str,
    gaussian: Gaussian,
    rho: Fraction,
    steps: tuple[int, ...],
    count: Callable[[], NDArray[np.int64]],
) -> KeyCounts:
    """How many values are in at least so many rows. **Privacy**: see above.

    Args:
        column: Name of the column.
        gaussian: The mechanism, of a marginal's sensitivity.
        rho: What the look costs.
        steps: The numbers of rows, fixed before the look.
        count: The exact answer, as `schema.queries.count_repeats`. **Not private.**
    """
    (noisy,), sigma = gaussian.ask([f"distinct values of {column}"], rho, lambda: [count()])
    return KeyCounts(steps, noisy, sigma)
