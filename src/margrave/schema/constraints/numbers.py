"""Rules about numbers that share columns: which bins may meet, and numbers in the bins that obey.

Linear inequalities among a few numbers, the same for all rows, with bounds of each row's own.

Fourier-Motzkin elimination: a variable is removed from a system A x <= b by adding up every inequality that
bounds it above with every one that bounds it below (Schrijver 1986, section 12.2). What is left is solvable
just when the whole is, and going back each variable gets the exact interval that is open to it given those
drawn before: no draw runs into a dead end. b has one column a row, so all rows are worked on at once.

The intervals are exact for numbers on a line. For whole numbers they are exact where every elimination pairs
coefficients of which one is 1 or -1, as it is for orders and sums that are not entangled; elsewhere a draw
may find no whole number, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.columns import Binned, Column, Listed, Real, Temporal
from margrave.schema.columns.temporal import iso_number
from margrave.schema.constraints.rules import Ordered, Rule, Sum, Within

__all__ = [
    "ROUNDING",
    "Inequality",
    "NumberRules",
    "Tower",
    "check_numbers",
    "code_of",
    "eliminated",
    "is_comparable",
    "is_own",
    "number_rules",
    "spans",
]


Floats = NDArray[np.float64]
Coefficients = tuple[int, ...]
Sized = tuple[Floats, Floats]
"""A bound, and the sum of the absolute values that it was made of."""

MOST = 400
"""Inequalities a system may grow to."""


@dataclass(frozen=True, slots=True)
class Inequality:
    """The sum of coefficients times variables is at most `bound`.

    Args:
        coefficients: One whole number a variable.
        bound: A number for all rows, or one a row, [rows].
    """

    coefficients: Coefficients
    bound: Any


@dataclass(frozen=True, slots=True)
class Tower:
    """A system with its variables eliminated one by one.

    Args:
        levels: For each variable, the first eliminated first: its position and the inequalities on it that
            mention no variable eliminated before.
        slack: What the inequalities without variables leave, the least of them in each row, [rows]: the
            system is solvable where it is at least 0.
    """

    levels: tuple[tuple[int, tuple[Inequality, ...]], ...]
    slack: Floats

    def solved(self, grains: Sequence[float], rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """A solution for each row, each variable even in the interval left to it, [variables, rows].

        Args:
            grains: The step of which each variable is a whole multiple; 0 for a number on a line.
            rng: Source of randomness.

        Returns:
            The solutions, and in which rows some interval had nothing in it.
        """
        rows = len(self.slack)
        found, failed = np.zeros((len(grains), rows)), np.zeros(rows, dtype=np.bool_)
        for v, inequalities in reversed(self.levels):
            low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
            for inequality in inequalities:
                rest = np.zeros(rows)
                for u, factor in enumerate(inequality.coefficients):
                    if factor and u != v:
                        rest += factor * found[u]
                a = inequality.coefficients[v]
                limit = (inequality.bound - rest) / a
                low, high = (low, np.minimum(high, limit)) if a > 0 else (np.maximum(low, limit), high)
            found[v], empty = _drawn(low, high, grains[v], rng)
            failed |= empty
        return found, failed


def eliminated(
    system: Sequence[Inequality], order: Sequence[int], whole: bool, rounding: float = 0.0
) -> Tower:
    """The system with the variables eliminated in some order.

    Args:
        system: One bound a row in each, or a number.
        order: Positions of the variables; the last is drawn first.
        whole: Whether all variables are whole numbers, so that bounds may be rounded down.
        rounding: What sums may be off by, over the sizes of what is added up.

    Raises:
        SchemaError: The system grows beyond MOST.
    """
    rows = max((np.size(one.bound) for one in system), default=1)
    held: dict[Coefficients, Sized] = {}
    for one in system:
        bound = np.broadcast_to(np.asarray(one.bound, dtype=np.float64), rows)
        _add(held, one.coefficients, (bound, np.abs(bound)), whole)
    levels = []
    for v in order:
        mine = {c: held.pop(c) for c in list(held) if c[v]}
        levels.append((v, tuple(Inequality(c, bound) for c, (bound, _) in mine.items())))
        for up, above in mine.items():
            for down, below in mine.items():
                if up[v] > 0 > down[v]:
                    a, b = up[v], -down[v]
                    joined = tuple(b * x + a * y for x, y in zip(up, down, strict=True))
                    _add(held, joined, (b * above[0] + a * below[0], b * above[1] + a * below[1]), whole)
        if len(held) > MOST:
            remedy = "Leave out rules that follow from others."
            raise SchemaError(
                invalid("rules", f"of at most {MOST} joint inequalities", remedy, got=len(held))
            )
    slack = np.full(rows, np.inf)
    for bound, size in held.values():
        slack = np.minimum(slack, bound + rounding * size)
    return Tower(tuple(levels), slack)


def _add(held: dict[Coefficients, Sized], coefficients: Coefficients, added: Sized, whole: bool) -> None:
    """Keep an inequality in lowest terms, the tighter one of two with equal coefficients."""
    bound, size = added
    divisor = math.gcd(*coefficients)
    if divisor > 1:
        coefficients = tuple(c // divisor for c in coefficients)
        bound, size = np.floor(bound / divisor) if whole else bound / divisor, size / divisor
    if coefficients in held:
        known, other = held[coefficients]
        bound, size = np.minimum(known, bound), np.where(known <= bound, other, size)
    held[coefficients] = (bound, size)


def _drawn(
    low: Floats, high: Floats, grain: float, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """A number in each interval, and which intervals hold none."""
    part = rng.random(len(low))
    if grain == 0.0:
        width = np.maximum(high - low, 0.0)
        # Rounding may leave the two ends of one point in the wrong order; that is no empty interval.
        return np.minimum(low + part * width, np.maximum(high, low)), high < low - 1e-9 * np.abs(low)
    near = 1e-9 + 1e-15 * np.abs(low / grain)
    first = np.ceil(low / grain - near)
    count = np.floor(high / grain + near) - first + 1.0
    step = first + np.floor(part * np.maximum(count, 1.0))
    return step * grain, count < 1.0


Truths = NDArray[np.bool_]
Columns = Mapping[str, NDArray[Any]]

CHUNK = 1 << 18
"""Rows whose inequalities are held at once."""
TINY = 2.0**-40
"""By how much numbers that are not whole must differ under a strict order, over the largest bound."""
ROUNDING = 2.0**-46
"""What sums of numbers that are not whole may be off by, over the largest bound."""


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
        self.whole = {name: not isinstance(columns[name], Real | Listed) for name in self.numbers}
        self.binned = tuple(name for name in self.numbers if isinstance(columns[name], Binned))
        ends = [
            np.abs(end[np.isfinite(end)]).max(initial=0.0) for pair in self.spans.values() for end in pair
        ]
        self.scale = float(max(ends, default=1.0)) or 1.0
        self.ranges = [self._range(columns, rule) for rule in rules if isinstance(rule, Within)]
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
            if name in columns:
                low[i], high[i] = least[columns[name]], most[columns[name]]
            else:
                may_miss = bool(np.isnan(least).any())
                low[i], high[i] = (np.nan, np.nan) if may_miss else (least.min(), most.max())
            if exact is not None and name in exact:
                known = ~np.isnan(exact[name]) & ~np.isnan(low[i])
                low[i, known] = high[i, known] = exact[name][known]
        for name, by, least, most in self.ranges:
            if by in columns:
                i = self.numbers.index(name)
                low[i] = np.maximum(low[i], least[columns[by]])
                high[i] = np.minimum(high[i], most[columns[by]])
        return low, high

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

    def room(self, columns: Columns, rows: int, draws: int = 64) -> Floats:
        """About the share of the values in each row's bins that obey, [rows], at least half a draw.

        Parts of sums and other numbers are drawn evenly in their bins, totals are added up.
        """
        low, high = self.bounds(columns, rows)
        rng, inside = np.random.default_rng(0), np.zeros(rows)
        whole = np.array([self.whole[name] for name in self.numbers])
        for _ in range(draws):
            values = low + rng.random(low.shape) * (high - low + whole[:, None])
            values[whole] = np.floor(values[whole])
            for rule in self.sums:
                total, parts = self.numbers.index(rule.total), [self.numbers.index(n) for n in rule.parts]
                added = values[parts].sum(axis=0)
                values[total] = np.where(np.isnan(added), values[total], added)
            inside += ~self.broken(values, low, high)
        found: Floats = np.maximum(inside, 0.5) / draws
        return found

    def solved(
        self, low: Floats, high: Floats, grains: Sequence[float], rng: np.random.Generator
    ) -> tuple[Floats, Truths]:
        """Numbers within bounds that obey all rules, [numbers, rows], and the rows where none were found."""
        found, failed = np.zeros(low.shape), np.zeros(low.shape[1], dtype=np.bool_)
        for rows, tower in self._towers(low, high):
            found[:, rows], failed[rows] = tower.solved(grains, rng)
        return found, failed

    def broken(self, values: Floats, low: Floats, high: Floats, rounding: float = ROUNDING) -> Truths:
        """Whether numbers break a rule or leave their bounds, [rows]; NaN bounds mean missing.

        rounding: What sums of numbers that are not whole may be off by, over the largest bound.
        """
        live = ~np.isnan(low)
        outside = (live & ~((values >= low) & (values <= high))).any(axis=0)
        return np.asarray(outside | self.disobeyed(values, live, rounding))

    def disobeyed(self, values: Floats, live: Truths, rounding: float = ROUNDING) -> Truths:
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

    def _towers(self, low: Floats, high: Floats) -> list[tuple[NDArray[np.int64], Tower]]:
        """The system of each pattern of missing numbers, and its rows."""
        patterns = (1 << np.arange(len(low))) @ np.isnan(low)
        towers = []
        for pattern in np.unique(patterns):
            rows = np.flatnonzero(patterns == pattern)
            live = [not (int(pattern) >> i) & 1 for i in range(len(low))]
            least, most = np.nan_to_num(low[:, rows], nan=0.0), np.nan_to_num(high[:, rows], nan=0.0)
            system = self._system(least, most, live)
            towers.append((rows, eliminated(system, self._order(), self._exact(), self.rounding)))
        return towers

    def _system(self, low: Floats, high: Floats, live: Sequence[bool]) -> list[Inequality]:
        count, system = len(low), []
        for i in range(count):
            unit = tuple(int(i == j) for j in range(count))
            system.append(Inequality(unit, high[i]))
            system.append(Inequality(tuple(-u for u in unit), -low[i]))
        for factors, bound, _ in self.linear:
            if all(live[i] for i, factor in enumerate(factors) if factor):
                system.append(Inequality(factors, bound))
        return system

    def _order(self) -> list[int]:
        """Totals are eliminated first, so that they are drawn last."""
        totals = [rule.total for rule in reversed(self.sums)]
        rest = [name for name in self.numbers if name not in totals]
        return [self.numbers.index(name) for name in dict.fromkeys([*totals, *rest])]

    def _exact(self) -> bool:
        return all(self.whole.values())

    def _range(self, columns: Mapping[str, Column], rule: Within) -> tuple[str, str, Floats, Floats]:
        by, column = columns[rule.by], columns[rule.column]
        low, high = np.full(by.size, -np.inf), np.full(by.size, np.inf)
        for value, least, most in rule.entries:
            code = code_of(by, value)
            if code is not None and is_own(by, value):
                low[code] = _number(column, least, -np.inf)
                high[code] = _number(column, most, np.inf)
                if not low[code] <= high[code]:
                    raise SchemaError(invalid("ranges", "of a least below a greatest value", "Swap them."))
        return rule.column, rule.by, low, high

    def _inequalities(self, rule: Rule) -> list[tuple[tuple[int, ...], float, float]]:
        """Coefficients, bound, and what rounding may add to it."""
        place = {name: i for i, name in enumerate(self.numbers)}
        factors = [0] * len(self.numbers)
        if isinstance(rule, Ordered):
            factors[place[rule.low]], factors[place[rule.high]] = 1, -1
            apart = 1.0 if self.whole[rule.low] and self.whole[rule.high] else TINY * self.scale
            return [(tuple(factors), -apart if rule.strict else 0.0, 0.0)]
        if isinstance(rule, Sum):
            factors[place[rule.total]] = 1
            for part in rule.parts:
                factors[place[part]] = -1
            slack = 0.0 if all(self.whole[name] for name in rule.names) else ROUNDING * self.scale
            return [(tuple(factors), 0.0, slack), (tuple(-f for f in factors), 0.0, slack)]
        return []


def number_rules(columns: Mapping[str, Column], rules: Sequence[Rule]) -> list[NumberRules]:
    """Rules about numbers, those that share a column together.

    Rules about a column that turned out not to be of numbers, undeclared, are left out: nothing in it can be
    compared.

    Raises:
        SchemaError: A declared column is not of numbers, or of another kind than its partner.
    """
    groups: list[list[Rule]] = []
    for rule in rules:
        if not isinstance(rule, Ordered | Sum | Within) or not is_comparable(columns, rule):
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
        low[: column.present] = edges[:-1]
        if isinstance(column, Real):
            high[: column.present] = np.nextafter(edges[1:], -np.inf)
            high[column.present - 1] = edges[-1]
        else:
            high[: column.present] = edges[1:] - 1.0
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
