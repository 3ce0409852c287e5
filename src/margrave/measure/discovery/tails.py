"""The laws of the largest and of the least numbers of a column, fitted to noisy counts of cells.

The largest amounts are few, and decide on sums and means. Cell by cell they drown in noise; a law with two
parameters is told by all cells of the tail together. Source: Pickands 1975: above a high enough threshold the
excess of nearly every distribution follows a generalised Pareto law,
P(X > u + x) = (1 + shape x / scale)^(-1 / shape). Shapes below 0 end somewhere, as those of evenly spread
numbers (-1) do; 0 is exponential.

Far out the cells of the look at details are many and each of them has noise of its own, so that together they
say little. The look at bounds has counted the same rows before, by powers of two: a few cells that say of all
numbers beyond a point how many there are. A law is held against both.

The lower tail is the upper one of the same numbers with the other sign.

Everything here is post-processing of released noisy counts; the looks are those of `NumericDiscovery`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.bins import Cut
from margrave.measure.discovery.values import Histogram

Array = NDArray[np.float64]

TAIL_SHARES = 0.1 * 0.5 ** np.arange(7.0)
"""Shares of the rows that a tail is fitted to: bench/LOG.md, 2026-11-28."""
SHAPES = np.array([-1.0, -0.75, -0.5, -0.25, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
"""Shapes that are averaged over: 0 is exponential, and from 1 on there is no mean."""
SCALES = 2.0 ** np.arange(-2.0, 2.125, 0.125)
"""Scales that are averaged over, in units of where half of the tail's weight lies."""
MEAN_TAIL_SHAPE, DEVIATION_OF_TAIL_SHAPE = 0.2, 0.3
"""Mean and standard deviation of the normal law that shapes are expected to follow."""
PARTS = 4
"""Parts of each cell of the tail in drawing, so that the density falls inside it, too."""
Z_FIT = 3.0
"""Standard deviations of the squared distance by which a law may miss the noisy counts."""
MIN_TAIL_DEVIATIONS, CLEAR_TAIL_DEVIATIONS = 5.0, 40.0
"""Standard deviations by which the rows of a tail have to be evident together; and by which they are clear
enough that no larger part of the rows is needed to tell its law: bench/LOG.md, 2026-11-28."""
MAX_EXACT_WHOLE = 1 << 53
"""Whole numbers are drawn up to here at most: the greatest that double precision holds exactly."""
Z_NEGATIVE = 3.0
"""Standard deviations by which rows below 0 have to be evident for a law to go on there."""
CELLS = 6
"""Least number of cells of a tail."""
NEGLIGIBLE = 1e-12
"""Chance of a law, over that of the likeliest, up to which it is left out: no table has rows enough to tell
it."""
FINER_ENDS = 16
"""Parts of an eighth of a doubling to which the end of a tail is found."""


@dataclass(frozen=True, slots=True)
class BoundsLook:
    """A released look at where the numbers of a column lie, coarse and over all there may be.

    Args:
        edges: Cell edges, shape [cells + 1]; what lies beyond is in the end cells.
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of their noise.
    """

    edges: Array
    noisy: Array
    sigma: float


@dataclass(frozen=True, slots=True)
class Tail:
    """A tail law, averaged over parameters.

    Args:
        edge: Where the tail begins.
        end: Where less than one row is expected beyond.
        shapes: Of the laws averaged over, shape [laws].
        scales: Of them, shape [laws].
        chances: How likely each of them is, adding up to 1, shape [laws].
    """

    edge: float
    end: float
    shapes: Array
    scales: Array
    chances: Array

    def share_above(self, values: Array) -> Array:
        """Share of the tail's rows above each value, 1 below its edge and 0 beyond its end: shape
        [values]."""
        # The law has a tail beyond its end, which is shared out over what lies before it.
        excess = np.append(np.clip(values, self.edge, self.end), self.end) - self.edge
        left = self.chances @ _survival(excess, self.shapes, self.scales)
        found = (left[:-1] - left[-1]) / (1.0 - left[-1])
        return np.where(values >= self.end, 0.0, np.maximum(found, 0.0))


@dataclass(frozen=True, slots=True)
class Tails:
    """The laws of both ends of a column; None where there is none.

    Args:
        lower: Of the numbers with the other sign.
        upper: Of the numbers.
    """

    lower: Tail | None = None
    upper: Tail | None = None


def find_tails(found: Histogram, rows: float, bounds: BoundsLook | None, ends: tuple[float, float]) -> Tails:
    """The laws of both ends.

    Args:
        found: Cells of numbers; those of single values do not count.
        rows: How many rows there are about.
        bounds: An earlier look at the same rows.
        ends: Where the numbers end by declaration; infinite where that is open.
    """
    low, high = ends
    if not _are_negative(found, bounds):
        low = max(low, 0.0)
    upper = fit_tail(found, rows, bounds)
    lower = fit_tail(_mirror(found), rows, bounds and _mirror_look(bounds))
    return Tails(_end_at(lower, -low), _end_at(upper, high))


def _end_at(tail: Tail | None, end: float) -> Tail | None:
    """A law that ends there at the latest; None where it would end before it begins."""
    return None if tail is None or tail.edge >= end else dataclasses.replace(tail, end=min(tail.end, end))


def _are_negative(found: Histogram, bounds: BoundsLook | None) -> bool:
    """Whether numbers below 0 are evident: amounts have none, and none is made up where noise says a few."""
    below = found.edges[1:] <= 0.0
    sums = [(float(found.noisy[below].sum()), float(found.variances[below].sum()))]
    if bounds is not None:
        near = (bounds.edges[1:] <= 0.0) & (bounds.edges[:-1] >= found.edges[0])
        sums.append((float(bounds.noisy[near].sum()), float(near.sum()) * bounds.sigma**2))
    # The best mean of both, in standard deviations of its noise.
    precision = sum(1.0 / variance for _, variance in sums if variance > 0)
    told = sum(count / variance for count, variance in sums if variance > 0)
    return told > Z_NEGATIVE * math.sqrt(precision)


def weigh_tails(found: Histogram, tails: Tails) -> Histogram:
    """The histogram with the weights of its tails by their laws."""
    if tails.upper is not None:
        found = weigh_tail(found, tails.upper)
    return found if tails.lower is None else _mirror(weigh_tail(_mirror(found), tails.lower))


def refine_tails(bins: Cut, tails: Tails, whole: bool) -> tuple[Array, Array, Array]:
    """Bin edges, fine edges and weights, as `refine_tail` for both ends."""
    parts = bins.edges, bins.fine, bins.weights
    if tails.upper is not None:
        parts = refine_tail(*parts, tails.upper, whole)
    if tails.lower is None:
        return parts
    edges, fine, weights = parts
    edges, fine, weights = refine_tail(-edges[::-1], -fine[::-1], weights[::-1], tails.lower, whole)
    return -edges[::-1], -fine[::-1], weights[::-1]


def _mirror(found: Histogram) -> Histogram:
    """The cells of the numbers with the other sign."""
    counts = found.noisy[::-1], found.variances[::-1], found.weights[::-1]
    return Histogram(-found.edges[::-1], *counts, found.alone[::-1], found.atoms[::-1])


def _mirror_look(bounds: BoundsLook) -> BoundsLook:
    return BoundsLook(-bounds.edges[::-1], bounds.noisy[::-1], bounds.sigma)


def fit_tail(found: Histogram, rows: float, bounds: BoundsLook | None = None) -> Tail | None:
    """The law of the upper tail; None where that is faint, has few cells or is not fitted by a law.

    A law holds above a high enough number, and the higher the nearer. So the smallest part of the rows is
    taken that is clear of the noise and of their own scatter, of which rows independent of each other have
    the root of their number. Where noise is too much for that, tails of fewer and fewer rows are tried. The
    law is averaged over a grid of shapes and scales by how likely they make the noisy counts.

    Args:
        found: Cells of numbers; those of single values do not count.
        rows: How many rows there are about.
        bounds: An earlier look at the same rows, whose cells from the tail's edge on count as well.
    """
    clear = (_fit_share(found, rows, bounds, share, scattered=True) for share in TAIL_SHARES[::-1])
    faint = (_fit_share(found, rows, bounds, share) for share in TAIL_SHARES)
    return next((tail for tails in (clear, faint) for tail in tails if tail is not None), None)


def _fit_share(
    found: Histogram, rows: float, bounds: BoundsLook | None, part: float, *, scattered: bool = False
) -> Tail | None:
    """`fit_tail` for the tail that holds a part of the rows at most.

    Args:
        found, rows, bounds: As of `fit_tail`.
        part: Of the rows.
        scattered: Whether rows scatter beside the noise and the tail has to be clear of both. Else it has to
            be evident.
    """
    total = float(found.weights.sum())
    above = np.cumsum(found.weights[::-1])[::-1]
    # The first cell above which no more than this part of the rows lie.
    start = int(np.searchsorted(-above, -part * total, side="left"))
    cells = np.arange(start, len(found.noisy))
    cells = cells[~found.apart[cells]]
    if total <= 0 or len(cells) < CELLS:
        return None
    edge, weight = float(found.edges[start]), float(found.weights[cells].sum())
    # So few rows are not clear of their own scatter, were there no noise.
    if scattered and weight < CLEAR_TAIL_DEVIATIONS**2:
        return None
    # Scales are in units of where half of the tail's weight lies, so that one grid serves all columns.
    half = cells[int(np.searchsorted(np.cumsum(found.weights[cells]), weight / 2))]
    shapes, scales = (grid.ravel() for grid in np.meshgrid(SHAPES, SCALES, indexing="ij"))
    near = float(found.edges[half + 1]) - edge
    scales = scales * near
    low, high, noisy, variances = _count_tail(found, cells, bounds, edge)
    # Most cells begin where others end: what lies above these is worked out once.
    ends, places = np.unique(np.concatenate([low, high]), return_inverse=True)
    above_ends = _survival(ends - edge, shapes, scales)
    share = above_ends[:, places[: len(low)]] - above_ends[:, places[len(low) :]]
    spread = variances + (weight * np.maximum(share, 0.0) if scattered else 0.0)
    # The best multiple of each law is solved for, so that only shape and scale are on a grid.
    misfit, mass, clear = _misfits(share, noisy, spread)
    unlike = (
        misfit + np.log(spread).sum(axis=-1) + ((shapes - MEAN_TAIL_SHAPE) / DEVIATION_OF_TAIL_SHAPE) ** 2
    )
    chances = np.where(mass > 0, -0.5 * unlike, -np.inf)
    best, least = int(np.argmax(chances)), CLEAR_TAIL_DEVIATIONS if scattered else MIN_TAIL_DEVIATIONS
    # The squared distance of a law that fits is chi-square: its mean is the cells, its variance twice that.
    if clear[best] < least or misfit[best] > len(noisy) + Z_FIT * math.sqrt(2.0 * len(noisy)):
        return None
    # Chances relative to the best law, so that exp cannot underflow for all of them. Most are as good as
    # none, and would be worked out for each cell all the same.
    chances = np.exp(chances - chances[best])
    likely = chances > NEGLIGIBLE
    shapes, scales, chances = shapes[likely], scales[likely], chances[likely] / chances[likely].sum()
    excess = _find_end(near, shapes, scales, chances * (weight / total * max(rows, 1.0)))
    return Tail(edge, edge + excess, shapes, scales, chances)


def _find_end(near: float, shapes: Array, scales: Array, rows: Array) -> float:
    """Excess beyond which less than one row is expected, for tails of so many rows: shapes of all [laws]."""
    # First to an eighth of a doubling of where half of the tail lies, then inside of that.
    ends = near * 2.0 ** np.arange(0.0, 60.0, 1.0 / 8)
    for _ in range(2):
        left = rows @ _survival(ends, shapes, scales)
        place = max(int(np.argmax(left < 1.0)), 1)
        ends = np.linspace(ends[place - 1], ends[place], FINER_ENDS + 1)
    return float(ends[-1])


def _count_tail(
    found: Histogram, cells: NDArray[np.intp], bounds: BoundsLook | None, edge: float
) -> tuple[Array, Array, Array, Array]:
    """Begins, ends, noisy counts and variances of the cells of a tail: those of the look at details, and
    those of the look at bounds that begin in the tail.

    What lies beyond the cells of a look is counted in its last one, which so has no end. Cells apart are
    taken out of the look at bounds.
    """
    open_ended = np.append(found.edges[1:-1], np.inf)
    parts = [(found.edges[cells], open_ended[cells], found.noisy[cells], found.variances[cells])]
    if bounds is not None:
        far = np.flatnonzero(bounds.edges[:-1] >= edge)
        open_ended = np.append(bounds.edges[1:-1], np.inf)
        single = np.flatnonzero(found.apart)
        owner = np.searchsorted(bounds.edges, found.edges[single], side="right") - 1
        owner = np.clip(owner, 0, len(bounds.noisy) - 1)
        apart = np.bincount(owner, found.noisy[single], len(bounds.noisy))
        lost = np.bincount(owner, found.variances[single], len(bounds.noisy))
        spread = np.asarray(bounds.sigma**2 + lost, dtype=np.float64)
        parts.append((bounds.edges[far], open_ended[far], (bounds.noisy - apart)[far], spread[far]))
    low, high, noisy, variances = (np.concatenate(column) for column in zip(*parts, strict=True))
    return low, high, noisy, variances


def weigh_tail(found: Histogram, tail: Tail) -> Histogram:
    """The histogram with the weights of its tail by the law; those apart keep theirs.

    Args:
        found: Cells of numbers.
        tail: The law that `fit_tail` found for them.
    """
    # The law's share of each cell; differences of a falling function are not negative but for rounding.
    share = np.maximum(-np.diff(tail.share_above(found.edges)), 0.0)
    plain = (found.edges[:-1] >= tail.edge) & ~found.apart
    weight = float(found.weights[plain].sum())
    scale = weight / max(float(share[plain].sum()), 1e-300)
    return dataclasses.replace(found, weights=np.where(plain, share * scale, found.weights))


def refine_tail(
    edges: Array, fine: Array, weights: Array, tail: Tail, whole: bool
) -> tuple[Array, Array, Array]:
    """Bin edges, fine edges and weights, with finer cells in the tail and the last bin up to its end.

    Args:
        edges: Bin edges, shape [bins + 1].
        fine: Edges of the cells inside, shape [cells + 1].
        weights: Of the cells, which `weigh_tail` has weighed, shape [cells].
        tail: The law.
        whole: Whether edges have to be whole numbers.
    """
    # Cells before the tail stay as they are.
    first = int(np.searchsorted(fine[:-1], tail.edge))
    edges, found, shares = edges.copy(), [fine[: first + 1]], [weights[:first]]
    # Beyond the cells that were found the tail goes on to where less than one row is expected.
    last = max(float(fine[-1]), min(math.ceil(tail.end), MAX_EXACT_WHOLE) if whole else tail.end)
    cells = list(zip(fine[first:-1], fine[first + 1 :], weights[first:], strict=True))
    if last > fine[-1]:
        reach = float(fine[-1]) - tail.edge
        between = tail.edge + reach * 2.0 ** np.arange(0.0, 60.0, 1.0 / 8)
        ends = np.unique([fine[-1], *between[(between > fine[-1]) & (between < last)], last])
        ends = np.unique(np.ceil(ends)) if whole else ends
        beyond = tail.share_above(ends)
        held = float(weights[first:].sum())
        inside = float(tail.share_above(np.array([tail.edge]))[0] - beyond[0])
        scale = held / max(inside, 1e-300)
        pairs = zip(ends[:-1], ends[1:], np.maximum(-np.diff(beyond), 0.0) * scale, strict=True)
        cells += [(low, high, weight) for low, high, weight in pairs]
        edges[-1] = last
    for low, high, weight in cells:
        parts = np.linspace(low, high, PARTS + 1)
        # Edges of two sorts of cells may lie a float or two apart, and have fewer parts between them.
        parts = np.unique(np.ceil(parts) if whole else parts)
        # A cell of a single number has no finer parts.
        if high == np.nextafter(low, np.inf):
            parts = np.array([low, high])
        share = np.maximum(-np.diff(tail.share_above(parts)), 0.0)
        share = share if share.sum() > 0 else np.diff(parts)
        found.append(parts[1:])
        shares.append(weight * share / share.sum())
    return edges, np.concatenate(found), np.concatenate(shares)


def _survival(excess: Array, shapes: Array, scales: Array) -> Array:
    """Share of the tail above each excess under each pair of parameters: shape [parameters, excesses]."""
    # The law's limit at shape 0 is exponential, which this tiny shape is as good as.
    shape = np.where(np.abs(shapes) < 1e-9, 1e-9, shapes)[:, None]
    inner = np.maximum(1.0 + shape * (excess[None, :] / scales[:, None]), 0.0)
    safe = np.where(inner > 0, inner, 1.0)  # a law of negative shape ends somewhere
    return np.where(inner > 0, np.exp(-np.log(safe) / shape), 0.0)


def _misfits(share: Array, noisy: Array, variances: Array) -> tuple[Array, Array, Array]:
    """Of the best multiple of each law: squared distance to the noisy counts, itself, and its deviations
    above 0."""
    weights = 1.0 / variances
    # Least squares with weights: the multiple of each law that is nearest to the counts.
    norm = np.maximum((share**2 * weights).sum(axis=1), 1e-300)
    mass = (share * noisy * weights).sum(axis=1) / norm
    misfit = ((noisy - mass[:, None] * share) ** 2 * weights).sum(axis=1)
    return misfit, mass, mass * np.sqrt(norm)
