"""Inference: log Z and all measured marginals of a log-linear model, exactly, on its junction tree."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.pgm.kernels import calibrate, calibrate_logs, gather_add, scatter_add
from margrave.models.pgm.tree import Layout

__all__ = ["Inference"]


class Inference:
    """p(x) = exp(sum_r theta_r(x_r) - log Z(theta)) over the attributes of a layout.

    Args:
        layout: The tree and the measured tables.

    After `run`, `belief` holds the probabilities of every tree clique, [layout.node_starts[-1]], and
    `marginals` those of every measured clique, [layout.starts[-1]].
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        cells = layout.group_starts[-1]
        tables = cells + layout.separator_starts[-1]
        self.belief = np.empty(layout.node_starts[-1])
        self.marginals = np.empty(layout.starts[-1])
        self.log_space_runs = 0
        self._lengths = np.diff(layout.group_starts)
        self._logs = np.empty(cells)
        self._tables = np.empty(tables)
        self._sums = np.empty(tables)

    def run(self, theta: NDArray[np.float64]) -> float:
        """log Z at theta, [layout.starts[-1]]; fills `belief` and `marginals`. d log Z / d theta = marginals.

        Works in probability space; where that would lose precision, again in log space.
        """
        at = self.layout
        arrays = (at.nodes, at.first, at.links, at.maps, at.outer, at.inner)
        buffers = (self._tables, self.belief, self._sums)
        factors = self._tables[: len(self._logs)]
        _spread(at.members, at.maps, at.outer, at.inner, theta, self._logs)
        log_z = 0.0
        if len(self._lengths):
            peaks = np.maximum.reduceat(self._logs, at.group_starts[:-1])
            self._logs -= np.repeat(peaks, self._lengths)
            log_z = float(peaks.sum())
        np.exp(self._logs, out=factors)
        found = calibrate(*arrays, *buffers)
        if math.isnan(found):
            self.log_space_runs += 1
            factors[:] = self._logs
            found = calibrate_logs(*arrays, *buffers)
        _collect(at.members, at.maps, at.outer, at.inner, self._sums, self.marginals)
        return log_z + found


@compiled
def _spread(
    members: NDArray[np.int64],
    maps: NDArray[np.int64],
    outer: NDArray[np.int32],
    inner: NDArray[np.int32],
    theta: NDArray[np.float64],
    logs: NDArray[np.float64],
) -> None:
    """Sum the potentials of measured tables into the groups that host them."""
    logs[:] = 0.0
    for k in range(len(members)):
        start, at, first = members[k]
        gather_add(logs, start, maps[at], outer, inner, theta, first)


@compiled
def _collect(
    members: NDArray[np.int64],
    maps: NDArray[np.int64],
    outer: NDArray[np.int32],
    inner: NDArray[np.int32],
    shared: NDArray[np.float64],
    marginals: NDArray[np.float64],
) -> None:
    """Sum the groups' probabilities into those of the measured tables they host."""
    marginals[:] = 0.0
    for k in range(len(members)):
        start, at, first = members[k]
        scatter_add(shared, start, maps[at], outer, inner, marginals, first)
