"""Columns that may be the sum of others, and which of these sums stand out in a look at all of them.

Everything here is made from public things and released numbers only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.pairs import Link, Pair
from margrave.schema.columns import Binned, Temporal
from margrave.schema.columns.relative import Comparison

Array = NDArray[np.float64]

SUM_EDGES = np.array([-(2.0**60), 0.0, 1.0, 2.0**60]), np.array([-(2.0**300), 0.0, 5e-324, 2.0**300])
"""Cells of the look at a sum, of whole and of other numbers: below, equal, above."""
SIZES = (2, 3, 4, 5, 6)
"""How many parts a total has."""
MOST_PARTS = 12
"""Columns never above a total of which its parts are sought, those of the largest means first: 2,500 sums."""
MAX_WRONG_SHARE = 0.03
"""Share of rows in which a part may be above its total: as in `pairs`, and 3 deviations of the noise."""
GAP = 0.5
"""Greatest distance of the parts' released means, added, from that of the total, as a share of it. Means of
cells under noise are that wrong where tails are long; the look decides, this only orders what it is asked."""
MIN_EXACT_SHARE = 0.5
"""Least share of the rows with all values in which the sum is exact."""
Z = 3.0
"""Noise standard deviations by which it must exceed that, and any single column's equality with the total."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A column that may be the sum of others.

    Args:
        total: The column.
        parts: The others.
        equal: The noisy share of the rows in which the total equals one of them alone, at most.
    """

    total: Binned
    parts: tuple[Binned, ...]
    equal: float

    @property
    def comparison(self) -> Comparison:
        """The difference of the total from the sum of its parts."""
        return Comparison.with_sum(self.total, self.parts)

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
            noise = 3.0 * sigma * float(np.sqrt(wrong.sum()))
            if float(cells[wrong].sum()) <= max(noise, MAX_WRONG_SHARE * rows):
                below.setdefault(total.name, {})[part.name] = equal
    means = {name: _mean(column) for name, column in columns.items()}
    found: list[tuple[float, Candidate]] = []
    for name, parts in below.items():
        if name in fixed:
            continue
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


def _mean(column: Binned) -> float:
    """The mean of a column by the weights of its cells; that of the even cells where they weigh nothing."""
    edges, weights = np.asarray(column.fine, dtype=np.float64), np.asarray(column.weights)
    if weights.sum() <= 0:
        weights = np.ones(len(edges) - 1)
    middles = (edges[:-1] + edges[1:] - (1.0 if Comparison.between(column, column).whole else 0.0)) / 2
    return float(weights @ middles / weights.sum())


def choose_sums(candidates: Sequence[Candidate], noisy: Sequence[Array], sigma: float) -> list[Link]:
    """The sums that hold, one a total at most, none that leads back to itself.

    Of several that hold for one total the exact one of the fewest parts is taken, where "exact" is within the
    noise of the best.

    Args:
        candidates: What was looked at.
        noisy: Noisy counts of each, shape [3 + ABSENT_CELLS].
        sigma: Standard deviation of their noise.
    """
    held: dict[str, list[tuple[float, Candidate]]] = {}
    for candidate, counts in zip(candidates, noisy, strict=True):
        rows, exact = float(counts[:3].sum()), float(counts[1])
        if exact - max(MIN_EXACT_SHARE, candidate.equal) * rows > Z * sigma:
            held.setdefault(candidate.total.name, []).append((exact, candidate))
    links: list[Link] = []
    for name, sums in sorted(held.items(), key=lambda entry: -max(exact for exact, _ in entry[1])):
        best = max(exact for exact, _ in sums)
        near = [entry for entry in sums if entry[0] >= best - Z * sigma]
        exact, chosen = min(near, key=lambda entry: (len(entry[1].parts), -entry[0]))
        base, *others = (part.name for part in chosen.parts)
        if name not in _above((base, *others), links):
            links.append(Link(base, name, 0, exact, tuple(others)))
    return links


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
    sums: Sequence[Link], links: Sequence[Link], more: Sequence[Link], fixed: Collection[str] = ()
) -> list[Link]:
    """Sums, links among other columns, and those links of totals with others that close no circle.

    A column that two links speak of gets the one that tells more.

    Args:
        sums: Made by `choose_sums`.
        links: Between columns that are no totals.
        more: Between a total and another column, either way, those that tell most first.
        fixed: Names of columns that keep their own bins.
    """
    totals = {link.column: link for link in sums}
    found = {link.column: link for link in links} | totals
    for link in more:
        link = link.turned if link.column in totals else link
        others = [one for one in found.values() if one.column != link.column]
        told = found[link.column].score if link.column in found else 0.0
        if link.column in totals or link.column in fixed:
            continue
        if link.score > told and link.column not in _above([link.base], others):
            found[link.column] = link
    return list(found.values())
