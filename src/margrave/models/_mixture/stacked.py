"""Stacked: all one-way and pair measurements as one square table over the codes of all attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.pooling import Pooled
from margrave.models._mixture.constraint_blocks import ConstrainedTables, stack_constrained
from margrave.schema.domain import Domain

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StackedProducts:
    """Rank products of pairs (`margrave.release.RankProduct`), side by side.

    Args:
        scores: Of all attributes' codes, 0 for attributes that have none, shape [codes].
        values: Noisy means of products, symmetric, shape [attributes, attributes].
        weights: 1 / variance of each, 0 where unmeasured.
    """

    scores: Singles
    values: Singles
    weights: Singles


@dataclass(frozen=True, slots=True)
class Stacked:
    """Measured proportions and their precisions, the attributes' codes side by side.

    Args:
        starts: Where each attribute's codes begin, and their number at the end, shape [attributes + 1].
        ordered: Leading codes of each attribute that stand in order, shape [attributes].
        pairs: Noisy proportions of pairs, symmetric, 0 where unmeasured, shape [codes, codes].
        pair_weights: 1 / variance of each, 0 where unmeasured, and on the diagonal blocks.
        ones: Noisy proportions of single codes, shape [codes].
        one_weights: 1 / variance of each, 0 where unmeasured.
        inferred: Pairs that nobody measured but that are held to be about independent
            (`margrave.release.InferredMarginal`), shape [attributes, attributes], symmetric.
            Their `pairs` mean nothing: a model's table of them is compared with its own one-ways' product.
        tied: Attributes that rules tie together, with the measured pairs inside.
        products: Rank products that were measured by themselves; None for none.
    """

    starts: Longs
    ordered: Longs
    pairs: Singles
    pair_weights: Singles
    ones: Singles
    one_weights: Singles
    inferred: NDArray[np.bool_]
    tied: tuple[ConstrainedTables, ...] = ()
    products: StackedProducts | None = None

    @property
    def apart(self) -> Singles:
        """`pair_weights` without the pairs inside ties, shape [codes, codes]."""
        if not self.tied:
            return self.pair_weights
        weights: Singles = self.pair_weights.copy()
        for tables in self.tied:
            weights[np.ix_(tables.rows, tables.rows)] = 0.0
        return weights

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Which codes are of attributes that no rule ties to others, shape [codes]."""
        found: NDArray[np.bool_] = np.ones(self.codes, dtype=np.bool_)
        for tables in self.tied:
            found[tables.rows] = False
        return found

    @property
    def codes(self) -> int:
        """Codes of all attributes together."""
        return int(self.starts[-1])

    @property
    def attributes(self) -> int:
        """Number of attributes."""
        return len(self.starts) - 1

    def one_way(self, place: int) -> Floats:
        """Noisy proportions of an attribute's codes: measured themselves, else summed out of its first
        measured pair; all alike where it has neither, so that they need not sum to 1."""
        part = slice(self.starts[place], self.starts[place + 1])
        if self.one_weights[part].any():
            return self.ones[part].astype(np.float64)
        for start, end in pairwise(self.starts.tolist()):
            if self.pair_weights[part, start:end].any():
                return np.asarray(self.pairs[part, start:end].sum(axis=1, dtype=np.float64))
        return np.ones(part.stop - part.start)


def stack(domain: Domain, tables: Sequence[Pooled], rows: float) -> Stacked:
    """The measurements in proportions of `rows`.

    A table of three or more attributes counts through its pairs: each is its sum over the others, with the
    variances added up. What overlapping tables say of one pair is pooled by precision.
    """
    starts = np.cumsum([0, *domain.sizes])
    codes = int(starts[-1])
    pairs, weights = np.zeros((codes, codes), np.float64), np.zeros((codes, codes), np.float64)
    ones, one_weights = np.zeros(codes), np.zeros(codes)
    ruled = set() if domain.rules is None else set(domain.rules.names)
    # An inferred pair says independent, which rules that tie both attributes know better.
    tables = [table for table in tables if not (table.inferred and ruled.issuperset(table.clique))]
    for table in tables:
        at = [slice(starts[i], starts[i + 1]) for i in map(domain.index, table.clique)]
        if len(at) == 1:
            weight = (rows / table.sigma) ** 2
            ones[at[0]] += weight * (table.values / rows)
            one_weights[at[0]] += weight
            continue
        for a, b in combinations(range(len(at)), 2):
            others = tuple(axis for axis in range(len(at)) if axis not in (a, b))
            # A pair out of a larger table adds up noise of all cells that are summed over.
            weight = rows**2 / (table.sigma**2).sum(axis=others)
            pairs[at[a], at[b]] += weight * (table.values.sum(axis=others) / rows)
            weights[at[a], at[b]] += weight
    # The sums of value times precision become means weighted by precision.
    for values, precision in ((pairs, weights), (ones, one_weights)):
        np.divide(values, precision, out=values, where=precision > 0)
    # Each pair was filled in on one side of the diagonal only.
    pairs, weights = pairs + pairs.T, weights + weights.T
    tied = stack_constrained(domain, starts, pairs, weights, one_weights)
    return Stacked(
        starts,
        np.asarray(domain.ordered, dtype=np.int64),
        pairs.astype(np.float32),
        weights.astype(np.float32),
        ones.astype(np.float32),
        one_weights.astype(np.float32),
        _find_inferred(domain, tables),
        tied,
        _stack_products(domain, starts, tables),
    )


def _find_inferred(domain: Domain, tables: Sequence[Pooled]) -> NDArray[np.bool_]:
    """Which pairs of attributes were inferred, shape [attributes, attributes]."""
    found = np.zeros((len(domain), len(domain)), np.bool_)
    for table in tables:
        if table.inferred:
            i, j = map(domain.index, table.clique)
            found[i, j] = found[j, i] = True
    return found


def _stack_products(domain: Domain, starts: Longs, tables: Sequence[Pooled]) -> StackedProducts | None:
    """The rank products that come with tables of two attributes, but for those that rules tie together.

    Inside of a constraint block a pair is not what its attributes' shares in the components say.
    """
    ruled = set() if domain.rules is None else set(domain.rules.names)
    known = [
        (table.clique, table.product)
        for table in tables
        if table.product is not None and not ruled.issuperset(table.clique)
    ]
    if not known:
        return None
    scores = np.zeros(int(starts[-1]), np.float32)
    values, weights = np.zeros((2, len(domain), len(domain)), np.float32)
    for clique, product in known:
        i, j = map(domain.index, clique)
        # An attribute has the same scores in all of its pairs.
        for place, own in zip((i, j), product.scores, strict=True):
            scores[starts[place] : starts[place + 1]] = own
        values[i, j] = values[j, i] = product.value
        weights[i, j] = weights[j, i] = product.sigma**-2.0
    return StackedProducts(scores, values, weights)
