"""Regressions from a release with valid intervals: free post-processing, see docs/regression.md."""

from __future__ import annotations

from margrave.regression.coefficients import Coefficients
from margrave.regression.estimators import LinearRegression, LogisticRegression, PoissonRegression
from margrave.regression.fit import linear, logistic, poisson

__all__ = [
    "Coefficients",
    "LinearRegression",
    "LogisticRegression",
    "PoissonRegression",
    "linear",
    "logistic",
    "poisson",
]
