"""Screening: which pairs are worth buying where noise would hide most of them.

The noise of a pair is said as a total variation here: a table of c cells with noise of standard deviation s
in each, in proportions of the rows, is off by c s E|z| / 2 = c s / sqrt(2 pi) from the noise alone. Cells
that hold next to nothing do not count, since no table goes below 0: a pair has as many cells as the
perplexities of its one-ways, exp of their entropies, multiply to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.release import InferredMarginal
from margrave.schema.domain import Clique
from margrave.select.one_ways import released_one_ways

if TYPE_CHECKING:
    from fractions import Fraction

    from margrave.protocols import Curator

__all__ = [
    "OneWays",
    "appraisal_noise",
    "choose_pairs",
    "estimate_dependence",
    "independent_tables",
    "summarise_one_ways",
]

Floats = NDArray[np.float64]

SURE = 2.0
"""Standard deviations of noise that a code's share must exceed to count for an attribute's perplexity."""
VAGUE = 0.1
"""How far off the dependence that chance alone shows may be, over itself."""
CELL_DISTANCE = 1.0 / math.sqrt(2.0 * math.pi)
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

    def product(self, pair: Clique) -> Floats:
        """The pair's table in rows if its attributes were independent."""
        return self.rows * np.outer(self.shares[pair[0]], self.shares[pair[1]])

    def chance(self, pair: Clique) -> float:
        """Total variation from the product that a pair of independent attributes has by chance, about.

        Half of the mean absolute deviation of Poisson counts, over the rows.
        """
        counts = self.product(pair)
        few = 2.0 * counts * np.exp(-counts)  # exact below 1
        off = np.where(counts < 1.0, few, np.sqrt(2.0 * counts / math.pi))
        return 0.5 * float(off.sum()) / self.rows

    def noise(self, pair: Clique, sigma: float) -> float:
        """Total variation that noise of standard deviation `sigma`, in rows, adds to a pair's table."""
        return CELL_DISTANCE * self.codes[pair[0]] * self.codes[pair[1]] * sigma / self.rows


def summarise_one_ways(curator: Curator) -> OneWays:
    """Shares, noise, and perplexities of all attributes, from what is released."""
    shares, rows = released_one_ways(curator)
    off, codes = {}, {}
    for name, share in shares.items():
        found = [m for m in curator.measurements if m.clique == (name,)]
        sigma = sum(1.0 / float((m.sigmas**2).mean()) for m in found) ** -0.5 / rows
        clear = share > SURE * sigma
        # A share cut at 0 is off on one side only.
        off[name] = CELL_DISTANCE * sigma * float(clear.sum() + 0.5 * (~clear).sum())
        held = share[clear] / share[clear].sum() if clear.any() else share[share > 0]
        codes[name] = math.exp(-float((held * np.log(held)).sum()))
    return OneWays(shares, off, codes, rows)


def appraisal_noise(curator: Curator, pairs: int, rows: float, rho: Fraction) -> float:
    """Standard deviation of the total variation that an appraisal of so many pairs for rho finds, foretold.

    An L1 distance is twice the total variation times the rows. Its noise is that of a marginal times the
    root of the number of pairs (`margrave.measure.appraise`); under replace_one it is a root of 2 larger
    still, which is left out.
    """
    return math.sqrt(pairs) * curator.sigma(rho) / (2.0 * rows)


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
        chance = ways.chance(pair)
        explained = ways.off[pair[0]] ** 2 + ways.off[pair[1]] ** 2 + chance**2
        apart = max(float(error), 0.0) / (2.0 * ways.rows)
        spread = noise + VAGUE * chance
        low, high = (math.sqrt(max(d**2 - explained, 0.0)) for d in (apart, apart + spread))
        found[pair] = Dependence(low, max(high - low, noise))
    return found


def choose_pairs(
    dependence: Mapping[Clique, Dependence],
    ways: OneWays,
    sigma: float,
    worth: float,
    target: str | None = None,
    emphasis: float = 1.0,
) -> dict[Clique, float]:
    """The pairs worth buying, and their weights, of which each is to get its part of all precision.

    A pair's weight is the root of its dependence R, so in a purchase of total weight W its noise is
    sigma sqrt(W / w) a cell. Pairs are taken while R exceeds `worth` times the total variation of that noise,
    which is in proportion to cells R^(-1/4), so in the order of R^(5/4) / cells. At least one is taken.

    Args:
        dependence: Of each pair.
        ways: What is known of the one-ways.
        sigma: Noise of a cell, in rows, if one pair got everything.
        worth: How much of the noise a dependence must exceed.
        target: An attribute whose pairs are taken in any case, as if as dependent as half the mean at least.
        emphasis: What the weights of the target's pairs are multiplied by.
    """
    found = {pair: one.distance for pair, one in dependence.items()}
    least = 0.5 * max(float(np.mean(list(found.values()))), 1e-6)
    weights = {pair: emphasis * math.sqrt(max(found[pair], least)) for pair in found if target in pair}
    whole = math.fsum(weights.values())
    alone = {pair: ways.noise(pair, sigma) for pair in found if pair not in weights}
    for pair in sorted(alone, key=lambda pair: -(found[pair] ** 1.25) / alone[pair]):
        weight = math.sqrt(max(found[pair], 1e-12))
        if weights and found[pair] <= worth * alone[pair] * math.sqrt((whole + weight) / weight):
            break
        weights[pair] = weight
        whole += weight
    return weights


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
    least = len(bought) / sum(1.0 / variance for variance in bought)
    tables = []
    for pair in pairs:
        found = dependence[pair]
        cells = ways.codes[pair[0]] * ways.codes[pair[1]]
        sigma = math.sqrt(least + (found.distance * ways.rows) ** 2 / cells)
        tables.append(InferredMarginal(pair, ways.product(pair), sigma, found.distance, found.uncertainty))
    return tables
