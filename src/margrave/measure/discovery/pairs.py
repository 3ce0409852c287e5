"""Which pairs of columns may be related, what a first look at them asks, and which of them stand out.

Everything here is made from public things and released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Column, Date, Moment, Temporal
from margrave.schema.columns.relative import Comparison
from margrave.schema.constraints.draws import draw_overall
from margrave.schema.schema import Schema

Array = NDArray[np.float64]
Numbers = NDArray[np.int64] | NDArray[np.float64]

DRAWS, TURNS = 2_000, 4
"""Values drawn from each released column to see how it would compare with another by chance, and how often
they are paired anew."""
NEARNESS_FACTOR = 24.0
"""Differences are near within the middle 80 % of those by chance, over this."""
HALVINGS = (1.0, 0.25, 0.0625, 0.015625)
"""Parts of that at which the cells on either side of 0 begin."""
Z = 4.0
"""Noise standard deviations by which rows in some cells must differ from what they are by chance."""
Z_CELL = 3.0
"""Those from which on a cell adds to how much a pair tells."""
LEAST_EQUAL, LEAST_NEAR, LEAST_ORDER = 0.1, 0.25, 0.05
"""Least share of the rows by which more are equal or near, or fewer in the wrong order, than by chance."""
SAME_KIND_BONUS = 0.5
"""Nats by which a relation between columns of one kind comes before one between a date and a moment."""
MAX_WRONG_SHARE = 0.03
"""Most rows in the wrong order, as a share, where that is more than the noise allows for."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns of one family, and the first look at how the second differs from the first.

    Args:
        base: The first column.
        column: The second.
        edges: Edges of the cells of the difference, of which one is 0, shape [cells + 1].
        chance: Share of the rows with both values in each cell if the columns were independent, [cells].
    """

    base: Binned
    column: Binned
    edges: Array
    chance: Array

    @property
    def comparison(self) -> Comparison:
        """The difference of the second from the first."""
        return Comparison.between(self.column, self.base)


@dataclass(frozen=True, slots=True)
class Link:
    """A relation that stands out in the first look.

    Args:
        base: Name of the column that the other is to be relative to.
        column: Name of the other.
        sign: 1 where next to no row has column < base, -1 where next to none has column > base, else 0.
        score: Nats that the first look at the pair tells beyond chance; of sums the noisy exact rows.
        others: Names of columns that are added to the base.
    """

    base: str
    column: str
    sign: int
    score: float
    others: tuple[str, ...] = ()

    @property
    def turned(self) -> Link:
        """The same relation with the other column as the base."""
        return Link(self.column, self.base, -self.sign, self.score)


def eligible_columns(schema: Schema) -> list[Binned]:
    """The columns that may be related: bins and weights were found, and no rule speaks of them."""
    ruled = {name for rule in schema.rules for name in rule.names}
    return [
        column
        for column in schema.columns
        if isinstance(column, Binned) and column.name not in ruled and column.weights and column.present > 1
    ]


def may_relate(columns: Iterable[Column], ruled: Collection[str]) -> bool:
    """Whether two columns of one family, of which no rule speaks, are such that one is to be discovered.

    Args:
        columns: All of the table, their kinds known.
        ruled: Names of those that rules are about.
    """
    open_columns = [c for c in columns if isinstance(c, Binned) and c.name not in ruled]
    families = [_family(column) for column in open_columns if column.open or column.weights]
    return len(set(families)) < len(families)


def pair_up(columns: Sequence[Binned], most: int, fixed: Collection[str] = ()) -> list[Pair]:
    """At most so many pairs of columns of one family, those first that are most alike one by one.

    Args:
        columns: Of known bins and weights.
        most: How many pairs, at most.
        fixed: Names of columns that keep their own bins: no pair is of two of them.
    """
    if most <= 0:
        return []
    draws = {c.name: draw_overall(c, DRAWS, np.random.default_rng(place)) for place, c in enumerate(columns)}
    alike, in_order = [], _Sorted(draws)
    families = [_family(column) for column in columns]
    for (place, base), (other, column) in combinations(enumerate(columns), 2):
        if families[place] == families[other] and not (base.name in fixed and column.name in fixed):
            comparison = Comparison.between(column, base)
            alike.append((in_order.likeness(comparison, base.name, column.name), base, column))
    alike.sort(key=lambda entry: -entry[0])
    return [_pair(base, column, draws[base.name], draws[column.name]) for _, base, column in alike[:most]]


def _family(column: Column) -> str:
    """What a column can be compared with: dates and moments with each other, and numbers with numbers."""
    if isinstance(column, Date | Moment):
        return "date"
    return column.kind if isinstance(column, Temporal) else "number"


def _pair(base: Binned, column: Binned, left: Numbers, right: Numbers) -> Pair:
    comparison = Comparison.between(column, base)
    rng = np.random.default_rng(len(left))
    turns = [comparison.values(rng.permutation(right), left) for _ in range(TURNS)]
    differences = np.concatenate(turns).astype(np.float64)
    edges: Array = _edges(differences, comparison.whole)
    cells = np.clip(np.searchsorted(edges, differences, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(cells, minlength=len(edges) - 1).astype(np.float64) + 0.5
    chance: Array = counts / counts.sum()
    return Pair(base, column, edges, chance)


def _edges(differences: Array, whole: bool) -> Array:
    """Edges of the first look: 0 alone, a few cells on either side, and what is far away."""
    low, high = (float(end) for end in np.quantile(differences, [0.1, 0.9]))
    width = max((high - low) / NEARNESS_FACTOR, 2.0 if whole else 1e-9)
    steps = np.array([part * width for part in HALVINGS] + [4.0 * (abs(low) + abs(high) + width)])
    equal = 1.0 if whole else float(np.nextafter(0.0, 1.0))
    steps = np.unique(np.ceil(steps)) if whole else np.unique(steps)
    return np.concatenate([-steps[::-1], [0.0, equal], steps[steps > equal]])


class _Sorted:
    """The draws of each column in order, in the unit of the column it is compared with, sorted once."""

    def __init__(self, draws: Mapping[str, Numbers]) -> None:
        self._draws = draws
        self._sorted: dict[tuple[str, str, str], Array] = {}

    def likeness(self, comparison: Comparison, base: str, column: str) -> float:
        """One less the greatest distance between the distributions of two columns."""
        sides = []
        for name, read in ((column, comparison.read), (base, comparison.base_read)):
            key = name, read, comparison.read
            if key not in self._sorted:
                draws = self._draws[name] if name == column else comparison.base_in_unit(self._draws[name])
                self._sorted[key] = np.sort(draws.astype(np.float64))
            sides.append(self._sorted[key])
        return 1.0 - float(_greatest_distance(sides[0], sides[1]))


@njit(cache=True)
def _greatest_distance(left: Array, right: Array) -> float:  # pragma: no cover - compiled
    """The greatest distance between the distributions of two sorted samples."""
    i = j = 0
    greatest = 0.0
    while i < len(left) and j < len(right):
        value = min(left[i], right[j])
        while i < len(left) and left[i] <= value:
            i += 1
        while j < len(right) and right[j] <= value:
            j += 1
        greatest = max(greatest, abs(i / len(left) - j / len(right)))
    # Where one sample has ended, the distance can only shrink.
    return greatest


def choose_links(
    pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float, fixed: Collection[str] = ()
) -> list[Link]:
    """The relations to look at more closely: those that tell most, no two ways between two columns.

    In each set of columns that hang together the one with the most relations is the base of its neighbours,
    and these of theirs. A set has one fixed column at most, which is then the first base: so no fixed column
    is ever relative to another.

    Args:
        pairs: What was looked at.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        fixed: Names of columns that keep their own bins.
    """
    seen = [(pair, *_evidence(pair, counts, sigma)) for pair, counts in zip(pairs, noisy, strict=True)]
    standing = sorted((entry for entry in seen if entry[1] > 0.0), key=lambda entry: -_preference(*entry[:2]))
    root: dict[str, str] = {}
    anchored = set(fixed)  # the tops of sets with a fixed column

    def top(name: str) -> str:
        while root.get(name, name) != name:
            name = root[name]
        return name

    near: dict[str, list[Link]] = {}
    for pair, score, sign in standing:
        link = Link(pair.base.name, pair.column.name, sign, score)
        ends = {top(link.base), top(link.column)}
        if len(ends) == 2 and not ends <= anchored:
            if ends & anchored:
                anchored.add(top(link.base))
            root[top(link.column)] = top(link.base)
            near.setdefault(link.base, []).append(link)
            near.setdefault(link.column, []).append(link.turned)
    columns = {column.name: column for pair in pairs for column in (pair.base, pair.column)}
    starts = sorted(near, key=lambda name: (name not in fixed, -_weight(columns[name], near[name])))
    return _direct_links(starts, near)


def _preference(pair: Pair, score: float) -> float:
    """What a pair tells, and a little more where both are dates, or both moments."""
    return score + SAME_KIND_BONUS * (pair.base.kind == pair.column.kind)


def _direct_links(starts: Sequence[str], near: dict[str, list[Link]]) -> list[Link]:
    """The trees, each from the first of its columns in `starts`, bases before what is relative to them."""
    links: list[Link] = []
    reached: set[str] = set()
    for start in starts:
        if start in reached:
            continue
        reached.add(start)
        queue = [start]
        while queue:
            for link in near[queue.pop(0)]:
                if link.column not in reached:
                    reached.add(link.column)
                    queue.append(link.column)
                    links.append(link)
    return links


def _weight(column: Binned, links: Sequence[Link]) -> float:
    """Neighbours of a column; of two with as many a date comes before a moment, whose time of day is then the
    difference, an earlier time before a later one, and a larger number before a smaller one.
    """
    signs = [-link.sign if _family(column) == "number" else link.sign for link in links]
    return len(signs) + 0.2 * isinstance(column, Date) + 0.1 * sum(signs) / max(len(signs), 1)


def _evidence(pair: Pair, counts: Array, sigma: float) -> tuple[float, int]:
    """Nats that a pair tells beyond chance, 0 if that is not evident; and its order as in `Link`."""
    starts = pair.edges[:-1]
    cells = counts[: len(starts)]
    rows = float(cells.sum())
    if rows <= Z * sigma * math.sqrt(len(counts)):
        return 0.0, 0
    more = cells - pair.chance * rows
    near = (starts >= pair.edges[1]) & (starts < pair.edges[-2])
    found = _exceeds(more[starts == 0.0], sigma, LEAST_EQUAL * rows)
    found |= _exceeds(more[near], sigma, LEAST_NEAR * rows)
    sign = 0
    for side, wrong in ((1, starts < 0.0), (-1, starts > 0.0)):
        noise = sigma * math.sqrt(int(wrong.sum()))
        few = float(cells[wrong].sum()) <= max(3.0 * noise, MAX_WRONG_SHARE * rows)
        if few and _exceeds(-more[wrong], sigma, LEAST_ORDER * rows):
            sign = side
    if not found and not sign:
        return 0.0, 0
    held = cells > Z_CELL * sigma
    share = cells[held] / rows
    return max(float((share * np.log(share / pair.chance[held])).sum()), 1e-9), sign


def _exceeds(more: Array, sigma: float, least: float) -> bool:
    """Whether some cells together hold more than by chance, beyond the noise and by a share that matters."""
    return float(more.sum()) > max(Z * sigma * math.sqrt(len(more)), least)
