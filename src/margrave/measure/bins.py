"""A noisy histogram without its noise: where it holds anything and how much, by a binary tree over cells.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["denoise", "pieces", "place", "sharp", "spikes", "support"]

Array = NDArray[np.float64]
Worth = dict[tuple[int, int], float]

LEAST_CELLS = 8
"""Cells at which the search for a place stops where no half of them is evident."""
NEAR, FAR = 6, 5.5
"""Cells by which a run may stretch the range as it is, and deviations of noise that others have to pass."""
BESIDE = 4
"""Neighbours on either side that a cell is held against."""
Z_SHARP = 5.0
"""Noise standard deviations by which it stands out."""


def pieces(noisy: Array, sigma: float, z: float) -> list[tuple[int, int]]:
    """Runs of cells [start, stop) that hold anything for certain, in order; none if nothing does.

    Descends the binary tree over cells into every half that is alive (see `denoise`). Where neither half
    is, it follows the heavier one down to a few cells: a few rows without an evident place must not
    stretch the range over all numbers.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        z: Standard deviations above which a node is alive.
    """
    prefix = np.concatenate([[0.0], np.cumsum(noisy)])
    worth: Worth = {}
    if _weigh(prefix, 0, len(noisy), z * sigma, worth) <= 0.0:
        return []
    found: list[tuple[int, int]] = []
    stack = [(0, len(noisy))]
    while stack:
        start, stop = stack.pop()
        middle = start + (stop - start) // 2
        halves = [(start, middle), (middle, stop)]
        alive = [half for half in halves if stop - start > 1 and worth[half] > 0.0]
        if not alive and stop - start > LEAST_CELLS:
            alive = [max(halves, key=lambda half: float(prefix[half[1]] - prefix[half[0]]))]
        stack += alive
        if not alive:
            found.append((start, stop))
    return sorted(found)


def support(noisy: Array, sigma: float, z: float) -> tuple[int, int] | None:
    """First and last cell of a histogram that hold anything for certain; None if nothing does.

    The ends of its `pieces`.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        z: Standard deviations above which a node is alive.
    """
    found = pieces(noisy, sigma, z)
    return (found[0][0], max(stop for _, stop in found) - 1) if found else None


def place(
    noisy: Array, sigma: float, z: float, rows: tuple[float, float] = (0.0, math.inf)
) -> tuple[int, int] | None:
    """First and last cell of the runs of few cells that hold anything for certain; None if none does.

    For grids of few, wide cells. Runs of 1, 2, 3, 4, 6, 8 and 16 cells, wherever they begin; one that has an
    evident shorter run in it says nothing of its own. Noise alone passes z = 4.5 somewhere in one of four
    hundred tables of a hundred cells, and one false octave far out would make all numbers astronomic. So what
    ends more than NEAR cells from the heaviest run and from what has joined it has to pass FAR as well, where
    no rows are left that it could hold.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        z: Standard deviations above which a run is evident.
        rows: How many rows there are, as released elsewhere, and the variance of that.
    """
    prefix = np.concatenate([[0.0], np.cumsum(noisy)])
    taken = np.zeros(len(noisy), dtype=np.bool_)
    for cells in (1, 2, 3, 4, 6, 8, 16):
        sums = prefix[cells:] - prefix[:-cells]
        found = taken.copy()
        for start in np.flatnonzero(sums > z * sigma * math.sqrt(cells)):
            if not taken[start : start + cells].any():
                found[start : start + cells] = True
        taken = found
    return _together(np.flatnonzero(taken), prefix, sigma, z, rows)


def _together(
    held: NDArray[np.intp], prefix: Array, sigma: float, z: float, rows: tuple[float, float]
) -> tuple[int, int] | None:
    """First and last of some cells, runs of them that are far from the heaviest left out unless clear."""
    if not len(held):
        return None
    runs = [(int(run[0]), int(run[-1])) for run in np.split(held, np.flatnonzero(np.diff(held) > 1) + 1)]
    mass = {run: float(prefix[run[1] + 1] - prefix[run[0]]) for run in runs}
    first, last = max(runs, key=lambda run: mass[run])
    for start, stop in sorted(runs, key=lambda run: max(first - run[1], run[0] - last)):
        left = rows[0] - float(prefix[last + 1] - prefix[first])
        some = not math.isfinite(rows[1]) or left > z * math.sqrt(rows[1] + sigma**2 * (last + 1 - first))
        near = max(first - start, stop - last) <= NEAR
        if near or some or mass[start, stop] > FAR * sigma * math.sqrt(stop - start + 1):
            first, last = min(first, start), max(last, stop)
    return first, last


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


def sharp(noisy: Array, sigma: float, z_split: float, z_zero: float) -> Array:
    """As `denoise`, but cells that stand out from their neighbours for certain keep their own counts.

    On the tree alone a heavy single value, such as many zeros, is smeared over all cells of a node in which
    nothing else is evident.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        z_split: As for `denoise`.
        z_zero: As for `denoise`.
    """
    heavy = spikes(noisy, sigma)
    return denoise(noisy - heavy, sigma, z_split, z_zero) + heavy


def spikes(noisy: Array, sigma: float) -> Array:
    """What cells that stand out from their neighbours for certain hold above them, 0 in all others.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
    """
    padded = np.pad(noisy, BESIDE, mode="reflect") if len(noisy) > BESIDE else np.pad(noisy, BESIDE)
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * BESIDE + 1)
    others = np.delete(around, BESIDE, axis=1)
    above = noisy - np.maximum(np.median(others, axis=1), 0.0)
    return np.where(above > Z_SHARP * sigma, above, 0.0)


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
