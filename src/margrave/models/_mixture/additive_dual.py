"""The dual of an additive model's fit: a smooth convex function of its potentials.

`lowest` minimises it by L-BFGS with a scaled start and backtracking.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel, compile_summing

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

LOOKED, MOST_BENT = 1 << 13, 1536
"""Rows, at least, from which the Hessian is told, and its size up to which it is inverted."""
AT_ONCE = 64
"""Rows whose potentials are summed at once."""


class Dual:
    """f(theta) = mean over rows of log sum_y exp(sum_i theta_i[x_i, y]) - <theta, T> + sum ridge theta^2 / 2
    + sum bonds step^2 / 2.

    T_i is a noisy pair with the target in proportions, or the target's own table, which is that of an
    attribute with one code; ridge grows with its noise. At the minimum ridge * theta is what the tables keep
    unexplained, so this is the dual of most entropy with slack. A step is the difference of two neighbouring
    lines less its mean over y: a number added to a whole line changes no conditional and costs nothing here.

    No conditional changes how often a code occurs in the rows, so lines of T have to sum to the rows' share
    of their code (`additive.sum_to_shares`). That of a code that no row has is empty: only neighbours tell
    about it.

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
        self._diagonal = ridge
        self._tight: Floats = np.empty((0, 0, 0))

    def __call__(self, at: Floats) -> tuple[float, Floats]:
        """The value and the gradient."""
        theta = at.reshape(len(self.ridge), -1)
        pull = self.ridge * theta
        # The gradient of the bonds' squares: each difference acts on its two lines with opposite signs.
        steps = _even(np.diff(theta, axis=0))
        held = _even(self.bonds * steps)
        pull[1:] += held
        pull[:-1] -= held
        self.means[:] = 0.0
        # Two labels need one logistic function a row in place of a softmax, which is several times as fast.
        if self.width == 2:
            logs = _binary(self.codes, np.ascontiguousarray(theta[:, 1] - theta[:, 0]), self.means)
            self.means[:, 1] /= self.rows
            # Both labels' shares of a line sum to how often the line occurs.
            self.means[:, 0] = self.shares - self.means[:, 1]
            # log(e^u + e^v) = u + log(1 + e^(v - u)), and the rows' mean of the sum of u is linear in the
            # shares.
            value = logs / self.rows + float(self.shares @ theta[:, 0])
        else:
            value = _general(self.codes, theta, self.means) / self.rows
            self.means /= self.rows
        # Both penalties are quadratic, so that theta times their gradient is twice their value.
        value += 0.5 * float((theta * pull).sum()) - float((theta * self.table).sum())
        return value, (self.means - self.table + pull).ravel()

    def bend(self, at: Floats) -> None:
        """Look at the Hessian at a point, over some of the rows, for `solved`; its diagonal if it is large.

        The rows' part and the bonds' bend with the differences of a line's potentials from its first alone:
        by A, the mean over rows of x x' times diag(p) - p p' plus a chain of K. So the Hessian is
        V A V' + R, V' taking differences and R the ridge, and its inverse times g is
        R^-1 (g - V D^-1 (c - d)) with c = V' R^-1 g, D = V' R^-1 V and (A + D^-1) d = D^-1 c.
        """
        lines, free = len(self.ridge), self.width - 1
        if not 0 < lines * free <= MOST_BENT:
            self._bend_diagonal(at.reshape(self.ridge.shape))
            return
        some = np.ascontiguousarray(self.codes[:: max(1, self.rows // LOOKED)])  # one compiled signature
        bent = np.zeros((lines, lines, free, free))
        _add_crossed(some, at.reshape(self.ridge.shape), bent)
        bent = (bent + bent.swapaxes(0, 1)) / len(some)
        # Potentials have one direction that changes nothing, the same amount for every label; the first
        # label is taken out.
        kept = np.eye(self.width)[:, 1:] - 1.0 / self.width
        chain = np.einsum("ya,ly,yb->lab", kept, self.bonds, kept)
        place = np.arange(lines - 1)
        bent[place, place] += chain
        bent[place + 1, place + 1] += chain
        bent[place, place + 1] -= chain
        bent[place + 1, place] -= chain
        # With ridges as precisions of independent potentials these are the covariances of the differences
        # to the first label; the ridge on the differences is the inverse.
        loose = 1.0 / self.ridge
        covariances = loose[:, 1:, None] * np.eye(free) + loose[:, :1, None]
        self._tight = np.asarray(np.linalg.inv(covariances))
        bent[np.arange(lines), np.arange(lines)] += self._tight
        size = lines * free
        self._inverse = np.linalg.inv(bent.transpose(0, 2, 1, 3).reshape(size, size))

    def _bend_diagonal(self, theta: Floats) -> None:
        """The Hessian's diagonal, over all rows.

        Rows that share a code may have very different conditionals: where another column determines the
        target, all of them are nearly 0 or 1, and nothing bends.
        """
        bent = np.zeros_like(theta)
        _add_bent(self.codes, theta, bent)
        # The diagonal of E B E, E taking a difference's mean over y away and B the bonds of a line.
        held = (1.0 - 2.0 / self.width) * self.bonds + self.bonds.sum(axis=1, keepdims=True) / self.width**2
        self._diagonal = bent / self.rows + self.ridge
        self._diagonal[1:] += held
        self._diagonal[:-1] += held

    def solved(self, vector: Floats) -> Floats:
        """About the inverse of the Hessian times a vector; `bend` has looked at it before."""
        if self._inverse is not None:
            pulled = vector.reshape(self.ridge.shape) / self.ridge
            wanted = self._invert_bend(pulled[:, 1:] - pulled[:, :1])
            moved = wanted - self._invert_bend((self._inverse @ wanted.ravel()).reshape(wanted.shape))
            back = np.concatenate([-moved.sum(axis=1, keepdims=True), moved], axis=1)
            return np.asarray((pulled - back / self.ridge).ravel())
        return np.asarray(vector / self._diagonal.ravel())

    def _invert_bend(self, differences: Floats) -> Floats:
        """D^-1 of `bend` times differences, shape [lines, codes - 1]."""
        return np.asarray(np.einsum("lab,lb->la", self._tight, differences))

    def gap(self, gradient: Floats) -> float:
        """The largest L1 norm of the gradient over one table."""
        # Each table's lines lie together, so that sums between the tables' starts are one norm a table.
        return float(np.add.reduceat(np.abs(gradient), self.starts * self.width).max())


def _even(lines: Floats) -> Floats:
    """Each line less its mean."""
    return np.asarray(lines - lines.mean(axis=1, keepdims=True))


@compile_kernel
def _binary(codes: Ints, lift: Floats, means: Floats) -> float:
    """Sum over rows of log(1 + exp(z)), z the sum of lift; adds p = 1 / (1 + exp(-z)) to means[:, 1]."""
    rows, tables = codes.shape
    total, product = 0.0, 1.0
    # z is the log-odds of the second label, a sum of one lift for each table.
    for row in range(rows):
        z = 0.0
        for j in range(tables):
            z += lift[codes[row, j]]
        # exp(-|z|) is at most 1, so that neither the share nor the logarithm can overflow.
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


@compile_summing
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


@compile_summing
def _add_bent(codes: Ints, theta: Floats, bent: Floats) -> None:
    """Add p (1 - p) of each row to its lines."""
    rows, tables = codes.shape
    width = theta.shape[1]
    shares = np.empty(width)
    for row in range(rows):
        _soften(codes[row], theta, shares)
        for y in range(width):
            shares[y] *= 1.0 - shares[y]
        for j in range(tables):
            line = bent[codes[row, j]]
            for y in range(width):
                line[y] += shares[y]


@compile_kernel
def _add_crossed(codes: Ints, theta: Floats, bent: Floats) -> None:
    """Add diag(p) - p p' of each row, less the first code, to its pairs of lines; half on the diagonal."""
    rows, tables = codes.shape
    free = theta.shape[1] - 1
    if free == 1:
        _add_crossed_binary(codes, theta, bent.reshape((len(bent), len(bent))))
        return
    shares, own = np.empty(free + 1), np.empty((free, free))
    for row in range(rows):
        _soften(codes[row], theta, shares)
        for y in range(free):
            for z in range(free):
                own[y, z] = (shares[y + 1] if y == z else 0.0) - shares[y + 1] * shares[z + 1]
        # Only pairs of lines below the diagonal; the caller adds the transpose, and the half makes the
        # diagonal whole.
        for j in range(tables):
            for i in range(j + 1):
                part = 0.5 if i == j else 1.0
                for y in range(free):
                    for z in range(free):
                        bent[codes[row, j], codes[row, i], y, z] += part * own[y, z]


@compile_kernel
def _add_crossed_binary(codes: Ints, theta: Floats, bent: Floats) -> None:
    """As `_add_crossed` for two codes, where p (1 - p) is all there is to add."""
    rows, tables = codes.shape
    shares = np.empty(2)
    for row in range(rows):
        _soften(codes[row], theta, shares)
        own = shares[1] - shares[1] * shares[1]
        for j in range(tables):
            for i in range(j):
                bent[codes[row, j], codes[row, i]] += own
            bent[codes[row, j], codes[row, j]] += 0.5 * own


@compile_kernel
def softmax(codes: Ints, theta: Floats, shares: Floats) -> None:
    """Fill shares, shape [rows, target's codes], with each row's softmax."""
    rows, tables = codes.shape
    if theta.shape[1] != 2:
        for row in range(rows):
            _soften(codes[row], theta, shares[row])
        return
    # Of two codes one has exp(0). Sums of some rows grow side by side, as each waits for its last addition.
    first, second = np.empty(AT_ONCE), np.empty(AT_ONCE)
    for start in range(0, rows, AT_ONCE):
        count = min(AT_ONCE, rows - start)
        first[:] = 0.0
        second[:] = 0.0
        for j in range(tables):
            for i in range(count):
                line = codes[start + i, j]
                first[i] += theta[line, 0]
                second[i] += theta[line, 1]
        for i in range(count):
            small = math.exp(-abs(first[i] - second[i]))
            high, low = 1.0 / (1.0 + small), small / (1.0 + small)
            ahead = first[i] >= second[i]
            shares[start + i, 0] = high if ahead else low
            shares[start + i, 1] = low if ahead else high


@compile_kernel
def mean_tilted(shares: Floats, factors: Floats) -> Floats:
    """Mean over rows of shares times factors, each row then divided by its sum, shape [target's codes].

    shares: shape [rows, target's codes], with one row at least. factors: shape [target's codes].
    """
    rows, width = shares.shape
    mean, tilted = np.zeros(width), np.empty(width)
    for row in range(rows):
        total = 0.0
        for y in range(width):
            tilted[y] = shares[row, y] * factors[y]
            total += tilted[y]
        for y in range(width):
            mean[y] += tilted[y] / total
    for y in range(width):
        mean[y] /= rows
    return mean


@compile_summing
def _soften(lines: Ints, theta: Floats, shares: Floats) -> float:
    """Fill shares with the softmax of the sum of some lines; return the denominator's logarithm."""
    shares[:] = 0.0
    for line in lines:
        for y in range(len(shares)):
            shares[y] += theta[line, y]
    # The largest sum is taken out before exp, so that the denominator is at least 1.
    top, total = shares[0], 0.0
    for y in range(len(shares)):
        top = max(top, shares[y])
    for y in range(len(shares)):
        shares[y] = math.exp(shares[y] - top)
        total += shares[y]
    for y in range(len(shares)):
        shares[y] /= total
    return float(top + math.log(total))


MEMORY = 12
"""Steps and changes of the gradient that are remembered."""
LOOKS = (0, 5, 25)
"""Steps before which the function may look at its Hessian."""


def lowest(function: Dual, at: Floats, tolerance: float, most: int) -> tuple[Floats, float, int]:
    """Minimise by L-BFGS (Nocedal and Wright 2006, algorithm 7.4), around the function's own Hessian.

    Convexity makes every step usable for the next ones, so lengths need only descend enough.

    Args:
        function: Smooth and strictly convex.
        at: Where to start, shape [parameters].
        tolerance: The gap at which to stop.
        most: Steps after which to stop.

    Returns:
        Where it stopped, the gap there, and the number of steps.
    """
    value, gradient = function(at)
    steps: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    taken = 0
    while function.gap(gradient) > tolerance and taken < most:
        # The Hessian at a point is dear, and after some steps the remembered gradients know better what has
        # changed since.
        if taken in LOOKS:
            function.bend(at)
        step = _direction(gradient, steps, function)
        found = _search(function, at, value, gradient, step)
        # No step down along the gradient itself: this is as low as floating point can tell.
        if found is None and not steps:
            break
        if found is None:
            steps.clear()
            continue
        length, value, fresh = found
        moved, changed = length * step, fresh - gradient
        bent = float(moved @ changed)
        # A pair that shows no curvature would make the next direction meaningless.
        if bent > 1e-14 * float(np.linalg.norm(moved) * np.linalg.norm(changed)):
            steps.append((moved, changed, bent))
        at, gradient, taken = at + moved, fresh, taken + 1
    return at, function.gap(gradient), taken


def _direction(gradient: Floats, steps: deque[tuple[Floats, Floats, float]], function: Dual) -> Floats:
    """Minus the approximate inverse Hessian times the gradient, by the two loops."""
    # The two loops of algorithm 7.4: back from the newest pair, then forth from the oldest.
    q = -gradient
    weights = []
    for moved, changed, bent in reversed(steps):
        weights.append(float(moved @ q) / bent)
        q -= weights[-1] * changed
    # The middle factor is the function's own inverse Hessian, scaled to the curvature of the last pair.
    scale = 1.0
    if steps:
        _, changed, bent = steps[-1]
        scale = bent / float(changed @ function.solved(changed))
    q = scale * function.solved(q)
    for (moved, changed, bent), weight in zip(steps, reversed(weights), strict=True):
        q += (weight - float(changed @ q) / bent) * moved
    return q


def _search(
    function: Dual, at: Floats, value: float, gradient: Floats, step: Floats
) -> tuple[float, float, Floats] | None:
    """A length that lowers the value enough (Armijo), with the value and the gradient there, if any does.

    Where rounding hides by how much the value falls, a slope that has become flatter will do.
    """
    slope = float(step @ gradient)
    if slope >= 0.0:
        return None
    length, slack = 1.0, 1e-12 * abs(value)
    for _ in range(30):
        trial, fresh = function(at + length * step)
        end = float(fresh @ step)
        if trial <= value + 1e-4 * length * slope or (trial <= value + slack and abs(end) <= -0.9 * slope):
            return length, trial, fresh
        # Where the line between the slopes at both ends is zero.
        share = slope / (slope - end) if np.isfinite(end) and end > slope else 0.1
        length *= min(max(share, 0.1), 0.7)
    return None
