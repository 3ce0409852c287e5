"""Which attributes a model ties together, their elimination, and the junction tree that results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel
from margrave.schema.domain import Domain

RULES = 3
"""Greedy rules tried: fewest cells, fewest fill edges, smallest fill weighted by cells. The best is kept."""


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """A forest of maximal cliques with the running intersection property; children before parents.

    Args:
        order: Attributes in elimination order, shape [attributes].
        later: Neighbours of each attribute that were eliminated after it, in no order.
        cliques: Attributes of each clique, ascending.
        parents: Position of each clique's parent, always later in the list; -1 for roots.
        separators: What each clique shares with its parent, ascending; empty for roots.
        cells: Cells of all cliques together.
    """

    order: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]
    cliques: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    separators: tuple[tuple[int, ...], ...]
    cells: float


def rank_attributes(domain: Domain) -> tuple[str, ...]:
    """The attributes in the order the engine numbers them: small first, then as in the domain.

    Every table inside the engine has its axes in this order, so its last axis is its longest.
    """
    return tuple(sorted(domain.names, key=lambda name: (domain[name], domain.index(name))))


def adjacency(attributes: int, cliques: Iterable[Sequence[int]]) -> NDArray[np.uint8]:
    """The graph that ties the attributes of each clique, symmetric, shape [attributes, attributes]."""
    adjacent = np.zeros((attributes, attributes), dtype=np.uint8)
    ties = [(a, b) for clique in cliques for a in clique for b in clique]
    if ties:
        ends = np.array(ties)
        adjacent[ends[:, 0], ends[:, 1]] = 1
    np.fill_diagonal(adjacent, 0)
    return adjacent


def junction_tree(sizes: Sequence[int], cliques: Iterable[Sequence[int]]) -> JunctionTree:
    """The smallest of the greedy junction trees over attributes of these sizes; deterministic.

    Elimination and spanning tree as in Koller and Friedman, Probabilistic Graphical Models, 9.4.3 and 10.4.
    """
    adjacent = adjacency(len(sizes), cliques)
    best: tuple[float, NDArray[np.int64], NDArray[np.uint8]] | None = None
    numbers = np.asarray(sizes, dtype=np.float64)
    for rule in range(RULES):
        order = np.empty(len(sizes), dtype=np.int64)
        later = np.zeros_like(adjacent)
        cells = eliminate(adjacent.copy(), numbers, rule, order, later)
        if best is None or cells < best[0]:
            best = (cells, order, later)
    if best is None or not len(sizes):
        return JunctionTree((), (), (), (), (), 0.0)
    neighbours = tuple(tuple(int(v) for v in np.flatnonzero(row)) for row in best[2])
    order_ = tuple(int(v) for v in best[1])
    maximal = _maximal(order_, neighbours)
    weights = [float(np.prod(numbers[list(clique)])) for clique in maximal]
    return JunctionTree(order_, neighbours, *_span(maximal, weights), best[0])


def _maximal(order: Sequence[int], later: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Cliques of the triangulated graph that lie in no other; see Blair and Peyton 1993, lemma 4.1."""
    position = {v: i for i, v in enumerate(order)}
    absorbed = set()
    for v in order:
        if later[v]:
            parent = min(later[v], key=position.__getitem__)
            if len(later[v]) == len(later[parent]) + 1:
                absorbed.add(parent)
    return [tuple(sorted((v, *later[v]))) for v in order if v not in absorbed]


def _span(
    cliques: Sequence[tuple[int, ...]], weights: Sequence[float]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Prim's maximum spanning forest by separator length, grown from the largest cliques."""
    sets = [frozenset(clique) for clique in cliques]
    link = [(0, -1)] * len(cliques)
    left = set(range(len(cliques)))
    grown: list[tuple[int, int]] = []
    while left:
        chosen = max(left, key=lambda k: (link[k][0], weights[k], -k))
        left.discard(chosen)
        grown.append((chosen, link[chosen][1]))
        for k in left:
            shared = len(sets[k] & sets[chosen])
            if shared > link[k][0]:
                link[k] = (shared, chosen)
    grown.reverse()
    place = {clique: i for i, (clique, _) in enumerate(grown)}
    parents = tuple(place[parent] if parent >= 0 else -1 for _, parent in grown)
    separators = tuple(tuple(sorted(sets[k] & sets[p])) if p >= 0 else () for k, p in grown)
    return tuple(cliques[k] for k, _ in grown), parents, separators


@compile_kernel
def eliminate(
    adjacent: NDArray[np.uint8],
    sizes: NDArray[np.float64],
    rule: int,
    order: NDArray[np.int64],
    later: NDArray[np.uint8],
) -> float:
    """Eliminate all attributes greedily; fill `order` and `later` and return the maximal cliques' cells.

    adjacent: destroyed. rule: 0 fewest cells, 1 fewest fill edges, 2 fill edges weighted by their cells;
    ties go to fewer cells, then to the lower attribute.
    """
    count = len(sizes)
    logs = np.log(sizes)
    # log of the cells of the clique that an attribute and its neighbours form.
    weight = logs + np.dot(adjacent.astype(np.float64), logs)
    cost = np.zeros(count)
    stale = np.ones(count, dtype=np.uint8)
    alive = np.ones(count, dtype=np.uint8)
    around = np.empty(count, dtype=np.int64)
    for step in range(count):
        best = -1
        for v in range(count):
            if not alive[v]:
                continue
            # The fill cost of an attribute changes only where an edge near it was added or removed.
            if rule > 0 and stale[v]:
                cost[v] = _fill(adjacent, sizes, v, rule, around)
                stale[v] = 0
            better = best < 0 or cost[v] < cost[best] - 1e-9
            if better or (cost[v] < cost[best] + 1e-9 and weight[v] < weight[best] - 1e-9):
                best = v
        order[step] = best
        alive[best] = 0
        _remove(adjacent, logs, best, around, weight, stale, later)
    return _cells(order, later, sizes)


@compile_kernel
def _fill(
    adjacent: NDArray[np.uint8], sizes: NDArray[np.float64], v: int, rule: int, around: NDArray[np.int64]
) -> float:
    degree = 0
    for u in range(len(sizes)):
        if adjacent[v, u]:
            around[degree] = u
            degree += 1
    cost = 0.0
    for i in range(degree):
        for j in range(i):
            if not adjacent[around[i], around[j]]:
                cost += 1.0 if rule == 1 else sizes[around[i]] * sizes[around[j]]
    return cost


@compile_kernel
def _remove(
    adjacent: NDArray[np.uint8],
    logs: NDArray[np.float64],
    v: int,
    around: NDArray[np.int64],
    weight: NDArray[np.float64],
    stale: NDArray[np.uint8],
    later: NDArray[np.uint8],
) -> None:
    degree = 0
    # The neighbours are eliminated later; each loses this attribute from its clique.
    for u in range(len(logs)):
        if adjacent[v, u]:
            around[degree] = u
            degree += 1
            later[v, u] = 1
            stale[u] = 1
            adjacent[u, v] = 0
            weight[u] -= logs[v]
    for i in range(degree):
        a = around[i]
        for j in range(i):
            b = around[j]
            # A fill edge: neighbours of an eliminated attribute become neighbours of each other.
            if not adjacent[a, b]:
                adjacent[a, b] = 1
                adjacent[b, a] = 1
                weight[a] += logs[b]
                weight[b] += logs[a]
                # Whoever knows both ends has one missing edge less.
                for u in range(len(logs)):
                    if adjacent[a, u] and adjacent[b, u]:
                        stale[u] = 1


@compile_kernel
def _cells(order: NDArray[np.int64], later: NDArray[np.uint8], sizes: NDArray[np.float64]) -> float:
    count = len(sizes)
    degree = np.zeros(count, dtype=np.int64)
    absorbed = np.zeros(count, dtype=np.uint8)
    # An attribute's clique is itself and its later neighbours. The clique of its first later neighbour lies
    # inside it if it has just one neighbour less, and is then no maximal one.
    for i in range(count - 1, -1, -1):
        v = order[i]
        parent = -1
        for j in range(i + 1, count):
            if later[v, order[j]]:
                degree[v] += 1
                if parent < 0:
                    parent = order[j]
        if parent >= 0 and degree[v] == degree[parent] + 1:
            absorbed[parent] = 1
    # What is not absorbed is maximal: its cells count.
    total = 0.0
    for v in range(count):
        if not absorbed[v]:
            cells = sizes[v]
            for u in range(count):
                if later[v, u]:
                    cells *= sizes[u]
            total += cells
    return total
