"""Functional dependencies, found under noise: one column follows from another, as a city from its zip code.

Which pairs may be dependent follows from what was released about single columns: where b is a function of
a, its values are unions of values of a, so that the k most frequent values of b hold at least as many rows
as the k most frequent of a. The pairs that this leaves open, and of which the noise would tell, are counted
together; those in which next to no row is off a function are counted once more, with less noise. What is
found becomes a rule (`Determines`, or `Within` where one of the two is a number) with the noisy share of the
rows on it.

Everything here is made from public things and released numbers only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import round_share
from margrave.measure.discovery.numeric import Look
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned, Column, Integer, Listed, Relative
from margrave.schema.constraints.rules import Determines, Rule, Within, find_ruled
from margrave.schema.schema import Schema, apply_rules

if TYPE_CHECKING:
    from margrave.protocols import Source

Array = NDArray[np.float64]
Longs = NDArray[np.int64]

SHARE = Fraction(1, 20)
"""Share of discovery's rho for dependencies, at most, where there are columns that may have any. A tenth
finds hardly more and leaves fewer values of other columns to be found, a thirtieth less: bench/LOG.md."""
SCREEN = Fraction(1, 2)
"""Share of that for the look at all pairs."""
FEW = 4
"""The look at a single pair costs at most one of FEW parts of the rest."""
MOST_PAIRS, MOST_CELLS = 200, 1 << 20
"""Most pairs in the first look, and most cells of all their tables together."""
MOST_VALUES = 128
"""Most different whole numbers of a column that are looked at value by value."""
Z = 3.0
"""Noise standard deviations from which on a figure counts as more than noise."""
COVERED = 0.8
"""Least share of the rows that are in values of the determining column of which the noise lets one tell what
follows."""
MINORITY = 0.05
"""Least share of the rows outside the most frequent value of the column that follows."""
TOLERATED = 0.15
"""Most rows off the function, noise included, as a share of those that the most frequent value alone would
not explain."""
HIDDEN = 0.25
"""The same share that Z deviations of the noise may hide for a pair to be looked at the first time."""


@dataclass(frozen=True, slots=True)
class Side:
    """A column as it is counted, and what was released about it.

    Args:
        column: Known; a column of numbers has one code a value.
        rows: Released guess of the rows with each value, not negative, shape [present].
        noise: Standard deviation of these; infinite where it is not known.
    """

    column: Column
    rows: Array
    noise: float

    @property
    def entropy(self) -> float:
        """Of the released shares, in nats."""
        # Noise may leave nothing at all.
        share = self.rows[self.rows > 0] / max(float(self.rows.sum()), 1e-300)
        return float(-(share * np.log(share)).sum())


@dataclass(frozen=True, slots=True)
class Found:
    """A dependency.

    Args:
        by: What determines.
        of: What follows.
        lookup: The code of `of` for each code of `by`, -1 where nothing is said, shape [present of `by`].
        share: The noisy share of the rows with both values that are on the function, and its standard error.
    """

    by: Side
    of: Side
    lookup: Longs
    share: tuple[float, float]


def may_depend(columns: Collection[Column], ruled: Collection[str]) -> bool:
    """Whether two columns, no rule about either, are such that one may be found to follow from the other."""
    free = [column for column in columns if column.attribute and column.name not in ruled]
    listed = [column for column in free if isinstance(column, Listed)]
    numbers = [column for column in free if isinstance(column, Integer)]
    return bool(listed) and len(listed) + len(numbers) > 1 and any(c.open for c in (*listed, *numbers))


def separate_values(column: Integer) -> Integer | None:
    """A column of numbers with one bin a value; None where its values are too many, or were not seen so
    finely.

    It ends where noise shows no more values, and takes those beyond as its last ones: an error for them would
    follow a single row.
    """
    if column.fine is None or column.weights is None:
        return None
    fine, weights = np.asarray(column.fine, dtype=np.int64), np.asarray(column.weights)
    held = np.flatnonzero(weights > 0)
    # Cells wider than one number hide which values there are.
    if not 2 <= len(held) <= MOST_VALUES or (np.diff(fine)[held] != 1).any():
        return None
    first, last = int(held[0]), int(held[-1]) + 1
    return dataclasses.replace(
        column,
        edges=(*fine[held].tolist(), int(fine[last])),
        fine=tuple(fine[first : last + 1].tolist()),
        weights=tuple(weights[first:last].tolist()),
        strict=False,
    )


def _sides(schema: Schema, released: Sequence[NoisyMarginal]) -> list[Side]:
    """The columns that may have a part in a dependency: seen by discovery, and no rule speaks of them."""
    ruled = find_ruled(schema.rules)
    related = {name for c in schema.columns if isinstance(c, Relative) for name in (c.name, *c.bases)}
    singles = {m.clique[0]: m for m in released if len(m.clique) == 1}
    found = []
    for column in schema.attributes:
        if column.name in ruled | related or column.name not in singles:
            continue
        if isinstance(column, Integer):
            fine = separate_values(column)
            if fine is not None:
                weights = np.asarray(fine.weights)
                # Cells of the fine grid are added up to those of single values.
                starts = np.searchsorted(np.asarray(fine.fine), fine.edge_array[:-1])
                found.append(Side(fine, np.add.reduceat(weights, starts), math.inf))
        elif isinstance(column, Listed) and column.present > 1:
            values, sigmas = singles[column.name].values, singles[column.name].sigmas
            here = slice(0, column.present)
            # The values may have different noise; their mean square stands for all.
            noise = float(np.sqrt(np.mean(sigmas[here] ** 2)))
            found.append(Side(column, np.maximum(values[here], 0.0), noise))
    return found


def find_pairs(
    sides: Sequence[Side], sigma: Callable[[int], float], fixed: Collection[str] = ()
) -> list[tuple[Side, Side]]:
    """The ordered pairs (determining, following) that the released rows leave open and the noise would tell.

    As many pairs as possible, those of the nearest entropies first: of a chain of dependencies the links, and
    two ways of writing one thing before all else.

    Args:
        sides: The columns.
        sigma: The noise of each cell if so many tables are counted together.
        fixed: Names of columns that follow from none.
    """
    free = [(by, of) for by, of in permutations(sides, 2) if of.column.name not in fixed]
    open_pairs = [(by, of) for by, of in free if _may_follow(by, of)]
    # Columns of like entropy are nearest to saying the same thing.
    open_pairs.sort(key=lambda pair: abs(pair[0].entropy - pair[1].entropy))
    best: list[tuple[Side, Side]] = []
    most = MOST_PAIRS
    while most > len(best):
        noise = sigma(most)
        # Fewer tables mean less noise on each: the number that leaves most pairs readable is kept.
        best = max(best, _take_fitting([pair for pair in open_pairs if _tells(*pair, noise)], most), key=len)
        most //= 2
    return best


def _take_fitting(pairs: Sequence[tuple[Side, Side]], most: int) -> list[tuple[Side, Side]]:
    """The first pairs whose tables are not more than so many, nor have too many cells."""
    kept: list[tuple[Side, Side]] = []
    tables: set[frozenset[str]] = set()
    cells = 0
    for by, of in pairs:
        key = frozenset((by.column.name, of.column.name))
        if key not in tables:
            # One table serves both directions of a pair, so it is counted once.
            size = by.column.size * of.column.size
            if len(tables) >= most or cells + size > MOST_CELLS:
                continue
            tables.add(key)
            cells += size
        kept.append((by, of))
    return kept


def _may_follow(by: Side, of: Side) -> bool:
    """Whether released rows leave it open that one column is a function of another."""
    if not isinstance(by.column, Listed) and not isinstance(of.column, Listed):
        return False
    rows = float(of.rows.sum())
    if rows <= 0 or float(by.rows.sum()) <= 0:
        return False
    # A column that is nearly constant follows from anything, which says nothing.
    if 1.0 - float(of.rows.max()) / rows < MINORITY:
        return False
    cells = max(len(by.rows), len(of.rows))
    # The rows of the k most frequent values, for every k; the shorter list is filled up with zeros.
    tops = [np.cumsum(np.pad(np.sort(one.rows)[::-1], (0, cells - len(one.rows)))) for one in (by, of)]
    noise = math.hypot(*(one.noise if math.isfinite(one.noise) else 0.0 for one in (by, of)))
    slack = Z * noise * np.sqrt(np.arange(1, cells + 1)) + 0.02 * rows
    # Scaled to one total, as the two columns' noisy totals differ.
    shares = tops[0] * rows / float(by.rows.sum())
    return bool((tops[1] + slack >= shares).all())


def _evident(by: Side, of: Side, sigma: float) -> NDArray[np.bool_]:
    """The values of `by` that hold so many rows that the largest cell of their line is no noise."""
    # Z deviations, and what the largest of so many noisy cells reaches by chance.
    bar = (Z + math.sqrt(2.0 * math.log(max(of.column.present, 2)))) * sigma
    found: NDArray[np.bool_] = by.rows > bar
    if isinstance(by.column, Listed):
        found &= np.arange(len(by.rows)) < len(by.column.values or ())
    return found


def _error_off(by: Side, of: Side, evident: int, sigma: float) -> tuple[float, bool]:
    """Standard error of the rows off the function, and whether they are best told by the released rows of
    `by`, and not by the sums of the table's lines.
    """
    # The rows off the function are either added up cell by cell or taken as rows less the largest cells.
    cells = sigma * math.sqrt(evident * max(of.column.present - 1, 1))
    rows = math.sqrt(evident) * math.hypot(sigma, by.noise)
    return min(cells, rows), rows < cells


def _minority(by: Side, of: Side, evident: NDArray[np.bool_]) -> float:
    """Rows in evident values that the most frequent value of `of` would not explain."""
    return float(by.rows[evident].sum()) * (1.0 - float(of.rows.max()) / float(of.rows.sum()))


def _tells(by: Side, of: Side, sigma: float) -> bool:
    """Whether a table of two columns with so much noise tells if one follows from the other."""
    evident = _evident(by, of, sigma)
    if float(by.rows[evident].sum()) < COVERED * float(by.rows.sum()):
        return False
    error, _ = _error_off(by, of, int(evident.sum()), sigma)
    return Z * error <= HIDDEN * _minority(by, of, evident)


def read_function(by: Side, of: Side, table: Array, sigma: float, *, sure: bool = True) -> Found | None:
    """The function that a noisy table of two columns shows; None where it shows none.

    Args:
        by: What determines, the rows of the table.
        of: What follows.
        table: Noisy counts of the rows with both values, shape [present of `by`, present of `of`].
        sigma: Standard deviation of the noise of each.
        sure: Whether rows off the function that the noise may hide count as such; where the pair is looked at
            once more, they need not.
    """
    evident = _evident(by, of, sigma)
    held = float(by.rows[evident].sum())
    if held < COVERED * float(by.rows.sum()):
        return None
    lookup = table.argmax(axis=1).astype(np.int64)
    on = table[np.arange(len(lookup)), lookup]
    error, by_rows = _error_off(by, of, int(evident.sum()), sigma)
    # Whichever way of counting a line's rows has less noise.
    lines = by.rows if by_rows else table.sum(axis=1)
    off = float((lines - on)[evident].sum())
    if off + (Z if sure else -Z) * error > TOLERATED * _minority(by, of, evident):
        return None
    # A value with a second evident cell is left free, and so is one whose rows the noise hides.
    bar = (Z + math.sqrt(2.0 * math.log(max(table.shape[1], 2)))) * sigma
    # The second largest cell of each line.
    rest = table.copy()
    rest[np.arange(len(lookup)), lookup] = -math.inf
    lookup[~(evident & (on > bar) & (rest.max(axis=1) <= bar))] = -1
    total = max(off + float(on[evident].sum()), 1.0)
    return Found(by, of, lookup, round_share(1.0 - off / total, error / total))


class Dependencies:
    """Finds columns that follow from others.

    **Privacy.** Unit and adjacency: the ledger's. All looks are tables of counts over the codes of two
    columns whose schema was released before; which pairs are looked at, and what is made of them, follows
    from released numbers only.

    1. *dependencies* among m pairs of columns: a row lies in exactly one cell of each pair's table, by its
       own two values (`Engine`: additive). Between neighbours each table moves by at most S in L2, where
       S^2 = `Neighbours.marginal_l2_squared`; the m tables together are one vector that moves by at most
       sqrt(m S^2), and that is what its one event declares.
    2. *dependency* of a column on another: one such table, so one marginal, priced as that.

    The rule that is made says nothing about a single row: rows that break it are counted like all others.

    Args:
        source: The private table.
        gaussian: The mechanism for one table.
        look: Takes the looks at single pairs: prices, records and adds the noise.
        fixed: Names of columns that follow from none, as public columns do: others may follow from them.
    """

    def __init__(
        self,
        source: Source,
        gaussian: Gaussian,
        look: Look,
        fixed: Collection[str] = (),
    ) -> None:
        self._source = source
        self._gaussian = gaussian
        self._look = look
        self._fixed = frozenset(fixed)

    def run(
        self, schema: Schema, released: Sequence[NoisyMarginal], rho: Fraction
    ) -> tuple[Schema, list[NoisyMarginal]]:
        """The schema with a rule for each dependency found, and the marginals that still fit it.

        Args:
            schema: All known.
            released: One-way marginals of its columns.
            rho: What may be spent; what is not needed is left.
        """
        share = rho * SCREEN
        sides = _sides(schema, released)
        pairs = find_pairs(sides, lambda m: self._gaussian.joint(m).sigma(share), self._fixed)
        if not pairs:
            return schema, list(released)
        seen, sigma, spent = self._screen(pairs, share)
        # A pair that passes is looked at once more, so the first look may give the benefit of the noise.
        read = [
            read_function(*pair, table, sigma, sure=False) for pair, table in zip(pairs, seen, strict=True)
        ]
        links = choose_parents([one for one in read if one is not None])
        each = min((rho - spent) / max(len(links), 1), rho * (1 - SCREEN) / FEW)
        kept = []
        for link in links:
            again = self._examine(link, seen[pairs.index((link.by, link.of))], sigma, each)
            kept += [] if again is None else [again]
        return _with_rules(schema, list(released), kept)

    def _screen(
        self, pairs: Sequence[tuple[Side, Side]], rho: Fraction
    ) -> tuple[list[Array], float, Fraction]:
        """The noisy table of each pair, sigma, and what that cost: no more than telling the pairs takes."""
        tables = list(dict.fromkeys(tuple(sorted((a.column.name, b.column.name))) for a, b in pairs))
        mechanism = self._gaussian.joint(len(tables))
        # Half of rho is enough as long as every pair still reads: what is saved goes to the second look.
        while all(_tells(*pair, mechanism.sigma(rho / 2)) for pair in pairs):
            rho /= 2
        columns = {side.column.name: side.column for pair in pairs for side in pair}
        what = f"dependencies among {len(tables)} pairs of columns"

        def exact() -> list[Longs]:
            return [np.concatenate([counts.ravel() for counts in self._count(columns, tables)])]

        (noisy,), sigma = mechanism.ask([what], rho, exact)
        shapes = [tuple(columns[name].size for name in names) for names in tables]
        parts = np.split(noisy, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        held = {n: part.reshape(shape) for n, part, shape in zip(tables, parts, shapes, strict=True)}
        return [_orient_table(held, by, of) for by, of in pairs], sigma, rho

    def _count(self, columns: Mapping[str, Column], cliques: Sequence[tuple[str, ...]]) -> list[Longs]:
        """Exact counts of the codes of some columns; called inside `Gaussian.ask` only."""
        names = sorted({name for clique in cliques for name in clique})
        engine = self._source.only(names).bind(Schema(tuple(columns[name] for name in names)))
        return [counts.reveal() for counts in engine.count(cliques)]

    def _examine(self, link: Found, first: Array, noise: float, rho: Fraction) -> Found | None:
        """Look at a pair once more, and read the function off both looks."""
        by, of = link.by.column, link.of.column
        clique = (by.name, of.name)

        def exact() -> Longs:
            return self._count({by.name: by, of.name: of}, [clique])[0].ravel()

        noisy, sigma = self._look(f"dependency of {of.name} on {by.name}", exact, rho, True)
        table = noisy.reshape(by.size, of.size)[: by.present, : of.present]
        # Weights by the inverse variance of the two looks.
        weight = noise**2 / (noise**2 + sigma**2)
        pooled = weight * table + (1.0 - weight) * first
        return read_function(link.by, link.of, pooled, sigma * math.sqrt(weight))


def _orient_table(held: Mapping[tuple[str, ...], Array], by: Side, of: Side) -> Array:
    """The table of a pair, the determining column first, without missing values."""
    names = by.column.name, of.column.name
    table = held[names] if names in held else held[names[::-1]].T
    return table[: by.column.present, : of.column.present]


def choose_parents(found: Sequence[Found]) -> list[Found]:
    """One dependency a column at most, on the column nearest to it in entropy; none leads back to itself.

    What follows from the links is left out: a state that follows from the county need not follow from the zip
    code as well.
    """
    sides = {side.column.name: side for one in found for side in (one.by, one.of)}

    def place(side: Side) -> tuple[float, bool, str]:
        """Columns of more entropy come first; of two that say the same a column of labels, then by name."""
        return -round(side.entropy, 1), not isinstance(side.column, Listed), side.column.name

    order = {name: i for i, name in enumerate(sorted(sides, key=lambda name: place(sides[name])))}
    links: dict[str, Found] = {}
    for one in found:
        name = one.of.column.name
        # A link leads from more entropy to less, so that links cannot close a circle.
        if order[one.by.column.name] < order[name]:
            nearer = links.get(name)
            if nearer is None or order[nearer.by.column.name] < order[one.by.column.name]:
                links[name] = one
    return sorted(links.values(), key=lambda one: order[one.of.column.name])


def _with_rules(
    schema: Schema, released: list[NoisyMarginal], found: Sequence[Found]
) -> tuple[Schema, list[NoisyMarginal]]:
    """The schema under the rules that dependencies make, numbers that follow with one code a value."""
    rules = {one.of.column.name: rule for one in found if (rule := _rule_of(one)) is not None}
    recut = [
        one.of.column for one in found if one.of.column.name in rules and isinstance(one.of.column, Binned)
    ]
    # Marginals over bins that no longer exist would not fit the schema.
    changed = {c.name for c in recut if c.edges != _edges_of(schema, c.name)}
    schema = schema.replace(recut)
    kept = [m for m in released if not changed & set(m.clique)]
    every = frozenset(schema.names)
    return apply_rules(schema.columns, (*schema.rules, *rules.values()), every), kept


def _edges_of(schema: Schema, name: str) -> tuple[float, ...] | None:
    column = schema[name]
    return column.edges if isinstance(column, Binned) else None


def _rule_of(found: Found) -> Rule | None:
    """The rule that says what was found; None where none can."""
    by, of, lookup = found.by.column, found.of.column, found.lookup
    said = np.flatnonzero(lookup >= 0)
    if isinstance(by, Listed) and isinstance(of, Listed):
        names = [*(of.values or ()), *([None] * len(of.stems)), *([of.other] if of.other is not None else [])]
        table = [((by.values or ())[code], names[lookup[code]]) for code in said]
        table = [(value, follows) for value, follows in table if follows is not None]
        return Determines(of.name, by.name, tuple(table), share=found.share) if table else None
    if isinstance(by, Listed) and isinstance(of, Binned):
        starts = of.edge_array[:-1]
        ends = [
            ((by.values or ())[code], int(starts[lookup[code]]), int(starts[lookup[code]])) for code in said
        ]
        return Within(of.name, by.name, tuple(ends), share=found.share) if ends else None
    if isinstance(by, Binned) and isinstance(of, Listed):
        ranges = _ranges(by.edge_array[:-1][said], lookup[said], len(of.values or ()))
        spans = [((of.values or ())[code], low, high) for code, low, high in ranges]
        return Within(by.name, of.name, tuple(spans), share=found.share) if spans else None
    return None


def _ranges(starts: Array, codes: Longs, values: int) -> list[tuple[int, int | None, int | None]]:
    """The range of numbers that lead to each code, none where these lie among those of another.

    Numbers between two ranges, of which nothing is known, belong to both; the first and last have no end.
    """
    if not len(codes):
        return []
    # A code whose numbers form more than one run is no range.
    turns = np.flatnonzero(np.diff(codes)) + 1
    runs = np.split(np.arange(len(codes)), turns)
    order = [int(codes[run[0]]) for run in runs]
    # Code numbers beyond the listed values are `other` and missing, which have no range.
    if len(set(order)) != len(order) or max(order, default=0) >= values:
        return []
    found: list[tuple[int, int | None, int | None]] = []
    for place, code in enumerate(order):
        low = None if place == 0 else int(starts[runs[place - 1][-1]]) + 1
        high = None if place == len(runs) - 1 else int(starts[runs[place + 1][0]]) - 1
        found.append((code, low, high))
    return found
