"""The shape of a noisy histogram: how far its rows reach, and how many are in each cell.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from margrave.measure.bins import sharp, spikes

__all__ = ["expected", "reach", "shaped"]

Array = NDArray[np.float64]

Z_SPLIT, Z_ENDS = 2.0, 4.2
"""Noise standard deviations at which halves differ, and at which cells hold something for certain."""
Z_BEYOND, Z_LEFT, Z_SOME = 3.0, 3.0, 0.5
"""Deviations of the sum of some cells next to the range that add them to it, one time in ten for nothing,
which costs less than the tails that are missed at 3.5; and deviations of the rows without a place from which
on Z_SOME of them will do."""
TURNS = 8
"""How often the range is widened, at most."""
EVEN, EMPTY = 0.4, 0.1
"""Chances that two halves of a node are alike, and that one of them is empty, each; else any share is as
likely as any other. Other values (0.2 to 0.8, 0.02 to 0.1) do 1 % worse at most: bench/LOG.md."""


def shaped(noisy: Array, sigma: float, rows: tuple[float, float] = (0.0, math.inf)) -> Array:
    """Estimated counts, never negative, of a histogram with equal noise in every cell; 0 beyond its reach.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        rows: How many rows are in any of the cells, as released elsewhere, and the variance of that.
    """
    first, last = reach(noisy, sigma, rows)
    result = np.zeros(len(noisy))
    heavy = spikes(noisy[first:last], sigma)
    result[first:last] = expected(noisy[first:last] - heavy, sigma) + heavy
    return result


def reach(noisy: Array, sigma: float, rows: tuple[float, float] = (0.0, math.inf)) -> tuple[int, int]:
    """The stretch of cells [first, last) that rows are in, all cells if nothing is certain.

    What holds something for certain, and on either side the run of cells next to it whose sum stands out
    most. One whose sum is Z_BEYOND deviations is evident by itself: a thin tail is not in any one cell. While
    clearly more rows are in the histogram than in the stretch, they have to be somewhere, and the likelier
    side is taken.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        rows: How many rows are in any of the cells, as released elsewhere, and the variance of that.
    """
    sure = np.flatnonzero(sharp(noisy, sigma, Z_SPLIT, Z_ENDS) > 0)
    if not len(sure):
        return 0, len(noisy)
    first, last = int(sure[0]), int(sure[-1]) + 1
    for _ in range(TURNS):
        left = rows[0] - float(noisy[first:last].sum())
        missed = left > Z_LEFT * math.sqrt(rows[1] + sigma**2 * (last - first))
        below, above = _run(noisy[:first][::-1], sigma), _run(noisy[last:], sigma)
        if max(below[0], above[0]) <= (Z_SOME if missed else Z_BEYOND):
            break
        if below[0] >= above[0]:
            first -= below[1]
        else:
            last += above[1]
    return first, last


def expected(noisy: Array, sigma: float) -> Array:
    """Counts expected given the noisy ones, never negative; they keep the sum where that is positive.

    From the top of the binary tree over cells down. Of a node of mass m with halves of n and k cells the
    noisy sums a and b say that the first holds x = (a k + (m - b) n) / (n + k), with variance sigma^2 n k /
    (n + k). Its mass is the mean of what it may be, given that: an even share with chance EVEN, nothing and
    all of it with chance EMPTY each, else anything from 0 to m.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
    """
    prefix = [0.0, *np.cumsum(noisy).tolist()]
    result = np.zeros(len(noisy))
    stack = [(0, len(noisy), max(prefix[-1], 0.0))]
    while stack:
        start, stop, mass = stack.pop()
        if stop - start <= 1 or mass <= 0.0:
            result[start:stop] = mass
            continue
        middle = start + (stop - start) // 2
        cells = middle - start, stop - middle
        sums = prefix[middle] - prefix[start], prefix[stop] - prefix[middle]
        left = _first_half(sums, cells, mass, sigma)
        stack += [(start, middle, left), (middle, stop, mass - left)]
    return result


def _run(noisy: Array, sigma: float) -> tuple[float, int]:
    """Of the runs that begin at the first cell the clearest: its deviations above 0, and its cells."""
    if not len(noisy):
        return 0.0, 0
    clear = np.cumsum(noisy) / (sigma * np.sqrt(np.arange(1, len(noisy) + 1)))
    best = int(np.argmax(clear))
    return float(clear[best]), best + 1


def _first_half(sums: tuple[float, float], cells: tuple[int, int], mass: float, sigma: float) -> float:
    """The mass expected in the first half of a node; see `expected`."""
    whole = cells[0] + cells[1]
    told = (sums[0] * cells[1] + (mass - sums[1]) * cells[0]) / whole
    spread = sigma * math.sqrt(cells[0] * cells[1] / whole)
    even = mass * cells[0] / whole
    low, high = -told / spread, (mass - told) / spread
    inside = _below(high) - _below(low) if low < 0.0 else _below(-low) - _below(-high)
    some = told + spread * (_density(low) - _density(high)) / inside if inside > 0.0 else told
    some = min(max(some, 0.0), mass)
    weights = (
        EVEN * _density((even - told) / spread),
        EMPTY * _density(low),
        EMPTY * _density(high),
        (1.0 - EVEN - 2.0 * EMPTY) * inside * spread / mass,
    )
    total = math.fsum(weights)
    if total <= 0.0:  # far beyond one of the ends
        return some
    return min((weights[0] * even + weights[2] * mass + weights[3] * some) / total, mass)


def _density(z: float) -> float:
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) if abs(z) < 38.0 else 0.0


def _below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))
