"""Consistent: noisy tables made to agree with one another, and to be counts that can be.

Zhang et al. 2021, PrivSyn, section 5.1: tables that share attributes A are given the same marginal over A,
the mean of theirs weighted by its precision; then none may be negative; and again, until both hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.independent import simplex
from margrave.models.pooled import Pooled
from margrave.schema.domain import Clique

__all__ = ["agreed", "consistent", "holders", "shared"]

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]

ROUNDS = 30
"""Most rounds of agreeing and cutting negative counts; DPSyn's number."""
CLOSE = 1e-3
"""Negative counts that are left, over the rows, at which the rounds end."""
MOST_SHARED = 2_000
"""Sets that tables are made to agree on, at most, smaller sets first."""


def shared(cliques: Sequence[Clique]) -> list[Clique]:
    """What two or more cliques have in common, and what those sets have: smaller sets first, the empty one
    too.

    Sets with no table but one that hold them are left out. Each is in the order of the first clique that
    has it.

    Example:
        >>> shared([("a", "b"), ("b", "c"), ("a", "b", "c")])
        [(), ('b',), ('a', 'b'), ('b', 'c')]
    """
    sets = [frozenset(clique) for clique in dict.fromkeys(cliques)]
    found: dict[frozenset[str], None] = {frozenset(): None}
    fresh = list(sets)
    while fresh and len(found) <= MOST_SHARED:
        common = {a & b: None for a in fresh for b in sets if a != b}
        fresh = [s for s in common if s not in found]
        found.update(dict.fromkeys(fresh))
    places = {name: i for i, name in enumerate(dict.fromkeys(n for clique in cliques for n in clique))}
    ordered = [tuple(sorted(s, key=places.__getitem__)) for s in found]
    held = [a for a in ordered if sum(set(a) <= s for s in sets) > 1 or not a]
    return sorted(held, key=lambda a: (len(a), [places[name] for name in a]))[:MOST_SHARED]


def holders(cliques: Sequence[Clique]) -> dict[Clique, list[int]]:
    """The sets to agree on, as from `shared`, with the places of the cliques that hold each."""
    sets = [frozenset(clique) for clique in cliques]
    return {a: [k for k, own in enumerate(sets) if own.issuperset(a)] for a in shared(cliques)}


def agreed(
    tables: Sequence[Pooled],
    values: Sequence[Floats],
    rooms: Sequence[Truths],
    total: float,
    common: Mapping[Clique, Sequence[int]],
) -> None:
    """Make tables agree on all they share, in place: all sum to the total, then smaller sets before larger.

    The marginal over A of a table with noise of variance s^2 a cell has an average variance of
    sum(s^2) / |A|, whose inverse is its weight. What a marginal misses is added in equal parts to the cells
    it sums; over any smaller set that adds up to nothing, so that what was agreed before stays.

    Args:
        tables: Whose cliques and standard deviations count.
        values: The tables' counts, changed.
        rooms: Cells of each table that may hold anything.
        total: Rows that each table sums to.
        common: Sets to agree on, smaller ones first, with the places of the tables that hold them.
    """
    for a, mine in common.items():
        marginals = [_over(values[k], tables[k].clique, a) for k in mine]
        weights = [m.size / float((tables[k].sigma ** 2).sum()) for k, m in zip(mine, marginals, strict=True)]
        target = sum(w * m for w, m in zip(weights, marginals, strict=True)) / (sum(weights) or 1.0)
        for k, marginal in zip(mine, marginals, strict=True):
            cells = _over(rooms[k].astype(np.float64), tables[k].clique, a)
            missing = ((target if a else total) - marginal) / np.maximum(cells, 1.0)
            values[k] += _spread(missing, tables[k].clique, a) * rooms[k]


def consistent(tables: Sequence[Pooled], total: float, rooms: Sequence[Truths] | None = None) -> list[Floats]:
    """Counts of each table, none negative, each summing to the total, that agree where tables overlap.

    After the last round none is negative; they agree as far as CLOSE and ROUNDS let them.

    Args:
        tables: Noisy counts.
        total: Rows.
        rooms: Cells of each table that may hold anything, where rules leave others empty; all by default.
    """
    open_ = [np.ones(table.values.shape, dtype=np.bool_) for table in tables] if rooms is None else rooms
    values = [table.values * room for table, room in zip(tables, open_, strict=True)]
    common = holders([table.clique for table in tables])
    for _ in range(ROUNDS):
        agreed(tables, values, open_, total, common)
        negative = max((float(-np.minimum(table, 0.0).sum()) for table in values), default=0.0)
        values = [_cut(table, room, total) for table, room in zip(values, open_, strict=True)]
        if negative <= CLOSE * total:
            break
    return values


def _cut(values: Floats, room: Truths, total: float) -> Floats:
    """The counts nearest to a table that are not negative, have room and sum to the total."""
    found = np.zeros(values.shape)
    if room.any():
        found[room] = total * simplex(values[room] / total, np.ones(int(room.sum())))
    return found


def _over(values: Floats, clique: Clique, a: Clique) -> Floats:
    """The marginal over a, axes in its order."""
    gone = tuple(axis for axis, name in enumerate(clique) if name not in a)
    kept = [name for name in clique if name in a]
    summed: Floats = np.asarray(values.sum(axis=gone))
    return np.asarray(summed.transpose([kept.index(name) for name in a]))


def _spread(marginal: Floats, clique: Clique, a: Clique) -> Floats:
    """A table over a, to be broadcast over the clique's axes."""
    kept = [name for name in clique if name in a]
    table = marginal.transpose([a.index(name) for name in kept])
    sizes = iter(table.shape)
    wide: Floats = table.reshape([next(sizes) if name in a else 1 for name in clique])
    return wide
