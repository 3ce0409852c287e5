"""Inference: which coefficients a release identifies, and intervals that hold at any epsilon.

At the table's own coefficients the residual r = b - G gamma - remainder of noisy tables is the noise alone:
Gaussian, of mean 0 and of known covariance C. Two things follow (docs/regression.md has the derivation):

- one unbiased step theta + H^-1 r from any estimate theta leaves the noise H^-1 C H^-1, and a product of
  two small errors: what the model's X'X is wrong by, times what theta is wrong by. For families that are
  linear in the predictor it is shrunk by its noise, since no coefficient is wrong by as much as noise is
  where a level is rare (`shrink_step`);
- r' C^-1 r has a chi-square distribution at the true coefficients, whether or not they are well determined:
  all coefficients that pass form an exact confidence set (the argument of Anderson and Rubin 1949).

Of regressions that are not linear a part of the score is summed over rows of the model, around which those
of the table scatter (`row_scatter`); for the population from which rows were drawn the covariance of the
score of the rows is added (White 1982).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design
from margrave.regression.families import Family
from margrave.regression.likelihood import Line, ModelRows
from margrave.regression.sums import Sums

Floats = NDArray[np.float64]

LEAK = 0.01
"""Share of a coefficient, squared, that combinations which are not identified may have of it."""
LINK_RANGE = 40.0
"""The largest change by one column that counts in a step, on the scale of a link. In eleven releases of
claims-a at epsilon 3 intervals held .932 of 1,023 logistic coefficients; in these and others with 10, which
is as much as anybody would believe, .900, with 20 .921, with steps that nothing bounds .953."""
RANGES = 4.0
"""The same for least squares, in ranges of the target, where it is also the standard deviation of what an
estimate is supposed to be wrong by (`shrink_step`). In six releases of claims-a at epsilon 3 intervals
held .965 of 576 coefficients, as many as with steps that nothing bounds; with 2, .955; with 1, .950."""
EXACT = 1e-8
"""Share of the largest eigenvalue of X'X below which columns depend on each other exactly."""


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

    def find_identified(self, design: Design) -> NDArray[np.bool_]:
        """Whether each coefficient of the encodings is identified, shape [p]."""
        rows = design.to_raw * self.scale
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(((rows @ self.weak) ** 2).sum(axis=1) <= LEAK)


def find_directions(design: Design, crossed: Floats, sums: Sums | None) -> Directions:
    """Split the space of coefficients by whether X'X of the model is 0 along it.

    Columns are scaled until their products have about the same noise, so that a rare level, of which little
    is known, is a direction of its own.

    Args:
        design: Target and features.
        crossed: X'X of the model, [p, p].
        sums: The noisy tables where they hold all pairs; else None.
    """
    free, size = design.free, design.size
    scale = np.ones(size)
    if sums is not None:
        noise = np.sqrt(sums.residual_variances(np.full(size, size**-0.5)))
        typical = float(np.median(noise))
        scale = np.where(noise > 0.0, typical / np.where(noise > 0.0, noise, 1.0), 1.0)
    values, inner = np.linalg.eigh((crossed * np.outer(scale, scale))[np.ix_(free, free)])
    vectors = np.zeros((size, len(free)))
    vectors[free] = inner
    weak = values <= EXACT * max(float(values.max(initial=0.0)), 1e-300)
    return Directions(scale, vectors[:, ~weak], vectors[:, weak])


def find_reach(design: Design, family: Family) -> Floats:
    """What a coefficient may be wrong by, as far as it counts: shape [p].

    A change from one end of the column's numbers to the other by RANGES times the range of the target, or
    by LINK_RANGE on the scale of a link.
    """
    held = [design.labels[design.present], *(labels for _, labels in design.others)]
    whole = RANGES * float(sum(map(np.ptp, held))) if family.affine and held[0].size else LINK_RANGE
    return whole / design.ranges


def second_order(step: Floats, reach: Floats, slope: float, sums: Sums) -> Floats:
    """What the error of X'X adds to the covariance of the residual, to be inverted like it: shape [p, p].

    The step's error beyond its noise is H^-1 D d, where d is what the estimate was wrong by and D what the
    model's X'X is wrong by. The step is an estimate of d, as large as d or larger; but for a level of which
    the model holds a fifth of a row it is noise, thousands of times what any coefficient can be wrong by, and
    would make all other coefficients as uncertain. So no more of it counts than that (`find_reach`). D is
    within the noise of the measured tables, since the model was fitted to them: D d is given that noise's
    covariance.
    For tables of the nursery's choosing half (`bench/runs/determined.py`, figures in bench/LOG.md), intervals
    made so held the truth of all coefficients about as often as they say, .951 and .936 in two runs. A rule
    that refuses coefficients where this variance is above the first-order one held .957 of what it kept, in
    one run, but kept .69 of the coefficients, and would have held .937 of the rest.

    Args:
        step: H^-1 r, shape [p].
        reach: The most of it that counts, either way, shape [p].
        slope: Of the line by which X'X enters the score (`likelihood.score_at`).
        sums: The noisy tables.
    """
    return sums.residual(slope * np.clip(step, -reach, reach), labelled=False)[1]


def shrink_step(step: Floats, covariance: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """A step times its share of what an estimate is wrong by, and what is left unknown then: [p] and [p, p].

    The step estimates what theta is wrong by, d, with noise of covariance P. Along a direction that hardly
    any row tells, such as a level of few rows, its noise is many times what any coefficient can be wrong by,
    and so are the errors of all coefficients that lean on it. Supposed that d has covariance
    V = diag(reach^2), it is K step with K = V (V + P)^-1 and an error of covariance V - V (V + P)^-1 V, which
    holds the truth as often as it says for every d of about that size, and is P where P is small beside V.
    For tables of the nursery's choosing half intervals of least squares held .978 and .961 of 417 and 645
    coefficients at epsilon 3 and 10, as those of the whole step did (.983 and .961), .63 and .86 times as
    long, and noise hid .096 and .047 of them for .42 and .062 (`bench/runs/determined.py`, bench/LOG.md).

    Args:
        step: Unbiased for what the estimate is wrong by, shape [p].
        covariance: Of its noise, shape [p, p].
        reach: Standard deviations of what the estimate is supposed to be wrong by, shape [p].
    """
    values, vectors = np.linalg.eigh(covariance / np.outer(reach, reach))
    values = np.maximum(values, 0.0)
    axes, shares = reach[:, None] * vectors, 1.0 / (1.0 + values)
    return axes @ (shares * (vectors.T @ (step / reach))), (axes * (values * shares)) @ axes.T


def solve_strong(hessian: Floats, directions: Directions) -> Floats:
    """The inverse of a Hessian along identified combinations, 0 along the others: shape [p, p]."""
    strong = directions.scale[:, None] * directions.strong
    inner = strong.T @ hessian @ strong
    return np.asarray(strong @ np.linalg.pinv(inner, hermitian=True) @ strong.T)


PASSES = 3
"""Turns of taking means by code out of what a line leaves; with more than one feature they overlap."""


def row_scatter(theta: Floats, line: Line, rows: ModelRows, family: Family, population: bool) -> Floats:
    """Covariance of the residual by which rows the table has, beyond the noise of its tables: shape [p, p].

    The remainder is summed over the model's rows. Were the model true, the private table would still be a
    draw of rows from it: sums over its rows of x times what the line leaves of the mean scatter around the
    model's. Of what is left, functions of single features are determined by tables of pairs, so their best
    additive part is taken out first, by code. For the population the scores x (y - A'(s)) of the rows are
    added (White 1982).

    Args:
        theta: Coefficients of the centred design, shape [p].
        line: Where they stand.
        rows: Of the model.
        family: Of the regression.
        population: Whether rows are taken as a sample, and not as the table that is meant.
    """
    weights = np.zeros(len(rows.labels))
    if family.affine and not population:
        return np.zeros((len(theta), len(theta)))
    predictor = rows.predict(theta)
    mean = family.mean(predictor)
    if not family.affine:
        left = mean - line.beta * predictor
        left -= left.mean() if len(left) else 0.0
        for _ in range(PASSES):
            for codes in rows.codes:
                counts = np.maximum(np.bincount(codes), 1)
                left -= (np.bincount(codes, left) / counts)[codes]
        weights += left**2
    if population:
        weights += (rows.labels + rows.design.middle - mean) ** 2
    return rows.cross(weights)
