"""Classes of numbers, as age groups or size classes, seen in measured tables: where each begins and ends.

A column of classes says in which of some ranges a number lies. In a measured table of the number's bins by
the classes each bin then has one class, or two or three beside each other where a class ends inside of it.
How the rows of such a bin are shared out, and how numbers lie in it, says where. What is found is a `Within`
rule that is not promised; rows are drawn by it (`margrave.schema.constraints.classes`).

Everything here is post-processing of released numbers.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from margrave.release import NoisyMarginal
from margrave.schema.calendar import find_date
from margrave.schema.columns import Binned, Boolean, Date, Integer, Listed, Temporal, Whole
from margrave.schema.constraints.draws import running_weights
from margrave.schema.constraints.rules import Within, find_ruled
from margrave.schema.schema import Schema
from margrave.tables.estimates import PooledTables

Floats = NDArray[np.float64]

LEAST_BINS, MOST_CLASSES = 4, 24
"""Bins of a number at least, and classes at most. With three bins what is near a number was taken for it."""
MOST_OFF, MOST_UNSURE = 0.08, 0.15
"""Share of the rows that may be in other cells than of classes, and the same with a deviation of its noise.
On tables of `bench/runs/classes.py` .06 and .07 of true ones at most from 8,000 rows on, and .2 and more of
what is near; a lift that all high houses have, and some others, is off by .14."""
LEAST_APART = 0.3
"""Share by which a table of two columns that have nothing to do with each other differs from that of classes,
at least: else anything would do."""
Z_SEEN, Z_EVIDENT = 2.0, 3.0
"""Noise standard deviations by which a class has to have rows, and to be before or behind another one, to be
placed; and those of a cell that says where."""
NO_GAP = 0.05
"""Part of a bin by which noise may move a class before another one in it. Not measured."""
LEAST_PART = 0.01
"""Share of a bin from which a class has rows there. Not measured."""
PARTS = 16
"""Places in a cell at which a class may end."""
LIKELY = 4.0
"""Twice the nats by which an end may be less likely than the likeliest, to be taken for being named in a
label or rounder. None of these constants but two was measured."""
THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
NUMBER = re.compile(r"\d[\d.,' ]*\d|\d")


def add_classes(
    schema: Schema, measurements: Sequence[NoisyMarginal], left_alone: Collection[str] = ()
) -> Schema:
    """The schema with a rule for each column of classes and each number that says them.

    Args:
        schema: Of the release.
        measurements: Its tables.
        left_alone: Names of columns of which none is sought, such as public ones.
    """
    held = {*find_ruled(schema.rules), *left_alone}
    told = {frozenset(rule.names) for rule in schema.rules if isinstance(rule, Within)}
    pairs = {
        m.clique
        for m in measurements
        if len(m.clique) == 2 and held.isdisjoint(m.clique) and frozenset(m.clique) not in told
    }
    tables: PooledTables | None = None
    found: list[Within] = []
    for pair in sorted(pairs):
        columns = [schema[name] for name in pair]
        for number, by in (columns, columns[::-1]):
            if not (isinstance(number, Binned) and _has_cells(number) and _may_be_classes(by)):
                continue
            assert isinstance(by, Listed)  # noqa: S101 - `_may_be_classes` says so
            tables = tables or PooledTables(schema.domain, measurements)
            clique = number.name, by.name
            classes = _compare(number, by, tables.table(clique), tables.variances(clique))
            if classes is not None:
                found.append(classes)
    return Schema(schema.columns, (*schema.rules, *found)) if found else schema


def _has_cells(column: Binned) -> bool:
    able = not isinstance(column, Temporal) or isinstance(column, Date)
    # Of keys each row has one of its own, whatever its class.
    able = able and not (isinstance(column, Integer) and column.unique)
    return able and column.attribute and column.present >= LEAST_BINS and sum(column.weights or ()) > 0


def _may_be_classes(column: object) -> bool:
    if not isinstance(column, Listed) or isinstance(column, Boolean) or column.values is None:
        return False
    return 2 <= len(column.values) <= MOST_CLASSES


def _compare(number: Binned, by: Listed, table: Floats, variances: Floats) -> Within | None:
    """The classes that a table [codes of the number, codes of the column] shows; None if they are none.

    Args:
        number: The number.
        by: The column of classes.
        table: Measured rows.
        variances: Of the noise in each cell, of the same shape.
    """
    values = by.values or ()
    counts, noise = (part[: number.present, : len(values)] for part in (table, variances))
    sizes = counts.sum(axis=0)
    seen = np.flatnonzero(sizes > Z_SEEN * np.sqrt(noise.sum(axis=0)))
    rows = float(counts[:, seen].sum())
    if len(seen) < 2 or rows <= 0:
        return None
    placed = _order_classes(counts[:, seen], noise[:, seen], [str(values[code]) for code in seen.tolist()])
    if placed is None:
        return None
    order = seen[placed]
    counts, noise = counts[:, order], noise[:, order]
    split = _Split.of(number)
    labels = [str(values[code]) for code in order.tolist()]
    ends = [
        split.find_end(counts, noise, upto, (labels[upto - 1], labels[upto])) for upto in range(1, len(order))
    ]
    if any(not low < high for low, high in pairwise(ends)):
        return None
    parts = np.diff([split.share_below(end) for end in (-math.inf, *ends, math.inf)], axis=0).T
    bins = counts.sum(axis=1, keepdims=True)
    expected, apart = parts * bins, bins * counts.sum(axis=0) / rows
    off, most = (
        _bound_errors(counts - expected, noise, parts > LEAST_PART, more) / rows for more in (0.0, 1.0)
    )
    chance = 0.5 * float(np.abs(apart - expected).sum()) / rows
    if off > MOST_OFF or most > MOST_UNSURE or chance < LEAST_APART:
        return None
    bounds = [split.bound(end) for end in ends]
    ranges = zip((values[code] for code in order.tolist()), (None, *bounds), (*bounds, None), strict=True)
    triples = tuple((value, low, split.before(high)) for value, low, high in ranges)
    share = round(1.0 - off, 4), round(max(most - off, 1e-4), 4)
    return Within(number.name, by.name, triples, share=share)


def _bound_errors(errors: Floats, noise: Floats, held: NDArray[np.bool_], deviations: float) -> float:
    """The most rows that are in other cells than of classes, without what noise makes of them.

    Squared errors less what noise makes of these, in so many cells, are so many rows at most; of cells that
    hold a class and of all others by themselves, since where there are many of the latter, errors in a few of
    the former would count as if they were in all.

    Args:
        errors: Measured rows less those of classes, shape [bins, classes].
        noise: The variance of its noise, likewise.
        held: The cells in which classes have rows, likewise.
        deviations: How many deviations are added to each sum of squares.
    """
    found = 0.0
    for cells in (held, ~held):
        squares = max(float((np.square(errors[cells]) - noise[cells]).sum()), 0.0)
        squares += deviations * math.sqrt(2.0 * float(np.square(noise[cells]).sum()))
        found += 0.5 * math.sqrt(int(cells.sum()) * squares)
    return found


def _order_classes(counts: Floats, noise: Floats, labels: Sequence[str]) -> NDArray[np.intp] | None:
    """The classes from those of the least numbers on; None where that cannot be told.

    By the bins that their rows are in; classes that share a bin only by the numbers in their labels, where
    these rise or fall with the bins.

    Args:
        counts: Measured rows by bin and class, shape [bins, classes].
        noise: Their variances, of the same shape.
        labels: Of the classes.
    """
    # Noise in bins far off would move the place of a small class: those where it is evident say it.
    evident = counts > Z_EVIDENT * np.sqrt(noise)
    held = np.where(evident | ~evident.any(axis=0), counts, 0.0)
    bins, sizes = np.arange(len(counts)), held.sum(axis=0)
    places = bins @ held / sizes
    far = np.square(bins[:, None] - places) * noise * (held != 0.0)
    doubts = np.sqrt(far.sum(axis=0)) / sizes
    order = np.argsort(places, kind="stable")
    unsure = Z_SEEN * np.hypot(doubts[order][1:], doubts[order][:-1])
    apart = np.diff(places[order]) > np.maximum(unsure, 1e-6)
    if apart.all():
        return order
    told = [_read_numbers([label]) for label in labels]
    if not all(told) or float(np.ptp(places)) < 1e-6:
        return None
    keys = np.array([float(np.mean(numbers)) for numbers in told])
    if len(np.unique(keys)) < len(keys):
        return None
    named = np.argsort(keys * float(np.sign(np.corrcoef(keys, places)[0, 1])), kind="stable")
    # Whatever bins tell apart has to be in the order of the labels as well.
    gaps = np.diff(places[named])
    agree = gaps > -np.maximum(Z_SEEN * np.hypot(doubts[named][1:], doubts[named][:-1]), NO_GAP)
    return named if agree.all() else None


@dataclass(frozen=True, slots=True)
class _Split:
    """How the rows of a number's bins lie below a place.

    Args:
        column: The number.
        edges: Of its bins, shape [bins + 1].
        fine: Of its cells, shape [cells + 1].
        running: Share of the rows below each of these, shape [cells + 1].
        able: Places at which a class may end, the least number of the class above, in order: shape [places].
        below: Share of each bin's rows below each of them, shape [places, bins].
    """

    column: Binned
    edges: Floats
    fine: Floats
    running: Floats
    able: Floats
    below: Floats

    @classmethod
    def of(cls, column: Binned) -> _Split:
        """That of a column whose cells are known."""
        # Where no rows are seen a class may end as well, anywhere: the weights grow there, too.
        fine, running = running_weights(column)
        running = running / running[-1]
        inner = fine[:-1, None] + np.diff(fine)[:, None] * np.arange(PARTS) / PARTS
        step = column.step or float(isinstance(column, Whole))
        # No class ends between two numbers that the column has.
        able = np.unique(np.ceil(inner / step - 1e-9) * step if step else inner)[1:]
        edges = np.asarray(column.edge_array, dtype=np.float64)
        return cls(column, edges, fine, running, able, _share_below(able, edges, fine, running))

    def share_below(self, end: float) -> Floats:
        """The share of each bin's rows below a place, shape [bins]."""
        return np.asarray(_share_below(np.array([end]), self.edges, self.fine, self.running)[0])

    def find_end(self, counts: Floats, noise: Floats, upto: int, labels: tuple[str, str]) -> float:
        """The least number above the first classes: by least squares, or one nearly as good that is rounder.

        Args:
            counts: Measured rows by bin and class, the classes in order: shape [bins, classes].
            noise: Their variances, of the same shape.
            upto: How many classes are below.
            labels: Of the classes on either side.
        """
        first, rows = counts[:, :upto].sum(axis=1), counts.sum(axis=1)
        misfit = (np.square(first - self.below * rows) / noise.sum(axis=1)).sum(axis=1)
        best = int(np.argmin(misfit))
        near = np.flatnonzero(misfit <= misfit[best] + LIKELY)
        low, high, likeliest = (float(self.able[place]) for place in (near[0], near[-1], best))
        if isinstance(self.column, Temporal):
            return likeliest
        named = [one for one in _read_numbers(labels) if low <= one <= high]
        if not named and isinstance(self.column, Whole):
            # As in "24 and younger".
            named = [one + 1.0 for one in _read_numbers(labels[:1]) if low <= one + 1.0 <= high]
        if named:
            return min(named, key=lambda one: abs(one - likeliest))
        return _round_between(low, high, likeliest, isinstance(self.column, Whole))

    def bound(self, end: float) -> int | float | str:
        """A place as a bound of the column."""
        if isinstance(self.column, Date):
            return find_date(int(end)).isoformat()
        return int(end) if isinstance(self.column, Whole) else end

    def before(self, bound: int | float | str | None) -> int | float | str | None:
        """The greatest number below a bound; None below none."""
        if isinstance(bound, str):
            return (datetime.date.fromisoformat(bound) - datetime.timedelta(days=1)).isoformat()
        if bound is None or isinstance(self.column, Whole):
            return None if bound is None else bound - 1
        step = self.column.step
        return round(bound - step, 9) if step >= 1e-6 else float(np.nextafter(bound, -math.inf))


def _share_below(ends: Floats, edges: Floats, fine: Floats, running: Floats) -> Floats:
    """The share of each bin's rows below each of some places, shape [places, bins]."""
    at, outer = np.interp(ends, fine, running), np.interp(edges, fine, running)
    held = np.maximum(np.diff(outer), 1e-300)
    return np.asarray(np.clip((at[:, None] - outer[:-1]) / held, 0.0, 1.0))


def _read_numbers(labels: Collection[str]) -> list[float]:
    """The numbers in labels, in order; a mark before three digits parts thousands, another one decimals."""
    texts = [text.replace(" ", "").replace("'", "") for label in labels for text in NUMBER.findall(label)]
    plain = [
        re.sub("[.,]", "", text) if THOUSANDS.fullmatch(text) else text.replace(",", ".") for text in texts
    ]
    return [float(text) for text in plain if text.count(".") < 2]


def _round_between(low: float, high: float, likeliest: float, whole: bool) -> float:
    """The multiple of the largest power of ten, or half of one, between two numbers, nearest to a third."""
    power = math.floor(math.log10(max(abs(low), abs(high), 1e-300))) + 1
    for exponent in range(power, power - 12, -1):
        for step in (10.0**exponent, 5.0 * 10.0 ** (exponent - 1)):
            place = min(max(round(likeliest / step), math.ceil(low / step)), math.floor(high / step))
            if math.ceil(low / step) <= math.floor(high / step) and (not whole or step >= 1):
                return round(place * step, max(-exponent + 1, 0))
    return likeliest
