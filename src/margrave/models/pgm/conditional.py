"""Conditional: rows of a calibrated junction tree that are each given codes of their own.

The tree stands for the directed model prod p(v | parents of v), the parents being the neighbours that are
eliminated after v. Given codes are carried up by variable elimination: a message for every distinct set of
codes below, and none from parts of the tree without given codes. Going back, every attribute is drawn from
its exact distribution given all codes and the attributes drawn before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.pgm.project import marginal
from margrave.models.pgm.tree import Layout
from margrave.models.rounding import draw_column, grouped
from margrave.schema.encoded import code_dtype

__all__ = ["distinct", "draw_given"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

ROOM = 1 << 22
"""Cells of all tables for the sets of codes that are worked on at a time, about."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A table over free attributes for each of several sets of given codes.

    Args:
        scope: Free attributes, ascending.
        tables: Shape [tables, codes of each attribute].
        ids: Which table holds for each set, shape [sets].
    """

    scope: tuple[int, ...]
    tables: Floats
    ids: Longs


def distinct(given: Mapping[int, Longs], order: Sequence[int]) -> tuple[Mapping[int, Longs], Longs]:
    """The distinct sets of given codes, neighbours alike, and the set of each row.

    Args:
        given: Codes by attribute, each of shape [rows].
        order: The elimination order: sets agree longest in what is eliminated last.
    """
    names = [v for v in reversed(order) if v in given]
    found, which = np.unique(np.stack([given[v] for v in names]), axis=1, return_inverse=True)
    return dict(zip(names, found, strict=True)), which.ravel()


def draw_given(
    layout: Layout, belief: Floats, given: Mapping[int, Longs], rows: int, rng: np.random.Generator
) -> NDArray[np.unsignedinteger[Any]]:
    """Codes of every attribute, shape [attributes, rows], in the order of the given ones.

    Args:
        layout: The tree.
        belief: Probabilities of the tree's cliques, calibrated.
        given: Codes by attribute, one or more, each of shape [rows].
        rows: How many.
        rng: Source of randomness.
    """
    codes = np.zeros((len(layout.sizes), rows), dtype=code_dtype(max(layout.sizes, default=1)))
    for v, own in given.items():
        codes[v] = own
    if rows == 0:
        return codes
    work = _Work(layout, belief, set(given))
    sets, which = distinct(given, layout.tree.order)
    by = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[by], np.arange(int(which.max()) + 2))
    for first, last in work.parts(len(ends) - 1):
        here = by[ends[first] : ends[last]]
        held = {v: own[first:last] for v, own in sets.items()}
        work.draw(codes, here, which[here] - first, work.products(held, last - first), rng)
    for v in reversed(layout.tree.order):
        if v not in given and v not in work.told:
            work.draw_rest(codes, v, rng)
    return codes


class _Work:
    """The conditionals of the directed model, and what of it given codes reach."""

    def __init__(self, layout: Layout, belief: Floats, given: set[int]) -> None:
        self.layout = layout
        self.given = given
        self.belief = belief
        self.place = {v: i for i, v in enumerate(layout.tree.order)}
        self.told: dict[int, tuple[int, ...]] = {}
        for v in layout.tree.order:
            scope = self._free(v)
            if scope and (v in given or v in self.told):
                self.told.setdefault(self._next(scope), ())
        for v in self.told:
            self.told[v] = tuple(sorted((v, *self._free(v))))
        self.conditionals = {v: self._conditional(v) for v in [*given, *self.told]}

    def parts(self, sets: int) -> Iterator[tuple[int, int]]:
        """Stretches of sets whose tables fit into ROOM."""
        cells = sum(int(np.prod([self.layout.sizes[u] for u in scope])) for scope in self.told.values())
        step = max(1, ROOM // max(cells, 1))
        for first in range(0, sets, step):
            yield first, min(first + step, sets)

    def products(self, held: Mapping[int, Longs], sets: int) -> dict[int, Factor]:
        """For every attribute that is reached, the product of all that speaks of it, messages included."""
        waiting: dict[int, list[Factor]] = {v: [] for v in self.told}
        found = {}
        for v in self.layout.tree.order:
            if v not in self.given and v not in self.told:
                continue
            factor = self._sliced(v, held, sets)
            if v in self.told:
                factor = self._joined([factor, *waiting.pop(v)], self.told[v])
                found[v] = factor
                scope = tuple(u for u in factor.scope if u != v)
                summed = factor.tables.sum(axis=1 + factor.scope.index(v))
                factor = Factor(scope, summed, factor.ids)
            if factor.scope:
                flat = factor.tables.reshape(len(factor.tables), -1).max(axis=1)
                peak = np.where(flat > 0, flat, 1.0).reshape(-1, *[1] * len(factor.scope))
                waiting[self._next(factor.scope)].append(
                    Factor(factor.scope, factor.tables / peak, factor.ids)
                )
        return found

    def draw(
        self,
        codes: NDArray[Any],
        rows: Longs,
        which: Longs,
        products: Mapping[int, Factor],
        rng: np.random.Generator,
    ) -> None:
        """Draw the attributes that are reached, in place.

        Args:
            codes: Shape [attributes, all rows].
            rows: Those to draw.
            which: The set of each of them.
            products: As from `products`.
            rng: Source of randomness.
        """
        for v in reversed(self.layout.tree.order):
            if v not in products:
                continue
            factor = products[v]
            keys = factor.ids[which]
            for u in factor.scope:
                if u != v:
                    keys = keys * self.layout.sizes[u] + codes[u, rows]
            table = np.moveaxis(factor.tables, 1 + factor.scope.index(v), -1)
            codes[v, rows] = _drawn(keys, table.reshape(-1, self.layout.sizes[v]), rng)

    def draw_rest(self, codes: NDArray[Any], v: int, rng: np.random.Generator) -> None:
        """Draw an attribute that no given code reaches but through its parents, in place."""
        parents, table = self._conditional(v)
        keys = np.zeros(codes.shape[1], dtype=np.int64)
        for u in parents:
            keys = keys * self.layout.sizes[u] + codes[u]
        codes[v] = _drawn(keys, np.moveaxis(table, 0, -1).reshape(-1, self.layout.sizes[v]), rng)

    def _free(self, v: int) -> tuple[int, ...]:
        return tuple(sorted(u for u in self.layout.tree.later[v] if u not in self.given))

    def _next(self, scope: Sequence[int]) -> int:
        return min(scope, key=self.place.__getitem__)

    def _conditional(self, v: int) -> tuple[tuple[int, ...], Floats]:
        """The parents, ascending, and p(v | parents), shape [codes of v, codes of each]."""
        names = tuple(sorted((v, *self.layout.tree.later[v])))
        joint = np.moveaxis(marginal(self.layout, self.belief, names), names.index(v), 0)
        mass = joint.sum(axis=0, keepdims=True)
        table = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0)
        return tuple(u for u in names if u != v), table

    def _sliced(self, v: int, held: Mapping[int, Longs], sets: int) -> Factor:
        """p(v | parents) at the given codes, as a factor of what is free."""
        parents, table = self.conditionals[v]
        names = (v, *parents)
        fixed = [u for u in names if u in self.given]
        scope = tuple(sorted(u for u in names if u not in self.given))
        turned = table.transpose([names.index(u) for u in (*fixed, *scope)])
        flat = turned.reshape(-1, *[self.layout.sizes[u] for u in scope])
        keys = np.zeros(sets, dtype=np.int64)
        for u in fixed:
            keys = keys * self.layout.sizes[u] + held[u]
        cells, ids = np.unique(keys, return_inverse=True)
        return Factor(scope, flat[cells], ids.ravel())

    def _joined(self, factors: Sequence[Factor], scope: tuple[int, ...]) -> Factor:
        """The product of factors, one table for each distinct choice of theirs."""
        ids, firsts = factors[0].ids, np.arange(len(factors[0].ids))
        for factor in factors[1:]:
            _, ids = np.unique(ids * len(factor.tables) + factor.ids, return_inverse=True)
            ids = ids.ravel()
        _, firsts = np.unique(ids, return_index=True)
        product = np.ones((len(firsts), *[self.layout.sizes[u] for u in scope]))
        for factor in factors:
            shape = [self.layout.sizes[u] if u in factor.scope else 1 for u in scope]
            product *= factor.tables[factor.ids[firsts]].reshape(-1, *shape)
        return Factor(scope, product, ids)


def _drawn(keys: Longs, table: Floats, rng: np.random.Generator) -> Longs:
    return draw_column(keys, grouped(keys, len(table)), table, rng)
