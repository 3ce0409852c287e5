"""Triples: which of them hold what no pair shows, and are worth measuring.

A triple may hold dependence that none of its pairs shows, such as c = a xor b. What the pairs of a triple
imply is its table of most entropy under them. How far the rows are from that is appraised for many triples at
once, with noise that grows with the root of their number. A triple that stands above this noise has an
interaction, and is measured by itself.

Distances are total variations here: half the L1 distance over the rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.release import NoisyMarginal, project_simplex
from margrave.schema.domain import Clique
from margrave.select._screening.pairs import CELL_DISTANCE, OneWays, appraisal_noise
from margrave.select.strategy import NOISE_L1

if TYPE_CHECKING:
    from margrave.protocols import Curator, Model

Floats = NDArray[np.float64]

MAX_TRIPLES, MAX_CELLS, MAX_UPDATES = 4096, 1 << 22, 1 << 31
"""Triples that one query asks about at most; cells of all their tables; triples times rows. They bound the
time and the memory of counting."""
MAX_TRIPLE_SHARE, MAX_TRIPLES_SHARE = Fraction(1, 30), Fraction(1, 10)
"""Of all rho, the most that one triple gets, and the most that all get together."""
MAX_TRIPLE_NOISE = 0.1
"""Total variation of a triple's noise if it got MAX_TRIPLE_SHARE, from which on it is not asked about."""
FINENESS_OVER_INTERACTION = 10.0
"""How many times finer than its interaction a triple is measured. At 6, sums modulo five of 24,000 rows are
0.08 off at epsilon 1 (bench/LOG.md)."""
FINE_INTERACTION, COARSE_INTERACTION = 0.08, 0.35
"""The interaction that a query is to find: FINE_INTERACTION if it can, for as little as that costs; a query
that would miss COARSE_INTERACTION is not asked. That of c = a xor b is 0.5, and pairs explain real tables to
within 0.03."""
MAX_ATTRIBUTES = 80
"""Attributes, those of fewest codes, whose triples are thought of: 30 of them have MAX_TRIPLES already, and a
list of all triples of 400 columns takes a minute."""
PASSES = 5
"""Passes of iterative proportional fitting over the three pairs of a triple. It starts where two attributes
are independent given the third, which two of the pairs agree with."""


@dataclass(frozen=True, slots=True)
class TripleQuery:
    """Which triples are to be appraised, and for how much.

    Args:
        triples: In the domain's order, at least one.
        noise: Total variation of each one's own noise if it were measured for all rho.
        rho: What their appraisal costs.
        deviation: Standard deviation of an appraised total variation.
    """

    triples: tuple[Clique, ...]
    noise: tuple[float, ...]
    rho: Fraction
    deviation: float

    @property
    def visible(self) -> float:
        """The total variation that noise exceeds in one of the triples one time in six, about."""
        return _largest_of(len(self.triples)) * self.deviation


@dataclass(frozen=True, slots=True)
class KnownPairs:
    """What a rough model and the measured pairs say of every pair together.

    Args:
        model: The rough model.
        shares: Each pair's distribution.
        off: Total variation by which noise has moved each, about.
    """

    model: Model
    shares: Mapping[Clique, Floats]
    off: Mapping[Clique, float]

    def imply_triples(self, triples: Sequence[Clique]) -> tuple[list[Floats], list[float]]:
        """What the pairs imply of each triple, in rows, and by how much rows without interaction differ.

        The second is a total variation: of rows drawn from the table, and of the pairs' own noise.
        """
        # In single precision and one after the other in memory, as all are held at once: their appraisal is
        # exact for any table, and so much is given back as a whole.
        sizes = [math.prod(self._shape(triple)) for triple in triples]
        held = np.empty(sum(sizes), dtype=np.float32)
        tables, floors = [], []
        for triple, part in zip(triples, np.split(held, np.cumsum(sizes)[:-1]), strict=True):
            pairs = [(triple[1], triple[2]), (triple[0], triple[2]), (triple[0], triple[1])]
            # Proportional fitting keeps the interaction of three attributes that it starts from, so it starts
            # from none: a rough model's own is often false, and looked as if the rows had the opposite.
            last, middle, first = (self.shares[pair] for pair in pairs)
            table = _fit_triple(first, middle, last, PASSES)
            table = table / max(float(table.sum()), 1e-300)
            drawn = 0.5 * NOISE_L1 * float(np.sqrt(table / self.model.total).sum())
            part[:] = self.model.total * table.ravel()
            tables.append(part.reshape(table.shape))
            floors.append(math.sqrt(drawn**2 + math.fsum(self.off[pair] ** 2 for pair in pairs)))
        return tables, floors

    def _shape(self, triple: Clique) -> tuple[int, ...]:
        """Codes of the attributes of a triple whose pairs were measured."""
        first, middle, last = triple
        return (*self.shares[first, middle].shape, self.shares[middle, last].shape[1])


# Kernels of loops over single cells: with slices they are several times as large to load and as slow.


@njit(cache=True, nogil=True, error_model="numpy")
def _match_first(table, first):  # type: ignore[no-untyped-def]
    """Multiply a table of shape [A, B, C] so that its sum over the last axis is `first`, shape [A, B]."""
    for a in range(table.shape[0]):
        for b in range(table.shape[1]):
            have = 0.0
            for c in range(table.shape[2]):
                have += table[a, b, c]
            factor = first[a, b] / max(have, 1e-300)
            for c in range(table.shape[2]):
                table[a, b, c] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def _match_middle(table, middle):  # type: ignore[no-untyped-def]
    """As `_match_first`, for the sum over the middle axis and `middle`, shape [A, C]."""
    factors = np.empty(table.shape[2])
    for a in range(table.shape[0]):
        factors[:] = 0.0
        for b in range(table.shape[1]):
            for c in range(table.shape[2]):
                factors[c] += table[a, b, c]
        for c in range(table.shape[2]):
            factors[c] = middle[a, c] / max(factors[c], 1e-300)
        for b in range(table.shape[1]):
            for c in range(table.shape[2]):
                table[a, b, c] *= factors[c]


@njit(cache=True, nogil=True, error_model="numpy")
def _match_last(table, last):  # type: ignore[no-untyped-def]
    """As `_match_first`, for the sum over the first axis and `last`, shape [B, C]."""
    factors = np.zeros(last.shape)
    for a in range(table.shape[0]):
        for b in range(table.shape[1]):
            for c in range(table.shape[2]):
                factors[b, c] += table[a, b, c]
    for b in range(table.shape[1]):
        for c in range(table.shape[2]):
            factors[b, c] = last[b, c] / max(factors[b, c], 1e-300)
    for a in range(table.shape[0]):
        for b in range(table.shape[1]):
            for c in range(table.shape[2]):
                table[a, b, c] *= factors[b, c]


@njit(cache=True, nogil=True, error_model="numpy")
def _fit_triple(first, middle, last, passes):  # type: ignore[no-untyped-def]
    """The table of most entropy with these three pairs, by iterative proportional fitting.

    Args:
        first: Distribution of the first two attributes, shape [A, B].
        middle: Of the first and the last, shape [A, C].
        last: Of the last two, shape [B, C].
        passes: Over the three pairs.

    Returns:
        Shape [A, B, C]; of sum 1 but for what the pairs contradict each other.
    """
    # It starts where the first two attributes are independent given the last one, which `middle` and `last`
    # agree with.
    shares = np.zeros(last.shape[1])
    for a in range(len(middle)):
        for c in range(len(shares)):
            shares[c] += middle[a, c]
    table = np.empty((len(first), len(last), len(shares)))
    for a in range(table.shape[0]):
        for b in range(table.shape[1]):
            for c in range(table.shape[2]):
                table[a, b, c] = middle[a, c] / max(shares[c], 1e-300) * last[b, c]
    # In turn, each pair's sum over the third attribute is made what it should be.
    for turn in range(passes):
        if turn:
            _match_middle(table, middle)
        _match_first(table, first)
        _match_last(table, last)
    return table


def estimate_pairs(model: Model, measured: Sequence[NoisyMarginal]) -> KnownPairs:
    """Every measured pair by a rough model, and by what its table says beyond that.

    Args:
        model: The rough model.
        measured: One table a pair.
    """
    cliques = [table.clique for table in measured]
    shares, off = {}, {}
    for table, expected in zip(measured, model.project_many(cliques), strict=True):
        # What the table says beyond the model, shrunk by its noise, is added to the model.
        beyond = table.beyond(expected) / model.total
        shares[table.clique] = project_simplex(beyond.ravel(), np.ones(beyond.size)).reshape(beyond.shape)
        alive = shares[table.clique] > 0
        off[table.clique] = 0.5 * NOISE_L1 * float(table.sigmas[alive].sum()) / model.total
    return KnownPairs(model, shares, off)


def plan_query(
    curator: Curator, pairs: Collection[Clique], ways: OneWays, largest: Fraction, target: str | None = None
) -> TripleQuery | None:
    """The query about triples that is worth its price, or None where noise would hide all it could find.

    Left out are triples that would be mostly noise if they were measured, and those whose interaction cannot
    be seen: the part of the rows that have not an attribute's commonest code, twice, bounds it. (Two tables
    with the same pairs differ, where the code is the commonest, by no more than where it is not.) Of too many
    triples those of the target are kept, and those of least noise; on wide tables only the target and the
    attributes of fewest codes, MAX_ATTRIBUTES in all, are thought of.

    Looks at releases and public settings only.

    Args:
        curator: The door.
        pairs: The pairs that were measured; a triple without one of its pairs is left out.
        ways: What the released one-ways say.
        largest: rho that the query may cost.
        target: An attribute that rows are meant to predict.
    """
    domain, sigma = curator.domain, curator.sigma(curator.total)
    fewest = set(sorted(domain.names, key=lambda name: (name != target, ways.codes[name]))[:MAX_ATTRIBUTES])
    noise = {
        triple: CELL_DISTANCE * math.prod(ways.codes[name] for name in triple) * sigma / ways.rows
        for triple in combinations([name for name in domain.names if name in fewest], 3)
        if all(pair in pairs for pair in combinations(triple, 2))
    }
    affordable = (
        triple for triple in noise if noise[triple] <= MAX_TRIPLE_NOISE * math.sqrt(MAX_TRIPLE_SHARE)
    )
    able = sorted(affordable, key=lambda triple: (target not in triple, noise[triple]))
    cells = np.cumsum([domain.size(triple) for triple in able])
    most = min(MAX_TRIPLES, int(MAX_UPDATES / ways.rows), int(np.searchsorted(cells, MAX_CELLS, "right")))
    bound = {name: 2.0 * (1.0 - float(ways.shares[name].max())) for name in domain.names}
    # Leaving out triples that could not be seen lowers the noise of the others: again, until all can be.
    asked, before, visible = able[:most], -1, 0.0
    while asked and len(asked) != before:  # fewer triples have less noise
        before = len(asked)
        visible = _largest_of(before) * appraisal_noise(curator, before, ways.rows, largest)
        asked = [triple for triple in asked if min(bound[name] for name in triple) > visible]
    if not asked or visible > COARSE_INTERACTION:
        return None
    asked.sort(key=lambda triple: [domain.index(name) for name in triple])
    # The deviation falls with the root of rho.
    rho = largest * min(Fraction(math.ceil(1000 * (visible / FINE_INTERACTION) ** 2), 1000), Fraction(1))
    deviation = appraisal_noise(curator, len(asked), ways.rows, rho)
    return TripleQuery(tuple(asked), tuple(noise[triple] for triple in asked), rho, deviation)


def find_triples(curator: Curator, query: TripleQuery, known: KnownPairs) -> dict[Clique, Fraction]:
    """The triples whose interaction stands above noise, and the rho that each is worth.

    A triple is to be measured FINENESS_OVER_INTERACTION times finer than its interaction. Those of the
    largest interaction come first, while they get no more than MAX_TRIPLE_SHARE each and MAX_TRIPLES_SHARE
    together.

    **Privacy.** One appraisal, which costs `query.rho`; the rest looks at its answer and at releases.
    """
    tables, floors = known.imply_triples(query.triples)
    errors = curator.appraise(query.triples, tables, query.rho)
    found: dict[Clique, tuple[float, float]] = {}
    for triple, error, floor, noise in zip(query.triples, errors, floors, query.noise, strict=True):
        interaction = float(error) / (2.0 * known.model.total) - floor
        if interaction > query.visible:
            found[triple] = interaction, (FINENESS_OVER_INTERACTION * noise / interaction) ** 2
    bought: dict[Clique, Fraction] = {}
    left = MAX_TRIPLES_SHARE
    for triple, (_, share) in sorted(found.items(), key=lambda item: -item[1][0]):
        # At least a thousandth, so that no triple is bought at noise that hides it.
        part = min(max(Fraction(round(share * 10**6), 10**6), Fraction(1, 1000)), MAX_TRIPLE_SHARE)
        if part <= left:
            bought[triple] = curator.total * part
            left -= part
    return bought


def _largest_of(count: int) -> float:
    """Standard deviations that the largest of so many normal numbers seldom exceeds."""
    return math.sqrt(2.0 * math.log(count)) + 1.0
