"""Rows in which numbers and names say what dates do: an age and a date of birth, a stay, a weekday.

Models know nothing of such rules. Numbers and dates are drawn from their bins; then dates are drawn once more
inside their bins, such that they say what the numbers say, as far as a bin has such dates. Of two dates one
may leave its bin for it, and what is relative to that moves along: numbers are what people work with, and
what is released of them is finer. Where no date can be found the number is what the dates say; where it
cannot be that, as a year is out of its range or a name is not listed, the date leaves its bin. A text that
names a part of a date stands for its number, and has a code in place of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.calendar import FAR, NO_PART, TICKS, Instant, find_range
from margrave.schema.columns import Binned, Column, Date, Listed, Moment, Relative, Temporal, Time, Whole
from margrave.schema.columns.relative import in_turn, take_own
from margrave.schema.constraints.draws import Drawn, in_bins, running_weights
from margrave.schema.constraints.numbers import list_texts
from margrave.schema.constraints.orders import choose_moving, find_ends, list_orders
from margrave.schema.constraints.rules import (
    CalendarRule,
    DatePart,
    DateRule,
    Elapsed,
    KeyYear,
    Ordered,
    find_ruled,
)
from margrave.schema.constraints.slots import MOST_SLOTS, Slots
from margrave.schema.cycles import Cycle
from margrave.schema.draws import choose_grids
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY
from margrave.schema.storage.months import move_to_first_days, narrow_to_first_days

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Truths = NDArray[np.bool_]
Numbers = Mapping[str, NDArray[Any]]

LEAST_FREQUENT, FAR_MORE = 0.01, 20.0
"""Share of the rows and multiple of the usual frequency from which a date does not move for a number that
follows from it. Not measured."""


def draw_parts(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    settled: Numbers,
    known: Mapping[str, Floats],
    given: Collection[str] = (),
) -> dict[str, NDArray[Any]]:
    """Numbers that are parts of a date, and dates drawn in their bins that say these, and what texts do.

    Args:
        encoded: The rows.
        schema: Their schema.
        rng: Source of randomness.
        settled: Numbers of columns that were drawn before, which stay.
        known: Numbers that are given, by name, NaN where not; columns of which there are some stay.
        given: Names of columns whose texts stay.

    Returns:
        By name, of shape [rows]; anything where the code means missing. Dates that are relative to other
        columns, or have too long a range, are left out.
    """
    rules = [rule for rule in schema.rules if isinstance(rule, DateRule)]
    found: dict[str, NDArray[Any]] = {}
    for rule in rules:
        column = schema[rule.number]
        if isinstance(column, Binned) and rule.number not in settled and rule.number not in found:
            found[rule.number] = in_bins(encoded.column(rule.number), column, rng)
    for name in dict.fromkeys(rule.date for rule in rules):
        column = schema[name]
        if not isinstance(column, Temporal) or name in settled or name in known:
            continue
        own = [rule for rule in rules if rule.date == name and not isinstance(schema[rule.number], Relative)]
        drawn = in_bins(encoded.column(name), column, rng)
        fixed = {*given, *known, *(rule.number for rule in own if not _may_change(rule, schema))}
        slots = Slots.of(column, own, [_list_told(rule, schema, fixed) for rule in own])
        if slots is not None:
            codes = np.minimum(encoded.column(name), column.present - 1).astype(np.int64)
            wanted = [_read_told(found | dict(settled), rule, encoded, schema, known) for rule in own]
            drawn = slots.draw_agreeing(codes, wanted, drawn, rng, name not in find_ruled(schema.rules))
        found[name] = drawn
    return found


def _read_told(
    numbers: Numbers, rule: DateRule, encoded: Encoded, schema: Schema, known: Mapping[str, Floats]
) -> Floats:
    """The numbers of a rule's column, NaN where they are missing or a text stands for none: shape [rows]."""
    name = rule.number
    column = schema[name]
    if isinstance(column, Listed):
        own = number_codes(column, rule).astype(np.float64)
        return np.where(own == NO_PART, np.nan, own)[encoded.column(name)]
    values = numbers[name].astype(np.float64)
    given = known.get(name, np.full(len(values), np.nan))
    absent = encoded.column(name) >= column.present
    return np.where(np.isnan(given), np.where(absent, np.nan, values), given) // _unit_of(column)


def number_codes(column: Listed, rule: CalendarRule) -> Longs:
    """The number that each code of a column of texts stands for, NO_PART for none: shape [codes]."""
    found = np.full(column.size, NO_PART, dtype=np.int64)
    texts = list_texts(column)
    found[: len(texts)] = rule.read_texts(texts)
    return found


def _list_told(rule: DateRule, schema: Schema, fixed: Collection[str]) -> Callable[[Longs], Truths]:
    """A function that says which numbers those of a rule's column can become, none if it is fixed."""
    column = schema[rule.number]
    if rule.number in fixed:
        return lambda told: np.zeros(told.shape, dtype=np.bool_)
    if isinstance(column, Listed):
        listed = number_codes(column, rule)
        return lambda told: np.isin(told, listed)
    assert isinstance(column, Binned)  # noqa: S101 - relative ones are left out
    return lambda told: _is_within(column, told)


def _is_within(column: Binned, numbers: Longs) -> Truths:
    """Which numbers are in a column's range, its ends included; days where the column is of moments."""
    numbers = numbers * _unit_of(column)
    last = float(column.edge_array[-1]) - isinstance(column, Whole)
    found: Truths = (numbers >= float(column.edge_array[0])) & (numbers <= last)
    return found


def _unit_of(column: Column) -> int:
    """What a number that dates tell is in a column's unit: days where it is a date itself."""
    return DAY if isinstance(column, Moment) else 1


def _may_change(rule: CalendarRule, schema: Schema) -> bool:
    """Whether nothing hangs on a rule's number but what is a part of the same date as well.

    A quarter that follows from a month may change, as the month does.
    """
    linked = (name for one in schema.columns if isinstance(one, Relative) for name in (one.name, *one.bases))
    if rule.number in linked:
        return False
    parts = [one for one in schema.rules if isinstance(one, DateRule)]
    alike = {one.number for one in parts if one.dates == rule.dates}
    spoken = [one for one in schema.rules if one.about_codes and rule.number in one.names]
    return all(alike.issuperset(one.names) for one in spoken)


def follow_dates(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    settled: Numbers,
    linked: Mapping[str, Drawn],
    known: Mapping[str, Floats],
    given: Collection[str] = (),
) -> tuple[dict[str, Drawn], dict[str, Codes]]:
    """The numbers of columns that calendar rules speak of, and dates that had to move for them, by name.

    And likewise the codes of texts that had to change.

    Args:
        encoded: The rows.
        schema: Their schema.
        rng: Source of randomness.
        settled: Numbers of columns that were drawn before.
        linked: Those of columns that are relative to others, and of the others.
        known: Numbers that are given, by name, NaN where not: they stay.
        given: Names of columns whose texts stay.
    """
    rules = [rule for rule in schema.rules if isinstance(rule, CalendarRule)]
    orders = list_orders(schema, of_numbers=False)
    if not rules and not orders:
        return {}, {}
    rows = _Rows(encoded, schema, settled, linked, known, rng)
    rows.keep_orders(orders)
    for elapsed, name in _plan_moves(rules, schema):
        rows.move_date(elapsed, name, _list_kept(elapsed, name, schema))
    for rule in rules:
        if isinstance(rule, KeyYear):
            rows.read(rule.date)
        elif not rule.pairs:
            rows.settle_number(rule)
        elif rule.number not in given:
            rows.settle_text(rule)
    return rows.changed, rows.codes


def tell_years(schema: Schema, drawn: Mapping[str, Drawn]) -> list[tuple[KeyYear, Longs]]:
    """The years that keys have digits of, -1 where there is no date: shape [rows] each.

    Args:
        schema: The schema.
        drawn: The numbers of dates, as `follow_dates` has changed them.
    """
    found = []
    for rule in schema.rules:
        if isinstance(rule, KeyYear):
            own, date = take_own(schema[rule.date]), drawn[rule.date]
            instant = Instant.of(date.numbers.astype(np.int64), not isinstance(own, Date))
            told = np.asarray(rule.tell_number([instant]))
            found.append((rule, np.where(date.absent, NO_PART, told)))
    return found


def _plan_moves(rules: Sequence[CalendarRule], schema: Schema) -> list[tuple[Elapsed, str]]:
    """The rules of two dates in the order in which one of these moves for them, and which does.

    Of three dates in a row, as a conception, a birth and a discharge, the middle one hangs on both rules. It
    moves for one of them, and then an outer one for the other, which is why rules that find a free date among
    fewer rules come before those that find one among all.
    """
    planned: list[tuple[Elapsed, str]] = []
    left = list(rules)
    while True:
        free = [(rule, _find_free(rule, left, schema)) for rule in left if isinstance(rule, Elapsed)]
        found = [(rule, name) for rule, name in free if name is not None]
        if not found:
            return planned
        planned = found + planned
        left = [one for one in left if all(one is not rule for rule, _ in found)]


def _find_free(rule: Elapsed, rules: Sequence[CalendarRule], schema: Schema) -> str | None:
    """The date of a rule that may move: none that other rules hang on, or the rule's other date.

    One with bins of its own before one that is relative to another column, one that no column is relative to
    before others, and then the one whose differences spread more: the other is nearly what its base says.
    """
    held = find_ruled(schema.rules)
    held |= {name for other in rules if other is not rule for name in other.dates}
    held |= {other.number for other in rules if other.tells_date}
    daily = isinstance(take_own(schema[rule.since]), Time)

    def place(name: str) -> tuple[bool, float]:
        column = schema[name]
        spread = np.inf
        if isinstance(column, Relative):
            spread = float(np.ptp(column.part.edge_array)) / (1 if isinstance(column.own, Date) else DAY)
        return not _list_followers(name, schema), spread

    free = [
        name
        for name in rule.dates
        if name not in held
        and (
            daily
            or not {_other_date(rule, name), *held} & {one.name for one in _list_followers(name, schema)}
        )
    ]
    return max(free, key=place, default=None)


def _list_kept(rule: Elapsed, name: str, schema: Schema) -> set[str]:
    """Columns that stay where a date moves for a rule: none but of times of day, of which others may follow.

    These are the rule's other date, what says a part of it, and what follows from that.
    """
    if not isinstance(take_own(schema[name]), Time):
        return set()
    kept = {one.date for one in schema.rules if isinstance(one, DatePart)} | find_ruled(schema.rules)
    kept |= {_other_date(rule, name)}
    return kept | {column.name for one in kept for column in _list_followers(one, schema)}


def _list_followers(name: str, schema: Schema) -> list[Relative]:
    """The columns that are relative to a column, or to one of these, bases first."""
    found: list[Relative] = []
    names = {name}
    for column in in_turn(schema.columns):
        if isinstance(column, Relative) and names & set(column.bases):
            names.add(column.name)
            found.append(column)
    return found


class _Rows:
    """The numbers and dates of rows, as far as rules about the calendar change them."""

    def __init__(
        self,
        encoded: Encoded,
        schema: Schema,
        settled: Numbers,
        linked: Mapping[str, Drawn],
        known: Mapping[str, Floats],
        rng: np.random.Generator,
    ) -> None:
        self._encoded, self._schema, self._known, self._rng = encoded, schema, known, rng
        self._settled, self._linked = settled, linked
        self.changed: dict[str, Drawn] = {}
        self.codes: dict[str, Codes] = {}

    def read(self, name: str) -> Drawn:
        """The numbers of a column, drawn if they are not yet, and where they are missing."""
        if name not in self.changed:
            self.changed[name] = self._draw(name)
        return self.changed[name]

    def _draw(self, name: str) -> Drawn:
        if name in self._linked:
            own, numbers = take_own(self._schema[name]), self._linked[name].numbers.copy()
            # A difference may be of any days; of months only the first one is written.
            if isinstance(own, Binned) and own.has_months:
                numbers = move_to_first_days(numbers)
            return Drawn(numbers, self._linked[name].absent)
        column, codes = self._schema[name], self._encoded.column(name)
        assert isinstance(column, Binned)  # noqa: S101 - all others are linked
        drawn = self._settled[name] if name in self._settled else in_bins(codes, column, self._rng)
        return Drawn(np.array(drawn), codes >= column.present)

    def move_date(self, rule: Elapsed, name: str, kept: Collection[str] = ()) -> None:
        """Draw a date anew in the rows in which it does not say what the number does.

        One on a day that very many rows have, such as that of an export, stays, and the number follows it.

        kept: Names of columns that do not move along.
        """
        number, at = self.read(rule.number), self.read(_other_date(rule, name))
        told, there = self._tell(rule)
        wrong = there & ~number.absent & (told != number.numbers) & self._open(name)
        if _may_change(rule, self._schema):
            wrong &= ~(self._stand_out(name) & self._open(rule.number))
        rows = np.flatnonzero(wrong & (np.abs(number.numbers) < MOST_SLOTS))
        base = self._instants(_other_date(rule, name), at.numbers[rows])
        wanted = np.rint(number.numbers[rows]).astype(np.int64)
        low, high = find_range(base, wanted, rule.unit, name == rule.until)
        low, high = _in_unit(low, high, rule.unit, self._is_clock(name))
        self._move(name, rows, low, high, kept)

    def keep_orders(self, orders: Sequence[Ordered]) -> None:
        """Draw dates anew in the rows in which an order is broken: those that nothing else hangs on.

        A date moves between all that it is to be after and before; where these contradict each other, as they
        may until another one has moved, after the former.
        """
        for name, own in choose_moving(orders, self._may_move).items():
            date = self.read(name)
            low, high = find_ends(name, own, self.read, len(date.numbers), FAR)
            wrong = ~date.absent & ((date.numbers < low) | (date.numbers > high)) & self._open(name)
            rows = np.flatnonzero(wrong)
            self._move(name, rows, low[rows], high[rows])

    def _stand_out(self, name: str) -> Truths:
        """The rows whose date is the only one of its bin and far more frequent than others are: [rows]."""
        column = self._schema[name]
        if not isinstance(column, Temporal) or column.fine is None:
            return np.zeros(self._encoded.rows, dtype=np.bool_)
        alone = np.append(find_frequent(column), False)
        return alone[np.minimum(self._encoded.column(name), column.present)]

    def _may_move(self, name: str) -> bool:
        """Whether no rule about codes speaks of a date, and no other column follows from it."""
        return name not in find_ruled(self._schema.rules) and not _list_followers(name, self._schema)

    def _move(self, name: str, rows: Longs, low: Longs, high: Longs, kept: Collection[str] = ()) -> None:
        """Draw a date anew between two ends, both included, and move along what is relative to it.

        In its own bin if that has such a date, else anywhere in the column's range, else not at all.
        """
        column = take_own(self._schema[name])
        if not len(rows) or not isinstance(column, Temporal):
            return
        ends, bins = self._bounds_of(name, rows)
        outer = np.maximum(low, ends[0]), np.minimum(high, ends[1])
        inner = np.maximum(low, bins[0]), np.minimum(high, bins[1])
        if column.has_months:
            outer, inner = narrow_to_first_days(*outer), narrow_to_first_days(*inner)
        inside = inner[0] <= inner[1]
        low, high = np.where(inside, inner[0], outer[0]), np.where(inside, inner[1], outer[1])
        held = low <= high
        date = self.read(name)
        moved = draw_within(column, low[held], high[held], self._rng)
        moved = move_to_first_days(moved) if column.has_months else moved
        shift = moved - date.numbers[rows[held]]
        date.numbers[rows[held]] = moved
        for follower in _list_followers(name, self._schema):
            if follower.name in kept:
                continue
            clock = isinstance(follower.own, Moment), isinstance(column, Moment)
            own = shift * DAY if clock == (True, False) else shift
            if clock == (False, True):
                # A date moves when the moment crosses midnight, and not by an hour.
                own = moved // DAY - (moved - shift) // DAY
            numbers = self.read(follower.name).numbers
            numbers[rows[held]] += own
            if isinstance(follower.own, Time):
                numbers[rows[held]] %= DAY

    def _bounds_of(self, name: str, rows: Longs) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """The least and the greatest number a date may move to, and those of its bin, of some rows."""
        column = self._schema[name]
        if isinstance(column, Relative):
            base = self.read(column.base)
            numbers = column.comparison.base_in_unit(base.numbers[rows])
            edges, own = column.part.edge_array.astype(np.int64), column.own.edge_array.astype(np.int64)
            low = np.where(base.absent[rows], own[0], numbers + edges[0])
            ends = low, np.where(base.absent[rows], own[-1], numbers + edges[-1]) - 1
            # A time of day may lie on the other side of midnight, where few are.
            daily = isinstance(column.own, Time) and not column.within
            return ((0, DAY - 1) if daily else ends), ends
        assert isinstance(column, Binned)  # noqa: S101 - a date
        edges = column.edge_array.astype(np.int64)
        codes = np.minimum(self._encoded.column(name)[rows], column.present - 1).astype(np.int64)
        return (edges[0], edges[-1] - 1), (edges[codes], edges[codes + 1] - 1)

    def settle_number(self, rule: CalendarRule) -> None:
        """Make the number what the dates say, where that is in its column's range.

        Numbers that other rules or columns hang on stay, as do those that are given.
        """
        column = self._schema[rule.number]
        if not isinstance(column, Binned) or not _may_change(rule, self._schema):
            return
        number = self.read(rule.number)
        told, there = self._tell(rule)
        rows = there & _is_within(column, told) & ~number.absent & self._open(rule.number)
        number.numbers[rows] = told[rows] * _unit_of(column)

    def settle_text(self, rule: CalendarRule) -> None:
        """Make the text what the date says, where the column lists that; a missing one stays missing."""
        column = self._schema[rule.number]
        if not isinstance(column, Listed) or not _may_change(rule, self._schema):
            return
        told, there = self._tell(rule)
        numbers, codes = number_codes(column, rule), self._encoded.column(rule.number)
        # Of several texts for a number the first that the rule names has the place.
        code_of = {value: code for code, value in enumerate(list_texts(column))}
        places = {number: code_of[text] for text, number in reversed(rule.pairs) if text in code_of}
        if not places:
            return
        listed = np.array(sorted(places), dtype=np.int64)
        at = np.minimum(np.searchsorted(listed, told), len(listed) - 1)
        wrong = there & (codes < column.present) & (numbers[codes] != told) & (listed[at] == told)
        own = np.array([places[number] for number in listed.tolist()], dtype=codes.dtype)
        self.codes[rule.number] = np.where(wrong, own[at], codes)

    def _tell(self, rule: CalendarRule) -> tuple[Longs, Truths]:
        """What the dates of a rule say, and in which rows they are all there: shape [rows] each."""
        dates = [self.read(name) for name in rule.dates]
        instants = [
            self._instants(name, date.numbers.astype(np.int64))
            for date, name in zip(dates, rule.dates, strict=True)
        ]
        there = ~np.logical_or.reduce([date.absent for date in dates])
        return np.asarray(rule.tell_number(instants)), there

    def _is_clock(self, name: str) -> bool:
        return not isinstance(take_own(self._schema[name]), Date)

    def _instants(self, name: str, numbers: Longs) -> Instant:
        return Instant.of(numbers, self._is_clock(name), isinstance(take_own(self._schema[name]), Time))

    def _open(self, name: str) -> Truths:
        """The rows in which no number of a column is given."""
        given = self._known.get(name)
        return np.ones(self._encoded.rows, dtype=np.bool_) if given is None else np.isnan(given)


def _other_date(rule: Elapsed, name: str) -> str:
    return rule.until if name == rule.since else rule.since


def _in_unit(low: Longs, high: Longs, unit: str, clock: bool) -> tuple[Longs, Longs]:
    """The ends of a range, both included, in a column's unit: microseconds with `clock`, else days."""
    if unit in TICKS:
        return (low, high) if clock else (-(-low // DAY), high // DAY)
    return (low * DAY, high * DAY + DAY - 1) if clock else (low, high)


def find_frequent(column: Temporal) -> Truths:
    """Which bins hold one date or moment alone that is far more frequent than those of other cells: [bins].

    Far more frequent is FAR_MORE times as what half of the other rows have at most.
    """
    edges, running = running_weights(column)
    weights = np.diff(running)
    widths = np.diff(edges) / (float(column.step) or 1.0)
    density, owner = weights / widths, np.searchsorted(column.edge_array, edges[:-1], side="right") - 1
    single = (np.bincount(owner, minlength=column.present) == 1)[owner] & (widths <= 1.0)
    order = np.argsort(density, kind="stable")
    found = np.zeros(column.present, dtype=np.bool_)
    for cell in np.flatnonzero(single & (weights >= LEAST_FREQUENT * weights.sum())).tolist():
        others = order[order != cell]
        held = np.cumsum(weights[others])
        usual = density[others[np.searchsorted(held, held[-1] / 2)]] if len(others) else np.inf
        found[owner[cell]] = density[cell] >= FAR_MORE * usual
    return found


def draw_within(column: Temporal, low: Longs, high: Longs, rng: np.random.Generator) -> Longs:
    """A number in each range [low, high] by the column's cells, in these by hours and weekdays: [rows].

    As many as the column's grids say are on each of them, where the range has such a number.
    """
    edges, running = running_weights(column)
    ends = [np.interp(end, edges, running) for end in (low, high + 1)]
    at = ends[0] + rng.random(len(low)) * (ends[1] - ends[0])
    drawn = np.floor(np.interp(at, running, edges)).astype(np.int64)
    cycle = Cycle.of(column)
    if cycle is not None:
        cells = np.clip(np.searchsorted(edges, drawn, side="right") - 1, 0, len(edges) - 2)
        starts, stops = (edges[cells + more].astype(np.int64) for more in (0, 1))
        within = np.maximum(low, starts), np.minimum(high + 1, stops)
        held = within[0] < within[1]
        drawn = cycle.draw(np.where(held, within[0], low), np.where(held, within[1], high + 1), rng)
    found = np.clip(drawn, low, high)
    if not column.grids:
        return found
    chosen, _ = choose_grids(column, len(low), rng)
    # The coarsest grid comes last, and so has the rows that it is drawn for where they have a number on it.
    for place, (step, _) in reversed(list(enumerate(column.grids))):
        first = -(-low // int(step)) * int(step)
        rows = (chosen <= place) & (first <= high)
        found[rows] = np.maximum(drawn // int(step) * int(step), first)[rows]
    return found
