"""Inference: log Z and all measured marginals of a log-linear model, exactly, on its junction tree.

Messages are passed in probability space by `kernels`, or in log space by `calibrate_logs`, which is slower
and safe for any finite potentials. The rows of a large node are dealt out in blocks, so that threads may work
on it at the same time.

Blocks are the ranges of one axis of a node, or of a few axes in a row taken as one. Every block adds to other
cells of a table that has these axes. Of any other table every block has a copy of its own, and the copies are
added up in the order of the blocks; the axes are chosen so that such tables are small.
Blocks depend on the layout alone, so results are the same to the last bit whatever the number of threads.

`Calibration` is what the optimiser and the model ask of an engine of inference, compiled or on a device.
`Held` is inference with some potentials that the optimiser does not move: those of cells that rules forbid.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.limits import count_cores
from margrave.models._base.compiled import compile_kernel
from margrave.models.pgm.kernels import (
    CELLS,
    LENGTH,
    MAX_SAFE_LOG,
    OWN,
    PARENT,
    ROWS,
    SEPARATOR,
    WIDTH,
    add_copies,
    calibrate,
    gather_add,
    lost,
    lower_nodes,
    lower_part,
    raise_nodes,
    raise_part,
    renew_message,
    scale_message,
    scatter_add,
)
from margrave.models.pgm.tree import Layout, rank_attributes, tree_cells
from margrave.schema.domain import Clique, Domain


class Calibration(Protocol):
    """log Z, all measured marginals and all beliefs of p(x) = exp(sum_r theta_r(x_r) - log Z)."""

    @property
    def layout(self) -> Layout:
        """The tree and the measured tables."""

    @property
    def marginals(self) -> NDArray[np.float64]:
        """Probabilities of every measured clique at the last theta, [layout.starts[-1]]."""

    @property
    def belief(self) -> NDArray[np.float64]:
        """Probabilities of every tree clique at the last theta, [layout.node_starts[-1]]."""

    def run(self, theta: NDArray[np.float64]) -> float:
        """log Z at theta, [layout.starts[-1]]; fills `belief` and `marginals`."""


Floats = NDArray[np.float64]

FORBIDDEN_POTENTIAL = -1e4
"""Potential of a forbidden cell: finite, so that logarithms never meet infinity, though its exponential is 0.
Where measurements contradict the rules other potentials reach hundreds."""

MAX_RULE_CELLS = 1 << 17
"""Cells of one rule's table, and of the junction tree of all of them, that a model takes in. Larger rules are
left to drawing rows again."""


class Held:
    """Inference whose last tables have fixed potentials: the optimiser sees those before.

    Args:
        inner: Over all tables.
        fixed: Potentials of the last ones.
    """

    def __init__(self, inner: Calibration, fixed: Floats) -> None:
        self.inner = inner
        self.fixed = fixed
        self.free = inner.layout.starts[-1] - len(fixed)

    @property
    def layout(self) -> Layout:
        """The tree and all tables."""
        return self.inner.layout

    @property
    def marginals(self) -> Floats:
        """Probabilities of the tables that are not fixed, at the last theta."""
        return self.inner.marginals[: self.free]

    @property
    def belief(self) -> Floats:
        """Probabilities of every tree clique at the last theta."""
        return self.inner.belief

    def run(self, theta: Floats) -> float:
        """log Z at theta, which leaves out the fixed potentials."""
        return self.inner.run(np.concatenate([theta, self.fixed]))


def rule_tables(domain: Domain) -> list[tuple[Clique, NDArray[np.bool_]]]:
    """The rules that a junction tree takes in: which cells of which cliques are allowed."""
    if domain.rules is None:
        return []
    taken: list[tuple[Clique, NDArray[np.bool_]]] = []
    for clique, allowed in domain.rules.tables(MAX_RULE_CELLS):
        # Only attributes that rules speak of are counted: others would add their own cells to the limit.
        used = domain.project([n for n in domain.names if any(n in c for c, _ in taken) or n in clique])
        if tree_cells(used, [*(c for c, _ in taken), clique]) <= MAX_RULE_CELLS:
            taken.append((clique, allowed))
    return taken


def forbid_cells(domain: Domain, tables: Sequence[tuple[Clique, NDArray[np.bool_]]]) -> Floats:
    """Potentials of rule tables, one after another, axes in the engine's order."""
    names = rank_attributes(domain)
    parts = [np.zeros(0)]
    for clique, allowed in tables:
        axes = sorted(range(len(clique)), key=lambda i, clique=clique: names.index(clique[i]))  # type: ignore[misc]
        parts.append(np.where(allowed.transpose(axes), 0.0, FORBIDDEN_POTENTIAL).ravel())
    return np.concatenate(parts)


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@compile_kernel
def calibrate_logs(
    nodes: Longs,
    first: Longs,
    links: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    tables: Floats,
    belief: Floats,
    sums: Floats,
) -> float:
    """As `kernels.calibrate`, all in log space. tables: logs of factors."""
    belief[:] = 0.0
    normaliser = 0.0
    # Up: children come before parents. A node is the sum of its factors and of its children's messages.
    for k in range(len(nodes)):
        start, cells, parent, s, n, own, _, _, _ = nodes[k]
        for link in range(first[k], first[k + 1]):
            gather_add(belief, start, maps[links[link, 0]], outer, inner, tables, links[link, 1])
        if parent < 0:
            normaliser += _normalise(belief, start, start + cells)
        else:
            # The message to the parent: the logarithm of the sum over what the separator leaves out.
            _log_sum(belief, start, maps[own], outer, inner, tables, sums, s, n)
    # Down: a parent's belief over the separator, less what the node had sent, completes the node.
    for k in range(len(nodes) - 1, -1, -1):
        start, cells, parent, s, n, own, theirs, _, _ = nodes[k]
        if parent >= 0:
            sent = tables[s : s + n].copy()
            _log_sum(belief, nodes[parent, 0], maps[theirs], outer, inner, tables, sums, s, n)
            tables[s : s + n] -= sent
            gather_add(belief, start, maps[own], outer, inner, tables, s)
    # Beliefs become probabilities, and every group's marginal is summed out of its node.
    for c in range(len(belief)):
        belief[c] = np.exp(belief[c])
    sums[:] = 0.0
    for k in range(len(nodes)):
        for link in range(first[k], first[k + 1]):
            scatter_add(belief, nodes[k, 0], maps[links[link, 0]], outer, inner, sums, links[link, 1])
    return normaliser


@compile_kernel
def _normalise(logs: Floats, first: int, last: int) -> float:
    """Subtract from logs[first:last] the log of the sum of their exponentials, and return it."""
    largest = logs[first:last].max()
    total = 0.0
    for c in range(first, last):
        total += np.exp(logs[c] - largest)
    found = largest + np.log(total)
    logs[first:last] -= found
    return float(found)


@compile_kernel
def _log_sum(
    source: Floats,
    base: int,
    at: Longs,
    outer: Ints,
    inner: Ints,
    out: Floats,
    peak: Floats,
    s: int,
    n: int,
) -> None:
    """out[s:s+n] = the log of the sum of exponentials of a source's cells that map there."""
    rows, width, o, i = at[0], at[1], at[3], at[4]
    # The largest is taken out per target cell, so that at least one exponential is 1 and no sum underflows.
    peak[s : s + n] = -np.inf
    out[s : s + n] = 0.0
    for r in range(rows):
        for j in range(width):
            t = s + outer[o + r] + inner[i + j]
            peak[t] = max(peak[t], source[base + r * width + j])
    for r in range(rows):
        for j in range(width):
            t = s + outer[o + r] + inner[i + j]
            out[t] += np.exp(source[base + r * width + j] - peak[t])
    for c in range(s, s + n):
        out[c] = np.log(out[c]) + peak[c]


MIN_DEALT_CELLS = 200_000
"""Cells of a node from which it is dealt out: handing over a block costs about as much as 3,000 cells."""

MIN_BLOCK_CELLS = 100_000
"""Least cells of a block."""

RUN = 1 << 13
"""Least cells of a block that lie together, so that it is worked on in full strides."""

BLOCKS = (2, 4, 8, 16)
"""Into how many blocks a node is dealt out: even shares for most numbers of cores."""

COPY_DIVISOR = 4
"""Copies of a node's tables have at most 1 / COPY_DIVISOR of its cells together."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """One way to deal out a node, and the tables its cells are added to.

    Args:
        parts: Rows of each block, shape [blocks, 4]; see `kernels.raise_part`.
        into: Each block's own (map, start) of every table, shape [blocks, tables, 2].
        copied: Tables that every block has a copy of: (start of the table, cells), shape [copied, 2].
        first: Where the copies start; those of one block lie together, in the order of `copied`.
        room: Cells of one block's copies.
    """

    parts: Longs
    into: Longs
    copied: Longs
    first: int
    room: int


@dataclass(frozen=True, slots=True)
class Split:
    """A large node, dealt out for the way up and for the way down."""

    node: int
    up: Blocks
    down: Blocks

    @property
    def room(self) -> int:
        """Cells of all copies on either way."""
        return max(len(way.parts) * way.room for way in (self.up, self.down))


def splits(layout: Layout, first: int, large: int) -> list[Split]:
    """The nodes of at least `large` cells, dealt out; their copies start at `first`."""
    lengths = _lengths(layout)
    found = []
    for k in np.flatnonzero(layout.nodes[:, CELLS] >= large).tolist():
        node, near = layout.nodes[k], layout.links[layout.first[k] : layout.first[k + 1]]
        # A node without a parent sends no message, so it has no table of its own to add to.
        own = np.array([[node[OWN], node[SEPARATOR]]])[: int(node[PARENT] >= 0)]
        up = _dealt(layout, k, own, [int(node[LENGTH])] * len(own), first)
        down = _dealt(layout, k, near, [lengths[start] for start in near[:, 1].tolist()], first)
        found.append(Split(k, up, down))
    return found


def _lengths(layout: Layout) -> dict[int, int]:
    """Cells of the tables that are spread over nodes, by where they start."""
    groups = dict(zip(layout.group_starts[:-1], np.diff(layout.group_starts).tolist(), strict=True))
    return groups | {int(node[SEPARATOR]): int(node[LENGTH]) for node in layout.nodes if node[PARENT] >= 0}


def _dealt(layout: Layout, k: int, tables: Longs, lengths: list[int], first: int) -> Blocks:
    """The way to deal out a node that would take the least time with a thread for every block.

    tables: (map, start) of what its cells are added to, with their lengths.
    """
    # The node's own pass over all cells, undivided, is what any split has to beat.
    cells, width, rows = (int(layout.nodes[k, column]) for column in (CELLS, WIDTH, ROWS))
    shape = _axes(layout, k)
    lacks = _lacking_axes(layout, tables, shape)
    # One block of all rows, which means that the node is not dealt out.
    best = (float(cells), 1, 1, rows, 1, [False] * len(lengths))
    for i in range(len(shape)):
        # Every run of neighbouring axes can be dealt out; the codes of that run are the units of sharing.
        for j in range(i + 1, len(shape) + 1):
            times, codes = math.prod(shape[:i]), math.prod(shape[i:j])
            # Rows that lie together for one code of the run.
            apart = rows // (times * codes)
            # A table that lacks one of the axes dealt out is added to by every block, so each block needs a
            # copy of it.
            copied = [bool(lack.any()) for lack in lacks[:, i:j]]
            room = sum(n for n, copy in zip(lengths, copied, strict=True) if copy)
            most = min(codes, cells // MIN_BLOCK_CELLS, codes * apart * width // RUN)
            most = min(most, cells // (COPY_DIVISOR * room)) if room else most
            for blocks in (n for n in BLOCKS if n <= most):
                # The slowest block's cells, and twice the copies: they are cleared before and added up
                # afterwards.
                cost = cells * -(-codes // blocks) / codes + 2.0 * room * blocks
                best = min(best, (cost, blocks, times, codes, apart, copied))
    return _blocks(*best[1:], tables, lengths, first)


def _axes(layout: Layout, k: int) -> list[int]:
    """Codes of the axes that a node's rows run over."""
    rows = int(layout.nodes[k, ROWS])
    shape: list[int] = []
    for size in layout.shape(layout.tree.cliques[k]):
        if math.prod(shape) < rows:
            shape.append(size)
    return shape


def _lacking_axes(layout: Layout, tables: Longs, shape: Sequence[int]) -> NDArray[np.bool_]:
    """Which axes which table does not have: rows that differ there go to the same cells, [tables, axes]."""
    apart = [math.prod(shape[i + 1 :]) if shape[i] > 1 else 0 for i in range(len(shape))]
    starts, step = layout.maps[tables[:, 0], 3], np.asarray(apart, dtype=np.int64)
    # Stepping by one along an axis leads to the same target cell if the table lacks that axis.
    same = layout.outer[starts[:, None] + step] == layout.outer[starts][:, None]
    return np.asarray(same & (step > 0))


def _blocks(
    blocks: int,
    times: int,
    codes: int,
    apart: int,
    lacking: list[bool],
    tables: Longs,
    lengths: list[int],
    first: int,
) -> Blocks:
    """Cut a range of codes into blocks and give each its copies."""
    cuts = [codes * b // blocks for b in range(blocks + 1)]
    parts = np.array(
        [[a * apart, (b - a) * apart, codes * apart, times] for a, b in itertools.pairwise(cuts)]
    )
    into = np.repeat(tables[None], blocks, axis=0)
    copied, room = [], 0
    for i, lacks in enumerate(lacking):
        if lacks:
            copied.append((int(tables[i, 1]), lengths[i]))
            into[:, i, 1] = first + room
            room += lengths[i]
    # The copies of one block lie together, and those of different blocks one room apart.
    into[:, lacking, 1] += room * np.arange(blocks)[:, None]
    return Blocks(parts, into, np.asarray(copied, dtype=np.int64).reshape(-1, 2), first, room)


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads that wait for work, beside the one that asks for it."""
    return ThreadPoolExecutor(max(1, count_cores() - 1), thread_name_prefix="margrave")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; the child makes its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def share_work(work: Callable[[int], None], count: int, threads: int) -> None:
    """Do work(0) to work(count - 1), by this thread and the pool's; returns when all is done."""
    left = deque(range(count))

    def some() -> None:
        # Threads race for turns, so that a queue that looked filled may be empty by now.
        while left:
            try:
                turn = left.popleft()
            except IndexError:
                return
            work(turn)

    # This thread works too, so that nothing waits for a pool that is busy with other fits.
    helpers = [_pool().submit(some) for _ in range(min(threads, count) - 1)]
    some()
    # A helper that has not begun finds nothing left to do; the others are waited for, since they may hold
    # the last turns.
    for helper in helpers:
        if not helper.cancel():
            helper.result()


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
        self.threads = count_cores() if threads is None else max(1, threads)
        cells = layout.group_starts[-1]
        tables = cells + layout.separator_starts[-1]
        self.belief = np.empty(layout.node_starts[-1])
        self.marginals = np.empty(layout.starts[-1])
        self.log_space_runs = 0
        self._splits = splits(layout, tables, MIN_DEALT_CELLS)
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
        # The largest potential of each table is taken out, so that no exponential overflows; it comes back
        # in log Z.
        peaks = np.maximum.reduceat(self._logs, self._ends[:-1]) if len(self._logs) else self._logs
        _less(self._logs, self._ends, peaks)
        np.exp(self._logs, out=factors)
        found = self._by_blocks() if self._splits else calibrate(*arrays, *buffers)
        # Not a number says that a message underflowed. The log-space pass starts from the same potentials
        # and cannot.
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
        # Children come before parents: between two large nodes the small ones are done by one thread, as
        # they would be anyway.
        for split in self._splits:
            whole = raise_nodes(done, split.node, *arrays, scale) and self._raise_message(split)
            if not whole:
                return math.nan
            done = split.node + 1
        whole = raise_nodes(done, len(at.nodes), *arrays, scale)
        # What fell away in a node would have weighed too much, relative to the whole, to be left out.
        if not whole or lost(at.nodes, scale) > MAX_SAFE_LOG:
            return math.nan
        # The sums are collected anew on the way down; copies behind the tables are cleared block by block.
        sums[: len(tables)] = 0.0
        done = len(at.nodes)
        for split in reversed(self._splits):
            lower_nodes(split.node + 1, done, *arrays, sums, scale)
            self._lower_message(split)
            done = split.node
        lower_nodes(0, done, *arrays, sums, scale)
        return float(np.log(scale).sum())

    def _raise_message(self, split: Split) -> bool:
        """Fill a large node and send its message up; False where it is lost."""
        at, k, blocks = self.layout, split.node, split.up
        node, near = at.nodes[k], at.links[at.first[k] : at.first[k + 1]]
        # Blocks that share a table write to their own copies of it, which are added up in order below.
        out = self._sums if blocks.room else self._tables
        found = [0.0] * len(blocks.parts)
        self._tables[node[SEPARATOR] : node[SEPARATOR] + node[LENGTH]] = 0.0

        def work(b: int) -> None:
            self._clear(blocks, b)
            maps = (at.maps, at.outer, at.inner, self._tables, self.belief, out)
            found[b] = raise_part(node, blocks.parts[b], near, blocks.into[b], *maps)

        share_work(work, len(found), self.threads)
        self._add(blocks, self._tables)
        self._scale[k] = sum(found)
        return bool(scale_message(k, at.nodes, self._tables, self._scale))

    def _lower_message(self, split: Split) -> None:
        """Calibrate a large node and add it up to all its tables."""
        at, k, blocks = self.layout, split.node, split.down
        node = at.nodes[k]
        factor = renew_message(node, self._scale[k], self._tables, self._sums)

        def work(b: int) -> None:
            self._clear(blocks, b)
            maps = (at.maps, at.outer, at.inner, self._tables, self.belief, self._sums)
            lower_part(node, blocks.parts[b], blocks.into[b], factor, *maps)

        share_work(work, len(blocks.parts), self.threads)
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


@compile_kernel
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


@compile_kernel
def _less(logs: NDArray[np.float64], starts: NDArray[np.int64], peaks: NDArray[np.float64]) -> None:
    """Take each group's number off it."""
    for k in range(len(peaks)):
        for c in range(starts[k], starts[k + 1]):
            logs[c] -= peaks[k]


@compile_kernel
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
