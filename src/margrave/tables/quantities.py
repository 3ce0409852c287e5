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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.release import Release
from margrave.schema.columns import Binned, Column, Relative
from margrave.schema.columns.binned import MAX_SHARE_OUTSIDE
from margrave.schema.domain import Clique
from margrave.schema.schema import Schema
from margrave.tables.estimates import PooledTables, Term, labels_of, release_column
from margrave.tables.means import TOGETHER, Averaged, Numbers, estimate_means
from margrave.tables.numbers import find_label, ranges_of, refuse_numbers, value_inside
from margrave.tables.own_cells import read_alone
from margrave.tables.ratios import (
    Floats,
    GroupEstimates,
    NumberEstimate,
    Of,
    QuantileBins,
    check_question,
    normal_quantile,
)
from margrave.tables.relative_means import average_relative, find_line


def estimate_mean(
    release: Release, name: str, by: str | None = None, *, of: Of = "population", level: float = 0.95
) -> NumberEstimate | GroupEstimates:
    """The mean of a column of numbers over rows that have one; see `Synthesis.mean`."""
    check_question(of, level)
    column = _find_column(release.schema, name, by)
    if isinstance(column, Relative):
        try:
            return estimate_means(release, average_relative(release.schema, column), by, of, level)
        except InputError:
            alone = None if by is not None else read_alone(release, column)
            if alone is None:
                raise
            return estimate_mean(alone, name, of=of, level=level)
    numbers = Numbers.of_column(column)
    if numbers is None:
        raise refuse_numbers(column, "column", "Use `share` for its levels.")
    return estimate_means(release, Averaged.of_codes(name, numbers), by, of, level)


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
    check_question(of, level)
    column = _find_column(release.schema, name, by)
    labels = labels_of(release.schema, name)
    wanted = find_label(column, labels, value)
    if wanted is None:
        raise InputError(invalid("value", f"one of {list(labels)}", "Pick a level.", got=value))
    marks = np.asarray([float(label == wanted) for label in labels])
    return estimate_means(release, Averaged.of_codes(name, Numbers.certain(marks)), by, of, level)


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
    check_question(of, level)
    if not isinstance(q, float) or not 0.0 < q < 1.0:
        raise InputError(invalid("q", "above 0 and below 1", "Try q=0.5, the median.", got=q))
    column = _find_column(release.schema, name, by)
    if isinstance(column, Relative) and by is None and (alone := read_alone(release, column)) is not None:
        return estimate_quantile(alone, name, q, of=of, level=level)
    asked = _find_line(release.schema, column)
    order = np.argsort(asked.least, kind="stable")[: int((~np.isnan(asked.least)).sum())]
    tables, clique, groups = _tables(release, name, asked, by)
    everyone = float(tables.table(clique)[..., order].sum())
    below = np.zeros((len(order), len(asked.least)))
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
        counts = table[order]
        rows = max(float(counts.sum()), 0.0)
        if of == "population":
            variances += q * (1.0 - q) * rows
        least, greatest = asked.least[order], asked.greatest[order]
        # Rows beyond a range count in its first and last bins. All of them may be of one group.
        outside = MAX_SHARE_OUTSIDE if _takes_others(asked.column) else 0.0
        beyond = outside * everyone / max(rows, 1e-300) + asked.strays
        least[0] = -math.inf if q <= beyond else least[0]
        greatest[-1] = math.inf if 1.0 - q <= beyond else greatest[-1]
        # Rows of which no table tells may all be below a number, or all above it.
        under = np.append(0.0, np.maximum.accumulate(np.clip(np.cumsum(counts), 0.0, rows)))[:-1]
        most, fewest = sums + asked.strays * (rows - under), sums - asked.strays * under
        errors = np.sqrt(variances)
        low, high = _possible_bins(fewest, most, errors, level)
        lower, upper = float(least[low]), float(greatest[high])
        value = min(max(asked.find_inside(order, counts, q), lower), upper)
        error = (upper - lower) / (2.0 * normal_quantile(level))
        found[label] = NumberEstimate(value, error, (lower, upper), level)
        bins.append(QuantileBins(least, greatest, _contradict(fewest, most, errors)))
    return found[""] if by is None else GroupEstimates(found, bins=tuple(bins))


def _find_column(schema: Schema, name: str, by: str | None) -> Column:
    """The column that is asked about; that of the groups is found to be one as well.

    Raises:
        SchemaError: The release has no such column, or nothing of it is counted.
    """
    if by is not None:
        release_column(schema, by, "by")
    return release_column(schema, name, "column")


@dataclass(frozen=True, slots=True)
class _Line:
    """Numbers that are a line of those of one attribute, or these themselves.

    Args:
        column: The attribute.
        least, greatest: Number of each code, shape [codes]; NaN where it has none.
        factor, offset: Of the line.
        strays: Share of the rows whose numbers may be others.
        remedy: What to do where no table holds the attribute with the groups.
    """

    column: Column
    least: Floats
    greatest: Floats
    factor: float = 1.0
    offset: float = 0.0
    strays: float = 0.0
    remedy: str = TOGETHER

    def find_inside(self, order: NDArray[np.int64], counts: Floats, q: float) -> float:
        """The quantile of noisy counts, the cells of its bin filled by what they weigh.

        Args:
            order: Codes by their numbers.
            counts: Of these, in order.
            q: Which quantile.
        """
        place, part = _place(counts, q)
        part = part if self.factor > 0.0 else 1.0 - part
        return self.offset + self.factor * value_inside(self.column, int(order[place]), part)


def _find_line(schema: Schema, column: Column) -> _Line:
    """The attribute that says in which order rows come.

    Raises:
        InputError: The column has no numbers, or is coded by others and no line of one of them.
    """
    if not isinstance(column, Relative):
        ranges = ranges_of(column)
        if ranges is None:
            raise refuse_numbers(column, "column", "Use `share` for its levels.")
        return _Line(column, *ranges)
    asked = average_relative(schema, column)
    line = find_line(schema, column)
    base = None if line is None else schema[line[0].names[0]]
    ranges = None if base is None else ranges_of(base)
    if line is None or base is None or ranges is None:
        what = "counted by discovery and asked for without `by`, or a line of one other; codes of "
        what += f"{column.name!r} are of {column.base_words}"
        remedy = "Leave `by` out, or declare its bins, bins=32 say, and make another release."
        raise InputError(invalid("column", what, remedy, got=column.name))
    factor, offset, slack = line[0].weight, *line[1:]
    ends = np.sort(factor * np.asarray(ranges) + offset, axis=0)
    return _Line(base, ends[0] - slack, ends[1] + slack, factor, offset, asked.strays, asked.remedy)


def _contradict(fewest: Floats, most: Floats, errors: Floats) -> Floats:
    """t^2 of the head of this module for each bin, shape [bins]. Nothing is below the first or above the
    last; the rest as of `_possible_bins`."""
    errors = np.maximum(errors[1:], 1e-300)
    begins, ends = np.append(0.0, fewest[1:] / errors), np.append(-most[1:] / errors, 0.0)
    return np.asarray(np.maximum(np.maximum(begins, ends), 0.0) ** 2)


def _one_group(weights: Floats, place: int, groups: int) -> Floats:
    """The same weights in the row of one group: shape [r, groups, codes]."""
    spread = np.zeros((len(weights), groups, weights.shape[1]))
    spread[:, place] = weights
    return spread


def _takes_others(column: Column) -> bool:
    """Whether the first and the last bin of a column may hold rows whose numbers lie beyond them."""
    return isinstance(column, Binned) and not column.strict


def _possible_bins(fewest: Floats, most: Floats, errors: Floats, level: float) -> tuple[int, int]:
    """The first and the last bin, in order, that may hold a quantile (Woodruff 1952).

    At k both sums estimate (rows below bin k) - q (all rows): with the fewest and with the most rows below it
    that there may be, which are the same where tables tell of all rows. The quantile is not below bin k
    unless the true sum at k + 1 is at least 0, nor above unless that at k is at most 0; each is refused at
    half of 1 - level.
    """
    wide = normal_quantile(level)
    after = np.append(most[1:], np.inf) + wide * np.append(errors[1:], 0.0)
    before = np.append(-np.inf, fewest[1:]) - wide * np.append(0.0, errors[1:])
    low = int(np.argmax(after >= 0.0))
    high = len(most) - 1 - int(np.argmax(before[::-1] <= 0.0))
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


def _tables(
    release: Release, name: str, asked: _Line, by: str | None
) -> tuple[PooledTables, Clique, tuple[str, ...]]:
    """The noisy tables, the clique that answers, and the groups.

    Raises:
        InputError: No noisy table holds the columns, or a column is named twice.
        SchemaError: There is no such column.
    """
    clique = (asked.column.name,) if by is None else (by, asked.column.name)
    release.domain.shape(clique)
    if by in (name, asked.column.name):
        raise InputError(invalid("by", "another column", "Name the column of the groups.", got=by))
    tables = PooledTables(release.domain, release.measurements)
    if not tables.holds(clique):
        raise InputError(invalid("columns", "held by a measured table", asked.remedy, got=list(clique)))
    return tables, clique, ("",) if by is None else labels_of(release.schema, by)
