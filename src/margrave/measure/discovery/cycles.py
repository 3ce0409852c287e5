"""find_cycles: at which hours of the day and on which days of the week the rows of a column are.

The released cells of a column are wide, or so many that their counts were smoothed; both hides a pattern that
comes back each day or week. Two looks count the rows by hour and by weekday, all days together. The density
that cells say is then the nearest one (in relative entropy) that has these counts and each bin's mass: what
cells have seen of a pattern is not put in twice.

**Privacy.** Unit and adjacency: the ledger's. Each look counts cells by their place in a public cycle, the
hours of a day or the days of a week: a cell of the table is in one place at most, which depends on that cell
alone, so its sensitivity is that of one marginal. Whether there is a look follows from released bins.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.kinds import Look
from margrave.measure.discovery.occupancy import keep_near
from margrave.schema.calendar import FIRST_WEEKDAY
from margrave.schema.columns import Binned, Column, Date, Moment
from margrave.schema.cycles import Cycle, list_cycles

if TYPE_CHECKING:
    from margrave.protocols import Source

LEAVE_TICK = 0.02
"""Chance that rows end with an hour, or a weekday, that holds some. Not measured."""
EMPTY_DEVIATIONS, MANY_DEVIATIONS = 1.0, 8.0
"""Standard deviations of the noise below which an hour or weekday is taken to hold nothing, if the mean one
is MANY_DEVIATIONS of them: else noise would put rows on each Sunday of an office. Not measured."""
LEAST_PERIODS = 2
"""Days, or weeks, that a range has to span for a look at its hours, or weekdays."""
SWEEPS = 50
"""How often hours and weekdays are fitted in turn."""

Array = NDArray[np.float64]


def open_cycles(column: Column) -> frozenset[str]:
    """The looks at cycles that a column may need: of "hours" and "weekdays", what is not declared."""
    if not isinstance(column, (Date, Moment)) or (column.edges is not None and not column.provisional):
        return frozenset()
    if column.has_months:  # the first days of months fall on all days of the week alike
        return frozenset()
    hours = {"hours"} if isinstance(column, Moment) and column.hours is None else set()
    return frozenset(hours | ({"weekdays"} if column.weekdays is None else set()))


def find_cycles(
    column: Binned,
    source: Source,
    look: Look,
    unit: Fraction,
    weights: Mapping[str, Fraction],
    looks: frozenset[str],
) -> Binned:
    """The column with weights of the hours and weekdays that its numbers are drawn by, and cells by them.

    Args:
        column: Of dates or moments, with bins and cells; others come back as they are.
        source: The private table.
        look: Prices, records and adds the noise.
        unit: rho of a look of weight 1.
        weights: The weight of each sort of look.
        looks: Those that may be taken, of `open_cycles`; one is where the range is LEAST_PERIODS long.
    """
    if not isinstance(column, (Date, Moment)) or column.fine is None or not sum(column.weights or ()) > 0:
        return column
    density = Density.of(column)
    found: dict[str, Array] = {}
    for part, tick, ticks in list_cycles(isinstance(column, Moment)):
        if part not in looks or np.ptp(column.edge_array) < LEAST_PERIODS * tick * ticks:
            continue
        exact = functools.partial(_count_ticks, source, column, tick, ticks)
        noisy, sigma = look(f"{part} of {column.name}", exact, unit * weights[part])
        found[part] = weigh_ticks(noisy, sigma, density.mass.sum(axis=(0, 1 if part == "hours" else 2)))
    return density.follow(column, found)


def _count_ticks(source: Source, column: Binned, tick: int, ticks: int) -> NDArray[np.int64]:
    """Rows with a reading by their place in a cycle: each is in one place at most. **Not private.**"""
    return source.places_in_cycle(column.name, column.read, tick, ticks).reveal()


def weigh_ticks(noisy: Array, sigma: float, seen: Array) -> Array:
    """Shares of hours or weekdays by their noisy counts: shape [ticks].

    Args:
        noisy: Noisy counts, shape [ticks].
        sigma: Standard deviation of their noise.
        seen: What the cells of the column say, in any unit, shape [ticks].
    """
    rows = max(float(noisy.sum()), 1.0)
    counts = keep_near(noisy, sigma, seen * (rows / float(seen.sum())), LEAVE_TICK)
    if rows >= MANY_DEVIATIONS * sigma * len(noisy):
        counts = np.where(noisy < EMPTY_DEVIATIONS * sigma, 0.0, counts)
    return np.asarray(counts / counts.sum() if counts.sum() > 0 else seen / seen.sum())


@dataclasses.dataclass(frozen=True, slots=True)
class Density:
    """What the cells of a column say of its weekdays and hours.

    Args:
        mass: Weight of each cell by the weekday, Thursday first, and the hour that it falls on, even inside
            the cell: shape [cells, 7, hours]; hours are one for dates.
        bins: The bin of each cell, shape [cells].
    """

    mass: Array
    bins: NDArray[np.int64]

    @classmethod
    def of(cls, column: Date | Moment) -> Density:
        """That of a column with bins and cells."""
        clock = isinstance(column, Moment)
        fine = np.asarray(column.fine, dtype=np.float64)
        lengths = Cycle.of_parts(clock, np.ones(24), None).lengths(fine[:-1], fine[1:])
        rate = np.asarray(column.weights) / np.diff(fine)
        bins = np.searchsorted(column.edge_array, fine[:-1], side="right") - 1
        return cls((rate[:, None] * lengths).reshape(len(rate), 7, -1), bins)

    def by(self, days: Array, hours: Array) -> Array:
        """The mass with each weekday and hour weighed, and each bin's mass as it was: as `mass`.

        A bin that has no weight left stays as it is.
        """
        weighed = self.mass * days[:, None] * hours
        before, after = (np.bincount(self.bins, weights=one.sum(axis=(1, 2))) for one in (self.mass, weighed))
        held = after > 1e-9 * before
        scale = np.where(held, before / np.where(held, after, 1.0), 0.0)
        return np.where(held[self.bins, None, None], weighed * scale[self.bins, None, None], self.mass)

    def follow(self, column: Date | Moment, shares: Mapping[str, Array]) -> Binned:
        """The column with weights of hours and weekdays under which rows are on each in the shares given.

        Args:
            column: Of dates or moments.
            shares: Of "hours", of "weekdays" Thursday first, or both; weights that are declared stay.
        """
        hours = np.array((column.hours if isinstance(column, Moment) else None) or [1.0] * self.mass.shape[2])
        days = np.roll(column.weekdays or np.ones(7), -FIRST_WEEKDAY)
        for _ in range(SWEEPS):
            if "weekdays" in shares:
                days = _match(days, shares["weekdays"], self.by(days, hours).sum(axis=(0, 2)))
            if "hours" in shares:
                hours = _match(hours, shares["hours"], self.by(days, hours).sum(axis=(0, 1)))
        cells = self.by(days, hours).sum(axis=(1, 2))
        changes: dict[str, Any] = {"weights": tuple(cells.tolist())}
        if "weekdays" in shares:
            changes["weekdays"] = tuple(np.round(np.roll(days, FIRST_WEEKDAY) / days.mean(), 6).tolist())
        if "hours" in shares:
            changes["hours"] = tuple(np.round(hours / hours.mean(), 6).tolist())
        return dataclasses.replace(column, **changes)


def _match(weights: Array, shares: Array, mass: Array) -> Array:
    """The weights times what lacks to the shares, of mean 1; where no cell has mass they stay.

    The mean keeps them finite where bins allow no such shares.
    """
    total = float(mass.sum())
    found = np.where(mass > 1e-9 * total, weights * shares * total / np.maximum(mass, 1e-9 * total), weights)
    return np.asarray(found / found.mean() if found.sum() > 0 else weights)
