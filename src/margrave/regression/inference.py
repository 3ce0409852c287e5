"""Inference: which coefficients a release identifies, and intervals that hold at any epsilon.

At the table's own coefficients the residual r = b - G gamma - remainder of noisy tables is the noise alone:
Gaussian, of mean 0 and of known covariance C. Two things follow (docs/regression.md has the derivation):

- one unbiased step theta + H^-1 r from any estimate theta leaves the noise H^-1 C H^-1, and a product of
  two small errors;
- r' C^-1 r has a chi-square distribution at the true coefficients, whether or not they are well determined:
  all coefficients that pass form an exact confidence set (the argument of Anderson and Rubin 1949).

For the population from which rows were drawn the covariance of the score of the rows is added (White 1982).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design
from margrave.regression.families import Family
from margrave.regression.likelihood import ModelRows
from margrave.regression.sums import MeasuredSums

__all__ = ["Directions", "find_directions", "row_scores", "solve_strong"]


Floats = NDArray[np.float64]

CLEAR = 4.0
"""Standard deviations of its noise by which X'X of a combination of columns has to exceed 0 for the
combination to count as determined. The step's second-order error is then at most a quarter of the noise,
which adds a thirtieth to the length of an interval."""
FAR = 3.0
"""Times CLEAR at which a direction is far above the bound."""
LEAK = 0.01
"""Share of a coefficient, squared, that undetermined combinations may have of it."""
EXACT = 1e-8
"""The same bound in shares of X'X where there is no noise to compare with."""


@dataclass(frozen=True, slots=True)
class Directions:
    """Combinations of columns of the centred design, split by whether the release determines them.

    Args:
        scale: Coefficients are scale times coordinates in which noise is about alike everywhere: shape [p].
        strong: Determined ones in these coordinates, orthonormal: shape [p, s].
        weak: The others: shape [p, w].
    """

    scale: Floats
    strong: Floats
    weak: Floats

    def determined(self, design: Design) -> NDArray[np.bool_]:
        """Whether each coefficient of the encodings is determined, shape [p]."""
        rows = design.to_raw * self.scale
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(((rows @ self.weak) ** 2).sum(axis=1) <= LEAK)


def find_directions(design: Design, crossed: Floats, sums: MeasuredSums | None) -> Directions:
    """Split the space of coefficients by whether tables determine X'X along it.

    Columns are scaled until their products have about the same noise, so that a rare level, of which little
    is known, is a direction of its own. Along each eigenvector v of the model's X'X, v'Gv of the model and
    of the noisy tables both have to exceed CLEAR standard deviations of the noise of the latter. They are
    looked at from the smallest on, until three in a row are far above.

    Args:
        design: Target and features.
        crossed: X'X of the model, [p, p].
        sums: The noisy tables where they hold all pairs; else None, and only exact dependence is found.
    """
    free, size = design.free, design.size
    scale = np.ones(size)
    if sums is not None:
        noise = np.sqrt(np.diag(sums.residual(np.full(size, size**-0.5))[1]))
        typical = float(np.median(noise))
        scale = np.where(noise > 0.0, typical / np.where(noise > 0.0, noise, 1.0), 1.0)
    values, inner = np.linalg.eigh((crossed * np.outer(scale, scale))[np.ix_(free, free)])
    vectors = np.zeros((size, len(free)))
    vectors[free] = inner
    weak = values <= EXACT * max(float(values.max(initial=0.0)), 1e-300)
    if sums is not None:
        measured, errors = sums.quadratic(scale[:, None] * vectors)
        weak |= np.minimum(values, measured) <= CLEAR * errors
    return Directions(scale, vectors[:, ~weak], vectors[:, weak])


def solve_strong(hessian: Floats, directions: Directions) -> Floats:
    """The inverse of a Hessian along determined combinations, 0 along the others: shape [p, p]."""
    strong = directions.scale[:, None] * directions.strong
    inner = strong.T @ hessian @ strong
    return np.asarray(strong @ np.linalg.pinv(inner, hermitian=True) @ strong.T)


def row_scores(theta: Floats, design: Design, rows: ModelRows, family: Family) -> Floats:
    """Covariance of the sum over rows of x (y - A'(s)), if rows are a sample: shape [p, p]."""
    off = rows.labels + design.middle - family.mean(rows.numbers @ theta)
    weighted = rows.numbers * off[:, None]
    return np.asarray(rows.weight * (weighted.T @ weighted))
