"""Means, shares and quantiles of a release, of all rows or by group, with intervals from the known noise.

All are answered by noisy tables alone. A mean is a ratio of two linear functions of them, whose noise is
Gaussian with a known covariance, so its interval is that of a ratio of normal variables (Fieller 1954):
exact for the private table whatever the noise. Where noise told where a column's numbers end, rows far out
make the interval of its mean longer on their side (`tables.far`). A quantile's interval holds the bins whose
cumulative shares do not contradict it (Woodruff 1952). For the population from which rows were drawn the
variance of sampling is added.

The interval of a difference of two groups' quantiles holds all differences of pairs of bins that the counts
do not contradict together. For a group and a bin let t be the larger of: how many standard errors the sum at
the bin's beginning, (rows below it) - q (all rows), is above 0, and that at its end below 0; or 0. For the
bin that holds the quantile the first sum is at most 0 and the second at least 0, so t is above x with
probability at most 2 (1 - Phi(x)): t^2 is at most chi-square of 1 degree, in the stochastic order. Counts of
two groups are of different cells, with independent noise, and of different rows; so the two t^2 together are
at most chi-square of 2 degrees, which is above -2 ln(1 - level) with probability 1 - level. The pairs of bins
up to there hold the true pair with probability `level` at least, whatever the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.errors import InputError, invalid
from margrave.release import Release
from margrave.schema.columns import Binned, Column
from margrave.schema.columns.binned import MAX_SHARE_OUTSIDE
from margrave.schema.domain import Clique
from margrave.tables.estimates import PooledTables, Term, labels_of
from margrave.tables.far import FarRows, find_far, is_open
from margrave.tables.numbers import (
    LINE_DOUBT,
    doubts_of,
    find_label,
    ranges_of,
    refuse_numbers,
    scores_of,
    value_inside,
    variances_of,
    weigh_covariances,
    weight_doubts_of,
)

Floats = NDArray[np.float64]
Of = Literal["population", "table"]


@dataclass(frozen=True, slots=True)
class NumberEstimate:
    """A number that a release tells, with its uncertainty.

    Args:
        value: The estimate, unbiased but for being kept inside the column's range.
        standard_error: Of value; infinite where the noise hides how many rows there are, or how far out some
            of them are. Where an interval is longer on one side it is the root mean square of both sides'.
        interval: Lower and upper confidence limit.
        level: Of the interval.
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    level: float = 0.95

    def __str__(self) -> str:
        lower, upper = self.interval
        return f"{self.value:.6g} ({100 * self.level:g} % interval {lower:.6g} to {upper:.6g})"


@dataclass(frozen=True, slots=True)
class QuantileBins:
    """How far counts contradict that a quantile is in a bin.

    Args:
        least, greatest: The bins' ranges in order, shape [bins].
        against: t^2 of the head of this module, shape [bins]; 0 in one bin at least.
    """

    least: Floats
    greatest: Floats
    against: Floats

    def find_differences(self, other: QuantileBins, level: float) -> tuple[float, float]:
        """Limits of this quantile less another group's; see the head of this module.

        Args:
            other: Of a group that shares no row with this one.
            level: Probability, at least, that the limits hold the difference.
        """
        most = -2.0 * math.log1p(-level)
        mine, theirs = np.nonzero(self.against[:, None] + other.against[None, :] <= most)
        lower = (self.least[mine] - other.greatest[theirs]).min()
        return float(lower), float((self.greatest[mine] - other.least[theirs]).max())


@dataclass(frozen=True, slots=True, repr=False)
class GroupEstimates(Mapping[str, NumberEstimate]):
    """An estimate for each level of a column, and their differences.

    Args:
        groups: By the level's label.
        covariance: Of the estimates, in the order of groups, infinite for one whose rows noise hides; None
            for quantiles.
        span: The largest difference there can be.
        bins: Of quantiles, in the order of groups.
    """

    groups: Mapping[str, NumberEstimate]
    covariance: Floats | None = field(default=None)
    span: float = math.inf
    bins: tuple[QuantileBins, ...] = ()

    def __getitem__(self, label: str) -> NumberEstimate:
        """The estimate of a group.

        Raises:
            InputError: There is no such group.
        """
        if label not in self.groups:
            remedy = "Check the spelling."
            raise InputError(invalid("group", f"one of {list(self.groups)}", remedy, got=label))
        return self.groups[label]

    def __iter__(self) -> Iterator[str]:
        """Labels of the groups."""
        return iter(self.groups)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.groups)

    def difference(self, first: str, second: str) -> NumberEstimate:
        """The first group's number less the second's.

        The interval is normal for means and shares; for quantiles it is made of whole bins, and holds the
        difference at least as often as its level says (proved at the head of this module).

        Raises:
            InputError: There is no such group.
        """
        one, other = self[first], self[second]
        a, b = list(self.groups).index(first), list(self.groups).index(second)
        if self.covariance is None:
            if a == b:
                return NumberEstimate(0.0, 0.0, (0.0, 0.0), one.level)
            limits = self.bins[a].find_differences(self.bins[b], one.level)
            value = min(max(one.value - other.value, limits[0]), limits[1])
            error = math.hypot(one.standard_error, other.standard_error)
            return NumberEstimate(value, error, limits, one.level)
        covariance = self.covariance
        known = math.isfinite(covariance[a, a]) and math.isfinite(covariance[b, b])
        square = float(covariance[a, a] + covariance[b, b] - 2.0 * covariance[a, b]) if known else math.inf
        error = math.sqrt(max(square, 0.0))
        value, wide = one.value - other.value, _quantile(one.level) * error
        limits = (max(value - wide, -self.span), min(value + wide, self.span))
        return NumberEstimate(value, error, limits, one.level)

    def __repr__(self) -> str:
        return "\n".join(f"{label}: {estimate}" for label, estimate in self.groups.items())


def _quantile(level: float) -> float:
    return float(ndtri(0.5 + level / 2.0))


def estimate_mean(
    release: Release, name: str, by: str | None = None, *, of: Of = "population", level: float = 0.95
) -> NumberEstimate | GroupEstimates:
    """The mean of a column of numbers over rows that have one; see `Synthesis.mean`."""
    column = release.schema[name]
    numbers = scores_of(column)
    if numbers is None:
        raise refuse_numbers(column, "column", "Use `share` for its levels.")
    return _ratios(release, name, _Numbers.of_column(column, numbers), by, of, level)


def estimate_share(
    release: Release,
    name: str,
    value: object,
    by: str | None = None,
    *,
    of: Of = "population",
    level: float = 0.95,
) -> NumberEstimate | GroupEstimates:
    """The share of rows that hold a value; see `Synthesis.share`."""
    labels = labels_of(release.schema, name)
    wanted = find_label(release.schema[name], labels, value)
    if wanted is None:
        raise InputError(invalid("value", f"one of {list(labels)}", "Pick a level.", got=value))
    marks = np.asarray([float(label == wanted) for label in labels])
    return _ratios(release, name, _Numbers.certain(marks), by, of, level)


def estimate_quantile(
    release: Release,
    name: str,
    q: float = 0.5,
    by: str | None = None,
    *,
    of: Of = "population",
    level: float = 0.95,
) -> NumberEstimate | GroupEstimates:
    """A quantile of a column of numbers; see `Synthesis.quantile`."""
    _check(of, level)
    if not isinstance(q, float) or not 0.0 < q < 1.0:
        raise InputError(invalid("q", "above 0 and below 1", "Try q=0.5, the median.", got=q))
    column = release.schema[name]
    scores, ranges = scores_of(column), ranges_of(column)
    if scores is None or ranges is None:
        raise refuse_numbers(column, "column", "Use `share` for its levels.")
    order = np.argsort(scores, kind="stable")[: int((~np.isnan(scores)).sum())]
    tables, clique, groups = _tables(release, name, by)
    everyone = float(tables.table(clique)[..., order].sum())
    below = np.zeros((len(order), len(scores)))
    for k in range(len(order)):
        below[k, order[:k]] = 1.0  # shares below each bin, less q of all: 0 at the quantile
        below[k, order] -= q
    found, bins = {}, []
    for place, label in enumerate(groups):
        weights = below if by is None else _one_group(below, place, len(groups))
        terms = [Term(clique, np.arange(len(order)), weights)]
        sums = tables.values(terms, len(order))
        variances = np.diag(tables.covariance(terms, len(order))).copy()
        table = tables.table(clique) if by is None else tables.table(clique)[place]
        if of == "population":
            variances += q * (1.0 - q) * max(float(table[order].sum()), 0.0)
        least, greatest = ranges[0][order], ranges[1][order]
        if _takes_others(column):
            # Rows beyond a range count in its first and last bins. All of them may be of one group.
            beyond = MAX_SHARE_OUTSIDE * everyone / max(float(table[order].sum()), 1e-300)
            least[0] = -math.inf if q <= beyond else least[0]
            greatest[-1] = math.inf if 1.0 - q <= beyond else greatest[-1]
        errors = np.sqrt(variances)
        low, high = _possible_bins(sums, errors, level)
        lower, upper = float(least[low]), float(greatest[high])
        inside, part = _place(table[order], q)
        value = min(max(value_inside(column, int(order[inside]), part), lower), upper)
        error = (upper - lower) / (2.0 * _quantile(level))
        found[label] = NumberEstimate(value, error, (lower, upper), level)
        bins.append(QuantileBins(least, greatest, _contradict(sums, errors)))
    return found[""] if by is None else GroupEstimates(found, bins=tuple(bins))


def _contradict(sums: Floats, errors: Floats) -> Floats:
    """t^2 of the head of this module for each bin, shape [bins]. Nothing is below the first or above the
    last."""
    apart = sums[1:] / np.maximum(errors[1:], 1e-300)
    begins, ends = np.append(0.0, apart), np.append(-apart, 0.0)
    return np.asarray(np.maximum(np.maximum(begins, ends), 0.0) ** 2)


def _one_group(weights: Floats, place: int, groups: int) -> Floats:
    """The same weights in the row of one group: shape [r, groups, codes]."""
    spread = np.zeros((len(weights), groups, weights.shape[1]))
    spread[:, place] = weights
    return spread


def _takes_others(column: Column) -> bool:
    """Whether the first and the last bin of a column may hold rows whose numbers lie beyond them."""
    return isinstance(column, Binned) and not column.strict


def _possible_bins(sums: Floats, errors: Floats, level: float) -> tuple[int, int]:
    """The first and the last bin, in order, that may hold a quantile (Woodruff 1952).

    sums[k] estimates (rows below bin k) - q (all rows). The quantile is not below bin k unless the true sum
    at k + 1 is at least 0, nor above unless that at k is at most 0; each is refused at half of 1 - level.
    """
    wide = _quantile(level)
    after = np.append(sums[1:], np.inf) + wide * np.append(errors[1:], 0.0)
    before = np.append(-np.inf, sums[1:]) - wide * np.append(0.0, errors[1:])
    low = int(np.argmax(after >= 0.0))
    high = len(sums) - 1 - int(np.argmax(before[::-1] <= 0.0))
    return min(low, high), max(low, high)


def _place(counts: Floats, q: float) -> tuple[int, float]:
    """The bin, in order, in which noisy counts have a quantile, and the part of its rows below that."""
    total = float(counts.sum())
    shares = np.cumsum(counts) / total if total > 0 else np.linspace(0, 1, len(counts))
    shares = np.clip(shares, 0.0, 1.0)
    cumulative = np.append(0.0, np.maximum.accumulate(shares))
    cumulative[-1] = 1.0
    place = min(int(np.searchsorted(cumulative[1:], q)), len(counts) - 1)
    inside = cumulative[place + 1] - cumulative[place]
    return place, float((q - cumulative[place]) / inside) if inside > 0 else 0.5


def _tables(release: Release, name: str, by: str | None) -> tuple[PooledTables, Clique, tuple[str, ...]]:
    """The noisy tables, the clique that answers, and the groups.

    Raises:
        InputError: No noisy table holds the columns, or a column is named twice.
        SchemaError: There is no such column.
    """
    clique = (name,) if by is None else (by, name)
    release.domain.shape(clique)
    if by == name:
        raise InputError(invalid("by", "another column", "Name the column of the groups.", got=by))
    tables = PooledTables(release.domain, release.measurements)
    if not tables.holds(clique):
        remedy = "Make a release that measures them together (method auto), or look at `table`."
        raise InputError(invalid("columns", "held by a measured table", remedy, got=list(clique)))
    return tables, clique, ("",) if by is None else labels_of(release.schema, by)


def _check(of: str, level: float) -> None:
    if of not in get_args(Of):
        raise InputError(invalid("of", f"one of {list(get_args(Of))}", "Pick one.", got=of))
    if not isinstance(level, float) or not 0.0 < level < 1.0:
        raise InputError(invalid("level", "above 0 and below 1", "Try level=0.95.", got=level))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What stands for the codes of a column.

    Args:
        scores: The number of each, NaN where it has none: shape [codes].
        variances: Of the numbers that share a code, [codes].
        doubts: Variance of the noise in the number of a code, [codes].
        spared: What of it is told by `find_far`, [codes].
        least, greatest: Of all numbers.
        column: Whose they are; None for marks.
    """

    scores: Floats
    variances: Floats
    doubts: Floats
    spared: Floats
    least: float
    greatest: float
    column: Column | None = None

    @classmethod
    def certain(cls, scores: Floats) -> _Numbers:
        """Numbers that all rows of a code have."""
        nothing = np.zeros(len(scores))
        return cls(scores, nothing, nothing, nothing, float(np.nanmin(scores)), float(np.nanmax(scores)))

    @classmethod
    def of_column(cls, column: Column, scores: Floats) -> _Numbers:
        """Those of a column that has some."""
        ranges = ranges_of(column) or (scores, scores)
        least, greatest = float(np.nanmin(ranges[0])), float(np.nanmax(ranges[1]))
        doubts = doubts_of(column)
        spared = doubts - weight_doubts_of(column) if is_open(column) else np.zeros(column.size)
        return cls(scores, variances_of(column), doubts, spared, least, greatest, column)

    def find_inside(self, counts: Floats) -> tuple[Floats, Floats]:
        """What each row of a code adds to the sums of numbers by group, beyond the code's number, since what
        goes with the number inside a discovered bin is lost; and what is not known of the sums.

        Args:
            counts: Rows of each group by code, none below 0: shape [groups, codes].

        Returns:
            Shape [codes], to be added to the numbers; and the covariance of the sums, [groups, groups].
        """
        rows = counts.sum(axis=0)
        # A bin has one number in all groups, so that what noise makes of it is common to them.
        covariance = (counts * self.doubts) @ counts.T
        if self.column is None:
            return np.zeros(len(rows)), covariance
        added = weigh_covariances(self.column, rows) / np.where(rows > 0.0, rows, 1.0)
        doubt = LINE_DOUBT * (counts @ added)
        return added, np.asarray(covariance + np.outer(doubt, doubt))

    def find_far(self, tables: PooledTables, name: str) -> tuple[FarRows, FarRows]:
        """The rows beyond the lower and the upper end of the column; without error where there are none.

        Args:
            tables: Noisy ones, some of which hold the column.
            name: The column.
        """
        found = None
        if self.column is not None:
            found = find_far(self.column, tables.table((name,)), tables.variances((name,)))
        nowhere = np.zeros(len(self.scores), dtype=np.bool_)
        return found or (FarRows(nowhere, 0.0, self.least), FarRows(nowhere, 0.0, self.greatest))

    def bound(
        self,
        centre: float,
        ratio: tuple[float, float, float, float],
        far: tuple[FarRows, FarRows],
        errors: Sequence[float],
        level: float,
    ) -> NumberEstimate:
        """The estimate of a mean, inside the column's range, and its interval, which is longer where rows may
        be far out.

        Args:
            centre: What the ratio is of numbers less this.
            ratio: As of `_fieller`.
            far: As of `find_far`.
            errors: Standard errors that they make of it, below and above.
            level: Of the interval.
        """
        value, lower, upper = (
            float(np.clip(centre + part, self.least, self.greatest)) for part in (ratio[0], *ratio[2:])
        )
        below, above = (_quantile(level) * error for error in errors)
        if below > 0.0:
            lower = max(value - math.hypot(value - lower, below), min(self.least, far[0].limit))
        if above > 0.0:
            upper = min(value + math.hypot(upper - value, above), max(self.greatest, far[1].limit))
        error = math.hypot(ratio[1], *(error / math.sqrt(2.0) for error in errors))
        return NumberEstimate(value, error, (lower, upper), level)


def _ratios(
    release: Release, name: str, held: _Numbers, by: str | None, of: Of, level: float
) -> NumberEstimate | GroupEstimates:
    """Means of the numbers of codes, in all rows or by group."""
    _check(of, level)
    tables, clique, groups = _tables(release, name, by)
    numbers = held.scores
    present = ~np.isnan(numbers)
    table = tables.table(clique)
    table = table[None, :] if by is None else table
    count, counts = len(groups), np.maximum(table, 0.0) * present
    beyond, doubt = held.find_inside(counts)
    filled = np.where(present, numbers, 0.0) + beyond
    rows, sums = counts.sum(axis=1), counts @ filled
    centre = np.where(rows > 0, sums / np.where(rows > 0, rows, 1.0), held.least)
    # Numbers are centred group by group: what is left of the count's noise is then in proportion to an error.
    weights = np.zeros((2 * count, count, len(numbers)))
    for place in range(count):
        weights[place, place] = (filled - centre[place]) * present
        weights[count + place, place] = present
    terms = [Term(clique, np.arange(2 * count), weights[:, 0] if by is None else weights)]
    sums, noise = tables.values(terms, 2 * count), tables.covariance(terms, 2 * count)
    squares = np.zeros(count)
    if of == "population":
        off = sums[:count] / np.where(sums[count:] > 0, sums[count:], np.inf)
        left = filled[None, :] - centre[:, None] - off[:, None]
        squares = np.maximum((table * (left**2 + held.variances) * present).sum(axis=1), 0.0)
    noise[np.arange(count), np.arange(count)] += squares
    noise[:count, :count] += doubt
    own = noise.copy()
    own[:count, :count] -= (counts * held.spared) @ counts.T
    found = [_fieller(sums, own, place, count, level) for place in range(count)]
    far = held.find_far(tables, name)
    sides = np.stack([end.errors(counts) for end in far], axis=1)
    estimates = {
        label: held.bound(centre[place], found[place], far, sides[place].tolist(), level)
        for place, label in enumerate(groups)
    }
    if by is None:
        return estimates[""]
    covariance = _ratio_covariance(sums, noise, count)
    hidden = [not math.isfinite(error) for _, error, _, _ in found]
    covariance[hidden] = covariance[:, hidden] = math.inf
    return GroupEstimates(estimates, covariance, held.greatest - held.least)


def _fieller(
    sums: Floats, noise: Floats, place: int, count: int, level: float
) -> tuple[float, float, float, float]:
    """A ratio N / D, its standard error and its limits: all x with (N - x D)^2 at most z^2 times its
    variance."""
    n, d = float(sums[place]), float(sums[count + place])
    v, c, w = noise[place, place], noise[place, count + place], noise[count + place, count + place]
    square = _quantile(level) ** 2
    first, second, third = d * d - square * w, n * d - square * c, n * n - square * v
    if first <= 0.0 or d <= 0.0:
        return (n / d if d > 0.0 else 0.0), math.inf, -math.inf, math.inf
    ratio = n / d
    error = math.sqrt(max(float(v - 2.0 * ratio * c + ratio * ratio * w), 0.0)) / d
    root = math.sqrt(max(float(second * second - first * third), 0.0))
    return ratio, error, float((second - root) / first), float((second + root) / first)


def _ratio_covariance(sums: Floats, noise: Floats, count: int) -> Floats:
    """Covariance of ratios to first order: shape [groups, groups]."""
    d = np.where(sums[count:] > 0.0, sums[count:], np.inf)
    slope = np.hstack([np.diag(1.0 / d), np.diag(-sums[:count] / d**2)])
    return np.asarray(slope @ noise @ slope.T)
