"""Comparison: how far X'y and X'X of noisy tables, and of sums beside them, are from the model's.

What moves a model's estimates, see `margrave.regression.shrinkage`; intervals rest on unbiased residuals
alone (`margrave.regression.sums`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design, ModelTables
from margrave.regression.number_sums import NumberSums, Product, pool_nearer
from margrave.regression.sums import list_missing, pair_of
from margrave.release import MIN_RESIDUAL_DEVIATIONS, project_simplex
from margrave.schema.domain import Clique
from margrave.tables.estimates import PooledTables

Floats = NDArray[np.float64]

LEAST_KEPT = 1e-3
"""Share of a number's cells that weights leave at least, so that nothing is multiplied by more than 1,000."""


@dataclass(frozen=True, slots=True)
class Sharpened:
    """What tables of a feature and the target say of X'y once no cell is below 0; 0 where none was measured.

    Args:
        moved: How far X'y is to move from the model's, shape [p].
        variances: Of the noise of X'y if cells that turn out empty have none, shape [p].
        beyond: Whether the feature's table says more than the model, shape [p].
        explained: The largest share of the target's variance that the codes of one feature explain.
    """

    moved: Floats
    variances: Floats
    beyond: NDArray[np.bool_]
    explained: float = 0.0


@dataclass(frozen=True, slots=True)
class Differences:
    """How far X'y of noisy tables is from the model's, in two parts whose sum is the unbiased difference.

    Args:
        weighted: By cells that hold rows of the model, shape [p]; 0 where no table was measured.
        weighted_noise: Variances of its noise, shape [p].
        rest: What is left of the unbiased difference, shape [p].
        rest_noise: Variances of its noise, shape [p].
        shared_noise: Covariances of the noise of both, shape [p].
    """

    weighted: Floats
    weighted_noise: Floats
    rest: Floats
    rest_noise: Floats
    shared_noise: Floats


@dataclass(frozen=True, slots=True)
class Block:
    """How far X'X of noisy tables is from the model's, for one pair of features.

    Args:
        rows, columns: Places of the numbers of both among all.
        off: By cells that hold rows of the model, shape [numbers of one, of the other].
        noise: Variances of its noise, shape of `off`.
    """

    rows: slice
    columns: slice
    off: Floats
    noise: Floats


def _sum_weighted(
    off: Floats, own: Floats, spread: Floats, one: Floats, other: Floats
) -> tuple[Floats, Floats, Floats]:
    """Products of two columns' numbers, summed over how a table differs by cells that hold rows of the model.

    See `Comparison.compare`.

    Args:
        off: Measured less the model's table, shape [codes of one, of the other].
        own: The model's, shape of `off`.
        spread: Variances of the measured one's noise, shape of `off`.
        one: Numbers of the first column, shape [p, codes].
        other: Of the second, turned: shape [codes, q].

    Returns:
        The sums, the variances of their noise, and its covariances with the noise of the plain sums: all of
        shape [p, q].
    """
    first, second, inside = one**2, other**2, np.maximum(own, 0.0)
    weights = inside / np.maximum(inside + np.sqrt(spread), 1e-300)
    whole = np.maximum(first @ inside @ second, 1e-300)
    kept = np.maximum(first @ (weights * inside) @ second / whole, LEAST_KEPT)
    return (
        one @ (weights * off) @ other / kept,
        first @ (weights**2 * spread) @ second / kept**2,
        first @ (weights * spread) @ second / kept,
    )


def _explain(shares: Floats, labels: Floats) -> float:
    """The share of the labels' variance between the lines of a distribution, shape [codes, labels]."""
    lines, mean = shares.sum(axis=1), float(shares.sum(axis=0) @ labels)
    whole = float(shares.sum(axis=0) @ labels**2) - mean**2
    sums = shares @ labels
    between = float((sums**2 / np.where(lines > 0.0, lines, 1.0)).sum()) - mean**2
    return between / whole if whole > 0.0 else 0.0


class Comparison:
    """What was measured against the model.

    Args:
        design: Target and features.
        tables: The release's noisy tables.
        model: Fitted to the release.
        beside: Sums of products that were measured beside tables; None for none.
    """

    def __init__(
        self, design: Design, tables: PooledTables, model: ModelTables, beside: NumberSums | None
    ) -> None:
        self.design, self.model = design, model
        self._tables, self.beside = tables, beside

    @cached_property
    def missing_pairs(self) -> tuple[Clique, ...]:
        """Pairs of columns that no noisy table holds, those with the target first."""
        return list_missing(self.design, self._tables)

    def sharpen(self) -> Sharpened:
        """What tables that are not below 0 say of X'y beyond the model; of pairs that were measured.

        Linear functions of noisy tables do not know that no cell is below 0. Where most cells of a feature
        and the target are empty, as where one determines the other, the distribution P that is nearest to the
        noisy table T has a fraction of its noise. The estimate is M + a (P - M) with the model's table M and,
        cells being counted in units of their noise, a = ((T - M)'(P - M) - (cells of P above 0, less 1)) /
        |P - M|^2 between 0 and 1. It makes an unbiased estimate of the squared error least (Stein 1981) for a
        given M; a model that was fitted to T looks nearer to it than it is, so that a is rather too small.
        The gain has to be above 0 by MIN_RESIDUAL_DEVIATIONS standard deviations of its noise, |P - M|.
        """
        design, total = self.design, max(float(self.model.total), 1.0)
        found = Sharpened(np.zeros(design.size), np.zeros(design.size), np.zeros(design.size, dtype=np.bool_))
        if design.others or design.target in design.names:
            return found  # no table is of the target alone
        held = [j for j, name in enumerate(design.names) if self._tables.holds((name, design.target))]
        cliques: list[Clique] = [(design.names[j], design.target) for j in held]
        explained = 0.0
        for j, clique, own in zip(held, cliques, self.model.project_many(cliques), strict=True):
            measured, spread = self._tables.table(clique), self._tables.variances(clique)
            nearest = project_simplex(measured.ravel() / total, spread.ravel() / total**2)
            explained = max(explained, _explain(nearest.reshape(own.shape), design.labels))
            inside = (nearest > 0.0).reshape(own.shape)
            apart = total * nearest.reshape(own.shape) - own
            gain = float(((measured - own) * apart / spread).sum()) - (float(inside.sum()) - 1.0)
            square = float((apart**2 / spread).sum())
            part = min(gain / square, 1.0) if gain > MIN_RESIDUAL_DEVIATIONS * math.sqrt(square) else 0.0
            at, matrix = design.places(j), design.matrices[j]
            found.moved[at] = part * (matrix @ (apart @ design.labels))
            found.variances[at] = matrix**2 @ (np.where(inside, spread, 0.0) @ design.labels**2)
            found.beyond[at] = part > 0.0
        return replace(found, explained=explained)

    def compare(self) -> Differences:
        """How far X'y of noisy tables is from the model's, first by cells that hold rows of the model.

        X'y sums numbers a b of a feature's and the target's codes over all cells of their table, most of
        which hold hardly a row and as much noise as any other. So with the model's M and the measured T a
        cell's difference T - M counts by w = M / (M + its noise's standard deviation) first. What this takes
        away is given back for a model whose cells are wrong in proportion to M a b, as they are, to first
        order, where it has the association of both columns too weak or too strong: the sum is divided by
        that of w M (a b)^2 over that of M (a b)^2. A number of which this has more noise than the plain sum
        has the plain sum.
        """
        found = Differences(*np.zeros((5, self.design.size)))
        for part, labels in self.design.parts:
            self._compare_part(found, part, labels)
        return found

    def add_sums(self, found: Differences) -> None:
        """Pool sums of products that were measured beside the tables with what `compare` found, in place.

        Each is pooled with the plain sum of its table, which like it has no bias, or with the weighted one
        where that leaves less noise.
        """
        for product in () if self.beside is None else self.beside.of_target():
            at = product.places[0]
            some = found.weighted[at], found.weighted_noise[at]
            noise = some[1] + found.rest_noise[at] + 2.0 * found.shared_noise[at]
            pooled = pool_nearer(some, (some[0] + found.rest[at], noise), product)
            found.weighted[at], found.weighted_noise[at] = pooled
            found.rest[at] = found.rest_noise[at] = found.shared_noise[at] = 0.0

    def _compare_part(self, found: Differences, part: str, labels: Floats) -> None:
        """Add what one column of the target makes of the differences."""
        design = self.design
        if self._tables.holds((part,)):
            found.weighted[0] += (self._tables.table((part,)) - self.model.project((part,))) @ labels
            found.weighted_noise[0] += self._tables.variances((part,)) @ labels**2
        held = [j for j, name in enumerate(design.names) if self._tables.holds(pair_of(name, part))]
        cliques: list[Clique] = [pair_of(design.names[j], part) for j in held]
        for j, clique, own in zip(held, cliques, self.model.project_many(cliques), strict=True):
            at, matrix, spread = design.places(j), design.matrices[j], self._tables.variances(clique)
            off = self._tables.table(clique) - own
            if len(clique) == 1:
                off, own, spread = np.diag(off), np.diag(own), np.diag(spread)
            plain, noise = matrix @ (off @ labels), matrix**2 @ (spread @ labels**2)
            some, own_noise, common = (
                part[:, 0] for part in _sum_weighted(off, own, spread, matrix, labels[:, None])
            )
            better = own_noise < noise
            found.weighted[at] += np.where(better, some, plain)
            found.weighted_noise[at] += np.where(better, own_noise, noise)
            found.rest[at] += np.where(better, plain - some, 0.0)
            found.rest_noise[at] += np.where(better, np.maximum(noise - 2.0 * common + own_noise, 0.0), 0.0)
            found.shared_noise[at] += np.where(better, common - own_noise, 0.0)

    def compare_features(self) -> list[Block]:
        """How far X'X of noisy tables is from the model's, by pairs of features that tables hold.

        Cells are weighted as in `compare`, with the numbers of both features in place of a and b.
        """
        design, found = self.design, []
        pairs = [
            (j, k)
            for j, k in combinations(range(len(design.names)), 2)
            if self._tables.holds((design.names[j], design.names[k]))
        ]
        cliques: list[Clique] = [(design.names[j], design.names[k]) for j, k in pairs]
        for (j, k), clique, own in zip(pairs, cliques, self.model.project_many(cliques), strict=True):
            one, other, spread = design.matrices[j], design.matrices[k].T, self._tables.variances(clique)
            off, noise = self._tables.table(clique) - own, one**2 @ spread @ other**2
            some, own_noise, _ = _sum_weighted(off, own, spread, one, other)
            plain, better = one @ off @ other, own_noise < noise
            block = Block(
                design.places(j),
                design.places(k),
                np.where(better, some, plain),
                np.where(better, own_noise, noise),
            )
            product = None if self.beside is None else self.beside.products.get(clique)
            if product is not None:
                # The first number of either feature is the one that was summed.
                known = (block.off[0, 0], block.noise[0, 0]), (plain[0, 0], noise[0, 0])
                block.off[0, 0], block.noise[0, 0] = pool_nearer(*known, product)
            found.append(block)
        return found

    def sums_alone(self) -> list[Product]:
        """Sums of pairs of features that no table holds."""
        known = {} if self.beside is None else self.beside.products
        return [known[pair] for pair in self.missing_pairs if pair in known and known[pair].places[1] >= 0]

    def square_deviations(self) -> Floats:
        """The standard deviation of the noise of the diagonal of X'X at levels, shape [p]; 0 for all else.

        That of tables of one column. A level of which there are hardly more rows than noise would make has
        one as large as its X'X. Of a number it says little: the noise of far codes, which few rows have,
        counts by the fourth power of how far they are, and a model, with no cell below 0, has far less.
        """
        design = self.design
        found = np.zeros(design.size)
        for j, (encoding, matrix) in enumerate(zip(design.encodings, design.matrices, strict=True)):
            if self._tables.holds((encoding.column,)):
                deviations = np.sqrt(matrix**4 @ self._tables.variances((encoding.column,)))
                found[design.places(j)] = np.where(
                    [bool(level) for level in encoding.levels], deviations, 0.0
                )
        return found

    def correction(self) -> Floats:
        """What noisy tables of one column say beyond the model's, in X'X: shape [p, p].

        Each cell's difference is shrunk by twice the part of its square that is noise (James and Stein 1961,
        positive part). Only products of numbers of the same column, and with the constant, are corrected.
        """
        design = self.design
        found = np.zeros((design.size, design.size))
        for j, (name, matrix) in enumerate(zip(design.names, design.matrices, strict=True)):
            off = self._tables.table((name,)) - self.model.project((name,))
            noise = 2.0 * self._tables.variances((name,))
            beyond = np.maximum(1.0 - noise / np.maximum(off**2, 1e-300), 0.0) * off
            at = design.places(j)
            found[0, at] = found[at, 0] = matrix @ beyond
            found[at, at] = (matrix * beyond) @ matrix.T
        return found
