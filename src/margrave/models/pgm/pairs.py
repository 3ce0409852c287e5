"""Pairs: the marginals of very many pairs at once, by passing conditionals along the tree as matrix products.

Seen from a node, everything beyond a separator T matters through p(A | T) alone. So the rows p(a, T) of
all attributes a beyond T are stacked, and one product with p(T, S) / p(T) takes them all to the next
separator S. Each attribute meets each other once, in the topmost clique of the one that a walk through
the tree reaches later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.pgm.project import sums
from margrave.models.pgm.tree import Layout

__all__ = ["pair_marginals"]

Floats = NDArray[np.float64]
Clique = tuple[int, ...]
Pair = tuple[int, int]
Rows = tuple[tuple[int, ...], Floats]
"""Attributes and their stacked tables p(a, S), shape [codes of all of them, cells of S]."""

STACKED = 1 << 24
"""Most cells of one stack of rows (128 MiB); more attributes are taken in several walks."""


def pair_marginals(layout: Layout, belief: Floats, pairs: Iterable[Pair]) -> dict[Pair, Floats]:
    """Probabilities of pairs of attributes (ascending), each of shape [codes, codes].

    Costs one pass over the tree's cells for each attribute of a clique and one matrix product for each
    two separators of a clique, whatever the number of pairs.
    """
    wanted = set(pairs)
    walk = _Walk(layout, belief, wanted)
    widest = max((layout.cells(s) for s in layout.tree.separators), default=1)
    most = max(STACKED // widest, 1)
    batch: list[int] = []
    for v in sorted({v for pair in wanted for v in pair}):
        if batch and sum(layout.sizes[u] for u in batch) + layout.sizes[v] > most:
            walk.run(set(batch))
            batch = []
        batch.append(v)
    walk.run(set(batch))
    return walk.found


class _Walk:
    """The state of the walks: the joints every node will be asked for, and the pairs found."""

    def __init__(self, layout: Layout, belief: Floats, wanted: set[Pair]) -> None:
        self.layout, self.wanted = layout, wanted
        self.found: dict[Pair, Floats] = {}
        self.roots: list[int] = []
        self.children: list[list[int]] = [[] for _ in layout.tree.cliques]
        for k, parent in enumerate(layout.tree.parents):
            (self.children[parent] if parent >= 0 else self.roots).append(k)
        self.joints = [self._joints(k, belief) for k in range(len(layout.tree.cliques))]
        self.up: dict[int, Rows] = {}
        self.rows: set[int] = set()

    def run(self, rows: set[int]) -> None:
        """Find all wanted pairs whose earlier attribute is one of some attributes."""
        self.rows = rows
        tree = self.layout.tree
        for k in range(len(tree.cliques)):
            if tree.parents[k] >= 0:
                parts = [(tree.separators[c], self.up[c]) for c in self.children[k]]
                self.up[k] = self._carried(k, parts, tree.separators[k])
        before: list[tuple[int, Floats]] = []
        for root in self.roots:
            stack: list[tuple[int, Rows]] = [(root, ((), np.zeros((0, 1))))]
            while stack:
                node, down = stack.pop()
                self._meet(node, down, before)
                stack += self._handed(node, down)
            before += [(v, self._single(k, v)) for k, v in self._members(root) if v in rows]
        self.up.clear()

    def _joints(self, k: int, belief: Floats) -> dict[Clique, Floats]:
        """All small tables of a node: its separators, pairs of them, and each with one attribute."""
        layout, tree = self.layout, self.layout.tree
        clique, parent = tree.cliques[k], tree.separators[k]
        ends = {parent, *(tree.separators[c] for c in self.children[k])}
        new = [v for v in clique if v not in parent]
        asked: set[Clique] = {(v,) for v in clique}
        asked |= {tuple(sorted({*s, *t})) for s in ends for t in ends}
        asked |= {tuple(sorted({*s, v})) for s in ends for v in clique}
        asked |= {tuple(sorted((u, v))) for u in clique for v in new if u != v}
        table = belief[layout.node_starts[k] : layout.node_starts[k + 1]].reshape(layout.shape(clique))
        return sums(table, clique, asked)

    def _members(self, root: int) -> list[tuple[int, int]]:
        """The attributes of a component, each with its topmost clique."""
        tree = self.layout.tree
        found, nodes = [], [root]
        while nodes:
            k = nodes.pop()
            found += [(k, v) for v in tree.cliques[k] if v not in tree.separators[k]]
            nodes += self.children[k]
        return found

    def _single(self, k: int, v: int) -> Floats:
        return self.joints[k][(v,)]

    def _handed(self, k: int, down: Rows) -> list[tuple[int, Rows]]:
        """What each child is told: the rows of all that the walk reaches before it."""
        tree = self.layout.tree
        parts = [(tree.separators[k], down)]
        told = []
        for child in self.children[k]:
            told.append((child, self._carried(k, parts, tree.separators[child])))
            parts.append((tree.separators[child], self.up[child]))
        return told

    def _carried(self, k: int, parts: Sequence[tuple[Clique, Rows]], target: Clique) -> Rows:
        """Rows that reached a node over some separators, and its own attributes, as rows over another one."""
        names: list[int] = []
        tables = [np.zeros((0, self.layout.cells(target)))]
        grouped: dict[Clique, list[Rows]] = {}
        for source, rows in parts:
            grouped.setdefault(source, []).append(rows)
        for source, several in grouped.items():
            attributes = [v for rows in several for v in rows[0]]
            if attributes:
                stacked = np.concatenate([rows[1] for rows in several])
                names += attributes
                tables.append(self._moved(k, source, stacked, target))
        for v in self.layout.tree.cliques[k]:
            if v in self.rows and v not in target and v not in names:
                both = tuple(sorted((*target, v)))
                turned = np.moveaxis(self.joints[k][both], both.index(v), 0)
                names.append(v)
                tables.append(turned.reshape(self.layout.sizes[v], -1))
        return tuple(names), np.concatenate(tables)

    def _moved(self, k: int, source: Clique, stacked: Floats, target: Clique) -> Floats:
        """p(A, target) = sum over source of p(A, source) p(source, target) / p(source), both in one node."""
        if source == target:
            return stacked
        layout = self.layout
        kept = [v for v in source if v in target]
        gone = [v for v in source if v not in target]
        fresh = [v for v in target if v not in source]
        mass = self.joints[k][source].ravel()
        given = np.divide(stacked, mass, out=np.zeros_like(stacked), where=mass > 0)
        shaped = given.reshape(len(stacked), *layout.shape(source))
        left = shaped.transpose(
            [1 + source.index(v) for v in kept] + [0] + [1 + source.index(v) for v in gone]
        )
        left = left.reshape(layout.cells(kept), len(stacked), layout.cells(gone))
        union = tuple(sorted({*source, *target}))
        right = self.joints[k][union].transpose([union.index(v) for v in (*kept, *gone, *fresh)])
        product = left @ right.reshape(layout.cells(kept), layout.cells(gone), layout.cells(fresh))
        wide = product.reshape(*layout.shape(kept), len(stacked), *layout.shape(fresh))
        order = [*kept, -1, *fresh]
        turned: Floats = wide.transpose([order.index(v) for v in (-1, *target)]).reshape(len(stacked), -1)
        return turned

    def _meet(self, k: int, down: Rows, before: Sequence[tuple[int, Floats]]) -> None:
        """Find the wanted pairs of a node's new attributes with those inside it and those before it."""
        clique, separator = self.layout.tree.cliques[k], self.layout.tree.separators[k]
        new = [v for v in clique if v not in separator]
        for v in new:
            for u in clique:
                pair = (min(u, v), max(u, v))
                if pair in self.wanted and pair not in self.found and u != v:
                    self.found[pair] = self.joints[k][pair]
            for u, single in before:
                self._keep(u, v, np.outer(single, self._single(k, v)))
        if not down[0]:
            return
        for v in new:
            if not any((min(u, v), max(u, v)) in self.wanted for u in down[0]):
                continue
            joint = self._moved(k, separator, down[1], (v,))
            start = 0
            for u in down[0]:
                self._keep(u, v, joint[start : start + self.layout.sizes[u]])
                start += self.layout.sizes[u]

    def _keep(self, u: int, v: int, joint: Floats) -> None:
        pair = (min(u, v), max(u, v))
        if pair in self.wanted:
            self.found[pair] = joint if u < v else joint.T
