"""Least squares from Z'Z with symmetric noise: sufficient statistics perturbation with a spectral ridge.

With Z = (1, X, y) and G + W the released Z'Z, where W is symmetric Gaussian noise of standard deviation tau
off the diagonal, theta = (X'X_+ + tau sqrt(p) I)^-1 X'y, with the eigenvalues of X'X raised to 0 where
noise left them below. tau sqrt(p) is half of the edge of the noise's spectrum (Wigner), so that eigenvalues
that are noise alone do not make large coefficients. Nothing but what was released goes into it.

AdaSSP (Wang 2018; Ferrando and Sheldon 2025, Algorithm 5) has the ridge max(0, sqrt(p ln(2 p^2 / 0.05)) tau -
lambda) instead, with lambda = max(0, the noisy smallest eigenvalue of X'X less sqrt(ln(6 / delta)) standard
deviations of its noise): X'X, X'y and the eigenvalue are released apart.

Intervals are for the coefficients of the private table and hold the privacy noise alone. At these r = b - G
gamma is noise whose covariance follows from W: Cov(r_i, r_k) = tau^2 a_i a_k, and on the diagonal the sum
over j of a_j^2 times the variance of entry (i, j), with a = (gamma, -1); X'y may have noise of its own. One
step along r is unbiased to first order, as in `margrave.regression.inference`, and coefficients that lean
on directions within CLEAR standard deviations of noise are said not to be identified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtri

from margrave.errors import InputError, invalid
from margrave.regression.inference import LEAK
from margrave.release import NoisyStatistics, NoisySums

Floats = NDArray[np.float64]

CLEAR = 4.0
"""Standard deviations of its noise by which an eigenvalue of X'X has to exceed 0 for the step to go along it:
the step's error beyond the noise is then at most a quarter of it. There is no model of the rows here."""
FAILURE = 0.05
"""Probability that AdaSSP's ridge leaves an eigenvalue below 0, as published."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyProducts:
    """X'X and X'y with noise of known size, in rows.

    Args:
        crossed: X'X plus symmetric noise, shape [p, p].
        labelled: X'y plus noise, shape [p].
        sigma: Standard deviation of the noise of an entry of X'X off the diagonal.
        diagonal_sigma: Of one on it.
        label_sigma: Of an entry of X'y.
    """

    crossed: Floats
    labelled: Floats
    sigma: float
    diagonal_sigma: float
    label_sigma: float

    @classmethod
    def of_sums(cls, sums: NoisySums) -> NoisyProducts:
        """The parts of one release of Z'Z, y being the last of a row's numbers."""
        crossed, labelled = sums.values[:-1, :-1], sums.values[:-1, -1]
        return cls(crossed, labelled, sums.sigma, sums.diagonal_sigma, sums.sigma)


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedFit:
    """Coefficients of the last of a row's numbers on the others.

    Args:
        estimates: Shape [p].
        unbiased: The middles of the intervals, shape [p]; NaN where there are none.
        covariance: Of `unbiased`, [p, p]; privacy noise alone. NaN where there are no intervals.
        identified: Whether the release identifies each, shape [p].
        products: What they were computed from, where that is X'X and X'y.
    """

    estimates: Floats
    unbiased: Floats
    covariance: Floats
    identified: NDArray[np.bool_]
    products: NoisyProducts | None = None

    @classmethod
    def without_intervals(cls, estimates: Floats) -> PerturbedFit:
        """Estimates of which no more is known than that they are private."""
        nothing = np.full(len(estimates), np.nan)
        known = np.zeros(len(estimates), dtype=bool)
        return cls(estimates, nothing, np.full((len(estimates),) * 2, np.nan), known)

    def p_value(self, theta: Floats) -> float:
        """Probability of noise at least as large, if theta, shape [p], were least squares of the table.

        The values of theta whose p-value is above 0.05 are an exact 95 % confidence set at any epsilon.

        Raises:
            InputError: X'X and X'y were not released.
        """
        if self.products is None:
            raise InputError(invalid("method", "'ssp' or 'adassp' for a confidence set", "Use one of these."))
        residual = self.products.labelled - self.products.crossed @ theta
        square = float(residual @ np.linalg.solve(residual_noise(self.products, theta), residual))
        return float(gammaincc(len(theta) / 2.0, square / 2.0))

    def half_widths(self, raw: Floats, level: float) -> Floats:
        """Half the lengths of the intervals of raw @ coefficients, raw of shape [n, p]."""
        spread = np.sqrt(np.maximum(np.diag(raw @ self.covariance @ raw.T), 0.0))
        return float(ndtri(0.5 + level / 2.0)) * spread


def residual_noise(products: NoisyProducts, theta: Floats) -> Floats:
    """Covariance of the noise of X'y - X'X theta, shape [p, p], for theta of shape [p]."""
    squared = products.sigma**2
    noise = squared * (float(theta @ theta) * np.eye(len(theta)) + np.outer(theta, theta))
    beyond = products.diagonal_sigma**2 - 2.0 * squared
    return np.asarray(noise + beyond * np.diag(theta**2) + products.label_sigma**2 * np.eye(len(theta)))


def fit_sums(sums: NoisySums) -> PerturbedFit:
    """Least squares of the last of a row's numbers on all others, see the head of this file."""
    products = NoisyProducts.of_sums(sums)
    values, vectors = np.linalg.eigh(products.crossed)
    return _finish(products, np.maximum(values, 0.0) + sums.sigma * math.sqrt(len(values)), vectors)


def fit_statistics(found: NoisyStatistics, delta: float, ridge_sigma: float | None = None) -> PerturbedFit:
    """AdaSSP's least squares, see the head of this file.

    Args:
        found: What was released.
        delta: Of the whole promise: the eigenvalue's bound fails with probability delta / 6 at most.
        ridge_sigma: The standard deviation that the ridge is made for; that of an entry of X'X by default.
    """
    smallest, tau, label = found.sigmas
    products = NoisyProducts(found.crossed, found.labelled, tau, tau, label)
    values, vectors = np.linalg.eigh(products.crossed)
    least = max(found.smallest - math.sqrt(math.log(6.0 / delta)) * smallest, 0.0)
    p = len(values)
    edge = math.sqrt(p * math.log(2.0 * p**2 / FAILURE)) * (tau if ridge_sigma is None else ridge_sigma)
    ridge = max(0.0, edge - least)
    # The ridge leaves an eigenvalue below 0 with probability FAILURE; tau keeps the inverse finite.
    return _finish(products, np.maximum(values + ridge, tau), vectors)


def _finish(products: NoisyProducts, steady: Floats, vectors: Floats) -> PerturbedFit:
    """Coefficients with X'X of given eigenvalues instead of its own, and intervals by one unbiased step."""
    crossed, labelled = products.crossed, products.labelled
    theta = (vectors / steady) @ vectors.T @ labelled
    values = np.einsum("ik,ij,jk->k", vectors, crossed, vectors)
    along = 2.0 * products.sigma**2 * np.ones(len(values))
    along = np.sqrt(along + (products.diagonal_sigma**2 - along) * (vectors**4).sum(axis=0))
    strong = values > CLEAR * along
    step = (vectors[:, strong] / values[strong]) @ vectors[:, strong].T
    return PerturbedFit(
        estimates=theta,
        unbiased=theta + step @ (labelled - crossed @ theta),
        covariance=step @ residual_noise(products, theta) @ step,
        identified=np.asarray((vectors[:, ~strong] ** 2).sum(axis=1) <= LEAK),
        products=products,
    )
