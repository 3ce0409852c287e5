"""Sums: X'X and X'y from the model's tables, and the same from noisy tables with the covariance of their
noise.

All are sums over the cells of tables of one or two columns: with A_j the numbers of column j's codes and
T_jk the table of columns j and k, X'X has the blocks A_j T_jk A_k', and A_j diag(T_j) A_j' on its diagonal
(Ferrando and Sheldon 2025, Algorithm 1); X'y is the same with the target's numbers in place of A_k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design, ModelTables
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
    """

    moved: Floats
    variances: Floats
    beyond: NDArray[np.bool_]


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


class Sums(Protocol):
    """Residuals b - G gamma of what was measured, unbiased and with a noise whose covariance is known."""

    @property
    def missing_pairs(self) -> tuple[Clique, ...]:
        """Pairs of columns that were not measured, those with the target first."""

    @property
    def complete(self) -> bool:
        """Whether all pairs were measured, and no row is left out for want of a target."""

    def residual(self, gamma: Floats, labelled: bool = True) -> tuple[Floats, Floats]:
        """b - G gamma, shape [p], without b where `labelled` is not; and the covariance of its noise."""

    def residual_variances(self, gamma: Floats) -> Floats:
        """The diagonal of the covariance of a residual's noise, shape [p]."""


def model_sums(design: Design, model: ModelTables) -> tuple[Floats, Floats]:
    """X'y with the centred labels, shape [p], and X'X, shape [p, p], of the model's tables.

    Where rows without a target are left out, X'X still has all rows; see `likelihood.fit_model`.
    """
    names = design.names
    pairs = list(combinations(range(len(names)), 2))
    cliques: list[Clique] = [(name,) for name in names]
    cliques += [(names[j], names[k]) for j, k in pairs]
    cliques += [_pair(name, part) for part, _ in design.parts for name in names]
    first, *tables = model.project_many([(design.target,), *cliques])
    ways, joint = tables[: len(names)], tables[len(names) : len(names) + len(pairs)]
    crossed = np.zeros((design.size, design.size))
    crossed[0, 0] = float(first.sum())
    for j, table in enumerate(ways):
        matrix, at = design.matrices[j], design.places(j)
        crossed[0, at] = crossed[at, 0] = matrix @ table
        crossed[at, at] = (matrix * table) @ matrix.T
    for (j, k), table in zip(pairs, joint, strict=True):
        block = design.matrices[j] @ table @ design.matrices[k].T
        crossed[design.places(j), design.places(k)] = block
        crossed[design.places(k), design.places(j)] = block.T
    with_target = np.zeros(design.size)
    for part, labels in design.parts:
        with_target[0] += model.project((part,)) @ labels
        for j, name in enumerate(names):
            with_target[design.places(j)] += design.matrices[j] @ sum_labels(
                model.project(_pair(name, part)), labels
            )
    return with_target, crossed


def _pair(name: str, other: str) -> Clique:
    """The columns of a table of two, which may be the same one."""
    return (name,) if name == other else (name, other)


def sum_labels(table: Floats, labels: Floats) -> Floats:
    """Sums of labels over the rows of each code of a column: shape [codes].

    Args:
        table: Of the column with another that has these labels, or of this one alone if it has them.
        labels: Shape [codes] of the other.
    """
    return np.asarray(table * labels if table.ndim == 1 else table @ labels)


def sum_squares(design: Design, model: ModelTables) -> float:
    """The sum over rows of the target's squares, by the model's tables."""
    return sum(
        float(left @ sum_labels(np.maximum(model.project(_pair(name, other)), 0.0), right))
        for name, left in design.parts
        for other, right in design.parts
    )


def label_means(design: Design, model: ModelTables) -> tuple[Floats, ...]:
    """The mean label, not centred, given each code of each feature: shape [codes] each.

    By the model's tables; that of all rows where the model has none of a code.
    """
    cliques: list[Clique] = [(name, design.target) for name in design.names]
    found = []
    for table in model.project_many(cliques):
        held = np.maximum(table, 0.0) * design.present
        rows = held.sum(axis=1)
        means = (held @ design.labels) / np.where(rows > 0.0, rows, 1.0)
        found.append(design.middle + means)
    return tuple(found)


def _sum_weighted(
    off: Floats, own: Floats, spread: Floats, one: Floats, other: Floats
) -> tuple[Floats, Floats, Floats]:
    """Products of two columns' numbers, summed over how a table differs by cells that hold rows of the model.

    See `MeasuredSums.compare`.

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


class MeasuredSums:
    """The residuals b - G gamma of noisy tables, where b is X'y and G is X'X.

    With gamma fixed they are linear in the tables, so that they are unbiased, and their noise is Gaussian
    with a covariance that is known exactly.

    All sums are over columns: the constant (0), the features (1 to J) and the target (J + 1; several where it
    is a sum of columns, which may be features as well), each with the numbers A_u of its codes. Column u's
    part of the residual is A_u applied to the sum over columns w of T_uw c_w, where c_w = -A_w'gamma_w for
    the constant and features, and the labels for the target. So one measured table M adds A_u (sum of its
    variances times F_u F_v, over all but columns u and v) A_v' to the
    covariance, where F_u = sum over w of c_w times the weight of M's cells in the pooled T_uw: arrays of the
    size of M, whatever the number of coefficients.

    Args:
        design: Target and features.
        tables: The release's noisy tables.
        public_rows: The number of rows where the adjacency makes it public; else None.
    """

    def __init__(self, design: Design, tables: PooledTables, public_rows: float | None) -> None:
        self._design = design
        self._tables = tables
        self._public_rows = public_rows
        self._columns = (None, *design.names, *(name for name, _ in design.parts))
        self._parts: list[_Part] | None = None

    @cached_property
    def missing_pairs(self) -> tuple[Clique, ...]:
        """Pairs of columns that no noisy table holds, those with the target first."""
        names = self._design.names
        wanted = [_pair(name, part) for part, _ in self._design.parts for name in names]
        wanted += combinations(names, 2)
        return tuple(pair for pair in dict.fromkeys(wanted) if not self._tables.holds(pair))

    @property
    def complete(self) -> bool:
        """Whether noisy tables hold all pairs, and no row is left out for want of a target."""
        return self._design.whole and not self.missing_pairs

    def quadratic(self, along: Floats) -> tuple[Floats, Floats]:
        """v'Gv for directions v, and the deviation of its noise. All pairs have to be held.

        Args:
            along: The directions, shape [p, directions].

        Returns:
            Both of shape [directions].
        """
        design = self._design
        scores = [along[:1].T, *(along[design.places(j)].T @ m for j, m in enumerate(design.matrices))]
        value = np.zeros(along.shape[1])
        for u, left in enumerate(scores):
            for w in range(u, len(scores)):
                table = self._pooled(u, w)
                if u == w or u == 0:
                    value += (1 + (u < w)) * (left * scores[w]) @ table.reshape(-1)
                else:
                    value += 2.0 * ((left @ table) * scores[w]).sum(axis=1)
        variance = np.zeros(along.shape[1])
        for part in self._noise_parts():
            field: Floats = np.zeros((along.shape[1], *part.variances.shape))
            for (u, w), weights in part.weights.items():
                if u <= w < len(scores):
                    factor = 1.0 if u == w else 2.0
                    field += factor * part.spread(scores[u], u) * part.spread(scores[w], w) * weights
            variance += (field**2).reshape(len(field), -1) @ part.variances.reshape(-1)
        return value, np.sqrt(variance)

    def residual(self, gamma: Floats, labelled: bool = True) -> tuple[Floats, Floats]:
        """b - G gamma, shape [p], and the covariance of its noise, shape [p, p]. All pairs have to be held.

        Args:
            gamma: Shape [p].
            labelled: Whether b is in it; without, it is -G gamma.
        """
        scores = self._scores(gamma, labelled)
        return self._sum(scores), self._covariance(scores)

    def residual_variances(self, gamma: Floats) -> Floats:
        """The diagonal of the covariance of a residual's noise, shape [p]: far sooner than all of it."""
        return self._variances(self._scores(gamma, True))

    def label_sums(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """b, shape [p]; the variances of its noise, shape [p]; and which of it noisy tables hold."""
        design = self._design
        scores = self._scores(np.zeros(design.size), True)
        known = np.zeros(design.size, dtype=np.bool_)
        parts = [part for part, _ in design.parts]
        known[0] = all(self._tables.holds((part,)) for part in parts)
        for j, name in enumerate(design.names):
            known[design.places(j)] = all(self._tables.holds(_pair(name, part)) for part in parts)
        return self._sum(scores), self._variances(scores), known

    def sharpen(self, model: ModelTables) -> Sharpened:
        """What tables that are not below 0 say of X'y beyond the model; of pairs that were measured.

        Linear functions of noisy tables do not know that no cell is below 0. Where most cells of a feature
        and the target are empty, as where one determines the other, the distribution P that is nearest to the
        noisy table T has a fraction of its noise. The estimate is M + a (P - M) with the model's table M and,
        cells being counted in units of their noise, a = ((T - M)'(P - M) - (cells of P above 0, less 1)) /
        |P - M|^2 between 0 and 1. It makes an unbiased estimate of the squared error least (Stein 1981) for a
        given M; a model that was fitted to T looks nearer to it than it is, so that a is rather too small.
        The gain has to be above 0 by MIN_RESIDUAL_DEVIATIONS standard deviations of its noise, |P - M|.

        Args:
            model: Fitted to the release.
        """
        design, total = self._design, max(float(model.total), 1.0)
        found = Sharpened(np.zeros(design.size), np.zeros(design.size), np.zeros(design.size, dtype=np.bool_))
        if design.others or design.target in design.names:
            return found  # no table is of the target alone
        held = [j for j, name in enumerate(design.names) if self._tables.holds((name, design.target))]
        cliques: list[Clique] = [(design.names[j], design.target) for j in held]
        for j, clique, own in zip(held, cliques, model.project_many(cliques), strict=True):
            measured, spread = self._tables.table(clique), self._tables.variances(clique)
            nearest = project_simplex(measured.ravel() / total, spread.ravel() / total**2)
            inside = (nearest > 0.0).reshape(own.shape)
            apart = total * nearest.reshape(own.shape) - own
            gain = float(((measured - own) * apart / spread).sum()) - (float(inside.sum()) - 1.0)
            square = float((apart**2 / spread).sum())
            part = min(gain / square, 1.0) if gain > MIN_RESIDUAL_DEVIATIONS * math.sqrt(square) else 0.0
            at, matrix = design.places(j), design.matrices[j]
            found.moved[at] = part * (matrix @ (apart @ design.labels))
            found.variances[at] = matrix**2 @ (np.where(inside, spread, 0.0) @ design.labels**2)
            found.beyond[at] = part > 0.0
        return found

    def compare(self, model: ModelTables) -> Differences:
        """How far X'y of noisy tables is from the model's, first by cells that hold rows of the model.

        X'y sums numbers a b of a feature's and the target's codes over all cells of their table, most of
        which hold hardly a row and as much noise as any other. So with the model's M and the measured T a
        cell's difference T - M counts by w = M / (M + its noise's standard deviation) first. What this takes
        away is given back for a model whose cells are wrong in proportion to M a b, as they are, to first
        order, where it has the association of both columns too weak or too strong: the sum is divided by
        that of w M (a b)^2 over that of M (a b)^2. A number of which this has more noise than the plain sum
        has the plain sum.

        Args:
            model: Fitted to the release.
        """
        found = Differences(*np.zeros((5, self._design.size)))
        for part, labels in self._design.parts:
            self._compare_part(found, model, part, labels)
        return found

    def _compare_part(self, found: Differences, model: ModelTables, part: str, labels: Floats) -> None:
        """Add what one column of the target makes of the differences."""
        design = self._design
        if self._tables.holds((part,)):
            found.weighted[0] += (self._tables.table((part,)) - model.project((part,))) @ labels
            found.weighted_noise[0] += self._tables.variances((part,)) @ labels**2
        held = [j for j, name in enumerate(design.names) if self._tables.holds(_pair(name, part))]
        cliques: list[Clique] = [_pair(design.names[j], part) for j in held]
        for j, clique, own in zip(held, cliques, model.project_many(cliques), strict=True):
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

    def compare_features(self, model: ModelTables) -> list[Block]:
        """How far X'X of noisy tables is from the model's, by pairs of features that tables hold.

        Cells are weighted as in `compare`, with the numbers of both features in place of a and b.

        Args:
            model: Fitted to the release.
        """
        design, found = self._design, []
        pairs = [
            (j, k)
            for j, k in combinations(range(len(design.names)), 2)
            if self._tables.holds((design.names[j], design.names[k]))
        ]
        cliques: list[Clique] = [(design.names[j], design.names[k]) for j, k in pairs]
        for (j, k), clique, own in zip(pairs, cliques, model.project_many(cliques), strict=True):
            one, other, spread = design.matrices[j], design.matrices[k].T, self._tables.variances(clique)
            off, noise = self._tables.table(clique) - own, one**2 @ spread @ other**2
            some, own_noise, _ = _sum_weighted(off, own, spread, one, other)
            some = np.where(own_noise < noise, some, one @ off @ other)
            found.append(Block(design.places(j), design.places(k), some, np.minimum(own_noise, noise)))
        return found

    def square_deviations(self) -> Floats:
        """The standard deviation of the noise of the diagonal of X'X at levels, shape [p]; 0 for all else.

        That of tables of one column. A level of which there are hardly more rows than noise would make has
        one as large as its X'X. Of a number it says little: the noise of far codes, which few rows have,
        counts by the fourth power of how far they are, and a model, with no cell below 0, has far less.
        """
        design = self._design
        found = np.zeros(design.size)
        for j, (encoding, matrix) in enumerate(zip(design.encodings, design.matrices, strict=True)):
            if self._tables.holds((encoding.column,)):
                deviations = np.sqrt(matrix**4 @ self._tables.variances((encoding.column,)))
                found[design.places(j)] = np.where(
                    [bool(level) for level in encoding.levels], deviations, 0.0
                )
        return found

    def correction(self, model: ModelTables) -> Floats:
        """What noisy tables of one column say beyond the model's, in X'X: shape [p, p].

        Each cell's difference is shrunk by twice the part of its square that is noise (James and Stein 1961,
        positive part). Only products of numbers of the same column, and with the constant, are corrected.
        """
        design = self._design
        found = np.zeros((design.size, design.size))
        for j, (name, matrix) in enumerate(zip(design.names, design.matrices, strict=True)):
            off = self._tables.table((name,)) - model.project((name,))
            noise = 2.0 * self._tables.variances((name,))
            beyond = np.maximum(1.0 - noise / np.maximum(off**2, 1e-300), 0.0) * off
            at = design.places(j)
            found[0, at] = found[at, 0] = matrix @ beyond
            found[at, at] = (matrix * beyond) @ matrix.T
        return found

    def _rows(self) -> list[tuple[slice, Floats]]:
        """Places of the constant's and of each feature's numbers, and the numbers of its codes."""
        design = self._design
        return [
            (slice(0, 1), np.ones((1, 1))),
            *((design.places(j), matrix) for j, matrix in enumerate(design.matrices)),
        ]

    def _clique(self, u: int, w: int) -> Clique:
        """The columns of T_uw; the constant is in every table."""
        one, two = self._columns[u], self._columns[w]
        if one is None or two is None:
            return tuple(name for name in (one or two,) if name is not None)
        return _pair(one, two)

    def _held(self, u: int, w: int) -> bool:
        return self._tables.holds(self._clique(u, w))

    def _pooled(self, u: int, w: int) -> Floats:
        """T_uw, shape [codes of u, codes of w]; of one column where both are it or one is the constant."""
        if u == w == 0 and self._public_rows is not None:
            return np.asarray([self._public_rows])
        table = self._tables.table(self._clique(u, w))
        return table.reshape(1) if u == w == 0 else table

    def _noise_parts(self) -> list[_Part]:
        """What each measured table adds to sums, worked out once."""
        if self._parts is None:
            places = range(len(self._tables.measurements))
            self._parts = [part for place in places if (part := self._part(place)).weights]
        return self._parts

    def _part(self, place: int) -> _Part:
        measured = self._tables.measurements[place]
        inside = {name: axis for axis, name in enumerate(measured.clique)}
        columns = {u: inside[name] for u, name in enumerate(self._columns) if name in inside}
        sizes = measured.values.shape
        shapes = {
            u: tuple(size if axis == held else 1 for axis, size in enumerate(sizes))
            for u, held in columns.items()
        }
        part = _Part(measured.sigmas**2, {0: (1,) * len(sizes)} | shapes, {}, {})
        known: dict[Clique, Floats] = {}
        for u, w in combinations_with_replacement((0, *sorted(columns)), 2):
            kept = list(dict.fromkeys(columns[column] for column in (u, w) if column))
            lost = tuple(axis for axis in range(len(sizes)) if axis not in kept)
            part.sides[u, w] = lost, len(kept) == 2 and kept[0] > kept[1]
            if u == w == 0 and self._public_rows is not None:
                continue
            clique = self._clique(u, w)
            if clique not in known:
                share = self._tables.shares(clique)[place]
                shape = tuple(1 if axis in lost else size for axis, size in enumerate(sizes))
                known[clique] = (share.T if part.sides[u, w][1] else share).reshape(shape)
            part.weights[u, w] = part.weights[w, u] = known[clique]
        return part

    def _scores(self, gamma: Floats, labelled: bool) -> list[Floats]:
        """c_w of each column w: shape [codes of w], or [1] for the constant."""
        design = self._design
        scores = [-gamma[:1], *(-gamma[design.places(j)] @ m for j, m in enumerate(design.matrices))]
        return [*scores, *(labels for _, labels in design.parts)] if labelled else scores

    def _sum(self, scores: Sequence[Floats]) -> Floats:
        """The residual with these c_w, shape [p]."""
        values = np.zeros(self._design.size)
        for u, (places, matrix) in enumerate(self._rows()):
            for w, score in enumerate(scores):
                if score.any() and self._held(u, w):
                    table = self._pooled(u, w)
                    crossed = sum_labels(table, score)
                    values[places] += matrix @ (crossed if u else crossed.sum(keepdims=True))
        return values

    def _fields(self, scores: Sequence[Floats]) -> Iterator[tuple[_Part, dict[int, Floats]]]:
        """The arrays F_u of each measured table, by u; see the class. An axis along which one is the same may
        have length 1."""
        last = 1 + len(self._design.names)
        used = {w for w, score in enumerate(scores) if score.any()}
        for part in self._noise_parts():
            fields: dict[int, Floats] = {}
            turned = {w: scores[w].reshape(shape) for w, shape in part.shapes.items() if w in used}
            for (u, w), weights in part.weights.items():
                if u < last and w in turned:
                    add = turned[w] * weights
                    fields[u] = fields[u] + add if u in fields else add
            yield part, fields

    def _variances(self, scores: Sequence[Floats]) -> Floats:
        """The diagonal of `_covariance`, shape [p]."""
        found, sums = np.zeros(self._design.size), dict[int, Floats]()
        for part, fields in self._fields(scores):
            for u, field in fields.items():
                sums[u] = sums.get(u, 0.0) + part.collapse(part.variances * field**2, u, u)
        rows = self._rows()
        for u, cells in sums.items():
            found[rows[u][0]] = rows[u][1] ** 2 @ cells
        return found

    def _covariance(self, scores: Sequence[Floats]) -> Floats:
        """The covariance of the noise of a residual with these c_w, shape [p, p]."""
        blocks = dict[tuple[int, int], Floats]()  # by codes, so that each is turned into numbers once
        for part, fields in self._fields(scores):
            for u, left in fields.items():
                weighted = part.variances * left
                for w, right in fields.items():
                    if u <= w:
                        blocks[u, w] = blocks.get((u, w), 0.0) + part.collapse(weighted * right, u, w)
        found, rows = np.zeros((self._design.size, self._design.size)), self._rows()
        for (u, w), cells in blocks.items():
            (above, left), (beside, right) = rows[u], rows[w]
            found[above, beside] = (left * cells if u == w else left @ np.atleast_2d(cells)) @ right.T
        return np.asarray(np.triu(found) + np.triu(found, 1).T)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one measured table adds to sums.

    Args:
        variances: Of its cells, shape of the table.
        shapes: Of numbers of a column's codes along the table's axes, by the column's index.
        weights: Of its cells in the pooled T_uw, by (u, w), with one axis an attribute of the table.
        sides: By (u, w) with u <= w, the axes of other columns, and whether w's axis comes first.
    """

    variances: Floats
    shapes: dict[int, tuple[int, ...]]
    weights: dict[tuple[int, int], Floats]
    sides: dict[tuple[int, int], tuple[tuple[int, ...], bool]]

    def spread(self, scores: Floats, column: int) -> Floats:
        """Numbers of a column's codes, [n, codes], along the table's axes: [n, 1 or codes of each]."""
        return scores.reshape(len(scores), *self.shapes[column])

    def collapse(self, cells: Floats, u: int, w: int) -> Floats:
        """Sums over all but the columns u and w, u <= w: shape [codes of u, codes of w].

        Or [codes of w] where they are the same or u is the constant, [1] where both are.
        """
        lost, turn = self.sides[u, w]
        summed = np.asarray(np.add.reduce(cells, axis=lost) if lost else cells)
        return summed.reshape(1) if not summed.ndim else summed.T if turn else summed
