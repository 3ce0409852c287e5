"""Numbers and names that dates tell: an age by a date of birth, a stay, a weekday. **Not private**."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.metrics.findings import ROWS_TRIED, SLACK, Finding, share_kept
from margrave.evaluation.metrics.orders import OrderedColumn
from margrave.schema.calendar import (
    DAY_UNITS,
    FIRST_DAY,
    LAST_DAY,
    PARTS,
    UNITS,
    Instant,
    find_date,
    find_range,
    list_parts,
    rank_day,
)
from margrave.schema.constraints.rules import Age, CalendarRule, DatePart, Elapsed

Numbers = NDArray[np.float64]

MIN_TOLD = 0.95
"""Least share of real rows in which a number is what dates say."""
MOST_UNITS, MOST_DAYS = 1e6, 400
"""Numbers beyond it are no times to a fixed day; and most days of which the roundest is taken."""
MAX_BY_CHANCE = 0.5
"""Largest share of rows in which it would be with the dates of other rows."""


def find_times(columns: Sequence[OrderedColumn]) -> list[Finding]:
    """Numbers that are a part of a date, or the time between two, in nearly all real rows: one rule a number.

    Args:
        columns: Both tables' rows, those of each perhaps a sample; the scale of texts that name a part of a
            date is that part, one of `margrave.schema.calendar.PARTS`.
    """
    dates = {column.name: column for column in columns if column.scale in ("date", "moment")}
    numbers = [column for column in columns if column.scale in ("number", *PARTS)]
    rules = list(_list_rules(dates)) if numbers else []
    heads = {name: _instants(column.real[:ROWS_TRIED], column) for name, column in dates.items()}
    told = [_tell(rule, heads) for rule in rules]
    found = []
    for number in numbers:
        shares = [
            _share_equal(number.real[:ROWS_TRIED], one) if _may_be(number, rule) else 0.0
            for rule, one in zip(rules, told, strict=True)
        ]
        best = int(np.argmax(shares)) if shares else 0
        held = shares[best] if shares else 0.0
        rule = rules[best] if held >= MIN_TOLD - SLACK else _find_age(number, heads)
        finding = _compare(number, rule, dates) if rule is not None else None
        found += [finding] if finding is not None else []
    return found


def _find_age(number: OrderedColumn, heads: dict[str, tuple[Instant, NDArray[np.bool_]]]) -> Age | None:
    """The rule that a number is the time from a date to the day that most rows say, if nearly all do."""
    if number.scale != "number":
        return None
    values = number.real[:ROWS_TRIED]
    best, found = MIN_TOLD - SLACK, None
    for name, (instants, there) in heads.items():
        both = there & (np.abs(values) <= MOST_UNITS) & (values == np.floor(values))
        rows = int((there & ~np.isnan(values)).sum())
        if not both.any():
            continue
        own = Instant(*(getattr(instants, part)[both] for part in ("days", "ticks", "year", "month", "day")))
        for unit in DAY_UNITS:
            day, agreeing = _find_day(*find_range(own, values[both].astype(np.int64), unit, ahead=True))
            if agreeing / rows > best:
                best, found = agreeing / rows, Age("", name, find_date(day).isoformat(), unit)
    return found


def _find_day(first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[int, int]:
    """The day that most ranges hold, the roundest of such days, and how many do.

    Args:
        first, last: The first and the last day of each range, shape [rows] each.
    """
    starts = np.unique(np.concatenate([first, last + 1]))
    begun = np.searchsorted(np.sort(first), starts, side="right")
    ended = np.searchsorted(np.sort(last), starts, side="left")
    counts = begun - ended
    place = int(np.argmax(counts))
    end = int(starts[place + 1]) if place + 1 < len(starts) else int(starts[place]) + 1
    low = min(max(int(starts[place]), FIRST_DAY), LAST_DAY)
    high = min(end - 1, LAST_DAY, low + MOST_DAYS)
    day = min(range(low, max(high, low) + 1), key=rank_day, default=low)
    return min(max(day, FIRST_DAY), LAST_DAY), int(counts[place])


def _may_be(number: OrderedColumn, rule: CalendarRule) -> bool:
    """Whether a rule may be about a column: about texts of a part only one of that."""
    return number.scale == "number" or (isinstance(rule, DatePart) and rule.part == number.scale)


def _list_rules(dates: dict[str, OrderedColumn]) -> Iterator[CalendarRule]:
    """All rules about these dates, of a number that has no name."""
    for name, column in dates.items():
        for part in list_parts(column.scale):
            yield DatePart("", name, part)
    for since, until in permutations(dates, 2):
        for unit in UNITS:
            yield Elapsed("", since, until, unit)


def _instants(values: Numbers, column: OrderedColumn) -> tuple[Instant, NDArray[np.bool_]]:
    return Instant.of(values, column.scale == "moment"), ~np.isnan(values)


def _tell(rule: CalendarRule, instants: dict[str, tuple[Instant, NDArray[np.bool_]]]) -> Numbers:
    """What the dates say, NaN where one is missing: shape [rows]."""
    own = [instants[name] for name in rule.dates]
    told = np.asarray(rule.tell_number([instant for instant, _ in own]), dtype=np.float64)
    return np.where(np.logical_and.reduce([there for _, there in own]), told, np.nan)


def _share_equal(values: Numbers, told: Numbers) -> float:
    """The share of rows with both in which they are equal, 0 where no row has both."""
    both = ~np.isnan(values) & ~np.isnan(told)
    return float((values[both] == told[both]).mean()) if both.any() else 0.0


def _compare(number: OrderedColumn, rule: CalendarRule, dates: dict[str, OrderedColumn]) -> Finding | None:
    """How often both tables obey a rule; None where the real one seldom does, or would by chance."""
    sides = []
    for real in (True, False):
        columns = {name: dates[name].real if real else dates[name].synthetic for name in rule.dates}
        instants = {name: _instants(values, dates[name]) for name, values in columns.items()}
        sides.append(_tell(rule, instants))
    held = _share_equal(number.real, sides[0])
    # Each number with the dates of the row half a table away.
    chance = _share_equal(number.real, np.roll(sides[0], len(sides[0]) // 2))
    if held < MIN_TOLD or chance > MAX_BY_CHANCE:
        return None
    kept = _share_equal(number.synthetic, sides[1])
    said = rule.words.strip()
    words = f"{number.name} {said} in {kept:.1%} of its rows, {held:.1%} of the real ones."
    # More rows that obey than in the real table are no loss.
    return Finding("times", f"{number.name} {said}", share_kept(held, min(kept, held), chance), words)
