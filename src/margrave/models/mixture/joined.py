"""Joined: attributes that rules tie together, drawn as one inside every component of a mixture.

Inside component k a group's attributes have the distribution v(x) Q_k1(x_1) ... Q_kn(x_n) / Z_k over the
cells x that the rules allow, and 0 elsewhere; v is the share of the values in a cell's bins that obey. The
descent fits these distributions (`rules_objective`), so nothing is mended here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models.evidence import Evidence
from margrave.models.mixture.rules_ties import conditioned, ties
from margrave.models.rounding import draw_column, grouped
from margrave.schema.domain import Domain

__all__ = ["Joined", "joined"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

WIDEST = 1 << 22
"""Cells looked at at once while rows are drawn, at most."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A group of attributes and its cells.

    Args:
        names: The attributes.
        sizes: Codes of each.
        codes: The allowed cells, shape [attributes, cells].
        table: Each component's distribution over them, shape [cells, components].
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: Longs
    table: Floats

    def summed(self, names: Sequence[str]) -> Floats:
        """Each component's distribution of some of the attributes, shape [their cells, components]."""
        keys, size = self._keys(names)
        found = np.zeros((size, self.table.shape[1]))
        order = np.argsort(keys, kind="stable")
        held, firsts = np.unique(keys[order], return_index=True)
        found[held] = np.add.reduceat(self.table[order], firsts, axis=0)
        return found

    def told(self, given: Evidence) -> tuple[str, ...]:
        """Which of the attributes are given."""
        return tuple(name for name in self.names if name in given)

    def likelihood(self, given: Evidence, rows: int) -> tuple[Longs, Floats]:
        """How likely each component makes the given codes of each row.

        Returns:
            The line of each row, shape [rows], in a table of shape [lines, components]; a line of zeros for
            codes that the rules forbid.
        """
        told = self.told(given)
        cells, which = np.unique(self.cells(told, given, rows), return_inverse=True)
        keys, _ = self._keys(told)
        order = np.argsort(keys, kind="stable")
        table = np.zeros((len(cells), self.table.shape[1]))
        first, last = (np.searchsorted(keys[order], cells, side=side) for side in ("left", "right"))
        for line, (start, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            table[line] = self.table[order[start:end]].sum(axis=0)
        return which.ravel(), table

    def cells(self, names: Sequence[str], given: Evidence, rows: int) -> Longs:
        """Each row's cell of given attributes, as `summed` counts them, shape [rows]."""
        keys = np.zeros(rows, dtype=np.int64)
        for name in names:
            keys = keys * self.sizes[self.names.index(name)] + given[name]
        return keys

    def draw(self, components: Longs, given: Evidence, rng: np.random.Generator) -> dict[str, Longs]:
        """Codes of all attributes, given each row's component and some of them; each of shape [rows]."""
        told, rows = self.told(given), len(components)
        if not told:
            table = np.ascontiguousarray(self.table.T)
            cells = draw_column(components, grouped(components, len(table)), table, rng)
            return dict(zip(self.names, self.codes[:, cells], strict=True))
        keys, size = self._keys(told)
        order = np.argsort(keys, kind="stable")
        firsts = np.searchsorted(keys[order], np.arange(size + 1))
        mine = self.cells(told, given, rows)
        found = np.empty(rows, dtype=np.int64)
        step = max(1, WIDEST // max(int(np.diff(firsts).max(initial=1)), 1))
        for first in range(0, rows, step):
            part = slice(first, min(first + step, rows))
            found[part] = self._within(mine[part], components[part], order, firsts, rng)
        return dict(zip(self.names, self.codes[:, found], strict=True))

    def _within(
        self, cells: Longs, components: Longs, order: Longs, firsts: Longs, rng: np.random.Generator
    ) -> Longs:
        """A cell for each row among those that agree with its given codes."""
        count = self.table.shape[1]
        pairs, which = np.unique(cells * count + components, return_inverse=True)
        starts, lengths = firsts[pairs // count], firsts[pairs // count + 1] - firsts[pairs // count]
        places = np.minimum(starts[:, None] + np.arange(max(int(lengths.max(initial=1)), 1)), len(order) - 1)
        inside = np.arange(places.shape[1]) < lengths[:, None]
        table = np.where(inside, self.table[order[places], (pairs % count)[:, None]], 0.0)
        empty = table.sum(axis=1) <= 0.0
        table[empty] = inside[empty]
        drawn = draw_column(which.ravel(), grouped(which.ravel(), len(pairs)), table, rng)
        return np.asarray(order[places[which.ravel(), drawn]])

    def _keys(self, names: Sequence[str]) -> tuple[Longs, int]:
        """Each allowed cell's cell of some attributes, and how many of those there are."""
        keys, size = np.zeros(self.codes.shape[1], dtype=np.int64), 1
        for name in names:
            i = self.names.index(name)
            keys, size = keys * self.sizes[i] + self.codes[i], size * self.sizes[i]
        return keys, size


def joined(domain: Domain, blocks: Mapping[str, Floats]) -> list[Joined]:
    """The groups of a domain's rules, those whose cells fit into memory.

    Args:
        domain: With its rules, if any.
        blocks: Each attribute's conditionals, shape [codes, components].
    """
    return [
        Joined(tie.names, tie.sizes, tie.codes, conditioned(tie, [blocks[name] for name in tie.names]))
        for tie in ties(domain)
    ]
