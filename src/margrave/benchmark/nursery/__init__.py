"""The nursery: tables that methods have not seen, made by seeded generators or shipped by other packages.

    table         random numbers that no version of numpy changes; NurseryTable, and how columns become Arrow
    numbers       heavy tails, near-copies, dense dependence; wide, narrow and independent tables, and curves
    codes         rare, dominant and unique codes, hierarchies, functional dependencies, interactions;
                  survey scales, values missing not at random
    journeys      order in time, owners who come again
    packaged      real tables that other packages ship

The tables are in two halves, and which half a table is in never changes. Constants of the methods may be
chosen on the **choosing** half. The **reporting** half is for figures that are reported, and nothing may be
chosen on it. A table is therefore always called with its half, as in "choosing/loans-a", and a benchmark
cannot hold tables of both.

A new table is one entry in its family's tuple; a new family is one tuple, named here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from margrave.benchmark.nursery.codes import CODES, GAPS, INTERACTIONS, REGIONS, SURVEYS
from margrave.benchmark.nursery.journeys import JOURNEYS
from margrave.benchmark.nursery.numbers import AMOUNTS, DENSE, LOANS, SHAPES
from margrave.benchmark.nursery.packaged import PACKAGED
from margrave.benchmark.nursery.table import HALVES, Half, NurseryTable
from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HALVES", "NURSERY", "find_nursery_table", "list_nursery_tables", "load_nursery_table"]


FAMILIES = (
    SURVEYS,
    REGIONS,
    INTERACTIONS,
    CODES,
    AMOUNTS,
    LOANS,
    DENSE,
    JOURNEYS,
    SHAPES,
    GAPS,
    PACKAGED,
)

NURSERY: dict[str, NurseryTable] = {table.word: table for family in FAMILIES for table in family}
"""Every table by its half and name, as in "choosing/loans-a"."""


def list_nursery_tables(half: Half) -> tuple[NurseryTable, ...]:
    """The tables of one half, in the order of the registry.

    Raises:
        InputError: There is no such half.
    """
    if half not in HALVES:
        raise InputError(invalid("half", f"one of {list(HALVES)}", "Check the spelling.", got=half))
    return tuple(table for table in NURSERY.values() if table.half == half)


def find_nursery_table(word: str) -> NurseryTable:
    """The entry that a word such as "choosing/loans-a" stands for.

    Raises:
        InputError: There is none, or the table is in the other half.
    """
    if word in NURSERY:
        return NURSERY[word]
    name = word.rpartition("/")[2]
    other = next((table for table in NURSERY.values() if table.name == name), None)
    if other is not None:
        constraint = f"named with its half: {name} is for {other.half}"
        raise InputError(invalid("nursery table", constraint, f"Say {other.word}.", got=word))
    raise InputError(
        invalid("nursery table", f"one of {list(NURSERY)}", "See margrave bench tables.", got=word)
    )


def load_nursery_table(word: str, rows: int | None = None) -> pa.Table:
    """A table of the nursery as an Arrow table, the same on every call.

    Args:
        word: Its half and name, as in "choosing/loans-a".
        rows: Another number of rows than its own, of the same structure.

    Raises:
        InputError: There is no such table in that half.
        MissingExtraError: The package that ships its data is not installed.

    Example:
        >>> from margrave.benchmark.nursery import load_nursery_table
        >>> load_nursery_table("choosing/loans-a", rows=100).shape
        (100, 55)
    """
    return find_nursery_table(word).load(rows)
