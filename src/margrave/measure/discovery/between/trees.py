"""Which relations stand out in the first look at pairs of columns, and which of two is the base of the other.

Everything here is made from public things and released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.between.links import MAX_WRONG_SHARE, Link, Pair, find_family
from margrave.schema.columns import Binned, Date, Integer, Relative, Temporal, Whole
from margrave.schema.columns.base import split_words
from margrave.schema.constraints.draws import running_weights

Array = NDArray[np.float64]

Z = 4.0
"""Noise standard deviations by which rows in some cells must differ from what they are by chance."""
Z_CELL = 3.0
"""Those from which on a cell adds to how much a pair tells."""
LEAST_EQUAL, LEAST_NEAR, LEAST_ORDER = 0.1, 0.25, 0.05
"""Least share of the rows by which more are equal or near, or fewer in the wrong order, than by chance."""
FEW, REST = 12, 0.02
"""Most values of a number of few values, and most of the rows that may hold others. Not measured."""
SAME_KIND_BONUS = 1.0
"""Nats by which a relation between columns of one kind comes before one between a date and a moment."""
SAME_NAME_BONUS = 1.0
"""Nats by which a relation between dates of one name, as call_date and call_time, comes before others. Not
measured."""
DATE_WORDS = frozenset(("date", "time", "day", "datetime", "timestamp", "dt", "ts", "at", "on", "of"))
"""Words in the names of dates that say nothing of which dates they are."""


def choose_links(
    pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float, fixed: Collection[str] = ()
) -> list[Link]:
    """The relations to look at more closely: those that tell most, no two ways between two columns.

    In each set of columns that hang together the one with the most relations is the base of its neighbours,
    and these of theirs but for chains of differences (`_join_stars`). A set has one fixed column at most,
    which is then the first base: so no fixed column is ever relative to another. None is relative to a column
    that most of its own rows lack (`list_gaps`).

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
    # Pairs are joined into trees, as by Kruskal's algorithm: what tells most first, none that closes a
    # circle.
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
    gaps = list_gaps(pairs, noisy) | _list_smeared(columns.values())
    lacking = {base for base, column in gaps if any(link.column == column for link in near.get(base, ()))}

    def rank(name: str) -> tuple[bool, bool, bool, float]:
        # A date that is added to another one seldom has room to be on its own day of the month.
        own = columns[name]
        monthly = isinstance(own, Date) and own.month_days is not None
        return name not in fixed, name in lacking, not monthly, -_weight(own, near[name])

    links = _direct_links(sorted(near, key=rank), near, gaps)
    scores = {(pair.base.name, pair.column.name): score for pair, score, _ in seen}
    # A date is the day of a moment, whatever that is coded by.
    days = {link.column for link in links if columns[link.base].kind != columns[link.column].kind}
    return _join_stars(links, scores, gaps | {(base, name) for base in columns for name in days})


def pool_kept(
    found: Relative, pairs: Sequence[Pair], noisy: Sequence[Array], sigma: float
) -> tuple[float, float] | None:
    """The share of the rows that a relation keeps, and its standard error, by both looks; None if the first
    says nothing of it, as of totals, which a look of their own counts, and of what leaves out no side.

    The closer look has many cells on the side of the base that a relation leaves out, as one that is equality
    leaves out both, and their noise together may hide a third of the rows. The first look has few.

    Args:
        found: What the closer look has made.
        pairs: What was looked at first.
        noisy: Noisy counts of each pair, shape [cells + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
    """
    middle, (low, high) = float(found.how == "quotient"), found.part.edge_array[[0, -1]]
    # The cell of equality is one whole number wide, or the smallest float.
    ends = np.nextafter(middle, np.inf), float(isinstance(found.part, Whole))
    left_out = bool(low >= middle), bool(high <= max(ends))
    for pair, counts in zip(pairs, noisy, strict=True):
        alone = pair.base.read == pair.column.read and not found.comparison.joint
        if not alone or {pair.base.name, pair.column.name} != {found.name, found.base}:
            continue
        below, above = left_out if pair.base.name == found.base else left_out[::-1]
        starts = pair.edges[:-1]
        cells, out = counts[: len(starts)], ((starts < 0.0) & below) | ((starts > 0.0) & above)
        if out.any():
            rows = max(float(cells.sum()), 1.0)
            seen = min(max(1.0 - float(cells[out].sum()) / rows, 0.0), 1.0)
            spread = sigma * math.sqrt((1 - seen) ** 2 * (~out).sum() + seen**2 * out.sum()) / rows
            share, error = found.share or (seen, spread)
            weights = max(error, 1e-4) ** -2, max(spread, 1e-4) ** -2
            return (weights[0] * share + weights[1] * seen) / sum(weights), 1.0 / math.sqrt(sum(weights))
    return None


def list_gaps(pairs: Sequence[Pair], noisy: Sequence[Array]) -> set[tuple[str, str]]:
    """The pairs (base, column) in which most rows with a value of the column have none of the base.

    Such rows would be told by no difference: all of them would share one code, and their values go with
    nothing else.
    """
    found = set()
    for pair, counts in zip(pairs, noisy, strict=True):
        cells = len(pair.edges) - 1
        both, no_base, no_column = float(counts[:cells].sum()), counts[cells], counts[cells + 1]
        if no_base > both:
            found.add((pair.base.name, pair.column.name))
        if no_column > both:
            found.add((pair.column.name, pair.base.name))
    return found


def _list_smeared(columns: Collection[Binned]) -> set[tuple[str, str]]:
    """The pairs (base, column) of a column of few values and a base of many.

    A rate of 5, 7.5 or 10 that is told by its distance from an amount would be any number. The amount may be
    told by the rate.
    """
    few = {column.name for column in columns if _has_few_values(column)}
    return {(base.name, name) for base in columns for name in few if base.name not in few}


def _has_few_values(column: Binned) -> bool:
    """Whether a number's released weights say that nearly all rows hold one of a few values."""
    step = column.step if column.step > 0 else max((step for step, _ in column.grids), default=0.0)
    step = max(step, float(isinstance(column, Integer)))
    if isinstance(column, Temporal) or not column.weights or not step:
        return False
    edges, running = running_weights(column)
    weights, single = np.diff(running), np.diff(edges) <= step * (1.0 + 1e-9)
    most = np.sort(np.where(single, weights, 0.0))[::-1][:FEW]
    return float(most.sum()) >= (1.0 - REST) * float(weights.sum())


def _preference(pair: Pair, score: float) -> float:
    """What a pair tells, and a little more where both are dates, or both moments, or are called alike.

    A call's date is the day of its call as well as of the answer in nearly all rows.
    """
    score += SAME_KIND_BONUS * (pair.base.kind == pair.column.kind)
    return score + SAME_NAME_BONUS * (find_family(pair.base) == "date" and _are_called_alike(pair))


def _are_called_alike(pair: Pair) -> bool:
    """Whether names of two columns, which are public, have a word in common that is no word for dates."""
    one, two = (set(split_words(column.name)) - DATE_WORDS for column in (pair.base, pair.column))
    return bool(one & two)


def _direct_links(
    starts: Sequence[str], near: dict[str, list[Link]], gaps: Collection[tuple[str, str]]
) -> list[Link]:
    """The trees, each from the first of its columns in `starts`, bases before what is relative to them, but
    for links of a base and a column that are among `gaps`: such a column begins a tree of its own."""
    links: list[Link] = []
    reached: set[str] = set()
    for start in starts:
        if start in reached:
            continue
        reached.add(start)
        queue = [start]
        while queue:
            for link in near[queue.pop(0)]:
                if link.column not in reached and (link.base, link.column) not in gaps:
                    reached.add(link.column)
                    queue.append(link.column)
                    links.append(link)
    return links


def _join_stars(
    links: Sequence[Link], scores: Mapping[tuple[str, str], float], gaps: Collection[tuple[str, str]]
) -> list[Link]:
    """The links, with stars in the place of chains of columns that may lie on either side of their bases.

    How far a number is from the one before it often depends on that one, as a bill on the balance before it.
    If that one is itself coded by its difference from another, three codes act together, which tables of two
    do not hold. So all of such a chain are coded by their differences from its first column, where they are
    seen to be near it.

    Args:
        links: Bases before what is relative to them.
        scores: What pairs of columns tell beyond chance, by their names in one order.
        gaps: Bases and columns that are not to be joined.
    """
    found: dict[str, Link] = {}
    for link in links:
        above = found.get(link.base)
        if above is not None and not link.sign and not above.sign:
            ends = above.base, link.column
            score = max(scores.get(ends, 0.0), scores.get(ends[::-1], 0.0))
            link = Link(*ends, 0, score) if score > 0.0 and ends not in gaps else link
        found[link.column] = link
    return list(found.values())


def _weight(column: Binned, links: Sequence[Link]) -> float:
    """Neighbours of a column; of two with as many a date comes before a moment, whose time of day is then the
    difference, an earlier time before a later one, and a larger number before a smaller one.
    """
    signs = [-link.sign if find_family(column) == "number" else link.sign for link in links]
    return len(signs) + 0.2 * isinstance(column, Date) + 0.1 * sum(signs) / max(len(signs), 1)


def _evidence(pair: Pair, counts: Array, sigma: float) -> tuple[float, int]:
    """Nats a row that a pair tells beyond chance, 0 if that is not evident; and its order as in `Link`.

    Of all rows, those without one of the values as well: where these are many the pair tells little.
    """
    starts = pair.edges[:-1]
    cells = counts[: len(starts)]
    rows, held = float(cells.sum()), cells > Z_CELL * sigma
    evident = float(cells[held].sum())
    # Where noise hides the rows there is nothing to be said of them.
    if rows <= Z * sigma * math.sqrt(len(counts)):
        if evident <= Z * sigma * math.sqrt(max(int(held.sum()), 1)):
            return 0.0, 0
        rows = max(rows, evident)
    # What a cell holds beyond what independent columns would put there.
    more = cells - pair.chance * rows
    # Cells near 0, without the two outermost ones.
    near = (starts >= -pair.near) & (starts < pair.near)
    found = _exceeds(more[starts == 0.0], sigma, LEAST_EQUAL * rows)
    found |= _exceeds(more[near], sigma, LEAST_NEAR * rows)
    found |= any(_exceeds(more[[cell]], sigma, LEAST_NEAR * rows) for cell in pair.years.tolist())
    sign = 0
    for side, wrong in ((1, starts < 0.0), (-1, starts > 0.0)):
        noise = sigma * math.sqrt(int(wrong.sum()))
        few = float(cells[wrong].sum()) <= max(3.0 * noise, MAX_WRONG_SHARE * rows)
        if few and _exceeds(-more[wrong], sigma, LEAST_ORDER * rows):
            sign = side
    if not found and not sign:
        return 0.0, 0
    share = cells[held] / rows
    # The evident cells' part of the Kullback-Leibler divergence from chance, above 0 if anything was found.
    told = float((share * np.log(share / pair.chance[held])).sum())
    return max(told * rows / max(float(counts.sum()), rows), 1e-9), sign


def _exceeds(more: Array, sigma: float, least: float) -> bool:
    """Whether some cells together hold more than by chance, beyond the noise and by a share that matters."""
    return float(more.sum()) > max(Z * sigma * math.sqrt(len(more)), least)
