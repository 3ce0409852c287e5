"""Unit and Neighbours: whom a guarantee protects, and how far one of them can move a statistic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from margrave.errors import InputError, invalid

Adjacency = Literal["add_remove", "replace_one", "replace_private", "zero_out"]


@dataclass(frozen=True, slots=True)
class AdjacencyWords:
    """What is said of an adjacency, to readers of a promise.

    Args:
        noun: What it is called.
        change: What happens to a unit between neighbours, in words that follow "for one row, ".
        difference: How neighbours differ, in words that follow "one row " or "the rows of one owner, ";
            {others} is what may come instead.
        doubt: What an attacker who knows all else cannot be sure of, in words that follow "wants to learn ".
        comparison: Which two runs epsilon compares, in words that follow "times as likely ".
    """

    noun: str
    change: str
    difference: str
    doubt: str
    comparison: str


ADJACENCY_WORDS: Final[Mapping[Adjacency, AdjacencyWords]] = {
    "add_remove": AdjacencyWords(
        noun="add or remove",
        change="added or removed",
        difference="being present or absent",
        doubt="whether a person's data were used",
        comparison="with somebody's data as without",
    ),
    "replace_one": AdjacencyWords(
        noun="replace one",
        change="replaced",
        difference="being exchanged for any {others}",
        doubt="whether a person's data were these or others",
        comparison="with somebody's data as with any others in their place",
    ),
    "replace_private": AdjacencyWords(
        noun="replace the private part",
        change="its private columns replaced",
        difference="having all private values exchanged for any others",
        doubt="whether a person's private values were these or others",
        comparison="with somebody's private values as with any others in their place",
    ),
    "zero_out": AdjacencyWords(
        noun="erase one",
        change="its values erased",
        difference="having all values erased, while it still counts as a row of the table",
        doubt="whether a person's values were there or erased",
        comparison="with somebody's values as with these erased",
    ),
}
"""For each adjacency what a guarantee, a report and an audit say of it."""


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
    *replace_one* means that they are exchanged for at most k others; *replace_private* means that the values
    of the private columns in these rows are exchanged for any others, while the public columns, the owner of
    each row, the order of the rows and their number stay as they are; *zero_out*, for single rows, means that
    one row's values are erased: the row still counts as one of the table's, whose number is public, and adds
    nothing to anything else. A statistic's sensitivity is its largest change between neighbours:

    ==============================  ==========  ====================  ===============  ========
    statistic                       add_remove  replace_one           replace_private  zero_out
    ==============================  ==========  ====================  ===============  ========
    marginal, L1                    k           2 k                   2 k              1
    marginal, squared L2            k^2         2 k^2                 2 k^2            1
    marginal of public columns      k           2 k                   0                1
    L1 distance marginal to fixed   k           2 k                   2 k              1
    row count                       k           0 (rows), k (owners)  0                0
    new values of one column        k           k                     k, public: 0     1
    ==============================  ==========  ====================  ===============  ========

    Squared L2 is reached when all k rows leave one cell (k^2) and enter another (2 k^2 in all). Under
    replace_one with single rows the number of rows is public; with owners it is not, since one owner
    may hold fewer rows than the other.

    *Proof for replace_private.* Neighbours have the same rows in the same order but for the private columns
    of at most k of them. A row is in one cell of a marginal, and which cell follows from the row's values of
    the marginal's columns alone. If all of them are public, no row changes its cell: the change is 0, so the
    table may be told exactly. If one is private, each of the k rows leaves one cell and enters another
    inside the same public codes: the change is a sum of k differences of two unit vectors, at most 2 k in L1
    and, by the triangle inequality, k sqrt(2) in L2. Both are reached where the k rows agree, so the noise
    has to be sqrt(2) times that of add_remove; charging a sensitivity of k, as if a row were removed,
    promises less than it says, since a row without its private part is no neighbour once the public rows are
    given.

    Args:
        unit: Whom the guarantee protects.
        adjacency: Which tables are neighbours.
        public: Names of the public columns, for replace_private alone, which has one at least.

    Raises:
        InputError: There is no such adjacency; or columns are public under one that hides whose rows are in
            the table, or none are under replace_private; or the owner's column is among them.
    """

    unit: Unit = Unit()
    adjacency: Adjacency = "add_remove"
    public: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.adjacency not in get_args(Adjacency):
            known = f"one of {list(get_args(Adjacency))}"
            raise InputError(invalid("adjacency", known, "Pick one.", got=self.adjacency))
        if self.adjacency == "zero_out" and self.unit.owner is not None:
            remedy = "Protect owners under 'add_remove' or 'replace_one'."
            raise InputError(invalid("adjacency", "without owners where it is 'zero_out'", remedy))
        object.__setattr__(self, "public", tuple(self.public))
        if self.public and self.adjacency != "replace_private":
            remedy = (
                "Who is in the table is public once the public rows are given, so neither a row's "
                "presence nor its public part can be hidden: use adjacency='replace_private'."
            )
            raise InputError(
                invalid("adjacency", "'replace_private' with public columns", remedy, got=self.adjacency)
            )
        if not self.public and self.adjacency == "replace_private":
            remedy = "Name the public columns, or use adjacency='replace_one'."
            raise InputError(invalid("public", "one column at least under replace_private", remedy))
        if len(set(self.public)) < len(self.public):
            raise InputError(invalid("public", "distinct names", "Name each column once."))
        if self.unit.owner in self.public:
            remedy = "The owner's column is never released: leave it out."
            raise InputError(invalid("public", "without the owner's column", remedy, got=self.unit.owner))

    @property
    def marginal_l1(self) -> int:
        """Largest L1 change of one marginal table of counts; also of an L1 distance to a fixed table."""
        return self.unit.max_rows * (1 if self.adjacency in ("add_remove", "zero_out") else 2)

    @property
    def marginal_l2_squared(self) -> int:
        """Square of the largest L2 change of one marginal table of counts."""
        return self.unit.max_rows**2 * (1 if self.adjacency in ("add_remove", "zero_out") else 2)

    @property
    def rows_are_public(self) -> bool:
        """Whether neighbouring tables always have the same number of rows."""
        exchanged = self.adjacency == "replace_one" and self.unit.owner is None
        return exchanged or self.adjacency in ("replace_private", "zero_out")

    @property
    def change(self) -> str:
        """What happens to a unit between neighbours, in words that follow "for one row, "."""
        public = f" (public: {', '.join(self.public)})" if self.public else ""
        return f"{self.words.change}{public}"

    @property
    def words(self) -> AdjacencyWords:
        """What is said of the adjacency."""
        return ADJACENCY_WORDS[self.adjacency]

    @property
    def new_values(self) -> int:
        """How many values of one column a table can hold that its neighbour does not."""
        return self.unit.max_rows
