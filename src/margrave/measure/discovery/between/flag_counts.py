"""Numbers that are how many flags say yes, found under noise: symptoms, of columns fever, cough and so on.

Released values and bins say which columns are flags, how often each says yes, and what a number is in the
mean. Flags that stand beside each other and say yes as often together may be what the number counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.calendar import (
    MIN_SHARE,
    MOST_NOISE,
    choose_rules,
    count_agreements,
    is_whole,
)
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned, Boolean, Categorical, Column, Integer
from margrave.schema.constraints.numbers import is_of_labels, list_written
from margrave.schema.constraints.rules import FlagCount, find_ruled
from margrave.schema.date_names import read_flags
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Source

Array = NDArray[np.float64]

SHARE = Fraction(1, 40)
"""Most of discovery's rho for both looks, where there are flags and numbers. Not measured."""
FIRST = Fraction(1, 2)
"""Share of that for the first look; the second one is at few rules that it leaves open. Not measured."""
MOST_ASKED, MOST_OF_ONE = 40, 20
"""Most rules that are counted together, and of one number."""
FINE = 100.0
"""Rows over the noise of a count, as much as is bought at most: of two rules that differ by a flag as rare as
that the better one is not seen. Not measured."""
MEAN, Z = 0.05, 3.0
"""Greatest distance of a number's mean from that of a count: a share of it, and standard deviations of its
noise. Not measured."""
BESIDE = 0.05
"""Most of the rows in which a flag of numbers is neither 0 nor 1, and in which a count is more than it has
flags: released weights have noise. Not measured."""
MOST_FLAGS = 40
"""Most flags that one number counts."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Flag:
    """A column that says yes or no, and in which share of the rows it says yes.

    Args:
        name: Of the column.
        place: Among the columns of the table.
        counted: Its yes, as text.
        share: Noisy; a half where it is not known.
        error: Standard deviation of the noise of the share.
        unknown: What the share may be off by besides.
    """

    name: str
    place: int
    counted: str
    share: float = 0.5
    error: float = 0.0
    unknown: float = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class _Number:
    """A number that may count flags: its least values, their shares, and the noise of each."""

    name: str
    shares: Array
    error: float


def may_count(columns: Collection[Column], ruled: Collection[str]) -> bool:
    """Whether a number may count flags, by the kinds of columns and declared values alone.

    Args:
        columns: All of the table, their kinds known.
        ruled: Names of those that rules are about.
    """
    free = [column for column in columns if column.name not in ruled]
    numbers = sum(isinstance(column, Integer) for column in free)
    listed = sum(isinstance(column, Boolean) or _may_flag(column) for column in free)
    return numbers >= 1 and numbers - 1 + listed >= 2


def _may_flag(column: Column) -> bool:
    return isinstance(column, Categorical) and (column.values is None or 1 <= len(column.values) <= 2)


class FlagCounts:
    """Finds numbers that are how many flags say yes.

    **Privacy.** Unit and adjacency: the ledger's. *flags* of m rules, at most twice: for each rule a table of
    three cells, rows in which the number is how many of some columns have a public value, rows in which it is
    not, and rows without the number (`Source.agreements`). A row is in exactly one cell of each table, by its
    own values. Between neighbours each table moves by at most S in L2, where S^2 =
    `Neighbours.marginal_l2_squared`; the m tables together are one vector that moves by at most sqrt(m S^2),
    and that is what the one event of each look declares. Which rules are asked for follows from released
    values, bins and one-way marginals, those of the second look from the noisy counts of the first; what is
    made of them from noisy counts.

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

    def run(self, schema: Schema, found: Sequence[NoisyMarginal], rho: Fraction) -> Schema:
        """The schema with a rule for each number that counts flags.

        Args:
            schema: All known.
            found: One-way marginals released so far.
            rho: What may be spent; what is not needed is left, and nothing is where no rule may hold.
        """
        rules, commonest = self.find_candidates(schema, found)
        most = min(self._gaussian.count_tables(rho, self._rows / MOST_NOISE), MOST_ASKED)
        rules = rules[:most]
        if not rules:
            return schema
        noisy, sigma, spent = self._ask(rules, rho * FIRST, MOST_NOISE)
        rules = [rule for rule, own in zip(rules, noisy, strict=True) if _is_open(own, sigma)]
        if not rules:
            return schema
        noisy, sigma, _ = self._ask(rules, rho - spent, FINE)
        places = {name: place for place, name in enumerate(schema.names)}
        flags = {flag.place for flag in self._list_flags(schema, found)}

        def place(rule: FlagCount) -> tuple[float, ...]:
            held = [places[name] for name in rule.flags]
            return _count_cuts(held, flags), -len(held)

        chosen = choose_rules(rules, noisy, sigma, place, commonest)
        return Schema(schema.columns, (*schema.rules, *chosen))

    def _ask(self, rules: Sequence[FlagCount], rho: Fraction, fine: float) -> tuple[Array, float, Fraction]:
        """Noisy counts of rows that obey each rule, that do not, and that lack the number: shape [rules, 3];
        their sigma, of no less than the rows over `fine`, and what they cost."""
        cost = self._gaussian.joint(len(rules)).find_cost(rho, self._rows / fine)
        what = f"flags counted by {len(rules)} rules"
        return *count_agreements(self._source, self._gaussian, what, rules, cost, {}), cost

    def find_candidates(
        self, schema: Schema, found: Sequence[NoisyMarginal]
    ) -> tuple[list[FlagCount], dict[str, float]]:
        """The rules that released values leave open, those of the nearest means first, of all numbers in
        turn; and the share of each number's commonest value."""
        flags = self._list_flags(schema, found)
        known = {flag.name for flag in flags}
        numbers = [
            number
            for column in self._free(schema)
            if column.name in self._source.comparable and column.name not in known
            if (number := _read_number(column)) is not None
        ]
        ranked = [_rank_runs(number, flags) for number in numbers]
        rules = [own[at] for at in range(MOST_OF_ONE) for own in ranked if at < len(own)]
        return rules, {number.name: float(number.shares.max()) for number in numbers}

    def _list_flags(self, schema: Schema, found: Sequence[NoisyMarginal]) -> list[_Flag]:
        marginals = {one.clique[0]: one for one in found if len(one.clique) == 1}
        free, listed = {column.name for column in self._free(schema)}, list[_Flag]()
        for place, column in enumerate(schema.columns):
            flag = None
            if column.name in free and column.name in self._source.comparable:
                flag = _read_number_flag(column, place)
            if column.name in free and flag is None:
                flag = _read_listed_flag(column, place, marginals.get(column.name))
            listed += [flag] if flag else []
        return listed

    def _free(self, schema: Schema) -> list[Column]:
        held = find_ruled(schema.rules) | self._fixed
        return [column for column in schema.columns if column.name not in held]


def _is_open(noisy: Array, sigma: float) -> bool:
    """Whether nearly all rows may obey a rule, of which few are known to."""
    agree, differ, _ = noisy.tolist()
    rows = max(agree + differ, 1.0)
    return bool(agree / rows + Z * sigma / rows >= MIN_SHARE)


def _count_cuts(places: Sequence[int], flags: Collection[int]) -> int:
    """At how many ends of a run of columns another flag stands right beside it."""
    return (min(places) - 1 in flags) + (max(places) + 1 in flags)


def _read_shares(column: Column, values: int) -> tuple[Array, float] | None:
    """The shares of 0, 1 and so on among a column's numbers, and the noise of each; None where it has others.

    Args:
        column: As it was released.
        values: How many.
    """
    if not is_whole(column) or not isinstance(column, Binned):
        return None
    edges = np.asarray(column.edges if column.fine is None else column.fine, dtype=np.float64)
    weights = np.asarray(column.weights, dtype=np.float64)
    total = float(weights.sum())
    if total <= 0 or len(weights) != len(edges) - 1:
        return None
    shares = np.zeros(values)
    # A cell of several numbers counts as its least one: these are behind those that rows have.
    inside = (edges[:-1] >= 0) & (edges[:-1] < values)
    np.add.at(shares, edges[:-1][inside].astype(np.int64), weights[inside] / total)
    return shares, (column.noise or 0.0) / total


def _read_number(column: Column) -> _Number | None:
    """A number of which nearly all rows have as many as flags may be; None for others."""
    found = _read_shares(column, MOST_FLAGS)
    if found is None or found[0].sum() < 1.0 - BESIDE:
        return None
    return _Number(column.name, found[0], found[1])


def _read_number_flag(column: Column, place: int) -> _Flag | None:
    found = _read_shares(column, 2)
    if found is None or found[0].sum() < 1.0 - BESIDE or found[0].min() <= 0:
        return None
    return _Flag(column.name, place, "1", float(found[0][1]), found[1], 0.0)


def _read_listed_flag(column: Column, place: int, marginal: NoisyMarginal | None) -> _Flag | None:
    """A column of truth values, of yes and no, or of one text that stands where the answer is yes."""
    if not isinstance(column, Categorical | Boolean) or not column.values:
        return None
    if isinstance(column, Categorical) and (column.stems or column.patterns):
        return None
    texts = list_written(column)
    if isinstance(column, Boolean):
        at = list(column.values).index(True) if True in column.values else -1
    elif len(texts) == 1 and column.missing:
        at = 0
    else:
        said: Mapping[str, int] = (read_flags(texts) if is_of_labels(column) else None) or {}
        at = next((place for place, text in enumerate(texts) if said.get(text) == 1), -1)
    if at < 0:
        return None
    total = 0.0 if marginal is None else float(np.sum(marginal.values))
    if marginal is None or total <= 0:
        return _Flag(column.name, place, texts[at])
    error = float(np.max(marginal.sigma)) / total
    return _Flag(column.name, place, texts[at], float(marginal.values[at]) / total, error, 0.0)


def _rank_runs(number: _Number, flags: Sequence[_Flag]) -> list[FlagCount]:
    """The runs of flags whose shares add up to a number's mean, whole ones first and then the nearest."""
    places, scored = {flag.place for flag in flags}, list[tuple[tuple[float, ...], FlagCount]]()
    values = np.arange(len(number.shares))
    for first in range(len(flags)):
        for last in range(first + 2, min(first + MOST_FLAGS, len(flags) + 1)):
            run = flags[first:last]
            if number.shares[: len(run) + 1].sum() < 1.0 - BESIDE:
                continue
            mean = float(values @ number.shares)
            noise = math.hypot(
                number.error * math.sqrt(float((values[: len(run) + 1] ** 2).sum())),
                *(flag.error for flag in run),
            )
            bar = MEAN * mean + Z * noise + sum(flag.unknown for flag in run)
            gap = abs(sum(flag.share for flag in run) - mean)
            if gap <= bar:
                names, counted = zip(*((flag.name, flag.counted) for flag in run), strict=True)
                cuts = _count_cuts([flag.place for flag in run], places)
                scored.append(((cuts, gap / bar), FlagCount(number.name, names, counted)))
    scored.sort(key=lambda entry: entry[0])
    return [rule for _, rule in scored]
