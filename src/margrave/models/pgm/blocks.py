"""Blocks: how the rows of a large node are dealt out, so that threads may work on it at the same time.

Blocks are the ranges of one axis of a node, or of a few axes in a row taken as one. Every block adds to other
cells of a table that has these axes. Of any other table every block has a copy of its own, and the copies are
added up in the order of the blocks; the axes are chosen so that such tables are small.
Blocks depend on the layout alone, so results are the same to the last bit whatever the number of threads.
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

import numpy as np
from numpy.typing import NDArray

from margrave.models.pgm.kernels import CELLS, LENGTH, OWN, PARENT, ROWS, SEPARATOR, WIDTH
from margrave.models.pgm.tree import Layout

__all__ = ["LARGE", "Blocks", "Split", "cores", "shared", "splits"]

Longs = NDArray[np.int64]

LARGE = 200_000
"""Cells of a node from which it is dealt out: handing over a block costs about as much as 3,000 cells."""

ALONE = 100_000
"""Least cells of a block."""

RUN = 1 << 13
"""Least cells of a block that lie together, so that it is worked on in full strides."""

BLOCKS = (2, 4, 8, 16)
"""Into how many blocks a node is dealt out: even shares for most numbers of cores."""

COPIED = 4
"""Copies of a node's tables have at most 1 / COPIED of its cells together."""


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
    cells, width, rows = (int(layout.nodes[k, column]) for column in (CELLS, WIDTH, ROWS))
    shape = _axes(layout, k)
    lacks = _lacking(layout, tables, shape)
    best = (float(cells), 1, 1, rows, 1, [False] * len(lengths))
    for i in range(len(shape)):
        for j in range(i + 1, len(shape) + 1):
            times, codes = math.prod(shape[:i]), math.prod(shape[i:j])
            apart = rows // (times * codes)
            copied = [bool(lack.any()) for lack in lacks[:, i:j]]
            room = sum(n for n, copy in zip(lengths, copied, strict=True) if copy)
            most = min(codes, cells // ALONE, codes * apart * width // RUN)
            most = min(most, cells // (COPIED * room)) if room else most
            for blocks in (n for n in BLOCKS if n <= most):
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


def _lacking(layout: Layout, tables: Longs, shape: Sequence[int]) -> NDArray[np.bool_]:
    """Which axes which table does not have: rows that differ there go to the same cells, [tables, axes]."""
    apart = [math.prod(shape[i + 1 :]) if shape[i] > 1 else 0 for i in range(len(shape))]
    starts, step = layout.maps[tables[:, 0], 3], np.asarray(apart, dtype=np.int64)
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
    into[:, lacking, 1] += room * np.arange(blocks)[:, None]
    return Blocks(parts, into, np.asarray(copied, dtype=np.int64).reshape(-1, 2), first, room)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads that wait for work, beside the one that asks for it."""
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="margrave")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; the child makes its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def shared(work: Callable[[int], None], count: int, threads: int) -> None:
    """Do work(0) to work(count - 1), by this thread and the pool's; returns when all is done."""
    left = deque(range(count))

    def some() -> None:
        while left:
            try:
                turn = left.popleft()
            except IndexError:
                return
            work(turn)

    helpers = [_pool().submit(some) for _ in range(min(threads, count) - 1)]
    some()
    for helper in helpers:
        if not helper.cancel():
            helper.result()
