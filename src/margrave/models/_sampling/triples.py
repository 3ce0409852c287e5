"""Triples: which tables of three attributes rows are balanced towards.

Rows that have a model's pairs still scatter around its tables of three attributes as independent draws would,
since nothing holds these. `balance_column` can swap codes for them as well: for tables that have fewer cells
than there are rows, as far as that is little work.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._sampling.balance import MAX_SWAPS_A_PASS, sum_by_code

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Triple = tuple[int, int, int]

TRIPLE_PASSES = 4
"""Swaps tried for each row and attribute; with 8 triples are half a percent nearer, with 2 as much less."""

CELLS_A_ROW = 0.5
"""Cells that a table has for each row at most. With .1 a third of what is won is lost, with 1 or 2 little
more is won: rows cannot follow counts of a fraction of a row (bench/LOG.md)."""

MOST_WORK = 1 << 25
"""Cells of triples that are touched for one call at most: a twentieth of a second, about."""

MOST_ROWS = MAX_SWAPS_A_PASS
"""Of more rows only a part is swapped, and they scatter little to begin with."""

CHUNK = 1 << 14
"""Rows whose probabilities are looked up at once."""

MOST_ATTRIBUTES = 40
"""With more of them, what may be touched is only a small part of their triples, and none are looked at."""

CELLS_A_TOUCH = 16
"""Multiplications by a component, in a product of matrices, that take as long as touching a cell."""


def choose_triples(
    sizes: Sequence[int], rows: int, moved: Collection[int], components: int = 0, parts: int = 1
) -> list[Triple]:
    """The triples whose tables rows are balanced towards, positions in ascending order.

    Those of most cells come first, as rows scatter most around them. Looks at public numbers only.

    Args:
        sizes: Codes of each attribute.
        rows: How many rows there are.
        moved: Positions of the attributes whose codes are swapped; every triple has one of them.
        components: Terms of the sum that a cell of an expected table is.
        parts: How many calls share what may be touched.
    """
    if len(sizes) > MOST_ATTRIBUTES or rows > MOST_ROWS:
        return []
    found: list[tuple[int, Triple]] = []
    for triple in combinations(range(len(sizes)), 3):
        cells = math.prod(sizes[place] for place in triple)
        if cells <= CELLS_A_ROW * rows and not set(triple).isdisjoint(moved):
            found.append((cells, triple))
    found.sort(key=lambda one: (-one[0], one[1]))
    # Each attribute that moves counts its tables once, and then touches them at every swap that is tried.
    touched = rows * (1 + TRIPLE_PASSES)
    chosen, left = [], MOST_WORK / parts
    for cells, triple in found:
        left -= len(set(triple).intersection(moved)) * touched + cells * components / CELLS_A_TOUCH
        if left < 0:
            break
        chosen.append(triple)
    return chosen


def expect_triples(
    codes: NDArray[Any],
    drawn: Sequence[int],
    sizes: Sequence[int],
    keys: Longs,
    table: Floats,
    parts: int = 1,
) -> tuple[list[tuple[int, int]], list[Floats]]:
    """Pairs of the attributes drawn before another one, and what their tables with it should be, in rows.

    That is the sum of the other one's probabilities over the rows as they were drawn.

    Args:
        codes: Codes of each attribute, shape [attributes, rows].
        drawn: Attributes drawn before.
        sizes: Codes of each of them.
        keys: The group of each row, shape [rows].
        table: Weights of the other attribute's codes in each group, shape [groups, codes].
        parts: See `choose_triples`.

    Returns: the pairs, and for each of them a table of shape [its cells, codes].
    """
    rows, last = len(keys), len(drawn)
    chosen = choose_triples([*sizes, table.shape[1]], rows, {last}, parts=parts)
    found = [np.zeros((sizes[one] * sizes[two], table.shape[1])) for one, two, _ in chosen]
    for first in range(0, rows if chosen else 0, CHUNK):
        part = slice(first, first + CHUNK)
        shares = table[keys[part]]
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        for (one, two, _), counts in zip(chosen, found, strict=True):
            cells = codes[drawn[one], part].astype(np.int64) * sizes[two] + codes[drawn[two], part]
            counts += sum_by_code(cells[None], [len(counts)], shares)[0]
    return [(drawn[one], drawn[two]) for one, two, _ in chosen], found
