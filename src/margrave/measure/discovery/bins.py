"""Bins cut from a denoised histogram (adaptive, uniform, quantile, privtree, of differences), and given
bins merged.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

Z_RARE = 3.0
"""Standard deviations of its noise below which a bin counts as rare."""
SIZE_HALVINGS = 30
"""How often the size of a bin of differences is narrowed down by half."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A histogram cut into bins.

    Args:
        edges: Bin edges, shape [bins + 1].
        fine: Edges of the cells inside, shape [cells + 1].
        weights: Denoised count of each cell, shape [cells].
        starts: Index of each bin's first cell, shape [bins].
    """

    edges: Array
    fine: Array
    weights: Array
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, edges: Array, weights: Array, starts: Sequence[int] | NDArray[np.int64]) -> Cut:
        """A histogram of cells, shapes [cells + 1] and [cells], cut in front of some of them."""
        index = np.asarray(starts, dtype=np.int64)
        return cls(np.append(edges[index], edges[-1]), edges, weights, index)


def cut(edges: Array, weights: Array, bins: int, least: float, alone: NDArray[np.bool_] | None = None) -> Cut:
    """Cut a denoised histogram into at most `bins` bins of like mass, over its non-empty range.

    A cell as heavy as a bin gets a bin of its own, so that spikes (a zero, a round number) stay sharp.
    Empty cells at the ends join the first and the last bin only as far as the range is trimmed to them.

    Args:
        edges: Cell edges, shape [cells + 1].
        weights: Denoised counts, shape [cells].
        bins: Most bins.
        least: Least mass of a bin, where the total allows it.
        alone: Cells of single values, shape [cells]: the heaviest of them get bins of their own.
    """
    edges, weights, alone = _trim(edges, weights, alone)
    single = _heavy_singles(weights, alone, bins, least)
    # The floor makes the loop end: bins of a millionth of the mass are finer than any noise.
    target = max(_target(weights, bins), least, float(weights.sum()) * 1e-6, 1e-6)
    starts = _starts(weights, target, least, single)
    # Masses are raised bit by bit until the bins are few enough.
    while len(starts) > bins:
        target *= 1.05
        starts = _starts(weights, target, min(least, target), single)
    return Cut.of(edges, weights, starts)


def cut_differences(edges: Array, weights: Array, bins: int, least: float, alone: NDArray[np.bool_]) -> Cut:
    """Cut a denoised histogram into at most `bins` bins whose numbers lie close together.

    Differences of columns that move together are small in most rows and large in a few. Bins of like mass
    would tell small ones apart, which hardly matters, and leave all large ones together. The mean distance
    of numbers in a bin from each other is least where the density of bins is the square root of the density
    of rows (Gersho 1979, for absolute errors on a line), so each bin has a like sum of sqrt(rows * width)
    over its cells.

    Args:
        edges: Cell edges, shape [cells + 1].
        weights: Denoised counts, shape [cells].
        bins: Most bins.
        least: Least mass of a bin, where the total allows it.
        alone: Cells of single values, shape [cells]: the heaviest of them get bins of their own.
    """
    edges, weights, apart = _trim(edges, weights, alone)
    single = _heavy_singles(weights, apart, bins, least)
    sizes = np.sqrt(weights * np.diff(edges))
    # The least size with which the bins are few enough, to a 2^-30th of all.
    low, high = 0.0, float(sizes.sum())
    starts = _starts_by_size(sizes, weights, low, least, single)
    if len(starts) > bins:
        starts = [0]
        for _ in range(SIZE_HALVINGS):
            middle = (low + high) / 2
            found = _starts_by_size(sizes, weights, middle, least, single)
            if len(found) > bins:
                low = middle
            else:
                high, starts = middle, found
    return Cut.of(edges, weights, starts)


def cut_by(
    binning: str,
    edges: Array,
    weights: Array,
    bins: int,
    least: float,
    alone: NDArray[np.bool_] | None = None,
) -> Cut:
    """Cut a denoised histogram into at most `bins` bins, over its non-empty range.

    * adaptive: bins of like mass, heavy cells alone (`cut`).
    * uniform: bins of about equal width.
    * quantile: bins of like mass, whatever is heavy.
    * privtree: halves of halves while they hold much, after Zhang, Xiao and Xie 2016 (Algorithm 2): a node of
      depth h with count c is halved if max(c - h d, t - d) > t, with the decay d = lambda ln 2. There the
      counts get fresh Laplace noise; here they are sums of cells that have been paid for, so that the tree
      costs nothing more and its leaves are measured already. lambda is `least`, and t the mass of a bin.

    Args:
        binning: One of `margrave.schema.columns.binned.BINNINGS`.
        edges: Cell edges, shape [cells + 1].
        weights: Denoised counts, shape [cells].
        bins: Most bins.
        least: Least mass of a bin, where the total allows it.
        alone: Cells of single values, shape [cells]; adaptive bins keep the heaviest of them apart.
    """
    if binning == "adaptive":
        return cut(edges, weights, bins, least, alone)
    edges, weights, _ = _trim(edges, weights, None)
    found = {"uniform": _even, "quantile": _quantiles, "privtree": _halves}[binning](
        edges, weights, bins, least
    )
    return Cut.of(edges, weights, np.unique(found))


def merge_rare(noisy: Array, sigma: float, least: float) -> NDArray[np.int64]:
    """The first cell of each bin, when rare cells join their neighbours.

    The dual threshold of Chen et al. 2025 (Algorithm 1): a cell is rare below max(least, 3 sigma). There all
    rare values get one code. Cells of numbers stand in order, so here rare cells next to each other fill
    bins, from left to right, and a bin is closed as soon as its sum is not rare, by the noise of a sum; what
    is left of a run joins the bin before it or, at the start, the one behind.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        least: Least rows of a bin.
    """
    starts, open_at, mass = list[int](), 0, 0.0
    for cell, value in enumerate(noisy):
        if value >= max(least, Z_RARE * sigma):
            starts.append(cell)
            open_at, mass = cell + 1, 0.0
            continue
        mass += float(value)
        if mass >= max(least, Z_RARE * sigma * math.sqrt(cell + 1 - open_at)):
            starts.append(open_at)
            open_at, mass = cell + 1, 0.0
    return np.asarray([0, *starts[1:]], dtype=np.int64)


def _even(edges: Array, weights: Array, bins: int, least: float) -> list[int]:
    """Bins of about equal width, whatever they hold: the cells that begin nearest to each equal part."""
    # The places of equal parts; each bin begins at the edge nearest to one.
    wanted = np.linspace(edges[0], edges[-1], bins + 1)[:-1]
    places = np.clip(np.searchsorted(edges, wanted), 1, len(weights) - 1) if len(weights) > 1 else [0]
    near = [
        int(p) - int(abs(edges[p - 1] - w) < abs(edges[p] - w)) for p, w in zip(places, wanted, strict=False)
    ]
    return [0, *near]


def _quantiles(edges: Array, weights: Array, bins: int, least: float) -> list[int]:
    """Bins of like mass: each begins at the first cell behind its share of it."""
    total = float(weights.sum())
    # No more bins than the total can fill with the least mass each.
    bins = max(min(bins, int(total / max(least, 1e-12))), 1)
    running = np.append(0.0, np.cumsum(weights))[:-1]
    return [
        0,
        *np.searchsorted(running, total * np.arange(1, bins) / bins).clip(0, len(weights) - 1).tolist(),
    ]


def _halves(edges: Array, weights: Array, bins: int, least: float) -> list[int]:
    """Leaves of the tree of halves of the range; the heaviest is halved first while there are bins left."""
    running = np.append(0.0, np.cumsum(weights))
    decay, bar = least * math.log(2), max(float(weights.sum()) / bins, least)
    leaves, done = [(0.0, 0, len(weights), float(edges[0]), float(edges[-1]), 0)], list[int]()
    while leaves and len(leaves) + len(done) < bins:
        leaves.sort()
        _, start, stop, low, high, depth = leaves.pop()
        middle = low + (high - low) / 2
        # The edge at or behind the middle; halving is by the place of cells, not of rows.
        at = int(np.searchsorted(edges, middle))
        if running[stop] - running[start] - depth * decay <= bar or not start < at < stop:
            done.append(start)
            if not start < at < stop and stop - start > 1:  # all of it on one side: halve that
                done.pop()
                side = (low, middle) if at >= stop else (middle, high)
                leaves.append((running[stop] - running[start], start, stop, *side, depth + 1))
            continue
        for part in ((start, at, low, middle), (at, stop, middle, high)):
            leaves.append((running[part[1]] - running[part[0]], *part, depth + 1))
    return [*done, *(leaf[1] for leaf in leaves)]


def _heavy_singles(
    weights: Array, alone: NDArray[np.bool_] | None, bins: int, least: float
) -> frozenset[int]:
    """The cells of single values that get bins of their own: heavy enough, and a quarter of the bins at
    most."""
    if alone is None:
        return frozenset()
    # A cell is heavy if it holds half of what a bin would in the mean.
    bar = max(least, float(weights.sum()) / (2 * bins))
    heavy = np.flatnonzero(alone & (weights >= bar))
    return frozenset(heavy[np.argsort(-weights[heavy], kind="stable")][: bins // 4].tolist())


def _starts(weights: Array, target: float, least: float, single: frozenset[int]) -> list[int]:
    """The first cell of each bin, filled from left to right up to the target mass; single cells stay
    alone."""
    starts, mass = [0], 0.0
    for cell, weight in enumerate(weights):
        if cell > starts[-1] and (cell in single or cell - 1 in single):
            starts.append(cell)
            mass = 0.0
        # A bin is closed where the next cell would make it half again as heavy as intended.
        full = mass >= target or (mass >= least and mass + weight > 1.5 * target)
        heavy_next = weight >= target and mass >= least
        if cell > starts[-1] and (full or heavy_next):
            starts.append(cell)
            mass = 0.0
        mass += float(weight)
    return _join_light_end(starts, mass, least, single)


def _starts_by_size(
    sizes: Array, weights: Array, target: float, least: float, single: frozenset[int]
) -> list[int]:
    """The first cell of each bin, filled from left to right up to a size and the least mass; single cells
    stay alone."""
    starts, size, mass = [0], 0.0, 0.0
    for cell, weight in enumerate(weights):
        # A bin is closed where the next cell would make it half again as large as intended.
        full = mass >= least and (size >= target or size + sizes[cell] > 1.5 * target)
        if cell > starts[-1] and (full or cell in single or cell - 1 in single):
            starts.append(cell)
            size, mass = 0.0, 0.0
        size += float(sizes[cell])
        mass += float(weight)
    return _join_light_end(starts, mass, least, single)


def _join_light_end(starts: list[int], mass: float, least: float, single: frozenset[int]) -> list[int]:
    """A last bin that is too light joins the one before, unless its first cell or the one before stands
    alone."""
    if len(starts) > 1 and mass < least and not {starts[-1], starts[-1] - 1} & single:
        starts.pop()
    return starts


def _trim(
    edges: Array, weights: Array, alone: NDArray[np.bool_] | None
) -> tuple[Array, Array, NDArray[np.bool_] | None]:
    """The same cells from the first that holds rows to the last; all of them where none does."""
    occupied = np.flatnonzero(weights > 0)
    if not len(occupied):
        return edges, weights, alone
    first, last = int(occupied[0]), int(occupied[-1])
    kept = slice(first, last + 1)
    return edges[first : last + 2], weights[kept], None if alone is None else alone[kept]


def _target(weights: Array, bins: int) -> float:
    """The bin mass with which cells heavier than a bin stand alone and the rest shares what is left."""
    order = np.sort(weights)[::-1]
    rest = float(order.sum())
    left = bins
    for weight in order:
        if left <= 1 or weight <= rest / left:
            break
        rest -= float(weight)
        left -= 1
    return rest / max(left, 1)
