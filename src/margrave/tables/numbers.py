"""The numbers and the values that stand for the codes of a column in means, quantiles and regressions.

A bin of a column whose bins were discovered holds finer cells, and the release has what each of them
weighs; rows are drawn by these weights. So do numbers follow them here: a bin that reaches far beyond most of
its rows, as the last one usually does, counts as the mean of its cells, and not as its middle. Inside a cell,
and in bins without cells, values are taken to lie evenly: on the multiples of each of the column's grids, by
the grid's share, and the rest on whole numbers or anywhere. Everything here is post-processing of released
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.columns import Boolean, Column, Integer, Listed, Relative, Whole
from margrave.schema.columns.binned import SpeltNumber, fade_factors
from margrave.schema.schema import Schema
from margrave.tables.estimates import labels_of

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Share of a step, and of all values, that rounding may make of what is whole."""


def scores_of(column: Column) -> Floats | None:
    """A number for each code, shape [codes], NaN where a code has none; None if no code has.

    The number of a bin is the mean of its cells by what they weigh, that of a listed value is the value.
    Missing values, and "(other)", have none. Dates, times and durations are not numbers here.
    """
    found: Floats = np.full(column.size, np.nan)
    if isinstance(column, SpeltNumber):
        found[: column.present] = _moments(column)[0]
        return found
    if not isinstance(column, Listed) or column.values is None or column.grouped:
        return None
    if not column.values or any(isinstance(value, str) for value in column.values):
        return None
    found[: len(column.values)] = [float(value) for value in column.values]
    return found


def refuse_numbers(column: Column, param: str, remedy: str) -> InputError:
    """The error for a column that has no numbers where some are asked for.

    Args:
        column: The column.
        param: What it was given as.
        remedy: What to do where it has none by its kind.
    """
    if not isinstance(column, Relative):
        return InputError(invalid(param, "a column of numbers", remedy, got=column.name))
    bases = " + ".join(repr(base) for base in column.bases)
    constraint = f"a column with numbers of its own: codes of {column.name!r} say how it goes with {bases}"
    return InputError(invalid(param, constraint, "Declare its bins, bins=32 say, and make another release."))


def variances_of(column: Column) -> Floats:
    """The variance of the values that share a code, shape [codes]; 0 for a listed value.

    Args:
        column: One that `scores_of` has numbers of.
    """
    found = np.zeros(column.size)
    if isinstance(column, SpeltNumber):
        found[: column.present] = _moments(column)[1]
    return found


def doubts_of(column: Column) -> Floats:
    """Variance of what noise makes of the number of each code, shape [codes]; 0 for a listed value.

    A cell's weight is the count that is to be expected given a noisy one. It is off by the noise at most, and
    where it is smaller than the noise by less: counts are not negative, so that an expected count of w has a
    variance of about w times the noise's deviation. A bin's number is the mean of its cells by such weights.
    That holds where rows are spread as discovery expects them; real columns surprise it (`MODEL_DOUBT`), and
    some rows may lie beyond a range that was found (`BEYOND`). Intervals of means know more of both ends of a
    column that nobody has declared (`tables.far`), and take `weight_doubts_of` there.

    Args:
        column: One that `scores_of` has numbers of.
    """
    found = np.zeros(column.size)
    if isinstance(column, SpeltNumber) and column.noise > 0.0:
        numbers, _, doubts = _moments(column)
        found[: column.present] = MODEL_DOUBT * doubts
        if not column.strict:
            found[: column.present] += _doubts_beyond(column, numbers)
    return found


def weight_doubts_of(column: Column) -> Floats:
    """As `doubts_of`, of noise in the cells' weights alone where all is as discovery expects: shape
    [codes]."""
    found = np.zeros(column.size)
    if isinstance(column, SpeltNumber) and column.noise > 0.0:
        found[: column.present] = _moments(column)[2]
    return found


def spike_doubts_of(column: SpeltNumber) -> Floats:
    """Variance of a bin's number where all values of a cell are one, of which no more is known than the cell:
    shape [bins].

    Quotients have wide cells and often pile up: a tax that is .19 times the net lies in one cell of .189 to
    .208. Values of a column's own lie in many cells, and a spike in one of them hardly matters.
    """
    starts, ends, weights, bins = _cells(column)
    weights = _weigh_empty(weights, ends - starts, bins, column.present)
    shares = weights / np.bincount(bins, weights, column.present)[bins]
    inside = _fill(column, starts, ends)[1]
    return np.asarray(np.bincount(bins, shares**2 * inside, column.present), dtype=np.float64)


def expected_of(column: SpeltNumber) -> tuple[Floats, Floats, Floats]:
    """The start and the end of each cell, and the rows that discovery expects of it: shape [cells] each.

    Weights that fade are no surer than these (`fade_factors`).
    """
    starts, ends, weights, _ = _cells(column)
    return starts, ends, _unfade(column, starts, ends, weights)


MODEL_DOUBT = 2.0
"""How many times that variance the cells' weights of real columns have, since what is expected of them is a
model: bench/LOG.md, 2026-11-28."""
BEYOND = 0.5
"""Rows beyond either end of a range that was found, in deviations of the noise in a cell: chosen as
`MODEL_DOUBT` was."""
LINE_DOUBT = 0.5
"""Standard deviation of what lines inside bins add to a sum, as a share of it, since they need not be
straight: bench/LOG.md, 2026-11-28."""
REACH = 5.0
"""How many distances of the last two bins the line through their means goes on beyond them. With 0, no line
but the last mean, coefficients of made-up tables of 50,000 rows kept twice as much of their miss."""


def weigh_covariances(column: Column, counts: Floats) -> Floats:
    """Weights of the codes' means of anything, which sum to its covariance with the numbers inside bins.

    Rows of a bin that was discovered have one number, and whatever goes with the number inside a bin is lost
    by that: what is seen is Cov(x, mean of the bin), and Cov(x, y) is more. If x goes with y in straight
    lines between the means of neighbouring bins, the sum over rows of x (y - its bin's number) is a sum of
    these means by weights that follow from the cells alone.

    Args:
        column: Of y, one that `scores_of` has numbers of.
        counts: Rows of each code, shape [codes]; where they are not above 0 a code has no mean.

    Returns:
        Shape [codes]; zeros where no bin has cells, as where bins were declared.
    """
    found = np.zeros(column.size)
    nodes = np.flatnonzero(counts[: column.present] > 0.0)
    if not isinstance(column, SpeltNumber) or column.fine is None or len(nodes) < 2:
        return found
    numbers = _moments(column)[0]
    values, shares, bins = _points(column)
    apart = np.maximum(counts[bins], 0.0) * shares * (values - numbers[bins])
    places = numbers[nodes]
    right = np.clip(np.searchsorted(places, values), 1, len(nodes) - 1)
    left = right - 1
    part = np.clip((values - places[left]) / (places[right] - places[left]), -REACH, 1.0 + REACH)
    np.add.at(found, nodes[left], apart * (1.0 - part))
    np.add.at(found, nodes[right], apart * part)
    return found


def ranges_of(column: Column) -> tuple[Floats, Floats] | None:
    """The least and the greatest number of each code, both of shape [codes]; see `scores_of`."""
    scores = scores_of(column)
    if scores is None or not isinstance(column, SpeltNumber):
        return None if scores is None else (scores, scores)
    least, greatest = scores.copy(), scores.copy()
    edges = column.edge_array
    least[: column.present], greatest[: column.present] = _reach(column, edges[:-1], edges[1:])
    return least, greatest


def value_inside(column: Column, code: int, part: float) -> float:
    """The number below which a part of the rows of a code lie, its cells filled by what they weigh.

    Args:
        column: One that `ranges_of` has ranges of.
        code: Of the column.
        part: From 0 to 1.
    """
    if not isinstance(column, SpeltNumber):
        ranges = ranges_of(column)
        return float(ranges[0][code]) if ranges is not None else float("nan")
    starts, ends, weights, bins = _cells(column)
    starts, ends = _reach(column, starts, ends)
    own = np.flatnonzero(bins == code)
    held = weights[own]
    if not held.sum() > 0.0:
        low, high = starts[own[0]], ends[own[-1]]
        return float(low + part * (high - low))
    shares = np.append(0.0, np.cumsum(held) / held.sum())
    # The first cell in which so many rows are reached; empty ones before it hold none.
    place = min(int(np.searchsorted(shares[1:], part)), len(own) - 1)
    inside = shares[place + 1] - shares[place]
    within = (part - shares[place]) / inside if inside > 0.0 else 0.5
    cell = own[place]
    return float(starts[cell] + min(max(within, 0.0), 1.0) * (ends[cell] - starts[cell]))


def find_label(column: Column, labels: Sequence[str], value: object) -> str | None:
    """The label of a column's level that a value stands for; None for none.

    Args:
        column: Of the levels.
        labels: A text for each of its codes, as from `labels_of`.
        value: A label, a value that the column has, or a truth value as its text is spelt, in any case.
    """
    if str(value) in labels:
        return str(value)
    if isinstance(column, Boolean):
        spelt = str(value).casefold()
        held = zip(labels, _truths(column), strict=False)
        return next((label for label, own in held if own == value or label.casefold() == spelt), None)
    return None


def value_of(column: Column, labels: Sequence[str], label: str) -> Any:
    """What rows hold where a column has a label: its value, a truth value as it is spelt, the one whole
    number of a bin; else the label."""
    code = labels.index(label)
    if isinstance(column, Integer) and code < column.present:
        low, high = column.edge_array[code : code + 2]
        return int(low) if high - low == 1.0 else label
    if isinstance(column, Boolean) and code < 2:
        return _truths(column)[code]
    if isinstance(column, Listed) and column.values is not None and code < len(column.values):
        return column.values[code]
    return label


def classes_of(schema: Schema, target: str, level: str, present: NDArray[np.bool_]) -> NDArray[Any]:
    """The value that counts as 0, and that which counts as 1, as rows have them: shape [2].

    Where several values count as 0, both are texts, as in "not ill" and "ill"; so are levels that are bins of
    several. What is "(other)" counts as 0 as well, and is no value of its own.

    Args:
        schema: Of the columns.
        target: The column of the classes.
        level: The label that counts as 1.
        present: Which codes of the target are in the regression, shape [codes].
    """
    column, labels = schema[target], labels_of(schema, target)
    listed = len(column.values) if isinstance(column, Listed) and column.values else len(labels)
    others = [label for label, held in zip(labels[:listed], present, strict=False) if held and label != level]
    if len(others) != 1:
        return np.asarray([f"not {level}", level])
    return np.asarray([value_of(column, labels, label) for label in (others[0], level)])


def _truths(column: Boolean) -> tuple[Any, ...]:
    """False and true as rows have them."""
    return tuple(column.spell(value) if column.spelling else value for value in (False, True))


def _multiples(starts: Floats, ends: Floats, step: float) -> tuple[Floats, Floats]:
    """The first multiple of a step from each start on, and how many there are before each end."""
    low, high = starts / step, ends / step
    # Ends that are multiples but for rounding are multiples.
    low, high = (np.where(np.abs(x - np.rint(x)) <= ROUNDING, np.rint(x), x) for x in (low, high))
    first = np.ceil(low)
    return step * first, np.ceil(high) - first


def _reach(column: SpeltNumber, starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest value from each start up to, without, each end."""
    step = column.unit
    if step == 0.0:
        return starts, ends
    first, count = _multiples(starts, ends, step)
    some = count > 0.0
    return np.where(some, first, starts), np.where(some, first + step * (count - 1.0), ends)


def _cells(column: SpeltNumber) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """The start and the end of each cell, its weight, and its bin's code: shape [cells] each."""
    edges = column.edge_array
    if column.fine is None or column.weights is None:
        weights = np.ones(len(edges) - 1)
        return edges[:-1], edges[1:], weights, np.arange(len(edges) - 1)
    fine = np.asarray(column.fine, dtype=np.float64)
    bins = np.searchsorted(edges, fine[:-1], side="right") - 1
    return fine[:-1], fine[1:], np.asarray(column.weights), np.clip(bins, 0, len(edges) - 2)


def _fill(column: SpeltNumber, starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Mean, measured from its start, and variance of the values in each cell: shape [cells] both."""
    widths = ends - starts
    rest = max(1.0 - sum(share for _, share in column.grids), 0.0)
    means, squares = np.zeros(len(starts)), np.zeros(len(starts))
    for step, share in (*column.grids, (float(isinstance(column, Whole)), rest)):
        mean, variance = widths / 2.0, widths**2 / 12.0
        if step > 0.0:
            first, count = _multiples(starts, ends, step)
            some = count > 0.0  # a cell between two multiples has values of a finer grid
            mean = np.where(some, first - starts + step * (count - 1.0) / 2.0, mean)
            # Of n multiples in a row the variance is step^2 (n^2 - 1) / 12, of an interval its square / 12.
            variance = np.where(some, step**2 * (count**2 - 1.0) / 12.0, variance)
        means, squares = means + share * mean, squares + share * (variance + mean**2)
    return means, np.maximum(squares - means**2, 0.0)


def _points(column: SpeltNumber) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Two values a cell with its mean and variance, their shares of the bin's rows, and its bin: [points]
    each."""
    starts, ends, weights, bins = _cells(column)
    weights = _weigh_empty(weights, ends - starts, bins, column.present)
    shares = weights / np.bincount(bins, weights, column.present)[bins]
    inside, variances = _fill(column, starts, ends)
    middles, spread = starts + inside, np.sqrt(variances)
    values = np.concatenate([middles - spread, middles + spread])
    return values, np.tile(shares / 2.0, 2), np.tile(bins, 2)


def _weigh_empty(weights: Floats, widths: Floats, bins: NDArray[np.int64], count: int) -> Floats:
    """Weights of cells, by their widths in bins of which all cells weigh nothing: values lie evenly there."""
    held = np.bincount(bins, weights, count)
    return np.where((held > 0.0)[bins], weights, widths)


def _moments(column: SpeltNumber) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of the values in each bin, and the variance that noise in weights makes of the mean:
    shape [bins] each."""
    starts, ends, weights, bins = _cells(column)
    count = column.present
    weights = _weigh_empty(weights, ends - starts, bins, count)
    held = np.bincount(bins, weights, count)
    # Numbers are measured from the bin's first, so that squares of large ones lose no digits.
    first = column.edge_array[:-1]
    inside, own = _fill(column, starts, ends)
    middles = starts - first[bins] + inside
    means = np.bincount(bins, weights * middles, count) / held
    apart = (middles - means[bins]) ** 2
    variances = np.bincount(bins, weights * (own + apart), count) / held
    off = np.minimum(_unfade(column, starts, ends, weights), column.noise) * column.noise
    doubts = np.bincount(bins, off * apart, count) / held**2
    return first + means, variances, doubts


def _unfade(column: SpeltNumber, starts: Floats, ends: Floats, weights: Floats) -> Floats:
    """Weights of cells before they faded, shape [cells]; what has faded to nothing is nothing."""
    factors = fade_factors(np.append(starts, ends[-1]), column.reach)
    return np.divide(weights, factors, out=np.zeros(len(weights)), where=factors > 0.0)


def _doubts_beyond(column: SpeltNumber, numbers: Floats) -> Floats:
    """The part of `doubts_of` that is due to rows beyond either end, shape [bins]; numbers: of the bins."""
    starts, ends, weights, bins = _cells(column)
    weights = _weigh_empty(weights, ends - starts, bins, column.present)
    held = np.bincount(bins, weights, column.present)
    expected, doubts = _unfade(column, starts, ends, weights), np.zeros(column.present)
    outside, numbers = BEYOND * column.noise, numbers[bins]
    cell, square = _doubt_beyond(starts, ends, expected, numbers, outside)
    doubts[bins[cell]] += square / held[bins[cell]] ** 2
    mirrored = (-ends[::-1], -starts[::-1], expected[::-1], -numbers[::-1])
    cell, square = _doubt_beyond(*mirrored, outside)
    doubts[bins[-1 - cell]] += square / held[bins[-1 - cell]] ** 2
    return doubts


def _doubt_beyond(
    starts: Floats, ends: Floats, weights: Floats, numbers: Floats, rows: float
) -> tuple[int, float]:
    """The cell from which on a number of rows lie, and what as many beyond it do to the sum of its bin: the
    square of the rows times their distance from the bin's number, which is a cell at least.

    Args:
        starts, ends: Of each cell, rising, shape [cells].
        weights: Of the cells.
        numbers: Of each cell's bin.
        rows: How many.
    """
    from_here = np.cumsum(weights[::-1])[::-1]
    cell = max(int((from_here >= rows).sum()) - 1, 0)
    distance = max(float(ends[cell] - numbers[cell]), float(ends[cell] - starts[cell]))
    return cell, (rows * distance) ** 2
