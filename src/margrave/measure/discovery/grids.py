"""Which round numbers the values of a column are on, from a noisy look at their multiples.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Duration, Moment, Real, Time, Whole

Array = NDArray[np.float64]
Grids = tuple[tuple[float, float], ...]

THOUSANDS = (1e6, 5e5, 1e5, 5e4, 1e4, 5e3, 1e3, 500.0, 100.0, 50.0, 10.0, 5.0)
DECIMALS = (1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)
CLOCK = (*(1e6 * seconds for seconds in (86_400, 3_600, 1_800, 900, 300, 60, 1)), 1e3)
"""Public steps, the coarsest first, each a multiple of the next; those of the clock in microseconds."""

MIN_DEVIATIONS, MIN_ROW_SHARE = 4.0, 0.02
"""A grid is kept if its rows pass that many standard deviations of the noise, and that share of the rows."""
MIN_TOTAL_DEVIATIONS = 2.0
"""Standard deviations by which there have to be any rows for shares of them to mean something."""
REST_DEVIATIONS, MOST_REST = 2.0, 0.15
"""All values are on a grid unless the rows that are not pass that many deviations of their noise, or might be
more than that share of the rows by one deviation."""


def steps_of(column: Binned, most: float = math.inf) -> tuple[float, ...]:
    """The steps to ask for, the coarsest first; none for columns that have no look at grids.

    A resolution that the storage fixes is not asked for, nor anything finer. Nor are steps beyond the numbers
    that were found: a cell in which nothing but 0 can be has noise as any other.

    Args:
        column: Its kind and the grids that its storage fixes.
        most: The largest number found, in size.
    """
    if isinstance(column, (Moment, Time, Duration)):
        steps: tuple[float, ...] = CLOCK[isinstance(column, Time) :]
    elif column.read == "number":
        steps = THOUSANDS + (DECIMALS if isinstance(column, Real) else ())
    else:
        return ()
    return tuple(step for step in steps if _floor(column) * (1 + 1e-9) < step <= most)


def _floor(column: Binned) -> float:
    """The step that all values are on by their storage; 0 if there is none."""
    whole = 1.0 if isinstance(column, Whole) else 0.0
    if sum(share for _, share in column.grids) < 1 - 1e-6:
        return whole
    return max(column.grids[-1][0], whole)


def common_step(steps: tuple[float, ...], noisy: Array, sigma: float, zeros: float) -> float:
    """The coarsest step that all values are multiples of, as far as the noise tells; 0 if there is none.

    Zeros are on every grid and say nothing. Rows on no step up to this one may not be evident, nor may there
    be room for many of them; those on this step itself are evident, so that a coarser one would not do.

    Args:
        steps: Those asked for, of `steps_of`.
        noisy: Noisy counts by the first of them that a value is a multiple of, shape [steps + 1].
        sigma: Standard deviation of their noise.
        zeros: Rows that hold 0, about.
    """
    counts = np.append(noisy[0] - zeros, noisy[1:])
    total = float(counts.sum())
    for place, step in enumerate(steps):
        rest, doubt = float(counts[place + 1 :].sum()), sigma * math.sqrt(len(steps) - place)
        if rest > REST_DEVIATIONS * doubt or rest + doubt > MOST_REST * total:
            continue
        return step if counts[place] > MIN_DEVIATIONS * sigma else 0.0
    return 0.0


def released_grids(
    column: Binned,
    steps: tuple[float, ...],
    noisy: Array,
    sigma: float,
    edges: Array,
    weights: Array,
    variances: Array,
) -> Grids:
    """The grids that the noisy counts support, and the share of values to draw on each.

    Values that stand alone in a cell are known anyway and left out: many zeros say nothing about how the rest
    is rounded. Of numbers in general one in ten is a multiple of 10: the shares are solved for so that those
    drawn on all grids together meet the counts, by least squares without negative shares.

    Args:
        column: Its kind and the grids that its storage fixes.
        steps: Those asked for, of `steps_of`.
        noisy: Noisy counts by the first of them that a value is a multiple of, shape [steps + 1].
        sigma: Standard deviation of their noise.
        edges: Cell edges of the look at the column's values, shape [cells + 1].
        weights: Denoised counts of those cells, shape [cells].
        variances: Of the noise in each cell, shape [cells].
    """
    floor = _floor(column)
    alone, unsure = _alone(edges, weights, variances, steps, floor)
    counts = np.maximum(noisy - alone, 0.0)
    total = float(counts.sum())
    noise = np.sqrt(sigma**2 + unsure)
    if total <= MIN_TOTAL_DEVIATIONS * float(np.sqrt(np.square(noise).sum())):
        return column.grids
    units = np.array([*steps, floor])
    kept, shares = _keep_evident(counts, units, noise)
    found = [(float(units[k]), float(share)) for k, share in zip(kept, shares, strict=True) if share > 0]
    scale = max(math.fsum(share for _, share in found), 1.0)
    return tuple((step, share / scale) for step, share in found if step > (1.0 if _plain(column) else 0.0))


def all_on(grids: Grids, step: float) -> Grids:
    """The grids without those finer than a step that all values are on, shares adding up to 1."""
    coarser = [(unit, share) for unit, share in grids if unit > step]
    rest = max(1.0 - math.fsum(share for _, share in coarser), 0.0)
    return (*coarser, (step, rest))


def _plain(column: Binned) -> bool:
    """Whether the finest step is that of all whole numbers, which needs no grid."""
    return isinstance(column, Whole) and _floor(column) <= 1.0


def _alone(
    edges: Array, weights: Array, variances: Array, steps: tuple[float, ...], floor: float
) -> tuple[Array, Array]:
    """Mass of the cells that hold one value only, and its variance, by the first step that it is a multiple
    of."""
    mass, unsure = np.zeros(len(steps) + 1), np.zeros(len(steps) + 1)
    width = np.diff(edges)
    single = (width <= floor * (1 + 1e-9)) | (edges[1:] == np.nextafter(edges[:-1], np.inf))
    for cell in np.flatnonzero(single & (weights > 0)):
        value = float(edges[cell])
        on = [place for place, step in enumerate(steps) if abs(value / step - round(value / step)) < 1e-9]
        place = on[0] if on else len(steps)
        mass[place] += weights[cell]
        unsure[place] += variances[cell]
    return mass, unsure


def _keep_evident(counts: Array, units: Array, noise: Array) -> tuple[NDArray[np.intp], Array]:
    """Which units are evident, the last one always, and the shares of draws on them, both [kept]."""
    total, kept = float(counts.sum()), np.arange(len(units))
    while True:
        shares = _shares(counts / total, units, kept)
        clear = shares * total / _noise(noise, kept)
        weak = (clear <= MIN_DEVIATIONS) | (shares <= MIN_ROW_SHARE)
        weak[-1] = False  # the storage's own step, or numbers on no grid
        if not weak.any():
            return kept, shares
        # One at a time: the next finer step takes over what is on a step that goes.
        kept = np.delete(kept, np.argmin(np.where(weak, clear, np.inf)))


def _noise(noise: Array, kept: NDArray[np.intp]) -> Array:
    """Noise on the rows of each kept unit: theirs are the cells since the unit kept before, [kept]."""
    variance = np.cumsum(np.square(noise))[kept]
    return np.sqrt(np.diff(variance, prepend=0.0))


def _shares(counts: Array, units: Array, kept: NDArray[np.intp]) -> Array:
    """Shares of draws on the kept units under which values fall on these units as the counts say: [kept].

    A draw on the multiples of u is a multiple of s, where u divides s, one time in s / u.
    """
    from scipy.optimize import nnls  # a tenth of a second, for what a declared schema never asks

    step = units[kept]
    finer = np.minimum(step / np.where(step > 0, step, 1.0)[:, None], 1.0)
    finer[step == 0] = 1.0  # any number at all
    found: Array = nnls(finer, np.cumsum(counts)[kept])[0]
    return found
