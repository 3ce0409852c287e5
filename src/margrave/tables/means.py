"""Means of sums over rows, from noisy tables: of one column's numbers, or of several columns' together.

What is averaged is a sum of products of the numbers of columns, over the rows of which one column has certain
codes: the one column itself in most cases, or what another column is made of (`tables.relative_means`). Each
product takes one table of the columns in it. The sums are linear functions of tables of different columns,
whose joint noise is known (`estimates.PooledTables`), and a mean is a ratio of two of them.

Beyond noise in counts a mean is off by what the numbers of bins are off: by noise in their cells and rows far
out, each as much as a sum follows the numbers of a code (its *effects*). And some rows may have numbers of
which no table tells: as many as are counted are supposed to lie off the others' mean by a standard deviation
at two standard errors (`UNTOLD`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.release import Release
from margrave.schema.columns import Column
from margrave.schema.domain import Clique
from margrave.tables.estimates import PooledTables, Term, labels_of
from margrave.tables.far import FarRows, find_far, is_open
from margrave.tables.numbers import (
    LINE_DOUBT,
    doubts_of,
    ranges_of,
    scores_of,
    variances_of,
    weigh_covariances,
    weight_doubts_of,
)
from margrave.tables.ratios import (
    Floats,
    GroupEstimates,
    NumberEstimate,
    Of,
    find_covariance,
    find_limits,
    normal_quantile,
)

TOGETHER = (
    "Ask a release that holds them together: method auto with one of them as its target, a larger epsilon or "
    "more rows. `table` says what the model makes of them."
)
"""What to do where no noisy table holds the columns of a question."""
UNTOLD = 0.5
"""Standard error of the mean of rows of which no table tells, in standard deviations of what is averaged: at
two of them it is one standard deviation off, as rows far out are as far off there (`tables.far.AT`)."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What stands for the codes of an attribute.

    Args:
        scores: The number of each, NaN where it has none: shape [codes].
        variances: Of the numbers that share a code, [codes].
        doubts: Variance of the noise in the number of a code, [codes].
        spared: What of it is told by `find_far`, [codes].
        least, greatest: Of all numbers.
        column: Whose they are, of as many codes or fewer; None for marks.
    """

    scores: Floats
    variances: Floats
    doubts: Floats
    spared: Floats
    least: float
    greatest: float
    column: Column | None = None

    @classmethod
    def certain(cls, scores: Floats) -> Numbers:
        """Numbers that all rows of a code have."""
        nothing = np.zeros(len(scores))
        return cls(scores, nothing, nothing, nothing, float(np.nanmin(scores)), float(np.nanmax(scores)))

    @classmethod
    def of_column(cls, column: Column, size: int | None = None) -> Numbers | None:
        """Those of a column; None if it has none.

        Args:
            column: Of the first codes.
            size: Codes of the attribute, where it has others behind those of the column.
        """
        scores = scores_of(column)
        if scores is None:
            return None
        ranges = ranges_of(column) or (scores, scores)
        least, greatest = float(np.nanmin(ranges[0])), float(np.nanmax(ranges[1]))
        doubts = doubts_of(column)
        spared = doubts - weight_doubts_of(column) if is_open(column) else np.zeros(column.size)
        after = (0, 0 if size is None else size - column.size)
        held = np.pad(scores, after, constant_values=np.nan)
        variances, doubts, spared = (np.pad(part, after) for part in (variances_of(column), doubts, spared))
        return cls(held, variances, doubts, spared, least, greatest, column)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which codes have a number, shape [codes]."""
        return np.asarray(~np.isnan(self.scores))

    @property
    def filled(self) -> Floats:
        """The numbers, 0 where a code has none: shape [codes]."""
        return np.where(self.present, self.scores, 0.0)

    def find_inside(self, effects: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """What each row of a code adds to sums by group, beyond the code's number, since what goes with the
        number inside a discovered bin is lost; and what is not known of the sums.

        Args:
            effects: By how much the sum of each group follows the number of a code: shape [groups, codes].
            rows: All rows of each code, none below 0, shape [codes].

        Returns:
            Shape [codes], to be added to the numbers; and the covariance of the sums, [groups, groups].
        """
        # A bin has one number in all groups, so that what noise makes of it is common to them.
        covariance = (effects * self.doubts) @ effects.T
        if self.column is None:
            return np.zeros(len(rows)), covariance
        own = rows[: self.column.size]
        added = weigh_covariances(self.column, own) / np.where(own > 0.0, own, 1.0)
        added = np.pad(added, (0, len(rows) - len(own)))
        doubt = LINE_DOUBT * (effects @ added)
        return added, np.asarray(covariance + np.outer(doubt, doubt))

    def find_far(self, tables: PooledTables, name: str) -> tuple[FarRows, FarRows]:
        """The rows beyond the lower and the upper end of the column; without error where there are none.

        Args:
            tables: Noisy ones, some of which hold the attribute.
            name: The attribute.
        """
        size, found = len(self.scores), None
        if self.column is not None:
            own = slice(self.column.size)
            found = find_far(self.column, tables.table((name,))[own], tables.variances((name,))[own])
        nowhere = np.zeros(size, dtype=np.bool_)
        if found is None:
            return FarRows(nowhere, 0.0, self.least), FarRows(nowhere, 0.0, self.greatest)
        low, high = (
            FarRows(np.pad(end.codes, (0, size - len(end.codes))), end.error, end.limit) for end in found
        )
        return low, high


@dataclass(frozen=True, slots=True)
class Product:
    """A constant times the numbers of one attribute, or of two.

    Args:
        names: The attributes.
        numbers: Of each.
        weight: The constant.
    """

    names: tuple[str, ...]
    numbers: tuple[Numbers, ...]
    weight: float = 1.0

    def span(self, ends: Sequence[tuple[float, float]] | None = None) -> tuple[float, float]:
        """The least and the greatest number there is, of numbers between these ends; None for the bins'."""
        own = [(one.least, one.greatest) for one in self.numbers] if ends is None else ends
        # Nothing times what has no end is nothing.
        corners = [
            0.0 if 0.0 in corner else self.weight * math.prod(corner) for corner in itertools.product(*own)
        ]
        return min(corners), max(corners)


@dataclass(frozen=True, slots=True)
class Averaged:
    """What is averaged, and over which rows.

    Args:
        name: The attribute that says which rows count.
        rows: Which of its codes, shape [codes].
        products: What is added up.
        offset: What is added to that.
        untold: Codes of rows that count as well, and of whose numbers no table tells: shape [codes].
        strays: Share of the rows whose numbers are others than the products say.
        remedy: What to do where no table holds the attributes.
    """

    name: str
    rows: NDArray[np.bool_]
    products: tuple[Product, ...]
    offset: float = 0.0
    untold: NDArray[np.bool_] | None = None
    strays: float = 0.0
    remedy: str = TOGETHER

    @classmethod
    def of_codes(cls, name: str, numbers: Numbers) -> Averaged:
        """An attribute's own numbers over the rows that have one."""
        return cls(name, numbers.present, (Product((name,), (numbers,)),))

    @property
    def held(self) -> bool:
        """Whether tables have to tell which rows count."""
        return not self.rows.all() or any(self.name in product.names for product in self.products)

    def span(self, ends: Sequence[Sequence[tuple[float, float]]] | None = None) -> tuple[float, float]:
        """The least and the greatest number there is.

        Args:
            ends: Those of the numbers in each product; None for those the bins have.
        """
        every = [None] * len(self.products) if ends is None else ends
        found = [product.span(own) for product, own in zip(self.products, every, strict=True)]
        return self.offset + sum(low for low, _ in found), self.offset + sum(high for _, high in found)


def estimate_means(
    release: Release, asked: Averaged, by: str | None, of: Of, level: float
) -> NumberEstimate | GroupEstimates:
    """The mean of what is asked, in all rows or by group, with intervals.

    Raises:
        InputError: No noisy table holds the columns, or a column is named twice.
        SchemaError: There is no such column.
    """
    found = _Means(release, asked, by)
    estimates = {label: found.bound(place, of, level) for place, label in enumerate(found.groups)}
    if by is None:
        return estimates[""]
    covariance = find_covariance(found.sums, found.noise(of), found.count)
    hidden = [not math.isfinite(found.limits(place, of, level)[1]) for place in range(found.count)]
    covariance[hidden] = covariance[:, hidden] = math.inf
    low, high = found.span
    return GroupEstimates(estimates, covariance, high - low)


class _Means:
    """The sums and the rows of each group, and what is not known of them.

    Args:
        release: Of the tables.
        asked: What is averaged.
        by: The attribute of the groups; None for one group of all rows.
    """

    def __init__(self, release: Release, asked: Averaged, by: str | None) -> None:
        used = {asked.name, *(name for one in asked.products for name in one.names)}
        if by in used:
            others = sorted(used - {asked.name})
            what = f"another column than {asked.name!r}"
            what += f", and than {', '.join(map(repr, others))}, by which it is coded" if others else ""
            raise InputError(invalid("by", what, "Name the column of the groups.", got=by))
        release.domain.shape((asked.name,) if by is None else (by, asked.name))
        self.asked = asked
        self.tables = PooledTables(release.domain, release.measurements)
        self.groups = ("",) if by is None else labels_of(release.schema, by)
        self.count = len(self.groups)
        self._by: Clique = () if by is None else (by,)
        self._rows = self._count_rows(asked.rows)
        self._parts = [_Part(self, product) for product in asked.products]
        terms = [term for part in self._parts for term in part.terms]
        terms.append(self._term_of_rows(asked.rows))
        self.sums = self.tables.values(terms, 2 * self.count)
        self._noise = self.tables.covariance(terms, 2 * self.count)
        self._centre = asked.offset + np.sum([part.centre for part in self._parts], axis=0)
        self.span = asked.span()
        self._squares = self._sum_squares()
        for part in self._parts:
            self._noise[: self.count, : self.count] += part.doubt
        untold = UNTOLD * self._count_untold() * np.sqrt(self._squares / np.maximum(self._rows, 1e-300))
        self._noise[np.arange(self.count), np.arange(self.count)] += untold**2

    def clique(self, names: Sequence[str]) -> Clique:
        """The groups and these attributes.

        Raises:
            InputError: No noisy table holds them.
        """
        clique = (*self._by, *names)
        if not self.tables.holds(clique):
            what = "held by a measured table"
            raise InputError(invalid("columns", what, self.asked.remedy, got=list(clique)))
        return clique

    def by_group(self, clique: Clique) -> Floats:
        """A table with the groups as its first axis, of one group where all rows are asked for."""
        table = self.tables.table(clique)
        return table if self._by else table[None]

    def spread(self, weights: Floats) -> Floats:
        """Weights of each group in the row of that group: shape [groups, groups if there are, ...]."""
        if not self._by:
            return weights
        found = np.zeros((self.count, *weights.shape))
        found[np.arange(self.count), np.arange(self.count)] = weights
        return found

    def _count_rows(self, codes: NDArray[np.bool_]) -> Floats:
        """Noisy rows of each group that have one of these codes, none below 0: shape [groups]."""
        if codes.all() and not self.asked.held:
            return np.asarray(np.maximum(self.by_group(self.clique(())), 0.0))
        table = self.by_group(self.clique((self.asked.name,)))
        return np.asarray((np.maximum(table, 0.0) * codes).sum(axis=1))

    def _term_of_rows(self, codes: NDArray[np.bool_]) -> Term:
        own = self.asked.held
        shape = (self.count, len(codes)) if own else (self.count,)
        weights = np.broadcast_to(codes.astype(np.float64), shape) if own else np.ones(shape)
        clique = self.clique((self.asked.name,) if own else ())
        return Term(clique, self.count + np.arange(self.count), self.spread(weights))

    def _count_untold(self) -> Floats:
        """Rows of each group of whose numbers no table tells, as a part of those that count: [groups]."""
        rows = self.asked.strays * self._rows + np.sum([part.absent for part in self._parts], axis=0)
        if self.asked.untold is not None:
            more = self._count_rows(self.asked.untold)
            rows += more * self._rows / np.maximum(self._rows + more, 1e-300)
        return np.asarray(np.minimum(rows, self._rows))

    def _sum_squares(self) -> Floats:
        """Squares of what the rows of each group are off their mean, summed: shape [groups].

        Products go together as their tables show, or as much as they can where no table holds both.
        """
        found = np.sum([part.squares for part in self._parts], axis=0)
        for one, other in itertools.combinations(self._parts, 2):
            both = np.sqrt(one.squares * other.squares)
            found = found + 2.0 * both * self._correlate(one, other)
        return np.asarray(np.maximum(found, 0.0))

    def _correlate(self, one: _Part, other: _Part) -> Floats | float:
        names = (*one.product.names, *other.product.names)
        clique = (*self._by, *names)
        if len(names) > 2 or names[0] == names[1] or not self.tables.holds(clique):
            return 1.0
        table = np.maximum(self.by_group(clique), 0.0)
        table = table * np.multiply.outer(one.present, other.present)
        rows = np.maximum(table.sum(axis=(1, 2)), 1e-300)
        first, second = one.product.numbers[0].filled, other.product.numbers[0].filled
        x, y = (table.sum(axis=2) @ first) / rows, (table.sum(axis=1) @ second) / rows
        xy = np.einsum("gij,i,j->g", table, first, second) / rows - x * y
        xx = (table.sum(axis=2) @ first**2) / rows - x**2
        yy = (table.sum(axis=1) @ second**2) / rows - y**2
        sign = math.copysign(1.0, one.product.weight * other.product.weight)
        known = (xx > 0.0) & (yy > 0.0)
        ratio = xy / np.sqrt(np.where(known, xx * yy, 1.0))
        return np.asarray(np.where(known, np.clip(sign * ratio, -1.0, 1.0), 1.0))

    def noise(self, of: Of) -> Floats:
        """Covariance of the sums and the rows: shape [2 groups, 2 groups]."""
        found: Floats = self._noise.copy()
        if of == "population":
            found[np.arange(self.count), np.arange(self.count)] += self._squares
        return found

    def limits(self, place: int, of: Of, level: float) -> tuple[float, float, float, float]:
        """As `find_limits`, of a group's numbers less their centre, but for rows far out."""
        own = self.noise(of)
        for part in self._parts:
            own[: self.count, : self.count] -= part.spared
        return find_limits(self.sums, own, place, self.count, level)

    def bound(self, place: int, of: Of, level: float) -> NumberEstimate:
        """The estimate of a group's mean, inside its range, and its interval, which is longer where rows may
        be far out."""
        ratio, (least, greatest) = self.limits(place, of, level), self.span
        centre = float(self._centre[place])
        value, lower, upper = (
            float(np.clip(centre + part, least, greatest)) for part in (ratio[0], *ratio[2:])
        )
        sides = [math.hypot(*(part.sides[place, side] for part in self._parts)) for side in (0, 1)]
        ends = self.asked.span([part.ends for part in self._parts])
        below, above = (normal_quantile(level) * error for error in sides)
        if below > 0.0:
            lower = max(value - math.hypot(value - lower, below), min(least, ends[0]))
        if above > 0.0:
            upper = min(value + math.hypot(upper - value, above), max(greatest, ends[1]))
        error = math.hypot(ratio[1], *(error / math.sqrt(2.0) for error in sides))
        return NumberEstimate(value, error, (lower, upper), level)


class _Part:
    """One product of what is averaged: its sum in the rows of each group that count, less its mean.

    Args:
        means: Of the whole.
        product: The constant and the attributes.

    Attributes:
        terms: Of the sums.
        centre: The mean of each group, shape [groups].
        present: Cells with a number, of the shape of the attributes.
        absent: Rows of each group without, shape [groups].
        squares: Squares of what the rows are off the mean, summed: shape [groups].
        doubt, spared: As of `Numbers`, covariances of the sums: [groups, groups].
        sides: Standard errors of the means from rows far out, below and above: [groups, 2].
        ends: The least and the greatest number of each attribute, with rows far out.
    """

    def __init__(self, means: _Means, product: Product) -> None:
        self.product = product
        numbers, asked = product.numbers, means.asked
        restricted = asked.name not in product.names and not asked.rows.all()
        names = (*product.names, asked.name) if restricted else product.names
        clique = means.clique(names)
        table = means.by_group(clique)
        mask = np.ones(table.shape[1:])
        if asked.name in names:
            axes = [1] * (table.ndim - 1)
            axes[names.index(asked.name)] = -1
            mask = mask * asked.rows.reshape(axes)
        counted, others = table * mask, (table * (1.0 - mask)).sum(axis=0)
        if restricted:
            counted, others = counted.sum(axis=-1), others.sum(axis=-1)
        self.present = np.asarray(np.ones((), dtype=np.bool_))
        for one in numbers:
            self.present = np.multiply.outer(self.present, one.present)
        plain = _clip(counted)
        held = plain * self.present
        effects = [self._find_effects(held, axis) for axis in range(len(numbers))]
        every = plain.sum(axis=0) + np.maximum(others, 0.0)
        rows = [
            every.sum(axis=tuple(a for a in range(len(numbers)) if a != axis)) for axis in range(every.ndim)
        ]
        cells = self._fill(means, effects, rows)
        inside = tuple(range(1, held.ndim))
        total = held.sum(axis=inside)
        some = np.where(total > 0.0, total, 1.0)
        self.centre = np.where(total > 0.0, (held * cells).sum(axis=inside) / some, product.span()[0])
        self.absent = (plain * ~self.present).sum(axis=inside)
        apart = cells - self.centre.reshape(-1, *[1] * len(inside))
        weights = apart * self.present
        weights = np.multiply.outer(weights, asked.rows.astype(np.float64)) if restricted else weights * mask
        self.terms = [Term(clique, np.arange(means.count), means.spread(weights))]
        own = (counted * self.present * apart).sum(axis=inside) / some
        left = (apart - own.reshape(-1, *[1] * len(inside))) ** 2 + self._find_variances()
        self.squares = np.maximum((counted * self.present * left).sum(axis=inside), 0.0)
        self._add_far(means, effects, rows, total)

    def _find_effects(self, held: Floats, axis: int) -> Floats:
        """By how much the sums follow the numbers of one attribute: shape [groups, codes]."""
        if held.ndim == 2:
            return np.asarray(self.product.weight * held)
        other = self.product.numbers[1 - axis].filled
        return np.asarray(self.product.weight * np.tensordot(held, other, ([2 - axis], [0])))

    def _fill(self, means: _Means, effects: Sequence[Floats], rows: Sequence[Floats]) -> Floats:
        """What a row of each cell adds to a sum, of the shape of the attributes; sets the doubts."""
        self.doubt = np.zeros((means.count, means.count))
        self.spared = np.zeros_like(self.doubt)
        scores, more = [one.filled for one in self.product.numbers], []
        for one, effect, every in zip(self.product.numbers, effects, rows, strict=True):
            added, doubt = one.find_inside(effect, every * one.present)
            more.append(added)
            self.doubt += doubt
            self.spared += (effect * one.spared) @ effect.T
        if len(scores) == 1:
            return np.asarray(self.product.weight * (scores[0] + more[0]))
        cells = np.multiply.outer(scores[0] + more[0], scores[1]) + np.multiply.outer(scores[0], more[1])
        return np.asarray(self.product.weight * cells)

    def _find_variances(self) -> Floats:
        """The variance of what the rows of a cell add, of the shape of the attributes."""
        square = self.product.weight**2
        if len(self.product.numbers) == 1:
            return np.asarray(square * self.product.numbers[0].variances)
        one, other = self.product.numbers
        first = one.filled**2 + one.variances
        second = other.filled**2 + other.variances
        both = np.multiply.outer(first, second) - np.multiply.outer(one.filled**2, other.filled**2)
        return np.asarray(square * both)

    def _add_far(
        self, means: _Means, effects: Sequence[Floats], rows: Sequence[Floats], total: Floats
    ) -> None:
        """Set what rows far out make of the means."""
        squares = np.zeros((means.count, 2))
        self.ends = []
        for name, one, effect, every in zip(
            self.product.names, self.product.numbers, effects, rows, strict=True
        ):
            far = one.find_far(means.tables, name)
            self.ends.append((min(one.least, far[0].limit), max(one.greatest, far[1].limit)))
            for side, end in enumerate(far):
                errors = end.errors(effect, every * one.present, total)
                turned = errors < 0.0  # what is far above makes a mean smaller
                squares[:, side] += np.where(turned, 0.0, errors) ** 2
                squares[:, 1 - side] += np.where(turned, errors, 0.0) ** 2
        self.sides = np.sqrt(squares)


def _clip(table: Floats) -> Floats:
    """Counts that are not negative; of tables of two attributes they sum to as many rows in each group."""
    found = np.maximum(table, 0.0)
    if table.ndim > 2:
        inside = tuple(range(1, table.ndim))
        total, clipped = np.maximum(table.sum(axis=inside), 0.0), found.sum(axis=inside)
        found = found * (total / np.maximum(clipped, 1e-300)).reshape(-1, *[1] * len(inside))
    return found
