"""Targets: what a row generator is to meet, and the rows that it begins with.

Noisy tables are made to agree with one another, and to be counts that can be, as in section 5.1 of PrivSyn
(Zhang et al. 2021): tables that share attributes A are given the same marginal over A, the mean of theirs
weighted by its precision; then none may be negative; and again, until both hold.

The rows to begin with are drawn from the tables they are to have; see `STARTS`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.limits import FULL, Effort
from margrave.models._base.constraints import find_allowed
from margrave.models._base.memory import Room
from margrave.models._base.pooling import Pooled
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.models._sampling.rows import RowEstimator, RowModel, row_dtype
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]

ROUNDS = 30
"""Most rounds of agreeing and cutting negative counts; DPSyn's number."""
NEGATIVE_TOLERANCE = 1e-3
"""Negative counts that are left, over the rows, at which the rounds end."""
MOST_SHARED = 2_000
"""Sets that tables are made to agree on, at most, smaller sets first."""


def find_shared(cliques: Sequence[Clique]) -> list[Clique]:
    """What two or more cliques have in common, and what those sets have: smaller sets first, the empty one
    too.

    Sets with no table but one that hold them are left out. Each is in the order of the first clique that
    has it.

    Example:
        >>> find_shared([("a", "b"), ("b", "c"), ("a", "b", "c")])
        [(), ('b',), ('a', 'b'), ('b', 'c')]
    """
    # Close the sets under intersection: what two share, then what those have in common with the others.
    sets = [frozenset(clique) for clique in dict.fromkeys(cliques)]
    found: dict[frozenset[str], None] = {frozenset(): None}
    fresh = list(sets)
    while fresh and len(found) <= MOST_SHARED:
        # What is new is intersected with the measured cliques only, which closes the family all the same.
        common = {a & b: None for a in fresh for b in sets if a != b}
        fresh = [s for s in common if s not in found]
        found.update(dict.fromkeys(fresh))
    places = {name: i for i, name in enumerate(dict.fromkeys(n for clique in cliques for n in clique))}
    ordered = [tuple(sorted(s, key=places.__getitem__)) for s in found]
    # A set that one table alone holds asks for no agreement; the empty one stands for the number of rows.
    held = [a for a in ordered if sum(set(a) <= s for s in sets) > 1 or not a]
    return sorted(held, key=lambda a: (len(a), [places[name] for name in a]))[:MOST_SHARED]


def holders(cliques: Sequence[Clique]) -> dict[Clique, list[int]]:
    """The sets to agree on, as from `find_shared`, with the places of the cliques that hold each."""
    sets = [frozenset(clique) for clique in cliques]
    return {a: [k for k, own in enumerate(sets) if own.issuperset(a)] for a in find_shared(cliques)}


def make_agree(
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
        # A cell of the marginal sums cells of the table, so its variance is the sum of theirs, in the mean
        # over cells.
        variances = [float((tables[k].sigma ** 2).sum()) for k in mine]
        weights = [m.size / variance for m, variance in zip(marginals, variances, strict=True)]
        # The common marginal is the mean of all, weighted by precision.
        target = sum(w * m for w, m in zip(weights, marginals, strict=True)) / (sum(weights) or 1.0)
        for k, marginal in zip(mine, marginals, strict=True):
            cells = _over(rooms[k].astype(np.float64), tables[k].clique, a)
            # Each cell over A is short by so much: its cells in the table get equal parts of it, those ruled
            # out none.
            missing = ((target if a else total) - marginal) / np.maximum(cells, 1.0)
            values[k] += _spread(missing, tables[k].clique, a) * rooms[k]


def consistent(tables: Sequence[Pooled], total: float, rooms: Sequence[Truths] | None = None) -> list[Floats]:
    """Counts of each table, none negative, each summing to the total, that agree where tables overlap.

    After the last round none is negative; they agree as far as NEGATIVE_TOLERANCE and ROUNDS let them.

    Args:
        tables: Noisy counts.
        total: Rows.
        rooms: Cells of each table that may hold anything, where rules leave others empty; all by default.
    """
    open_ = [np.ones(table.values.shape, dtype=np.bool_) for table in tables] if rooms is None else rooms
    # Noisy counts of cells that rules forbid are dropped at once.
    values = [table.values * room for table, room in zip(tables, open_, strict=True)]
    common = holders([table.clique for table in tables])
    # Agreement makes counts negative and cutting them breaks agreement: both again, until little is cut.
    for _ in range(ROUNDS):
        make_agree(tables, values, open_, total, common)
        negative = max((float(-np.minimum(table, 0.0).sum()) for table in values), default=0.0)
        values = [_cut(table, room, total) for table, room in zip(values, open_, strict=True)]
        if negative <= NEGATIVE_TOLERANCE * total:
            break
    return values


def _cut(values: Floats, room: Truths, total: float) -> Floats:
    """The counts nearest to a table that are not negative, have room and sum to the total."""
    found = np.zeros(values.shape)
    if room.any():
        # The nearest distribution, as all cells of a table have like noise.
        found[room] = total * project_simplex(values[room] / total, np.ones(int(room.sum())))
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


def targets(domain: Domain, tables: Sequence[Pooled], rows: float) -> Targets:
    """PrivSyn's consistency steps on all tables (`consistent`), rules obeyed.

    Args:
        domain: With its rules, settled.
        tables: Noisy counts, one table a clique.
        rows: What each is to sum to.
    """
    room = find_allowed(domain, [table.clique for table in tables])
    return gather_targets(domain, rows, tables, consistent(tables, rows, room))


def gather_targets(
    domain: Domain, rows: float, tables: Sequence[Pooled], values: Sequence[Floats]
) -> Targets:
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
        # A table that rules have emptied says nothing: even shares then.
        ones.append(one / one.sum() if one.sum() > 0 else np.full(len(one), 1.0 / len(one)))
    sets = [set(table.clique) for table in tables]
    # A table inside of another one follows from it, so it is no target of its own.
    largest = [k for k, own in enumerate(sets) if not any(own < other for other in sets)]
    cliques = tuple(tables[k].clique for k in largest)
    precisions = tuple(1.0 / float((tables[k].sigma ** 2).mean()) for k in largest)
    return Targets(domain, rows, names, cliques, tuple(values[k] for k in largest), precisions, tuple(ones))


Rows = NDArray[Any]


def scatter_rows(wanted: Targets, rows: int, rng: np.random.Generator) -> Rows:
    """Rows with the wanted one-ways, to within one row a code, paired at random: shape [names, rows]."""
    group, by = np.zeros(rows, dtype=np.int64), np.arange(rows)
    columns = [draw_column(group, by, one[None, :], rng) for one in wanted.ones]
    return _stack_columns(wanted, columns, rows)


def uniform(wanted: Targets, rows: int, rng: np.random.Generator) -> Rows:
    """Rows of codes at random: shape [names, rows]."""
    sizes = wanted.domain.shape(wanted.names)
    return _stack_columns(wanted, [rng.integers(0, size, rows) for size in sizes], rows)


def link_rows(wanted: Targets, rows: int, rng: np.random.Generator) -> Rows:
    """Rows drawn attribute by attribute, each given those drawn before it that one table holds with it.

    Next comes the attribute, with the table, whose mutual information with what is drawn already is
    largest; by its one-way where no table ties it to any: shape [names, rows].
    """
    # Divided by their sums, which all are the rows but for rounding.
    tables = {
        clique: table / max(float(table.sum()), 1e-300)
        for clique, table in zip(wanted.cliques, wanted.tables, strict=True)
    }
    drawn: dict[str, NDArray[np.int64]] = {}
    ties: dict[tuple[str, Clique], tuple[float, Clique]] = {}
    while len(drawn) < len(wanted.names):
        best: tuple[float, str, Clique, Clique] | None = None
        for clique in tables:
            # How much each attribute that is left hangs on what is drawn already, by the one table that holds
            # both. A tie is worked out again only when more of its table has been drawn.
            given = tuple(name for name in clique if name in drawn)
            for name in clique if given else ():
                if name in drawn:
                    continue
                if (name, clique) not in ties or ties[name, clique][1] != given:
                    ties[name, clique] = _information(tables[clique], clique, name, given), given
                worth = ties[name, clique][0]
                if best is None or worth > best[0]:
                    best = (worth, name, clique, given)
        # Nothing that is left shares a table with what is drawn.
        if best is None:
            name = next(name for name in wanted.names if name not in drawn)
            one = wanted.ones[wanted.names.index(name)][None, :]
            drawn[name] = draw_column(np.zeros(rows, np.int64), np.arange(rows), one, rng)
        else:
            _, name, clique, given = best
            drawn[name] = _draw_given(tables[clique], clique, name, {n: drawn[n] for n in given}, rows, rng)
    return _stack_columns(wanted, [drawn[name] for name in wanted.names], rows)


def _draw_given(
    table: Floats,
    clique: Clique,
    name: str,
    given: dict[str, NDArray[np.int64]],
    rows: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Codes of an attribute drawn given others, by a table that holds them all, shape [rows]."""
    flat = _condition_table(table, clique, name, tuple(given))
    sizes = [table.shape[clique.index(other)] for other in given]
    keys = np.zeros(rows, dtype=np.int64)
    for codes, size in zip(given.values(), sizes, strict=True):
        # The parents' codes as one number, as in `_condition_table`.
        keys = keys * size + codes
    # Where the table has nothing, rounding has put rows all the same: they follow the attribute's own shares.
    empty = flat.sum(axis=1) <= 0.0
    flat[empty] = flat.sum(axis=0)
    return draw_column(keys, order_by_group(keys, len(flat)), flat, rng)


def _condition_table(table: Floats, clique: Clique, name: str, given: Clique) -> Floats:
    """The table summed to `given` and `name`, shape [cells of given, codes of name]."""
    kept = (*given, name)
    summed = table.sum(axis=tuple(axis for axis, other in enumerate(clique) if other not in kept))
    order = [other for other in clique if other in kept]
    summed = summed.transpose([order.index(other) for other in kept])
    return np.array(summed.reshape(-1, table.shape[clique.index(name)]))


def _information(table: Floats, clique: Clique, name: str, given: Clique) -> float:
    """Mutual information of an attribute and others, in nats."""
    # sum p(x, y) ln(p(x, y) / (p(x) p(y))) over cells that hold something.
    joint = _condition_table(table, clique, name, given)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 0
    return float((joint[some] * np.log(joint[some] / apart[some])).sum())


def _stack_columns(wanted: Targets, columns: list[NDArray[np.int64]], rows: int) -> Rows:
    return np.array(columns, dtype=row_dtype(wanted.domain)).reshape(len(columns), rows)


STARTS = {"linked": link_rows, "scattered": scatter_rows, "uniform": uniform}
"""The rows to begin with, by name."""


class TargetEstimator(RowEstimator):
    """The base of families that make rows meet targets: consistent tables first, then rows that have them.

    A family is a dataclass with the limits below among its fields, see `Room`, and defines `generate`.
    """

    __slots__ = ()

    rows: int | None
    max_rows: int
    max_cells: int

    @property
    def room(self) -> Room:
        """Rows and cells it may have."""
        return Room(self.rows, self.max_rows, self.max_cells, self.max_memory)

    @abstractmethod
    def generate(self, wanted: Targets, effort: Effort = FULL) -> RowModel:
        """Rows that meet targets, however those came about."""

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> RowModel:
        """Rows near to the measured marginals; see `generate`. `warm` is not used.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many cells.
        """
        self.admit(domain, [table.clique for table in tables])
        return self.generate(targets(domain, tables, rows), effort)
