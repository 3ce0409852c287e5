"""Sums: X'X and X'y from the model's tables, and the same from noisy tables with the covariance of their
noise.

All are sums over the cells of tables of one or two columns: with A_j the numbers of column j's codes and
T_jk the table of columns j and k, X'X has the blocks A_j T_jk A_k', and A_j diag(T_j) A_j' on its diagonal
(Ferrando and Sheldon 2025, Algorithm 1); X'y is the same with the target's numbers in place of A_k.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design, ModelTables
from margrave.schema.domain import Clique
from margrave.tables.estimates import PooledTables

Floats = NDArray[np.float64]


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
    cliques += [pair_of(name, part) for part, _ in design.parts for name in names]
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
                model.project(pair_of(name, part)), labels
            )
    return with_target, crossed


def pair_of(name: str, other: str) -> Clique:
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
        float(left @ sum_labels(np.maximum(model.project(pair_of(name, other)), 0.0), right))
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


def list_missing(design: Design, tables: PooledTables) -> tuple[Clique, ...]:
    """Pairs of columns of a regression that no noisy table holds, those with the target first."""
    wanted = [pair_of(name, part) for part, _ in design.parts for name in design.names]
    wanted += combinations(design.names, 2)
    return tuple(pair for pair in dict.fromkeys(wanted) if not tables.holds(pair))


@dataclass(frozen=True, slots=True)
class TableSum:
    """A sum over rows of products of the numbers of two columns' codes.

    Args:
        u, w: The columns as `MeasuredSums` counts them, u below w: features from 1 on, and the target last.
        left, right: Numbers of their codes.
    """

    u: int
    w: int
    left: Floats
    right: Floats


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
        return list_missing(self._design, self._tables)

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

    def tell(self, products: Sequence[TableSum]) -> tuple[Floats, Floats]:
        """What tables say of sums of products, each of another pair, and the covariance of its noise.

        Returns:
            The sums, shape [products], and [products, products].
        """
        values = np.array([one.left @ self._pooled(one.u, one.w) @ one.right for one in products])
        spread, placed = np.zeros((len(products), len(products))), _place_products(products)
        for part in self._noise_parts():
            cells = part.spread_products(placed)
            for k, field in cells.items():
                noise = part.variances * field
                for also, second in cells.items():
                    spread[k, also] += float((noise * second).sum())
        return values, spread

    def relate(self, products: Sequence[TableSum], gamma: Floats, labelled: bool = True) -> Floats:
        """Covariances of a residual's noise with that of what `tell` tells: shape [p, products].

        Args:
            products: As of `tell`.
            gamma, labelled: Of the residual.
        """
        found, rows = np.zeros((self._design.size, len(products))), self._rows()
        placed = _place_products(products)
        for part, fields in self._fields(self._scores(gamma, labelled)):
            for k, field in part.spread_products(placed).items():
                noise = part.variances * field
                for u, other in fields.items():
                    found[rows[u][0], k] += rows[u][1] @ part.collapse(noise * other, u, u)
        return found

    def label_sums(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """b, shape [p]; the variances of its noise, shape [p]; and which of it noisy tables hold."""
        design = self._design
        scores = self._scores(np.zeros(design.size), True)
        known = np.zeros(design.size, dtype=np.bool_)
        parts = [part for part, _ in design.parts]
        known[0] = all(self._tables.holds((part,)) for part in parts)
        for j, name in enumerate(design.names):
            known[design.places(j)] = all(self._tables.holds(pair_of(name, part)) for part in parts)
        return self._sum(scores), self._variances(scores), known

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
        return pair_of(one, two)

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


def _place_products(products: Sequence[TableSum]) -> dict[tuple[int, int], tuple[int, TableSum]]:
    """The place of each sum, and the sum, by its columns."""
    return {(one.u, one.w): (k, one) for k, one in enumerate(products)}


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

    def spread_products(self, products: Mapping[tuple[int, int], tuple[int, TableSum]]) -> dict[int, Floats]:
        """What each cell counts for in the sums of products that the table tells, by their places.

        products: The place of each, and the sum, by its columns.
        """
        told = [(products[pair], weights) for pair, weights in self.weights.items() if pair in products]
        return {
            k: self.spread(one.left[None], one.u)[0] * self.spread(one.right[None], one.w)[0] * weights
            for (k, one), weights in told
        }

    def collapse(self, cells: Floats, u: int, w: int) -> Floats:
        """Sums over all but the columns u and w, u <= w: shape [codes of u, codes of w].

        Or [codes of w] where they are the same or u is the constant, [1] where both are.
        """
        lost, turn = self.sides[u, w]
        summed = np.asarray(np.add.reduce(cells, axis=lost) if lost else cells)
        return summed.reshape(1) if not summed.ndim else summed.T if turn else summed
