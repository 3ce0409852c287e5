"""The upper tail of amounts, from a generalised Pareto law fitted to noisy counts.

The largest amounts are few, and decide on sums and means. Cell by cell they drown in noise; a law with two
parameters is told by all cells of the tail together. Everything here is post-processing of released noisy
counts.

Source: Pickands 1975: above a high enough threshold the excess of nearly every distribution follows a
generalised Pareto law, P(X > u + x) = (1 + shape x / scale)^(-1 / shape).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.measure.atoms import Histogram
from margrave.measure.cuts import Cut

__all__ = ["Tail", "fit_tail", "refine_tail", "weigh_tail"]

Array = NDArray[np.float64]

ABOVE = 0.1
"""Share of the rows that the tail is fitted to."""
SHAPES = np.array([-0.5, -0.25, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
"""Shapes that are averaged over: 0 is exponential, and from 1 on there is no mean."""
SCALES = 2.0 ** np.arange(-2.0, 2.125, 0.125)
"""Scales that are averaged over, in units of where half of the tail's weight lies."""
USUAL, SPREAD = 0.2, 0.3
"""Mean and standard deviation of the normal law that shapes are expected to follow."""
LONG = 0.05
"""Mean shape from which on a tail is long enough to be drawn from the law."""
PARTS = 4
"""Parts of each cell of the tail in drawing, so that the density falls inside it, too."""
Z_FIT = 3.0
"""Standard deviations of the squared distance by which a law may miss the noisy counts."""
CLEAR = 5.0
"""Standard deviations by which the rows of the tail have to be evident together."""
LARGEST = 1 << 53
"""Whole numbers are drawn up to here at most: the greatest that double precision holds exactly."""
CELLS = 6
"""Least number of cells of a tail."""


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
        excess = np.append(np.clip(values, self.edge, self.end), self.end) - self.edge
        left = self.chances @ _survival(excess, self.shapes, self.scales)
        found = (left[:-1] - left[-1]) / (1.0 - left[-1])
        return np.where(values >= self.end, 0.0, np.maximum(found, 0.0))


def fit_tail(found: Histogram, rows: float) -> Tail | None:
    """The law of the upper tail; None where that is short, reaches down to zero or is not fitted by a law.

    The law is averaged over a grid of shapes and scales by how likely they make the noisy counts.

    Args:
        found: Cells of numbers; those of single values do not count.
        rows: How many rows there are about.
    """
    total = float(found.weights.sum())
    above = np.cumsum(found.weights[::-1])[::-1]
    start = int(np.searchsorted(-above, -ABOVE * total, side="left"))
    cells = np.arange(start, len(found.noisy))
    cells = cells[~found.alone[cells]]
    if total <= 0 or len(cells) < CELLS or found.edges[start] <= 0:
        return None
    edge, weight = float(found.edges[start]), float(found.weights[cells].sum())
    half = cells[int(np.searchsorted(np.cumsum(found.weights[cells]), weight / 2))]
    shapes, scales = (grid.ravel() for grid in np.meshgrid(SHAPES, SCALES, indexing="ij"))
    scales = scales * max(float(found.edges[half + 1]) - edge, 1e-12)
    low, high = found.edges[cells] - edge, found.edges[cells + 1] - edge
    share = _survival(low, shapes, scales) - _survival(high, shapes, scales)
    misfit, mass, clear = _misfits(share, found.noisy[cells], found.variances[cells])
    chances = np.where(mass > 0, -0.5 * misfit - 0.5 * ((shapes - USUAL) / SPREAD) ** 2, -np.inf)
    best = int(np.argmax(chances))
    if clear[best] < CLEAR or misfit[best] > len(cells) + Z_FIT * math.sqrt(2.0 * len(cells)):
        return None
    chances = np.exp(chances - chances[best])
    chances = chances / chances.sum()
    if float(chances @ shapes) < LONG:
        return None
    ends = edge * 2.0 ** np.arange(1.0 / 8, 60.0, 1.0 / 8)
    left = chances @ _survival(ends - edge, shapes, scales) * weight / total * max(rows, 1.0)
    return Tail(edge, float(ends[int(np.argmax(left < 1.0))]), shapes, scales, chances)


def weigh_tail(found: Histogram, tail: Tail) -> Histogram:
    """The histogram with the weights of its tail by the law; cells of single values keep theirs.

    Args:
        found: Cells of numbers.
        tail: The law that `fit_tail` found for them.
    """
    share = np.maximum(-np.diff(tail.share_above(found.edges)), 0.0)
    plain = (found.edges[:-1] >= tail.edge) & ~found.alone
    weight = float(found.weights[plain].sum())
    scale = weight / max(float(share[plain].sum()), 1e-300)
    return dataclasses.replace(found, weights=np.where(plain, share * scale, found.weights))


def refine_tail(bins: Cut, tail: Tail, whole: bool) -> tuple[Array, Array, Array]:
    """Bin edges, fine edges and weights, with finer cells in the tail and the last bin up to its end.

    Args:
        bins: Bins cut from a histogram that `weigh_tail` has weighted.
        tail: The law.
        whole: Whether edges have to be whole numbers.
    """
    edges, fine, weights = bins.edges.copy(), [bins.fine[:1]], []
    last = max(float(bins.fine[-1]), min(math.ceil(tail.end), LARGEST) if whole else tail.end)
    cells = list(zip(bins.fine[:-1], bins.fine[1:], bins.weights, strict=True))
    if last > bins.fine[-1]:
        between = float(bins.fine[-1]) * 2.0 ** np.arange(0.0, 60.0, 1.0 / 8)
        ends = np.unique([*between[between < last], last])
        ends = np.unique(np.ceil(ends)) if whole else ends
        beyond = tail.share_above(ends)
        shared = float(tail.share_above(bins.fine[[0]])[0])
        held = sum(weight for low, _, weight in cells if low >= tail.edge)
        inside = float(tail.share_above(np.array([tail.edge]))[0] - beyond[0])
        scale = held / max(inside, 1e-300) if shared > 0 else 0.0
        pairs = zip(ends[:-1], ends[1:], np.maximum(-np.diff(beyond), 0.0) * scale, strict=True)
        cells += [(low, high, weight) for low, high, weight in pairs]
        edges[-1] = last
    for low, high, weight in cells:
        parts = np.linspace(low, high, PARTS + 1) if low >= tail.edge else np.array([low, high])
        parts = np.unique(np.ceil(parts)) if whole else parts
        if high == np.nextafter(low, np.inf):
            parts = np.array([low, high])
        share = np.maximum(-np.diff(tail.share_above(parts)), 0.0) if low >= tail.edge else np.ones(1)
        share = share if share.sum() > 0 else np.diff(parts)
        fine.append(parts[1:])
        weights.append(weight * share / share.sum())
    return edges, np.concatenate(fine), np.concatenate(weights)


def _survival(excess: Array, shapes: Array, scales: Array) -> Array:
    """Share of the tail above each excess under each pair of parameters: shape [parameters, excesses]."""
    x = excess[None, :] / scales[:, None]
    shape = np.where(np.abs(shapes) < 1e-9, 1e-9, shapes)[:, None]
    inner = np.maximum(1.0 + shape * x, 0.0)
    safe = np.where(inner > 0, inner, 1.0)  # a law of negative shape ends somewhere
    return np.where(inner > 0, np.exp(-np.log(safe) / shape), 0.0)


def _misfits(share: Array, noisy: Array, variances: Array) -> tuple[Array, Array, Array]:
    """Of the best multiple of each law: squared distance to the noisy counts, itself, and its deviations
    above 0."""
    weights = 1.0 / variances
    norm = np.maximum((share**2 * weights).sum(axis=1), 1e-300)
    mass = (share * noisy * weights).sum(axis=1) / norm
    misfit = ((noisy - mass[:, None] * share) ** 2 * weights).sum(axis=1)
    return misfit, mass, mass * np.sqrt(norm)
