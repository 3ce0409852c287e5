"""Classes whose labels name their ranges, as "25-34", "65+" or "50s", held against a measured table.

Where labels say which numbers each class has, nothing is left to be found in a noisy table but whether rows
agree with them: one sum of cells, whose noise is far below that of a cell. A year of birth agrees with age
groups through the year in which ages were taken, which is sought among those of `YEARS`.

Everything here is post-processing of released numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Integer, Temporal, Whole

Floats = NDArray[np.float64]
Range = tuple[float, float]
"""The least number of a class, and the least above it."""

YEARS = range(1950, 2041)
"""Years in which ages may have been taken."""
BORN = 1800, 2100
"""Numbers between these may be years of birth."""
LEAST_CLASSES = 3
"""Labels that name ranges, at least; two halves agree with too much. Not measured."""
MOST_UNNAMED = 0.1
"""Share of the rows whose labels name no range, such as "unknown". Not measured."""
MOST_OFF, MOST_SEEN, Z_SEEN = 0.08, 0.15, 2.0
"""Share of the rows that may not agree, as where labels name nothing; that as it is measured; and deviations
of its noise by which it may be less, and by which more than half of the rows have to agree. Bins of which
noise left few made it .11 and .12 for true classes of `bench/runs/classes.py` with 2,000 rows at 2, and .2 to
.3 for what is near."""
LEAST_APART = 0.3
"""By how much surer than by chance ranges make the class of a row, at least: else anything would do, and no
row is taken to agree."""
LIKELY, MOST_ALIKE = 4.0, 3
"""Twice the nats by which another year may be less likely than the likeliest, and how many of them all there
may be. Not measured."""
NUMBER = re.compile(r"-?\d+(?:[., ']\d{3})*(?:[.,]\d+)?")
THOUSANDS = re.compile(r"-?\d{1,3}(?:[., ']\d{3})+")
THOUSAND = re.compile(r"(?<=\d) ?k\b")
CUT = re.compile(r"^([\[(][^,]*),([^,]*[\])])$")
DASH = re.compile(r"(?<=\d) ?[-–—] ?(?=\d)")
UNITS = re.compile(r"[$€£%]|\b(?:years?|yrs?|yo|age[ds]?|old|euros?|usd|eur)\b")
BETWEEN = re.compile(r"^([\[(]?)# (?:to|\.\.|;|and|bis|until) #([\])]?)$")
ALONE, TEN = re.compile("^#$"), re.compile("^#s$")
ABOVE = re.compile(
    r"^(?:#\+|\[# to inf[\])]|(?:>=|≥|from|at least) ?#|# ?(?:and|or) ?(?:over|older|more|above|up|higher))$"
)
OVER = re.compile(r"^(?:>|over|above|more than|older than|greater than) ?#$|^\(# to inf[\])]$")
BELOW = re.compile(r"^(?:<|under|below|less than|younger than) ?#$|^[\[(]-inf to #\)$")
UP_TO = re.compile(
    r"^[\[(]-inf to #\]$|^(?:<=|≤|up to|at most) ?#$|^# ?(?:and|or) ?(?:under|younger|less|below|lower)$"
)


@dataclass(frozen=True, slots=True)
class Spread:
    """How the rows of a number lie in its bins.

    Args:
        edges: Of the bins, shape [bins + 1].
        fine: Of its cells, shape [cells + 1].
        running: Share of the rows below each of these, shape [cells + 1].
    """

    edges: Floats
    fine: Floats
    running: Floats

    def share_in(self, ends: Range) -> Floats:
        """The share of the rows that are in each bin and in a range, shape [bins]."""
        cut = np.clip(
            self.edges, max(ends[0], self.edges[0]), max(min(ends[1], self.edges[-1]), self.edges[0])
        )
        return np.diff(np.interp(cut, self.fine, self.running))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How rows agree with classes of a number.

    Args:
        ranges: Of each label, None where it names none.
        off: Share of the rows whose class has nothing to do with their number, as measured.
        doubt: Standard deviation of its noise.
        misfit: Squared distances of cells from what ranges make of the number's rows, over their noise.
        alike: How many years fit as well as theirs, if they are ages.
    """

    ranges: tuple[Range | None, ...]
    off: float
    doubt: float
    misfit: float
    alike: int = 1

    @property
    def holds(self) -> bool:
        """Whether the labels are classes of the number."""
        doubt = Z_SEEN * self.doubt
        # Ranges of other years that fit as well say that noise hides which it is.
        if self.alike > MOST_ALIKE:
            return False
        return self.off <= MOST_SEEN and self.off - doubt <= MOST_OFF and self.off + doubt <= 0.5


def read_range(label: str, step: float = 1.0) -> Range | None:
    """The numbers that a label names, as the least one and the least above them; None if it names none.

    Args:
        label: Of a class.
        step: Between two numbers: 1 of whole ones, 0 of others.
    """
    # What parts two numbers is none of their signs: "(18,25]" and "25-34" have no 18.25 and no -34.
    text = CUT.sub(r"\1 to \2", THOUSAND.sub(",000", UNITS.sub(" ", label.lower().strip())))
    text = DASH.sub(" to ", text)
    numbers = [_read_number(one) for one in NUMBER.findall(text)]
    shape = " ".join(NUMBER.sub(" # ", text).split())
    shape = re.sub(r" ?([\[\]()+]) ?", r"\1", shape).replace("# s", "#s")
    if not 1 <= len(numbers) <= 2 or None in numbers:
        return None
    first, last = float(numbers[0] or 0.0), float(numbers[-1] or 0.0)
    if len(numbers) == 2:
        found = BETWEEN.match(shape)
        if found is None or first > last:
            return None
        return first + step * (found[1] == "("), last + step * (found[2] != ")")
    ends: dict[re.Pattern[str], Range] = {
        ALONE: (first, first + 1.0),
        TEN: (first, first + 10.0),
        ABOVE: (first, math.inf),
        OVER: (first + step, math.inf),
        BELOW: (-math.inf, first),
        UP_TO: (-math.inf, first + step),
    }
    return next((one for pattern, one in ends.items() if pattern.match(shape)), None)


def read_ranges(labels: Sequence[str], step: float = 1.0) -> list[Range | None] | None:
    """The range of each label; None if fewer than LEAST_CLASSES name one, or if two overlap.

    The greatest number of a class belongs to it where none begins there, and no gap is left below a class
    that begins at most 1 above: as in "18.5-24.9" and "25-29.9".
    """
    found = [read_range(label, step) for label in labels]
    order = sorted((one for one in range(len(found)) if found[one]), key=lambda one: found[one] or (0.0, 0.0))
    ranges = [found[one] for one in order]
    if len(order) < LEAST_CLASSES or all(one is not None and one[1] - one[0] == 1.0 for one in ranges):
        return None
    for (place, one), (_, two) in pairwise(zip(order, ranges, strict=True)):
        assert one is not None and two is not None  # noqa: S101 PT018 - they were chosen so
        if one[1] - two[0] > 1.0 or two[0] <= one[0]:
            return None
        found[place] = (one[0], two[0]) if abs(one[1] - two[0]) <= 1.0 else one
    return found


def find_agreement(
    number: Binned, labels: Sequence[str], counts: Floats, noise: Floats, spread: Spread
) -> Agreement | None:
    """How a measured table agrees with the ranges that labels name; None if they name none of the number's.

    Args:
        number: The number.
        labels: Of the classes.
        counts: Measured rows by bin and class, shape [bins, classes].
        noise: Their variances, of the same shape.
        spread: How the number's rows lie in its bins.
    """
    ranges = None if isinstance(number, Temporal) else read_ranges(labels, float(isinstance(number, Whole)))
    if ranges is None:
        return None
    able = [ranges]
    if isinstance(number, Integer) and spread.edges[0] >= BORN[0] and spread.edges[-1] <= BORN[1]:
        able += [[None if one is None else _turn(one, year) for one in ranges] for year in YEARS]
    compared = [found for one in able if (found := _compare(one, counts, noise, spread)) is not None]
    if not compared:
        return None
    best = min(compared, key=lambda one: one.misfit)
    return replace(best, alike=sum(one.misfit <= best.misfit + LIKELY for one in compared))


def _turn(ages: Range, year: int) -> Range:
    """The years of birth of those who have some ages in a year."""
    return year - ages[1] + 1.0, year - ages[0] + 1.0


def _compare(
    ranges: Sequence[Range | None], counts: Floats, noise: Floats, spread: Spread
) -> Agreement | None:
    """How the rows of labels that name a range agree with it; None where most rows or numbers are in none."""
    named = [place for place, one in enumerate(ranges) if one is not None]
    shares = np.stack([spread.share_in(one) for one in ranges if one is not None], axis=1)
    whole = float(counts.sum())
    counts, noise = counts[:, named], noise[:, named]
    rows = float(counts.sum())
    if min(rows, whole * float(shares.sum())) < (1.0 - MOST_UNNAMED) * whole or rows <= 0:
        return None
    # How sure a bin makes each class is what a row counts for: bins in which a class begins say little.
    bins = shares.sum(axis=1)
    sure = shares / np.maximum(bins[:, None], 1e-300)
    sizes = np.maximum(counts.sum(axis=0), 0.0)
    chance = float(bins @ sure @ sizes) / max(float(bins.sum() * sizes.sum()), 1e-300)
    apart = float((sure * shares).sum()) / max(float(bins.sum()), 1e-300) - chance
    misfit = float((np.square(counts - rows * shares) / np.maximum(noise, 1e-300)).sum())
    if apart < LEAST_APART:
        return Agreement(tuple(ranges), 1.0, 0.0, misfit)
    off = 1.0 - (float((sure * counts).sum()) / rows - chance) / apart
    doubt = math.sqrt(float((np.square(sure) * noise).sum())) / rows / apart
    return Agreement(tuple(ranges), off, doubt, misfit)


def bounds_of(ends: Range, number: Binned) -> tuple[float | None, float | None]:
    """The least and the greatest number of a range, as a rule has them; None for no bound."""
    low, high = (None if math.isinf(one) else one for one in ends)
    if isinstance(number, Whole):
        return (None if low is None else math.ceil(low)), (None if high is None else math.ceil(high) - 1)
    if high is None or number.step < 1e-6:
        return low, None if high is None else float(np.nextafter(high, -math.inf))
    return low, round(high - number.step, 9)


def _read_number(text: str) -> float | None:
    """A number in a label; a mark before three digits parts thousands, another one decimals."""
    plain = re.sub("[., ']", "", text) if THOUSANDS.fullmatch(text) else text.replace(",", ".")
    try:
        return float(plain)
    except ValueError:
        return None
