"""Sizes: cells of the junction tree a model would need, for many one-clique additions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.pgm.graph import RULES, adjacency, eliminate, ranked
from margrave.schema.domain import Clique, Domain

__all__ = ["candidate_cells", "tree_cells"]


def tree_cells(domain: Domain, cliques: Sequence[Clique]) -> float:
    """Cells of the junction tree of a clique list, attributes in no clique included.

    Example:
        >>> d = Domain(("a", "b", "c"), (2, 3, 4))
        >>> tree_cells(d, [("a", "b"), ("b", "c")]), tree_cells(d, [("a", "b"), ("b", "c"), ("a", "c")])
        (18.0, 24.0)
    """
    return float(candidate_cells(domain, cliques, [()])[0])


def candidate_cells(
    domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]
) -> NDArray[np.float64]:
    """Cells of the junction tree of `cliques` plus each one candidate, shape [candidates].

    Equals what a fit to those cliques builds: the same greedy rules, the smallest result.

    Raises:
        SchemaError: A clique names an attribute the domain does not have.
    """
    names = ranked(domain)
    place = {name: i for i, name in enumerate(names)}
    base = adjacency(len(domain), [_places(domain, place, clique) for clique in set(cliques)])
    width = max((len(clique) for clique in candidates), default=0)
    table = np.full((len(candidates), max(width, 1)), -1, dtype=np.int64)
    for row, clique in zip(table, candidates, strict=True):
        row[: len(clique)] = _places(domain, place, clique)
    return np.asarray(_evaluate(base, np.asarray(domain.shape(names), dtype=np.float64), table))


def _places(domain: Domain, place: Mapping[str, int], clique: Clique) -> list[int]:
    return [place[name] if name in place else domain.index(name) for name in clique]


@compiled
def _evaluate(
    base: NDArray[np.uint8], sizes: NDArray[np.float64], table: NDArray[np.int64]
) -> NDArray[np.float64]:
    count = len(sizes)
    order = np.empty(count, dtype=np.int64)
    later = np.empty((count, count), dtype=np.uint8)
    cells = np.empty(len(table))
    plain = -1.0
    for k in range(len(table)):
        graph = base.copy()
        fresh = False
        for i in range(table.shape[1]):
            for j in range(i):
                a, b = table[k, i], table[k, j]
                if a >= 0 and b >= 0 and a != b and not graph[a, b]:
                    graph[a, b] = 1
                    graph[b, a] = 1
                    fresh = True
        if not fresh and plain >= 0.0:
            cells[k] = plain
            continue
        best = np.inf
        for rule in range(RULES):
            later[:] = 0
            best = min(best, eliminate(graph.copy(), sizes, rule, order, later))
        cells[k] = best
        if not fresh:
            plain = best
    return cells
