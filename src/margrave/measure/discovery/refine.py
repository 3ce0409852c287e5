"""Cells of numbers that are split where many rows were seen, and looks at coarse and fine cells combined.

A range found under noise may be many times as wide as where the rows are, so that most cells of a look are
empty and a few hold nearly all rows. A first part of what the look may cost shows which these are; they are
split before the rest is spent.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.occupancy import spread_counts, weigh_cells
from margrave.measure.discovery.ranges import move_to_steps
from margrave.measure.discovery.values import REST_DEVIATIONS, Histogram, are_single
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned

Array = NDArray[np.float64]

MOST_PARTS = 256
"""Parts that a cell is split into, at most."""
MANY_DEVIATIONS = 5.0
"""Deviations of noise from which a number has many rows. Not measured."""
LEAST_LEFT = 1e-3
"""Least share of the rows that is expected beside those on single values. Not measured."""
NUMBERS_A_PART = 4
"""Neighbouring numbers that a part would hold up to which each number is a part: bench/LOG.md, 2026-11-25."""


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """What looks at the cells of a column have said by now.

    Args:
        edges: Cell edges, shape [cells + 1].
        noisy: Noisy counts, shape [cells].
        variances: Of their noise, shape [cells].
        prior: Counts expected before the looks, in rows, shape [cells].
        absent: Noisy count of the rows without a reading; `doubt` is the standard deviation of its noise.
        near: Whether the cells lie between declared bounds that are near each other.
    """

    edges: Array
    noisy: Array
    variances: Array
    prior: Array
    absent: float
    doubt: float
    near: bool = False

    def weigh(self) -> Array:
        """Weights by which numbers are drawn from the cells, as `weigh_cells`: shape [cells]."""
        return weigh_cells(self.noisy, np.sqrt(self.variances), self.prior, self.near)

    def weigh_rest(self, noisy: Array, variances: Array) -> Array:
        """Weights of the same cells where some of the rows are told apart: shape [cells].

        Args:
            noisy: Noisy counts without these rows, shape [cells].
            variances: Of their noise, shape [cells].
        """
        left = float(np.clip(noisy.sum() / max(float(self.noisy.sum()), 1.0), LEAST_LEFT, 1.0))
        return weigh_cells(noisy, np.sqrt(variances), left * self.prior, self.near)

    def split(self, mass: float, unit: float) -> Array:
        """The edges of these cells, split where many rows are expected, as `split_cells`."""
        return split_cells(self.edges, self.weigh(), mass, unit)

    def add_look(self, finer: Array, noisy: Array, sigma: float) -> Seen:
        """What is known after one more look, at these cells or at parts of them.

        Args:
            finer: Edges of the look, these cells' edges among them, shape [fine cells + 1].
            noisy: Its noisy count of the rows without a reading, and of each cell: shape [fine cells + 1].
            sigma: Standard deviation of its noise.
        """
        prior = spread_counts(self.edges, self.prior, finer)
        values, variances = combine_looks(self.edges, self.noisy, self.variances, finer, noisy[1:], sigma)
        gain = sigma**2 / (sigma**2 + self.doubt**2)
        absent = float(noisy[0]) + gain * (self.absent - float(noisy[0]))
        return Seen(finer, values, variances, prior, absent, sigma * (1.0 - gain) ** 0.5, self.near)


def split_cells(edges: Array, counts: Array, mass: float, unit: float) -> Array:
    """The edges with those of the parts of each cell that is expected to hold several times a mass.

    Args:
        edges: Cell edges, shape [cells + 1].
        counts: Expected counts, none negative, shape [cells].
        mass: Rows that each part should have; where a cell of several such holds few numbers, each is a part.
        unit: Distance of neighbouring numbers, which no part is narrower than; 0 where there is none.

    Returns:
        All of the given edges and those of parts of equal width, on multiples of `unit`.
    """
    parts = np.minimum(counts / mass, MOST_PARTS).astype(np.int64)
    if unit > 0:
        # Few numbers are told apart at once, as rows of whole numbers are often on some of them alone.
        numbers = np.rint(np.diff(edges) / unit)
        parts = np.where((parts > 1) & (numbers <= NUMBERS_A_PART * parts), numbers, parts).astype(np.int64)
    parts[are_single(edges, unit)] = 1
    found = [edges]
    for cell in np.flatnonzero(parts > 1):
        inner = np.linspace(edges[cell], edges[cell + 1], int(parts[cell]) + 1)[1:-1]
        if unit > 0:
            inner = move_to_steps(inner, unit)
        found.append(inner[(inner > edges[cell]) & (inner < edges[cell + 1])])
    return np.unique(np.concatenate(found))


def combine_looks(
    edges: Array, values: Array, variances: Array, finer: Array, noisy: Array, sigma: float
) -> tuple[Array, Array]:
    """Counts of fine cells by a look at them and what was known of the cells that they are parts of.

    Best linear unbiased estimates: what is known of a cell less the sum of its parts is shared out among
    these. Where a cell was not split, it is the mean by inverse variance.

    Args:
        edges: Cell edges, shape [cells + 1].
        values: What is known of the cells, shape [cells].
        variances: Of the noise in each, shape [cells].
        finer: Edges of the fine cells, the given ones among them, shape [fine cells + 1].
        noisy: Noisy counts of the fine cells, shape [fine cells].
        sigma: Standard deviation of their noise.

    Returns:
        The counts and their variances, both [fine cells]. The noise of parts of one cell is correlated, which
        is left out.
    """
    owner = np.searchsorted(edges, finer[:-1], side="right") - 1
    parts = np.bincount(owner, minlength=len(values))
    summed = np.bincount(owner, weights=noisy, minlength=len(values))
    gain = sigma**2 / (parts * sigma**2 + variances)
    return noisy + (gain * (values - summed))[owner], sigma**2 * (1.0 - gain[owner])


def cut_faint_ends(found: Histogram, unit: float) -> Histogram:
    """The histogram without numbers beyond the last ones of many rows, where noise may be all of them.

    A flag is 0 or 1, and a day of the month at most 31: behind a number of many rows comes one of next to
    none. Only cells of one number are cut off, so that no tail of amounts is, and only where a number of many
    rows is next to them; beside a single such number the next greater one stays, for flags that are rare.

    Args:
        found: After the looks at single values.
        unit: Distance of neighbouring numbers; 0 where there is none.
    """
    many = np.flatnonzero(found.noisy > MANY_DEVIATIONS * np.sqrt(found.variances))
    if not len(many):
        return found
    first, last = int(many[0]), int(many[-1])
    single, weights = are_single(found.edges, unit), found.weights.copy()
    cells = np.arange(len(found.noisy))
    behind, before = cells[last + 1 + (first == last) :], cells[:first][::-1]
    for end, beside in ((behind, last), (before, first)):
        # However many of them are taken together, from the number of many rows outwards. The sums go along
        # with each other, so that there are as many chances as times that their number doubles.
        chances = math.sqrt(REST_DEVIATIONS**2 + 2.0 * math.log(1.0 + math.log(max(len(end), 1))))
        noise = chances * np.sqrt(np.cumsum(found.variances[end]))
        if single[end].all() and single[beside] and (np.cumsum(found.noisy[end]) <= noise).all():
            weights[end] = 0.0
    return dataclasses.replace(found, weights=weights)


def measure_bins(column: Binned, found: Histogram, absent: float, sigma: float) -> NoisyMarginal:
    """The look at the cells as a measurement of the bins: cells outside the range join the end bins.

    Args:
        column: The column with its bins.
        found: The cells.
        absent: Noisy count of the rows without a reading; sigma is the standard deviation of its noise.
    """
    ends = column.edge_array
    owner = np.clip(np.searchsorted(ends, found.edges[:-1], side="right") - 1, 0, column.present - 1)
    values = np.bincount(owner, weights=found.noisy, minlength=column.present).astype(np.float64)
    variances = np.bincount(owner, weights=found.variances, minlength=column.present)
    if column.missing:
        values, variances = np.append(values, absent), np.append(variances, sigma**2)
    spread = np.sqrt(variances)
    return NoisyMarginal(
        (column.name,), values, spread if np.ptp(spread) > 1e-9 * sigma else float(spread[0])
    )
