"""Screening: which pairs are worth buying where noise would hide most of them.

The noise of a pair is said as a total variation here: a table of c cells with noise of standard deviation s
in each, in proportions of the rows, is off by c s E|z| / 2 = c s / sqrt(2 pi) from the noise alone. Cells
that hold next to nothing do not count, since no table goes below 0: a pair has as many cells as the
perplexities of its one-ways, exp of their entropies, multiply to.

Distances are total variations here: half the L1 distance over the rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.progress import OnStep, Step
from margrave.release import SCORE_STEPS, InferredMarginal, RankProduct, mid_ranks, project_simplex
from margrave.schema.domain import Clique
from margrave.select.strategy import (
    NOISE_L1,
    apportion_rho,
    average_one_ways,
    measure_shares,
)
from margrave.smoothing import smooth_counts

if TYPE_CHECKING:
    from margrave.protocols import Curator
    from margrave.schema.encoded import Encoded

Floats = NDArray[np.float64]

MAX_CHANCE_SPREAD = 0.1
"""How far off the dependence that chance alone shows may be, over itself."""
MAX_DRAWN_FROM = 4096
"""Pairs that are drawn from, at most: bounds the time and the memory of scoring them for each draw."""
CELL_DISTANCE = 0.5 * NOISE_L1
"""Total variation of a cell's noise over its standard deviation."""
NOISE_LEFT = 0.35
"""How much of a table's noise a model leaves, about."""
PRODUCT_NOISE, MAX_PRODUCT_NOISE = 0.05, 0.17
"""Standard deviation of a rank product that more is spent for, within bounds, and above which none is bought.
At 0.17 four thousand rows of a survey at epsilon 0.2 still have pairs a tenth nearer (bench/LOG.md)."""
MIN_SCORE_VARIANCE = 0.15
"""Variance of an attribute's rank scores, 2/3 for even ranks, below which its pairs are not asked about
unless it is one of two codes."""
MIN_TARGET_SHARE = 0.5
"""Least share of a target's pair, see `choose_pairs`. Regressions of seven targets, six of which one
other column mostly decides, at epsilon 0.1 and 0.5: 0.25 as good on average, and worse where many weak ones
tell much. 0.75, of five targets, a little better, at the cost of all other pairs."""
MIN_RARE_SIGNAL = 4.0
"""Product of the standard deviations of both scores, over the noise of a rank product, from which one of an
attribute of two codes and less variance is asked for all the same. Not varied (bench/LOG.md)."""
RARE_TABLES, MIN_RARE_DEVIATIONS = 8, 3.0
"""Most tables that are bought of one rare code's attribute, and the least distance of a rank product from
independence for it, over its noise. Eight were chosen on one table among 4, 8, 16 and 32
(docs/auto-ablation.md); the distance was not varied."""
MAX_OTHERS = 0.05
"""What other codes may hold of an attribute of two codes, such as missing values. Not varied."""


@dataclass(frozen=True, slots=True)
class OneWays:
    """What the released one-ways say together.

    Args:
        shares: Each attribute's distribution, as it probably is (`margrave.smoothing`).
        off: Total variation by which it is still off for noise, about.
        codes: Its perplexity, between 1 and its codes.
        rows: How many rows there are, at least 1.
    """

    shares: Mapping[str, Floats]
    off: Mapping[str, float]
    codes: Mapping[str, float]
    rows: float

    @property
    def held(self) -> dict[str, float]:
        """How many codes of each attribute hold anything: half a row or more."""
        least = 0.5 / self.rows
        return {name: float(max((share >= least).sum(), 1)) for name, share in self.shares.items()}

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
    ways, rows = average_one_ways(curator, () if given is None else given.domain.names)
    ordered = dict(zip(curator.domain.names, curator.domain.ordered, strict=True))
    shares, unknown = dict[str, Floats](), dict[str, Floats]()
    for name, own in ways.items():
        smooth = smooth_counts(own.values, np.full(own.values.size, own.variance), ordered[name], rows)
        shares[name] = project_simplex(smooth.values / rows, np.ones(own.values.size))
        unknown[name] = np.sqrt(smooth.variances) / rows
    if given is not None:
        for name, size in zip(given.domain.names, given.domain.sizes, strict=True):
            shares[name] = np.bincount(given.column(name), minlength=size) / given.rows
            unknown[name] = np.zeros(size)
    off, codes = {}, {}
    for name, share in shares.items():
        held = share > 0
        off[name] = CELL_DISTANCE * float(unknown[name][held].sum())
        codes[name] = math.exp(-float((share[held] * np.log(share[held])).sum()))
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


def measure_rank_products(
    curator: Curator, pairs: Sequence[Clique], ways: OneWays, rho: Fraction, most: Fraction
) -> dict[Clique, RankProduct]:
    """Rank products of all pairs of which both attributes have scores (`score_ranks`); none where noise would
    hide them.

    A pair's table of c cells needs about c times the precision to say as much of whether its attributes rise
    together, so these tell correlations where few tables can be bought. What few rows have, such as a rare
    outcome, moves no table by more than noise: only these tell what goes with it.

    **Privacy.** Sums over rows, which cost `most` and half of `rho` together or less
    (`margrave.measure.mechanisms.correlate`); the rest, and how much is spent, looks at releases alone.
    Nothing is spent where there is no answer.

    Args:
        curator: The door.
        pairs: All that may be asked about.
        ways: What the released one-ways say: where the ranks of ordered attributes are.
        rho: What all answers of attributes of varied scores together cost where noise is small; those of
            rare codes cost half of it.
        most: What the former may cost at most where that leaves noise above PRODUCT_NOISE, to bring it there.
    """
    ordered = dict(zip(curator.domain.names, curator.domain.ordered, strict=True))
    scores = {name: score_ranks(share, ordered[name]) for name, share in ways.shares.items()}
    spread = {name: _variance(ways.shares[name], own / SCORE_STEPS) for name, own in scores.items()}
    varied = {name for name, variance in spread.items() if variance >= MIN_SCORE_VARIANCE}
    rare = {name for name in scores.keys() - varied if find_two_codes(ways.shares[name], ordered[name])}
    found: dict[Clique, RankProduct] = {}
    # Where nearly all rows have one score there is little to see, and all other pairs would get more noise.
    asked = [pair for pair in pairs if varied.issuperset(pair)]
    if asked:
        times = max(product_noise(curator, len(asked), ways.rows, rho) / PRODUCT_NOISE, 1.0) ** 2
        paid = max(min(rho * Fraction(times).limit_denominator(1000), most), rho)
        if product_noise(curator, len(asked), ways.rows, paid) <= MAX_PRODUCT_NOISE:
            found |= _correlate(curator, asked, ways, scores, paid)
    # A rare code moves few rows and few numbers tell what it goes with, so these are asked by themselves.
    asked = [pair for pair in pairs if len(varied.intersection(pair)) == len(rare.intersection(pair)) == 1]
    if asked:
        least = MIN_RARE_SIGNAL * product_noise(curator, len(asked), ways.rows, rho / 2)
        asked = [(a, b) for a, b in asked if math.sqrt(spread[a] * spread[b]) >= least]
    if asked:
        found |= _correlate(curator, asked, ways, scores, rho / 2)
    return found


def measure_rare_tables(
    curator: Curator, products: Mapping[Clique, RankProduct], ways: OneWays, rho: Fraction
) -> None:
    """Buy the tables of the pairs that tell most of what goes with a rare code.

    A rank product says whether a rare code is met at one end of the other attribute. A table says at which
    codes and how often, which a classifier needs; no total variation would ever have it bought, since few
    rows have the code. At most RARE_TABLES of each attribute are, alike, and fewer than half of those that
    have a product: a model that draws an attribute by its tables alone would lose the other products.

    **Privacy.** Marginals, which cost `rho` together; which, looks at releases alone. Nothing is spent where
    no product stands out of its noise.

    Args:
        curator: The door.
        products: What `measure_rank_products` found.
        ways: What the released one-ways say.
        rho: What all tables together cost.
    """
    distances: dict[str, dict[Clique, float]] = {}
    asked: Counter[str] = Counter()
    for pair, product in products.items():
        means = [float(ways.shares[name] @ own) for name, own in zip(pair, product.scores, strict=True)]
        apart = abs(product.value - means[0] * means[1]) / product.sigma
        for name, own in zip(pair, product.scores, strict=True):
            asked[name] += 1
            if apart >= MIN_RARE_DEVIATIONS and _variance(ways.shares[name], own) < MIN_SCORE_VARIANCE:
                distances.setdefault(name, {})[pair] = apart
    bought: list[Clique] = []
    for name, found in distances.items():
        most = min(RARE_TABLES, (asked[name] - 1) // 2)
        bought += sorted(found, key=lambda pair: -found[pair])[:most]
    if bought:
        curator.measure(bought, rho / len(bought))


def product_noise(curator: Curator, count: int, rows: float, rho: Fraction) -> float:
    """Standard deviation of so many rank products for rho together, foretold."""
    # An answer is a mean over the rows, an appraisal half of one.
    return 2.0 * appraisal_noise(curator, count, rows, rho)


def _correlate(
    curator: Curator,
    asked: Sequence[Clique],
    ways: OneWays,
    scores: Mapping[str, NDArray[np.int64]],
    rho: Fraction,
) -> dict[Clique, RankProduct]:
    """The rank products of these pairs, for rho together."""
    answers, sigma = curator.correlate(asked, scores, rho)
    own = {name: score / SCORE_STEPS for name, score in scores.items()}
    return {
        (a, b): RankProduct((own[a], own[b]), answer / ways.rows, sigma / ways.rows)
        for (a, b), answer in zip(asked, answers.tolist(), strict=True)
    }


def score_ranks(shares: Floats, ordered: int) -> NDArray[np.int64]:
    """Rank scores of an attribute's codes, whole numbers from -SCORE_STEPS to SCORE_STEPS, shape [codes].

    A code whose mid-rank is r has 4 r - 2, cut to -1 and 1, in steps: the quarters of the rows at both ends
    have -1 and 1. Of scores within these bounds, halves tell most through noise and ranks say most of how
    two attributes rise; these are in between. Codes outside of an order have 0. An attribute of two codes
    has -1 and 1 in either order.

    Args:
        shares: Its one-way, shape [codes].
        ordered: How many of its leading codes stand in order.
    """
    scores = np.zeros(len(shares), np.int64)
    both = find_two_codes(shares, ordered)
    if both is not None:
        scores[list(both)] = -SCORE_STEPS, SCORE_STEPS
    elif ordered >= 2:
        ranks = mid_ranks(shares[:ordered])
        scores[:ordered] = np.rint(SCORE_STEPS * np.clip(4.0 * ranks - 2.0, -1.0, 1.0))
    return scores


def find_two_codes(shares: Floats, ordered: int) -> tuple[int, int] | None:
    """The two codes that an attribute without a longer order nearly always has, the lower first; None where
    there are more.

    Args:
        shares: Its one-way, shape [codes].
        ordered: How many of its leading codes stand in order.
    """
    if len(shares) < 2 or ordered > 2:
        return None
    one, two = sorted(np.argsort(-shares, kind="stable")[:2].tolist())
    return (one, two) if shares[one] + shares[two] >= (1.0 - MAX_OTHERS) * shares.sum() else None


def _variance(shares: Floats, scores: Floats) -> float:
    """Variance of the scores under a one-way."""
    return float(shares @ scores**2 - (shares @ scores) ** 2)


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
    rho: Fraction,
    target: str | None = None,
) -> list[Clique]:
    """So many pairs, drawn one after another by how far they are from the product of their one-ways.

    The score is the L1 distance, less what noise on the one-ways and chance explain of it and NOISE_LEFT of
    the noise that the pair would get. A target's pairs have every other draw for themselves.

    **Privacy.** `count` draws by the exponential mechanism (`margrave.measure.mechanisms.choose`), which cost
    rho together. What is not a draw looks at releases and settings only.

    Args:
        curator: The door.
        pairs: Those that may be drawn, at least `count`.
        count: How many.
        ways: What the released one-ways say.
        sigma: Noise of a cell, in rows, that a pair would get.
        rho: What it costs.
        target: An attribute that rows are meant to predict.
    """
    tables = {pair: ways.product(pair) for pair in pairs}
    # In the units of the score, which is an L1 distance in rows.
    less = {
        pair: 2.0 * ways.rows * (ways.apart(pair) + NOISE_LEFT * ways.noise(pair, sigma)) for pair in pairs
    }
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
) -> dict[Clique, float]:
    """The pairs worth buying, and the share of all precision that each is to get; they add up to 1.

    With them the sum of what pairs are foretold to be off by is least. A pair of dependence R and share w is
    off by R m / sqrt(w R^2 + m^2), where m is `worth` of the noise that it would have if it got everything
    (`foretell_error`). The derivatives agree at w = k m^(2/3) - (m / R)^2, so that pairs are taken in the
    order of R^2 / m^(4/3) as long as that is above 1 / k; k is what makes the shares add up to 1. At least
    one is taken.

    Pairs of a target mostly have few cells, and are bought for what they tell of the target and not for
    their total variation. In place of m^(2/3) they have its mean over all pairs, times R over the mean R of
    the target's pairs, so that what decides the target is known best. All are taken, with at least
    MIN_TARGET_SHARE of what that mean would give them if they depended without doubt, since many weak ones
    tell much together.

    Args:
        found: Dependence of each pair.
        ways: What is known of the one-ways.
        sigma: Noise of a cell, in rows, if one pair got everything.
        worth: See above. More than a model leaves of the noise, as what is found may be noise itself.
        target: An attribute that rows are meant to predict.
    """
    noise = {pair: worth * ways.noise(pair, sigma) for pair in found}
    slopes = {pair: off ** (2.0 / 3.0) for pair, off in noise.items()}
    asked = float(np.mean(list(slopes.values())))
    told = {pair: apart for pair, apart in found.items() if target in pair}
    mean, least = math.fsum(told.values()) / max(len(told), 1), MIN_TARGET_SHARE * asked
    # Each pair's share rises with k from some k on, by a slope.
    rises: list[tuple[float, float, Clique]] = []
    for pair, apart in found.items():
        slope = slopes[pair]
        if pair in told:
            rises.append((0.0, least, pair))
            # The larger of the least share and its own is the least share, and more from where they cross.
            slope = (asked * apart / mean if mean else 0.0) - least
        if slope > 0.0:
            # A thousandth of the noise is as little as nothing, and keeps sums within what a number can hold.
            start = (noise[pair] / max(apart, 1e-3 * noise[pair])) ** 2 / slope
            rises.append((start, slope, pair))
    rises.sort(key=lambda rise: rise[0])
    whole, spent, level = 0.0, 1.0, math.inf
    for start, slope, _ in rises:
        if level <= start:
            break
        whole, spent = whole + slope, spent + slope * start
        level = spent / whole
    weights: dict[Clique, float] = {}
    for start, slope, pair in rises:
        if start < level:
            weights[pair] = weights.get(pair, 0.0) + slope * (level - start)
    return weights


def foretell_error(
    dependence: Mapping[Clique, float],
    weights: Mapping[Clique, float],
    ways: OneWays,
    off: Mapping[str, float],
    sigma: float,
) -> float:
    """The mean total variation that all pairs would be off by if some were bought.

    A model leaves NOISE_LEFT of a table's noise. So a pair of dependence R that is bought, with m left, is
    off by R m / sqrt(R^2 + m^2), which is the smaller of both, about; one that is not bought by R; and every
    pair by its one-ways besides, in squares.

    Args:
        dependence: R of each pair.
        weights: Of the pairs that would be bought, see `choose_pairs`.
        ways: What is known of the one-ways.
        off: Total variation by which noise would have moved each.
        sigma: Noise of a cell, in rows, if one pair got everything.
    """
    whole, errors = math.fsum(weights.values()), []
    for (a, b), apart in dependence.items():
        left = apart**2
        if left and (a, b) in weights:
            noise = (NOISE_LEFT * ways.noise((a, b), sigma * math.sqrt(whole / weights[a, b]))) ** 2
            # Two errors in series: what is smaller of the dependence and the noise decides.
            left *= noise / (left + noise)
        errors.append(math.sqrt(left + NOISE_LEFT**2 * (off[a] ** 2 + off[b] ** 2)))
    return float(np.mean(errors))


def buy_dependent_pairs(
    curator: Curator,
    weights: Mapping[Clique, float],
    dependence: Mapping[Clique, Dependence],
    ways: OneWays,
    on_step: OnStep,
    products: Mapping[Clique, RankProduct] | None = None,
) -> list[InferredMarginal]:
    """Spend all that is left of rho on some pairs, in proportion to their weights.

    Args:
        curator: Of the run.
        weights: Of the pairs to buy, see `choose_pairs`.
        dependence: What the appraisal found, of all pairs that may be bought.
        ways: What is known of the one-ways.
        on_step: Told what is measured.
        products: Rank products that were measured.

    Returns:
        What the appraisal says of the other pairs, see `independent_tables`, and the rank products.
    """
    on_step(Step("measure", f"{len(weights)} pairs by their dependence", 2, curator.progress))
    measure_shares(curator, apportion_rho(weights, curator.remaining))
    # Of a pair that was bought only the rank product is new: its table is known.
    known = products or {}
    others = [pair for pair in dependence if pair not in weights or pair in known]
    return [
        replace(table, product=known.get(table.clique))
        for table in independent_tables(curator, others, dependence, ways)
    ]


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
