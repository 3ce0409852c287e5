"""Joined: attributes that rules tie together, drawn as one inside every component of a mixture.

Inside component k a group's attributes have the distribution Q_k1(x_1) ... Q_kn(x_n) u_k1(x_1) ... u_kn(x_n)
v(x) over the cells that the rules allow, and 0 elsewhere; v is the share of the values in a cell's bins that
obey. The factors u are chosen by iterative proportional
fitting (Deming and Stephan 1940) such that the component's one-ways stay Q_ki, as far as the rules allow:
then nothing moves between the group and the rest of the table. Measured pairs of the group may get factors,
too, the same in all components: they do where that comes nearer to what was measured. Last, factors of all
components together bring the table's one-ways back to what they were without rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled, summing
from margrave.models.evidence import Evidence
from margrave.models.rounding import draw_column, grouped
from margrave.schema.domain import Domain
from margrave.schema.rules_codes import CodeRules

__all__ = ["Joined", "joined"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

MOST = 1 << 22
"""Allowed cells times components of one group, at most; what is larger is left to drawing rows again."""
WIDEST = 1 << 22
"""Cells looked at on the way to a group's allowed ones, at most."""
TURNS, TILTS, PAIRS = 20, 6, 6
"""Rounds of proportional fitting, rounds with pairs, and the most pairs to try that with."""
LEAST, ENOUGH = 1e-12, 1e-3
"""Least probability of a code in a component, and the mean distance from its one-ways that will do."""
FURTHEST = 30.0
"""Most by which one round changes a factor."""


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


def joined(domain: Domain, weights: Floats, blocks: Mapping[str, Floats]) -> list[Joined]:
    """The groups of a domain's rules, those whose cells fit into memory.

    Args:
        domain: With its rules, if any.
        weights: Of the components, shape [components].
        blocks: Each attribute's conditionals, shape [codes, components].
    """
    if domain.rules is None:
        return []
    found = []
    for names in domain.rules.groups():
        codes = _allowed(domain.rules, names, [domain[name] for name in names], MOST // len(weights))
        if codes is not None:
            table = _nearest(codes, weights, names, blocks, domain.rules)
            found.append(Joined(names, domain.shape(names), codes, table))
    return found


def _allowed(rules: CodeRules, names: Sequence[str], sizes: Sequence[int], most: int) -> Longs | None:
    """The cells that the rules allow, [attributes, cells]; None where they are too many."""
    codes = np.zeros((0, 1), dtype=np.int64)
    for i, size in enumerate(sizes):
        count = codes.shape[1]
        if count * size > WIDEST:
            return None
        codes = np.vstack([np.repeat(codes, size, axis=1), np.tile(np.arange(size), count)])
        known = dict(zip(names[: i + 1], codes, strict=True))
        codes = codes[:, rules.possible(known, codes.shape[1])]
    return codes if codes.shape[1] <= most else None


def _nearest(
    codes: Longs, weights: Floats, names: Sequence[str], blocks: Mapping[str, Floats], rules: CodeRules
) -> Floats:
    """The group's table, with or without factors for pairs: what is nearer to the measured pairs."""
    own = [np.maximum(blocks[name], LEAST) for name in names]
    room = rules.room(dict(zip(names, codes, strict=True)), codes.shape[1])
    base = np.repeat(room[:, None], len(weights), axis=1)
    for code, block in zip(codes, own, strict=True):
        base *= block[code]
    ones = [(code, block @ weights) for code, block in zip(codes, own, strict=True)]
    plain = _tilted(_raked(base, codes, own, TURNS), weights, ones)
    pairs, seen = [], []
    for i, j in combinations(range(len(names)), 2):
        counts = rules.pair(names[i], names[j])
        if counts is not None:
            cells = codes[i] * len(own[j]) + codes[j]
            pairs.append((cells, _kept(((own[i] * weights) @ own[j].T).ravel(), cells)))
            seen.append((cells, _kept(counts.ravel(), cells)))
    if not pairs or len(pairs) > PAIRS:
        return plain
    tilted = plain.copy()
    for _ in range(TILTS):
        tilted = _raked(_tilted(tilted, weights, pairs, 1), codes, own, 1)
    tilted = _tilted(_raked(tilted, codes, own, TURNS), weights, ones)
    errors = [
        sum(
            float(((np.bincount(cells, weights=table @ weights, minlength=len(noisy)) - noisy) ** 2).sum())
            for cells, noisy in seen
        )
        for table in (plain, tilted)
    ]
    return tilted if errors[1] < errors[0] else plain


def _tilted(table: Floats, weights: Floats, wanted: Sequence[tuple[Longs, Floats]], turns: int = 3) -> Floats:
    """The table with factors, the same in all components, that bring the mixture to wanted tables."""
    found = table.copy()
    for _ in range(turns):
        for cells, want in wanted:
            shares = weights / np.maximum(found.sum(axis=0), 1e-300)
            held = np.bincount(cells, weights=found @ shares, minlength=len(want))
            change = np.divide(want, held, out=np.ones_like(want), where=held > 0)
            found *= np.clip(change, 1 / FURTHEST, FURTHEST)[cells][:, None]
    return _normalised(found)


def _normalised(table: Floats) -> Floats:
    mass = table.sum(axis=0)
    return np.asarray(np.where(mass > 0, table / np.where(mass > 0, mass, 1.0), 1.0 / len(table)))


def _kept(table: Floats, cells: Longs) -> Floats:
    """A table with the cells that are not allowed emptied, in proportions."""
    allowed = np.zeros(len(table), dtype=np.bool_)
    allowed[cells] = True
    return np.where(allowed, table, 0.0) / max(float(table[allowed].sum()), 1e-300)


def _raked(table: Floats, codes: Longs, blocks: Sequence[Floats], turns: int) -> Floats:
    """The table with each component's one-ways as they were fitted, [cells, components]."""
    starts = np.cumsum([0, *(len(block) for block in blocks)])
    found: Floats = table / np.maximum(table.max(axis=0), 1e-300)
    wanted = np.concatenate(blocks)
    _rake(found, codes, starts, wanted, np.empty_like(wanted), turns)
    return _normalised(found)


@summing
def _rake(table: Floats, codes: Longs, starts: Longs, wanted: Floats, held: Floats, turns: int) -> None:
    """Proportional fitting inside every component, in place: so many turns over all attributes, at most."""
    for _ in range(turns):
        held[:] = 0.0
        off = 0.0
        for i in range(len(codes)):
            for c in range(len(table)):
                line = held[starts[i] + codes[i, c]]
                for k in range(len(line)):
                    line[k] += table[c, k]
            for row in range(starts[i], starts[i + 1]):
                off += _ratio(wanted[row], held[row])
            for c in range(len(table)):
                line = held[starts[i] + codes[i, c]]
                for k in range(len(line)):
                    table[c, k] *= line[k]
        if off < ENOUGH * table.shape[1] * len(codes):
            break


@compiled
def _ratio(wanted: Floats, held: Floats) -> float:
    """Turn what a code holds in each component into the factor it needs; return how far it was off."""
    off = 0.0
    for k in range(len(held)):
        if held[k] > 0.0:
            off += abs(wanted[k] - held[k])
            held[k] = min(max(wanted[k] / held[k], 1.0 / FURTHEST), FURTHEST)
        else:
            held[k] = 1.0
    return off
