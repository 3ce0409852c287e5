"""Screening: which pairs are worth buying where noise would hide most of them.

The noise of a pair is said as a total variation here: a table of c cells with noise of standard deviation s
in each, in proportions of the rows, is off by c s E|z| / 2 = c s / sqrt(2 pi) from the noise alone. Cells
that hold next to nothing do not count, since no table goes below 0: a pair has as many cells as the
perplexities of its one-ways, exp of their entropies, multiply to.

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

from margrave.progress import OnStep, Step
from margrave.release import InferredMarginal, NoisyMarginal, project_simplex
from margrave.schema.domain import Clique
from margrave.select.strategy import (
    NOISE_L1,
    apportion_rho,
    group_one_ways,
    measure_shares,
    released_one_ways,
)

if TYPE_CHECKING:
    from margrave.protocols import Curator, Model
    from margrave.schema.encoded import Encoded

Floats = NDArray[np.float64]

MAX_CHANCE_SPREAD = 0.1
"""How far off the dependence that chance alone shows may be, over itself."""
MAX_DRAWN_FROM = 4096
"""Pairs that are drawn from, at most: bounds the time and the memory of scoring them for each draw."""
CELL_DISTANCE = 0.5 * NOISE_L1
"""Total variation of a cell's noise over its standard deviation."""


@dataclass(frozen=True, slots=True)
class OneWays:
    """What the released one-ways say together.

    Args:
        shares: Each attribute's distribution.
        off: Total variation by which noise has moved it, about.
        codes: Its perplexity, between 1 and its codes.
        rows: How many rows there are, at least 1.
    """

    shares: Mapping[str, Floats]
    off: Mapping[str, float]
    codes: Mapping[str, float]
    rows: float

    @property
    def held(self) -> dict[str, float]:
        """How many codes of each attribute hold anything."""
        return {name: float(np.count_nonzero(share)) for name, share in self.shares.items()}

    def product(self, pair: Clique) -> Floats:
        """The pair's table in rows if its attributes were independent."""
        return self.rows * np.outer(self.shares[pair[0]], self.shares[pair[1]])

    def chance(self, pair: Clique) -> float:
        """Total variation from the product that a pair of independent attributes has by chance, about.

        Half of the mean absolute deviation of Poisson counts, over the rows.
        """
        counts = self.product(pair)
        # The mean absolute deviation of a Poisson count below 1 is 2 m e^-m; above it is nearly normal.
        few = 2.0 * counts * np.exp(-counts)  # exact below 1
        off = np.where(counts < 1.0, few, np.sqrt(2.0 * counts / math.pi))
        return 0.5 * float(off.sum()) / self.rows

    def bound(self, pair: Clique) -> float:
        """The most that a pair with these one-ways can be from their product, in total variation; above 0.

        The overlap sum min(P_ij, p_i q_j) is at least sum P_ij q_j = sum q_j^2, as P_ij is at most p_i, and
        likewise at least sum p_i^2. A copy reaches it.
        """
        return max(1.0 - max(float((self.shares[name] ** 2).sum()) for name in pair), 1e-9)

    def apart(self, pair: Clique) -> float:
        """Total variation from the product that independent attributes show by noise and chance, about."""
        return math.sqrt(self.off[pair[0]] ** 2 + self.off[pair[1]] ** 2 + self.chance(pair) ** 2)

    def noise(self, pair: Clique, sigma: float) -> float:
        """Total variation that noise of standard deviation `sigma`, in rows, adds to a pair's table."""
        return CELL_DISTANCE * self.codes[pair[0]] * self.codes[pair[1]] * sigma / self.rows


def summarise_one_ways(curator: Curator, given: Encoded | None = None) -> OneWays:
    """Shares, noise, and perplexities of all attributes: from what is released, and exactly of public rows.

    Args:
        curator: Of the run.
        given: The codes of public attributes in all rows, at least one; None where nothing is public.
    """
    shares, rows = released_one_ways(curator, () if given is None else given.domain.names)
    ones = group_one_ways(curator)
    # Several releases of one one-way are as sharp as their precisions added up.
    noise = {
        name: sum(1.0 / float((m.sigmas**2).mean()) for m in ones[name]) ** -0.5 / rows for name in shares
    }
    if given is not None:
        for name, size in zip(given.domain.names, given.domain.sizes, strict=True):
            shares[name], noise[name] = np.bincount(given.column(name), minlength=size) / given.rows, 0.0
    off, codes = {}, {}
    for name, share in shares.items():
        held = share[share > 0]
        off[name] = CELL_DISTANCE * noise[name] * len(held)
        codes[name] = math.exp(-float((held * np.log(held)).sum()))
    return OneWays(shares, off, codes, rows)


def hides_pairs(curator: Curator, pairs: Sequence[Clique], ways: OneWays, hidden: float) -> bool:
    """Whether noise would move pairs by more than `hidden` on average, as total variation, if all shared what
    is left alike. Looks at releases and settings."""
    sigma = curator.sigma(curator.remaining / len(pairs))
    return float(np.mean([ways.noise(pair, sigma) for pair in pairs])) > hidden


def appraisal_noise(curator: Curator, tables: int, rows: float, rho: Fraction) -> float:
    """Standard deviation of the total variation that an appraisal of so many tables for rho finds, foretold.

    An L1 distance is twice the total variation times the rows. Its noise is that of a marginal times the
    root of the number of tables (`margrave.measure.mechanisms.appraise`); under replace_one it is a root of 2
    larger still, which is left out.
    """
    return math.sqrt(tables) * curator.sigma(rho) / (2.0 * rows)


@dataclass(frozen=True, slots=True)
class Dependence:
    """What an appraisal says of a pair.

    Args:
        distance: Total variation of the pair from the product of its attributes' one-ways, beyond what noise
            on the one-ways and chance explain, at least 0.
        uncertainty: Its standard deviation, about, above 0.
    """

    distance: float
    uncertainty: float


def estimate_dependence(
    curator: Curator, pairs: Sequence[Clique], ways: OneWays, rho: Fraction
) -> dict[Clique, Dependence]:
    """Total variation of each pair from the product of its attributes' one-ways, beyond noise and chance.

    Appraised against the released one-ways, whose own noise makes independent attributes look dependent: two
    one-ways that are off by a and b move the product by about sqrt(a^2 + b^2). So does chance: independent
    attributes in n rows are off by c = E|z| / 2 sum sqrt(p_i q_j / n) from the product of their own one-ways
    (p, q). All of it is taken out in squares.

    **Privacy.** One appraisal of all pairs, which costs rho; the rest looks at its answer and at releases.
    """
    errors = curator.appraise(pairs, [ways.product(pair) for pair in pairs], rho)
    noise = appraisal_noise(curator, len(pairs), ways.rows, rho)
    found: dict[Clique, Dependence] = {}
    for pair, error in zip(pairs, errors, strict=True):
        explained = ways.apart(pair) ** 2
        apart = max(float(error), 0.0) / (2.0 * ways.rows)
        spread = noise + MAX_CHANCE_SPREAD * ways.chance(pair)
        # What chance explains is taken out in squares, at the estimate and a spread above it.
        low, high = (math.sqrt(max(d**2 - explained, 0.0)) for d in (apart, apart + spread))
        found[pair] = Dependence(low, max(high - low, noise))
    return found


def find_affordable(pairs: Sequence[Clique], ways: OneWays, sigma: float) -> tuple[list[Clique], int]:
    """The pairs that may depend by more than their noise, and how many of them may be bought together.

    Those have noise below `OneWays.bound` if they get all there is. The number is of those that still have if
    so many share it, and at most one for each attribute. Of very many pairs those of least noise over the
    bound are thought of, MAX_DRAWN_FROM.

    Args:
        pairs: All that may be bought.
        ways: What is known of the one-ways.
        sigma: Noise of a cell, in rows, if one pair got everything.
    """
    # Noise over the bound in squares, as noise grows with the root of how many share.
    price = {pair: (ways.noise(pair, sigma) / ways.bound(pair)) ** 2 for pair in pairs}
    ranked = sorted(pairs, key=lambda pair: price[pair])[:MAX_DRAWN_FROM]
    # The k-th cheapest pair may be bought together with the k - 1 before it.
    count = sum(price[pair] * (place + 1) <= 1.0 for place, pair in enumerate(ranked[: len(ways.shares)]))
    return [pair for pair in ranked if price[pair] <= 1.0], count


def draw_pairs(
    curator: Curator,
    pairs: Sequence[Clique],
    count: int,
    ways: OneWays,
    sigma: float,
    worth: float,
    rho: Fraction,
    target: str | None = None,
) -> list[Clique]:
    """So many pairs, drawn one after another by how far they are from the product of their one-ways.

    The score is the L1 distance, less what noise on the one-ways and chance explain of it and `worth` of the
    noise that the pair would get. A target's pairs have every other draw for themselves.

    **Privacy.** `count` draws by the exponential mechanism (`margrave.measure.mechanisms.choose`), which cost
    rho together. What is not a draw looks at releases and settings only.

    Args:
        curator: The door.
        pairs: Those that may be drawn, at least `count`.
        count: How many.
        ways: What the released one-ways say.
        sigma: Noise of a cell, in rows, that a pair would get.
        worth: See above.
        rho: What it costs.
        target: An attribute that rows are meant to predict.
    """
    tables = {pair: ways.product(pair) for pair in pairs}
    # In the units of the score, which is an L1 distance in rows.
    less = {pair: 2.0 * ways.rows * (ways.apart(pair) + worth * ways.noise(pair, sigma)) for pair in pairs}
    drawn: list[Clique] = []
    for turn in range(count):
        # Every other draw is among the target's pairs, as long as there are any.
        own = [pair for pair in tables if target in pair] if turn % 2 == 0 else []
        some = own or list(tables)
        penalties = [less[pair] for pair in some]
        place = curator.choose(some, [tables[pair] for pair in some], rho / count, penalties=penalties)
        drawn.append(some[place])
        # A pair is drawn once.
        del tables[some[place]]
    return drawn


def choose_pairs(
    found: Mapping[Clique, float],
    ways: OneWays,
    sigma: float,
    worth: float,
    target: str | None = None,
    emphasis: float = 1.0,
    followers: Mapping[str, int] | None = None,
) -> dict[Clique, float]:
    """The pairs worth buying, and their weights, of which each is to get its part of all precision.

    A pair's weight w is the root of its dependence R, as often as it counts, so in a purchase of total weight
    W its noise is sigma sqrt(W / w) a cell. Pairs are taken while R exceeds `worth` times the total variation
    of that noise, which is in proportion to cells / sqrt(w), so in the order of R sqrt(w) / cells. At least
    one is taken.

    Args:
        found: Dependence of each pair.
        ways: What is known of the one-ways.
        sigma: Noise of a cell, in rows, if one pair got everything.
        worth: How much of the noise a dependence must exceed.
        target: An attribute whose pairs are taken in any case, as if as dependent as half the mean at least.
        emphasis: What the weights of the target's pairs are multiplied by.
        followers: How many attributes follow from each one, whose own pairs are not bought: pairs of what
            they follow from count once more for each of them.
    """
    known = followers or {}

    def weigh(pair: Clique, apart: float) -> float:
        return math.sqrt(apart) * math.prod(1 + known.get(name, 0) for name in pair)

    # The target's pairs are bought in any case; a floor keeps their shares from vanishing where noise hid
    # them.
    least = 0.5 * max(float(np.mean(list(found.values()))), 1e-6)
    weights = {pair: emphasis * weigh(pair, max(found[pair], least)) for pair in found if target in pair}
    whole = math.fsum(weights.values())
    rest = {pair: weigh(pair, max(apart, 1e-12)) for pair, apart in found.items() if pair not in weights}
    alone = {pair: ways.noise(pair, sigma) for pair in rest}
    for pair in sorted(rest, key=lambda pair: -found[pair] * math.sqrt(rest[pair]) / alone[pair]):
        weight = rest[pair]
        # Each pair bought makes the noise of all larger, so buying ends where the next one would gain less
        # than its own noise.
        if weights and found[pair] <= worth * alone[pair] * math.sqrt((whole + weight) / weight):
            break
        weights[pair] = weight
        whole += weight
    return weights


def foretell_error(
    dependence: Mapping[Clique, float],
    weights: Mapping[Clique, float],
    ways: OneWays,
    off: Mapping[str, float],
    sigma: float,
    worth: float,
) -> float:
    """The mean total variation that all pairs would be off by if some were bought.

    A model leaves `worth` of a table's noise. So a pair of dependence R that is bought with noise m / worth
    is off by R m / sqrt(R^2 + m^2), which is the smaller of both, about; one that is not bought by R; and
    every pair by its one-ways besides, in squares.

    Args:
        dependence: R of each pair.
        weights: Of the pairs that would be bought, see `choose_pairs`.
        ways: What is known of the one-ways.
        off: Total variation by which noise would have moved each.
        sigma: Noise of a cell, in rows, if one pair got everything.
        worth: See above.
    """
    whole, errors = math.fsum(weights.values()), []
    for (a, b), apart in dependence.items():
        left = apart**2
        if left and (a, b) in weights:
            noise = (worth * ways.noise((a, b), sigma * math.sqrt(whole / weights[a, b]))) ** 2
            # Two errors in series: what is smaller of the dependence and the noise decides.
            left *= noise / (left + noise)
        errors.append(math.sqrt(left + worth**2 * (off[a] ** 2 + off[b] ** 2)))
    return float(np.mean(errors))


def buy_dependent_pairs(
    curator: Curator,
    dependence: Mapping[Clique, Dependence],
    ways: OneWays,
    worth: float,
    target: str | None,
    emphasis: float,
    on_step: OnStep,
    followers: Mapping[str, int] | None = None,
) -> list[InferredMarginal]:
    """Spend all that is left of rho on the pairs that are worth buying, in proportion as `choose_pairs` says.

    Args:
        curator: Of the run.
        dependence: What the appraisal found, of all pairs that may be bought.
        ways: What is known of the one-ways.
        worth, target, emphasis, followers: As for `choose_pairs`.
        on_step: Told what is measured.

    Returns:
        What the appraisal says of the other pairs, see `independent_tables`.
    """
    found, sigma = {pair: one.distance for pair, one in dependence.items()}, curator.sigma(curator.remaining)
    weights = choose_pairs(found, ways, sigma, worth, target, emphasis, followers)
    on_step(Step("measure", f"{len(weights)} pairs by their dependence", 2, curator.progress))
    measure_shares(curator, apportion_rho(weights, curator.remaining))
    others = [pair for pair in dependence if pair not in weights]
    return independent_tables(curator, others, dependence, ways)


def independent_tables(
    curator: Curator, pairs: Sequence[Clique], dependence: Mapping[Clique, Dependence], ways: OneWays
) -> list[InferredMarginal]:
    """What appraisals say of pairs that were not bought: about the product of the one-ways.

    Each table is that product, as sure as the pairs that were bought, on average, but no surer than a pair
    of total variation R from it can be: spread evenly over c cells of n rows it has a norm of 2 R n /
    sqrt(c), in a direction that is not known. Half of that is taken: all of it is better on narrow tables,
    none of it on tables of many rows and codes (bench/LOG.md).
    """
    bought = [float((m.sigmas**2).mean()) for m in curator.measurements if len(m.clique) == 2]
    # The harmonic mean, as precisions are what is averaged.
    least = len(bought) / sum(1.0 / variance for variance in bought)
    tables = []
    for pair in pairs:
        found = dependence[pair]
        cells = ways.codes[pair[0]] * ways.codes[pair[1]]
        sigma = math.sqrt(least + (found.distance * ways.rows) ** 2 / cells)
        tables.append(InferredMarginal(pair, ways.product(pair), sigma, found.distance, found.uncertainty))
    return tables


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
        tables, floors = [], []
        for triple in triples:
            pairs = [(triple[1], triple[2]), (triple[0], triple[2]), (triple[0], triple[1])]
            # Proportional fitting keeps the interaction of three attributes that it starts from, so it starts
            # from none: a rough model's own is often false, and looked as if the rows had the opposite.
            last, middle, first = (self.shares[pair] for pair in pairs)
            table = _fit_triple(first, middle, last, PASSES)
            table = table / max(float(table.sum()), 1e-300)
            drawn = 0.5 * NOISE_L1 * float(np.sqrt(table / self.model.total).sum())
            tables.append(self.model.total * table)
            floors.append(math.sqrt(drawn**2 + math.fsum(self.off[pair] ** 2 for pair in pairs)))
        return tables, floors


@njit(cache=True, nogil=True, error_model="numpy")
def _scale(table, wanted):  # type: ignore[no-untyped-def]
    """Multiply a table of shape [A, B, C] so that its sum over the first axis is `wanted`, shape [B, C]."""
    have = np.zeros_like(wanted)
    for part in table:
        for b in range(len(wanted)):
            for c in range(wanted.shape[1]):
                have[b, c] += part[b, c]
    for b in range(len(wanted)):
        for c in range(wanted.shape[1]):
            have[b, c] = wanted[b, c] / max(have[b, c], 1e-300)
    for part in table:
        for b in range(len(wanted)):
            for c in range(wanted.shape[1]):
                part[b, c] *= have[b, c]


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
    table = np.empty((len(first), len(last), last.shape[1]))
    # It starts where the first two attributes are independent given the last one, which `middle` and `last`
    # agree with.
    for a in range(len(first)):
        for c in range(last.shape[1]):
            share = middle[a, c] / max(middle[:, c].sum(), 1e-300)
            table[a, :, c] = share * last[:, c]
    # In turn, each pair's sum over the third attribute is made what it should be.
    for turn in range(1, 3 * passes):
        if turn % 3 == 1:
            for a in range(len(first)):
                for b in range(len(last)):
                    table[a, b] *= first[a, b] / max(table[a, b].sum(), 1e-300)
        elif turn % 3 == 2:
            _scale(table, last)
        else:
            for a in range(len(first)):
                _scale(table[a].reshape((len(last), 1, -1)), middle[a : a + 1])
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
