"""Unit and Neighbours: whom a guarantee protects, and how far one of them can move a statistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from margrave.errors import InputError, invalid

__all__ = ["Adjacency", "Neighbours", "Unit"]


Adjacency = Literal["add_remove", "replace_one"]


@dataclass(frozen=True, slots=True)
class Unit:
    """Whom the guarantee protects.

    Args:
        owner: Name of the column that says whose row it is; None protects single rows.
        max_rows: At most this many rows of one owner are used; which ones is drawn at random for each
            owner before anything is counted. Must be 1 when rows are protected.

    Raises:
        InputError: max_rows is below 1, or above 1 without an owner.

    Example:
        >>> Unit("person_id", max_rows=4)
        Unit(owner='person_id', max_rows=4)
    """

    owner: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        whole = isinstance(self.max_rows, int) and not isinstance(self.max_rows, bool)
        if not whole or self.max_rows < 1:
            raise InputError(
                invalid("max_rows", "a whole number of at least 1", "Try max_rows=1.", got=self.max_rows)
            )
        if self.owner is None and self.max_rows != 1:
            raise InputError(
                invalid(
                    "max_rows", "1 when no owner column is given", "Name the owner column: Unit('id', 4)."
                )
            )

    def __str__(self) -> str:
        if self.owner is None:
            return "one row"
        return f"one owner in column {self.owner!r} with at most {self.max_rows} row(s)"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """How far two neighbouring tables can differ, in exact integers.

    With k = unit.max_rows rows an owner, *add_remove* means that an owner's rows (at most k) come or go;
    *replace_one* means that they are exchanged for at most k others. A statistic's sensitivity is its
    largest change between neighbours:

    ==============================  ==========  ===========
    statistic                       add_remove  replace_one
    ==============================  ==========  ===========
    one marginal, L1                k           2 k
    one marginal, squared L2        k^2         2 k^2
    L1 distance marginal to fixed   k           2 k
    row count                       k           0 (rows), k (owners)
    new values of one column        k           k
    ==============================  ==========  ===========

    Squared L2 is reached when all k rows leave one cell (k^2) and enter another (2 k^2 in all). Under
    replace_one with single rows the number of rows is public; with owners it is not, since one owner
    may hold fewer rows than the other.
    """

    unit: Unit = Unit()
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        if self.adjacency not in get_args(Adjacency):
            raise InputError(
                invalid("adjacency", "'add_remove' or 'replace_one'", "Pick one.", got=self.adjacency)
            )

    @property
    def marginal_l1(self) -> int:
        """Largest L1 change of one marginal table of counts; also of an L1 distance to a fixed table."""
        return self.unit.max_rows * (2 if self.adjacency == "replace_one" else 1)

    @property
    def marginal_l2_squared(self) -> int:
        """Square of the largest L2 change of one marginal table of counts."""
        return self.unit.max_rows**2 * (2 if self.adjacency == "replace_one" else 1)

    @property
    def rows_are_public(self) -> bool:
        """Whether neighbouring tables always have the same number of rows."""
        return self.adjacency == "replace_one" and self.unit.owner is None

    @property
    def new_values(self) -> int:
        """How many values of one column a table can hold that its neighbour does not."""
        return self.unit.max_rows
