"""Numbers inside bins that obey the rules about them, and numbers that are known beforehand.

The numbers of relative columns are those of the base, plus a difference or times a quotient that is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.columns import Binned, Column, Integer, Temporal, Time, Whole
from margrave.schema.columns.relative import LIMIT, Relative, in_turn
from margrave.schema.constraints.elimination import ROUNDING
from margrave.schema.constraints.numbers import Floats, NumberRules, Truths
from margrave.schema.cycles import Cycle
from margrave.schema.draws import real_numbers, unique_numbers, whole_numbers
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY
from margrave.schema.storage.forms import read_narrow

ROUNDS = 4
"""How often rows are drawn bin by bin before their numbers are drawn together."""

DECIMAL = re.compile(r"decimal\d*\((\d+), (-?\d+)\)", re.IGNORECASE)
CLOCK = re.compile(r"(?:timestamp|datetime|datetime64|duration|timedelta64|time32|time64)[\[(](s|ms)\b", re.I)
WHOLE_DTYPE = re.compile(r"(?:arrow\[)?u?int\d+\]?", re.IGNORECASE)
WIDE_QUOTIENT = 4.0
"""How many times its lower edge the upper edge of a quotient's last cell is from which its rows lie in it as
the column itself is distributed, and not evenly. Not measured."""
SINGLE_PRECISION_DTYPES = ("float", "float32", "arrow[float]")
SINGLE_ROUNDING = 2.0**-21
"""What sums may be off by where a number has single precision, over the largest bound."""
TICKS = {"s": 1e6, "ms": 1e3}
"""Steps in microseconds of storage in seconds and in milliseconds; finer storage has none that matter."""


@dataclass(frozen=True, slots=True)
class Storage:
    """What numbers a column's storage can hold.

    Args:
        grain: All are whole multiples of it; 0 for numbers on a line.
        single: Whether it has single precision.
    """

    grain: float
    single: bool

    @classmethod
    def of(cls, column: Column, dtype: str) -> Storage:
        """The storage of a column, from its type's name."""
        if isinstance(column, Binned) and column.read == "time" and column.format:
            dtype = ""  # numbers that stand for times of day are not themselves stored
        if found := DECIMAL.search(dtype):
            return cls(10.0 ** -int(found[2]), False)
        if found := CLOCK.search(dtype):
            return cls(TICKS[found[1].lower()], False)
        whole = isinstance(column, Whole) or WHOLE_DTYPE.fullmatch(dtype) is not None
        return cls(float(whole), dtype.lower() in SINGLE_PRECISION_DTYPES)

    def round_values(self, values: Floats) -> Floats:
        """The nearest numbers it can hold."""
        if self.single:
            return read_narrow(values.astype(np.float32))
        if self.grain in (0.0, 1.0):
            return np.rint(values) if self.grain else values
        over = 1.0 / self.grain
        return (
            np.rint(values * over) / over if self.grain < 1.0 else np.rint(values / self.grain) * self.grain
        )


def agreed_numbers(
    encoded: Encoded,
    schema: Schema,
    dtypes: Mapping[str, str],
    rng: np.random.Generator,
    known: Mapping[str, Floats],
) -> dict[str, NDArray[Any]]:
    """The numbers of all columns that rules about numbers speak of, or some of whose numbers are known.

    Numbers are drawn bin by bin as without rules, totals are added up, and rows that break a rule are drawn
    again, which leaves the distribution that was conditioned on the rules. Rows that still break one after
    ROUNDS are drawn by `NumberRules.solved`: one number after another, evenly in what the rules leave open.
    Where that finds none, as may be of whole numbers under sums that share columns, a row takes the numbers
    of another that has the same listed values and the same numbers missing; where there is no such row,
    numbers from the whole ranges of its columns. So rules hold in all rows, and few numbers leave their bins.

    Args:
        encoded: The rows.
        schema: Their schema.
        dtypes: Storage types by name, as in a Frame.
        rng: Source of randomness.
        known: Numbers by column, NaN where they are to be drawn, each of shape [rows].

    Returns:
        By name, of shape [rows]; anything where the code means missing.

    Raises:
        SchemaError: Some codes leave no numbers that obey.
    """
    rules = schema.code_rules
    found: dict[str, NDArray[Any]] = {}
    for joint in [] if rules is None else rules.numbers:
        together = _Together(joint, encoded, schema, dtypes, known)
        found |= together.draw_numbers(rng)
    # Columns that no rule speaks of, of which some numbers are given: the others are drawn as usual.
    for name, numbers in known.items():
        column = schema[name]
        if name not in found and isinstance(column, Binned):
            values = in_bins(encoded.column(name), column, rng)
            there = ~np.isnan(numbers)
            values[there] = numbers[there]
            found[name] = values
    return found


class _Together:
    """The numbers of one set of rules that hang together."""

    def __init__(
        self,
        joint: NumberRules,
        encoded: Encoded,
        schema: Schema,
        dtypes: Mapping[str, str],
        known: Mapping[str, Floats],
    ) -> None:
        self.joint = joint
        self.codes: dict[str, Codes] = {name: encoded.column(name) for name in joint.clique}
        self.columns = {name: schema[name] for name in joint.numbers}
        self.known = {name: numbers for name, numbers in known.items() if name in joint.numbers}
        self.low, self.high = joint.bounds(self.codes, encoded.rows, self.known)
        self.storage = [Storage.of(self.columns[name], dtypes.get(name, "")) for name in joint.numbers]
        self.rounding = SINGLE_ROUNDING if any(storage.single for storage in self.storage) else ROUNDING

    def draw_numbers(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Numbers by column, [rows] each, of which those of every row obey the rules; see `agreed_numbers`.

        Raises:
            SchemaError: Some codes leave no numbers that obey.
        """
        values = np.zeros_like(self.low)
        rows = np.arange(values.shape[1])
        for _ in range(ROUNDS):
            # 1. Bin by bin, as without rules; again where that breaks one: the distribution given the rules.
            if len(rows):
                values[:, rows] = self._propose_numbers(rows, rng)
                ends = self.low[:, rows], self.high[:, rows]
                rows = rows[self.joint.broken(values[:, rows], *ends, self.rounding)]
        # 2. One number after another, evenly in the interval that the others leave it.
        if len(rows):
            rows = self._solve(values, rows, self.low[:, rows], self.high[:, rows], rng)
        # 3. The numbers of a row that is alike in all that is listed or known.
        if len(rows):
            rows = self._borrow(values, rows, rng)
        # 4. Numbers that may leave their bins, though not the ranges of their columns.
        if len(rows):
            codes = {name: own[rows] for name, own in self.codes.items()}
            known = {name: numbers[rows] for name, numbers in self.known.items()}
            ends = self.joint.outer_bounds(codes, ~np.isnan(self.low[:, rows]), known)
            rows = self._solve(values, rows, *ends, rng)
        if len(rows):
            remedy = "Sample without the given values, or with others."
            raise SchemaError(invalid("rules", "such that numbers in these bins obey them", remedy))
        found: dict[str, NDArray[Any]] = {}
        for i, (name, column) in enumerate(self.columns.items()):
            if isinstance(column, Binned):
                found[name] = values[i].astype(np.int64) if isinstance(column, Whole) else values[i]
        return found

    def _solve(
        self, values: Floats, rows: NDArray[np.int64], low: Floats, high: Floats, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw the numbers of some rows within bounds, in place; return the rows that still break a rule."""
        grains = [storage.grain for storage in self.storage]
        values[:, rows] = self._settle_rounding(self.joint.solve(low, high, grains, rng)[0], rows)
        return rows[self.joint.find_disobeyed(values[:, rows], ~np.isnan(low), self.rounding)]

    def _borrow(self, values: Floats, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Give rows the numbers of others alike, in place; return those that no other row is like."""
        listed = [self.codes[name] for name in self.joint.clique if name not in self.joint.binned]
        known = [np.nan_to_num(numbers, nan=np.inf) for numbers in self.known.values()]
        # Rows are alike if the same numbers are to be drawn, and if listed codes and known numbers agree:
        # whatever obeys the rules in one then obeys them in the other.
        keys = np.stack([*np.isnan(self.low), *listed, *known]).astype(np.float64)
        kinds = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        good = np.setdiff1d(np.arange(len(kinds)), rows)
        left = []
        for kind in np.unique(kinds[rows]):
            mine, others = rows[kinds[rows] == kind], good[kinds[good] == kind]
            if len(others):
                values[:, mine] = values[:, rng.choice(others, len(mine))]
            else:
                left.append(mine)
        return np.sort(np.concatenate(left)) if left else rows[:0]

    def _propose_numbers(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """Numbers drawn bin by bin, totals added up, [numbers, rows]."""
        values = np.empty((len(self.columns), len(rows)))
        for i, (name, column) in enumerate(self.columns.items()):
            if isinstance(column, Binned):
                values[i] = self.storage[i].round_values(in_bins(self.codes[name][rows], column, rng))
            else:
                values[i] = np.nan_to_num(self.low[i, rows])
        return self._add_totals(self._keep_known(values, rows), rows)

    def _keep_known(self, values: Floats, rows: NDArray[np.int64]) -> Floats:
        """With the numbers that are known."""
        for i, name in enumerate(self.columns):
            if name in self.known:
                numbers = self.known[name][rows]
                values[i] = np.where(np.isnan(numbers), values[i], numbers)
        return values

    def _add_totals(self, values: Floats, rows: NDArray[np.int64]) -> Floats:
        """With every total that is not known made the sum of its parts, as its storage holds it."""
        place = {name: i for i, name in enumerate(self.columns)}
        live = ~np.isnan(self.low[:, rows])
        for rule in self.joint.sums:
            parts, total = [place[name] for name in rule.parts], place[rule.total]
            told = live[[total, *parts]].all(axis=0) & self._free(rule.total, rows)
            added = np.zeros(len(rows))
            for part in parts:
                added = added + values[part]
            values[total] = np.where(told, self.storage[total].round_values(added), values[total])
        return values

    def _free(self, name: str, rows: NDArray[np.int64]) -> Truths:
        listed = not isinstance(self.columns[name], Binned)
        numbers = self.known.get(name)
        return np.isnan(numbers[rows]) if numbers is not None else np.full(len(rows), not listed)

    def _settle_rounding(self, values: Floats, rows: NDArray[np.int64]) -> Floats:
        """What rounding left undone: storage precision, totals, and orders that miss by the last digit."""
        held = np.stack(
            [storage.round_values(own) for storage, own in zip(self.storage, values, strict=True)]
        )
        return self.joint.in_order(self._add_totals(self._keep_known(held, rows), rows))


@dataclass(frozen=True, slots=True)
class Drawn:
    """The numbers of a column.

    Args:
        numbers: Shape [rows], int64 or float64; anything where they are absent.
        absent: Which rows have none, shape [rows].
    """

    numbers: NDArray[Any]
    absent: Truths


def relative_numbers(
    encoded: Encoded,
    schema: Schema,
    dtypes: Mapping[str, str],
    rng: np.random.Generator,
    settled: Mapping[str, NDArray[Any]],
    known: Mapping[str, NDArray[np.float64]],
) -> dict[str, Drawn]:
    """The numbers of all relative columns and of the columns they are relative to, by name.

    Args:
        encoded: The rows.
        schema: Their schema.
        dtypes: Storage types by name, as in a Frame: numbers are held as the storage will hold them, so that
            orders and equalities outlast it.
        rng: Source of randomness.
        settled: Numbers of other columns that were drawn before, such as those that rules speak of.
        known: Numbers that are given, by name, NaN where they are to be drawn.
    """
    found: dict[str, Drawn] = {}
    # A column comes after those that it is relative to, so their numbers are there.
    for column in in_turn(schema.columns):
        codes = encoded.column(column.name)
        dtype = dtypes.get(column.name, "")
        if isinstance(column, Relative):
            drawn = _relative(column, codes, _join_bases(column, found), dtype, rng)
        else:
            numbers = settled[column.name] if column.name in settled else in_bins(codes, column, rng)
            drawn = Drawn(_store_numbers(numbers, column, dtype), codes >= column.present)
        if column.name in known:
            given = known[column.name]
            there = ~np.isnan(given)
            kind = drawn.numbers.dtype
            drawn = Drawn(np.where(there, given, drawn.numbers).astype(kind), drawn.absent & ~there)
        found[column.name] = drawn
    return found


def _join_bases(column: Relative, found: Mapping[str, Drawn]) -> Drawn:
    """The base of a column: another column's numbers, or those of several joined, absent where one is; or a
    line of these."""
    terms = [found[name] for name in column.bases]
    if not column.comparison.joint:
        return terms[0]
    absent: Truths = np.logical_or.reduce([term.absent for term in terms])
    numbers = column.comparison.join_terms([term.numbers for term in terms])
    divided = bool(column.powers) and column.joint == "product"
    if divided:  # nothing is divided by 0
        absent = absent | np.isnan(numbers)
        numbers = np.where(absent, 0.0, numbers)
    if unit := column.comparison.unit:
        return Drawn(_round_product(numbers, unit), absent)
    # .1 + .2 is .3: what adding floats leaves behind the ninth decimal is no part of the sum.
    rounded = numbers.dtype.kind == "i" or divided
    return Drawn(numbers if rounded else np.round(numbers, 9), absent)


def _round_product(numbers: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """The nearest multiples of a unit, halves up: 2.675 is below its half as a float, and still 2.68."""
    parts = np.abs(numbers) / unit if unit >= 1 else np.abs(numbers) * round(1 / unit)
    whole = np.floor(parts * (1.0 + 2.0**-50) + 0.5)
    return np.asarray(np.sign(numbers) * (whole * unit if unit >= 1 else whole / round(1 / unit)))


def in_bins(codes: Codes, column: Binned, rng: np.random.Generator) -> NDArray[Any]:
    """A number in each row's bin, that of the first where the code is no bin: shape [rows]."""
    bins = np.where(codes < column.present, codes, 0).astype(np.int64)
    if isinstance(column, Integer) and column.unique:
        return unique_numbers(bins, column, rng, np.flatnonzero(codes < column.present))
    if isinstance(column, Whole):
        return whole_numbers(bins, column, rng)
    return np.asarray(real_numbers(bins, column, rng))


def _relative(column: Relative, codes: Codes, base: Drawn, dtype: str, rng: np.random.Generator) -> Drawn:
    """The numbers of one column, given those of its base."""
    coded = np.where(codes < column.part.present, codes, 0).astype(np.int64)
    overall = _overall(column.part, len(codes), rng)  # for rows that must have a value but have no bin
    absent = codes == column.missing_code if column.missing else np.zeros(len(codes), dtype=np.bool_)
    if column.follows:
        coded = np.where(absent & ~base.absent, overall, coded)
        absent = base.absent
    part = _draw_parts(coded, column, base.numbers, rng)
    numbers = _combine_parts(column, part, base.numbers)
    if not isinstance(column.own, Time):  # times of day have no end
        numbers = _draw_beyond(column, numbers, part, base.numbers, rng)
    if isinstance(column.own, Time) and not (column.keeps_order or column.stays_below):
        numbers = numbers % DAY  # some are on the other side of midnight, as the differences say
    numbers = _round_to_grid(column, numbers, part, rng)
    numbers = _bound_numbers(column, _store_numbers(numbers, column.own, dtype), base.numbers)
    by_itself = base.absent if column.alone_code is None else base.absent | (codes == column.alone_code)
    if by_itself.any():
        own = draw_overall(column.own, len(codes), rng)
        numbers = np.where(by_itself, _store_numbers(own, column.own, dtype), numbers)
    return Drawn(numbers, absent)


def _draw_parts(
    bins: NDArray[np.int64], column: Relative, base: NDArray[Any], rng: np.random.Generator
) -> NDArray[Any]:
    """A difference or quotient in each row's bin, shape [rows]; one that leads to a moment or a date by the
    hours and weekdays of these."""
    cycle = Cycle.of(column.own)
    if cycle is None or not isinstance(column.part, Whole):
        return in_bins(bins.astype(np.uint32), column.part, rng)
    start = np.clip(column.comparison.base_in_unit(base), -LIMIT, LIMIT).astype(np.int64)
    return whole_numbers(bins, column.part, rng, cycle, start)


def draw_overall(column: Binned, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    """Numbers drawn from a column's bins by their weights, shape [rows]."""
    return in_bins(_overall(column, rows, rng).astype(np.uint32), column, rng)


def _overall(part: Binned, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Bins drawn by the weights of a column's cells, evenly where it has none: shape [rows]."""
    if part.fine is None or part.weights is None or not sum(part.weights) > 0:
        return rng.integers(0, part.present, rows)
    owner = np.searchsorted(part.edge_array, np.asarray(part.fine[:-1]), side="right") - 1
    mass = np.bincount(owner, weights=np.asarray(part.weights), minlength=part.present)
    return rng.choice(part.present, rows, p=mass / mass.sum())


def _combine_parts(column: Relative, part: NDArray[Any], base: NDArray[Any]) -> NDArray[Any]:
    """The base in the column's unit, with the difference added or times the quotient."""
    base = column.comparison.base_in_unit(base)
    numbers: NDArray[Any] = base * part if column.how == "quotient" else base + part
    if isinstance(column.own, Whole) and numbers.dtype.kind == "f":
        numbers = np.clip(np.rint(numbers), -(2.0**62), 2.0**62).astype(np.int64)
    return numbers


def _draw_beyond(
    column: Relative,
    numbers: NDArray[Any],
    part: NDArray[Any],
    base: NDArray[Any],
    rng: np.random.Generator,
) -> NDArray[Any]:
    """The numbers, but those that a difference or quotient leads out of the column's range are drawn from the
    column's own cells, on the same side of the base.

    An end cell has all rows beyond it as well, and that of a quotient those whose base is 0. It says no more
    than a side; taken as it stands, most of its rows would be the end of the column's range.
    """
    cells = np.asarray(column.part.edges if column.part.fine is None else column.part.fine, dtype=np.float64)
    first, last = float(cells[1]), float(cells[-2])
    base = column.comparison.base_in_unit(base).astype(np.float64)
    edges, running = running_weights(column.own)
    above, under = numbers > column.own.upper, numbers < column.own.lower
    if column.how == "quotient":
        wide = (part >= last) & ((cells[-1] >= WIDE_QUOTIENT * last) | (base == 0.0))
        above = (above & (part >= 1.0) | wide) & (last > 0.0) & (base >= 0.0)
        under, low, high = np.zeros_like(above), base * np.where(part >= last, last, 1.0), base
    else:
        above, under = above & (part > 0), under & (part < 0)
        low = base + np.where(part >= last, max(last, 0.0), 0.0)
        high = base + np.where(part < first, min(first, 0.0), 0.0)
    # Where not even the base is in the column's range, anything of the range will do.
    low = np.where(low < edges[-1], low, base)
    high = np.where(high > edges[0], high, base)
    low = np.where(above & (low < edges[-1]), low, edges[0])
    high = np.where(under & (high > edges[0]), high, edges[-1])
    rows = np.flatnonzero(above | under)
    # Of whole numbers the next one; of others just above, so that none is 0 where the base is.
    whole = isinstance(column.own, Whole)
    low = np.where(above, np.floor(low) + 1.0 if whole else np.nextafter(low, np.inf), low)
    start, end = np.interp(low[rows], edges, running), np.interp(high[rows], edges, running)
    drawn = np.interp(start + rng.random(len(rows)) * (end - start), running, edges)
    found: NDArray[Any] = numbers.copy()
    found[rows] = np.floor(drawn) if whole else drawn
    return found


def _round_to_grid(
    column: Relative, numbers: NDArray[Any], part: NDArray[Any], rng: np.random.Generator
) -> NDArray[Any]:
    """The numbers with each row's share put on the column's own grids; equal ones stay equal."""
    if not column.own.grids:
        return numbers
    ends = np.cumsum([share for _, share in column.own.grids])
    chosen = np.searchsorted(ends, rng.random(len(numbers)) * max(1.0, float(ends[-1])), side="right")
    equal: Truths = part == (1.0 if column.how == "quotient" else 0)
    found: NDArray[Any] = numbers.copy()
    for place, (step, _) in enumerate(column.own.grids):
        rows = (chosen == place) & ~equal
        found[rows] = _on_grid(numbers[rows], step, isinstance(column.own, Temporal))
    return found


def _on_grid(numbers: NDArray[Any], step: float, down: bool) -> NDArray[Any]:
    """The nearest multiples of a step, or those below, so that a time stays within its day."""
    if numbers.dtype.kind == "i":
        width = int(step)
        found: NDArray[Any] = (numbers + (0 if down else width // 2)) // width * width
        return found
    if step >= 1:
        return np.asarray(np.rint(numbers / step) * step, dtype=np.float64)
    parts = float(round(1 / step))
    return np.asarray(np.rint(numbers * parts) / parts, dtype=np.float64)


def _bound_numbers(column: Relative, numbers: NDArray[Any], base: NDArray[Any]) -> NDArray[Any]:
    """The numbers within the column's range or as far outside as the base, on the side of the base they are.

    A declared range is kept whatever the base is. Rounding must not carry a number across its base where no
    bin of the difference does.
    """
    base = column.comparison.base_in_unit(base)
    whole = isinstance(column.own, Whole)
    if whole and base.dtype.kind == "f":
        base = np.floor(base).astype(np.int64)
    ends = np.asarray([column.own.lower, column.own.upper], dtype=np.int64 if whole else np.float64)
    found = np.clip(numbers, np.minimum(ends[0], base), np.maximum(ends[-1], base))
    if column.keeps_order:
        found = np.maximum(found, base)
    if column.stays_below:
        below = (base >= 0) | (column.how == "difference")
        found = np.where(below, np.minimum(found, base), found)
    return np.asarray(np.clip(found, ends[0], ends[-1]) if column.within else found)


def _store_numbers(numbers: NDArray[Any], column: Binned, dtype: str) -> NDArray[Any]:
    """The numbers as the column's storage holds them."""
    if isinstance(column, Whole):
        return numbers
    return Storage.of(column, dtype).round_values(numbers)


def running_weights(column: Binned) -> tuple[Floats, Floats]:
    """Edges of a column's cells, its bins where it has none, and the weight up to each, which grows."""
    edges, weights = column.edge_array, np.ones(column.present)
    if column.fine is not None and column.weights is not None and sum(column.weights) > 0:
        edges, weights = np.asarray(column.fine, dtype=np.float64), np.asarray(column.weights)
    return edges, np.append(0.0, np.cumsum(np.maximum(weights, 1e-9 * weights.max())))
