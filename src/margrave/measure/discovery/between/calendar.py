"""Numbers that dates tell, found under noise: an age by two dates or by one, a stay, the weekday of a date.

Released bins say which numbers may be a part of which date, or the time between which two, and released texts
whether these are names of a part, such as weekdays. All that may be so are counted together; what nearly all
rows obey becomes a rule of the release.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.fixed_days import choose_days, find_fixed_days
from margrave.measure.discovery.between.key_years import list_key_years
from margrave.measure.discovery.between.links import greatest_distance, round_share
from margrave.measure.discovery.between.named_parts import list_names, list_periods
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.schema.calendar import (
    DAY_UNITS,
    FISCAL_YEARS,
    NAMED_PARTS,
    TICKS,
    Instant,
    count_units,
    list_parts,
    take_part,
)
from margrave.schema.columns import (
    Binned,
    Boolean,
    Column,
    Date,
    Integer,
    Moment,
    Relative,
    Temporal,
    Time,
)
from margrave.schema.columns.relative import take_own
from margrave.schema.constraints.draws import draw_overall
from margrave.schema.constraints.rules import (
    Age,
    CalendarRule,
    DatePart,
    Elapsed,
    FlagCount,
    KeyYear,
    Ordered,
    find_ruled,
)
from margrave.schema.date_names import (
    list_fiscal_parts,
    list_named_parts,
    turn_seasons,
)
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Source

Array = NDArray[np.float64]
Told = TypeVar("Told", bound=CalendarRule | FlagCount)

SHARE = Fraction(1, 40)
"""Most of discovery's rho for this look, where there are dates and whole numbers. A tenth costs small tables
more than it finds: bench/LOG.md, 2026-11-29."""
DRAWS = 2_000
"""Values drawn from each released column to see what its dates would tell by chance."""
MOST_TOLD = 40
"""Most rules that are counted together."""
LEAST_NOISE, MOST_NOISE = 25.0, 10.0
"""Rows over the noise of a count: as much as is bought at most, and what the number of rules leaves at least.
With the least a rule that holds in all rows is five deviations above half of them."""
DAYS, DAYS_NOISE, DAYS_FINE = Fraction(1, 2), 4.0, 200.0
"""Share of that for a look at fixed days before, where quantiles leave any open; and rows over the noise of a
count there, at least, as many counts together tell a day, and at most: a day that is off by one in a thousand
of a unit costs as many rows. Not measured."""
PERIODS_SHARE = Fraction(1, 2)
"""Share of that for the look at periods of dates, at most. Not measured."""
MIN_SHARE = 0.9
"""Least share of the rows with all values in which the number is what the dates say."""
Z = 4.0
"""Noise standard deviations by which that must exceed half of these rows."""
TIE = 3.0
"""Noise standard deviations within which two rules are obeyed by as many rows. Then dates come before
moments, and what ends early before what ends late: an age is told when somebody comes, not on leaving."""
KEY_TIE = 1.5
"""The same where digits of a key are a year: an order and its bill are of the same year more often than not.
Not measured."""
FLAG_TIE = 0.5
"""The same where flags are counted, as a rare one says yes in few rows. Not measured."""
APART = 0.5
"""Greatest distance of a number's distribution from that of a part of a date."""
GAP, SPREAD_GAP = 0.5, 0.2
"""Greatest distance of a number's mean from the time between two dates by chance, as a share of itself and of
the spread of that time: released dates are wide where numbers are few."""
MOST_BY_CHANCE = 0.7
"""Share of the rows in which a number is the time between two dates by chance from which nothing is asked.
Not measured."""
MIN_VALUES = 3.0
"""A number of fewer different values is no part of a date but what its name says: anything would tell it."""
LEAST_OTHERS = 0.02
"""Share of the rows from which others than the two most frequent values of a number count. Not measured."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Dates:
    """A column of dates or moments, and some drawn from its bins.

    Args:
        name: Of the column.
        clock: Whether they are moments or times of day.
        daily: Whether they are times of day.
        step: What nearly all are multiples of, 0 where that is not known.
        numbers: Drawn ones in the column's unit, shape [DRAWS].
        instants: The same by their parts.
    """

    name: str
    clock: bool
    daily: bool
    step: float
    numbers: Array
    instants: Instant

    @classmethod
    def of(cls, column: Column, rng: np.random.Generator) -> _Dates | None:
        """Those of a column; None where it is of another kind or its bins are not known."""
        own = take_own(column)
        if not isinstance(own, (Date, Moment, Time)) or not own.weights:
            return None
        drawn, read = draw_overall(own, DRAWS, rng), (not isinstance(own, Date), isinstance(own, Time))
        return cls(own.name, *read, _find_step(own), drawn, Instant.of(drawn, *read))

    @property
    def read(self) -> str:
        """As what the column is read."""
        return "time" if self.daily else "moment" if self.clock else "date"


class Calendar:
    """Finds numbers, and names of weekdays, months and quarters, that dates tell.

    **Privacy.** Unit and adjacency: the ledger's. *times* of m rules: for each rule a table of three cells,
    rows that obey, rows that do not, and rows in which a value is missing (`Source.agreements`). A row is in
    exactly one cell of each table, by its own values: which number a text stands for, or which of the signs
    of a key are the year, follows from the rule alone, and a row whose text stands for none does not obey.
    Between neighbours each table moves by at most S in L2, where S^2 = `Neighbours.marginal_l2_squared`; the
    m tables together are one vector that moves by at most sqrt(m S^2), and that is what its one event
    declares. *days* that numbers are told to, before it, are the same of m other rules, one a fixed day.
    Which rules are asked for follows from released bins, texts and shapes of keys, public things, and for
    *times* the noisy counts of *days*; what is made of them from noisy counts. *periods*, before relations
    are looked for, are the same of rules about dates.

    Args:
        source: The private table.
        gaussian: The mechanism for one table.
        rows: A released guess of the row count.
        fixed: Names of columns that are left alone, as public columns are.
    """

    def __init__(self, source: Source, gaussian: Gaussian, rows: float, fixed: Collection[str] = ()) -> None:
        self._source = source
        self._gaussian = gaussian
        self._rows = max(rows, 0.0)
        self._fixed = frozenset(fixed)

    def find_periods(self, schema: Schema, rho: Fraction) -> Schema:
        """The schema with a rule for each date that is the end of a period of another one.

        Args:
            schema: All known.
            rho: What may be spent, as in `run`.
        """
        dates = {one.name: one for one in self._find_dates(schema) if not one.daily}
        parts = {name: list_periods(schema[name]) for name in dates}
        rules: list[CalendarRule] = [
            DatePart(name, date, part)
            for name, own in parts.items()
            for part in own
            for date in dates
            if not parts.get(date)
        ]
        most = min(self._gaussian.count_tables(rho, self._rows / MOST_NOISE), MOST_TOLD)
        return self._find_among(schema, rules[:most], rho, dates, "periods")

    def run(self, schema: Schema, rho: Fraction) -> Schema:
        """The schema with a rule for each number that dates tell.

        Args:
            schema: All known.
            rho: What may be spent; what is not needed is left, and nothing is where no rule may hold.
        """
        dates = {one.name: one for one in self._find_dates(schema)}
        ages, spent = self._ask_days(schema, dates, rho * DAYS)
        rho -= spent
        most = min(self._gaussian.count_tables(rho, self._rows / MOST_NOISE), MOST_TOLD)
        rules = [*ages, *self.find_candidates(schema)][:most]
        return self._find_among(schema, rules, rho, dates, "times")

    def _find_among(
        self,
        schema: Schema,
        rules: Sequence[CalendarRule],
        rho: Fraction,
        dates: Mapping[str, _Dates],
        what: str,
    ) -> Schema:
        """The schema with those of some rules that nearly all rows obey, as a look of at most rho shows."""
        if not rules:
            return schema
        cost = self._gaussian.joint(len(rules)).find_cost(rho, self._rows / LEAST_NOISE)
        noisy, sigma = self._count(f"{what} told by {len(rules)} rules", rules, cost, dates)

        def place(rule: CalendarRule) -> tuple[float, ...]:
            own = [dates[name] for name in rule.dates]
            later = sum(isinstance(schema[name], Relative) for name in rule.dates)
            return sum(one.clock for one in own), later, float(own[-1].instants.days.mean())

        # What a name says needs no such proof.
        commonest = {
            name: _share_of_commonest(drawn)
            for name, drawn in self._draw_numbers(schema, ())
            if not list_named_parts(name)
        }
        for rule in rules:
            if isinstance(rule, KeyYear):
                own = _share_of_commonest(np.asarray(dates[rule.date].instants.year))
                commonest[rule.number] = max(own, commonest.get(rule.number, 0.0))
        found = choose_rules(rules, noisy, sigma, place, commonest)
        return Schema(schema.columns, (*schema.rules, *found))

    def _ask_days(
        self, schema: Schema, dates: Mapping[str, _Dates], rho: Fraction
    ) -> tuple[list[Age], Fraction]:
        """The fixed days that numbers are told to, as far as a look shows, and what was spent of rho."""
        dated = [(name, one.instants.days) for name, one in dates.items() if not one.daily]
        days = [(name, own.astype(np.float64)) for name, own in dated]
        # Other columns may be coded by such a number: the date follows it.
        coded = {column.name for column in schema.columns if isinstance(column, Relative)}
        numbers = self._draw_numbers(schema, _find_held(schema) | coded) if days else []
        numbers = [one for one in numbers if _count_values(one[1]) >= MIN_VALUES]
        able = find_fixed_days(numbers, days) if days else []
        most = self._gaussian.count_tables(rho, self._rows / DAYS_NOISE)
        while able and sum(len(one.days) for one in able) > most:
            able.pop()
        if not able:
            return [], Fraction(0)
        rules = [rule for one in able for rule in one.rules]
        cost = self._gaussian.joint(len(rules)).find_cost(rho, self._rows / DAYS_FINE)
        noisy, sigma = self._count(f"days that {len(able)} numbers are told to", rules, cost, dates)
        ends = np.cumsum([len(one.days) for one in able])
        shown = zip(able, np.split(noisy[:, 0], ends[:-1]), strict=True)
        return [rule for one, agreeing in shown for rule in choose_days(one, agreeing, sigma)], cost

    def _count(
        self, what: str, rules: Sequence[CalendarRule], cost: Fraction, dates: Mapping[str, _Dates]
    ) -> tuple[Array, float]:
        """Noisy counts of rows that obey each rule, that do not, and that lack a value; and their sigma."""
        reads = {name: one.read for name, one in dates.items()}
        return count_agreements(self._source, self._gaussian, what, rules, cost, reads)

    def find_candidates(self, schema: Schema) -> list[CalendarRule]:
        """The rules that released bins leave open, those of the nearest distributions first."""
        dates = self._find_dates(schema)
        # What the end of a period says its date says as well.
        ends = {one.number for one in schema.rules if isinstance(one, CalendarRule) and one.tells_date}
        full = [one for one in dates if one.name not in ends]
        # What dates say does not hang on the number, so it is worked out once for all of them.
        gaps = _list_gaps(schema, dates)
        linked = {(since, until) for since, until, _, _ in gaps}
        parts, times = _list_parts(full), [one for one in _list_times(schema, dates) if one[:2] not in linked]
        bases = {name for column in schema.columns if isinstance(column, Relative) for name in column.bases}
        held = _find_held(schema) | bases
        scored = self._list_names(schema, full, held)
        keys = [column for column in self._free(schema) if column.name not in held]
        years = {one.name: np.asarray(one.instants.year) for one in full if not one.daily}
        scored += [(0.0, rule) for rule in list_key_years(keys, years)]
        for name, numbers in self._draw_numbers(schema, _find_held(schema)):
            named = list_named_parts(name)
            if _count_values(numbers) < MIN_VALUES:
                scored += _compare_parts(name, numbers, [one for one in parts if one[1] in named])
                continue
            scored += _compare_gaps(name, numbers, gaps)
            if isinstance(schema[name], Relative):
                continue
            able = [one for one in parts if one[1] in named or one[1] not in NAMED_PARTS]
            scored += _compare_parts(name, numbers, able)
            # Where other columns are coded by a number, a date follows it, but not one of two.
            scored += _compare_times(name, numbers, times) if name not in bases else []
        scored.sort(key=lambda entry: entry[0])
        return [rule for _, rule in scored]

    def _draw_numbers(self, schema: Schema, held: Collection[str]) -> list[tuple[str, Array]]:
        """The columns of whole numbers but for some, and numbers drawn from each one's bins."""
        rng = np.random.default_rng(0)
        found = []
        for column in self._free(schema):
            own, coded = take_own(column), isinstance(column, Relative)
            if column.name in held or not is_whole(own):
                continue
            assert isinstance(own, Binned)  # noqa: S101 - `is_whole` says so
            # A generator of its own, as which columns are coded by others must not change what others draw.
            draws = np.random.default_rng(1) if coded else rng
            numbers = draw_overall(own, DRAWS, draws).astype(np.float64)
            if _count_values(numbers) >= MIN_VALUES or list_named_parts(column.name):
                found.append((column.name, numbers))
        return found

    def _list_names(
        self, schema: Schema, dates: Sequence[_Dates], held: Collection[str]
    ) -> list[tuple[float, CalendarRule]]:
        """Columns of names with each date, full ones first: what a text says hangs on no distribution."""
        found: list[tuple[float, CalendarRule]] = []
        # Whole numbers that were declared to be truth values are not read as such.
        untold = {one.name for one in self._source.columns if not isinstance(one, Boolean)}
        untold &= {one.name for one in schema.columns if isinstance(one, Boolean) and not one.spelling}
        for column in schema.columns:
            named = list_names(column) if column.name not in self._fixed | set(held) | untold else None
            if named is not None:
                part, texts = named
                able = [date.name for date in dates if part in list_parts(date.read)]
                spelt = [(part, texts)]
                if part in FISCAL_YEARS:
                    spelt = list_fiscal_parts(texts)
                if part == "season":
                    turned = turn_seasons(texts)
                    spelt += [("season_from_21", texts), (part, turned), ("season_from_21", turned)]
                # Whatever a date says that may be the end of a period, a full one says as well.
                far = {name: float(bool(list_periods(schema[name]))) for name in able}
                found += [(far[date], DatePart(column.name, date, *one)) for date in able for one in spelt]
        return found

    def _free(self, schema: Schema) -> list[Column]:
        held = self._source.comparable - self._fixed
        return [column for column in schema.columns if column.name in held]

    def _find_dates(self, schema: Schema) -> list[_Dates]:
        free = enumerate(self._free(schema))
        # Seeded by the column's place, so that each column always has the same draws.
        found = [_Dates.of(column, np.random.default_rng(place)) for place, column in free]
        return [one for one in found if one is not None]


def _find_held(schema: Schema) -> set[str]:
    """Names of the columns that rules speak of."""
    told = (rule.number for rule in schema.rules if isinstance(rule, CalendarRule | FlagCount))
    return {*find_ruled(schema.rules), *told}


def _find_step(column: Binned) -> float:
    """What as many values of a column are multiples of as have to obey a rule; 0 where that is not known."""
    held = 0.0
    for step, share in sorted(column.grids, reverse=True):
        held += share
        if held >= MIN_SHARE:
            return step
    return column.step


def is_whole(column: Column) -> bool:
    """Whether a column has whole numbers in bins that were found."""
    if not isinstance(column, Binned) or isinstance(column, Temporal) or not column.weights:
        return False
    return isinstance(column, Integer) or column.step >= 1


def _list_parts(dates: Sequence[_Dates]) -> list[tuple[str, str, Array]]:
    """Each date, each of its parts, and what the drawn dates say that is, in order: shape [DRAWS]."""
    return [
        (date.name, part, np.sort(take_part(date.instants, part, np.floor_divide).astype(np.float64)))
        for date in dates
        for part in list_parts(date.read)
    ]


def _list_times(schema: Schema, dates: Sequence[_Dates]) -> list[tuple[str, str, str, float, float]]:
    """Two dates, a unit, and the mean and spread of the time between them by chance.

    Not from the later one to the earlier where their order is known, nor in units shorter than what both are
    multiples of: between dates that noise spreads over years any number is a time in some unit.
    """
    found = []
    rng = np.random.default_rng(0)
    orders = {(rule.low, rule.high) for rule in schema.rules if isinstance(rule, Ordered)}
    for since, until in permutations(dates, 2):
        if since.daily != until.daily or (until.name, since.name) in orders:
            continue
        # Paired by chance: what the two have to do with each other is not known.
        turned = Instant.of(rng.permutation(until.numbers), until.clock, until.daily)
        for unit in _list_units(since, until):
            told = np.asarray(count_units(since.instants, turned, unit, np.floor_divide), dtype=np.float64)
            found.append((since.name, until.name, unit, float(told.mean()), float(told.std())))
    return found


def _list_units(one: _Dates, two: _Dates) -> list[str]:
    """The units in which the time between two columns of dates may be told."""
    days = () if one.daily else DAY_UNITS
    short = [unit for unit in TICKS if TICKS[unit] >= min(one.step, two.step)]
    return [*days, *(short if one.clock and two.clock else ())]


def _list_gaps(schema: Schema, dates: Sequence[_Dates]) -> list[tuple[str, str, str, Array]]:
    """Two dates that are coded by one another or by the same one, a unit, and drawn times between, in order.

    What is released of their differences says more than the times by chance.
    """
    found = []
    known = {one.name: one for one in dates}
    coded = {one.name: _add_gaps(schema, one, known) for one in dates}
    for since, until in permutations(dates, 2):
        (base, first), (other, last) = coded[since.name], coded[until.name]
        if base != other or since.read != until.read:
            continue
        begin = np.zeros_like(first) if since.daily else known[base].numbers.astype(np.int64)
        start, end = (Instant.of(begin + one, since.clock, since.daily) for one in (first, last))
        for unit in _list_units(since, until):
            told = np.asarray(count_units(start, end, unit, np.floor_divide), dtype=np.float64)
            found.append((since.name, until.name, unit, np.sort(told)))
    return found


def _add_gaps(schema: Schema, date: _Dates, known: Mapping[str, _Dates]) -> tuple[str, NDArray[np.int64]]:
    """The date that a date is coded by in the end, itself where by none, and drawn times since: [DRAWS].

    A date has the same draws whatever is coded by it, seeded by its place, and others than those of its base:
    which of these go together is not known.
    """
    column = schema[date.name]
    none = np.zeros(DRAWS, dtype=np.int64)
    if not isinstance(column, Relative) or column.others or column.how != "difference":
        return date.name, none
    base = known.get(column.base)
    if base is None or base.read != date.read or not column.part.weights:
        return date.name, none
    rng = np.random.default_rng(list(known).index(date.name))
    gaps = draw_overall(column.part, DRAWS, rng).astype(np.int64)
    root, before = _add_gaps(schema, base, known)
    return root, before + gaps


def _compare_gaps(
    name: str, numbers: Array, gaps: Sequence[tuple[str, str, str, Array]]
) -> list[tuple[float, CalendarRule]]:
    """The times between two others that a number may be, with how far apart their distributions are.

    Not where both are 0 in most rows: any number of accidents is the years between a call and its answer.
    """
    own = np.sort(numbers)
    found: list[tuple[float, CalendarRule]] = []
    for since, until, unit, told in gaps:
        far = greatest_distance(own, told) / APART
        if far <= 1.0 and _agree_by_chance(own, told) < MOST_BY_CHANCE:
            found.append((far, Elapsed(name, since, until, unit)))
    return found


def _count_values(numbers: Array) -> int:
    """How many different values there are, but for one or two beside which there are hardly any others.

    Released weights have noise, so that a flag has a few rows with other numbers.
    """
    held = np.sort(np.unique(numbers, return_counts=True)[1])[::-1]
    few = min(len(held), 2)
    return few if held[few:].sum() < LEAST_OTHERS * len(numbers) else len(held)


def _share_of_commonest(numbers: Array) -> float:
    """The share of numbers that are the most frequent one."""
    return float(np.unique(numbers, return_counts=True)[1].max() / len(numbers))


def _agree_by_chance(one: Array, two: Array) -> float:
    """The share of the rows in which two columns are the same if they are independent."""
    (first, held), (second, also) = (np.unique(values, return_counts=True) for values in (one, two))
    _, at, behind = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return float((held[at] / len(one)) @ (also[behind] / len(two)))


def _compare_parts(
    name: str, numbers: Array, parts: Sequence[tuple[str, str, Array]]
) -> list[tuple[float, CalendarRule]]:
    """The parts of dates that a number may be, with how far apart both are by chance."""
    own = np.sort(numbers)
    apart = [(greatest_distance(own, told) / APART, date, part) for date, part, told in parts]
    return [(far, DatePart(name, date, part)) for far, date, part in apart if far <= 1.0]


def _compare_times(
    name: str, numbers: Array, times: Sequence[tuple[str, str, str, float, float]]
) -> list[tuple[float, CalendarRule]]:
    """The times between two dates that a number may be, with how far its mean is from them by chance."""
    found: list[tuple[float, CalendarRule]] = []
    mean = float(numbers.mean())
    for since, until, unit, told, spread in times:
        bar, gap = GAP * abs(mean) + SPREAD_GAP * spread, abs(told - mean)
        if bar > 0 and gap <= bar:
            found.append((gap / bar, Elapsed(name, since, until, unit)))
    return found


def count_agreements(
    source: Source,
    gaussian: Gaussian,
    what: str,
    rules: Sequence[CalendarRule | FlagCount],
    cost: Fraction,
    reads: Mapping[str, str],
) -> tuple[Array, float]:
    """Noisy counts of rows that obey each rule, that do not, and that lack a value, and their sigma.

    Args:
        source: The private table.
        gaussian: The mechanism for one table; those of all rules are one vector here.
        what: Name of the look in the ledger.
        rules: What is asked about.
        cost: In rho, for all of them.
        reads: As what dates are read, by name.

    Returns:
        Shape [rules, 3], and the standard deviation of the noise of each.
    """

    def exact() -> list[NDArray[np.int64]]:
        return [np.concatenate([counts.reveal() for counts in source.agreements(rules, reads)])]

    # What is asked and what it is priced for are the same list.
    (noisy,), sigma = gaussian.joint(len(rules)).ask([what], cost, exact)
    return noisy.reshape(-1, 3), sigma


def choose_rules(
    rules: Sequence[Told],
    noisy: Array,
    sigma: float,
    place: Callable[[Told], tuple[float, ...]],
    commonest: Mapping[str, float],
) -> list[Told]:
    """The rules that nearly all rows obey, one a number at most: the one that most do.

    Args:
        rules: What was counted.
        noisy: Noisy counts of rows that obey, that do not, and that lack a value, shape [rules, 3].
        sigma: Standard deviation of their noise.
        place: Of those as good within the noise the one with the least of this is taken.
        commonest: The share of a number's rows that hold its commonest value, by name where it is known. A
            rule has to be broken by at most half as many rows as hold others, with noise below that: else
            dates may say that value throughout.
    """
    held: dict[str, list[tuple[float, Told]]] = {}
    for rule, (agree, differ, _) in zip(rules, noisy, strict=True):
        rows = max(float(agree + differ), 1.0)
        share = min(max(float(agree) / rows, 0.0), 1.0)
        error = sigma * math.hypot(1.0 - share, share) / rows
        evident = float(agree - differ) / 2 > Z * sigma / math.sqrt(2)
        told = 1.0 - share + error <= (1.0 - commonest.get(rule.number, 0.0)) / 2
        if evident and share + error >= MIN_SHARE and told:
            found: Any = rule  # each kind has a share
            found = dataclasses.replace(found, share=round_share(share, error))
            held.setdefault(rule.number, []).append((float(agree), found))
    chosen = []
    for rivals in held.values():
        best = max(agree for agree, _ in rivals)
        kind = rivals[0][1]
        tie = KEY_TIE if isinstance(kind, KeyYear) else FLAG_TIE if isinstance(kind, FlagCount) else TIE
        near = [rule for agree, rule in rivals if agree >= best - tie * sigma]
        chosen.append(min(near, key=place))
    return chosen
