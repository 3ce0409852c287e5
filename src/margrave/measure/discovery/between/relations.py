"""Relations of columns of numbers or dates, found under noise: order, equality, gaps, shares, sums, lines.

The first look compares pairs of columns in a few cells each, all pairs at once; where these and the released
means leave it open that a column is the sum of others, another looks at all such sums, and at the lines whose
constants a look before that has shown. What stands out
against columns that have nothing to do with each other is looked at more closely, and the one column then
coded by its difference from the other, or its quotient by it, where that is the shorter description.

Everything here is made from public things and released numbers only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence, Set
from fractions import Fraction
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.edges import relation_edges
from margrave.measure.discovery.between.lines import (
    Line,
    ask_beyond_equality,
    choose_constants,
    choose_lines,
    find_lines,
    find_means,
    list_tables,
)
from margrave.measure.discovery.between.links import (
    Candidate,
    Link,
    Pair,
    attach,
    choose_sums,
    eligible_columns,
    find_candidates,
    pair_up,
    round_share,
    share_equal,
)
from margrave.measure.discovery.between.orders import drop_implied, find_orders, list_open
from margrave.measure.discovery.between.products import find_products
from margrave.measure.discovery.between.trees import choose_links, list_gaps, pool_kept
from margrave.measure.discovery.bins import Cut, cut_differences
from margrave.measure.discovery.numeric import Look
from margrave.measure.discovery.occupancy import weigh_cells
from margrave.measure.discovery.ranges import choose_fineness
from margrave.measure.discovery.reach import AGAINST, find_reach, is_noise
from margrave.measure.discovery.values import are_single
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.partition import MIN_DEVIATIONS
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned, Integer, Relative, Whole
from margrave.schema.columns.binned import fade_factors
from margrave.schema.columns.relative import ABSENT_CELLS, Comparison, say_terms
from margrave.schema.constraints.rules import CalendarRule, FlagCount, Ordered
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY

if TYPE_CHECKING:
    from margrave.protocols import Source

Array = NDArray[np.float64]


def resolution(edges: Array, weights: Array) -> float:
    """The width below which differences do not matter: a thousandth of the middle 80 % of a histogram."""
    running = np.cumsum(weights) / weights.sum()
    low, high = (float(edges[int(np.searchsorted(running, part))]) for part in (0.1, 0.9))
    widest = float(edges[-1] - edges[0])
    return max((high - low) / 1000.0, widest * 1e-9, 1e-300)


def description_length(edges: Array, weights: Array, least: float) -> float:
    """Differential entropy of a histogram in nats, no cell narrower than `least`.

    Args:
        edges: Of the cells, shape [cells + 1].
        weights: Rows in each, not negative, some positive, shape [cells].
        least: The least width of a cell.
    """
    share = weights / weights.sum()
    held = share > 0
    widths = np.maximum(np.diff(edges), least)
    return float(-(share[held] * np.log(share[held] / widths[held])).sum())


def bounds_of(column: Binned) -> tuple[float, float]:
    """Least and greatest number that a column is drawn from, the last edge of whole numbers left out."""
    edges, held = column.edge_array, np.flatnonzero(np.asarray(column.weights or ()) > 0)
    if column.fine is not None and len(held):  # declared bounds may lie far outside the rows
        edges = np.asarray(column.fine, dtype=np.float64)[held[0] : held[-1] + 2]
    return float(edges[0]), float(edges[-1]) - isinstance(column, Whole)


SHARE = Fraction(1, 5)
"""Share of discovery's rho for relations, where there are columns that may have any."""
SCREEN = Fraction(1, 3)
"""Share of that for the first look, at all pairs."""
SUMS, MOST_SUMS, MOST_SUM_SCANS = Fraction(1, 6), 200, 20
"""Share of that for the look at sums, at most and where any may hold; and most sums that it is taken of."""
MOST_PRODUCTS, LEAST_PRODUCTS = 100, 4
"""Most products among them, half of what means and lines leave, and the part that is theirs at least: of many
columns sums alone fill the look."""
LINES, MOST_LINES = Fraction(1, 12), 200
"""Share of relations' rho for the look at lines, and again for that at their constants, at most and where any
are left open; and most tables of either. Their noise is as that of the look at sums."""
SUM_NOISE, SUM_FINE = 10.0, 25.0
"""The look at sums is taken of as many as leave its noise below the rows over SUM_NOISE: a sum that is exact
in all rows is then five deviations above the half that it has to hold in, where three are asked for. Less
noise than the rows over SUM_FINE is not bought: with SUM_NOISE there a total was missed, bench/LOG.md."""
ORDERS, MOST_ORDERS = Fraction(1, 12), 20
"""Share of that for the look at orders that the first one leaves open, and most of them."""
ORDER_NOISE, ORDER_FINE = 50.0, 1_000.0
"""The look at orders is taken of as many as leave its noise below the rows over ORDER_NOISE, a fifth of the
tenth that may break one. No less than over ORDER_FINE is bought. Neither measured."""
FEW = 6
"""A second look costs at most one of FEW parts of the rest."""
MOST_PAIRS, MOST_SCANS = 2_000, 200
"""Pairs in the first look: one scan of the rows each where the engine has them, one query each where not."""
NOISE = 20.0
"""The first look is taken of as many pairs as leave its noise below the rows over NOISE."""
SAVED, SAVED_APART = 0.15, 0.65
"""Nats by which the coding has to be shorter than the column's own bins, and where the column may lie on
either side of its base. What saves less is a difference that depends much on the base: balances of which some
are paid in full save .2 to .5, and their pairs are a quarter further off with differences than without; walks
and readings around a mean save .8 to 2.1, and theirs are a fifth to a third closer (bench/LOG.md)."""
BINS = 32
"""Most bins of a difference or quotient."""
MIN_KEPT = 0.9
"""Least noisy share of the rows with both values that are on the side of a base where a relation has them.
In 120 releases of tables without relations one of seven false finds is left, and two where a standard error
is allowed for (bench/LOG.md, 2026-11-30)."""
WIDE, MANY = 6.0, 100.0
"""Ratio of the upper to the lower tenth, and size, from which a base is divided by and not subtracted."""

Question = tuple[Binned, Sequence[Binned], Comparison, Array]
"""A column, its base or the columns whose sum that is, how they are compared, and the edges of the cells."""


class Relations:
    """Finds relations and codes columns by them.

    **Privacy.** Unit and adjacency: the ledger's. All looks are tables of counts over cells fixed before the
    look, from public things and earlier releases. Which relations are looked at, and what is made of them,
    follows from released numbers only.

    1. *comparisons* of m pairs of columns: for each pair a table of a few cells of the difference and three
       for rows in which a value is missing (`count_relation`). A row is in exactly one cell of each table, by
       its own two values. Between neighbours each table moves by at most S in L2, where S^2 =
       `Neighbours.marginal_l2_squared`; the m tables together are one vector that moves by at most
       sqrt(m S^2), and that is what its one event declares.
    2. *comparisons* of m columns with sums, products or quotients of others, or with lines of these, the
       same: these are of a row's own values, a row with a part missing or a divisor of 0 is in a cell of its
       own, and so each row is in exactly one cell of each table. Which are looked at, and with which
       constants, follows from the looks before and the columns' released cells.
    3. *lines* and their *constants*, m tables at a time, the same once more: a row's quotient, or its
       difference from a multiple, is in exactly one cell of each table. Which pairs of columns, multiples and
       cells follows from the columns' released cells, for the constants from the look at lines as well.
    4. *relation* of a column to its base: one such table with finer cells, so one marginal, priced as that.
    5. *orders* of m pairs of dates that the first look leaves open: m tables of three cells, as in 1.

    Args:
        source: The private table.
        gaussian: The mechanism for one table.
        look: Takes the second looks: prices, records and adds the noise.
        cutting: Least mass of a bin, and most bins, from the denoised counts.
        rows: A released guess of the row count, and its variance.
        fixed: Names of columns that keep their own bins, as public columns do: others may be coded relative
            to them, and they to none. They are read without the private columns (`PublicPart`).
    """

    def __init__(
        self,
        source: Source,
        gaussian: Gaussian,
        look: Look,
        cutting: tuple[Callable[[Array], float], Callable[[Array], int]],
        rows: tuple[float, float],
        fixed: Collection[str] = (),
    ) -> None:
        self._source = source
        self._gaussian = gaussian
        self._look = look
        self._least, self._most = cutting
        self._rows = rows
        self._fixed = frozenset(fixed)

    def run(
        self, schema: Schema, rho: Fraction, bounded: Collection[str] = ()
    ) -> tuple[Schema, list[NoisyMarginal]]:
        """The schema with columns coded anew and orders of dates, and the second looks as measurements.

        Args:
            schema: All known.
            rho: What may be spent; what is not needed is left.
            bounded: Columns whose bounds are declared: no value is drawn outside them.
        """
        pairs = self._pairs(schema, rho * SCREEN)
        if not pairs:
            return schema, []
        asked = [(pair.column, (pair.base,), pair.comparison, pair.edges) for pair in pairs]
        what = f"comparisons of {len(pairs)} pairs of columns"
        noisy, sigma = self._compare_all(what, asked, rho * SCREEN)
        links, spent = self._choose_links(schema, pairs, noisy, sigma, rho)
        joined = {frozenset((link.column, link.base)) for link in links}
        undecided = list_open(pairs, noisy, sigma, joined, self._fixed)
        spent += rho * ORDERS if undecided else 0
        each = min(rho * (1 - SCREEN) / max(len(links), FEW), (rho - spent) / max(len(links), 1))
        columns: dict[str, Binned] = {c.name: c for c in schema.columns if isinstance(c, Binned)}
        found, measured = [], []
        for link in links:
            bases = [columns[name] for name in (link.base, *link.others)]
            outcome = self._examine(columns[link.column], bases, link, each)
            if outcome is None:
                continue
            share = pool_kept(outcome[0], pairs, noisy, sigma)
            if share is None or share[0] >= MIN_KEPT:
                kept = outcome[0].share if share is None else round_share(*share)
                found.append(dataclasses.replace(outcome[0], share=kept, within=link.column in bounded))
                measured.append(outcome[1])
        still = {name for column in found for name in column.bases} | self._fixed
        coded = {frozenset((column.name, name)) for column in found for name in column.bases}
        apart = [frozenset((pair.column.name, pair.base.name)) not in coded for pair in pairs]
        orders = find_orders([*compress(pairs, apart)], [*compress(noisy, apart)], sigma, still)
        orders += self._ask_orders(undecided, still, rho * ORDERS)
        schema = schema.replace(found)
        return Schema(schema.columns, (*schema.rules, *drop_implied(orders, columns))), measured

    def _ask_orders(self, undecided: Sequence[Pair], still: Set[str], rho: Fraction) -> list[Ordered]:
        """The orders of dates that a look of their own shows, where the first one left them open."""
        asked = [pair for pair in undecided if not {pair.base.name, pair.column.name} <= still]
        seen = self._gaussian.count_tables(rho, max(self._rows[0], 0.0) / ORDER_NOISE)
        asked = asked[: min(seen, MOST_ORDERS)]
        if not asked:
            return []
        cost = self._gaussian.joint(len(asked)).find_cost(rho, max(self._rows[0], 1.0) / ORDER_FINE)
        wanted = [(pair.column, (pair.base,), pair.comparison, pair.edges) for pair in asked]
        noisy, sigma = self._compare_all(f"orders of {len(asked)} pairs of dates", wanted, cost)
        return find_orders(asked, noisy, sigma, still)

    def _pairs(self, schema: Schema, rho: Fraction) -> list[Pair]:
        """As many pairs as can be seen at the noise that rho buys for all of them together."""
        most = MOST_PAIRS if self._source.holds_rows else MOST_SCANS
        seen = self._gaussian.count_tables(rho, max(self._rows[0], 0.0) / NOISE)
        return pair_up(self._eligible(schema), min(most, seen), self._fixed)

    def _eligible(self, schema: Schema) -> list[Binned]:
        # The end of a period follows from its date, a count from its flags, and is no base for that either.
        ends = {one.number for one in schema.rules if isinstance(one, CalendarRule) and one.tells_date}
        ends |= {one.number for one in schema.rules if isinstance(one, FlagCount)}
        names = self._source.comparable - ends
        return [column for column in eligible_columns(schema) if column.name in names]

    def _choose_links(
        self, schema: Schema, pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float, rho: Fraction
    ) -> tuple[list[Link], Fraction]:
        """The relations that stand out in the looks, and what was spent of rho, sums, products and lines."""
        most = MOST_SUMS if self._source.holds_rows else MOST_SUM_SCANS
        most = min(most, self._gaussian.count_tables(rho * SUMS, max(self._rows[0], 0.0) / SUM_NOISE))
        columns = self._eligible(schema)
        lines, spent = self._find_lines(columns, rho)
        candidates = [*find_means(columns, self._fixed), *lines][: most - most // LEAST_PRODUCTS]
        candidates = ask_beyond_equality(candidates, share_equal(pairs, noisy))
        left = most - len(candidates)
        few = min(max(left // 2, most // LEAST_PRODUCTS), MOST_PRODUCTS)
        products = find_products(columns, pairs, noisy, sigma, few, self._fixed)
        candidates += find_candidates(pairs, noisy, sigma, left - len(products), self._fixed) + products
        spent += rho * SCREEN
        if not candidates:
            return choose_links(pairs, noisy, sigma, self._fixed), spent
        what = f"comparisons of {len(candidates)} columns with sums or products of others, or lines"
        wanted = [(one.total, one.parts, one.comparison, one.edges) for one in candidates]
        counts, spread, cost = self._compare_surely(what, wanted, rho * SUMS)
        sums = choose_sums(candidates, counts, spread, self._fixed)
        return _join_links(sums, pairs, noisy, sigma, self._fixed), spent + cost

    def _find_lines(self, columns: Sequence[Binned], rho: Fraction) -> tuple[list[Candidate], Fraction]:
        """The lines whose constants rows pile up at, and what was spent of rho to see it."""
        most = MOST_LINES if self._source.holds_rows else MOST_SUM_SCANS
        most = min(most, self._gaussian.count_tables(rho * LINES, max(self._rows[0], 0.0) / SUM_NOISE))
        lines, spent = find_lines(columns, most, self._fixed), Fraction(0)
        if lines:
            counts, spread, spent = self._look_at_lines(f"lines through {len(lines)} pairs", lines, rho)
            lines = list_tables(choose_lines(lines, counts, spread), most)
        if not lines:
            return [], spent
        counts, spread, cost = self._look_at_lines(f"constants of {len(lines)} lines", lines, rho)
        return choose_constants(lines, counts, spread, self._fixed), spent + cost

    def _look_at_lines(
        self, what: str, lines: Sequence[Line], rho: Fraction
    ) -> tuple[list[Array], float, Fraction]:
        asked = [(line.column, (line.base,), line.comparison, line.edges) for line in lines]
        return self._compare_surely(what, asked, rho * LINES)

    def _compare_surely(
        self, what: str, asked: Sequence[Question], rho: Fraction
    ) -> tuple[list[Array], float, Fraction]:
        """As `_compare_all`, and the part of rho that it took, next to none for few tables of many rows."""
        least = max(self._rows[0], 1.0) / SUM_FINE
        cost = self._gaussian.joint(len(asked)).find_cost(rho, least)
        return *self._compare_all(what, asked, cost), cost

    def _compare_all(self, what: str, asked: Sequence[Question], rho: Fraction) -> tuple[list[Array], float]:
        """Several comparisons as one vector: the noisy counts of each, and sigma."""
        mechanism = self._gaussian.joint(len(asked))

        def exact() -> list[NDArray[np.int64]]:
            return [np.concatenate([self._count_differences(*question) for question in asked])]

        (noisy,), sigma = mechanism.ask([what], rho, exact)
        ends = np.cumsum([len(edges) - 1 + ABSENT_CELLS for _, _, _, edges in asked])
        return np.split(noisy, ends[:-1]), sigma

    def _count_differences(
        self, column: Binned, bases: Sequence[Binned], comparison: Comparison, edges: Array
    ) -> NDArray[np.int64]:
        base, *others = (one.name for one in bases)
        return self._source.differences(column.name, base, comparison, edges, others).reveal()

    def _examine(
        self, column: Binned, bases: Sequence[Binned], link: Link, rho: Fraction
    ) -> tuple[Relative, NoisyMarginal] | None:
        """Look at a relation closely; None where the column's own bins say as much about it."""
        comparison = _comparison(column, bases, link)
        fineness = choose_fineness(self._rows[0], self._gaussian.sigma(rho))
        # What divides may come near 0; a column that is a quotient in most rows is as wide as that.
        joined = bounds_of(column) if comparison.powers else _join_bounds(bases, comparison)
        ends = _in_unit(joined, comparison)
        edges = relation_edges(comparison, bounds_of(column), ends, link.sign, fineness)

        def exact() -> NDArray[np.int64]:
            return self._count_differences(column, bases, comparison, edges)

        words = say_terms([base.name for base in bases], comparison.joint, comparison.powers)
        words = f"a line of {words}" if comparison.is_line else words
        what = f"relation of {column.name} to {words}"
        noisy, sigma = self._look(what, exact, rho, True)
        cells = noisy[: len(edges) - 1]
        inside = float(cells.sum())
        if inside <= MIN_DEVIATIONS * sigma * math.sqrt(len(cells)):
            return None
        first, last = _sides(edges, cells, sigma, comparison)
        weights = np.zeros(len(cells))
        even = np.full(last - first, inside / (last - first))
        weights[first:last] = weigh_cells(cells[first:last], sigma, even)
        # As of a column's own numbers: far out, what noise leaves would ruin the mean of a stay.
        reach = find_reach(weights, sigma, edges)
        weights *= fade_factors(edges, reach)
        least = SAVED if link.sign or link.is_total else SAVED_APART
        if _nats_saved(column, bases[0], comparison, edges, weights) < least:
            return None
        most = max(column.present, min(self._most(weights), BINS))
        alone = are_single(edges, float(comparison.whole))
        pieces = cut_differences(edges, weights, most, self._least(weights), alone)
        if _tells_less(column, comparison, pieces):
            return None
        names, seen = [base.name for base in bases], (edges, noisy, sigma)
        found, marginal = _code_relation(column, names, bases[0].read, comparison, pieces, seen)
        ends = (first == 0, last == len(cells))
        part = dataclasses.replace(found.part, noise=sigma, reach=reach, unbounded=ends)
        return dataclasses.replace(found, part=part), marginal


def _join_bounds(bases: Sequence[Binned], comparison: Comparison) -> tuple[float, float]:
    """Least and greatest number of what the bases make together."""
    corners = np.meshgrid(*(np.asarray(bounds_of(base)) for base in bases))
    ends = comparison.join_terms(corners) if comparison.joint else corners[0]
    return float(ends.min()), float(ends.max())


def _join_links(
    sums: Sequence[Link],
    pairs: Sequence[Pair],
    noisy: Sequence[Array],
    sigma: float,
    fixed: Collection[str],
) -> list[Link]:
    """The sums, the relations between columns that are no totals, and those of totals with other columns."""
    totals = {link.column for link in sums}
    seen = list(zip(pairs, noisy, strict=True))
    apart = [bool(totals & {pair.base.name, pair.column.name}) for pair in pairs]
    plain = [entry for entry, with_total in zip(seen, apart, strict=True) if not with_total]
    links = choose_links([pair for pair, _ in plain], [counts for _, counts in plain], sigma, fixed)
    more = [
        link
        for (pair, counts), with_total in zip(seen, apart, strict=True)
        if with_total
        for link in choose_links([pair], [counts], sigma, fixed)
    ]
    more.sort(key=lambda link: -link.score)
    return attach(sums, links, more, list_gaps(pairs, noisy), fixed)


def _comparison(column: Binned, bases: Sequence[Binned], link: Link) -> Comparison:
    """By quotient where a column stays on one side of a base that is positive and spread wide, else not."""
    if link.is_total:
        return Comparison.with_terms(column, bases, link.joint, link.line, link.share_of, link.powers)
    (base,) = bases
    plain = Comparison.between(column, base)
    if plain.read != "number" or not link.sign or column.edge_array[0] < 0 or base.edge_array[0] < 0:
        return plain
    low, high = (_quantile(base, part) for part in (0.1, 0.9))
    small = isinstance(base, Integer) and high < MANY
    if small or high < WIDE * max(low, 1e-300):
        return plain
    return Comparison.between(column, base, "quotient")


def _quantile(column: Binned, part: float) -> float:
    """A quantile of a column by the weights of its cells."""
    running = np.cumsum(column.weights or ())
    place = int(np.searchsorted(running, part * running[-1]))
    return float((column.fine or ())[min(place, len(running) - 1)])


def _in_unit(ends: tuple[float, float], comparison: Comparison) -> tuple[float, float]:
    """A base's ends in the column's unit."""
    if (comparison.base_read, comparison.read) == ("moment", "date"):
        return ends[0] // DAY, ends[1] // DAY
    if (comparison.base_read, comparison.read) == ("date", "moment"):
        return ends[0] * DAY, ends[1] * DAY
    return ends


def _sides(edges: Array, cells: Array, sigma: float, comparison: Comparison) -> tuple[int, int]:
    """The cells [first, last) without a side of the base on which next to no rows are."""
    first, last = 0, len(cells)
    middle = int(np.searchsorted(edges, 1.0 if comparison.how == "quotient" else 0.0))
    if comparison.how == "quotient":
        zero = int(np.searchsorted(edges, 0.0))
        first = zero if is_noise(cells[:zero], cells, sigma) else 0
    if is_noise(cells[:middle], cells, sigma):
        first = middle
    if is_noise(cells[middle + 1 :], cells, sigma):
        last = middle + 1
    if (comparison.base_read, comparison.read) == ("date", "moment"):
        day = int(np.searchsorted(edges, float(DAY)))
        last = min(last, day) if is_noise(cells[day:], cells, sigma) else last
    return (first, last) if first < last else (0, len(cells))


def _nats_saved(column: Binned, base: Binned, comparison: Comparison, edges: Array, weights: Array) -> float:
    """Nats by which a value is described more shortly relative to its base than by itself.

    The entropy of the column given its base is at most that of the difference, and for quotients that of the
    quotient plus the mean logarithm of the base, so what is saved is at most their mutual information.
    """
    own_edges, own = np.asarray(column.fine, dtype=np.float64), np.asarray(column.weights)
    if not own.sum() > 0 or not weights.sum() > 0:
        return 0.0
    least = max(resolution(own_edges, own), 1.0 if comparison.whole else 0.0)
    alone = description_length(own_edges, own, least)
    if comparison.how == "difference":
        return alone - description_length(edges, weights, least)
    fine, mass = np.asarray(base.fine, dtype=np.float64), np.asarray(base.weights)
    sizes = np.maximum((fine[:-1] + fine[1:]) / 2, least)
    growth = float((mass * np.log(sizes)).sum() / mass.sum())
    return alone - description_length(edges, weights, least / float(np.exp(growth))) - growth


def _tells_less(column: Binned, comparison: Comparison, pieces: Cut) -> bool:
    """Whether a column of few whole numbers, told apart by its own bins, would be told less by differences.

    What differences save is between the columns, and the codes of both say it as well; what their bins leave
    open is drawn whatever the base is. As a share of another column a few whole numbers, which a bin each
    tells apart, would be drawn beyond the greatest of them. Differences on both sides of the base say nothing
    but their size, which its own bins tell as well.
    """
    if comparison.how == "quotient" and isinstance(column, Whole):
        return len(column.fine or ()) <= BINS + 1
    if comparison.how != "difference" or not comparison.whole:
        return False
    fine, weights = np.asarray(column.fine, dtype=np.float64), np.asarray(column.weights)
    untold = nats_within(column.edge_array, fine, weights)
    on_both_sides = pieces.edges[0] < 0.0 and pieces.edges[-1] > 1.0
    return untold < SAVED and (
        on_both_sides or nats_within(pieces.edges, pieces.fine, pieces.weights) > untold
    )


def nats_within(bins: Array, fine: Array, weights: Array) -> float:
    """Entropy of whole numbers given the bins that they are in, in nats.

    Args:
        bins: Bin edges, shape [bins + 1].
        fine: Edges of the cells inside, shape [cells + 1].
        weights: Rows in each cell, not negative, shape [cells].
    """
    total = float(weights.sum())
    if total <= 0:
        return 0.0
    owner = np.clip(np.searchsorted(bins, fine[:-1], side="right") - 1, 0, len(bins) - 2)
    held = weights > 0
    within = np.bincount(owner, weights=weights, minlength=len(bins) - 1)[owner[held]]
    share, width = weights[held], np.maximum(np.diff(fine)[held], 1.0)
    return float(-(share * np.log(share / within / width)).sum()) / total


def _code_relation(
    column: Binned,
    bases: Sequence[str],
    base_read: str,
    comparison: Comparison,
    pieces: Cut,
    seen: tuple[Array, Array, float],
) -> tuple[Relative, NoisyMarginal]:
    """The column coded by its relation, and the look (edges, noisy counts, sigma) as a measurement of it."""
    edges, noisy, sigma = seen
    breaks = [0.0, 1.0] if comparison.how == "quotient" else [0.0]
    if comparison.read == "moment":
        breaks.append(float(DAY))
    inner = [at for at in breaks if at in set(pieces.fine.tolist())]
    bins = np.unique(np.concatenate([pieces.edges, inner]))
    kind = Relative.part_kind(comparison)
    part = kind(
        name=column.name,
        missing=False,
        strict=False,
        edges=tuple(bins.tolist()),
        fine=tuple(pieces.fine.tolist()),
        weights=tuple(pieces.weights.tolist()),
    )
    cells = len(edges) - 1
    base_only, column_only, neither = noisy[cells + 1], noisy[cells], noisy[cells + 2]
    missing = base_only + neither > MIN_DEVIATIONS * sigma * math.sqrt(2)
    alone = column_only > MIN_DEVIATIONS * sigma
    rows = max(float(noisy.sum()), 1.0)
    apart = max(MIN_DEVIATIONS * sigma, AGAINST * rows)
    found = Relative(
        name=column.name,
        base=bases[0],
        others=tuple(bases[1:]),
        joint=comparison.joint or "sum",
        factor=comparison.factor,
        offset=comparison.offset,
        share_of=comparison.share_of,
        powers=comparison.powers,
        base_read=base_read,
        how=comparison.how,
        own=dataclasses.replace(column, missing=bool(missing)),
        part=part,
        alone=bool(alone),
        follows=bool(missing and not alone and base_only <= apart and neither > 2 * apart),
        missing=bool(missing),
        strict=False,
        share=_share_within(part.edge_array, edges, noisy[:cells], sigma),
    )
    return found, _marginal(found, edges, noisy, sigma)


def _share_within(bins: Array, edges: Array, cells: Array, sigma: float) -> tuple[float, float]:
    """The noisy share of rows in the cells that the bins cover, and its standard error to first order."""
    within = (edges[:-1] >= bins[0]) & (edges[1:] <= bins[-1])
    total = max(float(cells.sum()), 1.0)
    share = min(max(float(cells[within].sum()) / total, 0.0), 1.0)
    counts = int(within.sum()), int((~within).sum())
    error = sigma * math.sqrt((1 - share) ** 2 * counts[0] + share**2 * counts[1]) / total
    return round_share(share, error)


def _marginal(column: Relative, edges: Array, noisy: Array, sigma: float) -> NoisyMarginal:
    """The look as a measurement of the codes: cells outside the bins join the end bins."""
    cells, ends = len(edges) - 1, column.part.edge_array
    owner = np.clip(np.searchsorted(ends, edges[:-1], side="right") - 1, 0, column.part.present - 1)
    values = np.bincount(owner, weights=noisy[:cells], minlength=column.part.present).astype(np.float64)
    counted = np.bincount(owner, minlength=column.part.present).astype(np.float64)
    if column.alone:
        values, counted = np.append(values, noisy[cells]), np.append(counted, 1.0)
    if column.missing:
        values, counted = np.append(values, noisy[cells + 1 :].sum()), np.append(counted, 2.0)
    return NoisyMarginal((column.name,), values, sigma * np.sqrt(counted))
