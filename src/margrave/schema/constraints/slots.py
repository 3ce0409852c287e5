"""The days, hours or minutes of a column of dates, of which those that agree with a number are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.calendar import HOUR, MINUTE, Instant
from margrave.schema.columns import Binned, Date, Temporal, Time
from margrave.schema.constraints.draws import running_weights
from margrave.schema.constraints.rules import DatePart, DateRule
from margrave.schema.cycles import Cycle
from margrave.schema.storage.clock import DAY

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Truths = NDArray[np.bool_]

MOST_SLOTS = 1 << 20
"""Days, or hours, of a column's range, at most, among which dates are sought that say what numbers do."""
WHOLE_SLOTS = 0.5
"""Share of values that are multiples of a slot's length from which slots are not cut at the ends of bins. Not
measured."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The days, hours or minutes of a column's range.

    Args:
        column: Of dates, moments or times of day.
        length: Of a whole day, hour or minute in the column's unit.
        starts: Where each slot begins, increasing, shape [slots]: those that several bins share are cut.
        ends: Where each ends, shape [slots].
        bins: The bin that each lies in, shape [slots].
        weights: How much each weighs among those of its bin, above 0, shape [slots].
        told: What each says of each number, shape [rules, slots].
        able: Whether the number can become that, of the same shape.
    """

    column: Temporal
    length: int
    starts: Longs
    ends: Longs
    bins: Longs
    weights: Floats
    told: Longs
    able: Truths

    @classmethod
    def of(
        cls, column: Temporal, rules: Sequence[DateRule], changes: Sequence[Callable[[Longs], Truths]]
    ) -> Slots | None:
        """Those of a column; None where its range has too many.

        Args:
            column: Of dates, moments or times of day.
            rules: About it.
            changes: Of each rule, which numbers its own can become.
        """
        clock, daily = not isinstance(column, Date), isinstance(column, Time)
        parts = {rule.part for rule in rules if isinstance(rule, DatePart)}
        length = 1 if not clock else MINUTE if "minute" in parts else HOUR if "hour" in parts else DAY
        edges = np.ceil(column.edge_array).astype(np.int64)
        first, last = int(edges[0] // length), int((edges[-1] - 1) // length)
        if last - first >= MOST_SLOTS:
            return None
        whole = np.arange(first + 1, last + 1, dtype=np.int64) * length
        # Where values are whole days, the part of a day behind a bin's end holds none.
        coarse = sum(share for step, share in column.grids if step % length == 0) >= WHOLE_SLOTS
        cuts = np.unique(np.append(edges[[0, -1]] if coarse else edges, whole))
        starts, ends = cuts[:-1], cuts[1:]
        bins = np.searchsorted(edges, starts, side="right") - 1
        weights = _weigh_between(column, starts, ends)
        cycle = Cycle.of(column)
        if cycle is not None:
            weights = weights * cycle.mass(starts, ends)
        instant = Instant.of(starts, clock, daily)
        told = np.array([rule.tell_number([instant]) for rule in rules], dtype=np.int64)
        # A day without weight comes last, but it comes: a number may ask for just that one.
        weights = np.maximum(weights, 1e-9 * float(weights.max()))
        able = np.array([change(own) for change, own in zip(changes, told, strict=True)])
        return cls(column, length, starts, ends, bins.astype(np.int64), weights, told, able)

    def draw_agreeing(
        self,
        codes: Longs,
        wanted: Sequence[Floats],
        drawn: Longs,
        rng: np.random.Generator,
        leaving: bool = True,
    ) -> Longs:
        """Dates in slots of the rows' bins that say what numbers do, by weight; else as drawn: shape [rows].

        Where a number cannot become what such a date says, the date may be of any bin.

        Args:
            codes: The bin of each row, shape [rows].
            wanted: The numbers, NaN where any will do: shape [rows] each.
            drawn: Dates in these bins, whose place inside a slot is kept, shape [rows].
            rng: Source of randomness.
            leaving: Whether dates may leave their bins at all.
        """
        numbers = np.array(wanted)
        asked = ~np.isnan(numbers)
        chosen = self._choose_most(codes, numbers, asked, rng)
        if leaving:
            own = np.maximum(np.searchsorted(self.starts, drawn, side="right") - 1, 0)
            at = np.where(chosen >= 0, chosen, own)
            stuck = (asked & (self.told[:, at] != numbers) & ~self.able[:, at]).any(axis=0)
            rows = np.flatnonzero(stuck)
            whole = replace(self, bins=np.zeros_like(self.bins))
            found = whole._choose_most(np.zeros_like(rows), numbers[:, rows], asked[:, rows], rng)
            chosen[rows] = np.where(found >= 0, found, chosen[rows])
        result: Longs = drawn.copy()
        rows = np.flatnonzero(chosen >= 0)
        result[rows] = self._place_inside(chosen[rows], drawn[rows])
        return result

    def _place_inside(self, slots: Longs, drawn: Longs) -> Longs:
        """Dates in slots at the times of day of others, shape [rows].

        Where a bin ends before that time, it is taken in proportion from the part of the slot that lies in
        the bin, with whole seconds and minutes kept: else many rows would be at the bin's very end.
        """
        low, high = self.starts[slots], self.ends[slots]
        place = drawn % self.length
        moved: Longs = low // self.length * self.length + place
        step = np.gcd(place, min(HOUR, self.length))
        first, last = -(-low // step), (high - 1) // step
        among = np.maximum(last - first + 1, 1)
        part = np.minimum((place // step * (among / (self.length // step))).astype(np.int64), among - 1)
        inside = np.clip((first + part) * step, low, high - 1)
        return np.where((moved >= low) & (moved < high), moved, inside)

    def _choose_most(self, codes: Longs, numbers: Floats, asked: Truths, rng: np.random.Generator) -> Longs:
        """As `_choose_asked`; where there is no such slot, one that says as many as are found in turn.

        What cannot follow every date comes first, and then numbers of many values: where a month is wrong a
        weekday can still be right.
        """
        chosen = self._choose_asked(codes, numbers, asked, rng)
        rows = np.flatnonzero((chosen < 0) & (asked.sum(axis=0) > 1))
        kept = np.zeros((len(numbers), len(rows)), dtype=np.bool_)
        pairs = zip(self.able, self.told, strict=True)
        rank = [(bool(able.all()), -len(np.unique(told))) for able, told in pairs]
        for place in sorted(range(len(rank)), key=rank.__getitem__):
            trial = kept.copy()
            trial[place] = asked[place, rows]
            found = self._choose_asked(codes[rows], numbers[:, rows], trial, rng)
            kept = np.where(found >= 0, trial, kept)
            chosen[rows] = np.where(found >= 0, found, chosen[rows])
        return chosen

    def _choose_asked(self, codes: Longs, numbers: Floats, asked: Truths, rng: np.random.Generator) -> Longs:
        """A slot of each row's bin that says the numbers asked for, -1 where there is or is asked for none.

        Args:
            codes: The bin of each row, shape [rows].
            numbers: Shape [rules, rows].
            asked: Which of them, of the same shape.
            rng: Source of randomness.
        """
        chosen: Longs = np.full(len(codes), -1, dtype=np.int64)
        # Which numbers are asked for differs by row: each pattern is one search.
        for pattern in np.unique(asked, axis=1).T if len(codes) else ():
            rows = np.flatnonzero((asked == pattern[:, None]).all(axis=0))
            if pattern.any():
                chosen[rows] = self._choose(codes[rows], numbers[:, rows][pattern], self.told[pattern], rng)
        return chosen

    def _choose(self, codes: Longs, asked: Floats, told: Longs, rng: np.random.Generator) -> Longs:
        """A slot of each row's bin that says what is asked, -1 where there is none: shape [rows]."""
        kinds, owner = np.unique(np.vstack([self.bins, told]), axis=1, return_inverse=True)
        owner = owner.ravel()
        order = np.argsort(owner, kind="stable")
        ends = np.cumsum(self.weights[order])
        last = np.cumsum(np.bincount(owner, minlength=kinds.shape[1]))
        place = _find_columns(kinds, np.vstack([codes, asked]))
        held = place >= 0
        place = np.maximum(place, 0)
        # A place in the running weights between those of the kind's first and its last slot.
        below = np.append(0.0, ends[last - 1])
        at = below[place] + rng.random(len(place)) * (below[place + 1] - below[place])
        first = np.append(0, last)[place]
        chosen = np.clip(np.searchsorted(ends, at, side="right"), first, last[place] - 1)
        found: Longs = np.where(held, order[chosen], -1)
        return found


def _find_columns(kinds: Longs, asked: Floats) -> Longs:
    """The place of each asked column among the kinds, -1 where it is none: shape [asked]."""
    both = np.hstack([kinds.astype(np.float64), asked])
    _, number = np.unique(both, axis=1, return_inverse=True)
    number = number.ravel()
    place = np.full(int(number.max()) + 1, -1, dtype=np.int64)
    place[number[: kinds.shape[1]]] = np.arange(kinds.shape[1])
    found: Longs = place[number[kinds.shape[1] :]]
    return found


def _weigh_between(column: Binned, low: NDArray[Any], high: NDArray[Any]) -> Floats:
    """The rows that the cells of a column say are between numbers, evenly without cells: shape [rows]."""
    edges, running = running_weights(column)
    found: Floats = np.interp(high, edges, running) - np.interp(low, edges, running)
    return found
