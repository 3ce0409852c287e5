"""Least squares from Z'Z with symmetric noise: sufficient statistics perturbation with a spectral ridge.

With Z = (1, X, y) and G + W the released Z'Z, where W is symmetric Gaussian noise of standard deviation tau
off the diagonal, `fit_sums` estimates theta in five steps. Nothing but what was released goes into them.

1. Products that no row has, of two levels of one column, are 0 and not noise.
2. Z'Z has no negative eigenvalues, so those of G + W are raised to 0.
3. Features are centred at their means, so that the intercept is free, where there is one.
4. b = X'y has noise, and X'X theta as well: b - (X'X + W) theta is noise of variance tau^2 (1 + |theta|^2) in
   each number. With theta normal a priori, of variance |theta|^2 / p in each, the posterior is largest at
   V diag(1 / (l + k / l)) V'b, for eigenvalues l, vectors V and k = a p tau^2 with a = 1 + 1 / |theta|^2. The
   eigenvalues have noise too, the more of theirs the smaller they are, so in place of l + k / l stands
   (l + sqrt(l^2 + 4 k)) / 2, which is nearly the same for large l and sqrt(k) at 0. sqrt(p) tau is half of
   the edge of the noise's spectrum (Wigner). a is found by turns with theta.
5. How much larger or smaller a should be is told by split noise: with independent noise V of W's law,
   G + W + sqrt(f / (1 - f)) V and G + W - sqrt((1 - f) / f) V have independent noise, so that an estimate
   made of the first has theta'X'X theta - 2 theta'X'y of the second as an unbiased estimate of its squared
   error, up to a constant. Estimates at several multiples of a are averaged, with weights that fall by e for
   each standard deviation of theta'r, r the noise of step 4, that the error is above the least.

AdaSSP (Wang 2018; Ferrando and Sheldon 2025, Algorithm 5) has the ridge max(0, sqrt(p ln(2 p^2 / 0.05)) tau -
lambda) instead, with lambda = max(0, the noisy smallest eigenvalue of X'X less sqrt(ln(6 / delta)) standard
deviations of its noise): X'X, X'y and the eigenvalue are released apart.

Intervals are for the coefficients of the private table and hold the privacy noise alone. At these r = b - G
gamma is noise whose covariance follows from the variances V_ij of W's entries: Cov(r_i, r_k) = V_ik gamma_i
gamma_k, and on the diagonal the sum over j of V_ij gamma_j^2, and the variance of X'y's own noise. One
step along r is unbiased to first order, as in `margrave.regression.inference`, and coefficients that lean
on directions within CLEAR standard deviations of noise are said not to be identified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

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
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the penalty a among which split noise weighs, see the head of this file."""
SPLITS, KEPT = 6, 0.7
"""How often noise is split, and 1 - f. 12 and 24 splits, and a half for f, have the same errors within 1 %
on tables of the choosing half (bench/LOG.md, 2026-11-30, late)."""
MAX_SPLIT = 512
"""Numbers up to which noise is split: each split takes two decompositions."""
LARGEST_PENALTY, LEAST_NORM = 16.0, 0.05
"""Of a, and of |theta|^2 when it is found. Not varied."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyProducts:
    """X'X and X'y with noise of known size, in rows.

    Args:
        crossed: X'X plus symmetric noise, shape [p, p].
        labelled: X'y plus noise, shape [p].
        variances: Of the noise of the entries of X'X, shape [p, p].
        label_sigma: Standard deviation of that of an entry of X'y.
    """

    crossed: Floats
    labelled: Floats
    variances: Floats
    label_sigma: float

    @classmethod
    def of_sums(cls, sums: NoisySums) -> NoisyProducts:
        """The parts of one release of Z'Z, y being the last of a row's numbers."""
        values, variances = clear_zeros(sums)
        return cls(values[:-1, :-1], values[:-1, -1], variances[:-1, :-1], sums.sigma)


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedFit:
    """Coefficients of the last of a row's numbers on the others.

    Args:
        estimates: Shape [p].
        middles: The middles of the intervals, shape [p]; NaN where there are none.
        covariance: Of `middles`, [p, p]; privacy noise alone. NaN where there are no intervals.
        identified: Whether the release identifies each, shape [p].
        products: What they were computed from, where that is X'X and X'y.
    """

    estimates: Floats
    middles: Floats
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
    variances = products.variances
    between = variances * np.outer(theta, theta)
    own = variances @ theta**2 + products.label_sigma**2
    return np.asarray(between + np.diag(own - np.diag(between)))


def clear_zeros(sums: NoisySums) -> tuple[Floats, Floats]:
    """Z'Z without the noise of products that are 0 in every row, and the variances of its entries: [p, p].

    A row has one code of a column, so numbers of one column no code of which has both never meet. That is
    public: it follows from the numbers of the codes.
    """
    size, start = sums.numbers.size, int(sums.numbers.constant)
    met = np.ones((size, size), dtype=bool)
    for matrix in sums.numbers.numbers:
        place = slice(start, start + len(matrix))
        marks = (matrix != 0.0).astype(np.float64)
        met[place, place] = marks @ marks.T > 0.0
        start = place.stop
    variances = np.full((size, size), sums.sigma**2)
    np.fill_diagonal(variances, sums.diagonal_sigma**2)
    return np.where(met, sums.values, 0.0), np.where(met, variances, 0.0)


class _Spectrum(NamedTuple):
    """X'X and X'y in the directions of X'X, centred where there is an intercept.

    Args:
        values: Eigenvalues of X'X, none below 0: shape [q].
        vectors: Its eigenvectors, [q, q].
        labelled: X'y along them, [q].
        edge: p tau^2.
        means: Of all numbers but the constant, the target's last; None without an intercept.
    """

    values: Floats
    vectors: Floats
    labelled: Floats
    edge: float
    means: Floats | None

    @classmethod
    def of(cls, values: Floats, sums: NoisySums, scale: float) -> _Spectrum:
        """The first three steps of the head of this file.

        Args:
            values: Z'Z without noise where no row has a product.
            sums: What was released.
            scale: Standard deviation of the noise of `values` over that of the release.
        """
        roots, vectors = np.linalg.eigh(values)
        raised = (vectors * np.maximum(roots, 0.0)) @ vectors.T
        means = None
        if sums.numbers.constant:
            # Noise may leave hardly any rows, or less.
            rows = float(_soften(raised[:1, 0], 2.0 * (scale * sums.diagonal_sigma) ** 2)[0])
            means = raised[0, 1:] / rows
            raised = raised[1:, 1:] - rows * np.outer(means, means)
        roots, vectors = np.linalg.eigh(raised[:-1, :-1])
        edge = len(raised) * (scale * sums.sigma) ** 2
        return cls(roots, vectors, vectors.T @ raised[:-1, -1], edge, means)

    def solve(self, penalty: float) -> Floats:
        """Coefficients of all numbers but the target, for a penalty a: shape [p]."""
        steady = _soften(self.values, penalty * self.edge)
        slopes = self.vectors @ (self.labelled / steady)
        if self.means is None:
            return np.asarray(slopes)
        return np.append(self.means[-1] - self.means[:-1] @ slopes, slopes)

    def find_penalty(self) -> float:
        """a = 1 + 1 / |theta|^2, for theta that it makes."""
        penalty = 2.0
        for _ in range(4):
            along = self.labelled / _soften(self.values, penalty * self.edge)
            penalty = min(1.0 + 1.0 / max(float(along @ along), LEAST_NORM), LARGEST_PENALTY)
        return penalty


def _soften(values: Floats, square: float) -> Floats:
    """Eigenvalues l as (l + sqrt(l^2 + 4 square)) / 2: never 0, and hardly moved where they are large."""
    return np.asarray((values + np.sqrt(values**2 + 4.0 * square)) / 2.0)


def _estimate(sums: NoisySums, values: Floats, variances: Floats) -> Floats:
    """Coefficients of Z'Z by the five steps of the head of this file, shape [p].

    Args:
        sums: What was released.
        values, variances: Of `clear_zeros`.
    """
    spectrum = _Spectrum.of(values, sums, 1.0)
    penalty = spectrum.find_penalty()
    if len(values) > MAX_SPLIT:
        return spectrum.solve(penalty)
    found = np.array([spectrum.solve(penalty * multiple) for multiple in MULTIPLES])
    rng = np.random.default_rng(0)  # of no secret: what is split was released
    spread, errors = np.sqrt(variances), np.zeros(len(MULTIPLES))
    for _ in range(SPLITS):
        noise = np.triu(spread * rng.standard_normal(values.shape))
        noise += np.triu(noise, 1).T
        first = values + math.sqrt((1.0 - KEPT) / KEPT) * noise
        other = values - math.sqrt(KEPT / (1.0 - KEPT)) * noise
        part = _Spectrum.of(first, sums, KEPT**-0.5)
        tried = np.array([part.solve(penalty * multiple) for multiple in MULTIPLES])
        errors += np.einsum("ki,ij,kj->k", tried, other[:-1, :-1], tried) - 2.0 * tried @ other[:-1, -1]
    errors = (errors - errors.min()) / SPLITS
    best = found[errors.argmin()]
    apart = float(np.linalg.norm(found - best, axis=1).mean())
    deviation = sums.sigma * math.sqrt(1.0 + float(best @ best)) * apart
    weights = np.exp(-errors / max(deviation, np.finfo(float).tiny))
    return np.asarray(weights @ found / weights.sum())


def fit_sums(sums: NoisySums) -> PerturbedFit:
    """Least squares of the last of a row's numbers on all others, see the head of this file."""
    products = NoisyProducts.of_sums(sums)
    theta = _estimate(sums, *clear_zeros(sums))
    return _finish(products, theta, np.linalg.eigh(products.crossed)[1])


def fit_statistics(found: NoisyStatistics, delta: float, ridge_sigma: float | None = None) -> PerturbedFit:
    """AdaSSP's least squares, see the head of this file.

    Args:
        found: What was released.
        delta: Of the whole promise: the eigenvalue's bound fails with probability delta / 6 at most.
        ridge_sigma: The standard deviation that the ridge is made for; that of an entry of X'X by default.
    """
    smallest, tau, label = found.sigmas
    products = NoisyProducts(found.crossed, found.labelled, np.full(found.crossed.shape, tau**2), label)
    values, vectors = np.linalg.eigh(products.crossed)
    least = max(found.smallest - math.sqrt(math.log(6.0 / delta)) * smallest, 0.0)
    p = len(values)
    edge = math.sqrt(p * math.log(2.0 * p**2 / FAILURE)) * (tau if ridge_sigma is None else ridge_sigma)
    ridge = max(0.0, edge - least)
    # The ridge leaves an eigenvalue below 0 with probability FAILURE; tau keeps the inverse finite.
    steady = np.maximum(values + ridge, tau)
    return _finish(products, (vectors / steady) @ vectors.T @ found.labelled, vectors)


def _finish(products: NoisyProducts, theta: Floats, vectors: Floats) -> PerturbedFit:
    """Coefficients, and intervals by one unbiased step from them along the eigenvectors of X'X."""
    crossed, labelled = products.crossed, products.labelled
    values = np.einsum("ik,ij,jk->k", vectors, crossed, vectors)
    # An entry off the diagonal counts twice in v'Wv, once on each side.
    squares = vectors**2
    along = 2.0 * np.einsum("ik,ij,jk->k", squares, products.variances, squares)
    along = np.sqrt(along - np.diag(products.variances) @ squares**2)
    strong = values > CLEAR * along
    step = (vectors[:, strong] / values[strong]) @ vectors[:, strong].T
    return PerturbedFit(
        estimates=theta,
        middles=theta + step @ (labelled - crossed @ theta),
        covariance=step @ residual_noise(products, theta) @ step,
        identified=np.asarray((vectors[:, ~strong] ** 2).sum(axis=1) <= LEAK),
        products=products,
    )
