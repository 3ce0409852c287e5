"""Triangulation: a chordal graph of attributes, grown edge by edge for what its edges are worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["chordal_cliques", "grown"]

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def grown(
    worth: Floats, sizes: Sequence[int], price: float, max_cells: float, max_clique_cells: float
) -> Bytes:
    """The chordal graph of greedily largest  worth of its edges - price * cells of its maximal cliques.

    Starts with no edge. A step tries every absent edge with the edges that triangulation adds to it, and
    takes the best if that raises the score and no limit is passed; ends when none does.

    Args:
        worth: What each edge is worth, symmetric, shape [attributes, attributes].
        sizes: Codes of each attribute.
        price: Of a cell.
        max_cells: Cells of all maximal cliques together.
        max_clique_cells: Cells of each maximal clique.

    Returns:
        The adjacency, shape [attributes, attributes].
    """
    numbers = np.asarray(sizes, dtype=np.float64)
    graph = np.zeros(worth.shape, dtype=np.uint8)
    score = -price * float(numbers.sum())
    while True:
        found, a, b = _best(graph, worth, numbers, price, max_cells, max_clique_cells)
        if a < 0 or not found > score:
            return graph
        score = found
        graph[a, b] = graph[b, a] = 1
        _triangulate(graph, numbers)


def chordal_cliques(graph: Bytes, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The maximal cliques of a chordal graph, each ascending, in ascending order."""
    filled, numbers = graph.copy(), np.asarray(sizes, dtype=np.float64)
    order = _triangulate(filled, numbers)[0]
    place = {int(v): i for i, v in enumerate(order)}
    cliques = [{v, *(int(u) for u in np.flatnonzero(filled[v]) if place[int(u)] > place[v])} for v in place]
    maximal = [c for c in cliques if not any(c < other for other in cliques)]
    return sorted(tuple(sorted(c)) for c in maximal)


@njit(cache=True, nogil=True)
def _best(graph, worth, sizes, price, max_cells, max_clique_cells):  # type: ignore[no-untyped-def]
    """The best score of the graph with one more edge, and the edge; -1 where none is allowed."""
    count = len(sizes)
    best, first, second = -np.inf, -1, -1
    for a in range(count):
        for b in range(a + 1, count):
            if graph[a, b] or sizes[a] * sizes[b] > max_clique_cells:
                continue
            trial = graph.copy()
            trial[a, b] = 1
            trial[b, a] = 1
            _, cells, largest = _triangulate(trial, sizes)
            if cells > max_cells or largest > max_clique_cells:
                continue
            score = -price * cells
            for u in range(count):
                for v in range(u):
                    if trial[u, v]:
                        score += worth[u, v]
            if score > best:
                best, first, second = score, a, b
    return best, first, second


@njit(cache=True, nogil=True)
def _triangulate(graph, sizes):  # type: ignore[no-untyped-def]
    """Add the edges that eliminating the attribute of fewest new cells, one after another, asks for.

    Returns the order, the cells of all maximal cliques together and of the largest. A chordal graph has an
    attribute whose neighbours are all tied, so that those are eliminated first and nothing is added to it.
    """
    count = len(sizes)
    alive = np.ones(count, dtype=np.uint8)
    order = np.empty(count, dtype=np.int64)
    cells, largest = 0.0, 0.0
    gone = np.zeros((count, count), dtype=np.uint8)
    for step in range(count):
        best, fewest, least = -1, 1 << 60, np.inf
        for v in range(count):
            if alive[v]:
                missing, weight = _missing(graph, alive, sizes, v)
                if missing < fewest or (missing == fewest and weight < least):
                    best, fewest, least = v, missing, weight
        order[step] = best
        alive[best] = 0
        _tie(graph, alive, gone, best)
        if not _within(gone, order, step):
            cells += least
            largest = max(largest, least)
    return order, cells, largest


@njit(cache=True, nogil=True)
def _missing(graph, alive, sizes, v):  # type: ignore[no-untyped-def]
    """Edges that eliminating an attribute would add, and the cells of its clique."""
    missing, weight = 0, sizes[v]
    for u in range(len(sizes)):
        if alive[u] and graph[v, u]:
            weight *= sizes[u]
            for w in range(u):
                if alive[w] and graph[v, w] and not graph[u, w]:
                    missing += 1
    return missing, weight


@njit(cache=True, nogil=True)
def _tie(graph, alive, gone, v):  # type: ignore[no-untyped-def]
    """Tie all living neighbours of an attribute to one another and note its clique."""
    gone[v, v] = 1
    for u in range(len(alive)):
        if alive[u] and graph[v, u]:
            gone[v, u] = 1
            for w in range(u):
                if alive[w] and graph[v, w]:
                    graph[u, w] = 1
                    graph[w, u] = 1


@njit(cache=True, nogil=True)
def _within(gone, order, step):  # type: ignore[no-untyped-def]
    """Whether the clique of the last eliminated attribute lies in that of an earlier one."""
    last = order[step]
    for i in range(step):
        inside = True
        for u in range(gone.shape[0]):
            if gone[last, u] and not gone[order[i], u]:
                inside = False
                break
        if inside:
            return True
    return False
