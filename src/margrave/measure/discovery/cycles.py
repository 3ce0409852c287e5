"""find_cycles: at which hours of the day and on which days of the week and of the month a column's rows are.

The released cells of a column are wide, or so many that their counts were smoothed; both hides a pattern that
comes back each day or week. Two looks count the rows by hour and by weekday, all days together. The density
that cells say is then the nearest one (in relative entropy) that has these counts and each bin's mass: what
cells have seen of a pattern is not put in twice.

A third look counts dates by their place in the month: the first to the 30th day, and the last. Contracts and
salaries begin on first days of months and end on last ones; most dates do not, so days of the month are
followed only where some of them stand out.

**Privacy.** Unit and adjacency: the ledger's. Each look counts cells by their place in a public cycle, the
hours of a day or the days of a week: a cell of the table is in one place at most, which depends on that cell
alone, so its sensitivity is that of one marginal. Places in a month are those in a public cycle as well, the
146,097 days after which the calendar repeats itself, summed by a public map from each of these days to one
place in the month: again a cell is in one place at most. Noise is added to the 31 sums. Whether there is a
look follows from released bins, and whether its counts are followed from these counts and released cells.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.kinds import Look
from margrave.measure.discovery.occupancy import keep_near
from margrave.schema.calendar import FIRST_WEEKDAY
from margrave.schema.columns import Binned, Column, Date, Moment
from margrave.schema.cycles import Cycle, count_month_days, list_cycles
from margrave.schema.storage.months import CALENDAR, sum_month_places
from margrave.schema.storage.zones import share_zones

if TYPE_CHECKING:
    from margrave.protocols import Source

LEAVE_TICK = 0.02
"""Chance that rows end with an hour, or a weekday, that holds some. Not measured."""
EMPTY_DEVIATIONS, MANY_DEVIATIONS = 1.0, 8.0
"""Standard deviations of the noise below which an hour or weekday is taken to hold nothing, if the mean one
is MANY_DEVIATIONS of them: else noise would put rows on each Sunday of an office. Not measured."""
LEAST_PERIODS = 2
"""Days, or weeks, that a range has to span for a look at its hours, or weekdays."""
LEAST_MONTH_DAYS = 183
"""Days that a range has to span for a look at days of the month: half a year, in which a day has six turns
and a trend of the rows makes none of them stand out. Not measured."""
STAND_OUT = 4.0
"""Standard deviations of its noise, and of a draw of rows, that a day of the month is off by to stand out.
One in five hundred columns would have such a day by noise alone."""
LEAST_EXCESS = 0.25
"""The least part of the rows it would have that a day of the month is off by, to stand out. Not measured."""
SWEEPS = 50
"""How often hours, weekdays and days of the month are fitted in turn."""

Array = NDArray[np.float64]


def open_cycles(column: Column) -> frozenset[str]:
    """The looks at cycles a column may need: of "hours", "weekdays" and "month_days" those not declared."""
    if not isinstance(column, (Date, Moment)) or (column.edges is not None and not column.provisional):
        return frozenset()
    if column.has_months:  # the first days of months fall on all days of the week alike
        return frozenset()
    parts: dict[str, Any] = {"weekdays": column.weekdays}
    parts |= {"hours": column.hours} if isinstance(column, Moment) else {"month_days": column.month_days}
    return frozenset(part for part, declared in parts.items() if declared is None)


def find_cycles(
    column: Binned,
    source: Source,
    look: Look,
    unit: Fraction,
    weights: Mapping[str, Fraction],
    looks: frozenset[str],
) -> Binned:
    """The column with weights of the hours, weekdays and days of the month that its numbers are drawn by, and
    cells by them.

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
    known = density.follow(column, found)
    span = np.ptp(column.edge_array)
    if isinstance(column, Moment) or "month_days" not in looks or span < LEAST_MONTH_DAYS:
        return known
    exact = functools.partial(_count_month_places, source, column)
    noisy, sigma = look(f"days of the month of {column.name}", exact, unit * weights["month_days"])
    density = Density.of(column, monthly=True)
    usual = density.by(_from_thursday(known.weekdays), np.ones(1)).sum(axis=(0, 1))
    places = weigh_month_days(noisy, sigma, usual)
    return known if places is None else density.follow(column, {**found, "month_days": places})


def _count_ticks(source: Source, column: Binned, tick: int, ticks: int) -> NDArray[np.int64]:
    """Rows with a reading by their place in a cycle: each is in one place at most. **Not private.**"""
    return source.places_in_cycle(column.name, column.read, tick, ticks).reveal()


def _count_month_places(source: Source, column: Binned) -> NDArray[np.int64]:
    """Rows with a date by its place in the month: each is in one place at most. **Not private.**"""
    return sum_month_places(_count_ticks(source, column, 1, CALENDAR))


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


def weigh_month_days(noisy: Array, sigma: float, seen: Array) -> Array | None:
    """Shares of the places in a month by their noisy counts: [MONTH_PLACES]; None if no place stands out.

    Places that stand out have their counts, one after another, the clearest first; the rest of the rows is on
    the others in the proportions that were seen before, so that no noise of theirs is followed. Noise of all
    counts together is known from the rows of the cells, which are measured far better, and is taken out: else
    that of thirty places would hide whether there is any rest.

    Args:
        noisy: Noisy counts, shape [MONTH_PLACES].
        sigma: Standard deviation of their noise.
        seen: The rows on each place as cells and weekdays say, shape [MONTH_PLACES].
    """
    noisy = noisy + (seen.sum() - noisy.sum()) / len(noisy)
    apart = np.zeros(len(noisy), dtype=np.bool_)
    while True:
        rest = ~apart
        rows = max(float(noisy[rest].sum()), 0.0)
        counts = seen * rows / max(float(seen[rest].sum()), 1e-9)
        off, doubt = np.abs(noisy - counts), np.sqrt(sigma**2 + counts)
        clear = rest & (off > STAND_OUT * doubt) & (off > LEAST_EXCESS * counts)
        if not clear.any():
            break
        apart[np.argmax(np.where(clear, off / doubt, 0.0))] = True
    if not apart.any():
        return None
    # The rest is all rows less those of the places apart, of which each has noise.
    if rows < EMPTY_DEVIATIONS * sigma * math.sqrt(apart.sum() * rest.sum() / len(noisy)):
        counts = np.zeros(len(noisy))
    own = np.where(noisy < EMPTY_DEVIATIONS * sigma, 0.0, noisy)
    counts = np.where(apart, own, counts)
    return np.asarray(counts / counts.sum()) if counts.sum() > 0 else None


@dataclasses.dataclass(frozen=True, slots=True)
class Density:
    """What the cells of a column say of its weekdays, and of its hours or days of the month.

    Args:
        mass: Weight of each cell by the weekday, Thursday first, and the hour or the place in the month that
            it falls on, even inside the cell: shape [cells, 7, hours or places]. Hours are those of moments,
            places in the month those of dates for which they are asked; else there is one.
        bins: The bin of each cell, shape [cells].
    """

    mass: Array
    bins: NDArray[np.int64]

    @classmethod
    def of(cls, column: Date | Moment, monthly: bool = False) -> Density:
        """That of a column with bins and cells.

        Args:
            column: Of dates or moments.
            monthly: Whether dates are told apart by their place in the month, as they are where that is
                declared.
        """
        fine = np.asarray(column.fine, dtype=np.float64)
        if isinstance(column, Date) and (monthly or column.month_days is not None):
            lengths = count_month_days(fine[:-1], fine[1:])
        else:
            cycle = Cycle.of_parts(isinstance(column, Moment), np.ones(24), None)
            lengths = cycle.lengths(fine[:-1], fine[1:])
        rate = np.asarray(column.weights) / np.diff(fine)
        bins = np.searchsorted(column.edge_array, fine[:-1], side="right") - 1
        return cls((rate[:, None] * lengths).reshape(len(rate), 7, -1), bins)

    def by(self, days: Array, parts: Array) -> Array:
        """The mass with each weekday and each hour or place in the month weighed, and each bin's mass as it
        was: as `mass`.

        A bin that has no weight left stays as it is.
        """
        weighed = self.mass * days[:, None] * parts
        before, after = (np.bincount(self.bins, weights=one.sum(axis=(1, 2))) for one in (self.mass, weighed))
        held = after > 1e-9 * before
        scale = np.where(held, before / np.where(held, after, 1.0), 0.0)
        return np.where(held[self.bins, None, None], weighed * scale[self.bins, None, None], self.mass)

    def merge(self) -> Density:
        """That of the bins: each is one cell."""
        starts = np.flatnonzero(np.diff(self.bins, prepend=-1))
        return Density(np.add.reduceat(self.mass, starts, axis=0), np.arange(len(starts)))

    def follow(self, column: Date | Moment, shares: Mapping[str, Array]) -> Date | Moment:
        """The column with weights under which rows are on each weekday, hour or place in the month in the
        shares given.

        Args:
            column: Of dates or moments.
            shares: Of "hours" or "month_days", of "weekdays" Thursday first, or both; weights that are
                declared stay.
        """
        own = column.hours if isinstance(column, Moment) else column.month_days
        name = "hours" if isinstance(column, Moment) else "month_days"
        parts = np.array(own or [1.0] * self.mass.shape[2])
        days = _from_thursday(column.weekdays)
        bins = self.merge()  # cells of a bin are weighed alike
        for _ in range(SWEEPS):
            if "weekdays" in shares:
                days = _match(days, shares["weekdays"], bins.by(days, parts).sum(axis=(0, 2)))
            if name in shares:
                parts = _match(parts, shares[name], bins.by(days, parts).sum(axis=(0, 1)))
        cells = self.by(days, parts).sum(axis=(1, 2))
        changes: dict[str, Any] = {"weights": tuple(cells.tolist())}
        if "weekdays" in shares:
            changes["weekdays"] = tuple(np.round(np.roll(days, FIRST_WEEKDAY) / days.mean(), 6).tolist())
        if name in shares:
            changes[name] = tuple(np.round(parts / parts.mean(), 6).tolist())
        return dataclasses.replace(column, **changes)


def _from_thursday(weekdays: Sequence[float] | None) -> Array:
    """Weights of weekdays, given Monday first, from that of 1970-01-01 on; alike where there are none."""
    return np.roll(np.ones(7) if weekdays is None else weekdays, -FIRST_WEEKDAY)


def _match(weights: Array, shares: Array, mass: Array) -> Array:
    """The weights times what lacks to the shares, of mean 1; where no cell has mass they stay.

    The mean keeps them finite where bins allow no such shares.
    """
    total = float(mass.sum())
    found = np.where(mass > 1e-9 * total, weights * shares * total / np.maximum(mass, 1e-9 * total), weights)
    return np.asarray(found / found.mean() if found.sum() > 0 else weights)


def settle_zones(
    columns: Sequence[Column], votes: Mapping[str, tuple[NDArray[np.float64], float]]
) -> list[Column]:
    """The columns, with the zones of moments whose texts have voted on offsets. Post-processing.

    Args:
        columns: Of any kind.
        votes: As `share_zones` takes them.
    """
    zones = share_zones(votes)
    return [
        dataclasses.replace(one, zone=zones[one.name])
        if isinstance(one, Moment) and one.name in zones
        else one
        for one in columns
    ]
