"""Families: the generalized linear models that can be fitted, each by its canonical link.

The log likelihood of a canonical model is theta'X'y - sum of A(theta'x) over the rows, with the family's
cumulant A: the target enters through X'y alone, which tables of pairs hold (McCullagh and Nelder 1989,
section 2.2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid

Floats = NDArray[np.float64]

MAX_LINEAR_PREDICTOR = 30.0
"""Linear predictors of a Poisson model are cut here: e^30 is beyond any count, and sums of it stay finite."""


@dataclass(frozen=True, slots=True)
class Family:
    """A canonical model of a target given a linear predictor s.

    Args:
        name: Of the kind of regression.
        cumulant: A(s), up to a constant.
        mean: A'(s), the expected target.
        slope: A''(s), above 0.
        affine: Whether the mean is a straight line in s, so that tables of pairs hold all there is to know.
    """

    name: str
    cumulant: Callable[[Floats], Floats]
    mean: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    affine: bool = False


def _logistic(s: Floats) -> Floats:
    small = np.exp(-np.abs(s))  # never above 1, and far sooner than a hyperbolic tangent
    return np.where(s < 0.0, small, 1.0) / (1.0 + small)


def _logistic_cumulant(s: Floats) -> Floats:
    return np.asarray(np.maximum(s, 0.0) + np.log(1.0 + np.exp(-np.abs(s))))


def _logistic_slope(s: Floats) -> Floats:
    mean = _logistic(s)
    return np.asarray(mean * (1.0 - mean))


def _exponential(s: Floats) -> Floats:
    return np.asarray(np.exp(np.minimum(s, MAX_LINEAR_PREDICTOR)))


FAMILIES = {
    "linear": Family("linear", lambda s: 0.5 * s**2, np.asarray, np.ones_like, True),
    "logistic": Family("logistic", _logistic_cumulant, _logistic, _logistic_slope),
    "poisson": Family("poisson", _exponential, _exponential, _exponential),
}
QUADRATIC = 0.07075746607776871
"""-b_2 of the Chebyshev interpolant b_0 + b_1 s + b_2 s^2 of -ln(1 + e^-s) with 3 nodes on [-6, 6]; b_1 is
1 / 2. A test computes it anew."""
_QUADRATIC_LOGISTIC = Family(
    "logistic",
    lambda s: 0.5 * s + QUADRATIC * s**2,
    lambda s: np.asarray(0.5 + 2.0 * QUADRATIC * s),
    lambda s: np.full_like(s, 2.0 * QUADRATIC),
    True,
)


def family_of(kind: str, likelihood: str = "exact") -> Family:
    """The family of a kind of regression.

    Args:
        kind: "linear", "logistic" or "poisson".
        likelihood: "exact"; or "quadratic", for logistic alone: the polynomial of degree 2 that DD-SSP
            (Ferrando and Sheldon 2025) and PASS-GLM (Huggins, Adams and Broderick 2017) maximise instead.
            Its maximum is least squares of labels -1 and 1, times 3.5332.

    Raises:
        InputError: kind or likelihood is none of these.
    """
    if kind not in FAMILIES:
        raise InputError(invalid("kind", f"one of {list(FAMILIES)}", "Pick one.", got=kind))
    if likelihood == "exact":
        return FAMILIES[kind]
    if likelihood == "quadratic" and kind == "logistic":
        return _QUADRATIC_LOGISTIC
    remedy = "Use likelihood='exact'."
    raise InputError(invalid("likelihood", "'exact', or 'quadratic' for logistic", remedy, got=likelihood))


def r_squared(truth: Floats, predicted: Floats) -> float:
    """The share of the variance of numbers that predictions explain; both of shape [rows], not empty."""
    total = float(((truth - truth.mean()) ** 2).sum())
    left = float(((truth - predicted) ** 2).sum())
    return 1.0 - left / total if total > 0.0 else float(left == 0.0)
