"""Which tables to count so that every table asked for is one of them, summed over some of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.domain import Clique, Domain

Members = tuple[int, ...]

CAPS = (1 << 10, 1 << 12, 1 << 14, 1 << 15, 1 << 16)
"""Most cells of a table that answers several cliques, all tried: many larger ones fall out of cache."""

MIN_ROWS_TO_SEARCH = (50_000, 700)
"""Rows, and rows a clique more, up to which the search for a cover costs more than it saves."""

SLICE = 1024
"""Cliques planned together: the search is quadratic in them."""

UPDATE = ((12, 0.33), (14, 0.42), (15, 0.5), (16, 0.58), (17, 0.75), (18, 0.95), (20, 1.2), (24, 4.0))
"""Nanoseconds of one update by log2 of the table's cells, measured; only their ratios matter."""

COLUMN, CELL, PROJECT, TABLE = 0.07, 0.5, 0.7, 3000.0
"""Nanoseconds of a code's part in a cell's number; of clearing and adding up a cell of the counters; of a
cell in a projection; of a table whatever its size."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Tables to count, and which of them holds which clique.

    Args:
        tables: Attributes of each table, by number, ascending.
        owner: Index of the table that answers each clique.
    """

    tables: tuple[Members, ...]
    owner: tuple[int, ...]


def check_clique(domain: Domain, clique: Clique, most: int) -> None:
    """Check that a table can be counted.

    Args:
        domain: Of the rows.
        clique: The table's attributes.
        most: Cells it may have.

    Raises:
        SchemaError: The clique names an attribute twice or one that does not exist.
        InputError: The table would have more cells.
    """
    if len(set(clique)) != len(clique):
        raise SchemaError(invalid("clique", "made of distinct names", "Name each once.", got=clique))
    cells = domain.size(clique)
    if cells > most:
        remedy = "Use fewer attributes, or fewer bins."
        raise InputError(invalid(f"clique {clique}", f"of at most {most} cells", remedy, got=cells))


def cover_cliques(cliques: Sequence[Members], sizes: Sequence[int], rows: int) -> Cover:
    """Tables from which every clique can be summed, by the smallest estimated time.

    Args:
        cliques: Attributes of each clique, ascending, none twice.
        sizes: Codes of each attribute, at least 2.
        rows: Rows that will be counted.
    """
    if len(cliques) == 1 or rows <= MIN_ROWS_TO_SEARCH[0] + MIN_ROWS_TO_SEARCH[1] * len(cliques):
        return Cover(tuple(cliques), tuple(range(len(cliques))))
    tables: list[Members] = []
    owner: list[int] = []
    # The search compares each clique with each table, so it works on slices, whose number grows with the
    # cliques alone.
    for first in range(0, len(cliques), SLICE):
        part = cliques[first : first + SLICE]
        plans = [
            Cover(tuple(part), tuple(range(len(part)))),
            *(merge_cliques(part, sizes, cap) for cap in CAPS),
        ]
        best = min(plans, key=lambda plan: price(plan, sizes, rows))
        owner += [len(tables) + index for index in best.owner]
        tables += best.tables
    return Cover(tuple(tables), tuple(owner))


def price(cover: Cover, sizes: Sequence[int], rows: int) -> float:
    """Estimated nanoseconds of counting a cover's tables and summing the cliques out of them."""
    cells = np.array([float(math.prod(sizes[v] for v in table)) for table in cover.tables])
    orders = np.array([len(table) for table in cover.tables])
    # Costs between the measured sizes are interpolated in the logarithm of the cells.
    bits, costs = np.array(UPDATE).T
    update = np.interp(np.log2(cells), bits, costs)
    counting = rows * (update + COLUMN * orders) + CELL * cells + TABLE
    return float(counting.sum() + PROJECT * cells[list(cover.owner)].sum())


def merge_cliques(cliques: Sequence[Members], sizes: Sequence[int], cap: int) -> Cover:
    """A cover whose shared tables have at most cap cells; a clique with more is a table of its own."""
    size = np.array(sizes, dtype=np.float64)
    cells = np.array([float(math.prod(sizes[v] for v in clique)) for clique in cliques])
    # Large cliques found tables, and small ones then find room in them.
    order = np.argsort(-cells, kind="stable")
    starts = np.zeros(len(cliques) + 1, dtype=np.int64)
    starts[1:] = np.cumsum([len(cliques[index]) for index in order])
    members = np.array([v for index in order for v in cliques[index]], dtype=np.int64)
    tables = np.zeros((len(cliques), len(sizes)), dtype=np.bool_)
    owner = np.full(len(cliques), -1, dtype=np.int64)
    found = int(_grow(members, starts, size, float(cap), tables, owner))
    # Owners come in the order of cells; they are put back in the order that was asked.
    back = np.empty_like(owner)
    back[order] = owner
    made = tuple(tuple(int(v) for v in np.flatnonzero(row)) for row in tables[:found])
    return Cover(made, tuple(int(index) for index in back))


@njit(
    "int64(int64[::1], int64[::1], float64[::1], float64, boolean[::1], int64[::1], int64)",
    cache=True,
    nogil=True,
)
def _choose_next(members, starts, sizes, room, inside, owner, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The clique to take in next, at most `room` times as many cells, or -1; marks those already inside."""
    completes = np.zeros(len(sizes))
    by = np.full(len(sizes), -1)
    cheapest, joined = room, -1
    for clique in range(len(owner)):
        if owner[clique] >= 0:
            continue
        # How many attributes the clique still lacks, the last of them, what taking them in multiplies the
        # cells by, and the worth of completing it.
        missing, last, growth, worth = 0, -1, 1.0, 1.0
        for at in range(starts[clique], starts[clique + 1]):
            if not inside[members[at]]:
                missing, last = missing + 1, members[at]
                growth *= sizes[members[at]]
            else:
                worth *= np.log(sizes[members[at]])
        # Already inside: the table answers it at no cost.
        if missing == 0 and room >= 1.0:
            owner[clique] = found
        # One attribute short: credit that attribute with the worth of the clique.
        elif missing == 1 and growth <= room:
            completes[last] += worth
            by[last] = clique
        # Kept in case no single attribute completes a clique.
        elif missing > 1 and growth <= cheapest:
            cheapest, joined = growth, clique
    best, score = -1, 0.0
    for v in range(len(sizes)):
        # Of equals the largest: small attributes fit anywhere later.
        if completes[v] > score or (completes[v] == score > 0.0 and sizes[v] > sizes[best]):
            best, score = v, completes[v]
    return by[best] if best >= 0 else joined


@njit(
    "int64(int64[::1], int64[::1], float64[::1], float64, boolean[:, ::1], int64[::1])",
    cache=True,
    nogil=True,
)
def _grow(members, starts, sizes, cap, tables, owner):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill in tables and owner from cliques in descending order of cells; returns the number of tables.

    Each table starts as the largest clique left. It takes in the attribute that completes cliques of the most
    worth for the growth of its logarithm, a clique being worth the product of its attributes' logarithms, so
    that a table is worth much the same however it is filled. Where none completes one, it takes in the clique
    that is completed most cheaply.
    """
    found = 0
    for seed in range(len(owner)):
        if owner[seed] >= 0:
            continue
        inside = tables[found]
        cells, adds = 1.0, seed
        while adds >= 0:
            for at in range(starts[adds], starts[adds + 1]):
                if not inside[members[at]]:
                    inside[members[at]] = True
                    cells *= sizes[members[at]]
            owner[adds] = found
            adds = _choose_next(members, starts, sizes, cap / cells, inside, owner, found)
        found += 1
    return found
