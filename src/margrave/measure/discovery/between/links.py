"""Which columns may be related, what a first look at them asks, and what stands out: pairs, then sums.

Two columns may be equal, in order or near each other; a column may be the sum of others, which a look at all
sums that the released means allow will show. Everything here is made from public things and released numbers
only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.measure.discovery.between.edges import YEAR_DAYS
from margrave.schema.columns import Binned, Column, Date, Moment, Temporal, Whole
from margrave.schema.columns.relative import NO_LINE, Comparison
from margrave.schema.constraints.draws import draw_overall
from margrave.schema.constraints.rules import find_ruled
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
YEAR = float(YEAR_DAYS[0]), float(YEAR_DAYS[-1] + 1)
"""Days from which, and up to which, two dates are that are a year apart: a cell of its own where that is
not near, so that the term of a date is told from another one that is nearly a year before, too."""
MAX_WRONG_SHARE = 0.03
"""Most rows in the wrong order, as a share, where that is more than the noise allows for; in a sum the rows
in which a part is above its total."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns of one family, and the first look at how the second differs from the first.

    Args:
        base: The first column.
        column: The second.
        edges: Edges of the cells of the difference, of which one is 0, shape [cells + 1].
        chance: Share of the rows with both values in each cell if the columns were independent, [cells].
        near: Differences below this, in size, are near; 0 where only the side is asked about.
    """

    base: Binned
    column: Binned
    edges: Array
    chance: Array
    near: float = 0.0

    @property
    def comparison(self) -> Comparison:
        """The difference of the second from the first."""
        return Comparison.between(self.column, self.base)

    @property
    def years(self) -> NDArray[np.int64]:
        """The cells of one year, which dates have where that is not near."""
        asked = _asks_years(self.comparison, self.near)
        return np.flatnonzero(np.isin(self.edges[:-1], (YEAR[0], 1.0 - YEAR[1])) & asked)


@dataclass(frozen=True, slots=True)
class Link:
    """A relation that stands out in the first look.

    Args:
        base: Name of the column that the other is to be relative to.
        column: Name of the other.
        sign: 1 where next to no row has column < base, -1 where next to none has column > base, else 0.
        score: Nats that the first look at the pair tells beyond chance; of sums the noisy exact rows.
        others: Names of further columns that the base is made of.
        joint: "sum" or "product" of them all.
        line: The factor and the offset of a line of that.
        share_of: The whole that the last of several columns is a share of, as in `Comparison`.
        powers: Of the columns multiplied, as in `Comparison`.
    """

    base: str
    column: str
    sign: int
    score: float
    others: tuple[str, ...] = ()
    joint: str = "sum"
    line: tuple[float, float] = NO_LINE
    share_of: float = 0.0
    powers: tuple[int, ...] = ()

    @property
    def is_total(self) -> bool:
        """Whether the column is said by columns exactly: by their sum, their product, or a line."""
        return bool(self.others or self.powers) or self.line != NO_LINE

    @property
    def turned(self) -> Link:
        """The same relation with the other column as the base."""
        return Link(self.column, self.base, -self.sign, self.score)


def eligible_columns(schema: Schema) -> list[Binned]:
    """The columns that may be related: bins and weights were found, and no rule speaks of them.

    Flags are left out: that two of them are mostly equal says little, and a difference from another number
    may be any.
    """
    ruled = find_ruled(schema.rules)
    return [
        column
        for column in schema.columns
        if isinstance(column, Binned)
        and column.name not in ruled
        and column.weights
        and column.present > 1
        and not (isinstance(column, Whole) and float(np.ptp(column.edge_array)) <= 2)
    ]


def may_relate(columns: Iterable[Column], ruled: Collection[str]) -> bool:
    """Whether two columns of one family, of which no rule speaks, are such that one is to be discovered.

    Args:
        columns: All of the table, their kinds known.
        ruled: Names of those that rules are about.
    """
    open_columns = [c for c in columns if isinstance(c, Binned) and c.name not in ruled]
    families = [find_family(column) for column in open_columns if column.open or column.weights]
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
    # Seeded by the column's place, so that each column always has the same draws.
    draws = {c.name: draw_overall(c, DRAWS, np.random.default_rng(place)) for place, c in enumerate(columns)}
    alike, in_order = [], _Sorted(draws)
    families = [find_family(column) for column in columns]
    for (place, base), (other, column) in combinations(enumerate(columns), 2):
        if families[place] == families[other] and not (base.name in fixed and column.name in fixed):
            comparison = Comparison.between(column, base)
            alike.append((in_order.likeness(comparison, base.name, column.name), base, column))
    # The most alike first: columns of other scales are hardly equal or near.
    alike.sort(key=lambda entry: -entry[0])
    return [_pair(base, column, draws[base.name], draws[column.name]) for _, base, column in alike[:most]]


def find_family(column: Column) -> str:
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
    near = float(edges[-2])
    if _asks_years(comparison, near):
        edges = _with_years(edges)
    cells = np.clip(np.searchsorted(edges, differences, side="right") - 1, 0, len(edges) - 2)
    # Half a draw in each cell keeps chance above 0, by which shares are divided below.
    counts = np.bincount(cells, minlength=len(edges) - 1).astype(np.float64) + 0.5
    chance: Array = counts / counts.sum()
    return Pair(base, column, edges, chance, near)


def _edges(differences: Array, whole: bool) -> Array:
    """Edges of the first look: 0 alone, a few cells on either side, and what is far away."""
    low, high = (float(end) for end in np.quantile(differences, [0.1, 0.9]))
    width = max((high - low) / NEARNESS_FACTOR, 2.0 if whole else 1e-9)
    steps = np.array([part * width for part in HALVINGS] + [4.0 * (abs(low) + abs(high) + width)])
    # The cell of equality is one number wide, or the smallest float.
    equal = 1.0 if whole else float(np.nextafter(0.0, 1.0))
    steps = np.unique(np.ceil(steps)) if whole else np.unique(steps)
    return np.concatenate([-steps[::-1], [0.0, equal], steps[steps > equal]])


def _asks_years(comparison: Comparison, near: float) -> bool:
    """Whether both are dates and a year is further than what is near."""
    return comparison.read == comparison.base_read == "date" and near <= YEAR[0]


def _with_years(edges: Array) -> Array:
    """Edges of days with a cell for a year on either side, as far as they are within the others."""
    # The day -364 is in the cell from -364 up to -363: cells begin at their lower end.
    first, last = YEAR
    found = np.union1d(edges, [first, last, 1.0 - first, 1.0 - last])
    return np.asarray(found[(found >= edges[0]) & (found <= edges[-1])])


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
        return 1.0 - float(greatest_distance(sides[0], sides[1]))


@njit(cache=True)
def greatest_distance(left: Array, right: Array) -> float:  # pragma: no cover - compiled
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


SUM_EDGES = np.array([-(2.0**60), 0.0, 1.0, 2.0**60]), np.array([-(2.0**300), 0.0, 5e-324, 2.0**300])
"""Cells of the look at a sum, of whole and of other numbers: below, equal, above."""
SIZES = (2, 3, 4, 5, 6)
"""How many parts a total has."""
MOST_PARTS = 12
"""Columns never above a total of which its parts are sought, those of the largest means first: 2,500 sums."""
GAP = 0.5
"""Greatest distance of the parts' released means, added, from that of the total, as a share of it. Means of
cells under noise are that wrong where tails are long; the look decides, this only orders what it is asked."""
MIN_EXACT_SHARE, MIN_EXACT_PRODUCT, MIN_EXACT_LINE = 0.5, 0.8, 0.9
"""Least share of the rows with all values in which a sum, a product or a line is exact; for the latter two of
those rows that one frequent value does not put on it."""
FINER = 1.25
"""How much finer steps a quotient has to have than a product, for their sizes; not measured."""
TURN_NATS = 0.5
"""Nats by which the entropy of a part has to be above that of its total for the part to be drawn by the
others. Not measured."""
Z_SUM = 3.0
"""Noise standard deviations by which it must exceed that, and any single column's equality with the total."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A column that may be the sum or the product of others, or a line of these.

    Args:
        total: The column.
        parts: The others.
        equal: The noisy share of the rows in which the total equals one of them alone, at most; of a product
            or a line also that of the rows which are on it because of one frequent value.
        joint: "sum" or "product".
        line: The factor and the offset.
        share_of: The whole that the last part is a share of, as in `Comparison`.
        powers: Of the parts of a product, as in `Comparison`.
    """

    total: Binned
    parts: tuple[Binned, ...]
    equal: float
    joint: str = "sum"
    line: tuple[float, float] = NO_LINE
    share_of: float = 0.0
    powers: tuple[int, ...] = ()

    @property
    def comparison(self) -> Comparison:
        """The difference of the total from the sum or product of its parts, or the line of it."""
        constants = self.line, self.share_of, self.powers
        return Comparison.with_terms(self.total, self.parts, self.joint, *constants)

    @property
    def is_covered(self) -> bool:
        """Whether the parts have values where the total has one, as far as their missing values say."""
        return bool(self.total.missing) or not any(part.missing for part in self.parts)

    @property
    def is_finer(self) -> bool:
        """Whether a step of the one column that it is a line of moves the total by more than a step."""
        finer = abs(self.line[0]) * self.parts[0].unit > self.total.unit * (1.0 + 1e-9) > 0.0
        return len(self.parts) == 1 and not self.powers and finer

    @property
    def preference(self) -> float:
        """What makes it the better one of several columns that each follow from the others.

        One that may be missing is drawn by one that is not, and else that of more steps by that of fewer. Of
        a product and the quotients that turn it round, the one of the finest steps for its size says most:
        the others follow from that, and it does not follow from them.
        """
        covered = 2.0 * self.is_covered
        if self.joint != "product" or len(self.parts) != 2:
            return covered + self.is_finer
        mean = abs(find_mean(self.total))
        # Products first where steps are about as fine: a quotient by numbers near 1 holds in most rows, too.
        divided = min(self.powers, default=1) < 0
        factor = FINER if divided else 1.0 / FINER
        steps = [(self.total.unit * abs(find_mean(part)), part.unit * mean) for part in self.parts]
        return covered - divided / 2 - sum(own * factor > other for own, other in steps)

    @property
    def least(self) -> float:
        """Least share of the rows in which it is exact."""
        if self.joint == "product":
            return self.equal + MIN_EXACT_PRODUCT * (1.0 - self.equal)
        return MIN_EXACT_SHARE if self.line == NO_LINE else self.equal + MIN_EXACT_LINE * (1.0 - self.equal)

    @property
    def edges(self) -> Array:
        """Of the cells of the look."""
        return SUM_EDGES[0] if self.comparison.whole else SUM_EDGES[1]


def find_candidates(
    pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float, most: int, fixed: Collection[str] = ()
) -> list[Candidate]:
    """Sums that the look at pairs and the released means leave open, those of the nearest means first.

    Args:
        pairs: What was looked at.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        most: How many sums, at most.
        fixed: Names of columns that keep their own bins: none of them is a total.
    """
    below: dict[str, dict[str, float]] = {}
    columns: dict[str, Binned] = {}
    for pair, counts in zip(pairs, noisy, strict=True):
        if any(isinstance(column, Temporal) for column in (pair.base, pair.column)):
            continue
        columns |= {column.name: column for column in (pair.base, pair.column)}
        starts = pair.edges[:-1]
        cells = counts[: len(starts)]
        rows = max(float(cells.sum()), 1.0)
        equal = float(cells[starts == 0.0].sum()) / rows
        for part, total, wrong in (
            (pair.base, pair.column, starts < 0.0),
            (pair.column, pair.base, starts > 0.0),
        ):
            # A part is never above its total but for noise and slips.
            noise = 3.0 * sigma * float(np.sqrt(wrong.sum()))
            if float(cells[wrong].sum()) <= max(noise, MAX_WRONG_SHARE * rows):
                below.setdefault(total.name, {})[part.name] = equal
    means = {name: find_mean(column) for name, column in columns.items()}
    found: list[tuple[float, Candidate]] = []
    for name, parts in below.items():
        if name in fixed:
            continue
        # The number of sums grows steeply with the parts, so that only the largest are combined.
        largest = sorted(parts, key=lambda part: -abs(means[part]))[:MOST_PARTS]
        for gap, chosen in _near(means[name], [means[part] for part in largest], most):
            terms = [largest[place] for place in chosen]
            equal = max(parts[part] for part in terms)
            found.append((gap, Candidate(columns[name], tuple(columns[part] for part in terms), equal)))
    found.sort(key=lambda entry: (entry[0], len(entry[1].parts)))
    return [candidate for _, candidate in found[:most]]


def _near(total: float, means: Sequence[float], most: int) -> list[tuple[float, tuple[int, ...]]]:
    """The places of means whose sum is near a total, and how far it is off, as a share; nearest first."""
    found: list[tuple[float, tuple[int, ...]]] = []
    held = np.asarray(means)
    for size in SIZES:
        chosen = np.array(list(combinations(range(len(means)), size)), dtype=np.int64).reshape(-1, size)
        gaps = np.abs(held[chosen].sum(axis=1) - total)
        order = np.argsort(gaps, kind="stable")[:most]
        kept = order[gaps[order] <= GAP * abs(total)]
        found += [(float(gaps[place]) / (abs(total) or 1.0), tuple(chosen[place].tolist())) for place in kept]
    return sorted(found, key=lambda entry: (entry[0], len(entry[1])))[:most]


def find_mean(column: Binned) -> float:
    """The mean of a column by the weights of its cells; that of the even cells where they weigh nothing."""
    edges, weights = np.asarray(column.fine, dtype=np.float64), np.asarray(column.weights)
    if weights.sum() <= 0:
        weights = np.ones(len(edges) - 1)
    middles = (edges[:-1] + edges[1:] - (1.0 if Comparison.between(column, column).whole else 0.0)) / 2
    return float(weights @ middles / weights.sum())


def share_equal(pairs: Sequence[Pair], noisy: Sequence[Array]) -> dict[frozenset[str], float]:
    """The noisy share of the rows in which two columns are equal, by their names."""
    found = {}
    for pair, counts in zip(pairs, noisy, strict=True):
        cells = counts[: len(pair.edges) - 1]
        equal = float(cells[pair.edges[:-1] == 0.0].sum()) / max(float(cells.sum()), 1.0)
        found[frozenset((pair.base.name, pair.column.name))] = equal
    return found


def round_share(share: float, error: float) -> tuple[float, float]:
    """A noisy share of the rows, from 0 to 1, and its standard error, as a release states them."""
    return round(min(max(share, 0.0), 1.0), 4), round(max(error, 1e-4), 4)


def choose_sums(
    candidates: Sequence[Candidate], noisy: Sequence[Array], sigma: float, fixed: Collection[str] = ()
) -> list[Link]:
    """The sums, products and lines that hold, one a total at most, none that leads back to itself.

    Of several that hold for one total, within the noise of the best, one of the fewest parts is taken, and
    without an offset if there is one; of these the first within two deviations of the best.

    Args:
        candidates: What was looked at.
        noisy: Noisy counts of each, shape [3 + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
        fixed: Names of columns that keep their own bins.
    """
    held: dict[str, list[tuple[float, Candidate]]] = {}
    for candidate, counts in zip(candidates, noisy, strict=True):
        rows, exact = float(counts[:3].sum()), float(counts[1])
        # More rows must be exact than half of them, and than equal a single part.
        evident = exact - max(MIN_EXACT_SHARE, candidate.equal) * rows > Z_SUM * sigma
        if evident and exact >= candidate.least * rows - sigma:
            held.setdefault(candidate.total.name, []).append((exact, candidate))
    links: list[Link] = []
    lines = {(one.total.name, _only_base(one)) for sums in held.values() for _, one in sums}
    mutual = {pair for pair in lines if pair[::-1] in lines}

    def rank(entry: tuple[float, Candidate]) -> float:
        return entry[0] + Z_SUM * sigma * entry[1].preference

    for name, sums in sorted(held.items(), key=lambda entry: -max(map(rank, entry[1]))):
        best = max(exact for exact, _ in sums)
        near = [entry for entry in sums if entry[0] >= best - Z_SUM * sigma]
        # What is a line of a column that is a line of it as well may also be drawn as a sum of others, and
        # that column by it: a total of marks, and their mean by the total.
        apart = [entry for entry in near if (name, _only_base(entry[1])) not in mutual]
        near = apart or near
        simplest = min(map(_count_constants, near))
        near = [entry for entry in near if _count_constants(entry) == simplest]
        # Those that are asked for first are the rounder ones.
        best = max(exact for exact, _ in near)
        exact, chosen = next(entry for entry in near if entry[0] >= best - 2.0 * sigma)
        link = _turn_sum(chosen, exact, {*held, *fixed, *(one.column for one in links)})
        # A total that one of its parts is relative to already would close a circle.
        if link.column not in _above((link.base, *link.others), links):
            links.append(link)
    return links


def _turn_sum(chosen: Candidate, exact: float, taken: Collection[str]) -> Link:
    """The link of a total with its parts; or that of the part which has many more values than the total has,
    as what is to pay of a fee in four classes and a rebate: drawn by the others it leaves them their values.

    Args:
        chosen: A sum, a product or a line that holds.
        exact: The noisy rows in which it does.
        taken: Names of columns that may not be drawn by others, or are already.
    """
    names = [part.name for part in chosen.parts]
    plain = chosen.joint == "sum" and len(names) > 1 and chosen.line == NO_LINE
    free = [part for part in chosen.parts if part.name not in taken and not part.missing] if plain else []
    if free and not chosen.total.missing and all(one.unit > 0.0 for one in (chosen.total, *chosen.parts)):
        most = max(free, key=_count_values)
        if _count_values(most) > TURN_NATS + _count_values(chosen.total):
            others = tuple(name for name in names if name != most.name)
            signs = (1, *(-1 for _ in others))
            return Link(chosen.total.name, most.name, 0, exact, others, "sum", powers=signs)
    constants = chosen.line, chosen.share_of, chosen.powers
    return Link(names[0], chosen.total.name, 0, exact, tuple(names[1:]), chosen.joint, *constants)


def _count_values(column: Binned) -> float:
    """The entropy of a column's values in nats, even in each of its cells."""
    weights, fine = np.asarray(column.weights), np.asarray(column.fine, dtype=np.float64)
    held = weights > 0.0
    share, wide = weights[held] / weights.sum(), np.maximum(np.diff(fine)[held] / column.unit, 1.0)
    return float(-(share * np.log(share / wide)).sum())


def _only_base(candidate: Candidate) -> str:
    """The name of the one column that a candidate is a line of; empty where it is made of several."""
    return candidate.parts[0].name if len(candidate.parts) == 1 else ""


def _count_constants(entry: tuple[float, Candidate]) -> tuple[int, bool]:
    """How many parts a candidate has, and whether it has an offset: what of several that hold is taken by."""
    return len(entry[1].parts), entry[1].line[1] != 0.0


def _above(names: Sequence[str], links: Sequence[Link]) -> set[str]:
    """The columns given, and all that they are relative to."""
    bases = {link.column: (link.base, *link.others) for link in links}
    found: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += bases.get(name, ())
    return found


def attach(
    sums: Sequence[Link],
    links: Sequence[Link],
    more: Sequence[Link],
    gaps: Collection[tuple[str, str]],
    fixed: Collection[str] = (),
) -> list[Link]:
    """Sums, links among other columns, and those links of totals with others that close no circle.

    A column that two links speak of gets the one that tells more.

    Args:
        sums: Made by `choose_sums`.
        links: Between columns that are no totals.
        more: Between a total and another column, either way, those that tell most first.
        gaps: Bases and columns that are not to be joined, such as `list_gaps` finds.
        fixed: Names of columns that keep their own bins.
    """
    totals = {link.column: link for link in sums}
    found = {link.column: link for link in links} | totals
    for link in more:
        link = link.turned if link.column in totals else link
        others = [one for one in found.values() if one.column != link.column]
        told = found[link.column].score if link.column in found else 0.0
        if link.column in totals or link.column in fixed or (link.base, link.column) in gaps:
            continue
        if link.score > told and link.column not in _above([link.base], others):
            found[link.column] = link
    return list(found.values())
