"""Moments: Z'Z that was measured at the door for one target, used beside noisy tables and the model.

A run may buy the sums over rows of all products of two of a row's numbers (`NoisySums`) before it buys
tables. With z the numbers that were summed and x = T z + d those of a regression, where d is what cutting z
to a few binary digits has left over, X'X is T Z'Z T' and a part with d in it that only the model can tell. So

    X'X  =  model's X'X + T (measured Z'Z - model's Z'Z) T',

and X'y likewise: unbiased but for d times what the model is wrong by. The noise of b - G gamma is T W a with
W the noise of Z'Z and a = t - T' gamma, t the numbers that make the target of z: its covariance is known
exactly (`margrave.regression.perturbed.residual_noise`). Noisy tables give the same residual with another
noise, independent of W, and the two are pooled by the inverse of their covariances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.regression.design import Design, ModelTables
from margrave.regression.encoding import encode_feature
from margrave.regression.sums import MeasuredSums
from margrave.release import NoisySums
from margrave.schema.domain import Clique
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema

Floats = NDArray[np.float64]

ROUNDS = 30
"""Steps of the search for variances."""
CAP = 1.0
"""Largest variance of a change over a column's range, in variances of the target. Without a limit noise makes
large coefficients: in one run on a choosing table at epsilon .1 the error was 14 times as large."""
FAR = 0.02
"""Share of a column's range by which the numbers of a regression may be off those that were summed."""


def number_columns(schema: Schema, target: str) -> RowNumbers:
    """The numbers of a row whose products answer for regressions of a target with the default encodings.

    Every column enters as a feature does by default, one number scaled to -1 to 1 or an indicator of every
    level but the first; a single indicator as -1 and 1, which halves its noise at the same cost. Made of the
    schema alone.

    Args:
        schema: Known.
        target: Comes last.

    Raises:
        InputError: The target is no column with codes.
    """
    names = [column.name for column in schema.attributes]
    if target not in names:
        raise InputError(invalid("target", f"one of {names}", "Check the spelling.", got=target))
    ordered = [name for name in names if name != target] + [target]
    matrices = []
    for name in ordered:
        first = np.eye(schema[name].size)[0]
        encoding = encode_feature(schema, name, None, first, None)
        matrices.append(_scale(encoding.matrix, encoding.levels))
    return RowNumbers(tuple(ordered), tuple(matrices))


def _scale(matrix: Floats, levels: Sequence[str]) -> Floats:
    """Numbers within -1 and 1; indicators stay as they are where there are several."""
    found = matrix.copy()
    for place, level in enumerate(levels):
        if level and len(levels) > 1:
            continue
        low, high = float(matrix[place].min()), float(matrix[place].max())
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        found[place] = np.clip((matrix[place] - middle) / half, -1.0, 1.0) if half > 0.0 else 0.0
    return found if found.size else np.zeros((1, matrix.shape[1]))


class MomentSums:
    """The residuals b - G gamma of a measured Z'Z, as those of `MeasuredSums`.

    Args:
        design: Target and features, all of which were summed.
        sums: What was measured.
        model: Fitted to the release.
        labelled, crossed: X'y and X'X of the model: shapes [p] and [p, p].
    """

    def __init__(
        self, design: Design, sums: NoisySums, model: ModelTables, labelled: Floats, crossed: Floats
    ) -> None:
        self._sums = sums
        names = [*design.names, design.target]
        held = [sums.numbers.names.index(name) for name in names]
        starts = np.cumsum([1, *(len(matrix) for matrix in sums.numbers.numbers)])
        places = [np.zeros(1, dtype=np.int64), *(np.arange(starts[k], starts[k + 1]) for k in held)]
        chosen = np.concatenate(places)
        matrices = [sums.numbers.numbers[k] for k in held]
        off = sums.values[np.ix_(chosen, chosen)] - sum_products(model, names, matrices)
        within = np.cumsum([0, *(len(part) for part in places)])
        self._map = np.zeros((design.size, len(chosen)))
        self._map[0, 0] = 1.0
        for k, (matrix, own) in enumerate(zip(design.matrices, matrices, strict=False)):
            held_at = np.append(0, np.arange(within[k + 1], within[k + 2]))
            self._map[design.places(k), held_at] = _express(matrix, own)[0]
        self._label = np.zeros(len(chosen))
        self._label[[0, *range(within[-2], within[-1])]] = _express(design.labels[None, :], matrices[-1])[0][
            0
        ]
        self._labelled = labelled + self._map @ off @ self._label
        self._beyond = self._map @ off @ self._map.T
        self._crossed = crossed + self._beyond

    @classmethod
    def find(
        cls, design: Design, sums: NoisySums | None, model: ModelTables, labelled: Floats, crossed: Floats
    ) -> MomentSums | None:
        """The moments, where they were measured of these columns in numbers that make the design's."""
        alone = not design.others and design.target not in design.names
        if sums is None or not design.whole or not sums.numbers.constant or not alone:
            return None
        asked = [*zip(design.names, design.matrices, strict=True), (design.target, design.labels[None, :])]
        for name, matrix in asked:
            if name not in sums.numbers.names:
                return None
            own = sums.numbers.numbers[sums.numbers.names.index(name)]
            if _express(matrix, own)[1] > FAR:
                return None
        return cls(design, sums, model, labelled, crossed)

    def curvature(self) -> Floats:
        """X'X of the model, moved towards the measured one by what is not noise in their difference: [p, p].

        In the coordinates in which the noise of Z'Z is alike everywhere, the difference is shrunk by the part
        of its square that is noise (James and Stein 1961, positive part). Eigenvalues below as much of half
        of the edge of the noise's spectrum are then raised to it, as in `margrave.regression.perturbed`.
        """
        alike = self._map @ self._map.T
        # A level that hardly a row of the model has is scaled up a millionfold, which would hide all else.
        unit = np.sqrt(np.maximum(np.diag(alike), 1e-300))
        values, vectors = np.linalg.eigh(alike / np.outer(unit, unit))
        kept = values > 1e-9 * float(values[-1])
        root = unit[:, None] * vectors[:, kept] * np.sqrt(values[kept])
        back = vectors[:, kept] / np.sqrt(values[kept]) / unit[:, None]
        off = back.T @ self._beyond @ back
        size, sigma = len(off), self._sums.sigma
        noise = size * (size - 1) * sigma**2 + size * self._sums.diagonal_sigma**2
        share = max(1.0 - noise / max(float((off**2).sum()), 1e-300), 0.0)
        found = back.T @ (self._crossed - self._beyond) @ back + share * off
        inner, turned = np.linalg.eigh(found)
        raised = root @ turned
        floor = share * sigma * math.sqrt(size)
        return np.asarray((raised * np.maximum(inner, floor)) @ raised.T)

    def residual(self, gamma: Floats, labelled: bool = True) -> tuple[Floats, Floats]:
        """b - G gamma, shape [p], and the covariance of its noise, [p, p]; as `MeasuredSums.residual`."""
        along = (self._label if labelled else 0.0) - self._map.T @ gamma
        value = (self._labelled if labelled else 0.0) - self._crossed @ gamma
        noise = self._sums.sigma**2 * (float(along @ along) * np.eye(len(along)) + np.outer(along, along))
        beyond = self._sums.diagonal_sigma**2 - 2.0 * self._sums.sigma**2
        noise += beyond * np.diag(along**2)
        return np.asarray(value), np.asarray(self._map @ noise @ self._map.T)


class PooledSums:
    """Residuals of noisy tables and of moments together, each by the inverse of its noise's covariance.

    Args:
        tables: The noisy tables.
        moments: What was measured beside them.
    """

    def __init__(self, tables: MeasuredSums, moments: MomentSums) -> None:
        self._tables, self._moments = tables, moments

    @property
    def missing_pairs(self) -> tuple[Clique, ...]:
        """None: the moments hold all of them."""
        return ()

    @property
    def complete(self) -> bool:
        """Whether all that intervals need was measured."""
        return True

    def residual(self, gamma: Floats, labelled: bool = True) -> tuple[Floats, Floats]:
        """As `MeasuredSums.residual`; by the moments alone where noisy tables lack a pair."""
        found = self._moments.residual(gamma, labelled)
        return found if not self._tables.complete else _pool(self._tables.residual(gamma, labelled), found)

    def residual_variances(self, gamma: Floats) -> Floats:
        """As `MeasuredSums.residual_variances`."""
        return np.diag(self.residual(gamma)[1])


def move_towards(found: tuple[Floats, Floats], hessian: Floats, size: float, design: Design) -> Floats:
    """How far measured residuals move the model's coefficients: shape [p].

    The change c is the most likely one where the residual is H c and its noise, and the change of a feature's
    coefficients, each over the column's range, is normal around 0. The variance of that normal is the
    feature's own and makes the residual most likely (MacKay 1992, equation 4.11): it is 0 where the model is
    right within the noise. Variances that were found from few numbers follow their noise. So c is shrunk at
    last by the part of c'H c, the square of what it changes predictions by, that the noise of the residual is
    expected to give it (James and Stein 1961, positive part).

    Args:
        found: The residual at the model's coefficients, shape [p], and the covariance of its noise, [p, p].
        hessian: H, shape [p, p].
        size: Standard deviation that the search for variances begins with, in units of the predictor.
        design: Target and features.
    """
    residual, noise = found
    free = design.free
    scale = 1.0 / design.ranges[free]
    lengths = [1, *(len(matrix) for matrix in design.matrices)]
    group = np.repeat(np.arange(len(lengths)), lengths)[free]
    units = np.sqrt(np.maximum(np.diag(noise)[free], 1e-300))
    values, vectors = np.linalg.eigh(noise[np.ix_(free, free)] / np.outer(units, units))
    whiten = (vectors / np.sqrt(np.maximum(values, 1e-10 * max(float(values[-1]), 1e-300)))).T / units
    slopes = whiten @ (hessian[np.ix_(free, free)] * scale)
    inner, pull = slopes.T @ slopes, slopes.T @ (whiten @ residual[free])
    curved = hessian[np.ix_(free, free)] * np.outer(scale, scale)
    variances = np.full(int(group.max(initial=0)) + 1, size**2)
    for _ in range(ROUNDS):
        prior = variances[group]
        spread = _posterior(prior, inner)
        mean = spread @ pull
        known = np.bincount(group, 1.0 - np.diag(spread) / np.maximum(prior, 1e-300), len(variances))
        squares = np.bincount(group, mean**2, len(variances))
        variances = np.clip(squares / np.maximum(known, 1e-12), 1e-10 * size**2, CAP * size**2)
    spread = _posterior(variances[group], inner)
    mean = spread @ pull
    square, expected = float(mean @ curved @ mean), float(np.trace(curved @ spread @ inner @ spread))
    change = np.zeros(design.size)
    if square > expected:
        change[free] = (1.0 - expected / square) * scale * mean
    return change


def _posterior(prior: Floats, inner: Floats) -> Floats:
    """(inner + P^-1)^-1 with the diagonal of P, shape [p], some of which may be 0: shape [p, p]."""
    root = np.sqrt(prior)
    return np.asarray(root[:, None] * np.linalg.inv(np.eye(len(prior)) + inner * np.outer(root, root)) * root)


def _pool(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The best mean of two unbiased vectors with independent noise, and the covariance of its noise."""
    (first, spread), (second, wide) = one, other
    scale = np.sqrt(np.maximum(np.diag(spread + wide), 1e-300))
    both = (spread + wide) / np.outer(scale, scale)
    gain = (spread / scale) @ np.linalg.pinv(both, rcond=1e-12, hermitian=True) / scale
    pooled = spread - gain @ spread
    return first + gain @ (second - first), (pooled + pooled.T) / 2.0


def _express(matrix: Floats, own: Floats) -> tuple[Floats, float]:
    """Numbers of codes as a constant and multiples of others, [numbers, 1 + others]; and how far off.

    Args:
        matrix: Shape [numbers, codes].
        own: Shape [others, codes].
    """
    basis = np.vstack([np.ones(own.shape[1]), own])
    found = np.linalg.lstsq(basis.T, matrix.T, rcond=1e-9)[0].T
    ranges = np.maximum(np.ptp(matrix, axis=1), 1e-300)
    off = np.abs(found @ basis - matrix).max(axis=1, initial=0.0)
    return np.asarray(found), float((off / ranges).max(initial=0.0))


def sum_products(model: ModelTables, names: Sequence[str], matrices: Sequence[Floats]) -> Floats:
    """The model's Z'Z, the constant's first: shape [q, q]."""
    pairs: list[Clique] = list(combinations(names, 2))
    tables = model.project_many([*((name,) for name in names), *pairs])
    starts = np.cumsum([1, *(len(matrix) for matrix in matrices)])
    places = [np.arange(starts[k], starts[k + 1]) for k in range(len(names))]
    found = np.zeros((int(starts[-1]), int(starts[-1])))
    found[0, 0] = float(tables[0].sum())
    for at, matrix, table in zip(places, matrices, tables[: len(names)], strict=True):
        found[0, at] = found[at, 0] = matrix @ table
        found[np.ix_(at, at)] = (matrix * table) @ matrix.T
    for (j, k), table in zip(combinations(range(len(names)), 2), tables[len(names) :], strict=True):
        block = matrices[j] @ table @ matrices[k].T
        found[np.ix_(places[j], places[k])] = block
        found[np.ix_(places[k], places[j])] = block.T
    return found
