"""Bins from a noisy histogram: denoise it on a binary tree, trim its ends, cut it into bins of like mass.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cut", "cut", "denoise", "number_edges", "refined_edges", "support", "widened"]

Array = NDArray[np.float64]
Worth = dict[tuple[int, int], float]

MANTISSA_CELLS = 8
"""Cells an octave in the first look at a number column: bounds to within an eighth of a power of two."""
REFINED_CELLS = 16
"""Cells an octave in the second look."""
UNIFORM_CELLS = 256
"""Equal-width cells in the second look, so that numbers far from zero (years) are resolved too."""


def number_edges(whole: bool) -> Array:
    """Public, fixed edges that cover all numbers: eight cells an octave either side of zero.

    Whole numbers up to 2^53, where integers stop being exact in float64; other numbers between 2^-30 and
    2^60, with one cell for all that is nearer to zero.
    """
    low, high = (0, 53) if whole else (-30, 60)
    steps = np.arange((high - low) * MANTISSA_CELLS + 1)
    octave, part = np.divmod(steps, MANTISSA_CELLS)
    positive = np.ldexp(1.0 + part / MANTISSA_CELLS, octave + low)
    if whole:
        positive = np.unique(np.ceil(positive))
        return np.concatenate([1 - positive[::-1], positive])
    return np.concatenate([-positive[::-1], positive])


def support(noisy: Array, sigma: float, z: float) -> tuple[int, int] | None:
    """First and last cell of a histogram that hold anything for certain; None if nothing does.

    Descends the binary tree over cells into every half that is alive (see `denoise`). Where neither half
    is, it follows the heavier one down to an octave: a few rows without an evident place must not
    stretch the range over all numbers.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        z: Standard deviations above which a node is alive.
    """
    prefix = np.concatenate([[0.0], np.cumsum(noisy)])
    worth: Worth = {}
    if _weigh(prefix, 0, len(noisy), z * sigma, worth) <= 0.0:
        return None
    ends: list[int] = []
    stack = [(0, len(noisy))]
    while stack:
        start, stop = stack.pop()
        middle = start + (stop - start) // 2
        halves = [(start, middle), (middle, stop)]
        alive = [half for half in halves if stop - start > 1 and worth[half] > 0.0]
        if not alive and stop - start > MANTISSA_CELLS:
            alive = [max(halves, key=lambda half: float(prefix[half[1]] - prefix[half[0]]))]
        stack += alive
        if not alive:
            ends += [start, stop - 1]
    return min(ends), max(ends)


def widened(edges: Array, held: tuple[int, int] | None, whole: bool) -> tuple[float, float]:
    """Bounds from a first look: its support, half as wide again on either side.

    The first look misses thin ends; the second one, with more cells and less noise, trims what is empty.
    Bounds do not cross zero on the way, and stay on the grid's range.

    Args:
        edges: Cell edges of the first look, shape [cells + 1].
        held: First and last cell of its support; None if it has none.
        whole: Whether the bounds have to be whole numbers.
    """
    if held is None:
        return 0.0, 1.0
    lower, upper = float(edges[held[0]]), float(edges[held[1] + 1])
    half = (upper - lower) / 2
    low = max(lower - half, float(edges[0]), 0.0 if lower >= 0 else -math.inf)
    high = min(upper + half, float(edges[-1]), 0.0 if upper <= 0 else math.inf)
    return (math.floor(low), math.ceil(high)) if whole else (low, high)


def refined_edges(lower: float, upper: float, whole: bool) -> Array:
    """Edges for the second look over [lower, upper): sixteen cells an octave and 256 equal ones, together."""
    uniform = np.linspace(lower, upper, UNIFORM_CELLS + 1)
    reach = max(abs(lower), abs(upper))
    top = int(np.ceil(np.log2(reach)))
    steps = np.arange(12 * REFINED_CELLS + 1)
    octave, part = np.divmod(steps, REFINED_CELLS)
    positive = np.ldexp(1.0 + part / REFINED_CELLS, octave + top - 12)
    edges = np.concatenate([uniform, positive, -positive, [0.0] if lower < 0 < upper or whole else []])
    if whole:
        edges = np.ceil(edges)
        edges = np.concatenate([edges, [0.0, 1.0]])
    edges = np.unique(edges)
    inside = edges[(edges > lower) & (edges < upper)]
    return np.concatenate([[lower], inside, [upper]])


def denoise(noisy: Array, sigma: float, z_split: float, z_zero: float) -> Array:
    """Estimated counts, never negative, of a histogram with equal noise in every cell.

    On the binary tree over cells. Upwards: a node is alive if its noisy sum, or that of a node below it,
    exceeds z_zero standard deviations; a live node is worth its own sum if that is evident, else the
    worth of the live nodes below; a dead one nothing. Downwards: mass is shared between halves in the
    ratio of their worths where their noisy densities differ by more than z_split standard deviations,
    and evenly where they do not.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        z_split: Standard deviations at which two halves differ.
        z_zero: Standard deviations under which a node on its own counts as empty.
    """
    prefix = np.concatenate([[0.0], np.cumsum(noisy)])
    worth: Worth = {}
    whole = _weigh(prefix, 0, len(noisy), z_zero * sigma, worth)
    result = np.zeros(len(noisy))
    stack = [(0, len(noisy), whole)]
    while stack:
        start, stop, mass = stack.pop()
        if stop - start == 1 or mass <= 0.0:
            result[start:stop] = mass / (stop - start)
            continue
        middle = start + (stop - start) // 2
        sums = float(prefix[middle] - prefix[start]), float(prefix[stop] - prefix[middle])
        worths = worth[start, middle], worth[middle, stop]
        left = mass * _left_share(sums, worths, (middle - start, stop - middle), sigma * z_split)
        stack += [(start, middle, left), (middle, stop, mass - left)]
    return result


def _weigh(prefix: Array, start: int, stop: int, bar: float, worth: Worth) -> float:
    """The worth of a node, noted with those of all nodes below it."""
    cells = stop - start
    below = 0.0
    if cells > 1:
        middle = start + cells // 2
        below = _weigh(prefix, start, middle, bar, worth) + _weigh(prefix, middle, stop, bar, worth)
    own = float(prefix[stop] - prefix[start])
    worth[start, stop] = own if own > bar * math.sqrt(cells) else below
    return worth[start, stop]


def _left_share(
    sums: tuple[float, float], worths: tuple[float, float], cells: tuple[int, int], bar: float
) -> float:
    """The left half's share of a node's mass; the pairs are of the left and the right half."""
    even = cells[0] / sum(cells)
    spread = bar * math.sqrt(1.0 / cells[0] + 1.0 / cells[1])
    if sum(worths) <= 0.0 or abs(sums[0] / cells[0] - sums[1] / cells[1]) < spread:
        return even
    return worths[0] / sum(worths)


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


def cut(edges: Array, weights: Array, bins: int, least: float) -> Cut:
    """Cut a denoised histogram into at most `bins` bins of like mass, over its non-empty range.

    A cell as heavy as a bin gets a bin of its own, so that spikes (a zero, a round number) stay sharp.
    Empty cells at the ends join the first and the last bin only as far as the range is trimmed to them.

    Args:
        edges: Cell edges, shape [cells + 1].
        weights: Denoised counts, shape [cells].
        bins: Most bins.
        least: Least mass of a bin, where the total allows it.
    """
    first, last = _support(weights)
    edges, weights = edges[first : last + 2], weights[first : last + 1]
    # The floor makes the loop end: bins of a millionth of the mass are finer than any noise.
    target = max(_target(weights, bins), least, float(weights.sum()) * 1e-6, 1e-6)
    starts = _starts(weights, target, least)
    while len(starts) > bins:
        target *= 1.05
        starts = _starts(weights, target, min(least, target))
    index = np.asarray(starts, dtype=np.int64)
    return Cut(np.append(edges[index], edges[-1]), edges, weights, index)


def _starts(weights: Array, target: float, least: float) -> list[int]:
    """The first cell of each bin, filled from left to right up to the target mass."""
    starts, mass = [0], 0.0
    for cell, weight in enumerate(weights):
        full = mass >= target or (mass >= least and mass + weight > 1.5 * target)
        heavy_next = weight >= target and mass >= least
        if cell > starts[-1] and (full or heavy_next):
            starts.append(cell)
            mass = 0.0
        mass += float(weight)
    if len(starts) > 1 and mass < least:
        starts.pop()
    return starts


def _support(weights: Array) -> tuple[int, int]:
    occupied = np.flatnonzero(weights > 0)
    if not len(occupied):
        return 0, len(weights) - 1
    return int(occupied[0]), int(occupied[-1])


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
