"""Orders, equalities, missing values and rank correlations of pairs of columns. **Not private**."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.dependence.ordered import OrderedColumn
from margrave.evaluation.dependence.orders import take_day
from margrave.evaluation.dependence.ranks import rank_correlations
from margrave.evaluation.first_look.finding import Finding, share_kept

__all__ = ["find_missing", "find_orders", "find_ranks"]

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]

EXCEPTIONS = 0.01
"""Most real rows, as a share, that break an order which the real table is still said to keep."""
BY_CHANCE = 0.05
"""Least share of rows that would break it if the columns were independent; else it follows from ranges."""
EQUAL = 0.2
"""Least share of real rows, above chance, in which two columns are equal."""
STRONG = 0.5
"""Least size of a real rank correlation that a person would see."""
TRIED = 2_000
"""Real rows on which pairs are tried first, with SLACK beside the shares above: five standard errors."""
SLACK = 0.02


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
        """Of all pairs of a value of the first and one of the second."""
        left, right = first[~np.isnan(first)], np.sort(second[~np.isnan(second)])
        most = max(left.size * right.size, 1)
        lower = float(np.searchsorted(right, left, side="left").sum()) / most
        upper = float(np.searchsorted(right, left, side="right").sum()) / most
        return cls(1.0 - upper, upper - lower, lower)


def find_orders(columns: Sequence[OrderedColumn]) -> list[Finding]:
    """Orders and equalities of columns of one scale that nearly all, or many, real rows show.

    A moment is held against moments, and its day against dates and days.

    Args:
        columns: Both tables' rows, those of each perhaps a sample.
    """
    plain = [column for column in columns if column.scale != "code"]
    days = [take_day(column) for column in plain if column.scale == "moment"]
    return [finding for pair in combinations([*plain, *days], 2) for finding in _compared(*pair)]


def _compared(first: OrderedColumn, second: OrderedColumn) -> Iterator[Finding]:
    """What a pair shows: nothing, an order, an equality, or both."""
    if first.scale != second.scale or not _promising(first.real[:TRIED], second.real[:TRIED]):
        return
    real, synthetic = _Shares.of(first.real, second.real), _Shares.of(first.synthetic, second.synthetic)
    chance = _Shares.by_chance(first.real, second.real)
    defined = synthetic.below + synthetic.equal + synthetic.above > 0
    if real.equal - chance.equal >= EQUAL:
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


def _promising(first: Numbers, second: Numbers) -> bool:
    """Whether the first rows leave it open that the pair shows anything; there they may be none."""
    found = _Shares.of(first, second)
    return min(found.above, found.below) <= EXCEPTIONS + SLACK or found.equal >= EQUAL - SLACK


def find_missing(real: dict[str, Truths], synthetic: dict[str, Truths]) -> list[Finding]:
    """Columns that are missing only where another is, in nearly all real rows.

    Args:
        real: Which rows lack a value, by column, each of shape [rows].
        synthetic: The same of the synthetic rows.
    """
    found = []
    shares = {name: float(gone.mean()) for name, gone in real.items()}
    open_names = [name for name, share in shares.items() if share > 0]
    for first, second in combinations(open_names, 2):
        alone = [_alone(real, first, second), _alone(real, second, first)]
        made = [_alone(synthetic, first, second), _alone(synthetic, second, first)]
        chance = [shares[first] * (1 - shares[second]), shares[second] * (1 - shares[first])]
        held = [part <= EXCEPTIONS and by >= BY_CHANCE for part, by in zip(alone, chance, strict=True)]
        if all(held):
            kept = share_kept(sum(alone), max(sum(made), sum(alone)), sum(chance))
            words = (
                f"One of {first} and {second} is missing without the other in {sum(made):.1%} of its rows, "
                f"{sum(alone):.1%} of the real ones."
            )
            found.append(Finding("missing", f"{first} and {second} together", kept, words))
            continue
        for place, (inner, outer) in enumerate(((first, second), (second, first))):
            if held[place]:
                kept = share_kept(alone[place], max(made[place], alone[place]), chance[place])
                words = (
                    f"{inner} is missing where {outer} is not in {made[place]:.1%} of its rows, "
                    f"{alone[place]:.1%} of the real ones."
                )
                found.append(Finding("missing", f"{inner} only with {outer}", kept, words))
    return found


def _alone(gone: dict[str, Truths], inner: str, outer: str) -> float:
    return float((gone[inner] & ~gone[outer]).mean())


def find_ranks(columns: Sequence[OrderedColumn]) -> list[Finding]:
    """Rank correlations of the real rows that a person would see, see `STRONG`."""
    if len(columns) < 2:
        return []
    real, both = rank_correlations([column.real for column in columns])
    synthetic = np.nan_to_num(rank_correlations([column.synthetic for column in columns])[0])
    found = []
    for i, j in combinations(range(len(columns)), 2):
        # Two or three rows correlate by themselves.
        if both[i, j] >= 10 and abs(real[i, j]) >= STRONG:
            first, second = columns[i].name, columns[j].name
            words = (
                f"The rank correlation of {first} with {second} is {synthetic[i, j]:.2f}, "
                f"{real[i, j]:.2f} in the real table."
            )
            kept = share_kept(float(real[i, j]), float(synthetic[i, j]), 0.0)
            found.append(Finding("rank", f"{first} with {second}", kept, words))
    return found
