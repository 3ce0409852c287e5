"""Looking: the looks of discovery at one column of numbers, dates or times."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.measure.bins import place, support
from margrave.measure.calendar import Spans, day_edges, span_edges, spans, year_edges
from margrave.measure.cuts import cut_by, merge_rare
from margrave.measure.partition import may_be_missing
from margrave.measure.ranges import (
    PLACE_CELLS,
    nearest,
    number_edges,
    on_steps,
    place_edges,
    refined_edges,
    widened,
)
from margrave.measure.rounding import released_grids, steps_of
from margrave.measure.shape import shaped
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned, Column, Date, Moment, Time, Whole
from margrave.schema.iso import DAY
from margrave.schema.spelling import SPELLINGS

if TYPE_CHECKING:
    from margrave.protocols import Source

__all__ = ["SHARES", "Looking"]

SHARES = {
    "profile": Fraction(1),
    "bounds": Fraction(3),
    "detail": Fraction(7),
    "grids": Fraction(1),
    "spelling": Fraction(1, 2),
    "marks": Fraction(1, 4),
    "values": Fraction(7),
    "shapes": Fraction(1),
    "distinct": Fraction(1, 4),
    "prefixes": Fraction(5, 2),
}
"""Relative weight of one column's look of each sort when discovery's rho is shared out."""

Z_BOUNDS = 4.5
FEW_OCTAVES = 2
CLOSER = Fraction(1, 2)
"""Powers of two between the bounds up to which a second look finds them more closely, and its weight."""
A_CELL, FINEST = 12.0, 512
"""Noise standard deviations of rows that a cell should have in the mean, and cells of the finest look."""
MOST_VALUES = 300
"""Whole numbers in range up to which each has a cell, if one deviation of rows a number is there."""
TIME_CELLS = 288
"""Cells of the look at times of day: five minutes each."""

Array = NDArray[np.float64]
Exact = Callable[[], NDArray[np.int64]]
Look = Callable[[str, Exact, Fraction, bool], tuple[Array, float]]
"""What is looked at, the exact counts, rho, and whether every row is in them; the noisy counts and sigma."""


@dataclasses.dataclass(frozen=True, slots=True)
class Looking:
    """The looks at one column that has bins; see `Discovery` for what each is and why it is private.

    Args:
        source: The private table.
        column: A column of numbers, dates or times without edges.
        look: Prices, records and adds the noise.
        unit: rho of a look of weight 1.
        least: Least mass of a bin, from the denoised counts.
        rows: A released guess of the row count; 0 for none.
        doubt: Its variance.
        sigma: Standard deviation of the noise that a cost of rho buys.
        text: Whether the column is text, as the profile has told.
    """

    source: Source
    column: Binned
    look: Look
    unit: Fraction
    least: Callable[[Array], float]
    rows: float
    doubt: float
    sigma: Callable[[Fraction], float]
    text: bool

    def run(self) -> tuple[Column, NoisyMarginal]:
        """Bounds where there are none, then bins, weights and missingness, then grids."""
        if self.column.edges is not None:
            return self._merged()
        edges = self._edges()
        steps = self._steps(edges)
        noisy, sigma = self._detail(edges)
        weights = shaped(noisy[1:], sigma, self._present(float(noisy[0]), sigma))
        least = max(self.least(weights), self.column.rare * float(weights.sum()))
        found = cut_by(self.column.binning, edges, weights, self.column.bins, least)
        known = dataclasses.replace(
            self.column,
            lower=None,
            upper=None,
            edges=tuple(found.edges.tolist()),
            fine=tuple(found.fine.tolist()),
            weights=tuple(found.weights.tolist()),
            grids=self._grids(steps, edges, weights, sigma) if steps else self.column.grids,
            missing=may_be_missing(self.column, float(noisy[0]), sigma),
            strict=False,
            rare=0.0,
        )
        return self._spelt(known), _marginal(known, edges, noisy, sigma)

    def _merged(self) -> tuple[Column, NoisyMarginal]:
        """The declared bins, rare ones merged, and their weights; all else stays as it is declared."""
        column, edges = self.column, self.column.edge_array
        noisy, sigma = self._detail(edges)
        starts = merge_rare(noisy[1:], sigma, column.rare * float(noisy[1:].sum()))
        fine, weights = column.fine, column.weights
        if fine is None:
            inside = shaped(noisy[1:], sigma, self._present(float(noisy[0]), sigma))
            fine, weights = column.edges, tuple(inside.tolist())
        known = dataclasses.replace(
            column,
            edges=tuple(np.append(edges[starts], edges[-1]).tolist()),
            missing=may_be_missing(column, float(noisy[0]), sigma),
            fine=fine,
            weights=weights,
            rare=0.0,
        )
        return known, _marginal(known, edges, noisy, sigma)

    def _detail(self, edges: Array) -> tuple[Array, float]:
        """Noisy rows without a reading, then by cell, and their sigma: the one look that every row is in."""
        what = f"detail of {self.column.name}"
        return self.look(what, lambda: self._cells(edges), self.unit * SHARES["detail"], True)

    def _present(self, absent: float, sigma: float) -> tuple[float, float]:
        """Rows with a reading, less than nothing where no row count is known, and the variance of that."""
        return self.rows - absent, self.doubt + sigma**2

    def _spelt(self, column: Binned) -> Binned:
        """The column with the spelling that most of its texts have, where it is text."""
        if not self.text or not isinstance(column, (Moment, Time)):
            return column
        name, read = column.name, column.read

        def exact() -> NDArray[np.int64]:
            return self.source.spellings(name, read).reveal()

        noisy, _ = self.look(f"spelling of {name}", exact, self.unit * SHARES["spelling"], False)
        spelling = SPELLINGS[read][int(np.argmax(noisy))]
        if isinstance(column, Time):
            return dataclasses.replace(column, spelling=spelling)
        zone = "UTC" if spelling.endswith(("Z", "+00:00")) else None
        return dataclasses.replace(column, spelling=spelling, zone=zone)

    def _cells(self, edges: Array) -> NDArray[np.int64]:
        """Rows without a reading, and rows by cell: each row is in exactly one. **Not private.**

        Both come from one scan: a difference of two scans would move by more than one row's worth if the
        table changed in between.
        """
        found = self.source.histogram(self.column.name, edges, self.column.read, absent=True).reveal()
        return np.roll(found, 1)

    def _steps(self, edges: Array) -> tuple[float, ...]:
        """The steps to ask for; none where each cell is one whole number."""
        single = isinstance(self.column, Whole) and bool((np.diff(edges) <= 1).all())
        return () if single else steps_of(self.column, float(np.abs(edges).max()))

    def _grids(
        self, steps: tuple[float, ...], edges: Array, weights: Array, spread: float
    ) -> tuple[tuple[float, float], ...]:
        column = self.column

        def exact() -> NDArray[np.int64]:
            return self.source.grids(column.name, steps, column.read).reveal()

        noisy, sigma = self.look(f"grids of {column.name}", exact, self.unit * SHARES["grids"], False)
        return released_grids(column, steps, noisy, sigma, edges, weights, spread)

    def _edges(self) -> Array:
        """Cells of the look at the column's values, after one or two looks at bounds."""
        if isinstance(self.column, Time):
            edges = np.linspace(0.0, DAY, TIME_CELLS + 1)
        elif isinstance(self.column, (Date, Moment)):
            edges = self._calendar()
        else:
            edges = self._numbers()
        fixed = sum(share for _, share in self.column.grids) > 1 - 1e-6
        return on_steps(edges, self.column.grids[-1][0]) if fixed else edges

    def _numbers(self) -> Array:
        """Cells over the range of the numbers: to powers of two, then, far from zero, more closely."""
        whole = isinstance(self.column, Whole)
        first = number_edges(whole)
        noisy, sigma = self._first(first, SHARES["bounds"] - CLOSER)
        held = place(noisy, sigma, Z_BOUNDS, (self.rows, self.doubt))
        lower, upper = widened(first, held, whole)
        if held is not None and held[1] - held[0] < FEW_OCTAVES and first[held[0]] * first[held[1] + 1] > 0:
            lower, upper = self._closer(lower, upper, whole)
        if self.column.lower is not None:
            lower = float(self.column.lower)
            upper = max(upper, lower + 1)
        if self.column.upper is not None:
            upper = float(self.column.upper) + whole
            lower = min(lower, upper - 1)
        near = nearest(first, noisy, sigma, Z_BOUNDS)
        if whole and upper - lower <= min(MOST_VALUES, self._rows(noisy) / self._sigma()):
            return np.arange(lower, upper + 1)
        return refined_edges(lower, upper, whole, near, self._fineness(noisy))

    def _closer(self, lower: float, upper: float, whole: bool) -> tuple[float, float]:
        edges = place_edges(lower, upper, whole)
        if len(edges) <= PLACE_CELLS:  # each whole number has a cell already
            return lower, upper
        held = support(*self._first(edges, CLOSER), Z_BOUNDS)
        return (lower, upper) if held is None else widened(edges, held, whole)

    def _calendar(self) -> Array:
        """Stretches of years; of moments in few of them, stretches of days, for half of the rho each."""
        clock = isinstance(self.column, Moment)
        tick = float(DAY) if clock else 1.0
        years = year_edges()
        share = SHARES["bounds"] / 2 if clock else SHARES["bounds"]
        noisy, sigma = self._first(years * tick, share)
        found = spans(years, noisy, sigma, Z_BOUNDS)
        days = day_edges(found) if clock else None
        if days is not None:
            found = spans(days, *self._first(days * tick, share), Z_BOUNDS)
        inside = self._within(found, tick)
        return np.rint(span_edges(inside, clock, self._fineness(noisy)) * tick)

    def _fineness(self, noisy: Array) -> float:
        """Share of the finest look's cells that the rows suffice for: a few standard deviations each."""
        return float(np.clip(self._rows(noisy) / (A_CELL * self._sigma() * FINEST), 1 / FINEST, 1.0))

    def _rows(self, noisy: Array) -> float:
        return self.rows or max(float(noisy.sum()), 1.0)

    def _sigma(self) -> float:
        return self.sigma(self.unit * SHARES["detail"])

    def _within(self, found: Spans, tick: float) -> Spans:
        """The stretches inside the one bound that may be declared."""
        lower, upper = self.column.lower, self.column.upper
        low = -math.inf if lower is None else lower // tick
        high = math.inf if upper is None else upper // tick + 1
        inside = [(max(a, low), min(b, high)) for a, b in found if a < high and b > low]
        return inside or [(low, low + 1) if lower is not None else (high - 1, high)]

    def _first(self, edges: Array, share: Fraction) -> tuple[Array, float]:
        column = self.column

        def exact() -> NDArray[np.int64]:
            return self.source.histogram(column.name, edges, column.read).reveal()

        return self.look(f"bounds of {column.name}", exact, self.unit * share, False)


def _marginal(column: Binned, edges: Array, noisy: Array, sigma: float) -> NoisyMarginal:
    """The look at the cells as a measurement of the bins: cells outside the range join the end bins."""
    ends = column.edge_array
    owner = np.clip(np.searchsorted(ends, edges[:-1], side="right") - 1, 0, column.present - 1)
    values = np.bincount(owner, weights=noisy[1:], minlength=column.present).astype(np.float64)
    cells = np.bincount(owner, minlength=column.present).astype(np.float64)
    if column.missing:
        values, cells = np.append(values, noisy[0]), np.append(cells, 1.0)
    spread = sigma * np.sqrt(cells)
    return NoisyMarginal(
        (column.name,), values, spread if len(set(spread)) > 1 else math.sqrt(cells[0]) * sigma
    )
