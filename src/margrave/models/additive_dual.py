"""The dual of an additive model's fit: a smooth convex function of its potentials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled, summing

__all__ = ["Dual", "softmax"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

LOOKED, MOST_LINES = 1 << 13, 1024
"""Rows, at least, from which the Hessian is told, and lines of potentials up to which it is inverted."""


class Dual:
    """f(theta) = mean over rows of log sum_y exp(sum_i theta_i[x_i, y]) - <theta, T> + sum ridge theta^2 / 2
    + sum bonds step^2 / 2.

    T_i is a noisy pair with the target in proportions, or the target's own table, which is that of an
    attribute with one code; ridge grows with its noise. At the minimum ridge * theta is what the tables keep
    unexplained, so this is the dual of most entropy with slack. A step is the difference of two neighbouring
    lines less its mean over y: a number added to a whole line changes no conditional and costs nothing here.

    No conditional changes how often a code occurs in the rows, so lines of T have to sum to the rows' share
    of their code (`slack.summed`). That of a code that no row has is empty: only neighbours tell about it.

    Args:
        codes: Lines of the potentials that add up in each row, shape [rows, measured tables].
        shares: Part of the rows in which each line is among them, shape [lines].
        starts: First line of each attribute's table, the biases' last.
        table: T, shape [lines, target's codes].
        ridge: Shape of table, above 0.
        bonds: Shape [lines - 1, target's codes], at least 0.
    """

    def __init__(
        self, codes: Ints, shares: Floats, starts: Sequence[int], table: Floats, ridge: Floats, bonds: Floats
    ) -> None:
        self.codes, self.shares, self.starts = codes, shares, np.array(starts)
        self.table, self.ridge, self.bonds = table, ridge, bonds
        self.rows, self.width = len(codes), ridge.shape[1]
        self.means = np.zeros_like(table)
        self._inverse: Floats | None = None

    def __call__(self, at: Floats) -> tuple[float, Floats]:
        """The value and the gradient."""
        theta = at.reshape(len(self.ridge), -1)
        pull = self.ridge * theta
        steps = _even(np.diff(theta, axis=0))
        held = _even(self.bonds * steps)
        pull[1:] += held
        pull[:-1] -= held
        self.means[:] = 0.0
        if self.width == 2:
            logs = _binary(self.codes, np.ascontiguousarray(theta[:, 1] - theta[:, 0]), self.means)
            self.means[:, 1] /= self.rows
            self.means[:, 0] = self.shares - self.means[:, 1]
            value = logs / self.rows + float(self.shares @ theta[:, 0])
        else:
            value = _general(self.codes, theta, self.means) / self.rows
            self.means /= self.rows
        value += 0.5 * float((theta * pull).sum()) - float((theta * self.table).sum())
        return value, (self.means - self.table + pull).ravel()

    def bend(self, at: Floats) -> None:
        """Look at the Hessian at a point, for `solved`: with two codes over some of the rows, else not.

        With two codes the rows' part and the bonds' bend with the difference of a line's potentials alone:
        A = mean p (1 - p) x x' and a chain. So the Hessian is V A V' + R, V' taking differences and R the
        ridge, and its inverse times g is R^-1 (g - V D^-1 (c - d)) with c = V' R^-1 g, D = V' R^-1 V and
        (A + D^-1) d = D^-1 c.
        """
        if self.width != 2 or len(self.ridge) > MOST_LINES:
            return
        theta = at.reshape(self.ridge.shape)
        some = self.codes[:: max(1, self.rows // LOOKED)]
        bent = np.zeros((len(theta), len(theta)))
        _crossed(some, np.ascontiguousarray(theta[:, 1] - theta[:, 0]), bent)
        bent = (bent + np.tril(bent, -1).T + np.triu(bent, 1).T) / len(some)
        held = 0.25 * self.bonds.sum(axis=1)
        place = np.arange(len(held))
        bent[place, place] += held
        bent[place + 1, place + 1] += held
        bent[place, place + 1] -= held
        bent[place + 1, place] -= held
        self._inverse = np.linalg.inv(bent + np.diag(1.0 / (1.0 / self.ridge).sum(axis=1)))

    def solved(self, vector: Floats) -> Floats:
        """About the inverse of the Hessian times a vector.

        Where there is no look at it, as if all rows that share a code had one conditional.
        """
        if self._inverse is not None:
            g = vector.reshape(self.ridge.shape)
            loose = 1.0 / self.ridge
            wanted = (g[:, 1] * loose[:, 1] - g[:, 0] * loose[:, 0]) / loose.sum(axis=1)
            pulled = wanted - (self._inverse @ wanted) / loose.sum(axis=1)
            return np.asarray((loose * (g + np.stack([pulled, -pulled], axis=1))).ravel())
        shares = np.maximum(self.shares, 1e-300)[:, None]
        diagonal: Floats = self.means * (1.0 - self.means / shares) + self.ridge
        held = (1.0 - 1.0 / self.width) * self.bonds
        diagonal[1:] += held
        diagonal[:-1] += held
        return np.asarray(vector / diagonal.ravel())

    def gap(self, gradient: Floats) -> float:
        """The largest L1 norm of the gradient over one table."""
        return float(np.add.reduceat(np.abs(gradient), self.starts * self.width).max())


def _even(lines: Floats) -> Floats:
    """Each line less its mean."""
    return np.asarray(lines - lines.mean(axis=1, keepdims=True))


@compiled
def _binary(codes: Ints, lift: Floats, means: Floats) -> float:
    """Sum over rows of log(1 + exp(z)), z the sum of lift; adds p = 1 / (1 + exp(-z)) to means[:, 1]."""
    rows, tables = codes.shape
    total, product = 0.0, 1.0
    for row in range(rows):
        z = 0.0
        for j in range(tables):
            z += lift[codes[row, j]]
        small = math.exp(-abs(z))
        share = (1.0 if z > 0.0 else small) / (1.0 + small)
        total += max(z, 0.0)
        # One logarithm for many rows: each factor is between 1 and 2.
        product *= 1.0 + small
        if product > 1e200:
            total += math.log(product)
            product = 1.0
        for j in range(tables):
            means[codes[row, j], 1] += share
    return total + math.log(product)


@summing
def _general(codes: Ints, theta: Floats, means: Floats) -> float:
    """Sum over rows of the logarithm of the softmax's denominator; adds the softmax to means."""
    rows, tables = codes.shape
    width = theta.shape[1]
    shares = np.empty(width)
    total = 0.0
    for row in range(rows):
        total += _soften(codes[row], theta, shares)
        for j in range(tables):
            line = means[codes[row, j]]
            for y in range(width):
                line[y] += shares[y]
    return total


@compiled
def _crossed(codes: Ints, lift: Floats, bent: Floats) -> None:
    """Add p (1 - p) of each row to the cells of its pairs of lines, each pair one way round."""
    rows, tables = codes.shape
    for row in range(rows):
        z = 0.0
        for j in range(tables):
            z += lift[codes[row, j]]
        small = math.exp(-abs(z))
        bend = small / (1.0 + small) ** 2
        for j in range(tables):
            for i in range(j + 1):
                bent[codes[row, j], codes[row, i]] += bend


@compiled
def softmax(codes: Ints, theta: Floats, shares: Floats) -> None:
    """Fill shares, shape [rows, target's codes], with each row's softmax."""
    for row in range(len(codes)):
        _soften(codes[row], theta, shares[row])


@summing
def _soften(lines: Ints, theta: Floats, shares: Floats) -> float:
    """Fill shares with the softmax of the sum of some lines; return the denominator's logarithm."""
    shares[:] = 0.0
    for line in lines:
        for y in range(len(shares)):
            shares[y] += theta[line, y]
    top, total = shares[0], 0.0
    for y in range(len(shares)):
        top = max(top, shares[y])
    for y in range(len(shares)):
        shares[y] = math.exp(shares[y] - top)
        total += shares[y]
    for y in range(len(shares)):
        shares[y] /= total
    return float(top + math.log(total))
