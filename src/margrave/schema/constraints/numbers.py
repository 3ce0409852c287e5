"""Rules about numbers that share columns: which bins may meet, and numbers in the bins that obey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.calendar import CLOCK_PARTS, NO_PART, TICKS
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Date,
    Listed,
    Moment,
    Ordinal,
    Temporal,
    Time,
    Unknown,
    Whole,
)
from margrave.schema.columns.key_years import may_hold_years
from margrave.schema.columns.relative import take_own
from margrave.schema.columns.temporal import iso_number
from margrave.schema.constraints.elimination import ROUNDING, Inequality, Tower, eliminate_variables
from margrave.schema.constraints.rules import (
    CalendarRule,
    DatePart,
    Elapsed,
    FlagCount,
    KeyYear,
    Ordered,
    Rule,
    Sum,
    Within,
)

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
Columns = Mapping[str, NDArray[Any]]

CHUNK = 1 << 18
"""Rows whose inequalities are held at once."""
STRICT_MARGIN = 2.0**-40
"""By how much numbers that are not whole must differ under a strict order, over the largest bound."""


class NumberRules:
    """Orders, sums and ranges that hang together through their columns.

    Args:
        columns: The table's columns by name, all known.
        rules: Ordered, Sum and Within rules.

    Raises:
        SchemaError: A column is not of numbers, or of another kind than its partner.
    """

    def __init__(self, columns: Mapping[str, Column], rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        used = {name for rule in rules for name in rule.names}
        linear = {name for rule in rules if isinstance(rule, Ordered | Sum) for name in rule.names}
        self.clique = tuple(name for name in columns if name in used)
        held = {rule.column for rule in rules if isinstance(rule, Within)} | linear
        self.numbers = tuple(name for name in self.clique if name in held)
        self.sizes = {name: columns[name].size for name in self.clique}
        self.spans = {name: spans(columns[name]) for name in self.numbers}
        self.whole = {name: isinstance(columns[name], Whole) for name in self.numbers}
        self.binned = tuple(name for name in self.numbers if isinstance(columns[name], Binned))
        ends = [
            np.abs(end[np.isfinite(end)]).max(initial=0.0) for pair in self.spans.values() for end in pair
        ]
        self.scale = float(max(ends, default=1.0)) or 1.0
        self.ranges = [
            (rule.column, rule.by, *read_ranges(columns[rule.by], columns[rule.column], rule))
            for rule in rules
            if isinstance(rule, Within)
        ]
        self.linear = [entry for rule in rules for entry in self._inequalities(rule)]
        self.rounding = ROUNDING if any(slack for _, _, slack in self.linear) else 0.0
        self.sums = _in_turn([rule for rule in rules if isinstance(rule, Sum)])

    def bounds(self, columns: Columns, rows: int, exact: Columns | None = None) -> tuple[Floats, Floats]:
        """Least and greatest value of every number in each row, NaN where it is missing, [numbers, rows].

        Args:
            columns: Codes by name; a number that is left out may be anything, or is taken as missing where
                it can be.
            rows: How many.
            exact: Numbers that are known, by name, NaN where not.
        """
        low, high = np.empty((2, len(self.numbers), rows))
        for i, name in enumerate(self.numbers):
            least, most = self.spans[name]
            # A bin says between which ends the number is; without a code it may be anywhere in its column.
            if name in columns:
                low[i], high[i] = least[columns[name]], most[columns[name]]
            else:
                may_miss = bool(np.isnan(least).any())
                low[i], high[i] = (np.nan, np.nan) if may_miss else (least.min(), most.max())
        return self._narrow(low, high, columns, exact)

    def outer_bounds(self, columns: Columns, live: Truths, exact: Columns) -> tuple[Floats, Floats]:
        """As `bounds`, where a number in bins may be anywhere in the range of its column, [numbers, rows].

        Args:
            columns: Codes of all columns, by name.
            live: Which numbers are not missing, [numbers, rows].
            exact: Numbers that are known, by name, NaN where not.
        """
        low, high = np.empty((2, *live.shape))
        for i, name in enumerate(self.numbers):
            least, most = self.spans[name]
            if name in self.binned:
                low[i], high[i] = np.nanmin(least), np.nanmax(most)
            else:
                low[i], high[i] = least[columns[name]], most[columns[name]]
        low[~live] = high[~live] = np.nan
        return self._narrow(low, high, columns, exact)

    def _narrow(
        self, low: Floats, high: Floats, columns: Columns, exact: Columns | None
    ) -> tuple[Floats, Floats]:
        """Bounds within the ranges that rules set, and equal to the numbers that are known."""
        for name, numbers in (exact or {}).items():
            if name in self.numbers:
                i = self.numbers.index(name)
                known = ~np.isnan(numbers) & ~np.isnan(low[i])
                low[i, known] = high[i, known] = numbers[known]
        for name, by, least, most in self.ranges:
            if by in columns:
                i = self.numbers.index(name)
                low[i] = np.maximum(low[i], least[columns[by]])
                high[i] = np.minimum(high[i], most[columns[by]])
        return low, high

    def is_solvable(self, codes: Mapping[str, int]) -> bool:
        """Whether numbers in these bins that obey all rules are found, whole ones where they have to be."""
        low, high = self.bounds({name: np.array([codes[name]]) for name in self.clique}, 1)
        grains = [float(self.whole[name]) for name in self.numbers]
        return not self.solve(low, high, grains, np.random.default_rng(0))[1].any()

    def possible(self, columns: Columns, rows: int, exact: Columns | None = None) -> Truths:
        """Whether some values in each row's bins obey all the rules, [rows]; arguments as for `bounds`."""
        found = np.empty(rows, dtype=np.bool_)
        for first in range(0, rows, CHUNK):
            part = slice(first, min(first + CHUNK, rows))
            here = {name: np.asarray(codes)[part] for name, codes in columns.items()}
            known = None if exact is None else {name: values[part] for name, values in exact.items()}
            low, high = self.bounds(here, part.stop - part.start, known)
            for rows_, tower in self._towers(low, high):
                found[first + rows_] = tower.slack >= 0.0
        return found

    def feasible_shares(self, columns: Columns, rows: int, draws: int = 64) -> Floats:
        """About the share of the values in each row's bins that obey, [rows], at least half a draw.

        Parts of sums and other numbers are drawn evenly in their bins, totals are added up.
        """
        low, high = self.bounds(columns, rows)
        rng, inside = np.random.default_rng(0), np.zeros(rows)
        whole = np.array([self.whole[name] for name in self.numbers])
        for _ in range(draws):
            # Whole numbers from low to high, both included: even on [low, high + 1), and rounded down.
            values = low + rng.random(low.shape) * (high - low + whole[:, None])
            values[whole] = np.floor(values[whole])
            # Totals follow from their parts; drawn by themselves they would hardly ever agree.
            for rule in self.sums:
                total, parts = self.numbers.index(rule.total), [self.numbers.index(n) for n in rule.parts]
                added = values[parts].sum(axis=0)
                values[total] = np.where(np.isnan(added), values[total], added)
            inside += ~self.broken(values, low, high)
        found: Floats = np.maximum(inside, 0.5) / draws
        return found

    def solve(
        self, low: Floats, high: Floats, grains: Sequence[float], rng: np.random.Generator
    ) -> tuple[Floats, Truths]:
        """Numbers within bounds that obey all rules, [numbers, rows], and the rows where none were found.

        Args:
            low, high: As `bounds` says.
            grains: The step of which each number is a whole multiple; 0 for a number on a line.
            rng: Source of randomness.
        """
        found, failed = np.zeros(low.shape), np.zeros(low.shape[1], dtype=np.bool_)
        unit = min((grain for grain in grains if grain), default=1.0)
        for rows, tower in self._towers(low, high, grains):
            found[:, rows], failed[rows] = tower.solve(rng)
        steps = np.array([grain or unit for grain in grains])
        return found * steps[:, None], failed

    def broken(self, values: Floats, low: Floats, high: Floats, rounding: float = ROUNDING) -> Truths:
        """Whether numbers break a rule or leave their bounds, [rows]; NaN bounds mean missing.

        rounding: What sums of numbers that are not whole may be off by, over the largest bound.
        """
        live = ~np.isnan(low)
        outside = (live & ~((values >= low) & (values <= high))).any(axis=0)
        return np.asarray(outside | self.find_disobeyed(values, live, rounding))

    def find_disobeyed(self, values: Floats, live: Truths, rounding: float = ROUNDING) -> Truths:
        """Whether numbers break an order or a sum, [rows]; live: which are not missing, [numbers, rows]."""
        wrong = np.zeros(values.shape[1], dtype=np.bool_)
        for factors, bound, slack in self.linear:
            members = np.flatnonzero(factors)
            sums = np.asarray(factors, dtype=np.float64)[members] @ values[members]
            wrong |= live[members].all(axis=0) & (sums > bound + slack * rounding / ROUNDING)
        return wrong

    def in_order(self, values: Floats) -> Floats:
        """The numbers with those made equal that break an order by no more than rounding."""
        for rule in self.rules:
            if isinstance(rule, Ordered) and not rule.strict:
                low, high = self.numbers.index(rule.low), self.numbers.index(rule.high)
                near = values[low] - values[high] <= ROUNDING * self.scale
                values[high] = np.where(near, np.maximum(values[low], values[high]), values[high])
        return values

    def _towers(
        self, low: Floats, high: Floats, grains: Sequence[float] | None = None
    ) -> list[tuple[NDArray[np.int64], Tower]]:
        """The system of each pattern of missing numbers, and its rows.

        A variable is its number over its grain, or over the finest grain where it lies on a line.

        Args:
            low, high: As `bounds` says.
            grains: As for `solved`; by default the kinds of the columns say which are whole numbers.
        """
        if grains is None:
            grains = [float(self.whole[name]) for name in self.numbers]
        unit = min((grain for grain in grains if grain), default=1.0)
        multiples = [round(grain / unit) if grain else 1 for grain in grains]
        order, stepped = self._order(grains), [grain > 0.0 for grain in grains]
        # Which numbers of a row are missing, as the bits of one number: rows alike share one system.
        patterns = (1 << np.arange(len(low))) @ np.isnan(low)
        towers = []
        for pattern in np.unique(patterns):
            rows = np.flatnonzero(patterns == pattern)
            live = [not (int(pattern) >> i) & 1 for i in range(len(low))]
            least, most = np.nan_to_num(low[:, rows], nan=0.0), np.nan_to_num(high[:, rows], nan=0.0)
            system = self._system(least / unit, most / unit, live, multiples, unit)
            towers.append((rows, eliminate_variables(system, order, stepped, self.rounding)))
        return towers

    def _system(
        self, low: Floats, high: Floats, live: Sequence[bool], multiples: Sequence[int], unit: float
    ) -> list[Inequality]:
        """The inequalities between variables of which each counts so many units."""
        count, system = len(low), []
        for i in range(count):
            own = tuple(multiples[i] if i == j else 0 for j in range(count))
            # x <= high and -x <= -low; a missing number has both at 0 and takes part in no rule.
            system.append(Inequality(own, high[i]))
            system.append(Inequality(tuple(-factor for factor in own), -low[i]))
        for factors, bound, _ in self.linear:
            if all(live[i] for i, factor in enumerate(factors) if factor):
                scaled = tuple(factor * many for factor, many in zip(factors, multiples, strict=True))
                system.append(Inequality(scaled, bound / unit))
        return system

    def _order(self, grains: Sequence[float]) -> list[int]:
        """Numbers on a line are eliminated first, then those of finer steps; totals before their parts.

        So totals are drawn after their parts.
        """
        totals = [rule.total for rule in reversed(self.sums)]
        rest = [name for name in self.numbers if name not in totals]
        order = [self.numbers.index(name) for name in dict.fromkeys([*totals, *rest])]
        return sorted(order, key=lambda i: grains[i])

    def _inequalities(self, rule: Rule) -> list[tuple[tuple[int, ...], float, float]]:
        """Coefficients, bound, and what rounding may add to it."""
        place = {name: i for i, name in enumerate(self.numbers)}
        factors = [0] * len(self.numbers)
        if isinstance(rule, Ordered):
            factors[place[rule.low]], factors[place[rule.high]] = 1, -1
            # low - high <= -apart: strictly below means 1 apart for whole numbers, a margin for others.
            apart = 1.0 if self.whole[rule.low] and self.whole[rule.high] else STRICT_MARGIN * self.scale
            return [(tuple(factors), -apart if rule.strict else 0.0, 0.0)]
        if isinstance(rule, Sum):
            factors[place[rule.total]] = 1
            for part in rule.parts:
                factors[place[part]] = -1
            slack = 0.0 if all(self.whole[name] for name in rule.names) else ROUNDING * self.scale
            return [(tuple(factors), 0.0, slack), (tuple(-f for f in factors), 0.0, slack)]
        return []


def read_ranges(by: Column, column: Column, rule: Within) -> tuple[Floats, Floats]:
    """The least and the greatest number that each code of the listed column allows, shape [codes] each.

    Args:
        by: The listed column.
        column: The number.
        rule: About both.

    Raises:
        SchemaError: The least is above the greatest, or is no value of the column.
    """
    low, high = np.full(by.size, -np.inf), np.full(by.size, np.inf)
    for value, least, most in rule.entries:
        code = code_of(by, value)
        if code is not None and is_own(by, value):
            low[code] = _number(column, least, -np.inf)
            high[code] = _number(column, most, np.inf)
            if not low[code] <= high[code]:
                raise SchemaError(invalid("ranges", "of a least below a greatest value", "Swap them."))
    return low, high


def number_rules(columns: Mapping[str, Column], rules: Sequence[Rule]) -> list[NumberRules]:
    """Rules about numbers, those that share a column together.

    Rules about a column that turned out not to be of numbers, undeclared, are left out: nothing in it can be
    compared.

    Raises:
        SchemaError: A declared column is not of numbers, or of another kind than its partner.
    """
    groups: list[list[Rule]] = []
    for rule in rules:
        about_numbers = isinstance(rule, Ordered | Sum | Within) and rule.about_codes
        if not about_numbers or not is_comparable(columns, rule):
            continue
        near = [group for group in groups if _numbers_of(rule) & set().union(*map(_numbers_of, group))]
        groups = [group for group in groups if group not in near]
        groups.append([*(one for group in near for one in group), rule])
    return [NumberRules(columns, group) for group in groups]


def check_numbers(columns: Mapping[str, Column], rule: Rule) -> None:
    """Check a rule about numbers against the kinds of its columns, as far as these are known.

    Raises:
        SchemaError: A column is of another kind, or a bound of a range is none of its column.
    """
    used = {name: columns[name] for name in sorted(_numbers_of(rule))}
    for name, column in used.items():
        if isinstance(column, Listed) and column.strict and not _holds_numbers(column):
            where = f"column {name!r} of rule {rule.kind!r}"
            raise SchemaError(invalid(where, "one of numbers, dates or moments", "Declare it as such."))
    known = [column for column in used.values() if isinstance(column, Binned)]
    kinds = {_family(column) for column in known}
    if isinstance(rule, Ordered) and len(kinds) > 1:
        raise _of_one_kind(kinds)
    if isinstance(rule, Within):
        by = columns[rule.by]
        if isinstance(by, Binned):
            code_of(by, 0)
        for value, least, most in rule.entries:
            if isinstance(by, Listed) and by.values is not None:
                code_of(by, value)
            for bound in (least, most) if known else ():
                _number(known[0], bound, 0.0)


def check_calendar(columns: Mapping[str, Column], rule: CalendarRule) -> None:
    """Check that a rule speaks of dates, moments or times of day and a number or texts, as far as kinds are
    known.

    Raises:
        SchemaError: A column is of another kind, or lists none of the texts; or it is the hour of dates, or
            another part than hour and minute of times of day, or the time from one of these to a date.
    """
    daily = all(isinstance(take_own(columns[name]), Time | Unknown) for name in rule.dates)
    for name in rule.names:
        own = take_own(columns[name])
        if isinstance(own, Unknown):
            continue
        if name != rule.number:
            fits, wanted = _fits_rule(own, rule, daily)
        elif isinstance(rule, KeyYear):
            fits, wanted = may_hold_years(own), "of keys of shapes or patterns, or of unique whole numbers"
        elif rule.pairs:
            fits, wanted = is_of_labels(own) or isinstance(own, Boolean), "of listed texts or truth values"
        elif rule.tells_date:
            fits, wanted = isinstance(own, Date | Moment), "of dates or moments"
        else:
            fits, wanted = isinstance(own, Binned) and not isinstance(own, Temporal), "of numbers"
        if not fits:
            what, remedy = f"column {name!r} of rule {rule.kind!r}", "Declare it as such."
            if is_of_labels(own):
                remedy = "Declare it as such, or say by `texts` what its values stand for."
            raise SchemaError(invalid(what, wanted, remedy, got=own.kind))
    _check_texts(columns[rule.number], rule)


def check_flags(columns: Mapping[str, Column], rule: FlagCount) -> None:
    """Check that a rule speaks of a number and of columns that have the values it counts.

    Raises:
        SchemaError: A column is of another kind, as far as kinds are known, or does not list its value.
    """
    for name, value in (*zip(rule.flags, rule.counted, strict=True), (rule.number, None)):
        own = take_own(columns[name])
        fits, wanted = isinstance(own, Binned) and not isinstance(own, Temporal), "of numbers"
        if value is not None:
            wanted = "of numbers, or of listed values of which one is the counted one"
            fits |= isinstance(own, Listed) and (own.values is None or value in list_written(own))
        if not fits and not isinstance(own, Unknown):
            what = f"column {name!r} of rule {rule.kind!r}"
            raise SchemaError(invalid(what, wanted, "Declare it as such.", got=own.kind))


def list_written(column: Listed) -> list[str]:
    """The listed values of a column as texts, as a rule that counts flags names them."""
    return [str(value) for value in list_texts(column)]


def _fits_rule(own: Column, rule: CalendarRule, daily: bool) -> tuple[bool, str]:
    """Whether a date of a rule is of a kind that it can be, and of which that is.

    Args:
        own: The column of dates.
        rule: About it.
        daily: Whether all dates of the rule are times of day, or may be.
    """
    hour = isinstance(rule, DatePart) and rule.part in CLOCK_PARTS
    if isinstance(own, Time):
        short = isinstance(rule, Elapsed) and daily and rule.unit in TICKS
        return hour or short, "of dates or moments, or of times of day alone in hours, minutes or seconds"
    fits = isinstance(own, Moment) or (isinstance(own, Date) and not hour)
    return fits, "of moments or times of day" if hour else "of dates or moments"


def is_of_labels(column: Column) -> TypeGuard[Listed]:
    """Whether a column lists values of its own, as truth values are not."""
    return isinstance(column, Categorical | Ordinal)


def list_texts(column: Listed) -> list[Any]:
    """The listed values of a column as a rule's texts may be: truth values as they are spelt, or "true" and
    "false" where they are no texts."""
    values = column.values or ()
    return [column.spell(value) for value in values] if isinstance(column, Boolean) else list(values)


def _check_texts(column: Column, rule: CalendarRule) -> None:
    """Refuse texts of which a column lists none."""
    if not rule.pairs or not isinstance(column, Listed) or column.values is None or column.grouped:
        return
    if bool((rule.read_texts(list_texts(column)) == NO_PART).all()):
        what = f"texts of rule {rule.kind!r} about column {rule.number!r}"
        raise SchemaError(invalid(what, "some that the column lists", "Check the spelling."))


def _holds_numbers(column: Listed) -> bool:
    """Whether all listed values are numbers, or may still turn out to be."""
    values = column.values
    return values is None or (
        bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    )


def _of_one_kind(kinds: set[str]) -> SchemaError:
    remedy = "Compare dates with dates and moments with moments."
    return SchemaError(invalid("columns of rule 'ordered'", "of one kind", remedy, got=sorted(kinds)))


def spans(column: Column) -> tuple[Floats, Floats]:
    """Least and greatest number that each code stands for, NaN where it stands for none, [codes] each."""
    low, high = np.full((2, column.size), np.nan)
    if isinstance(column, Binned):
        edges = column.edge_array
        # Bins are half open, [edge, next edge): of numbers on a line the greatest is the float below the next
        # edge, of whole numbers the next edge less 1. The kind says whether the last bin has its end.
        whole = isinstance(column, Whole)
        low[: column.present] = edges[:-1]
        high[: column.present] = edges[1:] - 1.0 if whole else np.nextafter(edges[1:], -np.inf)
        high[column.present - 1] = column.upper
    elif isinstance(column, Listed):
        values = [float(v) for v in column.values or () if isinstance(v, int | float)]
        low[: len(values)] = high[: len(values)] = values
    return low, high


def code_of(column: Column, value: Any) -> int | None:
    """The code of a listed value, None for one that cannot occur; None means missing.

    A value that a discovered column does not list is part of its `other`.

    Raises:
        SchemaError: The column is not listed, or is declared without this value.
    """
    if value is None:
        return column.missing_code
    if not isinstance(column, Listed):
        remedy = "Use Within or Ordered for numbers."
        raise SchemaError(invalid(f"column {column.name!r} of a rule", "one of listed values", remedy))
    values = list(column.values or ())
    if value in values:
        return values.index(value)
    if column.other_code is not None:
        return column.other_code
    if column.strict:
        where = f"value of column {column.name!r} in a rule"
        raise SchemaError(invalid(where, "one that the column lists", "Check the spelling.", got=value))
    return None


def is_own(column: Column, value: Any) -> bool:
    """Whether a value has a code of its own, and is not a part of an `other`."""
    return value is None or (isinstance(column, Listed) and value in (*(column.values or ()), column.other))


def _numbers_of(rule: Rule) -> set[str]:
    return {rule.column} if isinstance(rule, Within) else set(rule.names)


def is_comparable(columns: Mapping[str, Column], rule: Rule) -> bool:
    """Whether a rule can be applied.

    Raises:
        SchemaError: It cannot, by declaration.
    """
    for name in sorted(_numbers_of(rule)):
        column = columns[name]
        if isinstance(column, Binned):
            continue
        listed = column.values if isinstance(column, Listed) else None
        if listed and all(isinstance(v, int | float) and not isinstance(v, bool) for v in listed):
            continue
        if column.strict:
            where = f"column {name!r} of rule {rule.kind!r}"
            raise SchemaError(invalid(where, "one of numbers, dates or moments", "Declare it as such."))
        return False
    kinds = {_family(columns[name]) for name in _numbers_of(rule)}
    if isinstance(rule, Ordered) and len(kinds) > 1:
        raise _of_one_kind(kinds)
    if isinstance(rule, Within):
        by = columns[rule.by]
        if not isinstance(by, Listed):
            code_of(by, 0)
    return True


def is_applicable(columns: Mapping[str, Column], rule: Rule) -> bool:
    """Whether a rule finds the kinds of columns that it is about."""
    try:
        if isinstance(rule, CalendarRule):
            check_calendar(columns, rule)
        if isinstance(rule, FlagCount):
            check_flags(columns, rule)
        return not isinstance(rule, Ordered | Sum | Within) or is_comparable(columns, rule)
    except SchemaError:
        return False


def _family(column: Column) -> str:
    return column.kind if isinstance(column, Temporal) else "number"


def _number(column: Column, value: Any, none: float) -> float:
    """A bound as the number that the column's values are counted in.

    Raises:
        SchemaError: It is none.
    """
    if value is None:
        return none
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return float(value)
    if isinstance(column, Temporal):
        found = iso_number(column, value if isinstance(value, str) else value.isoformat())
        if found is not None:
            return float(found)
    where = f"ranges of column {column.name!r}"
    raise SchemaError(invalid(where, "of numbers, or dates and moments in ISO form", "Write 2024-02-29."))


def _in_turn(sums: Sequence[Sum]) -> list[Sum]:
    """Sums such that a total that is a part of another comes before it, as far as that is possible."""
    left, found = list(sums), []
    while left:
        ready = [s for s in left if not any(other.total in s.parts for other in left if other is not s)]
        step = ready or left[:1]
        found += step
        left = [s for s in left if s not in step]
    return found
