"""Sums: X'X and X'y from the model's tables, and the same from noisy tables with the covariance of their
noise.

All are sums over the cells of tables of one or two columns: with A_j the numbers of column j's codes and
T_jk the table of columns j and k, X'X has the blocks A_j T_jk A_k', and A_j diag(T_j) A_j' on its diagonal
(Ferrando and Sheldon 2025, Algorithm 1); X'y is the same with the target's numbers in place of A_k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design
from margrave.schema.domain import Clique
from margrave.tables.functionals import PooledTables, Term

if TYPE_CHECKING:
    from margrave.protocols import Model

__all__ = ["MeasuredSums", "model_sums"]


Floats = NDArray[np.float64]


def model_sums(design: Design, model: Model) -> tuple[Floats, Floats]:
    """X'y with the centred labels, shape [p], and X'X, shape [p, p], of the model's tables.

    Where rows without a target are left out, X'X still has all rows; see `likelihood.fit_model`.
    """
    names = design.names
    pairs = list(combinations(range(len(names)), 2))
    cliques: list[Clique] = [(name,) for name in names]
    cliques += [(names[j], names[k]) for j, k in pairs] + [(name, design.target) for name in names]
    tables = model.project_many([(design.target,), *cliques])
    first, ways, joint, labelled = _split(tables, len(names), len(pairs))
    crossed = np.zeros((design.size, design.size))
    crossed[0, 0] = float(first.sum())
    for j, table in enumerate(ways):
        matrix, at = design.matrices[j], design.places(j)
        crossed[0, at] = crossed[at, 0] = matrix @ table
        crossed[np.ix_(at, at)] = (matrix * table) @ matrix.T
    for (j, k), table in zip(pairs, joint, strict=True):
        block = design.matrices[j] @ table @ design.matrices[k].T
        crossed[np.ix_(design.places(j), design.places(k))] = block
        crossed[np.ix_(design.places(k), design.places(j))] = block.T
    with_target = np.zeros(design.size)
    with_target[0] = first @ design.labels
    for j, table in enumerate(labelled):
        with_target[design.places(j)] = design.matrices[j] @ (table @ design.labels)
    return with_target, crossed


def _split(
    tables: Sequence[Floats], ways: int, pairs: int
) -> tuple[Floats, Sequence[Floats], Sequence[Floats], Sequence[Floats]]:
    rest = tables[1:]
    return tables[0], rest[:ways], rest[ways : ways + pairs], rest[ways + pairs :]


class MeasuredSums:
    """The residuals b - G gamma of noisy tables, where b is X'y and G is X'X.

    With gamma fixed they are linear in the tables, so that they are unbiased, and their noise is Gaussian
    with a covariance that is known exactly.

    Args:
        design: Target and features.
        tables: The release's noisy tables.
        public_rows: The number of rows where the adjacency makes it public; else None.
    """

    def __init__(self, design: Design, tables: PooledTables, public_rows: float | None) -> None:
        self._design = design
        self._tables = tables
        self._public_rows = public_rows

    @property
    def missing_pairs(self) -> tuple[Clique, ...]:
        """Pairs of columns that no noisy table holds, those with the target first."""
        names, target = self._design.names, self._design.target
        wanted = [(name, target) for name in names] + list(combinations(names, 2))
        return tuple(pair for pair in wanted if not self._tables.holds(pair))

    @property
    def complete(self) -> bool:
        """Whether noisy tables hold all pairs, and no row is left out for want of a target."""
        return self._design.whole and not self.missing_pairs

    def quadratic(self, along: Floats) -> tuple[float, float]:
        """v'Gv for a direction v, shape [p], and the deviation of its noise. All pairs have to be held."""
        design, place = self._design, np.zeros(1, dtype=np.int64)
        scores = [along[design.places(j)] @ matrix for j, matrix in enumerate(design.matrices)]
        terms = []
        if self._public_rows is None:
            terms.append(Term((), place, np.full(1, along[0] ** 2)))
        for name, one in zip(design.names, scores, strict=True):
            terms.append(Term((name,), place, (one * (2.0 * along[0] + one))[None, :]))
        for j, k in combinations(range(len(scores)), 2):
            weights = 2.0 * np.multiply.outer(scores[j], scores[k])
            terms.append(Term((design.names[j], design.names[k]), place, weights[None, :, :]))
        value = float(self._tables.values(terms, 1)[0])
        if self._public_rows is not None:
            value += float(along[0] ** 2) * self._public_rows
        return value, math.sqrt(float(self._tables.covariance(terms, 1)[0, 0]))

    def residual(self, gamma: Floats) -> tuple[Floats, Floats]:
        """b - G gamma, shape [p], and the covariance of its noise, shape [p, p]. All pairs have to be held.

        Args:
            gamma: Shape [p].
        """
        terms = self._crossed_terms(gamma) + self._label_terms(range(len(self._design.names)))
        size = self._design.size
        values = self._tables.values(terms, size)
        if self._public_rows is not None:
            values[0] -= gamma[0] * self._public_rows
        return values, self._tables.covariance(terms, size)

    def labelled(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """b, shape [p]; the covariance of its noise, shape [p, p]; and which of it noisy tables hold."""
        design = self._design
        held = [j for j, name in enumerate(design.names) if self._tables.holds((name, design.target))]
        known = np.zeros(design.size, dtype=np.bool_)
        known[0] = self._tables.holds((design.target,))
        for j in held:
            known[design.places(j)] = True
        terms = self._label_terms(held) if known[0] else []
        size = design.size
        return self._tables.values(terms, size), self._tables.covariance(terms, size), known

    def _label_terms(self, features: Sequence[int]) -> list[Term]:
        design = self._design
        terms = [Term((design.target,), np.zeros(1, dtype=np.int64), design.labels[None, :])]
        for j in features:
            weights = design.matrices[j][:, :, None] * design.labels
            terms.append(Term((design.names[j], design.target), design.places(j), weights))
        return terms

    def _crossed_terms(self, gamma: Floats) -> list[Term]:
        """-G gamma."""
        design, terms = self._design, []
        first = np.zeros(1, dtype=np.int64)
        if self._public_rows is None:
            terms.append(Term((), first, np.full(1, -gamma[0])))
        scores = [gamma[design.places(j)] @ matrix for j, matrix in enumerate(design.matrices)]
        for j, name in enumerate(design.names):
            terms.append(Term((name,), first, -scores[j][None, :]))
            terms.append(Term((name,), design.places(j), -design.matrices[j] * (gamma[0] + scores[j])))
        for j, k in combinations(range(len(scores)), 2):
            pair = (design.names[j], design.names[k])
            left = -design.matrices[j][:, :, None] * scores[k]
            right = -scores[j][None, :, None] * design.matrices[k][:, None, :]
            terms.append(Term(pair, design.places(j), left))
            terms.append(Term(pair, design.places(k), right))
        return terms
