"""Least squares from Z'Z with symmetric noise: sufficient statistics perturbation with a spectral ridge.

With Z = (1, X, y) and G + W the released Z'Z, where W is symmetric Gaussian noise of standard deviation tau
off the diagonal, theta = (X'X_+ + tau sqrt(p) I)^-1 X'y, with the eigenvalues of X'X raised to 0 where
noise left them below. tau sqrt(p) is half of the edge of the noise's spectrum (Wigner), so that eigenvalues
that are noise alone do not make large coefficients. Nothing but what was released goes into it.

Intervals are for the coefficients of the private table and hold the privacy noise alone. At these r = b - G
gamma is noise whose covariance follows from W: Cov(r_i, r_k) = tau^2 a_i a_k, and on the diagonal the sum
over j of a_j^2 times the variance of entry (i, j), with a = (gamma, -1). One step along r is unbiased to
first order, as in `margrave.regression.inference`, and coefficients that lean on directions within CLEAR
standard deviations of noise are said not to be determined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri

from margrave.regression.inference import LEAK
from margrave.release import NoisySums

__all__ = ["PerturbedFit", "fit_sums", "residual_noise"]


Floats = NDArray[np.float64]

CLEAR = 4.0
"""Standard deviations of its noise by which an eigenvalue of X'X has to exceed 0 for the step to go along it:
the step's error beyond the noise is then at most a quarter of it. There is no model of the rows here."""


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedFit:
    """Coefficients of the last of a row's numbers on the others.

    Args:
        estimates: With the ridge, shape [p - 1].
        unbiased: The middles of the intervals, shape [p - 1].
        covariance: Of `unbiased`, [p - 1, p - 1]; privacy noise alone.
        determined: Whether the release determines each, shape [p - 1].
        sums: What they were computed from.
    """

    estimates: Floats
    unbiased: Floats
    covariance: Floats
    determined: NDArray[np.bool_]
    sums: NoisySums

    def p_value(self, theta: Floats) -> float:
        """Probability of noise at least as large, if theta, shape [p - 1], were least squares of the table.

        The values of theta whose p-value is above 0.05 are an exact 95 % confidence set at any epsilon.
        """
        residual = self.sums.values[:-1, -1] - self.sums.values[:-1, :-1] @ theta
        square = float(residual @ np.linalg.solve(residual_noise(self.sums, theta), residual))
        return float(gammaincc(len(theta) / 2.0, square / 2.0))

    def half_widths(self, raw: Floats, level: float) -> Floats:
        """Half the lengths of the intervals of raw @ coefficients, raw of shape [n, p - 1]."""
        spread = np.sqrt(np.maximum(np.diag(raw @ self.covariance @ raw.T), 0.0))
        return float(ndtri(0.5 + level / 2.0)) * spread


def residual_noise(sums: NoisySums, theta: Floats) -> Floats:
    """Covariance of the noise of X'y - X'X theta, shape [p - 1, p - 1], for theta of shape [p - 1]."""
    along = np.append(theta, -1.0)
    noise = sums.sigma**2 * (float(along @ along) * np.eye(len(theta)) + np.outer(theta, theta))
    beyond = sums.diagonal_sigma**2 - 2.0 * sums.sigma**2
    return np.asarray(noise + beyond * np.diag(theta**2))


def fit_sums(sums: NoisySums) -> PerturbedFit:
    """Least squares of the last of a row's numbers on all others, see the head of this file."""
    crossed, labelled = sums.values[:-1, :-1], sums.values[:-1, -1]
    values, vectors = np.linalg.eigh(crossed)
    steady = np.maximum(values, 0.0) + sums.sigma * math.sqrt(len(values))
    inverse = (vectors / steady) @ vectors.T
    theta = inverse @ labelled
    along = np.sqrt(2.0) * sums.sigma * np.ones(len(values))
    along = np.sqrt(along**2 + (sums.diagonal_sigma**2 - 2.0 * sums.sigma**2) * (vectors**4).sum(axis=0))
    strong = values > CLEAR * along
    step = (vectors[:, strong] / values[strong]) @ vectors[:, strong].T
    return PerturbedFit(
        estimates=theta,
        unbiased=theta + step @ (labelled - crossed @ theta),
        covariance=step @ residual_noise(sums, theta) @ step,
        determined=np.asarray((vectors[:, ~strong] ** 2).sum(axis=1) <= LEAK),
        sums=sums,
    )
