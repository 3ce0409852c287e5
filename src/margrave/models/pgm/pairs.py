"""Pairs: the marginals of very many pairs at once, by passing conditionals along the tree as matrix products.

Seen from a node, everything beyond a separator T matters through p(A | T) alone. So the rows p(T, a) of
the attributes a beyond T lie side by side, and one product with p(S, T) / p(T) takes them all to the next
separator S. Pairs that share a clique are summed up there; the others meet once, in the topmost clique of the
one that a walk through the tree reaches later, and only what is still to meet somewhere is carried on.
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
"""Attributes and their tables p(S, a) side by side, shape [cells of S, codes of all of them]."""

STACKED = 1 << 24
"""Most cells of one stack of rows (128 MiB); more attributes are taken in several walks."""


def pair_marginals(layout: Layout, belief: Floats, pairs: Iterable[Pair]) -> dict[Pair, Floats]:
    """Probabilities of pairs of attributes (ascending), each of shape [codes, codes].

    Costs about one pass over the tree's cells for each attribute of a clique and one matrix product for each
    two separators of a clique, whatever the number of pairs.
    """
    walk = _Walk(layout, belief, set(pairs))
    widest = max((layout.cells(s) for s in layout.tree.separators), default=1)
    most = max(STACKED // widest, 1)
    batch: list[int] = []
    for v in sorted({v for pair in walk.far for v in pair}):
        if batch and sum(layout.sizes[u] for u in batch) + layout.sizes[v] > most:
            walk.run(set(batch))
            batch = []
        batch.append(v)
    if batch:
        walk.run(set(batch))
    return walk.found


class _Walk:
    """The state of the walks: the tables every node will be asked for, and the pairs found.

    `top` is each attribute's topmost clique, `turn` when a walk reaches each clique and `last` when it
    reaches the last one below it; `partners` are those an attribute shares no clique with but is to meet.
    """

    def __init__(self, layout: Layout, belief: Floats, wanted: set[Pair]) -> None:
        self.layout = layout
        cliques, parents = layout.tree.cliques, layout.tree.parents
        self.roots = [k for k, parent in enumerate(parents) if parent < 0]
        self.children: list[list[int]] = [[] for _ in cliques]
        for k, parent in enumerate(parents):
            if parent >= 0:
                self.children[parent].append(k)
        self._number()
        homes = {pair: layout.home(pair) for pair in wanted}
        self.far = {pair for pair, home in homes.items() if home < 0}
        self.partners: dict[int, set[int]] = {}
        for u, v in self.far:
            self.partners.setdefault(u, set()).add(v)
            self.partners.setdefault(v, set()).add(u)
        near: list[set[Clique]] = [set() for _ in cliques]
        for pair, home in homes.items():
            if home >= 0:
                near[home].add(pair)
        self.joints = [self._joints(k, belief, near[k]) for k in range(len(cliques))]
        self.found: dict[Pair, Floats] = {
            pair: self.joints[home][pair] for pair, home in homes.items() if home >= 0
        }
        self.up: dict[int, Rows] = {}
        self.rows: set[int] = set()

    def _number(self) -> None:
        """Fill `turn`, `last`, `top` and `below`: attributes whose topmost clique is a node or under it."""
        tree = self.layout.tree
        self.turn, self.last = [0] * len(tree.cliques), [0] * len(tree.cliques)
        count, stack = 0, list(reversed(self.roots))
        while stack:
            k = stack.pop()
            self.turn[k], count = count, count + 1
            stack += reversed(self.children[k])
        self.top = [-1] * len(self.layout.sizes)
        self.below: list[set[int]] = [set() for _ in tree.cliques]
        for k, (clique, separator) in enumerate(zip(tree.cliques, tree.separators, strict=True)):
            new = set(clique) - set(separator)
            for v in new:
                self.top[v] = k
            self.below[k] |= new
            self.last[k] = max([self.turn[k], *(self.last[c] for c in self.children[k])])
            if tree.parents[k] >= 0:
                self.below[tree.parents[k]] |= self.below[k]

    def run(self, rows: set[int]) -> None:
        """Find all far pairs of which the one reached first is one of some attributes."""
        self.rows = rows & self.partners.keys()
        tree = self.layout.tree
        for k in range(len(tree.cliques)):
            if tree.parents[k] >= 0:
                parts = [(tree.separators[c], self.up[c]) for c in self.children[k]]
                self.up[k] = self._carried(k, parts, tree.separators[k], self._leaving(k))
        before: list[int] = []
        for root in self.roots:
            stack: list[tuple[int, Rows]] = [(root, ((), np.zeros((1, 0))))]
            while stack:
                node, down = stack.pop()
                self._meet(node, down, before)
                stack += self._handed(node, down)
            before += sorted(self.below[root] & self.rows)
        self.up.clear()

    def _leaving(self, k: int) -> set[int]:
        """Attributes below a node that are to meet some that a walk reaches after all of them."""
        return {
            u
            for u in self.below[k] & self.rows
            if any(self.turn[self.top[v]] > self.last[k] for v in self.partners[u])
        }

    def _entering(self, k: int) -> set[int]:
        """Attributes reached before a node that are to meet some below it."""
        return {
            u
            for u in self.rows - self.below[k]
            if self.turn[self.top[u]] < self.turn[k] and self.partners[u] & self.below[k]
        }

    def _joints(self, k: int, belief: Floats, near: set[Clique]) -> dict[Clique, Floats]:
        """All small tables of a node: pairs found in it, pairs of its separators, each with one attribute."""
        layout, tree = self.layout, self.layout.tree
        clique, parent = tree.cliques[k], tree.separators[k]
        ends = {parent, *(tree.separators[c] for c in self.children[k])}
        far = [v for v in clique if v in self.partners]
        asked: set[Clique] = near | {(v,) for v in far}
        if self.far:
            asked |= {tuple(sorted({*s, *t})) for s in ends for t in ends}
            asked |= {tuple(sorted({*s, v})) for s in ends for v in far}
        table = belief[layout.node_starts[k] : layout.node_starts[k + 1]].reshape(layout.shape(clique))
        return sums(table, clique, asked)

    def _handed(self, k: int, down: Rows) -> list[tuple[int, Rows]]:
        """What each child is told: the rows of all that the walk reaches before it."""
        tree = self.layout.tree
        parts = [(tree.separators[k], down)]
        told = []
        for child in self.children[k]:
            told.append((child, self._carried(k, parts, tree.separators[child], self._entering(child))))
            parts.append((tree.separators[child], self.up[child]))
        return told

    def _carried(
        self, k: int, parts: Sequence[tuple[Clique, Rows]], target: Clique, needed: set[int]
    ) -> Rows:
        """Needed rows that reached a node over some separators, or are its own, as rows over another one."""
        names: list[int] = []
        tables = [np.zeros((self.layout.cells(target), 0))]
        for source, (held, table) in parts:
            kept = [v for v in held if v in needed]
            if kept:
                names += kept
                tables.append(self._moved(k, source, self._columns(held, table, kept), target))
        for v in self.layout.tree.cliques[k]:
            if v in needed and v not in target and v not in names:
                both = tuple(sorted((*target, v)))
                turned = np.moveaxis(self.joints[k][both], both.index(v), -1)
                names.append(v)
                tables.append(turned.reshape(-1, self.layout.sizes[v]))
        return tuple(names), np.concatenate(tables, axis=1)

    def _columns(self, held: Sequence[int], table: Floats, kept: Sequence[int]) -> Floats:
        """The columns of some of the attributes of a stack."""
        if len(kept) == len(held):
            return table
        mask = np.repeat([v in kept for v in held], [self.layout.sizes[v] for v in held])
        return np.asarray(table[:, mask])

    def _moved(self, k: int, source: Clique, stacked: Floats, target: Clique) -> Floats:
        """p(target, A) = sum over source of p(target, source) / p(source) p(source, A), both in one node."""
        if source == target:
            return stacked
        layout = self.layout
        kept = [v for v in source if v in target]
        gone = [v for v in source if v not in target]
        fresh = [v for v in target if v not in source]
        union = tuple(sorted({*source, *target}))
        axes = [union.index(v) for v in (*kept, *fresh, *gone)]
        joint = (
            self.joints[k][union]
            .transpose(axes)
            .reshape(layout.cells(kept), layout.cells(fresh), layout.cells(gone))
        )
        mass = joint.sum(axis=1, keepdims=True)
        given = np.divide(joint, mass, out=np.zeros(joint.shape), where=mass > 0)
        shaped = stacked.reshape(*layout.shape(source), -1)
        turned = shaped.transpose([source.index(v) for v in (*kept, *gone)] + [len(source)])
        product = given @ turned.reshape(layout.cells(kept), layout.cells(gone), -1)
        wide = product.reshape(*layout.shape(kept), *layout.shape(fresh), -1)
        order = [*kept, *fresh]
        back: Floats = wide.transpose([order.index(v) for v in target] + [len(order)])
        return back.reshape(layout.cells(target), -1)

    def _meet(self, k: int, down: Rows, before: Sequence[int]) -> None:
        """Find the far pairs of a node's new attributes with those that reached it and those before it."""
        clique, separator = self.layout.tree.cliques[k], self.layout.tree.separators[k]
        for v in clique:
            if v in separator or v not in self.partners:
                continue
            single = self.joints[k][(v,)]
            for u in before:
                if u in self.partners[v]:
                    self._keep(u, v, np.outer(self.joints[self.top[u]][(u,)], single))
            met = [u for u in down[0] if u in self.partners[v]]
            if met:
                joint = self._moved(k, separator, self._columns(down[0], down[1], met), (v,)).T
                start = 0
                for u in met:
                    self._keep(u, v, joint[start : start + self.layout.sizes[u]])
                    start += self.layout.sizes[u]

    def _keep(self, u: int, v: int, joint: Floats) -> None:
        self.found[min(u, v), max(u, v)] = joint if u < v else joint.T
