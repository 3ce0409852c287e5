"""Targets: what a row generator is to meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.models.pooled import Pooled, pool, rows_of
from margrave.models.rowwise.consistent import consistent
from margrave.models.ruled import settled, sharpened
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.release import NoisyMarginal

__all__ = ["Targets", "gathered", "roomy", "targets"]

Floats = NDArray[np.float64]

CERTAINTY = 1e3
"""By how much the standard deviation of cells that rules forbid is divided."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Consistent tables that rows are to have.

    Args:
        domain: With its rules, settled.
        total: Rows the tables stand for.
        names: The attributes in any table, in the domain's order.
        cliques: Of the tables that lie in no other.
        tables: Their counts, none negative, each summing to the total.
        precisions: Of each, one over the mean variance of its measured cells.
        ones: The one-way of each name, shape [size], summing to 1.
    """

    domain: Domain
    total: float
    names: Clique
    cliques: tuple[Clique, ...]
    tables: tuple[Floats, ...]
    precisions: tuple[float, ...]
    ones: tuple[Floats, ...]


def targets(domain: Domain, measurements: Sequence[NoisyMarginal], total: float | None) -> Targets:
    """PrivSyn's consistency steps on all measurements (`consistent`), rules obeyed.

    Raises:
        InputError: The tables do not fit the domain, or total is not positive.
    """
    rows, tables = rows_of(measurements, total), pool(domain, measurements)
    domain = settled(domain, tables)
    return gathered(domain, rows, tables, consistent(tables, rows, roomy(domain, tables)))


def roomy(domain: Domain, tables: Sequence[Pooled]) -> list[NDArray[np.bool_]]:
    """The cells of each table that rules leave room."""
    sharp = sharpened(domain, tables, CERTAINTY)
    return [new.sigma >= old.sigma for new, old in zip(sharp, tables, strict=True)]


def gathered(domain: Domain, rows: float, tables: Sequence[Pooled], values: Sequence[Floats]) -> Targets:
    """Targets from counts that are none negative, in place of those of the tables.

    Args:
        domain: With its rules, settled.
        rows: What each table sums to.
        tables: As they were released.
        values: Their counts now.
    """
    names = domain.canonical({name for table in tables for name in table.clique})
    ones = []
    for name in names:
        k = next(k for k, table in enumerate(tables) if name in table.clique)
        others = tuple(axis for axis, other in enumerate(tables[k].clique) if other != name)
        one = values[k].sum(axis=others)
        ones.append(one / one.sum() if one.sum() > 0 else np.full(len(one), 1.0 / len(one)))
    sets = [set(table.clique) for table in tables]
    largest = [k for k, own in enumerate(sets) if not any(own < other for other in sets)]
    cliques = tuple(tables[k].clique for k in largest)
    precisions = tuple(1.0 / float((tables[k].sigma ** 2).mean()) for k in largest)
    return Targets(domain, rows, names, cliques, tuple(values[k] for k in largest), precisions, tuple(ones))
