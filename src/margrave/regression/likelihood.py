"""Likelihood: coefficients from X'y, X'X and rows of the model.

A canonical model's log likelihood is theta'X'y - sum of A(theta'x). The first part needs tables of pairs
alone; the second needs the joint distribution of the features, which the model has. It is split again: the
mean A'(s) of a row is a straight line alpha + beta s, the best for these rows, plus a remainder, so that

    X'y - sum of x A'(s)  =  X'(y - c) - X'X gamma - sum of x (A'(s) - alpha - beta s),   gamma = beta theta
    + (alpha - c) e_0

for any constant c. Tables of pairs answer for the first two terms, rows only for the last, which is small:
all of the noise that matters is in tables, whose noise is known, and drawing rows adds little. For linear
models nothing remains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design
from margrave.regression.families import Family

Floats = NDArray[np.float64]

STEPS = 50
"""Most Newton steps; six are enough unless the target is separated from its levels."""
PRECISE = 1e-10
"""Relative size of a step after which none follows."""
SLOW = 0.1
"""Share of what there is to gain that a step may leave before the Hessian is made anew."""
MOVED = 1e-4
"""Distance in units of the linear predictor by which a Hessian may be off when it is returned: it is wrong by
about that share, far below the noise of what it multiplies."""
RIDGE = 1e-9
"""Added to X'X over the number of rows, whose diagonal is 1, so that collinear columns have finite
coefficients."""
SEPARATED = 1e-7
"""The same where maximising: a target that a level determines has no finite coefficients."""


COUNTED = 3
"""Numbers a feature has on average from which on X'WX is made of counts of pairs of codes: these take about
2 ns a row and pair of features, a matrix product about 0.2 ns a row and pair of numbers."""


@dataclass(frozen=True, slots=True)
class ModelRows:
    """Rows of the model in the design's numbers, kept as codes: sums over rows are sums over tables.

    Args:
        design: Target and features.
        codes: Of each feature, shape [rows].
        labels: Centred labels, shape [rows].
        weight: How many rows of the private table one of these stands for.
    """

    design: Design
    codes: tuple[NDArray[np.int64], ...]
    labels: Floats
    weight: float

    def predict(self, theta: Floats) -> Floats:
        """The linear predictor x'theta, shape [rows]."""
        found = np.full(len(self.labels), theta[0])
        for j, (codes, matrix) in enumerate(zip(self.codes, self.design.matrices, strict=True)):
            found += (theta[self.design.places(j)] @ matrix)[codes]
        return found

    def sum_weighted(self, weights: Floats) -> Floats:
        """The sum over rows of x times a weight a row, times `weight`: shape [p]."""
        found = np.zeros(self.design.size)
        found[0] = weights.sum()
        for j, (codes, matrix) in enumerate(zip(self.codes, self.design.matrices, strict=True)):
            found[self.design.places(j)] = matrix @ np.bincount(codes, weights, matrix.shape[1])
        return self.weight * found

    def cross(self, weights: Floats) -> Floats:
        """The sum over rows of x x' times a weight a row, times `weight`: shape [p, p]."""
        design, matrices = self.design, self.design.matrices
        if design.size <= COUNTED * len(matrices):
            numbers = np.vstack(
                [np.ones((1, len(weights))), *(m[:, c] for m, c in zip(matrices, self.codes, strict=True))]
            )
            return np.asarray(self.weight * ((numbers * weights) @ numbers.T))
        found = np.zeros((design.size, design.size))
        found[0] = self.sum_weighted(weights) / self.weight
        for j, (codes, matrix) in enumerate(zip(self.codes, matrices, strict=True)):
            at, size = design.places(j), matrix.shape[1]
            found[np.ix_(at, at)] = (matrix * np.bincount(codes, weights, size)) @ matrix.T
            for k in range(j):
                other = matrices[k]
                shape = (other.shape[1], size)
                table = np.bincount(self.codes[k] * size + codes, weights, shape[0] * size).reshape(shape)
                found[np.ix_(design.places(k), at)] = other @ table @ matrix.T
        return np.asarray(self.weight * (np.triu(found) + np.triu(found, 1).T))


@dataclass(frozen=True, slots=True)
class Line:
    """Where a coefficient vector stands: the straight line, and what is left.

    Args:
        gamma: By which X'X is multiplied, shape [p].
        remainder: Sum over rows of x times what the line leaves of the mean, shape [p].
        beta: Slope of the line.
    """

    gamma: Floats
    remainder: Floats
    beta: float


def score_at(theta: Floats, design: Design, rows: ModelRows, family: Family) -> Line:
    """The line and the remainder at coefficients of the centred design, shape [p].

    The score is b - G gamma - remainder, and minus its derivative is beta G + `curvature_at`.
    """
    predictor = rows.predict(theta)
    mean, slope = family.mean(predictor), family.slope(predictor)
    off = predictor - predictor.mean() if len(predictor) else predictor
    spread = float(off @ off)
    flat = float(slope.mean()) if len(slope) else 1.0
    beta = float(off @ mean) / spread if spread > 1e-12 * max(len(off), 1) else flat
    alpha = float((mean - beta * predictor).mean()) if len(mean) else 0.0
    gamma = beta * theta
    gamma[0] += alpha - design.middle
    if family.affine:
        return Line(gamma, np.zeros(design.size), beta)
    remainder = rows.sum_weighted(mean - alpha - beta * predictor)
    return Line(gamma, remainder, beta)


def curvature_at(theta: Floats, line: Line, design: Design, rows: ModelRows, family: Family) -> Floats:
    """What the remainder adds to minus the derivative of the score, shape [p, p]; 0 for linear models."""
    if family.affine:
        return np.zeros((design.size, design.size))
    return rows.cross(family.slope(rows.predict(theta)) - line.beta)


def fit_model(
    design: Design, rows: ModelRows, family: Family, labelled: Floats, crossed: Floats, ridge: Floats
) -> tuple[Floats, Floats]:
    """The coefficients at which b - G gamma - remainder is ridge theta, and minus the derivative of the left.

    Args:
        design: Target and features.
        rows: Of the model.
        family: Of the regression.
        labelled: b, X'y with centred labels, shape [p].
        crossed: G, X'X of the rows that have a target, shape [p, p].
        ridge: By which the diagonal of X'X is raised, shape [p].

    Returns:
        theta in the centred design, shape [p], 0 where a coefficient is not fitted; and H, shape [p, p].
    """
    theta, free = np.zeros(design.size), design.free

    def score_of(at: Floats, line: Line) -> Floats:
        return labelled - crossed @ line.gamma - line.remainder - ridge * at

    def hessian_of(at: Floats, line: Line) -> Floats:
        return line.beta * crossed + curvature_at(at, line, design, rows, family)

    if not family.affine:
        theta = _maximise(design, rows, family, labelled, ridge)
    line = score_at(theta, design, rows, family)
    score, hessian = score_of(theta, line), hessian_of(theta, line)
    inverse = _invert(hessian + np.diag(ridge), free)
    since = 0.0  # how far theta has moved since the Hessian was made
    for _ in range(1 if family.affine else STEPS):
        step = inverse @ score
        moved = score_at(theta + step, design, rows, family)
        left = score_of(theta + step, moved)
        part = float(np.abs(left[free]).max(initial=0.0) / max(np.abs(score[free]).max(initial=0.0), 1e-300))
        if part <= 1.0:
            theta, line, score, since = theta + step, moved, left, since + float(np.abs(step).max())
        elif since == 0.0:
            break
        if part <= 1.0 and np.abs(step).max() <= PRECISE * max(1.0, float(np.abs(theta).max())):
            break
        if part > SLOW:
            hessian, since = hessian_of(theta, line), 0.0
            inverse = _invert(hessian + np.diag(ridge), free)
    if since > MOVED and not family.affine:
        hessian = hessian_of(theta, line)
    return theta, hessian


def _invert(hessian: Floats, free: NDArray[np.int64]) -> Floats:
    """The inverse of a Hessian over the free places, 0 elsewhere, shape [p, p].

    Combinations of less than RIDGE, in units of the diagonal, are left out: collinear columns stay finite.
    """
    units = np.sqrt(np.maximum(np.diag(hessian)[free], 1e-300))
    values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)] / np.outer(units, units))
    steady = np.where(values > RIDGE, values, np.inf)
    found = np.zeros_like(hessian)
    found[np.ix_(free, free)] = (vectors / steady) @ vectors.T / np.outer(units, units)
    return found


def _maximise(design: Design, rows: ModelRows, family: Family, labelled: Floats, ridge: Floats) -> Floats:
    """The maximum of theta'X'y - sum of A(theta'x) - theta' ridge theta / 2 over the model's rows, by Newton
    steps that are halved.

    A Hessian costs more than all else, so it is used again for as long as each step leaves at most SLOW of
    what there was to gain.
    """
    free, weight = design.free, rows.weight
    pull = labelled + design.middle * rows.sum_weighted(np.ones(len(rows.labels)))
    ridge = ridge + SEPARATED * weight * max(len(rows.labels), 1)
    theta, predictor = np.zeros(design.size), np.zeros(len(rows.labels))

    def value(at: Floats, predicted: Floats) -> float:
        total = weight * float(family.cumulant(predicted).sum())
        return float(pull @ at) - total - 0.5 * float(ridge @ at**2)

    best, last = value(theta, predictor), 0.0
    inverse: Floats | None = None
    for _ in range(STEPS):
        score = pull - rows.sum_weighted(family.mean(predictor)) - ridge * theta
        step = np.zeros(0) if inverse is None else inverse @ score
        if inverse is None or float(score @ step) > SLOW * last:
            inverse = _invert(rows.cross(family.slope(predictor)) + np.diag(ridge), free)
            step = inverse @ score
        last = float(score @ step)
        along, size = rows.predict(step), 1.0
        while (
            size > 1e-6 and value(theta + size * step, predictor + size * along) < best + 1e-4 * size * last
        ):
            size /= 2.0
        theta, predictor = theta + size * step, predictor + size * along
        best = value(theta, predictor)
        if last <= PRECISE * max(abs(best), 1.0):
            break
    return theta
