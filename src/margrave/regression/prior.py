"""Prior: where a logistic regression's coefficients are drawn to where noise left pairs unmeasured.

What this wins, and what else was tried, is in bench/LOG.md (2026-11-26).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design
from margrave.regression.families import family_of
from margrave.regression.likelihood import ModelRows, fit_model
from margrave.regression.sums import Sums

Floats = NDArray[np.float64]


def find_prior(
    design: Design, rows: ModelRows, sums: Sums, labelled: Floats, crossed: Floats
) -> tuple[Floats, Floats]:
    """The ridge and the centre of a logistic regression's coefficients: both of shape [p].

    X'y of n rows with noise of variance v, for coefficients that are normal around a centre with standard
    deviation 1 on the scale of log odds for a feature of standard deviation 1, asks for a ridge of v / (n h),
    where n h is the diagonal of the Hessian and h at most the variance of the target. v is the median over
    numbers, because a level of few rows would not be fitted at all with its own. The centre is the maximum of
    the likelihood's polynomial of degree 2, which does not follow noise to where a feature separates the
    target.

    Args:
        design, rows: Of the regression; rows have a target each.
        sums: What was measured.
        labelled, crossed: X'y, shape [p], and X'X, shape [p, p], of the model.
    """
    _, noise, known = sums.label_sums()
    nothing = np.zeros(design.size)
    spread = rows.weight * float(rows.labels @ rows.labels)
    if not known[1:].any() or spread <= 0.0:
        return nothing, nothing
    centre, _ = fit_model(design, rows, family_of("logistic", "quadratic"), labelled, crossed, nothing, ())
    ridge = np.full(design.size, float(np.median(noise[1:][known[1:]])) / spread)
    ridge[0] = 0.0
    return ridge, centre
