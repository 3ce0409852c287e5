"""Metrics of whole rows: those that break the declared rules, and copies of real ones. **Not private**.

`BrokenRules` counts rows of each table that break the rules of the schema. `UniqueExactMatch` and
`ApparentMatch`, below it, count real rows that reappear among the synthetic ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.calendar import Instant
from margrave.schema.columns import Binned, Column, Date, Listed, Moment, Time
from margrave.schema.constraints.calendar import number_codes
from margrave.schema.constraints.flag_counts import say_yes
from margrave.schema.constraints.numbers import NumberRules, number_rules
from margrave.schema.constraints.rule import Value
from margrave.schema.constraints.rules import (
    Allowed,
    CalendarRule,
    Combinations,
    Determines,
    FlagCount,
    Forbidden,
    Ordered,
    Rule,
    Sum,
    Within,
)
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY

Truths = NDArray[np.bool_]
Codes = NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True)
class BrokenRules:
    """Share of the synthetic rows that break at least one declared rule. **Not private**.

    The synthetic side could be told to anyone; the counts of the real rows beside it are exact and private.
    Each rule is judged on the values as they are stored, not on bins, by what docs/rules.md says of it.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The share; parts give the rows of both tables that break each rule."""
        if not task.rules:
            return self.facts.undefined_score("no rules", "declare rules in the schema")
        parts: dict[str, float] = {}
        left: list[str] = []
        sides = {"synthetic": task.synthetic, "real": task.real}
        any_broken = {name: np.zeros(rows.size, dtype=np.bool_) for name, rows in sides.items()}
        for place, rule in enumerate(task.rules, 1):
            name = f"{place}. {rule_words(rule)}"
            found = {side: broken(rule, rows, task.schema) for side, rows in sides.items()}
            if any(rows is None for rows in found.values()):
                left.append(name)
                continue
            for side, rows in found.items():
                assert rows is not None  # noqa: S101 - the line above says so
                any_broken[side] |= rows
                parts[f"{name}: {side} rows"] = float(rows.sum())
        scope = f"{len(task.rules) - len(left)} rules"
        note = f"not judged: {'; '.join(left)}" if left else ""
        if not parts:
            return self.facts.undefined_score(scope, note)
        parts["any rule: share of real rows"] = float(any_broken["real"].mean())
        return self.facts.score(float(any_broken["synthetic"].mean()), scope, parts=parts, note=note)


def broken(rule: Rule, rows: Rows, schema: Schema) -> Truths | None:
    """Which rows break a rule, [rows]; None where it cannot be judged.

    **Not private** if the rows are real. It cannot be judged where a column is left out or of another kind
    than the rule speaks of, and where numbers are known by their bins only.
    """
    if not set(rule.names) <= set(rows.domain.names):
        return None
    columns = {name: schema[name] for name in rule.names}
    if isinstance(rule, Combinations):
        return _violate_combinations(rule, columns, rows)
    if isinstance(rule, Determines):
        return _violate_dependency(rule, columns, rows)
    if isinstance(rule, CalendarRule):
        return _violate_calendar(rule, columns, rows)
    if isinstance(rule, FlagCount):
        return _miscount_flags(rule, columns, rows)
    return _violate_numbers(rule, columns, rows)


def rule_words(rule: Rule) -> str:
    """A rule in a few words: names of columns, no values."""
    if isinstance(rule, Ordered):
        return f"{rule.low} {'<' if rule.strict else '<='} {rule.high}"
    if isinstance(rule, Sum):
        return f"{rule.total} = {' + '.join(rule.parts)}"
    if isinstance(rule, Within):
        return f"range of {rule.column} by {rule.by}"
    if isinstance(rule, Determines):
        return f"{rule.of} follows from {rule.by}"
    if isinstance(rule, CalendarRule | FlagCount):
        return rule.words
    verb = "forbidden" if isinstance(rule, Forbidden) else "allowed"
    return f"{verb} combinations of {', '.join(rule.names)}"


def _code(column: Column, value: Value, *, pooled: bool) -> int | None:
    """The code of a listed value, None where no row has it.

    pooled: Whether `other` stands for the values in it.
    """
    if value is None:
        return column.missing_code
    if not isinstance(column, Listed):
        return None
    values = list(column.values or ())
    if value == column.other:
        return column.other_code
    if value in values:
        return values.index(value)
    # A column read off a text file lists texts; numbers and truth values in a rule are written as there.
    if str(value) in values:
        return values.index(str(value))
    return column.other_code if pooled else None


def _violate_combinations(rule: Combinations, columns: Mapping[str, Column], rows: Rows) -> Truths | None:
    if not all(isinstance(column, Listed) for column in columns.values()):
        return None
    codes = [rows.encoded.column(name).astype(np.int64) for name in rule.columns]
    only = isinstance(rule, Allowed)
    listed = np.zeros(rows.size, dtype=np.bool_)
    for entry in rule.combinations:
        pairs = zip(rule.columns, entry, strict=True)
        wanted = [_code(columns[name], value, pooled=only) for name, value in pairs]
        if None not in wanted:
            listed |= np.logical_and.reduce([c == w for c, w in zip(codes, wanted, strict=True)])
    if not only:
        return listed
    silent = np.zeros(rows.size, dtype=np.bool_)
    for place, name in enumerate(rule.columns):
        if not any(entry[place] is None for entry in rule.combinations):
            silent |= _find_missing(columns[name], codes[place])
    return ~listed & ~silent


def _violate_dependency(rule: Determines, columns: Mapping[str, Column], rows: Rows) -> Truths | None:
    by, of = columns[rule.by], columns[rule.of]
    if not (isinstance(by, Listed) and isinstance(of, Listed)):
        return None
    cause, effect = (rows.encoded.column(name).astype(np.int64) for name in (rule.by, rule.of))
    either = _find_missing(by, cause)
    if not any(value is None for _, value in rule.pairs):
        either |= _find_missing(of, effect)
    follows = np.full(by.size, -1)
    if rule.table is None:
        # The least number of rows that would have to change: g3 of Kivinen and Mannila 1995, section 2.
        counts = np.zeros((by.size, of.size), dtype=np.int64)
        np.add.at(counts, (cause[~either], effect[~either]), 1)
        follows = counts.argmax(axis=1)
    for value, then in rule.pairs:
        code, wanted = _code(by, value, pooled=False), _code(of, then, pooled=True)
        if code is not None:
            follows[code] = of.size if wanted is None else wanted
    expected = follows[cause]
    return np.asarray((expected >= 0) & (expected != effect) & ~either)


def _violate_numbers(rule: Rule, columns: Mapping[str, Column], rows: Rows) -> Truths | None:
    """Orders, sums and ranges, of the numbers as they are stored."""
    try:
        joints = number_rules(columns, [rule])
    except SchemaError:
        return None
    if not joints:
        return None
    joint = joints[0]
    binned = [name for name in joint.numbers if isinstance(columns[name], Binned)]
    if not rows.exact and binned:
        return None
    values = np.stack([_numbers(joint, name, rows) for name in joint.numbers])
    wrong = joint.find_disobeyed(values, ~np.isnan(values))
    if isinstance(rule, Within):
        value = values[joint.numbers.index(rule.column)]
        low, high = _range(rule, columns, joint, rows)
        wrong |= (value < low) | (value > high)
    return wrong


def _violate_calendar(rule: CalendarRule, columns: Mapping[str, Column], rows: Rows) -> Truths | None:
    """Numbers that are not what dates say, as both are stored; a row without one of them breaks nothing."""
    dated = all(isinstance(columns[name], Date | Moment | Time) for name in rule.dates)
    column = columns[rule.number]
    spelt = bool(rule.pairs) and isinstance(column, Listed)
    needed = rule.dates if spelt else rule.names
    if not rows.exact or not dated or not set(needed) <= set(rows.numbers):
        return None
    values = [rows.numbers[name] for name in needed]
    if spelt:
        codes = rows.encoded.column(rule.number)
        told = number_codes(column, rule).astype(np.float64)  # type: ignore[arg-type]  # a listed one
        values.append(np.where(codes < column.present, told[codes], np.nan))
    elif isinstance(column, Moment):
        values[-1] = values[-1] // DAY
    there = ~np.isnan(values).any(axis=0)
    instants = [
        Instant.of(own, not isinstance(columns[name], Date), isinstance(columns[name], Time))
        for name, own in zip(rule.dates, values, strict=False)
    ]
    return np.asarray(there & (rule.tell_number(instants) != values[-1]))


def _miscount_flags(rule: FlagCount, columns: Mapping[str, Column], rows: Rows) -> Truths | None:
    """Numbers that are not how many flags say yes; a row without the number breaks nothing."""
    binned = [name for name in rule.names if not isinstance(columns[name], Listed)]
    if not rows.exact or not set(binned) <= set(rows.numbers):
        return None
    said = np.zeros(rows.size, dtype=np.int64)
    for name, value in zip(rule.flags, rule.counted, strict=True):
        said += say_yes(columns[name], value, rows.encoded.column(name), rows.numbers.get(name))
    number = rows.numbers[rule.number]
    return np.asarray(~np.isnan(number) & (number != said))


def _numbers(joint: NumberRules, name: str, rows: Rows) -> NDArray[np.float64]:
    if name in rows.numbers:
        return rows.numbers[name]
    return joint.spans[name][0][rows.encoded.column(name)]


def _range(
    rule: Within, columns: Mapping[str, Column], joint: NumberRules, rows: Rows
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest value allowed in each row, infinite where anything goes."""
    by = columns[rule.by]
    low, high = np.full(by.size, -math.inf), np.full(by.size, math.inf)
    for _, of, least, most in joint.ranges:
        if of == rule.by:
            low, high = np.maximum(low, least), np.minimum(high, most)
    code = rows.encoded.column(rule.by)
    return low[code], high[code]


def _find_missing(column: Column, codes: Codes) -> Truths:
    if column.missing_code is None:
        return np.zeros(codes.shape, dtype=np.bool_)
    return np.asarray(codes == column.missing_code)


Ids = NDArray[np.int64]


def row_ids(sides: Sequence[Rows], names: Sequence[str]) -> list[Ids]:
    """A number for each row, equal for rows with equal codes in some columns: one array of [rows] a table.

    **Not private** if a table is.
    """
    ids = np.zeros(sum(side.size for side in sides), dtype=np.int64)
    for name in names:
        codes = np.concatenate([side.encoded.column(name) for side in sides])
        # Numbered anew after each column, so that products of sizes cannot overflow.
        _, ids = np.unique(ids * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    ends = np.cumsum([side.size for side in sides])[:-1]
    return [np.asarray(part, dtype=np.int64) for part in np.split(ids, ends)]


def _unique(ids: Ids) -> Ids:
    """The numbers that occur once."""
    values, rows = np.unique(ids, return_counts=True)
    return np.asarray(values[rows == 1])


@final
@dataclass(frozen=True, slots=True)
class UniqueExactMatch:
    """Share of the unique real rows that are among the synthetic ones, code by code. **Not private**.

    What it cannot show: a match may be chance, and fewer matches are no proof of privacy. Held against the
    same share of held-out rows, which nothing was made from, where there are some.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The share; parts say how many real rows are unique, and the same share of held-out rows."""
        sides = [task.real, task.synthetic, *([task.held_out] if task.held_out else [])]
        real, synthetic, *others = row_ids(sides, task.names)
        alone = _unique(real)
        parts = {"unique real rows": alone.size / real.size}
        if others and (fresh := _unique(others[0])).size:
            parts["held-out rows matched"] = float(np.isin(fresh, synthetic).mean())
        if not alone.size:
            return self.facts.undefined_score("0 unique real rows", "no real row is unique")
        matched = float(np.isin(alone, synthetic).mean())
        return self.facts.score(matched, f"{alone.size} unique real rows", parts=parts)


@final
@dataclass(frozen=True, slots=True)
class ApparentMatch:
    """Share of real rows that seem to be found again by what an outsider may know. **Not private**.

    A real row has an apparent match if it is unique in the columns `quasi`, and just one synthetic row has
    its values there. The parts say how many of the other columns then agree: a match that agrees in few is
    no disclosure.

    Args:
        facts: What the metric says about itself.
        quasi: Columns an outsider may know; all but the target by default, or all but the last.
    """

    facts: Facts
    quasi: tuple[str, ...] = ()

    def run(self, task: Task) -> Score:
        """The share; the parts tell of the agreement."""
        known = self.quasi or tuple(n for n in task.names if n != (task.target or task.names[-1]))
        for name in known:
            task.schema.domain.index(name)
        scope = f"{len(known)} known columns"
        if not known:
            return self.facts.undefined_score(scope, "there is one column only")
        real, synthetic = row_ids([task.real, task.synthetic], known)
        both = np.intersect1d(_unique(real), _unique(synthetic))
        parts = {"unique real rows": _unique(real).size / real.size}
        rest = [name for name in task.names if name not in known]
        if both.size and rest:
            places = [np.argsort(ids)[np.searchsorted(np.sort(ids), both)] for ids in (real, synthetic)]
            agreed = np.mean([self._agree(task, name, places) for name in rest], axis=0)
            parts["mean agreement in the rest"] = float(agreed.mean())
            parts["matches that agree in all"] = float((agreed == 1).mean())
        return self.facts.score(both.size / real.size, scope, parts=parts)

    @staticmethod
    def _agree(task: Task, name: str, places: list[Ids]) -> NDArray[np.bool_]:
        first = task.real.encoded.column(name)[places[0]]
        return np.asarray(first == task.synthetic.encoded.column(name)[places[1]])
