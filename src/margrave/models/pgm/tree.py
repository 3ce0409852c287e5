"""The junction tree: what a model ties together, in which order it is eliminated, and what lives on it.

`JunctionTree` is the tree that an elimination results in. `Layout` is the tree with the measured tables on
it, as flat arrays and index maps. `tree_cells` and what follows count the cells that the junction tree of a
model would need, for many one-clique additions at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models._base.compiled import compile_kernel
from margrave.schema.domain import Clique, Domain

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
    # No greedy rule is best everywhere and each takes milliseconds, so all are tried.
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
        # The largest of the cliques equally tied comes first, and then the first by number, so that the
        # tree is the same each time.
        chosen = max(left, key=lambda k: (link[k][0], weights[k], -k))
        left.discard(chosen)
        grown.append((chosen, link[chosen][1]))
        for k in left:
            shared = len(sets[k] & sets[chosen])
            if shared > link[k][0]:
                link[k] = (shared, chosen)
    # Grown from the roots outwards, and read from the leaves inwards: children stand before their parents.
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


ROW = 8
"""Trailing axes are taken into a row until it has this many cells, so that short axes still fill vectors."""

FOLD_DIVISOR = 8
"""Measured tables of a node are joined to one while it has at most 1 / FOLD_DIVISOR of the node's cells."""


@dataclass(slots=True)
class IndexMaps:
    """Index maps under construction; see `kernels` for their meaning.

    Args:
        sizes: Codes of each attribute, shape [attributes].
    """

    sizes: Sequence[int]
    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    _outer: list[NDArray[np.int32]] = field(default_factory=list)
    _inner: list[NDArray[np.int32]] = field(default_factory=list)
    _ends: tuple[int, int] = (0, 0)
    _known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = field(default_factory=dict)

    def add(self, source: tuple[int, ...], target: tuple[int, ...]) -> int:
        """The number of the map from a source's cells to a target's; both ascending, target within source."""
        known = self._known.get((source, target))
        if known is not None:
            return known
        shape = [self.sizes[v] for v in source]
        strides = self._strides(source, target)
        split, width = self.split(source)
        outer = _offsets(shape[:split], strides[:split])
        inner = _offsets(shape[split:], strides[split:])
        # The two plain kinds of a row need no map of its cells in the kernels.
        kind = 0 if not inner.any() else 1 if np.array_equal(inner, np.arange(width)) else 2
        self.rows.append((len(outer), width, kind, *self._ends))
        self._outer.append(outer)
        self._inner.append(inner)
        self._ends = (self._ends[0] + len(outer), self._ends[1] + width)
        self._known[source, target] = len(self.rows) - 1
        return len(self.rows) - 1

    def split(self, source: tuple[int, ...]) -> tuple[int, int]:
        """How many leading axes of a table make its rows, and the cells of a row."""
        split, width = len(source), 1
        while split and width < ROW:
            split -= 1
            width *= self.sizes[source[split]]
        return split, width

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """The maps, shape [maps, 5], and the outer and inner offsets of all of them."""
        none = np.zeros(0, dtype=np.int32)
        maps = np.asarray(self.rows, dtype=np.int64).reshape(-1, 5)
        return maps, np.concatenate([none, *self._outer]), np.concatenate([none, *self._inner])

    def _strides(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        stride, strides = 1, {}
        for v in reversed(target):
            strides[v] = stride
            stride *= self.sizes[v]
        return [strides.get(v, 0) for v in source]


def _offsets(shape: Sequence[int], strides: Sequence[int]) -> NDArray[np.int32]:
    """The target cell of every source cell in row-major order, shape [product of shape]."""
    offsets = np.zeros(1, dtype=np.int32)
    for size, stride in zip(shape, strides, strict=True):
        step = np.arange(size, dtype=np.int32) * np.int32(stride)
        offsets = (offsets[:, None] + step).ravel()
    return offsets


def starts(lengths: Sequence[int]) -> list[int]:
    """Where each of several tables begins when they lie one after another, and the end of the last."""
    return [0, *np.cumsum(np.asarray(lengths, dtype=np.int64)).tolist()]


def too_large(cells: float, max_cells: int) -> InputError:
    """The error of a junction tree beyond the limit."""
    return InputError(
        invalid(
            "max_cells",
            f"at least {cells:.4g} for these cliques",
            "Measure fewer or smaller cliques, or raise max_cells if memory allows.",
            got=max_cells,
        )
    )


class Layout:
    """Where everything lies: nodes (tree cliques), groups (largest measured cliques) and measured tables.

    A measured table that lies in a larger measured one is folded into it, so that only the largest are
    spread over the tree's cells.

    Args:
        sizes: Codes of each attribute, ascending, shape [attributes].
        measured: Cliques with potentials, each ascending.
        max_cells: Most cells all tree cliques together may have.
        tree: The junction tree to use; the greedy one by default.

    Raises:
        InputError: The tree would be larger than max_cells.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        measured: Sequence[tuple[int, ...]],
        max_cells: int,
        tree: JunctionTree | None = None,
    ) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.measured = tuple(measured)
        self.tree = junction_tree(self.sizes, self.measured) if tree is None else tree
        if self.tree.cells > max_cells:
            raise too_large(self.tree.cells, max_cells)
        maps = IndexMaps(self.sizes)
        self._place_groups(maps)
        self._place_nodes(maps)
        self._link()
        self.maps, self.outer, self.inner = maps.arrays()

    def cells(self, clique: Sequence[int]) -> int:
        """Cells of a clique's table."""
        return int(np.prod([self.sizes[v] for v in clique], dtype=np.int64))

    def shape(self, clique: Sequence[int]) -> tuple[int, ...]:
        """Shape of a clique's table."""
        return tuple(self.sizes[v] for v in clique)

    def _place_nodes(self, maps: IndexMaps) -> None:
        tree = self.tree
        self.node_starts = starts([self.cells(clique) for clique in tree.cliques])
        self.separator_starts = starts(
            [self.cells(s) if p >= 0 else 0 for s, p in zip(tree.separators, tree.parents, strict=True)]
        )
        # Every number that kernels need of a node stands in one row, so that they take arrays alone and are
        # compiled once for all trees.
        rows = []
        for k, (clique, parent, separator) in enumerate(
            zip(tree.cliques, tree.parents, tree.separators, strict=True)
        ):
            own = maps.add(clique, separator) if parent >= 0 else -1
            theirs = maps.add(tree.cliques[parent], separator) if parent >= 0 else -1
            begin, length = self.separator_starts[k], self.separator_starts[k + 1] - self.separator_starts[k]
            cells, width = self.cells(clique), maps.split(clique)[1]
            at = (self.node_starts[k], cells, parent, self.group_starts[-1] + begin, length)
            rows.append((*at, own, theirs, cells // width, width))
        self.nodes = np.asarray(rows, dtype=np.int64).reshape(-1, 9)

    def _link(self) -> None:
        """What is spread over each node: rows (map, start) of its groups and its children's separators."""
        near: list[list[tuple[int, int]]] = [[] for _ in self.tree.cliques]
        for home, at, start in self.groups.tolist():
            near[home].append((at, start))
        for _, _, parent, start, _, _, theirs, _, _ in self.nodes.tolist():
            if parent >= 0:
                near[parent].append((theirs, start))
        self.first = np.asarray(starts([len(rows) for rows in near]), dtype=np.int64)
        self.links = np.asarray([row for rows in near for row in rows], dtype=np.int64).reshape(-1, 2)

    def _place_groups(self, maps: IndexMaps) -> None:
        hosts = self._hosts()
        homes = {clique: self.home(clique) for clique in hosts}
        groups = sorted(hosts, key=lambda clique: (homes[clique], clique))
        self.hosts = tuple(groups)
        self.group_starts = starts([self.cells(clique) for clique in groups])
        self.groups = np.asarray(
            [
                (homes[clique], maps.add(self.tree.cliques[homes[clique]], clique), self.group_starts[i])
                for i, clique in enumerate(groups)
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        self.starts = starts([self.cells(clique) for clique in self.measured])
        members = []
        for k, clique in enumerate(self.measured):
            around = [i for i, group in enumerate(groups) if set(clique) <= set(group)]
            host = min(around, key=lambda i: (self.cells(groups[i]), i))
            members.append((self.group_starts[host], maps.add(groups[host], clique), self.starts[k]))
        self.members = np.asarray(members, dtype=np.int64).reshape(-1, 3)

    def _hosts(self) -> list[tuple[int, ...]]:
        """The tables that are spread over the tree: the largest measured cliques, small ones joined.

        Cliques of one node are joined two by two, those of the smallest union first, while the union has at
        most 1 / FOLD_DIVISOR of the node's cells: what it costs to fill is small beside a pass over the node.
        """
        sets = {frozenset(clique) for clique in self.measured}
        by_node: dict[int, list[tuple[int, ...]]] = {}
        for found in sorted(tuple(sorted(s)) for s in sets if not any(s < other for other in sets)):
            by_node.setdefault(self.home(found), []).append(found)
        hosts: list[tuple[int, ...]] = []
        for node, cliques in by_node.items():
            most = self.cells(self.tree.cliques[node]) // FOLD_DIVISOR
            while len(cliques) > 1:
                unions = [
                    (self.cells(union), union, i, j)
                    for j in range(len(cliques))
                    for i in range(j)
                    for union in [tuple(sorted({*cliques[i], *cliques[j]}))]
                ]
                cells, union, _, _ = min(unions)
                if cells > most:
                    break
                cliques = [c for c in cliques if not set(c) <= set(union)] + [union]
            hosts += cliques
        return hosts

    def home(self, clique: Sequence[int]) -> int:
        """The smallest tree clique that holds all of some attributes; -1 when none does."""
        wanted = set(clique)
        hosts = [k for k, host in enumerate(self.tree.cliques) if wanted.issubset(host)]
        return min(hosts, key=lambda k: (self.cells(self.tree.cliques[k]), k), default=-1)


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
    names = rank_attributes(domain)
    place = {name: i for i, name in enumerate(names)}
    base = adjacency(len(domain), [_places(domain, place, clique) for clique in set(cliques)])
    width = max((len(clique) for clique in candidates), default=0)
    table = np.full((len(candidates), max(width, 1)), -1, dtype=np.int64)
    for row, clique in zip(table, candidates, strict=True):
        row[: len(clique)] = _places(domain, place, clique)
    return np.asarray(_evaluate(base, np.asarray(domain.shape(names), dtype=np.float64), table))


def _places(domain: Domain, place: Mapping[str, int], clique: Clique) -> list[int]:
    return [place[name] if name in place else domain.index(name) for name in clique]


@compile_kernel
def _evaluate(
    base: NDArray[np.uint8], sizes: NDArray[np.float64], table: NDArray[np.int64]
) -> NDArray[np.float64]:
    count = len(sizes)
    order = np.empty(count, dtype=np.int64)
    later = np.empty((count, count), dtype=np.uint8)
    cells = np.empty(len(table))
    # Candidates whose edges are all there already share one result.
    plain = -1.0
    for k in range(len(table)):
        graph = base.copy()
        fresh = False
        # The candidate's attributes become neighbours of each other.
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
        # The smallest tree over the greedy rules, as a fit would take.
        best = np.inf
        for rule in range(RULES):
            later[:] = 0
            best = min(best, eliminate(graph.copy(), sizes, rule, order, later))
        cells[k] = best
        if not fresh:
            plain = best
    return cells
