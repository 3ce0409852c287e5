"""Which columns may be a constant times another plus a constant: what is asked of rows, and what it shows.

A tax is .19 times the net, a year of entry 2025 less the level, one warmth 1.8 times the other plus 32, an
average the sum of three marks over 3. Released quantiles say which columns may hang together so; tables of
quotients, or of differences from multiples, then show at which constants rows pile up, and the look at sums
how many rows have the round ones among these exactly. Everything here is made from public things and released
numbers only.

Of the constants below only the cells of the first look were measured (bench/LOG.md, 2026-11-29).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import Candidate, find_mean
from margrave.schema.columns import Binned, Temporal, Whole
from margrave.schema.columns.relative import MAX_FACTOR, MOST_TERMS, Comparison

Array = NDArray[np.float64]

MOST_COLUMNS = 100
"""Columns that are compared two by two, the first ones."""
PARTS = 0.1, 0.25, 0.5, 0.75, 0.9
"""Quantiles by which columns are compared."""
FARTHEST = 0.1
"""Greatest distance of two columns' quantiles, each less its median and over the middle 80 %; a line between
them leaves none but for noise, and half a unit."""
SPAN_CELLS, NEAR_CELLS = 16, 2
"""Cells that the middle 80 % of a column are wide in the first look, and neighbouring ones that hold most
differences of columns on a line."""
FEW_STEPS, FINER = 8.0, 4.0
"""Units in the middle 80 % of a column below which it is no line of one of more than FINER times as many:
such columns hold classes of the other, if anything."""
FEWEST_STEPS = 3.0
"""Steps between the outer of these quantiles below which columns are passed over: a flag is on a line of any
column that tells it, once that is rounded. Not measured."""
LEAST_STEPS = 16.0
"""Least median of a column, in its units, to look at quotients of: below, rounding hides a factor."""
AROUND = 0.15
"""How far a slope may be from the one that the quantiles say, as a share of it."""
MOST_CELLS, MOST_QUOTIENTS = 512, 2_048
"""Cells of a table of differences, and of one of quotients, at most."""
MOST_SLOPES = 6
"""Slopes of each sort but 1 and -1 that differences are looked at for, at most."""
WINDOW = 3
"""Neighbouring cells in which quotients pile up; differences do in two, in one where all are whole."""
LEAST_QUOTIENTS, LEAST_DIFFERENCES = 0.3, 0.6
"""Least share of the rows there; of differences those that one frequent value does not put there."""
Z_NEAR, Z_PEAK = 3.5, 4.5
"""Noise deviations from which on columns are near a line, which costs a few tables where they are not, and
from which on their constants are asked for."""
MOST_CONSTANTS, MOST_ASKED = 2, 100
"""Round constants of each sort that are asked for where rows pile up, and lines with these, at most."""
ALONE = 0.75
"""Share of the rows of a peak from which on the constant is in its fullest cell."""
MOST_MEANS = 10
"""Means of neighbouring columns that are asked for, at most."""
KNOWN = (
    *(2.54, 30.48, 0.3048, 0.9144, 1.609344, 0.45359237, 28.349523125, 3.785411784, 4.184, 1.95583),
    *(1 / 2.54, 1 / 30.48, 1 / 0.3048, 1 / 0.9144, 1 / 1.609344, 1 / 0.45359237, 1 / 3.785411784),
    *(365.25, 30.4375, 52 / 12, 7 / 365.25, math.pi, 180 / math.pi, math.log(10), 1 / math.log(10)),
)
"""Factors between units: of length, weight, volume, energy, an old currency, time, angles, logarithms."""


@dataclass(frozen=True, slots=True)
class Line:
    """A table that shows at which constants rows pile up.

    Args:
        column: May be a line of the base.
        base: The other column.
        slope: What the base is multiplied by before it is taken off; None where the column is divided by it.
        edges: Of the cells: of quotients, or of differences, shape [cells + 1].
    """

    column: Binned
    base: Binned
    slope: float | None
    edges: Array

    @property
    def comparison(self) -> Comparison:
        """What each row is put in its cell by."""
        if self.slope is None:
            return Comparison.between(self.column, self.base, "quotient")
        if self.slope == 1.0:  # no line of the base, but the base
            return Comparison.between(self.column, self.base)
        return Comparison.with_terms(self.column, (self.base,), "sum", (self.slope, 0.0))


def find_lines(columns: Sequence[Binned], most: int, fixed: Collection[str] = ()) -> list[Line]:
    """Tables of differences that show whether two columns are near a line, with the slope that quantiles say.

    Args:
        columns: With bins and weights; dates and times are passed over.
        most: How many tables, at most: those of the columns that the quantiles have nearest to a line.
        fixed: Names of columns that keep their own bins: no two of them are looked at.
    """
    told = [(c, _quantiles(c)) for c in columns if not isinstance(c, Temporal)]
    able = [(column, at) for column, at in told if at is not None and _steps(column, at) >= FEWEST_STEPS]
    held = able[:MOST_COLUMNS]
    found: list[tuple[float, Line]] = []
    for one, other in combinations(held, 2):
        # The column of fewer steps shows constants where rounding hides those of the other one.
        (base, low), (column, high) = sorted((one, other), key=lambda entry: -_steps(*entry))
        coarse = _steps(column, high) < FEW_STEPS and _steps(base, low) > FINER * _steps(column, high)
        if coarse or (column.name in fixed and base.name in fixed):
            continue
        for far, turn in _match(low, high, column, base):
            span = float(high[-1] - high[0])
            slope = turn * span / float(low[-1] - low[0])
            if not abs(slope) <= MAX_FACTOR:  # infinite where the base's quantiles are next to each other
                continue
            differences = high - slope * (low if turn > 0 else low[::-1])
            cells: Array = np.arange(-2.0 * SPAN_CELLS, 2.0 * SPAN_CELLS + 1) * (span / SPAN_CELLS)
            edges = _with_ends(float(np.median(differences)) + cells)
            found.append((far, Line(column, base, slope, edges)))
    found.sort(key=lambda entry: entry[0])
    return [line for _, line in found[: max(most, 0)]]


def choose_lines(lines: Sequence[Line], noisy: Sequence[Array], sigma: float) -> list[Line]:
    """Those whose columns are near a line, those in most rows first.

    Args:
        lines: Made by `find_lines`.
        noisy: Noisy counts of each, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
    """
    found = []
    for line, counts in zip(lines, noisy, strict=True):
        peak = _find_peak(line, counts[: len(line.edges) - 1], NEAR_CELLS, Z_NEAR * sigma)
        if peak is not None:
            found.append((peak[0], line))
    return [line for _, line in sorted(found, key=lambda entry: -entry[0])]


def list_tables(lines: Sequence[Line], most: int) -> list[Line]:
    """Tables that show the constants of lines: of quotients where a factor alone explains them, and of
    differences for each round slope.

    Args:
        lines: Of `choose_lines`.
        most: How many tables, at most; the likeliest of each line before the next of any.
    """
    each = [list(_list_tables(line)) for line in lines]
    longest = max(map(len, each), default=0)
    found = [tables[place] for place in range(longest) for tables in each if place < len(tables)]
    return found[: max(most, 0)]


def _quantiles(column: Binned) -> Array | None:
    """The PARTS of a column by its cells; None where the middle 80 % are one number."""
    fine, weights = np.asarray(column.fine, dtype=np.float64), np.asarray(column.weights)
    if not weights.sum() > 0 or float(np.abs(fine).max()) > MAX_FACTOR:
        return None
    upto = np.append(0.0, np.cumsum(weights)) / weights.sum()
    found: Array = np.interp(PARTS, upto, fine)
    found = np.floor(found) if isinstance(column, Whole) else found
    return found if found[-1] > found[0] else None


def _steps(column: Binned, quantiles: Array) -> float:
    """How many units the middle 80 % of a column are wide."""
    return float(quantiles[-1] - quantiles[0]) / column.unit if column.unit else math.inf


def _match(low: Array, high: Array, column: Binned, base: Binned) -> Iterator[tuple[float, int]]:
    """How much further than half a unit two columns are from a rising line, 1, and a falling one, -1, where
    they are near."""
    half = 0.5 * max(1.0 / _steps(column, high), 1.0 / _steps(base, low))
    shape = (low - low[2]) / (low[-1] - low[0])
    for turn in (1, -1):
        turned = high if turn > 0 else -high[::-1]
        far = float(np.abs((turned - turned[2]) / (high[-1] - high[0]) - shape).max())
        if far - half <= FARTHEST:
            yield max(far - half, 0.0), turn


def _list_tables(line: Line) -> Iterator[Line]:
    """The tables for one pair of columns."""
    column, base = line.column, line.base
    low, high = _quantiles(base), _quantiles(column)
    if low is None or high is None or line.slope is None:
        return
    far = abs(float(high[2]) - line.slope * float(low[2]))
    if min(low[2], high[2]) > 0 and line.slope > 0 and far <= 2 * AROUND * float(high[2]):
        factor, coarse = float(high[2]) / float(low[2]), column.unit / float(high[2])
        if coarse * LEAST_STEPS <= 1.0 and abs(math.log(factor)) < math.log(MAX_FACTOR) / 2:
            yield Line(column, base, None, _quotient_edges(factor, coarse))
    for slope in _list_slopes(line.slope):
        differences = high - slope * (low if slope > 0 else low[::-1])
        yield Line(column, base, slope, _difference_edges(float(np.median(differences)), high, column.unit))


def _with_ends(inner: Array) -> Array:
    """Edges, with a cell for all below and one for all above."""
    return np.concatenate([[-MAX_FACTOR], inner, [MAX_FACTOR]])


def _quotient_edges(factor: float, coarse: float) -> Array:
    """Cells around a factor that widen by a share of themselves, no narrower than a unit is of the column."""
    low, high = math.log(1.0 - 2 * AROUND), math.log(1.0 + 2 * AROUND)
    count = math.ceil((high - low) / max(coarse, (high - low) / MOST_QUOTIENTS))
    return _with_ends(factor * np.exp(np.linspace(low, high, count + 1)))


def _difference_edges(middle: float, high: Array, unit: float) -> Array:
    """Cells around a difference, each a whole number of units wide where there is one, with multiples of the
    unit in their middles."""
    reach = max(float(high[-1] - high[0]) / 2, 8.0 * unit)
    width = 2.0 * reach / MOST_CELLS
    if unit:
        width = unit * math.ceil(width / unit)
    count = math.ceil(reach / width)
    cells: Array = (round(middle / width) + np.arange(-count, count + 1.0) - 0.5) * width
    return _with_ends(cells)


def _list_slopes(slope: float) -> Iterator[float]:
    """Round slopes that the quantiles leave open: 1 or -1, and others of small numbers."""
    size, sign = abs(slope), math.copysign(1.0, slope)
    low, high = size * (1.0 - AROUND), size * (1.0 + AROUND)
    if low <= 1.0 <= high:
        yield sign
    yield from (sign * one for one in list_round(low, high, MOST_SLOPES) if one != 1.0)


def list_round(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, and reciprocals of such: short decimals, small fractions, KNOWN.

    Args:
        low: Above 0.
        high: Above low.
        most: Of each sort, at most.
    """
    turned = [1.0 / number for number in _list_decimals(1.0 / high, 1.0 / low, most)]
    fractions = sorted(
        (top + bottom, top / bottom)
        for bottom in range(2, 37)
        for top in range(math.ceil(low * bottom), min(math.floor(high * bottom), 36) + 1)
        if math.gcd(top, bottom) == 1
    )
    known = [number for number in KNOWN if low <= number <= high]
    small = [number for _, number in fractions[:most]]
    found = [*known[:most], *_list_decimals(low, high, most), *small, *turned]
    return [one for place, one in enumerate(found) if not any(math.isclose(one, x) for x in found[:place])]


def _list_decimals(low: float, high: float, most: int) -> list[float]:
    """Numbers from low to high with as few digits as any there has, and such of one digit more: those first
    that end in 5 or 0, and those nearest to the middle."""
    found: list[float] = []
    highest = math.floor(math.log10(high))
    for place in range(highest, highest - 8, -1):
        step, enough = 10.0**place, bool(found)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        middle = (low + high) / 2 / step
        near = sorted(range(first, last + 1), key=lambda number: (number % 5 > 0, abs(number - middle)))
        found += [_scale(number, place) for number in near[:most]]
        if enough:
            break
    return found


def _scale(number: int, place: int) -> float:
    """A whole number times a power of ten, as the nearest float."""
    return float(number * 10**place) if place >= 0 else number / 10**-place


def choose_constants(
    lines: Sequence[Line], noisy: Sequence[Array], sigma: float, fixed: Collection[str] = ()
) -> list[Candidate]:
    """The lines whose constants the rows pile up at, either way round, to be counted exactly.

    Args:
        lines: What was looked at.
        noisy: Noisy counts of each, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        fixed: Names of columns that keep their own bins.
    """
    peaks = [
        (line, peak)
        for line, counts in zip(lines, noisy, strict=True)
        if (peak := _find_peak(line, counts[: len(line.edges) - 1], _width_of_peak(line), Z_PEAK * sigma))
    ]
    divided = [{line.column.name, line.base.name} for line, _ in peaks if line.slope is None]
    found: dict[tuple[str, str, float, float], tuple[int, float, Candidate]] = {}
    for line, (held, low, high, middle) in peaks:
        # What a factor alone explains needs no offset.
        if line.slope is not None and {line.column.name, line.base.name} in divided:
            continue
        for place, (factor, offset) in enumerate(_list_constants(line, low, high, middle)):
            ways = (
                (line.column, line.base, factor, offset),
                (line.base, line.column, 1.0 / factor, 0.0 - offset / factor),
            )
            for total, base, *constants in ways:
                # 1 / (5 / 9) is 1.8 but for the last digit.
                times, plus = (float(f"{constant:.15g}") for constant in constants)
                key = total.name, base.name, times, plus
                if total.name not in fixed and key not in found:
                    one = Candidate(total, (base,), _most_alike(line), "sum", (times, plus))
                    found[key] = place, -held, one
    # The roundest constants of each line before the next ones of any.
    asked = sorted(found.values(), key=lambda entry: entry[:2])
    return [candidate for _, _, candidate in asked[:MOST_ASKED]]


def _width_of_peak(line: Line) -> int:
    """Neighbouring cells in which the rows of a line with such a slope are."""
    if line.slope is None:
        return WINDOW
    unit = line.column.unit
    return 1 if unit and (line.slope * line.base.unit / unit).is_integer() else 2


def _find_peak(
    line: Line, cells: Array, width: int, above: float
) -> tuple[float, float, float, float] | None:
    """Rows in the neighbouring cells that hold most, their ends, and the middle of the fullest; None if these
    are too few.

    Args:
        line: What was looked at.
        cells: Noisy counts.
        width: How many neighbouring cells.
        above: Rows that a cell has to hold so that noise does not, in the mean of these.
    """
    inner, rows, alike = cells[1:-1], _count_rows(line), _most_alike(line)
    sums = np.convolve(inner, np.ones(width), "valid")
    first = int(sums.argmax())
    held = float(sums[first])
    least = LEAST_QUOTIENTS if line.slope is None else alike + LEAST_DIFFERENCES * (1.0 - alike)
    if held <= max(least * rows, above * math.sqrt(width)):
        return None
    best = first + int(inner[first : first + width].argmax())
    middle = (float(line.edges[best + 1]) + float(line.edges[best + 2])) / 2
    if inner[best] >= ALONE * held:
        first, width = best, 1
    return held, float(line.edges[first + 1]), float(line.edges[first + width + 1]), middle


def _list_constants(line: Line, low: float, high: float, middle: float) -> list[tuple[float, float]]:
    """The factors and offsets to be asked for, where rows pile up between two constants."""
    if line.slope is None:
        return [(factor, 0.0) for factor in list_round(low, high, MOST_CONSTANTS) if factor != 1.0]
    offsets = [0.0] if low <= 0.0 <= high else []
    if low > 0.0 or high < 0.0:
        near, far = sorted((abs(low), abs(high)))
        sign, slope = math.copysign(1.0, low), abs(line.slope)
        offsets += [sign * one for one in _list_decimals(near, far, 1)]
        # Of the other column turned round, as 32 is in (x - 32) / 1.8.
        offsets += [sign * slope * one for one in _list_decimals(near / slope, far / slope, 1)]
    if line.column.unit:
        offsets.append(_scale_to(middle, line.column.unit))
    return [(line.slope, one) for one in dict.fromkeys(offsets) if (line.slope, one) != (1.0, 0.0)]


def _scale_to(number: float, unit: float) -> float:
    """The nearest multiple of a unit, which is whole or one over a whole number."""
    return round(number / unit) * unit if unit >= 1 else round(number * round(1 / unit)) / round(1 / unit)


def _count_rows(line: Line) -> float:
    """About how many rows have both values, at most: the noise of many cells together would hide it."""
    return min(sum(line.column.weights or ()), sum(line.base.weights or ()))


def _most_alike(line: Line) -> float:
    """Greatest share of the rows that one value of both columns can have: they are on any line through it."""
    shares = []
    for column in (line.column, line.base):
        weights = np.asarray(column.weights)
        shares.append(float(weights.max() / weights.sum()))
    return min(shares)


def find_means(columns: Sequence[Binned], fixed: Collection[str] = ()) -> list[Candidate]:
    """Columns that may be the mean of neighbouring ones, by released means: the nearest first.

    Args:
        columns: With bins and weights, in the table's order; dates and times are passed over.
        fixed: Names of columns that keep their own bins: none of them is a mean.
    """
    numbers = [(c, at) for c in columns if not isinstance(c, Temporal) and (at := _quantiles(c)) is not None]
    means = np.array([find_mean(column) for column, _ in numbers])
    found: list[tuple[float, Candidate]] = []
    for place, (total, at) in enumerate(numbers):
        if total.name in fixed:
            continue
        for size in range(2, MOST_TERMS + 1):
            for first in {place - size, place + 1}:
                if first < 0 or first + size > len(numbers):
                    continue
                parts = tuple(column for column, _ in numbers[first : first + size])
                gap = abs(float(means[first : first + size].mean() - means[place])) / float(at[-1] - at[0])
                finer = all(total.unit <= part.unit for part in parts)
                if gap <= FARTHEST and finer:
                    share = max(np.asarray(total.weights)) / sum(total.weights or (1.0,))
                    found.append((gap, Candidate(total, parts, float(share), "sum", (1.0 / size, 0.0))))
    found.sort(key=lambda entry: entry[0])
    return [candidate for _, candidate in found[:MOST_MEANS]]


def ask_beyond_equality(lines: Sequence[Candidate], alike: Mapping[frozenset[str], float]) -> list[Candidate]:
    """Lines that have to hold in more rows than those with equal values: 7 / 8 of a few rounds to as many.

    Args:
        lines: Candidates.
        alike: The noisy share of the rows in which two columns are equal, by their names.
    """
    found = []
    for line in lines:
        equal = max(alike.get(frozenset((line.total.name, part.name)), 0.0) for part in line.parts)
        found.append(dataclasses.replace(line, equal=min(max(line.equal, equal), 1.0)))
    return found
