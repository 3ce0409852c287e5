"""NumericDiscovery: the looks of discovery at one column of numbers, dates or times."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.bins import cut_by, merge_rare
from margrave.measure.discovery.kinds import (
    ask_for_clock,
    ask_for_dates,
    find_time_spelling,
    price_clock,
    price_dates,
)
from margrave.measure.discovery.occupancy import (
    expected_counts,
    keep_near,
    share_outside,
    spread_counts,
    trimmed_range,
    weigh_cells,
)
from margrave.measure.discovery.ranges import (
    MOST_VALUES,
    PLACE_CELLS,
    Spans,
    add_end,
    choose_fineness,
    count_zeros,
    day_edges,
    is_narrow,
    nearest,
    number_edges,
    number_prior,
    on_steps,
    place_edges,
    reach_ends,
    reach_to_zero,
    refined_edges,
    span_edges,
    spans,
    steps_between,
    year_edges,
    year_prior,
)
from margrave.measure.discovery.reach import limit_reach
from margrave.measure.discovery.refine import Seen, cut_faint_ends, measure_bins
from margrave.measure.discovery.tails import BoundsLook, Tails, find_tails, refine_tails, weigh_tails
from margrave.measure.discovery.values import (
    Atom,
    Histogram,
    Multiples,
    all_on,
    are_single,
    atom_edges,
    common_step,
    count_looks,
    find_spikes,
    place_atoms,
    released_grids,
    share_look,
    split_atoms,
    steps_of,
)
from margrave.measure.mechanisms.partition import may_be_missing
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned, Categorical, Column, Date, Moment, Time, Whole
from margrave.schema.columns.binned import DEFAULT_BINS
from margrave.schema.storage.clock import DAY

if TYPE_CHECKING:
    from margrave.protocols import Source

SHARES = {
    "profile": Fraction(1),
    "format": Fraction(1, 2),
    "bounds": Fraction(3),
    "spread": Fraction(1),
    "detail": Fraction(7),
    "atoms": Fraction(9, 4),
    "grids": Fraction(1),
    "hours": Fraction(1, 2),
    "weekdays": Fraction(1, 4),
    "month_days": Fraction(1, 4),
    "spelling": Fraction(1, 2),
    "offsets": Fraction(1, 4),
    "marks": Fraction(1, 4),
    "censored": Fraction(2),
    "values": Fraction(10),
    "lists": Fraction(1, 4),
    "shapes": Fraction(1),
    "distinct": Fraction(1, 4),
    "prefixes": Fraction(5, 2),
}
"""Relative weight of one column's look of each sort when discovery's rho is shared out. That of offsets was
not measured."""

Z_BOUNDS = 4.5
"""Standard deviations of noise from which on the cell nearest to zero counts as held. Not measured."""
MOST_HIDDEN = 0.05
"""Share of the rows up to which numbers that noise hides are taken for missing. Not measured."""
LEAST_MISSING = 0.5
"""Share of the rows without a number from which those that noise hides are missing, if fewer are expected in
all cells than one deviation of its noise. Not measured."""
FEW_OCTAVES = 2
"""Powers of two between the bounds up to which a second look finds them more closely. Not measured."""
SPARSE_SHARE = 0.05
"""Expected share of the rows, half of it at either end, that cells of equal width need not resolve."""
LEAVE_OCTAVE, LEAVE_CELL = 0.2, 0.02
"""Chance that the numbers end with a cell that holds some: with an octave, and with a smaller cell."""
FINER_BOUNDS_WEIGHT = Fraction(1, 2)
"""Weight of the second look at bounds, taken out of that of both looks."""
REFINING = Fraction(1, 7), Fraction(1, 7)
"""Parts of what the looks at details cost that go to the first of them; the last has the rest."""
PART_DEVIATIONS = 4.0
"""Standard deviations of the last look's noise that the rows of a part of a cell should be: bench/LOG.md,
2026-11-25."""
SPREAD_CELLS = 16
"""Cells of the look at where rows are between declared bounds that lie close together."""
TIME_CELLS = 288
"""Cells of the look at times of day: five minutes each."""

Array = NDArray[np.float64]
Exact = Callable[[], NDArray[np.int64]]
Look = Callable[[str, Exact, Fraction, bool], tuple[Array, float]]
"""What is looked at, the exact counts, rho, and whether every row is in them; the noisy counts and sigma."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Range:
    """What the first looks at a column have told: where its numbers lie, about.

    Args:
        edges: Edges of the cells to look at next, shape [cells + 1].
        coarse: Edges of the last look's cells, shape [coarse cells + 1].
        counts: Rows expected of these, shape [coarse cells].
        multiples: The look at multiples.
        bounds: The look at bounds, where there was one at numbers of any size.
    """

    edges: Array
    coarse: Array
    counts: Array
    multiples: Multiples = dataclasses.field(default_factory=Multiples)
    bounds: BoundsLook | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NumericDiscovery:
    """The looks at one column that has bins; see `Discovery` for what each is and why it is private.

    Args:
        source: The private table.
        column: A column of numbers, dates or times without edges, or with edges that only stand in.
        look: Prices, records and adds the noise.
        unit: rho of a look of weight 1.
        least: Least mass of a bin, from the denoised counts.
        most: Most bins that later tables of two columns have rows for, from the same.
        rows: A released guess of the row count; 0 for none.
        sigma: Standard deviation of the noise that a cost of rho buys.
        text: Whether the column is text, as the profile has told.
        today: The day on which the run began.
        guessed: Whether its kind was found, so that whole numbers may turn out to be times of day, or dates.
        bounds: Weight of the look at the range of dates.
        zones: Where votes on offsets from UTC are put, by column.
    """

    source: Source
    column: Binned
    look: Look
    unit: Fraction
    least: Callable[[Array], float]
    most: Callable[[Array], int]
    rows: float
    sigma: Callable[[Fraction], float]
    text: bool
    today: datetime.date
    guessed: bool = False
    bounds: Fraction = SHARES["bounds"]
    zones: dict[str, tuple[Array, float]] = dataclasses.field(default_factory=dict)

    def run(self) -> tuple[Column, NoisyMarginal]:
        """Bounds where there are none, then bins, weights and missingness, then grids."""
        if self.column.edges is not None and not self.column.provisional:
            return self._merge_declared()
        start = self._first_looks()
        if not isinstance(start, _Range):
            # Of dates the range is looked at once more, in place of a closer look at that of the numbers.
            source, bounds = self.source.read_as([start]), FINER_BOUNDS_WEIGHT
            return dataclasses.replace(self, source=source, column=start, bounds=bounds).run()
        seen = self._details(start.edges, start.counts, start.multiples.step)
        if self._is_hidden(start.bounds, seen):
            name, mark = self.column.name, self.column.mark
            column = Categorical(name=name, values=(), missing=True, mark=mark, strict=False)
            return column, NoisyMarginal((column.name,), np.array([seen.absent]), seen.doubt)
        found = self._with_atoms(seen, start.multiples.step)
        if not self.column.provisional:
            found = cut_faint_ends(found, max(start.multiples.step, self.column.unit))
        noise = float(np.sqrt(found.variances.mean()))
        found, reach = limit_reach(found, self.column, is_narrow(self.column), self.today)
        tails = self._tails(found, self._rows(np.append(seen.absent, seen.noisy)), start.bounds)
        found = weigh_tails(found, tails)
        least = max(self.least(found.weights), self.column.rare * float(found.weights.sum()))
        most = min(self.column.bins or DEFAULT_BINS, self.most(found.weights))
        bins = cut_by(self.column.binning, found.edges, found.weights, most, least, found.alone)
        parts = refine_tails(bins, tails, isinstance(self.column, Whole))
        if self.column.provisional:
            parts = reach_ends(*parts, *self._ends())
        known = dataclasses.replace(
            self.column,
            lower=None,
            upper=None,
            edges=tuple(parts[0].tolist()),
            fine=tuple(parts[1].tolist()),
            weights=tuple(parts[2].tolist()),
            noise=noise,
            reach=reach,
            unbounded=(math.isinf(self._ends()[0]), math.isinf(self._ends()[1])),
            grids=self._grids(start.multiples, found),
            missing=may_be_missing(self.column, seen.absent, seen.doubt),
            strict=False,
            rare=0.0,
            provisional=False,
        )
        if self.text:
            known = find_time_spelling(known, self.source, self.look, self.unit, SHARES, self.zones)
        return known, measure_bins(known, found, seen.absent, seen.doubt)

    def _is_hidden(self, bounds: BoundsLook | None, seen: Seen) -> bool:
        """Whether most rows have no number and noise hides where those of the others are, or all of them are.

        Drawn from a range of noise, a few speeds of aircraft would be millions; so all are missing.
        """
        if bounds is None or self.column.missing is False or self.column.provisional:
            return False
        rows, evident = self._rows(np.append(seen.absent, seen.noisy)), Z_BOUNDS * bounds.sigma
        least = LEAST_MISSING if float(seen.weigh().sum()) < seen.doubt else 1 - MOST_HIDDEN
        return float(bounds.noisy.max()) <= evident and seen.absent >= least * rows

    def _tails(self, found: Histogram, rows: float, bounds: BoundsLook | None) -> Tails:
        """The laws of the largest and the least numbers, which end where that is declared.

        None between bounds that are near, where no number is far out (`weigh_cells`).
        """
        if self.column.read != "number" or self.column.grids or is_narrow(self.column):
            return Tails()
        return find_tails(found, rows, bounds, self._ends())

    def _details(self, edges: Array, prior: Array, step: float) -> Seen:
        """The rows by cell, after looks at ever finer cells where rows are expected.

        Args:
            edges: Of the cells to begin with, shape [cells + 1].
            prior: Counts expected of them, shape [cells].
            step: What all values are multiples of; 0 if that is not known.
        """
        parts = [*REFINING, 1 - sum(REFINING, Fraction(0))]
        unit, mass = max(step, self.column.unit), PART_DEVIATIONS * self._sigma(parts[-1])
        first = parts.pop(0)
        noisy, sigma = self._detail(edges, first)
        spread = np.full(len(edges) - 1, sigma**2)
        seen = Seen(edges, noisy[1:], spread, prior, float(noisy[0]), sigma, is_narrow(self.column))
        while parts:
            finer = seen.split(mass, unit)
            # Where no cell is split, nothing is to be learned from one more look, and all goes to the last.
            parts = [sum(parts, Fraction(0))] if len(finer) == len(seen.edges) else parts
            seen = seen.add_look(finer, *self._detail(finer, parts.pop(0)))
        return seen

    def _with_atoms(self, seen: Seen, step: float) -> Histogram:
        """The rows by cell with a cell for each value that holds rows of its own, after some more looks. All
        values are multiples of `step`, if that is above 0."""
        column, edges = self.column, seen.edges
        if step > 0:
            column = dataclasses.replace(column, grids=((step, 1.0),))
        unit, sigma = column.unit, float(np.sqrt(seen.variances.max()))
        weights = seen.weigh()
        single = are_single(edges, unit)
        found = Histogram(edges, seen.noisy, seen.variances, weights, single, np.zeros_like(single))
        spikes = find_spikes(edges, seen.noisy, sigma, unit)
        # As many looks as it takes to come to single numbers.
        atoms, done, left = list[Atom](), 0, Fraction(1)
        while spikes and left > 0:
            part = share_look(count_looks(spikes, column), done, left)
            cuts = atom_edges(spikes, column, done > 0)
            more, spikes = place_atoms(spikes, cuts, *self._values_alone(cuts, part), column)
            atoms, done, left = [*atoms, *more], done + 1, left - part
        return split_atoms(found, atoms, column, seen.weigh_rest)

    def _values_alone(self, edges: Array, part: Fraction) -> tuple[Array, float]:
        """A noisy look at single values and what is between them; rows outside all are in two more cells.

        part: of what all such looks cost.
        """
        column = self.column
        ends = np.nextafter(edges[[0, -1]], [-np.inf, np.inf])
        if isinstance(column, Whole):  # far from zero the next float is further than the next number
            ends = np.array([min(edges[0] - 1.0, ends[0]), max(edges[-1] + 1.0, ends[1])])
        cells = np.concatenate([ends[:1], edges, ends[1:]])

        def exact() -> NDArray[np.int64]:
            return self.source.histogram(column.name, cells, column.read).reveal()

        noisy, sigma = self.look(f"atoms of {column.name}", exact, self.unit * SHARES["atoms"] * part, False)
        return noisy[1:-1], sigma

    def _merge_declared(self) -> tuple[Column, NoisyMarginal]:
        """The declared bins, rare ones merged, and their weights.

        Strict no longer: values were compared with what is declared before anything was asked, and an error
        by what noise has settled since, whether any is missing, would follow a single row.
        """
        column, edges = self.column, self.column.edge_array
        noisy, sigma = self._detail(edges)
        starts = merge_rare(noisy[1:], sigma, column.rare * float(noisy[1:].sum()))
        fine, weights, noise = column.fine, column.weights, column.noise
        if fine is None:
            inside = weigh_cells(noisy[1:], sigma, self._even(edges))
            fine, weights, noise = column.edges, tuple(inside.tolist()), sigma
        known = dataclasses.replace(
            column,
            edges=tuple(np.append(edges[starts], edges[-1]).tolist()),
            missing=may_be_missing(column, float(noisy[0]), sigma),
            fine=fine,
            weights=weights,
            noise=noise,
            rare=0.0,
            strict=False,
        )
        cells = len(edges) - 1
        none = np.zeros(cells), np.zeros(cells, dtype=np.bool_), np.zeros(cells, dtype=np.bool_)
        found = Histogram(edges, noisy[1:], np.full(cells, sigma**2), *none)
        return known, measure_bins(known, found, float(noisy[0]), sigma)

    def _detail(self, edges: Array, part: Fraction = Fraction(1)) -> tuple[Array, float]:
        """Noisy rows without a reading, then by cell, and their sigma: a look that every row is in.

        Args:
            edges: Of the cells.
            part: Of what all looks at the details cost.
        """
        what = f"detail of {self.column.name}"
        return self.look(what, lambda: self._cells(edges), self.unit * SHARES["detail"] * part, True)

    def _even(self, edges: Array) -> Array:
        """Counts expected of cells of which nothing is known: the same in each."""
        return np.full(len(edges) - 1, self._rows(None) / (len(edges) - 1))

    def _cells(self, edges: Array) -> NDArray[np.int64]:
        """Rows without a reading, and rows by cell: each row is in exactly one. **Not private.**

        Both come from one scan: a difference of two scans would move by more than one row's worth if the
        table changed in between.
        """
        found = self.source.histogram(self.column.name, edges, self.column.read, absent=True).reveal()
        return np.roll(found, 1)

    def _multiples(
        self, most: float, zeros: float | None = None, weight: Fraction = SHARES["grids"]
    ) -> Multiples:
        """A look at the steps that the numbers are multiples of.

        Args:
            most: The largest number found, in size.
            zeros: Rows that hold 0, about; None where no step is to be taken for that of all values.
            weight: What the look weighs.
        """
        column, steps = self.column, steps_of(self.column, most)
        if not steps:
            return Multiples()

        def exact() -> NDArray[np.int64]:
            return self.source.grids(column.name, steps, column.read).reveal()

        noisy, sigma = self.look(f"grids of {column.name}", exact, self.unit * weight, False)
        step = 0.0 if zeros is None else common_step(steps, noisy, sigma, zeros)
        return Multiples(steps, noisy, sigma, step)

    def _grids(self, multiples: Multiples, found: Histogram) -> tuple[tuple[float, float], ...]:
        """The grids that values are drawn on."""
        column = self.column
        if not multiples.steps:
            return column.grids
        seen = found.edges, found.weights, found.variances
        looks = multiples.steps, multiples.noisy, multiples.sigma
        grids = released_grids(column, *looks, *seen, multiples.step)
        return all_on(grids, multiples.step) if multiples.step > 0 else grids

    def _first_looks(self) -> _Range | Time | Date | Moment:
        """Cells of the look at the column's values and the counts expected of them, after looks at bounds
        and multiples; or the column of times of day, or of dates, that whole numbers turn out to be."""
        low, high = self._ends()
        if isinstance(self.column, Time):
            edges = np.unique(np.rint(np.linspace(max(low, 0.0), min(high, DAY), TIME_CELLS + 1)))
            start = _Range(edges, edges, self._even(edges), self._multiples(float(np.abs(edges).max()), 0.0))
        elif isinstance(self.column, (Date, Moment)):
            edges, coarse, counts = self._calendar()
            # Looks at whole days begin before a bound that has a time of day, and end after one.
            edges = np.unique(np.clip(edges, low, high))
            start = _Range(edges, coarse, counts, self._multiples(float(np.abs(edges).max()), 0.0))
        else:
            found = self._numbers()
            if not isinstance(found, _Range):
                return found
            start = found
        step = self.column.step
        edges = on_steps(start.edges, step) if step > 0 else start.edges
        if self.column.upper is None or isinstance(self.column, Whole):
            counts = spread_counts(start.coarse, start.counts, edges)
        else:
            edges = np.append(edges[edges < self.column.upper], float(self.column.upper))
            edges, counts = add_end(edges, spread_counts(start.coarse, start.counts, edges))
        return dataclasses.replace(start, edges=edges, coarse=edges, counts=counts)

    def _numbers(self) -> _Range | Time | Date | Moment:
        """Cells over the range of the numbers: to powers of two, then, far from zero, more closely."""
        whole = isinstance(self.column, Whole)
        if is_narrow(self.column):
            return self._narrow(whole)
        first = number_edges(whole)
        coarse = first = first[self._overlap(first)]
        noisy, sigma = self._first(first, SHARES["bounds"] - FINER_BOUNDS_WEIGHT)
        bounds, rows = BoundsLook(first, noisy, sigma), self._rows(noisy)
        counts, _ = expected_counts(noisy, sigma, rows * number_prior(first), leave=LEAVE_OCTAVE, floor=0.0)
        start, stop = trimmed_range(counts, share_outside(counts, sigma))
        priced, (low, high) = (self.unit, rows, self.sigma), trimmed_range(counts, SPARSE_SHARE)
        dates = price_dates(self.column, (first[low], first[high]), *priced) * self.guessed
        if dates and (found := ask_for_dates(self.column, self.source, self.look, dates)):
            return found
        if stop - start <= FEW_OCTAVES and first[start] * first[stop] > 0:
            lower, upper = self._ends()
            place = max(float(first[start]), lower), min(float(first[stop]), upper)
            if place[0] < place[1]:  # else all numbers that were found are beyond a declared bound
                coarse, counts, (start, stop) = self._closer(*place, whole, counts[start:stop].sum())
        coarse, counts, (start, stop) = reach_to_zero(coarse, counts, (start, stop))
        lower, upper = self._declared_bounds(float(coarse[start]), float(coarse[stop]), whole)
        near = 1.0 if whole else nearest(first, noisy, sigma, Z_BOUNDS)
        most = min(MOST_VALUES, rows / self._sigma())
        if whole and upper - lower <= most:
            return _Range(np.arange(lower, upper + 1), coarse, counts, bounds=bounds)
        first_cell, end = trimmed_range(counts, SPARSE_SHARE)
        inner = float(np.clip(coarse[first_cell], lower, upper)), float(np.clip(coarse[end], lower, upper))
        cost = price_clock(self.column, inner, *priced) * self.guessed
        if cost and (clock := ask_for_clock(self.column, self.source, self.look, cost)):
            return clock
        weight = SHARES["grids"] - (dates + cost) / self.unit
        multiples = self._multiples(max(abs(lower), abs(upper)), count_zeros(coarse, counts), weight)
        fineness = choose_fineness(rows, self._sigma())
        edges = refined_edges(lower, upper, whole, near, fineness, inner)
        step = multiples.step or float(whole)
        if step > 0 and 0 < inner[1] - inner[0] <= most * step:
            edges = np.union1d(on_steps(edges, step), on_steps(steps_between(*inner, step), step))
        elif step > 1:
            edges = on_steps(edges, step)
        return _Range(edges, coarse, counts, multiples, bounds)

    def _narrow(self, whole: bool) -> _Range:
        """As `_numbers`, between declared bounds so close that no look at the range is needed."""
        lower, upper = self._ends()
        coarse, counts = self._spread(lower, upper)
        rows = float(counts.sum())
        if upper - lower <= rows / self._sigma():
            return _Range(np.arange(lower, upper + 1), coarse, counts)
        multiples = self._multiples(max(abs(lower), abs(upper)))
        edges = refined_edges(lower, upper, whole, None, choose_fineness(rows, self._sigma()))
        return _Range(edges, coarse, counts, multiples)

    def _spread(self, lower: float, upper: float, tick: float = 1.0) -> tuple[Array, Array]:
        """Equal cells between declared bounds that lie close together, and the counts expected of them.

        Without it, rows near the ends that are evident together but not cell by cell would be taken for none.

        Args:
            lower: Where the cells begin, a whole number.
            upper: Where they end, a whole number.
            tick: Numbers of the column in the unit of both.
        """
        edges = np.unique(np.ceil(np.linspace(lower, upper, SPREAD_CELLS + 1))) * tick
        exact = functools.partial(self._between, edges)
        noisy, sigma = self.look(f"spread of {self.column.name}", exact, self.unit * SHARES["spread"], False)
        even = np.full(len(noisy), self._rows(noisy) / len(noisy))
        return edges, keep_near(noisy, sigma, even, LEAVE_OCTAVE)

    def _ends(self) -> tuple[float, float]:
        """The declared bounds, the upper one of whole numbers left out; infinite where there is none."""
        lower, upper = self.column.lower, self.column.upper
        low = -math.inf if lower is None else float(lower)
        return low, math.inf if upper is None else float(upper) + isinstance(self.column, Whole)

    def _overlap(self, edges: Array, tick: float = 1.0) -> slice:
        """The edges of the cells in which declared values can lie; all where a bound is not declared.

        Args:
            edges: Cell edges, shape [cells + 1].
            tick: Numbers of the column in their unit.
        """
        if not self.column.provisional:
            return slice(None)
        low, high = self._ends()
        first = max(int(np.searchsorted(edges * tick, low, side="right")) - 1, 0)
        last = int(np.searchsorted(edges * tick, high, side="left"))
        first = min(first, len(edges) - 2)
        return slice(first, max(last, first + 1) + 1)

    def _declared_bounds(self, lower: float, upper: float, whole: bool) -> tuple[float, float]:
        """The bounds, with those that are declared in the place of those found."""
        if self.column.lower is not None:
            lower = float(self.column.lower)
            upper = max(upper, lower + 1)
        if self.column.upper is not None:
            upper = float(self.column.upper) + whole
            lower = min(lower, upper - 1)
        return lower, upper

    def _closer(
        self, lower: float, upper: float, whole: bool, rows: float
    ) -> tuple[Array, Array, tuple[int, int]]:
        """Edges, expected counts and range of a look at numbers far from zero, such as years."""
        edges = place_edges(lower, upper, whole)
        if len(edges) <= PLACE_CELLS:  # each whole number has a cell already
            return np.array([lower, upper]), np.array([rows]), (0, 1)
        noisy, sigma = self._first(edges, FINER_BOUNDS_WEIGHT)
        even = np.full(len(noisy), rows / len(noisy))
        counts, _ = expected_counts(noisy, sigma, even, leave=LEAVE_CELL)
        return edges, counts, trimmed_range(counts, share_outside(counts, sigma))

    def _calendar(self) -> tuple[Array, Array, Array]:
        """Stretches of years; of moments in few of them, stretches of days, for half of the rho each.

        Returns:
            Edges of the cells to look at next; edges of the last look's cells, and the rows expected of them.
        """
        clock = isinstance(self.column, Moment)
        tick = float(DAY) if clock else 1.0
        if is_narrow(self.column):
            low, high = math.floor(self._ends()[0] / tick), math.ceil(self._ends()[1] / tick)
            coarse, counts = self._spread(low, high, tick)
            fineness = choose_fineness(float(counts.sum()), self._sigma())
            return np.rint(span_edges([(low, high)], clock, fineness) * tick), coarse, counts
        years = year_edges()
        near = self._overlap(years, tick)
        years, prior = years[near], np.append(year_prior(), 0.0)[near][:-1]
        coarse = years
        share = self.bounds / 2 if clock else self.bounds
        noisy, sigma = self._first(years * tick, share)
        prior = prior / prior.sum()
        counts, _ = expected_counts(noisy, sigma, self._rows(noisy) * prior, leave=LEAVE_CELL)
        found = spans(years, counts, share_outside(counts, sigma))
        days = day_edges(found) if clock else None
        if days is not None:
            prior = spread_counts(years, counts, days)
            seen, sigma = self._first(days * tick, share)
            counts, _ = expected_counts(seen, sigma, prior, leave=LEAVE_CELL)
            coarse, found = days, spans(days, counts, share_outside(counts, sigma))
        inside = self._within(found, tick)
        fineness = choose_fineness(self._rows(noisy), self._sigma())
        edges = np.rint(span_edges(inside, clock, fineness) * tick)
        return edges, coarse * tick, counts

    def _rows(self, noisy: Array | None) -> float:
        """How many rows there are, as released elsewhere, or else as a look says."""
        return self.rows or max(float(noisy.sum()) if noisy is not None else 0.0, 1.0)

    def _sigma(self, part: Fraction = Fraction(1)) -> float:
        return self.sigma(self.unit * SHARES["detail"] * part)

    def _within(self, found: Spans, tick: float) -> Spans:
        """The stretches inside the bounds that are declared."""
        lower, upper = self.column.lower, self.column.upper
        low = -math.inf if lower is None else lower // tick
        high = math.inf if upper is None else upper // tick + 1
        inside = [(max(a, low), min(b, high)) for a, b in found if a < high and b > low]
        return inside or [(low, low + 1) if lower is not None else (high - 1, high)]

    def _first(self, edges: Array, share: Fraction) -> tuple[Array, float]:
        what, exact = f"bounds of {self.column.name}", functools.partial(self._between, edges)
        return self.look(what, exact, self.unit * share, False)

    def _between(self, edges: Array) -> NDArray[np.int64]:
        """Rows with a reading by cell: each is in one cell at most. **Not private.**"""
        return self.source.histogram(self.column.name, edges, self.column.read).reveal()
