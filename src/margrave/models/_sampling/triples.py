"""Triples: which tables of three attributes rows are balanced towards.

Rows that have a model's pairs still scatter around its tables of three attributes as independent draws would,
since nothing holds these. `balance_column` can swap codes for them as well: for tables that have fewer cells
than there are rows, as far as that is little work.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import combinations

from margrave.models._sampling.balance import MAX_SWAPS_A_PASS

Triple = tuple[int, int, int]

TRIPLE_PASSES = 4
"""Swaps tried for each row and attribute; with 8 triples are half a percent nearer, with 2 as much less."""

CELLS_A_ROW = 0.5
"""Cells that a table has for each row at most. With .1 a third of what is won is lost, with 1 or 2 little
more is won: rows cannot follow counts of a fraction of a row (bench/LOG.md)."""

MOST_WORK = 1 << 25
"""Cells of triples that are touched for one call at most: a twentieth of a second, about."""

MOST_ATTRIBUTES = 40
"""With more of them, what may be touched is only a small part of their triples, and none are looked at."""

CELLS_A_TOUCH = 16
"""Multiplications by a component, in a product of matrices, that take as long as touching a cell."""


def choose_triples(
    sizes: Sequence[int], rows: int, moved: Collection[int], components: int = 0
) -> list[Triple]:
    """The triples whose tables rows are balanced towards, positions in ascending order.

    Those of most cells come first, as rows scatter most around them. Looks at public numbers only.

    Args:
        sizes: Codes of each attribute.
        rows: How many rows there are.
        moved: Positions of the attributes whose codes are swapped; every triple has one of them.
        components: Terms of the sum that a cell of an expected table is.
    """
    if len(sizes) > MOST_ATTRIBUTES:
        return []
    found: list[tuple[int, Triple]] = []
    for triple in combinations(range(len(sizes)), 3):
        cells = math.prod(sizes[place] for place in triple)
        if cells <= CELLS_A_ROW * rows and not set(triple).isdisjoint(moved):
            found.append((cells, triple))
    found.sort(key=lambda one: (-one[0], one[1]))
    # Each attribute that moves counts its tables once, and then touches them at every swap that is tried.
    touched = rows + TRIPLE_PASSES * min(rows, MAX_SWAPS_A_PASS)
    chosen, left = [], float(MOST_WORK)
    for cells, triple in found:
        left -= len(set(triple).intersection(moved)) * touched + cells * components / CELLS_A_TOUCH
        if left < 0:
            break
        chosen.append(triple)
    return chosen
