"""Orders, equalities, missing values and rank correlations of pairs of columns. **Not private**."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.first_look.finding import Finding, share_kept
from margrave.evaluation.metrics.orders import OrderedColumn, rank_correlations, take_day

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]

EXCEPTIONS = 0.01
"""Most real rows, as a share, that break an order which the real table is still said to keep."""
BY_CHANCE = 0.05
"""Least share of rows that would break it if the columns were independent; else it follows from ranges."""
MIN_EQUAL_SHARE = 0.2
"""Least share of real rows, above chance, in which two columns are equal."""
MIN_CORRELATION = 0.5
"""Least size of a real rank correlation that a person would see."""
ROWS_TRIED = 2_000
"""Real rows on which pairs are tried first, with SLACK beside the shares above: five standard errors."""
SLACK = 0.02
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
            real_rows, rows = float(alone[i, j] + alone[j, i]), float(made[i, j] + made[j, i])
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
