"""Inference: log Z and all measured marginals of a log-linear model, exactly, on its junction tree."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.pgm.blocks import LARGE, Blocks, Split, cores, shared, splits
from margrave.models.pgm.kernels import (
    LENGTH,
    SAFE,
    SEPARATOR,
    add_copies,
    calibrate,
    gather_add,
    lost,
    lower_nodes,
    lower_part,
    raise_nodes,
    raise_part,
    renewed,
    scaled,
    scatter_add,
)
from margrave.models.pgm.logs import calibrate_logs
from margrave.models.pgm.tree import Layout

__all__ = ["Inference"]


class Inference:
    """p(x) = exp(sum_r theta_r(x_r) - log Z(theta)) over the attributes of a layout.

    Args:
        layout: The tree and the measured tables.
        threads: Most threads that work on large tree cliques; None for one a core. The answers are the same.

    After `run`, `belief` holds the probabilities of every tree clique, [layout.node_starts[-1]], and
    `marginals` those of every measured clique, [layout.starts[-1]].
    """

    def __init__(self, layout: Layout, threads: int | None = None) -> None:
        self.layout = layout
        self.threads = cores() if threads is None else max(1, threads)
        cells = layout.group_starts[-1]
        tables = cells + layout.separator_starts[-1]
        self.belief = np.empty(layout.node_starts[-1])
        self.marginals = np.empty(layout.starts[-1])
        self.log_space_runs = 0
        self._splits = splits(layout, tables, LARGE)
        self._ends = np.asarray(layout.group_starts, dtype=np.int64)
        self._logs = np.empty(cells)
        self._tables = np.empty(tables)
        self._sums = np.empty(tables + max((split.room for split in self._splits), default=0))
        self._scale = np.empty(len(layout.nodes))

    def run(self, theta: NDArray[np.float64]) -> float:
        """log Z at theta, [layout.starts[-1]]; fills `belief` and `marginals`. d log Z / d theta = marginals.

        Works in probability space; where that would lose precision, again in log space.
        """
        at = self.layout
        arrays = (at.nodes, at.first, at.links, at.maps, at.outer, at.inner)
        buffers = (self._tables, self.belief, self._sums)
        factors = self._tables[: len(self._logs)]
        _spread(at.members, at.maps, at.outer, at.inner, theta, self._logs)
        peaks = np.maximum.reduceat(self._logs, self._ends[:-1]) if len(self._logs) else self._logs
        _less(self._logs, self._ends, peaks)
        np.exp(self._logs, out=factors)
        found = self._by_blocks() if self._splits else calibrate(*arrays, *buffers)
        if math.isnan(found):
            self.log_space_runs += 1
            factors[:] = self._logs
            found = calibrate_logs(*arrays, *buffers)
        _collect(at.members, at.maps, at.outer, at.inner, self._sums, self.marginals)
        return float(peaks.sum()) + found

    def _by_blocks(self) -> float:
        """As `kernels.calibrate`, with large nodes dealt out."""
        at, tables, belief, sums, scale = self.layout, self._tables, self.belief, self._sums, self._scale
        arrays = (at.nodes, at.first, at.links, at.maps, at.outer, at.inner, tables, belief)
        done = 0
        for split in self._splits:
            whole = raise_nodes(done, split.node, *arrays, scale) and self._raised(split)
            if not whole:
                return math.nan
            done = split.node + 1
        whole = raise_nodes(done, len(at.nodes), *arrays, scale)
        if not whole or lost(at.nodes, scale) > SAFE:
            return math.nan
        sums[: len(tables)] = 0.0
        done = len(at.nodes)
        for split in reversed(self._splits):
            lower_nodes(split.node + 1, done, *arrays, sums, scale)
            self._lowered(split)
            done = split.node
        lower_nodes(0, done, *arrays, sums, scale)
        return float(np.log(scale).sum())

    def _raised(self, split: Split) -> bool:
        """Fill a large node and send its message up; False where it is lost."""
        at, k, blocks = self.layout, split.node, split.up
        node, near = at.nodes[k], at.links[at.first[k] : at.first[k + 1]]
        out = self._sums if blocks.room else self._tables
        found = [0.0] * len(blocks.parts)
        self._tables[node[SEPARATOR] : node[SEPARATOR] + node[LENGTH]] = 0.0

        def work(b: int) -> None:
            self._clear(blocks, b)
            maps = (at.maps, at.outer, at.inner, self._tables, self.belief, out)
            found[b] = raise_part(node, blocks.parts[b], near, blocks.into[b], *maps)

        shared(work, len(found), self.threads)
        self._add(blocks, self._tables)
        self._scale[k] = sum(found)
        return bool(scaled(k, at.nodes, self._tables, self._scale))

    def _lowered(self, split: Split) -> None:
        """Calibrate a large node and add it up to all its tables."""
        at, k, blocks = self.layout, split.node, split.down
        node = at.nodes[k]
        factor = renewed(node, self._scale[k], self._tables, self._sums)

        def work(b: int) -> None:
            self._clear(blocks, b)
            maps = (at.maps, at.outer, at.inner, self._tables, self.belief, self._sums)
            lower_part(node, blocks.parts[b], blocks.into[b], factor, *maps)

        shared(work, len(blocks.parts), self.threads)
        self._add(blocks, self._sums)

    def _clear(self, blocks: Blocks, b: int) -> None:
        """Empty one block's copies."""
        start = blocks.first + b * blocks.room
        self._sums[start : start + blocks.room] = 0.0

    def _add(self, blocks: Blocks, target: NDArray[np.float64]) -> None:
        """Add up all blocks' copies of each table."""
        first = blocks.first
        for start, length in blocks.copied.tolist():
            add_copies(self._sums, first, blocks.room, len(blocks.parts), target, start, length)
            first += length


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
def _less(logs: NDArray[np.float64], starts: NDArray[np.int64], peaks: NDArray[np.float64]) -> None:
    """Take each group's number off it."""
    for k in range(len(peaks)):
        for c in range(starts[k], starts[k + 1]):
            logs[c] -= peaks[k]


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
