"""Numbers inside bins that obey the rules about them, and numbers that are known beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.columns import Binned, Column, Whole
from margrave.schema.draws import real_numbers, whole_numbers
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.rules_numbers import ROUNDING, Floats, NumberRules, Truths
from margrave.schema.schema import Schema

__all__ = ["Storage", "agreed_numbers"]

ROUNDS = 4
"""How often rows are drawn bin by bin before their numbers are drawn together."""

DECIMAL = re.compile(r"decimal\d*\((\d+), (-?\d+)\)", re.IGNORECASE)
CLOCK = re.compile(r"(?:timestamp|datetime|datetime64|duration|timedelta64|time32|time64)[\[(](s|ms)\b", re.I)
WHOLE = re.compile(r"(?:arrow\[)?u?int\d+\]?", re.IGNORECASE)
SINGLE = ("float", "float32", "arrow[float]")
SINGLE_ROUNDING = 2.0**-21
"""What sums may be off by where a number has single precision, over the largest bound."""
TICKS = {"s": 1e6, "ms": 1e3}


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
        if found := DECIMAL.search(dtype):
            return cls(10.0 ** -int(found[2]), False)
        if found := CLOCK.search(dtype):
            return cls(TICKS[found[1].lower()], False)
        whole = isinstance(column, Whole) or WHOLE.fullmatch(dtype) is not None
        return cls(float(whole), dtype.lower() in SINGLE)

    def held(self, values: Floats) -> Floats:
        """The nearest numbers it can hold."""
        if self.single:
            return values.astype(np.float32).astype(np.float64)
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
        found |= together.drawn(rng)
    for name, numbers in known.items():
        column = schema[name]
        if name not in found and isinstance(column, Binned):
            values = _in_bins(encoded.column(name), column, rng)
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

    def drawn(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        values = np.zeros_like(self.low)
        rows = np.arange(values.shape[1])
        for _ in range(ROUNDS):
            if len(rows):
                values[:, rows] = self._proposed(rows, rng)
                ends = self.low[:, rows], self.high[:, rows]
                rows = rows[self.joint.broken(values[:, rows], *ends, self.rounding)]
        if len(rows):
            grains = [storage.grain for storage in self.storage]
            solved, _ = self.joint.solved(self.low[:, rows], self.high[:, rows], grains, rng)
            values[:, rows] = self._settled(solved, rows)
            live = ~np.isnan(self.low[:, rows])
            if self.joint.disobeyed(values[:, rows], live, self.rounding).any():
                remedy = "Sample without the given values, or with others."
                raise SchemaError(invalid("rules", "such that numbers in these bins obey them", remedy))
        found: dict[str, NDArray[Any]] = {}
        for i, (name, column) in enumerate(self.columns.items()):
            if isinstance(column, Binned):
                found[name] = values[i].astype(np.int64) if isinstance(column, Whole) else values[i]
        return found

    def _proposed(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """Numbers drawn bin by bin, totals added up, [numbers, rows]."""
        values = np.empty((len(self.columns), len(rows)))
        for i, (name, column) in enumerate(self.columns.items()):
            if isinstance(column, Binned):
                values[i] = self.storage[i].held(_in_bins(self.codes[name][rows], column, rng))
            else:
                values[i] = np.nan_to_num(self.low[i, rows])
        return self._added(self._kept(values, rows), rows)

    def _kept(self, values: Floats, rows: NDArray[np.int64]) -> Floats:
        """With the numbers that are known."""
        for i, name in enumerate(self.columns):
            if name in self.known:
                numbers = self.known[name][rows]
                values[i] = np.where(np.isnan(numbers), values[i], numbers)
        return values

    def _added(self, values: Floats, rows: NDArray[np.int64]) -> Floats:
        """With every total that is not known made the sum of its parts, as its storage holds it."""
        place = {name: i for i, name in enumerate(self.columns)}
        live = ~np.isnan(self.low[:, rows])
        for rule in self.joint.sums:
            parts, total = [place[name] for name in rule.parts], place[rule.total]
            told = live[[total, *parts]].all(axis=0) & self._free(rule.total, rows)
            added = np.zeros(len(rows))
            for part in parts:
                added = added + values[part]
            values[total] = np.where(told, self.storage[total].held(added), values[total])
        return values

    def _free(self, name: str, rows: NDArray[np.int64]) -> Truths:
        listed = not isinstance(self.columns[name], Binned)
        numbers = self.known.get(name)
        return np.isnan(numbers[rows]) if numbers is not None else np.full(len(rows), not listed)

    def _settled(self, values: Floats, rows: NDArray[np.int64]) -> Floats:
        """What rounding left undone: storage precision, totals, and orders that miss by the last digit."""
        held = np.stack([storage.held(own) for storage, own in zip(self.storage, values, strict=True)])
        return self.joint.in_order(self._added(self._kept(held, rows), rows))


def _in_bins(codes: Codes, column: Binned, rng: np.random.Generator) -> Any:
    bins = np.where(codes < column.present, codes, 0).astype(np.int64)
    return whole_numbers(bins, column, rng) if isinstance(column, Whole) else real_numbers(bins, column, rng)
