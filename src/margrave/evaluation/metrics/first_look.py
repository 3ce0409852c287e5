"""FirstLook: the score of relations that a person checks first, the worst in words. **Not private**.

A `Finding` is one relation of the real table, with how much of it the synthetic table keeps. Findings are
made in three parts: pairs of columns (orders, equalities, missing values, rank correlations), columns of
labels that follow from others, such as a state from a county, and single columns (hours and weekdays, codes
that come back, values that no real row has, spelling). `look_first` gathers them and `FirstLook` makes one
number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, permutations
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import total_variation
from margrave.evaluation.metrics.findings import (
    EXCEPTIONS,
    FINDING_KINDS,
    ROWS_TRIED,
    SLACK,
    Finding,
    share_kept,
)
from margrave.evaluation.metrics.orders import OrderedColumn, rank_correlations, read_ordered, take_day
from margrave.evaluation.metrics.told_times import find_times
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.calendar import NO_PART
from margrave.schema.columns import Binned, Listed, Temporal
from margrave.schema.columns.identifier import shape_of
from margrave.schema.cycles import list_cycles
from margrave.schema.date_names import read_names
from margrave.schema.queries import count_ticks

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]
Codes = NDArray[np.int64]
Counts = NDArray[np.int64]

BY_CHANCE = 0.05
"""Least share of rows that would break it if the columns were independent; else it follows from ranges."""
MIN_EQUAL_SHARE = 0.2
"""Least share of real rows, above chance, in which two columns are equal."""
MIN_CORRELATION = 0.5
"""Least size of a real rank correlation that a person would see."""
MAX_VALUES_COMPARED = 1_024
"""Most values of a column by which shares of independent columns are computed, to a thousandth each."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """Shares of rows with both values: the first is below, equal to, or above the second."""

    below: float
    equal: float
    above: float

    @classmethod
    def of(cls, first: Numbers, second: Numbers) -> _Shares:
        """Counted row by row; all 0 where no row has both."""
        rows = float((~(np.isnan(first) | np.isnan(second))).sum())
        if not rows:
            return cls(0.0, 0.0, 0.0)
        below, above = float((first < second).sum()), float((first > second).sum())
        return cls(below / rows, (rows - below - above) / rows, above / rows)

    @classmethod
    def by_chance(cls, first: Numbers, second: Numbers) -> _Shares:
        """Of all pairs of a value of the first and one of the second, both sorted, none missing."""
        most = max(first.size * second.size, 1)
        lower = float(np.searchsorted(second, first, side="left").sum()) / most
        upper = float(np.searchsorted(second, first, side="right").sum()) / most
        return cls(1.0 - upper, upper - lower, lower)


class _Tried:
    """A column, its first real rows, and its real values in order, thinned evenly where they are many."""

    def __init__(self, column: OrderedColumn) -> None:
        self.column, self.head = column, column.real[:ROWS_TRIED]
        values = np.sort(column.real[~np.isnan(column.real)])
        if values.size > MAX_VALUES_COMPARED:
            values = values[
                ((np.arange(MAX_VALUES_COMPARED) + 0.5) * values.size / MAX_VALUES_COMPARED).astype(np.int64)
            ]
        self.values = values


def find_orders(columns: Sequence[OrderedColumn]) -> list[Finding]:
    """Orders and equalities of columns of one scale that nearly all, or many, real rows show.

    A moment is held against moments, and its day against dates and days.

    Args:
        columns: Both tables' rows, those of each perhaps a sample.
    """
    plain = [column for column in columns if column.scale != "code"]
    days = [take_day(column) for column in plain if column.scale == "moment"]
    tried = [_Tried(column) for column in (*plain, *days)]
    return [finding for pair in combinations(tried, 2) for finding in _compare_pair(*pair)]


def _compare_pair(one: _Tried, other: _Tried) -> Iterator[Finding]:
    """What a pair shows: nothing, an order, an equality, or both."""
    first, second = one.column, other.column
    if first.scale != second.scale or not (chance := _chance_if_promising(one, other)):
        return
    real, synthetic = _Shares.of(first.real, second.real), _Shares.of(first.synthetic, second.synthetic)
    defined = synthetic.below + synthetic.equal + synthetic.above > 0
    if real.equal - chance.equal >= MIN_EQUAL_SHARE:
        kept = share_kept(real.equal, synthetic.equal, chance.equal) if defined else 0.0
        words = (
            f"{first.name} equals {second.name} in {synthetic.equal:.1%} of its rows, "
            f"{real.equal:.1%} of the real ones."
        )
        yield Finding("equality", f"{first.name} = {second.name}", kept, words)
    if real.equal >= 1.0 - EXCEPTIONS:
        return  # both orders say the same
    sides = (
        (first, second, real.above, synthetic.above, chance.above),
        (second, first, real.below, synthetic.below, chance.below),
    )
    for low, high, broken, breaks, independent in sides:
        if broken <= EXCEPTIONS and independent >= BY_CHANCE:
            # Fewer broken rows than the real table's are no loss.
            kept = share_kept(broken, max(breaks, broken), independent) if defined else 0.0
            words = (
                f"{low.name} is above {high.name} in {breaks:.1%} of its rows, {broken:.1%} of the real ones."
            )
            yield Finding("order", f"{low.name} <= {high.name}", kept, words)


def _chance_if_promising(one: _Tried, other: _Tried) -> _Shares | None:
    """The shares of independent columns; None where the first rows leave it open for no relation."""
    found = _Shares.of(one.head, other.head)
    ordered = min(found.above, found.below) <= EXCEPTIONS + SLACK
    if not ordered and found.equal < MIN_EQUAL_SHARE - SLACK:
        return None
    chance = _Shares.by_chance(one.values, other.values)
    if (
        found.equal < MIN_EQUAL_SHARE - SLACK
        and (chance.above if found.above <= found.below else chance.below) < BY_CHANCE
    ):
        return None  # the order follows from the columns' ranges
    return chance


def find_missing(real: dict[str, Truths], synthetic: dict[str, Truths]) -> list[Finding]:
    """Columns that are missing only where another is, in nearly all real rows.

    Args:
        real: Which rows lack a value, by column, each of shape [rows].
        synthetic: The same of the synthetic rows.
    """
    found: list[Finding] = []
    names = [name for name, gone in real.items() if gone.any()]
    if len(names) < 2:
        return found
    shares = np.array([real[name].mean() for name in names])
    alone, made = (_count_alone([side[name] for name in names]) for side in (real, synthetic))
    # What the first would be missing without the second if gaps were independent: small numbers would find
    # nothing worth telling.
    chance = shares[:, None] * (1.0 - shares[None, :])
    held = (alone <= EXCEPTIONS) & (chance >= BY_CHANCE)
    for i, j in np.argwhere(held).tolist():
        inner, outer = names[i], names[j]
        if not held[j, i]:
            kept = share_kept(alone[i, j], max(made[i, j], alone[i, j]), chance[i, j])
            words = (
                f"{inner} is missing where {outer} is not in {made[i, j]:.1%} of its rows, "
                f"{alone[i, j]:.1%} of the real ones."
            )
            found.append(Finding("missing", f"{inner} only with {outer}", kept, words))
        elif i < j:
            real_rows = float(alone[i, j] + alone[j, i])
            rows = float(made[i, j] + made[j, i])
            kept = share_kept(real_rows, max(rows, real_rows), float(chance[i, j] + chance[j, i]))
            words = (
                f"One of {inner} and {outer} is missing without the other in {rows:.1%} of its rows, "
                f"{real_rows:.1%} of the real ones."
            )
            found.append(Finding("missing", f"{inner} and {outer} together", kept, words))
    return found


def _count_alone(gone: Sequence[Truths]) -> Numbers:
    """The share of rows in which the one column is missing and the other is not: shape [columns, columns]."""
    marks = np.column_stack(gone).astype(np.float32)  # sums of at most 65,536 ones are exact
    both = (marks.T @ marks).astype(np.float64)
    return np.asarray((np.diag(both)[:, None] - both) / len(marks))


def find_ranks(columns: Sequence[OrderedColumn]) -> list[Finding]:
    """Rank correlations of the real rows that a person would see, see `MIN_CORRELATION`."""
    if len(columns) < 2:
        return []
    real, both = rank_correlations([column.real for column in columns])
    synthetic = np.nan_to_num(rank_correlations([column.synthetic for column in columns])[0])
    found = []
    for i, j in combinations(range(len(columns)), 2):
        # Two or three rows correlate by themselves.
        if both[i, j] >= 10 and abs(real[i, j]) >= MIN_CORRELATION:
            first, second = columns[i].name, columns[j].name
            words = (
                f"The rank correlation of {first} with {second} is {synthetic[i, j]:.2f}, "
                f"{real[i, j]:.2f} in the real table."
            )
            kept = share_kept(float(real[i, j]), float(synthetic[i, j]), 0.0)
            found.append(Finding("rank", f"{first} with {second}", kept, words))
    return found


MIN_UNEVEN = 0.1
"""Least total variation of hours or weekdays from even ones that a person would see."""


def find_calendar(columns: Sequence[OrderedColumn]) -> list[Finding]:
    """Hours of the day and days of the week that real moments and dates prefer, see `MIN_UNEVEN`."""
    dated = [column for column in columns if column.scale in ("date", "moment")]
    found = [_compare_ticks(one, *cycle) for one in dated for cycle in list_cycles(one.scale == "moment")]
    return [finding for finding in found if finding is not None]


def _compare_ticks(column: OrderedColumn, what: str, tick: int, ticks: int) -> Finding | None:
    """How far apart both tables are in one cycle; None where all its ticks are alike."""
    (real, rows), (synthetic, made) = (
        _share_ticks(side, tick, ticks) for side in (column.real, column.synthetic)
    )
    if not rows:
        return None
    # What a draw of so many rows is off by, in the mean: it is neither seen nor a loss.
    noise = [0.4 * float(np.sqrt(ticks * total)) for total in (1 / rows, 1 / rows + 1 / max(made, 1))]
    uneven = total_variation(real, np.full(ticks, 1 / ticks)) - noise[0]
    if uneven < MIN_UNEVEN:
        return None
    off = total_variation(real, synthetic) if made else 1.0
    words = f"{off:.1%} of its rows would have to move for {column.name} to have the real {what}."
    kept = share_kept(0.0, max(off - noise[1], 0.0), uneven)
    return Finding("calendar", f"{what} of {column.name}", kept, words)


def _share_ticks(numbers: Numbers, tick: int, ticks: int) -> tuple[Numbers, int]:
    """Shares of the numbers that are there by tick of the cycle, shape [ticks], and how many these are."""
    known = numbers[~np.isnan(numbers)]
    return count_ticks(known, tick, ticks) / max(known.size, 1), known.size


MIN_ROWS_A_VALUE = 10.0
"""Real rows a value of the column that decides in the mean; from fewer, anything would follow."""
MAX_CHANCE = 0.9
"""Largest share of rows in which independent columns would obey it; else it says little."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of labels.

    Args:
        name: Of the column.
        real: The codes of the real rows, -1 for missing, shape [rows].
        synthetic: The same of the synthetic rows.
    """

    name: str
    real: Codes
    synthetic: Codes


def find_dependencies(columns: list[Labels]) -> list[Finding]:
    """Columns whose value follows from another's in nearly all real rows, and how often in synthetic ones.

    Of two columns that follow from each other, as a label and its number, one direction is told.

    Args:
        columns: Those of labels, both tables' rows perhaps samples.
    """
    found: dict[tuple[str, str], Finding] = {}
    for base, column in permutations(columns, 2):
        if (column.name, base.name) in found:
            continue
        finding = _find_dependency(base, column)
        if finding is not None:
            found[base.name, column.name] = finding
    return list(found.values())


def _find_dependency(base: Labels, column: Labels) -> Finding | None:
    # A look at the first rows rules out most pairs before all rows are read.
    head = slice(0, ROWS_TRIED)
    _, share = _learn_function(base.real[head], column.real[head])
    if share < 1.0 - EXCEPTIONS - SLACK:
        return None
    function, share = _learn_function(base.real, column.real)
    both = (base.real >= 0) & (column.real >= 0)
    distinct = len(np.unique(base.real[both]))
    if share < 1.0 - EXCEPTIONS or both.sum() < MIN_ROWS_A_VALUE * max(distinct, 1):
        return None
    chance = _obey_by_chance(function, base.real[both], column.real[both])
    if chance > MAX_CHANCE:
        return None
    known = (base.synthetic >= 0) & (column.synthetic >= 0)
    known &= np.append(function, -1)[np.minimum(base.synthetic, len(function))] >= 0
    obeyed = function[base.synthetic[known]] == column.synthetic[known]
    made = float(obeyed.mean()) if len(obeyed) else 0.0
    words = f"{column.name} is as {base.name} says in {made:.1%} of its rows, {share:.1%} of the real ones."
    kept = share_kept(share, min(made, share), chance)
    return Finding("dependency", f"{column.name} follows from {base.name}", kept, words)


def _learn_function(base: Codes, column: Codes) -> tuple[Codes, float]:
    """The commonest code of a column by that of another, -1 for none, and the share of rows that have it.

    Rows without one of the two are left out; the share is 0 where none has both.
    """
    both = (base >= 0) & (column >= 0)
    function = np.full(int(base.max(initial=-1)) + 1, -1, dtype=np.int64)
    if not both.any():
        return function, 0.0
    size = int(column.max()) + 1
    cells, counts = np.unique(base[both] * size + column[both], return_counts=True)
    order = np.argsort(counts, kind="stable")  # the last that is written is the commonest
    function[cells[order] // size] = cells[order] % size
    return function, float((function[base[both]] == column[both]).mean())


def _obey_by_chance(function: Codes, base: Codes, column: Codes) -> float:
    """Share of rows that would obey a function if the columns were independent."""
    size = max(int(column.max()), int(function.max())) + 1
    wanted = np.bincount(function[base], minlength=size) / len(base)
    held = np.bincount(column, minlength=size) / len(column)
    return float(wanted @ held)


MIN_UNIQUE_SHARE = 0.5
"""Share of the real rows with a value that no other real row has, above which a column is a key: its values
must not come back, and only their pattern is looked at."""
MIN_CODE_SHARE = 0.9
"""Least share of real rows whose text looks like a code, for the pattern of a column to be looked at."""
MOST_TEXTS = 10_000
"""Most texts of a table whose patterns are read, the most frequent ones first."""
DECIMALS = 7
"""Numbers are told apart by whether they need 0, 1, ... or as many decimals as that less one, or more."""
CLOCK = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)
"""A day, an hour, a minute and a second in microseconds: the units that times are whole multiples of."""


def find_codes(task: Task) -> list[Finding]:
    """Of each column of listed values: which of them come back, and which are new."""
    found = []
    for column in task.schema.attributes:
        if not isinstance(column, Listed):
            continue
        real, synthetic = (
            _count_codes(rows, column)[: column.present] for rows in (task.real, task.synthetic)
        )
        if not real.sum() or _is_key(real):
            continue
        back = float(real[synthetic > 0].sum()) / float(real.sum())
        words = f"Values of {column.name} that {1 - back:.1%} of the real rows have do not come back."
        found.append(Finding("codes", column.name, back, words))
        new = np.where(real > 0, 0, synthetic)
        share = float(new.sum()) / max(float(synthetic.sum()), 1.0)
        most = f", most often “{column.labels[int(new.argmax())]}”" if share else ""
        words = f"{column.name} has values that no real row has in {share:.1%} of its rows{most}."
        found.append(Finding("new values", column.name, 1.0 - share, words))
    return found


def find_spellings(task: Task) -> list[Finding]:
    """Of each column: how its numbers and times are written, or the patterns of its codes."""
    found = []
    exact = task.real.exact and task.synthetic.exact
    for column in task.schema.attributes:
        if isinstance(column, Listed):
            unlike = _unlike_patterns(task, column)
            what = "in a pattern that no real row has"
        elif exact and isinstance(column, Binned) and column.name in task.numeric:
            unlike = _unlike_numbers(task, column)
            what = "to other digits than the real ones"
        else:
            continue
        if unlike is not None:
            words = f"{column.name} is written {what} in {unlike:.1%} of its rows."
            found.append(Finding("spelling", column.name, 1.0 - unlike, words))
    return found


def _count_codes(rows: Rows, column: Listed) -> Counts:
    return np.bincount(rows.encoded.column(column.name), minlength=column.size)


def _is_key(real: Counts) -> bool:
    return float((real == 1).sum()) > MIN_UNIQUE_SHARE * float(real.sum())


def _unlike_patterns(task: Task, column: Listed) -> float | None:
    """The share of synthetic rows whose code has a pattern that no real one has; None if codes are words."""
    values = column.values or ()
    real, synthetic = (_count_codes(rows, column)[: len(values)] for rows in (task.real, task.synthetic))
    if not real.sum() or not synthetic.sum() or not all(isinstance(value, str) for value in values):
        return None
    frequent = np.argsort(-real, kind="stable")[:MOST_TEXTS]
    shapes = {int(place): shape_of(str(values[place])) for place in frequent if real[place]}
    patterned = sum(int(real[place]) for place, shape in shapes.items() if shape)
    if patterned < MIN_CODE_SHARE * int(real[list(shapes)].sum()):
        return None
    known = set(shapes.values())
    new = [place for place in np.argsort(-synthetic, kind="stable")[:MOST_TEXTS] if not real[place]]
    unlike = sum(int(synthetic[place]) for place in new if shape_of(str(values[place])) not in known)
    return unlike / float(synthetic.sum())


def _unlike_numbers(task: Task, column: Binned) -> float | None:
    """The total variation between how numbers are written in the two tables; by value where not as text."""
    sides = [rows.spelt.get(column.name) for rows in (task.real, task.synthetic)]
    if sides[0] is None or sides[1] is None:
        if column.read == "date":
            return None  # dates that are no text are all written alike
        sides = [_find_fineness(rows.numbers[column.name], column) for rows in (task.real, task.synthetic)]
    first, second = sides
    assert first is not None  # noqa: S101 - replaced above
    assert second is not None  # noqa: S101
    if not first.sum() or not second.sum():
        return None
    return total_variation(first / first.sum(), second / second.sum())


def _find_fineness(numbers: Numbers, column: Binned) -> Counts:
    """Rows by the decimals their number needs, or by the coarsest unit of the clock: shape [DECIMALS]."""
    known = numbers[~np.isnan(numbers)]
    if isinstance(column, Temporal):
        fits = [np.mod(known, unit) == 0 for unit in CLOCK]
    else:
        digits = np.arange(DECIMALS - 1)
        fits = [np.isclose(np.round(known, digit), known, rtol=1e-12, atol=1e-12) for digit in digits]
    first = np.full(known.size, len(fits))
    for place in range(len(fits) - 1, -1, -1):
        first[fits[place]] = place
    return np.bincount(first, minlength=DECIMALS).astype(np.int64)


MOST_ROWS = 1 << 16
"""Rows of each table of which pairs of columns are compared: shares to .002, a standard error."""
MIN_KEPT_UNSAID = 0.9
"""A relation of which less is kept is told in words."""
MAX_SENTENCES = 3
"""Most sentences of a kind."""


def look_first(task: Task) -> list[Finding]:
    """All findings of a task, those of a kind together, in the order of `FINDING_KINDS`. **Not private**."""
    columns = _sample_columns(task) if task.real.exact and task.synthetic.exact else ()
    found = find_orders(columns)
    found += find_dependencies(_sample_labels(task))
    found += find_missing(*[_find_missing(task, rows) for rows in (True, False)])
    found += find_ranks(columns)
    found += find_times((*columns, *_read_named(task))) if columns else []
    found += find_calendar(columns)
    found += find_codes(task)
    found += find_spellings(task)
    return sorted(found, key=lambda finding: FINDING_KINDS.index(finding.kind))


@final
@dataclass(frozen=True, slots=True)
class FirstLook:
    """How much of what a person checks first is kept. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The mean over kinds of the mean share kept; each finding is a part, the worst are told in words."""
        found = look_first(task)
        known = task.real.exact and task.synthetic.exact
        note = "" if known else "numbers are known by their bins only, so pairs of them are left out"
        if not found:
            return self.facts.undefined_score("0 relations", note or "the real table shows no such relation")
        kinds = {kind: list(held) for kind, held in groupby(found, key=lambda finding: finding.kind)}
        means = [float(np.mean([finding.kept for finding in held])) for held in kinds.values()]
        scope = f"{len(found)} relations of {len(kinds)} kinds"
        parts = {f"{finding.kind}: {finding.name}": finding.kept for finding in found}
        return self.facts.score(
            float(np.mean(means)), scope, parts=parts, note=note, words=_choose_worst(list(kinds.values()))
        )


def _choose_worst(kinds: Sequence[list[Finding]]) -> tuple[str, ...]:
    """Sentences on what is lost: the worst of each kind first, then the second of each, and so on."""
    lines = []
    for held in kinds:
        held = sorted(held, key=lambda finding: finding.kept)[:MAX_SENTENCES]
        lines += [(place, finding) for place, finding in enumerate(held) if finding.kept < MIN_KEPT_UNSAID]
    lines.sort(key=lambda line: (line[0], line[1].kept))
    return tuple(finding.words for _, finding in lines)


def _choose_places(task: Task, rows: int) -> NDArray[np.int64]:
    """The rows that are looked at: the same for tables of one length."""
    if rows <= MOST_ROWS:
        return np.arange(rows)
    return np.sort(task.rng("first look").choice(rows, MOST_ROWS, replace=False))


def _sample_columns(task: Task) -> tuple[OrderedColumn, ...]:
    real, synthetic = _choose_places(task, task.real.size), _choose_places(task, task.synthetic.size)
    return tuple(
        OrderedColumn(column.name, column.scale, column.real[real], column.synthetic[synthetic])
        for column in read_ordered(task)
    )


def _sample_labels(task: Task) -> list[Labels]:
    """The columns of listed values, by the codes of the rows looked at, -1 for missing values."""
    real, synthetic = _choose_places(task, task.real.size), _choose_places(task, task.synthetic.size)
    found = []
    for column in task.schema.attributes:
        if isinstance(column, Listed):
            sides = [task.real.encoded.column(column.name)[real].astype(np.int64)]
            sides.append(task.synthetic.encoded.column(column.name)[synthetic].astype(np.int64))
            for codes in sides:
                codes[codes == (-1 if column.missing_code is None else column.missing_code)] = -1
            found.append(Labels(column.name, *sides))
    return found


def _read_named(task: Task) -> Iterator[OrderedColumn]:
    """Columns of texts that name a part of a date, as numbers; their scale is the part.

    What a text of the synthetic rows alone stands for is NO_PART where it is no name.
    """
    for one in _sample_labels(task):
        column = task.schema[one.name]
        values = column.values or () if isinstance(column, Listed) else ()
        named = read_names([values[code] for code in np.unique(one.real) if 0 <= code < len(values)])
        if named is not None:
            part, numbers = named
            told = [numbers.get(str(value), NO_PART) for value in values]
            # Codes of other values are no name; missing ones are -1, and so the last.
            told += [NO_PART] * (column.size - len(values))
            by_code = np.array([*told, np.nan])
            yield OrderedColumn(one.name, part, by_code[one.real], by_code[one.synthetic])


def _find_missing(task: Task, real: bool) -> dict[str, NDArray[np.bool_]]:
    """Which of the rows looked at lack a value, by column that may lack one."""
    rows = task.real if real else task.synthetic
    places = _choose_places(task, rows.size)
    return {
        column.name: rows.encoded.column(column.name)[places] == column.missing_code
        for column in task.schema.attributes
        if column.missing_code is not None
    }
